"""How a system is integrated. Settings may be changed between steps; see System.set."""

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.limits import DISSIPATION, Range, number


class Scheme(IntEnum):
    """Integrators over the same tables."""

    I3AL = 0  # augmented.py: the one to use; the others are for comparison
    BAUMGARTE = 1  # accelerations with Baumgarte's stabilisation, classical Runge-Kutta
    PROJECTION = 2  # accelerations, classical Runge-Kutta, then coordinates and velocities projected
    LINEAR_IMPLICIT = 3  # linear-implicit Euler, one linear solve a step
    I3AL_HALVED = 4  # halving.py: one step and two halves, their difference an error estimate, and extrapolated
    NONE = 5  # as BAUMGARTE, without its terms: constraints drift open


# how constraints are held, by the names of mechanism files, of studies and of benchmarks
STABILISATIONS = {
    "none": Scheme.NONE, "baumgarte": Scheme.BAUMGARTE, "projection": Scheme.PROJECTION, "i3al": Scheme.I3AL,
    "linear-implicit": Scheme.LINEAR_IMPLICIT,
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    scheme: Scheme = Scheme.I3AL
    xi: float = 0.0  # dissipation of Newmark, to 0.3; 0 is the trapezoidal rule, above it the order falls to 1
    rho: float = 1.0  # generalised-alpha: what a step leaves of the highest frequencies; of second order; 1: without
    tolerance: float = 1e-9  # of the last correction of a coordinate, m or rad
    tolerance_phi: float = 1e-10  # of the constraints, m or rad
    tolerance_velocity: float = 1e-9  # of their first derivatives
    tolerance_acceleration: float = 1e-6  # of their second derivatives
    cap: int = 20  # iterations of an attempt
    retries: int = 2  # of a step that does not converge: first with damped corrections, then in two halves; 0: none
    passes: int = 20  # projections of velocity and of acceleration, each at most; mostly two are needed; 0: none
    refactor: float = 0.05  # factorise again when a correction is more than this times the last
    penalty: float = 1e7  # of each constraint, times its local mass / (beta h^2): the multipliers contract by 1 / this
    baumgarte_rate: float = 20.0  # 1/s
    baumgarte_damping: float = 1.0
    stabilisation: float = 0.0  # share of the position error that LINEAR_IMPLICIT takes back each step; 0 as published

    def __post_init__(self) -> None:
        for one in fields(self):
            checked_setting(one.name, getattr(self, one.name))
        check_dissipation(self.scheme, self.rho, self.xi)


_POSITIVE, _NOT_NEGATIVE = Range(0.0, above=True), Range(0.0)
_RANGES = {
    "xi": DISSIPATION, "tolerance": _POSITIVE, "tolerance_phi": _POSITIVE, "tolerance_velocity": _POSITIVE,
    "tolerance_acceleration": _POSITIVE, "cap": Range(1.0, 1e4), "passes": Range(0.0, 1e4), "refactor": _NOT_NEGATIVE,
    "penalty": _POSITIVE, "baumgarte_rate": _NOT_NEGATIVE, "baumgarte_damping": _NOT_NEGATIVE,
    "stabilisation": Range(0.0, 1.0), "rho": Range(0.0, 1.0), "retries": Range(0.0, 2.0),
    "scheme": Range(0.0, max(Scheme)),
}  # fmt: skip


def checked_setting(name: str, value: Any) -> float:
    """A setting within its range."""
    return number(f"setting {name}", value, _RANGES[name])


def check_dissipation(scheme: float, rho: float, xi: float) -> None:
    """One dissipation, and only of I3AL: halving takes away the error of a rule without, the others have none."""
    if rho < 1.0 and xi > 0.0:
        raise MechanismError(f"rho = {rho} and xi = {xi}: choose one dissipation; rho is of second order")
    if (rho < 1.0 or xi > 0.0) and scheme != Scheme.I3AL:
        value = f"rho = {rho}" if rho < 1.0 else f"xi = {xi}"
        raise MechanismError(f"{value}: dissipation is of scheme I3AL, not of {Scheme(int(scheme)).name}; leave it out")


# for a step with a deadline: what the surroundings and the sensors leave uncertain is far above these
REAL_TIME = Settings(
    tolerance=1e-6, tolerance_phi=1e-8, tolerance_velocity=1e-6, tolerance_acceleration=1e-3, cap=6, passes=4
)
