"""Whether stops of the loop are ours: drives interleaved with a bare loop that does nothing but sleep.

    python -m verify stops --drives 20 --seconds 10
    python -m verify stops --drives 20 --seconds 10 --cold

Both have the same period, priority and core, for the same time, in turn. A stop is a step (or a wake-up) that began
more than 2 ms after its instant, or several in a row. Steps are judged by what they recorded themselves: when each was
due (`t_ns`) and when it began (`started_ns`). Prints both counts; exit code 1 if the drives have more stops than the
bare loop and more than chance explains: if each stop came to either as likely, so many or more would be the drives'
less than once in twenty times (9 against 2, 5 against 0); or more than twice as many late steps and one a drive.

A host that takes a core away stops whatever runs there. Meanwhile a witness therefore wakes up on every core each half
millisecond, above all other priorities, and does nothing else: what stands still with it is the host's, counted and
not judged.

Beside them are the misses: steps that ended late or were given up, and wake-ups of the bare loop that came a period
late or more; judged in the same way. `--cold`: every drive is the first on a new machine, with an empty cache of
compiled code and of compiled Python; then also nothing may be compiled after its first step. Compiling takes a minute a
drive.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numba import int64, types

from sim_service.step_record import MISSED, SKIPPED
from sync.clock import now_ns, sleep_until
from sync.compile.array_types import WORDS
from sync.compile.jit import kernel
from sync.config.config import Config, load
from sync.process import realtime
from sync.record import open_run
from verify import ROOT
from verify.measure import Row, at_most, equal, figure, holds, note
from verify.real_runs import more_than_chance

CONFIG = ROOT / "configs" / "drive.toml"
_LIMIT_S = 600.0  # beside what a drive is asked to take: a first one compiles
_CLOCKS_S = 0.2  # that file dates and the time since the start of a process may be apart


@kernel(types.void(WORDS, WORDS, int64))
def _wake_up(instants, late, period_ns):
    """The lateness of every wake-up; instants that have passed meanwhile are left out."""
    planned = now_ns() + period_ns
    for k in range(late.size):
        sleep_until(planned)
        instants[k], late[k] = planned, now_ns() - planned
        planned += period_ns * (1 + max(late[k], 0) // period_ns)


@kernel(types.void(WORDS, WORDS, WORDS, int64, int64))
def _witness(begins, ends, control, period_ns, least_ns):
    """The spans in which this thread did not wake up when it should have; until control[0]. control[1]: how many."""
    planned = now_ns() + period_ns
    while control[0] == 0:
        sleep_until(planned)
        now = now_ns()
        if now - planned > least_ns and control[1] < begins.size:
            begins[control[1]], ends[control[1]] = planned - period_ns, now
            control[1] += 1
        planned = max(planned, now) + period_ns


class Witness:
    """Whatever stops all of a core, on every core, while it is open."""

    _PERIOD_NS, _LEAST_NS = 500_000, 500_000
    _MOST = 100_000

    def __enter__(self) -> "Witness":
        self._spans = []
        self._threads = []
        for core in sorted(os.sched_getaffinity(0)):
            arrays = (np.zeros(self._MOST, np.int64), np.zeros(self._MOST, np.int64), np.zeros(2, np.int64))
            self._spans.append(arrays)
            self._threads.append(threading.Thread(target=self._work, args=(core, *arrays)))
            self._threads[-1].start()
        return self

    def _work(self, core: int, begins: np.ndarray, ends: np.ndarray, control: np.ndarray) -> None:
        realtime.exact_sleep()
        realtime.this_thread(os.sched_get_priority_max(os.SCHED_FIFO) - 1, core)
        _witness(begins, ends, control, self._PERIOD_NS, self._LEAST_NS)

    def __exit__(self, *_: object) -> None:
        for _begins, _ends, control in self._spans:
            control[0] = 1
        for thread in self._threads:
            thread.join()

    def explains(self, planned: np.ndarray, began: np.ndarray, period_ns: int) -> np.ndarray:
        """Of wake-ups: whether a core stood still between their instants, or a period before, and when they came."""
        found = np.zeros(len(planned), bool)
        for begins, ends, control in self._spans:
            for begin, end in zip(begins[: control[1]], ends[: control[1]], strict=True):
                found |= (began > begin) & (planned - period_ns < end)
        return found


def bare(config: Config, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """The instants, and how late each was."""
    late = np.zeros((2, round(seconds * 1e9 / config.step_ns)), np.int64)

    def work() -> None:
        realtime.exact_sleep()
        if config.realtime.enabled:
            realtime.this_thread(config.realtime.sim_priority, realtime.cores(config.realtime)[1])
        _wake_up(late[0], late[1], config.step_ns)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return late[0], late[1]


@dataclass(frozen=True)
class Driven:
    instants: np.ndarray  # ns, of every step
    late: np.ndarray
    missed: np.ndarray  # before every step: ended late, and given up
    compiled_late: list[str]  # files of the cache that were written after the first step


def driven(name: str, seconds: float, settings: list[str], cold: bool, period_ns: int) -> Driven:
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
            np.asarray(steps["t_ns"].astype(np.int64)),
            np.asarray(steps["started_ns"].astype(np.int64) - steps["t_ns"].astype(np.int64)),
            _missed(steps, period_ns),
            sorted(file.name for file in code if file.stat().st_mtime > first + _CLOCKS_S),
        )


def _missed(steps: np.ndarray, period_ns: int) -> np.ndarray:
    """Before every step: the one before it that ended late, and those that were given up."""
    apart = np.diff(steps["t_ns"].astype(np.int64), prepend=steps["t_ns"][:1].astype(np.int64))
    status = steps["status"]
    skipped = np.maximum(np.rint(apart / period_ns).astype(np.int64) - 1, 0) * (status & SKIPPED != 0)
    return np.asarray(skipped + (status & MISSED != 0))


@dataclass
class Sum:
    """What one loop, or several, came to; of the host's doing apart."""

    steps: int = 0
    stops: int = 0
    late: int = 0
    misses: int = 0
    hosts: int = 0  # stops and misses in which a whole core stood still
    hosts_misses: int = 0
    latest_ns: int = 0

    @classmethod
    def of(
        cls,
        instants: np.ndarray,
        late: np.ndarray,
        missed: np.ndarray,
        witness: Witness,
        config: Config,
        stop_ms: float,
    ) -> "Sum":
        host = witness.explains(instants, instants + late, config.step_ns)
        too_late = late > round(stop_ms * 1e6)
        begins = too_late & ~np.concatenate([[False], too_late[:-1]])
        return cls(
            len(late), int((begins & ~host).sum()), int((too_late & ~host).sum()), int(missed[~host].sum()),
            int((begins & host).sum()), int(missed[host].sum()), int(late[~host].max(initial=0)),
        )  # fmt: skip

    def __iadd__(self, other: "Sum") -> "Sum":
        for name in ("steps", "stops", "late", "misses", "hosts", "hosts_misses"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latest_ns = max(self.latest_ns, other.latest_ns)
        return self

    def __str__(self) -> str:
        return (
            f"{self.steps:6d} wake-ups, {self.stops:3d} stops, latest {self.latest_ns / 1e6:.2f} ms,"
            f" {self.misses} misses; by the host {self.hosts} stops, {self.hosts_misses} misses"
        )


def stops(
    *,
    drives: int = 20,
    seconds: float = 10.0,
    stop_ms: float = 2.0,
    cold: Annotated[bool, "every drive with empty caches, as the first on a machine"] = False,
    set: Annotated[tuple[str, ...], "KEY=VALUE: override a setting"] = (),
) -> Iterator[Row]:
    config = load(CONFIG, list(set))
    sums = {what: Sum() for what in ("drive", "bare loop")}
    compiled_late: list[str] = []
    for k in range(drives):
        with Witness() as during_drive:
            drive = driven(f"stops_{os.getpid()}", seconds, list(set), cold, config.step_ns)
        compiled_late += drive.compiled_late
        with Witness() as during_bare:
            instants, late = bare(config, seconds)
        for what, seen in (
            ("drive", Sum.of(drive.instants, drive.late, drive.missed, during_drive, config, stop_ms)),
            ("bare loop", Sum.of(instants, late, late // config.step_ns, during_bare, config, stop_ms)),
        ):
            note(f"{k + 1}/{drives} {what}: {seen}")
            sums[what] += seen
    for what, total in sums.items():
        yield figure(what, str(total))
    ours, bares = sums["drive"], sums["bare loop"]
    # how many are late in one stop is not up to a coin
    yield holds("stops are not more than chance explains", not more_than_chance(ours.stops, bares.stops))
    yield holds("misses are not more than chance explains", not more_than_chance(ours.misses, bares.misses))
    yield equal("compiled after the first step", len(compiled_late), 0)
    yield at_most("late steps", ours.late, 2 * bares.late + drives)
