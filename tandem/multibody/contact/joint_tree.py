"""Trees of rigid links on joints of one freedom each, looped over the links: relative coordinates, no generated code.

relative/generate.py writes the equations of a mechanism out; for a body with forty equal rollers that would be some ten
thousand operations to compile, and a loop over tables is as quick. At q = 0 all links have the axes of the world; link
i turns about or slides along its axis (fixed in its parent) at a place (fixed in its parent). Kernels work in axes of
the world about one point, the reference, which goes with the slides of the root (ROOT): spatial inertias then only add
up, and numbers stay small wherever the tree has gone.

    joint      S = (a, p x a) for a turn at p, (0, a) for a slide        V_i = V_parent + S_i v_i
    inertia    mass, first moment, second moments about the reference: 10 numbers, summed from the tips inwards
    M_ij       = S_i . I_composite_j S_j   for i on the way from j to the root, else 0
    factor     M = L^T D L without fill (Featherstone, Rigid Body Dynamics Algorithms, 6.5)

A link that is symmetric about its joint (SYMMETRIC) keeps the axes of its parent: its angle is carried along and enters
nothing. A LOCKED joint stays where it is; `multiplier` is the generalised force that this takes, of a turn the torque.
"""

from math import cos, sin

from numba import types

from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner, kernel
from tandem.multibody.contact.kinds import (
    AT,
    AXIS,
    CENTRE,
    DAMPING,
    FLAGS,
    INERTIA,
    JOINT,
    LINK_INTS,
    LINK_REALS,
    LINK_WORK,
    LOCKED,
    MASS,
    OWN,
    PARENT,
    ROOT,
    SUM,
    SYMMETRIC,
    TURN,
    A,
    F,
    P,
    S,
    V,
)
from tandem.multibody.natural.views import view


@inner
def momentum(I, V, out):  # noqa: E741  the letter of the field
    """out = I V, with I = (m, m c, xx, yy, zz, xy, xz, yz) about the reference: angular, then linear."""
    w0, w1, w2, v0, v1, v2 = V[0], V[1], V[2], V[3], V[4], V[5]
    out[0] = I[4] * w0 + I[7] * w1 + I[8] * w2 + I[2] * v2 - I[3] * v1
    out[1] = I[7] * w0 + I[5] * w1 + I[9] * w2 + I[3] * v0 - I[1] * v2
    out[2] = I[8] * w0 + I[9] * w1 + I[6] * w2 + I[1] * v1 - I[2] * v0
    out[3] = I[0] * v0 + w1 * I[3] - w2 * I[2]
    out[4] = I[0] * v1 + w2 * I[1] - w0 * I[3]
    out[5] = I[0] * v2 + w0 * I[2] - w1 * I[1]


@inner
def place_links(ints, reals, q, work, origin):
    """Attitudes, places, joints and inertias of all links at q; `origin` is where the reference is."""
    origin[0] = origin[1] = origin[2] = 0.0
    n = len(ints) // LINK_INTS
    for i in range(n):
        row = view(reals, LINK_REALS * i, LINK_REALS * (i + 1))
        own = view(work, LINK_WORK * i, LINK_WORK * (i + 1))
        parent, turn, flags = ints[LINK_INTS * i + PARENT], ints[LINK_INTS * i + JOINT], ints[LINK_INTS * i + FLAGS]
        a0, a1, a2 = row[AXIS], row[AXIS + 1], row[AXIS + 2]
        o0, o1, o2 = row[AT], row[AT + 1], row[AT + 2]
        if parent >= 0:
            up = view(work, LINK_WORK * parent, LINK_WORK * (parent + 1))
            for k in range(3):
                own[A + k] = up[3 * k] * a0 + up[3 * k + 1] * a1 + up[3 * k + 2] * a2
                own[P + k] = up[P + k] + up[3 * k] * o0 + up[3 * k + 1] * o1 + up[3 * k + 2] * o2
            for k in range(9):
                own[k] = up[k]
        else:
            for k in range(9):
                own[k] = 0.0
            own[0] = own[4] = own[8] = 1.0
            own[A], own[A + 1], own[A + 2] = a0, a1, a2
            own[P], own[P + 1], own[P + 2] = o0, o1, o2
        if turn == TURN:
            if flags & SYMMETRIC == 0:
                c, s = cos(q[i]), sin(q[i])
                d = 1.0 - c
                for k in range(3):
                    x, y, z = own[3 * k], own[3 * k + 1], own[3 * k + 2]
                    own[3 * k] = x * (c + d * a0 * a0) + y * (d * a0 * a1 + s * a2) + z * (d * a0 * a2 - s * a1)
                    own[3 * k + 1] = x * (d * a0 * a1 - s * a2) + y * (c + d * a1 * a1) + z * (d * a1 * a2 + s * a0)
                    own[3 * k + 2] = x * (d * a0 * a2 + s * a1) + y * (d * a1 * a2 - s * a0) + z * (c + d * a2 * a2)
            for k in range(3):
                own[S + k] = own[A + k]
            own[S + 3] = own[P + 1] * own[A + 2] - own[P + 2] * own[A + 1]
            own[S + 4] = own[P + 2] * own[A] - own[P] * own[A + 2]
            own[S + 5] = own[P] * own[A + 1] - own[P + 1] * own[A]
        else:
            for k in range(3):
                own[S + k] = 0.0
                own[S + 3 + k] = own[A + k]
                if flags & ROOT:
                    origin[k] += own[A + k] * q[i]
                else:
                    own[P + k] += own[A + k] * q[i]
        # inertia about the reference: the link's own, turned, and its mass at its centre
        m = row[MASS]
        I = view(own, OWN, SUM)  # noqa: E741
        for k in range(10):
            I[k] = 0.0
        if m > 0.0:
            c0, c1, c2 = row[CENTRE], row[CENTRE + 1], row[CENTRE + 2]
            x = own[P] + own[0] * c0 + own[1] * c1 + own[2] * c2
            y = own[P + 1] + own[3] * c0 + own[4] * c1 + own[5] * c2
            z = own[P + 2] + own[6] * c0 + own[7] * c1 + own[8] * c2
            I[0], I[1], I[2], I[3] = m, m * x, m * y, m * z
            I[4] = rotated(own, row, 0, 0) + m * (y * y + z * z)
            I[5] = rotated(own, row, 1, 1) + m * (x * x + z * z)
            I[6] = rotated(own, row, 2, 2) + m * (x * x + y * y)
            I[7] = rotated(own, row, 0, 1) - m * x * y
            I[8] = rotated(own, row, 0, 2) - m * x * z
            I[9] = rotated(own, row, 1, 2) - m * y * z


@inner
def rotated(own, row, i, j):
    """Element of R J R^T."""
    x, y, z = own[3 * i], own[3 * i + 1], own[3 * i + 2]
    u, v, w = own[3 * j], own[3 * j + 1], own[3 * j + 2]
    xx, yy, zz, xy = row[INERTIA], row[INERTIA + 1], row[INERTIA + 2], row[INERTIA + 3]
    xz, yz = row[INERTIA + 4], row[INERTIA + 5]
    return x * (xx * u + xy * v + xz * w) + y * (xy * u + yy * v + yz * w) + z * (xz * u + yz * v + zz * w)


@inner
def move_links(ints, v, work):
    """Velocities of all links at v."""
    for i in range(len(ints) // LINK_INTS):
        own, parent = view(work, LINK_WORK * i, LINK_WORK * (i + 1)), ints[LINK_INTS * i + PARENT]
        for k in range(6):
            own[V + k] = own[S + k] * v[i]
        if parent >= 0:
            for k in range(6):
                own[V + k] += work[LINK_WORK * parent + V + k]


@inner
def mass_matrix(ints, work, M):
    """The lower part of it, row by row: what is not between a link and one on its way to the root is zero."""
    n = len(ints) // LINK_INTS
    for i in range(n):
        for k in range(10):
            work[LINK_WORK * i + SUM + k] = work[LINK_WORK * i + OWN + k]
        for j in range(i + 1):
            M[n * i + j] = 0.0
    for i in range(n - 1, -1, -1):
        parent = ints[LINK_INTS * i + PARENT]
        own = view(work, LINK_WORK * i, LINK_WORK * (i + 1))
        if parent >= 0:
            for k in range(10):
                work[LINK_WORK * parent + SUM + k] += own[SUM + k]
        f = view(own, F, OWN)
        momentum(view(own, SUM, LINK_WORK), view(own, S, V), f)
        j = i
        while j >= 0:
            s = view(work, LINK_WORK * j + S, LINK_WORK * j + V)
            M[n * i + j] = s[0] * f[0] + s[1] * f[1] + s[2] * f[2] + s[3] * f[3] + s[4] * f[4] + s[5] * f[5]
            j = ints[LINK_INTS * j + PARENT]


@inner
def bias(ints, v, gravity, work, scratch, out):
    """Generalised forces that no acceleration needs: those of velocities, less gravity. `scratch`: 12 and 6 a link."""
    n = len(ints) // LINK_INTS
    move_links(ints, v, work)
    h = view(scratch, 0, 6)
    g = view(scratch, 6, 12)
    for i in range(n):
        own, parent = view(work, LINK_WORK * i, LINK_WORK * (i + 1)), ints[LINK_INTS * i + PARENT]
        a = view(scratch, 12 + 6 * i, 18 + 6 * i)
        w, s = view(own, V, F), view(own, S, V)
        # of the joint's own motion: V x S v
        a[0] = (w[1] * s[2] - w[2] * s[1]) * v[i]
        a[1] = (w[2] * s[0] - w[0] * s[2]) * v[i]
        a[2] = (w[0] * s[1] - w[1] * s[0]) * v[i]
        a[3] = (w[1] * s[5] - w[2] * s[4] + w[4] * s[2] - w[5] * s[1]) * v[i]
        a[4] = (w[2] * s[3] - w[0] * s[5] + w[5] * s[0] - w[3] * s[2]) * v[i]
        a[5] = (w[0] * s[4] - w[1] * s[3] + w[3] * s[1] - w[4] * s[0]) * v[i]
        if parent >= 0:
            for k in range(6):
                a[k] += scratch[12 + 6 * parent + k]
        I, f = view(own, OWN, SUM), view(own, F, OWN)  # noqa: E741
        for k in range(3):
            g[k], g[3 + k] = a[k], a[3 + k] - gravity[k]  # gravity as an acceleration of the ground
        momentum(I, g, f)
        momentum(I, w, h)
        f[0] += w[1] * h[2] - w[2] * h[1] + w[4] * h[5] - w[5] * h[4]
        f[1] += w[2] * h[0] - w[0] * h[2] + w[5] * h[3] - w[3] * h[5]
        f[2] += w[0] * h[1] - w[1] * h[0] + w[3] * h[4] - w[4] * h[3]
        f[3] += w[1] * h[5] - w[2] * h[4]
        f[4] += w[2] * h[3] - w[0] * h[5]
        f[5] += w[0] * h[4] - w[1] * h[3]
    for i in range(n - 1, -1, -1):
        own, parent = view(work, LINK_WORK * i, LINK_WORK * (i + 1)), ints[LINK_INTS * i + PARENT]
        total = 0.0
        for k in range(6):
            total += own[S + k] * own[F + k]
        out[i] = total
        if parent >= 0:
            for k in range(6):
                work[LINK_WORK * parent + F + k] += own[F + k]


@inner
def factor(ints, M):
    """M = L^T D L in place; D on the diagonal."""
    n = len(ints) // LINK_INTS
    for k in range(n - 1, -1, -1):
        i = ints[LINK_INTS * k + PARENT]
        while i >= 0:
            a = M[n * k + i] / M[n * k + k]
            j = i
            while j >= 0:
                M[n * i + j] -= a * M[n * k + j]
                j = ints[LINK_INTS * j + PARENT]
            M[n * k + i] = a
            i = ints[LINK_INTS * i + PARENT]


@inner
def solve(ints, M, x):
    """x <- M^-1 x, with M as `factor` leaves it."""
    n = len(ints) // LINK_INTS
    for i in range(n - 1, -1, -1):
        j = ints[LINK_INTS * i + PARENT]
        while j >= 0:
            x[j] -= M[n * i + j] * x[i]
            j = ints[LINK_INTS * j + PARENT]
    for i in range(n):
        x[i] /= M[n * i + i]
        j = ints[LINK_INTS * i + PARENT]
        while j >= 0:
            x[i] -= M[n * i + j] * x[j]
            j = ints[LINK_INTS * j + PARENT]


@inner
def lock(ints, M):
    """Locked joints leave the equations: their rows and columns are those of the unit matrix."""
    n = len(ints) // LINK_INTS
    for k in range(n):
        if ints[LINK_INTS * k + FLAGS] & LOCKED:
            for i in range(n):
                if i >= k:
                    M[n * i + k] = 0.0
                else:
                    M[n * k + i] = 0.0
            M[n * k + k] = 1.0


@inner
def energy(ints, v, gravity, work, origin, out):
    """Kinetic and potential energy of all links as they are placed."""
    move_links(ints, v, work)
    h = view(out, 2, 8)
    kinetic = potential = 0.0
    for i in range(len(ints) // LINK_INTS):
        own = view(work, LINK_WORK * i, LINK_WORK * (i + 1))
        I, w = view(own, OWN, SUM), view(own, V, F)  # noqa: E741
        momentum(I, w, h)
        for k in range(6):
            kinetic += 0.5 * h[k] * w[k]
        for k in range(3):
            potential -= gravity[k] * (I[1 + k] + I[0] * origin[k])
    out[0], out[1] = kinetic, potential


@kernel(types.void(INDICES, CONSTANTS, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy")
def accelerations(ints, reals, gravity, q, v, forces, M, work, out):
    """out = M^-1 (forces - bias) for free joints; locked ones get their multiplier. `M` keeps the factor."""
    n = len(ints) // LINK_INTS
    place = LINK_WORK * n
    scratch, origin = view(work, place, place + 12 + 6 * n), view(work, place + 12 + 6 * n, place + 15 + 6 * n)
    own, rows = (
        view(work, place + 15 + 6 * n, place + 15 + 7 * n),
        view(work, place + 15 + 7 * n, place + 15 + 7 * n + n * n),
    )
    place_links(ints, reals, q, work, origin)
    mass_matrix(ints, work, M)
    for i in range(n * n):
        rows[i] = M[i]
    bias(ints, v, gravity, work, scratch, own)
    for i in range(n):
        own[i] += reals[LINK_REALS * i + DAMPING] * v[i]
        out[i] = forces[i] - own[i]
    lock(ints, M)
    for i in range(n):
        if ints[LINK_INTS * i + FLAGS] & LOCKED:
            out[i] = 0.0
    factor(ints, M)
    solve(ints, M, out)
    for k in range(n):
        if ints[LINK_INTS * k + FLAGS] & LOCKED:
            total = own[k] - forces[k]
            for j in range(n):
                if ints[LINK_INTS * j + FLAGS] & LOCKED == 0:
                    total += (rows[n * k + j] if j <= k else rows[n * j + k]) * out[j]
            own[k] = total
    for k in range(n):
        if ints[LINK_INTS * k + FLAGS] & LOCKED:
            out[k] = own[k]
