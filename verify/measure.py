"""What a promise's function yields: rows, each a quantity with its value, limit and verdict; or text as others print
it.

`at_most`, `at_least`, `equal` and `holds` make rows that are judged; `figure` makes a row without a promise. `note`
reports on standard error how far a measurement is. A measurement that is impossible here raises `NotHere`.
"""

import io
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tandem.console.present import print_report
from tandem.reports.html.report_page import write_report_page
from tandem.reports.report import Report


class NotHere(Exception):
    """Why a promise cannot be measured on this machine, or with these options."""


@dataclass(frozen=True)
class Row:
    quantity: str
    value: float | str
    unit: str = ""
    limit: str = ""
    held: bool | None = None  # None: nothing is promised

    @property
    def verdict(self) -> str:
        return {None: "", True: "held", False: "MISSED"}[self.held]

    @property
    def shown(self) -> str:
        return self.value if isinstance(self.value, str) else number(self.value)


@dataclass(frozen=True)
class Printed:
    """Text for a page, unchanged: a table of many columns, or what a command of tandem prints."""

    text: str


Result = Row | Printed


def number(value: float) -> str:
    """A number with four digits; whole numbers unchanged."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def figure(quantity: str, value: Any, unit: str = "") -> Row:
    return Row(quantity, value if isinstance(value, str) else float(value), unit)


def at_most(quantity: str, value: float, limit: float, unit: str = "") -> Row:
    return Row(quantity, float(value), unit, f"<= {number(float(limit))}", bool(value <= limit))


def at_least(quantity: str, value: float, limit: float, unit: str = "") -> Row:
    return Row(quantity, float(value), unit, f">= {number(float(limit))}", bool(value >= limit))


def equal(quantity: str, value: float, expected: float, unit: str = "") -> Row:
    return Row(quantity, float(value), unit, f"= {number(float(expected))}", bool(value == expected))


def holds(quantity: str, held: Any, found: Any = "", limit: str = "") -> Row:
    """A promise in words; `found` says what was seen."""
    return Row(quantity, str(found) or ("yes" if held else "no"), "", limit, bool(held))


def reported(report: Report, folder: Path | None = None) -> Printed:
    """A report as the terminal shows it; if a folder is named, its page and figures are written there."""
    if folder is not None:
        note(f"report: {write_report_page(folder, report)}")
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        print_report(console, report)
    return Printed(captured.get())


def note(text: str) -> None:
    print(f"verify: {text}", file=sys.stderr, flush=True)
