"""What a fleet came to, at the terminal and as a page: how many of each kind, the rows, the largest deviations."""

from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sync.visible import on_one_line
from tandem.ensembles.fleet import Fleet
from tandem.reports.html.sections import section, table

_MOST_ROWS = 1000
_LAST = ("record", "status", "note", "steps")
_PAGE_ONLY = (
    "recorded_steps", "missing_blocks", "damages", "differing_channels", "diverged_steps", "apart_rms", "yaw_rate_max",
)  # fmt: skip


def headline(fleet: Fleet) -> str:
    counts = ", ".join(f"{n} {status}" for status, n in fleet.results.counts().items())
    hours = float(np.nansum(fleet.results.figures["simulated_s"])) / 3600
    return f"{len(fleet.records)} records, {hours:.2f} h: {counts}."


def _cells(fleet: Fleet, k: int, names: list[str]) -> list[str]:
    numbers = [_number(fleet.columns[name][k]) for name in names]
    note = on_one_line(fleet.columns["note"][k]).replace(f"{fleet.records[k]}: ", "")
    return [
        fleet.columns["record"][k], fleet.results.status[k], str(int(fleet.results.steps[k])), *numbers,
        note,
    ]  # fmt: skip


def _number(value: Any) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "–"


def _shown(fleet: Fleet, without: tuple[str, ...] = ()) -> tuple[list[str], list[str], list[int]]:
    """Headings, columns of numbers, and the rows: those that need attention first."""
    names = [name for name in fleet.columns if name not in (*_LAST, *without)]
    units = fleet.results.units
    headings = ["record", "status", "steps", *(f"{name}, {units.get(name, '')}" for name in names), "note"]
    calm = ("identical", "ok")
    order = sorted(range(len(fleet.records)), key=lambda k: (fleet.results.status[k] in calm, k))
    return headings, names, order[:_MOST_ROWS]


def print_fleet(console: Console, fleet: Fleet, most: int = 40) -> None:
    console.print(headline(fleet), highlight=False, markup=False)
    headings, names, order = _shown(fleet, without=_PAGE_ONLY)
    shown = Table(box=SIMPLE_HEAD)
    for heading in headings:
        shown.add_column(heading)
    for k in order[:most]:
        shown.add_row(*(escape(cell) for cell in _cells(fleet, k, names)))
    console.print(shown)
    if len(fleet.records) > most:
        console.print(f"… and {len(fleet.records) - most} more in {fleet.out}", highlight=False, markup=False)


def page_sections(fleet: Fleet) -> list[str]:
    headings, names, order = _shown(fleet)
    rows = [_cells(fleet, k, names) for k in order]
    lead = f"{len(rows)} of {len(fleet.records)} records, those that are not as they should be first."
    return [section("records", "Records", lead, table(headings, rows, "beside"))]
