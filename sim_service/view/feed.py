"""Where frames come from. The stage and the panel know nothing but this.

A frame is one step: every channel of its output by name, and the state of the model after it. A feed that is live reads
the newest of a running simulation's rings, and all steps since the last look for the plots; one from a record has a
time that can be moved.
"""

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sim_service.models.description import Model
from sync.block import PAYLOAD
from sync.clock import now_ns
from sync.config import Config
from sync.errors import RingError
from sync.ring import RingReader, newest

_MOST_STEPS = 8192  # taken at one look


@dataclass(frozen=True)
class Frame:
    t_ns: int  # the instant of the step
    step: Any  # a record with named fields: the channels of the step's output (sim_service/loop.py)
    state: np.ndarray  # of the model, after the step


class Feed(Protocol):
    title: str
    model: Model
    params: np.ndarray  # as the model began
    config: Config
    live: bool
    files: dict[str, bytes]  # what the run is made of, by the names in a record: `road:…`, `manoeuvre.toml`

    def look(self) -> Frame | None:
        """The newest frame, or that of the chosen time; None while there is none."""

    def steps(self) -> np.ndarray:
        """All steps since the last call, oldest first, as records with named fields; at most some thousands."""

    def alive(self) -> dict[str, bool]:
        """Which of `daq` and `sim` are there (a record: both)."""

    def close(self) -> None: ...


class _Follower:
    """A ring that may be made anew at any time."""

    def __init__(self, name: str):
        self._name = name
        self.ring: RingReader | None = None
        self.position = 0
        self._looked_ns = 0

    def attached(self) -> RingReader | None:
        if self.ring is not None and self.ring.writer_alive:
            return self.ring
        if now_ns() - self._looked_ns > 100_000_000:  # asking the file system is not free
            self._looked_ns = now_ns()
            with contextlib.suppress(RingError):
                found = RingReader(self._name)
                if found.writer_alive:
                    self.close()
                    self.ring, self.position = found, found.head
                else:
                    found.close()
        return self.ring

    @property
    def alive(self) -> bool:
        ring = self.attached()
        return ring is not None and ring.writer_alive

    def close(self) -> None:
        if self.ring is not None:
            self.ring.close()
            self.ring = None


class LiveFeed:
    """A running simulation on this host."""

    live = True

    def __init__(self, config: Config, model: Model, params: np.ndarray, files: dict[str, bytes] | None = None) -> None:
        self.config, self.model, self.params = config, model, params
        self.files = files or {}
        self.title = config.name
        self._sim, self._state, self._daq = (_Follower(config.ring(role)) for role in ("sim", "state", "daq"))
        self._block = np.zeros(0, np.int64)

    def look(self) -> Frame | None:
        sim, state = self._sim.attached(), self._state.attached()
        if sim is None or state is None:
            return None
        if len(self._block) != state.layout.words:
            self._block = np.zeros(state.layout.words, np.int64)
        step = sim.newest()
        if step is None or newest(state.words, self._block) < 0 or len(state.layout.names) != len(self.model.states):
            return None
        return Frame(int(step["t_ns"]), step, self._block.view(np.float64)[PAYLOAD:].copy())

    def steps(self) -> np.ndarray:
        ring = self._sim.attached()
        if ring is None:
            return np.zeros(0, [("t_ns", "<i8")])
        found, self._sim.position, _ = ring.since(self._sim.position, _MOST_STEPS)
        return found

    def alive(self) -> dict[str, bool]:
        return {"daq": self._daq.alive, "sim": self._sim.alive}

    def blocks_pushed(self) -> int | None:
        """By the DAQ so far; None where its ring is not on this host."""
        ring = self._daq.attached()
        return None if ring is None else ring.head

    def close(self) -> None:
        for follower in (self._sim, self._state, self._daq):
            follower.close()
