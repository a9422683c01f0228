"""The round trip of an effort through shared memory, beside a bare loop: python -m verify.speed.round_trip [--rate
5000]

A run of mass_spring, its steps locked to its samples, with an effort on every step. The figures are the DAQ's own:
sample instant to the effort computed from it handed to the device, with and without the step's own time, and each hop.
Beside them a loop at the same rate that only sleeps, on the same machine, for half the time before and half after: what
it is late by, and how often it misses, which no loop of ours can better.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tandem.doctor.baseline import bare_lateness
from tandem.live.figures import figures, histogram_table
from tandem.live.run import checked_config, live_run
from tandem.reports.round_trip import ROUND_TRIP
from verify import ROOT


def counts(before: dict[str, Any], result: dict[str, Any], after: dict[str, Any]) -> tuple[Table, str]:
    """Steps, lost, missed and skipped beside a bare loop's, and what of it is beyond that."""
    table = Table(title="Beside a loop that only sleeps", title_justify="left")
    for heading in ("", "steps", "lost", "missed", "skipped"):
        table.add_column(heading, justify="right" if heading else "left")
    lost = result["balance"]["lost"]
    row = (result["steps"], lost, result["deadline_misses"], result["skipped"])
    table.add_row("bare loop, before", str(before["n"]), "", str(before["deadline_misses"]), "")
    table.add_row("tandem", *map(str, row))
    table.add_row("bare loop, after", str(after["n"]), "", str(after["deadline_misses"]), "")
    bare = before["deadline_misses"] + after["deadline_misses"]
    beyond = max(result["deadline_misses"] - bare, 0)
    return table, f"{result['steps']} steps: {lost} lost, {beyond} missed beyond a bare loop's {bare}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "mass_spring.toml")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="of samples, steps and efforts, Hz")
    parser.add_argument("--channel", help="the output that goes back, where the configuration has no effort")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args()
    settings = [
        "name=round_trip", 'transport.kind="shm"', f"daq.rate_hz={asked.rate}", f"sim.step_ms={1e3 / asked.rate}",
        'sim.phase="locked"', "view.enabled=false", "supervision.restart=false",
    ]  # fmt: skip
    if asked.channel:
        settings.append(f"source.effort={{channel='{asked.channel}', gain=1.0, limit=1.0, slew=100.0}}")
    settings += [f"source.effort.rate_hz={asked.rate}", *asked.set]
    console = Console()
    config = checked_config(asked.config, settings)
    before = bare_lateness(config, asked.seconds / 2)
    checked, outcome, _ = live_run(asked.config, settings, asked.seconds, "round trip", begun_at=time.monotonic())
    result = figures(checked, outcome)
    after = bare_lateness(config, asked.seconds / 2)
    if not result["effort"]:
        console.print(f"no efforts: {result['ended']}")
        return 1
    hops = result["effort"]["round_trip_us"]
    rows = {"bare loop, before": before, "bare loop, after": after}
    rows |= {title: hops[hop] for hop, title in ROUND_TRIP.items()}
    console.print(histogram_table(f"Round trip at {asked.rate:g} Hz through shared memory, us", rows))
    effort_counts = {k: v for k, v in result["effort"].items() if isinstance(v, int)}
    console.print(", ".join(f"{v} {k.replace('_', ' ')}" for k, v in effort_counts.items()))
    table, verdict = counts(before, result, after)
    console.print(table)
    console.print(verdict)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
