"""One step of a plane tree of joints with felt between its links: forces that give way, stiff ones among them.

stepping.py is for hard bodies on a floor. Here every contact is a layer of felt or leather, between a point of one link
and a capsule (a segment with a radius) of another, or at the end of a joint's travel. All joints turn about -y: the
plane is that of x and z, and an angle grows from x to z.

    depth  d = radius - distance,   N = k d^p (1 + c' dd/dt) >= 0,   p = 1, 1.5, 2, 2.5, 3     (Hunt and Crossley)
    c' = c / sqrt(1 + (c dd/dt / most)^2)
    friction  T = mu N v / sqrt(v^2 + s^2);   at a pivot: a torque likewise;   springs k (q - rest) + preload + c v

Depths to halves of integers need no power function, so that the bits are the same wherever there is a square root. The
law is conservative but for c', which makes the loop of felt: wide already where it is pressed slowly, as felt's is, and
no wider than `most` of the force, however quick the blow. Every loss is booked.

The step is linearly implicit, one solution and no iteration: what is elastic by the theta rule, at theta = 0.55 of the
step, friction by Euler's rule at its end. With v° = (1 - theta) v + theta v', and n, t the rows of a contact,

    M (v' - v) = h (forces - bias) + h sum (N - (cn + theta h k') n.v°) n - h sum ct (t.v') t,     q' = q + h v°

where N = k d^p, cn = N c, k' = dN/dd, ct = mu N / sqrt(v^2 + s^2). The matrix for v' is symmetric and positive, so that
no stiffness and no friction makes a step unstable. At 1/2 a vibration would lose nothing, and what felt that grows
stiffer lets a step err by could be energy made; at 1, Euler's rule, a blow loses an eighth of its work
(docs/piano_multibody.md). How rows turn with q is left out: forces times changes of direction, small beside
stiffnesses. A contact that would pull at the end of a step leaves, and the others are solved once more: two solutions
at most, one cost.

The first link follows what is given for the end of the step. What that takes is its effort (inverse dynamics).
"""

from math import sqrt

from sync.compile.jit import inner, merged
from tandem.multibody.contact.joint_tree import energy, momentum, place_links
from tandem.multibody.contact.kinds import LINK_INTS, LINK_WORK, OWN, PARENT, SUM, F, P, V
from tandem.multibody.contact.plane_tree import plane_motion
from tandem.multibody.natural.views import view

GROUND = -1
CAPSULE, STOP = 0, 1
# a contact: link of the point (of a stop: the joint), link of the capsule, twice the exponent, kind
FELT_INTS, POINT_LINK, CAPSULE_LINK, TWICE, KIND = 4, 0, 1, 2, 3
# … point (x, z), both ends of the segment, radius, stiffness, damping, friction, slip speed, most loss
# a stop has its angle, +1 where it holds from below and -1 from above, and the arm of its felt in the first places
FELT_REALS, POINT, START, END, RADIUS, STIFFNESS, DAMPING, FRICTION, SLIP, MOST = 12, 0, 2, 4, 6, 7, 8, 9, 10, 11
ANGLE, SIDE, ARM = 0, 1, 2
# a joint: stiffness, rest, preload, damping, friction and the speed below which it is rounded
JOINT_REALS, SPRING, REST, PRELOAD, VISCOUS, LEVEL, SPEED = 6, 0, 1, 2, 3, 4, 5
# what is reported of a contact: depth (negative: how far apart), force along the normal, friction, closing speed
REPORT, DEPTH, NORMAL, TANGENT, CLOSING = 4, 0, 1, 2, 3
# books: work of the first link on the others, losses in felt, by friction and in pivots, stored in felt and springs
BOOKS, WORK, FELT_LOSS, FRICTION_LOSS, PIVOT_LOSS, STORED, KINETIC, POTENTIAL = 7, 0, 1, 2, 3, 4, 5, 6
# of a contact in a step: depth, force at the start, derivatives by speed, by slip, 1 while active, c', then both rows
HEAD = 6
THETA = 0.55  # at which part of a step elastic forces are taken


def work_size(links: int, contacts: int) -> int:
    """Length of the scratch of `advance_felt`."""
    return links * (LINK_WORK + 6 + 4) + 12 + 3 + 10 + 2 * links * links + contacts * (HEAD + 2 * links)


@inner
def power(d, twice):
    """d to half of `twice`, 2 to 6."""
    if twice == 2:
        return d
    if twice == 3:
        return d * sqrt(d)
    if twice == 4:
        return d * d
    if twice == 5:
        return d * d * sqrt(d)
    return d * d * d


@merged
def placed(work, link, x, z):
    """A point of a link, or of the ground, in the world."""
    if link < 0:
        return x, z
    own = view(work, LINK_WORK * link, LINK_WORK * (link + 1))
    return own[P] + own[0] * x + own[2] * z, own[P + 2] + own[6] * x + own[8] * z


@merged
def add_rows(ints, work, link, x, z, nx, nz, sign, row_n, row_t):
    """How the point (x, z) of a link moves along and across n with the joints that carry it."""
    while link >= 0:
        rx, rz = x - work[LINK_WORK * link + P], z - work[LINK_WORK * link + P + 2]
        row_n[link] += sign * (nz * rx - nx * rz)
        row_t[link] += sign * (-nx * rx - nz * rz)
        link = ints[LINK_INTS * link + PARENT]


@merged
def touch(links, felt_ints, felt, q, work, scratch, n):
    """Depth of one contact, and its rows where it is in touch: n points out of the capsule, t = (-nz, nx)."""
    if felt_ints[KIND] == STOP:
        joint = felt_ints[POINT_LINK]
        depth = felt[ARM] * felt[SIDE] * (felt[ANGLE] - q[joint])
    else:
        x, z = placed(work, felt_ints[POINT_LINK], felt[POINT], felt[POINT + 1])
        ax, az = placed(work, felt_ints[CAPSULE_LINK], felt[START], felt[START + 1])
        bx, bz = placed(work, felt_ints[CAPSULE_LINK], felt[END], felt[END + 1])
        along = ((x - ax) * (bx - ax) + (z - az) * (bz - az)) / ((bx - ax) ** 2 + (bz - az) ** 2)
        along = min(max(along, 0.0), 1.0)
        dx, dz = x - ax - along * (bx - ax), z - az - along * (bz - az)
        distance = sqrt(dx * dx + dz * dz)
        depth = felt[RADIUS] - distance
    scratch[0] = depth
    if depth <= 0.0:
        return depth
    for i in range(2 * n):
        scratch[HEAD + i] = 0.0
    row_n, row_t = view(scratch, HEAD, HEAD + n), view(scratch, HEAD + n, HEAD + 2 * n)
    if felt_ints[KIND] == STOP:
        row_n[joint] = felt[ARM] * felt[SIDE]
    else:
        nx, nz = (dx / distance, dz / distance) if distance > 0.0 else (0.0, 1.0)
        add_rows(links, work, felt_ints[POINT_LINK], x, z, nx, nz, 1.0, row_n, row_t)
        add_rows(links, work, felt_ints[CAPSULE_LINK], x, z, nx, nz, -1.0, row_n, row_t)
    return depth


@inner
def loss_rate(c, most, speed):
    """c' at this speed."""
    share = c * speed / most
    return c / sqrt(1.0 + share * share)


@merged
def dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@merged
def add_square(A, row, factor, n):
    """A += factor row row^T, of the lower part."""
    for i in range(n):
        if row[i] != 0.0:
            for j in range(i + 1):
                A[n * i + j] += factor * row[i] * row[j]


@merged
def solve_free(A, x, n):
    """x <- A^-1 x but for the first, by Cholesky's factor in place."""
    for i in range(1, n):
        for j in range(1, i + 1):
            total = A[n * i + j]
            for k in range(1, j):
                total -= A[n * i + k] * A[n * j + k]
            A[n * i + j] = total / A[n * j + j] if j < i else sqrt(max(total, 1e-30))
    for i in range(1, n):
        for k in range(1, i):
            x[i] -= A[n * i + k] * x[k]
        x[i] /= A[n * i + i]
    for i in range(n - 1, 0, -1):
        for k in range(i + 1, n):
            x[i] -= A[n * k + i] * x[k]
        x[i] /= A[n * i + i]


@inner
def stored_in(felt_ints, felt, depth):
    twice = felt_ints[TWICE]
    return felt[STIFFNESS] * power(depth, twice) * depth / (0.5 * twice + 1.0) if depth > 0.0 else 0.0


# long: one step of all felts, in the order of its equations; they are flat arrays
@merged
def advance_felt(
    links, numbers, joints, felt_ints, felt, gravity, q, v, q_next, v_next, acceleration, h, books, report, work
):  # fmt: skip
    """One step; the effort of the first link. `books` go on; of `report` forces are added up (times h)."""
    n, m = len(links) // LINK_INTS, len(felt_ints) // FELT_INTS
    at = LINK_WORK * n + 15 + 6 * n
    c, new = view(work, at, at + n), view(work, at + n, at + 2 * n)
    mean, drag = view(work, at + 2 * n, at + 3 * n), view(work, at + 3 * n, at + 4 * n)
    at += 4 * n
    M, A, start = view(work, at, at + n * n), view(work, at + n * n, at + 2 * n * n), at + 2 * n * n
    wide = HEAD + 2 * n
    plane_motion(links, numbers, q, v, gravity, work, M, c)
    moved = (q_next - q[0]) / h
    # how deep, all of them first: a processor then has many at once on the way; and forces as things are
    for k in range(m):
        kind, own = (
            view(felt_ints, FELT_INTS * k, FELT_INTS * (k + 1)),
            view(felt, FELT_REALS * k, FELT_REALS * (k + 1)),
        )
        scratch = view(work, start + wide * k, start + wide * (k + 1))
        scratch[4] = 1.0 if touch(links, kind, own, q, work, scratch, n) > 0.0 else 0.0
    for k in range(m):
        scratch = view(work, start + wide * k, start + wide * (k + 1))
        if scratch[4] > 0.0:
            own, twice = view(felt, FELT_REALS * k, FELT_REALS * (k + 1)), felt_ints[FELT_INTS * k + TWICE]
            elastic = own[STIFFNESS] * power(scratch[0], twice)
            slope = 0.5 * twice * elastic / scratch[0]
            slip = dot(view(scratch, HEAD + n, HEAD + 2 * n), v)
            speed = dot(view(scratch, HEAD, HEAD + n), v)
            scratch[5] = loss_rate(own[DAMPING], own[MOST], speed)
            load = max(elastic * (1.0 - scratch[5] * speed), 0.0)
            scratch[1] = elastic
            scratch[2] = elastic * scratch[5] + THETA * h * slope
            scratch[3] = own[FRICTION] * load / sqrt(slip * slip + own[SLIP] * own[SLIP])
    for i in range(n):
        own = view(joints, JOINT_REALS * i, JOINT_REALS * (i + 1))
        rub = own[LEVEL] / sqrt(v[i] * v[i] + own[SPEED] * own[SPEED]) if own[LEVEL] > 0.0 else 0.0
        drag[i] = own[VISCOUS] + rub
    # at most twice: what would pull leaves
    for _ in range(2):
        for i in range(n * n):
            A[i] = M[i]
        for i in range(1, n):
            total = 0.0
            for j in range(1, n):
                total += (M[n * i + j] if j <= i else M[n * j + i]) * v[j]
            own = view(joints, JOINT_REALS * i, JOINT_REALS * (i + 1))
            ahead = q[i] + THETA * (1.0 - THETA) * h * v[i] - own[REST]
            new[i] = total - h * (c[i] + own[SPRING] * ahead + own[PRELOAD])
            A[n * i + i] += h * (drag[i] + THETA * THETA * h * own[SPRING])
        for k in range(m):
            scratch = view(work, start + wide * k, start + wide * (k + 1))
            if scratch[4] > 0.0:
                along, across = view(scratch, HEAD, HEAD + n), view(scratch, HEAD + n, HEAD + 2 * n)
                before = (1.0 - THETA) * (dot(along, v) - along[0] * v[0])
                push = h * (scratch[1] - scratch[2] * (along[0] * moved + before))
                rub = h * scratch[3] * across[0] * moved
                for i in range(1, n):
                    new[i] += push * along[i] - rub * across[i]
                add_square(A, along, THETA * h * scratch[2], n)
                add_square(A, across, h * scratch[3], n)
        for i in range(1, n):
            new[i] -= M[n * i] * (v_next - v[0])
        solve_free(A, new, n)
        new[0] = mean[0] = moved
        for i in range(1, n):
            mean[i] = (1.0 - THETA) * v[i] + THETA * new[i]
        left = False
        for k in range(m):
            scratch = view(work, start + wide * k, start + wide * (k + 1))
            if scratch[4] > 0.0 and scratch[1] - scratch[2] * dot(view(scratch, HEAD, HEAD + n), mean) < 0.0:
                scratch[4], left = 0.0, True
        if not left:
            break
    # books: forces along the way that was gone. Where a slip turns round within the step, friction at its end may have
    # pushed: that is no loss, and shows as energy that came from nowhere
    effort = c[0] + M[0] * acceleration
    for i in range(1, n):
        effort += M[n * i] * (new[i] - v[i]) / h
    for i in range(n):
        own = view(joints, JOINT_REALS * i, JOINT_REALS * (i + 1))
        books[PIVOT_LOSS] += h * drag[i] * max(new[i] * mean[i], 0.0)
        if i == 0:
            resisted = own[SPRING] * (q[0] - own[REST]) + own[PRELOAD] + drag[0] * moved
            effort += resisted
            books[WORK] += h * resisted * moved
    for k in range(m):
        own = view(felt, FELT_REALS * k, FELT_REALS * (k + 1))
        scratch, out = view(work, start + wide * k, start + wide * (k + 1)), view(report, REPORT * k, REPORT * (k + 1))
        out[DEPTH] = scratch[0]
        if scratch[4] > 0.0:
            along, across = view(scratch, HEAD, HEAD + n), view(scratch, HEAD + n, HEAD + 2 * n)
            closing, slip = -dot(along, mean), dot(across, new)
            lossy = scratch[1] * scratch[5] * closing
            push = max(scratch[1] + scratch[2] * closing, 0.0)
            out[NORMAL] += h * push
            out[TANGENT] -= h * scratch[3] * slip
            out[CLOSING] = closing
            books[FELT_LOSS] += h * lossy * closing
            books[FRICTION_LOSS] += h * scratch[3] * max(slip * dot(across, mean), 0.0)
            on_first = push * along[0] - scratch[3] * slip * across[0]
            effort -= on_first
            books[WORK] -= h * on_first * moved
    for i in range(n):
        q[i] += h * mean[i]
        v[i] = new[i]
    q[0], v[0] = q_next, v_next
    return effort


@inner
def account(links, numbers, joints, felt_ints, felt, gravity, q, v, books, work):
    """Energies as things are, but for the first link's: of motion, of height, stored in felt and springs."""
    n, m = len(links) // LINK_INTS, len(felt_ints) // FELT_INTS
    at = LINK_WORK * n
    origin, out = view(work, at + 12 + 6 * n, at + 15 + 6 * n), view(work, at, at + 8)
    at += 15 + 10 * n + 2 * n * n
    place_links(links, numbers, q, work, origin)
    energy(links, v, gravity, work, origin, out)
    books[KINETIC], books[POTENTIAL], books[STORED] = out[0], out[1], 0.0
    first = view(work, OWN, SUM)
    momentum(first, view(work, V, F), out)
    for k in range(6):
        books[KINETIC] -= 0.5 * out[k] * work[V + k]
    for k in range(3):
        books[POTENTIAL] += gravity[k] * (first[1 + k] + first[0] * origin[k])
    for i in range(1, n):
        own = view(joints, JOINT_REALS * i, JOINT_REALS * (i + 1))
        s = q[i] - own[REST]
        books[STORED] += 0.5 * own[SPRING] * s * s + own[PRELOAD] * s
    for k in range(m):
        kind, own = (
            view(felt_ints, FELT_INTS * k, FELT_INTS * (k + 1)),
            view(felt, FELT_REALS * k, FELT_REALS * (k + 1)),
        )
        depth = touch(links, kind, own, q, work, view(work, at, at + HEAD + 2 * n), n)
        books[STORED] += stored_in(kind, own, depth)
