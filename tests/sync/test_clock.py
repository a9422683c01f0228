"""Time is CLOCK_MONOTONIC, and sleeping ends at its instant: not before, whatever happens, and without the GIL."""

import signal
import threading
import time
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st

from sync.clock import now_ns, sleep_until
from tests.examples import few
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


@given(st.one_of(st.integers(-(2**63), 0), st.integers(1, 10**18).map(lambda ago: -ago)))
@settings(PROPERTY, max_examples=few(50))
def test_an_instant_that_has_passed_is_not_waited_for(passed: int) -> None:
    """Were one of them waited for, it would be for longer than any test: they are a quarter of an hour ago at least."""
    instant = passed if passed < -(2**60) else now_ns() - 1000 * SECOND + passed
    sleep_until(instant)
    assert now_ns() > instant


def test_sleeping_never_ends_before_its_instant() -> None:
    for k in range(200):
        instant = now_ns() + k * 25_000  # none to five milliseconds
        sleep_until(instant)
        assert now_ns() >= instant


def test_an_instant_at_a_full_second_is_an_instant_like_any_other() -> None:
    instant = (now_ns() // SECOND + 1) * SECOND
    sleep_until(instant)
    assert now_ns() >= instant


def test_others_run_while_one_sleeps() -> None:
    """Python code in another thread is seen at work in the middle of the sleep, not just around it."""
    middle, seen, stop = [0, 0], [0], threading.Event()

    def work() -> None:
        while not stop.is_set():
            seen[0] += middle[0] < now_ns() < middle[1]

    worker = threading.Thread(target=work)
    worker.start()
    try:
        middles = tries = 0
        while middles < 3:  # with the GIL held, never; on a busy machine not every time
            before, begun = seen[0], now_ns()
            middle[:] = begun + 50 * MS, begun + 90 * MS
            sleep_until(begun + 100 * MS)
            middles += seen[0] > before
            tries += 1
            assert tries < 200
    finally:
        stop.set()
        worker.join()


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
            assert now_ns() >= instant
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert taken
