"""Tables for the terminal and a page for the browser."""

import math
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tandem.machines.car.studies.iso.result import Result, Row
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import curves, paths
from tandem.reports.html.sections import section, table
from tandem.reports.html.words import Raw, e

HEADINGS = ("quantity", "unit", "predicted", "simulated", "difference", "prediction")
CLOSE = 0.1


def figures(vehicle: Vehicle, results: list[Result], failed: Mapping[str, Exception]) -> dict[str, Any]:
    return {
        "vehicle": vehicle.name,
        "changed": vehicle.changed,
        "tests": [result.as_json() for result in results],
        "failed": {name: str(why) for name, why in failed.items()},
    }


def cells(row: Row) -> list[str]:
    difference = row.difference
    deviation = "" if difference is None else f"{100 * difference:+.1f} %"
    return [row.quantity, row.unit, _number(row.predicted), _number(row.simulated), deviation, row.by]


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "none"
    if value == 0 or abs(value) < 1e-9:
        return "0"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def print_results(console: Console, results: list[Result]) -> None:
    for result in results:
        console.print(f"\n[bold]{result.title}[/bold]\n{result.conditions}", highlight=False)
        shown = Table(box=SIMPLE_HEAD)
        for k, heading in enumerate(HEADINGS):
            shown.add_column(heading, justify="right" if k in (2, 3, 4) else "left", no_wrap=k in (2, 3, 4))
        for row in result.rows:
            shown.add_row(*(escape(cell) for cell in cells(row)))
        console.print(shown)
        for note in (*result.notes, _cost(result)):
            console.print(note, highlight=False)


def _cost(result: Result) -> str:
    capped = (
        f"{result.capped} of its steps ended at the limit of iterations" if result.capped else "every step converged"
    )
    found = result.step_error
    error = "not estimated" if found is None else f"estimated as {found:.1e} m at most"
    return f"{result.seconds:.0f} s simulated; {capped}; error of a step {error}"


def headline(vehicle: Vehicle, results: list[Result]) -> str:
    known = [abs(row.difference) for result in results for row in result.rows if row.difference is not None]
    if not known:
        return f"{vehicle.name}: " + "; ".join(result.conditions for result in results) + "."
    close = sum(d <= CLOSE for d in known)
    tests = f"{len(results)} test{'s' * (len(results) != 1)}"
    return f"{vehicle.name}, {tests}: {close} of {len(known)} predicted figures within {100 * CLOSE:.0f} % of theory."


def page_sections(results: list[Result]) -> list[str]:
    found = []
    for result in results:
        pictures = [
            paths(p.title, p.series, height=200) if p.plane else curves(p.title, p.series, x_label=p.x_label)
            for p in result.panels
        ]
        notes = Raw("".join(f"<p>{e(note)}</p>" for note in (*result.notes, _cost(result))))
        shown = table(HEADINGS, [cells(row) for row in result.rows], "beside")
        found.append(section(result.test, result.title, result.conditions, shown, notes, *pictures))
    return found
