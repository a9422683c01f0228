"""One report makes the terminal, the page, the JSON and the exit code, and shows text from anywhere as text."""

import io
import json
from pathlib import Path

import pytest
import typer

from tandem.console.present import give, print_report
from tandem.console.terminal import Terminal
from tandem.reports.html.markup import markup
from tandem.reports.html.report_page import report_page
from tandem.reports.report import Report, Section, Table, checked, is_figure, number, promised, warn

EVIL = "<b>x</b>\n[red]\x1b[2J"


def made(holds: bool = True, code: int | None = None) -> Report:
    table = Table(("quantity", "value", ""), [("travel, mm", 1.23456, holds), (EVIL, None, "")], "A table")
    picture = markup("<svg></svg>")
    sections = [Section("Checked", [table, picture], "One.\nTwo."), Section("Long", [Table(("k",), [(1,)])], on="page")]
    data = {"rows": [float("nan")]}
    return Report("tandem study x", f"All hold: {EVIL}", data, sections, [warn(EVIL)], code=code)


def printed(report: Report) -> str:
    out = io.StringIO()
    print_report(Terminal(file=out, width=120), report)
    return out.getvalue()


def test_terminal_and_page_have_the_same_sentence_tables_and_notes() -> None:
    text, page = printed(made()), report_page(made())
    for words in ("All hold", "Checked", "A table", "One.", "Two.", "1.235", "holds", "travel, mm"):
        assert words in text and words in page
    assert "<svg></svg>" in page and "svg" not in text
    assert "Long" in page and "Long" not in text


def test_text_from_a_file_is_no_markup_and_no_line_of_its_own() -> None:
    text, page = printed(made()), report_page(made())
    assert text.count("<b>x</b>\\x0a[red]\\x1b[2J") == 3 and "\x1b" not in text
    assert "<b>x" not in page and page.count("&lt;b&gt;x") == 3


@pytest.mark.parametrize(
    ("report", "code"), [(made(), 0), (made(False), 1), (made(False, code=0), 0), (made(code=3), 3)]
)
def test_the_exit_code_is_of_the_verdicts_or_the_report_s_own(report: Report, code: int) -> None:
    assert report.exit_code == code


def test_a_command_gives_json_its_page_and_its_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left:
        give(made(False), True, tmp_path / "here")
    said = capsys.readouterr()
    assert left.value.exit_code == 1 and json.loads(said.out) == {"rows": [None]}
    assert "report: " in said.err and "tandem: study x: All hold" in said.err
    content = json.loads((tmp_path / "here" / "report.json").read_text())
    assert content["title"] == "tandem study x" and content["rows"] == [None]
    give(made(), True, page=tmp_path / "one.html")
    assert (tmp_path / "one.html").read_text().startswith("<!doctype html>")


def test_figures_stand_right_and_words_left() -> None:
    assert is_figure(["1.2e-03", "–", "13.2 %", "1 234", "+0.5"]) and is_figure(["not reached", "2"])
    assert (
        not is_figure(["", ""])
        and is_figure(["–", ""])
        and not is_figure(["2.1", "of two"])
        and not is_figure(["holds"])
    )
    assert [number(v) for v in (None, float("inf"), 0.0, -0.0, 12.3456, 7)] == ["–", "–", "0", "0", "12.35", "7"]


def test_a_headline_names_what_does_not_hold() -> None:
    rows = [("a", "1", "≤ 2", True), ("b", "3", "≤ 2", False), ("c", "9", "", None)]
    assert promised(rows) == "1 of 2 promises do not hold: b: 3."
    assert [row[3] for row in checked(rows).rows] == [True, False, ""]
    assert promised(rows[:1]) == "All 1 promises hold." and promised(rows[2:]) == "Nothing of this is promised."
