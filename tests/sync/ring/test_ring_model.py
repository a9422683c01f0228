"""A ring against a plain list: whatever writers and readers do, in whatever order they come, go and die.

The writer is a process of its own, so that its death is a real one. The model of a segment is the list of everything
ever pushed into it; what a reader must see follows from that and the capacity.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sync.errors import LayoutMismatch, RingBusy, RingMissing
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, RingWriter, remove_stale
from tests.sync.actors import Actor
from tests.sync.strategies import PROPERTY

SHM = Path("/dev/shm")
LAYOUTS = (
    Layout((Channel("brake", "i2", "count", -200_000), Channel("throttle", "i2"), Channel("steering", "i4"))),
    Layout(tuple(Channel(f"c{i}", "i8") for i in range(3))),
)

WRITER = """
def push_rows(rows):
    for row in rows:
        push(ring.words, np.frombuffer(ring.layout.struct.pack(*row), np.int64).copy())

def die_in_push():
    "The state in which SIGKILL leaves a ring between steps 2 and 5 of a push."
    n, capacity, slot_words, first_slot = (int(ring.words[i]) for i in (16, 3, 5, 6))
    slot = first_slot + n % capacity * slot_words
    ring.words[slot] = 2 * n + 1
    ring.words[slot + 1 : slot + 4] = -1
"""


@dataclass
class Segment:
    layout: Layout
    capacity: int
    epoch: int
    pid: int
    state: str = "live"  # live, dead, closed, replaced
    rows: list[tuple[int, ...]] = field(default_factory=list)
    torn: bool = False  # its writer died inside the slot that is next

    def since(self, cursor: int, most: int) -> tuple[list[tuple[int, ...]], int, int]:
        """The blocks that are still there from `cursor` on, where that leads, and how many were not there any more."""
        oldest = max(len(self.rows) - self.capacity + self.torn, 0)
        begin = max(cursor, oldest)
        rows = self.rows[begin : begin + most]
        return rows, begin + len(rows), begin - cursor


@dataclass(eq=False)
class Reading:
    ring: RingReader
    segment: Segment
    cursor: int


class RingMachine(RuleBasedStateMachine):
    readings = Bundle("readings")

    def __init__(self, new_actor: Callable[[], Actor], name: str) -> None:
        super().__init__()
        self.new_actor, self.name = new_actor, name
        self.path = SHM / name
        self.writer: Actor | None = None
        self.segment: Segment | None = None  # the one that has the name, or had it last
        self.open: list[Reading] = []

    @property
    def there(self) -> bool:
        return self.segment is not None and self.segment.state in ("live", "dead")

    # ---- the writer --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.writer is None)
    @rule(layout=st.sampled_from(LAYOUTS), capacity=st.sampled_from((2, 2, 4, 8)))
    def begin_writing(self, layout: Layout, capacity: int) -> None:
        self.writer = self.new_actor()
        self.writer.do(WRITER)
        self.writer.do(
            "ring = RingWriter(name, Layout.from_text(text), capacity)",
            name=self.name, text=layout.text, capacity=capacity,
        )  # fmt: skip
        adopted, head, epoch = self.writer.do("[ring.adopted, ring.head, ring.epoch]")
        old = self.segment
        if old is not None:
            assert epoch != old.epoch
        if old is not None and old.state == "dead" and (old.layout, old.capacity) == (layout, capacity):
            assert (adopted, head) == (True, len(old.rows))
            old.state, old.epoch, old.pid = "live", epoch, self.writer.pid
        else:
            assert (adopted, head) == (False, 0)
            if old is not None and old.state == "dead":
                old.state = "replaced"
            self.segment = Segment(layout, capacity, epoch, self.writer.pid)

    @precondition(lambda self: self.writer is not None)
    @rule(data=st.data(), count=st.integers(1, 20))
    def push(self, data: st.DataObject, count: int) -> None:
        segment = self.segment
        value = data.draw(st.integers(-(2**15), 2**15 - 1))
        rows = []
        for n in range(len(segment.rows), len(segment.rows) + count):
            header = (n, segment.epoch, 10 * n, 10 * n + 1, 0, 0)
            rows.append((*header, *((value + n * k) % 2**15 for k in range(len(segment.layout.channels)))))
        self.writer.do("push_rows(rows)", rows=rows)
        segment.rows += rows
        segment.torn = False

    @precondition(lambda self: self.writer is not None)
    @rule()
    def bump_epoch(self) -> None:
        epoch = self.writer.do("ring.bump_epoch()")
        assert epoch != self.segment.epoch
        self.segment.epoch = epoch

    @precondition(lambda self: self.writer is not None)
    @rule()
    def close(self) -> None:
        self.writer.do("ring.close()")
        self.writer.kill()
        self.writer, self.segment.state = None, "closed"

    @precondition(lambda self: self.writer is not None)
    @rule(inside=st.booleans())
    def die(self, inside: bool) -> None:
        if inside:
            self.writer.do("die_in_push()")
            self.segment.torn = True
        self.writer.kill()
        self.writer, self.segment.state = None, "dead"

    @precondition(lambda self: self.writer is not None)
    @rule(layout=st.sampled_from(LAYOUTS))
    def a_second_writer_is_turned_away(self, layout: Layout) -> None:
        with pytest.raises(RingBusy, match=f"pid {self.writer.pid}"):
            RingWriter(self.name, layout, 8)

    @rule()
    def sweep(self) -> None:
        stale = self.segment is not None and self.segment.state == "dead"
        assert remove_stale(self.name) == stale
        if stale:
            self.segment.state = "closed"

    # ---- readers -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.there)
    @rule(target=readings, expect=st.booleans(), from_start=st.booleans())
    def attach(self, expect: bool, from_start: bool) -> Reading:
        ring = RingReader(self.name, self.segment.layout if expect else None)
        assert ring.layout == self.segment.layout
        assert ring.capacity == self.segment.capacity
        reading = Reading(ring, self.segment, 0 if from_start else ring.head)
        self.open.append(reading)
        return reading

    @precondition(lambda self: self.there)
    @rule()
    def expect_another_layout(self) -> None:
        other = next(layout for layout in LAYOUTS if layout != self.segment.layout)
        with pytest.raises(LayoutMismatch):
            RingReader(self.name, other)

    @precondition(lambda self: not self.there)
    @rule()
    def attach_to_nothing(self) -> None:
        with pytest.raises(RingMissing):
            RingReader(self.name)

    @rule(reading=readings)
    def newest(self, reading: Reading) -> None:
        found, rows = reading.ring.newest(), reading.segment.rows
        assert (None if found is None else found.item()) == (rows[-1] if rows else None)

    @rule(reading=readings, most=st.sampled_from((1, 3, 4096)))
    def since(self, reading: Reading, most: int) -> None:
        found, cursor, lost = reading.ring.since(reading.cursor, most)
        assert (found.tolist(), cursor, lost) == reading.segment.since(reading.cursor, most)
        reading.cursor = cursor

    @rule(reading=readings, part=st.floats(0, 1))
    def go_back(self, reading: Reading, part: float) -> None:
        reading.cursor = int(part * reading.cursor)

    @rule(reading=consumes(readings))
    def detach(self, reading: Reading) -> None:
        self.open.remove(reading)
        reading.ring.close()

    @precondition(lambda self: self.there)
    @rule()
    def a_reading_process_comes_and_dies(self) -> None:
        process = self.new_actor()
        process.do("reader = RingReader(name)", name=self.name)
        newest = process.do("None if (found := reader.newest()) is None else list(found.item())")
        assert newest == (list(self.segment.rows[-1]) if self.segment.rows else None)
        process.kill()

    # ---- at all times ------------------------------------------------------------------------------------------------

    @invariant()
    def the_name_is_there_exactly_as_long_as_its_segment(self) -> None:
        assert self.path.exists() == self.there

    @invariant()
    def every_reader_knows_the_state_of_its_segment(self) -> None:
        for reading in self.open:
            ring, segment = reading.ring, reading.segment
            assert ring.head == len(segment.rows)
            assert ring.epoch == segment.epoch
            assert ring.writer_pid == segment.pid
            assert ring.closed == (segment.state in ("closed", "replaced"))
            assert ring.writer_alive == (segment.state == "live")

    def teardown(self) -> None:
        for reading in self.open:
            reading.ring.close()
        if self.writer is not None:
            self.writer.kill()
        remove_stale(self.name)


def test_a_ring_behaves_like_a_list_that_forgets(ring_name: str, new_actor: Callable[[], Actor]) -> None:
    def machine() -> Any:
        return RingMachine(new_actor, ring_name)

    examples = 40 if settings.get_current_profile_name() == "full" else 10
    run_state_machine_as_test(machine, settings=settings(PROPERTY, max_examples=examples, stateful_step_count=40))
