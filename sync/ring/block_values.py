"""Integer channels of a block, read and written by nopython code."""

import numpy as np

from sync.compile.jit import kernel


@kernel()
def get_integer(block, row):
    """One integer channel of a block. `row` is its row of `Layout.table`."""
    word = block[row[0]]
    left = 64 - row[1] - row[2]
    if row[3] == 0:
        return (word << left) >> (64 - row[2])
    return np.int64(np.uint64(word << left) >> np.uint64(64 - row[2]))


@kernel()
def put_integer(block, row, value):
    """Write one channel of at most 32 bits into a zeroed payload; returns whether it had to be limited to its range."""
    signed = row[3] == 0
    span = np.int64(1) << row[2]
    low = -(span >> 1) if signed else np.int64(0)
    high = (span >> 1 if signed else span) - 1
    limited = min(max(value, low), high)
    block[row[0]] |= (limited & (span - 1)) << row[1]
    return limited != value
