"""Convex surfaces of revolution by their support function, and the point of one that is nearest to a plane.

A surface has an axis a (unit) through its centre c. Its support function H(u) is how far it reaches from c in a unit
direction d with u = d . a; the point that reaches farthest is the gradient

    P = c + (H - u H') d + H' a

so the point nearest to a plane with normal n, d = -n, needs no iteration whatever the attitude. Kinds, and their
figures:

    SPHERE     radius
    SPHEROID   half length along the axis, radius across
    RING       radius of a circle, radius of the tube around it
    ROLLER     R, R1, cos psi, u_max, s_edge, r_edge

A ROLLER is the roller of seed 004: the envelope of the plane at distance R from the centre
of a disk, on an axis at distance R1 that is inclined by psi against the disk: H = R - R1 sqrt(1 - u^2 / cos^2 psi).
With u = -c_beta = -cos psi sin q this is the paper's explicit tracking, P = c - m i2 - h n, and holds also for a disk
that is not upright. Its tips are cut where |u| = u_max = cos psi sin alpha; beyond it the edge of the cut, a circle of
radius r_edge at s_edge, is what is nearest. There H and H' go on without a jump.

ROLLER_EXPLICIT and ROLLER_IMPLICIT are the two trackings of the paper in its own words; they need the disk besides: rho
(unit, from the centre of the roller to that of the disk) and k1 (unit, its axis), and an upright disk.
"""

from math import sqrt

from numba import float64, int64

from sync.compile.array_types import CONSTANTS, VECTOR
from sync.compile.jit import inner, kernel
from tandem.multibody.contact.kinds import (
    RING,
    ROLLER,
    ROLLER_EXPLICIT,
    ROLLER_IMPLICIT,
    SPHERE,
    SPHEROID,
)
from tandem.multibody.natural.views import view


@inner
def support(kind, data, u):
    """H, H' and whether the smooth part of the surface is meant (1) or an edge (0)."""
    if kind == SPHERE:
        return data[0], 0.0, 1
    across = sqrt(max(1.0 - u * u, 1e-30))
    if kind == SPHEROID:
        a, b = data[0], data[1]
        H = sqrt(a * a * u * u + b * b * (1.0 - u * u))
        return H, (a * a - b * b) * u / H, 1
    if kind == RING:
        return data[0] * across + data[1], -data[0] * u / across, 1
    R, R1, c = data[0], data[1], data[2]
    if abs(u) <= data[3]:
        s = u / c
        root = sqrt(1.0 - s * s)
        return R - R1 * root, R1 * s / (c * root), 1
    if u > 0.0:
        return data[4] * u + data[5] * across, data[4] - data[5] * u / across, 0
    return -data[4] * u + data[5] * across, -data[4] - data[5] * u / across, 0


@inner
def explicit_roller(data, i2, rho, k1, arm):
    """The paper's explicit tracking: from the centre of the roller to the point of contact, normal (0, 0, 1)."""
    cos_q = rho[2]
    sin_q = rho[0] * k1[1] - rho[1] * k1[0]  # (n x rho) . k1
    m = data[1] * sin_q / (cos_q * data[2])
    h = data[0] - data[1] / cos_q
    arm[0] = -m * i2[0]
    arm[1] = -m * i2[1]
    arm[2] = -m * i2[2] - h


@inner
def implicit_roller(data, i2, rho, k1, arm):
    """The paper's implicit tracking: the same by mu, found from k2 . (P - c) = 0."""
    size = sqrt(i2[0] * i2[0] + i2[1] * i2[1])
    kx, ky = i2[1] / size, -i2[0] / size  # k2 = i2 x n / |i2 x n|
    mu = -data[1] * (rho[0] * kx + rho[1] * ky) / (k1[0] * kx + k1[1] * ky)  # n . k2 = 0
    arm[0] = data[1] * rho[0] + mu * k1[0]
    arm[1] = data[1] * rho[1] + mu * k1[1]
    arm[2] = data[1] * rho[2] - data[0] + mu * k1[2]


@inner
def nearest_along(kind, data, axis, nx, ny, nz, arm):
    """`arm` leads from the centre to the point that is farthest against the normal n; 1 if smooth, 0 of an edge."""
    u = -(axis[0] * nx + axis[1] * ny + axis[2] * nz)
    H, slope, smooth = support(min(kind, ROLLER), data, u)
    along = H - u * slope
    arm[0] = slope * axis[0] - along * nx
    arm[1] = slope * axis[1] - along * ny
    arm[2] = slope * axis[2] - along * nz
    return smooth


@inner
def nearest_to_floor(kind, data, axis, rho, k1, arm):
    """`arm` leads from the centre to the lowest point; 1 where that is of the smooth surface, 0 of an edge."""
    smooth = 1
    if kind >= ROLLER and abs(axis[2]) > data[3]:
        kind = ROLLER
    if kind == ROLLER_EXPLICIT and rho[2] > 0.0:
        explicit_roller(data, axis, rho, k1, arm)
    elif kind == ROLLER_IMPLICIT and rho[2] > 0.0:
        implicit_roller(data, axis, rho, k1, arm)
    else:
        u = -axis[2]
        H, slope, smooth = support(min(kind, ROLLER), data, u)
        along = H - u * slope
        arm[0] = slope * axis[0]
        arm[1] = slope * axis[1]
        arm[2] = slope * axis[2] - along
    return smooth


@kernel(int64(int64, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy")
def track(kind, data, axis, rho, k1, arm):
    """`nearest_to_floor` for Python: studies, scenes and tests."""
    return nearest_to_floor(kind, data, axis, rho, k1, arm)


@kernel(float64(int64, CONSTANTS, VECTOR, VECTOR, VECTOR, int64), error_model="numpy")
def repeat_tracking(kind, data, axes, rhos, k1s, count):
    """So many trackings over a table of attitudes, to measure what one costs; the sum of the heights."""
    total = 0.0
    rows = len(axes) // 3 - 1
    arm = view(axes, 3 * rows, 3 * rows + 3)  # the last row takes the results
    for k in range(count):
        at = 3 * (k % rows)
        nearest_to_floor(kind, data, view(axes, at, at + 3), view(rhos, at, at + 3), view(k1s, at, at + 3), arm)
        total += arm[2]
    return total
