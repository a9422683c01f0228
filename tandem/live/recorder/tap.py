"""One ring, read into one topic of a record: from where the record ends, through every part and every new ring."""

import numpy as np

from sync.record import Left, Ring, RunWriter
from sync.record.rings import AGAIN, CLOSED, GONE, LEFT, OPEN, Account
from sync.ring.follower import Change, RingFollower
from sync.ring.ring import RingReader

_BATCH = 4096


class Tap:
    """One ring, one topic."""

    def __init__(self, topic: str, ring: str, writer: RunWriter, left: Left | None = None, again: bool = False):
        self.topic, self._writer = topic, writer
        self._follower = RingFollower(ring)
        self._reading = False  # whether the open ring is being recorded (yet, still)
        self._position = 0  # how far the record has come in the ring that was noted last
        self._layout = ""  # of the blocks that were recorded
        self._blocks = np.zeros((0, 0), np.int64)
        self._before: tuple[int, int] | None = None  # (segment, head) of a ring that had no writer when first seen
        self._done = -1  # the segment that was read to its end
        self._noted: tuple[str, int] | None = None  # the last note: its state and segment
        self.trouble: str | None = None
        self.recorded = self.before = self.dropped = 0
        self._lost_before = 0  # by the recorders before this one
        self.gone = False  # whether a ring had vanished when the record was continued
        self._watched = again  # whether there was a recorder before the ring
        if left is not None:
            self._take_up(left)

    @property
    def lost(self) -> int:
        return self._lost_before + self._follower.lost

    def left(self) -> Left | None:
        """How far the record of this topic goes; None if there is nothing yet. Dropped blocks count as missing, too."""
        if self._noted is None:
            return None
        state, segment = self._noted
        position = self._before[1] if state == LEFT and self._before else self._position
        account = Account(segment, position, self.recorded, self.lost + self.dropped)
        return Left(account, state, self.before, self.dropped, self.gone, self._layout)

    def go_on_in(self, writer: RunWriter) -> None:
        """Write to another part from here on."""
        self._writer = writer
        if self._reading and (ring := self._follower.ring) is not None:
            writer.topic(self.topic, ring.layout)
            self._note(AGAIN, ring.segment, self._position)

    def _note(self, state: str, segment: int, position: int, before: int = 0) -> None:
        self._noted = (state, segment)
        self._writer.ring(Ring(self.topic, state, segment, position, self.recorded, before, self._layout))

    def _take_up(self, left: Left) -> None:
        """Continue where the files end."""
        account = left.account
        self.recorded, self.before, self.dropped = account.rows, left.before, left.dropped
        self._lost_before = account.missing - left.dropped
        self._noted = (left.state, account.segment)
        self._layout, self._position, self.gone = left.layout, account.position, left.gone
        if left.state == LEFT:
            self._before = (account.segment, account.position)
            self._watched = False
        elif left.state == CLOSED:
            self._done = account.segment
        elif left.state != GONE:
            ring = self._follower.attached()
            # what its writer pushed meanwhile, even a new writer, is behind this position
            if ring is not None and ring.segment == account.segment and ring.head >= account.position:
                if self._read(ring, account.position):
                    self._note(AGAIN, ring.segment, self._position)
                return
            self.gone = True
            self._note(GONE, account.segment, account.position)

    def _read(self, ring: RingReader, position: int) -> bool:
        """Read from here on; False if the record cannot hold these blocks."""
        try:
            if self._layout not in ("", ring.layout.id):
                raise ValueError(f"{self.topic}: the layout changed in the middle of the run")
            self._writer.topic(self.topic, ring.layout)
        except ValueError as error:
            self.trouble = str(error)
            return False
        self._reading, self._layout = True, ring.layout.id
        self._position = self._follower.position = position
        self._blocks = np.zeros((_BATCH, ring.layout.words), np.int64)
        return True

    def _begin(self, ring: RingReader) -> None:
        """Begin with a ring that has appeared, if it is one of this run."""
        self._follower.position = ring.head  # so that, if it is not of this run, its blocks do not count as missing
        again = ring.segment == self._done
        if again and ring.closed:
            return
        if not ring.writer_alive and not self._watched:
            if not again and self._before != (found := (ring.segment, ring.head)):
                self._before = found  # left by a writer that has gone; if it is adopted, reading begins here
                self._note(LEFT, *found)
            return
        left = self._position if again else 0
        if self._before and self._before[0] == ring.segment:
            left = max(left, self._before[1])
        # blocks from before the first recorder are not lost; those that passed while one should have run are
        begin = left if self._watched else max(ring.head - ring.capacity, left)
        if self._read(ring, begin):
            self.before += begin - left
            self._note(OPEN, ring.segment, begin, begin - left)
            self._watched = True

    def take(self) -> None:
        """Record everything new; then, if the ring was closed, continue with the one that followed it."""
        while self.trouble is None:
            ring = self._follower.ring
            if ring is not None and not self._reading:
                self._begin(ring)
            goes_on = ring is not None and ring.writer_alive  # checked before the blocks are read
            self._record()
            if goes_on:
                return
            change = self._follower.poll()
            if change is Change.NONE:
                return
            if change is Change.CLOSED and self._reading and ring is not None:
                self._record()  # a writer may have adopted, filled and closed it just now
                self._done = ring.segment
                self._note(CLOSED, self._done, self._position)
            if change in (Change.CLOSED, Change.OPENED):
                self._reading = False

    def _record(self) -> None:
        while self._reading and (count := self._follower.take(self._blocks)):
            self._position = self._follower.position
            if self._writer.sink.has_space:
                self._writer.add(self.topic, self._blocks[:count], self._position - count)
                self.recorded += count
            else:
                self.dropped += count

    @property
    def ended(self) -> bool:
        """Whether nothing more will come: its writer has ended, or there is none."""
        ring = self._follower.ring
        return not self._reading or ring is None or not ring.writer_alive

    def close(self) -> None:
        self._follower.close()
        self._reading = False
