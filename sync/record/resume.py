"""Where an interrupted record ends: for the recorder that continues it.

The files count, not what the crashed recorder had read. The start of the newest part says how far those before it go;
in that part itself (and any behind it whose start cannot be read) records are skipped by their lengths, and only the
last chunk of each topic is unpacked. That takes a tenth of a second for an hour in one part. The last chunk may be half
written: it is ignored, as by every reader.
"""

import io
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Chunk, Metadata
from mcap.writer import MCAP0_MAGIC

from sync.record.chunks import ID, KIND, MESSAGE, SEQUENCE, Table
from sync.record.damage import DAMAGED
from sync.record.heads import NOTICE, PART, Earlier, Left, read_head
from sync.record.rings import AGAIN, GONE, LEFT, OPEN, RING, Ring, number_stated
from sync.record.writer import parts

_HEAD = struct.Struct("<BQ")  # of every record: what it is, how long it is
_INDEX = struct.Struct("<HI")  # of an index: the channel, the bytes of its entries
_ENTRY = 16  # bytes a message
_CHECKSUM = 4  # bytes, of an index; 0 where more was to come (sync/record/mcap_file.py)


@dataclass
class LeftOff:
    run: str = ""  # as its parts call it
    part: int = 1  # the number of the next
    size: int = 0
    earlier: Earlier = field(default_factory=Earlier)

    @property
    def topics(self) -> dict[str, Left]:
        return self.earlier.topics


def left_off(folder: Path) -> LeftOff:
    """Where the record in a folder ends, from all its parts; raises OSError."""
    found = LeftOff()
    files = parts(folder)
    known = 0  # the newest part that says how far those before it go
    for number, path in reversed(files.items()):
        head = read_head(path)
        if head is not None and head.earlier is not None and complete(files.get(number - 1)):
            known, found.run, found.earlier = number, head.run, head.earlier
            break
    for number, path in files.items():
        found.part = number + 1
        size = path.stat().st_size
        found.size += size
        if size > len(MCAP0_MAGIC) and number >= known:
            with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                _Walk(data, found).through()
    return found


def complete(path: Path | None) -> bool:
    """Whether a part was written to its end; a deleted part was."""
    if path is None:
        return True
    with open(path, "rb") as stream:
        stream.seek(max(path.stat().st_size - len(MCAP0_MAGIC) - _CHECKSUM, 0))
        end = stream.read()
    return end[_CHECKSUM:] == MCAP0_MAGIC and any(end[:_CHECKSUM])


class _Walk:
    """A walk through one file."""

    def __init__(self, data: mmap.mmap, found: LeftOff):
        self._data, self._found = data, found
        self._topics: dict[int, str] = {}  # of the channels of this file
        self._rows: dict[int, int] = {}  # of each channel, since its ring's last note
        self._last: dict[int, int] = {}  # of each channel, where its last chunk stands
        self._table = Table()

    def through(self) -> None:
        if self._data[: len(MCAP0_MAGIC)] != MCAP0_MAGIC:
            return
        chunk, counts = 0, dict[int, int]()
        for kind, at, end in self._records():
            if kind == Opcode.MESSAGE_INDEX:
                channel, size = _INDEX.unpack_from(self._data, at)
                counts[channel] = size // _ENTRY
                continue
            for channel, count in counts.items():
                self._rows[channel] = self._rows.get(channel, 0) + count
                self._last[channel] = chunk
            chunk, counts = 0, {}
            if kind == Opcode.CHUNK:
                chunk = at
            elif kind == Opcode.METADATA:
                try:
                    self._metadata(Metadata.read(ReadDataStream(io.BytesIO(self._data[at:end]))))
                except DAMAGED:
                    break
            elif kind == Opcode.DATA_END:
                break
        # the indexes of the last chunk may be cut off
        for channel, (count, _) in self._unpacked(chunk).items():
            self._rows[channel] = self._rows.get(channel, 0) + count
            self._last[channel] = chunk
        ends = {chunk: self._unpacked(chunk) for chunk in set(self._last.values())}
        for channel, rows in self._rows.items():
            if channel in self._topics and rows:
                account = self._found.topics[self._topics[channel]].account
                # if its position is unknown, begin at the least it can be: blocks recorded twice are dropped
                last = ends[self._last[channel]].get(channel, (0, account.position + rows - 1))[1]
                account.add(rows, last)

    def _records(self) -> Iterator[tuple[int, int, int]]:
        """(what, first byte of its content, its end) of every whole record."""
        at, size, head = len(MCAP0_MAGIC), len(self._data), _HEAD.size
        while at + head <= size:
            kind, length = _HEAD.unpack_from(self._data, at)
            end = at + head + length
            if end > size:
                return
            yield kind, at + head, end
            at = end

    def _metadata(self, record: Metadata) -> None:
        if record.name == PART:
            self._found.run = self._found.run or record.metadata["run"]
        if record.name == NOTICE:
            self._found.earlier.noted = max(self._found.earlier.noted, number_stated(record.metadata.get("number", 0)))
        if record.name != RING:
            return
        ring = Ring.read(record.metadata)
        left = self._found.topics.setdefault(ring.topic, Left())
        account = left.account
        for channel in [c for c, topic in self._topics.items() if topic == ring.topic]:
            rows = self._rows.pop(channel, 0)
            account.rows, account.position = account.rows + rows, account.position + rows
        if ring.state == LEFT:
            account.segment, account.position = ring.segment, ring.position
        else:
            account.note(ring)
        left.state, left.before = ring.state, left.before + ring.before
        left.gone = left.gone or ring.state == GONE
        if ring.state in (OPEN, AGAIN):
            left.layout = ring.layout
            self._topics[ring.channel] = ring.topic

    def _unpacked(self, at: int) -> dict[int, tuple[int, int]]:
        """For each channel in a chunk: (how many messages, the position of the last); empty if the chunk is damaged."""
        if not at:
            return {}
        length = _HEAD.unpack_from(self._data, at - _HEAD.size)[1]
        try:
            chunk = Chunk.read(ReadDataStream(io.BytesIO(self._data[at : at + length])))
            table = self._table.of(chunk)[2]
        except DAMAGED:
            return {}
        found: dict[int, tuple[int, int]] = {}
        for channel, position in table[table[:, KIND] == MESSAGE][:, [ID, SEQUENCE]].tolist():
            found[channel] = (found.get(channel, (0, 0))[0] + 1, position)
        return found
