"""Starting the services, watching them, stopping them in order, and leaving nothing behind.

The services share nothing but blocks; what the supervisor knows of them it reads from their standard output (a JSON
object a line) and, as a reader like any other, from the DAQ's ring.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sync.config import ALL_RINGS, Config
from sync.errors import RingBusy, RingError, TandemError
from sync.ring import RingReader, remove_stale
from tandem.follow import Produced, Steps

LOOK_S = 0.05
_PATIENCE_S = 5.0  # to end after being asked to; then the process is killed
_START_S = 180.0  # to compile everything on a slow machine and see a first step


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


class ServiceFailed(TandemError):
    """A service ended by itself, or could not start."""


class Service:
    """A running service and what it has said so far."""

    def __init__(self, process: Process, file: Path, overrides: list[str], tell: Callable[[str], None]):
        self.process = process
        self.status: dict[str, Any] = {}
        self.report: dict[str, Any] = {}
        self.last_words = ""
        self._tell = tell
        command = [sys.executable, "-m", process.module, str(file), "--supervised"]
        for override in overrides:
            command += ["--set", override]
        # a session of its own: Ctrl-C in the terminal reaches the supervisor alone, which then stops things in order
        self._popen = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
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
            else:
                self.last_words = message.get("text", "")
                self._tell(f"{self.process.name}: {self.last_words}")

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def code(self) -> int | None:
        return self._popen.poll()

    def ask_to_end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._popen.terminate()

    def end(self) -> int:
        """Wait for it to end, insist; the exit code (negative: the signal that ended it)."""
        try:
            self._popen.wait(_PATIENCE_S)
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


def sweep(config: Config) -> list[str]:
    """Remove what dead owners left; never what a living one holds. Returns what was removed."""
    removed = [config.ring(role) for role in ALL_RINGS if remove_stale(config.ring(role))]
    for process, role in ((p, p.name) for p in PROCESSES):
        socket = config.socket(role)
        if socket.exists() and not _ring_in_use(config.ring(process.name)):
            socket.unlink(missing_ok=True)
            removed.append(str(socket))
    return removed


def _ring_in_use(name: str) -> bool:
    try:
        ring = RingReader(name)
    except RingError:
        return False
    alive = ring.writer_alive
    ring.close()
    return alive


@dataclass
class Outcome:
    """What a drive was."""

    seconds: float = 0.0  # from the first step to the stop
    first_step_s: float | None = None  # from the start of this process
    failure: str | None = None
    code: int = 0
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    followed: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0, [("step", "<i8")]))


def _process_age_s() -> float:
    """How long this process has been there: what a person waits also counts the imports."""
    started = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


Update = Callable[[float, dict[str, dict[str, Any]]], None]


def drive(
    config: Config, file: Path, overrides: list[str], seconds: float, update: Update, tell: Callable[[str], None]
) -> Outcome:
    """Both services, until `seconds` after the first step (0: until interrupted), or until one of them ends."""
    for process in PROCESSES:
        if _ring_in_use(config.ring(process.name)):
            raise RingBusy(
                f"a run named {config.name!r} is going on already; wait for it, end it, or give this one another `name`"
            )
    sweep(config)
    outcome = Outcome()

    def note(text: str) -> None:
        outcome.said.append(text)
        tell(text)

    begun = time.monotonic() - _process_age_s()
    services: list[Service] = []
    produced = Produced(config.ring("daq"))
    steps = Steps(config.ring("sim"))
    first_step: float | None = None
    interrupted = threading.Event()
    before = {n: signal.signal(n, lambda *_: interrupted.set()) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        services += [Service(process, file, overrides, note) for process in PROCESSES]
        sim = services[1]
        while not interrupted.wait(LOOK_S):
            produced.look()
            steps.look()
            now = time.monotonic()
            if first_step is None and sim.status.get("steps", 0) > 0:
                first_step = sim.status["first_step_ns"] * 1e-9  # CLOCK_MONOTONIC, as time.monotonic() here
                outcome.first_step_s = round(first_step - begun, 3)
            if first_step is None and now - begun > _START_S:
                outcome.failure = f"no step within {_START_S:g} s"
                break
            ended = [service for service in services if service.code is not None]
            if ended:
                outcome.failure = ended[0].obituary()
                outcome.code = max(ended[0].code or 0, 0) or 1
                note(outcome.failure)
                break
            update(now - first_step if first_step else -1.0, {s.process.name: s.status for s in services})
            if first_step is not None and 0 < seconds <= now - first_step:
                break
        outcome.seconds = time.monotonic() - first_step if first_step else 0.0
    finally:
        for service in services:
            service.ask_to_end()
        for service in services:
            code = service.end()
            asked_early = interrupted.is_set() and first_step is None and code == -signal.SIGTERM
            if code != 0 and outcome.failure is None and not asked_early:
                outcome.failure, outcome.code = service.obituary(), max(code, 0) or 1
            outcome.reports[service.process.name] = service.report or service.status
            produced.look()
            steps.look()
        outcome.followed = produced.as_dict()
        outcome.steps = steps.all()
        produced.close()
        steps.close()
        for left in sweep(config):
            note(f"removed what was left behind: {left}")
        for number, handler in before.items():
            signal.signal(number, handler)
    if outcome.failure and not outcome.code:
        outcome.code = 1
    return outcome
