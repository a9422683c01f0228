"""DBC files: which bits of which frame a signal is, and what a configuration may ask of them.

Values are the raw integers of a frame; factor and offset are not applied here. `calibration` computes what [inputs]
would be by them, for comparison.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from sync.config.config import ChannelConfig
from sync.config.input_rows import Affine, Encoder
from sync.config.toml import Section
from sync.errors import ConfigError, near_names
from sync.files.limits import Budget, DecodedTooLarge


class Mapped(Section):
    """Where a channel comes from."""

    signal: str = Field(pattern=r"^[^.]+\.[^.]+$")  # Message.Signal
    stale_ms: float | None = Field(None, gt=0, le=60_000)  # as source.stale_ms, for this one
    invalid: list[int | str] = []  # raw values, or their names in the DBC, that mean "not available"


# ---- the bits of a frame ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bits:
    """Where a signal is in a frame. With a `selector` it is there only if the selector reads one of `pages`."""

    shift: int  # from the low end of the frame, read as one number
    big: bool  # that number is read with the first byte highest
    length: int
    signed: bool
    selector: "Bits | None"
    pages: frozenset[int]

    def read(self, little: int, big: int) -> int | None:
        """The raw value in a frame read as a number both ways; None if this frame does not have the signal."""
        if self.selector is not None and self.selector.read(little, big) not in self.pages:
            return None
        value = (big if self.big else little) >> self.shift & ((1 << self.length) - 1)
        return value - (1 << self.length) if self.signed and value >> (self.length - 1) else value


def bits(message: Any, name: str, depth: int = 0) -> Bits:
    """The bits of a cantools message's signal; ValueError if the frame is too short, or selectors form a cycle."""
    if depth > _DEEPEST_SELECTORS:
        raise ValueError(f"{name} of {message.name} has more than {_DEEPEST_SELECTORS} selectors, one behind the other")
    signal = message.get_signal_by_name(name)
    big = signal.byte_order == "big_endian"
    # Motorola counts from the highest bit, bytes from the front, bits of a byte from its low end
    shift = 8 * message.length - (signal.start // 8 * 8 + 7 - signal.start % 8) - signal.length if big else signal.start
    if shift < 0 or shift + signal.length > 8 * message.length:
        raise ValueError(f"{name} does not fit into the {message.length} bytes of {message.name}")
    selected = signal.multiplexer_ids is not None and signal.multiplexer_signal is not None
    return Bits(
        shift=shift,
        big=big,
        length=signal.length,
        signed=signal.is_signed,
        selector=bits(message, signal.multiplexer_signal, depth + 1) if selected else None,
        pages=frozenset(signal.multiplexer_ids or ()),
    )


@dataclass(frozen=True)
class Frame:
    """What we want of the frames of one id."""

    lengths: tuple[int, ...]  # of its data: as the DBC says, and as CAN FD pads it
    wanted: tuple[tuple[int, Bits, frozenset[int]], ...]  # channel, where it is, values that are never valid

    def read(self, data: bytes | bytearray) -> list[tuple[int, int | None]] | None:
        """(channel, raw value, or None if not available) of all signals that are there; None if malformed."""
        if len(data) not in self.lengths:
            return None
        data = data[: self.lengths[0]]
        little, big = int.from_bytes(data, "little"), int.from_bytes(data, "big")
        found: list[tuple[int, int | None]] = []
        for channel, where, never in self.wanted:
            if (value := where.read(little, big)) is not None:
                found.append((channel, None if value in never else value))
        return found


# ---- what the configuration and the DBC say --------------------------------------------------------------------------


def near_to(name: str, known: Iterable[str]) -> str:
    known = sorted(set(known))
    near = near_names(name, known, 3, 0.5)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; it has {', '.join(known[:12])}{', …' * (len(known) > 12)}"


_MOST_BYTES = 64 << 20
_MOST_BITS = 8 * 1785  # of a frame: the longest that J1939 reassembles
# tokens as cantools separates them: a comment counts as a blank, and none is needed between a number and a word
_TOKEN = re.compile(
    r'[ \r\n\t]++|//[^\n]*+\n?|([-+]?\d++\.?\d*+(?:[eE][+-]?\d++)?|[A-Za-z0-9_]++|"(?:\\"|[^"])*?"|.)', re.DOTALL
)
# the following match tokens with one blank between them
_PLACES = re.compile(r"(?<!\S)(\S++) \| (\S++) @")
_LENGTHS = re.compile(r"(?<!\S)BO_ \S++ \S++ : (\S++)")
_MESSAGES = re.compile(r"(?<!\S)BO_(?!\S)")
_MULTIPLEXED = re.compile(r"(?<!\S)SG_ \S++ m\d")
_PAGES = re.compile(r"(?<!\S)SG_MUL_VAL_ \S++ \S++ \S++ ([^;]*+)")
_RANGE = re.compile(r"(?<!\S)([-+]?\d++) [-+\d](\d++)(?!\S)")
_EXPONENT = re.compile(r"(?<!\S)[-+]?\d++\.?\d*+[eE][+-]?0*+(\d++)")
_LARGEST_EXPONENT = 308
_MOST_PAGES = 1 << 16  # values of selectors, listed one by one by the parser
_PARSED = 80  # bytes that the parser takes for a byte of the file
_DEEPEST_SELECTORS = 16


def _tokens(text: str) -> str:
    """The tokens that the parser sees, with strings emptied, because their contents do not matter."""
    return " ".join('""' if token[0] == '"' and len(token) > 1 else token for token in _TOKEN.findall(text) if token)


def _beyond(number: str, most: int) -> bool:
    digits = number.lstrip("+-")
    return not digits.isdecimal() or len(digits) > 5 or int(digits) > most


def _beyond_any_frame(tokens: str) -> str:
    """A signal or frame declared beyond any frame: the parser would allocate memory for it, gigabytes if it says so."""
    for place in _PLACES.finditer(tokens):
        if any(_beyond(number, _MOST_BITS) for number in place.groups()):
            at, wide = map(_shown, place.groups())
            return f"a signal at bit {at} with {wide} bits: at most {_MOST_BITS} bits are a frame"
    for length in _LENGTHS.finditer(tokens):
        if _beyond(length[1], _MOST_BITS // 8):
            return f"a frame of {_shown(length[1])} bytes: at most {_MOST_BITS // 8} are one"
    for exponent in _EXPONENT.finditer(tokens):
        if _beyond(exponent[1], _LARGEST_EXPONENT):
            return f"the number {_shown(exponent[0])}: exponents are at most {_LARGEST_EXPONENT}"
    pages = 0
    for statement in _PAGES.finditer(tokens):
        for first, last in _RANGE.findall(statement[1]):
            pages += max(int(last) - int(first), 0) if max(len(first), len(last)) < 12 else _MOST_PAGES + 1
            if pages > _MOST_PAGES:
                return f"selectors with the values {_shown(first)}-{_shown(last)}: at most {_MOST_PAGES} are read"
    return ""


def _check_cost(tokens: str, budget: Budget) -> None:
    """Charge the budget: parsing takes time in the square of a message's multiplexed signals."""
    for message in _MESSAGES.split(tokens):
        budget.need(8 * len(_MULTIPLEXED.findall(message)) ** 2, "the multiplexed signals of a message")


def _shown(number: str) -> str:
    return number[:20] + "..." * (len(number) > 20)


def load_dbc(path: Path, key: str) -> Any:
    import cantools

    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*.dbc"))
        raise ConfigError(f"{key}: {path}: no such file" + f"; beside it: {', '.join(beside)}" * bool(beside))
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes; no DBC is that long")
        if not re.search(rb"\bBO_\s", data):
            raise ValueError("it has no message (BO_); is it a DBC?")
        budget = Budget(path, len(data))
        budget.need(_PARSED * len(data), "its messages")
        # cantools' own encoding of them; a lone carriage return ends a line, and a comment, too
        text = re.sub(r"\r\n?", "\n", data.decode("cp1252", errors="replace"))
        tokens = _tokens(text)
        _check_cost(tokens, budget)
        if wrong := _beyond_any_frame(tokens):
            raise ValueError(wrong)
        # not strict: overlapping signals are common in the field, and those that we read are separated by their bits
        with budget.enforced("its messages"):
            return cantools.database.load_string(text, database_format="dbc", strict=False)
    except DecodedTooLarge as error:
        raise ConfigError(f"{key}: {error}") from None
    except Exception as error:  # a parser's own errors, and any other that a broken file causes
        raise ConfigError(f"{key}: {path}: cannot be read: {' '.join(str(error).split())}") from None


def find_signal(database: Any, mapped: Mapped, key: str, dbc: Path) -> tuple[Any, Any]:
    """(message, signal) as the DBC has them."""
    at = f"{key}.signal = {mapped.signal!r}"
    message_name, signal_name = mapped.signal.split(".")
    messages = {m.name: m for m in database.messages}
    if message_name not in messages:
        elsewhere = [f"{m.name}.{s.name}" for m in database.messages for s in m.signals if s.name == signal_name]
        hint = f"; did you mean {' or '.join(elsewhere[:3])}?" if elsewhere else near_to(message_name, messages)
        raise ConfigError(f"{at}: {dbc} has no message {message_name}{hint}")
    message = messages[message_name]
    signals = {s.name: s for s in message.signals}
    if signal_name not in signals:
        raise ConfigError(f"{at}: {message_name} in {dbc} has no signal {signal_name}{near_to(signal_name, signals)}")
    signal = signals[signal_name]
    if message.is_container:
        raise ConfigError(f"{at}: {message_name} is a container of other messages; these are not supported")
    if signal.is_float:
        raise ConfigError(f"{at}: is a floating point signal; blocks carry integers")
    return message, signal


def check_type(channel: ChannelConfig, signal: Any, at: str, file: Path) -> None:
    if channel.counter_bits is not None:
        if channel.counter_bits != signal.length:
            raise ConfigError(
                f"{file}: daq.channels: {channel.name}.counter_bits = {channel.counter_bits}: {at} has"
                f" {signal.length} bits; leave counter_bits out unless it counts on and wraps"
            )
        return
    fitting = [
        kind
        for kind in ("i2", "u2", "i4", "u4")
        if signal.length <= 8 * int(kind[1]) - (kind[0] == "i" and not signal.is_signed)
        and not (kind[0] == "u" and signal.is_signed)
    ]
    if channel.type not in fitting:
        right = f"must be {' or '.join(fitting)}" if fitting else "no type of a block holds it"
        raise ConfigError(
            f"{file}: daq.channels: {channel.name}.type = {channel.type!r}: {at} has {signal.length} bits,"
            f" {'signed' if signal.is_signed else 'unsigned'}: {right}"
        )


def never_valid(mapped: Mapped, signal: Any, key: str) -> frozenset[int]:
    """The raw values that mean "not available"."""
    choices = {str(name): int(value) for value, name in (signal.choices or {}).items()}
    for name in mapped.invalid:
        if isinstance(name, str) and name not in choices:
            hint = near_to(name, choices) if choices else "; the DBC names none of its values"
            raise ConfigError(f"{key}.invalid = {name!r}: no value of {mapped.signal}{hint}")
    return frozenset(choices[v] if isinstance(v, str) else v for v in mapped.invalid)


_DEGREES = {"deg": 1.0, "°": 1.0, "degree": 1.0, "degrees": 1.0, "rad": 180.0 / math.pi}
_SHARES = {"%": 0.01, "percent": 0.01, "": 1.0, "1": 1.0}
_BARS = {"bar": 1.0, "mbar": 1e-3, "kpa": 0.01, "mpa": 10.0, "pa": 1e-5}


_SCALES = {"deg": _DEGREES, "1": _SHARES, "bar": _BARS}  # units that a row may have, and what a DBC calls them


def calibration(row: Affine | Encoder, signal: Any) -> dict[str, float]:
    """What the row's settings would be by the DBC's factor, offset and unit; empty if these mean nothing here."""
    try:
        found = _calibration(row, signal)
    except (OverflowError, ZeroDivisionError):  # a DBC may hold any number
        return {}
    factor = next(iter(found.values()), 0.0)
    return found if factor and all(map(math.isfinite, found.values())) else {}


def _calibration(row: Affine | Encoder, signal: Any) -> dict[str, float]:
    """The settings, the factor first."""
    unit = (signal.unit or "").strip().lower()
    scale = float(signal.scale)
    zero = 0.0 - float(signal.offset) / scale
    of_unit = _SCALES.get(row.unit, {row.unit.lower(): 1.0}).get(unit)
    if of_unit is None:
        return {}
    if isinstance(row, Encoder):
        sign = {"sign": -1.0} if scale < 0 else {}  # a positive one may be: which way is left is a convention
        return {"per_count": abs(scale) * of_unit, "zero_counts": zero, **sign}
    return {"full_counts": row.full / (scale * of_unit), "zero_counts": zero}


def disagrees(by_dbc: dict[str, float], row: Affine | Encoder) -> bool:
    """Whether the factor differs, or the zero differs by more than a calibration would move it."""
    for key, value in by_dbc.items():
        factor = next(iter(by_dbc.values()))
        full = 360.0 / factor if "per_count" in by_dbc else factor
        allowed = 0.05 * abs(full) if key == "zero_counts" else 1e-3 * abs(value)
        if abs(getattr(row, key) - value) > allowed:
            return True
    return False
