"""Hogs on every core: does the drive miss deadlines where a bare real-time loop does not?

Two loops of the same period, priority and core take turns: a compiled one that only sleeps (tandem/bare.py), and a
drive. Both first with the machine as it is, then with a busy process on every core that computes and one that streams
through memory, all of ordinary priority. Rounds alternate, so that what the host itself does to the machine meanwhile
meets both; a virtual machine whose host takes its cores away makes either late, and the bare loop says how much of it.

    python benchmarks/hogs.py [--seconds 60] [--rounds 3] [--json]

Seconds are of each of the four, in all. A miss of the bare loop is a wake-up more than a period late; of the drive, a
step that was not finished when the next was due. Exit code 1 if the drive with hogs misses deadlines in more rounds
than there are rounds in which the bare loop with hogs is half a period late, or the drive misses some without hogs:
so many are the host's own. Exit code 3 without permission for SCHED_FIFO: it would say nothing.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from sync.config import load  # noqa: E402
from sync.realtime import permitted  # noqa: E402
from sync.record import open_run  # noqa: E402

CONFIG = ROOT / "configs" / "drive.toml"
_STREAM_MB = 64


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
def hogs(wanted: bool) -> Iterator[None]:
    made = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if wanted else []
    herd = [made.Process(target=kind, args=(core,), daemon=True) for core in cores for kind in (compute, stream)]
    for hog in herd:
        hog.start()
    try:
        yield
    finally:
        for hog in herd:
            hog.terminate()
            hog.join()


def bare(seconds: float) -> dict[str, Any]:
    """In a process of its own, as the drive is."""
    program = (
        "import json, sys; from pathlib import Path; from sync.config import load; from tandem.bare import"
        " bare_lateness; print(json.dumps(bare_lateness(load(Path(sys.argv[1])), float(sys.argv[2]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(CONFIG), str(seconds)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    figures = json.loads(done.stdout)
    return {"misses": figures["deadline_misses"], "us": {k: figures[k] for k in ("p50", "p99", "p999", "max")}}


def drive(seconds: float, vehicle: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as runs:
        words = ["--set", f"name=hogs_{os.getpid()}", "--set", "view.enabled=false", "--set", f"sim.vehicle={vehicle}"]
        done = subprocess.run(
            [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", str(seconds), "--json", "--runs", runs,
             *words],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
        )  # fmt: skip
        result = json.loads(done.stdout)
        steps = open_run(Path(result["record"]["file"])).topics["/step"].blocks
    late = (steps["started_ns"] - steps["t_ns"]) * 1e-3
    p50, p99, p999 = np.percentile(late, [50, 99, 99.9])
    return {
        "misses": result["deadline_misses"],
        "us": {"p50": float(p50), "p99": float(p99), "p999": float(p999), "max": float(late.max())},
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rounds: dict[str, list[dict[str, Any]]] = {}
    drive(1.0, options.vehicle)  # whatever is compiled is compiled now
    for _ in range(options.rounds):
        for wanted in (False, True):
            with hogs(wanted):
                for who in ("bare", "drive"):
                    seconds = options.seconds / options.rounds
                    one = bare(seconds) if who == "bare" else drive(seconds, options.vehicle)
                    rounds.setdefault(f"{who}, {'hogs' if wanted else 'alone'}", []).append(one)
    half_us = load(CONFIG).step_ns * 0.5e-3
    missed = {what: sum(one["misses"] > 0 for one in all_of_it) for what, all_of_it in rounds.items()}
    late = sum(one["us"]["max"] > half_us for one in rounds["bare, hogs"])
    allowed = max(late, missed["drive, alone"])
    found: dict[str, Any] = {
        what: {
            "misses": [one["misses"] for one in all_of_it],
            **{f"{key}_us": round(max(one["us"][key] for one in all_of_it), 1) for key in all_of_it[0]["us"]},
        }
        for what, all_of_it in rounds.items()
    }
    return {"found": found, "rounds_missed": missed, "allowed": allowed, "broken": missed["drive, hogs"] > allowed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of the four")
    parser.add_argument("--rounds", type=int, default=3, help="that these are divided into")
    parser.add_argument("--vehicle", default="vehicles/buggy.toml")
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    options = parser.parse_args()
    if not permitted(load(CONFIG).realtime.sim_priority):
        print("SCHED_FIFO is not permitted here: nothing to compare", file=sys.stderr)
        return 3
    result = measure(options)
    if options.json:
        print(json.dumps(result))
        return int(result["broken"])
    for what, f in result["found"].items():
        print(
            f"{what:>12}: misses {f['misses']}; late by {f['p50_us']} us (median), {f['p99_us']} us (p99),"
            f" {f['p999_us']} us (p99.9), at most {f['max_us']} us, each in the worst round"
        )
    print(
        f"rounds in which the drive missed deadlines with hogs: {result['rounds_missed']['drive, hogs']};"
        f" the host's own: {result['allowed']}"
    )
    return int(result["broken"])


if __name__ == "__main__":
    sys.exit(main())
