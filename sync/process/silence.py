"""How long nothing has happened while something is awaited: the limit is on silence, not on the whole duration.

A start that compiles takes longer on a busy machine. The folder of compiled code shows what was compiled last,
whichever process does it: one compiles, others wait for it.
"""

import os
from collections.abc import Callable, Hashable

from sync.clock import now_ns
from sync.compile.dependencies import cache_directory

_POLLS = 20  # checks of the signs within the limit


def compiled_so_far() -> tuple[int, int]:
    """Changes as soon as any process of this user has compiled something more."""
    count = newest = 0
    try:
        with os.scandir(cache_directory()) as entries:
            for entry in entries:
                try:
                    newest = max(newest, entry.stat().st_mtime_ns)
                except OSError:
                    continue  # it was deleted meanwhile
                count += 1
    except OSError:
        pass  # not there yet
    return count, newest


class Silence:
    """A silence that begins now, and again whenever `signs` change."""

    def __init__(
        self, limit_s: float, signs: Callable[[], Hashable] = compiled_so_far, clock_ns: Callable[[], int] = now_ns
    ):
        self._limit_ns, self._signs, self._clock_ns = int(1e9 * limit_s), signs, clock_ns
        self._seen = signs()
        self._since = self._polled_ns = clock_ns()

    @property
    def too_long(self) -> bool:
        now = self._clock_ns()
        if now - self._polled_ns > self._limit_ns // _POLLS:
            self._polled_ns = now
            if (found := self._signs()) != self._seen:
                self._seen, self._since = found, now
        return now - self._since > self._limit_ns
