"""Engine, coupling, gears, axles, motor and brakes around the single-track car, in substeps of the car's own.

In each substep, with the wheel speeds as they are (front, rear), s the front axle's share of the torque, t the speed of
the gearbox's input and p that of the engine,

    t = i (s w_f + (1 - s) w_r),      J dp/dt = T(pedal, p) - T_p,      T_axle = i T_t, less the loss of gears

T is the map, linear between its points, with a governor at idle speed and a limiter. T_p and T_t are a converter's,

    T_p = L p^2 (1 - (t/p)^6),   T_t = R(t/p) T_p for t < p,      -L t^2 (1 - (p/t)^6) both for t > p

R falls in a straight line from its stall ratio to 1 at the coupling point; locked, or of a clutch, a viscous torque
k (p - t) up to the most it can carry is added, or is all. Axles: front s T - b, rear (1 - s) T + b, b by the lock and
plates between them. A motor gives its torque at its share of the axles, up to its power; released pedals make it
brake, less below 2 m/s.

Shifts are decided once a step: up and down by the speed of the gearbox's input, which rises with the square of the
pedal. The ratio goes over smoothly; meanwhile the engine has no pedal, and its coupling carries what it gave before:
the car is pulled on, and the engine comes to its new speed. The ABS is the buggy's (brakes.py), one valve an axle, and
the lower of their pressures at both: the car has one line.
"""

from math import ceil, exp, isnan, sqrt

from sim_service.composite import OWN_INTS, Head, inside, pass_outputs
from sim_service.contract.machine import STEP
from sync.compile.array_copy import copy
from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy import brakes
from tandem.machines.car.buggy.brake_parameters import P as BRAKE_P
from tandem.machines.car.powertrain.law import BAND, RPM, line_bar, map_torque, motor_torque, ramp, shift
from tandem.machines.car.powertrain.layout import A, I, N, P, S, W
from tandem.machines.car.single_track.description import I as CAR_I
from tandem.machines.car.single_track.description import P as CAR_P
from tandem.machines.car.single_track.description import S as CAR_S
from tandem.machines.car.single_track.dynamics import SUBSTEP
from tandem.machines.car.single_track.dynamics import step as step_car
from tandem.multibody.natural.views import part, view

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

_STIFF = 0.5  # of what an explicit substep of engine or wheels bears, half of which is the limit
_PLATES_CREEP = 0.5  # rad/s
_LIGHT = 2.0  # N m
_TURN = 5.0  # rad/s of the gears, from which their friction is whole


@inner
def converter(L, stall, coupling, p, t):
    """Torque that the pump takes and that the turbine gives."""
    if t > p:
        x = p / t
        T = -L * t * t * (1.0 - x * x * x * x * x * x)
        return T, T
    nu = t / max(p, 1e-9)
    n = max(nu, 0.0)
    T = L * p * p * (1.0 - n * n * n * n * n * n)
    return T, T * (1.0 + (stall - 1.0) * max(1.0 - nu / coupling, 0.0))


@inner
def engine_and_gears(numbers, rpm_grid, pedal_grid, torque, own, params, pedal, engaged, t, wheels, dt):
    """Torque of the engine and at the end of the gears, and the engine a substep on. `engaged` is 0 in a shift;
    `wheels` is the inertia that the gears turn."""
    p = own[S.engine_speed]
    rpm = RPM * p
    governed = ramp(0.5 + (numbers[N.idle_rpm] - rpm) / (2.0 * BAND))
    cut = ramp((rpm - numbers[N.limit_rpm]) / BAND)
    requested = params[P.torque_factor] * map_torque(rpm_grid, pedal_grid, torque, pedal * (1.0 - cut), rpm)
    T = params[P.torque_factor] * map_torque(rpm_grid, pedal_grid, torque, engaged * pedal * (1.0 - cut), rpm)
    T += governed * max(0.3 * torque[len(torque) - len(rpm_grid)] - min(T, 0.0), 0.0)
    J = numbers[N.inertia]
    stiff, most = _STIFF * min(J, wheels / max(own[S.ratio] * own[S.ratio], 1e-3)) / dt, numbers[N.most]
    if engaged < 1.0:
        most = min(most, abs(requested))
    slip = min(max(stiff * (p - t), -most), most)
    if numbers[N.clutch] > 0.5:
        most *= ramp((rpm - numbers[N.idle_rpm] + BAND) / numbers[N.engages_rpm])
        taken = min(max(slip, -most), most)
        out = taken
    else:
        taken, out = converter(numbers[N.capacity], numbers[N.stall_ratio], numbers[N.coupling], p, t)
        if engaged < 1.0:
            taken, out = min(max(taken, -most), most), min(max(out, -most), most)
        elif own[S.gear] >= numbers[N.locks_from_gear] and t > numbers[N.locks_at] * p and rpm > numbers[N.idle_rpm]:
            taken, out = taken + slip, out + slip
    own[S.engine_speed] = max(p + dt * (T - taken) / J, 0.0)
    loss = 1.0 - params[P.driveline_efficiency]
    lost = loss * out * out / sqrt(out * out + _LIGHT * _LIGHT) * t / sqrt(t * t + _TURN * _TURN)
    return T, own[S.ratio] * (out - lost)


@inner
def brake_bar(numbers, own, params, line, pedal, abs_values, front, rear, vx, h):
    """Pressure at the wheels: pedal or line, lag, anti-lock control."""
    requested = line_bar(numbers, own, params, line, pedal, h)
    abs_values[BRAKE_P.abs] = params[P.abs]
    first = brakes.control(abs_values, own, S.front_valve_bar, requested, front, vx, h)
    second = brakes.control(abs_values, own, S.rear_valve_bar, requested, rear, vx, h)
    return min(first, second)


# long: one step, in the order of the torque from the pedal to the wheels
@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    head = tables.ints
    ints, reals, outputs = view(head, OWN_INTS, len(head)), tables.floats, head[Head.OUTPUTS]
    car, car_params, of_car, car_work = inside(state, params, tables, work)
    own, own_params = view(state, head[Head.STATES], len(state)), view(params, head[Head.PARAMETERS], len(params))
    out, car_inputs = view(work, outputs, head[Head.WORK_AT]), head[Head.INPUTS]
    spare = head[Head.WORK_AT] + head[Head.WORK]
    behind = spare + car_inputs + (head[OWN_INTS + 2 * A.ABS + 1] - head[OWN_INTS + 2 * A.ABS])
    moved, abs_values = view(work, spare, spare + car_inputs), view(work, spare + car_inputs, behind)
    numbers, ratios = part(ints, reals, A.NUMBERS), part(ints, reals, A.RATIOS)
    rpm_grid, pedal_grid, torque = part(ints, reals, A.RPM), part(ints, reals, A.PEDAL), part(ints, reals, A.TORQUE)
    copy(abs_values, part(ints, reals, A.ABS))
    r, share = car_params[CAR_P.wheel_radius], own_params[P.front_share]
    J_f = 2.0 * car_params[CAR_P.wheel_inertia]
    wheels = 1.0 / (share * share / J_f + (1.0 - share) * (1.0 - share) / (J_f + car_params[CAR_P.driveline_inertia]))
    pedal = min(max(inputs[CAR_I.throttle], 0.0), 1.0)
    braking = inputs[car_inputs + I.brake_pedal]
    foot = 0.0 if isnan(braking) else min(max(braking, 0.0), 1.0)
    copy(moved, view(inputs, 0, car_inputs))
    has_engine, has_motor = numbers[N.engine] > 0.5, numbers[N.motor] > 0.5
    free = isnan(inputs[CAR_I.prescribed_speed]) and isnan(inputs[CAR_I.drive_torque])
    count = max(ceil(h / SUBSTEP - 1e-9), 1) if free else 1
    dt, engaged = h / count, 1.0
    if h > 0.0:
        front, rear = r * car[CAR_S.wheel_speed_front], r * car[CAR_S.wheel_speed_rear]
        ends = part(ints, reals, A.UP), part(ints, reals, A.DOWN)
        if free:
            moved[CAR_I.brake_pressure_bar] = brake_bar(
                numbers,
                own,
                own_params,
                inputs[CAR_I.brake_pressure_bar],
                braking,
                abs_values,
                front,
                rear,
                car[CAR_S.vx],
                h,
            )
        if has_engine and free:
            speed = (share * front + (1.0 - share) * rear) / r
            engaged = shift(ratios, ends[0], ends[1], numbers, own, pedal, speed, h)
            lag = own_params[P.response_s]
            own[S.response] += (pedal - own[S.response]) * (1.0 - exp(-h / lag) if lag > 0.0 else 1.0)
    T = axle = at_front = at_rear = electric = power = 0.0
    for _ in range(count):
        wf, wr = car[CAR_S.wheel_speed_front], car[CAR_S.wheel_speed_rear]
        if free:
            if has_engine:
                t = own[S.ratio] * (share * wf + (1.0 - share) * wr)
                T, axle = engine_and_gears(
                    numbers,
                    rpm_grid,
                    pedal_grid,
                    torque,
                    own,
                    own_params,
                    own[S.response],
                    engaged,
                    t,
                    wheels,
                    max(dt, 1e-6),
                )
            apart = wf - wr
            between = own_params[P.centre_lock] * apart
            between += (
                0.5
                * own_params[P.centre_bias]
                * abs(axle)
                * apart
                / sqrt(apart * apart + _PLATES_CREEP * _PLATES_CREEP)
            )
            at_front, at_rear = share * axle - between, (1.0 - share) * axle + between
            if has_motor:
                split, ratio = numbers[N.motor_front], numbers[N.motor_ratio]
                speed = ratio * (split * wf + (1.0 - split) * wr)
                electric = motor_torque(numbers, own_params, pedal, foot, speed, car[CAR_S.vx])
                at_front += split * ratio * electric
                at_rear += (1.0 - split) * ratio * electric
                power = electric * speed
                power = power / numbers[N.motor_efficiency] if power > 0.0 else power * numbers[N.motor_efficiency]
                own[S.motor_energy] += dt * power
            moved[CAR_I.drive_torque], moved[CAR_I.front_drive_torque] = at_rear, at_front
        step_car(car, moved, car_params, of_car, car_work, dt)
    pass_outputs(tables, car_work, work)
    if not free:
        copy(view(inputs, 0, car_inputs), moved)
    out[W.engine_speed], out[W.gear] = own[S.engine_speed], own[S.gear]
    out[W.engine_torque], out[W.axle_torque_front], out[W.axle_torque_rear] = T, at_front, at_rear
    out[W.motor_torque], out[W.motor_power], out[W.motor_energy] = electric, power, own[S.motor_energy]
    out[W.brake_bar] = moved[CAR_I.brake_pressure_bar]
