"""Scans at a fixed rate from values that come when they like: frames off a bus, axes of a game wheel.

Each channel holds its newest reading and the instant it was read. A scan is due every period, and has of every channel
the last reading at or before its own instant, with its age where the configuration has a channel for it. Nothing is
invented: before every channel has been read once there are no scans. After `lose` (the device is gone) there are none
until every channel has been read anew; what would have been due in between is lost, and counted.
"""

from collections import deque

import numpy as np

from sync.block import AGE
from sync.clock import now_ns, sleep_until
from sync.config import Config

_NEVER = 2**62
_OLDEST_US = 2**32 - 1


class Held:
    """Not for several threads."""

    def __init__(self, config: Config, buffer_blocks: int):
        names = [c.name for c in config.daq.channels]
        self.names = tuple(n for n in names if not n.endswith(AGE))  # to be read, in the order of the columns
        self._columns = [names.index(n) for n in self.names]
        self._age_columns = [names.index(n + AGE) if n + AGE in names else -1 for n in self.names]
        self._period, self._buffer = config.period_ns, buffer_blocks
        self._news: deque[tuple[int, int, int]] = deque()  # readings not applied yet: instant, channel, value
        self.stop()

    def start(self) -> None:
        self.stop()
        self._earliest = now_ns()

    def stop(self) -> None:
        self._earliest = _NEVER  # readings from before are not ours
        self._due = _NEVER
        self._delivered = False  # a scan, since the start
        self._lost_later = 0  # known to be lost, told with the next scan
        self._forget()

    def _forget(self) -> None:
        self._news.clear()
        self._values = [0] * len(self.names)
        self._instants = [-_NEVER] * len(self.names)
        self._unread = set(range(len(self.names)))

    def lose(self) -> None:
        """The device is gone: what comes after is not the continuation of what came before."""
        self._forget()

    def note(self, channel: int, t_ns: int, value: int) -> None:
        """A reading of channel `names[channel]` at this instant, which may lie a little back, never ahead."""
        if t_ns >= self._earliest:
            self._news.append((t_ns, channel, value))

    def age_ns(self, channel: int, now: int) -> int:
        """How old the newest reading is; the whole time since the start if there is none."""
        newest = max((t for t, c, _ in self._news if c == channel), default=self._instants[channel])
        since: int = max(newest, min(self._earliest, now))
        return now - since

    def wait(self, wait_ns: int) -> None:
        """Until the next scan is due, but no longer than asked; a moment only while nothing is known."""
        now = now_ns()
        until = self._due if self._due < _NEVER and not self._unread else now + self._period
        sleep_until(min(until, now + wait_ns))

    def take(self, scans: np.ndarray, t_ns: np.ndarray) -> tuple[int, int]:
        """See Source.read; does not wait."""
        now = now_ns()
        lost = 0
        if self._unread:
            while self._news and self._unread:
                self._apply(*self._news.popleft())
            if self._unread:
                return 0, 0
            # the first instant by which everything has been read, on the old beat if there is one; else the first is
            # due a period after the start
            known = max(self._instants)
            if not self._delivered:
                self._due = max(known, self._earliest + self._period)
            elif known > self._due:
                lost = max(-(-(known - self._due) // self._period), 1)
                self._due += lost * self._period
            else:
                lost = 1  # gone and back within a period: a gap all the same
                self._due += self._period
        if now < self._due:
            self._lost_later += lost
            return 0, 0
        waiting = (now - self._due) // self._period + 1
        over = max(waiting - self._buffer, 0)
        self._due += over * self._period
        count = min(waiting - over, len(scans))
        for row in range(count):
            t = self._due
            self._due += self._period
            while self._news and self._news[0][0] <= t:
                self._apply(*self._news.popleft())
            t_ns[row] = t
            for value, instant, column, age in zip(
                self._values, self._instants, self._columns, self._age_columns, strict=True
            ):
                scans[row, column] = value
                if age >= 0:
                    scans[row, age] = min((t - instant) // 1000, _OLDEST_US)
        lost += over + self._lost_later
        self._lost_later = 0
        self._delivered = True
        return count, lost

    def _apply(self, t: int, channel: int, value: int) -> None:
        self._values[channel], self._instants[channel] = value, t
        self._unread.discard(channel)
