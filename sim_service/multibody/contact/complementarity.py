"""Impulses of unilateral contacts with Coulomb friction: block Gauss-Seidel over the contacts, and Newton's method.

With w = G lam + b the velocities of the contacts at the end of a step (each: along its normal, and two across it) and
lam their impulses, find

    0 <= lam_n  _|_  w_n + c lam_n >= 0          c: compliance over the square of the step, 0 for rigid bodies
    |lam_t| <= mu lam_n,  w_t = -s lam_t,  s >= 0, and s = 0 within the cone

A sweep solves each contact exactly with the others as they are: its normal impulse, then the friction of it, a
quadratic form over a disc (for a point outside, the root of the secular equation |(G_t + s)^-1 b| = mu lam_n by
Newton's method, which converges from s = 0 on from one side). Sweeps end when no impulse changes by more than
`tolerance` of the largest.

Where contacts brace each other (more of them under one body than it has freedoms) sweeps
need hundreds of rounds. So from sweep `FEW` on each is followed by Newton steps over all contacts at once, on the
functions of Alart and Curnier (pressing: w_n + c lam_n; sticking: w_t; slipping: lam_t - mu lam_n y / |y| with
y = lam_t - r w_t), no farther than to where the first that sticks begins to slip. The sweep after them is what counts:
solved means the same as before, and where Newton's method comes no nearer the best sweep goes on alone, for a while or,
in the second half of what is allowed, from nothing.
"""

from math import sqrt

from sim_service.multibody.natural.views import inner, view

PATIENCE, PLAIN = (
    8,
    10,
)  # Newton steps that may fail to come nearer, and sweeps without one after that, twice as many each time
STEPS = 10  # of Newton's method between two sweeps, at most
FEW = 3  # sweeps before the first Newton step
SMALL = 1e-15  # of the largest element: a pivot below it is none, and its impulse stays as it is


@inner
def sweep(G, b, friction, compliance, count, lam):
    """One round over all contacts; the largest change of an impulse."""
    size = 3 * count
    largest = 0.0
    for contact in range(count):
        n = 3 * contact
        w = b[n]
        for j in range(size):
            w += G[size * n + j] * lam[j]
        diagonal = max(G[size * n + n] + compliance[contact], 1e-300)
        new = lam[n] - (w + compliance[contact] * lam[n]) / diagonal
        new = max(new, 0.0)
        largest = max(largest, abs(new - lam[n]))
        lam[n] = new
        reach = friction[contact] * new
        # what friction finds: w_t = G_t lam_t + (p, r)
        p, r = b[n + 1], b[n + 2]
        for j in range(size):
            if j != n + 1 and j != n + 2:
                p += G[size * (n + 1) + j] * lam[j]
                r += G[size * (n + 2) + j] * lam[j]
        xx, yy, xy = G[size * (n + 1) + n + 1], G[size * (n + 2) + n + 2], G[size * (n + 1) + n + 2]
        least = 1e-15 * (xx + yy) + 1e-300  # a direction in which nothing can move takes no impulse
        xx, yy = xx + least, yy + least
        s = x = y = 0.0
        if reach > 0.0:
            for _ in range(60):
                det = (xx + s) * (yy + s) - xy * xy
                x = (-(yy + s) * p + xy * r) / det
                y = (xy * p - (xx + s) * r) / det
                long = sqrt(x * x + y * y)
                if long <= reach * (1.0 + 1e-14):
                    break
                # derivative of |x|: -x . (G_t + s)^-1 x / |x|; Newton on 1 / |x|, which is nearly straight
                u, v = ((yy + s) * x - xy * y) / det, (-xy * x + (xx + s) * y) / det
                s += (long - reach) / reach * long * long / (x * u + y * v)
        largest = max(largest, abs(x - lam[n + 1]), abs(y - lam[n + 2]))
        lam[n + 1], lam[n + 2] = x, y
    return largest


@inner
def newton_step(G, b, friction, compliance, count, lam, A):
    """One step for all impulses, in place; its size over the largest of them.

    `A`: room for the matrix and its right side, 3 count (3 count + 1).
    """
    size = 3 * count
    wide = size + 1
    for contact in range(count):
        n = 3 * contact
        x, y = n + 1, n + 2
        for i in range(n, n + 3):
            total = b[i]
            for j in range(size):
                A[wide * i + j] = G[size * i + j]
                total += G[size * i + j] * lam[j]
            A[wide * i + size] = -total
        A[wide * n + n] += compliance[contact]
        A[wide * n + size] -= compliance[contact] * lam[n]
        r = 2.0 / (G[size * x + x] + G[size * y + y] + 1e-300)
        pressed = lam[n] + A[wide * n + size] / max(G[size * n + n] + compliance[contact], 1e-300) > 0.0
        if not pressed:  # open: no impulse
            for i in range(n, n + 3):
                for j in range(size):
                    A[wide * i + j] = 0.0
                A[wide * i + i] = 1.0
                A[wide * i + size] = -lam[i]
            continue
        least = 1e-15 * (G[size * x + x] + G[size * y + y]) + 1e-300
        A[wide * x + x] += least
        A[wide * y + y] += least
        u, v = lam[x] + r * A[wide * x + size], lam[y] + r * A[wide * y + size]
        long, reach = sqrt(u * u + v * v), friction[contact] * lam[n]
        if long <= reach:
            continue
        # slips: the rows of w_t become those of lam_t - mu lam_n y / |y|
        u, v = u / long, v / long
        bend = reach / long
        for j in range(size):
            p, q = A[wide * x + j], A[wide * y + j]
            across = bend * r * (u * q - v * p)
            A[wide * x + j], A[wide * y + j] = -v * across, u * across
        # (1 - bend (1 - d d^T)) for the change of lam_t itself
        A[wide * x + x] += 1.0 - bend * v * v
        A[wide * x + y] += bend * u * v
        A[wide * y + x] += bend * u * v
        A[wide * y + y] += 1.0 - bend * u * u
        A[wide * x + n] -= friction[contact] * u
        A[wide * y + n] -= friction[contact] * v
        A[wide * x + size] = reach * u - lam[x]
        A[wide * y + size] = reach * v - lam[y]

    # elimination, rows of equal size exchanged
    for i in range(size):
        largest = 0.0
        for j in range(size):
            largest = max(largest, abs(A[wide * i + j]))
        if largest > 0.0:
            for j in range(wide):
                A[wide * i + j] /= largest
    for k in range(size):
        best = k
        for i in range(k + 1, size):
            if abs(A[wide * i + k]) > abs(A[wide * best + k]):
                best = i
        if best != k:
            for j in range(k, wide):
                A[wide * k + j], A[wide * best + j] = A[wide * best + j], A[wide * k + j]
        pivot = A[wide * k + k]
        if abs(pivot) < SMALL:
            A[wide * k + k] = 0.0
            continue
        for i in range(k + 1, size):
            a = A[wide * i + k] / pivot
            if a != 0.0:
                for j in range(k + 1, wide):
                    A[wide * i + j] -= a * A[wide * k + j]
    for k in range(size - 1, -1, -1):
        total = A[wide * k + size]
        for j in range(k + 1, size):
            total -= A[wide * k + j] * A[wide * j + size]
        A[wide * k + size] = total / A[wide * k + k] if A[wide * k + k] != 0.0 else 0.0
    # no farther than to where the first that sticks begins to slip: two that brace each other would take any impulse
    share = 1.0
    for contact in range(count):
        n = 3 * contact
        x, y, mu = lam[n + 1], lam[n + 2], friction[contact]
        dn, dx, dy = A[wide * n + size], A[wide * (n + 1) + size], A[wide * (n + 2) + size]
        inside = mu * mu * lam[n] * lam[n] - x * x - y * y
        if inside > 1e-6 * mu * mu * lam[n] * lam[n]:
            square, half = dx * dx + dy * dy - mu * mu * dn * dn, x * dx + y * dy - mu * mu * lam[n] * dn
            if square + 2.0 * half > inside:
                share = min(share, inside / (half + sqrt(max(half * half + square * inside, 0.0))))
    moved, largest = 0.0, 1e-300
    for k in range(size):
        lam[k] += share * A[wide * k + size]
        moved, largest = max(moved, abs(A[wide * k + size])), max(largest, abs(lam[k]))
    for contact in range(count):
        n = 3 * contact
        lam[n] = max(lam[n], 0.0)
        long, reach = sqrt(lam[n + 1] * lam[n + 1] + lam[n + 2] * lam[n + 2]), friction[contact] * lam[n]
        if long > reach:
            lam[n + 1] *= reach / long
            lam[n + 2] *= reach / long
    return moved / largest


@inner
def solve_impulses(G, b, friction, compliance, count, lam, cap, tolerance, room):
    """Sweeps until they change nothing; how many, and the last change over the largest impulse.

    `room`: 3 count (3 count + 2).
    """
    size = 3 * count
    best, A = view(room, 0, size), view(room, size, size * (size + 2))
    least = 1e300  # change of the sweep that led to `best`, over the largest impulse
    tried = plain = 0  # Newton steps since `best`; sweeps without one that are still to come
    pause = PLAIN
    for k in range(cap):
        change = sweep(G, b, friction, compliance, count, lam)
        scale = 1e-300
        for j in range(size):
            scale = max(scale, abs(lam[j]))
        change /= scale
        if change <= tolerance:
            return k + 1, change
        if change < least:
            least, tried = change, 0
            for j in range(size):
                best[j] = lam[j]
        elif tried >= PATIENCE and k < cap // 2:
            for j in range(size):
                lam[j] = best[j]
            tried, plain, pause = 0, pause, 2 * pause
        plain -= 1
        if k == cap // 2:  # once more from nothing, by sweeps alone
            for j in range(size):
                lam[j] = 0.0
        if FEW <= k < cap // 2 and plain < 0:
            tried += 1
            for _ in range(STEPS):
                if newton_step(G, b, friction, compliance, count, lam, A) <= 1e-3:
                    break
    for j in range(size):
        lam[j] = best[j]
    return cap, least
