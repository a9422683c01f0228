"""Notices of the simulator: when input gets stale or is clipped, when it cannot keep up, when it diverges.

Each is given once when it begins, once when it gets worse, once when it is over; a condition that comes and goes many
times a second gives one. The counters and, step by step, the record say how often it really occurred.
"""

import math
from collections import deque

import numpy as np

from sim_service import step_record
from sim_service.bounds import RAISED, RAISED_WORDS
from sim_service.inputs.stages import BITS, MASK, in_words
from sim_service.simulation import Simulation
from sim_service.step_kernel import HOW
from sync.clock import now_ns
from sync.config.config import Config
from sync.config.input_rows import MOST_ROWS, Row
from sync.ring.follower import RingFollower
from sync.ring.ring import RingReader

CALM_NS = 500_000_000  # input that has been fresh for so long counts as fresh again
WINDOW_NS = 3_000_000_000
_LEAST_NS = 1_000_000_000  # a share over less time than this means nothing
TOO_MANY, FEW = 0.05, 0.01  # shares of the steps of a window: it cannot keep up; it can again


def _worse(stages: int, reported: int) -> int:
    """The later of two stages, for every row."""
    return sum(
        max(stages >> shift & MASK, reported >> shift & MASK) << shift for shift in range(0, MOST_ROWS * BITS, BITS)
    )


class StaleInput:
    """Notices when input is stale and what becomes of it, when it is lost, and when it is fresh again."""

    def __init__(self, config: Config, blocks: RingFollower, steps: RingReader, control: np.ndarray):
        self._limit_ns = round(config.sim.stale_after_ms * 1e6)
        self._blocks, self._steps, self._control = blocks, steps, control
        self._ends = config.sim.stale.stop == "end"  # the end of the run reports it then
        self._rows = list(config.inputs)
        self._stale = self._lost = False
        self._reported = 0
        self._fresh_since = 0

    def poll(self) -> list[str]:
        ring = self._blocks.ring
        block, step = ring.newest() if ring else None, self._steps.newest()
        if block is None:
            return []
        now = now_ns()
        age_ns = now - int(block["t_ns"])
        # a loop that waits for a new DAQ makes no steps, and its last one may have been fresh
        stages = int(step["input_stages"]) if step is not None else 0
        return self.judge(now, stages, age_ns)

    def judge(self, now: int, stages: int, age_ns: int) -> list[str]:
        """The notices for the stages of the newest step and the age of the newest block."""
        found = []
        if stages or age_ns > self._limit_ns:
            self._fresh_since = 0
            worse = _worse(stages, self._reported)
            if not self._stale or worse != self._reported:
                words = in_words(stages, self._rows)
                still = "still " if self._stale else ""
                found.append(
                    f"input is {still}stale: the newest block is {age_ns / 1e6:.0f} ms old" + f"; {words}" * bool(words)
                )
            self._stale, self._reported = True, worse
            if self._control[step_record.LOST_NS] and not self._lost and not self._ends:
                self._lost = True
                found.append(
                    f"{lost_words(self._control, self._rows)}: the model stands still until its input is fresh again"
                )
        elif self._stale:
            self._fresh_since = self._fresh_since or now
            if now - self._fresh_since >= CALM_NS:
                self._stale = self._lost = False
                self._reported = self._fresh_since = 0
                found.append("input is fresh again")
        return found


def lost_words(control: np.ndarray, rows: list[str]) -> str:
    """How old the input is that stopped the model: a row's, if the blocks themselves are younger."""
    row = int(control[step_record.LOST_ROW])
    return f"{rows[row] if row >= 0 else 'input'} is {control[step_record.LOST_NS] / 1e9:.2f} s old"


class ClippedInput:
    """Notices once for each row that its value was clipped, and what its limits are."""

    def __init__(self, rows: dict[str, Row], clipped: np.ndarray):
        self._rows, self._clipped = rows, clipped
        self._reported: set[str] = set()

    def poll(self) -> list[str]:
        """The notices, with the last value of each row that had to be clipped."""
        found = []
        for (name, row), value in zip(self._rows.items(), self._clipped.tolist(), strict=True):
            if math.isnan(value) or name in self._reported:
                continue
            self._reported.add(name)
            what = f"= {row.from_si(value):.6g}" if math.isfinite(value) else "is not finite"
            least, most = ("no limit" if limit is None else f"{limit:g}" for limit in (row.least, row.most))
            found.append(
                f"inputs.{name} {what}, its limits are {least} and {most} (unit {row.unit}): clipped, and counted; is"
                " it calibrated (docs/calibration.md)?"
            )
        return found


class Overload:
    """Notices when too many steps are late or given up, and when that is over."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int, int, int]] = deque()
        self._over = False

    def poll(self, counters: np.ndarray) -> list[str]:
        return self.judge(
            now_ns(), *(int(counters[c]) for c in (step_record.STEPS, step_record.MISSES, step_record.SKIPS))
        )

    def judge(self, now: int, steps: int, misses: int, skips: int) -> list[str]:
        """The notices for these values of the counters."""
        self._seen.append((now, steps, misses, skips))
        while len(self._seen) > 1 and now - self._seen[1][0] >= WINDOW_NS:
            self._seen.popleft()
        since, *before = self._seen[0]
        done, late, skipped = (b - a for a, b in zip(before, (steps, misses, skips), strict=True))
        due = done + skipped
        span = now - since
        if span < _LEAST_NS or due == 0:
            return []
        share = (late + skipped) / due
        if not self._over and share > TOO_MANY:
            self._over = True
            return [
                f"cannot keep up: of the {due} steps of the last {span / 1e9:.0f} s {late} ended late and {skipped}"
                f" were given up ({share:.0%})"
            ]
        if self._over and share < FEW and span >= WINDOW_NS:
            self._over = False
            return ["keeps up again"]
        return []


class Divergence:
    """Notices that the model diverged, with what inputs, and what is done about it."""

    def __init__(self, simulation: Simulation, config: Config):
        self._simulation = simulation
        self._then = {"reset": "it is reset", "keep": "it goes on from its last good state"}.get(
            config.sim.on_divergence, ""
        )
        self._reported = 0

    def poll(self) -> list[str]:
        count = int(self._simulation.counters[step_record.DIVERGENCES])
        more, self._reported = count - self._reported, count
        if more <= 0 or not self._then:
            return []
        times = f" {more} times, last" if more > 1 else ""
        return [f"the model diverged{times} {divergence_message(self._simulation)}; {self._then}"]


def divergence_message(simulation: Simulation) -> str:
    """At which step the model diverged last, and with what."""
    names = [q.name for q in simulation.model.inputs]
    values = ", ".join(
        f"{name} {value:g}" for name, value in zip(names, simulation.divergence.offending.tolist(), strict=True)
    )
    raised = f": its step {RAISED_WORDS}" if simulation.divergence.result[HOW] == RAISED else ""
    return f"at step {simulation.control[step_record.DIVERGED_STEP]} with {values}{raised}"
