"""Numbers with derivatives: those of the complex step, and values to the bit."""

from math import atan, atan2, copysign, cos, exp, sin, sqrt

import numpy as np

from sync.compile.jit import kernel
from tandem.multibody.relative.dual import add_derivatives, along, chain, derivative_of, number, value_of

TINY = 1e-30


def law(x, y, sqrt=np.sqrt, atan=np.arctan, sin=np.sin, cos=np.cos, exp=np.exp):
    """Of complex numbers; the kernel's text below is the same."""
    z = x * y + sqrt(1.0 + x * x) / (2.0 - y)
    z -= 3.0 * atan(z / 2.0) - sin(y) * cos(x)
    return exp(-0.1 * z) * (x + 1.0) ** 2


@kernel(cache=False, error_model="numpy")  # compiled where it is called, not wherever tests are collected
def found(given, out):
    x, y = along(given[0], 0), number(given[1], given, 2)
    z = x * y + sqrt(1.0 + x * x) / (2.0 - y)
    z -= 3.0 * atan(z / 2.0) - sin(y) * cos(x)
    z = exp(-0.1 * z) * (x + 1.0) ** 2
    out[0] = value_of(z)
    add_derivatives(z, 1.0, out, 1)
    # branches and corners
    w = max(min(x, 5.0), -1.0) if x > 0.0 else 2.0
    w = abs(-w) + atan2(x, y) + copysign(x, y)
    out[9] = derivative_of(w, 0)
    # by the chain rule: z again, of something that has x for its direction 3
    inner = 2.0 * along(given[0], 3)
    out[10] = derivative_of(chain(along(value_of(inner), 0) * 3.0, (inner, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)), 3)


def test_tangents_are_those_of_the_complex_step():
    given = np.array([0.7, -0.4, 0.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    out = np.zeros(11)
    found(given, out)
    x, y = given[:2]
    assert out[0] == law(x, y) or abs(out[0] - law(x, y)) < 1e-15
    by_x, by_y = law(x + 1j * TINY, y).imag / TINY, law(x, y + 1j * TINY).imag / TINY
    expected = np.array([by_x, by_y, 0.5 * by_y, 0.0, 0.0, 0.0, 0.0, 0.0])
    expected[0] = by_x
    assert np.abs(out[1:9] - expected).max() < 1e-14
    assert abs(out[9] - (1.0 + y / (x * x + y * y) - 1.0)) < 1e-14
    assert out[10] == 6.0
