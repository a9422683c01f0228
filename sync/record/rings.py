"""Which ring the blocks of a topic came from, as the record has it.

A record has a note wherever a recorder begins with a ring, comes to its end, or continues the record. The notes, and
the positions of the blocks after them, show what is missing, what is there twice, and where the next recorder has to go
on.
"""

import re
from dataclasses import asdict, dataclass, field
from typing import Any

RING = "tandem.ring"

OPEN = "open"  # its blocks follow, from this position on
CLOSED = "closed"  # its writer closed it, and it was read to its end, this position
AGAIN = "again"  # another recorder continued it at this position
GONE = "gone"  # it had vanished when another recorder came: how far it went is not known
LEFT = "left"  # first found without a writer: blocks before this position are of another run
STATES = (OPEN, CLOSED, AGAIN, GONE, LEFT)

_NUMBER = re.compile("-?[0-9]{1,19}")
_MOST = 1 << 62  # sums of two fit into 64 bits
_POSITIONS = 0xFFFFFFFF  # a message's sequence number has 32 bits


def number_stated(value: Any, least: int = 0) -> int:
    """A whole number that a record states, as text or in JSON; raises ValueError if it is invalid or out of range."""
    if isinstance(value, int) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        found = int(value)
        if least <= found < _MOST:
            return found
    raise ValueError(f"{str(value)[:40]!r}: must be a whole number from {least} to {_MOST - 1}")


@dataclass(frozen=True)
class Ring:
    topic: str
    state: str
    segment: int
    position: int  # all of it, not modulo 2**32
    recorded: int = 0  # blocks of the topic in the record so far, in earlier parts too
    before: int = 0  # blocks that had passed before there was a recorder
    layout: str = ""
    channel: int = 0  # of the messages that follow, in this file
    row: int = 0  # blocks of the topic in this file (once read, in the run) before the note

    def as_metadata(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self).items() if key != "row"}

    @classmethod
    def read(cls, fields: dict[str, str], row: int = 0) -> "Ring":
        """Raises KeyError or ValueError if it is invalid."""
        number = {key: number_stated(fields[key]) for key in ("position", "recorded", "before", "channel")}
        number["segment"] = number_stated(fields["segment"], -_MOST)
        ring = cls(fields["topic"], fields["state"], layout=fields["layout"], row=row, **number)
        if ring.state not in STATES:
            raise ValueError("an invalid note of a ring")
        return ring


def behind(position: int, expected: int) -> bool:
    """Whether a block at this position (modulo 2**32) came before the one that is expected."""
    return (position - expected) & _POSITIONS >= 1 << 31


@dataclass
class Account:
    """How far a topic's record goes, and what is missing in it."""

    segment: int = -1
    position: int = 0  # of the next block
    rows: int = 0
    missing: int = 0
    ends: dict[int, int] = field(default_factory=dict)  # how far it goes in earlier rings

    def note(self, ring: Ring) -> None:
        if ring.segment != self.segment:
            self.ends[self.segment] = self.position
            self.segment, self.position = ring.segment, self.ends.get(ring.segment, -1)
        if self.position < 0:
            # blocks that an earlier part should have, but lacks
            self.missing += max(ring.recorded - self.rows - self.missing, 0)
        else:
            self.missing += max(ring.position - self.position, 0)
        self.position = max(ring.position, self.position)

    def add(self, count: int, last: int) -> None:
        """Add `count` blocks, the last of which has the position `last` (modulo 2**32)."""
        following = self.position + count
        if not behind(last + 1, following):
            gap = (last + 1 - following) & _POSITIONS
            self.missing += gap
            following += gap
        self.position = following
        self.rows += count
