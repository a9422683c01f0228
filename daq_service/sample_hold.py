"""Scans at a fixed rate from values that come at any time: frames off a bus, axes of a game controller.

A scan is due every period from the start on. For every channel it has the last reading at or before its own instant, as
far as it was known when the scan was taken, and its age if the configuration has a channel for that. Readings may come
in any order; one that is older than the one its channel has already is not used. Nothing is invented: before every
channel has been read once there are no scans. After `lose` there are none until the lost channels have been read again;
scans that would have been due in between are lost, and counted.
"""

from bisect import insort_right

import numpy as np

from sync.clock import REAL, RealClock, VirtualClock
from sync.config.config import Config
from sync.ring.block import AGE

_NEVER = 2**62
_MOMENT_NS = 1_000_000
_OLDEST_US = 2**32 - 1

_Reading = tuple[int, int, int]  # instant, channel, value


def _instant(reading: _Reading) -> int:
    return reading[0]


class SampleHold:
    """For one thread."""

    def __init__(self, config: Config, buffer_blocks: int, clock: RealClock | VirtualClock = REAL):
        names = [c.name for c in config.daq.channels]
        self.names = tuple(n for n in names if not n.endswith(AGE))  # to be read, in the order of the columns
        self.aged = tuple(n + AGE in names for n in self.names)  # whether a scan holds this channel's age
        self._columns = [names.index(n) for n in self.names]
        self._age_columns = [names.index(n + AGE) if n + AGE in names else -1 for n in self.names]
        self._period, self._buffer = config.period_ns, buffer_blocks
        self._clock = clock
        self.stop()

    def start(self) -> None:
        self.stop()
        now = self._clock.now_ns()
        self._earliest = [now] * len(self.names)
        self._due = now + self._period

    def stop(self) -> None:
        channels = range(len(self.names))
        self._earliest = [_NEVER for _ in channels]  # earlier readings are not used
        self._due = _NEVER
        self._delivered = False  # a scan, since the start
        self._lost = 0  # known to be lost, reported with the next scan
        self._news: list[_Reading] = []  # not applied yet, by instant
        self._values = [0 for _ in channels]
        self._instants = [-_NEVER for _ in channels]  # of these values
        self._newest = [-_NEVER for _ in channels]  # of all readings so far
        self._unread = set(channels)

    def lose(self, channel: int | None = None) -> None:
        """The device is gone, or this channel is: what comes next does not continue what came before."""
        if self._due == _NEVER:
            return
        gone = set(range(len(self.names))) if channel is None else {channel}
        now = self._clock.now_ns()
        for c in gone:
            self._earliest[c] = now
            self._instants[c] = self._newest[c] = -_NEVER
        self._unread |= gone
        self._news = [reading for reading in self._news if reading[1] not in gone]

    def note(self, channel: int, t_ns: int, value: int) -> None:
        """A reading of channel `names[channel]` at this instant, which may lie a little back, never ahead."""
        if t_ns < self._earliest[channel]:
            return
        self._newest[channel] = max(self._newest[channel], t_ns)
        # nearly always appended at the end
        insort_right(self._news, (t_ns, channel, value), key=_instant)

    def age_ns(self, channel: int, now: int) -> int:
        """How old the newest reading is; the whole time since the start, or since it was lost, if there is none."""
        return max(now - max(self._newest[channel], self._earliest[channel]), 0)

    def seen(self, channel: int) -> bool:
        """Whether it has been read since the start, or since it was lost."""
        return self._newest[channel] > -_NEVER

    def wait(self, wait_ns: int) -> None:
        """Wait until the next scan is due, at most `wait_ns`; only briefly while a channel has not been read yet."""
        now = self._clock.now_ns()
        self._clock.sleep_until(min(now + _MOMENT_NS if self._unread else self._due, now + wait_ns))

    def take(self, scans: np.ndarray, t_ns: np.ndarray, by_ns: int | None = None) -> tuple[int, int]:
        """See Device.read; does not wait. A caller that makes the readings itself says until when (`by_ns`) it has made
        them: if its thread stood still in between, it would otherwise take scans that lack readings."""
        now = self._clock.now_ns() if by_ns is None else by_ns
        if self._unread and not self._find_beginning():
            return 0, 0
        if now < self._due:
            return 0, 0
        waiting = (now - self._due) // self._period + 1
        over = max(waiting - self._buffer, 0)
        self._due += over * self._period
        count = min(waiting - over, len(scans))
        if count == 0:
            self._lost += over
            return 0, 0
        applied = 0
        for row in range(count):
            t = self._due
            self._due += self._period
            while applied < len(self._news) and self._news[applied][0] <= t:
                self._apply(*self._news[applied])
                applied += 1
            t_ns[row] = t
            for value, instant, column, age in zip(
                self._values, self._instants, self._columns, self._age_columns, strict=True
            ):
                scans[row, column] = value
                if age >= 0:
                    scans[row, age] = min((t - instant) // 1000, _OLDEST_US)
        del self._news[:applied]
        lost, self._lost = self._lost + over, 0
        self._delivered = True
        return count, lost

    def _find_beginning(self) -> bool:
        """Apply readings until every channel has one; the next scan is due on the next beat of the period."""
        applied = 0
        while applied < len(self._news) and self._unread:
            self._apply(*self._news[applied])
            applied += 1
        del self._news[:applied]
        if self._unread:
            return False
        known = max(self._instants)
        missed = max(-(-(known - self._due) // self._period), 0)
        if self._delivered:
            missed = max(missed, 1)  # gone and back within a period is a gap, too
            self._lost += missed
        self._due += missed * self._period
        return True

    def _apply(self, t: int, channel: int, value: int) -> None:
        if t >= self._instants[channel]:
            self._values[channel], self._instants[channel] = value, t
            self._unread.discard(channel)
