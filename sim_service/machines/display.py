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
    ways: tuple[str, ...] = ()  # of an input that goes both ways: what positive and negative are called


@dataclass(frozen=True)
class Display:
    hands: tuple[Tile, ...] = ()  # inputs, each with a bar
    figures: tuple[Tile, ...] = ()  # outputs; the first one stands in the line of a run that is going on, too
    plots: tuple[tuple[str, str], ...] = ()  # pairs of channels: what the charts begin with
    families: tuple[tuple[str, tuple[str, ...]], ...] = ()  # endings of names of the same quantity at several places
    still: tuple[str, ...] = ()  # inputs that are zero while a hand holds still: rates of what it holds


AS_IT_IS = Display()
