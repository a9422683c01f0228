"""What is wrong with a file from elsewhere is found in bounded time, and said in some lines, however much it is."""

import difflib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from sync.config.toml import _meant
from sync.errors import first_findings, near_names

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sync", "sim_service", "daq_service", "tandem")


def test_only_the_first_findings_are_looked_for() -> None:
    looked = 0

    def found() -> Iterator[str]:
        nonlocal looked
        for looked in itertools.count(1):
            yield f"finding {looked}"

    lines = first_findings(found()).splitlines()
    assert lines[0] == "finding 1" and lines[-2:] == ["finding 50", "... and more"] and looked == 51
    assert first_findings(["one", "two"]) == "one\ntwo" and first_findings([]) == ""


def test_a_name_is_compared_with_those_of_about_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [*(f"channel_{k}" for k in range(100_000)), "steering"]
    assert near_names("stering", known) == ["steering"]
    compared: list[list[str]] = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda word, names, *_: compared.append(names) or [word])
    (word,) = near_names("x" * 100_000, [*known, "y" * 100_000])
    assert len(word) == 64 and len(compared[0]) == 1000 and max(map(len, compared[0])) <= 64


def test_nothing_else_compares_names() -> None:
    """But the import of measurements, which puts all columns in order, within bounds of its own."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    found = {str(file.relative_to(ROOT)) for file in files if "get_close_matches" in file.read_text()}
    assert found == {"sync/errors.py", "tandem/records/exchange/mapping.py"}


def test_findings_are_not_compared_with_each_other() -> None:
    compared = 0

    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    keys = [Key(f"key_{k}") for k in range(1000)]
    found = [{"loc": (key, kind)} for key in keys for kind in ("int", "str")]  # as of a number or a text, each
    assert [each["loc"] for each in _meant(found, dict.fromkeys(keys, 1.5))] == [(key,) for key in keys]
    assert compared < 20 * len(keys)
