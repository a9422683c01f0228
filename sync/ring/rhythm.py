"""When the next block of a ring is usually there: for who looks for blocks that come in a rhythm.

A block's instant is followed by the block itself after some lag. The lag that a given share of the blocks keep is
tracked without a memory of them: with each block it grows by that share of a small step if the block came later, and
falls by the rest of it if not. Instants may be by another clock than arrivals: only differences count.
"""

from numba import float64, int64

from sync.compile.jit import kernel

NAP_NS = 20_000  # between two looks for a block that should be there
_SHARE = 500  # of a period, by which the lag changes at most


@kernel(int64(int64, int64, int64, int64, float64))
def usual_lag(lag_ns, t_ns, came_ns, period_ns, quantile):
    """The lag after a block of this instant that came then. One that is far off resets it."""
    lag = came_ns - t_ns
    if abs(lag - lag_ns) > period_ns // 2:
        return lag
    up = quantile if lag > lag_ns else quantile - 1.0
    return lag_ns + int64(up * (period_ns // _SHARE))


@kernel(int64(int64, int64, int64))
def next_look(now_ns, due_ns, nap_ns):
    """When to look again: after a nap, when it is due, and soon again once it is, for as long as a nap."""
    if now_ns < due_ns:
        return min(now_ns + nap_ns, due_ns)
    return now_ns + (min(nap_ns, NAP_NS) if now_ns - due_ns < nap_ns else nap_ns)
