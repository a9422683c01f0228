"""Copies of a machine on a GPU, by CUDA's driver (package cuda-bindings, extra `gpu`): no compiler is needed here.

A program is PTX, which the driver compiles, or a cubin, which it does not. Vectors of all copies stay on the device
between calls, `[entry][copy]`; what is asked for is fetched as `[copy, entry]`. Others on the same device (PyTorch,
CuPy, JAX) have the vectors themselves, through DLPack.
"""

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from sync.config.extras import install_extra
from sync.errors import ConfigError
from tandem.ensembles.gpu import dlpack

KERNEL = b"advance_copies"


def driver() -> Any:
    """cuda.bindings.driver with a device, or a line that says why there is none."""
    try:
        from cuda.bindings import driver as found
    except ImportError:
        raise ConfigError(f"for a GPU cuda-bindings is needed: {install_extra('gpu')}") from None
    try:
        wrong = found.cuInit(0)[0]
    except Exception as error:  # no library of the driver: its loader has exceptions of its own
        raise ConfigError(f"there is no CUDA driver here: {str(error).splitlines()[0]}") from None
    if int(wrong):
        raise ConfigError(f"there is no CUDA device here, or its driver does not work ({wrong.name})")
    return found


def available() -> str | None:
    """Why there is no GPU to use; nothing if there is one."""
    try:
        driver()
    except ConfigError as error:
        return str(error)
    return None


def checked(result: Any) -> Any:
    """What a call of the driver returns behind its status."""
    status, *values = result
    if int(status):
        raise RuntimeError(f"CUDA: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


class Device:
    """The first GPU."""

    def __init__(self) -> None:
        self.cu = driver()
        self.device = checked(self.cu.cuDeviceGet(0))
        self._context = checked(self.cu.cuDevicePrimaryCtxRetain(self.device))
        checked(self.cu.cuCtxSetCurrent(self._context))

    @property
    def name(self) -> str:
        return str(checked(self.cu.cuDeviceGetName(100, self.device)).split(b"\0")[0].decode())

    def use(self) -> None:
        """For the thread that calls from now on."""
        checked(self.cu.cuCtxSetCurrent(self._context))

    def vector(self, values: np.ndarray) -> "Vector":
        return Vector(self, values)

    def wait(self) -> None:
        checked(self.cu.cuCtxSynchronize())


def _freed(device: Device, place: Any) -> None:
    device.use()  # another thread may have dropped the last reference
    device.cu.cuMemFree(place)


class Vector:
    """An array on the device, freed with its last reference."""

    def __init__(self, device: Device, values: np.ndarray):
        self._device, self.shape, self.kind = device, values.shape, values.dtype
        self.place = checked(device.cu.cuMemAlloc(max(values.nbytes, 8)))
        self.free = weakref.finalize(self, _freed, device, self.place)
        self.free.atexit = False  # the driver frees what is left, and somebody may still have a tensor of it
        self.put(values)

    def put(self, values: np.ndarray) -> None:
        array = np.ascontiguousarray(values, self.kind)
        if array.shape != self.shape:
            raise ValueError(f"an array of shape {array.shape}: must be {self.shape}")
        self._write(array, 0)

    def put_row(self, row: int, values: np.ndarray) -> None:
        """One entry of all copies."""
        array = np.ascontiguousarray(values, self.kind)
        if array.shape != self.shape[1:]:
            raise ValueError(f"an array of shape {array.shape}: must be {self.shape[1:]}")
        self._write(array, row * array.nbytes)

    def _write(self, values: np.ndarray, offset: int) -> None:
        self._device.use()
        if values.nbytes:
            checked(self._device.cu.cuMemcpyHtoD(int(self.place) + offset, values.ctypes.data, values.nbytes))

    def get(self) -> np.ndarray:
        self._device.use()
        out = np.empty(self.shape, self.kind)
        if out.nbytes:
            checked(self._device.cu.cuMemcpyDtoH(out.ctypes.data, self.place, out.nbytes))
        return out

    def capsule(self, stream: int | None, versioned: bool) -> Any:
        """For DLPack: [copy, entry], in this memory. Our work is in the default stream, which waits for no other that
        was made not to wait for it."""
        if stream not in (None, -1, 1):
            self._device.use()
            self._device.wait()
        return dlpack.capsule(int(self.place), self.shape, self.kind, self.on, self, versioned)

    @property
    def on(self) -> tuple[int, int]:
        return dlpack.CUDA, 0


class Program:
    """The kernel of a machine."""

    def __init__(self, device: Device, image: bytes):
        self.device = device
        text = np.frombuffer(image + b"\0", np.uint8).copy()  # PTX ends with a zero
        self._module = checked(device.cu.cuModuleLoadData(text.ctypes.data))
        self.kernel = checked(device.cu.cuModuleGetFunction(self._module, KERNEL))

    def figures(self, threads: int) -> dict[str, int]:
        """Registers and bytes of a thread, and how many threads of a multiprocessor are resident."""
        cu = self.device.cu
        which = cu.CUfunction_attribute
        blocks = checked(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(self.kernel, threads, 0))
        return {
            "registers": checked(cu.cuFuncGetAttribute(which.CU_FUNC_ATTRIBUTE_NUM_REGS, self.kernel)),
            "local_bytes": checked(cu.cuFuncGetAttribute(which.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, self.kernel)),
            "resident_threads": blocks * threads,
        }

    def launch(self, vectors: Sequence[Vector], count: int, h: float, steps: int, bound: float, threads: int) -> None:
        """states, inputs, params, outputs, steps made; the call does not wait."""
        values = (*(int(v.place) for v in vectors), count, h, steps, bound)
        kinds = (*[ctypes.c_void_p] * 5, ctypes.c_int64, ctypes.c_double, ctypes.c_int64, ctypes.c_double)
        blocks = -(-count // threads)
        checked(self.device.cu.cuLaunchKernel(self.kernel, blocks, 1, 1, threads, 1, 1, 0, 0, (values, kinds), 0))

    def unload(self) -> None:
        checked(self.device.cu.cuModuleUnload(self._module))


class Copies:
    """Copies of one machine with states, inputs and parameters of their own, [copy, entry] each."""

    def __init__(
        self, device: Device, states: np.ndarray, inputs: np.ndarray, params: np.ndarray, outputs: int, bound: float
    ):
        self.count, self._bound = len(states), bound
        self.vectors = (
            *(device.vector(a.T) for a in (states, inputs, params)),
            device.vector(np.zeros((outputs, self.count))),
            device.vector(np.zeros(self.count, np.int64)),
        )
        self._states, self._inputs, _, self._outputs, self._done = self.vectors

    def step(self, program: Program, h: float, steps: int, threads: int) -> None:
        """So many steps of all copies; the call does not wait for them."""
        program.launch(self.vectors, self.count, h, steps, self._bound, threads)

    def put(self, states: np.ndarray | None = None, inputs: np.ndarray | None = None) -> None:
        if states is not None:
            self._states.put(states.T)
        if inputs is not None:
            self._inputs.put(inputs.T)

    def states(self) -> np.ndarray:
        return np.ascontiguousarray(self._states.get().T)

    def outputs(self) -> np.ndarray:
        return np.ascontiguousarray(self._outputs.get().T)

    def steps_done(self) -> np.ndarray:
        """How many steps of the last call each copy has made; fewer than asked for: its method does not make the next
        one, or it diverges."""
        return self._done.get()

    def free(self) -> None:
        for vector in self.vectors:
            vector.free()
