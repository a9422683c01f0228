"""Whether stops of the loop are ours: drives interleaved with a bare loop that does nothing but sleep.

    python checks/stops.py --drives 20 --seconds 10
    python checks/stops.py --drives 20 --seconds 10 --cold

Both have the same period, priority and core, for the same time, in turn. A stop is a step (or a wake-up) that began
more than 2 ms after its instant, or several in a row. Steps are judged by what they recorded themselves: when each was
due (`t_ns`) and when it began (`started_ns`). Prints both counts; exit code 1 if the drives have more stops than the
bare loop and more than chance explains: if each stop came to either as likely, so many or more would be the drives'
less than once in twenty times (9 against 2, 5 against 0); or more than twice as many late steps and one a drive.

Beside them are the misses: steps that ended late or were given up, and wake-ups of the bare loop that came a period
late or more; judged in the same way. `--cold`: every drive is the first on a new machine, with an empty cache of
compiled code and of compiled Python; then also nothing may be compiled after its first step. Compiling takes a minute a
drive.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import sync  # noqa: E402, F401  (one thread for BLAS, before numpy is imported)

# isort: split
import numpy as np  # noqa: E402
from numba import int64, types  # noqa: E402

from checks.real_runs import more_than_chance  # noqa: E402
from sync.clock import now_ns, sleep_until  # noqa: E402
from sync.compile.array_types import WORDS  # noqa: E402
from sync.compile.jit import kernel  # noqa: E402
from sync.config.config import Config, load  # noqa: E402
from sync.process import realtime  # noqa: E402
from sync.record import open_run  # noqa: E402

CONFIG = ROOT / "configs" / "drive.toml"
_LIMIT_S = 600.0  # beside what a drive is asked to take: a first one compiles
_CLOCKS_S = 0.2  # that file dates and the time since the start of a process may be apart


@kernel(types.void(WORDS, int64))
def _wake_up(late, period_ns):
    """The lateness of every wake-up; instants that have passed meanwhile are left out."""
    planned = now_ns() + period_ns
    for k in range(late.size):
        sleep_until(planned)
        late[k] = now_ns() - planned
        planned += period_ns * (1 + max(late[k], 0) // period_ns)


def bare(config: Config, seconds: float) -> np.ndarray:
    late = np.zeros(round(seconds * 1e9 / config.step_ns), np.int64)

    def work() -> None:
        realtime.exact_sleep()
        if config.realtime.enabled:
            realtime.this_thread(config.realtime.sim_priority, realtime.cores(config.realtime)[1])
        _wake_up(late, config.step_ns)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return late


@dataclass(frozen=True)
class Driven:
    late: np.ndarray  # ns, of every step
    misses: int
    compiled_late: list[str]  # files of the cache that were written after the first step


def driven(name: str, seconds: float, settings: list[str], cold: bool) -> Driven:
    with tempfile.TemporaryDirectory() as folder:
        runs, cache = Path(folder) / "runs", Path(folder) / "cache"
        words = [word for setting in (f"name={name}", "view.port=0", *settings) for word in ("--set", setting)]
        command = [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", str(seconds), "--json"]
        empty = {"TANDEM_CACHE": str(cache), "PYTHONPYCACHEPREFIX": str(Path(folder) / "python")} if cold else {}
        began = time.time()  # noqa: TID251  (as files are dated)
        done = subprocess.run(
            [*command, "--runs", str(runs), *words], cwd=ROOT, env={**os.environ, **empty}, capture_output=True,
            text=True, check=False, timeout=_LIMIT_S + seconds,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"the drive ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
        figures = json.loads(done.stdout)
        steps = open_run(runs).topics["/step"].blocks
        first = began + figures["first_step_s"]
        code = [file for kind in ("*.nbc", "*.nbi") for file in cache.rglob(kind)]
        return Driven(
            np.asarray(steps["started_ns"].astype(np.int64) - steps["t_ns"].astype(np.int64)),
            figures["deadline_misses"] + figures["skipped"],
            sorted(file.name for file in code if file.stat().st_mtime > first + _CLOCKS_S),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drives", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--stop-ms", type=float, default=2.0)
    parser.add_argument("--cold", action="store_true", help="every drive with empty caches, as the first on a machine")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
    options = parser.parse_args()
    config = load(CONFIG, options.set)
    limit_ns = round(options.stop_ms * 1e6)
    totals = {"drive": 0, "bare loop": 0}
    affected, steps_late, misses = dict.fromkeys(totals, 0), dict.fromkeys(totals, 0), dict.fromkeys(totals, 0)
    compiled_late: list[str] = []
    for k in range(options.drives):
        drive = driven(f"stops_{os.getpid()}", options.seconds, options.set, options.cold)
        compiled_late += drive.compiled_late
        late = {"drive": drive.late, "bare loop": bare(config, options.seconds)}
        missed = {"drive": drive.misses, "bare loop": int((late["bare loop"] // config.step_ns).sum())}
        for what, lateness in late.items():
            late_ones = lateness > limit_ns
            stops = int(late_ones[0]) + int((late_ones[1:] & ~late_ones[:-1]).sum())
            totals[what] += stops
            steps_late[what] += int(late_ones.sum())
            affected[what] += stops > 0
            misses[what] += missed[what]
            print(
                f"{k + 1:3d}/{options.drives} {what:10s} {len(lateness):6d} wake-ups, {stops:3d} stops of more than"
                f" {options.stop_ms:g} ms, latest {lateness.max() / 1e6:.2f} ms, {missed[what]} misses",
                flush=True,
            )
    for what, total in totals.items():
        print(
            f"{what:10s} {total} stops in {affected[what]} of {options.drives}, {steps_late[what]} late in all,"
            f" {misses[what]} misses"
        )
    if compiled_late:
        print(f"compiled after the first step: {', '.join(compiled_late)}")
    # how many are late in one stop is not up to a coin
    return int(
        more_than_chance(totals["drive"], totals["bare loop"])
        or more_than_chance(misses["drive"], misses["bare loop"])
        or bool(compiled_late)
        or steps_late["drive"] > 2 * steps_late["bare loop"] + options.drives
    )


if __name__ == "__main__":
    sys.exit(main())
