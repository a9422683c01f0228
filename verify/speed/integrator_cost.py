"""What the integrators of the reduced system cost without the system.

A system of the size of a car (14 positions, one ball among them, 12 further states) whose rates cost next to nothing,
with a full Jacobian. Printed are the factorisation, a solution with it, and whole steps, with x eliminated and without:
least times over rounds of bursts. Newton's iteration of the trapezoidal rule makes two corrections.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import float64, int64, types, void

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import kernel
from sync.compile.parts import span
from tandem.multibody.relative import integrators, ode
from tandem.multibody.relative.integrators import factorise_shifted, solve_shifted
from verify.measure import Row, figure

POSITIONS, STATES, BALL = 14, 12, 3
H = 5e-3
METHODS = ("linear_euler", "ros2", "rodas3", "rodas4", "trapezoidal", "rk4")


@kernel(ode.RATES)
def decay(ints, reals, work, t, y, f):
    for i in range(len(y)):
        f[i] = -y[i]


@kernel(ode.RATES_AND_JACOBIAN)
def decay_derived(ints, reals, work, t, y, f, J, by_time):
    """J is what was put into scratch: a full one, for its cost."""
    decay(ints, reals, work, t, y, f)


@kernel(void(INDICES, VECTOR, float64, int64))
def factorise_often(layout, scratch, sigma, count):
    for _ in range(count):
        factorise_shifted(layout, scratch, sigma)


@kernel(void(INDICES, VECTOR, float64, VECTOR, VECTOR, int64))
def solve_often(layout, scratch, sigma, right, u, count):
    for _ in range(count):
        for i in range(len(u)):
            u[i] = right[i]
        solve_shifted(layout, scratch, sigma, u)


@kernel(
    void(
        types.FunctionType(ode.STEP), types.FunctionType(ode.RATES), types.FunctionType(ode.RATES_AND_JACOBIAN),
        INDICES, CONSTANTS, INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, int64,
    )
)  # fmt: skip
def step_often(step, rates, both, layout, settings, ints, reals, work, y, scratch, count):
    for _ in range(count):
        for i in range(len(y)):
            y[i] = 1.0
        step(rates, both, layout, settings, ints, reals, work, 0.0, H, y, scratch)


def cost_us(burst: Callable[[int], Any], rounds: int) -> float:
    """Of one of `count`: the difference of bursts of two lengths, without the cost of the call from Python."""
    least = [np.inf, np.inf]
    for _ in range(rounds):
        for k, count in enumerate((50, 150)):
            begun = time.perf_counter_ns()
            burst(count)
            least[k] = min(least[k], time.perf_counter_ns() - begun)
    return (least[1] - least[0]) / 1e5


def integrator_cost(*, rounds: int = 300) -> Iterator[Row]:
    rng = np.random.default_rng(1)
    n, N, sigma = POSITIONS, 2 * POSITIONS + STATES, 1.0 / (0.25 * H)
    J = 10.0 * rng.normal(size=(N, N))
    J[:n] = 0.0
    J[:n, n : 2 * n] = np.eye(n)
    J[BALL : BALL + 3, BALL : BALL + 3] = rng.normal(size=(3, 3))
    right, u = rng.normal(size=N), np.zeros(N)
    for dense in (False, True):
        layout = ode.make_layout(n, STATES, [BALL], dense, cap=2)
        scratch = ode.make_scratch(layout)
        scratch[span(layout, ode.Part.JACOBIAN)] = J.ravel()

        def factorisation(count: int, layout: Any = layout, scratch: Any = scratch) -> None:
            factorise_often(layout, scratch, sigma, count)

        def solution(count: int, layout: Any = layout, scratch: Any = scratch) -> None:
            solve_often(layout, scratch, sigma, right, u, count)

        once, each = cost_us(factorisation, rounds), cost_us(solution, rounds)
        what = f"{N} equations factorised" if dense else f"x eliminated, {n + STATES} equations factorised"
        yield figure(f"{what}: factorisation", once, "us")
        yield figure(f"{what}: solution", each, "us")
        yield figure(f"{what}: one and six", once + 6 * each, "us")
        # J is not that of the rates: Newton makes two corrections and is not asked whether they shrink
        settings = ode.make_settings(layout, refresh=1e9)
        empty = (np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
        for name in METHODS:
            fixed = getattr(integrators, f"{name}_step"), decay, decay_derived, layout, settings, *empty, u, scratch

            def steps(count: int, fixed: Any = fixed) -> None:
                step_often(*(*fixed, count))

            yield figure(f"{what}: {name} step", cost_us(steps, rounds), "us")
