"""What batches of copies have in common, wherever they are stepped."""

from collections.abc import Iterable

import numpy as np

from sim_service.commands import fault_of
from sim_service.contract.machine import Machine, Quantity
from sync.errors import ConfigError
from tandem.offline.model import Model


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
        self.step_s = step_s
        self.input_index = _places(machine.inputs)
        self.output_index = _places(machine.outputs)
        self.state_index = _places(machine.states)
        self.parameter_index = {p.name: k for k, p in enumerate(machine.parameters)}
        self.diverged = np.zeros(copies, np.int64)  # 1: its last step diverged, and it stays where it was
        self._first: tuple[np.ndarray, ...] | None = None  # parameters, and state and outputs at their start

    def __len__(self) -> int:
        return len(self.diverged)

    def _input(self, name: str) -> int:
        if name not in self.input_index:
            raise KeyError(f"{name}: no input of {self.machine.name}; it has {', '.join(self.input_index)}")
        return self.input_index[name]

    def _no_inputs(self) -> np.ndarray:
        return np.tile([np.nan if q.optional else 0.0 for q in self.machine.inputs], (len(self), 1))

    def _to_start(
        self, which: Iterable[int] | np.ndarray | None, params: np.ndarray, states: np.ndarray, outputs: np.ndarray
    ) -> None:
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


def live_place(machine: Machine, name: str, values: float | np.ndarray) -> int:
    """Where a live parameter stands, all of whose values are within its limits."""
    places = {p.name: k for k, p in enumerate(machine.parameters)}
    if name not in places:
        raise KeyError(f"{name}: no parameter of {machine.name}")
    instead = "all copies have the same; give one number to batch()"
    for value in (float(np.min(values)), float(np.max(values))):
        if fault := fault_of(machine, places, name, value, False, instead):
            raise ConfigError(f"parameters: {fault}")
    return places[name]


def _places(quantities: tuple[Quantity, ...]) -> dict[str, int]:
    return {q.name: k for k, q in enumerate(quantities)}
