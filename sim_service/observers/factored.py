"""A covariance as P = U D U^T, U unit upper triangular, D diagonal: it stays symmetric and positive by its form.

Updates are Bierman's, of one scalar (n^2 multiplications, no square root). `predict` makes
T P T^T + Q from the factors and factorises it again: a third of the cost of Thornton's orthogonalisation at 46 states;
an entry of D that rounding leaves at or below zero is set to a small positive number and counted.

U is stored by columns (`U[j * n + i]` is row i, column j), so that every inner loop runs along memory. Kernels allocate
nothing.
"""

import numpy as np
from numba import float64, int64

from sim_service.multibody.natural.views import view
from sim_service.multibody.relative.columns import add_columns, add_to_two, exchange, sums_of_four, sums_of_one
from sim_service.multibody.relative.ode import LANES, ROOM
from sync.array_copy import copy
from sync.array_types import CONSTANTS, VECTOR
from sync.jit import inner, kernel

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
    s = r
    fours = n // LANES * LANES
    for j in range(first, fours, LANES):
        f[j], f[j + 1], f[j + 2], f[j + 3] = sums_of_four(U, j * n, n, H, first, j + LANES)
    for j in range(fours, n):
        f[j] = sums_of_one(U, j * n, n, H, first, stride_of(n))[0]
    for j in range(first, n):
        g[j] = d[j] * f[j]
        s += f[j] * g[j]
    return s


@inner
def apply(U, d, r, f, g, K):
    """The update itself; K becomes the gain.

    The diagonal of U, 1, and what is below it, 0, are in the same fours as the rest: K has zeros there until its turn.
    """
    n = len(d)
    whole = n // LANES * LANES
    for j in range(n):
        K[j] = 0.0
    alpha = r
    inverse = 1.0 / r if r > 0.0 else 0.0
    for j in range(n):
        beta = alpha
        if f[j] == 0.0 or beta + f[j] * g[j] <= 0.0:  # it says nothing of this, or neither noise nor uncertainty so far
            continue
        alpha = beta + f[j] * g[j]
        share = -f[j] * inverse
        inverse = 1.0 / alpha
        d[j] *= beta * inverse
        last = min((j + LANES) // LANES * LANES, whole)
        exchange(U, j * n, K, last, share, g[j])
        for i in range(last, j + 1):
            u = U[j * n + i]
            U[j * n + i] = u + K[i] * share
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
def take_column(column, j, least, U, d):
    """Column j of U and entry j of D from what is left of P's; 1 if that had to be raised."""
    n, raised = len(d), 0
    of_u = view(U, j * n, j * n + n)
    if not column[j] >= least:
        column[j] = least
        raised = 1
    d[j] = column[j]
    inverse = 1.0 / d[j]
    for i in range(j):
        of_u[i] = column[i] * inverse
    of_u[j] = 1.0
    for i in range(j + 1, n):
        of_u[i] = 0.0
    return raised


@inner
def factorise_two(P, one, two, j, U, d, x, y):
    """Columns j and j - 1 (of j = 0 itself alone) of U and D from those of P, which begin at `one` and `two`."""
    n, i, raised = len(d), max(j - 1, 0), 0
    stride = stride_of(n)
    column, other = view(P, one, one + stride), view(P, two, two + stride)
    least, least_of_other = max(LEAST * column[j], 1e-300), max(LEAST * other[i], 1e-300)
    for k in range(j + 1, n):
        x[k], y[k] = -d[k] * U[k * n + j], -d[k] * U[k * n + i]
    add_to_two(P, one, two, j + 1, U, 0, n, j + 1, n, x, y)
    raised += take_column(column, j, least, U, d)
    if j > 0:
        y[j] = -d[j] * U[j * n + i]
        add_columns(other, j, U, 0, n, j, j + 1, y)
        raised += take_column(other, i, least_of_other, U, d)
    return raised


@inner
def begin_column(column, j, Q, more, n):
    """Column j of Q, and `more` on its diagonal."""
    for i in range(j + 1):
        column[i] = Q[j * n + i]
    for i in range(j + 1, len(column)):
        column[i] = 0.0
    column[j] += more


@inner
def predict(U, d, F, rows, columns, Q, more, W, P, x, y):
    """P = T P T^T + Q + diag(more), factorised again; T is the identity but for its first rows, F (rows x columns).

    Q is by columns, its upper triangle. W is scratch of n columns of `stride_of(n)`, P of three, x and y of n numbers;
    behind U and F are ROOM numbers that may be read.
    """
    n = len(d)
    stride = stride_of(n)
    # W = T U by columns: column j of U ends at row j
    for j in range(n):
        into = view(W, j * stride, (j + 1) * stride)
        for i in range(rows):
            into[i] = 0.0
    for j in range(0, n - 1, 2):
        one, two = view(U, j * n, (j + 1) * n), view(U, (j + 1) * n, (j + 2) * n)
        add_to_two(W, j * stride, (j + 1) * stride, rows, F, 0, rows, 0, min(j + 2, columns), one, two)
    if n % 2 == 1:
        last = view(W, (n - 1) * stride, n * stride)
        add_columns(last, rows, F, 0, rows, 0, min(n, columns), view(U, (n - 1) * n, n * n))
    for j in range(n):
        for i in range(rows, n):
            W[j * stride + i] = U[j * n + i]
    # columns of W D W^T + Q from the last on, each factorised as soon as it is there: P needs no memory of its own
    before = view(P, 2 * stride, 2 * stride + n)
    copy(before, d)
    j, raised = n - 1, 0
    while j >= 0:
        i = max(j - 1, 0)
        begin_column(view(P, 0, stride), j, Q, more[j], n)
        begin_column(view(P, stride, 2 * stride), i, Q, more[i], n)
        first = i if i >= rows else 0  # a row beyond F has columns from its own on
        for k in range(first, n):
            x[k], y[k] = before[k] * W[k * stride + j], before[k] * W[k * stride + i]
        add_to_two(P, 0, stride, j + 1, W, 0, stride, first, n, x, y)
        raised += factorise_two(P, 0, stride, j, U, d, x, y)
        j -= 2
    return raised


@kernel(int64(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy")
def factorise_matrix(P, U, d, scratch, x, y):
    """U and D of the upper triangle of a matrix; how many entries of D had to be raised."""
    n = len(d)
    stride = stride_of(n)
    for j in range(n):
        copy(view(scratch, j * stride, j * stride + n), view(P, j * n, (j + 1) * n))
    j, raised = n - 1, 0
    while j >= 0:
        raised += factorise_two(scratch, j * stride, max(j - 1, 0) * stride if j > 0 else n * stride, j, U, d, x, y)
        j -= 2
    return raised


def factorise_covariance(P: np.ndarray, U: np.ndarray, d: np.ndarray) -> int:
    """U and D of P, for Python; U and P without ROOM behind them."""
    n = len(d)
    room, found = np.zeros((n + 1) * (n + ROOM)), np.zeros(n * n + ROOM)
    raised = int(factorise_matrix(P, found, d, room, np.zeros(n), np.zeros(n)))
    U[:] = found[: n * n]
    return raised


@kernel((VECTOR, VECTOR, VECTOR), error_model="numpy")
def multiply_out_covariance(U, d, P):
    """As `multiply_out`, for Python."""
    multiply_out(U, d, P)


@kernel(
    int64(VECTOR, VECTOR, VECTOR, int64, int64, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy"
)
def predict_covariance(U, d, F, rows, columns, Q, more, W, P, x, y):
    """`predict`, compiled for itself."""
    return predict(U, d, F, rows, columns, Q, more, W, P, x, y)


@kernel(float64(VECTOR, VECTOR, VECTOR, float64, VECTOR, VECTOR, VECTOR), error_model="numpy")
def update_factors(U, d, H, r, f, g, K):
    """Both halves of an update; the variance of the innovation."""
    s = innovation_variance(U, d, H, r, f, g)
    apply(U, d, r, f, g, K)
    return s


def update_covariance(U: np.ndarray, d: np.ndarray, H: np.ndarray, r: float) -> tuple[float, np.ndarray]:
    """An update, for Python: the variance of the innovation, and the gain. U and H without ROOM behind them."""
    n = len(d)
    room, K = np.concatenate([U, np.zeros(ROOM)]), np.zeros(n)
    s = float(update_factors(room, d, np.concatenate([H, np.zeros(ROOM)]), r, np.zeros(n), np.zeros(n), K))
    U[:] = room[: n * n]
    return s, K
