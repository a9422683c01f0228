"""How long nothing has happened where something is awaited: silence is bounded, not duration.

A start that compiles takes as long as the machine is busy with others. What was compiled last shows in the folder of
compiled code, whichever process does it: one compiles, others wait for it.
"""

import os
from collections.abc import Callable, Hashable

from sync.clock import now_ns
from sync.compile.dependencies import cache_directory

_LOOKS = 20  # at signs, within the limit


def compiled_so_far() -> tuple[int, int]:
    """Differs from what it was as soon as something more is compiled, by any process of this user."""
    count = newest = 0
    try:
        with os.scandir(cache_directory()) as entries:
            for entry in entries:
                try:
                    newest = max(newest, entry.stat().st_mtime_ns)
                except OSError:
                    continue  # it was swept away meanwhile
                count += 1
    except OSError:
        pass  # not there yet
    return count, newest


class Silence:
    """Begins now, and again whenever `signs` change."""

    def __init__(
        self, limit_s: float, signs: Callable[[], Hashable] = compiled_so_far, clock_ns: Callable[[], int] = now_ns
    ):
        self._limit_ns, self._signs, self._clock_ns = int(1e9 * limit_s), signs, clock_ns
        self._seen = signs()
        self._since = self._looked = clock_ns()

    @property
    def too_long(self) -> bool:
        now = self._clock_ns()
        if now - self._looked > self._limit_ns // _LOOKS:
            self._looked = now
            if (found := self._signs()) != self._seen:
                self._seen, self._since = found, now
        return now - self._since > self._limit_ns
