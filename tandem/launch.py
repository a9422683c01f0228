"""The processes of a drive, started before anything else.

What a person waits for is mostly imports, so they run side by side: this module needs nothing but the standard library,
starts all processes at once, and while they import and compile, the supervisor does the same and checks the
configuration. They wait for a line on their standard input before they begin; closing it calls them off.
"""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATIENCE_S = 5.0  # to end after being asked to; then the process is killed


@dataclass(frozen=True)
class Process:
    name: str
    module: str
    title: str


# In the order of stopping. All are asked at once: the simulator drains what the DAQ sent last.
PROCESSES = (
    Process("daq", "daq_service", "the DAQ"),
    Process("sim", "sim_service", "the simulator"),
)
RECORDER = Process("record", "tandem.recorder", "the recorder")
VIEW = Process("view", "sim_service.view", "the view")


class Service:
    """A running service and what it has said so far."""

    def __init__(self, process: Process, file: Path, overrides: list[str], tell: Callable[[str], None]):
        self.process = process
        self.status: dict[str, Any] = {}
        self.report: dict[str, Any] = {}
        self.last_words = ""
        self.ready = False  # to begin
        self.told: dict[str, Any] = {}  # when it was
        self._tell = tell
        command = [sys.executable, "-m", process.module, str(file), "--supervised"]
        for override in overrides:
            command += ["--set", override]
        # a session of its own: Ctrl-C in the terminal reaches the supervisor alone, which then stops things in order
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            try:
                message = json.loads(line)
            except json.JSONDecodeError:
                message = {"kind": "say", "text": line.rstrip()}
            kind = message.pop("kind", "say")
            if kind == "status":
                self.status = message
            elif kind == "report":
                self.report = message
            elif kind == "ready":
                self.told = message
                self.ready = True
            else:
                self.last_words = message.get("text", "")
                self._tell(f"{self.process.name}: {self.last_words}")

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def code(self) -> int | None:
        return self._popen.poll()

    def say(self, line: str) -> None:
        """A line on its standard input."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended: seen elsewhere
            self._popen.stdin.write(line + "\n")
            self._popen.stdin.flush()

    def ask_to_end(self) -> None:
        assert self._popen.stdin is not None
        with contextlib.suppress(ProcessLookupError):
            self._popen.terminate()
        with contextlib.suppress(OSError):
            self._popen.stdin.close()  # wherever it still waits for the word to begin

    def end(self, patience_s: float = _PATIENCE_S) -> int:
        """Wait for it to end, insist; the exit code (negative: the signal that ended it)."""
        try:
            self._popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._tell(f"{self.process.title} does not end; killed")
            self._popen.kill()
            self._popen.wait()
        self._reader.join(1.0)
        return self._popen.returncode

    def obituary(self) -> str:
        code = self.code
        if code is not None and code < 0:
            return f"{self.process.title} was killed by {signal.Signals(-code).name}"
        return f"{self.process.title} ended with exit code {code}"


class Crew:
    """All of them, waiting for the word to begin."""

    def __init__(self, file: Path, overrides: list[str], recorded: bool):
        self._said: list[str] = []
        self._tell: Callable[[str], None] = self._said.append
        self._started_with = (file, overrides)
        self.view: Service | None = None
        # the recorder first: the others wait until it watches
        self.recorder = Service(RECORDER, file, overrides, self._hear) if recorded else None
        self.services = [Service(process, file, overrides, self._hear) for process in PROCESSES]

    def _hear(self, text: str) -> None:
        self._tell(text)

    def listen(self, tell: Callable[[str], None]) -> None:
        """From now on what they say is told; also what they have said already."""
        for text in self._said:
            tell(text)
        self._tell = tell

    def show(self) -> Service:
        """The page, once there is something to see: what it imports would make the others late."""
        self.view = Service(VIEW, *self._started_with, self._hear)
        return self.view

    def call_off(self) -> None:
        """Whoever is still there ends, unheard."""
        self._tell = lambda _: None
        there = [s for s in (*self.services, self.recorder, self.view) if s is not None and s.code is None]
        for service in there:
            service.ask_to_end()
        for service in there:
            service.end()
