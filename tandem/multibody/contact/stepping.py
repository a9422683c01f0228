"""One step of a tree with unilateral contacts on the floor z = 0: Moreau's midpoint rule with impulses.

    q_m = q + h/2 v          M, contact points and their Jacobian J here
    M (v' - v) = h (forces - bias(q_m, (v + v')/2) - D v') + J^T lam,      0 <= lam_n _|_ v_n' + g_m / h + c lam_n >= 0
    q' = q_m + h/2 v'

The scheme is symmetric in time but for impacts, friction and damping, so smooth motion keeps its energy without drift;
the velocity terms are corrected `corrections` times. Speeds of contacts are those at the end of the step: an
approaching surface arrives, one that has sunk in comes back to zero in two steps without swinging. With restitution,
one that approaches faster than `SLOW` leaves with its share of that speed. Of a surface with an edge the edge takes
part only where it has sunk in: before that, the smooth surface next to it is nearer at the end of the step.

Energy is booked: the mean of the speeds before and after, times the impulse, is the exact work of it.
"""

from numba import float64, int64, types

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner, kernel
from tandem.multibody.contact.complementarity import solve_impulses
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
    LOCKED,
    MIDDLE,
    OWN_AXIS,
    PARENT,
    RHO,
    ROOM,
    SURFACE,
    P,
    R,
    S,
)
from tandem.multibody.contact.surfaces import nearest_to_floor
from tandem.multibody.natural.views import view

SLOW = 0.01  # m/s: what approaches more slowly does not bounce
OF_SWEEP = 50_000  # multiplications for each sweep that is allowed: ten Newton steps of eight contacts
NEAR = 1e-3  # m: what is farther away and will not be there after two steps is left out

# settings of a step, in this order
GRAVITY, FRICTION, RESTITUTION, COMPLIANCE, TOLERANCE, SETTINGS = 0, 3, 4, 5, 6, 7
# what a step reports, before a row of each contact
(TOUCHING, SWEEPS, CHANGE, KINETIC, POTENTIAL, WORK, FRICTION_LOSS, IMPACT_LOSS, DAMPING_LOSS, GAP, REPORT) = range(11)
# a row of a contact: gap, place of its point, force along x, y, z, velocity of the point along x, y, z at the end
(C_GAP, C_POINT, C_FORCE, C_SPEED, CONTACT_ROW) = (0, 1, 4, 7, 10)


def work_size(links: int, contacts: int) -> int:
    """Room for `step_tree`."""
    rows = 3 * contacts
    return (
        ROOM * links
        + 12
        + 6 * links
        + 3
        + 24
        + 6 * links
        + 2 * links * links
        + 2 * rows * links
        + rows * rows
        + rows * (rows + 2)
        + (4 * rows + 8 * contacts)
    )


@inner
def turn_into(Rm, x, y, z, out):
    for k in range(3):
        out[k] = Rm[3 * k] * x + Rm[3 * k + 1] * y + Rm[3 * k + 2] * z


@inner
def track_contact(links, contacts, surfaces, which, origin, scratch, arm):
    """Lowest point of a contact's surface, about the reference, into `arm`; its height, and if it is smooth there."""
    row = view(surfaces, CONTACT_REALS * which, CONTACT_REALS * (which + 1))
    link, carrier = contacts[CONTACT_INTS * which + LINK], contacts[CONTACT_INTS * which + CARRIER]
    kind = contacts[CONTACT_INTS * which + KIND]
    own, held = view(links, ROOM * link, ROOM * (link + 1)), view(links, ROOM * carrier, ROOM * (carrier + 1))
    axis, rho, k1 = view(scratch, 0, 3), view(scratch, 3, 6), view(scratch, 6, 9)
    turn_into(own, row[OWN_AXIS], row[OWN_AXIS + 1], row[OWN_AXIS + 2], axis)
    if kind > 3:
        turn_into(held, row[RHO], row[RHO + 1], row[RHO + 2], rho)
        turn_into(held, row[K1], row[K1 + 1], row[K1 + 2], k1)
    smooth = nearest_to_floor(kind, view(row, SURFACE, CONTACT_REALS), axis, rho, k1, arm)
    for k in range(3):
        middle = (
            own[R + 3 * k] * row[MIDDLE] + own[R + 3 * k + 1] * row[MIDDLE + 1] + own[R + 3 * k + 2] * row[MIDDLE + 2]
        )
        arm[k] += own[P + k] + middle
    return arm[2] + origin[2], smooth


@inner
def set_jacobian(ints, links, link, at, J, n):
    """Three rows: velocity of the point at `at` of a link along z, x, y, for every joint."""
    for j in range(3 * n):
        J[j] = 0.0
    x, y, z = at[0], at[1], at[2]
    j = link
    while j >= 0:
        s = view(links, ROOM * j + S, ROOM * j + S + 6)
        if ints[LINK_INTS * j + FLAGS] & LOCKED == 0:
            J[j] = s[5] + s[0] * y - s[1] * x
            J[n + j] = s[3] + s[1] * z - s[2] * y
            J[2 * n + j] = s[4] + s[2] * x - s[0] * z
        j = ints[LINK_INTS * j + PARENT]


# long: one step of one tree, in the order of its equations; each part would need all of its arrays
@inner
def step_tree(
    ints, reals, contacts, surfaces, corrections, cap, settings, q, v, forces, stiffening, targets, multipliers, work,
    report, h,
):  # fmt: skip
    """Advance q and v by h. `forces` act on the joints, and -`stiffening` (v' - `targets`) at the end of the step.

    `corrections` of the velocities, each with at most `cap` sweeps over the contacts.
    """
    n, m = len(ints) // LINK_INTS, len(contacts) // CONTACT_INTS
    rows = 3 * m
    at = ROOM * n
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
    room = view(work, at, at + rows * (rows + 2))
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
        gap, smooth = track_contact(links, contacts, surfaces, c, origin, small, arm)
        lowest = min(lowest, gap)
        report[REPORT + CONTACT_ROW * c + C_GAP] = gap
        for k in range(3):
            report[REPORT + CONTACT_ROW * c + C_POINT + k] = arm[k] + origin[k]
        if gap > 0.0 and smooth == 0:
            continue
        row = view(J, 3 * count * n, 3 * (count + 1) * n)
        set_jacobian(ints, links, contacts[CONTACT_INTS * c + LINK], arm, row, n)
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
        grip[count] = settings[FRICTION]
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
        if count > 0:
            used, change, budget = solve_impulses(
                G, b, grip, soft, count, lam, cap, settings[TOLERANCE], budget, room
            )  # fmt: skip
            sweeps += used
        for i in range(n):
            total = v[i] + free[i]
            for r in range(size):
                total += X[r * n + i] * lam[r]
            velocity[i] = total

    # what it took to hold the locked joints: the whole row of the equations, with contacts
    for i in range(n):
        multipliers[i] = 0.0
        if ints[LINK_INTS * i + FLAGS] & LOCKED:
            total = -right[i]
            for j in range(n):
                total += (whole[n * i + j] if j <= i else whole[n * j + i]) * (velocity[j] - v[j])
            s = view(links, ROOM * i + S, ROOM * i + S + 6)
            for c in range(count):
                j = contacts[CONTACT_INTS * int64(which[c]) + LINK]
                while j > i:
                    j = ints[LINK_INTS * j + PARENT]
                if j == i:  # the joint carries this contact
                    x, y, z = points[3 * c], points[3 * c + 1], points[3 * c + 2]
                    total -= lam[3 * c] * (s[5] + s[0] * y - s[1] * x)
                    total -= lam[3 * c + 1] * (s[3] + s[1] * z - s[2] * y)
                    total -= lam[3 * c + 2] * (s[4] + s[2] * x - s[0] * z)
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
        INDICES, CONSTANTS, INDICES, CONSTANTS, int64, int64, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR,
        VECTOR, VECTOR, float64,
    ),
    error_model="numpy",
)  # fmt: skip
def advance_tree(
    ints, reals, contacts, surfaces, corrections, cap, settings, q, v, forces, stiffening, targets, multipliers, work,
    report, h,
):  # fmt: skip
    """`step_tree` for Python, and for a machine's step."""
    step_tree(
        ints, reals, contacts, surfaces, corrections, cap, settings, q, v, forces, stiffening, targets, multipliers,
        work, report, h,
    )  # fmt: skip
