"""Logs of a CAN bus (candump, .asc, .blf, .trc, ...), read by python-can within a budget: all frames, or those that a
source wants, which `Player` then plays instead of the bus.
"""

import copy
import gc
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sync.errors import ConfigError
from sync.files.limits import Budget, DecodedTooLarge
from sync.files.regular import open_regular

# what python-can reads, except .db, which is SQLite and may hold endless queries, and .gz, from which it unpacks any
# number of lines that are no frames
LOGS = (".asc", ".blf", ".csv", ".log", ".trc")
_BLF_SIZE = struct.Struct("<16xQ")  # of the whole file, in its header; 0 where its writer was killed
_LEAD_EVERY_NS = 10_000_000
_COST_OF_FRAME = 100  # the time that python-can takes for one, as bytes
_BYTES_OF_FRAME = 400  # of the object that it makes of one


class LogDamaged(ConfigError):
    """The rest of a log cannot be read."""


def frames(path: Path, key: str, budget: Budget | None = None) -> Iterator[Any]:
    """Every message of a log, in its order. Raises ConfigError, which begins with `key`; LogDamaged where some came
    before."""
    import can

    if not path.is_file():
        raise ConfigError(f"{key}: {path}: no such file")
    if path.suffix.lower() not in LOGS:
        unpack = "; unpack it first" * (path.suffix.lower() == ".gz")
        raise ConfigError(f"{key}: {path}: cannot be read: must be one of {', '.join(LOGS)}{unpack}")
    if path.stat().st_size == 0:
        raise ConfigError(f"{key}: {path}: is empty")
    budget = budget or Budget(path, path.stat().st_size)
    why: str | None = None
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # python-can leaves a file open that it cannot read
        try:
            with budget.enforced("its frames"), can.LogReader(str(path)) as log:
                for message in log:
                    budget.take(_COST_OF_FRAME, "its frames")
                    count += 1
                    yield message
        except DecodedTooLarge as error:
            raise ConfigError(f"{key}: {error}") from None
        except (struct.error, ValueError, IndexError) as error:  # from parsers that trust what they read
            why = f"what follows is none, or cut short ({' '.join(str(error).split()) or type(error).__name__})"
        except Exception as error:  # every format has its own
            why = " ".join(str(error).split()) or type(error).__name__
        if why is None:
            why = _cut(path)
        if why is not None:
            gc.collect()
            if count:
                raise LogDamaged(f"{key}: {path}: cannot be read beyond its frame {count}: {why}")
            raise ConfigError(f"{key}: {path}: cannot be read: {why}")


def _cut(path: Path) -> str | None:
    """Why a BLF file is cut, if it is shorter than its header says: python-can reads up to its end without a word."""
    if path.suffix.lower() != ".blf":
        return None
    with open_regular(path) as file:
        head = file.read(_BLF_SIZE.size)
    stated, size = _BLF_SIZE.unpack(head)[0] if len(head) == _BLF_SIZE.size else 0, path.stat().st_size
    return f"it says that it has {stated} bytes, and has {size}: it was cut short" if stated > size else None


def read_log(path: Path, ids: Iterable[tuple[int, bool]], channel: str | int | None, key: str) -> list[Any]:
    """The frames of a log that we want, by their time."""
    wanted, channels, found = set(ids), set(), []
    budget = Budget(path, path.stat().st_size) if path.is_file() else None
    for message in frames(path, key, budget):
        channels.add(message.channel)
        if (message.arbitration_id, message.is_extended_id) in wanted:
            assert budget is not None
            try:
                budget.take(_BYTES_OF_FRAME, "its frames")
            except DecodedTooLarge as error:
                raise ConfigError(f"{key}: {error}") from None
            found.append(message)
    if channel is not None and len(channels) > 1:  # a single bus is taken, whatever its name
        found = [message for message in found if message.channel == channel]
    if not found:
        has = ", ".join(sorted(map(repr, channels))) or "no frames at all"
        raise ConfigError(f"{key}: {path}: has none of our frames; source.channel = {channel!r}, the log has {has}")
    return sorted(found, key=lambda message: float(message.timestamp))


class Player:
    """Plays the frames of a log in the time in which they were recorded; to the source it looks like a bus.

    They are stamped with the seconds of the monotonic clock. A simulator takes some blocks to find their rhythm: for
    `lead_ns` before the log begins, the first frame of each id is sent again and again, so that none of the log is
    before the first step.
    """

    def __init__(self, log: list[Any], now_ns: Callable[[], int], lead_ns: int = 0):
        first = {(m.arbitration_id, m.is_extended_id): m for m in reversed(log)}.values()
        self._frames = [(t, m) for t in range(0, lead_ns, _LEAD_EVERY_NS) for m in first]
        self._frames += [(lead_ns + round((m.timestamp - log[0].timestamp) * 1e9), m) for m in log]
        self._now, self._next = now_ns, 0
        self._start: int | None = None  # when it was first read

    def recv(self, _: float) -> Any:
        now = self._now()
        if self._start is None:
            self._start = now
        if self._next >= len(self._frames):
            return None
        after, logged = self._frames[self._next]
        due = self._start + after
        if due > now:
            return None
        self._next += 1
        message = copy.copy(logged)
        message.timestamp = due * 1e-9
        return message

    def shutdown(self) -> None:
        pass
