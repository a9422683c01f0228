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

from numba import float64, int64, types

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner, kernel
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
from tandem.multibody.contact.spinning import lay_out_spins, solve_with_spins, spinning_size
from tandem.multibody.contact.surfaces import nearest_along, nearest_to_floor
from tandem.multibody.ground.surface import surface
from tandem.multibody.natural.views import view

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


def work_size(links: int, contacts: int) -> int:
    """Length of the work of `step_tree`."""
    rows = 3 * contacts
    return (
        (LINK_WORK + 6) * links
        + 12
        + 3
        + 24
        + 6 * links
        + 2 * links * links
        + 2 * rows * links
        + rows * rows
        + rows * (rows + 2)
        + (4 * rows + 8 * contacts)
        + 10 * contacts
        + spinning_size(links, contacts)
    )


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
    row = view(surfaces, CONTACT_REALS * which, CONTACT_REALS * (which + 1))
    link, carrier = contacts[CONTACT_INTS * which + LINK], contacts[CONTACT_INTS * which + CARRIER]
    kind = contacts[CONTACT_INTS * which + KIND]
    own = view(links, LINK_WORK * link, LINK_WORK * (link + 1))
    held = view(links, LINK_WORK * carrier, LINK_WORK * (carrier + 1))
    axis, rho, k1 = view(scratch, 0, 3), view(scratch, 3, 6), view(scratch, 6, 9)
    turn_into(own, row[OWN_AXIS], row[OWN_AXIS + 1], row[OWN_AXIS + 2], axis)
    if kind > 3:
        turn_into(held, row[RHO], row[RHO + 1], row[RHO + 2], rho)
        turn_into(held, row[K1], row[K1 + 1], row[K1 + 2], k1)
    middle = view(scratch, 6, 9)
    if len(road) > 0:
        turn_into(own, row[MIDDLE], row[MIDDLE + 1], row[MIDDLE + 2], middle)
        return onto_road(
            kind, view(row, SURFACE, CONTACT_REALS), axis, own[P] + middle[0], own[P + 1] + middle[1],
            own[P + 2] + middle[2], road, origin, arm, frame,
        )  # fmt: skip
    smooth = nearest_to_floor(kind, view(row, SURFACE, CONTACT_REALS), axis, rho, k1, arm)
    turn_into(own, row[MIDDLE], row[MIDDLE + 1], row[MIDDLE + 2], middle)
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
def set_spin(ints, links, link, frame, row, n):
    """A row: how fast a link spins about the normal, for every joint."""
    for j in range(n):
        row[j] = 0.0
    j = link
    while j >= 0:
        s = view(links, LINK_WORK * j + S, LINK_WORK * j + S + 6)
        if ints[LINK_INTS * j + FLAGS] & LOCKED == 0:
            row[j] = s[0] * frame[0] + s[1] * frame[1] + s[2] * frame[2]
        j = ints[LINK_INTS * j + PARENT]


# long: one step of one tree, in the order of its equations; each part would need all of its arrays
@inner
def step_tree(
    ints, reals, contacts, surfaces, corrections, cap, settings, road, q, v, forces, stiffening, targets, multipliers,
    work, report, h,
):  # fmt: skip
    """Advance q and v by h. `forces` act on the joints, and -`stiffening` (v' - `targets`) at the end of the step.

    `corrections` of the velocities, each with at most `cap` sweeps over the contacts. `road`: the ground; nothing: the
    floor.
    """
    n, m = len(ints) // LINK_INTS, len(contacts) // CONTACT_INTS
    rows = 3 * m
    at = LINK_WORK * n
    links = view(work, 0, at)
    scratch, at = view(work, at, at + 12 + 6 * n), at + 12 + 6 * n
    origin, at = view(work, at, at + 3), at + 3
    small, at = view(work, at, at + 24), at + 24
    velocity, at = view(work, at, at + n), at + n
    right, at = view(work, at, at + n), at + n
    free, at = view(work, at, at + n), at + n
    middle, at = view(work, at, at + n), at + n
    inertial, at = view(work, at, at + n), at + n
    M, at = view(work, at, at + n * n), at + n * n
    whole, at = view(work, at, at + n * n), at + n * n
    J, at = view(work, at, at + rows * n), at + rows * n
    X, at = view(work, at, at + rows * n), at + rows * n
    G, at = view(work, at, at + rows * rows), at + rows * rows
    b, at = view(work, at, at + rows), at + rows
    lam, at = view(work, at, at + rows), at + rows
    before, at = view(work, at, at + rows), at + rows
    bound, at = view(work, at, at + m), at + m
    grip, at = view(work, at, at + m), at + m
    soft, at = view(work, at, at + m), at + m
    which, at = view(work, at, at + m), at + m
    points, at = view(work, at, at + 3 * m), at + 3 * m
    frames, at = view(work, at, at + 10 * m), at + 10 * m
    spin, at = lay_out_spins(work, at, n, m)
    system = Contacts(G, b, grip, soft, lam)
    reach = settings[SPIN_REACH]
    solver_scratch = view(work, at, at + rows * (rows + 2))
    gravity = view(settings, GRAVITY, GRAVITY + 3)
    arm = view(small, 9, 12)

    # at the middle of the step: inertia with what resists speed, without locked joints
    for i in range(n):
        q[i] += 0.5 * h * v[i]
    place_links(ints, reals, q, links, origin)
    mass_matrix(ints, links, M)
    for i in range(n * n):
        whole[i] = M[i]
    for i in range(n):
        M[n * i + i] += h * (reals[LINK_REALS * i + DAMPING] + stiffening[i])
    lock(ints, M)
    factor(ints, M)

    # contacts that may close within the step, their rows, and what impulses do to them
    count = 0
    lowest = 1e9
    for c in range(m):
        for k in range(CONTACT_ROW):
            report[REPORT + CONTACT_ROW * c + k] = 0.0
        frame = view(frames, 10 * count, 10 * count + 10)
        frame[0] = frame[1] = frame[4] = frame[5] = frame[6] = frame[8] = 0.0
        frame[2] = frame[3] = frame[7] = frame[9] = 1.0
        gap, smooth = track_contact(links, contacts, surfaces, c, origin, road, small, arm, frame)
        lowest = min(lowest, gap)
        report[REPORT + CONTACT_ROW * c + C_GAP] = gap
        for k in range(3):
            report[REPORT + CONTACT_ROW * c + C_POINT + k] = arm[k] + origin[k]
        if gap > 0.0 and smooth == 0:
            continue
        row = view(J, 3 * count * n, 3 * (count + 1) * n)
        set_jacobian(ints, links, contacts[CONTACT_INTS * c + LINK], arm, row, n)
        if len(road) > 0:
            turn_rows(row, n, frame)
        speed = 0.0
        for i in range(n):
            speed += row[i] * v[i]
        if gap > NEAR + 2.0 * h * abs(speed):
            continue
        which[count] = c
        for k in range(3):
            points[3 * count + k] = arm[k]
        bound[count] = gap / h
        if settings[RESTITUTION] > 0.0 and speed < -SLOW and speed + gap / h < 0.0:
            bound[count] = settings[RESTITUTION] * speed
        grip[count] = settings[FRICTION] * frame[9]
        soft[count] = settings[COMPLIANCE] / (h * h)
        count += 1
    size = 3 * count
    for r in range(size):
        x = view(X, r * n, (r + 1) * n)
        speed = 0.0
        for i in range(n):
            x[i] = J[r * n + i]
            speed += x[i] * v[i]
        before[r] = speed
        lam[r] = 0.0
        solve(ints, M, x)
    for r in range(size):
        for s in range(r + 1):
            total = 0.0
            for i in range(n):
                total += J[r * n + i] * X[s * n + i]
            G[size * r + s] = total
            G[size * s + r] = total
    if reach > 0.0:
        for c in range(count):
            row, x = view(spin.J, c * n, (c + 1) * n), view(spin.X, c * n, (c + 1) * n)
            link = contacts[CONTACT_INTS * int64(which[c]) + LINK]
            set_spin(ints, links, link, view(frames, 10 * c, 10 * c + 10), row, n)
            spin.s[c] = spin.before[c] = spin.slips[c] = 0.0
            for i in range(n):
                x[i] = row[i]
                spin.before[c] += row[i] * v[i]
            solve(ints, M, x)
        for c in range(count):
            x = view(spin.X, c * n, (c + 1) * n)
            for r in range(size):
                spin.C[r * count + c] = 0.0
                for i in range(n):
                    spin.C[r * count + c] += J[r * n + i] * x[i]
            for d in range(count):
                spin.GS[c * count + d] = 0.0
                for i in range(n):
                    spin.GS[c * count + d] += spin.J[d * n + i] * x[i]

    # velocities at the end, with the velocity terms of the mean
    for i in range(n):
        velocity[i] = v[i]
    sweeps = 0
    change = 0.0
    budget = OF_SWEEP * cap  # of all corrections together
    for _ in range(corrections + 1):
        for i in range(n):
            middle[i] = 0.5 * (v[i] + velocity[i])
        bias(ints, middle, gravity, links, scratch, inertial)
        for i in range(n):
            d = reals[LINK_REALS * i + DAMPING]
            right[i] = h * (forces[i] - inertial[i] - d * v[i] - stiffening[i] * (v[i] - targets[i]))
            free[i] = 0.0 if ints[LINK_INTS * i + FLAGS] & LOCKED else right[i]
        solve(ints, M, free)
        for r in range(size):
            total = before[r]
            for i in range(n):
                total += J[r * n + i] * free[i]
            b[r] = total + (bound[r // 3] if r % 3 == 0 else 0.0)
        if count > 0 and reach == 0.0:
            used, change, budget = solve_impulses(
                system, count, cap, settings[TOLERANCE], budget, solver_scratch
            )  # fmt: skip
            sweeps += used
        elif count > 0:
            for c in range(count):
                spin.b_s[c] = spin.before[c]
                for i in range(n):
                    spin.b_s[c] += spin.J[c * n + i] * free[i]
            if lam[0] == 0.0:
                used, change, budget = solve_impulses(
                    system, count, cap, settings[TOLERANCE], budget, solver_scratch
                )  # fmt: skip
            used, change, budget = solve_with_spins(
                system, spin, reach, count, cap, settings[TOLERANCE], budget, solver_scratch
            )  # fmt: skip
            sweeps += used
        for i in range(n):
            total = v[i] + free[i]
            for r in range(size):
                total += X[r * n + i] * lam[r]
            if reach > 0.0:
                for c in range(count):
                    total += spin.X[c * n + i] * spin.s[c]
            velocity[i] = total

    # what it took to hold the locked joints: the whole row of the equations, with contacts
    for i in range(n):
        multipliers[i] = 0.0
        if ints[LINK_INTS * i + FLAGS] & LOCKED:
            total = -right[i]
            for j in range(n):
                total += (whole[n * i + j] if j <= i else whole[n * j + i]) * (velocity[j] - v[j])
            s = view(links, LINK_WORK * i + S, LINK_WORK * i + S + 6)
            for c in range(count):
                j = contacts[CONTACT_INTS * int64(which[c]) + LINK]
                while j > i:
                    j = ints[LINK_INTS * j + PARENT]
                if j == i:  # the joint carries this contact
                    x, y, z = points[3 * c], points[3 * c + 1], points[3 * c + 2]
                    frame = view(frames, 10 * c, 10 * c + 10)
                    fx, fy, fz = lam[3 * c + 1], lam[3 * c + 2], lam[3 * c]
                    if len(road) > 0:
                        fx, fy, fz = to_world(frame, lam[3 * c], lam[3 * c + 1], lam[3 * c + 2])
                    total -= fz * (s[5] + s[0] * y - s[1] * x)
                    total -= fx * (s[3] + s[1] * z - s[2] * y)
                    total -= fy * (s[4] + s[2] * x - s[0] * z)
                    if reach > 0.0:
                        total -= spin.s[c] * (s[0] * frame[0] + s[1] * frame[1] + s[2] * frame[2])
            multipliers[i] = total / h

    # books
    done = damped = rubbed = struck = 0.0
    for i in range(n):
        mean = 0.5 * (v[i] + velocity[i])
        done += h * mean * (forces[i] - stiffening[i] * (velocity[i] - targets[i]))
        damped += h * mean * reals[LINK_REALS * i + DAMPING] * velocity[i]
    touching = 0
    for c in range(count):
        place = REPORT + CONTACT_ROW * int64(which[c])
        for k in range(3):
            speed = 0.0
            for i in range(n):
                speed += J[(3 * c + k) * n + i] * velocity[i]
            lost = -0.5 * (before[3 * c + k] + speed) * lam[3 * c + k]
            axis = 2 if k == 0 else k - 1
            report[place + C_FORCE + axis] = lam[3 * c + k] / h
            report[place + C_SPEED + axis] = speed
            if k == 0:
                struck += lost
            else:
                rubbed += lost
        if len(road) > 0:
            frame = view(frames, 10 * c, 10 * c + 10)
            fx, fy, fz = to_world(frame, lam[3 * c], lam[3 * c + 1], lam[3 * c + 2])
            report[place + C_FORCE], report[place + C_FORCE + 1], report[place + C_FORCE + 2] = fx / h, fy / h, fz / h
        if reach > 0.0:
            speed = 0.0
            for i in range(n):
                speed += spin.J[c * n + i] * velocity[i]
            rubbed -= 0.5 * (spin.before[c] + speed) * spin.s[c]
        if lam[3 * c] > 0.0:
            touching += 1
    for i in range(n):
        v[i] = velocity[i]
        q[i] += 0.5 * h * v[i]
    place_links(ints, reals, q, links, origin)
    energy(ints, v, gravity, links, origin, small)
    report[TOUCHING], report[SWEEPS], report[CHANGE], report[GAP] = touching, sweeps, change, lowest
    report[KINETIC], report[POTENTIAL] = small[0], small[1]
    report[WORK], report[FRICTION_LOSS], report[IMPACT_LOSS], report[DAMPING_LOSS] = done, rubbed, struck, damped


# long: the tree is flat arrays; a kernel takes no object
@kernel(
    types.void(
        INDICES, CONSTANTS, INDICES, CONSTANTS, int64, int64, CONSTANTS, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR,
        VECTOR, VECTOR, VECTOR, VECTOR, float64,
    ),
    error_model="numpy",
)  # fmt: skip
def advance_tree(
    ints, reals, contacts, surfaces, corrections, cap, settings, road, q, v, forces, stiffening, targets, multipliers,
    work, report, h,
):  # fmt: skip
    """`step_tree` for Python, and for a machine's step."""
    step_tree(
        ints, reals, contacts, surfaces, corrections, cap, settings, road, q, v, forces, stiffening, targets,
        multipliers, work, report, h,
    )  # fmt: skip


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
