"""When the next block of a ring usually arrives: for readers that poll for blocks of a regular period.

A block arrives some lag after its instant. The lag that a given share of the blocks do not exceed is tracked without
storing any: with each block it grows by that share of a small step if the block came later, and falls by the rest of
the step if not. Instants and arrivals may be of different clocks: only differences count.
"""

from numba import float64, int64

from sync.compile.jit import kernel

NAP_NS = 20_000  # between two polls for a block that is due
_SHARE = 500  # the lag changes by at most this fraction (1/500) of a period


@kernel(int64(int64, int64, int64, int64, float64))
def usual_lag(lag_ns, t_ns, came_ns, period_ns, quantile):
    """The lag, updated by a block of instant `t_ns` that came at `came_ns`. A lag far from the old one replaces it."""
    lag = came_ns - t_ns
    if abs(lag - lag_ns) > period_ns // 2:
        return lag
    up = quantile if lag > lag_ns else quantile - 1.0
    return lag_ns + int64(up * (period_ns // _SHARE))


@kernel(int64(int64, int64, int64))
def next_poll(now_ns, due_ns, nap_ns):
    """When to poll again: after a nap, but at the due instant at the latest; then every NAP_NS for as long as a nap."""
    if now_ns < due_ns:
        return min(now_ns + nap_ns, due_ns)
    return now_ns + (min(nap_ns, NAP_NS) if now_ns - due_ns < nap_ns else nap_ns)
