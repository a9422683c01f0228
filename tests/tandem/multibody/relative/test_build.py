"""Systems from the cache: the same to the bit as made anew, found by contents, never damaged ones."""

import multiprocessing
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.compile import dependencies
from tandem.multibody.code import llvm, store
from tandem.multibody.code.llvm import module_text
from tandem.multibody.natural.api import Mechanism, start
from tandem.multibody.relative import build as builder
from tandem.multibody.relative.build import build, digest
from tandem.multibody.relative.generate import generate
from tandem.multibody.relative.run import Runner


def four_bar(mass: float = 2.0, reach: float = 0.6, stiffness: float = 40.0, rod: bool = False) -> Mechanism:
    m = Mechanism(dimension=2)
    A, D = m.point("A", (0, 0), fixed=True), m.point("D", (1.0, 0), fixed=True)
    B, C = m.point("B", (0.0, 0.3)), m.point("C", (reach, 0.8))
    m.bar("crank", A, B, 1.0)
    m.bar("coupler", B, C, mass)
    m.bar("rocker", D, C, 2.0)
    m.spring("spring", A, C, stiffness=stiffness, damping=1.0, length=0.9)
    if rod:
        m.rod("rod", C, m.point("E", (1.5, 1.0)))
        m.particle("ball", m.nodes["E"], 0.3)
    return m


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(store, "folder", lambda: tmp_path)
    return tmp_path


def motion(m: Mechanism) -> bytes:
    """The states of a run."""
    state = start(m.compile(h=1e-3).state(), rates={"B": (-2.0, 0.0)})
    runner = Runner(state, "rodas4")
    runner.run(0.1, 2e-3)
    return runner.state.tobytes() + state.vector.tobytes()


def forbid(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        where = llvm if name == "object_code" else builder
        monkeypatch.setattr(where, name, lambda *_, name=name, **__: pytest.fail(f"{name}: was made again"))


MAKES = ("make_tree", "Writer", "write_functions", "generate", "object_code")


def test_a_run_from_the_cache_is_that_of_a_system_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = motion(four_bar())
    forbid(monkeypatch, *MAKES)
    assert motion(four_bar()) == first


@pytest.mark.parametrize("changed", [{"mass": 2.5}, {"reach": 0.65}, {"stiffness": 0.0}])
def test_other_numbers_use_the_code_that_is_there(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, changed: dict[str, float]
) -> None:
    before = motion(four_bar())
    with monkeypatch.context() as only:
        forbid(only, "write_functions", "object_code")
        found = motion(four_bar(**changed))
    assert found != before
    monkeypatch.setattr(store, "folder", lambda: tmp_path_factory.mktemp("anew"))
    assert motion(four_bar(**changed)) == found


def test_another_topology_is_another_entry(folder: Path) -> None:
    build(four_bar())
    assert len(list(folder.glob("*.o"))) == 1
    build(four_bar(rod=True))
    assert len(list(folder.glob("*.o"))) == 2
    build(four_bar(), cut=["B"])
    assert len(list(folder.glob("*.o"))) == 3


def test_what_was_loaded_writes_its_functions_when_they_are_asked_for(folder: Path) -> None:
    fresh, _ = build(four_bar())
    again, code = build(four_bar())
    assert again.functions is not fresh.functions
    assert module_text(again.functions) == module_text(fresh.functions)
    assert again.operations == fresh.operations and again.signatures == fresh.signatures
    assert set(code.functions) == {f.name for f in again.functions}


def test_every_source_that_generates_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = dependencies.ROOT
    multibody = root / "tandem" / "multibody"
    system = multibody / "relative" / "system.py"
    assert builder.generator_stamp() == dependencies.stamp(system)
    names = {file.name for file in dependencies.dependencies(system) if multibody in file.parents}
    assert {"build.py", "generate.py", "graph.py", "links.py", "equations.py", "llvm.py", "spanning.py"} <= names
    stamps = []
    for copy, edit in (("as it is", ""), ("edited", "\nLANES = 2\n")):
        for part in ("sim_service", "sync", "tandem/multibody"):
            shutil.copytree(root / part, tmp_path / copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / copy / "tandem/__init__.py").touch()
        with open(tmp_path / copy / "tandem/multibody/relative/vectors.py", "a") as file:
            file.write(edit)
        stamps.append(dependencies.stamp(tmp_path / copy / "tandem/multibody/relative/system.py"))
    assert stamps[0] != stamps[1]
    # and with another stamp nothing is found
    build(four_bar(), folder=tmp_path)
    monkeypatch.setattr(builder, "generator_stamp", lambda: stamps[1])
    builder._circumstances.cache_clear()
    written = []
    real = builder.write_functions
    monkeypatch.setattr(builder, "write_functions", lambda one: (written.append(one), real(one))[1])
    build(four_bar(), folder=tmp_path)
    builder._circumstances.cache_clear()
    assert len(written) == 1


@pytest.mark.parametrize(
    "kind, damage",
    [("system", "empty"), ("system", "changed"), ("code", "short"), ("o", "short"), ("o", "changed"), ("o", "gone")],
)
def test_a_damaged_entry_is_made_anew(folder: Path, kind: str, damage: str) -> None:
    first = motion(four_bar())
    (path,) = folder.glob(f"*.{kind}")
    whole = path.read_bytes()
    middle = len(whole) // 2
    bad = {"empty": b"", "short": whole[:middle],
           "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]}  # fmt: skip
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(bad[damage])
    if kind == "code":  # is read only where the first entry does not lead on
        next(folder.glob("*.system")).unlink()
    assert motion(four_bar()) == first
    assert store.read(path, path.stem) is not None


def test_an_entry_that_is_more_than_plain_data_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = motion(four_bar())
    (path,) = folder.glob("*.system")
    store.write(path, path.stem, pickle.dumps(os.getcwd))
    assert motion(four_bar()) == first


def _builds(folder: Path, compiled: Callable[[], None]) -> None:
    real = llvm.object_code
    llvm.object_code = lambda text: (compiled(), real(text))[1]
    build(four_bar(), folder=folder)


def test_of_two_processes_one_makes_it(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    count = context.Value("i", 0)

    def compiled() -> None:
        with count.get_lock():
            count.value += 1

    both = [context.Process(target=_builds, args=(folder, compiled)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    made, _ = build(four_bar(), folder=folder)
    assert count.value == sum(len(f.stages) for f in made.signatures)


def test_entries_are_the_owners_alone_and_old_ones_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(four_bar())
    files = [path for path in folder.iterdir() if not path.name.startswith("lock")]
    assert len(files) == 3 and all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    for path in files:
        long_ago = path.stat().st_mtime - 2 * store.USED_S
        os.utime(path, (long_ago, long_ago))
    (unread,) = folder.glob("*.code")
    build(four_bar())  # reads the other two
    assert [path for path in files if path.stat().st_mtime < long_ago + 1.0] == [unread]
    long_ago -= store.KEEP_S
    os.utime(unread, (long_ago, long_ago))
    store.sweep(folder)
    assert not unread.exists() and len(list(folder.glob("*.system"))) == 1
    monkeypatch.setattr(store, "MOST_FILES", 1)
    store.sweep(folder)
    assert len([path for path in folder.iterdir() if not path.name.startswith("lock")]) == 1


def test_what_takes_long_is_reported_without_a_terminal_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builder, "SILENT_S", np.inf)
    build(four_bar(rod=True))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(builder, "SILENT_S", 0.0)
    build(four_bar())
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "writing equations of motion" and lines[-1].startswith("compiling equations of motion ")
    done, _, total = lines[-1].split()[4:7]
    assert done == total


def test_a_description_is_told_by_its_contents() -> None:
    assert digest(four_bar()) == digest(four_bar())
    others = [four_bar(mass=2.5), four_bar(reach=0.65), four_bar(stiffness=41.0), four_bar(rod=True)]
    assert len({digest(m) for m in (four_bar(), *others)}) == 5
    assert digest(four_bar(), ("B",)) != digest(four_bar(), ())
    at = generate(four_bar()).at
    assert digest(four_bar(), at) != digest(four_bar(), None) and digest(np.zeros(2)) != digest(np.zeros(3))
