"""The errors a user of tandem can meet and catch. Each is raised once, at the edge, and says what would be right."""


class TandemError(Exception):
    """Base of all; the command line prints it as one line and exits with `code`."""

    code = 1


class ConfigError(TandemError):
    """A configuration or data file is wrong: names file, key, value and what would be right."""

    code = 2


class Diverged(TandemError):
    """A step of the model raised, or left a state or an output that is NaN or out of bounds."""

    code = 3


class DeviceError(TandemError):
    """A device, or the software it needs, is missing, in use by another program, or cannot do what is asked."""

    code = 7


class InputLost(TandemError):
    """Input was stale for longer than the configuration allows."""

    code = 8


class RingError(TandemError):
    """A ring cannot be created or attached."""


class RingBusy(RingError):
    """Another living process owns the ring."""


class RingMissing(RingError):
    """There is no ring of that name, or its owner has not finished making it."""


class LayoutMismatch(RingError):
    """The ring is of another layout than the one asked for."""


class WireError(TandemError):
    """A socket cannot be bound or connected."""
