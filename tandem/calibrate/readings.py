"""What the DAQ reads while a person holds something still: the last half second, and whether it can be used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sync.clock import now_ns
from sync.config.config import ChannelConfig, Config
from sync.ring.block import AGE
from sync.ring.ring import RingReader

WINDOW_S = 0.5
LEAST_TRAVEL = 20.0  # counts; with fewer the scale would be known to no better than some percent
_LEAST_BLOCKS = 5  # a window, at rates too low for half a second
_STALE_S = 0.3
_STEADY_COUNTS = 6.0  # this much is the sensor's, not the hand's
_STEADY_SHARE = 0.02  # of the travel
_OF_NOISE = 5.0  # standard deviations: nine of ten readings of mere noise lie within 3.3


class Again(Exception):
    """This cannot be captured; the text has the reason and what would help."""


class FromZero(Again):
    """Neither can its zero be used any more."""


@dataclass(frozen=True)
class Captured:
    counts: float  # mean
    spread: float  # of nine readings in ten
    blocks: int
    epoch: int
    end: int | None = None  # of the channel's range, if it read that


class Readings:
    """The newest blocks of a ring, at least a window of them."""

    def __init__(self, config: Config, ring: RingReader, now: Callable[[], int] = now_ns):
        self._ring, self._period_ns, self._now = ring, config.period_ns, now
        self._window_ns = max(round(WINDOW_S * 1e9), _LEAST_BLOCKS * config.period_ns)
        self._stale_ns = max(round(_STALE_S * 1e9), _LEAST_BLOCKS * config.period_ns)
        self._held_ns = max(self._stale_ns, round(config.sim.stale_after_ms * 1e6))
        self._keep = min(2 * self._window_ns // config.period_ns + 1, ring.capacity)
        self._blocks = np.zeros(0, ring.layout.dtype)
        self._position = 0
        self._channels = {c.name: c for c in config.daq.channels}
        self._sum, self._sum_of, self._sum_zero, self._sum_epoch = 0.0, "", 0.0, -1

    def poll(self) -> None:
        """Take what is new."""
        self._position = max(self._position, self._ring.head - self._keep)
        parts = [self._blocks]
        while True:
            blocks, self._position, _ = self._ring.since(self._position)
            if len(blocks) == 0:
                break
            parts.append(blocks)
            if self._sum_of:
                self._add(blocks)
        together = np.concatenate(parts)[-self._keep :]
        # what lies before a gap is not the beginning of what lies behind it
        self._blocks = together[together["epoch"] == together["epoch"][-1]] if len(together) else together

    def integrate(self, channel: str, zero: Captured) -> None:
        """From now on add up what a channel reads beyond a zero, count seconds."""
        self._sum, self._sum_of, self._sum_zero, self._sum_epoch = 0.0, channel, zero.counts, zero.epoch

    def _add(self, blocks: np.ndarray) -> None:
        if (blocks["epoch"] != self._sum_epoch).any():
            self._sum_epoch = -1
        self._sum += 1e-9 * self._period_ns * float((blocks[self._sum_of].astype(np.float64) - self._sum_zero).sum())

    def integral(self, held: Captured) -> Captured:
        """What was added up until it was held still again; raises Again."""
        if self._sum_epoch < 0 or held.epoch != self._sum_epoch:
            raise FromZero("there was a gap in the blocks on the way: from its zero once more")
        if abs(self._sum) < LEAST_TRAVEL:
            raise Again(f"only {abs(self._sum):.1f} count seconds on the way, at least {LEAST_TRAVEL:g} are needed")
        return Captured(self._sum, held.spread, held.blocks, held.epoch)

    @property
    def newest(self) -> np.void | None:
        return self._blocks[-1] if len(self._blocks) else None

    @property
    def age_ns(self) -> int | None:
        """The age of the newest block."""
        return None if self.newest is None else int(self._now() - self.newest["t_ns"])

    @property
    def rate_hz(self) -> float:
        """How often blocks come; 0 if none do."""
        t_ns = self._blocks["t_ns"]
        if self.silent or len(t_ns) < 2 or t_ns[-1] == t_ns[0]:
            return 0.0
        return float((len(t_ns) - 1) / ((t_ns[-1] - t_ns[0]) * 1e-9))

    @property
    def silent(self) -> bool:
        """No block has come for a while (by our clock: a far DAQ's may be another)."""
        return self.newest is None or int(self._now() - self.newest["pushed_ns"]) > self._stale_ns

    @property
    def full(self) -> bool:
        """There is a window without a gap."""
        return len(self._blocks) >= min(_LEAST_BLOCKS, self._keep) and (
            len(self._blocks) >= self._keep
            or int(self._blocks["t_ns"][-1] - self._blocks["t_ns"][0]) >= 0.9 * self._window_ns
        )

    def capture(
        self,
        channels: Sequence[str],
        expected: float,
        since: Captured | None,
        signal: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> Captured:
        """The channel's last window, or what `signal` makes of several; raises Again. `expected` is its travel in
        counts, as far as it is known; `since` what was captured at the travel's other end."""
        if self.newest is None:
            raise Again("no block has come yet: the DAQ runs, but its source delivers nothing")
        if self.silent:
            away = (self._now() - int(self.newest["pushed_ns"])) * 1e-9
            raise Again(
                f"no block for {away:.1f} s: the source delivers nothing any more; look at its device and cable"
            )
        if not self.full:
            raise Again(f"blocks come with gaps: there are no {self._window_ns * 1e-9:g} s in one piece")
        blocks = self._blocks[self._blocks["t_ns"] > self._blocks["t_ns"][-1] - self._window_ns]
        for channel in channels:
            if channel + AGE in (blocks.dtype.names or ()):
                held_ns = int(blocks[channel + AGE][-1]) * 1000
                if held_ns > self._held_ns:
                    raise Again(f"the value of {channel} is {held_ns * 1e-9:.1f} s old: it is no longer sent")
        counts = blocks[channels[0]].astype(np.float64) if signal is None else signal(blocks)
        ends = [_end(blocks[channel], self._channels[channel]) for channel in channels]
        if since is not None:
            expected = abs(float(counts.mean()) - since.counts)
        captured = _steady(counts, expected, int(blocks["epoch"][-1]), next((e for e in ends if e is not None), None))
        if since is not None and expected < LEAST_TRAVEL:
            raise Again(
                f"only {expected:.1f} counts away from {since.counts:.1f}, at least {LEAST_TRAVEL:g} are needed: is it"
                " the right lever, and does its sensor move?"
            )
        return captured


def _steady(counts: np.ndarray, travel: float, epoch: int, end: int | None) -> Captured:
    low, high = np.percentile(counts, (5, 95))
    spread = float(high - low)
    half = len(counts) // 2
    drift = abs(float(counts[half:].mean() - counts[:half].mean()))
    # readings that follow each other differ by noise; a hand is far slower
    noise = float(np.median(np.abs(np.diff(counts)))) / 0.954
    allowed = max(_STEADY_COUNTS, _STEADY_SHARE * abs(travel), _OF_NOISE * noise)
    if spread > allowed or drift > allowed / 4:
        raise Again(f"it moves (by {max(spread, drift):.0f} counts): hold it still, then once more")
    return Captured(float(counts.mean()), spread, len(counts), epoch, end)


def _end(counts: np.ndarray, channel: ChannelConfig) -> int | None:
    """The end of its type's range, if the channel reads it; 0 is where many an unsigned value rests."""
    limits = np.iinfo(channel.type)
    for end in (limits.min, limits.max):
        if end != 0 and np.count_nonzero(counts == end) > len(counts) // 100:
            return int(end)
    return None
