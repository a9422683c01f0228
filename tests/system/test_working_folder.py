"""Nothing that lies in the working folder is run: a folder of records may be somebody else's.

A module of nearly every name that Python or a library of ours imports lies beside the records here, and each leaves a
mark where it is run. The interpreter has our libraries but not tandem: that lies in a clone which is not installed.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from sync.child_python import python_command, python_environment
from tests.system.conftest import PATIENCE_S, ROOT, leftovers

LIBRARIES = ("numpy", "numba", "llvmlite", "zmq", "msgpack", "mcap", "pydantic", "typer", "rich", "viser", "pyarrow")
OURS = ("sync", "daq_service", "sim_service", "tandem")
PLANTED = """
with open({marks!r}, "a") as marks:
    marks.write(__name__ + "\\n")
raise SystemExit("a planted module was run")
"""
# children of every kind that has one; those that need not live long have a configuration that is not there
STARTED = """
import numba, sys, tandem
from pathlib import Path
from sync.config.config import load
from sync.errors import ConfigError
from tandem.doctor.trial_run import trial_run
from tandem.ensembles.fleet import fleet
from tandem.live.supervisor.truth import TruthRun

def main():
    wall, runs, golden, name = sys.argv[1:]
    said = []
    truth = TruthRun(load(Path(wall)), Path("not_there.toml"), said.append)
    truth.start(None)
    with tandem.run(wall, 0.3, [f"name={name}", "view.enabled=false"], runs) as live:
        live.wait()
    study = {
        "name": "pull", "machine": "mass_spring", "step_ms": 1.0,
        "manoeuvre": {"kind": "inputs", "seconds": 0.05, "inputs": {"handle": {"value": 0.05}}},
        "parameters": {"stiffness": {"values": [100.0, 200.0]}},
        "figures": {"last": {"kind": "last", "channel": "position"}},
    }
    assert tandem.sweep(study, Path(runs) / "sweep", 1, "processes").table.rows == 2
    assert fleet(Path(golden), out=Path(runs) / "fleet", workers=1).made_now == 1
    try:
        trial_run(load(Path(wall)), Path("not_there.toml"), [], 0.1)
    except ConfigError as error:
        assert "not_there.toml" in str(error), error
    while truth.failure() is None: pass
    truth.end()
    assert not numba.config.BOUNDSCHECK
    assert "exit code 2" in truth.failure() and any("not_there.toml" in text for text in said), (truth.failure(), said)

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with our libraries and without tandem."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    own = subprocess.run(
        [python, "-P", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    libraries = "\n".join({sysconfig.get_path(key) for key in ("purelib", "platlib")}) + "\n"
    (Path(own.stdout.strip()) / "needed.pth").write_text(libraries)  # .pth files over there are not read
    return python


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = tmp_path / "hostile"
    folder.mkdir()
    text = PLANTED.format(marks=str(tmp_path / "marks"))
    for name in {*sys.stdlib_module_names, *LIBRARIES, *OURS, "sitecustomize"}:
        (folder / f"{name}.py").write_text(text)
    (folder / ".numba_config.yaml").write_text("boundscheck: 1\n")  # numba looks for it
    return folder


def run_there(hostile: Path, *command: str | Path) -> None:
    """It ends well, and nothing that was planted has run."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=hostile, env={**own, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    marks = hostile.parent / "marks"
    assert not marks.exists(), f"{marks.read_text()}\n{done.stderr}"
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_drive_runs_nothing_of_the_working_folder(
    hostile: Path, bare_python: Path, tmp_path: Path, name: str
) -> None:
    # what `python -m` itself imports from there before our first line nobody can help but by `-P`, or by `tandem`
    early = subprocess.run(
        [bare_python, "-P", "-c", "import runpy, pkgutil, sys; print(*sys.modules)"], check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    for planted in {*OURS, *early.stdout.split()}:
        (hostile / f"{planted}.py").unlink(missing_ok=True)
    assert {"signal.py", "socket.py", "json.py", "numpy.py", "zmq.py"} <= {file.name for file in hostile.iterdir()}
    drive = ("drive", "--seconds", "0.3", "--set", f"name={name}", "--set", "view.enabled=false")
    run_there(hostile, bare_python, "-m", "tandem", *drive, "--runs", tmp_path / "runs")
    assert leftovers(name) == [] and list((tmp_path / "runs").glob("*/run.mcap"))


def test_no_child_runs_anything_of_the_working_folder(
    hostile: Path, bare_python: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "started.py").write_text(STARTED)
    (tmp_path / "records").mkdir()
    shutil.copy(ROOT / "tests" / "golden" / "single_track.mcap", tmp_path / "records" / "run.mcap")
    words = (ROOT / "configs" / "wall.toml", tmp_path / "runs", tmp_path / "records", name)
    run_there(hostile, bare_python, tmp_path / "script" / "started.py", *words)


def test_a_child_has_the_safe_path_and_absolute_places_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", "below", "/somewhere", ""]))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    environment = python_environment(MORE="1")
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/somewhere"]
    assert environment["PYTHONSAFEPATH"] == environment["MORE"] == "1" and "-P" in python_command("-m", "tandem")
    assert "PYTHONSAFEPATH" not in os.environ  # a program that uses tandem as a library starts its own as before


@pytest.mark.parametrize("package", OURS)
def test_children_are_started_in_one_way(package: str) -> None:
    """By sync/child_python.py; extras.py names the interpreter in what it says. The fork server is pool.py's."""
    found = {
        str(file.relative_to(ROOT)): words
        for file in (ROOT / package).rglob("*.py")
        if (words := set(re.findall(r"\[sys\.executable|get_context\(|multiprocessing\.Process", file.read_text())))
    }
    truth = "tandem/live/supervisor/truth.py"
    own = {"sync/child_python.py", "sync/config/extras.py", "tandem/ensembles/pool.py", truth}
    assert found.keys() <= own, found
