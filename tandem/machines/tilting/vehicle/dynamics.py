"""The step of the narrow vehicle: frame, body on a tilt joint, three wheels on suspensions, as a tree of joints.

Joints are those of `description.JOINTS`; the tree's equations are tandem/multibody/contact/joint_tree.py's. On it act
springs, dampers and stops of the suspensions, the tilt actuator between frame and body, the drive at the rear wheels,
and the tyres (tandem/machines/car/tyres), each where its wheel is nearest to the ground below it.

A step is cut into equal substeps of at most `SUBSTEP`: forces, accelerations, velocities, then positions. The steer
angle is given; its rate moves nothing.

Tables: integers are the tree's rows. Numbers: gravity (3), what the suspensions carry as it stands (3), the mass of
all; the tree's rows; the tyres in front and behind; the road.
"""

from math import atan, atan2, ceil, cos, isnan, sin

from numba import types

from sim_service.contract.machine import STEP
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner, kernel
from tandem.machines.car.tyres import transient as tyre_keys
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.on_tree import roll_on, speed_at
from tandem.machines.car.tyres.transient import OUT
from tandem.machines.tilting.vehicle.description import (
    CARRIER,
    JOINTS,
    LINK,
    OUTPUTS,
    SPIN,
    STATES,
    TRAVEL,
    I,
    P,
    S,
    V,
    W,
)
from tandem.multibody.contact.joint_tree import accelerations, move_links, place_links
from tandem.multibody.contact.kinds import LINK_REALS, LINK_WORK
from tandem.multibody.contact.kinds import P as PLACE
from tandem.multibody.contact.kinds import V as MOTION
from tandem.multibody.natural.views import view

SUBSTEP = 0.5e-3  # s; a wheel on the spring of its tyre moves at about 120 rad/s
N = len(JOINTS)
N_OUT, N_STATES, N_TYRE, N_NUMBERS = len(OUTPUTS), len(STATES), tyre_keys.STATES, len(T)
G = 9.81  # m/s2
# numbers in front of the tree's
GRAVITY, STANDING, MASS, HEAD = 0, 3, 6, 7
_TREE = LINK_REALS * N
_TYRES = HEAD + _TREE
_ROAD = _TYRES + 2 * N_NUMBERS
_PER_WHEEL = len(V)
# parts of the work behind outputs: forces, accelerations, matrix, scratch of the tree, its reference, a tyre's outputs
_FORCES = N_OUT
_ACCEL = _FORCES + N
_MATRIX = _ACCEL + N
_LINKS = _MATRIX + N * N
_INSIDE = (LINK_WORK + 7 + N) * N + 15
_ORIGIN = _LINKS + _INSIDE
_TYRE = _ORIGIN + 3
_SPEEDS = _TYRE + tyre_keys.OUTPUTS
WORK = _SPEEDS + 12


@inner
def joint_motion(links, out):
    """Velocity of the tilt joint and rate of turn of the body, in the world."""
    body = view(links, LINK_WORK * LINK.TILT, LINK_WORK * (LINK.TILT + 1))
    out[0], out[1], out[2] = speed_at(links, LINK.TILT, body[PLACE], body[PLACE + 1], body[PLACE + 2])
    out[3], out[4], out[5] = body[MOTION], body[MOTION + 1], body[MOTION + 2]


@inner
def roll_with(links, link):
    """Of a link against the vertical, and about its own forward axis."""
    own = view(links, LINK_WORK * link, LINK_WORK * (link + 1))
    rate = own[0] * own[MOTION] + own[3] * own[MOTION + 1] + own[6] * own[MOTION + 2]
    return atan2(own[7], own[8]), rate


@inner
def suspend(state, params, floats, forces):
    """Springs, dampers and stops of the three suspensions."""
    for w in range(3):
        rear = 1 if w > 0 else 0
        q, rate = state[TRAVEL[w]], state[N + TRAVEL[w]]
        force = floats[STANDING + w] + params[P.stiffness_front + rear] * q + params[P.damping_front + rear] * rate
        beyond = max(abs(q) - params[P.travel], 0.0)
        force += params[P.stop_stiffness] * (beyond if q > 0.0 else -beyond)
        forces[TRAVEL[w]] -= force


@inner
def lean(state, params, roll, rate, speed, yaw_rate, forces, dt):
    """The tilt actuator: towards the lean at which nothing pulls sideways, as late and as weak as it is."""
    a = speed * yaw_rate
    aim = -atan(a / G)
    known = params[P.known_mass] * params[P.known_height]
    wanted = -params[P.lean_stiffness] * (roll - aim) - params[P.rate_gain] * rate
    wanted -= known * (G * sin(aim) + a * cos(aim))
    limit = params[P.torque_limit]
    wanted = max(min(wanted, limit), -limit)
    state[S.torque] += dt / (params[P.torque_lag] + dt) * (wanted - state[S.torque])
    forces[LINK.TILT] += state[S.torque] - params[P.damping] * state[N + LINK.TILT]
    return aim


@inner
def wheel(w, ints, links, origin, floats, road, state, params, forces, tyre_out, out, dt):
    """What the ground does to a wheel, on the joints and into its outputs."""
    p = view(floats, _TYRES if w == 0 else _TYRES + N_NUMBERS, _TYRES + N_NUMBERS if w == 0 else _TYRES + 2 * N_NUMBERS)
    spin = state[N + SPIN[w]]
    torque, load, _ = roll_on(
        p, ints, links, CARRIER[w], SPIN[w], 0.0, spin, origin, road, state, N_STATES + N_TYRE * w, dt,
        params[P.grip], -1.0 if w == 2 else 1.0, forces, tyre_out,
    )  # fmt: skip
    forces[SPIN[w]] += torque
    out[V.load], out[V.force_x], out[V.force_y] = load, tyre_out[OUT.FX], tyre_out[OUT.FY]
    out[V.slip_angle], out[V.wheel_speed], out[V.travel] = tyre_out[OUT.ALPHA], spin, state[TRAVEL[w]]


@inner
def drive(state, inputs, params, floats, speed, forces):
    """Torque of the rear wheels for the speed that is wanted; the force that it would be."""
    wanted = inputs[I.speed_wanted]
    if isnan(wanted):
        wanted = params[P.start_speed]
    limit = params[P.force_limit]
    force = min(max(params[P.speed_gain] * floats[MASS] * (wanted - speed), -limit), limit)
    R = floats[_TYRES + N_NUMBERS + T.UNLOADED_RADIUS]
    for w in range(1, 3):
        forces[SPIN[w]] += 0.5 * force * R
    return force


# long: one step from inputs to outputs, in the order of its equations
@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    ints, floats = tables.ints, tables.floats
    reals, road = view(floats, HEAD, HEAD + _TREE), view(floats, _ROAD, len(floats))
    gravity = view(floats, GRAVITY, GRAVITY + 3)
    forces, accel = view(work, _FORCES, _ACCEL), view(work, _ACCEL, _MATRIX)
    matrix, inside = view(work, _MATRIX, _LINKS), view(work, _LINKS, _ORIGIN)
    links, origin = view(inside, 0, LINK_WORK * N), view(work, _ORIGIN, _TYRE)
    tyre_out, before, after = (
        view(work, _TYRE, _SPEEDS),
        view(work, _SPEEDS, _SPEEDS + 6),
        view(work, _SPEEDS + 6, WORK),
    )
    q, v = view(state, 0, N), view(state, N, 2 * N)
    q[LINK.STEER_FRONT], v[LINK.STEER_FRONT] = inputs[I.steer], 0.0
    count = max(ceil(h / SUBSTEP - 1e-9), 1)
    dt = h / count
    force = aim = 0.0
    for _ in range(count):
        place_links(ints, reals, q, links, origin)
        move_links(ints, v, links)
        joint_motion(links, before)
        for i in range(N):
            forces[i] = 0.0
        c, s = cos(q[LINK.YAW]), sin(q[LINK.YAW])
        speed = c * v[LINK.X] + s * v[LINK.Y]
        roll, rate = roll_with(links, LINK.TILT)
        suspend(state, params, floats, forces)
        aim = lean(state, params, roll, rate, speed, v[LINK.YAW], forces, dt)
        force = drive(state, inputs, params, floats, speed, forces)
        for w in range(3):
            out = view(work, W.load_front + _PER_WHEEL * w, W.load_front + _PER_WHEEL * (w + 1))
            wheel(w, ints, links, origin, floats, road, state, params, forces, tyre_out, out, dt)
        accelerations(ints, reals, gravity, q, v, forces, matrix, inside, accel)
        for i in range(N):
            if i != LINK.STEER_FRONT:
                v[i] += dt * accel[i]
                q[i] += dt * v[i]
        if dt > 0.0:
            place_links(ints, reals, q, links, origin)
            move_links(ints, v, links)
            joint_motion(links, after)
            for k in range(6):
                state[S.joint_accel_x + k] = (after[k] - before[k]) / dt
    place_links(ints, reals, q, links, origin)
    move_links(ints, v, links)
    c, s = cos(q[LINK.YAW]), sin(q[LINK.YAW])
    work[W.roll], work[W.roll_rate] = roll_with(links, LINK.TILT)
    work[W.torque], work[W.yaw_rate], work[W.heading] = state[S.torque], v[LINK.YAW], q[LINK.YAW]
    work[W.speed] = c * v[LINK.X] + s * v[LINK.Y]
    aside = c * state[S.joint_accel_y] - s * state[S.joint_accel_x]
    work[W.lateral_acceleration] = aside
    work[W.felt] = aside * cos(work[W.roll]) + (G + state[S.joint_accel_z]) * sin(work[W.roll])
    work[W.roll_wanted], work[W.joint], work[W.base_roll] = aim, q[LINK.TILT], q[LINK.BASE_ROLL]
    work[W.pitch], work[W.x], work[W.y], work[W.z] = q[LINK.PITCH], q[LINK.X], q[LINK.Y], q[LINK.Z]
    work[W.drive_force] = force


@kernel(types.void(INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR))
def place(ints, reals, q, v, links, origin):
    """Links at q and v, for Python."""
    place_links(ints, reals, q, links, origin)
    move_links(ints, v, links)
