"""What can be wrong with a mechanism, reported before anything runs."""

from typing import Any

from sync.errors import TandemError


class MechanismError(TandemError):
    """The description of a mechanism contradicts itself or lacks something."""


class AssemblyError(TandemError):
    """No position, velocity or equilibrium was found that fulfils the constraints."""


class StateError(TandemError):
    """A saved state does not belong to this system."""


class DivergedError(TandemError):
    """A run left the finite numbers. `record` holds what there was of it."""

    def __init__(self, message: str, record: Any) -> None:
        super().__init__(message)
        self.record = record


class NotConverged(UserWarning):
    """Steps of a run ended before their equations were fulfilled: its forces, and what follows, may be wrong."""


class InaccurateSteps(UserWarning):
    """By the estimate of every step a run is far from the motion, although every step converged."""


class LockedMechanism(UserWarning):
    """The constraints leave no motion, and no drive makes one: a structure, not a mechanism."""


class IllConditioned(UserWarning):
    """Two constraints are so nearly the same that the multipliers will converge slowly."""


class Undetermined(IllConditioned):
    """A node can move without mass, force or constraint: nothing says how it will."""
