"""The powertrain around the multibody car: what is decided once a step, of the rest the numbers for its hook.

Torques are made inside the car's implicit step (implicit.py, called by buggy/forces.py); the car has brakes with an ABS
at each wheel of its own.
"""

from math import exp, isnan

from sim_service.composite import OWN_INTS, Head, inside, pass_outputs
from sim_service.contract.machine import STEP
from sync.compile.array_copy import copy
from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.description import INPUTS as CAR_INPUTS
from tandem.machines.car.buggy.description import OUTPUTS as CAR_OUTPUTS
from tandem.machines.car.buggy.description import W as CAR_W
from tandem.machines.car.buggy.dynamics import step as step_car
from tandem.machines.car.powertrain.law import RPM, line_bar, map_torque, place_in, shift
from tandem.machines.car.powertrain.layout import (
    LEFT_BEHIND,
    LIVE,
    MOST_POINTS,
    OF_MAP,
    OF_NUMBERS,
    OF_PARAMETERS,
    A,
    D,
    I,
    L,
    N,
    P,
    S,
    W,
)
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part, view

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

_CAR_I = {q.name: i for i, q in enumerate(CAR_INPUTS)}
_THROTTLE, _BRAKE, _DRIVE, _SPEED = (
    _CAR_I[name] for name in ("throttle", "brake_pressure_bar", "drive_torque", "prescribed_speed")
)
_CAR_OUTPUTS, _INSIDE = len(CAR_OUTPUTS), 2  # engine speed and gear are shown there
_IDLE_SHARE = 0.3  # of the full torque at the lowest speed, that the governor gives
_UNBOUND = 1e9  # N m


@inner
def ratio_rate(numbers, ratios, own):
    """How fast a shift changes the ratio."""
    x = min(max(own[S.shift_clock] / numbers[N.shift_s], 0.0), 1.0)
    target = ratios[int(own[S.gear]) - 1] * numbers[N.final]
    return 6.0 * x * (1.0 - x) / numbers[N.shift_s] * (target - own[S.ratio_before])


# long: plain numbers: a kernel takes no object
@inner
def decide_on_engine(numbers, ratios, ends, grid, pedals, torque, own, params, g, left, pedal, speed, rate, h):
    """Gear, what its coupling carries, and the row of the map that holds in this step. `speed` and `rate` are those of
    what the gears turn, of both axles by their shares."""
    changes = ratio_rate(numbers, ratios, own)
    if left[L.sticks] > 0.5:
        left[L.rate] = own[S.ratio] * rate + changes * speed
    p = own[S.engine_speed] = left[L.engine_speed]
    t = own[S.ratio] * speed
    engaged = shift(ratios, ends[0], ends[1], numbers, own, pedal, speed, h)
    lag = params[P.response_s]
    own[S.response] += (pedal - own[S.response]) * (1.0 - exp(-h / lag) if lag > 0.0 else 1.0)
    points, factor, most = len(grid), params[P.torque_factor], numbers[N.most]
    g[D.ratio], g[D.points] = own[S.ratio], float(points)
    g[D.idle_torque] = _IDLE_SHARE * torque[len(torque) - points]
    g[D.converts] = _UNBOUND
    if engaged < 1.0:
        requested = factor * map_torque(grid, pedals, torque, own[S.response], RPM * p)
        most = g[D.converts] = min(most, abs(requested))
    locked = own[S.gear] >= numbers[N.locks_from_gear] and t > numbers[N.locks_at] * p
    locked = locked and engaged > 0.5 and RPM * p > numbers[N.idle_rpm]
    g[D.carries] = most if numbers[N.clutch] > 0.5 or locked else 0.0
    j, y = place_in(pedals, engaged * own[S.response])
    for k in range(points):
        low, high = torque[j * points + k], torque[(j + 1) * points + k]
        g[OF_MAP + k] = grid[k]
        g[OF_MAP + MOST_POINTS + k] = factor * (low + y * (high - low))
        g[OF_MAP + 2 * MOST_POINTS + k] = factor * torque[k]


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    head = tables.ints
    ints, reals, outputs = view(head, OWN_INTS, len(head)), tables.floats, head[Head.OUTPUTS]
    car, car_params, of_car, car_work = inside(state, params, tables, work)
    own, own_params = view(state, head[Head.STATES], len(state)), view(params, head[Head.PARAMETERS], len(params))
    out, of_inputs = view(work, outputs, head[Head.WORK_AT]), head[Head.INPUTS]
    spare = head[Head.WORK_AT] + head[Head.WORK]
    moved = view(work, spare, spare + of_inputs)
    copy(moved, view(inputs, 0, of_inputs))
    numbers = part(ints, reals, A.NUMBERS)

    places = of_car.ints
    core, of_core = view(car, 0, places[slots.SIZE]), view(places, slots.HEAD, len(places))
    element = part(of_core, core, Part.ELEMENT)
    left = view(element, slots.POWERTRAIN, slots.POWERTRAIN + LEFT_BEHIND)
    live = part(of_core, view(car_work, _CAR_OUTPUTS, len(car_work)), Part.LIVE)
    g = view(live, slots.LIVE, slots.LIVE + LIVE)
    qd, qdd, share = part(of_core, core, Part.QD), part(of_core, core, Part.QDD), own_params[P.front_share]

    pedal = min(max(inputs[_THROTTLE], 0.0), 1.0)
    braking = inputs[of_inputs + I.brake_pedal]
    free = isnan(inputs[_SPEED]) and isnan(inputs[_DRIVE])
    g[D.on] = 1.0 if free else 0.0
    if free:
        moved[_BRAKE] = line_bar(numbers, own, own_params, inputs[_BRAKE], braking, h)
        g[D.throttle], g[D.speed] = pedal, car_work[CAR_W.vx]
        g[D.foot] = 0.0 if isnan(braking) else min(max(braking, 0.0), 1.0)
        copy(view(g, OF_NUMBERS, OF_PARAMETERS), numbers)
        copy(view(g, OF_PARAMETERS, OF_MAP), own_params)
        if numbers[N.engine] > 0.5 and h > 0.0:
            at = places[slots.SPIN], places[slots.SPIN + 1], places[slots.SPIN + 2], places[slots.SPIN + 3]
            speed = 0.5 * (share * (qd[at[0]] + qd[at[1]]) + (1.0 - share) * (qd[at[2]] + qd[at[3]]))
            rate = 0.5 * (share * (qdd[at[0]] + qdd[at[1]]) + (1.0 - share) * (qdd[at[2]] + qdd[at[3]]))
            ends, ratios = (part(ints, reals, A.UP), part(ints, reals, A.DOWN)), part(ints, reals, A.RATIOS)
            grid, pedals, torque = part(ints, reals, A.RPM), part(ints, reals, A.PEDAL), part(ints, reals, A.TORQUE)
            decide_on_engine(
                numbers, ratios, ends, grid, pedals, torque, own, own_params, g, left, pedal, speed, rate, h
            )  # fmt: skip
    power = left[L.motor_power]
    step_car(car, moved, car_params, of_car, car_work, h)
    pass_outputs(tables, car_work, work)
    if free:
        own[S.motor_energy] += 0.5 * h * (power + left[L.motor_power])
        own[S.engine_speed] = left[L.engine_speed]
    else:
        copy(view(inputs, 0, of_inputs), moved)
    work[CAR_W.engine_speed], work[CAR_W.gear] = left[L.engine_speed], own[S.gear]
    out[W.engine_torque - _INSIDE] = left[L.engine_torque]
    out[W.axle_torque_front - _INSIDE] = left[L.front_torque] if free else 0.0
    out[W.axle_torque_rear - _INSIDE] = left[L.rear_torque] if free else 0.0
    out[W.motor_torque - _INSIDE], out[W.motor_power - _INSIDE] = left[L.motor_torque], left[L.motor_power]
    out[W.motor_energy - _INSIDE], most = own[S.motor_energy], 0.0
    for w in range(4):
        most = max(most, live[slots.PRESSURE + w])
    out[W.brake_bar - _INSIDE] = most
