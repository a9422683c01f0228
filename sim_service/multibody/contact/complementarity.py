"""Impulses of unilateral contacts with Coulomb friction: block Gauss-Seidel over the contacts.

With w = G lam + b the velocities of the contacts at the end of a step (each: along its normal, and two across it) and
lam their impulses, find

    0 <= lam_n  _|_  w_n + c lam_n >= 0          c: compliance over the square of the step, 0 for rigid bodies
    |lam_t| <= mu lam_n,  w_t = -s lam_t,  s >= 0, and s = 0 within the cone

A sweep solves each contact exactly with the others as they are: its normal impulse, then the friction of it, a
quadratic form over a disc (for a point outside, the root of the secular equation |(G_t + s)^-1 b| = mu lam_n by
Newton's method, which converges from s = 0 on from one side). Sweeps end when no impulse changes by more than
`tolerance` of the largest.
"""

from math import sqrt

from sim_service.multibody.natural.views import inner


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
def solve_impulses(G, b, friction, compliance, count, lam, cap, tolerance):
    """Sweeps until they change nothing; how many, and the last change over the largest impulse."""
    for k in range(cap):
        change = sweep(G, b, friction, compliance, count, lam)
        scale = 1e-300
        for j in range(3 * count):
            scale = max(scale, abs(lam[j]))
        if change <= tolerance * scale:
            return k + 1, change / scale
    return cap, change / scale
