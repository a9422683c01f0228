"""What an ordinary differential equation is to the integrators: signatures, sizes, settings, scratch.

    y = (x, w, s), sizes n, n, k:   dx/dt = A(x) w,   dw/dt = g(t, x, w, s),   ds/dt = r(t, x, w, s)

A = 1 except for ball joints, whose three x are an increment xi of rotation: A = 1 + [xi]x/2 + xi xi^T/4. The caller of
the integrators moves the rotation into a quaternion after each step and sets xi back to 0; they do not depend on it.

A system is two nopython functions, with three arrays that are theirs alone:

    rates(ints, reals, work, t, y, ydot)                              writes ydot
    rates_and_jacobian(ints, reals, work, t, y, ydot, J, ydot_t)      writes ydot, J = d ydot/d y, and d ydot/d t

    ints   int32    constant tables
    reals  float64  parameters: constant in a step
    work   float64  scratch of the two functions; nothing here reads it

J is row-major, (2n + k) x (2n + k). It and `ydot_t` begin as zeros and keep what was written: entries that are always
zero need not be written, all others must be at every call. One scratch therefore belongs to one system.

An integrator is a function of signature STEP:

    status = step(rates, rates_and_jacobian, layout, settings, ints, reals, work, t, h, y, scratch)

It advances y from t to t + h and returns GOOD, CAPPED (an iteration ended at its cap: y is its last iterate) or
NOT_FINITE (y is as it was). Diagnostics of the step are the first entries of `scratch`, see below; they are followed by
the estimated error of every component of y. Nothing here is compiled.
"""

from collections.abc import Sequence
from enum import IntEnum, auto

import numpy as np
from numba import float64, int64, types, void

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.parts import lay_out, span

RATES = void(INDICES, CONSTANTS, VECTOR, float64, VECTOR, VECTOR)
RATES_AND_JACOBIAN = void(INDICES, CONSTANTS, VECTOR, float64, VECTOR, VECTOR, VECTOR, VECTOR)
STEP = int64(
    types.FunctionType(RATES), types.FunctionType(RATES_AND_JACOBIAN), INDICES, CONSTANTS, INDICES, CONSTANTS, VECTOR,
    float64, float64, VECTOR, VECTOR,
)  # fmt: skip

GOOD, CAPPED, NOT_FINITE = range(3)


class Part(IntEnum):
    """Parts of the arrays: start and stop of each are at the beginning of `layout` (views.py of natural). `layout`:"""

    SIZES = 0
    BALLS = auto()  # the first x of each

    # scratch: diagnostics of the last step and its error estimates, one for each component of y
    DIAGNOSTIC = auto()
    ERRORS = auto()
    # J by rows; d ydot/dt; rates at the beginning of the step and at a trial state; that state
    JACOBIAN = auto()
    BY_TIME = auto()
    START = auto()
    RATES = auto()
    TRIAL = auto()
    RIGHT = auto()
    STAGES = auto()
    # factors by columns; rows exchanged; a right side; columns of x in the rows of (w, s); blocks of each ball
    FACTORS = auto()
    PIVOTS = auto()
    PADDED = auto()
    COLUMNS = auto()
    BLOCKS = auto()


# SIZES: n, k, number of equations, and of those that are factorised; most corrections of Newton's iteration
POSITIONS, STATES, EQUATIONS, FACTORISED, CAP = range(5)

# settings: of Newton's iteration, then 1 / size of each component of y, for tolerance and error estimate
TOLERANCE, REFRESH, FIRST_SCALE = range(3)

# diagnostics of the last step, at the beginning of scratch
STATUS, EVALUATIONS, FACTORISATIONS, ITERATIONS, CONTRACTION, CORRECTION, ERROR = range(7)
DIAGNOSTICS = ("status", "evaluations", "factorisations", "iterations", "contraction", "correction", "error")

MOST_STAGES = 6

# of products of matrices (columns.py): rows that are taken at once, and numbers behind a matrix that may be read
LANES = 4
PADDING = LANES


def make_layout(
    positions: int, states: int = 0, balls: Sequence[int] = (), dense: bool = False, cap: int = 8
) -> np.ndarray:
    """Of a system with n = `positions`, k = `states` and balls whose three x begin at these indices; Newton's
    iteration of the trapezoidal rule ends after `cap` corrections.

    `dense`: factorise all 2n + k equations instead of the n + k that are left when x is eliminated. The steps are the
    same to rounding; it serves as the check of the elimination.
    """
    if positions < 0 or states < 0 or positions + states == 0:
        raise ValueError(f"{positions} positions and {states} states: neither may be negative, nor both zero")
    if cap < 1:
        raise ValueError(f"cap {cap}: must be at least 1")
    end = 0
    for first in sorted(balls):
        if first < end or first + 3 > positions:
            raise ValueError(f"balls at {list(balls)} of {positions} positions: each takes three of its own")
        end = first + 3
    m, N = positions + states, 2 * positions + states
    size = N if dense else m
    stride = (size + 3) // 4 * 4  # see lu.py
    lengths = {
        Part.SIZES: 5, Part.BALLS: len(balls), Part.DIAGNOSTIC: len(DIAGNOSTICS), Part.ERRORS: N, Part.JACOBIAN: N * N,
        Part.BY_TIME: N, Part.START: N, Part.RATES: N, Part.TRIAL: N, Part.RIGHT: N, Part.STAGES: MOST_STAGES * N,
        Part.FACTORS: stride * stride, Part.PIVOTS: size, Part.PADDED: stride, Part.COLUMNS: positions * stride,
        Part.BLOCKS: 18 * len(balls),
    }  # fmt: skip
    ints = {which: size for which, size in lengths.items() if which < Part.DIAGNOSTIC}
    scratch = {which: size for which, size in lengths.items() if which >= Part.DIAGNOSTIC}
    spans, _ = lay_out(len(Part), (2 * len(Part), ints), (0, scratch))
    return np.array([*spans, positions, states, N, size, cap, *balls], np.int32)


def make_settings(
    layout: np.ndarray,
    tolerance: float = 1e-10,
    refresh: float = 0.1,
    sizes: np.ndarray | None = None,
) -> np.ndarray:
    """Of Newton's iteration, for the trapezoidal rule; the other methods have no iteration.

    It ends when no correction is above `tolerance` times the size of its component (all 1 if not given). A correction
    above `refresh` times the one before makes a new Jacobian.
    """
    count = equations(layout)
    sizes = np.ones(count) if sizes is None else np.asarray(sizes, float)
    if not tolerance > 0.0 or not refresh > 0.0:
        raise ValueError(f"tolerance {tolerance}, refresh {refresh}: both must be positive")
    if sizes.shape != (count,) or not np.all(sizes > 0.0):
        raise ValueError(f"sizes must be {count} positive numbers, one for each component of y")
    return np.concatenate([[tolerance, refresh], 1.0 / sizes])


def equations(layout: np.ndarray) -> int:
    """2n + k."""
    return int(layout[span(layout, Part.SIZES)][EQUATIONS])


def make_scratch(layout: np.ndarray) -> np.ndarray:
    """Zeros, as J must begin."""
    return np.zeros(span(layout, max(Part)).stop)
