"""Sockets: the newest block and only that, and a number for every block that did not come."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq

from sync.clock import now_ns
from sync.errors import WireError
from sync.ring.block import Layout
from sync.ring.ring import HEARTBEAT_WORD, RingReader, RingWriter, peek, push
from sync.transport import wire
from sync.transport.socket_guard import SocketGuard
from sync.transport.wire import Context, Publisher, Receiver, context, wait_beyond
from tests.ports import free_port
from tests.sync.actors import PATIENCE_S, Actor, environment
from tests.sync.strategies import words_of


@pytest.fixture(params=["ipc", "tcp"])
def endpoint(request: pytest.FixtureRequest, socket_folder: Path) -> str:
    return f"ipc://{socket_folder}/s.ipc" if request.param == "ipc" else f"tcp://127.0.0.1:{free_port()}"


class Station:
    """A receiver, its ring, and one who reads the ring."""

    def __init__(self, context: Context, endpoint: str, name: str, layout: Layout, waiting: int = 0) -> None:
        self.ring = RingWriter(name, layout, 4096)
        self.reader = RingReader(name)
        self.receiver = Receiver(context, endpoint, self.ring, waiting=waiting)
        self.receiver.connect()

    @property
    def count(self) -> dict[str, int]:
        return self.receiver.count()

    @property
    def last(self) -> tuple[int, int]:
        newest = self.reader.newest()
        return (-1, -1) if newest is None else (int(newest["epoch"]), int(newest["seq"]))

    def until(self, done: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, f"does not come; so far {self.count}"
            meanwhile()
            self.receiver.receive()

    def take(self, publisher: Publisher, block: np.ndarray) -> None:
        """Have it published until it is here (ZeroMQ may drop it in passing)."""
        wanted = (int(block[1]), int(block[0]))
        self.until(lambda: self.last == wanted, lambda: publisher.publish(block))

    def close(self) -> None:
        self.receiver.close()
        self.reader.close()
        self.ring.close()


@pytest.fixture
def station(zmq_context: Context, endpoint: str, ring_name: str, car: Layout) -> Iterator[Station]:
    made = Station(zmq_context, endpoint, ring_name, car)
    yield made
    made.close()


@contextmanager
def publishing(context: Context, endpoint: str, layout: Layout) -> Iterator[Publisher]:
    publisher = Publisher(context, endpoint, layout)
    try:
        yield publisher
    finally:
        publisher.close()


@pytest.fixture
def every(zmq_context: Context, endpoint: str, ring_name: str, car: Layout) -> Iterator[tuple[Station, Publisher]]:
    """With queues at both ends, so that every message comes, and in order: of those that only the newest is kept of
    libzmq may hold one back until the next is sent. A first block has come, of epoch 1."""
    publisher = Publisher(zmq_context, endpoint, car, waiting=1000)
    station = Station(zmq_context, endpoint, ring_name, car, waiting=1000)
    station.take(publisher, block_of(car, 1, 0))
    yield station, publisher
    station.close()
    publisher.close()


def send(every: tuple[Station, Publisher], layout: Layout, epoch: int, *seqs: int) -> None:
    for seq in seqs:
        every[1].publish(block_of(layout, epoch, seq))


def block_of(layout: Layout, epoch: int, seq: int) -> np.ndarray:
    return words_of(layout, (seq, epoch, 10 * seq, now_ns(), 0, 0, seq % 1000, -(seq % 1000), -seq))


def test_a_block_arrives_as_it_was_sent_and_knows_its_way(
    station: Station, zmq_context: Context, endpoint: str, car: Layout
) -> None:
    with publishing(zmq_context, endpoint, car) as publisher:
        begun = now_ns()
        block = block_of(car, 7, 41)
        station.take(publisher, block)
        found = station.reader.newest()
    assert found.item()[:4] == (41, 7, 410, block[3])
    assert found.item()[6:] == (41, -41, -41)
    assert begun <= found["pushed_ns"] <= found["sent_ns"] <= found["received_ns"] <= now_ns()
    assert station.receiver.transfer[:-3].sum() == 1


def test_a_receiver_that_slept_wakes_up_to_the_newest(
    station: Station, zmq_context: Context, endpoint: str, car: Layout
) -> None:
    with publishing(zmq_context, endpoint, car) as publisher:
        station.take(publisher, block_of(car, 1, 0))
        before = station.count["blocks"]
        for seq in range(1, 3001):
            publisher.publish(block_of(car, 1, seq))
        last = block_of(car, 1, 3000)
        station.until(lambda: station.last == (1, 3000), lambda: publisher.publish(last))
        woken = station.count["blocks"] - before
    assert woken <= 30  # not the three thousand it slept through; one, and a few that were on the way
    assert station.count["blocks"] + station.count["superseded"] == 3001
    assert station.count["epochs"] == 1


RECEIVE = """
def work():
    receiver.connect()
    while True:
        receiver.receive()
ring = RingWriter(name, Layout.from_text(text), 4096)
receiver = Receiver(context(), endpoint, ring)
threading.Thread(target=work, daemon=True).start()
"""


def test_a_process_that_was_stopped_goes_on_with_the_newest_and_no_queue(
    zmq_context: Context, endpoint: str, ring_name: str, car: Layout, actor: Actor
) -> None:
    """However much was sent meanwhile: at the publisher too only the newest waits."""
    actor.do(RECEIVE, name=ring_name, text=car.text, endpoint=endpoint)
    reader = RingReader(ring_name)

    def wait_for(seq: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (newest := reader.newest()) is None or newest["seq"] != seq:
            assert time.monotonic() < deadline, f"got no further than {newest}"
            meanwhile()
            time.sleep(0.01)

    with publishing(zmq_context, endpoint, car) as publisher:
        wait_for(0, lambda: publisher.publish(block_of(car, 1, 0)))
        os.kill(actor.pid, signal.SIGSTOP)
        block = block_of(car, 1, 0)
        for seq in range(1, 100_001):
            block[0] = seq
            publisher.publish(block)
        os.kill(actor.pid, signal.SIGCONT)
        wait_for(100_000, lambda: publisher.publish(block))  # what libzmq exchanges while it is read can be the old one
    assert reader.head < 20_000  # what was on the way already fits into the buffers of the kernel, some hundred
    reader.close()


def test_a_receiver_of_a_silent_publisher_has_one_connection(
    zmq_context: Context, ring_name: str, car: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It connects anew to one that says nothing; the connections before must go, or they use up everybody's places."""
    monkeypatch.setattr(wire, "_SILENT_POLLS", 2)
    port = free_port()
    other = context()
    guards = SocketGuard(zmq_context), SocketGuard(other)
    publisher = Publisher(zmq_context, f"tcp://127.0.0.1:{port}", car, guard=guards[0])
    ring = RingWriter(ring_name, car, 64)
    receiver = Receiver(other, f"tcp://127.0.0.1:{port}", ring, guard=guards[1])
    receiver.connect()
    for _ in range(20):
        receiver.receive()

    def established() -> int:
        there = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(words[1].endswith(f":{port:04X}") and words[3] == "01" for words in there)

    deadline = time.monotonic() + PATIENCE_S
    while established() > 1:  # those before the last one go, in their own time
        assert time.monotonic() < deadline, f"{established()} connections"
        time.sleep(0.01)
    receiver.close()
    publisher.close()
    for guard in guards:
        guard.close()
    other.destroy(0)
    ring.close()


def test_every_message_is_counted_for_what_it_is(every: tuple[Station, Publisher], car: Layout) -> None:
    station, _ = every
    send(every, car, 100, 0)
    station.until(lambda: station.last == (100, 0))
    before = station.count
    for epoch, seq in ((100, 1), (100, 1), (100, 5), (100, 3), (101, 6), (101, 6), (101, 5), (102, 2), (102, 3)):
        send(every, car, epoch, seq)
    station.until(lambda: station.last == (102, 3))
    count = {what: number - before[what] for what, number in station.count.items()}
    assert count["blocks"] == 5  # 1, 5, then 6, then 2, 3
    assert count["superseded"] == 3 + 0 + 2  # 2, 3, 4; none, as 6 goes on from 5; 0 and 1 of a producer made anew
    assert count["repeats"] == 2
    assert count["backwards"] == 2
    assert count["epochs"] == 2
    assert (count["foreign"], count["malformed"]) == (0, 0)
    found, _, _ = station.reader.since(0)
    assert found[["epoch", "seq"]].tolist()[1:] == [(100, 0), (100, 1), (100, 5), (101, 6), (102, 2), (102, 3)]


@pytest.mark.parametrize("forged", [2**62, 2**48, 10_000])
def test_a_forged_number_does_not_outlive_the_forger(
    every: tuple[Station, Publisher], car: Layout, forged: int
) -> None:
    """Somebody in the DAQ's place sends one block that is far ahead, in the epoch of the genuine ones, and is gone."""
    station, publisher = every
    send(every, car, 100, 5)
    false = block_of(car, 100, 6)
    false[0] = forged
    publisher.publish(false)
    send(every, car, 100, *range(6, 40))
    station.until(lambda: station.last == (100, 39))
    found, _, _ = station.reader.since(0)
    genuine = [seq for seq in found["seq"][found["epoch"] == 100].tolist() if seq < 40]
    assert genuine == sorted(set(genuine)) and len(genuine) >= 34 - 16
    assert station.count["superseded"] < 2**49


def test_older_blocks_that_are_no_stream_stay_old(every: tuple[Station, Publisher], car: Layout) -> None:
    station, _ = every
    older = (*range(10), *range(9, -1, -1), *[3] * 20, *range(1, 11))
    send(every, car, 100, 1000, *older)
    send(every, car, 101, 0)  # the last that is sent
    station.until(lambda: station.last == (101, 0))
    found, _, _ = station.reader.since(0)
    assert found["seq"][found["epoch"] == 100].tolist() == [1000]
    assert station.count["backwards"] == len(older)


def test_a_publisher_knows_what_it_sent_anew_and_what_again(zmq_context: Context, endpoint: str, car: Layout) -> None:
    with publishing(zmq_context, endpoint, car) as publisher:  # nobody listens, nobody waits
        for epoch, seq in ((1, 0), (1, 1), (1, 1), (1, 1), (2, 1), (2, 2)):
            publisher.publish(block_of(car, epoch, seq))
        assert (publisher.sent, publisher.repeated) == (4, 2)


def test_with_a_queue_every_block_comes_and_what_it_cannot_hold_leaves_a_number(
    zmq_context: Context, ring_name: str, car: Layout
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    publisher = Publisher(zmq_context, endpoint, car, waiting=1000)
    station = Station(zmq_context, endpoint, ring_name, car, waiting=1000)
    try:
        station.take(publisher, block_of(car, 1, 0))
        for seq in range(1, 501):
            publisher.publish(block_of(car, 1, seq))
        station.until(lambda: station.last == (1, 500))
        assert station.count["superseded"] == 0
        block = block_of(car, 1, 0)
        for seq in range(501, 200_001):
            block[0] = seq
            publisher.publish(block)
        station.take(publisher, block_of(car, 1, 200_001))
        assert station.count["superseded"] > 0
        assert station.count["blocks"] + station.count["superseded"] == 200_002
        assert station.count["backwards"] == 0
    finally:
        station.close()
        publisher.close()


PUBLISH = """
publisher = Publisher(context(), endpoint, Layout.from_text(text))
def publish(seq):
    row = (seq, epoch, 10 * seq, now_ns(), 0, 0, seq % 1000, -(seq % 1000), -seq)
    publisher.publish(np.frombuffer(publisher_layout.struct.pack(*row), np.int64).copy())
publisher_layout = Layout.from_text(text)
"""
FLOOD = """
def flood():
    for seq in range(first, first + blocks):
        publish(seq)
    while True:
        publish(first + blocks - 1)
        time.sleep(0.01)
"""


def begin_publishing(actor: Actor, endpoint: str, layout: Layout, epoch: int, blocks: int = 1) -> None:
    actor.do(PUBLISH, endpoint=endpoint, text=layout.text, epoch=epoch, first=0, blocks=blocks)
    actor.do(FLOOD)
    actor.do("threading.Thread(target=flood, daemon=True).start()")


def test_blocks_and_superseded_make_up_all_that_a_process_sent(
    station: Station, endpoint: str, car: Layout, actor: Actor
) -> None:
    begin_publishing(actor, endpoint, car, epoch=9, blocks=20_000)
    station.until(lambda: station.last == (9, 19_999))
    count = station.count
    assert count["blocks"] + count["superseded"] == 20_000
    assert (count["backwards"], count["foreign"], count["malformed"]) == (0, 0, 0)
    assert station.reader.head == count["blocks"]
    found, _, lost = station.reader.since(0, most=20_000)
    assert lost + len(found) == count["blocks"]
    assert (np.diff(found["seq"].astype(np.int64)) > 0).all()
    assert (found["steering"] == -found["seq"].astype(np.int64)).all()


def test_a_publisher_that_was_killed_and_started_again_is_found_again(
    station: Station, endpoint: str, car: Layout, new_actor: Callable[[], Actor]
) -> None:
    for life in (1, 2, 3):
        publisher = new_actor()
        begin_publishing(publisher, endpoint, car, epoch=life, blocks=50)
        station.until(lambda life=life: station.last == (life, 49))
        publisher.kill()
    assert station.count["epochs"] == 3


def test_a_publisher_that_was_closed_and_opened_again_is_found_again(
    station: Station, endpoint: str, car: Layout
) -> None:
    for life in (1, 2, 3):
        own = context()
        with publishing(own, endpoint, car) as publisher:
            station.take(publisher, block_of(car, life, 0))
        own.destroy(0)  # as at the end of a service; only then is a port free again
    assert station.count["epochs"] == 3


def test_a_receiver_may_come_before_its_publisher_and_signs_its_ring_meanwhile(
    station: Station, zmq_context: Context, endpoint: str, car: Layout
) -> None:
    for _ in range(3):
        before = now_ns()
        assert not station.receiver.receive()
        assert peek(station.reader.words, HEARTBEAT_WORD) >= before
    with publishing(zmq_context, endpoint, car) as publisher:
        station.take(publisher, block_of(car, 1, 0))


def test_several_receivers_get_the_same_stream(
    station: Station, zmq_context: Context, endpoint: str, car: Layout, ring_name: str
) -> None:
    other = Station(zmq_context, endpoint, ring_name + ".b", car)
    with publishing(zmq_context, endpoint, car) as publisher:
        for each in (station, other, station, other):
            each.take(publisher, block_of(car, 1, station.reader.head + other.reader.head))
    other.close()


@contextmanager
def somebody_else(endpoint: str, kind: int) -> Iterator[zmq.Socket[bytes]]:
    """A socket that is none of ours at our endpoint; gone afterwards."""
    own = context()
    alien = own.socket(kind)
    alien.set(zmq.LINGER, 0)
    alien.bind(endpoint)
    try:
        yield alien
    finally:
        own.destroy(0)


def test_senseless_messages_are_counted_and_ignored(station: Station, endpoint: str) -> None:
    junk = [os.urandom(100), bytes(20_000), msgpack.packb({"version": 1}), b""]
    with somebody_else(endpoint, zmq.PUB) as alien:
        station.until(lambda: station.count["malformed"] >= 20, lambda: [alien.send(data) for data in junk])
    assert station.count["malformed"] == sum(station.count.values())
    assert station.reader.head == 0


@pytest.mark.parametrize(
    "endpoint,kind", [("tcp", zmq.PUB), ("ipc", zmq.PUSH)], ids=["a message of megabytes", "a socket of another kind"],
    indirect=["endpoint"],
)  # fmt: skip
def test_a_peer_that_breaks_the_protocol_does_not_keep_a_receiver_from_the_sound_one_after_it(
    station: Station, zmq_context: Context, endpoint: str, car: Layout, kind: int
) -> None:
    with somebody_else(endpoint, kind) as alien:
        for _ in range(10):
            alien.send(bytes(2_000_000), zmq.NOBLOCK) if kind == zmq.PUB else None
            assert not station.receiver.receive()
    with publishing(zmq_context, endpoint, car) as publisher:
        station.take(publisher, block_of(car, 1, 0))
    assert station.count["malformed"] == 0  # libzmq did not let it in


# ---- endpoints -------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_an_error_that_names_it(zmq_context: Context, car: Layout) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with publishing(zmq_context, endpoint, car):
        with pytest.raises(WireError, match=rf"{endpoint}: address already in use; .* another port"):
            Publisher(zmq_context, endpoint, car)
        program = (
            "from sync.ring.block import *\nfrom sync.errors import WireError\nfrom sync.transport.wire import *\n"
            "import sys\n"
            "try: Publisher(context(), sys.argv[1], Layout((Channel('x', 'i2'),)))\n"
            "except WireError as error: print(error)"
        )
        command = [sys.executable, "-c", program, endpoint]
        said = subprocess.run(command, check=True, env=environment(), stdout=subprocess.PIPE, text=True)
        assert said.stdout.startswith(f"{endpoint}: address already in use")


@pytest.mark.parametrize(
    "endpoint",
    ["ipc:///tmp/tandem/no/such/folder/s.ipc", f"ipc:///tmp/{'x' * 200}", "tcp://203.0.113.7:5601", "nonsense"],
)
def test_an_endpoint_that_cannot_be_had_is_an_error_that_names_it(
    zmq_context: Context, car: Layout, endpoint: str
) -> None:
    with pytest.raises(WireError, match=f"^{endpoint}: "):
        Publisher(zmq_context, endpoint, car)


def test_the_loopback_of_ipv6_is_an_address_like_any_other(zmq_context: Context, ring_name: str, car: Layout) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            endpoint = f"tcp://[::1]:{probe.getsockname()[1]}"
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    station = Station(zmq_context, endpoint, ring_name, car)
    with publishing(zmq_context, endpoint, car) as publisher:
        station.take(publisher, block_of(car, 1, 0))
    station.close()


def test_an_endpoint_that_is_none_is_an_error_at_connect(zmq_context: Context, ring_name: str, car: Layout) -> None:
    ring = RingWriter(ring_name, car, 16)
    receiver = Receiver(zmq_context, "tcp://nonsense", ring)
    with pytest.raises(WireError, match=r"^tcp://nonsense: "):
        receiver.connect()
    receiver.close()
    ring.close()


def test_a_local_socket_is_the_users_own_and_goes_with_its_publisher(
    zmq_context: Context, socket_folder: Path, car: Layout
) -> None:
    path = socket_folder / "s.ipc"
    before = os.umask(0)
    try:
        with publishing(zmq_context, f"ipc://{path}", car):
            assert path.is_socket()
            assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert list(socket_folder.iterdir()) == []


def test_closing_a_publisher_whose_socket_was_swept_away_does_no_harm(
    zmq_context: Context, socket_folder: Path, car: Layout
) -> None:
    with publishing(zmq_context, f"ipc://{socket_folder}/s.ipc", car):
        (socket_folder / "s.ipc").unlink()
    with publishing(zmq_context, f"ipc://{socket_folder}/s.ipc", car):  # the next finds its place free
        assert (socket_folder / "s.ipc").is_socket()
    assert list(socket_folder.iterdir()) == []


# ---- waiting ---------------------------------------------------------------------------------------------------------


def test_waiting_beyond_a_position_ends_with_a_newer_block_or_with_its_time(ring_name: str, car: Layout) -> None:
    ring, reader = RingWriter(ring_name, car, 16), RingReader(ring_name)
    until = now_ns() + 50_000_000
    assert not wait_beyond(reader.words, -1, until, 1_000_000, 0)
    assert now_ns() >= until
    push(ring.words, block_of(car, 1, 0))
    assert wait_beyond(reader.words, -1, 0, 1_000_000, 0)  # there already: no wait at all
    assert not wait_beyond(reader.words, 0, 0, 1_000_000, 0)
    ring.close()
    reader.close()


def test_waiting_beyond_a_position_sees_the_push_of_another_process(ring_name: str, car: Layout, actor: Actor) -> None:
    actor.do("ring = RingWriter(name, Layout.from_text(text), 16)", name=ring_name, text=car.text)
    reader = RingReader(ring_name)
    actor.do("threading.Timer(0.1, lambda: push(ring.words, np.zeros(7, np.int64))).start()")
    assert wait_beyond(reader.words, -1, now_ns() + PATIENCE_S * 10**9, 500_000, 0)
    assert reader.head == 1
    reader.close()
