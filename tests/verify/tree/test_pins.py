"""What `make drive` and `make test` install is pinned, by version and by contents."""

import itertools
import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
FILES = ("requirements.txt", "requirements-dev.txt")
MACHINES = ("x86_64", "aarch64")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
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
        stated, *hashes = re.split(r"\s+(?=--)", entry)
        package = str(Requirement(stated).name) + str(Requirement(stated).specifier)
        assert re.fullmatch(r"[\w.-]+==[\w.]+", package), entry
        assert hashes, f"{name}: {package} has no hash; python -m verify pins --write"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), entry


@pytest.mark.parametrize(("machine", "python"), list(itertools.product(MACHINES, PYTHONS)))
def test_what_the_pinned_packages_need_on_other_machines_is_pinned_too(machine, python):
    # pip refuses the whole file for one package that is needed on that machine alone and not in it
    there = {"platform_machine": machine, "python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    stated = [Requirement(re.split(r"\s+--", entry)[0]) for name in FILES for entry in _entries(name)]
    pinned = {canonicalize_name(each.name) for each in stated if not each.marker or each.marker.evaluate(there)}
    for package in pinned:
        try:
            needed = [Requirement(each) for each in requires(package) or ()]
        except PackageNotFoundError:  # not of this machine
            continue
        for each in needed:
            if not each.marker or each.marker.evaluate(there):
                assert canonicalize_name(each.name) in pinned, (
                    f"{package} needs {each.name} on {machine}, Python {python}"
                )


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
