"""A wheel works on its own: built, installed into an empty environment, it drives outside the checkout."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.system.conftest import ROOT, assert_all_that_was_due, leftovers
from verify.speed.starts import lay_beside

PACKAGES = ("tandem", "daq_service", "sim_service", "sync")
BUILT_FROM = (*PACKAGES, "configs", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")

NOTES = """
from sync.compile import dependencies as code
print(*sorted(code.compiled_note(file).name for file in code.all_sources() if code.kernels_in(file)))
"""


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """What it printed. Nothing tells it where the checkout is."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | more
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def build(place: Path, **more: str) -> Path:
    tree = place / "tree"
    tree.mkdir()
    for name in BUILT_FROM:  # in a copy: a build leaves files behind
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", place, tree, cwd=place, **more)
    shutil.rmtree(tree)
    (wheel,) = place.glob("*.whl")
    return wheel


def install(place: Path) -> tuple[Path, Path]:
    """The wheel in an environment of its own: its programs, its packages. What it needs it has from this one."""
    wheel = build(place)
    assert wheel.name.endswith("-py3-none-any.whl")
    venv.create(place / "venv", with_pip=False)
    python = place / "venv" / "bin" / "python"
    run(*PIP, "--python", python, "install", "--no-compile", "--no-deps", "--no-index", wheel, cwd=place)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    lay_beside(site)
    return python.parent, site


def files(folder: Path) -> set[str]:
    found = (file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc"))
    return {str(file.relative_to(folder)) for file in found}


@pytest.mark.drill  # `python -m verify wheel` installs one and drives
def test_a_wheel_in_an_empty_environment_drives_outside_the_checkout(tmp_path: Path, name: str) -> None:
    programs, site = install(tmp_path)
    own_files = (file for file in site.iterdir() if not file.is_symlink() and file.suffix != ".dist-info")
    assert {file.name for file in own_files} == set(PACKAGES)
    shipped = site / "tandem" / "configs"
    assert files(shipped) == files(ROOT / "configs") and len(files(shipped)) > 30
    # what is compiled by others than numba is there too
    assert {"tandem/fmu/interface.c", "sync/include/tandem_ring.h", "tandem/py.typed"} <= files(site)
    assert run(programs / "tandem", "--version", cwd=tmp_path).startswith("tandem 0.")

    # beside packages of others code has the names under which it was compiled in the checkout
    assert run(programs / "python", "-c", NOTES, cwd=tmp_path) == run(sys.executable, "-c", NOTES, cwd=ROOT)

    own = ("--set", f"name={name}", "--set", "view.enabled=false", "--seconds", "1", "--json")
    shutil.copytree(shipped, tmp_path / "mine")
    for command in (["drive"], ["run", "mine/drive.toml"]):
        result = json.loads(run(programs / "tandem", *command, *own, "--runs", command[0], cwd=tmp_path))
        assert_all_that_was_due(result, 200)
        assert result["balance"]["closes"] and result["record"]["whole"]
        assert leftovers(name) == []
    found = json.loads(run(programs / "tandem", "info", "drive", "--json", cwd=tmp_path))
    assert found["start"]["software"].startswith("tandem ")


def test_a_platform_wheel_has_the_compiled_code_it_is_given_and_says_whom_it_is_for(tmp_path: Path) -> None:
    """What becomes of that code: tests/sync/compile/test_shipped.py."""
    given = tmp_path / "compiled"
    given.mkdir()
    (given / "files.json").write_text('{"made_with": {"numba": "0.68.1", "llvmlite": "0.48.0"}}')
    wheel = build(tmp_path, TANDEM_COMPILED=str(given))
    assert wheel.name.endswith(f"-linux_{os.uname().machine}.whl") and f"-cp3{sys.version_info.minor}-" in wheel.name
    opened = zipfile.ZipFile(wheel)
    assert "sync/compiled/files.json" in opened.namelist()
    (about,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
    # with another compiler than made it, it would not be used
    required = [line for line in opened.read(about).decode().splitlines() if line.startswith("Requires-Dist: ")]
    assert {"Requires-Dist: numba==0.68.1", "Requires-Dist: llvmlite==0.48.0"} <= set(required)
