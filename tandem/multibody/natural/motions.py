"""Laws of time for inputs. Each gives value, rate and second derivative exactly; `external` is set at every step."""

from dataclasses import dataclass

from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.tables import EXTERNAL, HARMONIC, POLYNOMIAL, SMOOTH_STEP


@dataclass(frozen=True)
class Motion:
    kind: int
    law: tuple[float, ...]


def external(value: float = 0.0) -> Motion:
    """Set from outside: value, rate and second derivative at the end of the step, before the step."""
    return Motion(EXTERNAL, (value,))


def polynomial(a: float, b: float = 0.0, c: float = 0.0, d: float = 0.0) -> Motion:
    """a + b t + c t^2 + d t^3"""
    return Motion(POLYNOMIAL, (a, b, c, d))


def harmonic(amplitude: float, rate: float, phase: float = 0.0, mean: float = 0.0) -> Motion:
    """mean + amplitude sin(rate t + phase), rate in rad/s"""
    return Motion(HARMONIC, (mean, amplitude, rate, phase))


def smooth_step(before: float, after: float, start: float, end: float) -> Motion:
    """From one value to another by a quintic, with continuous acceleration."""
    if not end > start:
        raise MechanismError(f"smooth step from {start:g} to {end:g} s: must end after it starts")
    return Motion(SMOOTH_STEP, (before, after, start, end))
