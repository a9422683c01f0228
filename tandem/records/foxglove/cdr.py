"""CDR, little-endian, as ROS 2 has it: every number aligned to its size, counted from behind the four bytes that
announce it."""

import struct
from typing import Self

import numpy as np

_ANNOUNCED = b"\x00\x01\x00\x00"


class Cdr:
    """One message, field by field."""

    def __init__(self) -> None:
        self._data = bytearray()

    def _align(self, size: int) -> None:
        self._data += bytes(-len(self._data) % size)

    def numbers(self, form: str, *values: float) -> Self:
        """All of one kind, a letter of `struct`."""
        self._align(struct.calcsize(form))
        self._data += struct.pack(f"<{len(values)}{form}", *values)
        return self

    def text(self, text: str) -> Self:
        data = text.encode() + b"\0"
        self.numbers("I", len(data))
        self._data += data
        return self

    def array(self, values: np.ndarray) -> Self:
        """The elements of a sequence, each a row of numbers; of an empty one nothing but its length, as others do."""
        self.numbers("I", len(values))
        if len(values):
            self._align(values.dtype.itemsize)
            self._data += np.ascontiguousarray(values).tobytes()
        return self

    def message(self) -> bytes:
        return _ANNOUNCED + bytes(self._data)
