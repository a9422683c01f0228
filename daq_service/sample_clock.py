"""When was sample k taken? A device's own sample clock, fitted to monotonic time.

A device samples on its own crystal; the host only learns that by some instant so many samples were there. No sample is
seen before it was taken, so the true line from number to instant lies below every such observation, and the best
observations, those with the least delay, touch it: the line is the edge of their lower hull under the middle of the
last seconds. An error remains, the least delay of all, which no host can see from inside (docs/nidaqmx.md).

Instants are returned in order, never ahead of the clock, and do not jump: a better line is approached by two per cent
of a period a sample. Only if an observation is quicker than any before it, so that the next instants would lie ahead of
the clock, is its line followed at once, by the samples since the last ones returned. If the caller knows an instant
before which nothing was sampled, the first samples are placed from there on: too early by the time that a start takes,
and then better.
"""

import itertools

import numpy as np

from sync.clock import SECOND

_SLOT_NS = SECOND // 4  # of each slot the quickest observation is kept
_SLOTS = 80  # twenty seconds
_SLOPE_FROM_NS = 4 * SECOND  # shorter spans show nothing of the crystal
_CRYSTAL = 5e-4  # no crystal is further off
_SLEW = 0.02


class SampleClock:
    def __init__(self, period_ns: float):
        self._nominal = float(period_ns)
        self.start()

    def start(self, not_before_ns: int | None = None) -> None:
        """Sample 0 is yet to come, and not before that instant."""
        self._slots: list[tuple[int, int]] = []  # (number of the last sample seen, when it was seen)
        self._not_before = not_before_ns
        self._newest = self._reference = (0, 0)
        self._line: tuple[float, float] | None = None  # the line that fits the slots; None once they have changed
        self._period = self._nominal
        self._last: float | None = None  # the last instant returned, against the reference

    @property
    def ppm(self) -> float:
        """By how much the device's period is longer than it says."""
        return (self._period / self._nominal - 1.0) * 1e6

    def saw(self, samples: int, t_ns: int) -> None:
        """Note that by `t_ns` the device had taken so many samples."""
        if samples <= 0:
            return
        k = samples - 1
        self._newest = (k, t_ns)
        if not self._slots:
            self._reference = (k, t_ns)
        elif t_ns // _SLOT_NS == self._slots[-1][1] // _SLOT_NS:
            if self._delay(k, t_ns) < self._delay(*self._slots[-1]):
                self._slots[-1], self._line = (k, t_ns), None
            return
        self._slots.append((k, t_ns))
        self._line = None
        del self._slots[:-_SLOTS]

    def _delay(self, k: int, t_ns: int) -> float:
        """Against the nominal line through the reference."""
        return (t_ns - self._reference[1]) - (k - self._reference[0]) * self._nominal

    def _fit(self) -> tuple[float, float]:
        """(period, delay of the line at the reference): below every observation, touching the quickest."""
        k0, _ = self._reference
        points = np.array([(k - k0, self._delay(k, t)) for k, t in self._slots], np.float64)
        slope = 0.0
        if self._slots[-1][1] - self._slots[0][1] >= _SLOPE_FROM_NS:
            slope = _hull_slope(points)
            slope = min(max(slope, -_CRYSTAL * self._nominal), _CRYSTAL * self._nominal)
        return self._nominal + slope, float(np.min(points[:, 1] - slope * points[:, 0]))

    def instants(self, first: int, t_ns: np.ndarray) -> None:
        """Fill `t_ns` for the samples from `first` on, which have been seen. Call it in order, leaving none out."""
        count = len(t_ns)
        if count == 0:
            return
        k0, t0 = self._reference
        self._line = self._line or self._fit()
        self._period, delay = self._line
        last = first + count - 1
        wanted = (last - k0) * self._period + delay
        before = self._last
        if before is None and self._not_before is not None:
            before = self._not_before - t0 + (first - 1) * self._period
        if before is None:
            step = self._period
        else:
            # go on from the last instant, by at most so much faster or slower
            step = (wanted - before) / count
            step = min(max(step, self._period - _SLEW * self._nominal), self._period + _SLEW * self._nominal)
            wanted = before + count * step
        # a line that has not come down yet must not give an instant in the future
        seen, seen_ns = self._newest
        latest = (seen_ns - t0) - (seen - last) * self._period
        if wanted > latest:
            wanted = latest
            if before is not None:
                step = (wanted - before) / count
        times = t0 + np.rint(wanted - np.arange(count - 1, -1, -1) * step).astype(np.int64)
        if self._last is not None:
            times = np.maximum(times, t0 + int(np.rint(self._last)) + np.arange(1, count + 1))
        self._last = float(times[-1] - t0)
        t_ns[:] = times


def _hull_slope(points: np.ndarray) -> float:
    """Slope of the lower hull's edge under the middle of the points."""
    hull: list[np.ndarray] = []
    for p in points:
        while len(hull) > 1 and _turn(hull[-2], hull[-1], p) <= 0:
            hull.pop()
        hull.append(p)
    middle = points[:, 0].mean()
    for a, b in itertools.pairwise(hull):
        if b[0] >= middle:
            return float((b[1] - a[1]) / (b[0] - a[0]))
    return 0.0


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
