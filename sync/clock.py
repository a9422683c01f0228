"""Monotonic time: int64 nanoseconds of CLOCK_MONOTONIC, and sleeping until an instant of it; or virtual time.

`now_ns` and `sleep_until` are nopython, hold no GIL and allocate nothing (the timespec lives on the stack), so a loop
may call them without ever meeting the interpreter. The C library is called by symbol name, which numba can cache; a
ctypes function object would defeat the cache.

Code that waits takes its clock as an argument. Compiled code calls `now(clock)`, `sleep(clock, instant)` and, to keep
the core while it waits, `spin(clock, instant)`; Python calls `clock.now_ns()` and `clock.sleep_until(instant)`. The
*type* of the clock chooses the code when the caller is compiled: with a RealClock, which has no fields, these are the
two functions above and nothing else. With a VirtualClock every call goes to `advance`, which moves time and lets a
world act meanwhile (sync/virtual_clock.py).
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import int64, typeof, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from sync.compile.jit import kernel

Words = NDArray[np.int64]
Floats = NDArray[np.float64]
SECOND = 1_000_000_000  # ns

CLOCK_MONOTONIC = 1
TIMER_ABSTIME = 1
EINTR = 4

_VECTOR = types.Array(int64, 1, "C")
_TABLE = types.Array(int64, 2, "C")
# moves time at least to an instant, or by the cost of reading the clock if that instant has passed; returns the time
# reached. Arguments: the clock's words, the script, the rings of blocks, the ring of commands, the loop's control
# words, how long the model says its step takes, the instant
ADVANCE = int64(_VECTOR, _TABLE, _TABLE, _VECTOR, _VECTOR, types.Array(types.float64, 1, "C"), int64)

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


class RealClock(NamedTuple):
    """The monotonic clock of this host."""

    def now_ns(self) -> int:
        return int(now_ns())

    def sleep_until(self, instant_ns: int) -> None:
        sleep_until(instant_ns)

    def wall_ns(self) -> int:
        """The time of day, with which other programs stamp messages. It steps: compare it at once, never keep it."""
        return time.time_ns()


class VirtualClock(NamedTuple):
    """Time that passes only when code reads it or sleeps, and what acts meanwhile. Made by sync/virtual_clock.py."""

    advance: Callable[[Words, Words, Words, Words, Words, Floats, int], int]  # a C callback of type ADVANCE
    words: Words
    script: Words
    rings: Words
    commands: Words
    control: Words
    busy: Floats

    def now_ns(self) -> int:
        return int(self.words[0])

    def sleep_until(self, instant_ns: int) -> None:
        _sleep_virtually(self, instant_ns)

    def wall_ns(self) -> int:
        return self.now_ns()


Clock = RealClock | VirtualClock
REAL = RealClock()


def now(clock: Any) -> Any:
    """The time, in compiled code."""
    raise NotImplementedError("for compiled code; in Python ask clock.now_ns()")


def sleep(clock: Any, instant_ns: Any) -> None:
    """Sleep until this instant, in compiled code."""
    raise NotImplementedError("for compiled code; in Python ask clock.sleep_until()")


def spin(clock: Any, instant_ns: Any) -> None:
    """Read the clock until this instant, in compiled code: more exact than sleep, at the cost of a core."""
    raise NotImplementedError("for compiled code")


def for_any_clock(function: Any, *arguments: types.Type, returns: types.Type = int64) -> Callable[[Any], Any]:
    """Compile a function whose first argument is its clock for each kind of clock: for the real one now, for a virtual
    one at its first use. `arguments` and `returns` are the types of the other arguments and of the result."""
    real = kernel(returns(typeof(REAL), *arguments))(function)

    @functools.cache
    def virtual(clock: types.Type) -> Any:
        return kernel(returns(clock, *arguments))(function)

    return lambda clock: real if isinstance(clock, RealClock) else virtual(typeof(clock))


def _is(clock: Any, kind: type) -> bool:
    return isinstance(clock, types.BaseNamedTuple) and clock.instance_class is kind


@overload(now)
def _now_of(clock):
    if _is(clock, RealClock):
        return lambda clock: now_ns()
    if _is(clock, VirtualClock):
        return lambda clock: clock.advance(
            clock.words, clock.script, clock.rings, clock.commands, clock.control, clock.busy, 0
        )
    return None


@overload(sleep)
def _sleep_of(clock, instant_ns):
    if _is(clock, RealClock):
        return lambda clock, instant_ns: sleep_until(instant_ns)
    if _is(clock, VirtualClock):

        def sleep_virtually(clock, instant_ns):
            clock.advance(clock.words, clock.script, clock.rings, clock.commands, clock.control, clock.busy, instant_ns)

        return sleep_virtually
    return None


@overload(spin)
def _spin_of(clock, instant_ns):
    if _is(clock, RealClock):

        def busy_wait(clock, instant_ns):
            while now_ns() < instant_ns:
                pass

        return busy_wait
    if _is(clock, VirtualClock):  # virtual time needs no core while it waits
        return lambda clock, instant_ns: sleep(clock, instant_ns)  # noqa: PLW0108  (numba inlines a function of its own)
    return None


@kernel()
def _sleep_virtually(clock, instant_ns):
    sleep(clock, instant_ns)
