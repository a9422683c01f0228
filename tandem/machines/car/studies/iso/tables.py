"""Manoeuvres as a report: what was predicted beside what was simulated."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sync.errors import TandemError
from tandem.machines.car.studies.iso.result import Result, Row
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import curves, paths
from tandem.reports.report import Part, Report, Section, Table

HEADINGS = ("quantity", "unit", "predicted", "simulated", "difference", "prediction")
CLOSE = 0.1


def _figures(vehicle: Vehicle, results: list[Result], failed: Mapping[str, Exception]) -> dict[str, Any]:
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


def _cost(result: Result) -> str:
    capped = (
        f"{result.capped} of its steps ended at the limit of iterations" if result.capped else "every step converged"
    )
    found = result.step_error
    error = "not estimated" if found is None else f"estimated as {found:.1e} m at most"
    return f"{result.seconds:.0f} s simulated; {capped}; error of a step {error}"


def _headline(vehicle: Vehicle, results: list[Result]) -> str:
    known = [abs(row.difference) for result in results for row in result.rows if row.difference is not None]
    if not results:
        return f"{vehicle.name}: no test could be driven."
    if not known:
        return f"{vehicle.name}: " + "; ".join(result.conditions for result in results) + "."
    close = sum(d <= CLOSE for d in known)
    tests = f"{len(results)} test{'s' * (len(results) != 1)}"
    return f"{vehicle.name}, {tests}: {close} of {len(known)} predicted figures within {100 * CLOSE:.0f} % of theory."


def report(
    command: str,
    vehicle: Vehicle,
    results: list[Result],
    failed: Mapping[str, TandemError] | None = None,
    complaints: Sequence[str] = (),
    lead: bool = False,
) -> Report:
    """`lead`: the headline is what the first study was about, rather than how many predictions were close."""
    failed = failed or {}
    text = f"{vehicle.name}: {results[0].conditions}." if lead else _headline(vehicle, results)
    why = [f"{name}: {error}" for name, error in failed.items()] + list(complaints)
    code = max((error.code for error in failed.values()), default=int(bool(complaints)))
    sections = [_section(result) for result in results]
    return Report(f"tandem {command}", text, _figures(vehicle, results, failed), sections, complaints=why, code=code)


def _section(result: Result) -> Section:
    pictures = [
        paths(p.title, p.series, height=200) if p.plane else curves(p.title, p.series, x_label=p.x_label)
        for p in result.panels
    ]
    parts: list[Part] = [Table(HEADINGS, [cells(row) for row in result.rows]), *result.notes, _cost(result), *pictures]
    return Section(result.title, parts, result.conditions, key=result.test)
