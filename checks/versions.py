"""The tests with the oldest and the newest packages that pyproject.toml allows, each in an environment of its own.

    python checks/versions.py                         the whole suite, twice: an hour
    python checks/versions.py --only oldest --bare tests/sync/compile/test_jit.py
    python checks/versions.py --packages numba        one of them, the others as they are pinned

The environment has the pinned packages (requirements.txt, requirements-dev.txt), or those that go with the ones named;
of these the oldest that the bounds of pyproject.toml name, or the newest there is below its upper bound. Kernels are
compiled into a cache of their own. `--bare` leaves out all that tandem itself does not need, but for pytest. Prints
what was installed and how the tests ended; exit code 1 if they failed in one of them.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("numba", "numpy", "pyzmq", "msgpack", "viser")
BUILDING = ("setuptools", "wheel", "pip")  # as they are pinned, whatever the side
TESTING = ("pytest", "pytest-xdist", "hypothesis", "websockets")
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)")


def allowed() -> dict[str, str]:
    """The bounds of each package, as pyproject.toml has them."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    split = (re.match(r"([\w-]+)(.*)", each) for each in listed)
    return {found[1]: found[2] for found in split if found is not None}


def pinned() -> dict[str, str]:
    found = {}
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text().splitlines():
            if pin := _PIN.match(line):
                found[pin[1].lower()] = pin[2]
    return found


def wanted(which: str, chosen: list[str], bare: bool) -> list[str]:
    """What pip is asked for: of the chosen packages the oldest or the newest; of the others the pinned ones or, where
    these cannot be beside the chosen, older ones (newer ones beside the newest). numba names its llvmlite itself."""
    bounds, asked = allowed(), []
    for name, version in pinned().items():
        if name in chosen or name == "llvmlite" or (bare and name not in (*bounds, *BUILDING, *TESTING)):
            continue
        asked.append(f"{name}{'==' if name in BUILDING else '<=' if which == 'oldest' else '>='}{version}")
    for name in chosen:
        oldest = re.search(r">=([\d.]+)", bounds[name])
        assert oldest is not None, f"pyproject.toml: {name}{bounds[name]} has no lower bound"
        # the oldest that is there: 0.61 may be 0.61.0, and one without wheels for this Python is not built
        asked.append(f"{name}=={oldest[1]}.*" if which == "oldest" else f"{name}{bounds[name]}")
    return asked


def tried(which: str, chosen: list[str], tests: list[str], workers: int, bare: bool) -> bool:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        place = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
        python = str(place / "venv" / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        first = [*pip, "--only-binary", ",".join(PACKAGES), *wanted(which, chosen, bare)]
        if subprocess.run(first, check=False).returncode != 0:
            print(f"{which}: {', '.join(chosen)} cannot be installed beside what is pinned: FAILED", flush=True)
            return False
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
        names = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
        there = [line for line in names.splitlines() if line.split("==")[0].lower() in (*PACKAGES, "llvmlite")]
        print(f"{which}: {', '.join(there)}", flush=True)
        environment = {**os.environ, "TANDEM_CACHE": str(place / "cache")}
        environment["PATH"] = os.pathsep.join([str(place / "venv" / "bin"), environment.get("PATH", "")])
        spread = ["-n", str(workers), "--dist", "loadscope"] if workers > 1 else []
        command = [python, "-m", "pytest", *spread, *tests]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        print(f"{which}: {'passed' if code == 0 else f'FAILED (exit code {code})'}", flush=True)
        return code == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests"], help="default: all")
    parser.add_argument("--only", choices=("oldest", "newest"), help="one of both")
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES), help="default: all of them")
    parser.add_argument("--bare", action="store_true", help="without packages that only some tests need")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest (default %(default)s)")
    asked = parser.parse_args()
    sides = [asked.only] if asked.only else ["oldest", "newest"]
    passed = [
        tried(which, asked.packages, asked.tests, asked.workers, asked.bare) for which in sides
    ]  # the second all the same
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
