"""Real processes: every test runs the programs as a user would, under a name of its own, and leaves nothing behind.

A process start costs seconds of processor time, so that none is made twice: programs are forked from one that has
imported everything (tests/system/starter.py; `fresh` where the start itself is what is tested), tests that only read a
finished drive share one (`recorded`), and a command that starts nothing is called in this process (`tandem`). No test
relies on how quickly something happens: it waits for a condition (`until`) and judges what the programs recorded and
reported.
"""

import atexit
import contextlib
import fcntl
import functools
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from sync.config.config import load, runtime_directory
from sync.process.threads import joined
from sync.ring.ring import RingReader
from tests.ports import free_port
from tests.system.starter import Forked, Starter

ROOT = Path(__file__).resolve().parents[2]
DRIVE = ROOT / "configs" / "drive.toml"
# hands that move from the first instant: a wheel at rest would replay the same whatever was lost
WEAVE = ("--set", "source.manoeuvre=manoeuvres/weave.toml")
PATIENCE_S = 900.0  # for anything at all, also compiling on a busy machine: only a test that fails waits so long
STACKS = Path(__file__).parent / "stacks"
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


def until(what: Callable[[], Any], why: Callable[[], str] | str, seconds: float = PATIENCE_S) -> Any:
    """The first true value of `what`; if none comes, the test fails with `why`."""
    end = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{why() if callable(why) else why}\n{accounts()}")
        time.sleep(0.02)


def assert_all_that_was_due(figures: dict[str, Any], due: float) -> None:
    """Every step that was due in a run of so many seconds was made or has a number, however busy the machine is."""
    assert figures["steps"] > 0
    left_out = sum(figures[key] for key in ("skipped", "starved_steps", "paused_steps", "steps_not_made"))
    assert abs(figures["steps"] + left_out - due) <= 1, figures  # one more where a phase is locked to the blocks


@dataclass(frozen=True)
class Answer:
    """What a command printed on standard output and on standard error, and its exit code."""

    code: int
    printed: str
    said: str


def tandem(*arguments: str) -> Answer:
    """`tandem ARGUMENTS…` in this process: for commands that refuse, or that start no other process."""
    from tandem.commands.cli import app

    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Answer(done.exit_code, done.stdout, done.stderr)


def accounts() -> str:
    """Of a wait that was in vain: what every program that still runs has said, and where its threads are."""
    for program in Program.running:
        program.signal(signal.SIGUSR2)
    time.sleep(1.0)
    return "\n".join(f"---- {' '.join(p.command)}\n{p.threads()}\n{p.said}\n{p.printed}" for p in Program.running)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("--processes") and any(item.path.parent == STACKS.parent for item in session.items):
        starter()  # one for all processes, which are forked now


@functools.cache
def starter() -> Starter:
    """The one of this process, or of the one it was forked from; it ends with that."""
    made = Starter()
    atexit.register(made.close)
    return made


class Program:
    """A program of ours with its output collected."""

    running: ClassVar[list["Program"]] = []

    def __init__(
        self, *arguments: str, inside: tuple[str, ...] = (), stdin: int | None = None, fresh: bool = False,
        place: Path = ROOT,
    ):  # fmt: skip
        self.command = [*inside, sys.executable, "-m", *arguments]
        path = os.pathsep.join([str(STACKS), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        self.popen: subprocess.Popen[str] | Forked
        if fresh or inside or not starter().can(environment):
            self.popen = subprocess.Popen(
                self.command, cwd=place, env=environment, stdin=stdin,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        else:
            self.popen = Forked(starter(), list(arguments), place, environment, stdin)
        Program.running.append(self)
        self.out: list[str] = []
        self.err: list[str] = []
        self._threads = [
            threading.Thread(target=self._collect, args=(self.popen.stdout, self.out), daemon=True),
            threading.Thread(target=self._collect, args=(self.popen.stderr, self.err), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _collect(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))

    @property
    def said(self) -> str:
        return "\n".join(self.err)

    @property
    def printed(self) -> str:
        return "\n".join(self.out)

    def json(self) -> dict[str, Any]:
        """Standard output must be one JSON object and nothing else."""
        found: dict[str, Any] = json.loads(self.printed)
        return found

    def wait_for(self, text: str) -> None:
        """Until standard error has said `text`."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.said:
            over = self.popen.poll() is not None and not any(t.is_alive() for t in self._threads)
            if over or time.monotonic() > end:
                assert text in self.said, f"never said {text!r}\n{self.said}\n{self.printed}\n{accounts()}"
            time.sleep(0.02)

    def threads(self) -> str:
        """Name, state and ticks of a clock that each has used."""
        found = []
        for task in Path(f"/proc/{self.popen.pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                name, state = (task / "stat").read_text().partition("(")[2].rpartition(")")[::2]
                found.append(f"{name} {state.split()[0]} {' '.join(state.split()[11:13])}")
        return "; ".join(found)

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def end(self, timeout: float = PATIENCE_S) -> int:
        try:
            code = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end\n{accounts()}") from None
        for thread in self._threads:
            joined(thread, 60.0)
        return code

    def close(self) -> None:
        Program.running.remove(self)
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(10)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        for thread in self._threads:
            joined(thread, 5.0)
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                stream.close()


def address(program: Program) -> str:
    """Of its page."""
    program.wait_for("the page: ")
    found = re.search(r"the page: (\S+)", program.said)
    assert found
    return found[1]


@pytest.fixture
def start(name: str) -> Iterator[Callable[..., Program]]:
    """Start `python -m ARGUMENTS…`; whatever still runs at the end of the test is ended."""
    running: list[Program] = []

    def begin(*arguments: str, inside: tuple[str, ...] = (), stdin: int | None = None, fresh: bool = False) -> Program:
        program = Program(*arguments, inside=inside, stdin=stdin, fresh=fresh)
        running.append(program)
        return program

    yield begin
    for program in running:
        program.close()


@pytest.fixture
def drive(start: Callable[..., Program], name: str, tmp_path: Path) -> Callable[..., Program]:
    """Start `tandem drive` with the main configuration under this test's name, without a page."""

    def begin(*arguments: str, config: Path = DRIVE, inside: tuple[str, ...] = (), fresh: bool = False) -> Program:
        reports = ("--runs", str(tmp_path / "runs"))
        plain = (f"name={name}", "view.enabled=false")
        chosen = [word for setting in plain for word in ("--set", setting)]
        return start("tandem", "drive", str(config), *chosen, *reports, *arguments, inside=inside, fresh=fresh)

    return begin


def processes_of(run: Program, role: str) -> list[int]:
    """The processes of a drive that have this role (daq, sim, record, view, template, spare), by their name."""
    found = []
    for child in Path(f"/proc/{run.popen.pid}/task/{run.popen.pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == f"tandem-{role}":
                found.append(int(child))
    return found


def running(pids: Iterable[int]) -> list[str]:
    """Those of these processes that have not ended. How long the kernel keeps the record of one that has is for its
    parent to decide, which for an orphan is not us."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            name, state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[::2]
            if state.split()[0] not in "ZX":
                found.append(f"{name}) {state.split()[0]}")
    return found


@dataclass(frozen=True)
class Recorded:
    """A drive that is over: its folder of runs, the object it printed, what it said."""

    runs: Path
    result: dict[str, Any]
    said: str


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """A recorded drive of 3 s over a transport, driven once for all tests that only read it, in whichever process."""
    shared = tmp_path_factory.getbasetemp() / "recorded"  # of all processes: made before they are forked

    def over(transport: str) -> Recorded:
        folder = shared / transport
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "drive.json").exists():
                (folder / "drive.json").write_text(json.dumps(_drive_once(folder / "runs", transport)))
        code, printed, said = json.loads((folder / "drive.json").read_text())
        assert code == 0, said
        return Recorded(folder / "runs", json.loads(printed), said)

    return over


def _drive_once(runs: Path, transport: str) -> tuple[int, str, str]:
    name = f"test_{os.getpid()}_{transport}"
    ports = [f"transport.{key}={free_port()}" for key in ("daq_port", "sim_port")]
    settings = (f"name={name}", "view.enabled=false", *ports)
    options = [word for setting in settings for word in ("--set", setting)]
    run = Program(
        "tandem", "drive", str(DRIVE), "--seconds", "3", "--json", "--transport", transport, *options, *WEAVE,
        "--runs", str(runs), fresh=transport == "shm",
    )  # fmt: skip
    try:
        code = run.end()
    finally:
        run.close()
    assert leftovers(name) == []
    return code, run.printed, run.said


def ring_of(name: str, role: str) -> RingReader:
    """A ring of the run of that name, once it is there."""
    return RingReader(load(DRIVE, [f"name={name}"]).ring(role), timeout_s=PATIENCE_S)


def pid_of(name: str, role: str) -> int:
    """The process that writes it."""
    ring = ring_of(name, role)
    pid = ring.writer_pid
    ring.close()
    return pid


def wait_for_steps(steps: RingReader, count: int) -> None:
    """Until the simulator has made so many."""
    until(lambda: steps.head >= count, lambda: f"{steps.head} steps of {count}")
