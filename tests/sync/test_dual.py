"""Duals: values to the bit, derivatives as the complex step has them, branches, floats among them, the chain rule."""

from math import atan, atan2, copysign, cos, exp, sin, sqrt

import numpy as np
import pytest
from numba import float64, void

from sync.dual import chain, constant, fresh, partial, read_dual, seed, value, write_partials
from sync.jit import kernel
from tests.complex_step import complex_kernel, jacobian

OPTIONS = {"error_model": "numpy"}
VECTOR = float64[::1]


@kernel(**OPTIONS)
def clip(x, low, high):
    return min(max(x, low), high)


@kernel(**OPTIONS)
def formula(a, x, y, z):
    """Everything a dual knows; a is a float. Variables begin as floats and become duals on one branch."""
    rest = plus = 0.0
    if x > y:
        rest = sin(x * y) / (2 + cos(z)) - 3 / z
    elif z != x:
        rest -= exp(-x) * abs(y - z)
        rest /= 1 + z**2
    plus += atan(z / y) ** 3 + atan2(x, 2.0) - atan2(1.0, y) + atan2(x, y)
    plus *= sqrt(x * x + 0.5 * y * y) + (x + 3.0) ** 0.5
    return (
        rest + clip(plus, -a, a) + copysign(x, z) - copysign(a, y),
        max(x, y),
        min(a, x) if x < 1 else +plus,
    )


@kernel(void(float64, VECTOR, VECTOR, VECTOR), **OPTIONS)
def with_derivatives(a, x, out, by):
    f = formula(a, seed(x[0], 0, 3), seed(x[1], 1, 3), seed(x[2], 2, 3))
    for k in range(3):
        out[k] = value(f[k])
        write_partials(f[k], by, 3 * k)


@pytest.mark.parametrize("x", np.random.default_rng(1).uniform(0.1, 2.0, (40, 3)) * [1, 1, -1])
@pytest.mark.parametrize("a", [0.9, 30.0])
def test_values_have_the_same_bits_and_derivatives_are_those_of_the_complex_step(a, x):
    out, by = np.zeros(3), np.zeros(9)
    with_derivatives(a, x, out, by)
    assert tuple(out) == formula(a, *x)
    _, expected = jacobian(lambda z: complex_kernel(formula)(a, *z), x)
    assert by.reshape(3, 3) == pytest.approx(expected, rel=1e-13, abs=1e-13)


@kernel(**OPTIONS)
def inside(u, v):
    return u * sin(v)


@kernel(**OPTIONS)
def outside(x, y, z):
    """The inner formula has two variables of its own."""
    u, v = x * y, y - z
    return chain(inside(fresh(u, 0, 2), fresh(v, 1, 2)), (u, v)) * z


@kernel(void(VECTOR, VECTOR), **OPTIONS)
def chained(x, by):
    f = outside(seed(x[0], 0, 3), seed(x[1], 1, 3), seed(x[2], 2, 3))
    write_partials(f, by, 0)
    write_partials(outside(seed(x[0], 0, 3), x[1], constant(x[2], 3)), by, 3)
    by[6], by[7] = partial(f, 2), partial(x[0], 2)
    write_partials(read_dual(1.0, f, by, 0), by, 8)


def test_the_chain_rule_joins_formulas_of_different_variables():
    x, by = np.array([0.7, 1.3, -0.4]), np.zeros(11)
    chained(x, by)
    _, expected = jacobian(lambda z: [complex_kernel(outside)(*z)], x)
    assert by[:3] == pytest.approx(expected[0], rel=1e-14)
    assert by[3:6] == pytest.approx([expected[0, 0], 0.0, 0.0], rel=1e-14)
    assert by[6] == by[2] and by[7] == 0.0 and (by[8:] == by[:3]).all()
    assert outside(*x) == pytest.approx(x[2] * x[0] * x[1] * sin(x[1] - x[2]), rel=1e-15)


@kernel(void(VECTOR, VECTOR), **OPTIONS)
def corners(x, by):
    zero, same = seed(0.0, 0, 2), seed(x[0], 1, 2)
    write_partials(sqrt(zero), by, 0)
    write_partials(max(seed(x[0], 0, 2), same), by, 2)
    write_partials(abs(zero), by, 4)
    write_partials(sqrt(zero * zero + same * same), by, 6)


def test_derivatives_at_corners_are_finite_and_those_of_one_side():
    by = np.zeros(8)
    corners(np.array([0.0]), by)
    assert by.tolist() == [0, 0, 1, 0, 1, 0, 0, 0]
