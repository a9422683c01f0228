"""The start of every part: which run it belongs to, and how far the parts before it go.

So a recorder that continues a record reads only one part, however long the run is, and a reader knows what was in parts
that were deleted to make room (sync/record/retention.py).
"""

import io
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Metadata
from mcap.writer import MCAP0_MAGIC

from sync.files.regular import open_regular
from sync.record.damage import DAMAGED
from sync.record.rings import OPEN, Account, number_stated
from sync.record.utc import as_ns

PART, START, NOTICE = "tandem.part", "tandem.start", "tandem.said"
_RECORD = struct.Struct("<BQ")  # what it is, how long it is
_MOST_HEAD = 1 << 20
_MOST_RECORDS = 4  # the header, then the part
_NUMBERS = re.compile(r"\w+_ns$|(?:recorded|lost|dropped|before) |deleted_parts$")
_DATES = ("utc", "recorded_utc")
_LEAST = -(1 << 62)  # of a ring's number
_ACCOUNT = {"segment": _LEAST, "position": -1, "rows": 0, "missing": 0}
_MOST_ENDS = 64  # rings of a topic that are remembered


@dataclass
class Left:
    """A topic, as the record leaves it."""

    account: Account = field(default_factory=Account)
    state: str = OPEN
    before: int = 0
    dropped: int = 0
    gone: bool = False  # one of its rings has vanished, with an end that was not read
    layout: str = ""

    def as_json(self) -> dict[str, Any]:
        ends = dict(list(self.account.ends.items())[-_MOST_ENDS:])
        return {**asdict(self), "account": {**asdict(self.account), "ends": ends}}

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Left":
        account = content["account"]
        # -1: no ring yet, or not known yet
        numbers = {key: number_stated(account[key], least) for key, least in _ACCOUNT.items()}
        ends = {number_stated(ring, _LEAST): number_stated(position, -1) for ring, position in account["ends"].items()}
        return cls(
            Account(**numbers, ends=ends), str(content["state"]), number_stated(content["before"]),
            number_stated(content["dropped"]), bool(content["gone"]), str(content["layout"]),
        )  # fmt: skip


@dataclass
class Earlier:
    """What the parts before a part hold, and what has become of them."""

    topics: dict[str, Left] = field(default_factory=dict)
    deleted: int = 0  # parts up to this number were deleted to make room
    deleted_bytes: int = 0
    begun_ns: int = 0  # of the run
    at_ns: int = 0  # when the part that states this begins
    noted: int = 0  # the number of the last note; a successor gets some notes again
    unsynced: list[str] = field(default_factory=list)  # sections that may be missing because a sync failed

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "topics": {name: left.as_json() for name, left in self.topics.items()}}

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Earlier":
        return cls(
            {str(name): Left.read(left) for name, left in content["topics"].items()},
            number_stated(content["deleted"]),
            number_stated(content["deleted_bytes"]),
            number_stated(content["begun_ns"]),
            number_stated(content["at_ns"]),
            number_stated(content.get("noted", 0)),
            [str(text) for text in content["unsynced"]],
        )


@dataclass
class Head:
    run: str
    earlier: Earlier | None = None  # None: the first part, or one of an older version


def read_head(path: Path) -> Head | None:
    """The head of a part; None if there is none, or if it cannot be read."""
    try:
        first = next(_first_metadata(path), None)
        return as_head(first) if first is not None else None
    except DAMAGED:
        return None


def name_of(path: Path) -> str | None:
    """The name of the run that a part belongs to, as it states it; None if it cannot be read."""
    found = start_of(path)
    return None if found is None else found.get("name")


def start_of(path: Path) -> dict[str, str] | None:
    """The start sentinel of a file; None if there is none, or if it cannot be read."""
    try:
        return next((facts_of(record)[0] for record in _first_metadata(path) if record.name == START), None)
    except DAMAGED:
        return None


def facts_of(record: Metadata) -> tuple[dict[str, str], list[str]]:
    """(the facts that a start or an end states, a sentence for each number or date in it that is invalid). Invalid ones
    are left out, so that later code need not check them again."""
    facts, wrong = {}, []
    for key, value in record.metadata.items():
        try:
            if _NUMBERS.match(key):
                number_stated(value)
            elif key in _DATES and value:
                as_ns(value)
            facts[key] = value
        except (ValueError, OverflowError):
            wrong.append(f"{record.name}: {key} = {value[:40]!r} is no {'date' if key in _DATES else 'number'}")
    return facts, wrong


def _first_metadata(path: Path) -> Iterator[Metadata]:
    """The metadata before everything else in a file; raises one of DAMAGED."""
    try:
        with open_regular(path) as stream:
            data = stream.read(_MOST_HEAD)
    except OSError:
        return
    if data[: len(MCAP0_MAGIC)] != MCAP0_MAGIC:
        return
    at = len(MCAP0_MAGIC)
    for _ in range(_MOST_RECORDS):
        if at + _RECORD.size > len(data):
            return
        kind, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if kind == Opcode.METADATA and at + length <= len(data):
            yield Metadata.read(ReadDataStream(io.BytesIO(data[at : at + length])))
        at += length


def as_head(record: Metadata) -> Head | None:
    """Raises one of DAMAGED."""
    if record.name != PART:
        return None
    stored = record.metadata.get("earlier")
    try:
        return Head(record.metadata["run"], Earlier.read(json.loads(stored)) if stored else None)
    except (AttributeError, RecursionError):
        raise ValueError("a part that says nothing of those before it") from None
