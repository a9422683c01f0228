"""The exact flow of a linear system: x(h) = exp(A h) x(0), with the same bits on every machine.

The exponential is applied to the vector, never formed: its Taylor series over pieces of the interval so short that the
norm of A times a piece is at most one, until the next term changes nothing. A system that would need more than
MOST_PIECES of them in a step is refused where it is described (`pieces_of`). Additions and products in a fixed order:
no BLAS, no exponential of a mathematical library. Constant inputs are states that do not change.
"""

import math

import numpy as np

from sync.compile.jit import kernel

_MOST_TERMS = 40
MOST_PIECES = 4096  # of an interval; a stiffer system is not one that is sampled here


def pieces_of(a: np.ndarray, h: float) -> float:
    """How many pieces the flow over an interval takes; more than MOST_PIECES are too many."""
    return float(np.abs(a).sum(axis=-1).max()) * abs(h)


@kernel()
def too_stiff(pieces):
    """Whether a flow of so many pieces is none that this module computes; NaN is."""
    return not pieces <= MOST_PIECES


@kernel()
def _row_norm(a, n):
    most = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += abs(a[n * i + j])
        most = max(most, total)
    return most


@kernel()
def flow(a, x, h, out, scratch):
    """`out` = exp(a h) x. `a` has the n rows of a matrix one after the other, n the size of `x`; `scratch` twice n
    numbers. `out` may be `x`."""
    n = x.size
    for i in range(n):
        out[i] = x[i]
    if h == 0.0:
        return
    pieces = math.ceil(min(max(_row_norm(a, n) * abs(h), 1.0), float(MOST_PIECES)))
    piece = h / pieces
    term, following = scratch[:n], scratch[n : 2 * n]
    for _ in range(pieces):
        for i in range(n):
            term[i] = out[i]
        for k in range(1, _MOST_TERMS):
            changed = False
            factor = piece / k
            for i in range(n):
                total = 0.0
                for j in range(n):
                    total += a[n * i + j] * term[j]
                following[i] = total * factor
            for i in range(n):
                term[i] = following[i]
                before = out[i]
                out[i] = before + term[i]
                changed |= out[i] != before
            if not changed:
                break
