"""Files of generated systems beside the compiled kernels.

A file is sealed: it begins with a digest of its key and contents. One that was damaged, cut short or put there under
another name is one that is not there: LLVM ends the process when it is given an object file that is none. Files are
written whole or not at all, are their owner's alone, and are removed when they have not been read for a week; of very
many, those that were not read for longest.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from sync.compile import dependencies
from sync.files.private import rewrite

KEEP_S = 7 * 24 * 3600
USED_S = 24 * 3600
MOST_FILES = 1000
_LOCKS = 16


def folder() -> Path:
    dependencies.own_cache()
    out = dependencies.cache_directory() / "relative"
    dependencies.own_folder(out)
    with contextlib.suppress(OSError):
        os.utime(out)  # one that is used is not swept away as a whole (sync/compile/jit.py)
    return out


def _seal(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + data).digest()


def read(path: Path, key: str) -> bytes | None:
    """The contents of a file, if it is all there and nothing else."""
    try:
        found = path.read_bytes()
        if _age_s(path) > USED_S:
            os.utime(path)
    except OSError:
        return None
    size = hashlib.sha256().digest_size
    return found[size:] if found[:size] == _seal(key, found[size:]) else None


def write(path: Path, key: str, data: bytes) -> None:
    """Another process may be reading, or writing the same. A disk that is full is no reason to stop: it is said."""
    try:
        rewrite(path, _seal(key, data) + data)
    except OSError as error:
        dependencies.report_unstored(path.parent, error)
    sweep(path.parent)


def sweep(folder: Path) -> None:
    """Remove what has not been read for long, and the oldest of too many."""
    ages: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process sweeps too
            if path.is_file() and not path.name.startswith("lock"):
                ages.append((_age_s(path), path))
    ages.sort()
    for k, (age, path) in enumerate(ages):
        if age > KEEP_S or k >= MOST_FILES:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(folder: Path, key: str) -> Iterator[None]:
    """One process makes what has this key; others wait for it. Some keys share a lock."""
    with dependencies.alone(folder / f"lock{int(key, 16) % _LOCKS}"):
        yield


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime  # noqa: TID251  (time of day is right here: it is about files)
