"""Blocks whose every word is another function of their position: a block made of two cannot pass for one.

`newest_unchecked` is what a careless reader would do: it never looks at a stamp.
"""

import numpy as np
from numba import int64, types

from sync.clock import now_ns
from sync.compile.array_types import READ_ONLY, WORDS
from sync.compile.atomics import load_acquire, load_relaxed
from sync.compile.jit import kernel
from sync.ring.ring import newest, push, since

PATTERN = 0x9E3779B97F4A7C15 - 2**64


@kernel(types.void(WORDS, int64))
def fill(block, position):
    for i in range(block.size):
        block[i] = (position + 1) * PATTERN + i * 1_000_003


@kernel(types.boolean(WORDS, int64))
def whole(block, position):
    for i in range(block.size):
        if block[i] != (position + 1) * PATTERN + i * 1_000_003:
            return False
    return True


@kernel(int64(WORDS, int64), allocates=True)
def write_at_full_speed(ring, until_ns):
    """Blocks without a rest, from wherever the ring is, until then or until it is closed; returns how many."""
    block = np.empty(ring[4], np.int64)
    pushed = 0
    while now_ns() < until_ns and load_acquire(ring, 9) == 1:
        for _ in range(100):
            fill(block, ring[16])
            push(ring, block)
            pushed += 1
    return pushed


@kernel(types.void(WORDS, int64, int64), allocates=True)
def write_in_steps(ring, blocks, rest_ns):
    """So many blocks, with a rest after each that lets a follower catch up."""
    block = np.empty(ring[4], np.int64)
    for _ in range(blocks):
        fill(block, ring[16])
        push(ring, block)
        until = now_ns() + rest_ns
        while now_ns() < until:
            pass


@kernel(types.UniTuple(int64, 3)(READ_ONLY, int64, int64), allocates=True)
def follow(ring, blocks, until_ns):
    """(read, torn, reported lost) of the first `blocks` blocks, each awaited at the head."""
    row = np.zeros((1, ring[4]), np.int64)
    read = torn = lost = position = np.int64(0)
    while position < blocks and now_ns() < until_ns:
        count, after, missed = since(ring, position, row)
        if count == 1:
            read += 1
            torn += not whole(row[0], after - 1)
        lost += missed
        position = after
    return read, torn, lost


@kernel(int64(READ_ONLY, WORDS))
def newest_unchecked(ring, block):
    head = load_acquire(ring, 16)
    if head == 0:
        return -1
    slot = ring[6] + ((head - 1) & (ring[3] - 1)) * ring[5]
    for i in range(block.size):
        block[i] = load_relaxed(ring, slot + 1 + i)
    return head - 1


@kernel(types.UniTuple(int64, 2)(READ_ONLY, int64, types.boolean), allocates=True)
def count_torn(ring, until_ns, careful):
    """(reads, torn ones); without care until the first torn one."""
    block = np.zeros(ring[4], np.int64)
    reads = torn = 0
    while now_ns() < until_ns:
        for _ in range(100):
            n = newest(ring, block) if careful else newest_unchecked(ring, block)
            if n >= 0:
                reads += 1
                torn += not whole(block, n)
        if torn > 0 and not careful:
            break
    return reads, torn
