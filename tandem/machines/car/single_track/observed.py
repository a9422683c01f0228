"""What a filter needs of the single-track car: the tangent of its step and of its sensors, by numbers with derivatives.

The error is that of the states, without constraints. The transition is the derivative of the very step (tangent.py),
eight directions at a time: states, then estimated parameters. With a prescribed speed that of the car has no past: what
it is off by is noise of the speed's sensor, which the walk of `vx` stands for.

Sensors are at a place on the body (x forward, y left, z up from the centre of gravity). The car is in a plane: along z
the specific force is gravity, and about x and y it does not turn. Accelerations are those of a substep from the
instant on, made beside the step.

How much friction is excited: the greater of both axles' slip as a share of that at which the tyre slides, 0 to 1. The
force depends on friction by its square.
"""

from math import atan2, cos, sin, sqrt

import numpy as np

from sim_service.contract.machine import Machine, Quantity
from sync.compile.array_copy import copy
from sync.compile.jit import inner, kernel
from sync.errors import ConfigError
from tandem.estimation.contract import CORRECT, LINEARISE, MEASURE, TANGENT, Estimable, Observed
from tandem.estimation.rows import R
from tandem.machines.car.single_track.description import INPUTS, OUTPUTS, PARAMETERS, STATES, I, P, S, W
from tandem.machines.car.single_track.dynamics import GRAVITY, SUBSTEP, step
from tandem.machines.car.single_track.tangent import tangent
from tandem.multibody.natural.views import view
from tandem.multibody.relative.dual import LANES
from tandem.multibody.spatial import dot, three

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

SIGNALS = (
    Quantity("specific_force", "m/s2", "at the place, along the direction on the body"),
    Quantity("rate", "rad/s", "about the direction on the body"),
    Quantity("position", "m", "of the place, along the direction in the world"),
    Quantity("velocity", "m/s", "of the place, along the direction in the world"),
    Quantity("forward_speed", "m/s", "of the place, along the body"),
    Quantity("lateral_speed", "m/s", "of the place, across the body, left positive"),
    Quantity("sideslip", "rad", "of the centre of gravity"),
    Quantity("wheel_speed_front", "rad/s", "mean of both front wheels"),
    Quantity("wheel_speed_rear", "rad/s", "mean of both rear wheels"),
)
_FORCE, _RATE, _POSITION, _VELOCITY, _FORWARD, _LATERAL, _SIDESLIP, _WHEEL_FRONT, _WHEEL_REAR = range(len(SIGNALS))
_NAMES = ("friction", "cornering_front", "cornering_rear", "mass", "yaw_inertia")
ESTIMABLE = tuple(Estimable(p.name, p.unit, p.text, i) for i, p in enumerate(PARAMETERS) if p.name in _NAMES)

_N, _MOST = len(STATES), len(ESTIMABLE)
_WIDE = _N + _MOST
# what `measure` reads: the state; excitation; accelerations of the centre of gravity and of the turn, their derivatives
_EXCITED = _N
_ACCEL = _EXCITED + 1
_ACCEL_BY = _ACCEL + 3
# scratch: vectors of a step and their derivatives
_STATE = _ACCEL_BY + 3 * _WIDE
_INPUTS = _STATE + _N
_PARAMS = _INPUTS + len(INPUTS)
_WORK = _PARAMS + len(PARAMETERS)
_BY_STATE = _WORK + len(OUTPUTS)
_BY_INPUTS = _BY_STATE + LANES * _N
_BY_PARAMETERS = _BY_INPUTS + LANES * len(INPUTS)
_BY_OUTPUTS = _BY_PARAMETERS + LANES * len(PARAMETERS)
_AT = _BY_OUTPUTS + LANES * len(OUTPUTS)
_PARAMETER = np.array([one.parameter for one in ESTIMABLE])


@inner
def sliding_share(params, along, angle, cornering):
    """Slip of an axle, as a share of that at which it slides."""
    x, y = params[P.slip_stiffness] * along, cornering * sin(angle) / cos(angle)
    return min(sqrt(x * x + y * y) / (2.0 * params[P.friction]), 1.0)


@inner
def step_along(first, which, state, inputs, params, tables, at, h, share):
    """A step with derivatives in eight directions from `first` on, in the scratch of `at`.

    It is `share` of a step: a prescribed speed is reached in the whole of it.
    """
    for i in range(_BY_STATE, _AT):
        at[i] = 0.0
    copy(view(at, _STATE, _INPUTS), state)
    copy(view(at, _INPUTS, _PARAMS), inputs)
    copy(view(at, _PARAMS, _WORK), params)
    for lane in range(LANES):
        k = first + lane
        if k < _N:
            at[_BY_STATE + LANES * k + lane] = 1.0
        elif k < _N + len(which):
            at[_BY_PARAMETERS + LANES * _PARAMETER[which[k - _N]] + lane] = 1.0
    if first <= S.vx < first + LANES:
        at[_BY_INPUTS + LANES * I.prescribed_speed + S.vx - first] = 1.0 - share
    speed = at[_INPUTS + I.prescribed_speed]
    at[_INPUTS + I.prescribed_speed] = share * speed + (1.0 - share) * state[S.vx]
    tangent(
        view(at, _STATE, _INPUTS), view(at, _BY_STATE, _BY_INPUTS), view(at, _INPUTS, _PARAMS),
        view(at, _BY_INPUTS, _BY_PARAMETERS), view(at, _PARAMS, _WORK), view(at, _BY_PARAMETERS, _BY_OUTPUTS), tables,
        view(at, _WORK, _BY_STATE), view(at, _BY_OUTPUTS, _AT), h,
    )  # fmt: skip


@kernel(LINEARISE, error_model="numpy")
def linearise(state, inputs, params, tables, work, h, which, extra, F, at):
    """See estimation/contract.py."""
    before, columns = view(at, 0, _N), _N + len(which)
    copy(before, state)
    for first in range(0, columns, LANES):
        lanes = min(columns - first, LANES)
        step_along(first, which, before, inputs, params, tables, at, SUBSTEP, SUBSTEP / h)
        for j in range(lanes):
            diagonal = 1.0 if first + j == S.yaw_rate else 0.0
            at[_ACCEL_BY + first + j] = at[_BY_OUTPUTS + LANES * W.ax + j]
            at[_ACCEL_BY + _WIDE + first + j] = at[_BY_OUTPUTS + LANES * W.ay + j]
            at[_ACCEL_BY + 2 * _WIDE + first + j] = (at[_BY_STATE + LANES * S.yaw_rate + j] - diagonal) / SUBSTEP
        if first == 0:
            out = view(at, _WORK, _BY_STATE)
            at[_ACCEL], at[_ACCEL + 1] = out[W.ax], out[W.ay]
            at[_ACCEL + 2] = (at[_STATE + S.yaw_rate] - before[S.yaw_rate]) / SUBSTEP
            at[_EXCITED] = max(
                sliding_share(params, out[W.slip_front], out[W.slip_angle_front], params[P.cornering_front]),
                sliding_share(params, out[W.slip_rear], out[W.slip_angle_rear], params[P.cornering_rear]),
            )
        step_along(first, which, before, inputs, params, tables, at, h, 1.0)
        for j in range(lanes):
            for i in range(_N):
                F[(first + j) * _N + i] = at[_BY_STATE + LANES * i + j]
    for i in range(_N):
        F[columns * _N + i] = 0.0  # no force is estimated
    copy(state, view(at, _STATE, _INPUTS))
    copy(inputs, view(at, _INPUTS, _PARAMS))
    copy(work, view(at, _WORK, _BY_STATE))
    return TANGENT


@kernel(MEASURE, error_model="numpy")
def measure(signal, row, tau, at, tables, work, which, H):
    """See estimation/contract.py. Positions go on by tau with their velocity; all else is that of the instant."""
    columns = _N + len(which)
    for j in range(columns):
        H[j] = 0.0
    d, (x, y, _) = three(row, R.DIRECTION), three(row, R.PLACE)
    q = at[S.yaw_rate]
    # of the place, along and across the body
    ahead, aside = at[S.vx] - q * y, at[S.vy] + q * x
    if signal == _FORCE:
        arm, near = d[1] * x - d[0] * y, d[0] * x + d[1] * y
        for j in range(columns):
            H[j] = (
                d[0] * at[_ACCEL_BY + j] + d[1] * at[_ACCEL_BY + _WIDE + j] + arm * at[_ACCEL_BY + 2 * _WIDE + j]
            )  # fmt: skip
        H[S.yaw_rate] -= 2.0 * q * near
        return dot(d, (at[_ACCEL], at[_ACCEL + 1], GRAVITY)) + arm * at[_ACCEL + 2] - q * q * near
    if signal == _RATE:
        H[S.yaw_rate] = d[2]
        return d[2] * q
    if signal in (_POSITION, _VELOCITY):
        c, s = cos(at[S.yaw]), sin(at[S.yaw])
        forward, across = d[0] * c + d[1] * s, d[1] * c - d[0] * s  # the direction, on the body
        speed, sideways = forward * ahead + across * aside, across * ahead - forward * aside
        share = tau if signal == _POSITION else 1.0
        H[S.vx], H[S.vy] = share * forward, share * across
        H[S.yaw_rate], H[S.yaw] = share * (across * x - forward * y), share * sideways
        if signal == _VELOCITY:
            return speed
        H[S.x], H[S.y] = d[0], d[1]
        H[S.yaw] += across * x - forward * y
        return d[0] * at[S.x] + d[1] * at[S.y] + forward * x + across * y + tau * speed
    if signal == _FORWARD:
        H[S.vx], H[S.yaw_rate] = 1.0, -y
        return ahead
    if signal == _LATERAL:
        H[S.vy], H[S.yaw_rate] = 1.0, x
        return aside
    if signal == _SIDESLIP:
        square = max(at[S.vx] * at[S.vx] + at[S.vy] * at[S.vy], 1e-6)
        H[S.vx], H[S.vy] = -at[S.vy] / square, at[S.vx] / square
        return atan2(at[S.vy], at[S.vx])
    wheel = S.wheel_speed_front if signal == _WHEEL_FRONT else S.wheel_speed_rear
    H[wheel] = 1.0
    return at[wheel]


@kernel(CORRECT, error_model="numpy")
def correct(state, params, tables, work, dx):
    """See estimation/contract.py."""
    for i in range(_N):
        state[i] += dx[i]


def _difference(state: np.ndarray, other: np.ndarray, of: Machine) -> np.ndarray:
    return np.asarray(state[:_N] - other[:_N])


def observed(machine: Machine, params: np.ndarray) -> Observed:
    if machine.step is not step:
        raise ConfigError("a car with a [powertrain] has no derivatives; observe it without, by its measured speed")
    return Observed(
        machine=machine,
        coordinates=STATES,
        rates=tuple(int(S.yaw_rate) if q.name == "yaw" else -1 for q in STATES),
        estimable=ESTIMABLE,
        signals=SIGNALS,
        linearise=linearise,
        measure=measure,
        correct=correct,
        at_size=_AT,
        difference=_difference,
        relaxing=tuple(range(int(S.deflection_x_front), _N)),
        excited_at=_EXCITED,
    )
