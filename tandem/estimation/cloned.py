"""Late readings without going back: a copy of what will be read, made at its instant, stays in the filter until then.

Of every row with a latency, at each instant it reads at, the predicted reading y = h(x) is copied as a state of its own
that nothing moves (stochastic cloning, of the reading instead of the whole state). Kept of a copy a: its mean, its
covariance c_a with the states, covariances M_ab among copies. Then

    a step                c_a = T c_a
    another reading       t_a = H c_a:  c_a -= K t_a,  y_a += t_a v / S,  M_ab -= t_a t_b / S
    the reading itself    v = z - y_a,  S = M_aa + r,  gain c_a / S

The last is Bierman's update of the states with the row h = P^-1 c_a, whose noise is what S has beyond h c_a.

Where the machine is linear this is what going back gives. Where it is not, a correction that comes late is not in the
linearisations since its instant: `verify/estimation/late_readings.py` prints how much that is. Copies are made by the
rows' own schedule, so instants of readings must be those of the description; others are counted as too old.
"""

from math import isfinite

from sync.compile.jit import inner
from tandem.estimation import factored
from tandem.estimation.contract import TANGENT
from tandem.estimation.expected import expected_reading
from tandem.estimation.rows import CLIPPED, COUNTED, COUNTS, GATED, LATE, TOO_OLD, USED, WIDTH, Count, R
from tandem.multibody.natural.views import index_within, view

CLONES = 16  # at once
# of a copy: whether there is one, its row and step, mean, variance beyond the row's, reading, factor on its noise
PRESENT, ROW, STEP, MEAN, MORE, VALUE, FACTOR, BY = range(8)
FIELDS = 8  # BY: scratch, covariance with the reading in turn
FREE_SLOT, WAITS, ARRIVED = 0.0, 1.0, 2.0
COVARIANCES = CLONES * FIELDS
VECTORS = COVARIANCES + CLONES * CLONES


def room_for(order: int) -> int:
    """Numbers of copies and their covariances."""
    return VECTORS + CLONES * order


# long: flat arrays of the filter; a kernel takes no object
@inner
def make_clones(model, memory, room, form, errors, estimated, step, history, status, extra, U, d, at, H, f, g, measure):
    """Copies of the readings that rows with a latency take at this step; those nobody asked for are given up."""
    N, rows = len(d), model.rows
    first = len(model.sizes) - 2 * estimated
    which = view(model.sizes, first, first + estimated)
    for a in range(CLONES):
        if room[FIELDS * a + PRESENT] != FREE_SLOT and step - room[FIELDS * a + STEP] >= history:
            room[FIELDS * a + PRESENT] = FREE_SLOT
    for i in range(len(rows) // WIDTH):
        row, counts = view(rows, WIDTH * i, WIDTH * (i + 1)), view(model.counts, COUNTS * i, COUNTS * (i + 1))
        if counts[Count.LATENCY] <= 0 or (step - counts[Count.PHASE]) % counts[Count.PERIOD] != 0:
            continue
        a = 0
        while a < CLONES and room[FIELDS * a + PRESENT] != FREE_SLOT:
            a += 1
        if a == CLONES:
            continue
        y = expected_reading(row, counts, 0.0, form, errors, at, model.tables, memory.work, which, extra, H, measure)
        if not isfinite(y):
            continue
        of, c = view(room, FIELDS * a, FIELDS * a + FIELDS), view(room, VECTORS + N * a, VECTORS + N * a + N)
        M = view(room, COVARIANCES + CLONES * a, COVARIANCES + CLONES * a + CLONES)
        of[PRESENT], of[ROW], of[STEP], of[MEAN] = WAITS, i, step, y
        of[MORE] = row[R.ROUGH] * row[R.ROUGH] if status != TANGENT else 0.0
        M[a] = factored.innovation_variance(U, d, H, 0.0, f, g)
        for j in range(N):
            c[j] = 0.0
        for j in range(N):
            for k in range(j):
                c[k] += U[j * N + k] * g[j]
            c[j] += g[j]
        for b in range(CLONES):
            if b != a and room[FIELDS * b + PRESENT] != FREE_SLOT:
                other, total = view(room, VECTORS + N * b, VECTORS + N * b + N), 0.0
                for j in range(N):
                    total += H[j] * other[j]
                M[b] = room[COVARIANCES + CLONES * b + a] = total


@inner
def follow(room, N, K, v, s):
    """All copies after a reading with gain K, innovation v, variance s, and covariances BY with each of them."""
    for a in range(CLONES):
        of = view(room, FIELDS * a, FIELDS * a + FIELDS)
        if of[PRESENT] == FREE_SLOT or of[BY] == 0.0:
            continue
        c, by = view(room, VECTORS + N * a, VECTORS + N * a + N), of[BY]
        M = view(room, COVARIANCES + CLONES * a, COVARIANCES + CLONES * a + CLONES)
        for j in range(N):
            c[j] -= K[j] * by
        of[MEAN] += by * v / s
        for b in range(CLONES):
            if room[FIELDS * b + PRESENT] != FREE_SLOT:
                M[b] -= by * room[FIELDS * b + BY] / s


@inner
def see_reading(room, H, N):
    """Covariances of all copies with a reading of this instant; to be asked for before its update."""
    for a in range(CLONES):
        of = view(room, FIELDS * a, FIELDS * a + FIELDS)
        if of[PRESENT] != FREE_SLOT:
            c, total = view(room, VECTORS + N * a, VECTORS + N * a + N), 0.0
            for j in range(N):
                total += H[j] * c[j]
            of[BY] = total


@inner
def carry(room, N, n, columns, F, moved):
    """Copies over a step whose transition is F."""
    for a in range(CLONES):
        if room[FIELDS * a + PRESENT] == FREE_SLOT:
            continue
        c = view(room, VECTORS + N * a, VECTORS + N * a + N)
        for i in range(n):
            moved[i] = 0.0
        for j in range(columns):
            column = view(F, j * n, (j + 1) * n)
            for i in range(n):
                moved[i] += column[i] * c[j]
        for i in range(n):
            c[i] = moved[i]


@inner
def row_of(U, d, c, h):
    """h = P^-1 c."""
    N = len(d)
    for j in range(N):
        h[j] = c[j]
    for j in range(N - 1, -1, -1):
        for i in range(j):
            h[i] -= U[j * N + i] * h[j]
    for j in range(N):
        h[j] /= d[j]
    for j in range(N):
        for i in range(j):
            h[j] -= U[j * N + i] * h[i]


@inner
def use_arrived(model, memory, room, U, d, dx, H, f, g, K):
    """Readings that have come since the last step, to dx and the covariance."""
    N, counters = len(d), memory.counters
    for a in range(CLONES):
        of = view(room, FIELDS * a, FIELDS * a + FIELDS)
        if of[PRESENT] != ARRIVED:
            continue
        i = index_within(of[ROW], 0, len(model.rows) // WIDTH - 1)
        row, c = view(model.rows, WIDTH * i, WIDTH * (i + 1)), view(room, VECTORS + N * a, VECTORS + N * a + N)
        M = view(room, COVARIANCES + CLONES * a, COVARIANCES + CLONES * a + CLONES)
        of[PRESENT] = FREE_SLOT
        if not (of[VALUE] > row[R.LOW] and of[VALUE] < row[R.HIGH]):
            counters[COUNTED * i + CLIPPED] += 1.0
            continue
        r, v = (row[R.NOISE] * of[FACTOR]) ** 2 + of[MORE], of[VALUE] - of[MEAN]
        s = M[a] + r
        memory.innovations[2 * i], memory.innovations[2 * i + 1] = v, s
        if not (isfinite(v) and v * v <= row[R.GATE] * s):
            counters[COUNTED * i + GATED] += 1.0
            continue
        for j in range(len(H)):
            H[j] = 0.0
        row_of(U, d, c, H)
        left = s
        for j in range(N):
            left -= H[j] * c[j]
        left = max(left, r)  # what the states of now do not say of it, and its noise
        factored.innovation_variance(U, d, H, left, f, g)
        factored.apply(U, d, left, f, g, K)
        for j in range(N):
            dx[j] += K[j] * v
        for b in range(CLONES):
            room[FIELDS * b + BY] = M[b]
        follow(room, N, K, v, s)
        counters[COUNTED * i + USED] += 1.0


@inner
def arrive(memory, room, row, step, value, factor):
    """A late reading finds its copy; whether there is one."""
    for a in range(CLONES):
        of = view(room, FIELDS * a, FIELDS * a + FIELDS)
        if of[PRESENT] == WAITS and of[ROW] == row and of[STEP] == step:
            of[PRESENT], of[VALUE], of[FACTOR] = ARRIVED, value, factor
            memory.counters[COUNTED * row + LATE] += 1.0
            return True
    memory.counters[COUNTED * row + TOO_OLD] += 1.0
    return False


@inner
def forget(room):
    for a in range(CLONES):
        room[FIELDS * a + PRESENT] = FREE_SLOT
