"""What the numbers of a mechanism may be: one table for those who build one and for mechanism files.

A mass that is not a number, a negative inertia or a spring of negative length would not stop a run: it would end in a
motion that is wrong, or in an exception of a library far from its cause. `number` and `numbers` refuse it where it is
given, with its name, its value and what would be right; `sections.py` makes the fields of a mechanism file from the
same ranges.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.multibody.natural.errors import MechanismError


@dataclass(frozen=True)
class Range:
    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # the low end itself is not allowed

    def holds(self, value: float) -> bool:
        return math.isfinite(value) and (value > self.low if self.above else value >= self.low) and value <= self.high

    @property
    def text(self) -> str:
        low = f"{'above' if self.above else 'at least'} {self.low:g}" if math.isfinite(self.low) else ""
        high = f"at most {self.high:g}" if math.isfinite(self.high) else ""
        return " and ".join(part for part in (low, high) if part) or "finite"


NUMBER = Range(-1e6, 1e6)  # m, rad, m/s, and the like: beyond, it is a slip of the pen
FORCE = Range(-1e12, 1e12)  # N, N m
MASS = Range(0.0, 1e9)  # kg, kg m2
POSITIVE_MASS = Range(0.0, 1e9, above=True)
STIFFNESS = Range(0.0, 1e12)  # and damping
POSITIVE_STIFFNESS = Range(0.0, 1e12, above=True)
LENGTH = Range(0.0, 1e6)
POSITIVE_LENGTH = Range(0.0, 1e6, above=True)
SPEED = Range(0.0, 1e6, above=True)
STEP = Range(1e-6, 0.1)  # s
COEFFICIENT = Range(0.0, 10.0)  # of Coulomb's friction
DISSIPATION = Range(0.0, 0.3)
RESTITUTION = Range(0.0, 1.0)


def number(what: str, value: Any, within: Range = NUMBER) -> float:
    """`value` as a float within a range; `what` is named in the message."""
    try:
        found = float(np.asarray(value, float).reshape(()))
    except (TypeError, ValueError):
        raise MechanismError(f"{what} = {value!r}: must be one number") from None
    if not within.holds(found):
        raise MechanismError(f"{what} = {found:g}: must be {within.text}, and finite")
    return found


def numbers(what: str, value: Any, count: int, within: Range = NUMBER) -> np.ndarray:
    """`value` as so many finite floats."""
    try:
        found = np.atleast_1d(np.asarray(value, float))
    except (TypeError, ValueError):
        raise MechanismError(f"{what} = {value!r}: must be {count} finite numbers") from None
    if found.shape != (count,) or not all(within.holds(v) for v in found.tolist()):
        raise MechanismError(f"{what} = {found.tolist()}: must be {count} finite numbers, {within.text} each")
    return found


def direction(what: str, value: Any, count: int) -> np.ndarray:
    """So many finite numbers, not all of them 0: a direction, of any length."""
    found = numbers(what, value, count)
    if not float(np.abs(found).max()) > 1e-12:
        raise MechanismError(f"{what} = {found.tolist()}: has no direction")
    return found
