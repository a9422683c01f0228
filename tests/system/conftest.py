"""Real processes: every test runs the programs as a user would, under a name of its own, and leaves nothing behind."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sync.config import load, runtime_directory
from sync.ring import RingReader

ROOT = Path(__file__).resolve().parents[2]
DRIVE = ROOT / "configs" / "drive.toml"
_number = itertools.count()

# A shell that starts tests in the background makes them deaf to Ctrl-C, and whoever they start; ours have to hear it.
with contextlib.suppress(ValueError):  # not the main thread
    signal.signal(signal.SIGINT, signal.default_int_handler)


def leftovers(name: str) -> list[str]:
    """Shared memory and sockets of a run."""
    rings = [str(p) for p in Path("/dev/shm").glob(f"tandem.{name}.*")]
    return rings + [str(p) for p in runtime_directory().glob(f"{name}.*")]


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a run that nobody else has; nothing of that name is left afterwards."""
    chosen = f"test_{os.getpid()}_{next(_number)}"
    yield chosen
    assert leftovers(chosen) == []


class Program:
    """A program of ours with its output collected, each line with the instant it came."""

    def __init__(self, *arguments: str, inside: tuple[str, ...] = (), stdin: int | None = None):
        command = [*inside, sys.executable, "-m", *arguments]
        self.popen = subprocess.Popen(
            command, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.out: list[tuple[float, str]] = []
        self.err: list[tuple[float, str]] = []
        self._threads = [
            threading.Thread(target=self._collect, args=(self.popen.stdout, self.out), daemon=True),
            threading.Thread(target=self._collect, args=(self.popen.stderr, self.err), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _collect(self, stream: Any, lines: list[tuple[float, str]]) -> None:
        for line in stream:
            lines.append((time.monotonic(), line.rstrip("\n")))

    @property
    def said(self) -> str:
        return "\n".join(line for _, line in self.err)

    @property
    def printed(self) -> str:
        return "\n".join(line for _, line in self.out)

    def json(self) -> dict[str, Any]:
        """Standard output must be one JSON object and nothing else."""
        found: dict[str, Any] = json.loads(self.printed)
        return found

    def wait_for(self, text: str, timeout: float = 90.0) -> float:
        """The instant at which standard error said `text`."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for instant, line in list(self.err):
                if text in line:
                    return instant
            if self.popen.poll() is not None and not any(t.is_alive() for t in self._threads):
                break
            time.sleep(0.01)
        raise AssertionError(f"never said {text!r}; said:\n{self.said}\nprinted:\n{self.printed}")

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def end(self, timeout: float = 120.0) -> int:
        code = self.popen.wait(timeout)
        for thread in self._threads:
            thread.join(5)
        return code

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(10)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        for thread in self._threads:
            thread.join(5)
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def start(name: str) -> Iterator[Callable[..., Program]]:
    """Start `python -m ARGUMENTS…`; whatever still runs at the end of the test is ended."""
    running: list[Program] = []

    def starter(*arguments: str, inside: tuple[str, ...] = (), stdin: int | None = None) -> Program:
        program = Program(*arguments, inside=inside, stdin=stdin)
        running.append(program)
        return program

    yield starter
    for program in running:
        program.close()


@pytest.fixture
def drive(start: Callable[..., Program], name: str, tmp_path: Path) -> Callable[..., Program]:
    """Start `tandem drive` with the main configuration under this test's name, without a page."""

    def starter(*arguments: str, config: Path = DRIVE, inside: tuple[str, ...] = ()) -> Program:
        reports = ("--runs", str(tmp_path / "runs"))
        plain = (f"name={name}", "view.enabled=false")
        chosen = [word for setting in plain for word in ("--set", setting)]
        return start("tandem", "drive", str(config), *chosen, *reports, *arguments, inside=inside)

    return starter


def processes_of(run: Program, role: str) -> list[int]:
    """The processes of a drive that have this role (daq, sim, record, view, template), by their name."""
    found = []
    for child in Path(f"/proc/{run.popen.pid}/task/{run.popen.pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == f"tandem-{role}":
                found.append(int(child))
    return found


def ring_of(name: str, role: str) -> RingReader:
    """A ring of the run of that name, once it is there."""
    return RingReader(load(DRIVE, [f"name={name}"]).ring(role), timeout_s=120)


def pid_of(name: str, role: str) -> int:
    """Who writes it."""
    ring = ring_of(name, role)
    pid = ring.writer_pid
    ring.close()
    return pid


def wait_for_steps(steps: RingReader, count: int, seconds: float = 60.0) -> None:
    """Until the simulator has made so many."""
    end = time.monotonic() + seconds
    while steps.head < count:
        assert time.monotonic() < end
        time.sleep(0.02)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
