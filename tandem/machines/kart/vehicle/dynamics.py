"""The step of the kart: two halves of a frame on a torsion spring, steered front wheels, one rear axle, four tyres.

Joints are those of `description.JOINTS`; the tree's equations are tandem/multibody/contact/joint_tree.py's, its wheels'
tandem/machines/car/tyres/on_tree.py's. There are no suspensions: tyres and the frame's twist carry the kart. Kingpins
are inclined, so that steering lifts one front wheel against the frame and lowers the other; the inner rear wheel comes
up with the latter. They stand where the hand wheel has them, and what that takes is the hand's torque, by virtual work.

A step is cut into equal substeps of at most `SUBSTEP`: forces, accelerations, velocities, then positions. A kart that
lies on its side (80 degrees) has diverged: only its wheels meet the ground.
"""

from math import ceil, cos, nan, sin, sqrt

from numba import types

from sim_service.contract.machine import STEP
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner, kernel
from tandem.machines.car.tyres import transient as tyre_keys
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.on_tree import push, roll_on
from tandem.machines.car.tyres.transient import OUT
from tandem.machines.kart.steering import front_angles, front_derivatives
from tandem.machines.kart.vehicle.description import (
    CARRIER,
    JOINTS,
    LINK,
    OUTPUTS,
    REAR_FRAME,
    SPIN,
    STATES,
    I,
    P,
    V,
    W,
)
from tandem.multibody.contact.joint_tree import accelerations, energy, move_links, place_links
from tandem.multibody.contact.kinds import LINK_REALS, LINK_WORK
from tandem.multibody.contact.kinds import P as PLACE
from tandem.multibody.natural.views import view

SUBSTEP = 0.5e-3  # s; a wheel on the spring of its tyre turns at about 300 rad/s
FALLEN = 1.4  # rad; on its side
N = len(JOINTS)
N_OUT, N_STATES, N_TYRE, N_NUMBERS = len(OUTPUTS), len(STATES), tyre_keys.STATES, len(T)
G = 9.81  # m/s2
AIR = 1.2  # kg/m3
# numbers in front of the tree's: gravity (3), half the rear track, inertia of all that turns with the axle
GRAVITY, HALF_TRACK, AXLE, HEAD = 0, 3, 4, 5
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
WORK = _TYRE + tyre_keys.OUTPUTS


@inner
def wheel(w, ints, links, origin, floats, road, state, params, forces, tyre_out, out, dt):
    """What the ground does to a wheel, on the joints and into its outputs."""
    front, side = w < 2, 1.0 if w % 2 == 0 else -1.0
    p = view(floats, _TYRES if front else _TYRES + N_NUMBERS, _TYRES + N_NUMBERS if front else _TYRES + 2 * N_NUMBERS)
    spin = state[N + SPIN[w]]
    torque, load, sunk = roll_on(
        p, ints, links, CARRIER[w], SPIN[w], 0.0 if front else side * floats[HALF_TRACK], spin, origin, road, state,
        N_STATES + N_TYRE * w, dt, params[P.grip], side, forces, tyre_out,
    )  # fmt: skip
    forces[SPIN[w]] += torque
    out[V.load], out[V.force_x], out[V.force_y] = load, tyre_out[OUT.FX], tyre_out[OUT.FY]
    out[V.slip_angle], out[V.wheel_speed], out[V.lift] = tyre_out[OUT.ALPHA], spin, -sunk


@inner
def drive(state, inputs, params, floats, forces, dt):
    """Torques of the engine and of the brake on the rear axle; the brake takes no more than stops it."""
    spin = state[N + LINK.AXLE]
    throttle = min(max(inputs[I.throttle], 0.0), 1.0)
    most = params[P.most_torque]
    if abs(spin) * most > params[P.power]:
        most = params[P.power] / abs(spin)
    engine = throttle * most - (1.0 - throttle) * params[P.engine_drag] * spin
    forces[LINK.AXLE] += engine
    limit = params[P.brake_torque] * min(max(inputs[I.brake], 0.0), 1.0)
    brake = 0.0
    if dt > 0.0:
        stop = spin * floats[AXLE] / dt + forces[LINK.AXLE]
        brake = -min(max(stop, -limit), limit)
    forces[LINK.AXLE] += brake
    return engine, brake


@inner
def fly(ints, links, params, along, across, c, s, forces):
    """Drag of the air on the driver."""
    size = 0.5 * AIR * params[P.drag_area] * sqrt(along * along + across * across)
    fx, fy = -size * (c * along - s * across), -size * (s * along + c * across)
    own = view(links, LINK_WORK * REAR_FRAME, LINK_WORK * (REAR_FRAME + 1))
    up = params[P.rear_height]
    px, py, pz = own[PLACE] + up * own[2], own[PLACE + 1] + up * own[5], own[PLACE + 2] + up * own[8]
    push(ints, links, REAR_FRAME, px, py, pz, fx, fy, 0.0, 0.0, 0.0, 0.0, forces)


# long: one step from inputs to outputs, in the order of its equations
@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    ints, floats = tables.ints, tables.floats
    reals, road = view(floats, HEAD, HEAD + _TREE), view(floats, _ROAD, len(floats))
    gravity = view(floats, GRAVITY, GRAVITY + 3)
    forces, accel = view(work, _FORCES, _ACCEL), view(work, _ACCEL, _MATRIX)
    matrix, inside = view(work, _MATRIX, _LINKS), view(work, _LINKS, _ORIGIN)
    links, origin = view(inside, 0, LINK_WORK * N), view(work, _ORIGIN, _TYRE)
    tyre_out = view(work, _TYRE, WORK)
    q, v = view(state, 0, N), view(state, N, 2 * N)
    angle, ratio, ackermann = inputs[I.steering_angle], params[P.steering_ratio], params[P.ackermann]
    track, wheelbase, toe = params[P.track_front], params[P.wheelbase], params[P.front_toe]
    left, right = front_angles(angle, ratio, ackermann, track, wheelbase)
    by_left, by_right = front_derivatives(angle, ratio, ackermann, track, wheelbase)
    q[LINK.STEER_FL], q[LINK.STEER_FR] = left - toe, right + toe
    v[LINK.STEER_FL] = v[LINK.STEER_FR] = 0.0
    count = max(ceil(h / SUBSTEP - 1e-9), 1)
    dt = h / count
    for _ in range(count):
        place_links(ints, reals, q, links, origin)
        move_links(ints, v, links)
        for i in range(N):
            forces[i] = 0.0
        c, s = cos(q[LINK.YAW]), sin(q[LINK.YAW])
        fly(ints, links, params, c * v[LINK.X] + s * v[LINK.Y], c * v[LINK.Y] - s * v[LINK.X], c, s, forces)
        forces[LINK.TWIST] -= params[P.twist_stiffness] * q[LINK.TWIST] + params[P.twist_damping] * v[LINK.TWIST]
        for w in range(4):
            out = view(work, W.load_fl + _PER_WHEEL * w, W.load_fl + _PER_WHEEL * (w + 1))
            wheel(w, ints, links, origin, floats, road, state, params, forces, tyre_out, out, dt)
        work[W.drive_torque], work[W.brake_torque] = drive(state, inputs, params, floats, forces, dt)
        accelerations(ints, reals, gravity, q, v, forces, matrix, inside, accel)
        work[W.steering_torque] = by_left * accel[LINK.STEER_FL] + by_right * accel[LINK.STEER_FR]
        work[W.lateral_acceleration] = c * accel[LINK.Y] - s * accel[LINK.X]
        for i in range(N):
            if i not in (LINK.STEER_FL, LINK.STEER_FR):
                v[i] += dt * accel[i]
                q[i] += dt * v[i]
    if abs(q[LINK.ROLL]) > FALLEN or abs(q[LINK.PITCH]) > FALLEN:
        q[0] = nan
    c, s = cos(q[LINK.YAW]), sin(q[LINK.YAW])
    work[W.speed], work[W.side_speed] = c * v[LINK.X] + s * v[LINK.Y], c * v[LINK.Y] - s * v[LINK.X]
    work[W.yaw_rate], work[W.heading] = v[LINK.YAW], q[LINK.YAW]
    work[W.x], work[W.y], work[W.z] = q[LINK.X], q[LINK.Y], q[LINK.Z]
    work[W.pitch], work[W.roll], work[W.twist] = q[LINK.PITCH], q[LINK.ROLL], q[LINK.TWIST]
    work[W.steer_fl], work[W.steer_fr] = q[LINK.STEER_FL], q[LINK.STEER_FR]
    for w in range(4):
        work[W.load_fl + _PER_WHEEL * w + V.wheel_speed] = v[SPIN[w]]


@kernel(types.void(INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR))
def place(ints, reals, q, v, links, origin):
    """Links at q and v, for Python."""
    place_links(ints, reals, q, links, origin)
    move_links(ints, v, links)


@kernel(types.void(INDICES, CONSTANTS, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR))
def energies(ints, reals, gravity, q, v, links, origin, out):
    """Kinetic and potential energy of all bodies, for Python."""
    place_links(ints, reals, q, links, origin)
    energy(ints, v, gravity, links, origin, out)
