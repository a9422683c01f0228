"""Monotonic time: int64 nanoseconds of CLOCK_MONOTONIC, and sleeping until an instant of it.

Both are nopython, hold no GIL and allocate nothing (the timespec lives on the stack), so a loop may call them without
ever meeting the interpreter. The C library is called by symbol name, which numba can cache; a ctypes function object
would defeat the cache.
"""

from typing import Any

from llvmlite import ir
from numba import int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from sync.jit import kernel
from sync.units import SECOND

CLOCK_MONOTONIC = 1
TIMER_ABSTIME = 1
EINTR = 4

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_TIMESPEC = ir.LiteralStructType([_I64, _I64])


def _call(builder: Any, name: str, *args: Any) -> Any:
    signature = ir.FunctionType(_I32, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), args)


@intrinsic
def _now(typing_context: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        timespec = cgutils.alloca_once(builder, _TIMESPEC)
        _call(builder, "clock_gettime", _I32(CLOCK_MONOTONIC), timespec)
        seconds = builder.load(cgutils.gep_inbounds(builder, timespec, 0, 0))
        rest = builder.load(cgutils.gep_inbounds(builder, timespec, 0, 1))
        return builder.add(builder.mul(seconds, _I64(SECOND)), rest)

    return int64(), codegen


@intrinsic
def _sleep(typing_context: Any, seconds: Any, rest: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        timespec = cgutils.alloca_once(builder, _TIMESPEC)
        for field, value in enumerate(args):
            builder.store(value, cgutils.gep_inbounds(builder, timespec, 0, field))
        code = _call(builder, "clock_nanosleep", _I32(CLOCK_MONOTONIC), _I32(TIMER_ABSTIME), timespec, timespec)
        return builder.sext(code, _I64)

    return int64(int64, int64), codegen


@kernel(int64())
def now_ns():
    return _now()


@kernel(types.void(int64))
def sleep_until(instant_ns):
    """Return at `instant_ns` or as soon after it as the system allows; at once if it has passed.

    A signal may end the sleep early; the instant is absolute, so sleeping again loses nothing.
    """
    while _sleep(instant_ns // SECOND, instant_ns % SECOND) == EINTR:
        pass
