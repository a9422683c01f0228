"""The library is typed: a user's program under mypy's strict rules, with tandem installed as anybody has it."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("user_script.py")


@pytest.mark.slow
def test_a_users_program_is_typed_without_any_of_ours(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    for package in ("tandem", "sync", "sim_service", "daq_service"):
        (site / package).symlink_to(ROOT / package)  # as a wheel lays them there
    libraries = {sysconfig.get_path(key) for key in ("purelib", "platlib")}
    (site / "needed.pth").write_text("\n".join(libraries) + "\n")
    done = _mypy(tmp_path, python, SCRIPT)
    assert done.returncode == 0, done.stdout
    broken = tmp_path / "broken.py"
    broken.write_text(
        SCRIPT.read_text().replace('car.parameters["friction"] = 0.7', 'car.parameters["friction"] = "x"')
    )
    assert "Incompatible types in assignment" in _mypy(tmp_path, python, broken).stdout


def _mypy(place: Path, python: Path, script: Path) -> "subprocess.CompletedProcess[str]":
    options = (
        "--strict",
        "--config-file=",
        "--python-executable",
        python,
        "--cache-dir",
        ROOT / ".mypy_cache" / "user",
    )
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, script], cwd=place, capture_output=True, text=True, check=False
    )
