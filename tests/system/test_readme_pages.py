"""Pages that the README shows: served until they are ended."""

import os
import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.examples import cases
from tests.system.conftest import Program, Recorded, processes_of
from tests.system.test_readme import PAGES
from tests.tandem.view.pages import get, session

Start = Callable[..., Program]


@pytest.mark.parametrize("command", cases(*PAGES), ids=lambda command: command.removeprefix(".venv/bin/"))
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
    parts = urlsplit(found[1])
    path, cookie = session(int(parts.port or 0), parts.query.removeprefix("token="))
    status, _, body = get(int(parts.port or 0), f"{path}/", Cookie=cookie)
    assert status == 200 and b"<html" in body
    if "drive" in words:  # once it is there, nothing waits for it
        (view,) = processes_of(page, "view")
        assert os.getpriority(os.PRIO_PROCESS, view) == 10
    page.signal(signal.SIGINT)
    assert page.end() == 0, page.said
