"""Whether every part of the record is still there: the same file under its name, at least as long as was written."""

import contextlib
import os
import threading
from pathlib import Path

from sync.record import Sink
from sync.record.retention import free_bytes

_PRESENCE_S = 0.5  # between two checks of the files


class Presence(threading.Thread):
    """Watches in a thread of its own, because a disk may hang. A deleted file still takes every byte, but can never be
    read; a truncated file has lost what came before."""

    def __init__(self, folder: Path, measures: bool = False):
        """`measures`: also measure how much room the disk has."""
        super().__init__(name="presence", daemon=True)
        self._folder, self._measures = folder, measures
        self._parts: dict[Path, Sink | os.stat_result | None] = {}  # None: it was not there from the beginning
        self._end = threading.Event()
        self.missing: str | None = None
        self.free: int | None = None  # bytes

    def watch(self, path: Path, sink: Sink | None = None) -> None:
        """Watch a part from now on. `sink` writes it; without one it was written before."""
        with contextlib.suppress(FileNotFoundError):
            self._parts = {path: sink or path.lstat(), **self._parts}  # the newest first
            return
        self._parts = {path: None, **self._parts}

    def forget(self, path: Path) -> None:
        """Stop watching a part that is about to be deleted."""
        self._parts = {other: file for other, file in self._parts.items() if other != path}

    def check(self) -> str | None:
        """What is wrong, and it stays so: a file that was put back by hand lacks what came meanwhile."""
        for path, file in self._parts.items():
            if self.missing is None and (wrong := _wrong_with(path, file)) and path in self._parts:
                self.missing = f"{path} {wrong}"
        if self._measures:
            with contextlib.suppress(OSError):
                self.free = free_bytes(self._folder)
        return self.missing

    def run(self) -> None:
        while self.check() is None and not self._end.wait(_PRESENCE_S):
            pass

    def close(self) -> None:
        self._end.set()


def _wrong_with(path: Path, file: Sink | os.stat_result | None) -> str | None:
    own, least = None, 0
    if isinstance(file, Sink):
        if file.truncated:
            return f"was truncated during the run: {file.truncated}"
        own, least = file.identity, file.size if file.ended else file.written  # before the file is looked at: it grows
    elif file is not None:
        own, least = (file.st_dev, file.st_ino), file.st_size
    try:
        found = path.lstat()
    except OSError:
        return "was deleted or moved during the run"
    if (found.st_dev, found.st_ino) != own:
        return "was replaced by another file during the run"
    if found.st_size < least:
        return f"was truncated during the run: {found.st_size} of {least} bytes are there"
    return None
