"""Whether the file being written can still be found under its name."""

import contextlib
import threading
from pathlib import Path

from sync.record.retention import free_bytes

_PRESENCE_S = 0.5  # between two looks for the file


class Presence(threading.Thread):
    """Watches, in a thread of its own because a disk may hang, whether the file being written can still be found under
    its name: one that was deleted takes every byte, and can never be read."""

    def __init__(self, path: Path, measures: bool = False):
        """`measures`: also how much room the disk has."""
        super().__init__(name="presence", daemon=True)
        self._file = path, self._identity(path)
        self._measures = measures
        self._end = threading.Event()
        self.missing: str | None = None
        self.free: int | None = None  # bytes

    def watch(self, path: Path) -> None:
        """Another file from now on."""
        self._file = path, self._identity(path)

    @staticmethod
    def _identity(path: Path) -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def look(self) -> str | None:
        """What is wrong, once something is: a file that was put back by hand lacks what came meanwhile."""
        path, own = self._file
        if self.missing is None and self._identity(path) != own and self._file == (path, own):
            self.missing = f"{path} was deleted or moved during the run"
        if self._measures:
            with contextlib.suppress(OSError):
                self.free = free_bytes(path.parent)
        return self.missing

    def run(self) -> None:
        while self.look() is None and not self._end.wait(_PRESENCE_S):
            pass

    def close(self) -> None:
        self._end.set()
