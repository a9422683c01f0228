"""Which old records are deleted so that the disk has room for new ones.

Nothing is deleted unless the configuration asks for it (`record.keep_gb`, `record.keep_free_gb`). Then the oldest go
first: with `record.delete_runs` older runs of the same name in the same folder, each as a whole; then the first parts
of the run itself. Its newest two parts stay, whatever the limits are, and so does a run that is still being written.

The start of the next part states what is deleted, and is on the disk before anything is deleted: a record never lacks
parts without saying so.
"""

import contextlib
import fcntl
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from sync.files.private import sync_folder
from sync.record.heads import name_of
from sync.record.writer import parts

NEWEST = 2  # parts that stay


@dataclass(frozen=True)
class Limits:
    keep_bytes: int = 0  # of records; 0: no limit
    free_bytes: int = 0  # of the disk; 0: no limit
    runs: bool = False

    @property
    def any(self) -> bool:
        return bool(self.keep_bytes or self.free_bytes)


@dataclass
class Deletion:
    """What is to be deleted."""

    runs: list[Path] = field(default_factory=list)
    upto: int = 0  # parts of this run up to this number
    files: list[Path] = field(default_factory=list)
    bytes: int = 0
    own_bytes: int = 0  # those of them in parts of this run
    short: int = 0  # bytes that would still have to be deleted, but nothing more may be

    def __bool__(self) -> bool:
        return bool(self.runs or self.files)


def free_bytes(folder: Path) -> int:
    """Raises OSError."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def plan(folder: Path, name: str, limits: Limits, free: int, deleted: int = 0) -> Deletion:
    """What has to be deleted before the next part of the run in `folder`, whose parts up to `deleted` are deleted
    already or about to be; raises OSError."""
    found = Deletion()
    if not limits.any:
        return found
    own = {number: (path, path.stat().st_size) for number, path in parts(folder).items() if number > deleted}
    before = [(run, _size(run)) for run in older_runs(folder, name)] if limits.runs else []
    total = sum(size for _, size in own.values()) + sum(size for _, size in before)
    coming = max((size for _, size in own.values()), default=0)  # the next part
    found.short = max(
        total + coming - limits.keep_bytes if limits.keep_bytes else 0,
        limits.free_bytes - free if limits.free_bytes else 0,
        0,
    )
    for run, size in before:
        if found.short <= 0:
            break
        found.runs.append(run)
        found.bytes, found.short = found.bytes + size, found.short - size
    for number in sorted(own)[:-NEWEST]:
        if found.short <= 0:
            break
        path, size = own[number]
        found.files.append(path)
        found.own_bytes += size
        found.upto = number
        found.bytes, found.short = found.bytes + size, found.short - size
    found.short = max(found.short, 0)
    return found


def older_runs(folder: Path, name: str) -> list[Path]:
    """Runs of this name beside this one that began before it and are no longer being written, the oldest first.

    The name is the one that their parts state: `rig-2` may be the second run of `rig`, or a run of that name. A folder
    without a readable part does not count as a run.
    """
    form = re.compile(rf"\d{{8}}T\d{{6}}Z-{re.escape(name)}(-\d+)?")
    beside = sorted(run for run in folder.parent.iterdir() if form.fullmatch(run.name) and run.name < folder.name)
    return [run for run in beside if run.is_dir() and not run.is_symlink() and _named(run, name) and not in_use(run)]


def _named(run: Path, name: str) -> bool:
    found = parts(run)
    return bool(found) and name_of(found[max(found)]) == name


def in_use(run: Path) -> bool:
    """Whether a run is still written: its writer holds a shared lock on its file (sync/record/sink.py)."""
    for path in parts(run).values():
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return True  # not ours to delete
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
    return False


def _size(run: Path) -> int:
    return sum(path.stat().st_size for path in run.rglob("*") if path.is_file() and not path.is_symlink())


def delete(deletion: Deletion) -> list[str]:
    """Delete all of it; returns a sentence for each file or run that could not be deleted."""
    failed = []
    for run in deletion.runs:
        try:
            shutil.rmtree(run)
        except OSError as error:
            failed.append(f"{run}: cannot be deleted: {error.strerror}")
    for path in deletion.files:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            failed.append(f"{path}: cannot be deleted: {error.strerror}")
    for folder in {path.parent for path in (*deletion.runs, *deletion.files)}:
        with contextlib.suppress(OSError):
            sync_folder(folder)
    return failed
