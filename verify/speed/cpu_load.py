"""Busy processes on every core: does the drive miss deadlines where a bare real-time loop does not?

Two loops of the same period, priority and core take turns: a compiled one that only sleeps (tandem/doctor/baseline.py),
and a drive. Both first with the machine as it is, then with a busy process on every core that computes and one that
streams through memory, all of ordinary priority. Rounds alternate, so that what the host itself does to the machine
meanwhile meets both; a virtual machine whose host takes its cores away makes either late, and the bare loop says how
much of it.

    python -m verify.speed.cpu_load [--seconds 24] [--rounds 3] [--json]

Seconds are of each of the four, in all. A miss of the drive is a step that was not finished when the next was due. The
bare loop has nothing to finish, so the drive's own cost is taken off its time: it misses when it wakes up later than a
period less the 99.9th percentile of what a step of the drive costs (under load; at most half a period: steps slower
than that are the drive's own), and once more for every further period.

Exit code 1 if the drive under load misses more deadlines, in all rounds together, than the bare loop under load and 2
in 10 000 steps: so much is chance between two things measured one after the other. Exit code 2 if the bare loop under
load misses in most rounds: the machine itself stops it, and the figures mean nothing for the drive. Exit code 3
without permission for SCHED_FIFO: they would mean nothing either.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sync.config.config import load
from sync.process.realtime import cores, permitted, this_thread
from sync.record import open_run
from sync.ring.ledger import BUCKETS, histogram, middle, summary_us
from tandem.doctor.baseline import sleep_and_measure
from verify import ROOT

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
    made = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if wanted else []
    processes = [made.Process(target=kind, args=(core,), daemon=True) for core in cores for kind in (compute, stream)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def bare(seconds: float) -> dict[str, Any]:
    """In a process of its own, as the drive is."""
    done = subprocess.run(
        [sys.executable, "-m", "verify.speed.cpu_load", "--bare", str(seconds)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout))


def be_bare(seconds: float) -> dict[str, Any]:
    config, hist = load(CONFIG), histogram()

    def work() -> None:
        this_thread(config.realtime.sim_priority, cores(config.realtime)[1])
        sleep_and_measure(hist, config.step_ns, round(seconds * 1e9 / config.step_ns))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    figures = summary_us(hist)
    late = [(int(middle(k)), int(hist[k])) for k in np.flatnonzero(hist[:BUCKETS])]
    return {"late_ns": late, "us": {k: figures[k] for k in ("p50", "p99", "p999", "max")}}


def bare_misses(late: list[tuple[int, int]], period_ns: int, cost_ns: float) -> int:
    """A drive that wakes up so late, and catches up, misses so many; of lateness in ns and how often."""
    return sum(
        often * math.ceil((ns + cost_ns - period_ns) / period_ns) for ns, often in late if ns + cost_ns > period_ns
    )


def drive(seconds: float, vehicle: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as runs:
        words = ["--set", f"name=load_{os.getpid()}", "--set", "view.enabled=false", "--set", f"sim.machine={vehicle}"]
        done = subprocess.run(
            [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", str(seconds), "--json", "--runs", runs,
             *words],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"the drive ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
        result = json.loads(done.stdout)
        steps = open_run(Path(result["record"]["file"])).topics["/step"].blocks
    late = (steps["started_ns"] - steps["t_ns"]) * 1e-3
    p50, p99, p999 = np.percentile(late, [50, 99, 99.9])
    return {
        "misses": result["deadline_misses"],
        "steps": len(late),
        "cost_us": result["step_us"]["p999"],
        "us": {"p50": float(p50), "p99": float(p99), "p999": float(p999), "max": float(late.max())},
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rounds: dict[str, list[dict[str, Any]]] = {}
    drive(1.0, options.vehicle)  # whatever is compiled is compiled now
    for _ in range(options.rounds):
        for wanted in (False, True):
            with load_on_all_cores(wanted):
                for who in ("bare", "drive"):
                    seconds = options.seconds / options.rounds
                    one = bare(seconds) if who == "bare" else drive(seconds, options.vehicle)
                    rounds.setdefault(f"{who}, {'loaded' if wanted else 'alone'}", []).append(one)
    period_ns = load(CONFIG).step_ns
    cost_us = min(max(one["cost_us"] for one in rounds["drive, loaded"]), 0.5e-3 * period_ns)
    for what in ("bare, alone", "bare, loaded"):
        for one in rounds[what]:
            one["misses"] = bare_misses(one.pop("late_ns"), period_ns, 1e3 * cost_us)
    found: dict[str, Any] = {
        what: {
            "misses": [one["misses"] for one in all_of_it],
            **{f"{key}_us": round(max(one["us"][key] for one in all_of_it), 1) for key in all_of_it[0]["us"]},
        }
        for what, all_of_it in rounds.items()
    }
    drives, bares = rounds["drive, loaded"], rounds["bare, loaded"]
    chance = math.ceil(_CHANCE * sum(one["steps"] for one in drives))
    misses = sum(one["misses"] for one in drives)
    allowed = sum(one["misses"] for one in bares) + chance
    nothing = 2 * sum(one["misses"] > 0 for one in bares) > len(bares)
    return {
        "found": found, "cost_us": cost_us, "misses": misses, "allowed": allowed, "chance": chance,
        "code": 2 if nothing else int(misses > allowed),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=24.0, help="of each of the four")
    parser.add_argument("--rounds", type=int, default=3, help="that these are divided into")
    parser.add_argument("--vehicle", default="vehicles/buggy.toml")
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    parser.add_argument("--bare", type=float, metavar="SECONDS", help="be the bare loop, and nothing else")
    options = parser.parse_args()
    if options.bare:
        print(json.dumps(be_bare(options.bare)))
        return 0
    if not permitted(load(CONFIG).realtime.sim_priority):
        print("SCHED_FIFO is not permitted here: nothing to compare", file=sys.stderr)
        return 3
    result = measure(options)
    code: int = result["code"]
    if options.json:
        print(json.dumps(result))
        return code
    for what, f in result["found"].items():
        print(
            f"{what:>12}: misses {f['misses']}; late by {f['p50_us']} us (median), {f['p99_us']} us (p99),"
            f" {f['p999_us']} us (p99.9), at most {f['max_us']} us, each in the worst round"
        )
    print(
        f"a step costs {result['cost_us']:.1f} us (p99.9, worst round under load), and so much less has the bare loop;"
        f" misses of the drive under load: {result['misses']}, at most {result['allowed']} are right"
        f" ({result['chance']} for chance)"
    )
    if code == 2:
        print("no result: the machine itself stops the bare loop")
    return code


if __name__ == "__main__":
    sys.exit(main())
