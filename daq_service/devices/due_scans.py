"""Scans that are due at a fixed period from the start on and wait in a buffer of finite size: shared by emulated
devices. Their state is a vector of words, of which the first four are those below."""

import numpy as np
from numba import int64, types

from sync.clock import RealClock, VirtualClock
from sync.compile.array_types import WORDS
from sync.compile.jit import kernel

NEXT, START, PERIOD, BUFFER, OWN = range(5)  # number of the next scan; ns; ns; scans; from here on the device's own
NEVER = 2**62  # ns: with this start no scan is ever due


@kernel(types.UniTuple(int64, 2)(WORDS, int64, int64))
def take_due(state, now, capacity):
    """(how many scans can be made by `now`, at most `capacity`; how many were lost before them)."""
    due = state[START] + state[NEXT] * state[PERIOD]
    waiting = (now - due) // state[PERIOD] + 1
    lost = max(waiting - state[BUFFER], 0)
    state[NEXT] += lost
    return min(waiting - lost, capacity), lost


def stopped(period_ns: int, buffer_scans: int, own: int = 0) -> np.ndarray:
    """The state of a device that does not sample, with `own` more words of its own."""
    return np.array([0, NEVER, period_ns, buffer_scans, *[0] * own], np.int64)


def begin(state: np.ndarray, clock: RealClock | VirtualClock, after_ns: int = 0) -> None:
    """The first scan is due a period and `after_ns` from now."""
    state[NEXT] = 0
    state[START] = clock.now_ns() + int(state[PERIOD]) + after_ns


def wait_for_due(state: np.ndarray, clock: RealClock | VirtualClock, wait_ns: int) -> int | None:
    """The time once a scan is due; None if none is within `wait_ns`."""
    now = clock.now_ns()
    due = int(state[START] + state[NEXT] * state[PERIOD])
    if due > now:
        clock.sleep_until(min(due, now + wait_ns))
        now = clock.now_ns()
    return now if due <= now else None
