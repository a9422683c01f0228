"""The round trip of an effort through shared memory, beside a bare loop.

A run of mass_spring, its steps locked to its samples, with an effort on every step. The figures are the DAQ's own:
sample instant to the effort computed from it handed to the device, with and without the step's own time, and each hop.
Beside it, at the same time, a loop at the same rate that only sleeps: what it misses, no loop of ours can better.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from tandem.reports.round_trip import ROUND_TRIP
from verify import CONFIGS
from verify.measure import Row, equal, figure
from verify.real_runs import run_beside_bare


def round_trip(
    *,
    config: Path = CONFIGS / "mass_spring.toml",
    seconds: float = 20.0,
    rate: Annotated[float, "of samples, steps and efforts, Hz"] = 1000.0,
    channel: Annotated[str, "the output that goes back, where the configuration has no effort"] = "",
    set: Annotated[tuple[str, ...], "KEY=VALUE: override a setting"] = (),
) -> Iterator[Row]:
    settings = [
        "name=round_trip", 'transport.kind="shm"', f"daq.rate_hz={rate}", f"sim.step_ms={1e3 / rate}",
        'sim.phase="locked"', "view.enabled=false", "supervision.restart=false",
    ]  # fmt: skip
    if channel:
        settings.append(f"source.effort={{channel='{channel}', gain=1.0, limit=1.0, slew=100.0}}")
    settings += [f"source.effort.rate_hz={rate}", *set]
    with tempfile.TemporaryDirectory() as folder:
        result, misses, _ = run_beside_bare(config, settings, seconds, folder)
    for hop, title in ROUND_TRIP.items():
        for quantile in ("p50", "p99", "p999", "max"):
            yield figure(f"{title}: {quantile}", result["effort"]["round_trip_us"][hop][quantile], "us")
    for key, value in result["effort"].items():
        if isinstance(value, int):
            yield figure(f"efforts: {key.replace('_', ' ')}", value)
    yield equal(f"blocks lost, of {result['steps']} steps", result["balance"]["lost"], 0)
    yield misses.row
