"""The buggy's step: from inputs to outputs, all of it nopython.

Promises
- One implicit step of the multibody core, whatever happens: a step that ends at the limit of iterations is marked and
  goes on; one that ends nowhere (not finite, or with energy of its own) is thrown away, the car stands still where it
  was, and `capped` is 2. Gear, brake pressures and the rack are decided once, before it.
- The rack moves by the angle of the hand wheel, or with `steering_mode` 1 by the torque on it (steering.py), and may be
  switched from one to the other while driving.
- What the next step depends on is in `state`: that of the multibody core, then `MEMORY`. `work` is scratch, which is
  zero at first.

`tables.floats` are the core's real tables, the hook's constants among them (forces.py); `tables.ints` are places
(`SIZE` and on) and, behind them, the core's integer tables. What holds for one step is in `work`, where the hook finds
it.
"""

from math import asin, atan2, cos, exp, floor, isfinite, isnan, pi, sin

from numba import boolean, float64, int64, void
from numba.core.types import FunctionType

from sim_service.contract.machine import STEP, TABLES, index
from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS, VECTOR
from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy import (
    brake_parameters,
    brakes,
    driveline,
    driveline_parameters,
    forces,
    prescribed,
    slots,
    steering,
)
from tandem.machines.car.buggy.description import INPUTS, OUTPUTS, PARAMETERS, WHEEL, P, V, W
from tandem.machines.car.buggy.law import CHASSIS
from tandem.machines.car.buggy.slots import HEAD, NUMBERS, PORTS, RACK_INPUT, RACK_ROW, SIZE, SPIN
from tandem.machines.car.engine import drive_torque
from tandem.machines.car.powertrain.layout import D
from tandem.multibody.finite import finite
from tandem.multibody.natural import tables as core
from tandem.multibody.natural.augmented import step as advance
from tandem.multibody.natural.closing import evaluate_ports
from tandem.multibody.natural.halving import estimate, extrapolate, halve
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part, view

GRAVITY = 9.81  # m/s2
MOST_RESIDUAL = 50.0  # J of work that one step may be wrong by
MOST_PARTS = 16
MOST_KINETIC = 1e9  # J; no car has as much
MOST_GAIN = 5e4  # J in a step that did not converge, beyond the work of all forces: it went astray
AT_REST = 1e-16  # J; of a motion at its height
UPRIGHT = 0.5  # cosine of the lean below which a car does not come back to its wheels
CRAWL = 0.1  # m/s; sideslip is relative to at least this speed

STEERING_WORK = 9  # behind the core's work: a better rack, the hand wheel and a better one: value, rate, acceleration

# the memory of a car behind the state of the core
YAW, LINE_BAR, COUNT, STEP_ERROR = range(4)  # LINE_BAR: pressure behind the lag of the brakes
LAST = 4  # COUNT: steps since the last estimate, STEP_ERROR: that estimate; LAST: torque, ratio and pressures before
STEERING = LAST + slots.LIVE - slots.DRIVE
SHIFT = STEERING + len(steering.MEMORY)
ABS = SHIFT + len(driveline_parameters.MEMORY)
MEMORY = ABS + 4 * len(brake_parameters.MEMORY)

DRIVELINE, BRAKES = slots.DRIVELINE_PARAMETERS, slots.BRAKE_PARAMETERS
_PARAMETERS, _OUTPUTS, PER_WHEEL = len(PARAMETERS), len(OUTPUTS), len(WHEEL)
_ABS_SIZE, _BRAKE_SIZE, _DRIVELINE_SIZE = (
    len(brake_parameters.MEMORY),
    len(brake_parameters.PARAMETERS),
    len(driveline_parameters.PARAMETERS),
)
_BRAKE_STATES, _BRAKE_SPEED = len(brake_parameters.STATES), int(brake_parameters.S.wheel_speed)
_RATIO_OF_POWERTRAIN = slots.LIVE + int(D.ratio)
_GEAR_HELD = int(driveline_parameters.P.gear_held)
_THROTTLE = index(INPUTS, "throttle")
_BRAKE = index(INPUTS, "brake_pressure_bar")
_DRIVE = index(INPUTS, "drive_torque")
_HAND_TORQUE = index(INPUTS, "hand_wheel_torque")


# long: one line an output, in their order
@inner
def write_outputs(places, ints, car, params, numbers, memory, torque, own, work):
    """The outputs of a step that was made."""
    ports = places[PORTS]
    x, xd = part(ints, own, Part.X)[ports:], part(ints, own, Part.XD)[ports:]
    qdd, left = part(ints, car, Part.QDD), part(ints, car, Part.ELEMENT)
    at = CHASSIS
    e, ed = x[at + 3 : at + 12], xd[at + 3 : at + 12]

    # attitude: the chassis is first among the coordinates
    yaw = atan2(e[1], e[0])
    turns = floor((memory[YAW] - yaw) / (2.0 * pi) + 0.5)  # np.round is not for a GPU
    yaw += 2.0 * pi * turns
    memory[YAW] = yaw
    c, s = cos(yaw), sin(yaw)
    work[W.x], work[W.y], work[W.z] = x[at], x[at + 1], x[at + 2]
    work[W.yaw], work[W.pitch], work[W.roll] = yaw, asin(min(max(-e[2], -1.0), 1.0)), atan2(e[5], e[8])
    vx, vy = xd[at] * c + xd[at + 1] * s, xd[at + 1] * c - xd[at] * s
    work[W.vx], work[W.vy], work[W.vz] = vx, vy, xd[at + 2]
    work[W.roll_rate] = ed[3] * e[6] + ed[4] * e[7] + ed[5] * e[8]
    work[W.pitch_rate] = ed[6] * e[0] + ed[7] * e[1] + ed[8] * e[2]
    work[W.yaw_rate] = ed[0] * e[3] + ed[1] * e[4] + ed[2] * e[5]
    for i in range(3):
        a = 0.0
        for k in range(3):
            component = qdd[k] + (GRAVITY if k == 2 else 0.0)
            for j in range(3):
                component += numbers[slots.CENTRE + j] * qdd[3 + 3 * j + k]
            a += component * e[3 * i + k]
        work[W.ax + i] = a
    work[W.sideslip] = atan2(vy, max(abs(vx), CRAWL))

    # steering: the multiplier is the force along the rack
    per_angle = numbers[slots.RACK_SIGN] * params[P.rack_travel_per_turn] / (2.0 * pi)
    force = -part(ints, car, Part.LAM)[places[RACK_ROW]]
    column = memory[STEERING:SHIFT]
    work[W.rack] = column[steering.RACK]
    work[W.rack_force] = force
    second = car[places[RACK_INPUT] + 2] / per_angle  # of the hand wheel, as the rack followed it
    work[W.steering_torque] = force * per_angle + params[P.column_inertia] * second
    work[W.column_torque] = force * per_angle
    if params[P.steering_mode] >= 0.5:
        work[W.steering_torque] = torque
        rack = car[places[RACK_INPUT] : places[RACK_INPUT] + 3]
        work[W.column_torque] = steering.column_torque(params, numbers[slots.RACK_SIGN], column, rack, torque)
    elif params[P.column_stiffness] > 0.0:
        rack = car[places[RACK_INPUT] : places[RACK_INPUT] + 3]
        stiffness = params[P.column_stiffness]
        bar = steering.bar_torque(stiffness, column[steering.HAND :], rack[0] / per_angle, rack[1] / per_angle)
        inertia, damping = params[P.column_inertia], params[P.column_damping]
        hand = inertia * column[steering.HAND_SECOND] + damping * column[steering.HAND_RATE]
        work[W.column_torque], work[W.steering_torque] = bar, bar + hand
    work[W.hand_wheel_angle], work[W.hand_wheel_speed] = column[steering.HAND], column[steering.HAND_RATE]

    # wheels
    for w in range(4):
        k, base = 13 * w, slots.LEFT + PER_WHEEL * w
        out = W.wheel_speed_fl + PER_WHEEL * w
        for i in range(PER_WHEEL):
            work[out + i] = left[base + i]
        ahead = aside = 0.0
        frame = slots.FRAMES + 12 * w
        for j in range(3):
            a = numbers[frame + 9 + j]
            for i in range(3):
                ahead += a * x[k + 4 + 3 * j + i] * e[i]
                aside += a * x[k + 4 + 3 * j + i] * e[3 + i]
        work[out + V.steer] = atan2(-ahead, aside)
        height = 0.0
        for i in range(3):
            height += (x[k + i] - x[at + i]) * e[6 + i]
        work[out + V.travel] = height - numbers[slots.REFERENCE_HEIGHT + w]
    work[W.road_wheel_angle] = 0.5 * (work[W.steer_fl] + work[W.steer_fr])
    work[W.wheel_speed_front] = 0.5 * (work[W.wheel_speed_fl] + work[W.wheel_speed_fr])
    work[W.wheel_speed_rear] = 0.5 * (work[W.wheel_speed_rl] + work[W.wheel_speed_rr])

    # driveline, air, step
    work[W.axle_torque], work[W.drag] = left[slots.AXLE_TORQUE], left[slots.DRAG]
    work[W.body_load] = left[slots.BODY_LOAD]
    work[W.drive_force] = work[W.force_x_fl] + work[W.force_x_fr] + work[W.force_x_rl] + work[W.force_x_rr]
    work[W.overturned] = 0.0 if e[8] > UPRIGHT else (1.0 if e[8] > -UPRIGHT else 2.0)
    work[W.gear] = memory[SHIFT]
    work[W.engine_speed] = left[slots.ENGINE]
    out = part(ints, own, Part.DIAGNOSTIC)
    work[W.iterations], work[W.capped] = out[core.ITERATIONS], out[core.CAPPED]
    work[W.phi_error], work[W.phid_error] = out[core.PHI_ERROR], out[core.PHID_ERROR]
    work[W.contraction], work[W.energy_residual] = out[core.CONTRACTION], out[core.ENERGY_RESIDUAL]
    estimated = params[P.estimate_every] > 0.5 and params[P.step_halving] < 0.5
    work[W.step_error] = memory[STEP_ERROR] if estimated else out[core.STEP_ERROR]


@inner
def spinning(left, w):
    """Speed of a wheel against its brake, as of the last step."""
    return left[slots.BRAKES + _BRAKE_STATES * w + _BRAKE_SPEED]


@inner
def stand(places, ints, car, params, live, before, h):
    """Wheels that their brakes hold turn with their carriers, and not at all against them."""
    left, qd, qdd = part(ints, car, Part.ELEMENT), part(ints, car, Part.QD), part(ints, car, Part.QDD)
    p = params[BRAKES : BRAKES + _BRAKE_SIZE]
    inertia = params[P.wheel_spin_inertia]
    for w in range(4):
        of, at, k = left[slots.LEFT + PER_WHEEL * w :], slots.BRAKES + _BRAKE_STATES * w, places[SPIN + w]
        carrier = of[V.wheel_speed] - left[at + _BRAKE_SPEED]
        limit = brakes.friction_limit(p, w < 2, live[slots.PRESSURE + w])
        speed, torque = qd[k] - carrier, of[V.brake_torque]
        if brakes.hold(p, limit, left, at, h, before[w], speed, qdd[k], torque, inertia):
            of[V.wheel_speed] = qd[k] = carrier
            qdd[k] = 0.0


@inner
def remember_drive(ints, own, last):
    live = part(ints, own, Part.LIVE)
    for i in range(len(last)):
        last[i] = live[slots.DRIVE + i]


@inner
def go_back(car, memory, previous):
    """To the beginning of the step: the state of the core, and what `advance_core` remembers."""
    copy(car, previous)
    copy(memory[COUNT:STEERING], previous[len(car) + COUNT :])


@inner
def advance_core(ints, reals, car, own, params, memory, previous, h):
    """The step of the core: plain, with an estimate of its error, or halved and extrapolated.

    Half way the rack, torque, ratio and pressures are between those of both ends (`previous`: the beginning), as the
    trapezoidal rule has them; the pedal, which the engine takes as constant in a step, is that of the end.
    """
    every = int(params[P.estimate_every] + 0.5)
    last, begin = memory[LAST:STEERING], part(ints, previous, Part.INPUT)
    if params[P.step_halving] > 0.5:
        halve(ints, reals, car, own, forces.hook, h, begin, last, slots.DRIVE)
        if part(ints, own, Part.DIAGNOSTIC)[core.ATTEMPTS] == 1.0:
            # what elements leave behind is continuous here: tyres, brakes, engine, results of the wheels
            size = len(car)
            whole = part(ints, own, Part.SAVED)[2 * size : 3 * size]
            extrapolate(part(ints, car, Part.ELEMENT), part(ints, whole, Part.ELEMENT))
        return
    if every > 0:
        memory[COUNT] += 1.0
    if every > 0 and memory[COUNT] >= every:
        memory[COUNT] = 0.0
        estimate(ints, reals, car, own, forces.hook, h, begin, last, slots.DRIVE)
        memory[STEP_ERROR] = part(ints, own, Part.DIAGNOSTIC)[core.STEP_ERROR]
    else:
        advance(ints, reals, car, own, forces.hook, h)
        remember_drive(ints, own, last)


@inner
def advance_in_parts(ints, reals, car, params, memory, previous, own, place, parts, h):
    """One step of the core in `parts`; in 4 or 16 where it does not converge or is too coarse for what happens in it.

    In one step of the trapezoidal rule the work of a force that changes by dF while the velocity changes by dv is wrong
    by h/4 dF dv: steel that hits the ground, a wheel thrown against its stop. That is what the energy residual is. A
    force that the trapezoid misses (a point of the body that passes the face of a wall within the step) shows in the
    energy that contact and stops store: it must have grown by the work that was done on them.
    """
    left = part(ints, car, Part.ELEMENT)
    out, rack = part(ints, own, Part.DIAGNOSTIC), car[place : place + 3]
    x, v, a = rack[0], rack[1], rack[2]
    while True:
        dt = h / parts
        iterations = capped = residual = size = 0.0
        for k in range(parts):
            before_end = (parts - 1 - k) * dt
            stored, gave = left[slots.ENERGY], left[slots.POWER]
            rack[0], rack[1], rack[2] = x - before_end * (v - 0.5 * before_end * a), v - before_end * a, a
            if parts == 1:
                advance_core(ints, reals, car, own, params, memory, previous, dt)
            else:
                advance(ints, reals, car, own, forces.hook, dt)
            iterations += out[core.ITERATIONS]
            capped = max(capped, out[core.CAPPED])
            residual += out[core.ENERGY_RESIDUAL]
            missed = left[slots.ENERGY] - stored + 0.5 * dt * (gave + left[slots.POWER])
            if stored < 0.0:  # not known: the first step, or the state was moved
                missed = 0.0
            size += max(abs(out[core.ENERGY_RESIDUAL]), abs(out[core.ENERGY_RESIDUAL] + missed))
            if parts < MOST_PARTS and not (capped == 0.0 and size <= MOST_RESIDUAL):
                break
        if (capped == 0.0 and size <= MOST_RESIDUAL) or parts == MOST_PARTS:
            break
        parts *= 4
        go_back(car, memory, previous)
    if parts > 1:
        remember_drive(ints, own, memory[LAST:STEERING])
    out[core.ITERATIONS], out[core.CAPPED], out[core.ENERGY_RESIDUAL] = iterations, capped, residual
    return parts


@inner
def move(places, ints, reals, car, numbers, params, inputs, torque, memory, previous, own, h):
    """The step of the core with the rack as it is steered; by torque it is made again until both agree.

    Where they do not in so many tries, the last one is marked as capped.
    """
    place, sign = places[RACK_INPUT], numbers[slots.RACK_SIGN]
    rack, lam = car[place : place + 3], part(ints, car, Part.LAM)
    column = memory[STEERING:SHIFT]
    held_hand = params[P.steering_mode] < 0.5
    by_torque = not held_hand or params[P.column_stiffness] > 0.0
    start = (column[steering.RACK], rack[1], rack[2])
    force, at = -lam[places[RACK_ROW]], rack[2]
    mass = column[steering.STEERED] if column[steering.STEERED] > 0.0 else params[P.steered_mass]
    first = len(own) - len(previous) - STEERING_WORK
    wanted, hand, better = own[first : first + 3], own[first + 3 : first + 6], own[first + 6 : first + 9]
    parts = 1
    if not by_torque:
        steering.by_angle(inputs, params, sign, column[steering.RACK], rack, h)
    elif held_hand:
        steering.hand_by_angle(inputs, params, sign, column, better, h)
    for attempt in range(steering.TRIES + 1 if by_torque else 1):
        change = 0.0
        if by_torque:
            steering.by_torque(params, sign, torque, column, start, force, at, mass, h, held_hand, wanted, better)
            change = wanted[2] - at
            if attempt > 0 and abs(change) <= steering.AGREE + steering.AGREE_SHARE * abs(at):
                break
            if attempt >= (steering.TRIES if parts == 1 else steering.TRIES_IN_PARTS):
                report = part(ints, own, Part.DIAGNOSTIC)
                report[core.CAPPED] = max(report[core.CAPPED], 1.0)
                break
            if attempt > 0:
                go_back(car, memory, previous)
            for i in range(3):
                rack[i], hand[i] = wanted[i], better[i]
        parts = advance_in_parts(ints, reals, car, params, memory, previous, own, place, parts, h)
        found = -lam[places[RACK_ROW]]
        if attempt > 0 and abs(change) > steering.AGREE:
            mass = min(max((found - force) / change, steering.LEAST_MASS), steering.MOST_MASS)
        force, at = found, rack[2]
    if by_torque:
        column[steering.RACK], column[steering.STEERED] = rack[0], mass
        for i in range(3):
            column[steering.HAND + i] = hand[i]
    else:
        steering.hand_with_rack(params, sign, column, rack)
    return parts


@inner
def stop_dead(places, ints, reals, state, car, memory, previous, own, h):
    """A step that found no finite end: the car is where it was, at rest. It may lose energy so, never gain any.

    `own`, from which outputs are written, is looked at again: it holds what the failed step came to.
    """
    copy(state, previous)
    car[0] += h
    for which in (Part.QD, Part.QDD, Part.LAM, Part.POWER):
        of = part(ints, car, which)
        for i in range(len(of)):
            of[i] = 0.0
    left = part(ints, car, Part.ELEMENT)
    left[slots.POWER] = 0.0
    for i in range(slots.ENGINE):
        left[i] = 0.0
    for w in range(4):
        of = left[slots.LEFT + PER_WHEEL * w :]
        of[V.wheel_speed] = of[V.speed] = 0.0
    rack, column = car[places[RACK_INPUT] : places[RACK_INPUT] + 3], memory[STEERING:SHIFT]
    rack[1] = rack[2] = column[steering.HAND_RATE] = column[steering.HAND_SECOND] = 0.0
    report = part(ints, own, Part.DIAGNOSTIC)
    report[core.KINETIC] = report[core.ENERGY_RESIDUAL] = 0.0
    evaluate_ports(ints, reals, car, own)


@inner
def decide(ints, car, memory, inputs, params, live, h):
    """What holds for a whole step, to `live`: parameters, pedal, gear and pressures. Returns the driver's torque."""
    for i in range(_PARAMETERS):
        live[i] = params[i]
    torque = params[P.hand_torque]
    if isnan(inputs[_HAND_TORQUE]):
        inputs[_HAND_TORQUE] = torque if params[P.steering_mode] >= 0.5 else 0.0
    else:
        torque += inputs[_HAND_TORQUE]
    left = part(ints, car, Part.ELEMENT)
    rear = 0.5 * (left[slots.LEFT + 2 * PER_WHEEL] + left[slots.LEFT + 3 * PER_WHEEL])
    p = params[DRIVELINE : DRIVELINE + _DRIVELINE_SIZE]
    live[slots.RATIO] = driveline.shift(p, memory[SHIFT:], inputs[_THROTTLE], rear, h)
    if len(live) > slots.LIVE:
        live[slots.RATIO] = live[_RATIO_OF_POWERTRAIN]
    if isnan(inputs[_DRIVE]):
        inputs[_DRIVE] = drive_torque(inputs[_THROTTLE], rear, driveline.gear_ratio(p, p[_GEAR_HELD]))
    live[slots.THROTTLE], live[slots.DRIVE] = inputs[_THROTTLE], inputs[_DRIVE]
    pressure = max(inputs[_BRAKE], 0.0)
    if params[P.brake_lag] > 0.0:
        pressure = memory[LINE_BAR] + (pressure - memory[LINE_BAR]) * (1.0 - exp(-h / params[P.brake_lag]))
    memory[LINE_BAR] = pressure
    p = params[BRAKES : BRAKES + _BRAKE_SIZE]
    for w in range(4):
        of = left[slots.LEFT + PER_WHEEL * w :]
        rolling = of[V.wheel_speed] * of[V.rolling_radius]
        at = ABS + _ABS_SIZE * w
        live[slots.PRESSURE + w] = brakes.control(p, memory, at, pressure, rolling, of[V.speed], h)
    return torque


@inner
def begin_step(ints, car, memory, inputs, params, numbers, live, h):
    """What holds for a whole step, to `live`. Returns the driver's torque, and whether the speed is prescribed."""
    at_speed = not isnan(inputs[prescribed.SPEED])
    if not isnan(inputs[prescribed.ANGLE]) and params[P.steering_mode] < 0.5:
        prescribed.steer(ints, car, memory[STEERING:SHIFT], inputs, params, numbers[slots.RACK_SIGN], h)
    torque = decide(ints, car, memory, inputs, params, live, h)
    if at_speed:
        prescribed.drive(ints, car, memory[LAST:STEERING], inputs, params, numbers, live, h)
    return torque, at_speed


@inner
def wheels_before(left):
    return spinning(left, 0), spinning(left, 1), spinning(left, 2), spinning(left, 3)


# long: a machine as flat arrays; a kernel takes no object
@inner
def end_step(places, ints, reals, car, memory, inputs, params, numbers, own, work, torque, at_speed, h):
    """What follows the step of the core: the rest of a prescribed speed, and outputs."""
    push = 0.0
    if at_speed:
        push = prescribed.correct(places, ints, reals, car, own, inputs, params, numbers, h)
    write_outputs(places, ints, car, params, numbers, memory, torque, own, work)
    work[W.drive_force] += push


@inner
def make_step(state, inputs, params, tables, work, middle, h):
    """The step; into `middle`, unless it is empty, the state that the core left."""
    places, reals = tables.ints, tables.floats
    ints = view(places, HEAD, len(places))
    car, memory = state[: places[SIZE]], state[places[SIZE] :]
    previous = work[len(work) - len(state) :]
    copy(previous, state)
    own = work[_OUTPUTS:]
    numbers = view(reals, places[NUMBERS], len(reals))

    live = part(ints, own, Part.LIVE)
    torque, at_speed = begin_step(ints, car, memory, inputs, params, numbers, live, h)
    before = wheels_before(part(ints, car, Part.ELEMENT))
    parts = move(places, ints, reals, car, numbers, params, inputs, torque, memory, previous, own, h)
    copy(middle, state)
    stand(places, ints, car, params, live, before, h)
    report = part(ints, own, Part.DIAGNOSTIC)
    burst = report[core.CAPPED] > 0.0 and report[core.ENERGY_RESIDUAL] > MOST_GAIN
    lost = burst or not finite(state) or not report[core.KINETIC] < MOST_KINETIC
    lost = lost and finite(previous)  # a state that was not finite before is no step that went wrong, and must be seen
    if lost:
        stop_dead(places, ints, reals, state, car, memory, previous, own, h)
    end_step(places, ints, reals, car, memory, inputs, params, numbers, own, work, torque, at_speed and not lost, h)
    work[W.parts] = parts
    if lost:
        for i in range(_OUTPUTS):
            if not isfinite(work[i]):
                work[i] = 0.0
        work[W.capped] = 2.0


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    make_step(state, inputs, params, tables, work, view(work, 0, 0), h)


@kernel(void(VECTOR, CONSTANTS, TABLES, VECTOR), error_model="numpy")
def show(state, params, tables, work):
    """Outputs of a state that was moved between two steps."""
    places, reals = tables.ints, tables.floats
    ints, own = view(places, HEAD, len(places)), work[_OUTPUTS:]
    car, memory = state[: places[SIZE]], state[places[SIZE] :]
    numbers = view(reals, places[NUMBERS], len(reals))
    evaluate_ports(ints, reals, car, own)
    write_outputs(places, ints, car, params, numbers, memory, 0.0, own, work)


@kernel(void(FunctionType(STEP), VECTOR, VECTOR, CONSTANTS, TABLES, VECTOR, float64, int64, boolean))
def settle(step, state, inputs, params, tables, work, h, steps, slide):
    """At most so many of the steps above, stopped dead whenever the motion has passed its height; that leads to rest
    quickly.

    `slide`: tyres forget their slip after each step, so that nothing holds the car in the road plane.
    """
    places = tables.ints
    ints = view(places, HEAD, len(places))
    car = state[: places[SIZE]]
    left, qd, qdd = part(ints, car, Part.ELEMENT), part(ints, car, Part.QD), part(ints, car, Part.QDD)
    diagnostic = part(ints, work[_OUTPUTS:], Part.DIAGNOSTIC)
    last = 0.0
    for _ in range(steps):
        step(state, inputs, params, tables, work, h)
        energy = diagnostic[core.KINETIC]
        if energy < last:
            if last < AT_REST:
                break
            energy = left[slots.POWER] = 0.0
            for i in range(len(qd)):
                qd[i] = 0.0
                qdd[i] = 0.0
        last = energy
        if slide:
            for i in range(slots.ENGINE):
                left[i] = 0.0
