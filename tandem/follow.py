"""Following a ring from outside, in order, as a recorder would: what was produced, and every step that was made."""

import contextlib
from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.lib import recfunctions as structured

from sync.errors import RingError
from sync.ring import RingReader

_MOST_STEPS = 240_000  # kept for a report: twenty minutes at 5 ms; the histograms hold everything
STEP_FIELDS = (
    "step", "status", "t_ns", "pushed_ns", "started_ns", "taken_ns", "input_seq", "input_age_ns", "age_bound_ns",
    "input_t_ns", "input_pushed_ns", "input_sent_ns", "input_received_ns", "phase_error_ns", "vx", "yaw_rate",
    "steering_angle",
)  # fmt: skip


class Follower:
    """A reader that waits for its ring to appear and then misses nothing without knowing how much."""

    def __init__(self, name: str):
        self._name = name
        self._ring: RingReader | None = None
        self._position = 0
        self.read = self.lost = 0

    def news(self) -> Iterator[np.ndarray]:
        """The blocks that have come since the last call, in batches."""
        if self._ring is None:
            with contextlib.suppress(RingError):
                self._ring = RingReader(self._name)
        while self._ring is not None:
            blocks, self._position, lost = self._ring.since(self._position)
            self.lost += lost
            self.read += len(blocks)
            if len(blocks) == 0:
                return
            yield blocks

    @property
    def head(self) -> int:
        return self._ring.head if self._ring else 0

    def close(self) -> None:
        if self._ring is not None:
            self._ring.close()
            self._ring = None


class Produced(Follower):
    """An independent count of what the DAQ produced."""

    out_of_order = 0

    def look(self) -> None:
        for blocks in self.news():
            # in the DAQ's own ring a block's number is its position
            self.out_of_order += int((np.diff(blocks["seq"].astype(np.int64)) < 1).sum())

    def as_dict(self) -> dict[str, int]:
        return {"read": self.read, "lost": self.lost, "out_of_order": self.out_of_order, "head": self.head}


class Steps(Follower):
    """Every step the simulator made, as far back as a report wants them."""

    def __init__(self, name: str):
        super().__init__(name)
        self._kept = 0
        self._parts: deque[np.ndarray] = deque()
        self.used, self.last_seq = 0, -1

    def look(self) -> None:
        for blocks in self.news():
            fields = [name for name in STEP_FIELDS if name in (blocks.dtype.names or ())]
            self._parts.append(structured.repack_fields(blocks[fields]))
            self._kept += len(blocks)
            # in the DAQ's ring numbers go on, also where the DAQ or the simulator is another one than before
            numbers = blocks["input_seq"].astype(np.int64)
            self.used += int((np.diff(numbers, prepend=self.last_seq) > 0).sum())
            self.last_seq = int(numbers[-1])
            while self._kept - len(self._parts[0]) > _MOST_STEPS:
                self._kept -= len(self._parts.popleft())

    def as_dict(self) -> dict[str, int]:
        return {"steps": self.read, "steps_lost": self.lost, "used": self.used, "last_seq": self.last_seq}

    def all(self) -> np.ndarray:
        return np.concatenate(self._parts) if self._parts else np.zeros(0, [("step", "<i8")])
