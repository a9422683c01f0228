"""Other processes for the tests: real ones, that do what a test tells them and can be killed at any moment.

Starting Python and loading the kernels takes a second. A nursery does that once and forks an actor whenever one is
asked for, which takes milliseconds; apart from that an actor is a process like any other. What it shall do is written
in the test, as Python: `actor.do("ring.head")` gives the value of an expression, statements are just executed.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120  # for what normally takes milliseconds: only so that a test which hangs ends

_PRELUDE = """
import os, resource, signal, sys, threading, time
import numpy as np
import zmq
from sync.process import realtime
from sync.ring.block import *
from sync.clock import now_ns, sleep_until
from sync.config.config import Realtime
from sync.errors import *
from sync.ring.ring import *
from sync.transport.wire import Publisher, Receiver, context
"""


def environment(**more: str) -> dict[str, str]:
    """That of a process that shall find our packages."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **more}


class ActorError(Exception):
    """What an actor was told to do raised something."""


class Actor:
    def __init__(self, control: socket.socket):
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(PATIENCE_S)
        socket.send_fds(control, [b"fork"], [theirs.fileno()])
        theirs.close()
        self.pid = int(control.recv(32))
        self._lines = self._socket.makefile("rw")

    def do(self, code: str, **values: Any) -> Any:
        """Run `code` there with `values` (JSON) as names; the value, if it is an expression."""
        self._lines.write(json.dumps([code, values]) + "\n")
        self._lines.flush()
        answer = json.loads(self._lines.readline())
        if "error" in answer:
            raise ActorError(answer["error"])
        return answer["value"]

    @property
    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL; returns when the kernel has taken back all the process had."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._gone()

    def end(self) -> None:
        """Let the interpreter end as a program does that has reached its last line."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._gone()

    def _gone(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.alive:
            assert time.monotonic() < deadline, f"process {self.pid} does not end"
            time.sleep(0.001)
        with contextlib.suppress(OSError):
            self._lines.close()
        self._socket.close()


class Nursery:
    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(PATIENCE_S)
        self._actors: list[Actor] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sync.actors", str(theirs.fileno())],
            cwd=ROOT, env=environment(), pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()

    def actor(self) -> Actor:
        self._actors.append(Actor(self._control))
        return self._actors[-1]

    def clear(self) -> None:
        while self._actors:
            actor = self._actors.pop()
            if actor.alive:
                actor.kill()

    def close(self) -> None:
        self.clear()
        self._control.close()
        self._process.wait(PATIENCE_S)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _act(lines: Any, names: dict[str, Any]) -> None:
    for line in lines:
        code, values = json.loads(line)
        names.update(values)
        try:
            try:
                program = compile(code, "<actor>", "eval")
            except SyntaxError:
                program = compile(code, "<actor>", "exec")
            answer = {"value": eval(program, names)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        lines.write(json.dumps(answer, default=_plain) + "\n")
        lines.flush()


def _nurse(control: socket.socket) -> None:
    names: dict[str, Any] = {}
    exec(_PRELUDE, names)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead: they are gone at once
    while True:
        _, fds, _, _ = socket.recv_fds(control, 16, 1)
        if not fds:
            return  # the tests are over
        pid = os.fork()
        if pid == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with socket.socket(fileno=fds[0]) as ours, ours.makefile("rw") as lines, contextlib.suppress(OSError):
                _act(lines, names)
            return
        os.close(fds[0])
        control.send(str(pid).encode())


if __name__ == "__main__":
    _nurse(socket.socket(fileno=int(sys.argv[1])))
