"""Which column of a measurement is which channel of the DAQ, in which unit, and when its samples were taken.

`--map CHANNEL=COLUMN[:UNIT]`. The unit may be left out where the file says it; where both say one they must be the
same, unless the map insists (`:deg!`), for files that are labelled wrongly. A number instead of a column is a constant.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import numpy as np

from sync.ring.block import Channel, Layout
from tandem.records.exchange.counts import Rows, acceptable, conversion, usual_unit
from tandem.records.exchange.csv import split_unit
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import Measurement, Sheet
from tandem.records.exchange.units import Unit, known, suggestion, unit

_MOST_SHOWN = 60
_MOST_COMPARED, _LONGEST_COMPARED = 300, 200
_TIME_NAME = re.compile(r"^(time|t|timestamps?|zeit)(?:_(?P<unit>s|ms|us|ns))?$", re.IGNORECASE)


@dataclass(frozen=True)
class Mapped:
    channel: Channel
    unit: Unit
    sheet: Sheet | None  # None: a constant
    column: str
    constant: float = 0.0


def mapped(measurement: Measurement, maps: list[str], layout: Layout, rows: Rows) -> list[Mapped]:
    """A source for every channel of the layout, in its order."""
    found: dict[str, Mapped] = {}
    for text in maps:
        name, equals, wanted = text.partition("=")
        name, wanted = name.strip(), wanted.strip()
        if not equals or not name or not wanted:
            raise ExchangeError(f"--map {text}: expected CHANNEL=COLUMN:UNIT, such as handle=HandlePosition:mm")
        if name not in layout.names:
            raise ExchangeError(f"--map {text}: {name} is no channel; the configuration has {', '.join(layout.names)}")
        if name in found:
            raise ExchangeError(f"--map {text}: {name} is mapped twice")
        channel = layout.channels[layout.names.index(name)]
        found[name] = _one(measurement, text, channel, wanted, rows)
    missing = [c for c in layout.channels if c.name not in found]
    if missing:
        raise ExchangeError(_what_to_map(measurement, missing, rows))
    return [found[name] for name in layout.names]


def _one(measurement: Measurement, text: str, channel: Channel, wanted: str, rows: Rows) -> Mapped:
    sheet, column, unit_text = _place(measurement.sheets, wanted)
    insists, unit_text = unit_text.endswith("!"), unit_text.removesuffix("!")
    constant = _number(column) if sheet is None else 0.0
    if constant is None:
        raise ExchangeError(f"--map {text}: {_no_such_column(measurement, column)}")
    in_file = sheet.columns[column] if sheet else ""
    if not unit_text and not in_file:
        raise ExchangeError(
            f"--map {text}: {measurement.path} does not say in which unit {column} is; add it, such as"
            f" {channel.name}={column}:{usual_unit(channel, rows)}"
        )
    given = unit(unit_text or in_file)
    if given is None:
        raise ExchangeError(
            f"--map {text}: unit {unit_text or in_file!r} is not known; {suggestion(unit_text or in_file)}"
        )
    labelled = unit(in_file)
    if labelled and labelled != given and not insists:
        raise ExchangeError(
            f"--map {text}: {measurement.path} says that {column} is in {in_file} ({labelled.dimension}), the map says"
            f" {given.symbol} ({given.dimension}); leave the unit out, or insist with {column}:{given.symbol}!"
        )
    if conversion(channel, rows, given) is None:
        raise ExchangeError(
            f"--map {text}: {given.symbol} is a unit of {given.dimension}, {channel.name} takes"
            f" {acceptable(channel, rows)}"
        )
    return Mapped(channel, given, sheet, column, constant)


def _place(sheets: list[Sheet], wanted: str) -> tuple[Sheet | None, str, str]:
    """(sheet, column, given unit) of `COLUMN:UNIT` or `GROUP:COLUMN:UNIT`. Names may hold colons themselves."""
    name, _, unit_text = wanted.rpartition(":")
    for candidate, about in ((wanted, ""), (name, unit_text)):
        for text in (candidate, split_unit(candidate)[0]):
            found = [
                (sheet, column)
                for sheet in sheets
                for column in (text, text.removeprefix(f"{sheet.name}:"))
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
    measurement: Measurement, sheet: Sheet, columns: list[str], asked: str | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each column, when its samples were taken, in ns, and their values. Instants ascend, none is there twice."""
    path = measurement.path
    if sheet.seconds is None:
        name, given = _time_column(measurement, sheet, asked)
        values = sheet.load([name, *columns])
        t_ns = _ascending(path, sheet, name, values[name], given)
        return {column: (t_ns, values[column]) for column in columns}
    if asked:
        raise ExchangeError(f"--time {asked}: {path} says itself when its samples were taken; leave --time out")
    second = unit("s")
    assert second is not None
    values = sheet.load(columns)
    return {
        column: (_ascending(path, sheet, f"time of {column}", sheet.seconds(column), second), values[column])
        for column in columns
    }


def _ascending(path: Path, sheet: Sheet, name: str, values: np.ndarray, given: Unit) -> np.ndarray:
    if len(values) == 0:
        raise ExchangeError(f"{path}: {name} holds no samples")
    ns = _to_ns(path, sheet, name, values, given)
    bad = np.flatnonzero(np.diff(ns) <= 0)
    if len(bad):
        row = int(bad[0]) + 1
        what = "is there twice" if ns[row] == ns[row - 1] else f"comes after {values[row - 1]!s}"
        raise ExchangeError(
            f"{path}: {sheet.where(row)}, column {name}: {values[row]!s} {given.symbol} {what}; instants must ascend"
        )
    return ns


def _time_column(measurement: Measurement, sheet: Sheet, asked: str | None) -> tuple[str, Unit]:
    path = measurement.path
    if asked:
        found, name, unit_text = _place([sheet], asked)
        if found is None:
            raise ExchangeError(f"--time {asked}: {_no_such_column(measurement, name)}")
        text = unit_text or sheet.columns[name]
        source = f"--time {asked}"
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
    given = unit(text)
    if given is None or given.dimension != "time":
        raise ExchangeError(f"{source}: time in {text!r}? The unit must be one of {known('time')}, as in {name}:s")
    return name, given


def _to_ns(path: Path, sheet: Sheet, name: str, values: np.ndarray, given: Unit) -> np.ndarray:
    scale = round(given.factor * 1e9)
    usable = np.isfinite(values) & (np.abs(values.astype(np.float64)) * scale < 2.0**62)
    bad = np.flatnonzero(~usable)
    if len(bad):
        row = int(bad[0])
        what = "is no instant" if not np.isfinite(values[row]) else "is further from zero than 146 years"
        raise ExchangeError(f"{path}: {sheet.where(row)}, column {name}: {values[row]!s} {given.symbol} {what}")
    if values.dtype.kind == "f":
        return np.rint(values.astype(np.float64) * scale).astype(np.int64)
    return values.astype(np.int64) * scale


# ---- error texts -----------------------------------------------------------------------------------------------------


def _listing(measurement: Measurement) -> str:
    columns = [f"{name} [{u}]" if u else name for sheet in measurement.sheets for name, u in sheet.columns.items()]
    more = f" and {len(columns) - _MOST_SHOWN} more" if len(columns) > _MOST_SHOWN else ""
    return f"the file has {', '.join(columns[:_MOST_SHOWN])}{more}"


def _comparable(names: Iterable[str]) -> list[str]:
    """So many, and so long, as can be compared at once, whatever a file holds."""
    return list(islice((name for name in names if len(name) <= _LONGEST_COMPARED), _MOST_COMPARED))


def _no_such_column(measurement: Measurement, column: str) -> str:
    names = [name for sheet in measurement.sheets for name in sheet.columns]
    near = get_close_matches(column, _comparable(names), 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{measurement.path} has no column {column}; {hint}{_listing(measurement)}"


def _what_to_map(measurement: Measurement, missing: list[Channel], rows: Rows) -> str:
    units = {name: u for sheet in measurement.sheets for name, u in sheet.columns.items()}
    example = []
    for channel in missing:
        alike = _comparable(name for name in units if channel.name[:2] in name.lower())
        near = (get_close_matches(channel.name, alike, 1, 0.0) or ["COLUMN"])[0]
        unit_text = units.get(near) or usual_unit(channel, rows)
        example.append("--map " + shlex.quote(f"{channel.name}={near}:{unit_text}"))
    return (
        f"{measurement.path}: no column is mapped to {', '.join(c.name for c in missing)}; {_listing(measurement)}.\n"
        f"For example: tandem import {measurement.path} {' '.join(example)}"
    )
