"""A reader of a ring that may be replaced by another of its name.

A ring outlives a writer that crashed: the next one adopts it, and positions go on. It does not outlive a writer that
closed it, nor a next one of another layout or capacity: then another ring appears under the same name. A reader that is
to go on through all of this promises:

 1. It never waits, neither for a ring nor for a writer.
 2. `blocks` returns every block in order, each once: the rest of one ring before the first block of the next.
 3. What it could not return is counted in `lost`: overwritten before it was read, or left behind in a ring that it had
    to leave by `attached`.
 4. The last ring is held until another is there, so that its newest block can still be read.

What it cannot see is a ring that was made and closed between two calls. One thread calls it; other threads may read
from `ring`, because a reader that was closed here keeps its memory mapped.
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
    ADOPTED = auto()  # another writer goes on in the same ring, even a closed one that was not removed
    DIED = auto()  # the writer has gone without closing it; it may be adopted
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
        """`layout`: a ring that cannot be read as such raises a RingError; without one it counts as not there.

        `living`: opens only a ring whose writer lives. `from_now`: of the first ring only what comes after it was
        opened. `retry_ns`: between two attempts to open one.
        """
        self.name = name
        self.ring: RingReader | None = None
        self.alive = False  # its writer, at the last look
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
            epoch = ring.epoch  # before the look at the lock: that of a crashed writer is then not its successor's
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
            return Change.NONE  # it has the lock, and has not yet begun
        # also after it was closed, by a writer that was killed before it could remove it
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
        """The ring that there is now: None before the first, and from its close to the next one's opening."""
        while self.poll() in (Change.CLOSED, Change.DIED):
            pass
        return None if self._closed else self.ring

    def blocks(self, most: int = 4096) -> np.ndarray | None:
        """The next blocks, as records with named fields; None if there is nothing new."""
        while True:
            # before the look at the blocks: of a writer that has gone, none can come behind the last one seen
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
        """All that is new, in several pieces if it is much."""
        while (found := self.blocks()) is not None:
            yield found

    def close(self) -> None:
        """Let go of the ring; a later call would open it again."""
        if self.ring is not None:
            self.ring.close()
            self.ring = None
            self.alive = self._closed = False
