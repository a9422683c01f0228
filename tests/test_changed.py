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
        ("tandem/offline/model.py", "tests/tandem/offline/test_model.py"),
        ("tandem/machines/sensed/build.py", "tests/tandem/machines/sensed"),
        ("daq_service/devices/can.py", "tests/daq_service/devices"),
        ("tests/test_changed.py", "tests/test_changed.py"),
        ("tests/sim_service/conftest.py", "tests/sim_service"),
        ("README.md", None),
    ],
)
def test_the_tests_of_a_file_are_the_folder_that_mirrors_it(file: str, tests: str | None) -> None:
    assert changed.tests_of(file) == tests


def test_every_package_has_tests_of_its_own() -> None:
    """A folder, or a file, that mirrors it; the car's commands are tried with those of all (tests/tandem/commands)."""
    folders = [folder for name in changed.PACKAGES[:-1] for folder in Path(changed.ROOT, name).rglob("*/__init__.py")]
    names = [str(file.parent.relative_to(changed.ROOT)) for file in folders]
    none = {name for name in names if not _mirrors(changed.tests_of(f"{name}/any.py"), name)}
    assert len(names) > 60 and none <= {"tandem/machines/car/commands", "tandem/mechanism/bench"}


def _mirrors(tests: str | None, name: str) -> bool:
    return tests in (f"tests/{name}", f"tests/{Path(name).parent}/test_{Path(name).name}.py")


def test_what_was_not_tried_is_not_noted_as_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"README.md": "new", "sync/ring/ring.py": "new", "sync/clock.py": "old"}
    monkeypatch.setattr(changed, "NOTE", tmp_path / "checked.json")
    monkeypatch.setattr(changed, "digests", lambda: now)
    monkeypatch.setattr(changed, "_pytest", lambda *_: 0)
    changed.note({**now, "README.md": "old", "sync/ring/ring.py": "old"})
    assert changed.main([]) == 0
    assert json.loads(changed.NOTE.read_text()) == {**now, "README.md": "old"}
