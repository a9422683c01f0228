"""Copies of a machine on a GPU, by CUDA's driver (package cuda-bindings, extra `gpu`): no compiler is needed here.

A program is PTX, which the driver compiles, or a cubin, which it does not. Vectors of all copies stay on the device
between calls, `[entry][copy]`; what is asked for is fetched as `[copy, entry]`.
"""

import ctypes
from typing import Any

import numpy as np

from sync.errors import ConfigError
from sync.extras import install_extra

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

    def wait(self) -> None:
        checked(self.cu.cuCtxSynchronize())


class Vector:
    """An array on the device."""

    def __init__(self, device: Device, values: np.ndarray):
        self._device, self.shape, self.kind = device, values.shape, values.dtype
        self.place = checked(device.cu.cuMemAlloc(max(values.nbytes, 8)))
        self.put(values)

    def put(self, values: np.ndarray) -> None:
        given = np.ascontiguousarray(values, self.kind)
        if given.shape != self.shape:
            raise ValueError(f"an array of shape {given.shape}: must be {self.shape}")
        if given.nbytes:
            checked(self._device.cu.cuMemcpyHtoD(self.place, given.ctypes.data, given.nbytes))

    def get(self) -> np.ndarray:
        out = np.empty(self.shape, self.kind)
        if out.nbytes:
            checked(self._device.cu.cuMemcpyDtoH(out.ctypes.data, self.place, out.nbytes))
        return out

    def free(self) -> None:
        checked(self._device.cu.cuMemFree(self.place))


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

    def unload(self) -> None:
        checked(self.device.cu.cuModuleUnload(self._module))


class Copies:
    """Copies of one machine with states, inputs and parameters of their own, [copy, entry] each."""

    def __init__(
        self, device: Device, states: np.ndarray, inputs: np.ndarray, params: np.ndarray, outputs: int, bound: float
    ):
        self.count, self._bound, self._device = len(states), bound, device
        self._states, self._inputs, self._params = (Vector(device, a.T) for a in (states, inputs, params))
        self._outputs = Vector(device, np.zeros((outputs, self.count)))
        self._made = Vector(device, np.zeros(self.count, np.int64))

    def step(self, program: Program, h: float, steps: int, threads: int) -> None:
        """So many steps of all copies; the call does not wait for them."""
        vectors = (self._states, self._inputs, self._params, self._outputs, self._made)
        values = (*(int(v.place) for v in vectors), self.count, h, steps, self._bound)
        kinds = (*[ctypes.c_void_p] * 5, ctypes.c_int64, ctypes.c_double, ctypes.c_int64, ctypes.c_double)
        blocks = -(-self.count // threads)
        checked(
            self._device.cu.cuLaunchKernel(
                program.kernel, blocks, 1, 1, threads, 1, 1, 0, 0, (values, kinds), 0,
            )
        )  # fmt: skip

    def put(self, states: np.ndarray | None = None, inputs: np.ndarray | None = None) -> None:
        if states is not None:
            self._states.put(states.T)
        if inputs is not None:
            self._inputs.put(inputs.T)

    def states(self) -> np.ndarray:
        return np.ascontiguousarray(self._states.get().T)

    def outputs(self) -> np.ndarray:
        return np.ascontiguousarray(self._outputs.get().T)

    def made(self) -> np.ndarray:
        """How many steps of the last call each copy has made; fewer than asked for: its method does not make the next
        one, or it diverges."""
        return self._made.get()

    def free(self) -> None:
        for vector in (self._states, self._inputs, self._params, self._outputs, self._made):
            vector.free()
