"""Pages that the README shows: served until they are ended."""

import signal
from collections.abc import Callable
from pathlib import Path

from tests.system.conftest import Program
from tests.system.test_readme import PAGES

Start = Callable[..., Program]


def test_pages_as_shown_are_served_until_they_are_ended(start: Start, name: str, tmp_path: Path) -> None:
    """One after the other, on a port that is free; what they show is looked at elsewhere."""
    drive = start("tandem", "drive", "--seconds", "2", "--set", f"name={name}", "--runs", str(tmp_path / "runs"))
    assert drive.end() == 0, drive.said
    for command in PAGES:
        words = command.replace("runs", str(tmp_path / "runs")).split()[1:]
        port = ("--set", "view.port=0", "--set", f"name={name}") if "drive" in words else ("--port", "0")
        page = start("tandem", *words, *port, *(("--runs", str(tmp_path / "runs")) if "drive" in words else ()))
        page.wait_for("the page: http://127.0.0.1:")
        page.signal(signal.SIGINT)
        assert page.end(30) == 0, page.said
