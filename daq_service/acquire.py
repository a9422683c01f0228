"""Take all blocks available: the acquisition loop.

Every turn takes all whole scans the source has, makes blocks of them (counters unwrapped, values packed), pushes all
of them into the ring and puts only the newest on the wire; with `transport.every_port` it also sends all of them, in
order. No scan at all is a normal turn. Turns, blocks, bytes, gaps and implausible values are counted; nothing is
dropped without being counted.
"""

import threading
import time
from dataclasses import asdict, dataclass
from operator import index
from typing import NoReturn

import numpy as np
from numba import int64, types

from daq_service.counters import BITS, TOTAL, counter_table, unwrap
from daq_service.devices.contract import Device
from sync.clock import REAL, Clock, for_any_clock, now
from sync.compile.array_types import WORDS, WORDS_2D
from sync.config.config import Config
from sync.errors import DeviceError
from sync.ring.block import EPOCH, PUSHED, SEQ, T
from sync.ring.block_values import put_integer
from sync.ring.ring import EPOCH_WORD, HEAD_WORD, RingWriter, beat_at, push, since
from sync.transport.wire import Publisher

MOST_BLOCKS = 4096  # a turn; a longer backlog takes several
_FAREWELL_NS = 60_000_000
_BEFORE_NS = 10_000_000_000  # scans that a device took before its start may be so old, and no older
_AHEAD_NS = 1_000_000_000  # how far a scan may be ahead of now; further ahead it is of another clock
_DAY_NS = 86_400_000_000_000


@dataclass
class Counts:
    loops: int = 0  # turns of take-all
    empty: int = 0  # turns that found nothing
    blocks: int = 0
    bytes: int = 0
    lost: int = 0  # scans that the source lost before we could take them
    implausible: int = 0  # counter moves no encoder can make
    saturated: int = 0  # values beyond their channel's type

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def _push_scans(clock, ring, block, scans, t_ns, count, table, counters):
    """Make blocks of scans and push them; leaves the newest in `block`. Returns (implausible, saturated)."""
    implausible = saturated = 0
    for row in range(count):
        block[:] = 0
        for channel in range(table.shape[0]):
            value = scans[row, channel]
            if counters[channel, BITS] > 0:
                implausible += unwrap(counters[channel], value)
                value = counters[channel, TOTAL]
            saturated += put_integer(block, table[channel], value)
        block[SEQ] = ring[HEAD_WORD]
        block[EPOCH] = ring[EPOCH_WORD]
        block[T] = t_ns[row]
        block[PUSHED] = now(clock)
        push(ring, block)
    beat_at(ring, now(clock))
    return implausible, saturated


_ARGUMENTS = (WORDS, WORDS, WORDS_2D, WORDS, int64, WORDS_2D, WORDS_2D)
_push_scans_on = for_any_clock(_push_scans, *_ARGUMENTS, returns=types.UniTuple(int64, 2))


class Acquisition:
    """Runs in a thread of its own until it is stopped."""

    def __init__(
        self,
        config: Config,
        source: Device,
        ring: RingWriter,
        publisher: Publisher | None,
        every: Publisher | None = None,
        clock: Clock = REAL,
    ):
        self._clock, self._push = clock, _push_scans_on(clock)
        self.count = Counts()
        self.seconds = 0.0  # of acquisition, known at its end
        self._source, self._ring, self._publisher, self._every = source, ring, publisher, every
        self._wait_ns = round(config.daq.read_wait_ms * 1e6)
        self._repeat_ns = round(config.daq.idle_repeat_ms * 1e6)
        self._table = ring.layout.table
        self._counters = counter_table(config.daq.channels, config.daq.rate_hz)
        if source.unwrapped:
            self._counters[:, BITS] = 0
        most = MOST_BLOCKS
        if every is not None:
            most = min(most, config.daq.ring_blocks)  # a turn's blocks are read back out of the ring
            self._turn = np.zeros((most, ring.layout.words), np.int64)
        self._scans = np.zeros((most, len(config.daq.channels)), np.int64)
        self._t_ns = np.zeros(most, np.int64)
        self._block = np.zeros(ring.layout.words, np.int64)
        self._block_bytes = ring.layout.payload_bytes
        self._published_ns = 0
        self._kind = str(config.source.get("kind"))
        self._earliest: int | None = None  # the earliest instant a scan may have; None: not started

    def run(self, stop: threading.Event) -> None:
        begun = self._clock.now_ns()
        self._earliest = begun - _BEFORE_NS
        self._source.start()
        try:
            while not stop.is_set():
                self.turn()
        finally:
            self._source.stop()
            self.seconds = (self._clock.now_ns() - begun) * 1e-9
        self._farewell()

    def turn(self) -> None:
        """Take all blocks available; push all, publish the newest."""
        count = self.count
        found = self._source.read(self._scans, self._t_ns, self._wait_ns)
        try:  # compiled code reads that many rows unchecked
            taken, lost = map(index, found)
        except (TypeError, ValueError):
            taken = lost = -1
        if not 0 <= taken <= len(self._scans) or lost < 0:
            self._refuse(found)
        count.loops += 1
        if lost:
            count.lost += lost
            self._ring.bump_epoch()
        if taken:
            self._refuse_other_clocks(self._t_ns[:taken])
            implausible, saturated = self._push(
                self._clock, self._ring.words, self._block, self._scans, self._t_ns, taken, self._table, self._counters
            )
            self._publish()  # first: everything else can wait
            if self._every is not None:
                self._publish_every(self._every, taken)
            count.blocks += taken
            count.bytes += taken * self._block_bytes
            count.implausible += implausible
            count.saturated += saturated
        else:
            count.empty += 1
            beat_at(self._ring.words, self._clock.now_ns())
            if count.blocks and self._clock.now_ns() - self._published_ns > self._repeat_ns:
                self._repeat()

    def _refuse(self, found: object) -> NoReturn:
        raise DeviceError(
            f"source.kind = {self._kind!r}: read() returned {found!r:.80}; right are two integers, how many scans it"
            f" filled in, from 0 to len(scans) = {len(self._scans)}, and how many were lost just before them"
        )

    def _refuse_other_clocks(self, t_ns: np.ndarray) -> None:
        """Raises DeviceError for instants of another clock: all ages, which are differences to them, would be wrong."""
        if self._earliest is None:
            return
        one = len(t_ns) == 1
        first, last = int(t_ns[0]) if one else int(t_ns.min()), int(t_ns[-1]) if one else int(t_ns.max())
        bound, now_ns = self._source.bound_ns, self._clock.now_ns()
        if self._earliest - bound <= first and last <= now_ns + _AHEAD_NS + bound:
            return
        wrong = last if last > now_ns + _AHEAD_NS + bound else first
        time_of_day = time.time_ns()
        away = f"{abs(wrong - now_ns) * 1e-9:.4g} s {'ahead of' if wrong > now_ns else 'before'} now"
        meant = "it looks like the clock of the device"
        if abs(wrong - time_of_day) < _DAY_NS:
            meant = "it is the time of day (time.time_ns())"
        elif wrong == 0:
            meant = "read() has left it as it was"
        raise DeviceError(
            f"source.kind = {self._kind!r}: read() gave a scan the instant t_ns = {wrong}, {away}: {meant};"
            " instants are nanoseconds of this computer's monotonic clock, time.monotonic_ns()"
        )

    def _publish(self) -> None:
        if self._publisher is not None:
            self._publisher.publish(self._block)
            self._published_ns = self._clock.now_ns()

    def _publish_every(self, every: Publisher, taken: int) -> None:
        count, _, _ = since(self._ring.words, self._ring.head - taken, self._turn)
        for block in self._turn[:count]:
            every.publish(block)
        self._published_ns = self._clock.now_ns()

    def _repeat(self) -> None:
        self._publish()
        if self._every is not None:
            self._every.publish(self._block)
            self._published_ns = self._clock.now_ns()

    def _farewell(self) -> None:
        """Repeat the last block several times: ZeroMQ may have dropped it, and no subscriber shall miss the end."""
        end = self._clock.now_ns() + _FAREWELL_NS
        while self.count.blocks and self._clock.now_ns() < end:
            self._repeat()
            self._clock.sleep_until(self._clock.now_ns() + _FAREWELL_NS // 6)
