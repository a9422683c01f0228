"""What a powertrain is in either car: its map, its shifts, its motor, the pressure in its brake line."""

from math import exp, isnan, pi

from sync.compile.jit import inner, kernel
from tandem.machines.car.powertrain.layout import N, P, S

RPM = 30.0 / pi  # rpm per rad/s
BAND = 60.0  # rpm in which governor and limiter act
_FADE = 2.0  # m/s below which regeneration fades
_ALIKE = 0.1  # difference of the speeds of engine and gears, at which a shift has ended
_MOST_SHIFTS = 3.0  # times the length of a shift, after which it has ended anyhow


@inner
def ramp(x):
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


@kernel(error_model="numpy")
def place_in(grid, x):
    """Which interval of a rising grid, and how far in it."""
    last = len(grid) - 2
    k = 0
    while k < last and x > grid[k + 1]:
        k += 1
    return k, min(max((x - grid[k]) / (grid[k + 1] - grid[k]), 0.0), 1.0)


@kernel(error_model="numpy")
def map_torque(rpm_grid, pedal_grid, torque, pedal, rpm):
    k, x = place_in(rpm_grid, rpm)
    j, y = place_in(pedal_grid, pedal)
    n = len(rpm_grid)
    low = torque[j * n + k] + x * (torque[j * n + k + 1] - torque[j * n + k])
    high = torque[(j + 1) * n + k] + x * (torque[(j + 1) * n + k + 1] - torque[(j + 1) * n + k])
    return low + y * (high - low)


@inner
def shift(ratios, up, down, numbers, own, pedal, speed, h):
    """Gear and ratio of a step of length h; whether no shift goes on, until engine and gears turn alike."""
    own[S.shift_clock] += h
    gear, last = int(own[S.gear]), len(ratios)
    x = pedal * pedal
    if own[S.shift_clock] >= numbers[N.shift_s] + numbers[N.pause_s]:
        wanted = gear
        rpm = RPM * speed * ratios[gear - 1] * numbers[N.final]
        if gear < last and rpm > up[2 * gear - 2] + x * (up[2 * gear - 1] - up[2 * gear - 2]):
            wanted = gear + 1
        elif gear > 1:
            lower = RPM * speed * ratios[gear - 2] * numbers[N.final]
            if lower < down[2 * gear - 4] + x * (down[2 * gear - 3] - down[2 * gear - 4]):
                wanted = gear - 1
        if wanted != gear:
            own[S.gear] = float(wanted)
            own[S.ratio_before] = own[S.ratio]
            own[S.shift_clock] = 0.0
            gear = wanted
    done = ramp(own[S.shift_clock] / numbers[N.shift_s])
    target = ratios[gear - 1] * numbers[N.final]
    own[S.ratio] = own[S.ratio_before] + done * (target - own[S.ratio_before])
    t, clock = own[S.ratio] * speed, own[S.shift_clock]
    alike = abs(own[S.engine_speed] - t) <= _ALIKE * max(t, 1.0) or clock > _MOST_SHIFTS * numbers[N.shift_s]
    return 1.0 if done >= 1.0 and alike else 0.0


@inner
def motor_torque(numbers, params, pedal, brake, speed, vx):
    """Of the motor at its shaft."""
    most = min(numbers[N.motor_torque], numbers[N.motor_power] / max(abs(speed), 1e-3))
    back = params[P.regeneration] * (1.0 - pedal) + numbers[N.regeneration_pedal] * brake
    fade = min(max(vx / _FADE, 0.0), 1.0)
    return pedal * most - fade * min(back * (1.0 if pedal < 0.05 else max(1.0 - pedal, 0.0)), most)


@inner
def line_bar(numbers, own, params, line, pedal, h):
    """Pressure that the line, or the pedal by its booster, asks for, behind the lag."""
    requested = max(line, 0.0)
    if not isnan(pedal):
        x, knee = min(max(pedal, 0.0), 1.0), numbers[N.booster_knee]
        requested = params[P.pedal_bar] * (min(x, knee) + numbers[N.booster_rest] * max(x - knee, 0.0))
    if numbers[N.lag_s] > 0.0:
        requested = own[S.line_bar] + (requested - own[S.line_bar]) * (1.0 - exp(-h / numbers[N.lag_s]))
    own[S.line_bar] = requested
    return requested
