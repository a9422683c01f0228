"""The round trip of an effort through shared memory at 1 kHz, beside a bare loop: python -m benchmarks.round_trip

A drive with the single-track model, steps of 1 ms locked to samples of 1 kHz, and an effort on every step. The figures
are the DAQ's own: sample instant to the effort computed from it handed to the device, with and without the step's own
time, and each hop. Beside them what a loop of 1 ms that only sleeps is late by on the same machine, before and after.
"""

import argparse
import time
from pathlib import Path

from rich.console import Console

from tandem.baseline import bare_lateness
from tandem.live_run import checked_config, live_run
from tandem.report import ROUND_TRIP, figures, histogram_table

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "drive.toml")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="of samples, steps and efforts, Hz")
    parser.add_argument("--channel", default="steering_angle", help="the output that goes back")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args()
    effort = f"channel='{asked.channel}', gain=1.0, limit=1.0, slew=100.0, rate_hz={asked.rate}"
    settings = [
        "name=round_trip", 'transport.kind="shm"', f"daq.rate_hz={asked.rate}", f"sim.step_ms={1e3 / asked.rate}",
        'sim.phase="locked"', 'sim.machine="vehicles/buggy_single_track.toml"',
        "view.enabled=false", "supervision.restart=false", f"source.effort={{{effort}}}",
        *asked.set,
    ]  # fmt: skip
    console = Console()
    config = checked_config(asked.config, settings)
    before = bare_lateness(config, min(asked.seconds, 5.0))
    checked, outcome, _ = live_run(asked.config, settings, asked.seconds, "round trip", begun_at=time.monotonic())
    result = figures(checked, outcome)
    after = bare_lateness(config, min(asked.seconds, 5.0))
    if not result["effort"]:
        console.print(f"no efforts: {result['ended']}")
        return 1
    hops = result["effort"]["round_trip_us"]
    rows = {"bare loop, before": before, "bare loop, after": after}
    rows |= {title: hops[hop] for hop, title in ROUND_TRIP.items()}
    console.print(histogram_table(f"Round trip at {asked.rate:g} Hz through shared memory, us", rows))
    effort_counts = {k: v for k, v in result["effort"].items() if isinstance(v, int)}
    console.print(f"{result['steps']} steps, {result['deadline_misses']} missed, {result['skipped']} skipped")
    console.print(", ".join(f"{v} {k.replace('_', ' ')}" for k, v in effort_counts.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
