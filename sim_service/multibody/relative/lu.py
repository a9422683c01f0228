"""LU factorisation with partial pivoting of a small full matrix.

The matrix is stored column by column: then the update of the factorisation and both substitutions run along columns,
over contiguous memory, and none of them is a sum that would have to be kept in order. Columns are taken in pairs, which
halves what is loaded and stored. Diagonals of U are stored inverted. A singular matrix gives infinities, which the
user of the solution has to look for.
"""

from sim_service.multibody.natural.views import inner, view


@inner
def subtract(out, a, x, b, y):
    for i in range(len(out)):
        out[i] = out[i] - a[i] * x - b[i] * y


@inner
def eliminate(A, pivots, size, k):
    """Exchange rows for the largest pivot in column k, and make its multipliers."""
    column = view(A, k * size, (k + 1) * size)
    p, largest = k, abs(column[k])
    for i in range(k + 1, size):
        if abs(column[i]) > largest:
            p, largest = i, abs(column[i])
    pivots[k] = p
    if p != k:
        for j in range(size):
            A[j * size + k], A[j * size + p] = A[j * size + p], A[j * size + k]
    inverse = 1.0 / column[k]
    column[k] = inverse
    lower = view(column, k + 1, size)
    for i in range(len(lower)):
        lower[i] *= inverse


@inner
def factorise(A, pivots, size):
    """A becomes its factors, L below the diagonal; pivots[k] is the row that was exchanged with row k."""
    for k in range(0, size, 2):
        eliminate(A, pivots, size, k)
        if k + 1 == size:
            break
        one, second = view(A, k * size + k + 1, (k + 1) * size), view(A, (k + 1) * size + k, (k + 2) * size)
        x = second[0]
        for i in range(len(one)):
            second[1 + i] -= one[i] * x
        eliminate(A, pivots, size, k + 1)
        between = A[k * size + k + 1]
        one, two = view(A, k * size + k + 2, (k + 1) * size), view(A, (k + 1) * size + k + 2, (k + 2) * size)
        for j in range(k + 2, size):
            x = A[j * size + k]
            y = A[j * size + k + 1] - between * x
            A[j * size + k + 1] = y
            subtract(view(A, j * size + k + 2, (j + 1) * size), one, x, two, y)


@inner
def solve(A, pivots, size, b):
    """b becomes the solution x of A x = b."""
    for k in range(size):
        p = int(pivots[k])
        b[k], b[p] = b[p], b[k]
    for k in range(0, size - 1, 2):
        one, two = view(A, k * size + k + 1, (k + 1) * size), view(A, (k + 1) * size + k + 2, (k + 2) * size)
        x = b[k]
        y = b[k + 1] - one[0] * x
        b[k + 1] = y
        subtract(view(b, k + 2, size), view(one, 1, len(one)), x, two, y)
    for k in range(size - 1, 0, -2):
        u, v = view(A, k * size, k * size + k + 1), view(A, (k - 1) * size, (k - 1) * size + k)
        x = b[k] * u[k]
        y = (b[k - 1] - u[k - 1] * x) * v[k - 1]
        b[k], b[k - 1] = x, y
        subtract(view(b, 0, k - 1), u, x, v, y)
    if size % 2 == 1:
        b[0] *= A[0]
