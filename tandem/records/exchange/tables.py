"""A run as tables, and a measurement as columns.

A topic is a table, one row a block: `t_s` first, then the block's header and its channels under their own names, then
`ring_position`, by which blocks that are missing from the record are counted. With the tables goes the *passport* of
the run, a JSON object: schemas of the topics (types, units, skews), start, end and attachments of the record.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from daq_service.devices.dbc import Mapped
from sync.record import CompleteTopic, Run
from sync.record.ros2msg import HEADER_NOTES
from sync.ring.block import HEADER, Layout
from tandem.records.descriptions import describe
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.schema import to_layout, to_schema

PASSPORT = 1  # version
SECONDS, POSITION = "t_s", "ring_position"
TOPIC = re.compile(r"/[A-Za-z0-9_]+(/[A-Za-z0-9_]+){0,7}")  # it becomes the name of a file
_LONGEST_TOPIC = 64
Progress = Callable[[str, float], None]


# ---- a run as tables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    name: str
    unit: str
    values: np.ndarray
    skew_ns: int = 0
    note: str = ""


@dataclass(frozen=True)
class Table:
    topic: str
    columns: tuple[Column, ...]

    @property
    def rows(self) -> int:
        return len(self.columns[0].values)

    @property
    def stem(self) -> str:
        """The stem of its file: `daq` for /daq."""
        return self.topic.strip("/").replace("/", "_")


def first_instant(run: Run) -> int:
    """The zero of `t_s`: the run's first block, or first step if there is none."""
    for name in (run.source_topic, *run.topics):
        if len(run.topics.get(name, ())):
            return int(run.topics[name].blocks["t_ns"][0])
    raise ExchangeError(f"{run.path}: holds no blocks and no steps; there is nothing to export")


def tables_of(run: Run) -> list[Table]:
    zero = first_instant(run)
    describing = describe(run.attachments.get("parameters.json"))
    tables = []
    for topic in run.topics.values():
        if not len(topic):
            continue
        check_topic(topic.name, str(run.path))
        blocks = topic.blocks
        columns = [Column(SECONDS, "s", (blocks["t_ns"] - zero) * 1e-9, note="seconds from the run's first block")]
        columns += [Column(n, u, blocks[n], note=note) for n, (u, note) in HEADER_NOTES.items()]
        described = describing(topic.name, topic.layout)
        columns += [Column(c.name, c.unit, blocks[c.name], c.skew_ns, described.note(c)) for c in topic.layout.channels]
        columns.append(Column(POSITION, "1", topic.positions.astype(np.int64), note="in the ring, modulo 2**32"))
        names = [c.name for c in columns]
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise ExchangeError(f"{run.path}: {topic.name} has a channel {twice.pop()}; exported files need that name")
        tables.append(Table(topic.name, tuple(columns)))
    return tables


def check_topic(name: str, where: str) -> None:
    if len(name) > _LONGEST_TOPIC or not TOPIC.fullmatch(name):
        raise ExchangeError(
            f"{where}: topic {name[:80]!r}: becomes the name of a file, must be such as /daq: letters, digits and _"
            f" between slashes, at most {_LONGEST_TOPIC} characters"
        )


def passport_of(run: Run, tables: Iterable[Table]) -> dict[str, Any]:
    return {
        "tandem_export": PASSPORT,
        "topics": {t.topic: json.loads(to_schema(run.topics[t.topic].layout)) for t in tables},
        "start": run.start,
        "end": run.end,
        "cut": "; ".join([*([run.cut] if run.cut else []), *run.losses]) or None,
        # attachments are text; whatever is not survives as surrogates
        "attachments": {name: data.decode("utf-8", "surrogateescape") for name, data in run.attachments.items()},
    }


# ---- a measurement as columns ----------------------------------------------------------------------------------------


@dataclass
class Sheet:
    """Columns of one length. Values are loaded when they are asked for: a file may hold far more than is wanted."""

    name: str
    columns: dict[str, str]  # the unit of each, "" if the file does not say
    load: Callable[[list[str]], dict[str, np.ndarray]]
    where: Callable[[int], str]  # how a user finds a row
    seconds: Callable[[str], np.ndarray] | None = None  # of a loaded column's samples, if the file itself says them
    blank: set[str] = field(default_factory=set)  # loaded columns in which cells were empty


@dataclass(frozen=True)
class BusNames:
    """What the frames of a bus mean."""

    dbc: Path | None = None
    key: str = "--dbc"  # where that file is named
    signals: dict[str, Mapped] = field(default_factory=dict)  # of channels, as the configuration has them


@dataclass
class Measurement:
    path: Path
    sheets: list[Sheet]
    passport: dict[str, Any] | None = None  # of an exported run
    utc: str | None = None  # when it was measured
    remarks: list[str] = field(default_factory=list)  # what should be known of it
    signals: dict[str, Mapped] = field(default_factory=dict)  # of a bus, which the configuration takes for its channels
    close: Callable[[], None] = field(default=lambda: None)


def read_passport(data: str | bytes, where: str) -> dict[str, Any] | None:
    """The passport; None if this is not one."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "tandem_export" not in found:
        return None
    version = found["tandem_export"]
    if version != PASSPORT:
        raise ExchangeError(f"{where}: exported in form {version!r}, this program reads {PASSPORT}")
    kinds = {"topics": dict, "start": dict, "attachments": dict}
    for key, kind in kinds.items():
        if not isinstance(found.get(key), kind):
            raise ExchangeError(f"{where}: {key} is missing or damaged; export the run again")
    texts = [*found["start"].values(), *found["attachments"].values()]
    if not all(isinstance(text, str) for text in texts):
        raise ExchangeError(f"{where}: start or attachments are damaged; export the run again")
    for topic in found["topics"]:
        check_topic(topic, where)
    return found


def attachments_of(passport: dict[str, Any]) -> dict[str, bytes]:
    return {name: text.encode("utf-8", "surrogateescape") for name, text in passport["attachments"].items()}


def layout_of(passport: dict[str, Any], topic: str, where: str) -> Layout:
    try:
        return to_layout(json.dumps(passport["topics"][topic]).encode())
    except (KeyError, ValueError) as error:
        raise ExchangeError(f"{where}: schema of {topic}: {error}; export the run again") from None


def is_block_table(sheet: Sheet, layout: Layout) -> bool:
    """Whether names and units are those of blocks of that layout, as exported."""
    units = {name: unit for name, (unit, _) in HEADER_NOTES.items()} | {c.name: c.unit for c in layout.channels}
    return all(sheet.columns.get(name) == unit for name, unit in units.items())


def blocks_from(path: Path, sheet: Sheet, layout: Layout) -> CompleteTopic:
    """The very words that were exported. Refuses values that no block of the layout can hold."""
    if not is_block_table(sheet, layout):
        raise ExchangeError(_not_a_table(path, sheet, layout))
    names = [*HEADER, *layout.names]
    placed = POSITION in sheet.columns
    values = sheet.load([*names, POSITION] if placed else names)
    rows = len(values["t_ns"])
    if sheet.blank:
        raise ExchangeError(f"{path}: column {min(sheet.blank)} has empty cells; export the run again")
    if any(len(column) != rows for column in values.values()):
        raise ExchangeError(f"{path}: its columns are of different length; export the run again")
    words = np.zeros((rows, layout.words), np.int64)
    records = layout.view(words)
    for name in names:
        kind = records.dtype[name]
        if kind.kind in "iu":
            counts = whole(values[name], kind, partial(_where, path, sheet, name))
        else:
            counts = values[name].astype(kind)
        records[name] = counts
    u4 = np.dtype(np.uint32)
    positions = (
        whole(values[POSITION], u4, partial(_where, path, sheet, POSITION)).astype(np.int64)
        if placed else np.arange(rows, dtype=np.int64)
    )  # fmt: skip
    return CompleteTopic(layout, words, positions)


def _where(path: Path, sheet: Sheet, column: str, row: int) -> str:
    return f"{path}: {sheet.where(row)}, column {column}"


def _not_a_table(path: Path, sheet: Sheet, layout: Layout) -> str:
    wanted = {name: unit for name, (unit, _) in HEADER_NOTES.items()} | {c.name: c.unit for c in layout.channels}
    for name, unit in wanted.items():
        if name not in sheet.columns:
            return f"{path}: column {name} is missing; as exported it has {', '.join(wanted)}"
        if sheet.columns[name] != unit:
            return f"{path}: column {name} is in {sheet.columns[name] or 'no unit'}, was exported in {unit}"
    raise AssertionError("the table is as it was exported")


def whole(values: np.ndarray, kind: np.dtype[Any], where: Callable[[int], str]) -> np.ndarray:
    """Values as integers of that type; refuses those that are not integers, or do not fit."""
    limits = np.iinfo(kind)
    if values.dtype.kind == "f":
        broken = np.flatnonzero(~(values == np.rint(values)))  # not a number is not whole either
        if len(broken):
            raise ExchangeError(f"{where(int(broken[0]))}: {values[broken[0]]!s} is not a whole number of counts")
        # as floats, 2**63 - 1 is 2**63: what reaches it does not fit
        outside = (values < float(limits.min)) | (values >= float(limits.max) + 1)
    else:
        outside = (values < limits.min) | (values > limits.max)
    beyond = np.flatnonzero(outside)
    if len(beyond):
        what = f"{values[beyond[0]]!s} is not within {limits.min} … {limits.max}, which type {kind.str[1:]} holds"
        raise ExchangeError(f"{where(int(beyond[0]))}: {what}")
    return values.astype(kind)
