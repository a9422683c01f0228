"""`import tandem` from the folder that a clone named tandem lies in takes the package, not the clone's folder."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

from tests.system.conftest import ROOT
from tests.system.test_wheel import BUILT_FROM, PIP


def test_import_from_beside_a_clone_takes_the_package(tmp_path: Path) -> None:
    clone = tmp_path / "tandem"
    clone.mkdir()
    for name in BUILT_FROM:
        (clone / name).symlink_to(ROOT / name)
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    # as the Makefile installs it
    install = (*PIP, "--python", python, "install", "--no-deps", "--no-build-isolation", "--no-index", "-e", clone)
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(command, env=own, check=True, capture_output=True, text=True).stdout.strip())
    libraries = {sysconfig.get_path(key) for key in ("purelib", "platlib")}
    (site / "needed.pth").write_text("\n".join(libraries) + "\n")
    done = subprocess.run(install, env=own, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = [python, "-c", "import tandem; print(tandem.__version__, tandem.TandemError.__name__)"]
    found = subprocess.run(asked, env=own, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0 and found.stdout.strip().endswith("TandemError"), found.stderr
