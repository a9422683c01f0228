"""Two settings of the live path, in turns: `python -m verify live-pairs --groups 'sim.rehearse=off' 'sim.rehearse=on'`.

Drives of configs/drive.toml, page and recorder with them, one with each of the two groups of settings (several keys of
a group are separated by spaces), again and again in turns: whatever else the computer does meets both alike. A bare
loop that only sleeps, at the same rate and priority and on the same core, runs beside each. From all records of a group
together: from the block taken to the result, how late steps start, the age at use, how old a block is when it can be
used, how steady results come, misses beside the bare loop's; and the time of rehearsals and of spinning.
"""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sync.config.config import load
from tandem.reports.round_trip import ROUND_TRIP
from verify import ROOT
from verify.measure import Printed, Result, figure, note
from verify.real_runs import Misses, run_beside_bare

_SETTLED = 400  # steps at the beginning that are left out: the lock is found, the last processes start
_QUANTILES = (50, 90, 99, 99.9)


def times_us(steps: np.ndarray, h_ns: int) -> dict[str, np.ndarray]:
    """What is measured of a drive, from its record."""
    steps = steps[_SETTLED:]
    there = np.maximum(steps["input_received_ns"], steps["input_pushed_ns"])
    result = np.diff(steps["pushed_ns"])
    return {
        "taken to result": (steps["pushed_ns"] - steps["taken_ns"]) / 1e3,
        "lateness": (steps["started_ns"] - steps["t_ns"]) / 1e3,
        "age at use": steps["input_age_ns"] / 1e3,
        "block's age when there": (there - steps["input_t_ns"]) / 1e3,
        "wait of the block": (steps["taken_ns"] - there) / 1e3,
        "wait for the block": (steps["taken_ns"] - steps["started_ns"]) / 1e3,
        "result after sampling": (steps["pushed_ns"] - steps["input_t_ns"]) / 1e3,
        "instants apart, off h": np.abs(np.diff(steps["t_ns"]) - h_ns) / 1e3,
        "results apart, off h": np.abs(result - h_ns) / 1e3,
    }


def counts(reports: list[dict[str, Any]], misses: list[Misses], h_ns: int) -> str:
    """Of all drives of a group together."""
    ours, bare, ended = (sum(getattr(each, name) for each in misses) for name in ("ours", "bare", "ended"))
    steps, waited, again = (sum(each[key] for each in reports) for key in ("steps", "waited_steps", "reused"))
    of = [each["rehearsal"] for each in reports]
    rehearsed, left, late, spun = (
        sum(each[key] for each in of) for key in ("rehearsed_steps", "not_rehearsed", "late_rehearsals", "spun_ns")
    )
    cost = np.median([each["us"]["p50"] for each in of])
    busy = sum(1e3 * each["us"]["mean"] * each["us"]["n"] for each in of)
    return (
        f"{steps} steps, {ours} woken more than a period late, of a bare loop beside them {bare}; {ended} ended late;"
        f" {waited} waited for their block, {again} had none\n   {rehearsed} rehearsed, {cost:.1f} us each (median),"
        f" {100 * busy / (steps * h_ns):.2f} % of the time, {left} not, {late} ended after the instant;"
        f" spun {100 * spun / (steps * h_ns):.2f} %"
    )


def live_pairs(
    *,
    groups: Annotated[tuple[str, ...], "of settings: KEY=VALUE, several separated by spaces; '' for none"],
    config: Path = ROOT / "configs" / "drive.toml",
    set: Annotated[tuple[str, ...], "KEY=VALUE, of all groups"] = (),
    rounds: int = 4,
    seconds: float = 15.0,
) -> Iterator[Result]:
    usual = ["name=live_pairs", "supervision.restart=false", *set]
    h_ns = load(config, usual).step_ns
    times: list[list[dict[str, np.ndarray]]] = [[] for _ in groups]
    reports: list[list[dict[str, Any]]] = [[] for _ in groups]
    misses: list[list[Misses]] = [[] for _ in groups]
    order = range(len(groups))
    for turn in range(rounds):
        for which in order if turn % 2 == 0 else reversed(order):
            with tempfile.TemporaryDirectory() as folder:
                settings = [*usual, *groups[which].split()]
                report, missed, steps = run_beside_bare(config, settings, seconds, folder)
            times[which].append(times_us(steps, h_ns))
            reports[which].append(report)
            misses[which].append(missed)
            note(f"{turn + 1}/{rounds} {groups[which]!r}: {len(steps)} steps")
    console = Console(width=160, file=io.StringIO())
    table = Table(title="us", title_justify="left", box=None)
    for heading in ("", "", "n", *(f"p{q}" for q in _QUANTILES), "max", "std"):
        table.add_column(heading, justify="right" if heading else "left")
    for name in times[0][0]:
        for which in order:
            all_of = np.concatenate([each[name] for each in times[which]])
            shown = [*np.percentile(all_of, _QUANTILES), all_of.max(), all_of.std()]
            table.add_row(name, str(which + 1), str(len(all_of)), *(f"{value:.1f}" for value in shown))
    for hop in ROUND_TRIP if reports[0][0]["effort"] else ():  # as reported: the median of the drives
        for which in order:
            of = [each["effort"]["round_trip_us"][hop] for each in reports[which]]
            shown = [float(np.median([each[key] for each in of])) for key in ("p50", "p90", "p99", "p999", "max")]
            count = str(sum(each["n"] for each in of))
            table.add_row(f"effort, {hop}", str(which + 1), count, *(f"{value:.1f}" for value in shown))
    console.print(table)
    yield Printed(console.file.getvalue())  # type: ignore[attr-defined]
    for which, group in enumerate(groups):
        yield figure(f"{which + 1}: {group or 'as configured'}", counts(reports[which], misses[which], h_ns))
