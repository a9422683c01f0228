"""A report as a command gives it: at the terminal or as JSON, its page, and the exit code."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from sync.errors import ConfigError
from sync.visible import on_one_line, visible
from tandem.console.terminal import errors, output
from tandem.console.terminal import report as write_into
from tandem.reports.report import Line, Report, Section, Table, is_figure, shown_parts, written

_STYLES = {"": "", "good": "green", "warn": "yellow", "bad": "bold red"}


def give(
    report: Report,
    as_json: bool,
    folder: Path | None = None,
    page: Path | None = None,
    also: Callable[[Path], object] = lambda _: None,
) -> None:
    """Print it, write its page into a folder (and what `also` writes there), or as the one file that `--out` named, say
    what is wrong, and leave with its exit code."""
    from tandem.reports.html.page import json_ready

    if as_json:
        print(json.dumps(json_ready(report.data), allow_nan=False), flush=True)
    else:
        print_report(output(), report)
    with errors():
        _write_pages(report, folder, page, also)
    code = report.exit_code
    what = f"{report.title.removeprefix('tandem ')}: {report.headline}"
    for line in report.complaints or ([what] if code else []):
        print(f"tandem: {on_one_line(line)}", file=sys.stderr)
    if code:
        raise typer.Exit(code)


def _write_pages(report: Report, folder: Path | None, page: Path | None, also: Callable[[Path], object]) -> None:
    from tandem.reports.html.report_page import write_page, write_report_page

    if folder is not None:

        def write(place: Path) -> Path:
            html = write_report_page(place, report)
            also(place)
            return html

        write_into(folder, write)
    if page is not None:
        try:
            print(f"report: {write_page(page, report)}", file=sys.stderr)
        except OSError as error:
            raise ConfigError(f"--out {page}: cannot be written: {error.strerror}; a file such as car.html") from None


def print_report(console: Console, report: Report) -> None:
    """The sentence, the tables, the notes. Pictures are for the page."""
    for line in [f"{label}: {text}" for label, text in report.labelled] or [report.headline]:
        if line:
            _print(console, line, "bold")
    for section in report.sections:
        if section.on != "page":
            print_section(console, section)
    if report.notes and report.sections:
        console.print()
    for note in report.notes:
        print_line(console, note)


def print_section(console: Console, section: Section) -> None:
    parts = shown_parts(section, pictures=False)
    if not parts:
        return
    console.print()
    if section.title:
        _print(console, section.title, "bold")
    for line in section.lead.split("\n") if section.lead else ():
        console.print(_text(line))
    for k, part in enumerate(parts):
        if isinstance(part, Table):
            if k and isinstance(parts[k - 1], Table):
                console.print()
            print_table(console, part)
        else:
            print_line(console, part)


def print_table(console: Console, table: Table) -> None:
    rows = [[written(cell) for cell in row] for row in table.rows]
    grid = Grid(box=SIMPLE_HEAD, show_edge=False, show_header=any(table.headings))
    if table.title:
        _print(console, table.title)
    for k, heading in enumerate(table.headings):
        figures = is_figure([row[k].text for row in rows])
        grid.add_column(
            Text(visible(heading)), justify="right" if figures else "left", no_wrap=figures, overflow="fold"
        )
    for row in rows:
        grid.add_row(*(_text(cell.text, _STYLES[cell.grade]) for cell in row))
    console.print(grid)


def print_line(console: Console, line: Line) -> None:
    shown = written(line)
    _print(console, shown.text, _STYLES[shown.grade])


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(_text(text, style), soft_wrap=True)


def _text(text: str, style: str = "") -> Text:
    """What comes from a file is no markup, and stays on its line."""
    return Text(on_one_line(text), style)
