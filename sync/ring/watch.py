"""Watch rings from outside: a spinning reader that measures transfer times; whether another service runs."""

import numpy as np
from numba import int64

from sync.clock import now_ns, sleep_until
from sync.compile.array_types import READ_ONLY, WORDS, WORDS_2D
from sync.compile.atomics import load_acquire, load_relaxed
from sync.compile.jit import kernel
from sync.ring.block import PUSHED
from sync.ring.follower import Change, RingFollower
from sync.ring.ledger import record
from sync.ring.ring import HEAD_WORD, LIVE, STATE_WORD, RingReader, read_slot

SEEN_POSITION, SEEN_NS = range(2)


@kernel(int64(READ_ONLY, WORDS, WORDS, WORDS, int64, WORDS_2D))
def watch(ring, stop, block, transfer, rest_ns, log):
    """Spin until a push is seen, record how long after it the block could be read, rest for `rest_ns`, repeat.

    Ends when `stop[0]` is set or the ring is closed. With `rest_ns` 0 it waits for every push. Each block seen fills a
    row of `log` with (position, when it could be read), as long as there are rows. Returns how many were seen.
    """
    seen = 0
    position = load_acquire(ring, HEAD_WORD)
    while load_acquire(stop, 0) == 0:
        head = load_acquire(ring, HEAD_WORD)
        if head == position:
            if load_relaxed(ring, STATE_WORD) != LIVE:
                break
            continue
        if read_slot(ring, head - 1, block):
            now = now_ns()
            record(transfer, now - block[PUSHED])
            if seen < log.shape[0]:
                log[seen, SEEN_POSITION] = head - 1
                log[seen, SEEN_NS] = now
            seen += 1
        if rest_ns > 0:
            sleep_until(now_ns() + rest_ns)
        position = load_acquire(ring, HEAD_WORD) if rest_ns > 0 else head
    return seen


NO_LOG = np.zeros((0, 2), np.int64)


class Peer:
    """The other service on this host, known by its ring: the lock on it shows for certain whether its writer runs."""

    def __init__(self, title: str, ring: str):
        self.title = title
        self._follower = RingFollower(ring, living=True)
        self._pid = 0  # of its process; 0: there is none

    @property
    def ring(self) -> RingReader | None:
        """Its ring, as long as it lives."""
        return self._follower.ring if self._pid else None

    def poll(self) -> str | None:
        """A sentence when something has changed, else None."""
        change, before = self._follower.poll(), self._pid
        self._pid = self._follower.pid if self._follower.alive else 0
        if self._pid and not before:
            return f"{self.title} is there (pid {self._pid})"
        if change is Change.ADOPTED:
            return f"{self.title} (pid {before}) has crashed; another has taken its place (pid {self._pid})"
        if before and not self._pid:
            return f"{self.title} has ended" if change is Change.CLOSED else f"{self.title} (pid {before}) has crashed"
        return None

    def ended_at(self) -> int | None:
        """How many blocks were pushed into its ring in all, once its writer has ended; None while it runs."""
        self.poll()
        ring = self._follower.ring
        return None if self._pid else ring.head if ring is not None else 0

    def close(self) -> None:
        self._follower.close()
        self._pid = 0
