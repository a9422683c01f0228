"""The processes of a drive: one table, and how they are started.

What a person waits for is mostly imports, so they run side by side: this module needs nothing but the standard library,
starts all processes at once, and while they import and compile, the supervisor does the same and checks the
configuration. They wait for a line on their standard input before they begin; closing it calls them off.

For the same reason a process that must be replaced at once has a spare: another one of its kind that waits, imported
and compiled, for the word to begin. Spares touch neither rings nor sockets nor devices.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LONGEST_PAUSE_S = 60.0  # between tries to have a spare
_SPARE_NICE = 5  # idle altogether it would never be ready on a machine that has other work, too
_PATIENCE_S = 5.0  # to end after being asked to; then the process is killed


@dataclass(frozen=True)
class Process:
    name: str
    module: str
    title: str
    without: str  # what happens once it may not be started again; "": the run ends with it
    ring: str  # in the header of which its heart beats; "": its status lines are its heart
    silent_s: float  # a heart that has not beaten for so long has stopped, whatever the kernel says
    ends: frozenset[int]  # exit codes of an end on purpose: starting it again would not help
    nice: int = 0  # among ordinary processes


_ON_PURPOSE = frozenset({0, 2, 3, 8})  # asked to, by its configuration, by its model, by its input

# In the order of stopping. All are asked at once: the simulator drains what the DAQ sent last; the recorder is told how
# the run ended, so it ends last. A driver of a device may hang for a second, a disk for several.
DAQ = Process("daq", "daq_service", "the DAQ", "", "daq", 2.0, _ON_PURPOSE)
SIM = Process("sim", "sim_service", "the simulator", "", "sim", 1.0, _ON_PURPOSE)
VIEW = Process(
    "view", "sim_service.view", "the view", "the drive goes on without its page", "", 15.0, frozenset({0, 2, 7}), 10
)
RECORDER = Process(
    "record", "tandem.recorder", "the recorder", "the drive goes on unrecorded", "", 15.0, frozenset({0, 1, 2})
)
SERVICES = (DAQ, SIM)
PROCESSES = (DAQ, SIM, VIEW, RECORDER)


def _may_step_back() -> bool:
    """Whether who was made to wait for others can be taken back: else a spare would stay slow for ever."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> 23 & 1)  # CAP_SYS_NICE
    return False


class Service:
    """A running service and what it has said so far."""

    def __init__(
        self, process: Process, file: Path, overrides: list[str], tell: Callable[[str], None], spare: bool = False
    ):
        self.process = process
        self.status: dict[str, Any] = {}
        self.statuses = 0  # how many there were
        self.report: dict[str, Any] = {}
        self.last_words = ""
        self.ready = False  # to begin
        self.told: dict[str, Any] = {}  # when it was
        self._tell = tell
        command = [sys.executable, "-m", process.module, str(file), "--supervised"]
        if spare:
            command.append("--spare")
        for override in overrides:
            command += ["--set", override]
        # a session of its own: Ctrl-C in the terminal reaches the supervisor alone, which then stops things in order
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True
        )
        self._behind = spare and _may_step_back()
        if self._behind:
            self._renice(_SPARE_NICE)  # what it imports is nothing the others should wait for
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _renice(self, nice: int) -> None:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                with contextlib.suppress(OSError):  # a thread that has just ended
                    os.setpriority(os.PRIO_PROCESS, int(task.name), nice)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):  # a library that prints: it must not stop us from reading on
                message = {"text": line.rstrip()}
            kind = message.pop("kind", "say")
            if kind == "status":
                self.status = message
                self.statuses += 1
            elif kind == "report":
                self.report = message
            elif kind == "ready":
                self.told = message
                self.ready = True
            else:
                self.last_words = str(message.get("text", ""))
                self._tell(f"{self.process.name}: {self.last_words}")

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def code(self) -> int | None:
        return self._popen.poll()

    def hurry(self) -> None:
        """It is wanted now."""
        if self._behind:
            self._behind = False
            self._renice(self.process.nice)

    def say(self, line: str) -> None:
        """A line on its standard input."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended: seen elsewhere
            self._popen.stdin.write(line + "\n")
            self._popen.stdin.flush()

    def ask_to_end(self) -> None:
        assert self._popen.stdin is not None
        self.hurry()
        with contextlib.suppress(ProcessLookupError):
            self._popen.terminate()
        with contextlib.suppress(OSError):
            self._popen.stdin.close()  # wherever it still waits for the word to begin

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._popen.kill()

    def end(self, patience_s: float = _PATIENCE_S) -> int:
        """Wait for it to end, insist; the exit code (negative: the signal that ended it)."""
        try:
            self._popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._tell(f"{self.process.title} does not end; killed")
            self._popen.kill()
            self._popen.wait()
        self._reader.join(1.0)
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        if self._popen.stdout is not None and not self._reader.is_alive():
            self._popen.stdout.close()
        return self._popen.returncode

    def obituary(self) -> str:
        code = self.code
        if code is not None and code < 0:
            known = -code in list(signal.Signals)
            return f"{self.process.title} was killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
        return f"{self.process.title} ended with exit code {code}"


class Crew:
    """All of them, waiting for the word to begin; and their spares."""

    def __init__(self, file: Path, overrides: list[str], recorded: bool):
        self._said: list[str] = []
        self._tell: Callable[[str], None] = self._said.append
        self._started_with = (file, overrides)
        self._spares: dict[str, Service] = {}
        self._pause_s: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._there: list[Service] = []
        # the recorder first: the others wait until it watches
        self.recorder = self.start(RECORDER) if recorded else None
        self.services = [self.start(process) for process in SERVICES]

    def _hear(self, text: str) -> None:
        self._tell(text)

    def listen(self, tell: Callable[[str], None]) -> None:
        """From now on what they say is told; also what they have said already."""
        self._tell = tell
        said, self._said = self._said, []
        for text in said:
            tell(text)

    def start(self, process: Process) -> Service:
        """One more of its kind."""
        service = Service(process, *self._started_with, self._hear)
        self._there.append(service)
        return service

    def prepare(self, process: Process) -> bool:
        """See to a spare of this process; False while one is not ready yet, so that they come one after the other."""
        spare = self._spares.get(process.name)
        if spare is not None and spare.code is None:
            return spare.ready
        if spare is not None:
            del self._spares[process.name]
            self.bury(spare)
            # one that could not even get ready will not be saved by hurry
            pause_s = 0.0 if spare.ready else min(2 * self._pause_s.get(process.name, 0.0) or 1.0, _LONGEST_PAUSE_S)
            self._pause_s[process.name], self._due[process.name] = pause_s, time.monotonic() + pause_s
        if time.monotonic() < self._due.get(process.name, 0.0):
            return True
        try:
            spare = Service(process, *self._started_with, self._hear, spare=True)
        except OSError as error:
            self._due[process.name] = time.monotonic() + _LONGEST_PAUSE_S
            self._hear(f"no spare of {process.title} can be started: {error.strerror}")
            return True
        self._spares[process.name] = spare
        self._there.append(spare)
        return spare.ready

    def replacement(self, process: Process) -> Service:
        """Its spare, ready or soon to be; else a new one."""
        spare = self._spares.pop(process.name, None)
        if spare is not None and spare.code is None:
            spare.hurry()
            return spare
        if spare is not None:
            self.bury(spare)
        return self.start(process)

    def bury(self, service: Service) -> None:
        """It has ended: nothing of it is kept."""
        service.end()
        self._there.remove(service)

    def dismiss_spares(self) -> None:
        spares, self._spares = list(self._spares.values()), {}
        for spare in spares:
            spare.ask_to_end()
        for spare in spares:
            self.bury(spare)

    def call_off(self) -> None:
        """Whoever is still there ends, unheard."""
        self._tell = lambda _: None
        there = [service for service in self._there if service.code is None]
        for service in there:
            service.ask_to_end()
        for service in there:
            service.end()
