"""Busy processes on every core: does the drive miss deadlines where a bare real-time loop does not?

Two loops of the same period, priority and core take turns: a compiled one that only sleeps (tandem/doctor/baseline.py),
and a drive. Both first with the machine as it is, then with a busy process on every core that computes and one that
streams through memory, all of ordinary priority. Rounds alternate, so that what the host itself does to the machine
meanwhile meets both; a virtual machine whose host takes its cores away makes either late, and the bare loop says how
much of it.

Seconds are of each of the four, in all. A miss of the drive is a step that was not finished when the next was due. The
bare loop has nothing to finish, so the drive's own cost is taken off its time: it misses when it wakes up later than a
period less the 99.9th percentile of what a step of the drive costs (under load; at most half a period: steps slower
than that are the drive's own), and once more for every further period.

The drive under load may miss as many deadlines, in all rounds together, as the bare loop under load and 2 in 10 000
steps more: so much is chance between two things measured one after the other. If the bare loop under load misses in
most rounds the machine itself stops it, and the figures mean nothing for the drive; nor do they without permission for
SCHED_FIFO.
"""

import contextlib
import math
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sync.config.config import load
from sync.process.realtime import permitted
from sync.record import open_run
from sync.ring.ledger import BUCKETS, middle, summary_us
from tandem.doctor.baseline import BareLoop
from verify import ROOT
from verify.measure import NotHere, Row, at_most, figure
from verify.real_runs import options, tandem

CONFIG = ROOT / "configs" / "drive.toml"
_STREAM_MB = 64
_CHANCE = 2e-4  # misses a step


def compute(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        sum(range(100_000))


def stream(core: int) -> None:
    os.sched_setaffinity(0, {core})
    one, other = np.ones(_STREAM_MB << 17), np.ones(_STREAM_MB << 17)
    while True:
        np.copyto(one, other)
        np.copyto(other, one)


@contextlib.contextmanager
def load_on_all_cores(wanted: bool) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if wanted else []
    processes = [spawn.Process(target=kind, args=(core,), daemon=True) for core in cores for kind in (compute, stream)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def bare(seconds: float) -> dict[str, Any]:
    config = load(CONFIG)
    with BareLoop(config, seconds, catch_up=0) as loop:
        loop.wait()
    figures = summary_us(loop.hist)
    late = [(int(middle(k)), int(loop.hist[k])) for k in np.flatnonzero(loop.hist[:BUCKETS])]
    return {"late_ns": late, "us": {k: figures[k] for k in ("p50", "p99", "p999", "max")}}


def bare_misses(late: list[tuple[int, int]], period_ns: int, cost_ns: float) -> int:
    """A drive that wakes up so late, and catches up, misses so many; of lateness in ns and how often."""
    return sum(
        often * math.ceil((ns + cost_ns - period_ns) / period_ns) for ns, often in late if ns + cost_ns > period_ns
    )


def drive(seconds: float, vehicle: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as runs:
        settings = [f"name=load_{os.getpid()}", "view.enabled=false", f"sim.machine={vehicle}"]
        result = tandem("drive", str(CONFIG), "--seconds", str(seconds), "--runs", runs, *options(settings))
        steps = open_run(Path(result["record"]["file"])).topics["/step"].blocks
    late = (steps["started_ns"] - steps["t_ns"]) * 1e-3
    p50, p99, p999 = np.percentile(late, [50, 99, 99.9])
    return {
        "misses": result["deadline_misses"],
        "steps": len(late),
        "cost_us": result["step_us"]["p999"],
        "us": {"p50": float(p50), "p99": float(p99), "p999": float(p999), "max": float(late.max())},
    }


def cpu_load(
    *,
    seconds: Annotated[float, "of each of the four"] = 24.0,
    rounds: Annotated[int, "that these are divided into"] = 3,
    vehicle: str = "vehicles/buggy.toml",
) -> Iterator[Row]:
    if not permitted(load(CONFIG).realtime.sim_priority):
        raise NotHere("SCHED_FIFO is not permitted: nothing to compare")
    of: dict[str, list[dict[str, Any]]] = {}
    drive(1.0, vehicle)  # whatever is compiled is compiled now
    for _ in range(rounds):
        for wanted in (False, True):
            with load_on_all_cores(wanted):
                for who in ("bare", "drive"):
                    one = bare(seconds / rounds) if who == "bare" else drive(seconds / rounds, vehicle)
                    of.setdefault(f"{who}, {'loaded' if wanted else 'alone'}", []).append(one)
    period_ns = load(CONFIG).step_ns
    cost_us = min(max(one["cost_us"] for one in of["drive, loaded"]), 0.5e-3 * period_ns)
    for what in ("bare, alone", "bare, loaded"):
        for one in of[what]:
            one["misses"] = bare_misses(one.pop("late_ns"), period_ns, 1e3 * cost_us)
    for what, each in of.items():
        for key in ("p50", "p99", "p999", "max"):
            yield figure(f"{what}: late, {key}, worst round", max(one["us"][key] for one in each), "us")
        yield figure(f"{what}: misses, by round", ", ".join(str(one["misses"]) for one in each))
    yield figure("a step, p99.9 under load, which is taken off the bare loop's time", cost_us, "us")
    drives, bares = of["drive, loaded"], of["bare, loaded"]
    if 2 * sum(one["misses"] > 0 for one in bares) > len(bares):
        raise NotHere("the machine itself stops the bare loop")
    chance = math.ceil(_CHANCE * sum(one["steps"] for one in drives))
    allowed = sum(one["misses"] for one in bares) + chance
    yield at_most("misses of the drive under load", sum(one["misses"] for one in drives), allowed)
