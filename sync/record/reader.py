"""Reading a record, whole or cut short, in one part or in several.

The mcap package reads the records of the file; nopython code finds and decodes the messages of a chunk, which are by
far the most of it; indexes are skipped, because reading everything needs none. A file that ends in the middle (the
recorder was killed, the disk was full) is read up to its last whole chunk, and `Run.cut` says where and why it ends.
Damage in the middle is stepped over (sync/record/damage.py), and `Run.damage` says what is missing there. Nothing here
trusts the file: its size in memory is bounded (sync/files/limits.py), chunks are checked against their checksums. The
parts of a run are read one by one and joined (sync/record/join.py); whichever of them is named, all of them are opened.
"""

import errno
import io
import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, Header, Metadata, Schema
from mcap.writer import MCAP0_MAGIC

from sync.files.limits import Budget, DecodedTooLarge
from sync.files.regular import open_regular
from sync.record import ros2msg
from sync.record.chunks import AT, END_OF, ID, KIND, LOGGED, MESSAGE, SEQUENCE, Table
from sync.record.damage import DAMAGED, ChunkContents, Index, after_chunk, described, read_index
from sync.record.heads import NOTICE, PART, START, facts_of, read_head
from sync.record.join import Consume, Joining
from sync.record.rings import LEFT, RING, Ring, number_stated
from sync.record.ros2msg import MessageReader
from sync.record.run import Part, Run, RunError, Topic
from sync.record.utc import utc_offset
from sync.record.writer import END, FILE, FORMAT, NEXT, PROFILE, parts
from sync.ring.block import Layout
from sync.visible import listed

_MOST_RECORD = 1 << 30
_CHUNK_HEAD = 8 + 8 + 8 + 4 + 4 + 8  # times, size and checksum, then the lengths of two texts
_MOST_TOPICS = 256
_LAYOUT_COST = 32  # bytes of objects that a byte of a schema becomes
_PROFILES = ("tandem", PROFILE)
_PRIVATE = 0x80  # kinds of records from here on are free for any program


class _Cut(Exception):
    """The file ends in the middle of a record."""


_KINDS: dict[int, Any] = {
    Opcode.HEADER: Header, Opcode.SCHEMA: Schema, Opcode.CHANNEL: Channel, Opcode.CHUNK: Chunk,
    Opcode.ATTACHMENT: Attachment, Opcode.METADATA: Metadata,
}  # fmt: skip


def _sound(attachment: bytes) -> bool:
    """Whether its checksum is right, or 0, which means that there is none."""
    checksum = attachment[-4:]
    return checksum == bytes(4) or checksum == zlib.crc32(attachment[:-4]).to_bytes(4, "little")


Progress = Callable[[float], None]  # share of the file that has been read


def _stamp(file: Path) -> str:
    found = re.match(r"\d{8}T\d{6}Z(?=-)", file.parent.name)
    return found[0] if found else ""


def find(path: Path) -> Path:
    """The (first) file of a run given by one of its files, its folder, or a folder of runs (the latest of them)."""
    if path.is_dir():
        here = parts(path)
        if here:
            return min(here.items())[1]
        runs = [parts(folder) for folder in sorted({file.parent for file in path.glob("*/run*.mcap")})]
        inside = [min(files.items())[1] for files in runs if files]
        if inside:
            # runs are named by their instant; a folder of another name is taken only if there is no such run
            return max(inside, key=lambda p: (_stamp(p), p.stat().st_mtime_ns))
        raise RunError(f"{path}: holds no {FILE}; give the folder of a run, such as runs/20260101T120000Z-tandem")
    if not path.exists():
        near = listed(sorted(p.parent.name for p in path.parent.glob(f"*/{FILE}"))[-3:])
        raise RunError(f"{path}: no such run" + f"; beside it: {near}" * bool(near))
    return next(iter(_together(path).values()))


def _together(file: Path) -> dict[int, Path]:
    """The parts of the run that this file belongs to; the file alone if it has another name or a closed folder."""
    try:
        found = parts(file.parent)
    except OSError:
        return {1: file}
    return found if file in found.values() else {1: file}


def open_run(
    path: Path,
    topics: tuple[str, ...] | None = None,
    progress: Progress = lambda _: None,
    consume: Consume | None = None,
) -> Run:
    """Read all parts of a record; only the topics named, if any are. With `consume` the blocks are passed on part by
    part and not stored: the topics of the run are then empty."""
    file = find(path)
    files = _together(file)
    sizes: dict[int, int] = {}
    for number, part in files.items():
        try:
            sizes[number] = part.stat().st_size
        except FileNotFoundError:
            continue  # deleted to make room in a run that is being recorded
        except OSError as error:
            raise RunError(f"{file}: cannot be read: {error.strerror}") from None
    files = {number: files[number] for number in sizes}
    if not files:
        raise RunError(f"{file}: cannot be read: {os.strerror(errno.ENOENT)}")
    several = len(files) > 1 or min(files) > 1
    heads = {number: head for number, part in files.items() if several and (head := read_head(part)) is not None}
    joining = Joining(files, sizes, heads, consume)
    done, whole = 0, max(sum(sizes.values()), 1)
    for number, part in files.items():

        def so_far(share: float, done: int = done, size: int = sizes[number]) -> None:
            progress((done + share * size) / whole)

        if number > joining.deleted:
            read = _read(part, sizes[number], topics, so_far)
            if not several and consume is None:
                if isinstance(read, RunError):
                    raise read
                read.parts = [Part(file.name, read.size, read.cut)]
                return read
            joining.add(number, read)
            del read  # so that two parts are never in memory
        done += sizes[number]
    progress(1.0)
    return joining.run()


def _read(part: Path, size: int, topics: tuple[str, ...] | None, progress: Progress) -> Run | RunError:
    try:
        with open_regular(part) as stream:
            return _Reading(part, size, topics, progress).read(stream)
    except OSError as error:
        return RunError(f"{part}: cannot be read: {error.strerror}")
    except RunError as error:
        return error
    except DecodedTooLarge as error:
        return RunError(str(error))


class _Reading:
    def __init__(self, path: Path, size: int, topics: tuple[str, ...] | None, progress: Progress):
        self.run = Run(path, size=size)
        self._wanted, self._progress = topics, progress
        self._schemas: dict[int, Schema] = {}
        self._forms: dict[int, tuple[str, MessageReader] | None] = {}
        self._utc_offset_ns, self._profile = 0, "tandem"
        self._batches: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._layouts: dict[str, Layout] = {}
        self._table = Table()
        self._chunks: set[int] = set()  # places of the chunks that were read
        self._unread: dict[int, str] = {}  # where there was damage, and why
        self._index: Index | None = None
        self._index_sought = self._announced = False
        self._budget = Budget(path, size)
        self._stream: BinaryIO = io.BytesIO()

    def read(self, stream: BinaryIO) -> Run:
        run, self._stream = self.run, stream
        if stream.read(len(MCAP0_MAGIC)) != MCAP0_MAGIC:
            raise RunError(f"{run.path}: not an MCAP file, or cut short at its very start")
        finished = False
        while not finished:
            place = stream.tell()
            try:
                finished = self._next(stream)
            except _Cut:
                whole = place == run.size
                cut = "the file just stops" if whole else f"cut short at byte {place} of {run.size}"
                finished = self._step_over(stream, place, "a record longer than the file", cut)
            except DAMAGED as error:
                why = str(error) or type(error).__name__
                finished = self._step_over(stream, place, why, f"damaged at byte {place} of {run.size}: {why}")
            if run.cut:
                break
            self._progress(place / max(run.size, 1))
        if run.cut is None:
            self._note_unread(stream)
            if run.end is None and not run.next and self._known_index() is None:  # a finished file has one
                run.cut = "the recorder was killed, or the power failed"
        if not run.start:
            raise RunError(f"{run.path}: no record of tandem: it has no {START}; {run.cut or self._instead()}")
        for name, batches in self._batches.items():
            rows = np.concatenate([r for r, _ in batches])
            words = np.concatenate([w for _, w in batches])
            layout = self._layouts[name]
            rings = tuple(run.rings.get(name, ()))
            run.topics[name] = Topic(name, layout, words, rows[:, 0].copy(), rows[:, 1].copy(), rings)
        self._progress(1.0)
        return run

    def _step_over(self, stream: BinaryIO, place: int, why: str, cut: str) -> bool:
        """Go on behind damage at this place; without a known place to go on, note `cut`. True: nothing follows."""
        index = self._known_index()
        if index is None:
            found = after_chunk(stream, self.run.size, place)
            if found is None:
                self.run.cut = cut
                return False
            following, held = found
            self._damaged(place, why, held)
        else:
            following = index.next(place)
            self._unread[place] = why
        stream.seek(following)
        return index is not None and following >= index.end

    def _known_index(self) -> Index | None:
        if not self._index_sought:
            self._index, self._index_sought = read_index(self._stream, self.run.size), True
        return self._index

    def _announce(self) -> None:
        """Add the topics from the index: the chunk that announces them may have been damaged."""
        if self._announced:
            return
        self._announced = True
        place, index = self._stream.tell(), self._known_index()
        for record in (*index.schemas, *index.channels) if index is not None else ():
            self._record(record)
        self._stream.seek(place)

    def _damaged(self, place: int, why: str, held: ChunkContents) -> None:
        if not self._forms.keys() >= held.counts.keys():
            self._announce()
        topics = {channel: known[0] for channel, known in self._forms.items() if known is not None}
        found = described(self.run.path.name, place, why, held, topics, self._utc_offset_ns)
        self.run.damage.append(found)

    def _note_unread(self, stream: BinaryIO) -> None:
        """Note what the index has and was not read, also what was skipped because of a wrong kind or length."""
        index = self._known_index()
        if index is None:
            return
        chunks = {place: "passed over" for place in index.chunks if place not in self._chunks}
        for place, why in sorted({**chunks, **self._unread}.items()):
            self._damaged(place, why, index.held(stream, place, self.run.size))

    def _foreign(self, what: str) -> str:
        return (
            f"{self.run.path}: {what}, not a record of tandem; only records of tandem can be used; `tandem import`"
            " takes CSV, Parquet and MF4"
        )

    def _instead(self) -> str:
        found = ", ".join(known[0] for known in self._forms.values() if known)
        return f"its topics are {found}" if found else "it was made by another program"

    def _next(self, stream: BinaryIO) -> bool:
        """Read one record; True if it ends the data, so that an index follows."""
        head = stream.read(9)
        if len(head) < 9:
            raise _Cut
        opcode, length = struct.unpack("<BQ", head)
        if length > _MOST_RECORD:
            raise ValueError(f"a record of {length} bytes")
        if length > self.run.size - stream.tell():
            raise _Cut
        self._budget.take(length, "its records")  # after damage the places come from an index, and may repeat
        if opcode not in _KINDS:
            if opcode == Opcode.DATA_END:
                return True
            if not (Opcode.HEADER <= opcode <= Opcode.DATA_END or opcode >= _PRIVATE):
                raise ValueError(f"a record of kind {opcode}")
            stream.seek(length, io.SEEK_CUR)
            return False
        body = stream.read(length)
        if len(body) < length:
            raise _Cut
        if opcode == Opcode.ATTACHMENT and not _sound(body):
            self.run.damaged.add(Attachment.read(ReadDataStream(io.BytesIO(body))).name)
            return False
        record = _KINDS[opcode].read(ReadDataStream(io.BytesIO(body)))
        if opcode == Opcode.CHUNK and length != _CHUNK_HEAD + len(record.compression) + len(record.data):
            raise ValueError("a chunk that is not as long as its record")
        self._record(record)
        if opcode == Opcode.CHUNK:
            self._chunks.add(stream.tell() - length - len(head))
        return False

    def _record(self, record: Any) -> None:
        run = self.run
        if isinstance(record, Header):
            if record.profile not in _PROFILES:
                raise RunError(self._foreign(f"an MCAP file of profile {record.profile!r}"))
            self._profile = record.profile
        elif isinstance(record, Metadata):
            if record.name == START:
                run.start, wrong = facts_of(record)
                run.invalid += wrong
                if run.start.get("format") != str(FORMAT):
                    raise RunError(
                        f"{run.path}: a record of format {run.start.get('format')!r}, this program reads {FORMAT};"
                        f" use the version that wrote it ({run.start.get('software', 'unknown')})"
                    )
                self._utc_offset_ns = utc_offset(run.start)
            elif record.name == END:
                run.end, wrong = facts_of(record)
                run.invalid += wrong
                run.unsynced = [str(text) for text in json.loads(record.metadata.get("unsynced", "[]"))]
            elif record.name == NEXT:
                run.next = record.metadata["file"]
            elif record.name == NOTICE:
                run.notices.append((number_stated(record.metadata["monotonic_ns"]), record.metadata["text"]))
            elif record.name == PART:
                run.run = record.metadata["run"]
            elif record.name == RING:
                self._ring(record.metadata)
        elif isinstance(record, Attachment):
            run.attachments[record.name] = record.data
        elif isinstance(record, Chunk):
            if not run.start and self._profile != "tandem":  # a ROS bag, which may be large
                raise RunError(self._foreign("an MCAP file of ROS 2"))
            self._chunk(record)
        elif isinstance(record, Schema):
            self._schemas[record.id] = record
        elif isinstance(record, Channel):
            self._channel(record)

    def _ring(self, metadata: dict[str, str]) -> None:
        topic = metadata["topic"]
        ring = Ring.read(metadata, row=sum(len(rows) for rows, _ in self._batches.get(topic, ())))
        if ring.state != LEFT and (self._wanted is None or topic in self._wanted):
            self.run.rings.setdefault(topic, []).append(ring)

    def _channel(self, channel: Channel) -> None:
        if channel.id in self._forms:
            return
        schema = self._schemas.get(channel.schema_id)
        if self._wanted is not None and channel.topic not in self._wanted:
            self._forms[channel.id] = None
            return
        cdr = schema is not None and (schema.encoding, channel.message_encoding) == (ros2msg.ENCODING, ros2msg.MESSAGES)
        stated = channel.metadata.get(ros2msg.LAYOUT)
        if schema is None or not cdr or stated is None:
            self._forms[channel.id] = None  # not blocks, such as poses
            return
        if len(self._forms) >= _MOST_TOPICS:
            raise RunError(f"{self.run.path}: more than {_MOST_TOPICS} topics; no record has so many")
        self._budget.take(_LAYOUT_COST * (len(schema.data) + len(stated)), f"the schema of {channel.topic}")
        try:
            layout = ros2msg.to_layout(schema.data, stated)
        except ValueError as error:
            raise RunError(f"{self.run.path}: schema of {channel.topic!r}: {error}") from None
        if self._layouts.setdefault(channel.topic, layout) != layout:
            raise RunError(f"{self.run.path}: {channel.topic} has two layouts")
        self._forms[channel.id] = (channel.topic, MessageReader(layout))

    def _chunk(self, chunk: Chunk) -> None:
        data, raw, table = self._table.of(chunk, self._budget)
        described = table[np.isin(table[:, KIND], (Opcode.SCHEMA, Opcode.CHANNEL)), : END_OF + 1]
        if len(described) > 2 * _MOST_TOPICS:
            raise RunError(
                f"{self.run.path}: a chunk with {len(described)} schemas and channels; no record has so many"
            )
        for kind, at, end in described:
            self._record(_KINDS[int(kind)].read(ReadDataStream(io.BytesIO(data[at:end]))))
        messages = table[table[:, KIND] == MESSAGE]
        messages = messages[np.argsort(messages[:, ID], kind="stable")]  # by channel, in order within each
        channels, firsts = np.unique(messages[:, ID], return_index=True)
        if not self._forms.keys() >= set(channels.tolist()):
            self._announce()
        for channel, rows in zip(channels.tolist(), np.split(messages, firsts[1:]), strict=False):
            known = self._forms.get(channel)
            if known is not None:
                self._messages(*known, raw, rows)

    def _messages(self, topic: str, form: MessageReader, raw: np.ndarray, rows: np.ndarray) -> None:
        self._budget.take(8 * len(rows) * form.layout.words, f"the blocks of {topic}")
        try:
            blocks = form.read(raw, rows[:, AT], rows[:, END_OF])
        except ValueError as error:
            raise ValueError(f"a message of {topic} that does not fit its schema: {error}") from None
        found = rows[:, [SEQUENCE, LOGGED]]
        found[:, 1] -= self._utc_offset_ns
        self._batches.setdefault(topic, []).append((found, blocks))
