"""What is printed out of a file cannot steer the terminal."""

import io
from pathlib import Path

import pytest
from mcap.records import Attachment, DataEnd, Header, Metadata
from mcap.writer import MCAP0_MAGIC
from rich.markup import escape
from rich.table import Table
from typer.testing import CliRunner

from checks.bomb_files import packed
from sync.visible import visible
from tandem.cli import app
from tandem.terminal import Terminal

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e[/red][bold"


def test_control_characters_become_visible_and_everything_else_stays() -> None:
    assert visible("a\tb\nc é µ 温 \x1b[2J\x07\x7f\x9b\u202e") == "a\tb\nc é µ 温 \\x1b[2J\\x07\\x7f\\x9b\\u202e"
    assert visible("\ud83d\r") == "\\ud83d\\x0d"


def test_strings_and_cells_of_tables_are_shown_not_sent() -> None:
    out = io.StringIO()
    console = Terminal(file=out, force_terminal=False, width=200)
    table = Table()
    table.add_column(escape(EVIL))
    table.add_row(escape(EVIL))
    console.print(escape(EVIL))
    console.print(EVIL, markup=False)
    console.print(table)
    said = out.getvalue()
    assert not set("\x1b\x07\x9b\u202e") & set(said)
    assert said.count("\\x1b]0;title\\x07") == 4


def _record(path: Path, evil: str) -> Path:
    path.parent.mkdir()
    start = {"format": "1", "name": evil, "monotonic_ns": "0", "utc": evil, "software": evil, "transport": evil}
    records = [
        Header("tandem", "somebody"), Metadata("tandem.start", start), Attachment(0, 0, evil, "text/plain", b"{}"),
        Metadata("tandem.said", {"monotonic_ns": "0", "text": evil}), Metadata("tandem.end", {"reason": evil}),
        DataEnd(0),
    ]  # fmt: skip
    path.write_bytes(MCAP0_MAGIC + packed(*records) + MCAP0_MAGIC)
    return path


@pytest.mark.parametrize("command", ["info", "replay", "compare", "export"])
def test_a_record_cannot_steer_the_terminal(command: str, tmp_path: Path) -> None:
    record = _record(tmp_path / "run" / "run.mcap", EVIL)
    more = {"compare": [str(record)], "export": ["--to", "csv"]}.get(command, [])
    done = CliRunner().invoke(app, [command, str(record), *more])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.output and not set("\x1b\x07\x9b\u202e") & set(done.output), ascii(done.output)
    if command == "info":
        assert done.exit_code == 0 and done.output.count("\\x1b]0;title") >= 3


def test_an_error_cannot_steer_the_terminal(tmp_path: Path) -> None:
    config = tmp_path / "x.toml"
    config.write_bytes(b'"\\u001b[2J" = 1\n')
    done = CliRunner().invoke(app, ["doctor", str(config)])
    assert done.exit_code == 2 and "\\x1b[2J" in done.output and "\x1b" not in done.output
