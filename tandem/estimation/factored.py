"""A covariance as P = U D U^T, U unit upper triangular, D diagonal: it stays symmetric and positive by its form.

Updates are Bierman's, of one scalar (n^2 multiplications, no square root). `predict` makes
T P T^T + Q from the factors and factorises it again: a third of the cost of Thornton's orthogonalisation at 46 states;
an entry of D that rounding leaves at or below zero is set to a small positive number and counted.

U is stored by columns (`U[j * n + i]` is row i, column j), so that every inner loop runs along memory. Kernels allocate
nothing.
"""

import numpy as np
from numba import int64

from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS, VECTOR
from sync.compile.jit import inner, kernel
from tandem.multibody.natural.views import view
from tandem.multibody.relative.columns import (
    add_columns,
    add_to_four,
    exchange,
    four_of_rows,
    scaled_column,
    sums_of_four,
    sums_of_one,
)
from tandem.multibody.relative.ode import LANES, PADDING

SCRATCH = 11  # columns of `stride_of` numbers: four of P, their factors side by side, three more
LEAST = 1e-14  # of the diagonal of P: an entry of D is at least that


@inner
def innovation_variance(U, d, H, r, f, g):
    """H P H^T + r; leaves f = U^T H and g = D f for `apply`.

    H is followed by zeros up to `stride_of` its length. Columns of U that end before H begins have no part in f.
    """
    n = len(d)
    first = 0
    while first < n and H[first] == 0.0:
        first += 1
    first = first // LANES * LANES
    for j in range(first):
        f[j] = g[j] = 0.0
    # four sums: one waits for itself at every number
    s, t, u, v = r, 0.0, 0.0, 0.0
    fours = n // LANES * LANES
    for j in range(first, fours, LANES):
        a, b, c, e = sums_of_four(U, j * n, n, H, first, j + LANES)
        f[j], f[j + 1], f[j + 2], f[j + 3] = a, b, c, e
        x, y, z, w = d[j] * a, d[j + 1] * b, d[j + 2] * c, d[j + 3] * e
        g[j], g[j + 1], g[j + 2], g[j + 3] = x, y, z, w
        s, t, u, v = s + a * x, t + b * y, u + c * z, v + e * w
    for j in range(fours, n):
        f[j] = sums_of_one(U, j * n, n, H, first, stride_of(n))[0]
        g[j] = d[j] * f[j]
        s += f[j] * g[j]
    return s + t + (u + v)


@inner
def apply(U, d, r, f, g, K):
    """The update itself; K becomes the gain, f and g what each column of U was changed with.

    What every column needs is found first, so that their divisions do not wait for the columns. The diagonal of U, 1,
    and what is below it, 0, are in the same fours as the rest: K has zeros there until its turn.
    """
    n = len(d)
    whole, first = n // LANES * LANES, n
    alpha = r
    inverse = 1.0 / r if r > 0.0 else 0.0
    for j in range(n):
        K[j] = 0.0
        beta, more = alpha, f[j] * g[j]
        if f[j] == 0.0 or beta + more <= 0.0:  # it says nothing of this, or neither noise nor uncertainty so far
            f[j] = g[j] = 0.0
            continue
        first = min(first, j)
        alpha = beta + more
        f[j] *= -inverse
        inverse = 1.0 / alpha
        d[j] *= beta * inverse
    exchange(U, n, K, whole, first, n, f, g)
    for j in range(whole, n):  # rows that are no four
        for i in range(whole, j + 1):
            u = U[j * n + i]
            U[j * n + i] = u + K[i] * f[j]
            K[i] += g[j] * u
    for j in range(n):
        K[j] *= inverse


@inner
def variance(U, d, i):
    """P_ii."""
    n, total = len(d), d[i]
    for k in range(i + 1, n):
        total += U[k * n + i] * U[k * n + i] * d[k]
    return total


@inner
def multiply_out(U, d, P):
    """P = U D U^T, by columns, its upper triangle alone."""
    n = len(d)
    for j in range(n):
        into = view(P, j * n, j * n + j + 1)
        for i in range(len(into)):
            into[i] = 0.0
        for k in range(j, n):
            source, factor = view(U, k * n, k * n + j + 1), d[k] * (U[k * n + j] if k > j else 1.0)
            for i in range(len(into)):
                into[i] += factor * source[i]


@inner
def stride_of(n):
    """Of the columns of scratch: `add_columns` takes rows in fours."""
    return (n + LANES - 1) // LANES * LANES


@inner
def take_column(P, at, j, least, U, d):
    """Column j of U and entry j of D from what is left of P's, which begins at `at`; 1 if that had to be raised."""
    n, raised = len(d), 0
    if not P[at + j] >= least:
        P[at + j] = least
        raised = 1
    d[j] = P[at + j]
    inverse, whole = 1.0 / d[j], j // LANES * LANES
    scaled_column(U, j * n, P, at, whole, inverse)
    for i in range(whole, j):
        U[j * n + i] = P[at + i] * inverse
    U[j * n + j] = 1.0
    return raised


@inner
def factorise_four(P, at, j, U, d, x, y):
    """Columns j to j + 3 of U and D, as far as there are any, from those of P, which begin at `at`; U has zeros below
    its diagonal. x is scratch of four columns; y has minus D of the columns behind, and then of these."""
    n, raised = len(d), 0
    stride, rows = stride_of(n), j + LANES
    least = (
        max(LEAST * P[at + j], 1e-300), max(LEAST * P[at + stride + j + 1], 1e-300),
        max(LEAST * P[at + 2 * stride + j + 2], 1e-300), max(LEAST * P[at + 3 * stride + j + 3], 1e-300),
    )  # fmt: skip
    if rows < n:
        four_of_rows(x, U, j, n, y, rows, n)
        add_to_four(P, at, stride, P, at, stride, rows, U, 0, n, rows, n, x)
    for c in range(min(LANES, n - j) - 1, -1, -1):
        k = j + c
        raised += take_column(P, at + c * stride, k, least[c], U, d)
        for b in range(c):
            x[k] = -d[k] * U[k * n + j + b]
            add_columns(view(P, at + b * stride, at + (b + 1) * stride), k, U, 0, n, k, k + 1, x)
        y[k] = -d[k]
    return raised


@inner
def predict(U, d, F, rows, columns, Q, more, W, P):
    """P = T P T^T + Q + diag(more), factorised again; T is the identity but for its first rows, F (rows x columns).

    Q is by columns. W is scratch of n columns of `stride_of(n)`, P of SCRATCH; behind U, F are PADDING numbers that may
    be read.
    """
    n = len(d)
    stride = stride_of(n)
    x, before = view(P, 4 * stride, 8 * stride), view(P, 8 * stride, 9 * stride)
    y, zeros = view(P, 9 * stride, 10 * stride), view(P, 10 * stride, 11 * stride)
    for i in range(stride):
        zeros[i] = 0.0
    # W = T U by columns: column j of U ends at row j
    whole = n // LANES * LANES
    for j in range(0, whole, LANES):
        last = min(j + LANES, columns)
        one, two = view(U, j * n, (j + 1) * n), view(U, (j + 1) * n, (j + 2) * n)
        three, four = view(U, (j + 2) * n, (j + 3) * n), view(U, (j + 3) * n, (j + 4) * n)
        for k in range(last):
            x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3] = one[k], two[k], three[k], four[k]
        add_to_four(W, j * stride, stride, zeros, 0, 0, rows, F, 0, rows, 0, last, x)
    for j in range(whole, n):
        into = view(W, j * stride, (j + 1) * stride)
        copy(into, zeros)
        add_columns(into, rows, F, 0, rows, 0, columns, view(U, j * n, (j + 1) * n))
    for j in range(n):  # of rows beyond F the columns before their own are 0, and only those next to F are read
        into, source = view(W, j * stride + rows, (j + 1) * stride), view(U, j * n + rows, (j + 1) * n)
        if j < rows:
            for i in range(stride_of(rows) - rows):
                into[i] = 0.0
        else:
            for i in range(n - rows):
                into[i] = source[i]
    # columns of W D W^T + Q from the last on, factorised as soon as they are there: P needs no memory of its own
    copy(before, d)
    j, raised = (n - 1) // LANES * LANES, 0
    while j >= 0:
        first = j if j >= rows else 0  # a row beyond F has columns from its own on
        four_of_rows(x, W, j, stride, before, first, n)
        if j < whole:
            add_to_four(P, 0, stride, Q, j * n, n, j + LANES, W, 0, stride, first, n, x)
        else:  # fewer than four are there
            for c in range(LANES):
                copy(view(P, c * stride, (c + 1) * stride), zeros)
            for c in range(n - j):
                copy(view(P, c * stride, (c + 1) * stride), view(Q, (j + c) * n, (j + c + 1) * n))
            add_to_four(P, 0, stride, P, 0, stride, j + LANES, W, 0, stride, first, n, x)
        for c in range(min(LANES, n - j)):
            P[c * stride + j + c] += more[j + c]
        raised += factorise_four(P, 0, j, U, d, x, y)
        j -= LANES
    return raised


@kernel(int64(VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy")
def factorise_matrix(P, U, d, scratch):
    """U and D of the upper triangle of a matrix; how many entries of D had to be raised."""
    n = len(d)
    stride = stride_of(n)
    x, y = view(scratch, 4 * stride, 8 * stride), view(scratch, 8 * stride, 9 * stride)
    j, raised = (n - 1) // LANES * LANES, 0
    while j >= 0:
        for c in range(min(LANES, n - j)):
            copy(view(scratch, c * stride, c * stride + n), view(P, (j + c) * n, (j + c + 1) * n))
        raised += factorise_four(scratch, 0, j, U, d, x, y)
        j -= LANES
    return raised


def factorise_covariance(P: np.ndarray, U: np.ndarray, d: np.ndarray) -> int:
    """U and D of P, for Python; U and P without PADDING behind them."""
    n = len(d)
    found = np.zeros(n * n + PADDING)
    raised = int(factorise_matrix(P, found, d, np.zeros(SCRATCH * (n + LANES))))
    U[:] = found[: n * n]
    return raised


@kernel((VECTOR, VECTOR, VECTOR), error_model="numpy")
def multiply_out_covariance(U, d, P):
    """As `multiply_out`, for Python."""
    multiply_out(U, d, P)


@kernel(int64(VECTOR, VECTOR, VECTOR, int64, int64, CONSTANTS, VECTOR, VECTOR, VECTOR), error_model="numpy")
def predict_covariance(U, d, F, rows, columns, Q, more, W, P):
    """`predict`, compiled for itself."""
    return predict(U, d, F, rows, columns, Q, more, W, P)
