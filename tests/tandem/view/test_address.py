"""The address of a page: its token is in no command line of a browser and in no journal."""

import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tandem.view import address as addresses
from tandem.view.address import announced

TOKEN = "abcdefghijklmnop0123"
ADDRESS = f"http://127.0.0.1:8790/?token={TOKEN}"


@pytest.fixture(autouse=True)
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a browser was started with."""
    found: list[str] = []
    monkeypatch.setattr(addresses, "runtime_directory", lambda: tmp_path)
    monkeypatch.setattr(addresses.webbrowser, "open", found.append)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    return found


def leads_to_the_page(uri: str) -> bool:
    file = Path(urlsplit(uri).path)
    return stat.S_IMODE(file.stat().st_mode) == 0o600 and TOKEN in file.read_text()


def test_on_a_terminal_it_is_said(given: list[str], tmp_path: Path) -> None:
    said: list[str] = []
    with announced(ADDRESS, said.append):
        assert said == [f"the page: {ADDRESS}"] and not given and not list(tmp_path.iterdir())


def test_a_browser_is_started_with_a_file(given: list[str], tmp_path: Path) -> None:
    with announced(ADDRESS, lambda _: None, opened=True):
        assert len(given) == 1 and TOKEN not in given[0] and leads_to_the_page(given[0])
    assert not list(tmp_path.iterdir())


def test_a_journal_gets_the_name_of_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    said: list[str] = []
    with announced(ADDRESS, said.append):
        assert TOKEN not in said[0] and leads_to_the_page(said[0].removeprefix("the page: "))
    assert not list(tmp_path.iterdir())
