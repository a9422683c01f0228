"""A file that never makes its writer wait.

Bytes are queued and written by a thread of its own, in order, and brought to the disk (fsync) on a slower timer. When
the disk is full or gone they are kept, and tried again: what was queued is lost only if the process ends first. How
much waits has a bound; the writer asks for `room` before it makes more, and counts what it had to drop.
"""

import contextlib
import os
import threading
from collections import deque
from pathlib import Path

from sync.clock import now_ns

_RETRY_S = 0.5


class Sink:
    """Write-only; `write`, `tell` and `flush` are those of a file."""

    def __init__(self, path: Path, most_bytes: int, fsync_s: float):
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._most = most_bytes
        self._fsync_ns = round(fsync_s * 1e9)
        self._queue: deque[bytes] = deque()
        self._news = threading.Condition()
        self._closing = False
        self.accepted = 0  # bytes
        self.written = 0
        self.error: str | None = None  # why nothing can be written at the moment
        self.worst_write_ns = 0
        self._thread = threading.Thread(target=self._drain, name="sink", daemon=True)
        self._thread.start()

    # ---- the side of the writer

    @property
    def room(self) -> bool:
        return self.accepted - self.written < self._most

    def write(self, data: bytes) -> int:
        with self._news:
            self._queue.append(bytes(data))
            self.accepted += len(data)
            self._news.notify()
        return len(data)

    def tell(self) -> int:
        return self.accepted

    def flush(self) -> None:
        """Nothing to do: whatever was given is written as soon as it can be."""

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what is left, as long as that works; True if all of it reached the file."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(timeout_s)
        return self.written == self.accepted and self.error is None

    # ---- the side of the disk

    def _drain(self) -> None:
        synced_ns, synced = now_ns(), 0
        while True:
            with self._news:
                if not self._queue and not self._closing:
                    self._news.wait(_RETRY_S)
                parts = list(self._queue)
                self._queue.clear()
                closing = self._closing
            begun = now_ns()
            left = self._put(b"".join(parts))
            if left:
                with self._news:
                    self._queue.appendleft(left)
                    if closing:
                        break  # no second try: the process wants to end
                    self._news.wait(_RETRY_S)
                continue
            if parts:
                self.worst_write_ns = max(self.worst_write_ns, now_ns() - begun)
            if self.written > synced and (closing or now_ns() - synced_ns > self._fsync_ns):
                try:
                    os.fsync(self._fd)
                    synced_ns, synced = now_ns(), self.written
                except OSError as error:
                    self.error = error.strerror
            if closing and not self._queue:
                break
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _put(self, data: bytes) -> bytes:
        """Write; returns what could not be written."""
        view = memoryview(data)
        while view:
            try:
                done = os.write(self._fd, view)
            except OSError as error:
                self.error = error.strerror or str(error)
                return bytes(view)
            self.written += done
            view = view[done:]
        if data:
            self.error = None
        return b""
