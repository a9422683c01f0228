"""What a measurement of a real car may say instead of a driver: its speed, and the angle of its road wheels.

Speed. Every step ends with the given velocity of the centre of gravity along the heading. What that takes is put on
the wheels as far as it is known: torque on the driven axle, or pressure on the brakes as they are balanced, so that
tyres and axle loads have their share of it. It follows with the time constant `FOLLOWS`; what is missing in a step
moves the whole car, without tilting it, and its wheels.

Angle. The rack moves as far as the steering arm in its present place needs for the angle; what a step misses by, which
is of second order in its change, the next one puts right. So bump and roll of the wheels are steered against.

Both write what they found into the inputs that they replace: a reader of the inputs sees what was used.
"""

from math import atan2, exp, sqrt

from sim_service.contract.machine import index
from sync.compile.jit import inner
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.bodies import AXLES, FIRST, POINTS
from tandem.machines.car.buggy.brake_parameters import STATES as BRAKE_STATES
from tandem.machines.car.buggy.brake_parameters import S as B
from tandem.machines.car.buggy.description import INPUTS, WHEEL, P, V
from tandem.machines.car.buggy.steering import RACK, travel_per_angle
from tandem.multibody.natural.closing import evaluate_ports
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part

FOLLOWS = 0.03  # s; at 10 m/s a tyre's own lag is half of that
MOST_ACCELERATION = 25.0  # m/s2 that torque and brakes are asked for
USUAL_RADIUS = 0.3  # m; of a wheel that did not roll yet

ANGLE = index(INPUTS, "prescribed_road_wheel_angle")
SPEED = index(INPUTS, "prescribed_speed")
_HAND = index(INPUTS, "steering_angle")
_HAND_SPEED = index(INPUTS, "steering_speed")
_HAND_ACCELERATION = index(INPUTS, "steering_acceleration")
_BRAKE = index(INPUTS, "brake_pressure_bar")
_DRIVE = index(INPUTS, "drive_torque")
_PER_WHEEL, _BRAKE_SIZE = len(WHEEL), len(BRAKE_STATES)
_AHEAD, _LEFT, _UP = 3, 6, 9  # of the chassis, whose point is first
_UPPER, _LOWER, _END = 0, 3, 6  # points of a front corner


@inner
def total_mass(params):
    front = params[P.front_knuckle_mass] + params[P.front_upper_arm_mass] + params[P.front_lower_arm_mass]
    rear = params[P.rear_knuckle_mass] + params[P.rear_arm_mass] + params[P.strut_rod_mass]
    return params[P.sprung_mass] + 4.0 * params[P.wheel_mass] + 2.0 * (front + rear)


@inner
def along_heading(q, x, numbers):
    """Of the centre of gravity, along the horizontal of the car's axis: of velocities or accelerations `x`."""
    size = sqrt(q[_AHEAD] * q[_AHEAD] + q[_AHEAD + 1] * q[_AHEAD + 1])
    c, s = q[_AHEAD] / size, q[_AHEAD + 1] / size
    out = x[0] * c + x[1] * s
    across = x[1] * c - x[0] * s
    for j in range(3):
        share = numbers[slots.CENTRE + j]
        out += share * (x[3 + 3 * j] * c + x[4 + 3 * j] * s)
        across += share * (x[4 + 3 * j] * c - x[3 + 3 * j] * s)
    return out, across, c, s


@inner
def steer(ints, car, column, inputs, params, sign, h):
    """The hand wheel that turns the road wheels by the prescribed angle."""
    q = part(ints, car, Part.Q)
    found = arm = 0.0
    for w in range(2):
        ahead = aside = kingpin = lever = 0.0
        first, axle = FIRST[w], AXLES[w]
        # moved by a turn about the kingpin k, the tie rod's end r goes by k x r
        kx, ky, kz = q[first] - q[first + 3], q[first + 1] - q[first + 4], q[first + 2] - q[first + 5]
        rx, ry, rz = (
            q[first + _END] - q[first + _LOWER],
            q[first + _END + 1] - q[first + _LOWER + 1],
            q[first + _END + 2] - q[first + _LOWER + 2],
        )
        cross = (ky * rz - kz * ry, kz * rx - kx * rz, kx * ry - ky * rx)
        k = (kx, ky, kz)
        for i in range(3):
            ahead += q[axle + i] * q[_AHEAD + i]
            aside += q[axle + i] * q[_LEFT + i]
            kingpin += k[i] * q[_UP + i]
            lever += cross[i] * q[_LEFT + i]
        found += 0.5 * atan2(-ahead, aside)
        arm += 0.5 * lever / kingpin
    limit, per_angle = params[P.rack_limit], travel_per_angle(params, sign)
    wanted = column[RACK] + arm * (inputs[ANGLE] - found)
    wanted = min(max(wanted, -limit), limit)
    inputs[_HAND] = wanted / per_angle
    inputs[_HAND_SPEED] = (wanted - column[RACK]) / (h * per_angle)
    inputs[_HAND_ACCELERATION] = 0.0


@inner
def drive(ints, car, last, inputs, params, numbers, live, h):
    """Torque and pressures of a step, from those of the `last` one and from what that missed by."""
    q, qd, qdd = part(ints, car, Part.Q), part(ints, car, Part.QD), part(ints, car, Part.QDD)
    left = part(ints, car, Part.ELEMENT)
    v, across, c, s = along_heading(q, qd, numbers)
    turn = (c * qd[_AHEAD + 1] - s * qd[_AHEAD]) / sqrt(q[_AHEAD] * q[_AHEAD] + q[_AHEAD + 1] * q[_AHEAD + 1])
    is_now, _, _, _ = along_heading(q, qdd, numbers)
    wanted = (inputs[SPEED] - v) / h
    radius = 0.25 * (
        left[slots.LEFT + V.rolling_radius]
        + left[slots.LEFT + _PER_WHEEL + V.rolling_radius]
        + left[slots.LEFT + 2 * _PER_WHEEL + V.rolling_radius]
        + left[slots.LEFT + 3 * _PER_WHEEL + V.rolling_radius]
    )
    if not radius > 0.1:
        radius = USUAL_RADIUS
    torque = last[0]
    for w in range(4):
        torque -= (params[P.brake_front] if w < 2 else params[P.brake_rear]) * last[slots.PRESSURE - slots.DRIVE + w]
    inertia = total_mass(params) * radius
    torque += (1.0 - exp(-h / FOLLOWS)) * inertia * (wanted - is_now - turn * across)
    most = inertia * MOST_ACCELERATION
    torque = min(max(torque, -most), most)
    per_bar = 2.0 * (params[P.brake_front] + params[P.brake_rear])
    pressure = 0.0
    if torque < 0.0 and per_bar > 0.0:
        pressure, torque = -torque / per_bar, 0.0
    inputs[_DRIVE], inputs[_BRAKE] = torque, pressure
    live[P.gear_mode] = 0.0  # the torque, whatever the engine would do
    live[slots.DRIVE] = torque
    for w in range(4):
        live[slots.PRESSURE + w] = pressure


@inner
def add_speed(places, ints, car, dv, c, s):
    """The whole car goes faster along (c, s) by dv, and its wheels roll faster where they roll."""
    qd, left = part(ints, car, Part.QD), part(ints, car, Part.ELEMENT)
    for k in POINTS:
        qd[k] += dv * c
        qd[k + 1] += dv * s
    for w in range(4):
        of = left[slots.LEFT + _PER_WHEEL * w :]
        of[V.speed] += dv
        if of[V.rolling_radius] > 0.1 and of[V.wheel_speed] != 0.0:
            dw = dv / of[V.rolling_radius]
            qd[places[slots.SPIN + w]] += dw
            of[V.wheel_speed] += dw
            left[slots.BRAKES + _BRAKE_SIZE * w + B.wheel_speed] += dw


@inner
def correct(places, ints, reals, car, own, inputs, params, numbers, h):
    """The rest of the way to the prescribed speed. The force that this took."""
    q, qd = part(ints, car, Part.Q), part(ints, car, Part.QD)
    v, _, c, s = along_heading(q, qd, numbers)
    dv = inputs[SPEED] - v
    add_speed(places, ints, car, dv, c, s)
    left = part(ints, car, Part.ELEMENT)
    if abs(dv) > 0.05:
        left[slots.ENERGY] = slots.UNKNOWN  # its balance would find this energy
    evaluate_ports(ints, reals, car, own)
    return total_mass(params) * dv / h
