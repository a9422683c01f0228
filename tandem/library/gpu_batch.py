"""Copies of a machine that live on a GPU: stepped beside PyTorch and its like, in the same memory.

    copies = tandem.batch("mass_spring", 100_000, gpu=True)
    u, y = torch.from_dlpack(copies.inputs), torch.from_dlpack(copies.outputs)     # of the device, not copied
    u[:, copies.input_index["handle"]] = policy(y)
    copies.step()

`inputs`, `outputs`, `states` and `params` stay where they are; nothing is fetched in a step but how many steps each
copy has made. A step that the machine's method does not make on a GPU (gpu_runs.py) is made by the CPU from the same
state, and counted in `by_cpu`: a machine that needs many is slow so. A step waits for all work on the device before it
begins, and has ended when it returns.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sim_service.contract.machine import Floats
from sim_service.many_steps import step_copies
from sync.errors import ConfigError
from tandem.ensembles.gpu import device
from tandem.ensembles.gpu_runs import THREADS, program_of
from tandem.library.described import Described, Which, live_place
from tandem.offline.model import Model, machine_files


class Shared:
    """[copy, entry] on the device, for libraries that take DLPack; `numpy()` fetches it, `put` writes it."""

    def __init__(self, vector: device.Vector):
        self._vector = vector

    @property
    def shape(self) -> tuple[int, ...]:
        """Copies, entries."""
        return tuple(self._vector.shape[::-1])

    def numpy(self) -> Floats:
        """A copy on this side."""
        return np.ascontiguousarray(self._vector.get().T)

    def put(self, values: Floats) -> None:
        """Write all of it."""
        if np.shape(values) != self.shape:
            raise ConfigError(f"shape {np.shape(values)}; {self.shape} is expected")
        self._vector.put(np.asarray(values).T)

    def put_column(self, column: int, values: ArrayLike) -> None:
        """Write an entry of every copy: one number, or one for each."""
        self._vector.put_row(column, np.broadcast_to(values, self.shape[:1]))

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> object:  # fmt: skip
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("this memory is lent where it is; numpy() makes a copy")
        return self._vector.capsule(stream, max_version is not None and max_version >= (1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        on: tuple[int, int] = self._vector.on
        return on


class GpuBatch(Described):
    """As Batch, on a GPU. Tensors made of its memory live on after `close`.

    Needs a GPU of NVIDIA and the extra `gpu`: `tandem.batch("mass_spring", 100_000, gpu=True)`.
    """

    def __init__(self, model: Model, copies: int, step_s: float, gpu: device.Device, program: device.Program):
        super().__init__(model, copies, step_s)
        machine = self.machine
        self.by_cpu: int = 0  # steps that a GPU does not make, all in all
        self._gpu = gpu
        self._program: device.Program | None = program
        states, params = np.zeros((copies, len(machine.states))), np.tile(model.params, (copies, 1))
        self._copies = device.Copies(
            gpu, states, self._no_inputs(), params, len(machine.outputs), machine.stepping.bound
        )
        shared = [Shared(vector) for vector in self._copies.vectors[:4]]
        self.states: Shared = shared[0]
        self.inputs: Shared = shared[1]
        self.params: Shared = shared[2]
        self.outputs: Shared = shared[3]
        self.reset()

    def reset(self, which: Which | None = None) -> None:
        """All copies, or these (indices, or True and False for each), to the start of the machine, with the parameters
        that each has."""
        self._gpu.use()
        states, outputs = self.states.numpy(), self.outputs.numpy()
        self._to_start(which, self.params.numpy(), states, outputs)
        self.states.put(states)
        self.outputs.put(outputs)

    def set(self, **values: ArrayLike) -> None:
        """Inputs by name: a number for all, or an array with one for each."""
        self._gpu.use()
        for name, value in values.items():
            self.inputs.put_column(self.input_index[name], value)

    def set_parameters(self, **values: ArrayLike) -> None:
        """Live parameters by name, as inputs are set, within their limits."""
        self._gpu.use()
        for name, value in values.items():
            self.params.put_column(live_place(self.machine, name, value), value)

    def step(self, inputs: Mapping[str, ArrayLike] | Floats | None = None, steps: int = 1) -> Shared:
        """All copies on by so many steps with their inputs: by name, as an array of numpy, or as they stand in `inputs`
        (where tensors write them). Returns `outputs`."""
        self._gpu.use()
        if isinstance(inputs, Mapping):
            self.set(**inputs)
        elif isinstance(inputs, np.ndarray):
            self.inputs.put(inputs)
        elif inputs is not None:
            raise ConfigError(
                "inputs: by name, or an array of numpy; a tensor on the device is written into"
                " from_dlpack(batch.inputs), without a copy"
            )
        self._gpu.wait()  # until inputs have been written, in whatever stream
        if self._program is None:
            raise ConfigError("this batch is closed")
        self.steps_made += steps
        self._copies.step(self._program, self.step_s, steps, THREADS)
        done = self._copies.steps_done()
        self.diverged[:] = 0
        if len(left := np.flatnonzero(done < steps)):
            self._step_here(left, steps - done)
        return self.outputs

    def _step_here(self, which: np.ndarray, steps: np.ndarray) -> None:
        machine = self.machine
        states, inputs, params, outputs = (a.numpy() for a in (self.states, self.inputs, self.params, self.outputs))
        work, used, before = (np.zeros(n) for n in (machine.work_size, len(machine.inputs), len(machine.states)))
        for n in which:
            step_copies(
                machine.step, states, inputs, params, machine.tables, work, used, before, self.step_s, steps[n],
                n, n + 1, outputs, self.diverged, machine.stepping.bound,
            )  # fmt: skip
        self.by_cpu += int(steps[which].sum())
        self.states.put(states)
        self.outputs.put(outputs)

    def close(self) -> None:
        """It cannot be stepped any more. Its memory is freed with the last tensor that shares it."""
        self._program = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def on_gpu(machine: str | Path, changed: dict[str, float], model: Model, copies: int, step_s: float) -> GpuBatch:
    """The machine's program is compiled the first time: minutes, where bodies are many."""
    sources, configured = machine_files(machine)
    gpu = device.Device()
    program = device.Program(gpu, program_of(sources, {**configured, **changed}))
    return GpuBatch(model, copies, step_s, gpu, program)
