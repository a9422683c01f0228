"""Where frames come from. The stage and the panel know nothing but this.

A frame is one step: every channel of its output by name, and the state of the model after it. A feed that is live reads
the newest of a running simulation's rings, and all steps since the last look for the plots; one from a record has a
time that can be moved.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sim_service.contract.machine import Machine
from sync.config.config import Config
from sync.record.measured import Measured
from sync.ring.block import PAYLOAD, T
from sync.ring.follower import RingFollower
from sync.ring.ring import RingReader, newest
from sync.ring.streams import DAQ, LOOK_AHEAD, SHOWN, SIM, STATE, Stream

MEASURED_FIELD = "measured "  # the prefix, in a step, of what sensors measured of that quantity
_MOST_STEPS = 8192  # taken at one look
_MOST_PREDICTIONS = 256
_RETRY_NS = 100_000_000  # asking the file system for a ring is not free


@dataclass(frozen=True)
class Frame:
    t_ns: int  # the instant of the step
    step: Any  # a record with named fields: the channels of the step's output (sim_service/step_record.py)
    state: Any  # of the model, after the step: an array; None where it is not known, as with a record that was cut


class DataSource(Protocol):
    title: str
    model: Machine
    params: np.ndarray  # as the model began
    config: Config
    live: bool
    files: dict[str, bytes]  # what the run is made of, by the names in a record
    measured: dict[str, str]  # what sensors measured at the machine, with units; in its steps under MEASURED_FIELD

    def poll(self) -> Frame | None:
        """The newest frame, or that of the chosen time; None while there is none."""

    def steps(self) -> np.ndarray:
        """All steps since the last call, oldest first, as records with named fields; at most some thousands.

        A record whose time was moved begins again: with the steps before its new time, older ones than given last or
        not adjoining them.
        """

    def predicted(self) -> dict[int, Any]:
        """The newest prediction of each kind (sim_service/look_ahead/record.py) by now, as a record with named
        fields."""

    def alive(self) -> dict[str, bool]:
        """Which of `daq` and `sim` are there (a record: both)."""

    def close(self) -> None: ...


class LiveData:
    """A running simulation on this host."""

    live = True

    def __init__(
        self, config: Config, model: Machine, params: np.ndarray, files: dict[str, bytes] | None = None
    ) -> None:
        self.config, self.model, self.params = config, model, params
        self.files = files or {}
        self.measured: dict[str, str] = {}
        self.title = config.name
        self._followers = {
            stream: RingFollower(config.ring(stream.name), living=True, from_now=True, retry_ns=_RETRY_NS)
            for stream in SHOWN
        }
        self._block = np.zeros(0, np.int64)
        self._predicted: dict[int, Any] = {}

    def _ring(self, stream: Stream) -> RingReader | None:
        """The last one there was: what has ended is shown as it ended, until there is another."""
        self._followers[stream].attached()
        return self._followers[stream].ring

    def poll(self) -> Frame | None:
        sim, state = self._ring(SIM), self._ring(STATE)
        if sim is None or state is None:
            return None
        if len(self._block) != state.layout.words:
            self._block = np.zeros(state.layout.words, np.int64)
        for _ in range(3):
            step = sim.newest()
            if newest(state.words, self._block) < 0 or step is None or self._block[T] == step["t_ns"]:
                break  # of one step, unless the loop was between its two pushes again and again
        if step is None or newest(state.words, self._block) < 0 or len(state.layout.names) != len(self.model.states):
            return None
        return Frame(int(step["t_ns"]), step, self._block.view(np.float64)[PAYLOAD:].copy())

    def steps(self) -> np.ndarray:
        found = self._followers[SIM].blocks(_MOST_STEPS)
        return np.zeros(0, [("t_ns", "<i8")]) if found is None else found

    def predicted(self) -> dict[int, Any]:
        found = self._followers[LOOK_AHEAD].blocks(_MOST_PREDICTIONS)
        for block in () if found is None else found:
            self._predicted[int(block["kind"])] = block
        return self._predicted

    def alive(self) -> dict[str, bool]:
        for stream in (DAQ, SIM):
            self._ring(stream)
        return {stream.name: self._followers[stream].alive for stream in (DAQ, SIM)}

    def blocks_pushed(self) -> int | None:
        """How many blocks the DAQ has pushed; None where its ring is not on this host."""
        ring = self._ring(DAQ)
        return None if ring is None else ring.head

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()


def _with_measured(steps: np.ndarray, measured: dict[str, Measured], step_ns: int) -> np.ndarray:
    """The same steps with a field for each quantity: what the sensor measured at its end, NaN where nothing."""
    if not measured or not len(steps):
        return steps
    own = [(name, steps.dtype[name]) for name in steps.dtype.names or ()]
    found = np.zeros(len(steps), np.dtype([*own, *((MEASURED_FIELD + name, np.float64) for name in measured)]))
    for name, _ in own:
        found[name] = steps[name]
    for name, quantity in measured.items():
        found[MEASURED_FIELD + name] = quantity.at(np.maximum.accumulate(steps["taken_ns"]) + step_ns)
    return found


class RecordData:
    """A record: its steps, the states that a replay gave again, and a time that can be moved.

    `kept` are the steps after which a state is known; between two of them it is taken to change evenly, which for
    positions of bodies over some milliseconds is true enough, unless one of `breaks` (a model that was reset) lies
    there.
    """

    live = False

    def __init__(
        self, title: str, config: Config, model: Machine, params: np.ndarray, steps: np.ndarray,
        state_steps: np.ndarray | None = None, states: np.ndarray | None = None, breaks: np.ndarray | None = None,
        files: dict[str, bytes] | None = None, predictions: np.ndarray | None = None,
        measured: dict[str, Measured] | None = None,
    ):  # fmt: skip
        self.title, self.config, self.model, self.params = title, config, model, params
        self.files = files or {}  # of the record: what it was made from
        self.measured = {name: quantity.unit for name, quantity in (measured or {}).items()}
        self.recorded = _with_measured(steps, measured or {}, config.step_ns)
        self._predictions = predictions  # in the order in which they were there
        self.instants = np.maximum.accumulate(steps["taken_ns"])  # of the blocks' use: the same in every replay
        self.at = 0  # the step shown
        self._delivered = 0
        self._state_steps, self._states, self._breaks = (
            state_steps,
            states,
            np.zeros(0, np.int64) if breaks is None else breaks,
        )

    def __len__(self) -> int:
        return len(self.recorded)

    @property
    def seconds(self) -> float:
        """The time from its first step to its last."""
        return float(self.instants[-1] - self.instants[0]) * 1e-9 if len(self) else 0.0

    @property
    def time(self) -> float:
        """The time of the step shown, since the first."""
        return float(self.instants[self.at] - self.instants[0]) * 1e-9 if len(self) else 0.0

    @property
    def knows_states(self) -> bool:
        return self._states is not None and len(self._states) > 0

    @property
    def state_steps(self) -> np.ndarray:
        """Those after which a state is known; the others' are taken from their neighbours."""
        return np.zeros(0, np.int64) if self._state_steps is None else self._state_steps

    def go_to(self, seconds: float) -> None:
        """The last step by then."""
        if len(self):
            instant = self.instants[0] + round(seconds * 1e9)
            self.show(int(np.searchsorted(self.instants, instant, "right")) - 1)

    def go_near(self, instant: int) -> None:
        """The step closest to an instant."""
        if len(self):
            after = int(np.clip(np.searchsorted(self.instants, instant), 1, max(len(self) - 1, 1)))
            closer = instant - self.instants[after - 1] <= self.instants[min(after, len(self) - 1)] - instant
            self.show(after - 1 if closer else after)

    def show(self, step: int) -> None:
        self.at = max(0, min(step, len(self) - 1))

    def poll(self) -> Frame | None:
        if not len(self):
            return None
        step = self.recorded[self.at]
        return Frame(int(step["t_ns"]), step, self._state(self.at))

    def _state(self, step: int) -> np.ndarray | None:
        if self._state_steps is None or self._states is None or not len(self._states):
            return None
        before = int(np.searchsorted(self._state_steps, step, "right")) - 1
        found: np.ndarray = self._states[max(before, 0)].astype(np.float64)
        if before < 0 or before + 1 == len(self._state_steps) or self._state_steps[before] == step:
            return found
        low, high = self._state_steps[before], self._state_steps[before + 1]
        broken = np.searchsorted(self._breaks, high, "right") > np.searchsorted(self._breaks, low, "right")
        if not broken:
            found += (step - low) / (high - low) * (self._states[before + 1] - found)
        return found

    def steps(self) -> np.ndarray:
        end, begin = self.at + 1, self._delivered
        if not 0 <= end - begin <= _MOST_STEPS:
            begin = max(0, end - _MOST_STEPS)
        self._delivered = end
        return self.recorded[begin:end]

    def predicted(self) -> dict[int, Any]:
        if self._predictions is None or not len(self):
            return {}
        found: dict[int, Any] = {}
        behind = int(np.searchsorted(self._predictions["t_ns"], self.recorded[self.at]["t_ns"], "right"))
        for block in self._predictions[max(0, behind - _MOST_PREDICTIONS) : behind]:
            found[int(block["kind"])] = block
        return found

    def alive(self) -> dict[str, bool]:
        return {"daq": True, "sim": True}

    def close(self) -> None: ...


def _share(one: RecordData, stamps: str, other: RecordData, theirs: str) -> float:
    """How many of one's first instants are instants of the other."""
    names = (one.recorded.dtype.names or (), other.recorded.dtype.names or ())
    if stamps not in names[0] or theirs not in names[1] or not len(one) or not len(other):
        return 0.0
    return float(np.isin(one.recorded[stamps][:1000], other.recorded[theirs]).mean())


def _at(sorted_values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The index of the last value that is not above each wanted one; 0 where all are above."""
    return np.maximum(np.searchsorted(sorted_values, wanted, "right") - 1, 0)


def instants_in(one: RecordData, other: RecordData) -> tuple[np.ndarray, str]:
    """For every step of one the instant of the other that is shown with it, and in words how it was found."""
    same = _share(one, "input_t_ns", other, "input_t_ns")
    used = _share(one, "input_t_ns", other, "t_ns")  # as a twin's blocks are steps of what it is a twin of
    feeds = _share(other, "input_t_ns", one, "t_ns")
    most = max(same, used, feeds)  # instants on a common grid may agree by chance
    if 0.0 < same == most:
        return one.instants, "at the same instants: both used the same blocks"
    if 0.0 < used == most:
        at = _at(np.maximum.accumulate(other.recorded["t_ns"]), one.recorded["input_t_ns"])
        return other.instants[at], "each step with the one that its readings are of"
    if feeds > 0.0:
        at = _at(np.maximum.accumulate(other.recorded["input_t_ns"]), one.recorded["t_ns"])
        return other.instants[at], "each step with the one that used its readings"
    apart = int(other.instants[0] - one.instants[0]) if len(one) and len(other) else 0
    return one.instants + apart, "from the first step of each"
