"""Reads rings from outside and in order, as a recorder would: what was produced, and every step that was made."""

from collections import deque

import numpy as np
from numpy.lib import recfunctions as structured

from sync.ring.follower import RingFollower

_MOST_STEPS = 240_000  # stored for a report: twenty minutes at 5 ms; the histograms cover all steps
STEP_FIELDS = (
    "step", "status", "t_ns", "pushed_ns", "started_ns", "taken_ns", "input_seq", "input_age_ns", "age_bound_ns",
    "input_t_ns", "input_pushed_ns", "input_sent_ns", "input_received_ns", "phase_error_ns",
)  # fmt: skip


class Produced:
    """An independent count of what the DAQ produced."""

    def __init__(self, name: str):
        self._blocks = RingFollower(name)
        self.out_of_order = 0

    def poll(self) -> None:
        for blocks in self._blocks.batches():
            # in the DAQ's own ring a block's number is its position
            self.out_of_order += int((np.diff(blocks["seq"].astype(np.int64)) < 1).sum())

    def as_dict(self) -> dict[str, int]:
        ring = self._blocks.ring
        return {
            "read": self._blocks.read,
            "lost": self._blocks.lost,
            "out_of_order": self.out_of_order,
            "head": ring.head if ring else 0,
        }

    def close(self) -> None:
        self._blocks.close()


class Steps:
    """Every step the simulator made, as far back as a report needs them."""

    def __init__(self, name: str, step_ns: int, channels: tuple[str, ...] = ()):
        self._fields = (*STEP_FIELDS, *channels)  # `channels`: those of the machine that a report draws
        self._steps = RingFollower(name)
        self._step_ns = step_ns
        self._steps_stored = 0
        self._parts: deque[np.ndarray] = deque()
        self._last: tuple[int, int] | None = None  # (number, planned instant) of the newest step
        self.first_ns = self.first_planned_ns = self._done_ns = 0
        self.used, self.last_seq = 0, -1
        self.unread = 0  # blocks that came while there was no simulator
        self.missed = 0  # steps that were due meanwhile

    def poll(self) -> None:
        for blocks in self._steps.batches():
            fields = [name for name in self._fields if name in (blocks.dtype.names or ())]
            self._parts.append(structured.repack_fields(blocks[fields]))
            self._steps_stored += len(blocks)
            # numbers in the DAQ's ring go on, even if the DAQ or the simulator was restarted
            numbers = blocks["input_seq"].astype(np.int64)
            self._find_outages(blocks["step"].astype(np.int64), blocks["t_ns"].astype(np.int64), numbers)
            self.first_ns = self.first_ns or int(blocks["started_ns"][0])
            self.first_planned_ns = self.first_planned_ns or int(blocks["t_ns"][0])
            self._done_ns = int(blocks["pushed_ns"][-1])
            self.used += int((np.diff(numbers, prepend=self.last_seq) > 0).sum())
            self.last_seq = int(numbers[-1])
            while self._steps_stored - len(self._parts[0]) > _MOST_STEPS:
                self._steps_stored -= len(self._parts.popleft())

    def _find_outages(self, steps: np.ndarray, planned: np.ndarray, numbers: np.ndarray) -> None:
        """A restarted simulator counts its steps from 0: steps that were due in between were not made."""
        step, planned_ns = self._last or (-1, 0)
        before = np.concatenate([[step], steps[:-1]])
        for n in np.flatnonzero(steps <= before).tolist():
            since_ns = int(planned[n - 1]) if n else planned_ns
            seq = int(numbers[n - 1]) if n else self.last_seq
            self.missed += self._due(since_ns, int(planned[n]))
            self.unread += max(int(numbers[n]) - seq - 1, 0)
        self._last = (int(steps[-1]), int(planned[-1]))

    def _due(self, since_ns: int, until_ns: int) -> int:
        """How many steps were due between two instants; there was one at the first."""
        return max(round((until_ns - since_ns) / self._step_ns) - 1, 0)

    def absent_until(self, end_ns: int) -> None:
        """There was no simulator from the newest step to the end of the run."""
        if self._last is not None:
            self.missed += self._due(self._last[1], end_ns)

    @property
    def read(self) -> int:
        return self._steps.read

    @property
    def seconds(self) -> float:
        """From the start of the first step to the end of the newest."""
        return (self._done_ns - self.first_ns) * 1e-9

    def as_dict(self) -> dict[str, int]:
        return {
            "steps": self.read,
            "steps_lost": self._steps.lost,
            "steps_not_made": self.missed,
            "used": self.used,
            "unread": self.unread,
            "last_seq": self.last_seq,
        }

    def all(self) -> np.ndarray:
        return np.concatenate(self._parts) if self._parts else np.zeros(0, [("step", "<i8")])

    def close(self) -> None:
        self._steps.close()
