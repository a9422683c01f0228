"""What `make drive` and `make test` install is pinned, by version and by contents."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = ("requirements.txt", "requirements-dev.txt")
# below these there are published advisories
FLOORS = {"setuptools": (83,), "msgpack": (1, 2, 1)}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", version))


def _entries(name: str) -> list[str]:
    lines = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-r "))]


@pytest.mark.parametrize("name", FILES)
def test_every_pinned_package_names_the_files_that_may_be_installed(name):
    entries = _entries(name)
    assert entries
    for entry in entries:
        package, *hashes = entry.split()
        assert re.fullmatch(r"[\w.-]+==[\w.]+", package), entry
        assert hashes, f"{name}: {package} has no hash; python checks/pin_hashes.py"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), entry


@pytest.mark.parametrize("name", ["Makefile", "docker/Dockerfile"])
def test_pinned_files_are_installed_by_their_hashes_and_nothing_else_is_fetched(name):
    installs = re.findall(r"pip install [^&\n]*", (ROOT / name).read_text())
    assert installs
    for command in installs:
        pinned = "--require-hashes -r requirements" in command
        ours_alone = "--no-deps --no-build-isolation -e ." in command
        assert pinned or ours_alone, f"{name}: {command}"


def test_dependencies_with_advisories_are_above_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    ranges = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    floors = dict(re.fullmatch(r"([\w-]+)>=([\d.]+).*", each).groups() for each in ranges)
    pins = dict(entry.split()[0].split("==") for entry in _entries("requirements.txt"))
    for name, floor in FLOORS.items():
        assert _numbers(floors[name]) >= floor, f"pyproject.toml: {name}>={floors[name]}"
        assert _numbers(pins[name]) >= floor, f"requirements.txt: {name}=={pins[name]}"
