"""Closed by default, as far as the sources and the files show it."""

import ast
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sync.config.config import load, runtime_directory
from sync.errors import ConfigError, RingError
from sync.ring.block import Layout
from sync.ring.ring import SHM, RingReader, RingWriter

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("sync", "daq_service", "sim_service", "tandem", "verify")
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
CALLS = {"eval", "exec", "compile", "__import__"}
OWN = {
    "verify/multibody/formula_texts.py",  # runs the texts that it has just had written
    "verify/path/ring_check.py",  # runs functions of sync/ring/ring.py, and reads nobody's data
    # reads what it has written and sealed itself, by a list of classes, in the cache whose machine code is run as well
    "tandem/multibody/relative/build.py",
}
RUNS_TEXT = {"system", "popen", "getoutput", "getstatusoutput"}


def _found(tree: ast.AST) -> list[str]:
    """Whatever turns data into code."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{node.lineno}: import {name}" for name in names if name.split(".")[0] in MODULES]
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        owner = node.func.value.id if attribute and isinstance(node.func.value, ast.Name) else ""  # type: ignore[attr-defined]
        if name in CALLS or (owner == "os" and attribute in RUNS_TEXT):
            found.append(f"{node.lineno}: {name or attribute}()")
        for keyword in node.keywords:
            off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if (keyword.arg == "allow_pickle" or (keyword.arg == "shell" and owner == "subprocess")) and not off:
                found.append(f"{node.lineno}: {keyword.arg}")
    return found


@pytest.mark.parametrize(
    "text",
    ["import pickle", "from yaml import load", "eval('1')", "exec(x)", "np.load(f, allow_pickle=True)",
     "subprocess.run(x, shell=True)", "os.system(x)"],
)  # fmt: skip
def test_the_search_finds_what_it_is_for(text: str) -> None:
    assert len(_found(ast.parse(text))) == 1


@pytest.mark.slow
def test_no_data_is_turned_into_code() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > 200
    words = re.compile("|".join(MODULES | CALLS | RUNS_TEXT | {"allow_pickle", "shell"}).encode())
    texts = {str(file.relative_to(ROOT)): file.read_bytes() for file in files}
    # a text without any of the words has none of the calls: it need not be parsed
    found = {name: _found(ast.parse(text)) for name, text in texts.items() if words.search(text)}
    assert {file: lines for file, lines in found.items() if lines and file not in OWN} == {}


def test_shared_memory_is_the_user_s_own_whatever_it_was_before(ring_name: str, car: Layout) -> None:
    (SHM / ring_name).touch(0o666)
    (SHM / ring_name).chmod(0o666)
    ring = RingWriter(ring_name, car, 64)
    assert (SHM / ring_name).stat().st_mode & 0o777 == 0o600
    ring.close()


def _stranger_s(path: Path) -> None:
    path.write_bytes(bytes(8192))
    path.chmod(0o666)
    os.chown(path, 12345, -1)


@pytest.mark.parametrize(
    "make, said",
    [
        pytest.param(
            _stranger_s, "another user", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives away")
        ),
        (lambda path: os.mkfifo(path, 0o600), "no ordinary file"),
        (lambda path: path.symlink_to("/etc/hostname"), "cannot be"),
    ],
    ids=["another user's", "a pipe", "a link"],
)
def test_what_is_no_ring_of_ours_is_neither_read_nor_written(
    ring_name: str, car: Layout, make: Callable[[Path], None], said: str
) -> None:
    make(SHM / ring_name)
    try:
        with pytest.raises(RingError, match=said):
            RingReader(ring_name)
        with pytest.raises(RingError, match=said):
            RingWriter(ring_name, car, 64)
    finally:
        (SHM / ring_name).unlink()


def test_a_link_is_no_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir(mode=0o755)
    (tmp_path / "tandem").symlink_to(tmp_path / "mine")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match="is no directory"):
        runtime_directory()
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o755


def test_a_configuration_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_bytes(b"#" * (17 << 20))
    with pytest.raises(ConfigError, match="no configuration is that long"):
        load(tmp_path / "long.toml")
