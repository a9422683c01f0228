"""A count tells in which cell a value lies, not where: what that says of an estimate that is surer than a cell is wide.

A reading's error within its cell is no white noise of a twelfth of the cell's square: it is known as well as the value
is. Of a value y that is normal with mean m and variance s, and the cell it fell into, mean and variance of what is left
of the normal distribution follow; the update is then that of a scalar reading whose variance has that effect. Where no
edge is near, a count says nothing, and costs nothing. Where a cell is narrow beside s, or is not where y is expected at
all, the plain form is taken: the cell's middle, with a twelfth.
"""

from math import sqrt

from numba import float64, types

from sync.compile.jit import kernel
from tandem.multibody.portable import falling

NARROW = 0.5  # standard deviations: of a cell
FAR = 3.0  # and of its nearer edge
NOTHING = 1e-3  # of s: a smaller loss is none
_ROOT_HALF, _DENSITY = 0.7071067811865476, 0.3989422804014327
# Press et al., erfcc: relative error below 1.2e-7
_SERIES = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
)


@kernel(float64(float64), error_model="numpy")
def upper_tail(x):
    """Of the standard normal distribution, beyond x >= 0."""
    z = x * _ROOT_HALF
    t = 1.0 / (1.0 + 0.5 * z)
    total = 0.0
    for c in _SERIES:
        total = c + total * t
    return 0.5 * t * falling(max(z * z + 1.26551223 - t * total, 0.0))


@kernel(types.UniTuple(float64, 2)(float64, float64, float64, float64), error_model="numpy")
def of_cell(v, s, r, cell):
    """Innovation and variance of noise that stand for a reading v away from what was expected, with s H P H^T and r
    the variance of the noise before it was counted. A negative variance: it says nothing."""
    total = s + r
    twelfth = cell * cell / 12.0
    sigma = sqrt(total)
    if not cell >= NARROW * sigma:
        return v, r + twelfth
    a, b = (v - 0.5 * cell) / sigma, (v + 0.5 * cell) / sigma
    if a > FAR or b < -FAR:
        return v, r + twelfth
    if a >= 0.0:
        share = upper_tail(a) - upper_tail(b)
    elif b <= 0.0:
        share = upper_tail(-b) - upper_tail(-a)
    else:
        share = 1.0 - upper_tail(b) - upper_tail(-a)
    low, high = _DENSITY * falling(0.5 * a * a), _DENSITY * falling(0.5 * b * b)
    shift = (low - high) / share
    left = min(max(1.0 + (a * low - b * high) / share - shift * shift, 1e-6), 1.0)
    lost = 1.0 - left
    if lost < NOTHING:
        return 0.0, -1.0
    return shift * sigma / lost, total / lost - s
