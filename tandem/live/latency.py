"""`tandem latency`: the transfer per transport, with its yardsticks measured in the same run."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tandem.live.figures import HISTOGRAMS, figures, histogram_table
from tandem.live.run import checked_config, live_run
from tandem.reports.beside_source import SOURCE_MS_PER_LOOP, beside_source, source_section
from tandem.reports.html import RunData
from tandem.reports.outcome import verdict
from tandem.reports.report import Line, Report, Section, Table
from tandem.reports.run_report import run_report

# Two real crystals drift; clocks of one machine do not. With the DAQ's so far off a free run passes all phases.
_CRYSTAL_PPM = 300


def measure(
    file: Path, overrides: list[str], transports: tuple[str, ...], seconds: float, phase: bool, console: Console
) -> tuple[dict[str, Any], list[RunData], int]:
    """({"runs": […], "bare": {…}}, the steps of the runs, exit code). The bare figures are measured first."""
    from sync.config.config import forced_transport
    from tandem.doctor.baseline import bare_ipc, bare_lateness

    config = checked_config(file, overrides)
    with console.status(f"bare sleeping loop, {seconds:g} s"):
        lateness = bare_lateness(config, seconds)
    with console.status(f"bare ZeroMQ and msgpack over ipc, {seconds:g} s"):
        ipc = bare_ipc(config, seconds)
    runs, data, code = [], [], 0
    for transport in transports:
        for mode in ("free", "locked") if phase else (config.sim.phase,):
            settings = [*overrides, *forced_transport(transport), "sim.probe_rest_ms=0", f'sim.phase="{mode}"']
            settings += ["view.enabled=false", "supervision.restart=false"]  # no other process of ours may run
            if phase and "clock_ppm" not in config.source:
                settings.append(f"source.clock_ppm={_CRYSTAL_PPM}")
            label = f"{transport}, {mode}" if phase else transport
            checked, outcome, _ = live_run(file, settings, seconds, label, begun_at=time.monotonic())
            result = {**figures(checked, outcome), "label": label}
            runs.append(result)
            data.append(RunData(label, result, outcome.steps, tuple(checked.inputs)))
            code = code or verdict(result, outcome.failure, outcome.code).code
    return {"runs": runs, "bare": {"ipc_us": ipc, "lateness_us": lateness}}, data, code


def report(title: str, result: dict[str, Any], data: list[RunData], code: int) -> Report:
    bare, runs = result["bare"], result["runs"]
    rows = {"source, ms per loop": _constant(SOURCE_MS_PER_LOOP * 1e3), "bare ZeroMQ + msgpack, ipc": bare["ipc_us"]}
    rows |= {f"tandem, {run['label']}": run["transfer_us"] for run in runs}
    tables = [histogram_table("Transfer per loop, us", rows)]
    for key in ("age_us", "step_us", "lateness_us"):
        rows = {"bare sleeping loop": bare["lateness_us"]} if key == "lateness_us" else {}
        tables.append(
            histogram_table(f"{HISTOGRAMS[key].capitalize()}, us", rows | {run["label"]: run[key] for run in runs})
        )
    cells = []
    for run in runs:
        first = [run[k] for k in ("label", "seconds", "loops", "bytes", "blocks", "ms_per_loop", "steps")]
        count = run["balance"]
        cells.append([*first, run["deadline_misses"], *(count[k] for k in ("used", "superseded", "lost"))])
    headings = ("", "s", "loops", "bytes", "blocks", "ms/loop", "steps", "missed", "used", "superseded", "lost")
    tables.append(Table(headings, [[str(cell) for cell in row] for row in cells], "Loops and blocks"))
    printed = [Section(each.title, [replace(each, title="")], on="terminal") for each in tables]
    return run_report(
        title, data, bare, (source_section,), data=result, printed=[beside_source(runs[0]), *printed],
        notes=_free_and_locked(runs), code=code,
    )  # fmt: skip


def _free_and_locked(runs: list[dict[str, Any]]) -> list[Line]:
    free, locked = (
        [run["age_us"]["p50"] for run in runs if run["phase"].get("mode") == mode] for mode in ("free", "locked")
    )
    if not (free and locked):
        return []
    return [
        f"the DAQ's crystal was {_CRYSTAL_PPM} ppm off unless configured otherwise, as two real clocks drift",
        f"median age at use: {free[0]:.0f} us free, {locked[0]:.0f} us locked, {free[0] / locked[0]:.1f} times less",
    ]


def _constant(value: float) -> dict[str, Any]:
    return {"n": 5, **dict.fromkeys(("p50", "p90", "p99", "p999", "max"), value)}
