"""What is printed out of a file cannot steer the terminal."""

import ast
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcap.records import Attachment, DataEnd, Header, Metadata
from mcap.writer import MCAP0_MAGIC
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

import tandem
from sync.errors import ConfigError
from sync.visible import visible
from tandem.commands import cli
from tandem.commands.cli import app
from tandem.commands.view import _say
from tandem.console.present import print_report
from tandem.console.terminal import Terminal
from tandem.reports.outcome import DAMAGED
from verify.robustness.bomb_files import packed

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


def test_texts_and_the_status_are_shown_too_and_colours_stay() -> None:
    out = io.StringIO()
    console = Terminal(file=out, force_terminal=True, color_system="standard", width=200)
    table = Table.grid()
    table.add_row(Text(EVIL), "")
    console.print(table, Text(EVIL, "red"))
    with console.status(escape(EVIL)):
        pass
    said = out.getvalue()
    assert "\x1b[31m" in said and said.count("\\x1b]0;title") >= 3
    assert not set("\x07\x9b\u202e") & set(said) and "\x1b]" not in said and "\x1b[2J" not in said


def test_nothing_is_printed_but_by_this_terminal() -> None:
    root = Path(tandem.__file__).parent
    others = [
        f"{file.relative_to(root)}:{node.lineno}"
        for file in root.rglob("*.py")
        if file.name != "terminal.py" and "Console" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Console"
    ]
    assert not others, f"tandem.console.terminal.Terminal shows control characters, Console sends them: {others}"


def test_what_the_view_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _say(EVIL)
    assert capsys.readouterr().err == f"view: {visible(EVIL)}\n"


LINK = "[link=https://example.org]x[/link] [/x] a\nidentical"
FIGURES: dict[str, Any] = {
    "steps": 1, "simulated_s": 1.0, "wall_s": 1.0, "real_time_factor": 1.0, "read_s": 0.0, "step_s": 0.0,
    "identical": False, "diverged": False,
    "first_difference": {"step": 0, "channel": LINK, "recorded": 1, "replayed": 2},
    "differing_channels": [{"channel": LINK, "max": 1.0}], "mode": "exact", "parameters": "recorded",
    "other_facts": {LINK: (LINK, LINK)}, "steps_before": 0, "deleted": LINK, "stopped": "", "missing_blocks": 0,
    "delay_ms": 0.0, "jitter_ms": 0.0, "record_ended": LINK, "commands_left_out": 0,
}  # fmt: skip


def test_what_a_record_says_is_no_markup_and_no_line_of_its_own() -> None:
    from tandem.records.replay import report

    out = io.StringIO()
    print_report(Terminal(file=out, force_terminal=True, width=1000), report(FIGURES))
    assert "\x1b]8" not in out.getvalue()
    plain = io.StringIO()
    print_report(Terminal(file=plain, width=1000), report(FIGURES))
    shown = LINK.replace("\n", "\\x0a")
    assert plain.getvalue().count(shown) == 7
    assert not any(line.startswith("identical") for line in plain.getvalue().split("\n"))


def test_a_name_forges_no_line_of_info(tmp_path: Path) -> None:
    record = _record(tmp_path / "run" / "run.mcap", "x\nwhole; ended: stopped")
    done = CliRunner().invoke(app, ["info", str(record)])
    assert done.exit_code == DAMAGED and "x\\x0awhole" in done.output, done.output
    assert not any(line.startswith("whole") and "\\x0a" not in line for line in done.output.split("\n"))


def _record(path: Path, evil: str) -> Path:
    path.parent.mkdir()
    start = {"format": "2", "name": evil, "monotonic_ns": "0", "utc": evil, "software": evil, "transport": evil}
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
        assert done.exit_code == DAMAGED and done.output.count("\\x1b]0;title") >= 3


def test_an_error_cannot_steer_the_terminal(tmp_path: Path) -> None:
    config = tmp_path / "x.toml"
    config.write_bytes(b'"\\u001b[2J" = 1\n')
    done = CliRunner().invoke(app, ["doctor", str(config)])
    assert done.exit_code == 2 and "\\x1b[2J" in done.output and "\x1b" not in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["info", "x" * 300], "x…: File name too long"),
        (["run", ""], "it is a folder"),
        (["mechanism", "/"], "it is a folder"),
        (["fmu", "drive\nx"], "drive\\x0ax: no file"),
        (["fmu", "mass_spring", "--out", "/proc/nowhere/a.fmu"], "/proc/nowhere"),
    ],
)
def test_a_name_that_no_file_has_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["tandem", *words])
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_what_is_wrong_before_a_command_begins_is_a_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: Any) -> None:
        raise ConfigError("/dev/null: compiled code cannot be kept there")

    monkeypatch.setattr(cli, "app", refuse)
    monkeypatch.setattr(cli, "answer_shells", lambda: None)
    monkeypatch.setattr(cli, "bring_others", list)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2 and capsys.readouterr().err == "tandem: /dev/null: compiled code cannot be kept there\n"


def test_a_warning_is_one_line_in_words() -> None:
    """Python's own has the path and the line of a source."""
    code = (
        "import warnings, tandem.commands.cli as cli; cli.bring_others = list;"
        "cli.app = lambda **_: warnings.warn('this kerb is too sharp'); cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "tandem: this kerb is too sharp\n"
