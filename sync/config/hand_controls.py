"""Controls by hand: which rows of `[inputs]` a person moves on a page, and how.

    [source.controls.handle]  # a row
    least = -0.05             # everything is in the row's unit; without limits the row's own
    most = 0.05
    rate_per_s = 0.5          # a slider jumps, a hand does not; without it the value is there at once
    springs_back = false      # it stays where it is when released; otherwise it returns to at_rest
    keys.L = { by = 0.005 }   # or { to = 0.0 }; one key may move several rows
    buttons.middle = { to = 0.0 }

The device that samples them (daq_service/devices/page.py) and the page that shows them (tandem/view/controls.py)
read this one table. Without it the page moves every row that reads one channel and can be inverted, within its limits.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, model_validator

from sync.config.config import Config
from sync.config.input_rows import NAME, Affine, Encoder, Row
from sync.config.toml import Section, check
from sync.errors import ConfigError

_Key = Annotated[str, Field(pattern=r"^([A-Z0-9]|space)$")]
_Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,31}$")]


class Move(Section):
    """What a key or a button does to a control: to a value, or further by some."""

    to: float | None = None  # value that the control gets
    by: float | None = None  # step that it makes

    @model_validator(mode="after")
    def _one(self) -> "Move":
        if (self.to is None) == (self.by is None):
            raise ValueError("must be one of { to = VALUE } and { by = STEP }")
        return self


class Control(Section):
    least: float | None = None  # in the row's unit; by default the row's own
    most: float | None = None  # likewise
    at_rest: float | None = None  # before anybody moves it, and where it springs back to; by default 0, or the end next
    # a slider jumps, a hand does not; without it the value is there at once
    rate_per_s: float | None = Field(None, gt=0)
    springs_back: bool = True  # released, it returns to at_rest
    reversed: bool = False  # the slider has its most on the left, and shows the value with the other sign
    keys: dict[_Key, Move] = {}  # what a letter, a digit or `space` does
    buttons: dict[_Label, Move] = {}  # what a button of that name does


Controls = dict[Annotated[str, Field(pattern=NAME)], Control]


class _Table(Section):
    controls: Controls = {}


@dataclass(frozen=True)
class HandControl:
    """A control with its row, every default filled in."""

    row: Affine | Encoder
    settings: Control
    least: float
    most: float
    at_rest: float

    @property
    def channel(self) -> str:
        return self.row.channels[0]

    def clipped(self, value: float) -> float:
        return min(max(value, self.least), self.most)

    def counts(self, value: float) -> int:
        """The counts that a sensor would read there: the inverse of the row."""
        return round(self.row.counts(value))

    def moved(self, value: float, move: Move) -> float:
        return self.clipped(move.to if move.to is not None else value + (move.by or 0.0))


def invertible(row: Row) -> bool:
    return isinstance(row, Affine | Encoder) and len(row.channels) == 1


def hand_controls(config: Config, file: Any) -> dict[str, HandControl]:
    """The controls by row, in the order of the table; ConfigError for a row that cannot be moved."""
    controls = check(_Table, {"controls": config.source.get("controls", {})}, str(file), "source").controls
    controls = controls or {name: Control() for name, row in config.inputs.items() if invertible(row)}
    if not controls:
        raise ConfigError(
            f"{file}: inputs: a hand needs a row of kind affine or encoder that reads a channel; there is"
            f" {', '.join(config.inputs) or 'none'}"
        )
    found = {name: _with_row(config, name, control, file) for name, control in controls.items()}
    taken: dict[str, str] = {}
    for name, control in found.items():
        other = taken.setdefault(control.channel, name)
        if other != name:
            raise ConfigError(
                f"{file}: source.controls.{name}: moves the channel {control.channel}, as {other} does; leave one out"
            )
    return found


def _with_row(config: Config, name: str, control: Control, file: Any) -> HandControl:
    where = f"{file}: source.controls.{name}"
    if name not in config.inputs:
        raise ConfigError(f"{where}: is no row of [inputs]; there is {', '.join(config.inputs) or 'none'}")
    row = config.inputs[name]
    if not isinstance(row, Affine | Encoder) or not row.channels:
        raise ConfigError(f"{where}: its row must be of kind affine or encoder and read a channel, to be inverted")
    least, most = _limits(row)
    least = least if control.least is None else control.least
    most = most if control.most is None else control.most
    if least is None or most is None:
        raise ConfigError(f"{where}: inputs.{name} has no limits: give least and most")
    if least >= most:
        raise ConfigError(f"{where}: least = {least:g} must be below most = {most:g}")
    at_rest = min(max(0.0, least), most) if control.at_rest is None else control.at_rest
    hand = HandControl(row, control, least, most, at_rest)
    moves = {**control.keys, **control.buttons}
    for key, value in (("at_rest", at_rest), *((f"{k}.to", move.to) for k, move in moves.items())):
        if value is not None and hand.clipped(value) != value:
            raise ConfigError(f"{where}: {key} = {value:g} must be from {least:g} to {most:g}")
    (kind,) = [channel.type for channel in config.daq.channels if channel.name == hand.channel]
    bits = 8 * int(kind[1])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "i" else (0, (1 << bits) - 1)
    for end in (least, most):
        if not low <= hand.counts(end) <= high:
            raise ConfigError(
                f"{where}: at {end:g} the channel {hand.channel} would be {hand.counts(end)}; its type {kind!r} has"
                f" {low} to {high}"
            )
    return hand


def _limits(row: Affine | Encoder) -> tuple[float | None, float | None]:
    """The row's own limits; for an affine row also within its calibrated range, from zero to full."""
    if isinstance(row, Encoder):
        return row.least, row.most
    least, most = (0.0 if row.least is None else row.least), (row.full if row.most is None else row.most)
    return max(least, 0.0), min(most, row.full)
