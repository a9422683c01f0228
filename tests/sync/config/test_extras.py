"""Hints about missing packages: the right packages, for this interpreter, and nobody else's `tandem`."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from sync.config import extras
from sync.config.extras import DISTRIBUTION, install, install_extra, packages

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCES = [path for name in ("tandem", "daq_service", "sim_service", "sync") for path in (ROOT / name).rglob("*.py")]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("configs/**/*.toml")]


def test_the_distribution_is_not_called_as_a_public_package_of_somebody_else() -> None:
    assert PROJECT["name"] == DISTRIBUTION != "tandem"


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_a_hint_names_exactly_the_packages_of_its_extra_and_this_interpreter(extra: str) -> None:
    def plain(stated: str) -> str:
        return re.sub(r"\s", "", stated)

    wanted = sorted(map(plain, PROJECT["optional-dependencies"][extra]))
    assert sorted(map(plain, packages(extra))) == wanted
    program, *words = shlex.split(install_extra(extra))
    assert (
        program == sys.executable and words[:3] == ["-m", "pip", "install"] and sorted(map(plain, words[3:])) == wanted
    )


def test_every_extra_that_is_asked_for_exists() -> None:
    asked = {name for path in SOURCES for name in re.findall(r"""install_extra\(["'](\w+)["']\)""", path.read_text())}
    assert {"can", "ni", "gamepad", "plot", "page"} <= asked <= set(PROJECT["optional-dependencies"])


def test_no_hint_is_written_by_hand() -> None:
    """In the sources all of them come from sync/config/extras.py; in the texts none names the other `tandem`."""
    by_hand = [path.name for path in SOURCES if "pip install" in path.read_text()]
    assert by_hand == []
    assert shlex.split(install("viser"))[1:] == ["-m", "pip", "install", "viser"]
    wrong = re.compile(r"pip install[^\n`#]*[ '\"]tandem(?![-_\w…])")
    assert wrong.search("pip install 'tandem[can]'") and not wrong.search("pip install 'tandem-realtime[can]'")
    assert [path.name for path in TEXTS if wrong.search(path.read_text())] == []


def test_extras_named_in_the_texts_exist() -> None:
    named = {name for path in TEXTS for name in re.findall(rf"{DISTRIBUTION}\[(\w+)\]", path.read_text())}
    assert {"can", "ni", "parquet"} <= named <= set(PROJECT["optional-dependencies"])


def test_without_a_checkout_the_metadata_say_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = {extra: packages(extra) for extra in ("can", "parquet")}
    monkeypatch.setattr(extras, "_PROJECT", tmp_path / "pyproject.toml")  # as in an environment with a wheel
    for extra, wanted in here.items():
        assert sorted(packages(extra)) == sorted(wanted) or packages(extra) == [f"{DISTRIBUTION}[{extra}]"]
    assert packages("no_such_extra") == [f"{DISTRIBUTION}[no_such_extra]"]
