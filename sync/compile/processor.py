"""This host's processor, for the name of the folder that has code compiled for it. Standard library only."""

import functools
import hashlib
import os
from pathlib import Path

_NAMES = ("model name", "CPU implementer", "CPU part", "CPU variant")
_CHOSEN = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")  # another processor to compile for


@functools.cache
def _lines() -> dict[str, str]:
    """What the system says of the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def flags() -> frozenset[str]:
    """What it can do, in the words of /proc/cpuinfo."""
    found = _lines()
    return frozenset((found.get("flags") or found.get("Features") or "").split())


@functools.cache
def name() -> str:
    """The same for processors that run the same code: a home folder may be shared by several."""
    found = _lines()
    parts = [os.uname().machine, *(found.get(each, "") for each in _NAMES), *sorted(flags())]
    return hashlib.sha256("\n".join([*parts, *(os.environ.get(each, "") for each in _CHOSEN)]).encode()).hexdigest()[:8]
