"""The laws of the buggy's forces: one text for natural coordinates (forces.py), for relative ones and their derivatives
(relative_forces.py), and for what is traced of it for GPUs (relative_corners.py).

Every function takes floats and numbers with derivatives (multibody/relative/dual.py) alike; vectors are tuples of
three. What only one formulation knows stays with it: of the hook wheels on sharp roads or lying, body contact and
stiffnesses; of the other derivatives along the tree's velocities.
"""

from math import sqrt

from sync.compile.jit import inner
from tandem.machines.car.buggy.description import P
from tandem.machines.car.buggy.slots import FRAME, FRAMES, STOP_SHARES, STOPS
from tandem.multibody.natural.elements import half_reciprocal
from tandem.multibody.spatial import cross, dot

# first port of each kind: wheels (centre, spin, basis of the knuckle), springs, rear axle, chassis, anti-roll bars
WHEEL_PORTS, SPRING, AXLE, CHASSIS, ANTI_ROLL = 13, 52, 64, 66, 78
AXLES = 90  # with a powertrain: spin of all wheels
DIFFERENTIAL = int(P.differential_lock)  # and the three behind it

_PLATES_CREEP = 0.05  # rad/s; below it, plates of a differential that hold creep
_DRIVES = 0.5  # rad/s of the axle; slower, its ramps change over from coast to drive
_ROUND = 0.02  # m/s; below it a damper changes over from bump to rebound
_STOP_FREE, _STOP_HARD = 0.01, 0.015  # m; a stop that is pressed more than the first hardens, twofold per the second


# ---- a wheel ---------------------------------------------------------------------------------------------------------


@inner
def axle_of(params, w, x):
    """The axle of a wheel, or its rate, from the basis of its knuckle."""
    at, frame = WHEEL_PORTS * w + 4, FRAMES + FRAME * w + 9
    a, b, c = params[frame], params[frame + 1], params[frame + 2]
    return (
        0.0 + a * x[at] + b * x[at + 3] + c * x[at + 6], 0.0 + a * x[at + 1] + b * x[at + 4] + c * x[at + 7],
        0.0 + a * x[at + 2] + b * x[at + 5] + c * x[at + 8],
    )  # fmt: skip


@inner
def turning_about(a, basis, metric, rates):
    """Along a, the angular velocity of a body whose basis has these rates."""
    own = 0.0
    for k in range(3):
        rx, ry, rz = half_reciprocal(basis, metric, k)
        ex, ey, ez = rates[3 * k], rates[3 * k + 1], rates[3 * k + 2]
        own += a[0] * (ry * ez - rz * ey) + a[1] * (rz * ex - rx * ez) + a[2] * (rx * ey - ry * ex)
    return own


@inner
def normal_of(slope_x, slope_y):
    size = sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
    return -slope_x / size, -slope_y / size, 1.0 / size


@inner
def reach_to(c, px, py, pz, n, cosine):
    """From a wheel's centre down its plane to a road with this point and normal."""
    return ((c[0] - px) * n[0] + (c[1] - py) * n[1] + (c[2] - pz) * n[2]) / cosine


@inner
def arm_of(reach, cosine, an, a, n):
    """From the centre of a wheel that stands on its tread to where it touches."""
    dx, dy, dz = (an * a[0] - n[0]) / cosine, (an * a[1] - n[1]) / cosine, (an * a[2] - n[2]) / cosine
    return reach * dx, reach * dy, reach * dz


@inner
def contact_axes(a, n, upright):
    """Ahead and to the left along the road."""
    ahead = cross(a, n)
    t = ahead[0] / upright, ahead[1] / upright, ahead[2] / upright
    return t, cross(n, t)


@inner
def carried(v, w, d):
    """Velocity at d from a point that has velocity v, of a body that turns with w."""
    return v[0] + w[1] * d[2] - w[2] * d[1], v[1] + w[2] * d[0] - w[0] * d[2], v[2] + w[0] * d[1] - w[1] * d[0]


@inner
def along_normal(push, cosine):
    """Of the force of a tyre's vertical spring, which is in the plane of its wheel."""
    return push * (1.0 / cosine)


@inner
def contact_force(n, t, s, load, Fx, Fy):
    return (
        Fx * t[0] + Fy * s[0] + load * n[0], Fx * t[1] + Fy * s[1] + load * n[1], Fx * t[2] + Fy * s[2] + load * n[2],
    )  # fmt: skip


@inner
def contact_moment(n, t, s, d, a, g, Mx, My, Mz, more):
    """About the wheel's centre: of a force g at d and the tyre's moments, `more` along the axle."""
    return (
        Mx * t[0] + My * s[0] + Mz * n[0] + more * a[0] + d[1] * g[2] - d[2] * g[1],
        Mx * t[1] + My * s[1] + Mz * n[1] + more * a[1] + d[2] * g[0] - d[0] * g[2],
        Mx * t[2] + My * s[2] + Mz * n[2] + more * a[2] + d[0] * g[1] - d[1] * g[0],
    )


# ---- springs ---------------------------------------------------------------------------------------------------------


@inner
def spring_line(x, v):
    """Length of a spring, its direction, and how fast it grows."""
    length = sqrt(dot(x, x))
    u = x[0] / length, x[1] / length, x[2] / length
    return length, u, dot(u, v)


@inner
def damper(front, live, speed):
    """Force of a damper per speed but for its rounding, and what rounds it: mean + half speed / root."""
    bump = live[P.front_damper_bump] if front else live[P.rear_damper_bump]
    rebound = live[P.front_damper_rebound] if front else live[P.rear_damper_rebound]
    return 0.5 * (rebound + bump), 0.5 * (rebound - bump), sqrt(speed * speed + _ROUND * _ROUND)


@inner
def rate_and_damping(front, live, speed):
    """Rate of a spring, and what its damper's force grows by with speed."""
    rate = live[P.front_spring_rate] if front else live[P.rear_spring_rate]
    mean, half, root = damper(front, live, speed)
    return rate, mean + half * speed / root * (1.0 + (_ROUND / root) ** 2)


@inner
def bumper(rate, depth):
    """Force and stiffness of a stop: linear at first, then so hard that the suspension is never turned inside out."""
    more = max(depth - _STOP_FREE, 0.0)
    hard = (more / _STOP_HARD) ** 2
    return rate * (depth + hard * more), rate * (1.0 + 3.0 * hard)


@inner
def bumper_energy(rate, depth):
    more = max(depth - _STOP_FREE, 0.0)
    return rate * (0.5 * depth * depth + 0.25 * more * more * (more / _STOP_HARD) ** 2)


@inner
def stops(front, live, params, length):
    """Rates of both stops of a spring, and how deep each is pressed."""
    axle = 0 if front else 2
    low, high = params[STOP_SHARES + axle], params[STOP_SHARES + axle + 1]
    pressed, extended = max(params[STOPS + axle] - length, 0.0), max(length - params[STOPS + axle + 1], 0.0)
    return live[P.stop_rate] * low, pressed, live[P.stop_rate] * high, extended


@inner
def spring_push(front, live, params, length, speed):
    """Force of a spring, its damper and its stops, that pushes its ends apart."""
    rate = live[P.front_spring_rate] if front else live[P.rear_spring_rate]
    free = live[P.front_spring_length] if front else live[P.rear_spring_length]
    mean, half, root = damper(front, live, speed)
    low, pressed, high, extended = stops(front, live, params, length)
    apart, _ = bumper(low, pressed)
    together, _ = bumper(high, extended)
    return rate * (free - length) - (mean + half * speed / root) * speed + apart - together


# ---- axle, chassis, bars ---------------------------------------------------------------------------------------------


@inner
def coupling(live, at, torque, speed, apart):
    """What holds the wheels of an axle together, N m s: a viscous coupling, and plates that are pressed by springs and
    by the torque they carry. `at`: where its lock, preload and both biases are given."""
    drives = min(max((speed if torque >= 0.0 else -speed) / _DRIVES, -1.0), 1.0)
    drive, coast = live[at + 2], live[at + 3]
    bias = 0.5 * (drive + coast) + 0.5 * drives * (drive - coast)
    friction = live[at + 1] + 0.5 * bias * abs(torque)
    return live[at] + friction / sqrt(apart * apart + _PLATES_CREEP * _PLATES_CREEP)


@inner
def air(live, v, ahead, up):
    """Force on a chassis with this velocity and these axes; moment about the one to its left; power taken."""
    speed = sqrt(dot(v, v))
    drag = 0.5 * live[P.air_density] * live[P.drag_area] * speed
    g, moment = (-drag * v[0], -drag * v[1], -drag * v[2]), 0.0 * speed
    if live[P.lift_area] != 0.0 or live[P.air_pitch_volume] != 0.0:
        # of the air that comes from ahead
        against = dot(v, ahead)
        pressure = 0.5 * live[P.air_density] * against * against
        lift = pressure * live[P.lift_area]
        g = g[0] + lift * up[0], g[1] + lift * up[1], g[2] + lift * up[2]
        moment = pressure * live[P.air_pitch_volume]
    return g, moment, drag * speed


@inner
def rotated_by(a, b, c, e0, e1, e2):
    """Moment with these components in a body's axes."""
    return (
        a * e0[0] + b * e1[0] + c * e2[0], a * e0[1] + b * e1[1] + c * e2[1], a * e0[2] + b * e1[2] + c * e2[2],
    )  # fmt: skip


@inner
def between_ends(x, axle):
    """From one lower ball joint of an axle to the other."""
    at = ANTI_ROLL + 6 * axle
    return x[at] - x[at + 3], x[at + 1] - x[at + 4], x[at + 2] - x[at + 5]


@inner
def couple(pull, up, d):
    """Of a force along the chassis' height at one lower ball joint and its opposite at the other, d apart; and the
    moment on the chassis, which takes the opposite forces where the joints are, so that nothing is left over."""
    m = cross(d, up)
    return (pull * up[0], pull * up[1], pull * up[2]), (pull * m[0], pull * m[1], pull * m[2])
