"""A reader of a ring that may be replaced by another ring of the same name.

A ring outlives a writer that crashed: the next writer adopts it, and positions continue. It does not outlive a writer
that closes it, nor a next writer with another layout or capacity: then another ring appears under the same name. The
follower reads on through all of this. It promises:

 1. It never waits, neither for a ring nor for a writer.
 2. `blocks` returns every block in order, each once: the rest of one ring before the first block of the next.
 3. Blocks that it could not return are counted in `lost`: they were overwritten before they were read, or they were
    still unread when `attached` moved on to the next ring.
 4. The last ring is held until another is there, so that its newest block can still be read.

It cannot see a ring that was made and closed between two calls. One thread calls it; other threads may read from
`ring`, because a reader that was closed here keeps its memory mapped.
"""

import os
from collections.abc import Iterator
from enum import Enum, auto

import numpy as np

from sync.clock import now_ns
from sync.errors import RingError, RingMissing
from sync.ring.block import Layout
from sync.ring.ring import SHM, RingReader, since


class Change(Enum):
    NONE = auto()
    OPENED = auto()  # a ring that was not read before
    ADOPTED = auto()  # another writer continues in the same ring, even in a closed one that was not removed
    DIED = auto()  # the writer ended without closing the ring; another may adopt it
    CLOSED = auto()  # by its writer, or replaced: nothing more will come (but see ADOPTED)


class RingFollower:
    def __init__(
        self,
        name: str,
        layout: Layout | None = None,
        *,
        living: bool = False,
        from_now: bool = False,
        retry_ns: int = 0,
    ):
        """`layout`: a ring without this layout raises a RingError; if None, a ring that is unreadable counts as absent.

        `living`: opens only a ring whose writer runs. `from_now`: skips the blocks that the first ring already holds
        when it is opened. `retry_ns`: least time between two attempts to open a ring.
        """
        self.name = name
        self.ring: RingReader | None = None
        self.alive = False  # whether its writer ran when last checked
        self.pid = 0  # of its writer
        self.position = 0  # of the next block
        self.read = self.lost = 0
        self._layout, self._living, self._from_now, self._retry_ns = layout, living, from_now, retry_ns
        self._closed = False
        self._epoch = 0
        self._tried_ns = -retry_ns

    def poll(self) -> Change:
        """What has happened to the ring or its writer since the last call: one thing at a time."""
        ring = self.ring
        if ring is not None:
            epoch = ring.epoch  # before the lock is checked: if the writer has crashed, this is not its successor's
            if ring.writer_alive:
                return self._adopted(ring, epoch)
            closed = ring.closed
            if self.alive or (closed and not self._closed):
                self.alive, self._closed, self._epoch = False, closed, epoch
                return Change.CLOSED if closed else Change.DIED
            self._closed = closed
        return self._open()

    def _adopted(self, ring: RingReader, epoch: int) -> Change:
        pid = ring.writer_pid
        if self.alive and pid == self.pid:
            return Change.NONE
        if not self.alive and epoch == self._epoch:
            return Change.NONE  # a successor holds the lock, but has not begun to write
        # also in a closed ring, whose writer was killed before it could remove it
        self.alive, self.pid, self._closed = True, pid, False
        return Change.ADOPTED

    def _open(self) -> Change:
        now = now_ns()
        if now - self._tried_ns < self._retry_ns:
            return Change.NONE
        self._tried_ns = now
        if self.ring is not None and self._named() in (None, self.ring.segment):
            return Change.NONE
        try:
            found = RingReader(self.name, self._layout)
        except RingMissing:
            return Change.NONE
        except RingError:
            if self._layout is not None:
                raise
            return Change.NONE
        epoch, alive = found.epoch, found.writer_alive
        if self._living and not alive:
            found.close()
            return Change.NONE
        first = self.ring is None
        if self.ring is not None:
            self.lost += self.ring.head - self.position
            self.ring.close()
        self.ring, self._closed = found, False
        self.alive, self.pid, self._epoch = alive, found.writer_pid, epoch
        self.position = found.head if first and self._from_now else 0
        return Change.OPENED

    def _named(self) -> int | None:
        """The segment that has the name; None if there is none."""
        try:
            return os.stat(SHM / self.name).st_ino
        except OSError:
            return None

    def attached(self) -> RingReader | None:
        """The ring to read now; None before the first one, and between the close of one and the opening of the next."""
        while self.poll() in (Change.CLOSED, Change.DIED):
            pass
        return None if self._closed else self.ring

    def blocks(self, most: int = 4096) -> np.ndarray | None:
        """The next blocks, as records with named fields; None if there is nothing new."""
        while True:
            # checked before the blocks are read: if the writer has ended by then, no block can follow those read below
            goes_on = self.ring is not None and self.ring.writer_alive
            if self.ring is not None:
                words = np.empty((most, self.ring.layout.words), np.int64)
                if count := self.take(words):
                    return self.ring.layout.view(words[:count])
            if goes_on or self.poll() in (Change.NONE, Change.ADOPTED):
                return None

    def take(self, blocks: np.ndarray) -> int:
        """Copy the next blocks of the ring that is open, as words, into the rows of `blocks`; returns how many."""
        assert self.ring is not None
        count, self.position, lost = since(self.ring.words, self.position, blocks)
        self.lost += lost
        self.read += count
        return int(count)

    def batches(self) -> Iterator[np.ndarray]:
        """All new blocks, in several batches if there are many."""
        while (found := self.blocks()) is not None:
            yield found

    def close(self) -> None:
        """Close the ring; a later call opens it again."""
        if self.ring is not None:
            self.ring.close()
            self.ring = None
            self.alive = self._closed = False
