"""Impulses of unilateral contacts with Coulomb friction: block Gauss-Seidel over the contacts, and Newton's method.

With w = G lam + b the velocities of the contacts at the end of a step (each: along its normal, and two across it) and
lam their impulses, find

    0 <= lam_n  _|_  w_n + c lam_n >= 0          c: compliance over the square of the step, 0 for rigid bodies
    |lam_t| <= mu lam_n,  w_t = -s lam_t,  s >= 0, and s = 0 within the cone

A sweep solves each contact exactly with the others as they are: its normal impulse, then the friction of it, a
quadratic form over a disc (for a point outside, the root of the secular equation |(G_t + s)^-1 b| = mu lam_n by
Newton's method, which converges from s = 0 on from one side). Sweeps end when no impulse changes by more than
`tolerance` of the largest.

Where contacts brace each other (more of them under one body than it has freedoms) sweeps need hundreds of rounds. So
from sweep `FEW` on there are Newton steps over all contacts at once before each, on the functions of Alart and Curnier
(pressing: w_n + c lam_n; sticking: w_t; slipping: lam_t - mu lam_n y / |y| with y = lam_t - r w_t), no farther than to
where the first that sticks begins to slip. Solved always means that a sweep changes nothing.

Braced contacts may slip by 1e-7 m/s against impulses that fill their cones; which of them do is found by neither
within hundreds of rounds. What is not solved after `DIRECT` sweeps is therefore begun again from nothing with a
`yielding`: every contact gives way by it times its impulse, along the normal and across. With much of it contacts
hardly feel each other, and Newton's method converges at once; it is then taken away by powers of ten, in smaller
strides where one fails, down to what the last digits do not show. Where impulses are not determined (a rigid body on
four feet) those found are the ones of bodies that are equally soft, in the limit.

Work is bounded, in multiplications: what would take longer (scores of contacts at once, as of a machine that lies on
its side) ends with the sweep it has come to, and its last change says that it is not solved.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from sync.compile.jit import inner, merged
from tandem.multibody.natural.views import view

STEPS = 10  # of Newton's method between two sweeps, at most
FEW = 3  # sweeps before the first Newton step
DIRECT = 8  # sweeps before contacts are made to yield
LEVEL = 8  # sweeps for one yielding, at most
FIRST, STRIDE, LAST = 1e-2, 1e-2, 1e-15  # yielding, over the largest element: at first, from one to the next, at last
CHECKED = 1e-9  # from here on each is tried without any
SHORTEST = 0.97  # a stride that hardly changes anything: given up
SMALL = 1e-15  # of the largest element: a pivot below it is none, and its impulse stays as it is


class Contacts(NamedTuple):
    """Contacts at once, as in the equations above: of each three rows of G, b and lam, and a number of the others."""

    G: np.ndarray
    b: np.ndarray
    friction: np.ndarray
    compliance: np.ndarray
    lam: np.ndarray


@inner
def sweep(contacts, yielding, count):
    """One round over all contacts; the largest change of an impulse, over the largest."""
    G, b, friction, compliance, lam = contacts
    size = 3 * count
    largest = 0.0
    for contact in range(count):
        n = 3 * contact
        w = b[n]
        for j in range(size):
            w += G[size * n + j] * lam[j]
        soft = compliance[contact] + yielding
        new = lam[n] - (w + soft * lam[n]) / max(G[size * n + n] + soft, 1e-300)
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
        xx, yy = xx + yielding + least, yy + yielding + least
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
    scale = 1e-300
    for j in range(size):
        scale = max(scale, abs(lam[j]))
    return largest / scale


@merged
def write_open(lam, n, size, A):
    """Rows of a contact that is open: no impulse."""
    wide = size + 1
    for i in range(n, n + 3):
        for j in range(size):
            A[wide * i + j] = 0.0
        A[wide * i + i] = 1.0
        A[wide * i + size] = -lam[i]


@merged
def write_slipping(mu, u, v, r, lam, n, size, A):
    """Rows of a contact that slips: those of w_t become those of lam_t - mu lam_n y / |y|, with y = (u, v)."""
    wide, x, y = size + 1, n + 1, n + 2
    long, reach = sqrt(u * u + v * v), mu * lam[n]
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
    A[wide * x + n] -= mu * u
    A[wide * y + n] -= mu * v
    A[wide * x + size] = reach * u - lam[x]
    A[wide * y + size] = reach * v - lam[y]


@merged
def write_rows(contacts, yielding, contact, size, A):
    """How a contact's functions change with all impulses, and how far they are from zero: open, sticking, slipping."""
    G, b, friction, compliance, lam = contacts
    wide, n = size + 1, 3 * contact
    x, y = n + 1, n + 2
    for i in range(n, n + 3):
        total = b[i]
        for j in range(size):
            A[wide * i + j] = G[size * i + j]
            total += G[size * i + j] * lam[j]
        A[wide * i + size] = -total
    for i in range(n, n + 3):
        soft = yielding + (compliance[contact] if i == n else 0.0)
        A[wide * i + i] += soft
        A[wide * i + size] -= soft * lam[i]
    r = 2.0 / (A[wide * x + x] + A[wide * y + y] + 1e-300)
    pressed = lam[n] + A[wide * n + size] / max(A[wide * n + n], 1e-300) > 0.0
    if not pressed:
        write_open(lam, n, size, A)
        return
    least = 1e-15 * (G[size * x + x] + G[size * y + y]) + 1e-300
    A[wide * x + x] += least
    A[wide * y + y] += least
    u, v = lam[x] + r * A[wide * x + size], lam[y] + r * A[wide * y + size]
    if not sqrt(u * u + v * v) <= friction[contact] * lam[n]:
        write_slipping(friction[contact], u, v, r, lam, n, size, A)


@merged
def solve_rows(size, A):
    """Gauss's elimination: rows scaled alike, exchanged, and where nothing determines an impulse it stays."""
    wide = size + 1
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


@merged
def share_within_cones(friction, lam, size, A):
    """How far to go: until the first that sticks begins to slip. Two that brace each other would take any impulse."""
    wide, share = size + 1, 1.0
    for n in range(0, size, 3):
        x, y, mu = lam[n + 1], lam[n + 2], friction[n // 3]
        dn, dx, dy = A[wide * n + size], A[wide * (n + 1) + size], A[wide * (n + 2) + size]
        inside = mu * mu * lam[n] * lam[n] - x * x - y * y
        if inside > 1e-6 * mu * mu * lam[n] * lam[n]:
            square, half = dx * dx + dy * dy - mu * mu * dn * dn, x * dx + y * dy - mu * mu * lam[n] * dn
            if square + 2.0 * half > inside:
                share = min(share, inside / (half + sqrt(max(half * half + square * inside, 0.0))))
    return share


@inner
def newton_step(contacts, yielding, count, A):
    """One step for all impulses, in place; its size over the largest of them.

    `A`: scratch for the matrix and its right side, 3 count (3 count + 1).
    """
    friction, lam = contacts.friction, contacts.lam
    size = 3 * count
    for contact in range(count):
        write_rows(contacts, yielding, contact, size, A)
    solve_rows(size, A)
    share = share_within_cones(friction, lam, size, A)
    moved, largest = 0.0, 1e-300
    for k in range(size):
        change = A[(size + 1) * k + size]
        lam[k] += share * change
        moved, largest = max(moved, abs(change)), max(largest, abs(lam[k]))
    for contact in range(count):  # back onto the cones
        n = 3 * contact
        lam[n] = max(lam[n], 0.0)
        long, reach = sqrt(lam[n + 1] * lam[n + 1] + lam[n + 2] * lam[n + 2]), friction[contact] * lam[n]
        if long > reach:
            lam[n + 1] *= reach / long
            lam[n + 2] *= reach / long
    return moved / largest


@inner
def converge(contacts, yielding, count, few, cap, tolerance, budget, A):
    """Sweeps until one changes nothing, Newton steps before each from `few` on.

    How many, the last change, and what is left of the budget.
    """
    change = 1e300
    of_sweep = 9 * count * count
    of_newton = of_sweep * (count + 2)
    for k in range(cap):
        if k >= few:
            for _ in range(STEPS):
                if budget < of_newton:
                    break
                budget -= of_newton
                if newton_step(contacts, yielding, count, A) <= 1e-3:
                    break
        change = sweep(contacts, yielding, count)
        budget -= of_sweep
        if change <= tolerance or budget < of_newton:
            return k + 1, change, budget
    return cap, change, budget


@inner
def solve_impulses(contacts, count, cap, tolerance, budget, scratch):
    """Impulses from an estimate of them.

    How many sweeps that took, the last change over the largest impulse, and what is left of the budget. `scratch`:
    3 count (3 count + 2).
    """
    G, lam = contacts.G, contacts.lam
    size = 3 * count
    solved, A = view(scratch, 0, size), view(scratch, size, size * (size + 2))
    used, change, budget = converge(contacts, 0.0, count, FEW, min(cap, DIRECT), tolerance, budget, A)
    if change <= tolerance or budget < 9 * count * count * (count + 2):
        return used, change, budget
    largest = 1e-300
    for i in range(size):
        largest = max(largest, G[size * i + i])
        lam[i] = solved[i] = 0.0
    yielding = last = FIRST * largest
    stride = STRIDE
    while used < cap and stride < SHORTEST and budget > 0:
        k, change, budget = converge(contacts, yielding, count, 0, min(cap - used, LEVEL), tolerance, budget, A)
        used += k
        if change <= tolerance:
            for j in range(size):
                solved[j] = lam[j]
            last = yielding
            if yielding <= CHECKED * largest:
                change = sweep(contacts, 0.0, count)
                used += 1
                if change <= tolerance:
                    return used, change, budget
                if yielding <= LAST * largest:
                    break
        else:
            stride = sqrt(stride)
        for j in range(size):
            lam[j] = solved[j]
        yielding = max(last * stride, LAST * largest)
    change = sweep(contacts, 0.0, count)
    return used + 1, change, budget
