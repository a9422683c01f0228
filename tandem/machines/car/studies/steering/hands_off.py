"""A haptic wheel that is let go: does the loop of wheel, car and delay come to rest, and from which delay on not?

The wheel is the device's: inertia J and damping b, both stated or measured. It measures its angle, the car answers with
the torque that would hold it, and gain times that goes to the motor a delay later, held for a sample. With Z(s) the
car's torque per angle, straight on at a speed, and t = delay + half a sample,

    J s^2 + b s + g Z(s) exp(-s t) = 0

is the loop of small motions. Z comes from one small pulse of the hand wheel: the quotient of both spectra; above
MOST_HZ, up to the Nyquist frequency of the car's step, from a step of its angle, its speed and its acceleration each.
Where |g Z| = |J w^2 - j b w| a delay turns the phase into a growing oscillation; the least of them is where it begins.

A loop does not know speed and acceleration: it estimates them from counts, and late (`shares`). What is late most is
the acceleration, and a mass that is more than half a turn late, w t included, pushes along with the motion.

A car that rolls is not passive at its wheel: below some 2 Hz its speed feeds the motion, and no renderer may hide that.
What sampling and delay add to it must be covered by the wheel's own damping. With T the sample that is Colgate's
condition, at every w up to pi/T

    b > -g Im(Z exp(-j w t)) (T/2) / sin(w T/2)

less what a car that feeds the motion does there by itself, -g Im(Z)/w where that is positive; for a spring K it is
g K (T/2 + delay). This is `passive_gain`; `resting_gain` is the one from which on a wheel that is let go does not come
to rest.

`onset` finds the same delay by driving: the nonlinear car in the loop with the wheel, delays bisected.
"""

from dataclasses import dataclass, replace
from math import pi

import numpy as np

from sync.config.input_rows import Encoder
from sync.signals.estimators import MEMORY, estimate, observe, parameters
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.studies.steering.port import PortCar

H = 1e-3  # s, of the car in the loop: the sample
WIDTH, AT, LASTS = 0.012, 0.1, 4.0  # s, of the pulse: bandwidth some 30 Hz
PULSE = 0.01  # rad
LEAST_HZ, MOST_HZ = 0.2, 30.0
BUMP, BUMP_LASTS = (1e-4, 1e-2, 1.0), 0.4  # rad, rad/s, rad/s2 during one step; s
COUNTS = 16.0  # amplitude with which an estimator is tried: more changes little
TRIED_HZ, TRIED = 4.0, 1.12  # the first of the frequencies at which it is, and each over the one before
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
    parts: np.ndarray | None = None  # torque per angle, per speed, per acceleration, a row each; Z is all of them
    own: np.ndarray | None = None  # of the car by itself, where Z is that of a loop that estimates; None: Z

    def estimated(self, shares: np.ndarray) -> "Response":
        """As a loop feels it whose estimator gives such shares of angle, speed and acceleration."""
        assert self.parts is not None
        s = 1j * self.w
        late = sum(part * s**k * (share - 1.0) for k, (part, share) in enumerate(zip(self.parts, shares, strict=True)))
        return replace(self, Z=self.Z + late, own=self.Z)


def pulse(t: float) -> tuple[float, float, float]:
    u = (t - AT) / WIDTH
    g = PULSE * float(np.exp(-0.5 * u * u))
    return g, -g * u / WIDTH, g * (u * u - 1.0) / (WIDTH * WIDTH)


def response(car: PortCar) -> Response:
    """Small motions about straight on."""
    t = H * np.arange(1, round(LASTS / H) + 1)
    still = car.copy(H)
    rest = np.array([still.step((0.0, 0.0, 0.0)) for _ in t])  # what it does without
    motion = [pulse(float(at)) for at in t]
    angle = np.array([m[0] for m in motion])
    f = np.fft.rfftfreq(4 * len(t), H)
    low = (f >= LEAST_HZ) & (f <= MOST_HZ)
    Z = np.fft.rfft(_torques(car, motion) - rest, 4 * len(t))[low] / np.fft.rfft(angle, 4 * len(t))[low]

    n = round(BUMP_LASTS / H)
    fine = np.fft.rfftfreq(n, H)[1:-1]
    w = 2.0 * pi * np.concatenate([f[low], fine[fine > MOST_HZ]])
    parts = []
    for k, bump in enumerate(BUMP):
        motion = [(0.0, 0.0, 0.0)] * n
        motion[0] = (*motion[0][:k], bump, *motion[0][k + 1 :])  # type: ignore[assignment]
        found = np.fft.rfft((_torques(car, motion) - rest[:n]) / bump)[1:-1]
        parts.append(np.interp(w, 2.0 * pi * fine, found.real) + 1j * np.interp(w, 2.0 * pi * fine, found.imag))
    above = w[len(Z) :]
    Z = np.concatenate([Z, sum(part[len(Z) :] * (1j * above) ** k for k, part in enumerate(parts))])
    return Response(w, Z, np.array(parts))


def _torques(car: PortCar, motion: list[tuple[float, float, float]]) -> np.ndarray:
    loop = car.copy(H)
    return np.array([loop.step(each) for each in motion])


def shares(row: Encoder, step: float, period: float, w: np.ndarray) -> np.ndarray:
    """What an estimator gives of angle, speed and acceleration of a sine, complex: rows of three, over w.

    By letting it follow sines of some counts, each for six periods or 0.3 s; below the first nothing much is late.
    """
    per_count = row.in_si(row.per_count)
    par = parameters(row.estimator, row.differentiator, step, period, per_count, row.motion)
    each, a = max(round(step / period), 1), COUNTS * per_count
    first = 2.0 * pi * TRIED_HZ
    tried = np.concatenate([[0.0], np.geomspace(first, w[-1], 2 + int(np.log(w[-1] / first) / np.log(TRIED)))])
    found = np.ones((3, len(tried)), complex)
    for i, at in enumerate(tried[1:], 1):
        settled = round(0.2 / period)
        t = period * np.arange(settled + round(max(12.0 * pi / at, 0.3) / period))
        counts = np.floor((a * np.sin(at * t)) / per_count + 0.4).astype(np.int64)
        memory, answers, instants = np.zeros(MEMORY), [], []
        for k in range(len(t)):
            ns = 1_000_000_000 + round(1e9 * t[k])
            observe(memory, par, ns, int(counts[k]))
            if k % each == 0:
                answer = estimate(memory, par, ns, int(counts[k]), step)
                if k >= settled:
                    answers.append(answer)
                    instants.append(t[k])
        sine = at * np.array(instants)
        basis = np.stack([np.sin(sine), np.cos(sine), np.ones_like(sine)], axis=1)
        fit = np.linalg.lstsq(basis, np.array(answers), rcond=None)[0]
        found[:, i] = (fit[0] + 1j * fit[1]) / (a * (1j * at) ** np.arange(3))
    size, phase = np.abs(found), np.unwrap(np.angle(found), axis=1)
    return np.array([np.interp(w, tried, size[k]) * np.exp(1j * np.interp(w, tried, phase[k])) for k in range(3)])


def passive_gain(found: Response, device: Device, delay: float) -> float:
    """The largest gain at which the wheel's own damping makes up for what sampling and delay add."""
    T = device.sample
    here = found.w * T <= pi
    w, Z = found.w[here], found.Z[here]
    own = found.Z if found.own is None else found.own
    held = 0.5 * T / np.sin(0.5 * w * T) if T > 0.0 else 1.0 / w
    taken = -np.imag(Z * np.exp(-1j * w * (delay + 0.5 * T))) * held - np.maximum(-np.imag(own[here]) / w, 0.0)
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


def at_speed(vehicle: Vehicle, speed: float, column_inertia: float = 0.0) -> PortCar:
    """The car; its own column is without inertia where the device has it."""
    return PortCar(vehicle, max(speed, 0.5) / 3.6, H, column_inertia=column_inertia)
