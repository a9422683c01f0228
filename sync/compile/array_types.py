"""Types that kernels name in their signatures: words of rings and blocks, bytes, numbers, and groups of these."""

from typing import Any

import numpy as np
from numba import float64, int32, int64, types, uint8

WORDS = types.Array(int64, 1, "C")
WORDS_2D = types.Array(int64, 2, "C")
READ_ONLY = types.Array(int64, 1, "C", readonly=True)

BYTES = types.Array(uint8, 1, "C")
BYTES_READ_ONLY = types.Array(uint8, 1, "C", readonly=True)

VECTOR = types.Array(float64, 1, "C")
CONSTANTS = types.Array(float64, 1, "C", readonly=True)  # a kernel that writes into it does not compile
INDICES = types.Array(int32, 1, "C", readonly=True)
MATRIX = types.Array(float64, 2, "C")


def group(kind: Any, *fields: types.Type) -> types.BaseTuple:
    """The type of a named tuple with fields of these types."""
    return types.BaseTuple.from_types(fields, kind)


def read_only(words: np.ndarray) -> np.ndarray:
    """The same words, of a type that is only read: within a group nothing is converted."""
    found = words.view()
    found.flags.writeable = False
    return found
