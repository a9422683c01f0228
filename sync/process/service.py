"""What the services share: their command line, their reports, their threads, and a clean end.

Run by hand, a service talks to the terminal. Run with --supervised it waits, with everything imported and compiled, for
a line on standard input before it begins; writes one JSON object a line on standard output (`kind`: ready, say,
status, report); and ends when its output is closed, so it never outlives its supervisor. Status lines that are not read
are left out: a service that waited for a hanging supervisor would lose blocks.
"""

import argparse
import contextlib
import fcntl
import json
import mmap
import os
import select
import signal
import struct
import sys
import termios
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from sync.config.config import Config, load
from sync.errors import TandemError
from sync.files.private import only_for_this_user
from sync.process import realtime
from sync.process.threads import joined, set_by_signals
from sync.ring.ring import RingReader, RingWriter
from sync.visible import visible, warn_in_words

STATUS_S = 0.1  # how often a service checks and reports
_END_S = 2.0  # for a thread to end, after the stop was given
EVERY = 3  # polls a status line
_BY_HAND = 10  # status lines a line on the terminal
_COLUMNS = 80


class Reporter:
    """Reports notices, status and results: JSON lines for a supervisor, text for a terminal."""

    def __init__(self, role: str, supervised: bool, stop: threading.Event, words: "Words | None" = None):
        self._role, self.supervised, self._stop, self._words = role, supervised, stop, words
        self.begin_line = ""  # the line of the supervisor on which it began
        self._reported_once: set[str] = set()
        self._lines = self._left_out = 0
        self._lock = threading.Lock()

    def _line(self, kind: str, content: dict[str, Any]) -> None:
        with self._lock:
            try:
                sys.stdout.write(json.dumps({"kind": kind, **content}) + "\n")
                sys.stdout.flush()
            except (BrokenPipeError, ValueError):
                self._stop.set()  # the supervisor is gone
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (so that the interpreter's own flush is quiet too)

    def say(self, text: str, once: bool = False) -> None:
        if once:
            if text in self._reported_once:
                return
            self._reported_once.add(text)
        if self.supervised:
            self._line("say", {"text": text})
        else:
            print(f"{self._role}: {visible(text)}", file=sys.stderr, flush=True)

    def status(self, content: dict[str, Any]) -> None:
        if self.supervised:
            if _unread(sys.stdout):
                self._left_out += 1
            else:
                self._line("status", content)
        elif self._lines % _BY_HAND == 0:
            plain = [f"{k} {v}" for k, v in content.items() if not isinstance(v, dict) and not k.endswith("_ns")]
            print(_within(_COLUMNS, f"{self._role}:", plain), file=sys.stderr, flush=True)
        self._lines += 1

    def ready(self, content: dict[str, Any]) -> None:
        self._line("ready", content)

    def report(self, content: dict[str, Any]) -> None:
        if self.supervised:
            if self._left_out:
                self.say(f"{self._left_out} status lines were left out: those before them had not been read")
            self._line("report", content)
        elif self._words is None:
            print(json.dumps(content, indent=1))
        else:
            print(f"{self._role}: {self._words(content)}", file=sys.stderr, flush=True)


def _unread(out: TextIO) -> bool:
    """Whether a good part of an open pipe is still unread: the rest is left for lines that must not be dropped."""
    try:
        reader = select.poll()
        reader.register(out.fileno(), 0)
        if reader.poll(0):  # it is closed, which the next line will notice
            return False
        (waiting,) = struct.unpack("i", fcntl.ioctl(out.fileno(), termios.FIONREAD, bytes(4)))
        return bool(waiting > fcntl.fcntl(out.fileno(), fcntl.F_GETPIPE_SZ) // 4)
    except (OSError, ValueError):  # it is no pipe
        return False


Words = Callable[[dict[str, Any]], str]  # what a service did, for a person


def _within(columns: int, line: str, parts: list[str]) -> str:
    """A line with as many of the parts as it has room for."""
    for number, part in enumerate(parts):
        gap = "  " if number else " "
        if len(line) + len(gap) + len(part) > columns:
            break
        line += gap + part
    return line


def held(ring: RingWriter, reporter: Reporter) -> Callable[..., None]:
    """For an ExitStack: closes the ring at the end; after a failure leaves it to a successor, if there may be one."""

    def let_go(kind: object, *_: object) -> None:
        if kind is not None and reporter.supervised:
            ring.leave()
        else:
            ring.close()

    return let_go


def prefault(*rings: RingReader | RingWriter) -> None:
    """Touch all pages of these rings now: memory is mapped and locked at its first use, too slowly for a loop."""
    for ring in rings:
        ring.words[:: mmap.PAGESIZE // 8].sum()


class Worker(threading.Thread):
    """A thread with real-time priority whose failure is the service's failure."""

    def __init__(self, name: str, work: Callable[[], Any], config: Config, priority: int, core: int | None = None):
        super().__init__(name=name, daemon=True)
        self._work, self._config, self._priority, self._core = work, config, priority, core
        self.refused: list[str] = []
        self.error: BaseException | None = None
        self.result: Any = None
        self.ready = threading.Event()
        self.left = False  # whether it did not end

    def run(self) -> None:
        try:
            realtime.exact_sleep()
            if self._config.realtime.enabled:
                self.refused = realtime.this_thread(self._priority, self._core)
            self.ready.set()
            self.result = self._work()
        except BaseException as error:  # passed to the main thread, which ends the service
            self.error = error
            self.ready.set()


_left: list[contextlib.ExitStack] = []  # resources of threads that did not end: never closed


def start(workers: list[Worker], reporter: Reporter, stack: contextlib.ExitStack, end: Callable[[], object]) -> None:
    """Start all workers, and report once what the system refused them.

    However the stack is unwound, it first asks the workers to end, and waits for them. If one does not end, what is in
    the stack stays open: ZeroMQ aborts a process that closes a socket while a thread uses it. The process then exits
    without closing it.
    """

    def finish() -> None:
        end()
        if _unended(workers, reporter):
            _left.append(stack.pop_all())

    stack.callback(finish)
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.ready.wait()
        for refused in worker.refused:
            reporter.say(refused, once=True)


def watch_workers(workers: list[Worker], stop: threading.Event, poll: Callable[[int], None]) -> None:
    """Watch the workers until `stop` is set or one of them ends; `poll` is called all the while, with a number.

    An error in `poll` ends the service like one of a worker, through `join`; without a worker at once.
    """
    turn = 0
    try:
        while not stop.wait(STATUS_S) and all(worker.is_alive() for worker in workers):
            poll(turn)
            turn += 1
        poll(turn)  # once more: what caused the stop may be worth a notice
    except Exception as error:
        if not workers:
            raise
        workers[0].error = workers[0].error or error
    finally:
        stop.set()


def join(workers: list[Worker], reporter: Reporter) -> None:
    """Wait for the workers to end after the stop was given; raises what ended one of them."""
    _unended(workers, reporter)
    for worker in workers:
        if worker.error is not None:
            raise worker.error


def _unended(workers: list[Worker], reporter: Reporter) -> list[Worker]:
    """The workers that do not end in time."""
    for worker in workers:
        if worker.is_alive() and not worker.left and not joined(worker, _END_S):
            worker.left = True
            reporter.say(f"thread {worker.name} does not end; leaving without it")
    return [worker for worker in workers if worker.is_alive()]


Run = Callable[[Config, Path, threading.Event, Reporter], dict[str, Any]]


@dataclass(frozen=True)
class Prepared:
    """A service that can run: files are read, code is compiled, the model is built. No device, socket, ring or thread
    has been touched, so it may run in a fork of the process that prepared it."""

    run: Run
    facts: dict[str, Any] = field(default_factory=dict)  # sent when it is ready to begin
    find: Callable[[], None] = lambda: None  # looks for its device, in the process that will use it


Prepare = Callable[[Config, Path], Prepared]


def main(role: str, prepare: Prepare, words: Words | None = None, real_time: bool = True, waits: bool = True) -> int:
    parser = argparse.ArgumentParser(prog=f"{role}_service", description=f"The {role} service of tandem.")
    parser.add_argument("config", type=Path, help="TOML file, see configs/")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
    parser.add_argument("--supervised", action="store_true", help="report as JSON lines on standard output")
    parser.add_argument("--json", action="store_true", help="report as one JSON object at the end, not in words")
    options = parser.parse_args()
    only_for_this_user()
    warn_in_words()
    report_words = None if options.json else words
    return serve(role, prepare, options.config, options.set, options.supervised, real_time, waits, report_words)


def serve(
    role: str,
    prepare: Prepare,
    file: Path,
    overrides: list[str],
    supervised: bool,
    real_time: bool = True,
    waits: bool = True,
    words: Words | None = None,
) -> int:
    """Prepare a service and run it to its end; returns the exit code. Run by hand its report is written in `words`,
    otherwise as JSON."""

    def build() -> tuple[Config, Prepared]:
        config = load(file, overrides)
        return config, prepare(config, file)

    return work(role, build, file, supervised, real_time, waits, words)


def work(
    role: str,
    build: Callable[[], tuple[Config, Prepared]],
    file: Path,
    supervised: bool,
    real_time: bool = True,
    waits: bool = True,
    words: Words | None = None,
) -> int:
    """Run what was built to its end; returns the exit code. If a thread did not end, ends the process itself."""
    code = _run_to_end(role, build, file, supervised, real_time, waits, words)
    if _left:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run_to_end(
    role: str,
    build: Callable[[], tuple[Config, Prepared]],
    file: Path,
    supervised: bool,
    real_time: bool,
    waits: bool,
    words: Words | None,
) -> int:
    stop = threading.Event()
    reporter = Reporter(role, supervised, stop, words)
    set_by_signals(stop, signal.SIGINT, signal.SIGTERM)
    try:
        config, service = build()
        if config.realtime.enabled and real_time:
            for refused in realtime.this_process(config.realtime.lock_memory):
                reporter.say(refused, once=True)
        # its threads too, but for the loop's own; where the others are to be is asked before (sync/process/realtime.py)
        realtime.off_the_loop(config.realtime)
        service.find()
        if supervised and waits:
            reporter.ready(service.facts)
            reporter.begin_line = sys.stdin.readline()
            if not reporter.begin_line:
                return 0  # called off before it began
        reporter.report(service.run(config, file, stop, reporter))
    except TandemError as error:
        reporter.say(str(error))
        return error.code
    except Exception as error:
        reporter.say(f"failed: {type(error).__name__}: {error}")
        with contextlib.suppress(Exception):
            sys.excepthook(type(error), error, error.__traceback__)
        return 70
    return 0
