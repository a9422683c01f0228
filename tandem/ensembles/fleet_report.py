"""What a fleet came to: how many of each kind, the rows, the largest deviations."""

import numpy as np

from sync.files.consent import ConsentMissing
from sync.visible import on_one_line
from tandem.ensembles.fleet import NO_CONSENT, Fleet
from tandem.reports.report import Part, Report, Section, Table, number

_MOST_ROWS = 1000
_LAST = ("record", "status", "note", "steps")
_PAGE_ONLY = (
    "recorded_steps", "missing_blocks", "damages", "differing_channels", "diverged_steps", "apart_rms", "yaw_rate_max",
)  # fmt: skip


def _headline(fleet: Fleet) -> str:
    counts = ", ".join(f"{n} {status}" for status, n in fleet.results.counts().items())
    hours = float(np.nansum(fleet.results.figures["simulated_s"])) / 3600
    return f"{len(fleet.records)} records, {hours:.2f} h: {counts}."


def _cells(fleet: Fleet, k: int, names: list[str]) -> list[str]:
    numbers = [number(fleet.columns[name][k]) for name in names]
    note = on_one_line(fleet.columns["note"][k]).replace(f"{fleet.records[k]}: ", "")
    return [
        fleet.columns["record"][k], fleet.results.status[k], str(int(fleet.results.steps[k])), *numbers,
        note,
    ]  # fmt: skip


def _shown(fleet: Fleet, without: tuple[str, ...] = ()) -> tuple[list[str], list[str], list[int]]:
    """Headings, columns of numbers, and the rows: those that need attention first."""
    names = [name for name in fleet.columns if name not in (*_LAST, *without)]
    units = fleet.results.units
    headings = ["record", "status", "steps", *(f"{name}, {units.get(name, '')}" for name in names), "note"]
    calm = ("identical", "ok")
    order = sorted(range(len(fleet.records)), key=lambda k: (fleet.results.status[k] in calm, k))
    return headings, names, order[:_MOST_ROWS]


def report(fleet: Fleet, most: int = 40) -> Report:
    """At the terminal the first records and the usual columns, on the page more of both."""
    headings, names, order = _shown(fleet, without=_PAGE_ONLY)
    brief: list[Part] = [Table(headings, [_cells(fleet, k, names) for k in order[:most]])]
    if len(fleet.records) > most:
        brief.append(f"… and {len(fleet.records) - most} more in {fleet.out}")
    headings, names, order = _shown(fleet)
    lead = f"{len(order)} of {len(fleet.records)} records, those that are not as they should be first."
    whole = Section("Records", [Table(headings, [_cells(fleet, k, names) for k in order])], lead, "page")
    code = 0 if fleet.sound else 1
    if not code and NO_CONSENT in fleet.results.counts():
        code = ConsentMissing.code
    sections = [Section("", brief, on="terminal"), whole]
    return Report(f"tandem fleet {fleet.folder.name}", _headline(fleet), fleet.summary(), sections, code=code)
