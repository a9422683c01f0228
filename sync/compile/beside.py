"""A compiler in a process of its own at idle priority, beside a run that does not wait for it.

`compile_beside` starts `python -m MODULE`, gives it `data` on standard input, and calls `each` with every line that it
prints: what it has finished and kept. It ends with this process; what it has kept stays, the rest is for another run.
"""

import atexit
import contextlib
import os
import subprocess
import threading
from collections.abc import Callable

from sync.child_python import python_command, python_environment


def compile_beside(module: str, data: bytes, each: Callable[[str], None]) -> None:
    child = subprocess.Popen(
        python_command("-m", module), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=python_environment(),
    )  # fmt: skip
    atexit.register(child.terminate)

    def listen() -> None:
        assert child.stdin is not None and child.stdout is not None
        with child, contextlib.suppress(BrokenPipeError):
            child.stdin.write(data)
            child.stdin.close()
            for line in child.stdout:
                each(line.decode().strip())
        atexit.unregister(child.terminate)

    threading.Thread(target=listen, daemon=True, name="compiles beside").start()


def be_idle() -> None:
    """Of the process that compiles: it runs where nothing else wants to."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
