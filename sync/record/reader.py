"""Reading a record, whole or cut short.

The mcap package reads the records of the file; the messages of a chunk, which are by far the most of it, are found and
decoded by nopython code, and indexes are passed over: whoever wants everything needs none. A file that ends in the
middle (the recorder was killed, the disk was full) is read up to its last whole chunk, and `Run.cut` says where and why
it ends. Nothing here trusts the file: sizes are bounded, chunks are checked against their checksums.
"""

import io
import json
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, Header, Metadata, Schema
from mcap.stream_reader import get_chunk_data_stream
from mcap.writer import MCAP0_MAGIC
from numba import int64

from sync.block import Layout
from sync.errors import TandemError
from sync.jit import kernel
from sync.message import BYTES_READ_ONLY, MALFORMED, Form, decode_record, read_message
from sync.record.schema import ENCODING, MESSAGES, to_layout
from sync.record.writer import END, FILE, FORMAT, PROFILE, SAID, START
from sync.ring import WORDS_2D

_MOST_RECORD = 1 << 30
_MOST_CHUNK = 1 << 26  # twice the longest that is written
_MESSAGE_HEAD = 1 + 8 + 2 + 4 + 8 + 8  # opcode, length, channel, sequence, log time, publish time
_MESSAGE = int(Opcode.MESSAGE)

_DAMAGED, _TOO_MANY = -1, -2

# columns of the table of a chunk's records
_KIND, _AT, _END, _ID, _SEQUENCE, _LOGGED = range(6)


class _Cut(Exception):
    """The file ends in the middle of a record."""


# what a damaged file may make of its parsers; the records before it stand
DAMAGED = (
    McapError, ValueError, KeyError, TypeError, IndexError, OverflowError, EOFError, MemoryError, RuntimeError,
    struct.error, zstandard.ZstdError,
)  # fmt: skip
_KINDS: dict[int, Any] = {
    Opcode.HEADER: Header, Opcode.SCHEMA: Schema, Opcode.CHANNEL: Channel, Opcode.CHUNK: Chunk,
    Opcode.ATTACHMENT: Attachment, Opcode.METADATA: Metadata,
}  # fmt: skip


class RunError(TandemError):
    """A record cannot be read or used: names the file and what would be right."""

    code = 2


@kernel(int64(BYTES_READ_ONLY, int64, int64))
def _number(data, at, size):
    value = np.int64(0)
    for k in range(size - 1, -1, -1):
        value = (value << 8) | np.int64(data[at + k])
    return value


@kernel(int64(BYTES_READ_ONLY, WORDS_2D))
def _find_records(data, found):
    """Fill a row for every record of a chunk; returns how many, _DAMAGED or _TOO_MANY."""
    at, count = 0, 0
    while at < data.size:
        if count == found.shape[0]:
            return _TOO_MANY
        if at + 9 > data.size:
            return _DAMAGED
        length = _number(data, at + 1, 8)
        if length < 0 or length > data.size - at - 9:  # in this order: the sum may overflow
            return _DAMAGED
        row = found[count]
        row[_KIND], row[_AT], row[_END] = data[at], at + 9, at + 9 + length
        if data[at] == _MESSAGE:
            if length < _MESSAGE_HEAD - 9:
                return _DAMAGED
            row[_ID] = _number(data, at + 9, 2)
            row[_SEQUENCE] = _number(data, at + 11, 4)
            row[_LOGGED] = _number(data, at + 15, 8)
            row[_AT] = at + _MESSAGE_HEAD
        count += 1
        at += 9 + length
    return count


@kernel(int64(BYTES_READ_ONLY, WORDS_2D, BYTES_READ_ONLY, BYTES_READ_ONLY, WORDS_2D, WORDS_2D))
def _decode_all(data, rows, text, changes, fields, blocks):
    """Messages into blocks; returns how many were of this form before the first that is not."""
    for n in range(rows.shape[0]):
        if not read_message(data[rows[n, _AT] : rows[n, _END]], text, changes, fields, blocks[n]):
            return n
    return rows.shape[0]


@dataclass
class Topic:
    """All messages of a topic, in the order of the file."""

    name: str
    layout: Layout
    words: np.ndarray  # a row a block
    positions: np.ndarray  # in the ring, modulo 2**32
    logged_ns: np.ndarray

    @cached_property
    def blocks(self) -> np.ndarray:
        """Records with named fields."""
        return self.layout.view(self.words)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def missing(self) -> int:
        """Blocks that are not in the record although they passed the ring. A new ring (its positions begin anew) is
        none."""
        at: Any = self.positions.astype(np.int64)
        steps = (at[1:] - at[:-1]) & 0xFFFFFFFF
        return int((steps - 1)[(steps > 1) & (steps < 1 << 31)].sum())


@dataclass
class Run:
    """A record as it was read."""

    path: Path
    start: dict[str, str] = field(default_factory=dict)
    end: dict[str, str] | None = None
    attachments: dict[str, bytes] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    said: list[tuple[int, str]] = field(default_factory=list)  # during the run, and when
    damaged: set[str] = field(default_factory=set)  # attachments whose checksum is wrong
    cut: str | None = None  # why the file ends before its end
    size: int = 0

    def json(self, name: str) -> dict[str, Any]:
        """An attachment; empty if there is none."""
        try:
            found = json.loads(self.attachments.get(name, b"" if name in self.damaged else b"{}"))
        except (ValueError, RecursionError):
            raise RunError(f"{self.path}: attachment {name} is damaged") from None
        return found if isinstance(found, dict) else {}

    @property
    def lacking(self) -> int:
        """Blocks that passed the rings and are not here, as the recorder counted them and as positions tell."""
        counted = 0
        for topic in self.topics.values():
            told = [(self.end or {}).get(f"{what} {topic.name}", "0") for what in ("lost", "dropped")]
            counted += max(sum(int(n) for n in told if n.isdigit()), topic.missing)
        return counted

    @property
    def whole(self) -> bool:
        """It has its end, and nothing is missing before it."""
        return self.end is not None and self.cut is None and self.lacking == 0

    @property
    def ended(self) -> str:
        """Why it ended, in words."""
        if self.end is not None:
            return self.end.get("reason", "unknown")
        return f"without an end: {self.cut or 'the recorder was cut off'}"

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


def _sound(attachment: bytes) -> bool:
    """Whether its checksum is right, or 0: there is none."""
    told = attachment[-4:]
    return told == bytes(4) or told == zlib.crc32(attachment[:-4]).to_bytes(4, "little")


Progress = Callable[[float], None]  # share of the file that has been read


def _stamp(file: Path) -> str:
    found = re.match(r"\d{8}T\d{6}Z(?=-)", file.parent.name)
    return found[0] if found else ""


def find(path: Path) -> Path:
    """The file of a run given by its file, its folder, or a folder of runs (the latest of them)."""
    if path.is_dir():
        if (path / FILE).exists():
            return path / FILE
        inside = sorted(path.glob(f"*/{FILE}"))
        if inside:
            # runs are named by their instant; a folder somebody named otherwise counts only if there is no such run
            return max(inside, key=lambda p: (_stamp(p), p.stat().st_mtime_ns))
        raise RunError(f"{path}: holds no {FILE}; give the folder of a run, such as runs/20260101T120000Z-tandem")
    if not path.exists():
        near = sorted(p.parent.name for p in path.parent.glob(f"*/{FILE}"))[-3:]
        raise RunError(f"{path}: no such run" + f"; beside it: {', '.join(near)}" * bool(near))
    return path


def open_run(path: Path, topics: tuple[str, ...] | None = None, progress: Progress = lambda _: None) -> Run:
    """Read a record; of its topics only those named, if any are."""
    file = find(path)
    try:
        size = file.stat().st_size
        with open(file, "rb") as stream:
            return _Reading(file, size, topics, progress).read(stream)
    except OSError as error:
        raise RunError(f"{file}: cannot be read: {error.strerror}") from None


class _Reading:
    def __init__(self, path: Path, size: int, topics: tuple[str, ...] | None, progress: Progress):
        self.run = Run(path, size=size)
        self._wanted, self._progress = topics, progress
        self._schemas: dict[int, Schema] = {}
        self._forms: dict[int, tuple[str, Form] | None] = {}
        self._parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._layouts: dict[str, Layout] = {}
        self._table = np.zeros((4096, 6), np.int64)

    def read(self, stream: BinaryIO) -> Run:
        run = self.run
        if stream.read(len(MCAP0_MAGIC)) != MCAP0_MAGIC:
            raise RunError(f"{run.path}: not an MCAP file, or cut short at its very start")
        finished = False
        while not finished:
            place = stream.tell()
            try:
                finished = self._next(stream)
            except _Cut:
                whole = place == run.size
                run.cut = "the file just stops" if whole else f"cut short at byte {place} of {run.size}"
            except DAMAGED as error:
                run.cut = f"damaged at byte {place} of {run.size}: {error or type(error).__name__}"
            if run.cut:
                break
            self._progress(place / max(run.size, 1))
        if not run.start:
            raise RunError(f"{run.path}: no record of tandem: it has no {START}; {run.cut or self._instead()}")
        for name, parts in self._parts.items():
            rows = np.concatenate([r for r, _ in parts])
            words = np.concatenate([w for _, w in parts])
            layout = self._layouts[name]
            run.topics[name] = Topic(name, layout, words, rows[:, 0].copy(), rows[:, 1].copy())
        self._progress(1.0)
        return run

    def _instead(self) -> str:
        found = ", ".join(known[0] for known in self._forms.values() if known)
        return f"its topics are {found}" if found else "it was made by another program"

    def _next(self, stream: BinaryIO) -> bool:
        """One record; True if it ends the data. What follows then is an index."""
        head = stream.read(9)
        if len(head) < 9:
            raise _Cut
        opcode, length = struct.unpack("<BQ", head)
        if length > _MOST_RECORD:
            raise ValueError(f"a record of {length} bytes")
        if length > self.run.size - stream.tell():
            raise _Cut
        if opcode not in _KINDS:
            if opcode == Opcode.DATA_END:
                return True
            stream.seek(length, io.SEEK_CUR)
            return False
        body = stream.read(length)
        if len(body) < length:
            raise _Cut
        if opcode == Opcode.ATTACHMENT and not _sound(body):
            self.run.damaged.add(Attachment.read(ReadDataStream(io.BytesIO(body))).name)
            return False
        self._record(_KINDS[opcode].read(ReadDataStream(io.BytesIO(body))))
        return False

    def _record(self, record: Any) -> None:
        run = self.run
        if isinstance(record, Header):
            if record.profile != PROFILE:
                raise RunError(
                    f"{run.path}: an MCAP file of profile {record.profile!r}, not of {PROFILE!r}: only records of"
                    " tandem can be used; `tandem import` takes CSV, Parquet and MF4"
                )
        elif isinstance(record, Metadata):
            if record.name == START:
                run.start = dict(record.metadata)
                if run.start.get("format") != str(FORMAT):
                    raise RunError(
                        f"{run.path}: format {run.start.get('format')!r}, this program reads {FORMAT}; use the version"
                        f" that wrote it ({run.start.get('software', 'unknown')})"
                    )
            elif record.name == END:
                run.end = dict(record.metadata)
            elif record.name == SAID:
                run.said.append((int(record.metadata["monotonic_ns"]), record.metadata["text"]))
        elif isinstance(record, Attachment):
            run.attachments[record.name] = record.data
        elif isinstance(record, Chunk):
            self._chunk(record)
        elif isinstance(record, Schema):
            self._schemas[record.id] = record
        elif isinstance(record, Channel):
            self._channel(record)

    def _channel(self, channel: Channel) -> None:
        if channel.id in self._forms:
            return
        schema = self._schemas.get(channel.schema_id)
        if self._wanted is not None and channel.topic not in self._wanted:
            self._forms[channel.id] = None
            return
        if schema is None or schema.encoding != ENCODING or channel.message_encoding != MESSAGES:
            self._forms[channel.id] = None
            return
        try:
            layout = to_layout(schema.data)
        except ValueError as error:
            raise RunError(f"{self.run.path}: schema of {channel.topic}: {error}") from None
        if self._layouts.setdefault(channel.topic, layout) != layout:
            raise RunError(f"{self.run.path}: {channel.topic} has two layouts")
        self._forms[channel.id] = (channel.topic, Form(layout, received=True))

    def _chunk(self, chunk: Chunk) -> None:
        if chunk.uncompressed_size > _MOST_CHUNK:
            raise ValueError(f"a chunk of {chunk.uncompressed_size} bytes")
        if chunk.compression not in ("zstd", ""):
            raise ValueError(f"a chunk compressed with {chunk.compression!r}; it must be zstd")
        if chunk.compression and zstandard.frame_content_size(chunk.data) not in (-1, chunk.uncompressed_size):
            raise ValueError("a chunk that is not as long as it says")
        stream, length = get_chunk_data_stream(chunk, validate_crc=True)
        data = stream.read(length)
        raw = np.frombuffer(data, np.uint8)
        while (count := _find_records(raw, self._table)) == _TOO_MANY:
            self._table = np.zeros((min(4 * len(self._table), raw.size // 9 + 1), 6), np.int64)
        if count < 0:
            raise ValueError("a damaged chunk")
        table = self._table[:count]
        for kind, at, end in table[np.isin(table[:, _KIND], (Opcode.SCHEMA, Opcode.CHANNEL)), : _END + 1]:
            self._record(_KINDS[int(kind)].read(ReadDataStream(io.BytesIO(data[at:end]))))
        messages = table[table[:, _KIND] == _MESSAGE]
        for channel in np.unique(messages[:, _ID]).tolist():
            known = self._forms.get(channel)
            if known is not None:
                self._messages(*known, data, raw, np.ascontiguousarray(messages[messages[:, _ID] == channel]))

    def _messages(self, topic: str, form: Form, data: bytes, raw: np.ndarray, rows: np.ndarray) -> None:
        blocks = np.zeros((len(rows), form.layout.words), np.int64)
        done = _decode_all(raw, rows, form.text, form.changes, form.fields, blocks)
        for n in range(done, len(rows)):  # messages from another hand may mean the same
            message = data[rows[n, _AT] : rows[n, _END]]
            try:
                decode_record(form.layout, message, blocks[n])
            except MALFORMED as error:
                raise ValueError(f"a message of {topic} that is none of its schema: {error}") from None
        self._parts.setdefault(topic, []).append((rows[:, [_SEQUENCE, _LOGGED]], blocks))
