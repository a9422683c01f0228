"""A record as it was read."""

import itertools
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import TandemError
from sync.record.rings import Account, Ring
from sync.ring.block import Layout


class RunError(TandemError):
    """A record cannot be read or used: names the file and what would be right."""

    code = 2


@dataclass
class Topic:
    """All messages of a topic, in the order of the record."""

    name: str
    layout: Layout
    words: np.ndarray  # a row a block
    positions: np.ndarray  # in the ring, modulo 2**32
    logged_ns: np.ndarray
    rings: tuple[Ring, ...] = ()  # where its blocks came from; none if the record does not say
    counted_missing: int | None = None  # counted when it was joined from parts

    @cached_property
    def blocks(self) -> np.ndarray:
        """Records with named fields."""
        return self.layout.view(self.words)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _apart(self) -> np.ndarray:
        """From each position to the next, modulo 2**32."""
        at = self.positions.astype(np.int64)
        apart: np.ndarray = (at[1:] - at[:-1]) & 0xFFFFFFFF
        return apart

    @cached_property
    def _spans(self) -> list[tuple[Ring, int]]:
        """The notes, and where the blocks of each end."""
        return list(zip(self.rings, [*(ring.row for ring in self.rings[1:]), len(self)], strict=True))

    @cached_property
    def begins(self) -> np.ndarray:
        """For every block, the first block of its ring."""
        if self.rings:
            sources = [ring for ring, end in self._spans if end > ring.row]
            changes = [b.row for a, b in itertools.pairwise(sources) if a.segment != b.segment]
            starts = np.array([0, *changes])
        else:  # where the positions begin again
            starts = np.flatnonzero(np.concatenate([[True], self._apart >= 1 << 31]))
        sizes = np.diff(np.append(starts, len(self)))
        return np.repeat(starts, sizes).astype(np.int64)

    @cached_property
    def missing(self) -> int:
        """Blocks that are not in the record although they passed the ring. Where a new ring begins (its positions
        begin again) none is missing."""
        if self.counted_missing is not None:
            return self.counted_missing
        if not self.rings:
            return int((self._apart - 1)[(self._apart > 1) & (self._apart < 1 << 31)].sum())
        account = Account()
        for ring, end in self._spans:
            account.note(ring)
            if end > ring.row:
                account.add(end - ring.row, int(self.positions[end - 1]))
        return account.missing


@dataclass(frozen=True)
class Damage:
    """A stretch of a file that could not be read; what stands behind it was."""

    file: str
    at: int  # its first byte
    why: str
    messages: dict[str, int]  # missing, by topic; none if that is not known
    first_ns: int | None = None  # of the missing messages, when they were logged
    last_ns: int | None = None

    def sentence(self, begun_ns: int | None) -> str:
        what = ", ".join(f"{count} {topic}" for topic, count in self.messages.items())
        missing = f"{what} missing" if what else "what it held is not known"
        if self.first_ns is not None and self.last_ns is not None:
            shift = begun_ns or 0
            missing += f", from {(self.first_ns - shift) * 1e-9:.3f} s to {(self.last_ns - shift) * 1e-9:.3f} s"
        return f"{self.file}: damaged at byte {self.at} ({self.why}): {missing}"


@dataclass(frozen=True)
class Part:
    """One file of a run."""

    file: str
    size: int
    cut: str | None = None  # why it ends before its end, or is not read at all
    lost: int = 0  # blocks between the parts before it and this one


@dataclass(frozen=True)
class Deleted:
    """The first parts of a run, deleted to make room while it was recorded (sync/record/retention.py)."""

    parts: int  # the number of the last of them
    bytes: int
    to_ns: int  # the instant at which they ended
    rows: dict[str, int]  # what they held, by topic

    def sentence(self, begun_ns: int | None) -> str:
        first = "part 1 was" if self.parts == 1 else f"parts 1 to {self.parts} were"
        until = f", up to {(self.to_ns - begun_ns) * 1e-9:.1f} s" if begun_ns and self.to_ns else ""
        held = ", ".join(f"{count} {topic}" for topic, count in self.rows.items() if count)
        return f"{first} deleted to make room, {self.bytes / 1e6:.1f} MB{until}" + f": {held}" * bool(held)


@dataclass
class Run:
    """A record as it was read."""

    path: Path
    start: dict[str, str] = field(default_factory=dict)
    end: dict[str, str] | None = None
    attachments: dict[str, bytes] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    notices: list[tuple[int, str]] = field(default_factory=list)  # during the run, and when
    damaged: set[str] = field(default_factory=set)  # attachments whose checksum is wrong
    cut: str | None = None  # why the record ends before its end, or what is not there in the middle
    size: int = 0
    rings: dict[str, list[Ring]] = field(default_factory=dict)  # the notes of each topic
    run: str = ""  # a random name, the same in all its parts
    parts: list[Part] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)  # in the middle: what follows was read
    next: str = ""  # instead of an end: the file in which the record goes on
    begun_ns: int | None = None  # of the run, where its first part is not there
    deleted: Deleted | None = None
    unsynced: list[str] = field(default_factory=list)  # what may be missing because a sync failed, a sentence each
    invalid: list[str] = field(default_factory=list)  # numbers and dates of its start and end, a sentence each

    @property
    def losses(self) -> list[str]:
        """What is damaged and therefore missing, a sentence each; none if everything in its files could be read."""
        begun_ns = self.begun
        attachments = [f"attachment {name} is damaged" for name in sorted(self.damaged)]
        return [*(damage.sentence(begun_ns) for damage in self.damage), *attachments, *self.invalid]

    @property
    def begun(self) -> int | None:
        """The instant at which the run began."""
        begun = self.start.get("monotonic_ns")
        return self.begun_ns or (int(begun) if begun is not None else None)

    def json(self, name: str) -> dict[str, Any]:
        """An attachment; empty if there is none."""
        try:
            found = json.loads(self.attachments.get(name, b"" if name in self.damaged else b"{}"))
        except (ValueError, RecursionError):
            raise RunError(f"{self.path}: attachment {name} is damaged") from None
        return found if isinstance(found, dict) else {}

    @property
    def lacking(self) -> int:
        """Blocks that passed the rings and are not here, as the recorder counted them and as positions show."""
        counted = 0
        for topic in self.topics.values():
            counts = [(self.end or {}).get(f"{what} {topic.name}", "0") for what in ("lost", "dropped")]
            counted += max(sum(map(int, counts)), topic.missing)
        return counted

    @property
    def whole(self) -> bool:
        """It has its end, and nothing is missing before it but what was deleted to make room."""
        complete = self.cut is None and self.lacking == 0 and not self.damage and not self.unsynced
        return self.end is not None and complete

    @property
    def ended(self) -> str:
        """Why it ended, in words."""
        if self.end is not None:
            return self.end.get("reason", "unknown")
        going_on = f"it goes on in {self.next}, which is not there" if self.next else "the recorder was cut off"
        return f"without an end: {self.cut or going_on}"

    @property
    def name(self) -> str:
        return self.start.get("name", self.path.parent.name)

    def need(self, topic: str) -> Topic:
        if topic not in self.topics or not len(self.topics[topic]):
            there = ", ".join(name for name, t in self.topics.items() if len(t)) or "none"
            raise RunError(f"{self.path}: holds no {topic} messages; it has {there}")
        return self.topics[topic]

    @property
    def input_topic(self) -> str:
        """The blocks that the simulator saw: those that came off the wire, if there was one."""
        return "/received" if len(self.topics.get("/received", ())) else "/daq"

    @property
    def source_topic(self) -> str:
        """The blocks that were sampled, as completely as they were recorded."""
        return "/daq" if len(self.topics.get("/daq", ())) else "/received"
