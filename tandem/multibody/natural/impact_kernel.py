"""Impacts: where in a step two surfaces meet, and what the velocities are afterwards.

A step that ends with two surfaces in each other is begun again. Where they meet is looked for on the dense output of
the step (Hermite's cubic of coordinates and velocities, brought onto the constraints); a step of that length is then
made from the beginning of the old one and corrected by Newton's method, so that the state at the impact is one of the
scheme and not an interpolation. Two surfaces that meet and part within a step are found by the least gap of the
cubic. Then

    v+ = v- + M^-1 (G^T p - Phi_q^T mu),  Phi_q v+ = 0,    0 <= p_n  _|_  v_n+ + e v_n- >= 0,   |p_t| <= friction p_n

for all contacts that touch, at once; accelerations and multipliers are recomputed and the rest of the step is made.
What approaches more slowly than `SLOW` does not bounce; what lies on a surface is pushed back at the end of each step
by plastic impulses (Moreau), which are its normal force and its Coulomb friction times the step.

A contact is a ball (a point, a corner of a box, an end of a capsule) against a plane, ball, capsule or box, in a round
hole, or a capsule against a capsule. Surfaces are fixed in bodies by a frame of linear forms, an origin and three unit
axes; a material point is again a linear form, so that gradients are exact. Nothing is allocated.
"""

from math import isfinite, sqrt

from numba import float64, int64, types

from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS
from sync.compile.jit import inner, kernel
from tandem.multibody.contact.complementarity import Contacts, solve_impulses
from tandem.multibody.natural.assembly import assemble, evaluate_kinematics, kinetic_energy, largest, mask, set_inputs
from tandem.multibody.natural.augmented import STEP, applied_power
from tandem.multibody.natural.cholesky import factorise, solve
from tandem.multibody.natural.comparison import accelerate_at, project
from tandem.multibody.natural.constraints import add_transposed, jacobian, times_jacobian
from tandem.multibody.natural.impact_tables import (
    BALL_BALL,
    BALL_CAPSULE,
    BALL_HOLE,
    BALL_PLANE,
    C_DEEPEST,
    C_IMPACTS,
    C_LOGGED,
    C_LOST,
    C_MISSED,
    C_RESTED,
    CAPSULE_CAPSULE,
    CONTACT_INTS,
    CONTACT_REALS,
    E_ACROSS_1,
    E_ACROSS_2,
    E_AFTER,
    E_BEFORE,
    E_CONTACT,
    E_GAP,
    E_LOST,
    E_NORMAL,
    E_PHI,
    E_TIME,
    E_TOGETHER,
    E_X,
    E_Y,
    E_Z,
    EVENT,
    FORMS,
    FRICTION,
    MOST_IN_A_STEP,
    MOST_TOGETHER,
    OFFSET,
    OTHER_RADIUS,
    RADIUS,
    RESTITUTION,
    SIZE,
    SLOW,
)
from tandem.multibody.natural.tables import CAPPED, HOOK, INTS, REALS, STEP_ERROR, P
from tandem.multibody.natural.views import part, view

SEARCH_STEPS = 60  # of the search along a step
NEWTONS = 4  # steps of corrected length
CAP, ENOUGH, BUDGET = 200, 1e-13, 20_000_000
GEOMETRY = 10  # of a contact: gap, normal from the second to the first, place on either surface


@inner
def place(ptr, col, coef, const, q, surface, out):
    """Origin and axes of a surface."""
    for c in range(FORMS):
        f = FORMS * surface + c
        total = const[f]
        for e in range(ptr[f], ptr[f + 1]):
            total += coef[e] * q[col[e]]
        out[c] = total


@inner
def add_gradient(ptr, col, coef, surface, at, X, d, factor, out):
    """out += factor times the derivative of d . (material point of the surface that is at X now)."""
    for c in range(3):
        f = FORMS * surface + c
        for e in range(ptr[f], ptr[f + 1]):
            out[col[e]] += factor * d[c] * coef[e]
    for k in range(3):
        a = 3 + 3 * k
        xi = (X[0] - at[0]) * at[a] + (X[1] - at[1]) * at[a + 1] + (X[2] - at[2]) * at[a + 2]
        for c in range(3):
            f = FORMS * surface + a + c
            for e in range(ptr[f], ptr[f + 1]):
                out[col[e]] += factor * d[c] * xi * coef[e]


@inner
def between(ax, ay, az, ra, bx, by, bz, rb, out):
    """Two balls."""
    dx, dy, dz = ax - bx, ay - by, az - bz
    far = sqrt(dx * dx + dy * dy + dz * dz)
    if far > 0.0:
        dx, dy, dz = dx / far, dy / far, dz / far
    else:
        dx, dy, dz = 0.0, 1.0, 0.0
    out[0] = far - ra - rb
    out[1], out[2], out[3] = dx, dy, dz
    out[4], out[5], out[6] = ax - ra * dx, ay - ra * dy, az - ra * dz
    out[7], out[8], out[9] = bx + rb * dx, by + rb * dy, bz + rb * dz


@inner
def ball_box(ax, ay, az, ra, s, b, out):
    """A ball outside a box, or with its centre inside."""
    r0 = (ax - b[0]) * b[3] + (ay - b[1]) * b[4] + (az - b[2]) * b[5]
    r1 = (ax - b[0]) * b[6] + (ay - b[1]) * b[7] + (az - b[2]) * b[8]
    r2 = (ax - b[0]) * b[9] + (ay - b[1]) * b[10] + (az - b[2]) * b[11]
    c0, c1, c2 = min(max(r0, -s[0]), s[0]), min(max(r1, -s[1]), s[1]), min(max(r2, -s[2]), s[2])
    if c0 != r0 or c1 != r1 or c2 != r2:
        px = b[0] + c0 * b[3] + c1 * b[6] + c2 * b[9]
        py = b[1] + c0 * b[4] + c1 * b[7] + c2 * b[10]
        pz = b[2] + c0 * b[5] + c1 * b[8] + c2 * b[11]
        between(ax, ay, az, ra, px, py, pz, 0.0, out)
        return
    d0, d1, d2 = s[0] - abs(r0), s[1] - abs(r1), s[2] - abs(r2)
    k, r, depth = 0, r0, d0
    if d1 < depth:
        k, r, depth = 1, r1, d1
    if s[2] > 0.0 and d2 < depth:  # in the plane there is no third side
        k, r, depth = 2, r2, d2
    sign = 1.0 if r >= 0.0 else -1.0
    nx, ny, nz = sign * b[3 + 3 * k], sign * b[4 + 3 * k], sign * b[5 + 3 * k]
    out[0] = -depth - ra
    out[1], out[2], out[3] = nx, ny, nz
    out[4], out[5], out[6] = ax - ra * nx, ay - ra * ny, az - ra * nz
    out[7], out[8], out[9] = ax + depth * nx, ay + depth * ny, az + depth * nz


@inner
def capsules(a, ha, ra, b, hb, rb, out):
    """The nearest points of two segments (Ericson, Real-Time Collision Detection, 5.1.9), with radii."""
    wx, wy, wz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    ab = a[3] * b[3] + a[4] * b[4] + a[5] * b[5]
    aw = a[3] * wx + a[4] * wy + a[5] * wz
    bw = b[3] * wx + b[4] * wy + b[5] * wz
    det = 1.0 - ab * ab
    s = (ab * bw - aw) / det if det > 1e-12 else 0.0  # parallel: the middle of the first
    s = min(max(s, -ha), ha)
    t = bw + ab * s
    if t < -hb or t > hb:
        t = min(max(t, -hb), hb)
        s = min(max(ab * t - aw, -ha), ha)
    between(
        a[0] + s * a[3], a[1] + s * a[4], a[2] + s * a[5], ra, b[0] + t * b[3], b[1] + t * b[4], b[2] + t * b[5], rb,
        out,
    )  # fmt: skip


@inner
def geometry(ptr, col, coef, const, q, which, figures, A, B, out):
    """Gap, normal and places of one contact at coordinates q; A, B: the frames of its surfaces."""
    place(ptr, col, coef, const, q, which[1], A)
    place(ptr, col, coef, const, q, which[2], B)
    x, y, z = figures[OFFSET], figures[OFFSET + 1], figures[OFFSET + 2]
    ra, rb = figures[RADIUS], figures[OTHER_RADIUS]
    kind = which[0]
    if kind == CAPSULE_CAPSULE:
        capsules(A, x, ra, B, figures[SIZE], rb, out)
        return
    ax = A[0] + x * A[3] + y * A[6] + z * A[9]
    ay = A[1] + x * A[4] + y * A[7] + z * A[10]
    az = A[2] + x * A[5] + y * A[8] + z * A[11]
    if kind == BALL_PLANE:
        high = (ax - B[0]) * B[3] + (ay - B[1]) * B[4] + (az - B[2]) * B[5]
        out[0] = high - ra
        for c in range(3):
            out[1 + c] = B[3 + c]
        out[4], out[5], out[6] = ax - ra * B[3], ay - ra * B[4], az - ra * B[5]
        out[7], out[8], out[9] = ax - high * B[3], ay - high * B[4], az - high * B[5]
    elif kind == BALL_BALL:
        between(ax, ay, az, ra, B[0], B[1], B[2], rb, out)
    elif kind == BALL_HOLE:  # the farthest point of the ball from the middle of the hole
        between(ax, ay, az, 0.0, B[0], B[1], B[2], 0.0, out)
        out[0] = rb - ra - out[0]
        for c in range(3):
            out[1 + c] = -out[1 + c]
            out[4 + c] -= ra * out[1 + c]
            out[7 + c] -= rb * out[1 + c]
    elif kind == BALL_CAPSULE:
        t = (ax - B[0]) * B[3] + (ay - B[1]) * B[4] + (az - B[2]) * B[5]
        t = min(max(t, -figures[SIZE]), figures[SIZE])
        between(ax, ay, az, ra, B[0] + t * B[3], B[1] + t * B[4], B[2] + t * B[5], rb, out)
    else:
        ball_box(ax, ay, az, ra, view(figures, SIZE, SIZE + 3), B, out)


@inner
def add_speed_form(ptr, col, coef, which, A, B, found, d, out):
    """out += the derivative of the first surface's material point along d, less the second's."""
    add_gradient(ptr, col, coef, which[1], A, view(found, 4, 7), d, 1.0, out)
    add_gradient(ptr, col, coef, which[2], B, view(found, 7, 10), d, -1.0, out)


@inner
def gaps(forms, q, contacts, figures, A, B, found, out):
    """Of all contacts."""
    ptr, col, coef, const = forms
    for c in range(len(out)):
        geometry(
            ptr, col, coef, const, q, view(contacts, CONTACT_INTS * c, CONTACT_INTS * (c + 1)),
            view(figures, CONTACT_REALS * c, CONTACT_REALS * (c + 1)), A, B, found,
        )  # fmt: skip
        out[c] = found[0]


@kernel(types.void(INTS, INTS, REALS, REALS, REALS, INTS, REALS, REALS, REALS), error_model="numpy")
def gaps_at(ptr, col, coef, const, q, contacts, figures, scratch, out):
    """For Python."""
    gaps(
        (ptr, col, coef, const), q, contacts, figures, view(scratch, 0, 12), view(scratch, 12, 24),
        view(scratch, 24, 34), out,
    )  # fmt: skip


@inner
def approach(forms, q, qd, contacts, figures, c, A, B, found, g):
    """How fast the gap of a contact grows; g becomes its gradient."""
    ptr, col, coef, const = forms
    which = view(contacts, CONTACT_INTS * c, CONTACT_INTS * (c + 1))
    geometry(
        ptr, col, coef, const, q, which, view(figures, CONTACT_REALS * c, CONTACT_REALS * (c + 1)), A, B, found
    )  # fmt: skip
    for i in range(len(g)):
        g[i] = 0.0
    add_speed_form(ptr, col, coef, which, A, B, found, view(found, 1, 4), g)
    total = 0.0
    for i in range(len(g)):
        total += g[i] * qd[i]
    return total


@inner
def respond(ints, reals, work, g, y, r):
    """y becomes the velocity that a unit impulse along g makes, constraints held; the factor at hand is of M."""
    jac, old, weight = part(ints, work, P.JAC), part(ints, work, P.JAC_FACTOR), part(ints, reals, P.WEIGHT)
    rhs = part(ints, work, P.RHS)
    for i in range(len(g)):
        rhs[i] = g[i]
    solve(ints, work, rhs)
    size = 0.0
    for i in range(len(g)):
        y[i] = rhs[i]
        size = max(size, abs(y[i]))
    for _ in range(20):
        for k in range(len(r)):
            r[k] = 0.0
        times_jacobian(ints, jac, y, r)
        mask(ints, reals, r)
        if largest(r) <= 1e-14 * size:
            break
        for k in range(len(r)):
            r[k] *= weight[k]
        for i in range(len(g)):
            rhs[i] = 0.0
        add_transposed(ints, old, r, 1.0, rhs)
        solve(ints, work, rhs)
        for i in range(len(g)):
            y[i] -= rhs[i]


@inner
def across(n, t):
    """Two unit vectors across a unit vector, the first in the plane z = 0 where the normal is."""
    size = sqrt(n[0] * n[0] + n[1] * n[1])
    if size > 1e-6:
        t[0], t[1], t[2] = -n[1] / size, n[0] / size, 0.0
    else:
        t[0], t[1], t[2] = 1.0, 0.0, 0.0
    t[3] = n[1] * t[2] - n[2] * t[1]
    t[4] = n[2] * t[0] - n[0] * t[2]
    t[5] = n[0] * t[1] - n[1] * t[0]


# long: one impact, in the order of its equations
@inner
def impulses(ints, reals, state, work, hook, forms, contacts, figures, touch, lively, log, counts, scratch, speeds):
    """Velocities after the impact of all contacts within `touch` that do not part.

    With restitution where it is `lively`. Returns whether one of these was. Gaps that are negative are closed by the
    least motion, in the metric of the mass.
    """
    ptr, col, coef, const = forms
    q, qd, phi = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, work, P.PHI)
    n, total = len(q), len(contacts) // CONTACT_INTS
    k = 3 * MOST_TOGETHER
    A, B, found, t = view(scratch, 0, 12), view(scratch, 12, 24), view(scratch, 24, 34), view(scratch, 34, 40)
    r = view(scratch, 40, 40 + len(phi))
    at = 40 + len(phi)
    grads, ys = view(scratch, at, at + k * n), view(scratch, at + k * n, at + 2 * k * n)
    at += 2 * k * n
    G, b, lam = (
        view(scratch, at, at + k * k),
        view(scratch, at + k * k, at + k * k + k),
        view(scratch, at + k * k + k, at + k * k + 2 * k),
    )
    at += k * k + 2 * k
    solver_scratch = view(scratch, at, at + k * (k + 2))
    at += k * (k + 2)
    mine, mu, soft = (
        view(scratch, at, at + MOST_TOGETHER),
        view(scratch, at + MOST_TOGETHER, at + 2 * MOST_TOGETHER),
        view(scratch, at + 2 * MOST_TOGETHER, at + 3 * MOST_TOGETHER),
    )

    set_inputs(ints, reals, state, part(ints, state, P.TIME)[0])
    evaluate_kinematics(ints, reals, state, work, q, qd)
    jacobian(ints, reals, work)
    assemble(ints, reals, work, 0.0, 0.0)
    factorise(ints, work)
    count, fast = 0, False
    deepest = 0.0
    for c in range(total):
        if count == MOST_TOGETHER:
            break
        which = view(contacts, CONTACT_INTS * c, CONTACT_INTS * (c + 1))
        own = view(figures, CONTACT_REALS * c, CONTACT_REALS * (c + 1))
        row = 3 * count
        g = view(grads, row * n, (row + 1) * n)
        speed = approach(forms, q, qd, contacts, figures, c, A, B, found, g)
        if found[0] > touch or (speed >= 0.0 and found[0] >= 0.0):
            continue
        deepest = min(deepest, found[0])
        across(view(found, 1, 4), t)
        for d in range(2):
            g = view(grads, (row + 1 + d) * n, (row + 2 + d) * n)
            for i in range(n):
                g[i] = 0.0
            add_speed_form(ptr, col, coef, which, A, B, found, view(t, 3 * d, 3 * d + 3), g)
        mine[count], mu[count], soft[count] = c, own[FRICTION], 0.0
        count += 1
    if count == 0:
        return False
    size = 3 * count
    for i in range(size):
        respond(ints, reals, work, view(grads, i * n, (i + 1) * n), view(ys, i * n, (i + 1) * n), r)
    for i in range(size):
        b[i] = 0.0
        lam[i] = 0.0
        for j in range(n):
            b[i] += grads[i * n + j] * qd[j]
        for j in range(size):
            total_ij = 0.0
            for e in range(n):
                total_ij += grads[i * n + e] * ys[j * n + e]
            G[i * size + j] = total_ij
    for c in range(count):  # G is symmetric but for what the passes leave
        own = view(figures, CONTACT_REALS * int(mine[c]), CONTACT_REALS * (int(mine[c]) + 1))
        if lively[int(mine[c])] > 0.0 and b[3 * c] < -own[SLOW]:
            speeds[c] = b[3 * c]
            b[3 * c] += own[RESTITUTION] * b[3 * c]
            fast = True
        else:
            speeds[c] = b[3 * c]
    before = kinetic_energy(ints, reals, qd)
    solve_impulses(Contacts(G, b, mu, soft, lam), count, CAP, ENOUGH, BUDGET, solver_scratch)
    for i in range(size):
        for j in range(n):
            qd[j] += lam[i] * ys[i * n + j]
    lost = before - kinetic_energy(ints, reals, qd)
    counts[C_LOST if fast else C_RESTED] += lost
    counts[C_DEEPEST] = min(counts[C_DEEPEST], deepest)

    if fast:
        counts[C_IMPACTS] += 1.0
        for c in range(count):
            if counts[C_LOGGED] * EVENT + EVENT > len(log):
                break
            e = int(mine[c])
            row = view(log, int(counts[C_LOGGED]) * EVENT, int(counts[C_LOGGED]) * EVENT + EVENT)
            after = 0.0
            for j in range(n):
                after += grads[3 * c * n + j] * qd[j]
            approach(forms, q, qd, contacts, figures, e, A, B, found, view(ys, 0, n))
            row[E_TIME], row[E_CONTACT], row[E_TOGETHER] = part(ints, state, P.TIME)[0], mine[c], count
            row[E_BEFORE], row[E_AFTER] = speeds[c], after
            row[E_NORMAL], row[E_ACROSS_1], row[E_ACROSS_2] = lam[3 * c], lam[3 * c + 1], lam[3 * c + 2]
            row[E_LOST], row[E_GAP], row[E_PHI] = lost if c == 0 else 0.0, found[0], largest(phi)
            row[E_X], row[E_Y], row[E_Z] = found[7], found[8], found[9]
            counts[C_LOGGED] += 1.0
    elif deepest < 0.0:
        # lies in the surface by what a free step sinks: out again, by normals alone
        for c in range(count):
            for i in range(size):
                G[3 * c * size + i] = 0.0 if i % 3 else G[3 * c * size + i]
                G[(3 * c + 1) * size + i] = G[(3 * c + 2) * size + i] = 0.0
            e = int(mine[c])
            which = view(contacts, CONTACT_INTS * e, CONTACT_INTS * (e + 1))
            own = view(figures, CONTACT_REALS * e, CONTACT_REALS * (e + 1))
            geometry(ptr, col, coef, const, q, which, own, A, B, found)
            b[3 * c], b[3 * c + 1], b[3 * c + 2] = found[0], 0.0, 0.0
            mu[c] = lam[3 * c] = lam[3 * c + 1] = lam[3 * c + 2] = 0.0
        solve_impulses(Contacts(G, b, mu, soft, lam), count, CAP, ENOUGH, BUDGET, solver_scratch)
        constant = part(ints, reals, P.CONSTANT_FORCE)
        for c in range(count):
            for j in range(n):
                q[j] += lam[3 * c] * ys[3 * c * n + j]
                counts[C_RESTED] += constant[j] * lam[3 * c] * ys[3 * c * n + j]  # what the way out gives back
    project(ints, reals, state, work)
    accelerate_at(ints, reals, state, work, hook, part(ints, state, P.TIME)[0], 0.0, 0.0)
    alpha, qdd = part(ints, state, P.ALPHA), part(ints, state, P.QDD)
    for i in range(len(alpha)):
        alpha[i] = qdd[i]
    part(ints, state, P.POWER)[0] = applied_power(ints, reals, state, work, qd)
    return fast


@inner
def dense(ints, reals, state, work, first, q1, qd1, h, share, t0):
    """The state at a share of a step: Hermite's cubic of its ends, brought onto the constraints of that time."""
    q, qd = part(ints, state, P.Q), part(ints, state, P.QD)
    q0, qd0 = part(ints, first, P.Q), part(ints, first, P.QD)
    s = share
    for i in range(len(q)):
        d = q1[i] - q0[i]
        q[i] = q0[i] + s * (
            h * qd0[i] + s * (3.0 * d - h * (2.0 * qd0[i] + qd1[i]) + s * (h * (qd0[i] + qd1[i]) - 2.0 * d))
        )
        qd[i] = qd0[i] + s * (6.0 * d / h - 4.0 * qd0[i] - 2.0 * qd1[i] + s * (3.0 * (qd0[i] + qd1[i]) - 6.0 * d / h))
    time = part(ints, state, P.TIME)
    time[0] = t0 + s * h
    set_inputs(ints, reals, state, time[0])
    project(ints, reals, state, work)


@inner
def least_of_cubic(g0, s0, g1, s1, h):
    """Where in 0 .. 1 the cubic of a gap with these ends and slopes is least, if it is so inside; else -1."""
    if s0 >= 0.0 or s1 <= 0.0:
        return -1.0
    d = g1 - g0
    a, b, c = 3.0 * (h * (s0 + s1) - 2.0 * d), 2.0 * (3.0 * d - h * (2.0 * s0 + s1)), h * s0
    root = sqrt(max(b * b - 4.0 * a * c, 0.0))
    return -2.0 * c / (b + root) if b + root > 0.0 else -1.0


# long: the search needs all that the step has
@inner
def impact_step(advance, ints, reals, state, work, hook, h, forms, contacts, figures, touch, log, counts, scratch):
    """A step of any scheme, with the impacts in it."""
    ptr, col, coef, const = forms
    total, n, size = len(contacts) // CONTACT_INTS, len(part(ints, state, P.Q)), len(state)
    first, at = view(scratch, 0, size), size
    q1, qd1 = view(scratch, at, at + n), view(scratch, at + n, at + 2 * n)
    at += 2 * n
    g0, g1 = view(scratch, at, at + total), view(scratch, at + total, at + 2 * total)
    lively = view(scratch, at + 2 * total, at + 3 * total)
    at += 3 * total
    speeds = view(scratch, at, at + MOST_TOGETHER)
    at += MOST_TOGETHER
    rest = view(scratch, at, len(scratch))
    A, B, found, form = view(rest, 0, 12), view(rest, 12, 24), view(rest, 24, 34), view(rest, 34, 34 + n)
    q, qd, time = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.TIME)
    left, impacts = h, 0
    while impacts < MOST_IN_A_STEP:
        gaps(forms, q, contacts, figures, A, B, found, g0)
        struck = False
        for c in range(total):
            lively[c] = 1.0
            if impacts == 0 and g0[c] <= touch:  # begins with a stroke
                speed = approach(forms, q, qd, contacts, figures, c, A, B, found, form)
                struck = struck or speed < -figures[CONTACT_REALS * c + SLOW]
        if struck:
            impulses(ints, reals, state, work, hook, forms, contacts, figures, touch, lively, log, counts, rest, speeds)
            gaps(forms, q, contacts, figures, A, B, found, g0)
        copy(first, state)
        t0 = time[0]
        advance(ints, reals, state, work, hook, left)
        gaps(forms, q, contacts, figures, A, B, found, g1)
        for i in range(n):
            q1[i], qd1[i] = q[i], qd[i]
        # the first impact of the step
        earliest, hit, searched = 2.0, -1, False
        for c in range(total):
            low, high = 0.0, 1.0
            begin = part(ints, first, P.Q)
            s0 = approach(forms, begin, part(ints, first, P.QD), contacts, figures, c, A, B, found, form)
            slow = figures[CONTACT_REALS * c + SLOW]
            if g0[c] <= touch and s0 <= slow:
                lively[c] = 0.0  # it rests there
            if g1[c] < -touch:
                if g0[c] <= touch:
                    if s0 <= slow:
                        continue
                    low = 0.5  # it leaves, and is back within the step
            else:
                s1 = approach(forms, q1, qd1, contacts, figures, c, A, B, found, form)
                high = least_of_cubic(g0[c], s0, g1[c], s1, left)
                if high < 0.0 or g0[c] <= touch:
                    continue
                near = g0[c] + high * (left * s0 + high * (
                    3.0 * (g1[c] - g0[c]) - left * (2.0 * s0 + s1)
                    + high * (left * (s0 + s1) - 2.0 * (g1[c] - g0[c]))))  # fmt: skip
                if near > 0.0:
                    continue
            searched = True
            # Illinois' rule between a place before and one after the impact
            f_low, f_high = g0[c], 0.0
            which = view(contacts, CONTACT_INTS * c, CONTACT_INTS * (c + 1))
            own = view(figures, CONTACT_REALS * c, CONTACT_REALS * (c + 1))
            if low > 0.0:
                for _ in range(12):
                    dense(ints, reals, state, work, first, q1, qd1, left, low, t0)
                    geometry(ptr, col, coef, const, q, which, own, A, B, found)
                    f_low = found[0]
                    if f_low > 0.0:
                        break
                    high = low
                    low *= 0.5
                if f_low <= 0.0:
                    continue  # so short a flight is none
            dense(ints, reals, state, work, first, q1, qd1, left, high, t0)
            geometry(ptr, col, coef, const, q, which, own, A, B, found)
            f_high = found[0]
            if f_high > 0.0:
                continue
            side, s = 0, high
            for _ in range(SEARCH_STEPS):
                s = (low * f_high - high * f_low) / (f_high - f_low) if f_high != f_low else 0.5 * (low + high)
                if low >= earliest:
                    break
                dense(ints, reals, state, work, first, q1, qd1, left, s, t0)
                geometry(ptr, col, coef, const, q, which, own, A, B, found)
                f = found[0]
                if abs(f) <= 0.01 * touch or high - low < 1e-14:
                    break
                if f > 0.0:
                    low, f_low = s, f
                    if side == 1:
                        f_high *= 0.5
                    side = 1
                else:
                    high, f_high = s, f
                    if side == -1:
                        f_low *= 0.5
                    side = -1
            if s < earliest:
                earliest, hit = s, c
        if hit < 0:
            if searched:  # the step as it was made
                copy(state, first)
                advance(ints, reals, state, work, hook, left)
            left = 0.0
            break
        # a step of that length from where it began, and its length corrected
        share = earliest * left
        which = view(contacts, CONTACT_INTS * hit, CONTACT_INTS * (hit + 1))
        for _ in range(NEWTONS):
            copy(state, first)
            advance(ints, reals, state, work, hook, share)
            speed = approach(forms, q, qd, contacts, figures, hit, A, B, found, form)
            if abs(found[0]) <= 0.01 * touch or speed >= 0.0:
                break
            share = min(max(share - found[0] / speed, 1e-12 * h), left)
        if abs(found[0]) > 10.0 * touch:
            counts[C_MISSED] += 1.0
        impulses(ints, reals, state, work, hook, forms, contacts, figures, touch, lively, log, counts, rest, speeds)
        impacts += 1
        left -= share
        if left <= 1e-9 * h:
            left = 0.0
            break
    if left > 0.0:  # so many impacts are a rest
        for c in range(total):
            lively[c] = 0.0
        advance(ints, reals, state, work, hook, left)
    gaps(forms, q, contacts, figures, A, B, found, g1)
    near = False
    for c in range(total):
        near = near or g1[c] <= touch
    if near:
        impulses(ints, reals, state, work, hook, forms, contacts, figures, touch, lively, log, counts, rest, speeds)


# long: a run's loop, as run_steps
@kernel(
    int64(
        types.FunctionType(STEP), INTS, CONSTANTS, REALS, REALS, HOOK, float64, int64, int64, float64[:, ::1],
        float64[:, ::1], REALS, INTS, INTS, REALS, REALS, INTS, REALS, float64, REALS, REALS, REALS,
    ), error_model="numpy",
)  # fmt: skip
def run_impacts(
    advance, ints, reals, state, work, hook, h, steps, every, states, diagnostics, totals, ptr, col, coef, const,
    contacts, figures, touch, log, counts, scratch,
):  # fmt: skip
    """As `run_steps`, with impacts."""
    out = part(ints, work, P.DIAGNOSTIC)
    forms = (ptr, col, coef, const)
    stored = 0
    for s in range(steps):
        impact_step(advance, ints, reals, state, work, hook, h, forms, contacts, figures, touch, log, counts, scratch)
        totals[0] += out[CAPPED]
        totals[1] += out[STEP_ERROR]
        totals[2] = max(totals[2], out[STEP_ERROR])
        if len(diagnostics) > 0:
            for i in range(len(out)):
                diagnostics[s, i] = out[i]
        if (s + 1) % every == 0 and stored < len(states):
            for i in range(len(state)):
                states[stored, i] = state[i]
            stored += 1
        if not isfinite(largest(part(ints, state, P.Q)) + largest(part(ints, state, P.QD))):
            return s + 1
    return steps
