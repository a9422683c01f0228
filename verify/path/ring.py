"""Is a block ever torn or older than the one before, and what does a contended read cost?

One writer process pushes at full speed; one reader process takes `newest`, another follows with `since`, so that writer
and readers share the cores there are. Every word of a block is a different function of its position: a torn block
cannot pass.
"""

import multiprocessing
import os
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numba import int64, types

from sync.clock import now_ns
from sync.compile.array_types import READ_ONLY, WORDS, WORDS_2D
from sync.compile.jit import kernel
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, RingWriter, newest, push, since
from verify.measure import Row, at_least, at_most, equal, figure, holds

_PATIENCE_S = 120.0  # for processes to start, where other programs run
GOLDEN = -7046029254386353131  # 2**64 / golden ratio, as a signed word


@kernel()
def pattern(position, word):
    return (position + 1) * GOLDEN + word * 1_000_003


@kernel(int64(WORDS, int64, int64), allocates=True)
def write_at_full_speed(ring, words, until_ns):
    block = np.empty(words, np.int64)
    n = np.int64(0)
    while now_ns() < until_ns:
        for _ in range(1000):
            for i in range(words):
                block[i] = pattern(n, i)
            n = push(ring, block) + 1
    return n


@kernel()
def whole(block, position):
    for i in range(block.size):
        if block[i] != pattern(position, i):
            return False
    return True


@kernel(types.UniTuple(int64, 6)(READ_ONLY, int64, int64), allocates=True)
def read_newest(ring, words, until_ns):
    """(reads, contended reads, torn, backwards, lapped, ns spent): a read is contended if it found a new block."""
    block = np.zeros(words, np.int64)
    reads = contended = torn = backwards = lapped = np.int64(0)
    last = np.int64(-1)
    begun = now_ns()
    while now_ns() < until_ns:
        for _ in range(1000):
            n = newest(ring, block)
            reads += 1
            if n == -2:
                lapped += 1
            elif n >= 0:
                if n < last:
                    backwards += 1
                if n > last:
                    contended += 1
                    if not whole(block, n):
                        torn += 1
                last = n
    return reads, contended, torn, backwards, lapped, now_ns() - begun


@kernel(types.UniTuple(int64, 5)(READ_ONLY, WORDS_2D, int64))
def follow(ring, blocks, until_ns):
    """(blocks read, reported lost, torn, silent gaps, last position). A gap is silent if its size was not reported."""
    got = lost = torn = silent = position = np.int64(0)
    while now_ns() < until_ns:
        count, after, missed = since(ring, position, blocks)
        got += count
        lost += missed
        # without loss the blocks are position, position+1, …; with loss, whatever is missing must be what was reported
        expected, skipped = position, np.int64(0)
        for k in range(count):
            while expected < after and not whole(blocks[k], expected):
                expected += 1
                skipped += 1
            if expected == after:
                torn += 1
                break
            expected += 1
        skipped += after - expected
        if skipped != missed:
            silent += 1
        position = after
    return got, lost, torn, silent, position


def _together(start: Any, seconds: float) -> int:
    """When every process is there, however long that takes: the instant at which they end."""
    start.wait(_PATIENCE_S)
    return int(now_ns()) + int(seconds * 1e9)


def _writer(name: str, layout: Layout, capacity: int, seconds: float, start: Any, results: Any) -> None:
    ring = RingWriter(name, layout, capacity)
    pushed = write_at_full_speed(ring.words, layout.words, _together(start, seconds))
    results.put(("writer", {"pushed": pushed}))
    ring.close()


def _newest_reader(name: str, seconds: float, start: Any, results: Any) -> None:
    ring = RingReader(name, timeout_s=_PATIENCE_S)
    until_ns = _together(start, seconds)
    reads, contended, torn, backwards, lapped, spent = read_newest(ring.words, ring.layout.words, until_ns)
    results.put(
        (
            "newest",
            {
                "reads": reads,
                "contended": contended,
                "torn": torn,
                "backwards": backwards,
                "lapped": lapped,
                "mean_ns": round(spent / max(reads, 1), 1),
                "contended_ns_at_most": round(spent / max(contended, 1), 1),  # all time, on the contended ones alone
            },
        )
    )


def _since_reader(name: str, seconds: float, start: Any, results: Any) -> None:
    ring = RingReader(name, timeout_s=_PATIENCE_S)
    blocks = np.empty((1024, ring.layout.words), np.int64)
    got, lost, torn, silent, position = follow(ring.words, blocks, _together(start, seconds))
    results.put(
        ("since", {"read": got, "lost": lost, "torn": torn, "silent_gaps": silent, "closes": got + lost == position})
    )


def contended(seconds: float, capacity: int = 1024, channels: int = 1, alone: bool = False) -> dict[str, Any]:
    """What writer and readers counted."""
    name = f"tandem.bench.{os.getpid()}"
    layout = Layout(tuple(Channel(f"c{i}", "i8") for i in range(channels)))
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    start = spawn.Barrier(2 if alone else 3)
    now = (seconds, start, results)
    jobs = [
        spawn.Process(target=_writer, args=(name, layout, capacity, *now)),
        spawn.Process(target=_newest_reader, args=(name, *now)),
    ]
    if not alone:
        jobs.append(spawn.Process(target=_since_reader, args=(name, *now)))
    for job in jobs:
        job.start()
    answer: dict[str, Any] = dict(results.get(timeout=seconds + 2 * _PATIENCE_S) for _ in jobs)
    for job in jobs:
        job.join()
    return answer | {"block_bytes": 8 * layout.words}


def ring(
    *,
    seconds: float = 60.0,
    capacity: int = 1024,
    channels: Annotated[int, "8-byte channels a block (1 = the car's block size)"] = 1,
    no_since: Annotated[bool, "only the `newest` reader beside the writer"] = False,
) -> Iterator[Row]:
    found = contended(seconds, capacity, channels, no_since)
    newest, since = found["newest"], found.get("since")
    yield figure(f"blocks of {found['block_bytes']} bytes pushed", found["writer"]["pushed"])
    yield equal("newest: torn", newest["torn"], 0)
    yield equal("newest: older than the one before", newest["backwards"], 0)
    long = seconds >= 60  # what is promised of a minute
    contended_reads, cost = ("newest: contended reads", newest["contended"]), ("newest: a read", newest["mean_ns"])
    yield at_least(*contended_reads, 10**7) if long else figure(*contended_reads)
    yield at_most(*cost, 250, "ns") if long else figure(*cost, "ns")
    if since:
        yield equal("since: torn", since["torn"], 0)
        yield equal("since: gaps without a number", since["silent_gaps"], 0)
        yield holds("since: read and lost add up to what was pushed", since["closes"])
