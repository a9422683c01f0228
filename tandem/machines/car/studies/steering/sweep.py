"""Torque per angle of the hand wheel over frequency, two ways: the car at haptic rate, and at 5 ms with a port model.

Both are the whole car, rolling straight; the hand wheel swings by a small sine. The torque of the first way is sampled
at its own steps, that of the second is rendered between steps of 5 ms at `RENDER_HZ` (port.py). What is compared is the
complex amplitude at the frequency of the sine, over whole periods after it has settled.
"""

from dataclasses import dataclass
from math import pi

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.studies.steering.port import Motion, PortCar

FREQUENCIES = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 18.0, 20.0)  # Hz
FAST, SLOW = 1e-3, 5e-3  # s
RENDER_HZ = 5000.0
SPEED = 75.0  # km/h
SETTLE = 1.0  # s
PEAK_SPEED = 1.0  # rad/s of the hand wheel at most, and
AMPLITUDE = 0.05  # rad at most
BELOW_10, TO_20 = 0.02, 0.05  # how far the two may differ


@dataclass(frozen=True)
class Point:
    frequency: float
    fast: complex  # N m/rad
    rendered: complex
    held: complex  # of 5 ms steps whose torque is held, for comparison

    @property
    def difference(self) -> float:
        return abs(self.rendered / self.fast - 1.0)

    @property
    def difference_held(self) -> float:
        return abs(self.held / self.fast - 1.0)

    @property
    def agrees(self) -> bool:
        return self.difference <= (BELOW_10 if self.frequency < 10.0 else TO_20)


def sine(frequency: float, t: float) -> Motion:
    w = 2.0 * pi * frequency
    a = min(AMPLITUDE, PEAK_SPEED / w)
    # it begins smoothly: a sine that grows over half a second
    s = min(t / 0.5, 1.0)
    g, gd, gdd = s * s * (3.0 - 2.0 * s), 6.0 * s * (1.0 - s) / 0.5, (6.0 - 12.0 * s) / 0.25
    if t >= 0.5:
        gd = gdd = 0.0
    x, v = np.sin(w * t), w * np.cos(w * t)
    return a * g * x, a * (g * v + gd * x), a * (-g * w * w * x + 2.0 * gd * v + gdd * x)


def amplitude(frequency: float, t: np.ndarray, values: np.ndarray) -> complex:
    """Of a sine in it, with constant and trend beside it, by least squares."""
    w = 2.0 * pi * frequency * t
    basis = np.column_stack([np.sin(w), np.cos(w), np.ones(len(t)), t - t.mean()])
    s, c = np.linalg.lstsq(basis, values, rcond=None)[0][:2]
    return complex(s, c)


def measure(car: PortCar, frequency: float) -> Point:
    """All three on the same sine, from the same instant."""
    periods = max(2, round(0.5 * frequency))
    begin, end = SETTLE, SETTLE + periods / frequency
    swing = amplitude(frequency, *_sampled(lambda t: sine(frequency, t)[0], begin, end, FAST))

    fast = car.copy(FAST)
    t = FAST * np.arange(1, round(end / FAST) + 1)
    torque = np.array([fast.step(sine(frequency, float(at))) for at in t])
    seen = t > begin

    slow, times, rendered, held = car.copy(SLOW), [], [], []
    inside = round(SLOW * RENDER_HZ)
    for k in range(1, round(end / SLOW) + 1):
        model = slow.step_with_port(sine(frequency, k * SLOW))
        for i in range(inside):
            tau = i / RENDER_HZ
            times.append(k * SLOW + tau)
            rendered.append(model.at(tau, sine(frequency, k * SLOW + tau)))
            held.append(model.torque)
    at, there = np.array(times), np.array(times) > begin
    return Point(
        frequency,
        amplitude(frequency, t[seen], torque[seen]) / swing,
        amplitude(frequency, at[there], np.array(rendered)[there]) / swing,
        amplitude(frequency, at[there], np.array(held)[there]) / swing,
    )


def _sampled(of, begin: float, end: float, h: float) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    t = np.arange(begin, end, h)
    return t, np.array([of(float(at)) for at in t])


def sweep(
    vehicle: Vehicle, speed: float, frequencies: tuple[float, ...], update: Update
) -> tuple[list[Point], list[float]]:
    """Points, and the tally of the car."""
    car = PortCar(vehicle, speed / 3.6, FAST)
    points = []
    for k, frequency in enumerate(frequencies):
        update(f"{frequency:g} Hz", k / len(frequencies))
        points.append(measure(car, frequency))
    return points, car.tally
