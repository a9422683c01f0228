"""Pages that the README shows: served until they are ended."""

import re
import shlex
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import PATIENCE_S, Program, Recorded
from tests.system.test_readme import PAGES

Start = Callable[..., Program]


@pytest.mark.parametrize("command", PAGES, ids=lambda command: command.removeprefix(".venv/bin/"))
def test_a_page_as_shown_is_served_until_it_is_ended(
    start: Start, name: str, recorded: Callable[[str], Recorded], tmp_path: Path, command: str
) -> None:
    """On a port that is free; what it shows is looked at elsewhere."""
    _, *words = shlex.split(command)
    words = [str(recorded("ipc").runs) if word == "runs" else word for word in words]
    if "drive" in words:
        words += ["--set", "view.port=0", "--set", f"name={name}", "--runs", str(tmp_path / "runs")]
    else:
        words += ["--port", "0"]
    page = start("tandem", *words)
    page.wait_for("the page: http://127.0.0.1:")
    found = re.search(r"the page: (\S+)", page.said)
    assert found
    with urllib.request.urlopen(found[1], timeout=PATIENCE_S) as answer:
        assert answer.status == 200 and b"<html" in answer.read()
    page.signal(signal.SIGINT)
    assert page.end() == 0, page.said
