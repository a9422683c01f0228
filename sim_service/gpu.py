"""Copies of a machine on a GPU: the Python source of its step, compiled for CUDA by numba-cuda (the extra `gpu`).

One thread has one copy. Its state, inputs and room to work in are local to the thread, which the hardware interleaves,
so that neighbours read neighbouring words; tables are shared. A call makes many steps, and only states and outputs
travel. Copies that diverge stay as they were before the step and are marked, as on the CPU (many_steps.py); what is
computed is the same but for contracted multiplications and additions.

`ptx` compiles without a GPU, so that every machine can promise to do so.
"""

import contextlib
import importlib
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import float64, int64, types
from numba.core.dispatcher import Dispatcher

from sim_service.machines.contract import Machine, Tables
from sync.errors import ConfigError
from sync.extras import install_extra

THREADS = 64  # a block; with 255 registers a thread more would not fit more often
HOPPER = (9, 0)
_MATRIX = types.Array(float64, 2, "C")
_INTS = types.Array(types.int32, 1, "C")
_FLOATS = types.Array(float64, 1, "C")
_MARKS = types.Array(int64, 1, "C")
TILE = 32  # copies, a warp
_TILES = types.Array(float64, 3, "C")
# of a mechanism: tables, states and work in tiles, step, steps, copies
_OF_MECHANISM = (_INTS, _FLOATS, _TILES, _TILES, float64, int64, int64)
_ARGUMENTS = (_MATRIX, _MATRIX, _MATRIX, _INTS, _FLOATS, _MATRIX, _MARKS, float64, int64, float64)


def cuda_module() -> Any:
    """numba.cuda, or a line that says what to install."""
    try:
        importlib.import_module("numba_cuda")
        from numba import cuda
    except ImportError:
        raise ConfigError(f"for a GPU numba-cuda is needed: {install_extra('gpu')}") from None
    return cuda


def available() -> str | None:
    """Why there is no GPU to use; nothing if there is one."""
    try:
        cuda = cuda_module()
    except ConfigError as error:
        return str(error)
    try:
        return None if cuda.is_available() else "there is no CUDA device here, or no driver for it"
    except Exception as error:  # a driver may fail in many ways, none of which is a crash of ours
        return f"the CUDA driver does not work: {error}"


@contextlib.contextmanager
def accepting_kernels(compute_capability: tuple[int, int] | None) -> Iterator[None]:
    """numba-cuda takes the kernels of the CPU as functions of the device, if three things are said to it: that those
    with a signature may be compiled once more; that a member of an IntEnum is an integer, also as an index; and, where
    there is no device, for which one to compile."""
    from numba.cuda import dispatcher, target
    from numba.cuda.typing import enumdecl

    context, attribute = target.CUDATypingContext, enumdecl.EnumClassAttribute
    resolve, member, device = context.resolve_value_type, attribute.generic_resolve, dispatcher.get_current_device

    def resolve_kernel(self: Any, value: Any) -> Any:
        if isinstance(value, Dispatcher):
            value._can_compile = True  # type: ignore[attr-defined]
        return resolve(self, value)

    def integer_member(self: Any, kind: Any, name: str) -> Any:
        found = member(self, kind, name)
        return kind.dtype if found is not None and isinstance(kind, types.IntEnumClass) else found

    context.resolve_value_type, attribute.generic_resolve = resolve_kernel, integer_member
    if compute_capability is not None:
        assumed = namedtuple("assumed", "compute_capability")(compute_capability)
        dispatcher.get_current_device = lambda: assumed
    try:
        yield
    finally:
        context.resolve_value_type, attribute.generic_resolve = resolve, member
        dispatcher.get_current_device = device


def _source(machine: Machine) -> Callable[..., None]:
    """The kernel of this machine: so many steps of every copy."""
    cuda = cuda_module()
    step = machine.step
    n_states, n_inputs, n_params = len(machine.states), len(machine.inputs), len(machine.parameters)
    n_params, n_work, n_outputs = max(n_params, 1), machine.work_size, len(machine.outputs)

    def many_steps(states, inputs, params, ints, floats, outputs, diverged, h, steps, bound):
        n = cuda.grid(1)
        if n >= states.shape[0]:
            return
        state, before = cuda.local.array(n_states, float64), cuda.local.array(n_states, float64)
        used, own = cuda.local.array(n_inputs, float64), cuda.local.array(n_params, float64)
        work = cuda.local.array(n_work, float64)
        tables = Tables(ints, floats)
        for i in range(n_states):
            state[i] = states[n, i]
        for i in range(params.shape[1]):
            own[i] = params[n, i]
        for i in range(n_work):
            work[i] = 0.0
        sound = True
        for _ in range(steps):
            for i in range(n_inputs):
                used[i] = inputs[n, i]
            for i in range(n_states):
                before[i] = state[i]
            step(state, used, own, tables, work, h)
            for i in range(n_states):
                sound &= abs(state[i]) <= bound
            for i in range(n_outputs):
                sound &= abs(work[i]) <= bound
            if not sound:
                for i in range(n_states):
                    state[i] = before[i]
                break
            for i in range(n_outputs):
                outputs[n, i] = work[i]
        diverged[n] = 0 if sound else 1
        for i in range(n_states):
            states[n, i] = state[i]

    return many_steps


def ptx(machine: Machine, compute_capability: tuple[int, int] = HOPPER) -> str:
    """The machine's kernel as PTX; no GPU is needed."""
    cuda = cuda_module()
    with accepting_kernels(compute_capability):
        text, _ = cuda.compile_ptx(_source(machine), _ARGUMENTS, cc=compute_capability, opt=True)
    return str(text)


class Copies:
    """`count` copies of a machine on the GPU, each with parameters and inputs of its own."""

    def __init__(self, machine: Machine, params: np.ndarray, state: np.ndarray, count: int):
        if why := available():
            raise ConfigError(why)
        cuda = cuda_module()
        self.count, self._blocks = count, -(-count // THREADS)
        shapes = {"params": params, "states": state}
        rows = {name: np.broadcast_to(value, (count, value.shape[-1])) for name, value in shapes.items()}
        self.states, self.params = (cuda.to_device(np.ascontiguousarray(rows[k])) for k in ("states", "params"))
        self.outputs = cuda.device_array((count, len(machine.outputs)))
        self.diverged = cuda.to_device(np.zeros(count, np.int64))
        # a table may be empty, which no pointer can be
        self._ints = cuda.to_device(
            np.array(machine.tables.ints) if machine.tables.ints.size else np.zeros(1, np.int32)
        )
        self._floats = cuda.to_device(np.array(machine.tables.floats) if machine.tables.floats.size else np.zeros(1))
        self._bound = machine.bound
        with accepting_kernels(None):
            self._kernel = cuda.jit(types.void(*_ARGUMENTS), opt=True)(_source(machine))

    def step(self, inputs: Any, h: float, steps: int = 1) -> None:
        """So many steps of all copies with these inputs [count, inputs], an array of the device."""
        self._kernel[self._blocks, THREADS](
            self.states, inputs, self.params, self._ints, self._floats, self.outputs, self.diverged, h, steps,
            self._bound,
        )  # fmt: skip

    def figures(self) -> dict[str, int]:
        """Registers and bytes of local memory of a thread."""
        kernel = self._kernel
        return {"registers": kernel.get_regs_per_thread(), "local_bytes": kernel.get_local_mem_per_thread()}


# ---- mechanisms in natural coordinates -------------------------------------------------------------------------------


def _source_of_mechanism(step: Any, hook: Any) -> Callable[..., None]:
    """So many steps of every copy. All share the tables; vectors lie in tiles, `[tile][entry][copy]`: those of a long
    chain are too large to be local."""
    cuda = cuda_module()

    def advance(ints, reals, states, work, h, steps, copies):
        n = cuda.grid(1)
        if n < copies:
            tile, lane = n // TILE, n % TILE
            for _ in range(steps):
                step(ints, reals, states[tile, :, lane], work[tile, :, lane], hook, h)

    return advance


def mechanism_ptx(step: Any, hook: Any, compute_capability: tuple[int, int] = HOPPER) -> str:
    """PTX of a step of natural/augmented.py with this hook; no GPU is needed."""
    cuda = cuda_module()
    with accepting_kernels(compute_capability):
        source = _source_of_mechanism(step, hook)
        text, _ = cuda.compile_ptx(source, _OF_MECHANISM, cc=compute_capability, opt=True)
    return str(text)


def mechanism_kernel(step: Any, hook: Any) -> Any:
    """The same for the GPU that is there, to be launched with (ints, reals, states, work, h, steps, copies)."""
    if why := available():
        raise ConfigError(why)
    with accepting_kernels(None):
        return cuda_module().jit(types.void(*_OF_MECHANISM), opt=True)(_source_of_mechanism(step, hook))


def tiled(rows: np.ndarray) -> np.ndarray:
    """[copy][entry] as [tile][entry][copy], the last tile filled up with zeros."""
    tiles = -(-len(rows) // TILE)
    full = np.zeros((tiles * TILE, rows.shape[1]))
    full[: len(rows)] = rows
    return np.ascontiguousarray(full.reshape(tiles, TILE, -1).transpose(0, 2, 1))


def untiled(tiles: np.ndarray, copies: int) -> np.ndarray:
    return np.ascontiguousarray(tiles.transpose(0, 2, 1).reshape(-1, tiles.shape[1])[:copies])
