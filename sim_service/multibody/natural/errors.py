"""What can be wrong with a mechanism, reported before anything runs."""

from sync.errors import TandemError


class MechanismError(TandemError):
    """The description of a mechanism contradicts itself or lacks something."""


class AssemblyError(TandemError):
    """No position, velocity or equilibrium was found that fulfils the constraints."""


class StateError(TandemError):
    """A saved state does not belong to this system."""


class IllConditioned(UserWarning):
    """Two constraints are so nearly the same that the multipliers will converge slowly."""
