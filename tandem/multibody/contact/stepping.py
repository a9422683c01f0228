"""One step of a tree with unilateral contacts on the ground: Moreau's midpoint rule with impulses.

The ground is the floor z = 0, or a road (tandem/multibody/ground). There the point of a surface is sought whose normal
is that of the ground below it: the support function at the normal of the ground, which is that below the last point,
until it no longer turns. One point for each surface: a valley that is narrower than the surface is round touches it
twice, and that is not found.

    q_m = q + h/2 v          M, contact points and their Jacobian J here
    M (v' - v) = h (forces - bias(q_m, (v + v')/2) - D v') + J^T lam,      0 <= lam_n _|_ v_n' + g_m / h + c lam_n >= 0
    q' = q_m + h/2 v'

The scheme is symmetric in time but for impacts, friction and damping, so smooth motion keeps its energy without drift;
the velocity terms are corrected `corrections` times. Speeds of contacts are those at the end of the step: an
approaching surface arrives, one that has sunk in comes back to zero in two steps without swinging. With restitution,
one that approaches faster than `SLOW` leaves with its share of that speed. Of a surface with an edge the edge takes
part only where it has sunk in: before that, the smooth surface next to it is nearer at the end of the step.

With a `SPIN_REACH` a contact also resists spinning about the normal, by a torque of at most friction times reach times
load (spinning.py): of a round patch of radius a the reach is 2 a / 3 under even pressure, 3 pi a / 16 under that of
Hertz.

Energy is booked: the mean of the speeds before and after, times the impulse, is the exact work of it.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR, group
from sync.compile.jit import inner, kernel, merged
from tandem.multibody.contact.complementarity import Contacts, solve_impulses
from tandem.multibody.contact.joint_tree import bias, energy, factor, lock, mass_matrix, place_links, solve
from tandem.multibody.contact.kinds import (
    CARRIER,
    CONTACT_INTS,
    CONTACT_REALS,
    DAMPING,
    FLAGS,
    K1,
    KIND,
    LINK,
    LINK_INTS,
    LINK_REALS,
    LINK_WORK,
    LOCKED,
    MIDDLE,
    OWN_AXIS,
    PARENT,
    RHO,
    SURFACE,
    P,
    S,
)
from tandem.multibody.contact.spinning import Spins, lay_out_spins, solve_with_spins, spinning_size
from tandem.multibody.contact.surfaces import nearest_along, nearest_to_floor
from tandem.multibody.ground.surface import surface
from tandem.multibody.natural.views import row, take, view

SLOW = 0.01  # m/s: what approaches more slowly does not bounce
OF_SWEEP = 50_000  # multiplications for each sweep that is allowed: ten Newton steps of eight contacts
NEAR = 1e-3  # m: what is farther away and will not be there after two steps is left out

# settings of a step, in this order
GRAVITY, FRICTION, RESTITUTION, COMPLIANCE, TOLERANCE, SPIN_REACH, SETTINGS = 0, 3, 4, 5, 6, 7, 8
# what a step reports, before a row of each contact
(TOUCHING, SWEEPS, CHANGE, KINETIC, POTENTIAL, WORK, FRICTION_LOSS, IMPACT_LOSS, DAMPING_LOSS, GAP, REPORT) = range(11)
TURNS = 40  # of a normal, at most, until it is that of the ground below its point
STILL = 1e-13  # a normal that turns by less
# a row of a contact: gap, place of its point, force along x, y, z, velocity of the point at the end: two across the
# normal (on the floor along x, y), one along it
(C_GAP, C_POINT, C_FORCE, C_SPEED, CONTACT_ROW) = (0, 1, 4, 7, 10)
FRAME = 10  # of the ground at a contact: its normal, two directions across it, its factor of friction


def work_size(links: int, contacts: int) -> int:
    """Length of the work of `advance_tree`."""
    rows = 3 * contacts
    of_joints = (LINK_WORK + 12 + 2 * links) * links + 39
    of_contacts = rows * (2 * links + rows) + rows * (rows + 2) + 4 * rows + 18 * contacts
    return of_joints + of_contacts + spinning_size(links, contacts)


@inner
def turn_into(Rm, x, y, z, out):
    for k in range(3):
        out[k] = Rm[3 * k] * x + Rm[3 * k + 1] * y + Rm[3 * k + 2] * z


@inner
def onto_road(kind, data, axis, cx, cy, cz, road, origin, arm, frame):
    """The point nearest to a road, of a surface about (cx, cy, cz); see `track_contact`."""
    nx, ny, nz, part, last = 0.0, 0.0, 1.0, 1.0, 1e9
    smooth, height = 1, 0.0
    for _ in range(TURNS):
        smooth = nearest_along(kind, data, axis, nx, ny, nz, arm)
        arm[0] += cx
        arm[1] += cy
        arm[2] += cz
        z, slope_x, slope_y, friction = surface(road, arm[0] + origin[0], arm[1] + origin[1])
        height = arm[2] + origin[2] - z
        frame[9] = friction
        size = sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
        dx, dy, dz = -slope_x / size - nx, -slope_y / size - ny, 1.0 / size - nz
        change = max(abs(dx), abs(dy), abs(dz))
        if change < STILL:
            break
        if change > 0.7 * last:  # on ground more bent than the surface it would swing
            part *= 0.5
        last = change
        nx, ny, nz = nx + part * dx, ny + part * dy, nz + part * dz
        size = sqrt(nx * nx + ny * ny + nz * nz)
        nx, ny, nz = nx / size, ny / size, nz / size
    across = sqrt(nx * nx + nz * nz)
    frame[0], frame[1], frame[2] = nx, ny, nz
    frame[3], frame[4], frame[5] = nz / across, 0.0, -nx / across
    frame[6], frame[7], frame[8] = -nx * ny / across, across, -ny * nz / across
    return height * nz, smooth


@inner
def track_contact(links, contacts, surfaces, which, origin, road, scratch, arm, frame):
    """Point of a contact's surface that is nearest to the ground, about the reference, into `arm`; how far it is, and
    if it is smooth there.

    `frame`: the ground's normal, two directions across it, and its factor of friction.
    """
    surface_row = row(surfaces, which, CONTACT_REALS)
    link, carrier = contacts[CONTACT_INTS * which + LINK], contacts[CONTACT_INTS * which + CARRIER]
    kind = contacts[CONTACT_INTS * which + KIND]
    own = view(links, LINK_WORK * link, LINK_WORK * (link + 1))
    held = view(links, LINK_WORK * carrier, LINK_WORK * (carrier + 1))
    axis, rho, k1 = view(scratch, 0, 3), view(scratch, 3, 6), view(scratch, 6, 9)
    turn_into(own, surface_row[OWN_AXIS], surface_row[OWN_AXIS + 1], surface_row[OWN_AXIS + 2], axis)
    if kind > 3:
        turn_into(held, surface_row[RHO], surface_row[RHO + 1], surface_row[RHO + 2], rho)
        turn_into(held, surface_row[K1], surface_row[K1 + 1], surface_row[K1 + 2], k1)
    middle = view(scratch, 6, 9)
    if len(road) > 0:
        turn_into(own, surface_row[MIDDLE], surface_row[MIDDLE + 1], surface_row[MIDDLE + 2], middle)
        return onto_road(
            kind, view(surface_row, SURFACE, CONTACT_REALS), axis, own[P] + middle[0], own[P + 1] + middle[1],
            own[P + 2] + middle[2], road, origin, arm, frame,
        )  # fmt: skip
    frame[0] = frame[1] = frame[4] = frame[5] = frame[6] = frame[8] = 0.0
    frame[2] = frame[3] = frame[7] = frame[9] = 1.0
    smooth = nearest_to_floor(kind, view(surface_row, SURFACE, CONTACT_REALS), axis, rho, k1, arm)
    turn_into(own, surface_row[MIDDLE], surface_row[MIDDLE + 1], surface_row[MIDDLE + 2], middle)
    for k in range(3):
        arm[k] += own[P + k] + middle[k]
    return arm[2] + origin[2], smooth


@inner
def set_jacobian(ints, links, link, at, J, n):
    """Three rows: velocity of the point at `at` of a link along z, x, y, for every joint."""
    for j in range(3 * n):
        J[j] = 0.0
    x, y, z = at[0], at[1], at[2]
    j = link
    while j >= 0:
        s = view(links, LINK_WORK * j + S, LINK_WORK * j + S + 6)
        if ints[LINK_INTS * j + FLAGS] & LOCKED == 0:
            J[j] = s[5] + s[0] * y - s[1] * x
            J[n + j] = s[3] + s[1] * z - s[2] * y
            J[2 * n + j] = s[4] + s[2] * x - s[0] * z
        j = ints[LINK_INTS * j + PARENT]


@inner
def to_world(frame, along, one, two):
    """Along the normal and across it, along x, y and z."""
    return (
        frame[0] * along + frame[3] * one + frame[6] * two,
        frame[1] * along + frame[4] * one + frame[7] * two,
        frame[2] * along + frame[5] * one + frame[8] * two,
    )


@inner
def turn_rows(J, n, frame):
    """Those three rows into the normal and what is across it."""
    for j in range(n):
        z, x, y = J[j], J[n + j], J[2 * n + j]
        for k in range(3):
            J[k * n + j] = frame[3 * k] * x + frame[3 * k + 1] * y + frame[3 * k + 2] * z


@inner
def set_spin(ints, links, link, frame, J, n):
    """A row: how fast a link spins about the normal, for every joint."""
    for j in range(n):
        J[j] = 0.0
    j = link
    while j >= 0:
        s = view(links, LINK_WORK * j + S, LINK_WORK * j + S + 6)
        if ints[LINK_INTS * j + FLAGS] & LOCKED == 0:
            J[j] = s[0] * frame[0] + s[1] * frame[1] + s[2] * frame[2]
        j = ints[LINK_INTS * j + PARENT]


class Tree(NamedTuple):
    """What does not change while a tree moves: its tables (kinds.py), the ground, and how much work a step may be."""

    ints: np.ndarray
    reals: np.ndarray
    contacts: np.ndarray
    surfaces: np.ndarray
    road: np.ndarray  # nothing: the floor
    corrections: int  # of the velocities
    cap: int  # sweeps over the contacts in each of them, at most


class Joints(NamedTuple):
    """Of every joint: where it is, how fast, and what acts on it."""

    q: np.ndarray
    v: np.ndarray
    forces: np.ndarray
    stiffening: np.ndarray  # -stiffening (v' - targets) acts at the end of the step
    targets: np.ndarray
    multipliers: np.ndarray  # what it takes to hold the locked ones


class Scratch(NamedTuple):
    """Of a step, by the symbols of its equations; contacts are only those that may close."""

    links: np.ndarray
    of_bias: np.ndarray
    origin: np.ndarray
    small: np.ndarray
    velocity: np.ndarray  # v'
    right: np.ndarray  # the right side, with the rows of locked joints
    free: np.ndarray  # what v changes by without impulses
    middle: np.ndarray
    inertial: np.ndarray
    M: np.ndarray  # factored
    whole: np.ndarray  # M with locked joints
    J: np.ndarray
    X: np.ndarray  # M^-1 J^T, by columns
    before: np.ndarray  # J v
    bound: np.ndarray  # g_m / h, or of a rebound its share of the speed
    which: np.ndarray  # number of each contact
    points: np.ndarray
    frames: np.ndarray
    contacts: Contacts
    spin: Spins
    of_solver: np.ndarray


@merged
def lay_out(work, n, m):
    """The parts of a step's scratch."""
    rows = 3 * m
    links, at = take(work, 0, LINK_WORK * n)
    of_bias, at = take(work, at, 12 + 6 * n)
    origin, at = take(work, at, 3)
    small, at = take(work, at, 24)
    velocity, at = take(work, at, n)
    right, at = take(work, at, n)
    free, at = take(work, at, n)
    middle, at = take(work, at, n)
    inertial, at = take(work, at, n)
    M, at = take(work, at, n * n)
    whole, at = take(work, at, n * n)
    J, at = take(work, at, rows * n)
    X, at = take(work, at, rows * n)
    G, at = take(work, at, rows * rows)
    b, at = take(work, at, rows)
    lam, at = take(work, at, rows)
    before, at = take(work, at, rows)
    bound, at = take(work, at, m)
    grip, at = take(work, at, m)
    soft, at = take(work, at, m)
    which, at = take(work, at, m)
    points, at = take(work, at, rows)
    frames, at = take(work, at, FRAME * m)
    spin, at = lay_out_spins(work, at, n, m)
    of_solver, at = take(work, at, rows * (rows + 2))
    return Scratch(
        links, of_bias, origin, small, velocity, right, free, middle, inertial, M, whole, J, X, before, bound, which,
        points, frames, Contacts(G, b, grip, soft, lam), spin, of_solver,
    )  # fmt: skip


@inner
def add_dot(total, a, b):
    """total + a . b, summed in this order."""
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@inner
def link_of(tree, s, c):
    """The link that a contact of the scratch is of."""
    return tree.contacts[CONTACT_INTS * int64(s.which[c]) + LINK]


@merged
def go_to_middle(tree, joints, s, h):
    """Half a step, and there the inertia with what resists speed, without locked joints."""
    ints, q, v, M = tree.ints, joints.q, joints.v, s.M
    n = len(v)
    for i in range(n):
        q[i] += 0.5 * h * v[i]
    place_links(ints, tree.reals, q, s.links, s.origin)
    mass_matrix(ints, s.links, M)
    for i in range(n * n):
        s.whole[i] = M[i]
    for i in range(n):
        M[n * i + i] += h * (tree.reals[LINK_REALS * i + DAMPING] + joints.stiffening[i])
    lock(ints, M)
    factor(ints, M)


@merged
def find_contacts(tree, settings, v, s, report, h):
    """Contacts that may close within the step, with their rows of J: how many, and the lowest gap of all."""
    n, count, lowest = len(v), 0, 1e9
    arm = view(s.small, 9, 12)
    for c in range(len(tree.contacts) // CONTACT_INTS):
        out, frame = row(view(report, REPORT, len(report)), c, CONTACT_ROW), row(s.frames, count, FRAME)
        gap, smooth = track_contact(s.links, tree.contacts, tree.surfaces, c, s.origin, tree.road, s.small, arm, frame)
        lowest = min(lowest, gap)
        for k in range(CONTACT_ROW):
            out[k] = 0.0
        out[C_GAP] = gap
        for k in range(3):
            out[C_POINT + k] = arm[k] + s.origin[k]
        if gap > 0.0 and smooth == 0:
            continue
        J = row(s.J, count, 3 * n)
        set_jacobian(tree.ints, s.links, tree.contacts[CONTACT_INTS * c + LINK], arm, J, n)
        if len(tree.road) > 0:
            turn_rows(J, n, frame)
        speed = add_dot(0.0, row(J, 0, n), v)
        if gap > NEAR + 2.0 * h * abs(speed):
            continue
        s.which[count] = c
        for k in range(3):
            s.points[3 * count + k] = arm[k]
        s.bound[count] = gap / h
        if settings[RESTITUTION] > 0.0 and speed < -SLOW and speed + gap / h < 0.0:
            s.bound[count] = settings[RESTITUTION] * speed
        s.contacts.friction[count] = settings[FRICTION] * frame[9]
        s.contacts.compliance[count] = settings[COMPLIANCE] / (h * h)
        count += 1
    return count, lowest


@merged
def set_responses(tree, v, s, count):
    """What impulses do: X and G = J X. Speeds before them; no impulse yet."""
    n, size, G = len(v), 3 * count, s.contacts.G
    for r in range(size):
        J, x = row(s.J, r, n), row(s.X, r, n)
        for i in range(n):
            x[i] = J[i]
        s.before[r] = add_dot(0.0, J, v)
        s.contacts.lam[r] = 0.0
        solve(tree.ints, s.M, x)
    for r in range(size):
        for k in range(r + 1):
            G[size * r + k] = G[size * k + r] = add_dot(0.0, row(s.J, r, n), row(s.X, k, n))


@merged
def set_spin_responses(tree, v, s, count):
    """What spin impulses do: their X, to the rows of contacts C, to each other GS."""
    spin, n = s.spin, len(v)
    for c in range(count):
        J, x = row(spin.J, c, n), row(spin.X, c, n)
        set_spin(tree.ints, s.links, link_of(tree, s, c), row(s.frames, c, FRAME), J, n)
        for i in range(n):
            x[i] = J[i]
        spin.before[c] = add_dot(0.0, J, v)
        spin.s[c] = spin.slips[c] = 0.0
        solve(tree.ints, s.M, x)
    for c in range(count):
        x = row(spin.X, c, n)
        for r in range(3 * count):
            spin.C[r * count + c] = add_dot(0.0, row(s.J, r, n), x)
        for d in range(count):
            spin.GS[c * count + d] = add_dot(0.0, row(spin.J, d, n), x)


@merged
def move_freely(tree, settings, joints, s, count, h):
    """What speeds become without impulses, with the velocity terms of the mean: of joints, and of contacts in b."""
    ints, v, n = tree.ints, joints.v, len(joints.v)
    for i in range(n):
        s.middle[i] = 0.5 * (v[i] + s.velocity[i])
    bias(ints, s.middle, view(settings, GRAVITY, GRAVITY + 3), s.links, s.of_bias, s.inertial)
    for i in range(n):
        d, k = tree.reals[LINK_REALS * i + DAMPING], joints.stiffening[i]
        s.right[i] = h * (joints.forces[i] - s.inertial[i] - d * v[i] - k * (v[i] - joints.targets[i]))
        s.free[i] = 0.0 if ints[LINK_INTS * i + FLAGS] & LOCKED else s.right[i]
    solve(ints, s.M, s.free)
    for r in range(3 * count):
        s.contacts.b[r] = add_dot(s.before[r], row(s.J, r, n), s.free) + (s.bound[r // 3] if r % 3 == 0 else 0.0)


@merged
def solve_contacts(settings, s, count, cap, budget):
    """Impulses, of spins too: how many sweeps that took, the last change, what is left of the budget."""
    contacts, spin, tolerance, reach = s.contacts, s.spin, settings[TOLERANCE], settings[SPIN_REACH]
    if reach == 0.0:
        return solve_impulses(contacts, count, cap, tolerance, budget, s.of_solver)
    for c in range(count):
        spin.b_s[c] = add_dot(spin.before[c], row(spin.J, c, len(s.free)), s.free)
    if contacts.lam[0] == 0.0:
        _, _, budget = solve_impulses(contacts, count, cap, tolerance, budget, s.of_solver)
    return solve_with_spins(contacts, spin, reach, count, cap, tolerance, budget, s.of_solver)


@merged
def end_speeds(v, s, count, spins):
    """v' = v + free + X lam; `spins`: with those of spins."""
    n, lam = len(v), s.contacts.lam
    for i in range(n):
        total = v[i] + s.free[i]
        for r in range(3 * count):
            total += s.X[r * n + i] * lam[r]
        if spins:
            for c in range(count):
                total += s.spin.X[c * n + i] * s.spin.s[c]
        s.velocity[i] = total


@inner
def force_of(lam, frame, on_road):
    """An impulse along x, y and z."""
    if on_road:
        return to_world(frame, lam[0], lam[1], lam[2])
    return lam[1], lam[2], lam[0]


@merged
def hold_locked(tree, joints, s, count, spins, h):
    """What it took to hold the locked joints: the whole row of the equations, with contacts."""
    ints, v, n = tree.ints, joints.v, len(joints.v)
    for i in range(n):
        joints.multipliers[i] = 0.0
        if ints[LINK_INTS * i + FLAGS] & LOCKED == 0:
            continue
        total = -s.right[i]
        for j in range(n):
            total += (s.whole[n * i + j] if j <= i else s.whole[n * j + i]) * (s.velocity[j] - v[j])
        S_i = view(s.links, LINK_WORK * i + S, LINK_WORK * i + S + 6)
        for c in range(count):
            j = link_of(tree, s, c)
            while j > i:
                j = ints[LINK_INTS * j + PARENT]
            if j == i:  # the joint carries this contact
                x, y, z = s.points[3 * c], s.points[3 * c + 1], s.points[3 * c + 2]
                frame = row(s.frames, c, FRAME)
                fx, fy, fz = force_of(row(s.contacts.lam, c, 3), frame, len(tree.road) > 0)
                total -= fz * (S_i[5] + S_i[0] * y - S_i[1] * x)
                total -= fx * (S_i[3] + S_i[1] * z - S_i[2] * y)
                total -= fy * (S_i[4] + S_i[2] * x - S_i[0] * z)
                if spins:
                    total -= s.spin.s[c] * (S_i[0] * frame[0] + S_i[1] * frame[1] + S_i[2] * frame[2])
        joints.multipliers[i] = total / h


@merged
def book_contacts(tree, s, count, spins, report, h):
    """Forces and speeds of contacts at the end of the step, how many touch, and what friction and impacts took."""
    n, touching, rubbed, struck = len(s.velocity), 0, 0.0, 0.0
    for c in range(count):
        out = row(view(report, REPORT, len(report)), int64(s.which[c]), CONTACT_ROW)
        lam = row(s.contacts.lam, c, 3)
        for k in range(3):
            speed = add_dot(0.0, row(s.J, 3 * c + k, n), s.velocity)
            lost = -0.5 * (s.before[3 * c + k] + speed) * lam[k]
            out[C_SPEED + (2 if k == 0 else k - 1)] = speed
            if k == 0:
                struck += lost
            else:
                rubbed += lost
        fx, fy, fz = force_of(lam, row(s.frames, c, FRAME), len(tree.road) > 0)
        out[C_FORCE], out[C_FORCE + 1], out[C_FORCE + 2] = fx / h, fy / h, fz / h
        if spins:
            speed = add_dot(0.0, row(s.spin.J, c, n), s.velocity)
            rubbed -= 0.5 * (s.spin.before[c] + speed) * s.spin.s[c]
        if lam[0] > 0.0:
            touching += 1
    report[TOUCHING], report[FRICTION_LOSS], report[IMPACT_LOSS] = touching, rubbed, struck


@merged
def book_joints(tree, joints, s, report, h):
    """The work of forces, and what damping took."""
    done = damped = 0.0
    for i in range(len(joints.v)):
        mean = 0.5 * (joints.v[i] + s.velocity[i])
        done += h * mean * (joints.forces[i] - joints.stiffening[i] * (s.velocity[i] - joints.targets[i]))
        damped += h * mean * tree.reals[LINK_REALS * i + DAMPING] * s.velocity[i]
    report[WORK], report[DAMPING_LOSS] = done, damped


@kernel(
    types.void(
        group(Tree, INDICES, CONSTANTS, INDICES, CONSTANTS, CONSTANTS, int64, int64), CONSTANTS,
        group(Joints, *6 * [VECTOR]), VECTOR, VECTOR, float64,
    ),
    error_model="numpy",
)  # fmt: skip
def advance_tree(tree, settings, joints, work, report, h):
    """Advance a tree by h, from Python or in a machine's step; what happened into `report`."""
    q, v = joints.q, joints.v
    s = lay_out(work, len(v), len(tree.contacts) // CONTACT_INTS)
    go_to_middle(tree, joints, s, h)
    count, lowest = find_contacts(tree, settings, v, s, report, h)
    set_responses(tree, v, s, count)
    spins = settings[SPIN_REACH] > 0.0
    if spins:
        set_spin_responses(tree, v, s, count)
    for i in range(len(v)):
        s.velocity[i] = v[i]
    sweeps, change = 0, 0.0
    budget = OF_SWEEP * tree.cap  # of all corrections together
    for _ in range(tree.corrections + 1):
        move_freely(tree, settings, joints, s, count, h)
        if count > 0:
            used, change, budget = solve_contacts(settings, s, count, tree.cap, budget)
            sweeps += used
        end_speeds(v, s, count, spins)
    hold_locked(tree, joints, s, count, spins, h)
    book_joints(tree, joints, s, report, h)
    book_contacts(tree, s, count, spins, report, h)
    for i in range(len(v)):
        v[i] = s.velocity[i]
        q[i] += 0.5 * h * v[i]
    place_links(tree.ints, tree.reals, q, s.links, s.origin)
    energy(tree.ints, v, view(settings, GRAVITY, GRAVITY + 3), s.links, s.origin, s.small)
    report[SWEEPS], report[CHANGE], report[GAP] = sweeps, change, lowest
    report[KINETIC], report[POTENTIAL] = s.small[0], s.small[1]


@kernel(types.void(INDICES, CONSTANTS, INDICES, CONSTANTS, CONSTANTS, VECTOR, VECTOR, VECTOR), error_model="numpy")
def find_gaps(ints, reals, contacts, surfaces, road, q, work, out):
    """Gap of every contact to the ground at q, and its point: four numbers each. `work`: LINK_WORK a link, and 37."""
    n = len(ints) // LINK_INTS
    at = LINK_WORK * n
    links, origin, scratch = view(work, 0, at), view(work, at, at + 3), view(work, at + 3, at + 27)
    frame, arm = view(work, at + 27, at + 37), view(work, at + 12, at + 15)
    place_links(ints, reals, q, links, origin)
    for c in range(len(contacts) // CONTACT_INTS):
        gap, _ = track_contact(links, contacts, surfaces, c, origin, road, scratch, arm, frame)
        out[4 * c] = gap
        for k in range(3):
            out[4 * c + 1 + k] = arm[k] + origin[k]
