"""The end of a thread. Nothing but the standard library: tandem/supervisor/launch.py is imported before all else."""

import threading

_LOOKS = 40


def joined(thread: threading.Thread, seconds: float) -> bool:
    """Whether it ends within these seconds, counted in looks: while this whole process was stopped the thread could
    not end, and no look was made."""
    for _ in range(_LOOKS):
        thread.join(seconds / _LOOKS)
        if not thread.is_alive():
            return True
    return False
