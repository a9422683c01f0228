"""Watching from outside: a spinning reader that measures, and the fate of another service's ring."""

import contextlib

import numpy as np
from numba import int64

from sync.array_types import READ_ONLY, WORDS, WORDS_2D
from sync.atomics import load_acquire, load_relaxed
from sync.block import PUSHED
from sync.clock import now_ns, sleep_until
from sync.errors import RingError
from sync.jit import kernel
from sync.ledger import record
from sync.ring import HEAD_WORD, LIVE, STATE_WORD, RingReader, read_slot

SEEN_POSITION, SEEN_NS = range(2)


@kernel(int64(READ_ONLY, WORDS, WORDS, WORDS, int64, WORDS_2D))
def watch(ring, stop, block, transfer, rest_ns, log):
    """Spin until the next push is seen, record how long after its push it could be read, rest, and again.

    Ends with `stop[0]`, or when the ring is closed. With `rest_ns` 0 every push is waited for. Rows of `log`, as far as
    they go, get (position, when it could be read). Returns how many were seen.
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
    """The other service on this host, known by its ring: the kernel tells for certain whether its writer lives."""

    def __init__(self, title: str, ring: str):
        self.title = title
        self._name = ring
        self._pid = 0
        self._ring: RingReader | None = None

    @property
    def ring(self) -> RingReader | None:
        return self._ring

    def poll(self) -> str | None:
        """A sentence when something has changed, else None."""
        if self._ring is None:
            with contextlib.suppress(RingError):
                self._ring = RingReader(self._name)
                if not self._ring.writer_alive:
                    self._forget()
                    return None
                self._pid = self._ring.writer_pid
                return f"{self.title} is there (pid {self._pid})"
            return None
        if self._ring.writer_alive:
            if self._ring.writer_pid == self._pid:
                return None
            gone, self._pid = self._pid, self._ring.writer_pid
            return f"{self.title} (pid {gone}) has died; another has taken its place (pid {self._pid})"
        said = f"{self.title} has ended" if self._ring.closed else f"{self.title} (pid {self._pid}) has died"
        self._forget()
        return said

    def _forget(self) -> None:
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def close(self) -> None:
        self._forget()
