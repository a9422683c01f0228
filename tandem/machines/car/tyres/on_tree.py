"""A wheel of a tree of joints on the ground: where it is nearest to it, and what the ground does to the joints.

The tree is tandem/multibody/contact/joint_tree.py's, the ground tandem/multibody/ground/surface.py's; its plane is
taken where the wheel points down to it.
"""

from math import atan2, sqrt

from sync.compile.jit import inner
from tandem.machines.car.tyres.formula import rolling_radius, spring
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.transient import OUT, tyre
from tandem.multibody.contact.kinds import LINK_INTS, LINK_WORK, PARENT, A
from tandem.multibody.contact.kinds import P as PLACE
from tandem.multibody.contact.kinds import S as AXIS
from tandem.multibody.contact.kinds import V as MOTION
from tandem.multibody.ground.surface import surface
from tandem.multibody.natural.views import view


# long: plain numbers, a force and where it is
@inner
def push(ints, links, link, px, py, pz, fx, fy, fz, mx, my, mz, forces):
    """A force at a place about the reference and a moment, on a link."""
    tx, ty, tz = mx + py * fz - pz * fy, my + pz * fx - px * fz, mz + px * fy - py * fx
    j = link
    while j >= 0:
        s = view(links, LINK_WORK * j + AXIS, LINK_WORK * j + AXIS + 6)
        forces[j] += s[0] * tx + s[1] * ty + s[2] * tz + s[3] * fx + s[4] * fy + s[5] * fz
        j = ints[LINK_INTS * j + PARENT]


@inner
def speed_at(links, link, px, py, pz):
    """Of a link's point there."""
    m = view(links, LINK_WORK * link + MOTION, LINK_WORK * link + MOTION + 6)
    return m[3] + m[1] * pz - m[2] * py, m[4] + m[2] * px - m[0] * pz, m[5] + m[0] * py - m[1] * px


# long: one wheel, from where it is to what the ground does to it; wide: whose wheel, and the numbers it is given
@inner
def roll_on(p, ints, links, carrier, axle, aside, spin, origin, road, state, at, dt, grip, side, forces, out):
    """Pushes on the joints that carry it. Returns torque about the axle, load, and depth in the ground.

    The wheel's middle is `aside` from the place of the link `axle`, along its joint; its tyre's states begin at `at`;
    `out` is the tyre's (transient.OUT). The torque is the wheel's alone: what carries it has that of the force already.
    """
    own = view(links, LINK_WORK * axle, LINK_WORK * (axle + 1))
    ax, ay, az = own[A], own[A + 1], own[A + 2]  # to the left
    cx, cy, cz = own[PLACE] + aside * ax, own[PLACE + 1] + aside * ay, own[PLACE + 2] + aside * az
    z, slope_x, slope_y, _ = surface(road, cx + origin[0], cy + origin[1])
    size = sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
    nx, ny, nz = -slope_x / size, -slope_y / size, 1.0 / size
    lean = ax * nx + ay * ny + az * nz
    dx, dy, dz = lean * ax - nx, lean * ay - ny, lean * az - nz  # down, in the plane of the wheel
    size = sqrt(dx * dx + dy * dy + dz * dz)
    dx, dy, dz = dx / size, dy / size, dz / size
    R = p[T.UNLOADED_RADIUS]
    px, py, pz = cx + R * dx, cy + R * dy, cz + R * dz
    z, slope_x, slope_y, friction = surface(road, px + origin[0], py + origin[1])
    steep = -(dx * nx + dy * ny + dz * nz)
    sunk = (z - pz - origin[2]) * nz / steep
    px, py, pz = px - sunk * dx, py - sunk * dy, pz - sunk * dz
    vx, vy, vz = speed_at(links, carrier, px, py, pz)
    load = 0.0
    if sunk > 0.0:
        force, _, _ = spring(p, sunk, spin)
        load = max(force - p[T.VERTICAL_DAMPING] * (vx * nx + vy * ny + vz * nz), 0.0)
    # ahead along the ground, and to the left along it
    fx, fy, fz = ay * nz - az * ny, az * nx - ax * nz, ax * ny - ay * nx
    size = sqrt(fx * fx + fy * fy + fz * fz)
    fx, fy, fz = fx / size, fy / size, fz / size
    lx, ly, lz = ny * fz - nz * fy, nz * fx - nx * fz, nx * fy - ny * fx
    r_e = rolling_radius(p, max(sunk, 0.0), load, spin)
    tyre(
        p, state, state, at, dt, load, vx * fx + vy * fy + vz * fz, vx * lx + vy * ly + vz * lz, spin, r_e,
        atan2(lean, steep), grip * friction, side, False, 0.0, out,
    )  # fmt: skip
    Fx, Fy, Mx, Mz = out[OUT.FX], out[OUT.FY], out[OUT.MX], out[OUT.MZ]
    push(
        ints, links, carrier, px, py, pz,
        Fx * fx + Fy * lx + load * nx, Fx * fy + Fy * ly + load * ny, Fx * fz + Fy * lz + load * nz,
        Mx * fx + Mz * nx, Mx * fy + Mz * ny, Mx * fz + Mz * nz, forces,
    )  # fmt: skip
    return out[OUT.MY] - r_e * Fx, load, sunk
