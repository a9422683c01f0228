"""What a command found, for people and for programs, once: the terminal, the page, the JSON and the exit code are all
made from one `Report`.

A report is a sentence that says what came out; sections of tables, pictures and lines; notes; and `data`, the figures
for programs, whose keys are a promise. A cell of a table is a text, a number, or a verdict: True and False are written
"holds" and "DOES NOT HOLD", here and nowhere else, and a False is exit code 1 unless the report says otherwise. Texts
may come from files: rendering a report escapes them and keeps each on its line.

Renderers: tandem/console/present.py (terminal, JSON, exit code), tandem/reports/html/report_page.py (page).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tandem.reports.html.markup import Markup

Grade = Literal["", "good", "warn", "bad"]


@dataclass(frozen=True)
class Marked:
    """A text that says all is well, or that wants attention."""

    text: str
    grade: Grade


def good(text: str) -> Marked:
    return Marked(text, "good")


def warn(text: str) -> Marked:
    return Marked(text, "warn")


def bad(text: str) -> Marked:
    return Marked(text, "bad")


def inside(within: bool) -> Marked:
    """The verdict of a value beside a band of tolerance."""
    return good("inside") if within else bad("OUTSIDE")


Line = str | Marked
Cell = str | float | None | Marked  # of numbers four digits; a bool is a verdict; None a dash


@dataclass(frozen=True)
class Table:
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""


Part = Table | Markup | Line  # Markup: a picture


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Part] = ()
    lead: str = ""  # paragraphs, a line each
    on: Literal["both", "page", "terminal"] = "both"
    key: str = ""  # of the page's address; by default made of the title

    @property
    def address(self) -> str:
        return self.key or "".join(c if c.isalnum() else "-" for c in self.title.lower())


@dataclass(frozen=True)
class Report:
    title: str  # the command, with what it was given
    headline: str
    data: Any  # for programs: what `--json` prints
    sections: Sequence[Section] = ()
    notes: Sequence[Line] = ()
    complaints: Sequence[str] = ()  # why the exit code is not 0: on standard error too
    code: int | None = None  # of the exit; None: by the verdicts of the tables
    stored: Mapping[str, Any] | None = None  # what report.json has, where that is not `data`
    labelled: Sequence[tuple[str, str]] = ()  # a headline each, in place of the one, where several are compared

    @property
    def exit_code(self) -> int:
        if self.code is not None:
            return self.code
        tables = (part for each in self.sections for part in each.parts if isinstance(part, Table))
        return int(any(cell is False for table in tables for row in table.rows for cell in row))


Promised = tuple[str, str, str, bool | None]  # quantity, value, limit, whether it holds; None: nothing is promised


def checked(rows: Sequence[Promised]) -> Table:
    return Table(
        ("quantity", "value", "promised", "verdict"), [(*row, "" if holds is None else holds) for *row, holds in rows]
    )


def promised(rows: Sequence[Promised]) -> str:
    """A headline over these."""
    judged = [row for row in rows if row[3] is not None]
    broken = [f"{quantity}: {value}" if value else quantity for quantity, value, _, holds in judged if not holds]
    if broken:
        return f"{len(broken)} of {len(judged)} promises do not hold: {'; '.join(broken)}."
    return f"All {len(judged)} promises hold." if judged else "Nothing of this is promised."


def shown_parts(section: Section, pictures: bool = True) -> list[Part]:
    """Without tables that have no row: a section without any part is left out."""
    there = [part for part in section.parts if not isinstance(part, Table) or part.rows]
    return [part for part in there if pictures or not isinstance(part, Markup)]


def written(cell: Cell) -> Marked:
    """As it is shown anywhere."""
    if isinstance(cell, Marked):
        return cell
    if isinstance(cell, bool):
        return good("holds") if cell else bad("DOES NOT HOLD")
    return Marked(cell if isinstance(cell, str) else number(cell), "")


def number(value: float | None, form: str = ".4g") -> str:
    """A number, or a dash for none; zero has no sign."""
    if value is None or not math.isfinite(value):
        return "–"
    text = str(value) if isinstance(value, int) else f"{value:{form}}"
    return text.lstrip("+-") if not float(text.replace(",", "")) else text


def numbers(row: Mapping[str, Any], keys: Sequence[str], form: str = ".4g") -> list[str]:
    return [number(row.get(key), form) for key in keys]


_FIGURE = set("0123456789.,+-–±%e/×µ\u202f\u00a0 ")


def is_figure(column: Sequence[str]) -> bool:
    """Whether the cells of a column are figures, which stand right: digits, and a unit at most."""
    there = [text for text in column if text]
    return bool(there) and all(text == "–" or _figure(text) for text in there)


def _figure(text: str) -> bool:
    if text in ("none", "failed", "not reached", "inf"):
        return True
    first = text.replace("\u202f", "").replace("\u00a0", " ").split(" ")
    return len(first) <= 2 and any(c.isdigit() for c in first[0]) and set(first[0]) <= _FIGURE
