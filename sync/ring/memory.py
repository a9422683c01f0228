"""Refuse what does not fit into memory before it is made. The pages of a ring are allocated at once, and /dev/shm may
promise more than there is; so may the system for an array that is filled later."""

import contextlib
import re
from pathlib import Path

from sync.errors import ConfigError
from sync.ring.block import Layout
from sync.ring.ring import SHM, _geometry

# bytes of a ring: over an hour of steps of 5 ms; touching more before the first step takes many seconds
_MOST = 1 << 30
_SHARE = 4  # and at most this part of the memory that is available
_MEMORY = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Memory that is available without swapping; None if the system does not say."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMORY.read_text(), re.MULTILINE)
    except OSError:
        return None
    return 1024 * int(found[1]) if found else None


def refuse_too_many(what: str, count: int, each_bytes: int) -> None:
    """Raises ConfigError if `count` pieces of `each_bytes` take more memory than is available."""
    free = available_bytes()
    if free is not None and count * each_bytes > free:
        raise ConfigError(
            f"{what} = {count}: {count * each_bytes / 1e6:.0f} MB of memory, {each_bytes} bytes each, and"
            f" {free / 1e6:.0f} MB are available"
        )


def refuse_too_large(file: object, key: str, ring: str, layout: Layout, blocks: int) -> None:
    """Raises ConfigError for a ring of more than a gigabyte, or a quarter of the memory available. A ring that
    exists already, left by a crashed process for the next one to adopt, has its memory."""
    block = 8 * _geometry(layout)[0]
    with contextlib.suppress(OSError):
        if (SHM / ring).stat().st_size >= blocks * block:
            return
    free = available_bytes()
    allowed = _MOST if free is None else min(_MOST, free // _SHARE)
    if blocks * block > allowed:
        most = 1 << ((allowed // block).bit_length() - 1) if allowed >= block else 0
        raise ConfigError(
            f"{file}: {key} = {blocks}: that is {blocks * block / 1e6:.0f} MB of memory, at {block} bytes a block; at"
            f" most {most} on this machine"
        )
