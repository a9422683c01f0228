"""Array types that kernels name in their signatures: words of rings and blocks, bytes of messages."""

from numba import int64, types, uint8

WORDS = types.Array(int64, 1, "C")
WORDS_2D = types.Array(int64, 2, "C")
READ_ONLY = types.Array(int64, 1, "C", readonly=True)

BYTES = types.Array(uint8, 1, "C")
BYTES_READ_ONLY = types.Array(uint8, 1, "C", readonly=True)
