"""Everything is compiled ahead, on all cores, once; an edit compiles again what depends on it."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sync.compile import build, numba_shortcuts
from tests.sync.actors import ROOT, environment

KERNEL = """
from numba import int64
from sync.compile.jit import kernel
{imports}
@kernel(int64(int64))
def {name}(x):
    return x + {value}
"""
# imports all of them; prints which had to be compiled
IMPORT = """
import importlib, json
found = {}
for name in ("sync.one", "daq_service.two", "sim_service.three", "sim_service.four"):
    module = importlib.import_module(name)
    found[name] = sum(getattr(module, name.split(".")[1]).stats.cache_misses.values())
print(json.dumps(found))
"""

pytestmark = pytest.mark.slow


def _write(tree: Path, module: str, imports: str, value: str) -> None:
    file = tree / (module.replace(".", "/") + ".py")
    file.write_text(KERNEL.format(imports=imports, name=file.stem, value=value))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree of its own: two of its modules wait for the first, one for those."""
    tree = tmp_path / "tree"
    for package in ("sync", "sync/compile", "sync/files", "daq_service", "sim_service"):
        (tree / package).mkdir(parents=True)
        (tree / package / "__init__.py").touch()
    names = ("build", "dependencies", "jit", "numba_shortcuts", "processor", "shipped", "stamps")
    compiling = (f"compile/{name}.py" for name in names)
    for file in ("child_python.py", "errors.py", "files/private.py", *compiling):
        shutil.copy(ROOT / "sync" / file, tree / "sync" / file)
    _write(tree, "sync.one", "", "1")
    _write(tree, "daq_service.two", "from sync.one import one", "one(x)")
    _write(tree, "sim_service.three", "from sync.one import one", "one(x)")
    _write(tree, "sim_service.four", "from sim_service import three", "three.three(x)")
    return tree


def _run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = environment(TANDEM_CACHE=str(tree.parent / "cache")) | {"PYTHONPATH": str(tree)}
    return subprocess.run([sys.executable, *command], cwd=tree, env=env, capture_output=True, text=True, check=True)


def _built(tree: Path) -> list[str]:
    return _run(tree, "-m", "sync.compile.build").stderr.splitlines()


def _misses(tree: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads(_run(tree, "-c", IMPORT).stdout)
    return found


@pytest.mark.drill
def test_what_was_built_is_compiled_and_nothing_is_built_twice(tree: Path) -> None:
    said = _built(tree)
    assert said[0] == "compiling 0 of 4" and said[-1].startswith("compiling 4 of 4")
    assert set(_misses(tree).values()) == {0}
    assert _built(tree) == []


def test_an_edit_builds_what_depends_on_it(tree: Path) -> None:
    _built(tree)
    _write(tree, "sim_service.three", "from sync.one import one", "2 * one(x)")
    assert _built(tree)[0] == "compiling 0 of 2"  # itself, and what imports it
    assert set(_misses(tree).values()) == {0}
    # a constant that no kernel uses: both are imported again, and found compiled
    _write(tree, "sim_service.three", "from sync.one import one\nUNUSED = 1", "2 * one(x)")
    assert set(_misses(tree).values()) == {0}
    assert _built(tree)[0] == "compiling 0 of 2"


# in another version of numba nothing is compiled on a full disk
needs_shortcuts = pytest.mark.skipif(not numba_shortcuts.supported(), reason="not taken in this version of numba")


def _with_little_room(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """No file may become larger than one block: as on a disk that is full."""
    env = environment(TANDEM_CACHE=str(tree.parent / "cache")) | {"PYTHONPATH": str(tree)}
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # Python takes its own cut files for whole ones
    return subprocess.run(
        [sys.executable, *command], cwd=tree, env=env, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )  # fmt: skip


@needs_shortcuts
def test_what_cannot_be_kept_is_refused_by_who_compiles_for_others(tree: Path) -> None:
    done = _with_little_room(tree, "-m", "sync.compile.build")
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(f"tandem: {tree.parent / 'cache'}")
    said = done.stderr.splitlines()[-1]
    assert "cannot be kept there: File too large; set TANDEM_CACHE" in said and "Traceback" not in done.stderr
    assert done.stderr.count("cannot be kept") == 1
    assert set(_misses(tree).values()) == {1}, "nothing that was cut short is loaded, and nothing noted as compiled"


@needs_shortcuts
def test_what_cannot_be_kept_is_used_by_who_compiles_for_itself(tree: Path) -> None:
    done = _with_little_room(tree, "-c", "from sim_service.four import four; print(four(1))")
    assert (done.returncode, done.stdout) == (0, "4\n")
    assert done.stderr.startswith(f"tandem: {tree.parent / 'cache'}") and done.stderr.count("\n") == 1
    assert not list((tree.parent / "cache").rglob("*.nbc"))


@pytest.mark.drill
def test_a_module_that_cannot_be_imported_or_ends_its_process_is_left_to_who_needs_it(tree: Path) -> None:
    _write(tree, "daq_service.two", "import no_such_driver", "1")
    _write(tree, "sim_service.three", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "1")
    assert _built(tree)[-1].startswith("compiling 4 of 4")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        _run(tree, "-c", "import daq_service.two")
    assert "no_such_driver" in failed.value.stderr


def test_what_few_need_is_compiled_only_where_it_is_asked_for_by_name(tree: Path) -> None:
    _write(tree, "sim_service.four", "from sim_service import three\nCOMPILED_ON_REQUEST = True", "three.three(x)")
    program = "from sync.compile import build; print([len(build.missing(*names)) for names in ((), ('sync.one', {0}))])"
    assert _run(tree, "-c", program.format("'sim_service.three'")).stdout.strip() == "[3, 2]"
    assert _run(tree, "-c", program.format("'sim_service.four'")).stdout.strip() == "[3, 3]"


def test_what_is_imported_only_by_what_few_need_does_not_keep_everybody_waiting(tree: Path) -> None:
    _write(tree, "sim_service.four", "COMPILED_ON_REQUEST = True\nfrom sim_service import three", "three.three(x)")
    _write(tree, "sim_service.five", "def later():\n    from sim_service import four", "1")
    names = "sorted(file.stem for file in build.needed_by(dependencies.file_of('sim_service.five')))"
    program = f"from sync.compile import build, dependencies; print({names})"
    assert _run(tree, "-c", program).stdout.strip() == "['five', 'jit']"


@pytest.mark.drill
def test_processes_that_ask_together_wait_for_the_one_that_compiles(tree: Path) -> None:
    env = environment(TANDEM_CACHE=str(tree.parent / "cache")) | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "sync.compile.build"]
    both = [subprocess.Popen(command, cwd=tree, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate()[1].count("compiling 0 of 4") for process in both)
    assert said == [0, 1]
    assert set(_misses(tree).values()) == {0}


def test_progress_says_for_which_command_and_since_when(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(build.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "argv", ["/usr/bin/tandem", "vehicle", "report", "own/buggy.toml", "--json"])
    kernels, equations = build.Progress(), build.Progress(of="equations of motion")
    for now[0], done in ((0.0, 0), (12.0, 3), (21.0, 4)):
        kernels(done, 4)
    equations(1, 4)
    monkeypatch.setattr(sys, "argv", ["-c", "vehicle"])
    build.Progress()(0, 4)
    assert capsys.readouterr().err.splitlines() == [
        "compiling for `vehicle report`: 0 of 4",
        "compiling for `vehicle report`: 3 of 4 (12 s)",
        "compiling for `vehicle report`: 4 of 4 (21 s)",
        "compiling equations of motion for `vehicle report`: 1 of 4 (21 s)",
        "compiling 0 of 4",
    ]


def test_what_is_compiled_for_a_clock_is_compiled_ahead_too() -> None:
    names = ("daq_service.acquire", "daq_service.effort", "sim_service.loop")
    for file in map(build.code.file_of, names):
        assert build.code.kernels_in(file) == file.read_text().count("\n@kernel") + 1


def test_every_file_with_kernels_is_among_those_compiled_ahead() -> None:
    packages = ("daq_service", "sim_service", "sync", "tandem")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py") if build.code.kernels_in(file)]
    assert len(files) > 100
    assert sorted(set(files) - set(build.code.all_sources())) == []


def test_a_worker_takes_what_shares_most_with_what_it_has_compiled_unless_more_waits_for_another() -> None:
    tyres, piano = (build.code.file_of(f"tandem.machines.{name}") for name in ("car.tyres.transient", "piano.action"))
    done = {each for each in build.code.dependencies(tyres) if build.code.has_inner(each)}
    jobs = [(piano,), (tyres,)]
    assert build.chosen(jobs, {(piano,): 100, (tyres,): 60}, done) == (tyres,)
    assert build.chosen(jobs, {(piano,): 100, (tyres,): 60}, set()) == (piano,)
    assert build.chosen(jobs, {(piano,): 100, (tyres,): 40}, done) == (piano,)


def test_every_module_comes_after_those_it_needs() -> None:
    files = build.missing() or [file for file in build.code.all_sources() if build.code.kernels_in(file)]
    before = build.order(files)
    assert sorted(file for job in before for file in job) == sorted(files)
    ready: set[tuple[Path, ...]] = set()
    while len(ready) < len(before):  # the order can be carried out: no two wait for each other
        next_ones = {job for job in before if job not in ready and before[job] <= ready}
        assert next_ones
        ready |= next_ones


@pytest.mark.drill
def test_modules_that_run_each_other_are_one_job(tree: Path) -> None:
    """Two workers would otherwise compile the same kernels at the same time."""
    (tree / "sim_service" / "__init__.py").write_text("from sim_service.four import four\n")
    program = "from sync.compile import build; print(sorted(len(job) for job in build.order(build.missing())))"
    assert _run(tree, "-c", program).stdout.strip() == "[1, 1, 2]"
    _built(tree)
    assert set(_misses(tree).values()) == {0}
