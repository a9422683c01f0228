"""Functions that give the same bits on every machine.

A surface and the tables of a mechanism are made again when a run is replayed, perhaps elsewhere and years later, and
must be the same to the last bit. Sine, cosine and the exponential differ between mathematical libraries, an FFT
between builds, and a BLAS adds in another order on every processor, with or without fused multiplications; additions,
products, divisions and square roots do not. So these are made of the latter, in a fixed order, with about 2e-16 of
error, and are used for everything that is computed while a surface or a mechanism is made.
"""

from collections.abc import Sequence
from math import floor, sqrt

import numpy as np
from numpy.typing import ArrayLike

from sync.compile.jit import kernel

_TURN = 6.283185307179586
ROOT_3 = sqrt(3.0)


@kernel(error_model="numpy")
def cos_sin_turns(t):
    """Cosine and sine of t turns."""
    t = t - floor(t + 0.5)
    quarter = floor(4.0 * t + 0.5)
    a = _TURN * (t - 0.25 * quarter)  # at most an eighth of a turn
    b = a * a
    c = 1.0
    s = 1.0
    for k in range(16, 0, -2):
        c = 1.0 - c * b / (k * (k - 1.0))
        s = 1.0 - s * b / (k * (k + 1.0))
    s *= a
    q = int(quarter) & 3
    if q == 0:
        return c, s
    if q == 1:
        return -s, c
    if q == 2:
        return -c, -s
    return s, -c


@kernel("void(float64[::1], float64[::1], float64[::1])", error_model="numpy")
def cos_sin(angles, cosines, sines):
    """Cosine and sine of angles in rad."""
    for i in range(len(angles)):
        cosines[i], sines[i] = cos_sin_turns(angles[i] / _TURN)


@kernel(error_model="numpy")
def falling(z):
    """exp(-z) for z >= 0."""
    if z > 700.0:
        return 0.0
    halvings = 0
    while z > 0.0625:
        z *= 0.5
        halvings += 1
    e = 1.0
    for k in range(10, 0, -1):
        e = 1.0 - e * z / k
    for _ in range(halvings):
        e *= e
    return e


@kernel("void(float64[::1], float64[::1])", error_model="numpy")
def fourier(re, im):
    """Sum over k of (re + i im)[k] exp(2 pi i j k / N) for each j, in place; N a power of two."""
    n = len(re)
    # bit reversal
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            re[i], re[j] = re[j], re[i]
            im[i], im[j] = im[j], im[i]
    # butterflies
    half = 1
    while half < n:
        for k in range(half):
            c, s = cos_sin_turns(0.5 * k / half)
            for i in range(k, n, 2 * half):
                m = i + half
                tr = c * re[m] - s * im[m]
                ti = c * im[m] + s * re[m]
                re[m], im[m] = re[i] - tr, im[i] - ti
                re[i], im[i] = re[i] + tr, im[i] + ti
        half *= 2


@kernel("float64(float64)", error_model="numpy")
def arctan(x):
    """The angle whose tangent is x, rad."""
    # halve the angle three times: then the series needs few terms
    for _ in range(3):
        x = x / (1.0 + sqrt(1.0 + x * x))
    b = x * x
    s = 0.0
    for k in range(23, 0, -2):
        s = 1.0 / k - s * b
    return 8.0 * x * s


def dot(a: ArrayLike, b: ArrayLike) -> float:
    """The sum of a_i b_i, from the first on."""
    total = 0.0
    for x, y in zip(np.asarray(a, float).tolist(), np.asarray(b, float).tolist(), strict=True):
        total += x * y
    return total


def norm(v: ArrayLike) -> float:
    """The length of a vector."""
    return sqrt(dot(v, v))


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B of a matrix with a matrix or a vector."""
    out = np.zeros((len(A), *B.shape[1:]))
    for k in range(len(B)):
        out += np.multiply.outer(A[:, k], B[k])
    return out


def least_squares(X: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The C with X C nearest to B, for few independent columns; modified Gram-Schmidt, which treats B like them."""
    n = X.shape[1]
    Q, rest = X.astype(float), B.astype(float)  # copies
    R, C = np.zeros((n, n)), np.zeros((n, *B.shape[1:]))
    for k in range(n):
        R[k, k] = norm(Q[:, k])
        q = Q[:, k] / R[k, k]
        R[k, k + 1 :] = product(q[None, :], Q[:, k + 1 :])[0]
        Q[:, k + 1 :] -= np.multiply.outer(q, R[k, k + 1 :])
        C[k] = product(q[None, :], rest)[0]
        rest -= np.multiply.outer(q, C[k])
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            C[k] -= R[k, j] * C[j]
        C[k] /= R[k, k]
    return C


def volume(vectors: Sequence[np.ndarray]) -> float:
    """Of what few vectors span: a length, an area, a volume."""
    size = 1.0
    before: list[np.ndarray] = []
    for v in vectors:
        for q in before:
            v = v - dot(q, v) * q  # noqa: PLW2901
        length = norm(v)
        if length == 0.0:
            return 0.0
        size *= length
        before.append(v / length)
    return size


def normal(bits: np.ndarray) -> np.ndarray:
    """Numbers of mean 0 and variance 1 from 64 random bits each: the sum of four uniform ones.

    Sums of many of them are as good as normally distributed, and nothing but additions is needed.
    """
    total = np.zeros(bits.shape)
    for shift in (0, 16, 32, 48):
        total += (((bits >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.float64) + 0.5) / 65536.0 - 0.5
    return np.asarray(total * ROOT_3)
