"""An MCAP file, written chunk by chunk: blocks of messages that are in their form already go in as they are.

What the mcap package's writer does a message at a time, this one does a batch at a time: records are laid out by numpy,
and the entries of the message indexes with them. The form of every other record is the package's own.
"""

import struct
import zlib
from collections import defaultdict
from typing import Any, Protocol

import numpy as np
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    AttachmentIndex,
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.writer import MCAP0_MAGIC

_MESSAGE_INDEX = struct.Struct("<BQHI")
_ENTRY = np.dtype([("logged", "<u8"), ("place", "<u8")])


class Output(Protocol):
    def write(self, data: bytes) -> int: ...

    def tell(self) -> int: ...


def _packed(record: Any) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return bytes(builder.end())


class McapFile:
    """Write-only; every record goes to `output` when it is whole."""

    def __init__(self, output: Output, profile: str, library: str, most_chunk_bytes: int = 32 << 20):
        self._out, self._most = output, most_chunk_bytes
        self._schemas: list[Schema] = []
        self._channels: list[Channel] = []
        self._chunk_indexes: list[ChunkIndex] = []
        self._attachment_indexes: list[AttachmentIndex] = []
        self._metadata_indexes: list[MetadataIndex] = []
        self._counts: dict[int, int] = defaultdict(int)
        self._first: int | None = None  # log times
        self._last = 0
        self._chunk = bytearray()
        self._entries: dict[int, list[np.ndarray]] = {}
        self._compressor = zstandard.ZstdCompressor()
        output.write(MCAP0_MAGIC + _packed(Header(profile, library)))

    def schema(self, name: str, encoding: str, data: bytes) -> int:
        made = Schema(len(self._schemas) + 1, data, encoding, name)
        self._schemas.append(made)
        self._chunk += _packed(made)
        return int(made.id)

    def channel(self, topic: str, encoding: str, schema: int, metadata: dict[str, str]) -> int:
        made = Channel(len(self._channels) + 1, topic, encoding, metadata, schema)
        self._channels.append(made)
        self._chunk += _packed(made)
        return int(made.id)

    def messages(self, channel: int, records: np.ndarray) -> None:
        """Of one channel, all of one length, in the form of message records."""
        if not len(records):
            return
        entries = np.empty(len(records), _ENTRY)
        entries["logged"] = records["logged"]
        entries["place"] = np.arange(len(records), dtype=np.uint64) * records.itemsize + len(self._chunk)
        self._entries.setdefault(channel, []).append(entries)
        self._chunk += records.tobytes()
        if len(self._chunk) > self._most:
            self.flush()

    def message(self, channel: int, logged: int, data: bytes) -> None:
        """One of any length; for what comes seldom."""
        head = struct.pack("<BQHIQQ", Opcode.MESSAGE, 22 + len(data), channel, 0, logged, logged)
        self._entries.setdefault(channel, []).append(np.array([(logged, len(self._chunk))], _ENTRY))
        self._chunk += head + data
        if len(self._chunk) > self._most:
            self.flush()

    def flush(self) -> None:
        """End the chunk; one without messages waits for some."""
        if not self._entries:
            return
        entries = {channel: np.concatenate(found) for channel, found in self._entries.items()}
        first = min(int(found["logged"].min()) for found in entries.values())
        last = max(int(found["logged"].max()) for found in entries.values())
        content, place = bytes(self._chunk), self._out.tell()
        data = self._compressor.compress(content)
        chunk = _packed(
            Chunk("zstd", data, message_end_time=last, message_start_time=first, uncompressed_crc=zlib.crc32(content),
                  uncompressed_size=len(content))
        )  # fmt: skip
        indexes, places = [], {}
        at = place + len(chunk)
        for channel, found in entries.items():
            places[channel] = at
            indexes.append(_MESSAGE_INDEX.pack(Opcode.MESSAGE_INDEX, 6 + found.nbytes, channel, found.nbytes))
            indexes.append(found.tobytes())
            at += _MESSAGE_INDEX.size + found.nbytes
            self._counts[channel] += len(found)
        self._out.write(b"".join([chunk, *indexes]))
        index_bytes = at - place - len(chunk)
        self._chunk_indexes.append(
            ChunkIndex(len(chunk), place, "zstd", len(data), last, index_bytes, places, first, len(content))
        )
        self._first = first if self._first is None else min(self._first, first)
        self._last = max(self._last, last)
        self._chunk, self._entries = bytearray(), {}

    def metadata(self, name: str, content: dict[str, str]) -> None:
        place, record = self._out.tell(), _packed(Metadata(name, content))
        self._out.write(record)
        self._metadata_indexes.append(MetadataIndex(place, len(record), name))

    def attachment(self, name: str, media: str, data: bytes, at_ns: int) -> None:
        place, record = self._out.tell(), _packed(Attachment(at_ns, at_ns, name, media, data))
        self._out.write(record)
        self._attachment_indexes.append(AttachmentIndex(place, len(record), at_ns, at_ns, len(data), name, media))

    def finish(self) -> None:
        """The chunk that is begun, the index, the end."""
        self.flush()
        self._out.write(_packed(DataEnd(0)))
        start, summary, offsets = self._out.tell(), RecordBuilder(), RecordBuilder()
        groups: list[tuple[int, list[McapRecord]]] = [
            (Opcode.SCHEMA, [*self._schemas]),
            (Opcode.CHANNEL, [*self._channels]),
            (Opcode.STATISTICS, [self._statistics()]),
            (Opcode.CHUNK_INDEX, [*self._chunk_indexes]),
            (Opcode.ATTACHMENT_INDEX, [*self._attachment_indexes]),
            (Opcode.METADATA_INDEX, [*self._metadata_indexes]),
        ]
        for opcode, records in groups:
            begun = summary.count
            for record in records:
                record.write(summary)
            if records:
                SummaryOffset(opcode, start + begun, summary.count - begun).write(offsets)
        offsets_at = start + summary.count
        data = summary.end() + offsets.end()
        head = struct.pack("<BQQQ", Opcode.FOOTER, 20, start, offsets_at)
        footer = Footer(start, offsets_at, zlib.crc32(head, zlib.crc32(data)))
        self._out.write(data + _packed(footer) + MCAP0_MAGIC)

    def _statistics(self) -> Statistics:
        return Statistics(
            attachment_count=len(self._attachment_indexes), channel_count=len(self._channels),
            channel_message_counts=dict(self._counts), chunk_count=len(self._chunk_indexes),
            message_count=sum(self._counts.values()), message_end_time=self._last,
            message_start_time=self._first or 0, metadata_count=len(self._metadata_indexes),
            schema_count=len(self._schemas),
        )  # fmt: skip
