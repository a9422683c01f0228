"""A covariance as P = U D U^T, U unit upper triangular, D diagonal: it stays symmetric and positive by its form.

`update` is Bierman's measurement update of one scalar (n^2 multiplications, no square root). `predict` makes
T P T^T + Q from the factors and factorises it again: a third of the cost of Thornton's orthogonalisation at 46 states;
an entry of D that rounding leaves at or below zero is set to a small positive number and counted.

U is stored by columns (`U[j * n + i]` is row i, column j), so that every inner loop runs along memory. Kernels allocate
nothing.
"""

import numpy as np
from numba import float64, int64

from sim_service.multibody.natural.views import view
from sim_service.observers.columns import add_columns
from sim_service.observers.rows import LANES, ROOM
from sync.array_copy import copy
from sync.array_types import CONSTANTS, VECTOR
from sync.jit import inner, kernel

LEAST = 1e-14  # of the diagonal of P: an entry of D is at least that


@inner
def dot(a, b):
    """Of as many as a has; four sums, because one alone would wait for itself."""
    p = q = r = s = 0.0
    fours = len(a) // 4 * 4
    for i in range(0, fours, 4):
        p += a[i] * b[i]
        q += a[i + 1] * b[i + 1]
        r += a[i + 2] * b[i + 2]
        s += a[i + 3] * b[i + 3]
    for i in range(fours, len(a)):
        p += a[i] * b[i]
    return (p + q) + (r + s)


@inner
def innovation_variance(U, d, H, r, f, g):
    """H P H^T + r; leaves f = U^T H and g = D f for `apply`."""
    n = len(d)
    s = r
    for j in range(n):
        total = H[j] + dot(view(U, j * n, j * n + j), H)
        f[j], g[j] = total, d[j] * total
        s += total * g[j]
    return s


@inner
def apply(U, d, r, f, g, K):
    """The update itself; K becomes the gain."""
    n = len(d)
    alpha = r
    for j in range(n):
        beta = alpha
        alpha = beta + f[j] * g[j]
        if alpha <= 0.0:  # neither noise nor uncertainty so far
            K[j] = 0.0
            continue
        share = -f[j] / beta if beta > 0.0 else 0.0
        d[j] *= beta / alpha
        column, gj = view(U, j * n, j * n + j), g[j]
        for i in range(len(column)):
            u = column[i]
            column[i] = u + K[i] * share
            K[i] += gj * u
        K[j] = gj
    for j in range(n):
        K[j] /= alpha


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
def factorise(P, stride, U, d, x):
    """U and D of the upper triangle of P, which is overwritten; how many entries of D had to be raised."""
    n, raised = len(d), 0
    for j in range(n - 1, -1, -1):
        column, of_u = view(P, j * stride, (j + 1) * stride), view(U, j * n, j * n + n)
        least = max(LEAST * column[j], 1e-300)
        for k in range(j + 1, n):
            x[k] = -d[k] * U[k * n + j]
        add_columns(column, j + 1, U, 0, n, j + 1, n, x)
        if not column[j] >= least:
            column[j] = least
            raised += 1
        d[j] = column[j]
        inverse = 1.0 / d[j]
        for i in range(j):
            of_u[i] = column[i] * inverse
        of_u[j] = 1.0
        for i in range(j + 1, n):
            of_u[i] = 0.0
    return raised


@inner
def predict(U, d, F, rows, columns, Q, more, W, P, x):
    """P = T P T^T + Q + diag(more), factorised again; T is the identity but for its first rows, F (rows x columns).

    Q is by columns, its upper triangle. W and P are scratch of n columns of `stride_of(n)`, x of n numbers; behind U
    and F are ROOM numbers that may be read.
    """
    n = len(d)
    stride = stride_of(n)
    # W = T U by columns: column j of U ends at row j
    for j in range(n):
        into, of_u = view(W, j * stride, (j + 1) * stride), view(U, j * n, (j + 1) * n)
        for i in range(rows):
            into[i] = 0.0
        add_columns(into, rows, F, 0, rows, 0, min(j + 1, columns), of_u)
        for i in range(rows, n):
            into[i] = of_u[i]
    for j in range(n):
        into, of_q = view(P, j * stride, (j + 1) * stride), view(Q, j * n, j * n + j + 1)
        for i in range(j + 1):
            into[i] = of_q[i]
        into[j] += more[j]
        # a row beyond F has columns from its own on
        first = j if j >= rows else 0
        for k in range(first, n):
            x[k] = d[k] * W[k * stride + j]
        add_columns(into, j + 1, W, 0, stride, first, n, x)
    return factorise(P, stride, U, d, x)


@kernel(int64(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy")
def factorise_matrix(P, U, d, scratch, x):
    """`factorise` of a matrix without gaps between its columns."""
    n = len(d)
    stride = stride_of(n)
    for j in range(n):
        copy(view(scratch, j * stride, j * stride + n), view(P, j * n, (j + 1) * n))
    return factorise(scratch, stride, U, d, x)


def factorise_covariance(P: np.ndarray, U: np.ndarray, d: np.ndarray) -> int:
    """As `factorise`, for Python; U and P without ROOM behind them."""
    n = len(d)
    room, found = np.zeros(n * (n + ROOM)), np.zeros(n * n + ROOM)
    raised = int(factorise_matrix(P, found, d, room, np.zeros(n)))
    U[:] = found[: n * n]
    return raised


@kernel((VECTOR, VECTOR, VECTOR), error_model="numpy")
def multiply_out_covariance(U, d, P):
    """As `multiply_out`, for Python."""
    multiply_out(U, d, P)


@kernel(int64(VECTOR, VECTOR, VECTOR, int64, int64, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy")
def predict_covariance(U, d, F, rows, columns, Q, more, W, P, x):
    """`predict`, compiled for itself."""
    return predict(U, d, F, rows, columns, Q, more, W, P, x)


@kernel(float64(VECTOR, VECTOR, VECTOR, float64, VECTOR, VECTOR, VECTOR), error_model="numpy")
def update_covariance(U, d, H, r, f, g, K):
    """Both halves of an update, for Python; the variance of the innovation."""
    s = innovation_variance(U, d, H, r, f, g)
    apply(U, d, r, f, g, K)
    return s
