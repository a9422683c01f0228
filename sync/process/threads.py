"""Ends: of a thread, and asked for by a signal. Nothing but the standard library: tandem/live/supervisor/launch.py is
imported before all else."""

import _thread
import signal
import threading
from typing import Any

_LOOKS = 40


def joined(thread: threading.Thread, seconds: float) -> bool:
    """Whether it ends within these seconds, counted in looks: while this whole process was stopped the thread could
    not end, and no look was made."""
    for _ in range(_LOOKS):
        thread.join(seconds / _LOOKS)
        if not thread.is_alive():
            return True
    return False


def set_by_signals(event: threading.Event, *numbers: int) -> dict[int, Any]:
    """Set the event when one of these signals comes; the handlers there were before.

    Not in the handler itself: that runs in the main thread, between any two instructions, and where these are within
    `event.wait()` they hold the lock that `event.set()` waits for. A process then hangs instead of ending (seen in 5 of
    1600 processes that waited all the time).
    """

    def ask(*_: object) -> None:
        try:
            _thread.start_new_thread(event.set, ())
        except RuntimeError:  # no memory for another thread: then the small risk, not an end without a clean-up
            event.set()

    return {number: signal.signal(number, ask) for number in numbers}
