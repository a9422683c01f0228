"""Rings as programs in other languages read them: docs/languages/, compiled and run beside a writer of ours."""

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sync.ring.block import PAYLOAD, Channel, Layout
from sync.ring.ring import RingWriter, push

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "docs" / "languages"
INCLUDE = ROOT / "sync" / "include"
KINDS = ("i2", "f8", "u2", "i4", "u8", "u4", "f4", "i8")
LAYOUT = Layout(tuple(Channel(f"{kind}_1", kind, 'm "s"', -k) for k, kind in enumerate(KINDS)))
STRICT = ("-O2", "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE))


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def built(*words: str | Path) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def ring() -> Iterator[RingWriter]:
    writer = RingWriter(f"tandem.test_languages_{os.getpid()}.daq.{os.getuid()}", LAYOUT, 64)
    yield writer
    writer.close()


def blocks(count: int) -> np.ndarray:
    words = np.random.default_rng(7).integers(-(2**63), 2**63, (count, LAYOUT.words), np.int64, endpoint=False)
    view = LAYOUT.view(words)
    for name in ("f8_1", "f4_1"):
        view[name] = np.random.default_rng(8).normal(size=count) * 10.0 ** np.arange(count)
    view["seq"], view["t_ns"] = np.arange(count), 2**60 + np.arange(count)
    return words


@pytest.fixture(scope="module")
def printer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("c") / "print_ring"
    built(tool("gcc"), "-std=gnu11", *STRICT, PROGRAMS / "print_ring.c", "-o", program)
    return program


def test_a_c_program_prints_every_block_exactly(ring: RingWriter, printer: Path) -> None:
    words = blocks(20)
    for block in words:
        push(ring.words, block)
    done = run(printer, ring.name, "20")
    assert done.returncode == 0 and "20 blocks read, 0 lost" in done.stderr
    head, *rows = csv.reader(done.stdout.splitlines())
    assert head == ["seq", "t_ns", *LAYOUT.names]
    view = LAYOUT.view(words)
    for k, name in enumerate(head):
        kind = view.dtype[name]
        theirs = np.array([float(row[k]) if kind.kind == "f" else int(row[k]) for row in rows], kind)
        assert theirs.tobytes() == view[name].tobytes(), name


def test_a_c_program_beside_a_fast_writer_gets_whole_blocks_and_counts_the_others(
    ring: RingWriter, printer: Path
) -> None:
    count = 20_000
    same = Layout(tuple(Channel(f"c{k}", "i8") for k in range(12)))
    writer = RingWriter(f"{ring.name}.fast", same, 16)
    try:
        reader = subprocess.Popen(
            [printer, writer.name, str(count)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        block = np.zeros(same.words, np.int64)
        for n in range(count):
            block[:] = n
            push(writer.words, block)
        printed, said = reader.communicate(timeout=600)
    finally:
        writer.close()
    rows = [line.split(",") for line in printed.splitlines()[1:]]
    read, lost = (int(number) for number in re.findall(r"\d+", said))
    assert read == len(rows) and read + lost == count
    assert all(len(set(row)) == 1 for row in rows), "a torn block"
    numbers = [int(row[0]) for row in rows]
    assert numbers == sorted(set(numbers))


def test_the_header_is_c_plus_plus_too_and_what_the_page_shows_compiles(ring: RingWriter, tmp_path: Path) -> None:
    (shown,) = re.findall(r"```c\n#include[^\n]*\n(.*?)```", (ROOT / "docs" / "other_languages.md").read_text(), re.S)
    assert '"tandem.drive.sim.1000"' in shown
    source = shown.replace("tandem.drive.sim.1000", ring.name)
    (tmp_path / "page.cpp").write_text(f'#include "tandem_ring.h"\nint main() {{\n{source}}}\n')
    built(tool("g++"), "-std=c++17", *STRICT, tmp_path / "page.cpp", "-o", tmp_path / "page")
    push(ring.words, blocks(3)[2])
    done = run(tmp_path / "page")
    value = LAYOUT.view(blocks(3))["i2_1"][2]
    assert done.stdout.splitlines()[0] == f'i2_1 = {value} m "s"' and len(done.stdout.splitlines()) == len(KINDS)


@pytest.mark.parametrize("damage", ["short", "magic", "capacity", "slots", "text"])
def test_what_is_no_ring_is_refused(ring: RingWriter, printer: Path, damage: str) -> None:
    words = np.fromfile(Path("/dev/shm") / ring.name, np.int64)
    name = f"{ring.name}.{damage}"
    word, value = {
        "short": (0, words[0]),
        "magic": (0, 1),
        "capacity": (3, 63),
        "slots": (3, 1 << 40),
        "text": (24, -1),
    }[damage]
    words[word] = value
    file = Path("/dev/shm") / name
    try:
        words[: 100 if damage == "short" else None].tofile(file)
        assert run(printer, name, "1").returncode == 1
    finally:
        file.unlink()


def _newest(*command: str | Path, ring: RingWriter) -> None:
    assert run(*command, ring.name).stdout.strip() == "empty"
    words = blocks(5)
    for block in words:
        push(ring.words, block)
    done = run(*command, ring.name)
    found = [int(word) for word in done.stdout.split()]
    assert found == words[-1].tolist() and len(found) > PAYLOAD, done.stderr


def test_rust_reads_the_newest_block(ring: RingWriter, tmp_path: Path) -> None:
    built(tool("rustc"), "-O", "-D", "warnings", PROGRAMS / "newest.rs", "-o", tmp_path / "newest")
    _newest(tmp_path / "newest", ring=ring)


def test_javascript_reads_the_newest_block_as_64_bit_integers(ring: RingWriter) -> None:
    _newest(tool("node"), PROGRAMS / "newest.js", ring=ring)
