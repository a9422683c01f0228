"""Damage in the middle of a record: where the next sound record stands, and what is missing before it.

A record that was finished has an index at its end, with a checksum of its own: every chunk, note and attachment with
its place. A reader that meets damage goes on at the next of these places. In a record without an index (its recorder
was killed) reading goes on only if the damaged chunk still has its length, which the message indexes behind it confirm.

The message indexes, one a topic behind every chunk, also say what a chunk held: how many messages, and from when to
when.
"""

import bisect
import io
import struct
import zlib
from dataclasses import dataclass, field
from typing import BinaryIO

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import AttachmentIndex, Channel, ChunkIndex, MetadataIndex, Schema
from mcap.writer import MCAP0_MAGIC

from sync.record.run import Damage

# errors that a damaged file may cause in its parsers; other records remain valid
DAMAGED = (
    McapError, ValueError, KeyError, TypeError, IndexError, OverflowError, EOFError, MemoryError, RuntimeError,
    struct.error, zstandard.ZstdError,
)  # fmt: skip

_HEAD = struct.Struct("<BQ")  # of every record: what it is, how long it is
_FOOTER = struct.Struct("<QQI")  # where the summary stands, where its offsets stand, its checksum
_MESSAGE_INDEX = struct.Struct("<HI")  # the channel, the bytes of its entries
_ENTRY = struct.Struct("<QQ")  # log time, place in the chunk
_FOOTER_BYTES = _HEAD.size + _FOOTER.size + len(MCAP0_MAGIC)
_MOST_SUMMARY = 1 << 30


@dataclass
class Index:
    """The summary at the end of a file."""

    schemas: list[Schema] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    chunks: dict[int, ChunkIndex] = field(default_factory=dict)  # by their places
    places: list[int] = field(default_factory=list)  # of chunks, notes and attachments, in order
    end: int = 0  # of the data
    read: int = 0  # bytes of message indexes so far

    def next(self, place: int) -> int:
        """The first sound record behind a place; the end of the data if there is none."""
        at = bisect.bisect_right(self.places, place)
        return self.places[at] if at < len(self.places) else self.end

    def held(self, stream: BinaryIO, place: int, size: int) -> "ChunkContents":
        """The contents of the chunk at this place, by its message indexes; empty if there is no chunk."""
        found = ChunkContents()
        for offset in self.chunks[place].message_index_offsets.values() if place in self.chunks else ():
            if self.read > size:
                break  # a sound file names each once; this one names the same index repeatedly
            end = found.add(stream, offset, size)
            self.read += end - offset if end is not None else _HEAD.size
        return found


def read_index(stream: BinaryIO, size: int) -> Index | None:
    """The index of a file; None if there is none, or if its checksum is wrong."""
    if size < _FOOTER_BYTES + len(MCAP0_MAGIC):
        return None
    stream.seek(size - _FOOTER_BYTES)
    tail = stream.read(_FOOTER_BYTES)
    if tail[-len(MCAP0_MAGIC) :] != MCAP0_MAGIC or _HEAD.unpack_from(tail)[0] != Opcode.FOOTER:
        return None
    summary, _, checksum = _FOOTER.unpack_from(tail, _HEAD.size)
    length = size - _FOOTER_BYTES - summary
    if summary == 0 or not 0 < length < _MOST_SUMMARY:
        return None
    stream.seek(summary)
    data = stream.read(length)
    covered = zlib.crc32(tail[: _FOOTER_BYTES - len(MCAP0_MAGIC) - 4], zlib.crc32(data))
    if checksum != covered:
        return None
    try:
        return _parsed(data, summary)
    except DAMAGED:
        return None


def _parsed(data: bytes, summary: int) -> Index:
    index, at = Index(end=summary), 0
    while at + _HEAD.size <= len(data):
        kind, length = _HEAD.unpack_from(data, at)
        body = ReadDataStream(io.BytesIO(data[at + _HEAD.size : at + _HEAD.size + length]))
        if kind == Opcode.SCHEMA:
            index.schemas.append(Schema.read(body))
        elif kind == Opcode.CHANNEL:
            index.channels.append(Channel.read(body))
        elif kind == Opcode.CHUNK_INDEX:
            chunk = ChunkIndex.read(body)
            index.chunks[chunk.chunk_start_offset] = chunk
        elif kind == Opcode.METADATA_INDEX:
            index.places.append(MetadataIndex.read(body).offset)
        elif kind == Opcode.ATTACHMENT_INDEX:
            index.places.append(AttachmentIndex.read(body).offset)
        at += _HEAD.size + length
    index.places = sorted([*index.places, *index.chunks])
    return index


@dataclass
class ChunkContents:
    """What message indexes say that a chunk held."""

    counts: dict[int, int] = field(default_factory=dict)  # messages by channel
    first_ns: int | None = None
    last_ns: int | None = None

    def add(self, stream: BinaryIO, place: int, size: int) -> int | None:
        """Add the message index at a place; returns where it ends, or None if there is none."""
        stream.seek(place)
        head = stream.read(_HEAD.size + _MESSAGE_INDEX.size)
        if len(head) < _HEAD.size + _MESSAGE_INDEX.size:
            return None
        kind, length = _HEAD.unpack_from(head)
        channel, entries = _MESSAGE_INDEX.unpack_from(head, _HEAD.size)
        if kind != Opcode.MESSAGE_INDEX or length != _MESSAGE_INDEX.size + entries or entries % _ENTRY.size:
            return None
        if place + _HEAD.size + length > size:
            return None
        times = [time for time, _ in _ENTRY.iter_unpack(stream.read(entries))]
        self.counts[channel] = self.counts.get(channel, 0) + len(times)
        if times:
            self.first_ns = min([*times, *([self.first_ns] if self.first_ns is not None else [])])
            self.last_ns = max([*times, *([self.last_ns] if self.last_ns is not None else [])])
        end: int = place + _HEAD.size + length
        return end


def after_chunk(stream: BinaryIO, size: int, place: int) -> tuple[int, ChunkContents] | None:
    """In a file without an index: (where to read on behind a damaged chunk, what it held); None if unknown."""
    stream.seek(place)
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size or head[0] != Opcode.CHUNK:
        return None
    held, following = ChunkContents(), 0
    behind: int | None = place + _HEAD.size + _HEAD.unpack(head)[1]
    while behind is not None and behind < size:
        following = behind
        behind = held.add(stream, behind, size)
    return (following, held) if held.counts else None


def described(file: str, at: int, why: str, held: ChunkContents, topics: dict[int, str], utc_offset_ns: int) -> Damage:
    messages: dict[str, int] = {}
    for channel, count in held.counts.items():
        topic = topics.get(channel, f"channel {channel}")
        messages[topic] = messages.get(topic, 0) + count
    first_ns, last_ns = (
        at_ns - utc_offset_ns if at_ns is not None else None for at_ns in (held.first_ns, held.last_ns)
    )
    return Damage(file, at, why, messages, first_ns, last_ns)
