"""Sampled walls on paper: passivity, onset of chatter, damping that balances a leak, return maps.

Sources: J. E. Colgate and G. Schenkel, Passivity of a class of sampled-data systems (1997); R. B. Gillespie, Haptic
display of systems with changing kinematic constraints (1996), chapters 5 and 6, with the corrections of its equations
that a check by integration asks for. SI units. A port is mass m, damping b and stiffness k of device and hand together;
the wall is K and B, sampled every T, its force held, and late by `delay`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

_TERMS = 30


@dataclass(frozen=True)
class Port:
    """Device and hand, moving together."""

    mass: float
    damping: float
    stiffness: float = 0.0

    @property
    def rates(self) -> np.ndarray:
        """The matrix of the rates of position, velocity and a force that opposes them."""
        a = np.zeros((3, 3))
        a[0, 1] = 1.0
        a[1] = -self.stiffness / self.mass, -self.damping / self.mass, -1.0 / self.mass
        return a


FINGER = Port(0.02, 3.75, 257.0)


def together(device: Port, hand: Port | None) -> Port:
    if hand is None:
        return device
    return Port(device.mass + hand.mass, device.damping + hand.damping, device.stiffness + hand.stiffness)


def exponential(a: np.ndarray) -> np.ndarray:
    """The exponential of a matrix by its series, after halving it until few terms are enough."""
    halvings = max(0, math.ceil(math.log2(max(np.abs(a).sum(axis=1).max(), 1e-300))) + 2)
    a = a / 2.0**halvings
    term = total = np.eye(len(a))
    for k in range(1, _TERMS):
        term = term @ a / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


def loop_matrix(port: Port, stiffness: float, damping: float, period: float, delay: float = 0.0) -> np.ndarray:
    """The step from sample to sample of position, velocity and the delayed forces. The wall pulls, too: this is the
    linear loop."""
    whole = math.floor(delay / period)
    rest = delay - whole * period
    early, late = exponential(port.rates * rest), exponential(port.rates * (period - rest))
    both = late[:2, :2] @ early[:2, :2]
    n = 2 + whole + (rest > 0)
    a = np.zeros((n, n))
    a[:2, :2] = both
    force = np.zeros(n)
    force[:2] = stiffness, damping
    newer, older = late[:2, 2], late[:2, :2] @ early[:2, 2]
    # the force of `whole` samples ago acts on the second part, the one before it on the first
    for how_old, share in ((whole, newer), (whole + 1, older)):
        if how_old == 0:
            a[:2] += np.outer(share, force)
        elif 1 + how_old < n:
            a[:2, 1 + how_old] += share
    if n > 2:
        a[2] = force
        for i in range(3, n):
            a[i, i - 1] = 1.0
    return a


def growth(port: Port, stiffness: float, damping: float, period: float, delay: float = 0.0) -> float:
    """The growth of an oscillation per sample: below one it decays."""
    return float(np.abs(np.linalg.eigvals(loop_matrix(port, stiffness, damping, period, delay))).max())


def _halving(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Between a value for which it holds and one for which it does not."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def onset(port: Port, damping: float, period: float, delay: float = 0.0) -> float:
    """The stiffness from which on the wall chatters; 0 where any does."""

    def calm(stiffness: float) -> bool:
        return growth(port, stiffness, damping, period, delay) <= 1.0

    stiffness = 0.1 * first_order(port, damping, period, delay)
    if stiffness == 0.0 or not calm(stiffness):
        return 0.0
    for _ in range(200):
        if not calm(1.1 * stiffness):
            return _halving(calm, stiffness, 1.1 * stiffness)
        stiffness *= 1.1
    return math.inf


def onset_frequency(port: Port, damping: float, period: float, delay: float = 0.0) -> float:
    """The frequency in Hz of the chatter at its onset."""
    values = np.linalg.eigvals(loop_matrix(port, onset(port, damping, period, delay), damping, period, delay))
    return float(abs(np.angle(values[np.abs(values).argmax()])) / (2.0 * math.pi * period))


def marginal_damping(port: Port, stiffness: float, period: float) -> float:
    """The damping that the device needs beside the port's, so that the loop neither grows nor decays."""

    def grows(b: float) -> bool:
        return growth(replace(port, damping=port.damping + b), stiffness, 0.0, period) > 1.0

    high = 1.0
    while grows(high):
        high *= 2.0
    return _halving(grows, -port.damping - 10.0 * stiffness * period, high)


def passive(device_damping: float, damping: float, period: float, delay: float = 0.0) -> float:
    """The stiffest wall that is passive under any hand: Colgate's b > K T/2 + |B|, the delay added to the half sample
    that a hold is late by. 0 where the device's own damping is not known."""
    return max(device_damping - abs(damping), 0.0) / (0.5 * period + delay)


def first_order(port: Port, damping: float, period: float, delay: float = 0.0) -> float:
    """Where chatter would begin if the loop were only late: (b + B) / (T/2 + delay)."""
    return max(port.damping + damping, 0.0) / (0.5 * period + delay)


def hold_leak(stiffness: float, speed: float, period: float, depth: float, delay: float = 0.0) -> float:
    """Energy given out by a push to this depth and back at constant speed, samples aligned with the surface; with a
    delay to leading order."""
    return stiffness * speed * (period + 2.0 * delay) * depth


# ---- the device alone, dimensionless ---------------------------------------------------------------------------------


def alpha_complex(tau: float) -> float:
    """K T / b at the limit, over tau = b T / m, while the poles are complex."""
    return tau * math.expm1(tau) / (math.expm1(tau) - tau)


def alpha_real(tau: float) -> float:
    """The same where a pole leaves at -1."""
    e = math.exp(-tau)
    return 2.0 * tau * (1.0 + e) / (tau * (1.0 + e) - 2.0 * (1.0 - e))


def alpha_limits_meet() -> float:
    """The tau from which on the pole at -1 comes first."""
    return _halving(lambda tau: alpha_complex(tau) < alpha_real(tau), 1.0, 10.0)


# ---- crossings between samples ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorstCrossing:
    """A port on a soft spring strikes a stiff one, which acts a sample late and ends exactly at the exit."""

    mass: float
    soft: float
    stiff: float
    period: float

    def _of(self, damping: float) -> tuple[float, float, float, float]:
        sigma = 0.5 * damping / self.mass
        w1, w2 = (math.sqrt(k / self.mass - sigma**2) for k in (self.soft, self.stiff))
        away = math.sqrt(math.cos(w1 * self.period) ** 2 + (w2 / w1 * math.sin(w1 * self.period)) ** 2)
        t1 = math.pi / w1 + self.period
        t2 = (math.pi - math.atan2(w2 / w1 * math.sin(w1 * self.period), math.cos(w1 * self.period))) / w2
        return sigma, away, t1, t2

    def gain(self, damping: float = 0.0) -> float:
        """The gain of the speed from strike to strike."""
        sigma, away, t1, t2 = self._of(damping)
        return math.exp(-sigma * (t1 + t2)) * away

    def balance(self) -> float:
        """The damping with which the speed repeats."""
        most = 2.0 * math.sqrt(self.soft * self.mass)
        return _halving(lambda b: self.gain(b) > 1.0, 0.0, most * (1.0 - 1e-9))


def return_map(t: float, v: float, stiffness: float, mass: float, gravity: float, period: float) -> Iterator[float]:
    """Speeds at which a ball leaves a wall that is on and off only at samples; it leaves at first at `t` with `v`."""
    w, sag = math.sqrt(stiffness / mass), gravity * mass / stiffness

    def in_wall(y: float, v: float, h: float) -> tuple[float, float]:
        c, s = math.cos(w * h), math.sin(w * h)
        return (y + sag) * c + v / w * s - sag, -(y + sag) * w * s + v * c

    def free(y: float, v: float, h: float) -> tuple[float, float]:
        return y + v * h - 0.5 * gravity * h**2, v - gravity * h

    while True:
        off = period * (1 + math.floor(t / period))
        y, v = in_wall(0.0, v, off - t)
        if y <= 0.0:
            return  # it has fallen back before the wall was off: the map ends here
        fall = (v + math.sqrt(v**2 + 2.0 * gravity * y)) / gravity
        _, v = free(y, v, fall)
        entry = off + fall
        on = period * (1 + math.floor(entry / period))
        y, v = free(0.0, v, on - entry)
        c1, c2 = y + sag, v / w
        size = math.hypot(c1, c2)
        inside = (math.pi + math.atan2(c1, -c2) + math.asin(sag / size)) / w
        _, v = in_wall(y, v, inside)
        t = on + inside
        yield v
