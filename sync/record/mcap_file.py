"""An MCAP file, written chunk by chunk: messages that are already in their final form are written unchanged.

The mcap package writes message by message, this module batch by batch: numpy lays out the records, and the entries of
the message indexes with them. The form of every other record is the package's own.

The file of a recorder is complete at any instant: every write ends with an index of what is written so far, which the
next write overwrites. So a file whose writer was killed opens in readers that need an index. Its footer has no
checksum, which only `finish` writes: this distinguishes a finished file from one that was cut off.
"""

import itertools
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    AttachmentIndex,
    Channel,
    DataEnd,
    Footer,
    Header,
    Metadata,
    MetadataIndex,
    Schema,
    SummaryOffset,
)
from mcap.writer import MCAP0_MAGIC

_MESSAGE_INDEX = struct.Struct("<BQHI")
_ENTRY = np.dtype([("logged", "<u8"), ("place", "<u8")])
_CHUNK = struct.Struct("<BQQQQII4sQ")  # what it is and its length, times, size, checksum, "zstd", compressed size
_CHUNK_INDEX = struct.Struct("<BQQQQQI")  # what it is and its length, times, place, length, bytes of offsets
_CHUNK_INDEX_END = struct.Struct("<QI4sQQ")  # bytes of message indexes, "zstd", compressed size, size
_STATISTICS = struct.Struct("<BQQHIIIIQQI")  # what it is and its length, counts of all kinds, times, bytes of counts
_OFFSET = struct.Struct("<HQ")  # a channel and its place, or its count
_FOOTER = struct.Struct("<BQQQI")
_GROUP = 16 << 10  # bytes of the index that are joined once and not touched again
_EVERY_TIME = 1 << 20  # up to so many bytes the index is written behind every chunk


class Output(Protocol):
    def write(self, data: bytes, /) -> int: ...

    def tell(self) -> int: ...


WriteWithTail = Callable[[bytes, Callable[[], bytes]], int]


def _packed(record: Any) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return bytes(builder.end())


_DATA_END = _packed(DataEnd(0))


class McapFile:
    """Write-only; every record goes to `output` when it is whole."""

    def __init__(
        self, output: Output, profile: str, library: str, write_with_tail: WriteWithTail | None = None,
        most_chunk_bytes: int = 32 << 20,
    ):  # fmt: skip
        """`write_with_tail`: for an output that can overwrite what it wrote last; without it there is no index before
        `finish`."""
        self._out, self._write_with_tail, self._most = output, write_with_tail, most_chunk_bytes
        self._schemas: list[Schema] = []
        self._channels: list[Channel] = []
        self._described = [b"", b""]  # schemas and channels, as they are in the index
        self._chunks = 0
        self._chunk_indexes: list[bytes] = []  # groups of them, and the last group
        self._last_group: list[bytes] = []
        self._last_group_bytes = 0
        self._index_bytes = self._unindexed = 0  # of all chunk indexes; written since the last tail
        self._attachment_indexes: list[bytes] = []
        self._metadata_indexes: list[bytes] = []
        self._counts: dict[int, int] = defaultdict(int)
        self._first: int | None = None  # log times
        self._last = 0
        self._chunk = bytearray()
        self._entries: dict[int, list[np.ndarray]] = {}
        self._places: dict[int, np.ndarray] = {}
        self._compressor = zstandard.ZstdCompressor()
        self._write(MCAP0_MAGIC + _packed(Header(profile, library)))

    def schema(self, name: str, encoding: str, data: bytes) -> int:
        record = Schema(len(self._schemas) + 1, data, encoding, name)
        self._schemas.append(record)
        self._chunk += _packed(record)
        self._describe()
        return int(record.id)

    def channel(self, topic: str, encoding: str, schema: int, metadata: dict[str, str]) -> int:
        record = Channel(len(self._channels) + 1, topic, encoding, metadata, schema)
        self._channels.append(record)
        self._chunk += _packed(record)
        self._describe()
        return int(record.id)

    def messages(self, channel: int, records: np.ndarray) -> None:
        """Add messages of one channel, all of one length, in the form of message records."""
        if not len(records):
            return
        entries = np.empty(len(records), _ENTRY)
        entries["logged"] = records["logged"]
        np.add(self._strides(records), np.uint64(len(self._chunk)), entries["place"])
        self._entries.setdefault(channel, []).append(entries)
        self._chunk += records.tobytes()
        if len(self._chunk) > self._most:
            self.flush()

    def _strides(self, records: np.ndarray) -> np.ndarray:
        """The offset of each from the first."""
        found = self._places.get(records.itemsize)
        if found is None or len(found) < len(records):
            found = self._places[records.itemsize] = np.arange(len(records), dtype=np.uint64) * records.itemsize
        return found[: len(records)]

    def message(self, channel: int, logged: int, data: bytes) -> None:
        """Add a message of any length; for rare ones."""
        head = struct.pack("<BQHIQQ", Opcode.MESSAGE, 22 + len(data), channel, 0, logged, logged)
        self._entries.setdefault(channel, []).append(np.array([(logged, len(self._chunk))], _ENTRY))
        self._chunk += head + data
        if len(self._chunk) > self._most:
            self.flush()

    def flush(self) -> None:
        """End the chunk; one without messages waits for some."""
        if not self._entries:
            return
        entries = {c: found[0] if len(found) == 1 else np.concatenate(found) for c, found in self._entries.items()}
        logged = [found["logged"] for found in entries.values()]
        first, last = int(min(map(np.minimum.reduce, logged))), int(max(map(np.maximum.reduce, logged)))
        content, place = bytes(self._chunk), self._out.tell()
        data = self._compressor.compress(content)
        head = _CHUNK.pack(
            Opcode.CHUNK, _CHUNK.size - 9 + len(data), first, last, len(content), zlib.crc32(content), 4, b"zstd",
            len(data),
        )  # fmt: skip
        length = len(head) + len(data)
        parts, offsets, at = [head, data], [], place + length
        for channel, found in entries.items():
            offsets.append(_OFFSET.pack(channel, at))
            parts += _MESSAGE_INDEX.pack(Opcode.MESSAGE_INDEX, 6 + found.nbytes, channel, found.nbytes), found.tobytes()
            at += _MESSAGE_INDEX.size + found.nbytes
            self._counts[channel] += len(found)
        places = b"".join(offsets)
        size = _CHUNK_INDEX.size - 9 + len(places) + _CHUNK_INDEX_END.size
        self._last_group += (
            _CHUNK_INDEX.pack(Opcode.CHUNK_INDEX, size, first, last, place, length, len(places)), places,
            _CHUNK_INDEX_END.pack(at - place - length, 4, b"zstd", len(data), len(content)),
        )  # fmt: skip
        self._index_bytes += size + 9
        self._last_group_bytes += size + 9
        if self._last_group_bytes > _GROUP:
            self._chunk_indexes.append(b"".join(self._last_group))
            self._last_group, self._last_group_bytes = [], 0  # a new list: a tail may still be made of the old one
        self._chunks += 1
        self._first = first if self._first is None else min(self._first, first)
        self._last = max(self._last, last)
        self._chunk, self._entries = bytearray(), {}
        self._write(b"".join(parts))

    def metadata(self, name: str, content: dict[str, str]) -> None:
        place, record = self._out.tell(), _packed(Metadata(name, content))
        self._metadata_indexes.append(_packed(MetadataIndex(place, len(record), name)))
        self._write(record)

    def attachment(self, name: str, media: str, data: bytes, at_ns: int) -> None:
        place, record = self._out.tell(), _packed(Attachment(at_ns, at_ns, name, media, data))
        index = AttachmentIndex(place, len(record), at_ns, at_ns, len(data), name, media)
        self._attachment_indexes.append(_packed(index))
        self._write(record)

    def finish(self) -> None:
        """Write the last chunk, the index and the end."""
        self.flush()
        self._out.write(_DATA_END)
        start, at, summary, offsets = self._out.tell(), 0, [], []
        for opcode, found in self._snapshot().groups():
            summary.append(b"".join(found))
            if summary[-1]:
                offsets.append(_packed(SummaryOffset(opcode, start + at, len(summary[-1]))))
            at += len(summary[-1])
        data = b"".join([*summary, *offsets])
        head = _FOOTER.pack(Opcode.FOOTER, 20, start, start + at, 0)[:-4]
        self._out.write(data + _packed(Footer(start, start + at, zlib.crc32(head, zlib.crc32(data)))) + MCAP0_MAGIC)

    def _write(self, record: bytes) -> None:
        """Write a whole record, and an index behind it. A long index is written only once as many bytes have come as it
        is long, so that at most twice as much is written."""
        self._unindexed += len(record)
        rare = self._index_bytes > _EVERY_TIME and self._unindexed < self._index_bytes
        if rare or self._write_with_tail is None:
            self._out.write(record)
            return
        self._unindexed = 0
        index, start = self._snapshot(), self._out.tell() + len(record) + len(_DATA_END)
        self._write_with_tail(record, lambda: index.tail(start))

    def _snapshot(self) -> "_Index":
        """The index as it is now: lists only grow, so their lengths suffice and nothing is copied."""
        chunks, last_chunks = self._chunk_indexes, self._last_group
        attachments, metadata = self._attachment_indexes, self._metadata_indexes
        return _Index((
            self._described, chunks, len(chunks), last_chunks, len(last_chunks), attachments, len(attachments),
            metadata, len(metadata), self._counts.copy(), len(self._schemas), len(self._channels), self._chunks,
            self._first or 0, self._last,
        ))  # fmt: skip

    def _describe(self) -> None:
        self._described = [b"".join(map(_packed, kind)) for kind in (self._schemas, self._channels)]


class _Index:
    """The index of a file at one instant, built only when it is written: the next replaces most before that."""

    __slots__ = ("_of",)

    def __init__(self, of: tuple[Any, ...]):
        self._of = of

    def tail(self, start: int) -> bytes:
        footer = _FOOTER.pack(Opcode.FOOTER, 20, start, 0, 0) + MCAP0_MAGIC
        return b"".join((_DATA_END, *itertools.chain(*(found for _, found in self.groups())), footer))

    def groups(self) -> tuple[tuple[int, list[bytes]], ...]:
        """The records of the index by their kinds, in order."""
        described, chunks, m, last_chunks, n, attachments, a, metadata, k, counts, *figures = self._of
        return (
            (Opcode.SCHEMA, described[:1]),
            (Opcode.CHANNEL, described[1:]),
            (Opcode.STATISTICS, [_statistics(counts, a, k, *figures)]),
            (Opcode.CHUNK_INDEX, [*chunks[:m], *last_chunks[:n]]),
            (Opcode.ATTACHMENT_INDEX, attachments[:a]),
            (Opcode.METADATA_INDEX, metadata[:k]),
        )


def _statistics(
    of: dict[int, int], attachments: int, metadata: int, schemas: int, channels: int, chunks: int, first: int, last: int
) -> bytes:
    counts = b"".join(map(_OFFSET.pack, of.keys(), of.values()))
    return _STATISTICS.pack(
        Opcode.STATISTICS, _STATISTICS.size - 9 + len(counts), sum(of.values()), schemas, channels, attachments,
        metadata, chunks, first, last, len(counts),
    ) + counts  # fmt: skip
