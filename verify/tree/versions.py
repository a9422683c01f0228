"""The tests with the oldest and the newest packages that pyproject.toml allows, each in an environment of its own.

    python -m verify versions                         the whole suite, twice: an hour
    python -m verify versions --only oldest --bare --tests tests/sync/compile/test_jit.py
    python -m verify versions --packages numba        one of them, the others as they are pinned
    python -m verify versions --keep FOLDER           environments and compiled code stay there for the next time

An environment has the pinned packages (requirements.txt, requirements-dev.txt), and of the ones named the oldest or the
newest that the bounds of pyproject.toml allow and that can be had as wheels for this Python. Where these are the ones
that are installed here, the tests run here. Kernels are compiled into a cache of the environment. `--bare` leaves out
all that tandem itself does not need, but for what runs the tests.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from verify import ROOT
from verify.measure import Row, holds, note

PACKAGES = ("numba", "numpy", "pyzmq", "msgpack", "viser")
COMPILER = "llvmlite"  # numba names its version itself
RUN, DEVELOP = "requirements.txt", "requirements-dev.txt"
TESTING = ("pytest", "hypothesis", "websockets", "setuptools", "wheel", "pip")
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)")
_PIP = ("-m", "pip", "--disable-pip-version-check")


class NoEnvironment(Exception):
    """A package that is allowed cannot be installed."""


@dataclass(frozen=True)
class Ended:
    side: str
    versions: str
    seconds: float
    tests: str  # as pytest sums them up
    passed: bool


def allowed() -> dict[str, str]:
    """The bounds of each package, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["page"]]
    split = (re.match(r"([\w-]+)(.*)", each) for each in listed)
    return {found[1]: found[2] for found in split if found is not None}


def pinned(*files: str) -> dict[str, str]:
    lines = [line for name in files for line in (ROOT / name).read_text().splitlines()]
    return {pin[1].lower(): pin[2] for line in lines if (pin := _PIN.match(line))}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", version))


def within(version: str, bounds: str) -> bool:
    """Whether a version is allowed by bounds such as `>=1.1,<1.2`."""
    for bound in bounds.split(","):
        kind, limit = bound[:2].rstrip("0123456789"), numbers(bound)
        if (kind == ">=" and numbers(version) < limit) or (kind == "<" and numbers(version) >= limit):
            return False
        if kind not in (">=", "<"):
            raise NoEnvironment(f"pyproject.toml: {bounds!r}: only >= and < are read here")
    return True


def wanted(side: str, package: str) -> str:
    """The oldest or the newest version there is, of those that are allowed."""
    command = [sys.executable, *_PIP, "index", "versions", "--only-binary", ":all:", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    there = [each for each in found[1].split(", ") if within(each, allowed()[package])] if found else []
    if not there:
        raise NoEnvironment(f"no wheel of {package}{allowed()[package]} can be had")
    return (min if side == "oldest" else max)(there, key=numbers)


def say(side: str, what: str) -> None:
    note(f"{side}: {what}")


def is_here(chosen: dict[str, str]) -> bool:
    """Whether they are what this Python has, with all that the tests need."""
    there = {each.name.lower(): each.version for each in importlib.metadata.distributions()}
    return "pytest" in there and all(there.get(name) == version for name, version in chosen.items())


def _refused(python: str) -> dict[str, str]:
    """The packages, and their versions, that say they are not for what is installed beside them."""
    done = subprocess.run([python, *_PIP, "check"], capture_output=True, text=True, check=False)
    return dict(line.split()[:2] for line in done.stdout.splitlines() if " has requirement " in line)


def prepared(side: str, chosen: dict[str, str], bare: bool, place: Path) -> str:
    """The Python of an environment with them. The others are installed as they are pinned; of those that are not
    for the chosen ones (`pip check` says which), older ones."""
    python = str(place / "venv" / "bin" / "python")
    install = [python, *_PIP, "install", "--quiet", "--no-compile"]
    others = pinned(RUN) if bare else pinned(RUN, DEVELOP)
    others |= {name: version for name, version in pinned(DEVELOP).items() if name in TESTING}
    fixed = [f"{name}=={version}" for name, version in others.items() if name not in (*chosen, COMPILER)]
    newest = {name: f"{name}{allowed()[name]}" for name in chosen}  # of which numba, for one, may not take all
    requested = [f"{name}=={version}" if side == "oldest" else newest[name] for name, version in chosen.items()]
    if not Path(python).exists():
        say(side, "make an environment")
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    say(side, f"install {len(fixed)} packages as they are pinned, and {' '.join(requested)}")
    for words in (["--no-deps", *fixed], ["--only-binary", ",".join((*chosen, COMPILER)), *requested]):
        if subprocess.run([*install, *words], check=False).returncode != 0:
            raise NoEnvironment(f"{' '.join(requested)} cannot be installed beside what is pinned")
    subprocess.run([*install, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
    exact = versions_of(python, tuple(chosen)).replace(" ", "==").replace(",==", " ").split()
    if refused := _refused(python):
        say(side, f"older ones than the pinned of {', '.join(refused)}")
        older = [f"{name}<={version}" for name, version in refused.items()]
        subprocess.run([*install, "--only-binary", ":all:", *older, *exact], check=False)
    for name in _refused(python):
        say(side, f"{name} is not for these versions: what needs it fails, or is skipped")
    return python


def versions_of(python: str, names: tuple[str, ...]) -> str:
    script = "import importlib.metadata as m, sys; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    done = subprocess.run([python, "-c", script, *names], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def tried(side: str, packages: Sequence[str], tests: Sequence[str], workers: int, bare: bool, place: Path) -> Ended:
    begun = time.monotonic()

    def ended(versions: str, found: str, passed: bool) -> Ended:
        say(side, found)
        return Ended(side, versions, time.monotonic() - begun, found, passed)

    environment, python = dict(os.environ), sys.executable
    try:
        chosen = {name: wanted(side, name) for name in packages}
        if is_here(chosen):
            say(side, "these are installed here")
        else:
            python = prepared(side, chosen, bare, place)
            environment["TANDEM_CACHE"] = str(place / "cache")
    except NoEnvironment as error:
        return ended("", f"NOT INSTALLED: {error}", False)
    versions = versions_of(python, (*packages, COMPILER))
    say(side, f"test with {versions}")
    environment["PATH"] = os.pathsep.join([str(Path(python).parent), environment.get("PATH", "")])
    say(side, "compile")  # once, not by every process of the tests for itself
    subprocess.run([python, "-m", "sync.compile.build", "--all"], cwd=ROOT, env=environment, check=False)
    command = [python, "-m", "pytest", "--processes", str(workers), *tests]
    last = ""
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip(" =\n") or last
    passed = running.returncode == 0
    return ended(versions, last if passed else f"FAILED (exit code {running.returncode}): {last}", passed)


def versions(
    *,
    tests: tuple[str, ...] = ("tests",),
    only: Literal["oldest", "newest"] | None = None,
    packages: Annotated[tuple[str, ...], "of these, the others as they are pinned"] = PACKAGES,
    bare: Annotated[bool, "without packages that only some tests need"] = False,
    workers: Annotated[int, "processes of pytest"] = 2,
    keep: Annotated[Path | None, "folder of environments and compiled code, for the next time"] = None,
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        place = (keep or Path(folder)).resolve()
        for side in [only] if only else ["oldest", "newest"]:  # the second all the same
            found = tried(side, packages, tests, workers, bare, place / side)
            yield holds(f"{side}, {found.versions}: the tests pass", found.passed, found.tests)
