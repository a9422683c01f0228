"""The blocks of an MDF file, walked before asammdf reads it.

MDF is a graph of blocks that link each other by their places. The library follows every link: in a list that ends in
itself it never returns, nor in conversions that each name the next one twice, thirty levels deep. Here every list is
walked once, no block may be in two lists, and the size of the decoded data is taken from the file's budget
(sync/files/limits.py). Blocks that sound files share (names, units, conversions) may be shared.
"""

import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from sync.files.limits import Budget
from sync.files.regular import open_regular
from tandem.records.exchange.errors import ExchangeError

_MAGIC = (b"MDF     ", b"UnFinMF ")  # the latter was not closed
_HEAD = struct.Struct("<4sIQQ")  # what it is, reserved, its length, how many links
_HEAD_AT = 64
# links that are lists or hold what belongs to this block alone
_OWNED = {
    b"##HD": (0, 1, 2, 3, 4), b"##DG": (0, 1, 2), b"##CG": (0, 1, 4), b"##CN": (0, 1, 5), b"##DL": None,
    b"##HL": (0,), b"##AT": (0,), b"##FH": (0,), b"##EV": (0,), b"##CH": (0, 1), b"##SR": (0, 1), b"##CA": (0,),
    b"##LD": None,
}  # fmt: skip
_NOT_OWNED = (b"##CG", b"##AT")  # what the data of a channel may also be
_DATA_OF_CHANNEL = 5
_CONVERSION = 4  # of a channel
_INVERSE = 3  # of a conversion
_MOST_LINKS = 1 << 16  # of one block
_CYCLES = struct.Struct("<QQHH4xI")  # of a channel group: record id, cycles, flags, path separator, bytes of a record
_ZIPPED = struct.Struct("<2sBBIQQ")  # original type, how, reserved, parameter, original size, size
_PACKED = 2  # flag of an attachment
_COST_OF_BLOCK = 1024  # bytes of objects that the library makes of one


def checked_file(path: Path) -> Budget:
    """What may still be decoded of a file whose blocks were walked."""
    try:
        with open_regular(path) as file:
            start = file.read(8)
    except OSError as error:
        raise ExchangeError(f"{path}: cannot be read: {error.strerror}") from None
    if not start.startswith(_MAGIC):
        raise ExchangeError(f"{path}: not an MDF file: it begins with {start!r}" if start else f"{path}: is empty")
    budget = Budget(path, path.stat().st_size)
    check_blocks(path, budget)
    return budget


def check_blocks(path: Path, budget: Budget) -> None:
    """Raises ExchangeError for a file that no reader would come to the end of, DecodedTooLarge for one that unpacks to
    more than is allowed."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            if data[8:9] in (b"2", b"3"):
                _Version3(path, data, budget).walk()
            else:
                _Version4(path, data, budget).walk()
        except (struct.error, IndexError, OverflowError):  # a place beyond what an index can be
            raise ExchangeError(
                f"{path}: a damaged MDF file: it has {len(data)} bytes, and a block that lies beyond them; was it cut"
                " short?"
            ) from None


class _Version4:
    def __init__(self, path: Path, data: mmap.mmap, budget: Budget):
        self._path, self._data, self._budget = path, data, budget
        self._links = 0
        self._conversions: dict[int, int] = {}  # how many blocks each becomes

    def walk(self) -> None:
        seen, waiting = {_HEAD_AT}, [_HEAD_AT]
        while waiting:
            place = waiting.pop()
            kind, links = self._block(place)
            self._budget.take(_COST_OF_BLOCK, "its blocks")
            self._links += len(links)
            owned = _OWNED.get(kind, ())
            for number in range(len(links)) if owned is None else owned:
                target = links[number] if number < len(links) else 0
                if not target or (number == _DATA_OF_CHANNEL and kind == b"##CN" and self._id(target) in _NOT_OWNED):
                    continue
                if target in seen:
                    raise ExchangeError(
                        f"{self._path}: a damaged MDF file: the block at byte {target} is in two lists, or twice in one"
                    )
                seen.add(target)
                waiting.append(target)
            self._size(kind, place, len(links))
            if kind == b"##CN" and len(links) > _CONVERSION and links[_CONVERSION]:
                self._expanded(links[_CONVERSION])
        if sum(self._conversions.values()) > 2 * self._links + 1000:
            raise ExchangeError(f"{self._path}: conversions that name others over and over; no measurement has such")

    def _id(self, place: int) -> bytes:
        return self._data[place : place + 4]

    def _block(self, place: int) -> tuple[bytes, tuple[int, ...]]:
        kind, _, length, count = _HEAD.unpack_from(self._data, place)
        if count > _MOST_LINKS or (count and _HEAD.size + 8 * count > length):
            raise ExchangeError(f"{self._path}: a damaged MDF file: a block with {count} links at byte {place}")
        return kind, struct.unpack_from(f"<{count}Q", self._data, place + _HEAD.size)

    def _size(self, kind: bytes, place: int, links: int) -> None:
        content = place + _HEAD.size + 8 * links
        if kind == b"##DZ":
            self._budget.take(_ZIPPED.unpack_from(self._data, content)[4], "its data")
        elif kind == b"##CG":
            _, cycles, flags, _, size = _CYCLES.unpack_from(self._data, content)
            if not flags & 1:  # not one of variable length
                self._budget.take(cycles * max(size, 1), "the records it says it has")
        elif kind == b"##AT":
            flags, size, packed = struct.unpack_from("<H22xQQ", self._data, content)
            if flags & _PACKED:
                self._budget.take(size, "an attachment")
                self._unpack(content + 40, packed, size)

    def _unpack(self, place: int, packed: int, size: int) -> None:
        """The library unpacks an attachment as a whole, however long it becomes."""
        try:
            found = zlib.decompressobj().decompress(self._data[place : place + packed], size + 1)
        except zlib.error as error:
            raise ExchangeError(f"{self._path}: a damaged attachment: {error}") from None
        if len(found) != size:
            raise ExchangeError(f"{self._path}: a damaged attachment: it is not the {size} bytes it says it has")

    def _expanded(self, first: int) -> None:
        """How many blocks a conversion becomes, with all those it names; those it names are counted before it."""
        waiting: list[tuple[int, Iterator[int]]] = []
        open_ones: set[int] = set()

        def enter(place: int) -> None:
            _, links = self._block(place)
            self._links += len(links)
            self._conversions[place] = 1
            open_ones.add(place)
            named = [t for k, t in enumerate(links) if t and k != _INVERSE and self._id(t) == b"##CC"]
            waiting.append((place, iter(named)))

        if first not in self._conversions:
            enter(first)
        while waiting:
            place, rest = waiting[-1]
            target = next(rest, None)
            if target is None:
                waiting.pop()
                open_ones.discard(place)
                if waiting:
                    self._conversions[waiting[-1][0]] += self._conversions[place]
            elif target in open_ones:
                raise ExchangeError(f"{self._path}: a damaged MDF file: the conversion at byte {target} names itself")
            elif target in self._conversions:
                self._conversions[place] += self._conversions[target]
            else:
                enter(target)


class _Version3:
    """Blocks of two letters, links of four bytes; nothing is packed."""

    def __init__(self, path: Path, data: mmap.mmap, budget: Budget):
        self._path, self._data, self._budget = path, data, budget
        order = struct.unpack_from("<H", data, 24)[0]
        self._order = ">" if order else "<"
        self._seen: set[int] = set()

    def walk(self) -> None:
        (first,) = struct.unpack_from(f"{self._order}I", self._data, _HEAD_AT + 4)
        for group in self._list(first):
            for channels in self._list(self._link(group, 1)):
                cycles, size = self._cycles(channels)
                self._budget.take(cycles * max(size, 1), "the records it says it has")
                for _ in self._list(self._link(channels, 1)):
                    pass

    def _link(self, place: int, number: int) -> int:
        found: int = struct.unpack_from(f"{self._order}I", self._data, place + 4 + 4 * number)[0]
        return found

    def _cycles(self, place: int) -> tuple[int, int]:
        _, _, size, cycles = struct.unpack_from(f"{self._order}HHHI", self._data, place + 16)
        return cycles, size

    def _list(self, place: int) -> Iterator[int]:
        while place:
            if place in self._seen:
                raise ExchangeError(
                    f"{self._path}: a damaged MDF file: the block at byte {place} is in two lists, or twice in one"
                )
            self._seen.add(place)
            self._budget.take(_COST_OF_BLOCK, "its blocks")
            yield place
            place = self._link(place, 0)
