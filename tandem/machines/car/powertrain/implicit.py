"""The powertrain inside an implicit step: torques on all wheels for their speeds at the step's end, and derivatives.

The laws are those of step.py, with these differences, which make them good at 5 ms.

Engine. With t the speed of the gearbox's input and p the engine's at the end of the step, p0 and its rate p0' at the
beginning, and friction F of clutch or lock that carries no more than `most`,

    J p' = T(p) - T_p(p, t) - F,      p = p0 + h / 2 (p0' + p')

Either p = t, where the F that this takes is not above `most`: the engine is as much inertia on the axle, by the same
rule as the wheels of the car. Else F is `most` against the slip, and p the one solution in the bracket that the sign of
the slip leaves. F falls continuously with t, and so does the torque on the gears. Where it held at the beginning too,
p0' is that of the axle (`rate`, which whoever decides on the step puts there): else what a step is wrong by would
change its sign with every step, for ever.

Promises, as those of buggy/driveline.py: `states` to `after`, nothing else is remembered; no NaN for finite arguments;
slopes >= 0 and those of the torques returned.
"""

from math import sqrt

from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy import driveline
from tandem.machines.car.powertrain.law import BAND, RPM, motor_torque, place_in
from tandem.machines.car.powertrain.layout import (
    LEFT_BEHIND,
    LIVE,
    MOST_POINTS,
    OF_FRONT_AXLE,
    OF_MAP,
    OF_NUMBERS,
    OF_PARAMETERS,
    D,
    L,
    N,
    P,
)
from tandem.multibody.natural.views import view

_PLATES_CREEP = 0.5  # rad/s
_ITERATIONS = 60  # Newton needs a few; bisection, its safeguard, would end here
_SAME = 1e-12  # relative change of engine speed at which the iteration ends
_ALIKE = 1e-6  # relative difference at which engine and gears turn alike, in a step of no length
_BESIDE = 0.1  # rad/s, for the slope of the motor's torque


@kernel(error_model="numpy")
def engine(g, numbers, p):
    """Torque at the crankshaft, and its derivative: the map at this pedal, governor and limiter."""
    points, rpm = int(g[D.points]), RPM * p
    grid = view(g, OF_MAP, OF_MAP + points)
    k, x = place_in(grid, rpm)
    at, low = OF_MAP + MOST_POINTS + k, OF_MAP + 2 * MOST_POINTS + k
    per_rpm = 1.0 / (grid[k + 1] - grid[k]) if 0.0 < x < 1.0 else 0.0
    rise, rise_low = g[at + 1] - g[at], g[low + 1] - g[low]
    T, less = g[at] + x * rise, g[low] + x * rise_low
    T_x = per_rpm * rise
    cut, cut_x = driveline.ramp((rpm - numbers[N.limit_rpm]) / BAND)
    T_x += cut * (per_rpm * rise_low - T_x) + cut_x / BAND * (less - T)
    T += cut * (less - T)
    idle, idle_x = driveline.ramp(0.5 + (numbers[N.idle_rpm] - rpm) / (2.0 * BAND))
    more = max(g[D.idle_torque] - min(T, 0.0), 0.0)
    more_x = -T_x if T < 0.0 and more > 0.0 else 0.0
    return T + idle * more, RPM * (T_x + idle * more_x - idle_x / (2.0 * BAND) * more)


@inner
def most_friction(g, numbers, p):
    """What clutch or lock carry at this engine speed, and its derivative."""
    if numbers[N.clutch] < 0.5:
        return g[D.carries], 0.0
    share, share_x = driveline.ramp((RPM * p - numbers[N.idle_rpm] + BAND) / numbers[N.engages_rpm])
    return g[D.carries] * share, g[D.carries] * share_x * RPM / numbers[N.engages_rpm]


@inner
def converter(g, numbers, p, t):
    """As driveline.converter; while gears are changed it has no more torque than it had."""
    if numbers[N.clutch] > 0.5:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    Tp, Tt, Tp_p, Tp_t, Tt_p, Tt_t = driveline.converted(
        numbers[N.capacity], numbers[N.stall_ratio], numbers[N.coupling], p, t
    )
    most = g[D.converts]
    if abs(Tp) > most:
        Tp, Tp_p, Tp_t = min(max(Tp, -most), most), 0.0, 0.0
    if abs(Tt) > most:
        Tt, Tt_p, Tt_t = min(max(Tt, -most), most), 0.0, 0.0
    return Tp, Tt, Tp_p, Tp_t, Tt_p, Tt_t


@kernel(error_model="numpy")
def coupled(g, numbers, p0, rate0, t, h):
    """Of the end of the step: engine speed, its rate, whether it turns with the gears; torque of the engine, torque on
    the gears and d/dt of that."""
    J = numbers[N.inertia]
    if h <= 0.0:
        T, _ = engine(g, numbers, p0)
        _, Tt, _, _, _, _ = converter(g, numbers, p0, t)
        most, _ = most_friction(g, numbers, p0)
        alike = abs(p0 - t) <= _ALIKE * (1.0 + p0)
        needed = T - J * rate0 if alike else (most if p0 > t else -most)
        return p0, rate0, 1.0 if alike else 0.0, T, Tt + min(max(needed, -most), most), 0.0

    at = max(t, 0.0)
    rate = 2.0 * (at - p0) / h - rate0
    T, T_x = engine(g, numbers, at)
    most, _ = most_friction(g, numbers, at)
    needed = T - J * rate
    if t >= 0.0 and most > 0.0 and abs(needed) <= most:
        return at, rate, 1.0, T, needed, min(T_x - 2.0 * J / h, 0.0)

    sign = 1.0 if t < 0.0 or needed > most else -1.0
    low, high = (at, driveline.LIMIT) if sign > 0.0 else (0.0, at)
    start, p = J * (p0 + 0.5 * h * rate0), min(max(p0, low), high)
    for _ in range(_ITERATIONS):
        T, T_x = engine(g, numbers, p)
        Tp, _, Tp_p, _, _, _ = converter(g, numbers, p, t)
        most, most_x = most_friction(g, numbers, p)
        residual = J * p - start - 0.5 * h * (T - Tp - sign * most)
        slope = J - 0.5 * h * (T_x - Tp_p - sign * most_x)
        if residual > 0.0:
            high = p
        else:
            low = p
        last = p
        p -= residual / slope if slope > 0.0 else 2.0 * driveline.LIMIT
        if not low <= p <= high:
            p = 0.5 * (low + high)
        if abs(p - last) <= _SAME * (1.0 + p):
            break
    T, T_x = engine(g, numbers, p)
    Tp, Tt, Tp_p, Tp_t, Tt_p, Tt_t = converter(g, numbers, p, t)
    most, most_x = most_friction(g, numbers, p)
    slope = J - 0.5 * h * (T_x - Tp_p - sign * most_x)
    follows = -0.5 * h * Tp_t / slope if slope > 0.0 else 0.0
    rate = (T - Tp - sign * most) / J
    return p, rate, 0.0, T, Tt + sign * most, Tt_t + (Tt_p + sign * most_x) * follows


@inner
def put(f, C, at, block, share, torque, slope):
    """Torque by these shares of it on four wheels, and its slope by their speeds in the same shares."""
    for i in range(4):
        f[at + i] += share[i] * torque
        for j in range(4):
            C[block + 4 * i + j] += slope * share[i] * share[j]


# long: plain numbers: a kernel takes no object
@inner
def axles(live, own, outside, ratio, h, w, states, after, to, f, C, at, block):
    """Torques on all wheels by their speeds `w`. What the powertrain reads is at `own`, what it leaves at `to`.

    Returns those on the front and on the rear axle; `outside` is what is put on the rear axle in their place, `ratio`
    that of gear and final drive.
    """
    g = view(live, own, own + LIVE)
    for i in range(LEFT_BEHIND):
        after[to + i] = 0.0
    after[to + L.engine_speed], after[to + L.rate] = states[to + L.engine_speed], states[to + L.rate]
    wf, wr = 0.5 * (w[0] + w[1]), 0.5 * (w[2] + w[3])
    if g[D.on] < 0.5:
        put(f, C, at, block, (0.0, 0.0, 0.5, 0.5), outside, 0.0)
        after[to + L.rear_torque] = outside
        return 0.0, outside
    numbers, params = view(g, OF_NUMBERS, OF_PARAMETERS), view(g, OF_PARAMETERS, OF_FRONT_AXLE)
    share, axle = params[P.front_share], 0.0
    rest = 1.0 - share
    if numbers[N.engine] > 0.5:
        t = min(max(ratio * (share * wf + rest * wr), -driveline.LIMIT), driveline.LIMIT)
        p0 = min(max(states[to + L.engine_speed], 0.0), driveline.LIMIT)
        p, rate, sticks, T, Tt, Tt_t = coupled(g, numbers, p0, states[to + L.rate], t, h)
        out, slope = driveline.geared(1.0 - params[P.driveline_efficiency], Tt, Tt_t, t)
        axle, slope = ratio * out, max(ratio * ratio * slope, 0.0)
        put(f, C, at, block, (0.5 * share, 0.5 * share, 0.5 * rest, 0.5 * rest), axle, slope)
        after[to + L.engine_speed], after[to + L.rate], after[to + L.sticks] = p, rate, sticks
        after[to + L.engine_torque] = T
    apart = wf - wr
    lock = params[P.centre_lock]
    lock += 0.5 * params[P.centre_bias] * abs(axle) / sqrt(apart * apart + _PLATES_CREEP * _PLATES_CREEP)
    put(f, C, at, block, (0.5, 0.5, -0.5, -0.5), -lock * apart, lock)
    front, rear = share * axle - lock * apart, rest * axle + lock * apart
    if numbers[N.motor] > 0.5:
        by, part = numbers[N.motor_ratio], numbers[N.motor_front]
        speed = by * (part * wf + (1.0 - part) * wr)
        T = motor_torque(numbers, params, g[D.throttle], g[D.foot], speed, g[D.speed])
        less = motor_torque(numbers, params, g[D.throttle], g[D.foot], speed + _BESIDE, g[D.speed])
        ahead, behind = 0.5 * by * part, 0.5 * by * (1.0 - part)
        put(f, C, at, block, (ahead, ahead, behind, behind), T, max((T - less) / _BESIDE, 0.0))
        front, rear = front + 2.0 * ahead * T, rear + 2.0 * behind * T
        power = T * speed
        after[to + L.motor_torque] = T
        after[to + L.motor_power] = (
            power / numbers[N.motor_efficiency] if power > 0.0 else power * numbers[N.motor_efficiency]
        )
    after[to + L.front_torque], after[to + L.rear_torque] = front, rear
    return front, rear
