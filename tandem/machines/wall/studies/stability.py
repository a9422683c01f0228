"""From which stiffness on a wall chatters, by law: eigenvalues of device, hand, hold, delay and the law's memory.

The laws are written here once more, with other means than in tandem/machines/wall/laws.py: as linear maps of a sample,
by matrix exponentials. Linear: the wall pulls, too, as where a hand leans on it. The port as it is and the port that
the law expects are two, and so are the delay as it is and the one that it predicts over. SI units.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tandem.doctor.passivity import Port, exponential, together
from tandem.machines.wall.laws import HALF_SAMPLE, PENDING, POLE_PLACEMENT, PREDICTING, STANDARD

MOST = 1e6  # N/m: nothing stiffer is looked for
LINEAR = (STANDARD, HALF_SAMPLE, POLE_PLACEMENT, PREDICTING)  # inside the wall the dead-beat is the half-sample
Y, V, BEFORE, SPEED, FORCES = 0, 1, 2, 3, 4  # of the state: port, last position, estimated speed, forces given out


@dataclass(frozen=True)
class Loop:
    """A port in a wall, and what its law takes it for."""

    port: Port
    period: float
    delay: float
    law: int = STANDARD
    expected: Port | None = None  # None: as it is
    predicted: float | None = None  # the delay that the law predicts over; None: as it is
    damping: float = 0.0  # of the wall
    trust: float = 0.5
    measured_speed: bool = False  # else by differences, which a configuration without a row for the speed has

    @property
    def model(self) -> Port:
        return self.expected or self.port


@functools.lru_cache(maxsize=512)
def _held(port: Port, h: float) -> tuple[np.ndarray, np.ndarray]:
    """How the port moves in h, by itself and under a force of one."""
    e = exponential(port.rates * h)
    return e[:2, :2], e[:2, 2]


def _ahead(loop: Loop, stiffness: float, h: float) -> np.ndarray:
    """Force of the unsampled wall a time ahead, per position and speed now."""
    model = loop.model
    target = replace(model, stiffness=model.stiffness + stiffness, damping=model.damping + loop.damping)
    found: np.ndarray = np.array([stiffness, loop.damping]) @ exponential(target.rates * h)[:2, :2]
    return found


def _placed(loop: Loop, stiffness: float) -> np.ndarray:
    """Gains that give the held loop the poles of the unsampled one, by Ackermann's formula."""
    model = loop.model
    a, b = _held(model, loop.period)
    target = replace(model, stiffness=model.stiffness + stiffness, damping=model.damping + loop.damping)
    t = exponential(target.rates * loop.period)[:2, :2]
    wanted = a @ a - np.trace(t) * a + np.linalg.det(t) * np.eye(2)
    found: np.ndarray = -np.linalg.solve(np.column_stack([b, a @ b]).T, np.array([0.0, 1.0])) @ wanted
    return found


def _pieces(delay: float, period: float) -> tuple[int, float]:
    whole = min(int(delay / period + 1e-9), PENDING - 2)
    return whole, min(max(delay - whole * period, 0.0), period)


def _law(loop: Loop, stiffness: float, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the force given out at a sample, the speed that is remembered), of states side by side."""
    speed = z[V] if loop.measured_speed else (z[Y] - z[BEFORE]) / loop.period
    if loop.law == STANDARD:
        return stiffness * z[Y] + loop.damping * speed, speed
    if loop.law == POLE_PLACEMENT:
        gains = _placed(loop, stiffness)
        return gains[0] * z[Y] + gains[1] * speed, speed
    if loop.law == HALF_SAMPLE:
        gains = _ahead(loop, stiffness, 0.5 * loop.period)
        return gains[0] * z[Y] + gains[1] * speed, speed
    whole, rest = _pieces(loop.delay if loop.predicted is None else loop.predicted, loop.period)
    (p, g), (early, e), (late, f) = (_held(loop.model, h) for h in (loop.period, rest, loop.period - rest))
    there = late @ (early @ z[[BEFORE, SPEED]] + np.outer(e, z[FORCES + whole + 1])) + np.outer(f, z[FORCES + whole])
    estimated = there[1] + loop.trust * (z[Y] - there[0]) / loop.period
    x = early @ np.vstack([z[Y], estimated]) + np.outer(e, z[FORCES + whole])
    for back in range(whole - 1, -1, -1):
        x = p @ x + np.outer(g, z[FORCES + back])
    gains = _ahead(loop, stiffness, 0.5 * loop.period)
    return gains @ x, estimated


def matrix(loop: Loop, stiffness: float) -> np.ndarray:
    """From sample to sample."""
    whole, rest = _pieces(loop.delay, loop.period)
    predicted, _ = _pieces(loop.delay if loop.predicted is None else loop.predicted, loop.period)
    n = FORCES + max(whole, predicted) + 2
    z = np.eye(n)  # every state by itself
    force, speed = _law(loop, stiffness, z)
    forces = np.vstack([force, z[FORCES:]])
    (early, e), (late, f) = (_held(loop.port, h) for h in (rest, loop.period - rest))
    out = np.zeros((n, n))
    out[:2] = late @ (early @ z[:2] + np.outer(e, forces[whole + 1])) + np.outer(f, forces[whole])
    out[BEFORE], out[SPEED], out[FORCES:] = z[Y], speed, forces[:-1]
    return out


def growth(loop: Loop, stiffness: float) -> float:
    """Of an oscillation, per sample: below one it decays."""
    return float(np.abs(np.linalg.eigvals(matrix(loop, stiffness))).max())


def frequency(loop: Loop, stiffness: float) -> float:
    """In Hz, of what grows fastest."""
    values = np.linalg.eigvals(matrix(loop, stiffness))
    return float(abs(np.angle(values[np.abs(values).argmax()])) / (2.0 * math.pi * loop.period))


def onset(loop: Loop, least: float = 1.0) -> float:
    """The stiffness from which on the wall chatters: the first one, for softer walls do not; MOST: none does."""

    def calm(stiffness: float) -> bool:
        return growth(loop, stiffness) <= 1.0 + 1e-12

    if not calm(least):
        return 0.0
    low = least
    while low < MOST:
        high = min(1.2 * low, MOST)
        if not calm(high):
            for _ in range(40):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if calm(middle) else (low, middle)
            return low
        low = high
    return MOST


def hands(hand: Port, share: float) -> Iterator[Port]:
    """That hand, and every one whose mass, damping and stiffness are that share more or less."""
    yield hand
    if share > 0.0:
        for m, b, k in itertools.product((1.0 - share, 1.0 + share), repeat=3):
            yield Port(m * hand.mass, b * hand.damping, k * hand.stiffness)


@dataclass(frozen=True)
class Limit:
    stiffness: float  # N/m
    worst: Port  # device and hand of which it is
    delay: float  # likewise


def limit(loop: Loop, device: Port, hand: Port, share: float, delays: tuple[float, ...]) -> Limit:
    """The stiffest wall without chatter under every such hand and delay; the law expects the hand itself."""
    expected = together(device, hand)
    found = [
        Limit(onset(replace(loop, port=together(device, each), expected=expected, delay=delay)), each, delay)
        for each in hands(hand, share)
        for delay in delays
    ]
    return min(found, key=lambda each: each.stiffness)


def falls(
    loop: Loop, device: Port, hand: Port, share: float, held: Limit, of_device: float = 0.0, most: int = 8
) -> int:
    """How steeply that limit falls with the age of what a force is made from: the smallest whole power p for which
    ((T/2 + delay) / (T/2 + age)) ^ p of it is calm, up to four times the delay. Delay and age are those of the round
    trip: what the device adds does not vary."""
    half = 0.5 * loop.period
    delay = max(held.delay - of_device, 0.0)
    power = 1
    for times in (1.25, 1.5, 2.0, 3.0, 4.0):
        age = times * max(delay, half)
        near = limit(loop, device, hand, share, (age + of_device,)).stiffness
        fall = math.log(max(held.stiffness, 1e-9) / max(min(near, held.stiffness), 1e-9))
        power = max(power, math.ceil(fall / math.log((half + age) / (half + delay)) - 1e-9))
    return min(power, most)
