"""One ring, read into one topic of a record: from where the record ends, through every part and every new ring."""

import numpy as np

from sync.errors import RingError
from sync.record import Left, Ring, RunWriter
from sync.record.rings import AGAIN, CLOSED, GONE, LEFT, OPEN, Account
from sync.ring import RingReader, since

_BATCH = 4096


class Tap:
    """One ring, one topic."""

    def __init__(self, topic: str, ring: str, writer: RunWriter, left: Left | None = None, again: bool = False):
        self.topic, self._name, self._writer = topic, ring, writer
        self._ring: RingReader | None = None
        self._position = 0
        self._layout = ""  # of the blocks that were recorded
        self._blocks = np.zeros((0, 0), np.int64)
        self._before: tuple[int, int] | None = None  # (segment, head) of a ring that was dead when first seen
        self._done = -1  # the segment that was read to its end
        self._noted: tuple[str, int] | None = None  # the last note: its state and segment
        self.trouble: str | None = None
        self.recorded = self.before = self.lost = self.dropped = 0
        self.gone = False  # a ring that was not there any more when the record was taken up again
        self._watched = again  # there was a recorder before the ring
        if left is not None:
            self._take_up(left)

    def left(self) -> Left | None:
        """How far the record of this topic goes; None if there is nothing yet. What was dropped is missing, too."""
        if self._noted is None:
            return None
        state, segment = self._noted
        position = self._before[1] if state == LEFT and self._before else self._position
        account = Account(segment, position, self.recorded, self.lost + self.dropped)
        return Left(account, state, self.before, self.dropped, self.gone, self._layout)

    def go_on_in(self, writer: RunWriter) -> None:
        """From here on into another part."""
        self._writer = writer
        if self._ring is not None:
            writer.topic(self.topic, self._ring.layout)
            self._note(AGAIN, self._ring.segment, self._position)

    def _note(self, state: str, segment: int, position: int, before: int = 0) -> None:
        self._noted = (state, segment)
        self._writer.ring(Ring(self.topic, state, segment, position, self.recorded, before, self._layout))

    def _take_up(self, left: Left) -> None:
        """Go on where the files end."""
        account = left.account
        self.recorded, self.before, self.dropped = account.rows, left.before, left.dropped
        self.lost = account.missing - left.dropped
        self._noted = (left.state, account.segment)
        self._layout, self._position, self.gone = left.layout, account.position, left.gone
        if left.state == LEFT:
            self._before = (account.segment, account.position)
            self._watched = False
        elif left.state == CLOSED:
            self._done = account.segment
        elif left.state != GONE:
            ring = self._found()
            # what its writer did meanwhile, even if it was another one, stands behind this position
            if ring is not None and ring.segment == account.segment and ring.head >= account.position:
                if self._follow(ring):
                    self._note(AGAIN, ring.segment, self._position)
                return
            if ring is not None:
                ring.close()
            self.gone = True
            self._note(GONE, account.segment, account.position)

    def _found(self) -> RingReader | None:
        try:
            return RingReader(self._name)
        except RingError:
            return None

    def _follow(self, ring: RingReader) -> bool:
        """Whether its blocks can stand in the record."""
        try:
            if self._layout not in ("", ring.layout.id):
                raise ValueError(f"{self.topic}: the layout changed in the middle of the run")
            self._writer.topic(self.topic, ring.layout)
        except ValueError as error:
            self.trouble = str(error)
            ring.close()
            return False
        self._ring, self._layout = ring, ring.layout.id
        self._blocks = np.zeros((_BATCH, ring.layout.words), np.int64)
        return True

    def _attach(self) -> bool:
        ring = self._found()
        if ring is None:
            return False
        again = ring.segment == self._done
        if (again and ring.closed) or (not ring.writer_alive and not self._watched):
            if not again and self._before != (found := (ring.segment, ring.head)):
                self._before = found  # of somebody who is no more; adopted, it goes on from here
                self._note(LEFT, *found)
            ring.close()
            return False
        left = self._position if again else 0
        if self._before and self._before[0] == ring.segment:
            left = max(left, self._before[1])
        if not self._follow(ring):
            return False
        # what passed before there was a recorder is none of its losses; what passed while one should have been there is
        self._position = left if self._watched else max(ring.head - ring.capacity, left)
        self.before += self._position - left
        self._note(OPEN, ring.segment, self._position, self._position - left)
        self._watched = True
        return True

    def take(self) -> None:
        """Everything new; then, if the ring was closed, look for its successor."""
        while self.trouble is None and (self._ring is not None or self._attach()):
            assert self._ring is not None
            closed = self._ring.closed  # before the last look, so that nothing can come after it
            while True:
                count, self._position, lost = since(self._ring.words, self._position, self._blocks)
                self.lost += lost
                if count == 0:
                    break
                if self._writer.sink.room:
                    self._writer.add(self.topic, self._blocks[:count], self._position - count)
                    self.recorded += count
                else:
                    self.dropped += count
            if not closed:
                return
            self._done = self._ring.segment
            self._note(CLOSED, self._done, self._position)
            self.close()

    @property
    def ended(self) -> bool:
        """Nothing more will come: its writer has gone, or there is none."""
        return self._ring is None or not self._ring.writer_alive

    def close(self) -> None:
        if self._ring is not None:
            self._ring.close()
            self._ring = None
