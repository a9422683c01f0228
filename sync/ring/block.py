"""A block: one scan of all channels, and the layout that gives its bytes a meaning.

A block is a row of 8-byte little-endian words, so that nopython code handles blocks of every layout alike:

    word  0  seq          u64  number of the block, counted by its producer from 0
          1  epoch        u32  changes at every gap (restart, reconnect, overrun); compared for equality only
          2  t_ns         i64  sample instant, monotonic, of the channels whose skew is 0
          3  pushed_ns    i64  when the producer put it into its ring
          4  sent_ns      i64  when the producer put it on the wire; 0 = never
          5  received_ns  i64  when a receiver took it off the wire; 0 = never
          6… payload           the raw channels, packed as a C compiler would: in order, each aligned to its size

A channel's own sample instant is `t_ns + skew_ns`. Skews are zero or negative: a block carries the instant at which its
last channel was sampled, and its older channels say by how much they are older. Where a channel's age changes from
block to block (values from a bus), a channel `<name>_age_us` beside it holds that age in every block.
"""

import hashlib
import json
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

HEADER = ("seq", "epoch", "t_ns", "pushed_ns", "sent_ns", "received_ns")
SEQ, EPOCH, T, PUSHED, SENT, RECEIVED = range(6)
PAYLOAD = len(HEADER)
_HEADER_FORMAT = "QQqqqq"

TYPES = {"i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d"}
AGE = "_age_us"  # ending of a channel's name that holds the age of another channel at t_ns
RESERVED_NAMES = (*HEADER, "version", "layout")


@dataclass(frozen=True)
class Channel:
    name: str
    type: str  # one of TYPES
    unit: str = "1"
    skew_ns: int = 0

    @property
    def size(self) -> int:
        return int(self.type[1])


@dataclass(frozen=True)
class Layout:
    """The channels of a block, in order. Two layouts with the same hash are the same in every respect."""

    channels: tuple[Channel, ...]

    @cached_property
    def text(self) -> str:
        rows = [[c.name, c.type, c.unit, c.skew_ns] for c in self.channels]
        return json.dumps(rows, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> "Layout":
        return cls(tuple(Channel(*row) for row in json.loads(text)))

    @cached_property
    def id(self) -> str:
        """Sixteen hex digits of the text's SHA-256: the layout's name on the wire."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @cached_property
    def hash(self) -> int:
        """The same digits as a signed word: the layout's name in a ring's header."""
        return int.from_bytes(int(self.id, 16).to_bytes(8, "little"), "little", signed=True)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.channels)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Byte offset of each channel in the payload."""
        offsets, end = [], 0
        for channel in self.channels:
            end = -(-end // channel.size) * channel.size
            offsets.append(end)
            end += channel.size
        return tuple(offsets)

    @cached_property
    def payload_bytes(self) -> int:
        return self.offsets[-1] + self.channels[-1].size

    @cached_property
    def words(self) -> int:
        """Words of a whole block, header included."""
        return PAYLOAD + -(-self.payload_bytes // 8)

    @cached_property
    def struct(self) -> struct.Struct:
        """Packs and unpacks a whole block: the six header values, then the channels."""
        form, end = "<" + _HEADER_FORMAT, 0
        for channel, offset in zip(self.channels, self.offsets, strict=True):
            form += "x" * (offset - end) + TYPES[channel.type]
            end = offset + channel.size
        return struct.Struct(form + "x" * (-end % 8))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The same as a numpy structured type, for whole arrays of blocks."""
        formats = ["<u8", "<u8", "<i8", "<i8", "<i8", "<i8"] + ["<" + c.type for c in self.channels]
        offsets = [8 * i for i in range(PAYLOAD)] + [8 * PAYLOAD + o for o in self.offsets]
        return np.dtype(
            {"names": [*HEADER, *self.names], "formats": formats, "offsets": offsets, "itemsize": 8 * self.words}
        )

    @cached_property
    def table(self) -> np.ndarray:
        """For nopython code, a row a channel: word of the block, bit shift, bits, 0 signed or 1 unsigned or 2 float."""
        rows = [
            (PAYLOAD + offset // 8, 8 * (offset % 8), 8 * c.size, "iuf".index(c.type[0]))
            for c, offset in zip(self.channels, self.offsets, strict=True)
        ]
        return np.array(rows, np.int64)

    def view(self, blocks: np.ndarray) -> np.ndarray:
        """Rows of words seen as records with named fields."""
        return np.ascontiguousarray(blocks).view(self.dtype).reshape(blocks.shape[:-1])
