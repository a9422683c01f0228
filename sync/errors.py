"""The errors a user of tandem can meet and catch. Each is raised once, at the edge, and says what would be right.

Errors of a file from elsewhere are found in bounded time and reported in a few lines, however many there are.
"""

from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice

_MOST_SHOWN = 8
_MOST_FINDINGS = 50
_MOST_COMPARED, _LONGEST_COMPARED = 1000, 64  # names, and letters of each


def first_findings(found: Iterable[str]) -> str:
    """The first findings, a line each, and whether there are more: the rest is not even searched. Empty if none."""
    lines = list(islice(found, _MOST_FINDINGS + 1))
    return "\n".join(lines[:_MOST_FINDINGS]) + "\n... and more" * (len(lines) > _MOST_FINDINGS)


def near_names(name: object, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names that a misspelt one may have meant, the nearest first. If there are very many, only those of about its
    length are compared."""
    import difflib

    text = str(name)[:_LONGEST_COMPARED]
    comparable = (each for each in known if len(each) <= _LONGEST_COMPARED)
    some = nsmallest(_MOST_COMPARED, comparable, key=lambda each: abs(len(each) - len(text)))
    return difflib.get_close_matches(text, some, most, cutoff)


class TandemError(Exception):
    """Base of all; the command line prints it as one line and exits with `code`.

    >>> tandem.load_machine("mass_spring", {"mass": -1.0})
    Traceback (most recent call last):
    sync.errors.ConfigError: sim.parameters.mass = -1: must be from 0.01 to 100 kg
    """

    code = 1


class ConfigError(TandemError):
    """A configuration or data file is wrong: names file, key, value and what would be right."""

    code = 2


class UnknownName(ConfigError, KeyError):
    """A name that is none of those there are; the message has the nearest. A KeyError too: `in` and `get` work.

    >>> tandem.load_machine("mass_spring").step({"handel": 0.05})
    Traceback (most recent call last):
    sync.errors.UnknownName: handel: no input of mass_spring; did you mean handle?
    """

    __str__ = Exception.__str__  # a KeyError shows its text in quotes

    @classmethod
    def among(cls, known: Iterable[str], name: object, what: str) -> "UnknownName":
        """`what` the name is not, such as `input of wall`."""
        there = list(known)
        near = near_names(name, there, 3)
        shown = near or [*there[:_MOST_SHOWN], *["…"] * (len(there) > _MOST_SHOWN)]
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(shown) or 'none'}"
        return cls(f"{name}: no {what}; {hint}")


class Diverged(TandemError):
    """A step of the model raised, or left a state or an output that is NaN or out of bounds.

    >>> tandem.load_machine("mass_spring").step({"handle": 1e15})
    Traceback (most recent call last):
    sync.errors.Diverged: mass_spring: x became 4.93827e+12; it stands where it stood before this step
    """

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
