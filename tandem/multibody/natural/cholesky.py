"""Cholesky factorisation with a fixed pattern: panels of columns with equal structure, destinations known beforehand.

A supernode is a run of columns that share their rows below. It is stored as one dense panel, column by column, the
square on its diagonal included; the entries that its outer product changes in later panels are listed in UPDATE_DST.
With one supernode as wide as the matrix this is the dense factorisation, so dense and sparse are one kernel and the
choice between them is a table (pattern.py). Diagonals of the factor are stored inverted.

A pivot that is not positive (an indefinite stiffness at a large step) is counted and replaced by its magnitude, at
least TINY_PIVOT of the matrix entry it came from: the step goes on with a poorer direction, and the diagnostics say so.
"""

from math import sqrt

from sync.compile.jit import inner
from tandem.multibody.natural.tables import BAD_PIVOTS, P
from tandem.multibody.natural.views import part, view

TINY_PIVOT = 1e-13


@inner
def usable_pivot(pivot, original):
    """The pivot, or what stands for one that is not positive; whether it was replaced."""
    if not pivot > TINY_PIVOT * original:
        return max(abs(pivot), TINY_PIVOT * original, 1e-300), 1
    return pivot, 0


@inner
def factorise(ints, work):
    """The matrix in FACTOR becomes its Cholesky factor."""
    first, rows_ptr = part(ints, ints, P.SUPER_COL), part(ints, ints, P.SUPER_PTR)
    panel, update_ptr = part(ints, ints, P.SUPER_PANEL), part(ints, ints, P.SUPER_UPDATE)
    dst, L = part(ints, ints, P.UPDATE_DST), part(ints, work, P.FACTOR)
    scratch = part(ints, work, P.UPDATE)
    bad = 0
    for s in range(len(first) - 1):
        width = first[s + 1] - first[s]
        rows = rows_ptr[s + 1] - rows_ptr[s]
        A = view(L, panel[s], panel[s + 1])

        # columns of the panel, each by those to its left
        for j in range(width):
            column = view(A, j * rows + j, (j + 1) * rows)
            length = len(column)
            original = abs(column[0])
            for k in range(j):
                left = view(A, k * rows + j, (k + 1) * rows)
                x = left[0]
                for i in range(length):
                    column[i] -= left[i] * x
            pivot, replaced = usable_pivot(column[0], original)
            bad += replaced
            inverse = 1.0 / sqrt(pivot)
            column[0] = inverse
            for i in range(1, length):
                column[i] *= inverse

        # what the panel takes from later ones
        below = rows - width
        p = update_ptr[s]
        for a in range(below):
            length = below - a
            total = view(scratch, 0, length)
            for i in range(length):
                total[i] = 0.0
            for k in range(width):
                column = view(A, k * rows + width + a, (k + 1) * rows)
                x = column[0]
                for i in range(length):
                    total[i] += column[i] * x
            for i in range(length):
                L[dst[p + i]] -= total[i]
            p += length
    part(ints, work, P.DIAGNOSTIC)[BAD_PIVOTS] += bad


@inner
def solve(ints, work, b):
    """b becomes the solution of (L L^T) x = b."""
    solve_by(ints, part(ints, work, P.FACTOR), part(ints, work, P.SOLVE), b)


@inner
def solve_by(ints, L, y, b):
    """The same with the factor at hand, and scratch y for as many numbers of the kind of b."""
    order, first = part(ints, ints, P.ORDER), part(ints, ints, P.SUPER_COL)
    rows_ptr, row = part(ints, ints, P.SUPER_PTR), part(ints, ints, P.SUPER_ROW)
    panel = part(ints, ints, P.SUPER_PANEL)
    for i in range(len(order)):
        y[i] = b[order[i]]
    count = len(first) - 1
    for s in range(count):
        start = first[s]
        width = first[s + 1] - start
        below = view(row, rows_ptr[s] + width, rows_ptr[s + 1])
        rows = width + len(below)
        for j in range(width):
            column = view(L, panel[s] + j * rows, panel[s] + (j + 1) * rows)
            x = y[start + j] * column[j]
            y[start + j] = x
            for i in range(j + 1, width):
                y[start + i] -= column[i] * x
            for i in range(len(below)):
                y[below[i]] -= column[width + i] * x
    for s in range(count - 1, -1, -1):
        start = first[s]
        width = first[s + 1] - start
        below = view(row, rows_ptr[s] + width, rows_ptr[s + 1])
        rows = width + len(below)
        for j in range(width - 1, -1, -1):
            column = view(L, panel[s] + j * rows, panel[s] + (j + 1) * rows)
            x = y[start + j]
            for i in range(j + 1, width):
                x -= column[i] * y[start + i]
            for i in range(len(below)):
                x -= column[width + i] * y[below[i]]
            y[start + j] = x * column[j]
    for i in range(len(order)):
        b[order[i]] = y[i]
