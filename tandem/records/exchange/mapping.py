"""Which column of a measurement is which channel of the DAQ, in which unit, and when its samples were taken.

`--map CHANNEL=COLUMN[:UNIT]`. The unit may be left out where the file says it; where both say one they must be the
same, unless the map insists (`:deg!`), for files that are labelled wrongly. A number instead of a column is a constant.
`--measured NAME=COLUMN[:UNIT]` is a quantity that sensors gave of the machine itself, and no input of it.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from itertools import islice
from pathlib import Path

import numpy as np

from sync.config.input_rows import NAME
from sync.files.limits import DecodedTooLarge
from sync.ring.block import AGE, RESERVED_NAMES, Channel, Layout
from tandem.records.exchange.counts import Rows, acceptable, conversion, usual_unit
from tandem.records.exchange.csv import split_unit
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import Measurement, Sheet
from tandem.records.exchange.units import Unit, known, si, suggestion, unit

_MOST_SHOWN = 60
_MOST_COMPARED, _LONGEST_COMPARED = 300, 200
_ALIKE = 0.4
_MOST_LOADED, _MOST_CANDIDATES, _MOST_OF_A_SWITCH = 40, 6, 2
_AT_ONCE = 8  # columns in memory
_NO_QUANTITY = re.compile(r"counter|checksum|crc|fault|valid|\.(BRS|ESI|EDL|IDE|DLC|Dir)$", re.IGNORECASE)
_TIME_NAME = re.compile(r"^(time|t|timestamps?|zeit)(?:_(?P<unit>s|ms|us|ns))?$", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A column in its unit, or a number."""

    unit: Unit
    sheet: Sheet | None  # None: a constant
    column: str
    constant: float = 0.0


@dataclass(frozen=True)
class Mapped:
    channel: Channel
    source: Source


@dataclass(frozen=True)
class MappedOutput:
    """What sensors measured at the machine: values in `symbol` are `factor` times those of the column."""

    name: str
    symbol: str
    factor: float
    sheet: Sheet
    column: str


def mapped(
    measurement: Measurement, maps: list[str], layout: Layout, rows: Rows, command: str = "tandem import"
) -> list[Mapped]:
    """A source for every channel of the layout, in its order; none for the age of a channel, which its source has.

    `command`: what was typed, to which maps are added."""
    found: dict[str, Mapped] = {}
    for text in maps:
        name, wanted = _parts("--map", text, "CHANNEL=COLUMN:UNIT, such as handle=HandlePosition:mm")
        if name not in layout.names:
            raise ExchangeError(
                f"--map {text}: {name} is no channel; the configuration has {', '.join(layout.names)}; what the machine"
                f" did, and no input of it, comes along with --measured {text}"
            )
        if name in found:
            raise ExchangeError(f"--map {text}: {name} is mapped twice")
        channel = layout.channels[layout.names.index(name)]
        source = _source(measurement, "--map", text, wanted, usual_unit(channel, rows))
        if conversion(channel, rows, source.unit) is None:
            raise ExchangeError(
                f"--map {text}: {source.unit.symbol} is a unit of {source.unit.dimension}, {channel.name} takes"
                f" {acceptable(channel, rows)}"
            )
        found[name] = Mapped(channel, source)
    missing = [c for c in layout.channels if c.name not in found and aged(layout, c.name) is None]
    if missing:
        raise ExchangeError(_what_to_map(measurement, missing, rows, command))
    return [found[name] for name in layout.names if name in found]


def aged(layout: Layout, name: str) -> str | None:
    """The channel whose age this one holds; None if it holds no age."""
    of = name.removesuffix(AGE)
    return of if of != name and of in layout.names else None


def mapped_outputs(measurement: Measurement, requested: list[str], outputs: dict[str, str]) -> list[MappedOutput]:
    """`outputs`: of the machine, with their units; what has such a name is brought in that unit."""
    found: dict[str, MappedOutput] = {}
    for text in requested:
        option = f"--measured {text}"
        name, wanted = _parts("--measured", text, "NAME=COLUMN:UNIT, such as yaw_rate=YawRate:deg/s")
        if not re.fullmatch(NAME, name) or name in RESERVED_NAMES:
            raise ExchangeError(
                f"{option}: {name} becomes the name of a channel: small letters, digits and _, at most 32, none of"
                f" {', '.join(RESERVED_NAMES)}"
            )
        if name in found:
            raise ExchangeError(f"{option}: {name} is brought twice")
        source = _source(measurement, "--measured", text, wanted, outputs.get(name, "m/s"))
        if source.sheet is None:
            raise ExchangeError(
                f"{option}: {source.column} is a number and no column; a sensor's readings are expected"
            )
        symbol = outputs.get(name, si(source.unit.dimension))
        own = unit(symbol)
        if own is None or own.dimension != source.unit.dimension:
            raise ExchangeError(
                f"{option}: {source.unit.symbol} is a unit of {source.unit.dimension}; the machine's {name} is in"
                f" {symbol}; under another name it comes along as it is"
            )
        factor = source.unit.factor / own.factor
        found[name] = MappedOutput(name, own.symbol, factor, source.sheet, source.column)
    return list(found.values())


def _parts(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, wanted = (part.strip() for part in text.partition("="))
    if not equals or not name or not wanted:
        raise ExchangeError(f"{option} {text}: expected {form}")
    return name, wanted


def _source(measurement: Measurement, option: str, text: str, wanted: str, usual: str) -> Source:
    sheet, column, unit_text = _place(measurement.sheets, wanted)
    insists, unit_text = unit_text.endswith("!"), unit_text.removesuffix("!")
    constant = _number(column) if sheet is None else 0.0
    if constant is None:
        raise ExchangeError(f"{option} {text}: {_no_such_column(measurement, column)}")
    in_file = sheet.columns[column] if sheet else ""
    if not unit_text and not in_file:
        raise ExchangeError(
            f"{option} {text}: {measurement.path} does not say in which unit {column} is; add it, such as"
            f" {text.partition('=')[0].strip()}={column}:{usual}"
        )
    units = unit(unit_text or in_file)
    if units is None:
        raise ExchangeError(
            f"{option} {text}: unit {unit_text or in_file!r} is not known; {suggestion(unit_text or in_file)}"
        )
    labelled = unit(in_file)
    if labelled and labelled != units and not insists:
        raise ExchangeError(
            f"{option} {text}: {measurement.path} says that {column} is in {in_file} ({labelled.dimension}), the map"
            f" says {units.symbol} ({units.dimension}); leave the unit out, or insist with {column}:{units.symbol}!"
        )
    return Source(units, sheet, column, constant)


def _place(sheets: list[Sheet], wanted: str) -> tuple[Sheet | None, str, str]:
    """(sheet, column, given unit) of `COLUMN:UNIT` or `GROUP:COLUMN:UNIT`. Names may hold colons themselves."""
    name, _, unit_text = wanted.rpartition(":")
    for candidate, about in ((wanted, ""), (name, unit_text)):
        for text in (candidate, split_unit(candidate)[0]):
            found = [
                (sheet, column)
                for sheet in sheets
                for column in (text, text.removeprefix(f"{sheet.name}:"), text.removeprefix(f"{sheet.name}."))
                if column in sheet.columns
            ]
            places = dict.fromkeys(sheet.name for sheet, _ in found)
            if len(places) > 1:
                groups = " or ".join(f"{place}:{text}" for place in places)
                raise ExchangeError(f"{text}: is in several groups; say {groups}")
            if found:
                return *found[0], about.strip()
    return None, name or wanted, unit_text.strip() if name else ""


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


# ---- time ------------------------------------------------------------------------------------------------------------


def samples(
    measurement: Measurement, sheet: Sheet, columns: list[str], requested: str | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The instants, in ns, and the values of each column's samples. Instants ascend, and none occurs twice."""
    path = measurement.path
    if sheet.seconds is None:
        name, units = _time_column(measurement, sheet, requested)
        values = sheet.load([name, *columns])
        t_ns = _ascending(path, sheet, name, values[name], units)
        return {column: (t_ns, values[column]) for column in columns}
    if requested:
        raise ExchangeError(f"--time {requested}: {path} says itself when its samples were taken; leave --time out")
    second = unit("s")
    assert second is not None
    values = sheet.load(columns)
    return {
        column: (_ascending(path, sheet, f"time of {column}", sheet.seconds(column), second), values[column])
        for column in columns
    }


def _ascending(path: Path, sheet: Sheet, name: str, values: np.ndarray, units: Unit) -> np.ndarray:
    if len(values) == 0:
        raise ExchangeError(f"{path}: {name} holds no samples")
    ns = _to_ns(path, sheet, name, values, units)
    bad = np.flatnonzero(np.diff(ns) <= 0)
    if len(bad):
        row = int(bad[0]) + 1
        what = "is there twice" if ns[row] == ns[row - 1] else f"comes after {values[row - 1]!s}"
        raise ExchangeError(
            f"{path}: {sheet.where(row)}, column {name}: {values[row]!s} {units.symbol} {what}; instants must ascend"
        )
    return ns


def _time_column(measurement: Measurement, sheet: Sheet, requested: str | None) -> tuple[str, Unit]:
    path = measurement.path
    if requested:
        found, name, unit_text = _place([sheet], requested)
        if found is None:
            raise ExchangeError(f"--time {requested}: {_no_such_column(measurement, name)}")
        text = unit_text or sheet.columns[name]
        source = f"--time {requested}"
    else:
        names = [name for name in sheet.columns if _TIME_NAME.match(name)]
        if not names:
            raise ExchangeError(
                f"{path}: which column is the time? Give --time COLUMN:UNIT, such as --time"
                f" {next(iter(sheet.columns))}:s; {_listing(measurement)}"
            )
        # the exact one first
        name = min(names, key=lambda n: (n != "t_ns", names.index(n)))
        match = _TIME_NAME.match(name)
        text = sheet.columns[name] or (match["unit"] if match and match["unit"] else "")
        source = str(path)
        if not text:
            raise ExchangeError(f"{path}: does not say in which unit {name} is; give --time {name}:s")
    units = unit(text)
    if units is None or units.dimension != "time":
        raise ExchangeError(f"{source}: time in {text!r}? The unit must be one of {known('time')}, as in {name}:s")
    return name, units


def _to_ns(path: Path, sheet: Sheet, name: str, values: np.ndarray, units: Unit) -> np.ndarray:
    scale = round(units.factor * 1e9)
    usable = np.isfinite(values) & (np.abs(values.astype(np.float64)) * scale < 2.0**62)
    bad = np.flatnonzero(~usable)
    if len(bad):
        row = int(bad[0])
        what = "is no instant" if not np.isfinite(values[row]) else "is further from zero than 146 years"
        raise ExchangeError(f"{path}: {sheet.where(row)}, column {name}: {values[row]!s} {units.symbol} {what}")
    if values.dtype.kind == "f":
        return np.rint(values.astype(np.float64) * scale).astype(np.int64)
    return values.astype(np.int64) * scale


# ---- error texts -----------------------------------------------------------------------------------------------------


def _listing(measurement: Measurement) -> str:
    columns = [f"{name} [{u}]" if u else name for sheet in measurement.sheets for name, u in sheet.columns.items()]
    more = f" and {len(columns) - _MOST_SHOWN} more" if len(columns) > _MOST_SHOWN else ""
    return f"the file has {', '.join(columns[:_MOST_SHOWN])}{more}"


def _comparable(names: Iterable[str]) -> list[str]:
    """The names that are compared with a typed one: limited in count and length, so that any file is quick."""
    return list(islice((name for name in names if len(name) <= _LONGEST_COMPARED), _MOST_COMPARED))


def _no_such_column(measurement: Measurement, column: str) -> str:
    names = [name for sheet in measurement.sheets for name in sheet.columns]
    near = get_close_matches(column, _comparable(names), 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{measurement.path} has no column {column}; {hint}{_listing(measurement)}"


def _what_to_map(measurement: Measurement, missing: list[Channel], rows: Rows, command: str) -> str:
    lines, example = [], []
    for channel in missing:
        usual = usual_unit(channel, rows)
        likely = likely_columns(measurement, channel, rows)
        found = candidates(likely)
        lines += [f"  {channel.name}: {', '.join(c.text for c in found)}"] if found else []
        first = found[0].column if found else next((c.column for c in likely if c.fits), "COLUMN")
        unit_text = next((c.unit for c in likely if c.column == first and c.unit), usual)
        example.append("--map " + shlex.quote(f"{channel.name}={first}:{unit_text}"))
    may_be = "What may be, and its range:\n" + "\n".join(lines) + "\n" if lines else ""
    return (
        f"{measurement.path}: no column is mapped to {', '.join(c.name for c in missing)}; {_listing(measurement)}.\n"
        f"{may_be}For example: {command} {' '.join(example)}"
    )


@dataclass(frozen=True)
class Likely:
    sheet: Sheet
    name: str
    column: str  # as a map names it
    unit: str
    fits: bool  # the channel takes its unit


@dataclass(frozen=True)
class Candidate:
    column: str
    unit: str
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.column} {self.low:.4g} … {self.high:.4g} {self.unit}".rstrip()


def likely_columns(measurement: Measurement, channel: Channel, rows: Rows) -> list[Likely]:
    """Columns of a unit that the channel takes, or without a unit but with a name like its own; the likeliest first."""
    several = len(measurement.sheets) > 1
    found: dict[str, list[Likely]] = {}
    for sheet in measurement.sheets:
        for name, unit_text in sheet.columns.items():
            if _NO_QUANTITY.search(name[:_LONGEST_COMPARED]) or _TIME_NAME.match(name):
                continue
            units = unit(unit_text)
            fits = units is not None and units.symbol != "count" and conversion(channel, rows, units) is not None
            if fits or units is None:
                column = f"{sheet.name}:{name}" if several else name
                found.setdefault(name, []).append(Likely(sheet, name, column, unit_text, fits))
    names = _comparable(found)
    by_name = {name.lower(): name for name in reversed(names)}
    order = get_close_matches(channel.name, list(by_name), max(len(by_name), 1), 0.0)
    alike = {name for name in order if SequenceMatcher(None, channel.name, name).ratio() >= _ALIKE}
    return [each for name in order for each in found[by_name[name]] if each.fits or name in alike]


def candidates(likely: list[Likely]) -> list[Candidate]:
    """Columns with their ranges, without switches and constants."""
    found: list[Candidate] = []
    for first in range(0, min(len(likely), _MOST_LOADED), _AT_ONCE):
        some = likely[first : first + _AT_ONCE]
        loaded = _loaded(some)
        for k, each in enumerate(some):
            values = loaded.get(k, np.zeros(0))
            values = values[np.isfinite(values)]
            if len(values) and len(np.unique(values[:: max(len(values) // 10_000, 1)])) > _MOST_OF_A_SWITCH:
                found.append(Candidate(each.column, each.unit, float(values.min()), float(values.max())))
            if len(found) == _MOST_CANDIDATES:
                return found
    return found


def _loaded(some: list[Likely]) -> dict[int, np.ndarray]:
    """Columns of a sheet are read together, as each read takes the whole file. Those without numbers are left out."""
    found: dict[int, np.ndarray] = {}
    for sheet in {id(each.sheet): each.sheet for each in some}.values():
        mine = {k: each.name for k, each in enumerate(some) if each.sheet is sheet}
        for group in ([mine], [{k: name} for k, name in mine.items()]):
            for names in group:
                try:
                    values = sheet.load(list(dict.fromkeys(names.values())))
                except (ExchangeError, DecodedTooLarge):
                    continue
                found |= {k: values[name] for k, name in names.items()}
            if mine.keys() <= found.keys():
                break
    return found
