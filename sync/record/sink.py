"""A file that never makes its writer wait.

Bytes are queued and written by a thread of its own, in order, and brought to the disk (fsync) on a slower timer. When
the disk is full or gone they are kept, and tried again: what was queued is lost only if the process ends first. How
much waits has a bound; the writer checks `has_space` before it makes more, and counts what it had to drop.

A tail, such as an index, may follow what is written; the next write overwrites it. It is written in one call with the
bytes before it, only the last of several is written, and a disk without space for it delays nothing.

The name of the file is brought to the disk with its first bytes: what was synced can be found after a power cut. A sync
that fails is never forgotten. The kernel reports it once and may drop what it could not write; a later sync succeeds
without it. So `sync_failure` keeps the stretch that may be missing, and the file never again counts as complete.
"""

import contextlib
import errno
import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sync.clock import now_ns
from sync.files.private import FILE_MODE, sync_folder
from sync.process.threads import joined

_RETRY_S = 0.5
_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)  # this file system cannot sync a folder


@dataclass(frozen=True)
class SyncFailure:
    """What was written between these instants may be missing after a power cut, or already."""

    file: str
    why: str
    first_ns: int
    last_ns: int

    def sentence(self, begun_ns: int) -> str:
        first, last = ((at - begun_ns) * 1e-9 for at in (self.first_ns, self.last_ns))
        return f"{self.file}: the disk failed ({self.why}): what came from {first:.1f} s to {last:.1f} s may be missing"


class Sink:
    """Write-only; `write`, `tell` and `flush` are those of a file."""

    def __init__(self, path: Path, most_bytes: int, fsync_s: float, behind: "Sink | None" = None):
        """`behind`: another file that is still being ended; what waits for it counts as well."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        found = os.fstat(self._fd)
        self.identity = found.st_dev, found.st_ino
        with contextlib.suppress(OSError):  # so that a deletion of old records can see that this one is in use
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._path = path
        self._most = most_bytes
        self._fsync_ns = round(fsync_s * 1e9)
        self._behind = behind
        self._queue: deque[bytes] = deque()
        self._tail: Callable[[], bytes] = bytes  # of the last in the queue
        self.size = 0  # of the file, its tail included
        self.truncated: str | None = None  # by another program: what is written behind that leaves a hole
        self._news = threading.Condition()
        self._ending = self._closing = False
        self._named = False  # its entry in the folder is on the disk
        self._synced_ns, self._tried = now_ns(), 0
        self.accepted = 0  # bytes
        self.written = 0
        self.synced = 0
        self.error: str | None = None  # why nothing can be written at the moment
        self.sync_failure: SyncFailure | None = None
        self.worst_write_ns = 0
        self._thread = threading.Thread(target=self._drain, name="sink", daemon=True)
        self._thread.start()

    # ---- the side of the writer

    @property
    def pending(self) -> int:
        """Bytes that wait for the disk."""
        behind = self._behind
        return self.accepted - self.written + (behind.pending if behind is not None else 0)

    @property
    def has_space(self) -> bool:
        return self.pending < self._most

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def write(self, data: bytes) -> int:
        return self.write_with_tail(data, bytes)

    def write_with_tail(self, data: bytes, tail: Callable[[], bytes]) -> int:
        """`tail` returns what follows until more is written; the thread that writes calls it."""
        with self._news:
            self._queue.append(bytes(data))
            self._tail = tail
            self.accepted += len(data)
            self._news.notify()
        return len(data)

    def tell(self) -> int:
        return self.accepted

    def flush(self) -> None:
        """Nothing to do: bytes are written as soon as they can be."""

    def end(self) -> None:
        """Nothing more comes: write what is left, however long the disk needs, then sync and close. Does not wait."""
        with self._news:
            self._ending = True
            self._news.notify()

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what is left, as long as that works; True if all of it is on the disk."""
        with self._news:
            self._closing = True
            self._news.notify()
        joined(self._thread, timeout_s)
        return self.ended and self.written == self.accepted and self.error is None and self.sync_failure is None

    # ---- the side of the disk

    def _drain(self) -> None:
        while True:
            with self._news:
                if not self._queue and not (self._closing or self._ending):
                    self._news.wait(_RETRY_S)
                parts, tail = list(self._queue), self._tail
                self._queue.clear()
                closing, ending = self._closing, self._closing or self._ending
            begun = now_ns()
            left = self._put(b"".join(parts), tail()) if parts else b""
            if left:
                with self._news:
                    self._queue.appendleft(left)
                    if closing:
                        break  # no second try: the process wants to end
                    self._news.wait(_RETRY_S)
                continue
            if parts:
                self.worst_write_ns = max(self.worst_write_ns, now_ns() - begun)
            if self.written > self._tried and (ending or now_ns() - self._synced_ns > self._fsync_ns):
                self._sync()
            if ending and not self._queue:
                break
        if self._behind is not None and self._behind.ended:
            self._behind = None
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _sync(self) -> None:
        begun, upto = now_ns(), self.written
        try:
            os.fsync(self._fd)
            if not self._named:
                self._sync_name()
            self.synced = upto
        except OSError as error:
            first_ns = self.sync_failure.first_ns if self.sync_failure else self._synced_ns
            self.sync_failure = SyncFailure(self._path.name, error.strerror or str(error), first_ns, begun)
        self._synced_ns, self._tried = begun, upto
        if self._behind is not None and self._behind.ended:
            self._behind = None

    def _sync_name(self) -> None:
        try:
            sync_folder(self._path.parent)
        except OSError as error:
            if error.errno not in _NOT_FOR_FOLDERS:
                raise
        self._named = True

    def _check_for_truncation(self) -> None:
        """Before each write, after which the file is as long as before."""
        with contextlib.suppress(OSError):
            found = os.fstat(self._fd).st_size
            if found < self.size and self.truncated is None:
                self.truncated = f"{found} of {self.size} bytes were there"

    def _put(self, data: bytes, tail: bytes) -> bytes:
        """Write; returns what could not be written."""
        self._check_for_truncation()
        at, end, view = self.written, self.written + len(data), memoryview(data + tail)
        if at + len(view) < self.size:  # else the end of an old tail would stay
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, at)
                self.size = at
        while view:
            try:
                done = os.pwrite(self._fd, view, at)
            except OSError as error:
                if at >= end:
                    break  # in the tail, which the next write writes again
                self.error = error.strerror or str(error)
                return bytes(view[: end - at])
            at, view = at + done, view[done:]
            self.written, self.size = min(at, end), max(self.size, at)
        if data:
            self.error = None
        return b""
