"""Compiled code: one decorator, one cache that cannot go stale, one compiler at a time.

Promises
- `kernel` makes a nopython function that holds no GIL and is cached on disk. Entry points give it an explicit
  signature, so they are compiled (or loaded) when their module is imported and never inside a run.
- numba invalidates a cached function when its own file changes, but not when a function it inlines from another
  file does. The cache directory is therefore named after the contents of every package that others inline from:
  any edit there starts a fresh one, and directories of sources long gone are swept away.
- Processes that started together do not compile together: `compiling` is a lock between them.
- What is in the cache is run. It is made for its owner alone, and one that others could have written to is refused.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sync.errors import ConfigError

_PACKAGES = ("daq_service", "sim_service", "sync")
_NEVER_COMPILED = ("view",)  # folders without kernels
_KEEP_S = 7 * 24 * 3600
_OTHERS_WRITE = 0o022


def _fingerprint() -> str:
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if path.parent.name in _NEVER_COMPILED:
                continue
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_directory() -> Path:
    base = os.environ.get("TANDEM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tandem"
    )
    return Path(base) / "numba" / _fingerprint()


CACHE = _cache_directory()
os.environ["NUMBA_CACHE_DIR"] = str(CACHE)
# matrices are small here; threads for them would only spin beside the loop
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numba  # noqa: E402  (reads NUMBA_CACHE_DIR when it is imported)

numba.config.CACHE_DIR = str(CACHE)


@functools.cache
def _own() -> None:
    """Make the folder of the cache, or look whose it is; once, before anything is taken from it."""
    for folder in (CACHE.parents[1], CACHE.parent, CACHE):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            told = folder.stat()
        except OSError:
            return  # nothing can be kept there, so nothing is; numba says it
        if told.st_uid not in (os.geteuid(), 0):
            wrong, right = "belongs to another user", ""
        elif told.st_mode & _OTHERS_WRITE and not told.st_mode & stat.S_ISVTX:
            wrong, right = "others may write it", "empty it and chmod 700 it, or "
        else:
            continue
        raise ConfigError(
            f"{folder}: {wrong}, and compiled code is run from there; {right}set TANDEM_CACHE to a folder of your own"
        )


def kernel(signature: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba.njit with the options every hot function of ours has."""
    _own()
    options = {"cache": True, "nogil": True, **options}
    decorator: Callable[[Callable[..., Any]], Any]
    decorator = numba.njit(**options) if signature is None else numba.njit(signature, **options)
    return decorator


@contextlib.contextmanager
def compiling(what: str) -> Iterator[None]:
    """Import modules with kernels inside: alone while `what` is not in the cache yet, beside others once it is."""
    _own()
    CACHE.mkdir(parents=True, exist_ok=True)
    os.utime(CACHE)
    cached = CACHE / f"{what}.cached"
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if cached.exists() else fcntl.LOCK_EX)
        _sweep()
        yield
        cached.touch()


def _sweep() -> None:
    """Remove caches of sources nobody has run for a week (time of day is right here: it is about files)."""
    for old in CACHE.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process sweeps too
            if old.is_dir() and old != CACHE and time.time() - old.stat().st_mtime > _KEEP_S:  # noqa: TID251
                shutil.rmtree(old, ignore_errors=True)
