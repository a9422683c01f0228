"""Encoder counters: a running count, made from a register of few bits that wraps.

A counter of w bits is unwrapped by the shortest way round, which is right as long as it moves less than half its range
between two scans. Counts are relative to the first scan. A faster move than the encoder can make is counted as
implausible; it is applied all the same, since nothing better is known.
"""

import numpy as np

from sync.compile.jit import kernel
from sync.config.config import ChannelConfig

BITS, LIMIT, STARTED, LAST, TOTAL = range(5)  # columns of a channel's row


def counter_table(channels: list[ChannelConfig], rate_hz: float) -> np.ndarray:
    """A row a channel; channels that are no counters have 0 bits."""
    table = np.zeros((len(channels), 5), np.int64)
    for row, channel in zip(table, channels, strict=True):
        if channel.counter_bits is not None:
            row[BITS] = channel.counter_bits
            half = 1 << (channel.counter_bits - 1)
            # one count of tolerance: quantisation alone can add it
            limit = half if channel.max_counts_per_s is None else round(channel.max_counts_per_s / rate_hz) + 1
            row[LIMIT] = min(limit, half)
    return table


@kernel()
def unwrap(row, register):
    """The running count for a register reading, and whether the move was implausible."""
    if row[STARTED] == 0:
        row[STARTED] = 1
        row[LAST] = register
        return False
    half = np.int64(1) << (row[BITS] - 1)
    delta = ((register - row[LAST] + half) & (2 * half - 1)) - half
    row[LAST] = register
    row[TOTAL] += delta
    return abs(delta) > row[LIMIT]
