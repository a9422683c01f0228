"""`make check`: the tests that guard the path, and those of the packages that changed since the last green check.

    python -m tests.changed            run them; what is green is noted in build/checked.json
    python -m tests.changed --green    note that everything is green, as `make test` does

A package's tests are the folder of tests/ that mirrors it. Without a note, what changed is what git says is not
committed.
"""

import contextlib
import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTE = ROOT / "build" / "checked.json"
_EVERYBODY = ("tests/tandem", "tests/tandem/machines")  # tests of what all of them use: `make test` is for that
_NONE = 5  # pytest: there was nothing to run
PACKAGES = ("tandem", "daq_service", "sim_service", "sync", "verify")
# the path: rings, the loop in virtual time, the contracts of machines and devices, runs to the bit
ALL_SOURCES = ("tests/test_import_rules.py", "tests/test_functions.py", "tests/test_docs.py")
ALWAYS = ("tests/sync", "tests/sim_service", "tests/daq_service/devices/test_device_contract.py", "tests/golden")


def digests() -> dict[str, str]:
    """Of every source that tests look at."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "--", *PACKAGES, "tests", "configs")
    files = [ROOT / name for name in listed]
    return {
        str(file.relative_to(ROOT)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()
    }


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def changed(now: dict[str, str]) -> list[str]:
    """Files that are others than at the last green check, or are new or gone."""
    if NOTE.is_file():
        before = json.loads(NOTE.read_text())
        return sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    return _git("diff", "--name-only", "HEAD", "--", *PACKAGES, "tests") + _git(
        "ls-files", "--others", "--exclude-standard", "--", *PACKAGES, "tests"
    )


def tests_of(file: str) -> str | None:
    """The tests of what a file belongs to: itself, or the folder that mirrors its innermost package which has one."""
    path = Path(file)
    if path.parts[0] == "tests":
        if path.name.startswith("test_") and (ROOT / path).is_file():
            return file
        return str(path.parent) if path.suffix == ".py" and len(path.parts) > 2 else None  # what several of them share
    if path.parts[0] not in PACKAGES or path.suffix != ".py":
        return None
    mirror = ROOT / "tests" / path.with_suffix("")
    while not mirror.is_dir() and mirror != ROOT / "tests":
        own = mirror.with_name(f"test_{mirror.name}.py")
        if own.is_file():
            return str(own.relative_to(ROOT))
        mirror = mirror.parent
    return str(mirror.relative_to(ROOT)) if mirror != ROOT / "tests" else None


def chosen(files: list[str]) -> list[str]:
    """Without what another one of them contains."""
    found = sorted({*ALWAYS, *(name for file in files if (name := tests_of(file)))})
    found = [name for name in found if name not in _EVERYBODY]
    kept = [n for n in found if not any(n != other and n.startswith(f"{other}/") for other in found)]
    return [*kept, *(name for name in ALL_SOURCES if name not in kept)]


def note(now: dict[str, str]) -> None:
    NOTE.parent.mkdir(exist_ok=True)
    NOTE.write_text(json.dumps(now))


def _pytest(which: str, paths: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "--processes", "4", "-m", which]
    code = subprocess.run([*command, *paths], cwd=ROOT, check=False).returncode
    return 0 if code == _NONE else code


def main(words: list[str]) -> int:
    if words == ["--green"]:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):  # sources without git, or not ours
            note(digests())
        return 0
    now, before = digests(), json.loads(NOTE.read_text()) if NOTE.is_file() else {}
    files = changed(now)
    paths = chosen(files)
    untried = [file for file in files if tests_of(file) in (None, *_EVERYBODY) and file in now]
    own = sorted({name for file in files if (name := tests_of(file)) in paths or (name and (ROOT / name).is_file())})
    print(f"{len(files)} files changed; tests of {', '.join(paths)}", flush=True)
    code = _pytest("not alone and not slow", paths) or (_pytest("slow and not alone", own) if own else 0)
    if untried:
        print(f"{len(untried)} of them have no tests of their own, `make test` tries them: {', '.join(untried[:8])}")
    if code == 0:
        note({name: before.get(name, "") if name in untried else digest for name, digest in now.items()})
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
