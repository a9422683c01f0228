"""Sources: where scans come from. Each is one file here, behind the one protocol below.

A source delivers whole scans, oldest first, as raw register readings: a row a scan, a column a channel of the
configuration, int64. It never splits a scan, never invents one, and says how many it knows to be lost.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sync.config import Config, check
from sync.errors import ConfigError
from sync.ring import RingReader

SOURCES = {"virtual": "daq_service.sources.virtual", "replay": "daq_service.sources.replay"}

# The simulator's output, where it can be had: what a driver in the loop sees. None while there is none.
Feedback = Callable[[], RingReader | None]


class Source(Protocol):
    """And, if it has them: `unwrapped` = True, its counters are running counts already; `seconds`, when it ends."""

    def start(self) -> None:
        """Begin sampling. Nothing is sampled before."""

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        """Take all whole scans there are, at most `len(scans)`; wait at most `wait_ns` for the first.

        Fills `scans` and the sample instants `t_ns`. Returns (how many, how many were lost just before them). No scan
        at all is a normal answer. Lost scans are a gap: what follows is not the continuation of what came before.
        """

    def stop(self) -> None:
        """End sampling and let go of the device. May be called twice."""


def open_source(config: Config, file: Path, feedback: Feedback) -> Source:
    """The source that `[source]` names, with the rest of that table as the source itself understands it."""
    kind = config.source.get("kind")
    if kind not in list(SOURCES):
        raise ConfigError(f"{file}: source.kind = {kind!r}: must be one of {', '.join(SOURCES)}")
    module: Any = importlib.import_module(SOURCES[kind])
    settings = check(module.Settings, config.source, str(file), "source")
    source: Source = module.open_source(config, settings, file, feedback)
    return source
