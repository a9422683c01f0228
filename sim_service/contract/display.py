"""What a machine has shown of itself: figures, bars, plots, a line of status. Whatever it leaves out the view makes
from the names of its inputs and outputs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """One figure: a channel of a step, in a unit that people read."""

    label: str
    channel: str
    unit: str = ""
    factor: float = 1.0
    digits: int = 1
    colour: str = ""  # of its bar
    full: float = 0.0  # of its bar, in the channel's unit; 0: what the row says, or a turn
    words: tuple[str, ...] = ()  # instead of the numbers 0, 1, 2, …
    ways: tuple[str, ...] = ()  # of an input that goes both ways: what positive and negative are called


@dataclass(frozen=True)
class Curve:
    """One channel over another, such as force over travel."""

    title: str
    x: str
    y: str
    x_factor: float = 1.0
    x_unit: str = ""
    y_factor: float = 1.0
    y_unit: str = ""


@dataclass(frozen=True)
class Sound:
    """A note whenever a count rises, as loud as a speed; its pitch, as MIDI numbers it, is a parameter."""

    count: str
    speed: str
    pitch: str
    above: int = 0  # semitones


@dataclass(frozen=True)
class Display:
    hands: tuple[Tile, ...] = ()  # inputs, each with a bar
    figures: tuple[Tile, ...] = ()  # outputs; the first is also in the status line of a run
    plots: tuple[tuple[str, str], ...] = ()  # pairs of channels: what the charts begin with
    families: tuple[tuple[str, tuple[str, ...]], ...] = ()  # endings of names of the same quantity at several places
    curves: tuple[Curve, ...] = ()
    sounds: tuple[Sound, ...] = ()
    tuned: str = ""  # the group of parameters whose sliders are shown first
    still: tuple[str, ...] = ()  # inputs that are zero while a hand holds still: rates of what it holds


AS_IT_IS = Display()
