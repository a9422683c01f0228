"""The transition of a step from what it factorised: F = 2 sigma (sigma - J)^-1 - 1, sigma = 2/h, all columns at once.

Right sides are rows in memory, so that a row of factors meets all of them together: some 3 us where columns one after
the other took 13 (37 equations, 23 of them factorised; aarch64). Elimination of x as in integrators.py.
"""

from sim_service.multibody.natural.views import part, view
from sim_service.multibody.relative.columns import solve_rows
from sim_service.multibody.relative.lu import padded
from sim_service.multibody.relative.ode import EQUATIONS, FACTORISED, LANES, Part
from sync.jit import inner


def room_for(equations: int, factorised: int, more: int) -> int:
    """Numbers that `cayley` needs in `room`."""
    return factorised * (-(-(equations + more) // LANES) * LANES) + factorised


@inner
def cayley(layout, scratch, sigma, F, more, room):
    """F by columns, of N rows. `more` columns behind the first N are rates of (w, s), and become what they come to in a
    step that they are constant in: 2 (sigma - J)^-1 times them; what they have in rows of x is not looked at."""
    A, pivots = part(layout, scratch, Part.FACTORS), part(layout, scratch, Part.PIVOTS)
    X, blocks = part(layout, scratch, Part.COLUMNS), part(layout, scratch, Part.BLOCKS)
    sizes, balls = part(layout, layout, Part.SIZES), part(layout, layout, Part.BALLS)
    N, m = sizes[EQUATIONS], sizes[FACTORISED]
    n, stride, share = N - m, padded(m), 1.0 / sigma
    width = (N + more + LANES - 1) // LANES * LANES
    R, x = view(room, 0, m * width), view(room, m * width, m * width + m)
    # right sides, x eliminated
    for i in range(m):
        row = view(R, i * width, (i + 1) * width)
        for j in range(width):
            row[j] = 0.0
        for c in range(n):
            row[c] = 2.0 * X[c * stride + i]
        for b in range(len(balls) if n > 0 else 0):
            first, S = balls[b], view(blocks, 18 * b, 18 * b + 9)
            one, two, three = X[first * stride + i], X[(first + 1) * stride + i], X[(first + 2) * stride + i]
            for q in range(3):
                row[first + q] = 2.0 * sigma * (one * S[q] + two * S[3 + q] + three * S[6 + q])
        row[n + i] = 2.0 * sigma
        for k in range(more):
            row[N + k] = 2.0 * F[(N + k) * N + n + i]
    solve_rows(A, pivots, m, stride, R, width, x)
    for j in range(N + more):
        column = view(F, j * N, (j + 1) * N)
        for i in range(m):
            column[n + i] = R[i * width + j]
        for c in range(n):
            column[c] = share * column[n + c]
        for b in range(len(balls) if n > 0 else 0):
            first, S = balls[b], view(blocks, 18 * b + 9, 18 * b + 18)
            one, two, three = column[n + first], column[n + first + 1], column[n + first + 2]
            for p in range(3):
                column[first + p] = S[3 * p] * one + S[3 * p + 1] * two + S[3 * p + 2] * three
    for c in range(n):
        F[c * N + c] += 2.0
    for b in range(len(balls) if n > 0 else 0):
        first, S = balls[b], view(blocks, 18 * b, 18 * b + 9)
        for q in range(3):
            F[(first + q) * N + first + q] -= 2.0
            for p in range(3):
                F[(first + q) * N + first + p] += 2.0 * sigma * S[3 * p + q]
    for j in range(N):
        F[j * N + j] -= 1.0
