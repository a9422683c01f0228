"""What `make check` tries: the tests of what changed, and it says which changes it did not try."""

import json
from pathlib import Path

import pytest

from tests import changed


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("sync/ring/ring.py", "tests/sync/ring/test_ring.py"),
        ("tandem/doctor/machine.py", "tests/tandem/doctor"),
        ("tests/test_changed.py", "tests/test_changed.py"),
        ("tests/sim_service/conftest.py", "tests/sim_service"),
        ("README.md", None),
    ],
)
def test_the_tests_of_a_file_are_the_folder_that_mirrors_it(file: str, tests: str | None) -> None:
    assert changed.tests_of(file) == tests


def test_what_was_not_tried_is_not_noted_as_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"README.md": "new", "sync/ring/ring.py": "new", "sync/clock.py": "old"}
    monkeypatch.setattr(changed, "NOTE", tmp_path / "checked.json")
    monkeypatch.setattr(changed, "digests", lambda: now)
    monkeypatch.setattr(changed, "_pytest", lambda *_: 0)
    changed.note({**now, "README.md": "old", "sync/ring/ring.py": "old"})
    assert changed.main([]) == 0
    assert json.loads(changed.NOTE.read_text()) == {**now, "README.md": "old"}
