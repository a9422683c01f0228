"""Time is CLOCK_MONOTONIC, and sleeping ends at its instant: not before, whatever happens, and without the GIL."""

import signal
import threading
import time
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st

from sync.clock import now_ns, sleep_until
from tests.sync.strategies import PROPERTY

MS = 1_000_000
SECOND = 1000 * MS


def test_now_is_the_monotonic_clock() -> None:
    for _ in range(1000):
        before, now, after = time.monotonic_ns(), now_ns(), time.monotonic_ns()
        assert before <= now <= after  # the same clock, so also to far less than a millisecond


def test_now_never_goes_back() -> None:
    stamps = [now_ns() for _ in range(10_000)]
    assert stamps == sorted(stamps)


@given(st.one_of(st.integers(-(2**63), 0), st.integers(0, 10**9)))
@settings(PROPERTY, max_examples=50)
def test_an_instant_that_has_passed_is_not_waited_for(ago_or_ancient: int) -> None:
    instant = ago_or_ancient if ago_or_ancient < 0 else now_ns() - ago_or_ancient
    begun = now_ns()
    sleep_until(instant)
    assert now_ns() - begun < SECOND


def test_sleeping_never_ends_before_its_instant() -> None:
    for k in range(200):
        instant = now_ns() + k * 25_000  # none to five milliseconds
        sleep_until(instant)
        late = now_ns() - instant
        assert 0 <= late < 5 * SECOND


def test_an_instant_at_a_full_second_is_an_instant_like_any_other() -> None:
    instant = (now_ns() // SECOND + 1) * SECOND
    sleep_until(instant)
    assert 0 <= now_ns() - instant < 5 * SECOND


def test_others_run_while_one_sleeps() -> None:
    """Python code in another thread is seen at work in the middle of the sleep, not just around it."""
    seen, stop = set(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            seen.add(now_ns() // (10 * MS))

    worker = threading.Thread(target=work)
    worker.start()
    begun = now_ns()
    sleep_until(begun + 500 * MS)
    stop.set()
    worker.join()
    inside = range((begun + 100 * MS) // (10 * MS), (begun + 400 * MS) // (10 * MS))
    assert len(seen & set(inside)) >= 3  # of 30; with the GIL held, none


def test_signals_do_not_end_a_sleep_early() -> None:
    taken = []

    def handler(number: int, frame: FrameType | None) -> None:
        taken.append(number)

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        for _ in range(5):
            instant = now_ns() + 100 * MS
            sleep_until(instant)
            assert 0 <= now_ns() - instant < 5 * SECOND
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert taken
