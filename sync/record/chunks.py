"""The records of a chunk, found by nopython code. Nothing here trusts the file: sizes are bounded, a chunk is checked
against its checksum."""

import numpy as np
import zstandard
from mcap.opcode import Opcode
from mcap.records import Chunk
from mcap.stream_reader import get_chunk_data_stream
from numba import int64

from sync.compile.array_types import BYTES_READ_ONLY, WORDS_2D
from sync.compile.jit import kernel
from sync.files.limits import Budget

_MOST_CHUNK = 1 << 26  # twice the longest that is written
_MESSAGE_HEAD = 1 + 8 + 2 + 4 + 8 + 8  # opcode, length, channel, sequence, log time, publish time
MESSAGE = int(Opcode.MESSAGE)

_DAMAGED, _TOO_MANY = -1, -2

# columns of the table of a chunk's records
KIND, AT, END_OF, ID, SEQUENCE, LOGGED = range(6)


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
        if length < 0 or length > data.size - at - 9:  # compared in this order, because a sum could overflow
            return _DAMAGED
        row = found[count]
        row[KIND], row[AT], row[END_OF] = data[at], at + 9, at + 9 + length
        if data[at] == MESSAGE:
            if length < _MESSAGE_HEAD - 9:
                return _DAMAGED
            row[ID] = _number(data, at + 9, 2)
            row[SEQUENCE] = _number(data, at + 11, 4)
            row[LOGGED] = _number(data, at + 15, 8)
            row[AT] = at + _MESSAGE_HEAD
        count += 1
        at += 9 + length
    return count


class Table:
    """A table for the records of a chunk, reused for the next chunk."""

    def __init__(self) -> None:
        self._rows = np.zeros((4096, 6), np.int64)

    def of(self, chunk: Chunk, budget: Budget | None = None) -> tuple[bytes, np.ndarray, np.ndarray]:
        """(the chunk's data, the same as an array, a row for every record); raises one of DAMAGED.

        `budget`: that of the file; None for a file of our own."""
        if chunk.uncompressed_size > _MOST_CHUNK:
            raise ValueError(f"a chunk of {chunk.uncompressed_size} bytes")
        if chunk.compression not in ("zstd", ""):
            raise ValueError(f"a chunk compressed with {chunk.compression!r}; it must be zstd")
        if chunk.compression and zstandard.frame_content_size(chunk.data) not in (-1, chunk.uncompressed_size):
            raise ValueError("a chunk that is not as long as it says")
        if budget is not None:
            budget.take(chunk.uncompressed_size, "its chunks")
        # zstd writes no more than the stated size
        stream, length = get_chunk_data_stream(chunk, validate_crc=True)
        data = stream.read(length)
        raw = np.frombuffer(data, np.uint8)
        while (count := _find_records(raw, self._rows)) == _TOO_MANY:
            rows = min(4 * len(self._rows), raw.size // 9 + 1)
            if budget is not None:
                budget.need(rows * self._rows.itemsize * 6, "the records of a chunk")
            self._rows = np.zeros((rows, 6), np.int64)
        if count < 0:
            raise ValueError("a damaged chunk")
        return data, raw, self._rows[:count]
