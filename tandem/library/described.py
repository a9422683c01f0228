"""What batches of copies have in common, wherever they are stepped."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim_service.contract.machine import Floats, Machine
from sim_service.contract.parameters import fault_of
from sync.errors import ConfigError, UnknownName
from tandem.offline.model import Model
from tandem.offline.shown import heading, html_table, names

Which = Iterable[int] | Iterable[bool] | NDArray[np.integer] | NDArray[np.bool_]


class Described:
    """What batches have in common: the machine, its step, and where in a row each quantity stands."""

    def __init__(self, model: Model, copies: int, step_s: float):
        if copies < 1:
            raise ConfigError(f"n = {copies}: must be 1 or more")
        if not 0.0 < step_s < np.inf:
            raise ConfigError(f"step_s = {step_s!r}: must be positive, in seconds")
        machine = model.machine
        if machine.stepping.one_at_a_time:
            raise ConfigError(
                f"{machine.name}: its step has memory of its own, so that no two copies are stepped at once"
            )
        self.machine: Machine = machine
        self.step_s: float = step_s
        self.steps_made: int = 0
        self.input_index: dict[str, int] = _Places(machine, "input", (q.name for q in machine.inputs))
        self.output_index: dict[str, int] = _Places(machine, "output", (q.name for q in machine.outputs))
        self.state_index: dict[str, int] = _Places(machine, "state", (q.name for q in machine.states))
        self.parameter_index: dict[str, int] = _Places(machine, "parameter", (p.name for p in machine.parameters))
        self.diverged: NDArray[np.int64] = np.zeros(
            copies, np.int64
        )  # 1: its last step diverged, and it stays where it was
        self._first: tuple[Floats, ...] | None = None  # parameters, and state and outputs at their start

    def __len__(self) -> int:
        return len(self.diverged)

    def _state_text(self) -> str:
        left = int(self.diverged.sum())
        return f"{len(self)} copies, {self.steps_made} steps of {1e3 * self.step_s:g} ms made, {left} diverged"

    def __repr__(self) -> str:
        inputs, outputs = ([heading(q.name, q.unit) for q in g] for g in (self.machine.inputs, self.machine.outputs))
        first = f"<tandem.{type(self).__name__} of {self.machine.name}: {self._state_text()}>"
        return "\n".join([first, names("inputs", inputs), names("outputs", outputs)])

    def _repr_html_(self) -> str:
        groups = (("input", self.machine.inputs), ("output", self.machine.outputs))
        rows = [(kind, q.name, q.unit, q.text) for kind, group in groups for q in group]
        return html_table(("", "name", "unit", "what"), rows, f"{self.machine.name}: {self._state_text()}")

    def _no_inputs(self) -> Floats:
        return np.tile([np.nan if q.optional else 0.0 for q in self.machine.inputs], (len(self), 1))

    def _to_start(self, which: Which | None, params: Floats, states: Floats, outputs: Floats) -> None:
        chosen = np.arange(len(self)) if which is None else np.asarray(which)
        indices = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        work = np.zeros(self.machine.work_size)
        for n in indices:
            if self._first is None or not np.array_equal(self._first[0], params[n]):
                # where a machine stands at the start may take long to find; copies mostly share it
                state = np.zeros(len(self.machine.states))
                work[:] = 0.0
                self.machine.initial(state, params[n], self.machine.tables, work)
                self._first = params[n].copy(), state, work[: outputs.shape[1]].copy()
            _, states[n], outputs[n] = self._first
            self.diverged[n] = 0


def live_place(machine: Machine, name: str, values: ArrayLike) -> int:
    """Where a live parameter stands, all of whose values are within its limits."""
    places = {p.name: k for k, p in enumerate(machine.parameters)}
    if name not in places:
        raise UnknownName.among(places, name, f"parameter of {machine.name}")
    instead = "all copies have the same; give one number to batch()"
    for value in (float(np.min(values)), float(np.max(values))):
        if fault := fault_of(machine, places, name, value, False, instead):
            raise ConfigError(f"parameters: {fault}")
    return places[name]


class _Places(dict[str, int]):
    """Where a quantity stands in a row; a name that is none is refused with the nearest."""

    def __init__(self, machine: Machine, kind: str, them: Iterable[str]):
        super().__init__({name: k for k, name in enumerate(them)})
        self._what = f"{kind} of {machine.name}"

    def __missing__(self, name: str) -> int:
        raise UnknownName.among(self, name, self._what)
