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
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, types

from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS
from sync.compile.jit import inner, kernel, merged
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
from tandem.multibody.natural.views import part, row, take, view

SEARCH_STEPS = 60  # of the search along a step
NEWTONS = 4  # steps of corrected length
CAP, ENOUGH, BUDGET = 200, 1e-13, 20_000_000
GEOMETRY = 10  # of a contact: gap, normal from the second to the first, place on either surface


class Surfaces(NamedTuple):
    """Linear forms of all surfaces, and which of them may meet: tables of impact_tables.py."""

    ptr: np.ndarray
    col: np.ndarray
    coef: np.ndarray
    const: np.ndarray
    contacts: np.ndarray
    figures: np.ndarray
    touch: float  # what is nearer touches


class Pair(NamedTuple):
    """The two surfaces of a contact: their frames and GEOMETRY."""

    A: np.ndarray
    B: np.ndarray
    found: np.ndarray


class System(NamedTuple):
    """What the kernels of natural/ work on."""

    ints: np.ndarray
    reals: np.ndarray
    state: np.ndarray
    work: np.ndarray
    hook: Any


class Log(NamedTuple):
    """Rows of impacts, and the counts."""

    log: np.ndarray
    counts: np.ndarray


class Scratch(NamedTuple):
    """Of a step; what is of single contacts is only of those that touch at once."""

    first: np.ndarray  # the state as the step began
    q1: np.ndarray  # and as it ended without an impact
    qd1: np.ndarray
    g0: np.ndarray  # gaps there
    g1: np.ndarray
    lively: np.ndarray  # of every contact: 1 where it may bounce
    pair: Pair
    t: np.ndarray  # across the normal
    r: np.ndarray
    grads: np.ndarray  # rows of G
    ys: np.ndarray  # M^-1 G^T, constraints held
    contacts: Contacts
    which: np.ndarray
    speeds: np.ndarray  # v_n-
    of_solver: np.ndarray


@merged
def lay_out(scratch, size, n, m, total):
    """The parts of a scratch, of a system with states, coordinates, constraints and contacts that many."""
    k = 3 * MOST_TOGETHER
    first, at = take(scratch, 0, size)
    q1, at = take(scratch, at, n)
    qd1, at = take(scratch, at, n)
    g0, at = take(scratch, at, total)
    g1, at = take(scratch, at, total)
    lively, at = take(scratch, at, total)
    A, at = take(scratch, at, FORMS)
    B, at = take(scratch, at, FORMS)
    found, at = take(scratch, at, GEOMETRY)
    t, at = take(scratch, at, 6)
    r, at = take(scratch, at, m)
    grads, at = take(scratch, at, k * n)
    ys, at = take(scratch, at, k * n)
    G, at = take(scratch, at, k * k)
    b, at = take(scratch, at, k)
    lam, at = take(scratch, at, k)
    mu, at = take(scratch, at, MOST_TOGETHER)
    soft, at = take(scratch, at, MOST_TOGETHER)
    which, at = take(scratch, at, MOST_TOGETHER)
    speeds, at = take(scratch, at, MOST_TOGETHER)
    of_solver, at = take(scratch, at, k * (k + 2))
    return Scratch(
        first, q1, qd1, g0, g1, lively, Pair(A, B, found), t, r, grads, ys, Contacts(G, b, mu, soft, lam), which,
        speeds, of_solver,
    )  # fmt: skip


@inner
def place(surfaces, q, surface, out):
    """Origin and axes of a surface."""
    for c in range(FORMS):
        f = FORMS * surface + c
        total = surfaces.const[f]
        for e in range(surfaces.ptr[f], surfaces.ptr[f + 1]):
            total += surfaces.coef[e] * q[surfaces.col[e]]
        out[c] = total


@inner
def add_gradient(surfaces, surface, at, X, d, factor, out):
    """out += factor times the derivative of d . (material point of the surface that is at X now)."""
    ptr, col, coef = surfaces.ptr, surfaces.col, surfaces.coef
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
def geometry(surfaces, q, c, pair):
    """Gap, normal and places of one contact at coordinates q."""
    which, figures = row(surfaces.contacts, c, CONTACT_INTS), row(surfaces.figures, c, CONTACT_REALS)
    A, B, out = pair
    place(surfaces, q, which[1], A)
    place(surfaces, q, which[2], B)
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
        for k in range(3):
            out[1 + k] = B[3 + k]
        out[4], out[5], out[6] = ax - ra * B[3], ay - ra * B[4], az - ra * B[5]
        out[7], out[8], out[9] = ax - high * B[3], ay - high * B[4], az - high * B[5]
    elif kind == BALL_BALL:
        between(ax, ay, az, ra, B[0], B[1], B[2], rb, out)
    elif kind == BALL_HOLE:  # the farthest point of the ball from the middle of the hole
        between(ax, ay, az, 0.0, B[0], B[1], B[2], 0.0, out)
        out[0] = rb - ra - out[0]
        for k in range(3):
            out[1 + k] = -out[1 + k]
            out[4 + k] -= ra * out[1 + k]
            out[7 + k] -= rb * out[1 + k]
    elif kind == BALL_CAPSULE:
        t = (ax - B[0]) * B[3] + (ay - B[1]) * B[4] + (az - B[2]) * B[5]
        t = min(max(t, -figures[SIZE]), figures[SIZE])
        between(ax, ay, az, ra, B[0] + t * B[3], B[1] + t * B[4], B[2] + t * B[5], rb, out)
    else:
        ball_box(ax, ay, az, ra, view(figures, SIZE, SIZE + 3), B, out)


@inner
def add_speed_form(surfaces, c, pair, d, out):
    """out += the derivative of the first surface's material point along d, less the second's."""
    which, found = row(surfaces.contacts, c, CONTACT_INTS), pair.found
    add_gradient(surfaces, which[1], pair.A, view(found, 4, 7), d, 1.0, out)
    add_gradient(surfaces, which[2], pair.B, view(found, 7, 10), d, -1.0, out)


@inner
def gaps(surfaces, q, pair, out):
    """Of all contacts."""
    for c in range(len(out)):
        geometry(surfaces, q, c, pair)
        out[c] = pair.found[0]


@kernel(types.void(INTS, INTS, REALS, REALS, REALS, INTS, REALS, REALS, REALS), error_model="numpy")
def gaps_at(ptr, col, coef, const, q, contacts, figures, scratch, out):
    """For Python."""
    pair = Pair(view(scratch, 0, 12), view(scratch, 12, 24), view(scratch, 24, 34))
    gaps(Surfaces(ptr, col, coef, const, contacts, figures, 0.0), q, pair, out)


@inner
def approach(surfaces, q, qd, c, pair, g):
    """How fast the gap of a contact grows; g becomes its gradient."""
    geometry(surfaces, q, c, pair)
    for i in range(len(g)):
        g[i] = 0.0
    add_speed_form(surfaces, c, pair, view(pair.found, 1, 4), g)
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


@merged
def factor_mass(system):
    """The mass matrix with the constraints, at the state."""
    ints, reals, state, work, _ = system
    set_inputs(ints, reals, state, part(ints, state, P.TIME)[0])
    evaluate_kinematics(ints, reals, state, work, part(ints, state, P.Q), part(ints, state, P.QD))
    jacobian(ints, reals, work)
    assemble(ints, reals, work, 0.0, 0.0)
    factorise(ints, work)


@merged
def find_touching(system, surfaces, s):
    """Contacts within `touch` that do not part, with three gradients each: how many, and how deep the deepest is."""
    q, qd = part(system.ints, system.state, P.Q), part(system.ints, system.state, P.QD)
    n, count, deepest = len(q), 0, 0.0
    for c in range(len(s.g0)):
        if count == MOST_TOGETHER:
            break
        speed = approach(surfaces, q, qd, c, s.pair, row(s.grads, 3 * count, n))
        gap = s.pair.found[0]
        if gap > surfaces.touch or (speed >= 0.0 and gap >= 0.0):
            continue
        deepest = min(deepest, gap)
        across(view(s.pair.found, 1, 4), s.t)
        for d in range(2):
            g = row(s.grads, 3 * count + 1 + d, n)
            for i in range(n):
                g[i] = 0.0
            add_speed_form(surfaces, c, s.pair, row(s.t, d, 3), g)
        s.which[count] = c
        s.contacts.friction[count] = row(surfaces.figures, c, CONTACT_REALS)[FRICTION]
        s.contacts.compliance[count] = 0.0
        count += 1
    return count, deepest


@merged
def set_responses(system, s, count):
    """What impulses do, and speeds before them. The matrix is symmetric but for what the passes leave."""
    qd, G, b, n = part(system.ints, system.state, P.QD), s.contacts.G, s.contacts.b, len(s.q1)
    size = 3 * count
    for i in range(size):
        respond(system.ints, system.reals, system.work, row(s.grads, i, n), row(s.ys, i, n), s.r)
    for i in range(size):
        b[i] = 0.0
        s.contacts.lam[i] = 0.0
        for j in range(n):
            b[i] += s.grads[i * n + j] * qd[j]
        for j in range(size):
            total = 0.0
            for e in range(n):
                total += s.grads[i * n + e] * s.ys[j * n + e]
            G[i * size + j] = total


@merged
def add_restitution(surfaces, s, count):
    """e v_n- for what is lively and approaches fast; whether any does."""
    fast, b = False, s.contacts.b
    for c in range(count):
        own = row(surfaces.figures, int(s.which[c]), CONTACT_REALS)
        s.speeds[c] = b[3 * c]
        if s.lively[int(s.which[c])] > 0.0 and b[3 * c] < -own[SLOW]:
            b[3 * c] += own[RESTITUTION] * b[3 * c]
            fast = True
    return fast


@merged
def log_impacts(system, surfaces, s, count, lost, log, counts):
    """A row each, until the log is full; what was lost stands in the first of those at once."""
    ints, state, n, lam, found = system.ints, system.state, len(s.q1), s.contacts.lam, s.pair.found
    q, qd, phi = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, system.work, P.PHI)
    counts[C_IMPACTS] += 1.0
    for c in range(count):
        if counts[C_LOGGED] * EVENT + EVENT > len(log):
            break
        out = row(log, int(counts[C_LOGGED]), EVENT)
        after = 0.0
        for j in range(n):
            after += s.grads[3 * c * n + j] * qd[j]
        geometry(surfaces, q, int(s.which[c]), s.pair)
        out[E_TIME], out[E_CONTACT], out[E_TOGETHER] = part(ints, state, P.TIME)[0], s.which[c], count
        out[E_BEFORE], out[E_AFTER] = s.speeds[c], after
        out[E_NORMAL], out[E_ACROSS_1], out[E_ACROSS_2] = lam[3 * c], lam[3 * c + 1], lam[3 * c + 2]
        out[E_LOST], out[E_GAP], out[E_PHI] = lost if c == 0 else 0.0, found[0], largest(phi)
        out[E_X], out[E_Y], out[E_Z] = found[7], found[8], found[9]
        counts[C_LOGGED] += 1.0


@merged
def push_out(system, surfaces, s, count, counts):
    """What lies in a surface by what a free step sinks: out again, by normals alone and the least motion."""
    q, n, size = part(system.ints, system.state, P.Q), len(s.q1), 3 * count
    G, b, mu, _, lam = s.contacts
    for c in range(count):
        for i in range(size):
            G[3 * c * size + i] = 0.0 if i % 3 else G[3 * c * size + i]
            G[(3 * c + 1) * size + i] = G[(3 * c + 2) * size + i] = 0.0
        geometry(surfaces, q, int(s.which[c]), s.pair)
        b[3 * c], b[3 * c + 1], b[3 * c + 2] = s.pair.found[0], 0.0, 0.0
        mu[c] = lam[3 * c] = lam[3 * c + 1] = lam[3 * c + 2] = 0.0
    solve_impulses(s.contacts, count, CAP, ENOUGH, BUDGET, s.of_solver)
    constant = part(system.ints, system.reals, P.CONSTANT_FORCE)
    for c in range(count):
        for j in range(n):
            q[j] += lam[3 * c] * s.ys[3 * c * n + j]
            counts[C_RESTED] += constant[j] * lam[3 * c] * s.ys[3 * c * n + j]  # what the way out gives back


@merged
def begin_again(system):
    """Constraints, accelerations and multipliers at the new velocities."""
    ints, reals, state, work, hook = system
    project(ints, reals, state, work)
    accelerate_at(ints, reals, state, work, hook, part(ints, state, P.TIME)[0], 0.0, 0.0)
    alpha, qdd = part(ints, state, P.ALPHA), part(ints, state, P.QDD)
    for i in range(len(alpha)):
        alpha[i] = qdd[i]
    part(ints, state, P.POWER)[0] = applied_power(ints, reals, state, work, part(ints, state, P.QD))


@inner
def impulses(system, surfaces, books, s):
    """Velocities after the impact of all contacts within `touch` that do not part, with restitution where it is lively.

    Gaps that are negative are closed by the least motion, in the metric of the mass.
    """
    qd, counts, n = part(system.ints, system.state, P.QD), books.counts, len(s.q1)
    factor_mass(system)
    count, deepest = find_touching(system, surfaces, s)
    if count == 0:
        return
    set_responses(system, s, count)
    fast = add_restitution(surfaces, s, count)
    before = kinetic_energy(system.ints, system.reals, qd)
    solve_impulses(s.contacts, count, CAP, ENOUGH, BUDGET, s.of_solver)
    for i in range(3 * count):
        for j in range(n):
            qd[j] += s.contacts.lam[i] * s.ys[i * n + j]
    lost = before - kinetic_energy(system.ints, system.reals, qd)
    counts[C_LOST if fast else C_RESTED] += lost
    counts[C_DEEPEST] = min(counts[C_DEEPEST], deepest)
    if fast:
        log_impacts(system, surfaces, s, count, lost, books.log, counts)
    elif deepest < 0.0:
        push_out(system, surfaces, s, count, counts)
    begin_again(system)


@inner
def gap_at(system, surfaces, s, c, share, h, t0):
    """The gap of a contact at a share of a step: Hermite's cubic of its ends, brought onto the constraints of then."""
    ints, reals, state, work, _ = system
    q, qd = part(ints, state, P.Q), part(ints, state, P.QD)
    q0, qd0, q1, qd1 = part(ints, s.first, P.Q), part(ints, s.first, P.QD), s.q1, s.qd1
    x = share
    for i in range(len(q)):
        d = q1[i] - q0[i]
        q[i] = q0[i] + x * (
            h * qd0[i] + x * (3.0 * d - h * (2.0 * qd0[i] + qd1[i]) + x * (h * (qd0[i] + qd1[i]) - 2.0 * d))
        )
        qd[i] = qd0[i] + x * (6.0 * d / h - 4.0 * qd0[i] - 2.0 * qd1[i] + x * (3.0 * (qd0[i] + qd1[i]) - 6.0 * d / h))
    time = part(ints, state, P.TIME)
    time[0] = t0 + x * h
    set_inputs(ints, reals, state, time[0])
    project(ints, reals, state, work)
    geometry(surfaces, q, c, s.pair)
    return s.pair.found[0]


@inner
def least_of_cubic(g0, s0, g1, s1, h):
    """Where in 0 .. 1 the cubic of a gap with these ends and slopes is least, if it is so inside; else -1."""
    if s0 >= 0.0 or s1 <= 0.0:
        return -1.0
    d = g1 - g0
    a, b, c = 3.0 * (h * (s0 + s1) - 2.0 * d), 2.0 * (3.0 * d - h * (2.0 * s0 + s1)), h * s0
    root = sqrt(max(b * b - 4.0 * a * c, 0.0))
    return -2.0 * c / (b + root) if b + root > 0.0 else -1.0


@merged
def begins_with_stroke(system, surfaces, s):
    """Whether something that touches approaches fast."""
    q, qd = part(system.ints, system.state, P.Q), part(system.ints, system.state, P.QD)
    for c in range(len(s.g0)):
        if s.g0[c] <= surfaces.touch:
            speed = approach(surfaces, q, qd, c, s.pair, view(s.grads, 0, len(q)))
            if speed < -surfaces.figures[CONTACT_REALS * c + SLOW]:
                return True
    return False


@merged
def bracket(system, surfaces, s, c, h):
    """Shares of the step between which a contact may meet: before, and after; below 0 if it does not meet.

    What rests there from the beginning is no longer lively.
    """
    begin, speeds = part(system.ints, s.first, P.Q), part(system.ints, s.first, P.QD)
    g0, g1, form, touch = s.g0[c], s.g1[c], view(s.grads, 0, len(begin)), surfaces.touch
    s0 = approach(surfaces, begin, speeds, c, s.pair, form)
    slow = surfaces.figures[CONTACT_REALS * c + SLOW]
    if g0 <= touch and s0 <= slow:
        s.lively[c] = 0.0
    if g1 < -touch:
        if g0 > touch:
            return 0.0, 1.0
        return 0.5, (-1.0 if s0 <= slow else 1.0)  # it leaves, and is back within the step
    s1 = approach(surfaces, s.q1, s.qd1, c, s.pair, form)
    x = least_of_cubic(g0, s0, g1, s1, h)
    if x < 0.0 or g0 <= touch:
        return 0.0, -1.0
    near = g0 + x * (h * s0 + x * (
        3.0 * (g1 - g0) - h * (2.0 * s0 + s1) + x * (h * (s0 + s1) - 2.0 * (g1 - g0))))  # fmt: skip
    return 0.0, (-1.0 if near > 0.0 else x)


@merged
def locate(system, surfaces, s, c, low, high, earliest, h, t0):
    """The share of the step at which a contact meets, by Illinois' rule between `low` and `high`; 2 if it does not.

    Those later than `earliest` are not looked for.
    """
    f_low = s.g0[c]
    if low > 0.0:
        for _ in range(12):
            f_low = gap_at(system, surfaces, s, c, low, h, t0)
            if f_low > 0.0:
                break
            high = low
            low *= 0.5
        if f_low <= 0.0:
            return 2.0  # so short a flight is none
    f_high = gap_at(system, surfaces, s, c, high, h, t0)
    if f_high > 0.0:
        return 2.0
    side, x = 0, high
    for _ in range(SEARCH_STEPS):
        x = (low * f_high - high * f_low) / (f_high - f_low) if f_high != f_low else 0.5 * (low + high)
        if low >= earliest:
            break
        f = gap_at(system, surfaces, s, c, x, h, t0)
        if abs(f) <= 0.01 * surfaces.touch or high - low < 1e-14:
            break
        if f > 0.0:
            low, f_low = x, f
            if side == 1:
                f_high *= 0.5
            side = 1
        else:
            high, f_high = x, f
            if side == -1:
                f_low *= 0.5
            side = -1
    return x


@merged
def find_first(system, surfaces, s, h, t0):
    """The first impact of a step: its contact, or -1, its share of the step, and whether the state was searched for."""
    earliest, hit, searched = 2.0, -1, False
    for c in range(len(s.g0)):
        low, high = bracket(system, surfaces, s, c, h)
        if high >= 0.0:
            searched = True
            x = locate(system, surfaces, s, c, low, high, earliest, h, t0)
            if x < earliest:
                earliest, hit = x, c
    return hit, earliest, searched


@merged
def step_to_impact(advance, system, surfaces, s, hit, share, left, h, counts):
    """A step of that length from where it began, and its length corrected; how long it is."""
    ints, reals, state, work, hook = system
    q, qd, found = part(ints, state, P.Q), part(ints, state, P.QD), s.pair.found
    for _ in range(NEWTONS):
        copy(state, s.first)
        advance(ints, reals, state, work, hook, share)
        speed = approach(surfaces, q, qd, hit, s.pair, view(s.grads, 0, len(q)))
        if abs(found[0]) <= 0.01 * surfaces.touch or speed >= 0.0:
            break
        share = min(max(share - found[0] / speed, 1e-12 * h), left)
    if abs(found[0]) > 10.0 * surfaces.touch:
        counts[C_MISSED] += 1.0
    return share


@inner
def impact_step(advance, system, surfaces, h, books, scratch):
    """A step of any scheme, with the impacts in it."""
    ints, reals, state, work, hook = system
    q, qd, time = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.TIME)
    total = len(surfaces.contacts) // CONTACT_INTS
    s = lay_out(scratch, len(state), len(q), len(part(ints, work, P.PHI)), total)
    left, impacts = h, 0
    while impacts < MOST_IN_A_STEP:
        gaps(surfaces, q, s.pair, s.g0)
        for c in range(total):
            s.lively[c] = 1.0
        if impacts == 0 and begins_with_stroke(system, surfaces, s):
            impulses(system, surfaces, books, s)
            gaps(surfaces, q, s.pair, s.g0)
        copy(s.first, state)
        t0 = time[0]
        advance(ints, reals, state, work, hook, left)
        gaps(surfaces, q, s.pair, s.g1)
        copy(s.q1, q)
        copy(s.qd1, qd)
        hit, share, searched = find_first(system, surfaces, s, left, t0)
        if hit < 0:
            if searched:  # the step as it was made
                copy(state, s.first)
                advance(ints, reals, state, work, hook, left)
            left = 0.0
            break
        length = step_to_impact(advance, system, surfaces, s, hit, share * left, left, h, books.counts)
        impulses(system, surfaces, books, s)
        impacts += 1
        left -= length
        if left <= 1e-9 * h:
            left = 0.0
            break
    if left > 0.0:  # so many impacts are a rest
        for c in range(total):
            s.lively[c] = 0.0
        advance(ints, reals, state, work, hook, left)
    gaps(surfaces, q, s.pair, s.g1)
    near = False
    for c in range(total):
        near = near or s.g1[c] <= surfaces.touch
    if near:
        impulses(system, surfaces, books, s)


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
    system, books = System(ints, reals, state, work, hook), Log(log, counts)
    surfaces = Surfaces(ptr, col, coef, const, contacts, figures, touch)
    stored = 0
    for s in range(steps):
        impact_step(advance, system, surfaces, h, books, scratch)
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
