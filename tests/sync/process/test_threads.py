"""A signal that asks for an end is never answered by a hang."""

import os
import signal
import subprocess
import sys
import threading

from sync.process.threads import joined, set_by_signals

# the signal comes while the main thread is inside `wait`, with the lock of the event in its hands
PROGRAM = """
import signal, threading
from sync.process.threads import set_by_signals
event = threading.Event()
set_by_signals(event, signal.SIGTERM)
with event._cond:
    signal.raise_signal(signal.SIGTERM)
event.wait()
print("ended")
"""


def test_a_signal_in_the_middle_of_a_wait_ends_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "ended\n"


def test_the_handlers_of_before_can_be_put_back() -> None:
    event = threading.Event()
    first = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        before = set_by_signals(event, signal.SIGUSR2)
        assert before == {signal.SIGUSR2: signal.SIG_IGN} and not event.is_set()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert event.wait(300.0)
    finally:
        signal.signal(signal.SIGUSR2, first)


def test_a_thread_that_ends_is_joined() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    assert joined(thread, 300.0)
