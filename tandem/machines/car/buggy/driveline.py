"""Engine, torque converter, three-speed automatic and open differential: pedal and axle speed into axle torque.

Promises
- One law from standstill to the limiter, forwards and rolling back; torque and its slope are continuous in the speeds.
- The engine neither stalls nor turns backwards; converter and gears only ever lose power.
- `driveline` remembers nothing: it goes from `states` (start of the step) to `after` (end of the step) for the axle
  speed it is given, so it may be called in every iteration of an implicit step. Of second order in the step.
- It returns no NaN for any finite argument, and the slope -dT/dw it returns is that of its own torque and >= 0.
- Gear decisions are made by `shift`, once per step, before the step. Ratios change smoothly over `shift_time`.

Engine. T(rpm, f) = f Ta + (1 - f) Tb, curves Ta and Tb of the source. Above `engine_limiter_rpm` the pedal loses its
effect, around `engine_idle_rpm` a governor adds up to `engine_idle_torque`, in full strength for a released pedal.

Converter, with pump (engine) speed p >= 0, turbine speed t, nu = t / p:

    Tp = L p^2 (1 - max(nu, 0)^6),      Tt = R(nu) Tp                 for t <= p
    Tp = Tt = -L t^2 (1 - (p / t)^6)                                  for t > p, the same with the roles exchanged

L is the capacity, R falls on a straight line from `converter_stall_ratio` at nu = 0 towards 1 at `converter_coupling`,
with a parabola instead of the corner, and rises on that line for a turbine turning backwards. Tp rises with p and Tt
falls with t everywhere, therefore the engine speed at the end of the step

    J (p - p0) = h / 2 (net(p0, t0) + net(p, t)),      net = T - Tp

has one solution, and axle torque falls with axle speed.

Symbols: p t speeds of pump and turbine, f throttle, L capacity, J inertia of the engine; T_x is the derivative of T
with respect to x.
"""

from math import pi, sqrt

from numba import float64, int64, void

from sync.compile.array_types import VECTOR
from sync.compile.jit import kernel
from tandem.machines.car.buggy.driveline_parameters import M, P, S
from tandem.machines.car.engine import full_throttle_torque, released_pedal_torque

RPM = 30.0 / pi  # rpm per rad/s
IDLE_BAND = 40.0  # rpm either side of idle speed in which the governor goes from all to nothing
LIMITER_BAND = 100.0  # rpm in which the limiter takes the pedal away
LIMIT = 1e4  # rad/s; no speed inside is let beyond, so that squares of absurd ones stay finite
CRAWL = 1e-9  # rad/s of the pump, against 0 / 0
GEARS_TURN = 5.0  # rad/s of the turbine above which gear friction is fully there
LIGHT_TORQUE = 2.0  # N m at the turbine, likewise
ITERATIONS = 60  # Newton needs two or three; bisection, its safeguard, would end here
SAME = 1e-13  # relative change of engine speed at which the iteration ends
TINY = 1e-300  # keeps a division by zero away
FREE = 2.0  # no pedal is near this
HYSTERESIS = 1.1  # upshifts at no less than this times the speed of downshifts
PEDAL_HELD = 0.1  # a pedal within this of the one at the downshift is the same pedal

_OPTIONS = {"error_model": "numpy"}  # a division by zero is no exception


@kernel(**_OPTIONS)
def ramp(x):
    """Smooth step from 0 at x <= 0 to 1 at x >= 1, and its derivative."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x), 6.0 * x * (1.0 - x)


@kernel(**_OPTIONS)
def engine(par, f, speed):
    """Torque at the crankshaft and its derivative with respect to speed (rad/s, >= 0)."""
    rpm = RPM * speed
    cut, cut_x = ramp((rpm - par[P.engine_limiter_rpm]) / LIMITER_BAND)
    idle, idle_x = ramp(0.5 + (par[P.engine_idle_rpm] - rpm) / (2.0 * IDLE_BAND))
    full, released = full_throttle_torque(rpm), released_pedal_torque(rpm)
    # the curve is a cubic: a difference over 2 rpm is its derivative to 1e-9
    full_x = 0.5 * (full_throttle_torque(rpm + 1.0) - full_throttle_torque(rpm - 1.0))
    governor = (1.0 - f) * par[P.engine_idle_torque]
    g = f * (1.0 - cut)
    T = g * full + (1.0 - g) * released + governor * idle
    T_x = g * full_x + (1.0 - g) * released_pedal_torque(1.0)
    T_x -= f * cut_x / LIMITER_BAND * (full - released) + governor * idle_x / (2.0 * IDLE_BAND)
    return T, RPM * T_x


@kernel(**_OPTIONS)
def converter(par, p, t):
    """Torque the pump takes and the turbine gives, and their derivatives: Tp, Tt, Tp_p, Tp_t, Tt_p, Tt_t."""
    return converted(par[P.converter_capacity], par[P.converter_stall_ratio], par[P.converter_coupling], p, t)


@kernel(**_OPTIONS)
def converted(L, stall, coupling, p, t):
    """The same, of a converter with this capacity, stall ratio and coupling point."""
    if t > p:
        # the turbine drives the engine; the stator runs free and takes no torque
        x = p / t
        x5 = x * x * x * x * x
        T = -L * t * t * (1.0 - x * x5)
        T_p = 6.0 * L * t * x5
        T_t = -L * t * (2.0 + 4.0 * x * x5)
        return T, T, T_p, T_t, T_p, T_t
    p = max(p, CRAWL)
    nu = t / p
    n = max(nu, 0.0)
    n5 = n * n * n * n * n
    Tp = L * p * p * (1.0 - n * n5)
    Tp_p = L * p * (2.0 + 4.0 * n * n5)
    Tp_t = -6.0 * L * p * n5

    # R = 1 + (R0 - 1) hinge(x), the hinge being x for x > d, 0 for x < -d, which is nu > 1
    x = 1.0 - nu / coupling
    d = 1.0 / coupling - 1.0
    hinge = x if x > d else (x + d) ** 2 / (4.0 * d)
    hinge_x = 1.0 if x > d else (x + d) / (2.0 * d)
    R = 1.0 + (stall - 1.0) * hinge
    R_nu = -(stall - 1.0) * hinge_x / coupling
    Q = R_nu * Tp / p
    return Tp, R * Tp, Tp_p, Tp_t, R * Tp_p - nu * Q, R * Tp_t + Q


@kernel(**_OPTIONS)
def gears(par, T, T_t, t):
    """Turbine torque T less the friction of the gears, and -d/dt of that.

    Friction is a share of the torque carried and acts against the turning, so it takes power whichever way that flows.
    """
    return geared(1.0 - par[P.gear_efficiency], T, T_t, t)


@kernel(**_OPTIONS)
def geared(loss, T, T_t, t):
    """The same, of gears that lose this share."""
    size = sqrt(T * T + LIGHT_TORQUE * LIGHT_TORQUE)
    turn = sqrt(t * t + GEARS_TURN * GEARS_TURN)
    carried = T * T / size
    carried_T = T * (2.0 - carried / size) / size
    sign = t / turn
    sign_t = GEARS_TURN * GEARS_TURN / (turn * turn * turn)
    return T - loss * carried * sign, loss * carried * sign_t - T_t * (1.0 - loss * carried_T * sign)


@kernel(**_OPTIONS)
def engine_speed_after(par, f, p0, t0, t, h):
    """Engine speed at the end of the step. Newton's rule within a bracket that every iteration narrows."""
    J = par[P.engine_inertia]
    T, _ = engine(par, f, p0)
    Tp, _, _, _, _, _ = converter(par, p0, t0)
    start = J * p0 + 0.5 * h * (T - Tp)
    low, high = 0.0, LIMIT
    p = p0
    for _ in range(ITERATIONS):
        T, T_x = engine(par, f, p)
        Tp, _, Tp_p, _, _, _ = converter(par, p, t)
        residual = J * p - start - 0.5 * h * (T - Tp)
        slope = J - 0.5 * h * (T_x - Tp_p)
        if residual > 0.0:
            high = p
        else:
            low = p
        last = p
        p -= residual / slope
        if not low <= p <= high:
            p = 0.5 * (low + high)
        if abs(p - last) <= SAME * (1.0 + p):
            break
    return p


@kernel(**_OPTIONS)
def driveline(par, throttle, drive_torque, ratio, states, after, at, h, axle_speed):
    """(N m on the driven axle, -dT/dw >= 0) for the mean speed of the driven wheels at the end of the step.

    Each of the two wheels gets half of the torque, and a quarter of the slope for its own speed and for the other's.
    Fills after[at], after[at + 1] (see STATES). With h = 0 the engine speed is taken as it is. In mode 0 the torque is
    `drive_torque`, whatever the speed, and the engine speed that of a rigid clutch.
    """
    t = min(max(ratio * axle_speed, -LIMIT), LIMIT)
    after[at + S.turbine_speed] = t
    if par[P.gear_mode] < 0.5:
        after[at + S.engine_speed] = max(t, 0.0)
        return drive_torque, 0.0

    f = min(max(throttle, 0.0), 1.0)
    p = min(max(states[at + S.engine_speed], 0.0), LIMIT)
    t0 = min(max(states[at + S.turbine_speed], -LIMIT), LIMIT)
    if h > 0.0:
        p = engine_speed_after(par, f, p, t0, t, h)
    after[at + S.engine_speed] = p

    _, Tt, Tp_p, Tp_t, Tt_p, Tt_t = converter(par, p, t)
    _, T_x = engine(par, f, p)
    # the engine speed follows the turbine's
    p_t = -0.5 * h * Tp_t / max(par[P.engine_inertia] - 0.5 * h * (T_x - Tp_p), TINY)
    T, slope = gears(par, Tt, Tt_t + Tt_p * p_t, t)
    return ratio * T, max(ratio * ratio * slope, 0.0)


@kernel(**_OPTIONS)
def gear_ratio(par, gear):
    i = min(max(round(gear), -1), 3)
    if i == 0:
        return 0.0
    if i < 0:
        return -par[P.gear_reverse] * par[P.gear_final]
    return par[P.gear_first + i - 1] * par[P.gear_final]


@kernel(**_OPTIONS)
def pulls_as_well(par, f, turbine, step_up):
    """Whether the next gear, longer by the factor step_up < 1, gives the axle the torque this one gives."""
    here, _ = engine(par, f, turbine)
    there, _ = engine(par, f, turbine * step_up)
    return there * step_up >= here


@kernel(**_OPTIONS)
def wanted_gear(par, memory, f, axle_speed):
    """The gear the schedule wants.

    Both thresholds are turbine speeds in the lower of the two gears in question, so they differ by their hysteresis
    alone. They rise with the square of the pedal, as this engine needs a quarter of it to reach 3000 rpm without load.
    A downshift under a pedal that is kept there was asked for by the road: then the car goes up again only where the
    next gear pulls as well, for else it would come down again, and so on for ever.
    """
    gear = min(max(round(memory[M.gear]), 1), 3)
    kicked = f >= par[P.shift_kickdown_throttle]
    x = 1.0 if kicked else f * f
    down = par[P.shift_down_released_rpm] + x * (par[P.shift_down_full_rpm] - par[P.shift_down_released_rpm])
    if kicked:
        down = max(down, par[P.shift_kickdown_rpm])
    up = par[P.shift_up_released_rpm] + x * (par[P.shift_up_full_rpm] - par[P.shift_up_released_rpm])
    up = max(up, HYSTERESIS * down)
    if gear > 1 and RPM * axle_speed * gear_ratio(par, gear - 1) < down:
        return gear - 1
    if gear < 3:
        turbine = axle_speed * gear_ratio(par, gear)
        step_up = gear_ratio(par, gear + 1) / gear_ratio(par, gear)
        if RPM * turbine > up and (memory[M.loaded_throttle] == FREE or pulls_as_well(par, f, turbine, step_up)):
            return gear + 1
    return gear


@kernel(**_OPTIONS)
def shift(par, memory, throttle, axle_speed, h):
    """Decide on the gear and move the ratio on to the end of the step h. Returns the ratio (also in memory)."""
    f = min(max(throttle, 0.0), 1.0)
    memory[M.shift_clock] += h
    if abs(f - memory[M.loaded_throttle]) > PEDAL_HELD:
        memory[M.loaded_throttle] = FREE

    gear = memory[M.gear]
    if abs(par[P.gear_mode] - 1.0) > 0.5:
        gear = float(min(max(round(par[P.gear_held]), -1), 3))
    elif memory[M.shift_clock] >= max(par[P.shift_pause], par[P.shift_time]):
        gear = float(wanted_gear(par, memory, f, axle_speed))
    if gear != memory[M.gear]:
        memory[M.loaded_throttle] = f if gear < memory[M.gear] else FREE
        memory[M.gear] = gear
        memory[M.ratio_before] = memory[M.ratio]
        memory[M.shift_clock] = 0.0

    part, _ = ramp(memory[M.shift_clock] / par[P.shift_time])
    memory[M.ratio] = memory[M.ratio_before] + part * (gear_ratio(par, gear) - memory[M.ratio_before])
    return memory[M.ratio]


@kernel(void(VECTOR, VECTOR, int64, VECTOR, float64), **_OPTIONS)
def start(par, states, at, memory, axle_speed):
    """Engine at idle or turning with the axle; in the held gear, or the one the released pedal wants."""
    automatic = abs(par[P.gear_mode] - 1.0) < 0.5
    memory[M.gear] = 1.0 if automatic else float(min(max(round(par[P.gear_held]), -1), 3))
    memory[M.loaded_throttle] = FREE
    if automatic:
        for _ in range(2):
            memory[M.gear] = float(wanted_gear(par, memory, 0.0, axle_speed))
    memory[M.ratio] = memory[M.ratio_before] = gear_ratio(par, memory[M.gear])
    memory[M.shift_clock] = par[P.shift_pause] + par[P.shift_time]
    turbine = memory[M.ratio] * axle_speed
    states[at + S.engine_speed] = max(turbine, par[P.engine_idle_rpm] / RPM)
    states[at + S.turbine_speed] = turbine
