"""A report as a page: `report.html`, one file to look at, and `report.json`, the same figures for programs."""

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sync.files.private import make_folder, rewrite
from sync.record.utc import wall_clock
from tandem.reports.html.markup import Markup, joined, markup
from tandem.reports.html.page import document, json_ready
from tandem.reports.report import Line, Part, Report, Section, Table, bad, is_figure, shown_parts, written


def write_report_page(folder: Path, report: Report) -> Path:
    """Both files, into a folder which is made if need be; returns the page's path."""
    html = write_page(folder / "report.html", report)
    figures = report.data if report.stored is None else report.stored
    content = json_ready({"title": report.title, "headline": report.headline, **figures})
    rewrite(folder / "report.json", (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    return html


def write_page(file: Path, report: Report) -> Path:
    make_folder(file.parent)
    rewrite(file, report_page(report).encode())
    return file


def report_page(report: Report) -> str:
    headlines = [markup('<p class="headline"><b>{}:</b> {}</p>', *each) for each in report.labelled]
    headlines = headlines or [markup('<p class="headline">{}</p>', report.headline)]
    notes = _lines([*(bad(line) for line in report.complaints), *report.notes])
    kind = "many" if report.labelled else "one"
    header = markup('<header class="{}"><h1>{}</h1>{}{}</header>', kind, report.title, joined(headlines), notes)
    origin = f"Made by {_software()}, {wall_clock()[:16].replace('T', ' ')} UTC. The figures for programs: --json."
    foot = markup('<footer class="lead">{}</footer>', origin)
    shown = [
        _section(each) for each in report.sections if each.on != "terminal" and (shown_parts(each) or not each.parts)
    ]
    return document(report.title, [header, *shown, foot])


def _software() -> str:
    try:
        return f"tandem {version('tandem-realtime')}"
    except PackageNotFoundError:
        return "tandem"


def _section(section: Section) -> Markup:
    leads = joined(markup('<p class="lead">{}</p>', line) for line in section.lead.split("\n") if line)
    parts = joined(_part(part) for part in shown_parts(section))
    if not section.title:
        return parts
    return markup('<section id="{}"><h2>{}</h2>{}{}</section>', section.address, section.title, leads, parts)


def _part(part: Part) -> Markup:
    if isinstance(part, Table):
        return _table(part)
    return part if isinstance(part, Markup) else _lines([part])


def _lines(lines: Sequence[Line]) -> Markup:
    shown = (written(line) for line in lines)
    return joined(markup('<p class="note {}">{}</p>', each.grade, each.text) for each in shown)


def _table(table: Table) -> Markup:
    rows = [[written(cell) for cell in row] for row in table.rows]
    kinds = ["" if is_figure([row[k].text for row in rows]) else "text" for k in range(len(table.headings))]
    heads = [heading.replace("\n", ", ") for heading in table.headings]
    head = joined(markup('<th class="{}">{}</th>', kind, text) for kind, text in zip(kinds, heads, strict=True))
    body = joined(
        markup("<tr>{}</tr>", joined(
            markup('<td class="{}">{}</td>', f"{kind} {cell.grade}".strip(), cell.text)
            for kind, cell in zip(kinds, row, strict=True)
        ))
        for row in rows
    )  # fmt: skip
    title = markup("<h3>{}</h3>", table.title) if table.title else ""
    return markup(
        '{}<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>', title, head, body
    )
