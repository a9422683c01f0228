"""All forces on the buggy at an instant, rates of their states, and the exact derivatives of both.

Beside forces.py, whose hook integrates its states over a step: `hook_rates` is for integrators that want dy/dt and its
derivatives (sim_service/multibody/relative). Ports are those of forces.py.

Promises
- Port forces are those of `forces.hook` for h = 0, given the same deflections and wind-ups.
- Derivatives are exact (sync/dual.py), couplings between elements included; at corners (stops, a wheel that lifts) they
  are those of one side.
- The hook remembers nothing. Its states are continuous in time: `STATES`, for each wheel deflection along and across,
  twist (0 without turn slip) and wind-up of the brake, then the engine speed.

Derivatives are dense blocks, row by row, one behind the other, in the order of these tables of (first row, rows, first
column, columns); what is in no block is zero.

    fx, fv    of port forces by ports and by their rates: `PORT_BLOCKS`
    fs        of port forces by states: `FORCE_STATE_BLOCKS`
    sx, sv    of rates of states by ports and by their rates: `STATE_PORT_BLOCKS`
    ss        of rates of states by states: `STATE_BLOCKS`
"""

from math import sqrt

import numpy as np
from numba import float64, types

from sim_service.machines.buggy import driveline, wheel_rates
from sim_service.machines.buggy.bodies import BODY_POINTS
from sim_service.machines.buggy.description import P
from sim_service.machines.buggy.driveline_parameters import P as D
from sim_service.machines.buggy.forces import (
    _ANTI_ROLL,
    _AXLE,
    _BODY_DAMPING,
    _BODY_FRICTION,
    _BODY_MOST,
    _BODY_NEAR,
    _BODY_SLIDES,
    _BODY_STEEP,
    _DRIVELINE_SIZE,
    _DRIVES,
    _FRAME,
    _PLATES_CREEP,
    _ROUND,
    _SPRING,
    _WHEEL_PORTS,
    BODY,
    CHASSIS,
    DRIVE,
    DRIVELINE_PARAMETERS,
    FRAMES,
    RATIO,
    ROAD,
    STOP_SHARES,
    STOPS,
    THROTTLE,
    bumper,
    point_load,
)
from sim_service.multibody.natural.views import inner, view
from sim_service.roads import ground, surface
from sim_service.roads.layout import Head
from sync.array_types import CONSTANTS, VECTOR
from sync.dual import partial, seed, value
from sync.jit import kernel

OPTIONS = {"error_model": "numpy"}  # a division by zero is no exception

PORTS = _ANTI_ROLL + 12
OF_WHEEL = wheel_rates.STATES
ENGINE = 4 * OF_WHEEL
STATES = ENGINE + 1
WORK = wheel_rates.WORK

PORT_BLOCKS = (
    *[(_WHEEL_PORTS * w, _WHEEL_PORTS, _WHEEL_PORTS * w, _WHEEL_PORTS) for w in range(4)],
    *[(_SPRING + 3 * w, 3, _SPRING + 3 * w, 3) for w in range(4)],
    (_AXLE, 2, _AXLE, 2),
    (CHASSIS, 12, CHASSIS, 12),
    (CHASSIS, 12, _AXLE, 2),
    *[(_ANTI_ROLL + 6 * k, 6, _ANTI_ROLL + 6 * k, 6) for k in range(2)],
    *[(_ANTI_ROLL + 6 * k, 6, CHASSIS + 3, 9) for k in range(2)],
    *[(CHASSIS + 3, 9, _ANTI_ROLL + 6 * k, 6) for k in range(2)],
)
FORCE_STATE_BLOCKS = (
    *[(_WHEEL_PORTS * w, _WHEEL_PORTS, OF_WHEEL * w, OF_WHEEL) for w in range(4)],
    (_AXLE, 2, ENGINE, 1),
    (CHASSIS, 12, ENGINE, 1),
)
STATE_PORT_BLOCKS = (
    *[(OF_WHEEL * w, OF_WHEEL, _WHEEL_PORTS * w, _WHEEL_PORTS) for w in range(4)],
    (ENGINE, 1, _AXLE, 2),
)
STATE_BLOCKS = (*[(OF_WHEEL * w, OF_WHEEL, OF_WHEEL * w, OF_WHEEL) for w in range(4)], (ENGINE, 1, ENGINE, 1))

_CLUTCH = 1000.0  # 1/s; at which the engine follows the axle where nothing is between them

Blocks = tuple[tuple[int, int, int, int], ...]


def size(blocks: Blocks) -> int:
    return sum(rows * columns for _, rows, _, columns in blocks)


def dense(blocks: Blocks, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The matrix of these blocks."""
    found, at = np.zeros(shape), 0
    for row, rows, column, columns in blocks:
        part = values[at : at + rows * columns].reshape(rows, columns)
        found[row : row + rows, column : column + columns] += part
        at += rows * columns
    return found


# where blocks begin
_WHEEL_SQUARE = _WHEEL_PORTS * _WHEEL_PORTS
_SPRING_AT = 4 * _WHEEL_SQUARE
_AXLE_AT = _SPRING_AT + 4 * 9
_CHASSIS_AT = _AXLE_AT + 4
_CHASSIS_AXLE_AT = _CHASSIS_AT + 144
_ROLL_AT = _CHASSIS_AXLE_AT + 24
_ROLL_CHASSIS_AT = _ROLL_AT + 2 * 36
_CHASSIS_ROLL_AT = _ROLL_CHASSIS_AT + 2 * 54
_WHEEL_STATES = _WHEEL_PORTS * OF_WHEEL
_SQUARE = OF_WHEEL * OF_WHEEL


@kernel(**OPTIONS)
def spring_force(rate, free, bump, rebound, stop_rate, short, share, long, long_share, x, y, z, vx, vy, vz):
    """Spring, damper and stops between two points."""
    length = sqrt(x * x + y * y + z * z)
    ux, uy, uz = x / length, y / length, z / length
    speed = ux * vx + uy * vy + uz * vz
    mean, half, root = 0.5 * (rebound + bump), 0.5 * (rebound - bump), sqrt(speed * speed + _ROUND * _ROUND)
    push = rate * (free - length) - (mean + half * speed / root) * speed
    if length < short:
        push += bumper(stop_rate * share, short - length)[0]
    elif length > long:
        push -= bumper(stop_rate * long_share, length - long)[0]
    return push * ux, push * uy, push * uz


@inner
def spring(w, x, xd, given, params, f, fx, fv):
    at, block = _SPRING + 3 * w, _SPRING_AT + 9 * w
    front = w < 2
    rate = given[P.front_spring_rate] if front else given[P.rear_spring_rate]
    free = given[P.front_spring_length] if front else given[P.rear_spring_length]
    bump = given[P.front_damper_bump] if front else given[P.rear_damper_bump]
    rebound = given[P.front_damper_rebound] if front else given[P.rear_damper_rebound]
    stop, share = STOPS + (0 if front else 2), STOP_SHARES + (0 if front else 2)
    F = spring_force(
        *(rate, free, bump, rebound, given[P.stop_rate], params[stop], params[share], params[stop + 1]),
        *(params[share + 1], seed(x[at], 0, 6), seed(x[at + 1], 1, 6), seed(x[at + 2], 2, 6)),
        *(seed(xd[at], 3, 6), seed(xd[at + 1], 4, 6), seed(xd[at + 2], 5, 6)),
    )
    for i in range(3):
        f[at + i] = value(F[i])
        for j in range(3):
            fx[block + 3 * i + j], fv[block + 3 * i + j] = partial(F[i], j), partial(F[i], 3 + j)


@kernel(**OPTIONS)
def axle_torques(p, throttle, drive_torque, ratio, left, right, engine_speed):
    """Torque on each rear wheel and on the axle, and rate of the engine speed; driveline.py and forces.rear_axle."""
    speed = 0.5 * (left + right)
    t = min(max(ratio * speed, -driveline.LIMIT), driveline.LIMIT)
    if p[D.gear_mode] < 0.5:
        torque = drive_torque + 0.0 * t
        rate = _CLUTCH * (max(t, 0.0) - engine_speed)  # that of a rigid clutch
    else:
        throttle = min(max(throttle, 0.0), 1.0)
        e = min(max(engine_speed, 0.0), driveline.LIMIT)
        converted = driveline.converter(p, e, t)
        rate = (driveline.engine(p, throttle, e)[0] - converted[0]) / p[D.engine_inertia]
        torque = ratio * driveline.gears(p, converted[1], 0.0, t)[0]
    apart = left - right
    drives = min(max((speed if torque >= 0.0 else -speed) / _DRIVES, -1.0), 1.0)
    drive, coast = p[D.differential_bias], p[D.differential_bias_coast]
    bias = 0.5 * (drive + coast) + 0.5 * drives * (drive - coast)
    friction = p[D.differential_preload] + 0.5 * bias * abs(torque)
    lock = p[D.differential_lock] + friction / sqrt(apart * apart + _PLATES_CREEP * _PLATES_CREEP)
    between = lock * apart
    return 0.5 * torque - between, 0.5 * torque + between, torque, rate


@inner
def turned(metric, e, Tx, Ty, Tz):
    """Port forces of the torque T on a body with basis vectors e (9); as elements.turn, of duals."""
    rx, ry, rz = _half(metric, e, 0)
    sx, sy, sz = _half(metric, e, 1)
    tx, ty, tz = _half(metric, e, 2)
    return (
        *(Ty * rz - Tz * ry, Tz * rx - Tx * rz, Tx * ry - Ty * rx),
        *(Ty * sz - Tz * sy, Tz * sx - Tx * sz, Tx * sy - Ty * sx),
        *(Ty * tz - Tz * ty, Tz * tx - Tx * tz, Tx * ty - Ty * tx),
    )


@inner
def _half(metric, e, a):
    g, h, k = 0.5 * metric[3 * a], 0.5 * metric[3 * a + 1], 0.5 * metric[3 * a + 2]
    return g * e[0] + h * e[3] + k * e[6], g * e[1] + h * e[4] + k * e[7], g * e[2] + h * e[5] + k * e[8]


@inner
def chassis_forces(given, metric, vx, vy, vz, e, torque):
    """Air, the reaction to the drive, torques of a hand: force at the centre of gravity (3) and on the basis (9)."""
    speed = sqrt(vx * vx + vy * vy + vz * vz)
    drag = 0.5 * given[P.air_density] * given[P.drag_area] * speed
    ahead = vx * e[0] + vy * e[1] + vz * e[2]
    pressure = 0.5 * given[P.air_density] * ahead * ahead
    lift = pressure * given[P.lift_area]
    torque = torque - pressure * given[P.air_pitch_volume]
    a, b, c = given[P.push_roll], given[P.push_pitch] - torque, given[P.push_yaw]
    Tx, Ty, Tz = a * e[0] + b * e[3] + c * e[6], a * e[1] + b * e[4] + c * e[7], a * e[2] + b * e[5] + c * e[8]
    F = lift * e[6] - drag * vx, lift * e[7] - drag * vy, lift * e[8] - drag * vz
    return F + turned(metric, e, Tx, Ty, Tz)


@inner
def axle_and_chassis(x, xd, given, params, s, f, sdot, fx, fv, fs, sv, ss):
    p = view(given, DRIVELINE_PARAMETERS, DRIVELINE_PARAMETERS + _DRIVELINE_SIZE)
    axle = axle_torques(
        *(p, given[THROTTLE], given[DRIVE], given[RATIO], seed(xd[_AXLE], 0, 3), seed(xd[_AXLE + 1], 1, 3)),
        seed(s[ENGINE], 2, 3),
    )
    for i in range(2):
        f[_AXLE + i] = value(axle[i])
        fv[_AXLE_AT + 2 * i], fv[_AXLE_AT + 2 * i + 1] = partial(axle[i], 0), partial(axle[i], 1)
        fs[4 * _WHEEL_STATES + i] = partial(axle[i], 2)
    sdot[ENGINE] = value(axle[3])
    sv[4 * _WHEEL_STATES], sv[4 * _WHEEL_STATES + 1] = partial(axle[3], 0), partial(axle[3], 1)
    ss[4 * _SQUARE] = partial(axle[3], 2)

    metric = view(params, FRAMES + 4 * _FRAME, FRAMES + 4 * _FRAME + 9)
    b = CHASSIS + 3
    e = (
        *(seed(x[b], 3, 13), seed(x[b + 1], 4, 13), seed(x[b + 2], 5, 13)),
        *(seed(x[b + 3], 6, 13), seed(x[b + 4], 7, 13), seed(x[b + 5], 8, 13)),
        *(seed(x[b + 6], 9, 13), seed(x[b + 7], 10, 13), seed(x[b + 8], 11, 13)),
    )
    F = chassis_forces(
        *(given, metric, seed(xd[CHASSIS], 0, 13), seed(xd[CHASSIS + 1], 1, 13), seed(xd[CHASSIS + 2], 2, 13)),
        *(e, seed(value(axle[2]), 12, 13)),
    )
    for i in range(12):
        f[CHASSIS + i] = value(F[i])
        row = _CHASSIS_AT + 12 * i
        for j in range(9):
            fx[row + 3 + j] = partial(F[i], 3 + j)
        for j in range(3):
            fv[row + j] = partial(F[i], j)
        by_torque = partial(F[i], 12)
        fv[_CHASSIS_AXLE_AT + 2 * i] = by_torque * partial(axle[2], 0)
        fv[_CHASSIS_AXLE_AT + 2 * i + 1] = by_torque * partial(axle[2], 1)
        fs[4 * _WHEEL_STATES + 2 + i] = by_torque * partial(axle[2], 2)


@kernel(**OPTIONS)
def body_point(road, px, py, pz, vx, vy, vz):
    """Force of the road on a point of the body; 0 above it."""
    z, slope_x, slope_y, mu = ground(road, px, py)
    if pz >= z:
        return 0.0, 0.0, 0.0
    size = sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
    nx, ny, nz = -slope_x / size, -slope_y / size, 1.0 / size
    press = point_load(z - pz)[0] * size
    closing = -(vx * nx + vy * ny + vz * nz)
    load = press * min(max(1.0 + _BODY_DAMPING * closing, 0.0), _BODY_MOST)
    sx, sy, sz = vx + closing * nx, vy + closing * ny, vz + closing * nz
    drag = _BODY_FRICTION * mu * load / sqrt(sx * sx + sy * sy + sz * sz + _BODY_SLIDES * _BODY_SLIDES)
    return load * nx - drag * sx, load * ny - drag * sy, load * nz - drag * sz


@inner
def body(x, xd, params, f, fx, fv):
    road = view(params, ROAD, len(params))
    cx, cy, cz = x[CHASSIS], x[CHASSIS + 1], x[CHASSIS + 2]
    below, _, _, _ = surface(road, cx, cy)
    steep = _BODY_STEEP * road[Head.STEEPEST]
    for k in range(BODY_POINTS):
        at = BODY + 3 * k
        a, b, c = params[at], params[at + 1], params[at + 2]
        px = cx + a * x[CHASSIS + 3] + b * x[CHASSIS + 6] + c * x[CHASSIS + 9]
        py = cy + a * x[CHASSIS + 4] + b * x[CHASSIS + 7] + c * x[CHASSIS + 10]
        pz = cz + a * x[CHASSIS + 5] + b * x[CHASSIS + 8] + c * x[CHASSIS + 11]
        if pz > below + _BODY_NEAR + steep * (abs(px - cx) + abs(py - cy)):
            continue
        if pz >= surface(road, px, py)[0]:
            continue
        vx = xd[CHASSIS] + a * xd[CHASSIS + 3] + b * xd[CHASSIS + 6] + c * xd[CHASSIS + 9]
        vy = xd[CHASSIS + 1] + a * xd[CHASSIS + 4] + b * xd[CHASSIS + 7] + c * xd[CHASSIS + 10]
        vz = xd[CHASSIS + 2] + a * xd[CHASSIS + 5] + b * xd[CHASSIS + 8] + c * xd[CHASSIS + 11]
        F = body_point(
            *(road, seed(px, 0, 6), seed(py, 1, 6), seed(pz, 2, 6)),
            *(seed(vx, 3, 6), seed(vy, 4, 6), seed(vz, 5, 6)),
        )
        w = (1.0, a, b, c)
        for i in range(4):
            for j in range(3):
                f[CHASSIS + 3 * i + j] += w[i] * value(F[j])
                for k2 in range(4):
                    for m in range(3):
                        place = _CHASSIS_AT + 12 * (3 * i + j) + 3 * k2 + m
                        fx[place] += w[i] * w[k2] * partial(F[j], m)
                        fv[place] += w[i] * w[k2] * partial(F[j], 3 + m)


@inner
def bar_forces(rate, metric, dx, dy, dz, e):
    """Anti-roll bar: force on the second of both joints (3), and on the basis of the chassis (9)."""
    ux, uy, uz = e[6], e[7], e[8]
    pull = rate * (ux * dx + uy * dy + uz * dz)
    Tx, Ty, Tz = pull * (dy * uz - dz * uy), pull * (dz * ux - dx * uz), pull * (dx * uy - dy * ux)
    return (pull * ux, pull * uy, pull * uz) + turned(metric, e, Tx, Ty, Tz)  # noqa: RUF005  (numba has no *)


@inner
def anti_roll(axle, rate, x, params, f, fx):
    at = _ANTI_ROLL + 6 * axle
    metric = view(params, FRAMES + 4 * _FRAME, FRAMES + 4 * _FRAME + 9)
    b = CHASSIS + 3
    e = (
        *(seed(x[b], 3, 12), seed(x[b + 1], 4, 12), seed(x[b + 2], 5, 12)),
        *(seed(x[b + 3], 6, 12), seed(x[b + 4], 7, 12), seed(x[b + 5], 8, 12)),
        *(seed(x[b + 6], 9, 12), seed(x[b + 7], 10, 12), seed(x[b + 8], 11, 12)),
    )
    dx, dy, dz = x[at] - x[at + 3], x[at + 1] - x[at + 4], x[at + 2] - x[at + 5]
    F = bar_forces(rate, metric, seed(dx, 0, 12), seed(dy, 1, 12), seed(dz, 2, 12), e)
    own, by_chassis, on_chassis = _ROLL_AT + 36 * axle, _ROLL_CHASSIS_AT + 54 * axle, _CHASSIS_ROLL_AT + 54 * axle
    for i in range(3):
        f[at + i], f[at + 3 + i] = -value(F[i]), value(F[i])
        for j in range(3):
            slope = partial(F[i], j)
            fx[own + 6 * i + j], fx[own + 6 * i + 3 + j] = -slope, slope
            fx[own + 6 * (3 + i) + j], fx[own + 6 * (3 + i) + 3 + j] = slope, -slope
        for j in range(9):
            slope = partial(F[i], 3 + j)
            fx[by_chassis + 9 * i + j], fx[by_chassis + 9 * (3 + i) + j] = -slope, slope
    for i in range(9):
        f[CHASSIS + 3 + i] += value(F[3 + i])
        for j in range(3):
            slope = partial(F[3 + i], j)
            fx[on_chassis + 6 * i + j], fx[on_chassis + 6 * i + 3 + j] = slope, -slope
        for j in range(9):
            fx[_CHASSIS_AT + 12 * (3 + i) + 3 + j] += partial(F[3 + i], 3 + j)


RATES = types.void(float64, VECTOR, VECTOR, VECTOR, VECTOR, CONSTANTS, *[VECTOR] * 10)


@kernel(RATES, error_model="numpy")
def hook_rates(t, x, xd, inputs, given, params, s, f, sdot, fx, fv, fs, sx, sv, ss, work):
    """Port forces f and rates sdot of the states s, and all derivatives; everything is overwritten.

    work: `WORK` numbers, whatever they are.
    """
    for i in range(_SPRING_AT, fx.size):
        fx[i] = fv[i] = 0.0
    for i in range(4 * _WHEEL_STATES, sx.size):
        sx[i] = 0.0
    for w in range(4):
        a, b, c = _WHEEL_SQUARE * w, _WHEEL_STATES * w, _SQUARE * w
        wheel_rates.wheel_rates(
            *(w, x, xd, given, params, s, f, sdot, view(fx, a, a + _WHEEL_SQUARE), view(fv, a, a + _WHEEL_SQUARE)),
            *(view(fs, b, b + _WHEEL_STATES), view(sx, b, b + _WHEEL_STATES), view(sv, b, b + _WHEEL_STATES)),
            *(view(ss, c, c + _SQUARE), work),
        )
        spring(w, x, xd, given, params, f, fx, fv)
    axle_and_chassis(x, xd, given, params, s, f, sdot, fx, fv, fs, sv, ss)
    body(x, xd, params, f, fx, fv)
    for axle in range(2):
        rate = given[P.front_anti_roll] if axle == 0 else given[P.rear_anti_roll]
        for i in range(6):
            f[_ANTI_ROLL + 6 * axle + i] = 0.0
        if rate > 0.0:
            anti_roll(axle, rate, x, params, f, fx)
    pushed = int(given[P.push_body] + 0.5)
    at = CHASSIS if pushed == 0 else _WHEEL_PORTS * (pushed - 1)
    f[at] += given[P.push_x]
    f[at + 1] += given[P.push_y]
    f[at + 2] += given[P.push_z]
