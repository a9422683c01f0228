"""Random numbers by counter: the number of a sensor at a step depends on seed, stream and step alone.

No generator is advanced, so that a record can be made again from any step on, in any order, to the bit. The bits are
those of Philox 4x64 with 10 rounds (Salmon et al. 2011), of numpy.random.Philox; normal numbers are made of them by
Box and Muller with functions that are the same on every machine.
"""

from math import frexp, sqrt

import numpy as np
from numba import float64, int64, uint64

from sync.compile.jit import kernel
from tandem.multibody.portable import cos_sin_turns

_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_ROUNDS = 10
_SHIFT = np.uint64(11)
_UNIT = 2.0**-53
_LN2, _ROOT_HALF = 0.6931471805599453, 0.7071067811865476


@kernel(error_model="numpy")
def product_halves(a, b):
    """Upper and lower word of the product of two words."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low, one, two = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> _HALF) + (one & _LOW) + (two & _LOW)
    return a1 * b1 + (one >> _HALF) + (two >> _HALF) + (middle >> _HALF), a * b


@kernel(error_model="numpy")
def philox(c0, c1, c2, c3, k0, k1):
    """Four random words of a counter and a key."""
    for turn in range(_ROUNDS):
        if turn > 0:
            k0, k1 = k0 + _W0, k1 + _W1
        high0, low0 = product_halves(_M0, c0)
        high1, low1 = product_halves(_M1, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


@kernel(error_model="numpy")
def logarithm(x):
    """Natural logarithm of x > 0, of additions, products and divisions alone."""
    m, e = frexp(x)
    if m < _ROOT_HALF:
        m, e = 2.0 * m, e - 1
    s = (m - 1.0) / (m + 1.0)
    b = s * s
    total = 0.0
    for k in range(23, 0, -2):
        total = 1.0 / k + total * b
    return e * _LN2 + 2.0 * s * total


@kernel(float64(int64, int64, int64), error_model="numpy")
def uniform_number(seed, stream, index):
    """Between 0 and 1, neither of them."""
    a, _, _, _ = philox(uint64(index), uint64(stream), uint64(0), uint64(0), uint64(seed), uint64(0))
    return (float64(a >> _SHIFT) + 0.5) * _UNIT


@kernel(float64(int64, int64, int64), error_model="numpy")
def normal_number(seed, stream, index):
    """Of mean 0 and variance 1."""
    a, b, _, _ = philox(uint64(index), uint64(stream), uint64(0), uint64(0), uint64(seed), uint64(0))
    u, v = (float64(a >> _SHIFT) + 0.5) * _UNIT, float64(b >> _SHIFT) * _UNIT
    c, _ = cos_sin_turns(v)
    return sqrt(-2.0 * logarithm(u)) * c
