"""Many copies of one machine, stepped together: arrays [n, …] in and out, on all cores, to the bit the loop's steps.

    copies = tandem.batch("mass_spring", 1024)
    copies.inputs[:, copies.input_index["handle"]] = 0.05
    copies.step()
    torch.from_dlpack(copies.outputs)        # the same memory

The arrays are made once and stay where they are: what is made of them without a copy sees every step.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from sim_service.machines.contract import Machine, Quantity
from sim_service.many_steps import step_copies
from sync.errors import ConfigError
from tandem.ensembles.pool import cores
from tandem.library.model import Model, load_machine

_LEAST = 16  # copies a thread: fewer cost more to hand over than to step


class Batch:
    """Copies of a machine. `close` ends its threads; it is a context manager."""

    def __init__(self, model: Model, copies: int, step_s: float, workers: int = 0):
        if copies < 1:
            raise ConfigError(f"n = {copies}: must be 1 or more")
        if not 0.0 < step_s < np.inf:
            raise ConfigError(f"step_s = {step_s!r}: must be positive, in seconds")
        machine, params = model.machine, model.params
        if machine.one_at_a_time:
            raise ConfigError(
                f"{machine.name}: its step has memory of its own, so that no two copies are stepped at once"
            )
        self.machine: Machine = machine
        self.step_s = step_s
        self.inputs = np.tile([np.nan if q.optional else 0.0 for q in machine.inputs], (copies, 1))
        self.outputs = np.zeros((copies, len(machine.outputs)))
        self.states = np.zeros((copies, len(machine.states)))
        self.params = np.tile(params, (copies, 1))
        self.diverged = np.zeros(copies, np.int64)  # 1: its last step diverged, and it stays where it was
        self.input_index = _places(machine.inputs)
        self.output_index = _places(machine.outputs)
        self.state_index = _places(machine.states)
        self.parameter_index = {p.name: k for k, p in enumerate(machine.parameters)}
        count = max(1, min(workers or cores(), -(-copies // _LEAST)))
        edges = np.linspace(0, copies, count + 1).astype(int).tolist()
        self._parts = [(a, b, self._room()) for a, b in pairwise(edges)]
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="batch") if count > 1 else None
        self._first: tuple[np.ndarray, ...] | None = None  # parameters, and state and outputs at their start
        self.reset()

    def _room(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        machine = self.machine
        return np.zeros(machine.work_size), np.zeros(len(machine.inputs)), np.zeros(len(machine.states))

    def __len__(self) -> int:
        return len(self.states)

    def reset(self, which: Iterable[int] | np.ndarray | None = None) -> None:
        """All copies, or these (indices, or True and False for each), to the start of the machine, with the parameters
        that each has."""
        chosen = np.arange(len(self)) if which is None else np.asarray(which)
        indices = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        work = np.zeros(self.machine.work_size)
        for n in indices:
            if self._first is None or not np.array_equal(self._first[0], self.params[n]):
                # where a machine stands at the start may take long to find; copies mostly share it
                state = np.zeros(len(self.machine.states))
                self.machine.initial(state, self.params[n], self.machine.tables, work)
                self._first = self.params[n].copy(), state, work[: self.outputs.shape[1]].copy()
            _, self.states[n], self.outputs[n] = self._first
            self.diverged[n] = 0

    def set(self, **values: float | np.ndarray) -> None:
        """Inputs by name: a number for all, or an array with one for each."""
        for name, value in values.items():
            if name not in self.input_index:
                raise KeyError(f"{name}: no input of {self.machine.name}; it has {', '.join(self.input_index)}")
            self.inputs[:, self.input_index[name]] = value

    def step(self, inputs: np.ndarray | Mapping[str, Any] | None = None, steps: int = 1) -> np.ndarray:
        """All copies on by so many steps with their inputs: [n, inputs] (or what DLPack gives), by name, or as they
        stand in `inputs`. Returns `outputs`, the same array every time."""
        if isinstance(inputs, Mapping):
            self.set(**inputs)
        elif inputs is not None and inputs is not self.inputs:
            given = np.asarray(inputs) if isinstance(inputs, np.ndarray) else np.from_dlpack(inputs)
            if given.shape != self.inputs.shape:
                raise ConfigError(f"inputs: shape {given.shape}; {self.inputs.shape} is expected: copies, inputs")
            self.inputs[:] = given
        if self._pool is None:
            self._step(self._parts[0], steps)
        else:
            list(self._pool.map(lambda part: self._step(part, steps), self._parts))
        return self.outputs

    def _step(self, part: tuple[int, int, tuple[np.ndarray, ...]], steps: int) -> None:
        first, last, (work, used, before) = part
        machine = self.machine
        step_copies(
            machine.step, self.states, self.inputs, self.params, machine.tables, work, used, before, self.step_s, steps,
            first, last, self.outputs, self.diverged, machine.bound,
        )  # fmt: skip

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
            self._parts = [(0, len(self), self._room())]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _places(quantities: tuple[Quantity, ...]) -> dict[str, int]:
    return {q.name: k for k, q in enumerate(quantities)}


def batch(
    machine: str | Path,
    n: int,
    parameters: Mapping[str, float | np.ndarray] | None = None,
    step_s: float = 0.005,
    workers: int = 0,
) -> Batch:
    """`n` copies of a machine, given as to `load_machine`. A parameter is a number for all copies, or an array with one
    for each, which must be live. `workers` 0: a thread a core.

    Raises ConfigError that names what is wrong.
    """
    given = {name: np.asarray(value, np.float64) for name, value in (parameters or {}).items()}
    model = load_machine(machine, {name: float(value) for name, value in given.items() if value.ndim == 0})
    each = {name: value for name, value in given.items() if value.ndim}
    for name, values in each.items():
        if values.shape != (n,):
            raise ConfigError(f"parameters: {name}: shape {values.shape}; a number, or ({n},), is expected")
        p = model.parameters.describe(name)
        if not p.live:
            raise ConfigError(f"parameters: {name}: shapes the machine, so all copies have the same; give one number")
        if not ((values >= p.low) & (values <= p.high)).all():
            raise ConfigError(f"parameters: {name}: must be from {p.low:g} to {p.high:g} {p.unit}")
    made = Batch(model, n, step_s, workers)
    if each:
        for name, values in each.items():
            made.params[:, made.parameter_index[name]] = values
        made.reset()
    return made
