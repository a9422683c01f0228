"""Compiled code is cached where none can go stale, and processes that start together do not get in each other's way."""

import ast
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from sync.compile import dependencies, jit, numba_shortcuts
from sync.compile.array_copy import copy
from tests.examples import thorough
from tests.sync.actors import PATIENCE_S, ROOT, environment

# imports all kernels of the ring; says where the cache is, what came from it and what had to be compiled
COMPILING_S = 900  # three processes compile, however busy the machine: only so that a test which hangs ends
PROGRAM = """
import json, os, sys
from sync.compile import jit
with jit.compiling("test"):
    from sync.ring import ring
import numpy as np
from sync.ring.block import Channel, Layout
layout = Layout((Channel("x", "i2"),))
made = ring.RingWriter(sys.argv[1], layout, 2)
ring.push(made.words, np.zeros(layout.words, np.int64))
made.close()
kernels = [ring.push, ring.newest, ring.since, ring.beat, ring.peek, ring.poke]
print(json.dumps({
    "cache": str(jit.CACHE), "head": made.head,
    "hits": [sum(k.stats.cache_hits.values()) for k in kernels],
    "misses": [sum(k.stats.cache_misses.values()) for k in kernels],
}))
"""

pytestmark = pytest.mark.slow


def start(root: Path, cache: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, name],
        env={**environment(TANDEM_CACHE=str(cache)), "PYTHONPATH": str(root)},
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, complaint = process.communicate(timeout=COMPILING_S)
    assert process.returncode == 0, complaint
    return json.loads(said)


@pytest.mark.drill
def test_processes_that_start_together_without_a_cache_all_succeed_and_an_edit_recompiles_what_depends_on_it(
    copied: Path, tmp_path: Path, ring_name: str
) -> None:
    together = [finish(each) for each in [start(copied, tmp_path, f"{ring_name}.{i}") for i in range(3)]]
    for each in together:
        assert each["head"] == 1
    # one at a time: the first compiled, the others found it done
    assert sorted(sum(each["misses"]) > 0 for each in together) == [False, False, True]
    leaf = copied / "sim_service" / "phase.py"  # nothing of the ring's
    leaf.write_text(leaf.read_text() + "\n# edited\n")
    after = finish(start(copied, tmp_path, ring_name))
    assert sum(after["misses"]) == 0
    assert all(hits > 0 for hits in after["hits"])
    assert after["cache"].startswith(str(tmp_path))
    atomics = copied / "sync" / "compile" / "atomics.py"
    text = atomics.read_text()
    atomics.write_text("# a comment\n" + text)
    assert sum(finish(start(copied, tmp_path, f"{ring_name}.3"))["misses"]) == 0
    atomics.write_text(text.replace('_loader("acquire")', '_loader("monotonic")'))
    assert sum(finish(start(copied, tmp_path, f"{ring_name}.4"))["misses"]) > 0
    atomics.write_text(text)  # going back recompiles nothing
    assert sum(finish(start(copied, tmp_path, f"{ring_name}.5"))["misses"]) == 0


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The packages as they are now: nobody edits these."""
    for package in ("sync", "daq_service", "sim_service", "tandem/multibody"):
        shutil.copytree(ROOT / package, tmp_path / "here" / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "here" / "tandem" / "__init__.py").touch()
    return tmp_path / "here"


def asked(root: Path, program: str, cache: str = "/somewhere", **more: str) -> Any:
    """What a program prints as JSON that imports the copied packages."""
    env = {**environment(TANDEM_CACHE=cache, **more), "PYTHONPATH": str(root)}
    if not cache:
        del env["TANDEM_CACHE"]
    command = [
        sys.executable,
        "-c",
        f"import json\nfrom sync.compile import dependencies\nprint(json.dumps({program}))",
    ]
    return json.loads(subprocess.run(command, check=True, env=env, cwd=root, capture_output=True, text=True).stdout)


STAMPS = "{dependencies.module_name(f): dependencies.stamp(f) for f in dependencies.all_sources()}"


def test_an_edit_changes_the_stamps_of_what_depends_on_it_and_of_nothing_else(copied: Path) -> None:
    before = asked(copied, STAMPS)

    def edited(file: str) -> set[str]:
        path = copied / file
        text = path.read_text()
        path.write_text(text + "\n# edited\n")
        after = asked(copied, STAMPS)
        path.write_text(text)
        return {name for name in before if before[name] != after[name]}

    assert "sim_service.loop" in edited("sim_service/loop.py")
    assert edited("sim_service/loop.py").isdisjoint({"sync.ring.ring", "sim_service.phase", "sim_service.step_kernel"})
    reached = edited("sync/ring/ring.py")
    assert {"sync.ring.ring", "sim_service.loop", "daq_service.acquire"} <= reached
    assert reached.isdisjoint({"sync.compile.atomics", "sync.ring.ledger", "tandem.multibody.natural.cholesky"})
    # what decorates kernels imports errors to raise them: no kernel is another one for that
    assert "sync.ring.ledger" not in edited("sync/errors.py")
    assert {"sync.ring.ledger", "tandem.multibody.natural.cholesky"} <= edited("sync/compile/jit.py")
    assert asked(copied, STAMPS) == before


def test_contents_count_neither_place_nor_date(copied: Path) -> None:
    before = asked(copied, STAMPS), asked(copied, "dependencies.fingerprint()")
    moved = copied.rename(copied.with_name("moved"))
    os.utime(moved / "sync" / "compile" / "atomics.py", (0, 0))
    assert (asked(moved, STAMPS), asked(moved, "dependencies.fingerprint()")) == before


def test_packages_of_others_that_are_installed_beside_ours_count_for_nothing(copied: Path) -> None:
    """Otherwise compiled code has other names in an install than where it was compiled, and is never found."""
    before = asked(copied, STAMPS)
    (copied / "numpy-2.0.dist-info").mkdir()
    for name, text in (
        ("numba", "import numpy\n"),
        ("numpy", ""),
        ("theirs", "import numba\nfrom theirs import part\n"),
        ("theirs/part", "from sync.ring import ring\n"),
    ):
        (copied / name).mkdir()
        (copied / name / "__init__.py").write_text(text)
    assert asked(copied, STAMPS) == before
    theirs = "dependencies.dependencies(dependencies.ROOT / 'theirs' / '__init__.py')"
    found = asked(copied, f"[dependencies.module_name(each) for each in {theirs}]")
    assert {"theirs", "theirs.part", "sync.ring.ring", "sync.compile.atomics"} <= set(found)
    assert {"numba", "numpy"}.isdisjoint(found)


def test_the_fingerprint_is_another_one_after_any_change_of_a_source(copied: Path) -> None:
    found = [asked(copied, "dependencies.fingerprint()")]
    atomics = copied / "sync" / "compile" / "atomics.py"
    atomics.write_text(atomics.read_text().replace('_loader("acquire")', '_loader("monotonic")'))
    found.append(asked(copied, "dependencies.fingerprint()"))
    (copied / "sim_service" / "inputs" / "new.py").write_text("")
    found.append(asked(copied, "dependencies.fingerprint()"))
    (copied / "sim_service" / "inputs" / "new.py").rename(copied / "daq_service" / "new.py")
    found.append(asked(copied, "dependencies.fingerprint()"))
    assert len(set(found)) == 4


def _imports_by_syntax(file: Path, package: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.drill
def test_the_imports_read_from_the_text_are_those_of_the_syntax() -> None:
    others = [file for folder in ("tandem", "tests") for file in (ROOT / folder).rglob("*.py")]
    for file in [*dependencies.all_sources(), *(others if thorough() else others[::10])]:
        name = dependencies.module_name(file)
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        missed = _imports_by_syntax(file, package) - dependencies.imported_names(file.read_text(), package)
        assert not missed, f"{file}: {missed}"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("from .. import b", "a.b"),
        ("from .c import d", "a.x.c.d"),
        ("    from a import (  # why (really)\n        b,\n        c as e,\n    )", "a.c"),
        ("import a.b as c, d", "d"),
        ("from a import b, \\\n    c", "a.c"),
    ],
)
def test_imports_are_found_however_they_are_written(line: str, named: str) -> None:
    assert named in dependencies.imported_names(f"x = 1\n{line}\n", "a.x")


def test_the_cache_is_where_the_environment_says(copied: Path) -> None:
    where, name = "str(dependencies.cache_directory())", dependencies.folder_name()
    assert asked(copied, where, "/somewhere") == f"/somewhere/{name}"
    assert asked(copied, where, "", XDG_CACHE_HOME="/elsewhere") == f"/elsewhere/tandem/{name}"
    assert asked(copied, where, "", XDG_CACHE_HOME="", HOME="/home/me") == f"/home/me/.cache/tandem/{name}"


def test_a_cache_that_cannot_be_written_is_refused_in_words(copied: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from sync.compile import jit; jit.kernel()"], check=False, cwd=copied,
        env=environment(TANDEM_CACHE="/proc/nowhere"), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "/proc/nowhere: compiled code cannot be kept there" in done.stderr and "TANDEM_CACHE" in done.stderr


def test_what_nobody_has_used_for_a_week_is_swept_away_and_nothing_else(tmp_path: Path) -> None:
    base = tmp_path / dependencies.folder_name()
    day = 24 * 3600
    for name, age in (("of_yesterday", day), ("of_last_week", 6 * day), ("of_last_month", 30 * day)):
        (base / name).mkdir(parents=True)
        (base / name / "kernel.nbc").touch()
        (base / f"{name}.cached").touch()
        used = time.time() - age  # noqa: TID251  (it is about files)
        os.utime(base / name, (used, used))
        os.utime(base / f"{name}.cached", (used, used))
    program = "from sync.compile import jit\nwith jit.compiling('test'): pass"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment(TANDEM_CACHE=str(tmp_path)))
    left = {path.name for path in base.iterdir() if path.name.startswith("of_")}
    assert left == {"of_yesterday", "of_last_week", "of_yesterday.cached", "of_last_week.cached"}


def test_what_is_compiled_does_not_wait_for_another_that_compiles(tmp_path: Path) -> None:
    program = "from sync.compile import jit\nwith jit.compiling('test'): pass"

    def code() -> int:
        command = [sys.executable, "-c", program]
        environment_ = environment(TANDEM_CACHE=str(tmp_path))
        return subprocess.run(command, check=False, env=environment_, timeout=PATIENCE_S).returncode

    assert code() == 0
    with open(tmp_path / dependencies.folder_name() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert code() == 0  # one that waited would hang


def test_what_would_allocate_is_refused_when_it_is_compiled_and_references_are_not_counted() -> None:
    def fresh(n):
        return np.zeros(n).sum()

    def assign(a, b):
        a[:] = b

    def both(a, b):
        part = a[1:]
        copy(part, b)
        return part[0]

    a, b = np.zeros(3), np.ones(2)
    with pytest.raises(numba.core.errors.TypingError):
        jit.kernel(cache=False)(fresh)(3)
    with pytest.raises(numba.core.errors.NumbaRuntimeError, match="NRT required"):
        jit.kernel(cache=False)(assign)(a, a)
    assert jit.kernel(cache=False, allocates=True)(fresh)(3) == 0.0
    counted, plain = jit.kernel(cache=False, allocates=True)(both), jit.kernel(cache=False)(both)
    assert counted(a, b) == plain(a, b) == 1.0 and a.tolist() == [0.0, 1.0, 1.0]
    assert "NRT_incref" not in plain.inspect_asm(plain.signatures[0])


def test_functions_that_a_function_makes_are_told_apart_by_what_they_were_made_of() -> None:
    def made(step: int) -> Any:
        @jit.kernel(cache=False)
        def count(x):
            return x + step

        return count

    def called(function: Any) -> str:
        assert function(1) > 1
        (overload,) = function.overloads.values()
        return str(overload.fndesc.qualname)

    one, same, other = called(made(1)), called(made(1)), called(made(2))
    assert one == same != other


@jit.inner
def _doubled(x: float) -> float:
    return 2.0 * x


@jit.kernel()
def _quadrupled(x: float) -> float:
    return _doubled(_doubled(x))


@pytest.mark.skipif(not numba_shortcuts.supported(), reason="not taken in this version of numba")
def test_an_inner_function_is_called_by_kernels_and_refused_to_python() -> None:
    for _ in range(2):  # compiled for nobody, and compiled for its caller
        with pytest.raises(TypeError, match=r"_doubled has no wrapper for Python: only kernels call it"):
            _doubled(1.0)
        assert _quadrupled(1.5) == 6.0


@jit.merged
def _added(x: float) -> float:
    return 2.0 + x


@pytest.mark.parametrize(("function", "always"), [(_doubled, False), (_added, True)])
def test_a_merged_function_becomes_part_of_its_callers_however_long_it_is(function: Any, always: bool) -> None:
    """Others are where the compiler finds them short enough."""

    @jit.kernel("float64(float64)", cache=False)
    def called(x: float) -> float:
        result: float = function(x)
        return result

    assert called(2.0) == 4.0
    compiled = list(function.overloads.values())[-1]
    assert ("alwaysinline" in compiled.library.get_llvm_str()) is always
