"""The transition of a step from what it factorised: F = 2 sigma (sigma - J)^-1 - 1, sigma = 2/h, all columns at once.

Right sides are rows in memory, so that a row of factors meets all of them together, and rows are solved four at a time:
some 3 us (37 equations, 23 of them factorised, 43 columns; aarch64). Elimination of x as in integrators.py. In three
steps, for what changes the solutions of (w, s) in between:

    solutions            rows of (w, s), of 2 sigma (sigma - J)^-1
    write_coordinates    F in the rows of x, which follow from them
    write_rest           F in the rows of (w, s)
"""

from sync.compile.jit import inner
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative.columns import add_columns, add_to_four, four_of_rows
from tandem.multibody.relative.lu import padded
from tandem.multibody.relative.ode import EQUATIONS, FACTORISED, LANES, Part


def scratch_size(equations: int, factorised: int, more: int) -> int:
    """Numbers that `solutions` needs in `memory`."""
    rows = -(-factorised // LANES) * LANES
    return rows * (-(-(equations + more) // LANES) * LANES) + (LANES + 2) * rows


@inner
def width_of(columns):
    """Of a row in memory."""
    return (columns + LANES - 1) // LANES * LANES


@inner
def solve_rows(factors, size, stride, R, width, x, minus):
    """Right sides R, `size` rows of `width` (whole fours), become their solutions with the factors of lu.py, whose rows
    were exchanged already. R has whole fours of rows, as factors have; x is scratch of four numbers a row, `minus` has
    -1 for each."""
    fours = padded(size)
    for i in range(0, fours, LANES):
        if i > 0:
            four_of_rows(x, factors, i, stride, minus, 0, i)
            add_to_four(R, i * width, width, R, i * width, width, width, R, 0, width, 0, i, x)
        for r in range(i + 1, min(i + LANES, size)):
            for k in range(i, r):
                x[k] = -factors[k * stride + r]
            add_columns(view(R, r * width, (r + 1) * width), width, R, 0, width, i, r, x)
    i = fours - LANES
    while i >= 0:
        behind = min(i + LANES, size)
        if behind < size:
            four_of_rows(x, factors, i, stride, minus, behind, size)
            add_to_four(R, i * width, width, R, i * width, width, width, R, 0, width, behind, size, x)
        for r in range(behind - 1, i - 1, -1):
            for k in range(r + 1, behind):
                x[k] = -factors[k * stride + r]
            row, inverse = view(R, r * width, (r + 1) * width), factors[r * stride + r]
            add_columns(row, width, R, 0, width, r + 1, behind, x)
            for j in range(width):
                row[j] *= inverse
        i -= LANES


@inner
def solutions(layout, scratch, sigma, rates, more, memory):
    """Rows of (w, s) of 2 sigma (sigma - J)^-1, at the beginning of `memory`, each of `width_of` so many columns.

    `more` columns behind the first N are those of `rates`, by columns of N: rates of (w, s), which become what they
    come to in a step that they are constant in, 2 (sigma - J)^-1 times them; what they have in rows of x is not read.
    """
    A, pivots = part(layout, scratch, Part.FACTORS), part(layout, scratch, Part.PIVOTS)
    X, blocks = part(layout, scratch, Part.COLUMNS), part(layout, scratch, Part.BLOCKS)
    sizes, balls = part(layout, layout, Part.SIZES), part(layout, layout, Part.BALLS)
    N, m = sizes[EQUATIONS], sizes[FACTORISED]
    n, stride = N - m, padded(m)
    width = width_of(N + more)
    R, x = view(memory, 0, stride * width), view(memory, stride * width, (width + LANES) * stride)
    behind = (width + LANES) * stride
    minus, source = view(memory, behind, behind + stride), view(memory, behind + stride, behind + 2 * stride)
    for i in range(stride):
        minus[i], source[i] = -1.0, i
    for k in range(m):
        p = int(pivots[k])
        source[k], source[p] = source[p], source[k]
    # right sides, x eliminated
    for k in range(stride * width):
        R[k] = 0.0
    for k in range(m):
        i = int(source[k])
        row = view(R, k * width, (k + 1) * width)
        for c in range(n):
            row[c] = 2.0 * X[c * stride + i]
        for b in range(len(balls) if n > 0 else 0):
            first, S = balls[b], view(blocks, 18 * b, 18 * b + 9)
            one, two, three = X[first * stride + i], X[(first + 1) * stride + i], X[(first + 2) * stride + i]
            for q in range(3):
                row[first + q] = 2.0 * sigma * (one * S[q] + two * S[3 + q] + three * S[6 + q])
        row[n + i] = 2.0 * sigma
        for j in range(more):
            row[N + j] = 2.0 * rates[j * N + n + i]
    solve_rows(A, m, stride, R, width, x, minus)


@inner
def times_solutions(layout, scratch, sigma, C, C_stride, R, width, out, x):
    """Four rows, C times what `solutions` leaves, C of all N equations; x is scratch of four numbers a row."""
    sizes, balls = part(layout, layout, Part.SIZES), part(layout, layout, Part.BALLS)
    blocks = part(layout, scratch, Part.BLOCKS)
    N, m = sizes[EQUATIONS], sizes[FACTORISED]
    n, share = N - m, 1.0 / sigma
    for i in range(LANES * width):
        out[i] = 0.0
    for a in range(LANES):
        of, row = view(C, a * C_stride, a * C_stride + N), view(out, a * width, (a + 1) * width)
        for k in range(m):
            x[LANES * k + a] = of[n + k]
        for c in range(n):
            x[LANES * c + a] += share * of[c]
            row[c] = 2.0 * of[c]
        for b in range(len(balls) if n > 0 else 0):
            first, S = balls[b], view(blocks, 18 * b, 18 * b + 18)
            one, two, three = of[first], of[first + 1], of[first + 2]
            for q in range(3):
                x[LANES * (first + q) + a] += (
                    one * S[9 + q] + two * S[12 + q] + three * S[15 + q] - share * of[first + q]
                )
                row[first + q] = 2.0 * sigma * (one * S[q] + two * S[3 + q] + three * S[6 + q])
    add_to_four(out, 0, width, out, 0, width, width, R, 0, width, 0, m, x)


@inner
def write_coordinates(layout, scratch, sigma, R, width, columns, F):
    """F in the rows of x, by columns of N rows; `columns` of them."""
    sizes, balls = part(layout, layout, Part.SIZES), part(layout, layout, Part.BALLS)
    blocks = part(layout, scratch, Part.BLOCKS)
    N = sizes[EQUATIONS]
    n, share = N - sizes[FACTORISED], 1.0 / sigma
    for j in range(columns):
        column = view(F, j * N, j * N + n)
        for c in range(n):
            column[c] = share * R[c * width + j]
        for b in range(len(balls) if n > 0 else 0):
            first, S = balls[b], view(blocks, 18 * b + 9, 18 * b + 18)
            one, two, three = R[first * width + j], R[(first + 1) * width + j], R[(first + 2) * width + j]
            for p in range(3):
                column[first + p] = S[3 * p] * one + S[3 * p + 1] * two + S[3 * p + 2] * three
    for c in range(n):
        F[c * N + c] += 1.0
    for b in range(len(balls) if n > 0 else 0):
        first, S = balls[b], view(blocks, 18 * b, 18 * b + 9)
        for q in range(3):
            F[(first + q) * N + first + q] -= 2.0
            for p in range(3):
                F[(first + q) * N + first + p] += 2.0 * sigma * S[3 * p + q]


@inner
def write_rest(layout, R, width, columns, F):
    """F in the rows of (w, s)."""
    sizes = part(layout, layout, Part.SIZES)
    N, m = sizes[EQUATIONS], sizes[FACTORISED]
    for j in range(columns):
        column = view(F, (j + 1) * N - m, (j + 1) * N)
        for i in range(m):
            column[i] = R[i * width + j]
    for j in range(N - m, N):
        F[j * N + j] -= 1.0
