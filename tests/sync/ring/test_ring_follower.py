"""A follower goes on through every end and every beginning of its ring: each block once, in order, or counted."""

import fcntl
import os
import struct
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sync.errors import LayoutMismatch, RingError
from sync.ring.block import PAYLOAD, Channel, Layout
from sync.ring.follower import Change, RingFollower
from sync.ring.ring import CLOSED, SHM, STATE_WORD, RingWriter, poke, push
from tests.examples import few
from tests.sync.actors import PATIENCE_S, Actor

NUMBER = Layout((Channel("n", "i8"),))
OTHER = Layout((Channel("n", "i8"), Channel("m", "f8")))


def give(ring: RingWriter, *numbers: int) -> None:
    block = np.zeros(ring.layout.words, np.int64)
    for number in numbers:
        block[PAYLOAD] = number
        push(ring.words, block)


def die(ring: RingWriter) -> None:
    """As a process does that is killed: the lock goes with the last that holds the file open, and a mapping does."""
    ring.leave()
    del ring.words


def die_closing(ring: RingWriter) -> None:
    """Killed between marking the ring as closed and removing it: the next writer adopts it all the same."""
    poke(ring.words, STATE_WORD, CLOSED)
    die(ring)


def taken(follower: RingFollower) -> list[int]:
    return [n for batch in follower.batches() for n in batch["n"].tolist()]


def changes(follower: RingFollower) -> list[Change]:
    found = []
    while (change := follower.poll()) is not Change.NONE:
        found.append(change)
    return found


# ---- one thing after the other


def test_a_ring_that_is_not_there_is_nothing_new(ring_name: str) -> None:
    follower = RingFollower(ring_name)
    assert follower.poll() is Change.NONE and follower.attached() is None and follower.blocks() is None
    assert not (SHM / ring_name).exists()  # looking made nothing


def test_a_ring_is_read_from_its_first_block_however_late_it_is_found(ring_name: str) -> None:
    follower = RingFollower(ring_name)
    assert taken(follower) == []
    ring = RingWriter(ring_name, NUMBER, 8)
    give(ring, 1, 2, 3)
    assert taken(follower) == [1, 2, 3]
    assert taken(follower) == []
    give(ring, 4)
    assert taken(follower) == [4]
    assert (follower.read, follower.lost, follower.alive, follower.pid) == (4, 0, True, os.getpid())
    ring.close()


def test_what_was_overwritten_is_counted(ring_name: str) -> None:
    follower, ring = RingFollower(ring_name), RingWriter(ring_name, NUMBER, 4)
    give(ring, *range(10))
    assert taken(follower) == [6, 7, 8, 9]
    assert (follower.read, follower.lost) == (4, 6)
    ring.close()


def test_much_comes_in_pieces(ring_name: str) -> None:
    follower, ring = RingFollower(ring_name), RingWriter(ring_name, NUMBER, 8)
    give(ring, *range(8))
    pieces = [follower.blocks(3) for _ in range(4)]
    assert [piece["n"].tolist() if piece is not None else None for piece in pieces] == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7],
        None,
    ]
    ring.close()


@pytest.mark.parametrize("left", [False, True], ids=["read on", "left for the next one"])
def test_the_rest_of_a_closed_ring_comes_before_the_next_one_or_is_counted(ring_name: str, left: bool) -> None:
    follower, first = RingFollower(ring_name), RingWriter(ring_name, NUMBER, 8)
    give(first, 1)
    assert taken(follower) == [1]
    give(first, 2, 3)
    first.close()
    second = RingWriter(ring_name, NUMBER, 8)
    give(second, 4, 5)
    if left:
        assert follower.attached() is not None
    assert taken(follower) == ([4, 5] if left else [2, 3, 4, 5])
    assert (follower.read, follower.lost) == ((3, 2) if left else (5, 0))
    second.close()


def test_a_ring_of_another_shape_goes_on_with_its_own_fields(ring_name: str) -> None:
    follower, first = RingFollower(ring_name), RingWriter(ring_name, NUMBER, 8)
    give(first, 1)
    assert taken(follower) == [1]
    give(first, 2)
    die(first)
    second = RingWriter(ring_name, OTHER, 4)
    give(second, 3)
    batches = list(follower.batches())
    assert [batch["n"].tolist() for batch in batches] == [[2], [3]]
    assert ["m" in batch.dtype.names for batch in batches] == [False, True]
    second.close()


def test_a_ring_that_lost_its_name_is_left_once_its_writer_has_gone(ring_name: str) -> None:
    """Somebody removed the file by hand: its writer does not notice, and nothing is marked in it."""
    follower, first = RingFollower(ring_name), RingWriter(ring_name, NUMBER, 8)
    give(first, 1)
    assert taken(follower) == [1]
    os.unlink(SHM / ring_name)
    second = RingWriter(ring_name, NUMBER, 8)
    give(first, 2)
    give(second, 3)
    assert taken(follower) == [2]  # its writer lives: it is still the one
    give(first, 4)
    die(first)
    assert taken(follower) == [4, 3]
    assert follower.lost == 0
    second.close()


def test_changes_come_one_by_one(ring_name: str, new_actor: Callable[[], Actor]) -> None:
    follower, writers = RingFollower(ring_name), [new_actor() for _ in range(3)]
    begin = "ring = RingWriter(name, Layout.from_text(text), 8)"
    writers[0].do(begin, name=ring_name, text=NUMBER.text)
    assert changes(follower) == [Change.OPENED] and follower.pid == writers[0].pid
    writers[0].kill()
    assert changes(follower) == [Change.DIED] and not follower.alive
    writers[1].do(begin, name=ring_name, text=NUMBER.text)
    assert changes(follower) == [Change.ADOPTED] and follower.pid == writers[1].pid
    writers[1].kill()
    writers[2].do(begin, name=ring_name, text=NUMBER.text)
    assert changes(follower) == [Change.ADOPTED] and follower.pid == writers[2].pid  # the death itself passed unseen
    writers[2].do("ring.close()")
    assert changes(follower) == [Change.CLOSED] and not follower.alive
    writers[2].do(begin, name=ring_name, text=NUMBER.text)
    assert changes(follower) == [Change.OPENED] and follower.alive


def test_a_writer_that_has_the_lock_and_not_yet_begun_has_adopted_nothing(ring_name: str) -> None:
    ring = RingWriter(ring_name, NUMBER, 8)
    follower = RingFollower(ring_name)
    assert changes(follower) == [Change.OPENED]
    die(ring)
    assert changes(follower) == [Change.DIED]
    with open(SHM / ring_name, "r+b") as file:  # as far as a new writer gets before it writes its pid
        fcntl.fcntl(file.fileno(), fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        assert changes(follower) == [] and not follower.alive
    again = RingWriter(ring_name, NUMBER, 8)
    assert changes(follower) == [Change.ADOPTED] and follower.alive  # the same pid as before
    again.close()


def test_a_ring_that_was_closed_and_not_removed_goes_on_when_it_is_adopted(ring_name: str) -> None:
    follower, first = RingFollower(ring_name), RingWriter(ring_name, NUMBER, 8)
    give(first, 1)
    assert taken(follower) == [1]
    die_closing(first)
    assert changes(follower) == [Change.CLOSED] and follower.attached() is None
    second = RingWriter(ring_name, NUMBER, 8)
    assert second.adopted
    give(second, 2)
    assert changes(follower) == [Change.ADOPTED] and follower.attached() is not None
    assert taken(follower) == [2]
    second.close()


def test_the_last_ring_is_held_until_there_is_another(ring_name: str) -> None:
    follower, first = RingFollower(ring_name), RingWriter(ring_name, NUMBER, 8)
    give(first, 7)
    assert follower.attached() is follower.ring
    first.close()
    assert follower.attached() is None
    assert follower.ring is not None and follower.ring.newest()["n"] == 7
    held = follower.ring
    second = RingWriter(ring_name, NUMBER, 8)
    assert follower.attached() is follower.ring is not held
    assert held.newest()["n"] == 7  # another thread may still be at it
    second.close()


# ---- as asked for


def test_from_now_on_is_from_the_first_opening_on(ring_name: str) -> None:
    first = RingWriter(ring_name, NUMBER, 8)
    give(first, 1, 2)
    follower = RingFollower(ring_name, from_now=True)
    assert taken(follower) == []
    give(first, 3)
    assert taken(follower) == [3]
    first.close()
    second = RingWriter(ring_name, NUMBER, 8)
    give(second, 4)  # while there was a follower
    assert taken(follower) == [4] and follower.lost == 0
    second.close()


def test_only_the_living(ring_name: str) -> None:
    left = RingWriter(ring_name, NUMBER, 8)
    give(left, 1)
    die(left)
    follower = RingFollower(ring_name, living=True)
    assert follower.attached() is None
    assert RingFollower(ring_name).attached() is not None
    adopting = RingWriter(ring_name, NUMBER, 8)
    assert follower.attached() is not None and follower.alive
    die(adopting)
    assert follower.attached() is not None and not follower.alive  # it may be adopted: it goes on here
    adopting = RingWriter(ring_name, NUMBER, 8)
    give(adopting, 2)
    assert taken(follower) == [1, 2]
    adopting.close()


def test_a_layout_that_was_asked_for_is_insisted_on(ring_name: str) -> None:
    ring = RingWriter(ring_name, NUMBER, 8)
    with pytest.raises(LayoutMismatch):
        RingFollower(ring_name, OTHER).poll()
    ring.close()


@pytest.mark.parametrize("content", [b"", b"garbage" * 10_000])
def test_what_is_no_ring_is_not_there(ring_name: str, content: bytes) -> None:
    (SHM / ring_name).write_bytes(content)
    assert RingFollower(ring_name).attached() is None


def test_a_damaged_ring_is_said_where_a_layout_was_asked_for(ring_name: str) -> None:
    ring = RingWriter(ring_name, NUMBER, 8)
    image = bytearray((SHM / ring_name).read_bytes())
    ring.close()
    image[8 * 3] = 7  # its capacity
    (SHM / ring_name).write_bytes(image)
    assert RingFollower(ring_name).attached() is None
    with pytest.raises(RingError, match="damaged"):
        RingFollower(ring_name, NUMBER).attached()


def test_attempts_keep_their_distance(ring_name: str) -> None:
    follower = RingFollower(ring_name, retry_ns=10**15)
    assert follower.attached() is None
    ring = RingWriter(ring_name, NUMBER, 8)
    assert follower.attached() is None
    assert RingFollower(ring_name, retry_ns=10**15).attached() is not None  # the first is made at once
    ring.close()


# ---- anything in any order


class Following(RuleBasedStateMachine):
    """Rings that are made, filled, left, adopted, closed, removed and replaced, beside a list of what must come."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        self.follower = RingFollower(name)
        self.writer: RingWriter | None = None
        self.shape = (NUMBER, 4)
        self.number = 0
        self.come: list[int] = []
        self.rings: list[list[int]] = []  # what was pushed into each
        self.known: set[int] = set()  # rings that were there at a look

    @property
    def named(self) -> bool:
        return (SHM / self.name).exists()

    @initialize()
    def clear(self) -> None:
        (SHM / self.name).unlink(missing_ok=True)

    @precondition(lambda self: self.writer is None)
    @rule(shape=st.sampled_from([(NUMBER, 4), (NUMBER, 8), (OTHER, 4)]))
    def begin(self, shape: tuple[Layout, int]) -> None:
        self.writer = RingWriter(self.name, *shape)
        if not self.writer.adopted:
            self.rings.append([])

    @precondition(lambda self: self.writer is not None)
    @rule(count=st.integers(1, 11))
    def give(self, count: int) -> None:
        assert self.writer is not None
        numbers = range(self.number, self.number + count)
        self.number += count
        give(self.writer, *numbers)
        self.rings[-1].extend(numbers)

    @precondition(lambda self: self.writer is not None)
    @rule(end=st.sampled_from([die, die_closing, RingWriter.close]))
    def end(self, end: Callable[[RingWriter], None]) -> None:
        assert self.writer is not None
        end(self.writer)
        self.writer = None

    @precondition(lambda self: self.writer is None)
    @rule()
    def remove(self) -> None:
        (SHM / self.name).unlink(missing_ok=True)

    @rule()
    def look(self) -> None:
        if self.named:
            self.known.add(len(self.rings) - 1)
        self.come += taken(self.follower)
        expected = sum(len(ring) for number, ring in enumerate(self.rings) if number in self.known)
        assert self.follower.read + self.follower.lost == expected

    @invariant()
    def every_block_once_and_in_order(self) -> None:
        assert self.come == sorted(set(self.come))
        assert len(self.come) == self.follower.read

    def teardown(self) -> None:
        self.follower.close()
        if self.writer is not None:
            self.writer.close()


def test_every_block_comes_once_or_is_counted_whatever_becomes_of_its_ring(ring_name: str) -> None:
    run_state_machine_as_test(
        lambda: Following(ring_name), settings=settings(max_examples=few(200), stateful_step_count=40, deadline=None)
    )


def test_killed_and_ended_at_full_speed_every_block_is_read_or_counted(
    ring_name: str, new_actor: Callable[[], Actor]
) -> None:
    follower = RingFollower(ring_name)
    last, of_rings = -1, 0
    for life in range(6):
        writer = new_actor()
        start = (life + 1) * 10**9  # above all that came before
        writer.do("ring = RingWriter(name, Layout.from_text(text), 64)", name=ring_name, text=NUMBER.text)
        writer.do(
            "def fill():\n"
            "    block, n = np.zeros(ring.layout.words, np.int64), start\n"
            "    while not ended.is_set():\n"
            "        block[PAYLOAD] = n; n += 1; push(ring.words, block)\n"
            "ended = threading.Event(); thread = threading.Thread(target=fill); thread.start()",
            start=start,
        )
        end = time.monotonic() + PATIENCE_S
        seen = 0
        while seen < 2000:
            assert time.monotonic() < end
            for batch in follower.batches():
                numbers = batch["n"]
                assert numbers[0] > last and (np.diff(numbers) > 0).all()
                last, seen = int(numbers[-1]), seen + len(numbers)
                if seen > 2000:
                    break
        if life % 2:
            of_rings += writer.do("ended.set() or thread.join() or ring.close() or ring.head")
        writer.kill()
        taken(follower)
    assert follower.read + follower.lost == of_rings
