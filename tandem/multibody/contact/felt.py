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
from typing import NamedTuple

import numpy as np

from sync.compile.jit import inner, merged
from tandem.multibody.contact.joint_tree import energy, momentum, place_links
from tandem.multibody.contact.kinds import LINK_INTS, LINK_WORK, OWN, PARENT, SUM, F, P, V
from tandem.multibody.contact.plane_tree import plane_motion
from tandem.multibody.natural.views import row, take, view

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
# of a contact in a step: depth, elastic force at the start, derivatives by speed and by slip, 1 while active, c', then
# both rows
DEEP, ELASTIC, BY_SPEED, BY_SLIP, ACTIVE, LOSS, HEAD = range(7)
THETA = 0.55  # at which part of a step elastic forces are taken


class Tree(NamedTuple):
    """The links and what is between them: tables as above and in kinds.py."""

    links: np.ndarray
    numbers: np.ndarray
    joints: np.ndarray
    felt_ints: np.ndarray
    felt: np.ndarray
    gravity: np.ndarray


class First(NamedTuple):
    """Of the first link at the end of the step."""

    q: float
    v: float
    acceleration: float


class Scratch(NamedTuple):
    """Of a step, by the symbols of its equations."""

    c: np.ndarray  # bias
    new: np.ndarray  # v'
    mean: np.ndarray  # v°
    drag: np.ndarray  # of joints, over their rate
    M: np.ndarray
    A: np.ndarray
    contacts: np.ndarray


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


@merged
def lay_out(work, n, m):
    """The parts of a step's scratch, behind those of places and energies."""
    at = LINK_WORK * n + 15 + 6 * n
    c, at = take(work, at, n)
    new, at = take(work, at, n)
    mean, at = take(work, at, n)
    drag, at = take(work, at, n)
    M, at = take(work, at, n * n)
    A, at = take(work, at, n * n)
    contacts, at = take(work, at, m * (HEAD + 2 * n))
    return Scratch(c, new, mean, drag, M, A, contacts)


@merged
def rows_of(contact, n):
    """How a contact moves with the joints, along its normal and across it."""
    return view(contact, HEAD, HEAD + n), view(contact, HEAD + n, HEAD + 2 * n)


@merged
def find_touching(tree, q, s, work, n, m):
    """How deep, all of them first: a processor then has many at once on the way."""
    for k in range(m):
        contact = row(s.contacts, k, HEAD + 2 * n)
        kind, own = row(tree.felt_ints, k, FELT_INTS), row(tree.felt, k, FELT_REALS)
        depth = touch(tree.links, kind, own, q, work, contact, n)
        contact[ACTIVE] = 1.0 if depth > 0.0 else 0.0


@merged
def set_forces(tree, v, s, h, n, m):
    """Forces of contacts and drags of joints as things are at the start, and their derivatives."""
    for k in range(m):
        contact = row(s.contacts, k, HEAD + 2 * n)
        if contact[ACTIVE] > 0.0:
            own, twice = row(tree.felt, k, FELT_REALS), tree.felt_ints[FELT_INTS * k + TWICE]
            along, across = rows_of(contact, n)
            elastic = own[STIFFNESS] * power(contact[DEEP], twice)
            stiffness = 0.5 * twice * elastic / contact[DEEP]
            slip, speed = dot(across, v), dot(along, v)
            loss = loss_rate(own[DAMPING], own[MOST], speed)
            load = max(elastic * (1.0 - loss * speed), 0.0)
            contact[ELASTIC], contact[LOSS] = elastic, loss
            contact[BY_SPEED] = elastic * loss + THETA * h * stiffness
            contact[BY_SLIP] = own[FRICTION] * load / sqrt(slip * slip + own[SLIP] * own[SLIP])
    for i in range(n):
        own = row(tree.joints, i, JOINT_REALS)
        rub = own[LEVEL] / sqrt(v[i] * v[i] + own[SPEED] * own[SPEED]) if own[LEVEL] > 0.0 else 0.0
        s.drag[i] = own[VISCOUS] + rub


@merged
def set_equations(tree, q, v, s, faster, moved, h, n, m):
    """A new = right side; `faster`: by how much the first link is at the end, `moved`: its mean rate."""
    A, M, new = s.A, s.M, s.new
    for i in range(n * n):
        A[i] = M[i]
    for i in range(1, n):
        total = 0.0
        for j in range(1, n):
            total += (M[n * i + j] if j <= i else M[n * j + i]) * v[j]
        own = row(tree.joints, i, JOINT_REALS)
        ahead = q[i] + THETA * (1.0 - THETA) * h * v[i] - own[REST]
        new[i] = total - h * (s.c[i] + own[SPRING] * ahead + own[PRELOAD])
        A[n * i + i] += h * (s.drag[i] + THETA * THETA * h * own[SPRING])
    for k in range(m):
        contact = row(s.contacts, k, HEAD + 2 * n)
        if contact[ACTIVE] > 0.0:
            along, across = rows_of(contact, n)
            before = (1.0 - THETA) * (dot(along, v) - along[0] * v[0])
            push = h * (contact[ELASTIC] - contact[BY_SPEED] * (along[0] * moved + before))
            rub = h * contact[BY_SLIP] * across[0] * moved
            for i in range(1, n):
                new[i] += push * along[i] - rub * across[i]
            add_square(A, along, THETA * h * contact[BY_SPEED], n)
            add_square(A, across, h * contact[BY_SLIP], n)
    for i in range(1, n):
        new[i] -= M[n * i] * faster


@merged
def release_pulling(s, n, m):
    """Contacts that would pull at the end of the step leave; whether any did."""
    released = False
    for k in range(m):
        contact = row(s.contacts, k, HEAD + 2 * n)
        along, _ = rows_of(contact, n)
        if contact[ACTIVE] > 0.0 and contact[ELASTIC] - contact[BY_SPEED] * dot(along, s.mean) < 0.0:
            contact[ACTIVE], released = 0.0, True
    return released


@merged
def book_felts(effort, s, moved, h, books, report, n, m):
    """Forces of contacts along the way that was gone; the effort without what they do to the first link.

    Where a slip turns round within the step, friction at its end may have pushed: that is no loss, and shows as energy
    that came from nowhere.
    """
    for k in range(m):
        contact, out = row(s.contacts, k, HEAD + 2 * n), row(report, k, REPORT)
        out[DEPTH] = contact[DEEP]
        if contact[ACTIVE] > 0.0:
            along, across = rows_of(contact, n)
            closing, slip = -dot(along, s.mean), dot(across, s.new)
            lossy = contact[ELASTIC] * contact[LOSS] * closing
            push = max(contact[ELASTIC] + contact[BY_SPEED] * closing, 0.0)
            out[NORMAL] += h * push
            out[TANGENT] -= h * contact[BY_SLIP] * slip
            out[CLOSING] = closing
            books[FELT_LOSS] += h * lossy * closing
            books[FRICTION_LOSS] += h * contact[BY_SLIP] * max(slip * dot(across, s.mean), 0.0)
            on_first = push * along[0] - contact[BY_SLIP] * slip * across[0]
            effort -= on_first
            books[WORK] -= h * on_first * moved
    return effort


@merged
def advance_felt(tree, q, v, first, h, books, report, work):
    """One step; the effort of the first link. `books` go on; of `report` forces are added up (times h)."""
    n, m = len(tree.links) // LINK_INTS, len(tree.felt_ints) // FELT_INTS
    s = lay_out(work, n, m)
    M, new, mean = s.M, s.new, s.mean
    plane_motion(tree.links, tree.numbers, q, v, tree.gravity, work, M, s.c)
    moved = (first.q - q[0]) / h
    find_touching(tree, q, s, work, n, m)
    set_forces(tree, v, s, h, n, m)
    for _ in range(2):
        set_equations(tree, q, v, s, first.v - v[0], moved, h, n, m)
        solve_free(s.A, new, n)
        new[0] = mean[0] = moved
        for i in range(1, n):
            mean[i] = (1.0 - THETA) * v[i] + THETA * new[i]
        if not release_pulling(s, n, m):
            break
    effort = s.c[0] + M[0] * first.acceleration
    for i in range(1, n):
        effort += M[n * i] * (new[i] - v[i]) / h
    for i in range(n):
        books[PIVOT_LOSS] += h * s.drag[i] * max(new[i] * mean[i], 0.0)
    resisted = tree.joints[SPRING] * (q[0] - tree.joints[REST]) + tree.joints[PRELOAD] + s.drag[0] * moved
    books[WORK] += h * resisted * moved
    effort = book_felts(effort + resisted, s, moved, h, books, report, n, m)
    for i in range(n):
        q[i] += h * mean[i]
        v[i] = new[i]
    q[0], v[0] = first.q, first.v
    return effort


@inner
def account(tree, q, v, books, work):
    """Energies as things are, but for the first link's: of motion, of height, stored in felt and springs."""
    links, numbers, joints, felt_ints, felt, gravity = tree
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
        kind, own = row(felt_ints, k, FELT_INTS), row(felt, k, FELT_REALS)
        depth = touch(links, kind, own, q, work, view(work, at, at + HEAD + 2 * n), n)
        books[STORED] += stored_in(kind, own, depth)
