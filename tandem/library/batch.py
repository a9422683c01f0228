"""Many copies of one machine, stepped together: arrays [n, …] in and out, on all cores, to the bit the loop's steps.

    copies = tandem.batch("mass_spring", 1024)
    copies.inputs[:, copies.input_index["handle"]] = 0.05
    copies.step()
    torch.from_dlpack(copies.outputs)        # the same memory

The arrays are made once and stay where they are: what is made of them without a copy sees every step. On a GPU:
gpu_batch.py.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from sim_service.contract.machine import Floats
from sim_service.many_steps import MANY, for_many_steps, step_copies
from sync.errors import ConfigError
from sync.ring.memory import refuse_too_many
from tandem.ensembles.gpu import device
from tandem.ensembles.pool import cores
from tandem.library.described import Described, Which, live_place
from tandem.offline.model import Model, load_machine

if TYPE_CHECKING:
    from tandem.library.gpu_batch import GpuBatch

_LEAST = 16  # copies a thread: fewer cost more to hand over than to step


class HasDLPack(Protocol):
    """A tensor of another library, on the CPU."""

    def __dlpack__(self, *, stream: None = None) -> object: ...


class Batch(Described):
    """Copies of a machine; arrays have a row a copy. `close` ends its threads; it is a context manager.

    >>> copies = tandem.batch("mass_spring", 4)
    >>> outputs = copies.step({"handle": np.array([0.0, 0.01, 0.02, 0.03])}, steps=10)
    >>> outputs[:, copies.output_index["position"]].round(4)
    array([0.    , 0.0043, 0.0086, 0.0129])
    >>> copies
    <tandem.Batch of mass_spring: 4 copies, 10 steps of 5 ms made, 0 diverged>
      inputs: handle (m)
      outputs: position (m), velocity (m/s), stretch (m), hand_force (N)
    """

    def __init__(self, model: Model, copies: int, step_s: float, workers: int = 0):
        super().__init__(model, copies, step_s)
        machine = self.machine
        self.inputs: Floats = self._no_inputs()
        self.outputs: Floats = np.zeros((copies, len(machine.outputs)))
        self.states: Floats = np.zeros((copies, len(machine.states)))
        self.params: Floats = np.tile(model.params, (copies, 1))
        count = max(1, min(workers or cores(), -(-copies // _LEAST)))
        edges = np.linspace(0, copies, count + 1).astype(int).tolist()
        self._parts = [(a, b, self._scratch()) for a, b in pairwise(edges)]
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="batch") if count > 1 else None
        self._tables = machine.tables
        self.reset()

    def _scratch(self) -> tuple[Floats, Floats, Floats]:
        machine = self.machine
        return np.zeros(machine.work_size), np.zeros(len(machine.inputs)), np.zeros(len(machine.states))

    def reset(self, which: Which | None = None) -> None:
        """All copies, or these (indices, or True and False for each), to the start of the machine, with the parameters
        that each has."""
        self._to_start(which, self.params, self.states, self.outputs)

    def set(self, **values: ArrayLike) -> None:
        """Inputs by name: a number for all, or an array with one for each."""
        for name, value in values.items():
            self.inputs[:, self.input_index[name]] = value

    def set_parameters(self, **values: ArrayLike) -> None:
        """Live parameters by name, as inputs are set, within their limits."""
        for name, value in values.items():
            self.params[:, live_place(self.machine, name, value)] = value

    def step(self, inputs: Floats | HasDLPack | Mapping[str, ArrayLike] | None = None, steps: int = 1) -> Floats:
        """All copies on by so many steps with their inputs: [n, inputs] (or what DLPack gives), by name, or as they
        stand in `inputs`. Returns `outputs`, the same array every time."""
        if isinstance(inputs, Mapping):
            self.set(**inputs)
        elif inputs is not None and inputs is not self.inputs:
            array = cast(Floats, inputs if isinstance(inputs, np.ndarray) else np.from_dlpack(inputs))  # type: ignore
            if array.shape != self.inputs.shape:
                raise ConfigError(f"inputs: shape {array.shape}; {self.inputs.shape} is expected: copies, inputs")
            self.inputs[:] = array
        before, after = self.steps_made * len(self), (self.steps_made + steps) * len(self)
        self.steps_made += steps
        if before < MANY <= after:
            self._tables = for_many_steps(self.machine, after).tables
        if self._pool is None:
            self._step(self._parts[0], steps)
        else:
            list(self._pool.map(lambda part: self._step(part, steps), self._parts))
        return self.outputs

    def _step(self, part: tuple[int, int, tuple[Floats, ...]], steps: int) -> None:
        first, last, (work, used, before) = part
        machine = self.machine
        step_copies(
            machine.step, self.states, self.inputs, self.params, self._tables, work, used, before, self.step_s, steps,
            first, last, self.outputs, self.diverged, machine.stepping.bound,
        )  # fmt: skip

    def close(self) -> None:
        """End its threads; it can still be stepped, by the one that calls."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
            self._parts = [(0, len(self), self._scratch())]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@overload
def batch(
    machine: str | Path, n: int, parameters: Mapping[str, ArrayLike] | None = None, step_s: float = 0.005,
    workers: int = 0, gpu: Literal[False] = False,
) -> Batch: ...  # fmt: skip


@overload
def batch(
    machine: str | Path, n: int, parameters: Mapping[str, ArrayLike] | None = None, step_s: float = 0.005,
    workers: int = 0, *, gpu: Literal[True],
) -> "GpuBatch": ...  # fmt: skip


def batch(
    machine: str | Path,
    n: int,
    parameters: Mapping[str, ArrayLike] | None = None,
    step_s: float = 0.005,
    workers: int = 0,
    gpu: bool = False,
) -> "Batch | GpuBatch":
    """`n` copies of a machine, given as to `load_machine`. A parameter is a number for all copies, or an array with one
    for each, which must be live. `workers` 0: a thread a core. `gpu`: they live and are stepped there.

    Raises ConfigError that names what is wrong.

    >>> stiff = tandem.batch("mass_spring", 3, {"stiffness": np.array([100.0, 200.0, 400.0])})
    >>> stiff.step({"handle": 0.05}, steps=100).shape
    (3, 4)
    """
    if gpu:
        from tandem.library.gpu_batch import on_gpu

        if why := device.available():  # before anything is compiled
            raise ConfigError(f"gpu: {why}")
    arrays = {name: np.asarray(value, np.float64) for name, value in (parameters or {}).items()}
    common = {name: float(value) for name, value in arrays.items() if value.ndim == 0}
    model = load_machine(machine, common)
    each = {name: value for name, value in arrays.items() if value.ndim}
    for name, values in each.items():
        if values.shape != (n,):
            raise ConfigError(f"parameters: {name}: shape {values.shape}; a number, or ({n},), is expected")
        live_place(model.machine, name, values)
    if not gpu:  # a GPU says by itself what it does not hold
        copied = (model.inputs, model.outputs, model.states, model.params)
        refuse_too_many("n", n, 8 * sum(len(each) for each in copied))
    stepper = on_gpu(machine, common, model, n, step_s) if gpu else Batch(model, n, step_s, workers)
    if each:
        stepper.set_parameters(**each)
        stepper.reset()
    return stepper
