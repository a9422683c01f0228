"""What sensors on the narrow vehicle read, for virtual ones (machine `sensed`): those that the pendulum's filter knows.

Sensors on the body, at a place (x forward, y left, z up from the tilt joint) and along an axis of it: specific force
and rate of turn. In the tilt joint: its angle; at the actuator: its torque; the speed. Accelerations are those of the
last half millisecond before the instant. No filter runs on the vehicle itself: its step has no tangent here.
"""

import numpy as np

from sim_service.contract.machine import Machine
from sync.compile.jit import kernel
from tandem.estimation.contract import CONSTANT, CORRECT, LINEARISE, MEASURE, Observed
from tandem.estimation.rows import R
from tandem.machines.tilting.observed import SIGNALS
from tandem.machines.tilting.vehicle.description import LINK, S
from tandem.machines.tilting.vehicle.dynamics import HEAD, N, step
from tandem.multibody.contact.joint_tree import move_links, place_links
from tandem.multibody.contact.kinds import LINK_REALS, LINK_WORK
from tandem.multibody.contact.kinds import V as MOTION
from tandem.multibody.natural.views import view

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
_FORCE, _RATE, _JOINT, _TORQUE, _SPEED = range(5)
# in `at`: attitude of the body, its rate of turn, acceleration of the joint, of the body's turning; then joint, torque,
# speed
_AT, _TURN, _ACCEL, _TURNING, _ANGLE, _EFFORT, _ALONG = 0, 9, 12, 15, 18, 19, 20
_LINKS = 21
_ORIGIN = _LINKS + LINK_WORK * N
_G = 9.81


@kernel(LINEARISE, error_model="numpy")
def linearise(state, inputs, params, tables, work, h, which, extra, F, at):
    """See estimation/contract.py: the step, and what sensors read before it."""
    links, origin = view(at, _LINKS, _ORIGIN), view(at, _ORIGIN, _ORIGIN + 3)
    place_links(tables.ints, view(tables.floats, HEAD, HEAD + LINK_REALS * N), state, links, origin)
    move_links(tables.ints, view(state, N, 2 * N), links)
    body = view(links, LINK_WORK * LINK.TILT, LINK_WORK * (LINK.TILT + 1))
    for k in range(9):
        at[_AT + k] = body[k]
    for k in range(3):
        at[_TURN + k] = body[MOTION + k]
    for k in range(6):
        at[_ACCEL + k] = state[S.joint_accel_x + k]
    yaw = state[LINK.YAW]
    at[_ANGLE], at[_EFFORT] = state[LINK.TILT], state[S.torque]
    at[_ALONG] = np.cos(yaw) * state[N + LINK.X] + np.sin(yaw) * state[N + LINK.Y]
    step(state, inputs, params, tables, work, h)
    return CONSTANT


@kernel(MEASURE, error_model="numpy")
def measure(signal, row, tau, at, tables, work, which, H):
    """See estimation/contract.py. The instant is that of the beginning of the step."""
    if signal == _JOINT:
        return at[_ANGLE] * 1.0
    if signal == _TORQUE:
        return at[_EFFORT] * 1.0
    if signal == _SPEED:
        return at[_ALONG] * 1.0
    wx, wy, wz = at[_TURN], at[_TURN + 1], at[_TURN + 2]
    total = 0.0
    x = y = z = 0.0
    if signal == _FORCE:
        px, py, pz = row[R.PLACE], row[R.PLACE + 1], row[R.PLACE + 2]
        rx = at[0] * px + at[1] * py + at[2] * pz
        ry = at[3] * px + at[4] * py + at[5] * pz
        rz = at[6] * px + at[7] * py + at[8] * pz
        ux, uy, uz = wy * rz - wz * ry, wz * rx - wx * rz, wx * ry - wy * rx
        ax, ay, az = at[_TURNING], at[_TURNING + 1], at[_TURNING + 2]
        x = at[_ACCEL] + ay * rz - az * ry + wy * uz - wz * uy
        y = at[_ACCEL + 1] + az * rx - ax * rz + wz * ux - wx * uz
        z = at[_ACCEL + 2] + ax * ry - ay * rx + wx * uy - wy * ux + _G
    else:
        x, y, z = wx, wy, wz
    for k in range(3):
        total += row[R.DIRECTION + k] * (at[k] * x + at[3 + k] * y + at[6 + k] * z)
    return total


@kernel(CORRECT, error_model="numpy")
def correct(state, params, tables, work, dx):
    """Nothing corrects it."""


def observed(machine: Machine, params: np.ndarray) -> Observed:
    coordinates = machine.states[: 2 * N]
    return Observed(
        machine=machine,
        coordinates=coordinates,
        rates=(*range(N, 2 * N), *(-1,) * N),
        estimable=(),
        signals=SIGNALS,
        linearise=linearise,
        measure=measure,
        correct=correct,
        at_size=_ORIGIN + 3,
        difference=lambda state, other, of: np.asarray(state[: 2 * N] - other[: 2 * N]),
    )
