"""The clock of another host: the bound holds, whatever the network does."""

import itertools
import threading
import time
from types import SimpleNamespace

import msgpack
import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.clock import now_ns
from sync.transport.host_clock import Artificial, ClockClient, ClockServer, Walls, discipline_ns
from sync.transport.wire import BOUND, KNOWN, OFFSET
from tests.examples import few

SECOND = 1_000_000_000


def _exchange(walls: Walls, at: int, there: int, back: int, clock: Artificial) -> int:
    """One exchange begun at `at` on our clock with these delays (ns); returns when it was over."""

    def theirs(t: int) -> int:
        return t + clock.offset_ns + round(clock.drift * t)

    b1 = theirs(at + there)
    walls.add(at, b1, b1 + 3_000, at + there + 3_000 + back)
    return at + there + 3_000 + back


@given(
    offset=st.integers(-(10**12), 10**12),
    ppm=st.floats(-200, 200),
    seed=st.integers(0, 2**32 - 1),
    asymmetry=st.floats(0.1, 10),
    spread=st.floats(1e3, 1e6),
)
@settings(deadline=None, max_examples=few(60))
def test_the_true_offset_is_always_within_the_bound(
    offset: int, ppm: float, seed: int, asymmetry: float, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    clock = Artificial(offset, ppm * 1e-6)
    walls, now = Walls(), 3_600 * SECOND
    for _ in range(80):
        there, back = 30_000 + rng.exponential(spread), 30_000 * asymmetry + rng.exponential(spread)
        done = _exchange(walls, now, int(there), int(back), clock)
        estimate = walls.estimate(done)
        assert estimate is not None
        assert abs(estimate.offset_ns - (offset + clock.drift * done)) <= estimate.bound_ns + 2
        for later in (SECOND // 5, 5 * SECOND, 30 * SECOND):  # and for as long as no further answer comes
            true = offset + clock.drift * (done + later)
            assert abs(estimate.offset_at(done + later) - true) <= estimate.bound_at(done + later) + 2
        now = done + int(rng.uniform(0.02, 0.4) * SECOND)
    assert walls.steps == 0


def test_quick_exchanges_make_the_bound_and_slow_ones_do_not_spoil_it() -> None:
    rng = np.random.default_rng(1)
    clock = Artificial(3 * SECOND, 50e-6)
    walls, now = Walls(), 1_000 * SECOND
    for k in range(200):
        held_up = 50_000_000 if k % 3 else 0
        there, back = 60_000 + rng.exponential(30_000) + held_up, 60_000 + rng.exponential(30_000)
        now = _exchange(walls, now, int(there), int(back), clock) + SECOND // 10
    estimate = walls.estimate(now)
    assert estimate is not None
    assert estimate.bound_ns < 100_000
    assert estimate.drift * 1e6 == pytest.approx(50, abs=10)


def test_a_stepped_clock_is_noticed_and_followed() -> None:
    walls, now = Walls(), 1_000 * SECOND
    for clock in (Artificial(0), Artificial(5 * SECOND)):
        for _ in range(60):
            now = _exchange(walls, now, 60_000, 60_000, clock) + SECOND // 10
            estimate = walls.estimate(now)
    assert walls.steps > 0
    assert estimate is not None
    assert abs(estimate.offset_ns - 5 * SECOND) <= estimate.bound_ns


def test_memory_is_bounded() -> None:
    walls, now = Walls(), 1_000 * SECOND
    for _ in range(5_000):
        now = _exchange(walls, now, 60_000, 60_000, Artificial()) + 10_000_000
    assert len(walls._exchanges) <= 70


@pytest.mark.parametrize("declared", [None, 50_000])
def test_server_and_client_over_a_real_socket(declared: int | None) -> None:
    # a declared bound is one of clocks that run alike
    clock = Artificial(-7 * SECOND, 0.0 if declared else 30e-6)
    with zmq.Context() as context:
        endpoint = f"inproc://clock-{declared}"
        server = ClockServer(context, endpoint, clock)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                server.serve()

        thread = threading.Thread(target=serve)
        thread.start()
        client = ClockClient(context, endpoint, declared)
        client.connect()
        while client.walls.exchanges < 20:  # one whose answer was held up is asked again
            client.exchange()
        estimate = client.estimate
        assert estimate is not None
        true = clock.offset_ns + clock.drift * estimate.at_ns
        assert abs(estimate.offset_ns - true) <= estimate.bound_ns
        if declared:
            assert estimate.bound_ns == declared
        stop.set()
        thread.join()
        server.close()
        client.close()


def test_a_receiver_reads_no_instants_across_a_jump_of_the_clock_or_a_silence() -> None:
    with zmq.Context() as context:
        server = ClockServer(context, "inproc://jumps", Artificial(5 * SECOND))
        stop, mute = threading.Event(), threading.Event()

        def serve() -> None:
            while not stop.is_set():
                if not mute.is_set():
                    server.serve()

        thread = threading.Thread(target=serve)
        thread.start()
        client = ClockClient(context, "inproc://jumps")
        client.connect()

        def known() -> bool:
            client.exchange()
            return bool(client.reading()[KNOWN])

        def until(wanted: bool) -> int:
            asked = 1
            while known() != wanted:
                asked += 1
                assert asked <= 1000
            return asked

        def read(offset_ns: int) -> bool:
            """By as much as one of many exchanges was quick."""
            reading = client.reading()
            return bool(abs(reading[OFFSET] - offset_ns) <= reading[BOUND] < SECOND)

        assert not client.reading()[KNOWN]
        assert until(True) >= 20  # the drift has to be known too
        assert read(5 * SECOND)
        server._clock = Artificial(-3 * SECOND)  # that host was started anew
        while client.stepped == 0:
            assert not known() or client.silent  # the first answer of another clock is the end of what was known
        until(True)
        assert read(-3 * SECOND)
        mute.set()
        until(False)
        mute.clear()
        until(True)
        assert client.stepped == 1
        stop.set()
        thread.join()
        server.close()
        client.close()


def test_nonsense_is_answered_and_ignored() -> None:
    with zmq.Context() as context:
        server = ClockServer(context, "inproc://nonsense", Artificial())
        asker = context.socket(zmq.REQ)
        asker.connect("inproc://nonsense")
        large, text = msgpack.packb({"a0": 2**63}), msgpack.packb({"a0": "9" * 30})
        junk = [[b""], [b"\xc1"], [b"x" * 100], [large], [text], [b"two", b"parts"], [msgpack.packb({"a0": True})]]
        for parts in junk:
            asker.send_multipart(parts)
            server.serve()
            asker.recv()
        assert server.malformed == len(junk)
        asker.close(0)
        server.close()


def test_no_answer_is_no_estimate() -> None:
    with zmq.Context() as context:
        client = ClockClient(context, "inproc://nobody")
        client.connect()
        assert client.exchange() is None
        assert client.unanswered == 1
        client.close()


def test_discipline_is_the_difference_of_two_clocks() -> None:
    first, before = now_ns(), time.clock_gettime_ns(time.CLOCK_REALTIME)
    difference = discipline_ns()
    after, last = time.clock_gettime_ns(time.CLOCK_REALTIME), now_ns()
    assert before - last <= difference <= after - first


def test_discipline_is_that_of_the_reading_that_was_interrupted_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is descheduled between two clocks reads them apart by as much."""
    true, now, pauses = 1_700_000_000_000_000_000, [0], itertools.cycle([3_000, 7_000_000, 100, 100, 40_000_000])

    def clock(ahead_ns: int) -> int:
        now[0] += next(pauses)
        return now[0] + ahead_ns

    fake = SimpleNamespace(CLOCK_REALTIME=0, monotonic_ns=lambda: clock(0), clock_gettime_ns=lambda _: clock(true))
    monkeypatch.setattr("sync.transport.host_clock.time", fake)
    assert discipline_ns() == true
