"""A haptic wheel that is let go: does the loop of wheel, car and delay come to rest, and from which delay on not?

The wheel is the device's: inertia J and damping b, both stated or measured. It measures its angle, the car answers with
the torque that would hold it, and gain times that goes to the motor a delay later, held for a sample. With Z(s) the
car's torque per angle, straight on at a speed, and t = delay + half a sample,

    J s^2 + b s + g Z(s) exp(-s t) = 0

is the loop of small motions. Z comes from one small pulse of the hand wheel: the quotient of both spectra. Where
|g Z| = |J w^2 - j b w| a delay turns the phase into a growing oscillation; the least of them is where it begins.

A car that rolls is not passive at its wheel: below some 2 Hz its speed feeds the motion, and no renderer may hide that.
What sampling and delay add to it must be covered by the wheel's own damping, b > g max_w of -Re(Z(jw) (exp(-j w t) - 1)
/ jw): for a spring K that is Colgate's K (T/2 + delay). This is `passive_gain`; `resting_gain` is the one from which on
a wheel that is let go does not come to rest.

`onset` finds the same delay by driving: the nonlinear car in the loop with the wheel, delays bisected.
"""

from dataclasses import dataclass
from math import pi

import numpy as np

from tandem.studies.iso.vehicle import Vehicle
from tandem.studies.steering.port import PortCar

H = 1e-3  # s, of the car in the loop: the sample
WIDTH, AT, LASTS = 0.012, 0.1, 4.0  # s, of the pulse: bandwidth some 30 Hz
PULSE = 0.01  # rad
LEAST_HZ, MOST_HZ = 0.2, 30.0
KICK = 0.5  # rad/s: with it the wheel is let go
MOST_DELAY = 0.2  # s


@dataclass(frozen=True)
class Device:
    """A wheel with a motor, its shares of inertia and damping stated or measured (free decay)."""

    inertia: float = 0.03  # kg m2
    damping: float = 0.3  # N m s/rad
    gain: float = 1.0  # torque of the motor per torque of the car
    sample: float = H


@dataclass(frozen=True, eq=False)
class Response:
    """Torque per angle of the car, over angular frequency."""

    w: np.ndarray
    Z: np.ndarray


def pulse(t: float) -> tuple[float, float, float]:
    u = (t - AT) / WIDTH
    g = PULSE * float(np.exp(-0.5 * u * u))
    return g, -g * u / WIDTH, g * (u * u - 1.0) / (WIDTH * WIDTH)


def response(car: PortCar) -> Response:
    """Small motions about straight on."""
    start = car.copy(H)
    t = H * np.arange(1, round(LASTS / H) + 1)
    motion = [pulse(float(at)) for at in t]
    torque = np.array([start.step(m) for m in motion])
    still = car.copy(H)
    torque -= np.array([still.step((0.0, 0.0, 0.0)) for _ in t])  # what it does without
    angle = np.array([m[0] for m in motion])
    f = np.fft.rfftfreq(4 * len(t), H)
    here = (f >= LEAST_HZ) & (f <= MOST_HZ)
    Z = np.fft.rfft(torque, 4 * len(t))[here] / np.fft.rfft(angle, 4 * len(t))[here]
    return Response(2.0 * pi * f[here], Z)


def passive_gain(found: Response, device: Device, delay: float) -> float:
    """The largest gain at which the wheel's own damping makes up for what sampling and delay add."""
    w = found.w
    taken = -np.real(found.Z * (np.exp(-1j * w * (delay + 0.5 * device.sample)) - 1.0) / (1j * w))
    most = float(taken.max())
    return device.damping / most if most > 0.0 else float("inf")


def predicted_onset(found: Response, device: Device) -> tuple[float, float]:
    """(delay from which on the wheel does not come to rest, its frequency there, Hz); infinity where there is none.

    Of a loop that comes to rest without delay, which driving shows (`let_go`).
    """
    w, Z = found.w, device.gain * found.Z
    own = device.inertia * w * w - 1j * device.damping * w
    excess = np.log(np.abs(own) / np.abs(Z))
    best = (float("inf"), 0.0)
    for i in np.flatnonzero(np.diff(np.sign(excess)) != 0.0):
        share = excess[i] / (excess[i] - excess[i + 1])
        at = w[i] + share * (w[i + 1] - w[i])
        ratio = np.interp(at, w, np.real(own / Z)) + 1j * np.interp(at, w, np.imag(own / Z))
        phase = -float(np.angle(ratio))  # of exp(-j w t)
        for turn in (0.0, 2.0 * pi):
            delay = (phase + turn) / at - 0.5 * device.sample
            if 0.0 <= delay < best[0]:
                best = (delay, float(at) / (2.0 * pi))
    return best


def restless_gains(found: Response, device: Device, delay: float) -> list[tuple[float, float]]:
    """Ranges of gains at which the wheel does not come to rest at this delay, from small to large; the last may have no
    end. Whatever the device's own gain.

    A root passes the imaginary axis at every real g > 0 that solves the loop there: into growing motion where
    Re(ds/dg) > 0, out of it where it is negative. Without torque, and with little that centres, the wheel comes to
    rest by its damping; where little torque does not centre it, it is restless from the start. A fast car weaves with
    a wheel that hardly anything centres: such a range ends where the torque is strong enough.
    """
    w = found.w
    own = device.inertia * w * w - 1j * device.damping * w
    B = found.Z * np.exp(-1j * w * (delay + 0.5 * device.sample))
    q = own / B
    passed = []
    for i in np.flatnonzero(np.diff(np.sign(q.imag)) != 0.0):
        share = q.imag[i] / (q.imag[i] - q.imag[i + 1])
        at = float(q.real[i] + share * (q.real[i + 1] - q.real[i]))
        slope = (at * (B[i + 1] - B[i]) - (own[i + 1] - own[i])) / (w[i + 1] - w[i])  # of the loop, by w
        # where Z passes zero, q jumps from one infinity to the other
        if at > 0.0 and abs(q[i + 1] - q[i]) < abs(q[i]) + abs(q[i + 1]):
            passed.append((at, 1 if float(np.real(-1j * B[i] / slope)) > 0.0 else -1))
    growing = 0 if found.Z[0].real > 0.0 else 1
    ranges, begun = [], 0.0 if growing else None
    for at, way in sorted(passed):
        growing = max(growing + way, 0)
        if growing and begun is None:
            begun = at
        elif not growing and begun is not None:
            ranges.append((begun, at))
            begun = None
    return [*ranges, (begun, float("inf"))] if begun is not None else ranges


def resting_gain(found: Response, device: Device, delay: float) -> float:
    """The gain up to which the wheel comes to rest at this delay, from the device's gain on; infinity: there is none.
    Of a device whose own gain does not, where that range begins: less comes to rest."""
    for begins, ends in restless_gains(found, device, delay):
        if ends > device.gain:
            return begins
    return float("inf")


def let_go(car: PortCar, device: Device, delay: float, seconds: float) -> np.ndarray:
    """Angle of the wheel at every sample, let go with a kick."""
    loop = car.copy(device.sample)
    T, J, b = device.sample, device.inertia, device.damping
    whole = int(delay / T)
    part = delay - whole * T
    held = [0.0] * (whole + 2)  # torques on their way
    angle, speed, angles = 0.0, KICK, []
    rest = loop.copy(T).step((0.0, 0.0, 0.0))
    now = 0.0
    for _ in range(round(seconds / T)):
        acceleration = (-now - b * speed) / J
        held.append(device.gain * (loop.step((angle, speed, acceleration)) - rest))
        # until the one of the sample before is replaced
        for torque, lasts in ((held[-2 - whole], part), (held[-1 - whole], T - part)):
            if lasts > 0.0:
                decay = np.exp(-b * lasts / J)
                final = -torque / b
                angle += final * lasts + (speed - final) * (1.0 - decay) * J / b
                speed = final + (speed - final) * decay
                now = torque
        angles.append(angle)
        if not abs(angle) < 3.0:
            break
    return np.array(angles)


def grows(angles: np.ndarray, device: Device, seconds: float) -> bool:
    """Whether it swings more at the end than after the first quarter; a wheel that left its range does."""
    whole = round(seconds / device.sample)
    if len(angles) < whole:
        return True
    quarter = whole // 4
    early, late = (np.ptp(angles[k * quarter : (k + 1) * quarter]) for k in (1, 3))
    return bool(late > early)


def onset(car: PortCar, device: Device, guess: float, seconds: float = 3.0, tries: int = 7) -> float:
    """The delay from which on the wheel does not come to rest, by driving; bisected around a guess."""
    low, high = 0.4 * guess, min(1.8 * guess, MOST_DELAY)
    for _ in range(tries):
        middle = 0.5 * (low + high)
        if grows(let_go(car, device, middle, seconds), device, seconds):
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


def at_speed(vehicle: Vehicle, speed: float) -> PortCar:
    """The car, its own column without inertia: the device has it."""
    return PortCar(vehicle, max(speed, 0.5) / 3.6, H, column_inertia=0.0)
