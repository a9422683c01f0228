"""A wheel works on its own: built, installed into an empty environment, it drives outside the checkout."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.system.conftest import ROOT, assert_all_that_was_due, leftovers

PACKAGES = ("tandem", "daq_service", "sim_service", "sync")
BUILT_FROM = (*PACKAGES, "configs", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def run(*command: str | Path, cwd: Path) -> str:
    """What it printed. Nothing tells it where the checkout is."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def install(place: Path) -> tuple[Path, Path]:
    """The wheel in an environment of its own: its programs, its packages. What it needs it has from this one."""
    tree = place / "tree"
    tree.mkdir()
    for name in BUILT_FROM:  # in a copy: a build leaves files behind
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", place, tree, cwd=place)
    shutil.rmtree(tree)
    (wheel,) = place.glob("*.whl")
    venv.create(place / "venv", with_pip=False)
    python = place / "venv" / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-compile", "--no-deps", "--no-index", wheel, cwd=place)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    # a path in a .pth file is no more than that: .pth files over there, which would find the checkout, are not read
    (site / "needed.pth").write_text("\n".join({sysconfig.get_path(key) for key in ("purelib", "platlib")}) + "\n")
    return python.parent, site


def files(folder: Path) -> set[str]:
    found = (file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc"))
    return {str(file.relative_to(folder)) for file in found}


def test_a_wheel_in_an_empty_environment_drives_outside_the_checkout(tmp_path: Path, name: str) -> None:
    programs, site = install(tmp_path)
    assert {p.name for p in site.iterdir() if p.suffix not in (".dist-info", ".pth")} == set(PACKAGES)
    shipped = site / "tandem" / "configs"
    assert files(shipped) == files(ROOT / "configs") and len(files(shipped)) > 30
    # what is compiled by others than numba is there too
    assert {"tandem/fmu/interface.c", "sync/include/tandem_ring.h"} <= files(site)
    assert run(programs / "tandem", "--version", cwd=tmp_path).startswith("tandem 0.")

    own = ("--set", f"name={name}", "--set", "view.enabled=false", "--seconds", "1", "--json")
    shutil.copytree(shipped, tmp_path / "mine")
    for command in (["drive"], ["run", "mine/drive.toml"]):
        result = json.loads(run(programs / "tandem", *command, *own, "--runs", command[0], cwd=tmp_path))
        assert_all_that_was_due(result, 200)
        assert result["balance"]["closes"] and result["record"]["whole"]
        assert leftovers(name) == []
    found = json.loads(run(programs / "tandem", "info", "drive", "--json", cwd=tmp_path))
    assert found["start"]["software"].startswith("tandem ")
