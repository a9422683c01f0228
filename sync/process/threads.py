"""Wait for a thread to end; end on a signal. Needs only the standard library, because
tandem/live/supervisor/launch.py, which is imported before all else, uses it."""

import _thread
import signal
import threading
from typing import Any

_POLLS = 40


def joined(thread: threading.Thread, seconds: float) -> bool:
    """Whether a thread ends within these seconds, counted in polls: while this whole process is stopped, the thread
    cannot end, and no poll is counted."""
    for _ in range(_POLLS):
        thread.join(seconds / _POLLS)
        if not thread.is_alive():
            return True
    return False


def set_by_signals(event: threading.Event, *numbers: int) -> dict[int, Any]:
    """Set the event when one of these signals comes; returns the earlier handlers.

    Not in the handler itself: that runs in the main thread, between any two instructions, and where these are within
    `event.wait()` they hold the lock that `event.set()` waits for. A process then hangs instead of ending (seen in 5 of
    1600 processes that waited all the time).
    """

    def ask(*_: object) -> None:
        try:
            _thread.start_new_thread(event.set, ())
        except RuntimeError:  # no memory for another thread: better that small risk than to end without a clean-up
            event.set()

    return {number: signal.signal(number, ask) for number in numbers}
