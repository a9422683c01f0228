"""A compiler in a process of its own at idle priority, beside a run that does not wait for it.

`compile_beside` starts `python -m MODULE`, gives it `data` on standard input, and calls `each` with every line that it
prints: what it has compiled and stored. It ends with this process; stored code stays, the rest is for another run. When
it ends before this process, `ended` is called with the last line it wrote on standard error, or with how it ended.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable

from sync.child_python import python_command, python_environment


def compile_beside(module: str, data: bytes, each: Callable[[str], None], ended: Callable[[str], None]) -> None:
    try:
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        child = subprocess.Popen(
            python_command("-m", module), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env=python_environment(),
        )  # fmt: skip
    except OSError as error:
        ended(str(error))
        return
    leaving = threading.Event()

    def leave() -> None:
        leaving.set()
        child.terminate()

    atexit.register(leave)

    def listen() -> None:
        assert child.stdin is not None and child.stdout is not None
        with child, contextlib.suppress(BrokenPipeError):
            child.stdin.write(data)
            child.stdin.close()
            for line in child.stdout:
                each(line.decode().strip())
        atexit.unregister(leave)
        with errors:
            errors.seek(0)
            lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
        if not leaving.is_set() and child.returncode not in (-signal.SIGINT, -signal.SIGTERM):  # all are to end
            how = f"its compiler ended with {child.returncode}" if child.returncode else ""
            ended(lines[-1].removeprefix("tandem: ") if lines else how)

    threading.Thread(target=listen, daemon=True, name="compiles beside").start()


def be_idle() -> None:
    """Called by the process that compiles: it runs only while nothing else does."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
