"""Lines between walls: the kernel behind the clock of another host (sync/transport/host_clock.py).

A file of its own: only a process that measures another clock imports and compiles it.
"""

import math

import numpy as np
from numba import float64, types

from sync.compile.jit import kernel

_GAP, _LOW, _HIGH = range(3)
_HALVINGS = 45


@kernel()
def _value(what, beta, lower, upper, slack):
    """For lines alpha + beta t of this beta: the least alpha above all lower walls (_LOW), the negative of the
    greatest alpha below all upper walls (_HIGH), or their sum (_GAP), which is at most 0 if a line fits. All three are
    convex in beta."""
    low, high = -np.inf, np.inf
    for i in range(lower.shape[0]):
        low = max(low, lower[i, 1] - beta * lower[i, 0])
    for i in range(upper.shape[0]):
        high = min(high, upper[i, 1] - beta * upper[i, 0])
    low -= slack
    high += slack
    return low if what == _LOW else -high if what == _HIGH else low - high


@kernel()
def _minimum(what, left, right, lower, upper, slack):
    """Where a convex function of beta is least (golden section)."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = left, right
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = _value(what, c, lower, upper, slack), _value(what, d, lower, upper, slack)
    for _ in range(_HALVINGS):
        if at_c <= at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = _value(what, c, lower, upper, slack)
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = _value(what, d, lower, upper, slack)
    best = (a + b) / 2.0
    for end in (left, right):
        if _value(what, end, lower, upper, slack) < _value(what, best, lower, upper, slack):
            best = end
    return best


@kernel()
def _edge(inside, outside, lower, upper, slack):
    """The last beta from `inside` towards `outside` for which a line still fits."""
    if _value(_GAP, outside, lower, upper, slack) <= 0.0:
        return outside
    for _ in range(_HALVINGS):
        half = (inside + outside) / 2.0
        if _value(_GAP, half, lower, upper, slack) <= 0.0:
            inside = half
        else:
            outside = half
    return inside


@kernel(types.UniTuple(float64, 4)(float64[:, ::1], float64[:, ::1], float64, float64))
def fit(lower, upper, drift_limit, slack):
    """(least alpha, most alpha, least beta, most beta) of all lines between the walls; NaN if there is none."""
    middle = _minimum(_GAP, -drift_limit, drift_limit, lower, upper, slack)
    if _value(_GAP, middle, lower, upper, slack) > 0.0:
        return np.nan, np.nan, np.nan, np.nan
    left, right = _edge(middle, -drift_limit, lower, upper, slack), _edge(middle, drift_limit, lower, upper, slack)
    least = _value(_LOW, _minimum(_LOW, left, right, lower, upper, slack), lower, upper, slack)
    most = -_value(_HIGH, _minimum(_HIGH, left, right, lower, upper, slack), lower, upper, slack)
    return least, most, left, right
