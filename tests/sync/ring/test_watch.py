"""Watching another process by its ring: its fate is told once and truly, its pushes are seen as they come."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from sync.clock import now_ns, sleep_until
from sync.ring.block import PUSHED, SEQ, Layout
from sync.ring.ledger import histogram, summary_us
from sync.ring.ring import RingReader, RingWriter, push
from sync.ring.watch import NO_LOG, SEEN_NS, SEEN_POSITION, Peer, watch
from tests.sync.actors import PATIENCE_S, Actor

MS = 1_000_000


def begin(actor: Actor, name: str, layout: Layout, capacity: int = 16) -> None:
    actor.do(
        "ring = RingWriter(name, Layout.from_text(text), capacity)", name=name, text=layout.text, capacity=capacity
    )


def test_a_peer_appears_ends_and_appears_again(ring_name: str, car: Layout, new_actor: Callable[[], Actor]) -> None:
    peer = Peer("the DAQ", ring_name)
    assert peer.poll() is None and peer.ring is None
    for _ in range(2):
        other = new_actor()
        begin(other, ring_name, car)
        assert peer.poll() == f"the DAQ is there (pid {other.pid})"
        assert peer.poll() is None
        assert peer.ring.layout == car
        other.do("ring.close()")
        assert peer.poll() == "the DAQ has ended"
        assert peer.poll() is None and peer.ring is None
        other.kill()
        assert peer.poll() is None
    peer.close()


def test_a_peer_that_is_killed_has_died(ring_name: str, car: Layout, new_actor: Callable[[], Actor]) -> None:
    peer = Peer("the DAQ", ring_name)
    for _ in range(2):
        other = new_actor()
        begin(other, ring_name, car)  # the second adopts what the first left
        assert peer.poll() == f"the DAQ is there (pid {other.pid})"
        other.kill()
        assert peer.poll() == f"the DAQ (pid {other.pid}) has crashed"
        assert peer.poll() is None and peer.ring is None  # what it left does not count as being there
    peer.close()


@pytest.mark.parametrize("kill", [False, True])
def test_how_much_a_peer_has_written_is_known_once_it_has_ended(
    ring_name: str, car: Layout, new_actor: Callable[[], Actor], kill: bool
) -> None:
    peer, other = Peer("the DAQ", ring_name), new_actor()
    assert peer.ended_at() == 0  # there was none
    begin(other, ring_name, car)
    other.do("for n in range(21): push(ring.words, np.zeros(ring.layout.words, np.int64))")
    assert peer.ended_at() is None
    other.do("push(ring.words, np.zeros(ring.layout.words, np.int64))")
    if not kill:
        other.do("ring.close()")
    other.kill()
    assert peer.ended_at() == peer.ended_at() == 22
    peer.close()


def test_a_peer_that_was_replaced_has_ended_and_the_new_one_is_there(
    ring_name: str, car: Layout, new_actor: Callable[[], Actor]
) -> None:
    peer, old, new = Peer("the DAQ", ring_name), new_actor(), new_actor()
    begin(old, ring_name, car, 16)
    assert peer.poll()
    old.kill()
    begin(new, ring_name, car, 32)
    assert peer.poll() == "the DAQ has ended"
    assert peer.poll() == f"the DAQ is there (pid {new.pid})"
    peer.close()


@pytest.mark.parametrize("content", [b"", b"garbage" * 10_000])
def test_what_is_no_ring_is_no_peer(ring_name: str, content: bytes) -> None:
    with open(f"/dev/shm/{ring_name}", "wb") as file:
        file.write(content)
    peer = Peer("the DAQ", ring_name)
    assert peer.poll() is None
    peer.close()


class Watching:
    """A thread that watches a ring, and what it has seen."""

    def __init__(self, name: str, rest_ns: int, rows: int) -> None:
        self.reader = RingReader(name)
        self.stop, self.transfer = np.zeros(1, np.int64), histogram()
        self.log = np.full((rows, 2), -1) if rows else NO_LOG
        block = np.zeros(self.reader.layout.words, np.int64)
        self.seen = -1
        self._arguments = (self.reader.words, self.stop, block, self.transfer, rest_ns, self.log)
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        self.seen = watch(*self._arguments)

    def end(self) -> None:
        self.stop[0] = 1
        self._thread.join(PATIENCE_S)
        self.reader.close()

    def saw(self, position: int) -> bool:
        return position in self.log[:, SEEN_POSITION]


def push_now(ring: RingWriter) -> int:
    """One block; its position."""
    block = np.zeros(ring.layout.words, np.int64)
    block[SEQ], block[PUSHED] = ring.head, now_ns()
    return int(push(ring.words, block))


def push_until(ring: RingWriter, seen: Callable[[], bool]) -> list[int]:
    """One block after another until it is so; when each had been pushed."""
    pushed, end = [], now_ns() + PATIENCE_S * 10**9
    while not seen():
        assert now_ns() < end, "nothing is seen"
        push_now(ring)
        pushed.append(now_ns())
        sleep_until(now_ns() + MS)
    return pushed


def wait_until(seen: Callable[[], bool]) -> None:
    end = now_ns() + PATIENCE_S * 10**9
    while not seen():
        assert now_ns() < end, "nothing is seen"
        sleep_until(now_ns() + MS // 10)


def test_every_push_is_seen_after_it_was_made_and_in_order(ring_name: str, car: Layout) -> None:
    ring = RingWriter(ring_name, car, 16)
    for _ in range(3):
        push_now(ring)  # before anyone looked: not a push that was seen
    watching = Watching(ring_name, rest_ns=0, rows=1000)
    push_until(ring, lambda: watching.saw(ring.head - 1))  # it has begun, and is waiting for the next
    before, pushed = ring.head, []
    for _ in range(100):
        begun = now_ns()
        position = push_now(ring)
        wait_until(lambda position=position: watching.saw(position))
        pushed.append((begun, now_ns()))
    watching.end()
    ring.close()
    figures = summary_us(watching.transfer)
    assert "negative" not in figures  # nobody sees a block before it is pushed
    assert figures["n"] == watching.seen
    log = watching.log[: watching.seen]
    assert (watching.log[watching.seen :] == -1).all()
    positions, instants = log[:, SEEN_POSITION], log[:, SEEN_NS]
    assert (np.diff(positions) > 0).all() and positions[0] >= 3 and (np.diff(instants) > 0).all()
    assert positions[-100:].tolist() == [*range(before, before + 100)]  # every one of them
    assert all(begun <= seen <= after for (begun, after), seen in zip(pushed, instants[-100:], strict=True))


def test_the_log_takes_what_it_has_room_for_and_all_are_counted(ring_name: str, car: Layout) -> None:
    ring = RingWriter(ring_name, car, 16)
    watching = Watching(ring_name, rest_ns=0, rows=10)
    push_until(ring, lambda: int(watching.transfer[:-3].sum()) >= 20)
    watching.end()
    ring.close()
    assert watching.seen >= 20 and (np.diff(watching.log[:, SEEN_POSITION]) > 0).all() and (watching.log >= 0).all()


def test_a_watcher_that_rests_sees_fewer_and_each_of_them_fresh(ring_name: str, car: Layout) -> None:
    ring = RingWriter(ring_name, car, 16)
    rest_ns = 30 * MS
    watching = Watching(ring_name, rest_ns, rows=8)
    pushed = push_until(ring, lambda: bool((watching.log >= 0).all()))
    watching.end()
    ring.close()
    assert "negative" not in summary_us(watching.transfer)
    positions, instants = watching.log[:, SEEN_POSITION], watching.log[:, SEEN_NS]
    assert (np.diff(instants) >= rest_ns).all()
    # what came while it rested was passed over: each was pushed after the rest before it
    assert all(pushed[n] >= seen + rest_ns for n, seen in zip(positions[1:], instants[:-1], strict=True))


def test_a_watcher_of_a_silent_ring_ends_when_told(ring_name: str, car: Layout) -> None:
    ring = RingWriter(ring_name, car, 16)
    watching = Watching(ring_name, rest_ns=0, rows=4)
    watching.end()
    ring.close()
    assert watching.seen == 0 and (watching.log == -1).all()
