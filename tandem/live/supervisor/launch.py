"""The processes of a run: one table, and how they are started and ended.

Most of a start is imports. They happen once: this module needs nothing but the standard library and starts the template
(tandem/live/supervisor/template.py), which imports, loads the compiled code, builds the model and then forks every
process of the run, at the start and whenever one must be replaced. Meanwhile the supervisor imports what it needs
itself. A process that is ready waits for a line on its standard input before it begins; closing that input calls the
process off.

The forked processes are children of this one, not of the template: the template forks them through a process that ends
at once, and this process adopts orphans. So their exit status comes from the kernel, whatever happens to the template;
if the template ends, another one is started, and the run goes on meanwhile.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from sync.child_python import python_command, python_environment
from sync.process.threads import joined

_PATIENCE_S = 20.0  # for a process to end after it was asked to, on a busy machine; then it is killed
_POLL_S = 0.005
_ANSWER_S = 30.0  # a template hangs if it takes longer to fork a process that it has forked before
SPARE = b"spare"  # the template can be asked for this besides processes
_SPARE_PAUSE_S = 1.0  # between two of them
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0  # between starts of templates that end before they have forked anything
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37  # prctl


def adopt_orphans(adopt: bool) -> bool:
    """Set whether processes whose parent ends become children of this one; returns what was set before."""
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)
    return bool(before.value)


@dataclass(frozen=True)
class Process:
    name: str
    module: str  # `python -m` runs it alone
    prepare: str  # the module whose `prepare` builds it in the template
    title: str
    without: str  # what happens once it is no longer restarted; "": the run ends with it
    ring: str  # whose header holds its heartbeat; "": its status lines are its heartbeat
    silent_s: float  # it hangs if it gives no heartbeat for so long, whatever the kernel says
    ends: frozenset[int]  # exit codes of an end on purpose: starting it again would not help
    real_time: bool = True  # locked memory
    waits: bool = True  # for a line before it begins; otherwise it reads its own first line
    builds_itself: bool = False  # after the fork and not in the template: no other process waits for that


_ON_PURPOSE = frozenset({0, 2, 3, 8, 11})  # asked to; its configuration, model or input; no consent

# In the order of stopping. All are asked at once: the simulator drains what the DAQ sent last; the recorder is told how
# the run ended, so it ends last. A driver of a device may hang for a second, a disk for several.
DAQ = Process("daq", "daq_service", "daq_service.service", "the DAQ", "", "daq", 2.0, _ON_PURPOSE)
SIM = Process("sim", "sim_service", "sim_service.service", "the simulator", "", "sim", 1.0, _ON_PURPOSE)
VIEW = Process(
    "view", "tandem.view", "tandem.view.process", "the view", "the run goes on without its page", "", 15.0,
    frozenset({0, 2, 7}), real_time=False, builds_itself=True,
)  # fmt: skip
PREDICTION = Process(
    "look_ahead", "sim_service.look_ahead", "sim_service.look_ahead.service", "the look ahead",
    "the run goes on without looking ahead", "", 15.0, frozenset({0, 2}), real_time=False,
)  # fmt: skip
RECORDER = Process(
    "record", "tandem.live.recorder", "tandem.live.recorder.process", "the recorder", "the run goes on unrecorded",
    "", 15.0, frozenset({0, 1, 2}), real_time=False, waits=False,
)  # fmt: skip
SERVICES = (DAQ, SIM)
BESIDE = (VIEW, PREDICTION)  # forked before there are steps, begun once there are; a run goes on without them
PROCESSES = (DAQ, SIM, *BESIDE, RECORDER)


class Fork:
    """A process that the template has forked and this one has adopted; used like a subprocess.Popen."""

    def __init__(self, pid: int):
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, signal.SIGKILL  # another thread has waited for it: only its end is known
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(_POLL_S)
        return code


class Service:
    """A process of a run: what it has written so far, and how it ended."""

    def __init__(self, process: Process, report: Callable[[str], None]):
        self.process = process
        self.status: dict[str, Any] = {}
        self.statuses = 0  # how many there were
        self.report: dict[str, Any] = {}
        self.last_words = ""
        self.facts: dict[str, Any] = {}  # what it sent when it was ready to begin
        self.pid = 0  # not started yet
        self.poll: Callable[[], int | None] = lambda: self._code
        self._code: int | None = None
        self._ready = False
        self._report = report
        self._stdin: TextIO | None = None
        self._stdout: TextIO | None = None
        self._reader: threading.Thread | None = None

    # ---- starting it

    def pipes(self) -> tuple[int, int]:
        """Its standard input and output, to be closed here once it has them. Output of an earlier try is dropped."""
        self._close_stdin()
        self._ready, self.pid = False, 0
        stdin, write = os.pipe()
        read, stdout = os.pipe()
        self._stdin, self._stdout = open(write, "w"), open(read, errors="replace")  # noqa: SIM115
        self._reader = threading.Thread(target=self._read, args=(self._stdout,), daemon=True)
        self._reader.start()
        return stdin, stdout

    def execute(self, file: Path, overrides: list[str]) -> "Service":
        """Start it by itself, without a template."""
        command = python_command("-m", self.process.module, str(file), "--supervised")
        command += [word for override in overrides for word in ("--set", override)]
        stdin, stdout = self.pipes()
        try:
            # a session of its own: Ctrl-C in the terminal reaches the supervisor alone, which stops things in order
            popen = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, start_new_session=True, env=python_environment()
            )
        finally:
            os.close(stdin)
            os.close(stdout)
        self.pid, self.poll = popen.pid, popen.poll
        return self

    def forked(self, pid: int) -> None:
        """The template has started it."""
        self.pid, self.poll = pid, Fork(pid).poll

    def failed(self, code: int, why: str = "") -> None:
        """It could not be started."""
        self._code, self.last_words = code, why or self.last_words

    # ---- while it runs

    def _read(self, stdout: TextIO) -> None:
        with stdout:
            for line in stdout:
                if stdout is self._stdout:  # otherwise it is of an earlier attempt to start it
                    self._take(line)

    def _take(self, line: str) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):  # a library prints: that must not end the reading
            message = {"text": line.rstrip()}
        kind = message.pop("kind", "say")
        if kind == "status":
            self.status = message
            self.statuses += 1
        elif kind == "report":
            self.report = message
        elif kind == "ready":
            self.facts = message
            self._ready = True
        else:
            self.last_words = str(message.get("text", ""))
            self._report(f"{self.process.name}: {self.last_words}")

    @property
    def reader(self) -> int | None:
        """The thread that reads what it writes."""
        return self._reader.native_id if self._reader is not None and self._reader.is_alive() else None

    @property
    def ready(self) -> bool:
        """Whether it is ready to begin."""
        return self._ready and self.pid != 0

    @property
    def code(self) -> int | None:
        """Its exit code (negative: the signal that ended it); None while it runs."""
        return self.poll()

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        with contextlib.suppress(OSError, ValueError):  # it has ended, which is noticed elsewhere
            if self._stdin is not None:
                self._stdin.write(line + "\n")
                self._stdin.flush()

    # ---- its end

    def _signal(self, number: int) -> None:
        if self.pid and self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ask_to_end(self) -> None:
        unbuilt = self.process.builds_itself and not self._ready  # it has nothing to lose
        self._signal(signal.SIGKILL if unbuilt else signal.SIGTERM)
        self._close_stdin()  # ends it if it still waits for the order to begin

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def end(self, patience_s: float = _PATIENCE_S) -> int:
        """Wait for it to end, kill it if it does not; returns the exit code (negative: the signal that ended it)."""
        polls, insisted = 0, False
        while (code := self.code) is None:
            polls += 1  # counted, not timed: while everything was stopped nothing is counted
            if not insisted and polls * _POLL_S > patience_s:
                insisted = True
                self._report(f"{self.process.title} does not end; killed")
                if not self.pid:
                    self.failed(-signal.SIGKILL)
                self.kill()
            time.sleep(_POLL_S)
        if self._reader is not None:
            joined(self._reader, 1.0)  # what it wrote last
        self._close_stdin()
        return code

    def _close_stdin(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._stdin is not None:
                self._stdin.close()

    def exit_message(self) -> str:
        code = self.code
        if code is not None and code < 0:
            known = -code in list(signal.Signals)
            return f"{self.process.title} was killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
        return f"{self.process.title} ended with exit code {code}"


_early: list[tuple[socket.socket, subprocess.Popen[bytes]]] = []


def start_early() -> None:
    """Start the template of the run that will be asked for before anything else: it imports what every run needs while
    this process goes on. If there is no run after all, it ends with this process."""
    with contextlib.suppress(OSError):  # then it is started when needed, and the error is reported there
        _early.append(start_template(sys.argv[2:]))


def socket_pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def start_template(words: list[str]) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    ours, theirs = socket_pair()
    # a thread would not survive the fork, whatever the user's environment says
    environment = python_environment(OPENBLAS_NUM_THREADS="1")
    environment.pop("TANDEM_TOKEN", None)  # only the view needs it, and gets it through its pipe (sync/files/token.py)
    with theirs:
        popen = subprocess.Popen(
            python_command("-m", "tandem.live.supervisor.template", str(theirs.fileno()), *words),
            stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()], start_new_session=True, env=environment,
        )  # fmt: skip
    return ours, popen


class Template:
    """The process that forks the others, as its supervisor sees it. `poll` is to be called several times a second.

    It has a spare, a fork of itself, which takes over if it crashes.
    """

    def __init__(self, file: Path, overrides: list[str], report: Callable[[str], None]):
        self._words = [str(file), *overrides]
        self._report = report
        self._waiting: list[Service] = []  # not asked for yet
        self._requests: list[tuple[Service | None, float]] = []  # since when; answered in this order. None: a spare
        self._forked: set[str] = set()  # names of what this one has forked; for a first fork it has to build
        self._build: set[str] = set()  # names of what the one before it had forked, to be built again
        self._worked = False  # whether this one, or one before it, has forked anything
        self._pause_s, self._due = 0.0, 0.0
        self._process: subprocess.Popen[bytes] | Fork | None = None
        self._spare: Fork | None = None
        self._spare_socket: socket.socket | None = None
        self._spare_built: set[str] = set()  # what is built in it
        self._spare_due = 0.0
        self._spare_failed = False
        self._closed = False
        self._cores = os.sched_getaffinity(0)
        self._start()

    def _start(self) -> None:
        self._socket, self._process = _early.pop() if _early else start_template(self._words)
        with contextlib.suppress(OSError):  # the supervisor may have left some of them meanwhile
            os.sched_setaffinity(self._process.pid, self._cores)
        with contextlib.suppress(OSError):  # it has just ended: seen at the next look
            self._socket.send(json.dumps(self._words).encode())
        self._build, self._forked = self._forked, set()

    def fork(self, service: Service) -> None:
        """Start this service, as soon as it can be."""
        self._waiting.append(service)
        self.poll()

    def poll(self) -> None:
        if self._closed:
            return
        if self._process is None and time.monotonic() >= self._due:
            try:
                self._start()
            except OSError as error:
                self._report(f"processes cannot be started: {error.strerror}")
                self._pause()
        if self._process is None:
            return
        self._take_answers()
        if self._process.poll() is not None:
            self._take_answers()  # the last ones
            self._lost(self._process.returncode or 0)
            if self._process is None:
                return
        while self._waiting:
            service = self._waiting.pop(0)
            fds = service.pipes()
            self._requests.append((service, time.monotonic()))
            try:
                socket.send_fds(self._socket, [service.process.name.encode()], list(fds))
            except OSError:  # it has just ended: seen at the next look
                break
            finally:
                for fd in fds:
                    os.close(fd)
        while self._build:  # build what may be needed again
            with contextlib.suppress(OSError):
                self._socket.send(self._build.pop().encode())
        if self._requests:
            requested, since = self._requests[0]
            if (requested is None or requested.process.name in self._forked) and time.monotonic() - since > _ANSWER_S:
                self._process.kill()
        else:
            self._keep_a_spare()

    @property
    def rests(self) -> bool:
        """Whether all that was asked for has been forked, the spare too; or it has ended, or can have no spare."""
        there = self._spare is not None and self._spare_built == self._forked
        return not self._waiting and (self._process is None or (not self._requests and (there or self._spare_failed)))

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in (self._process, self._spare) if process is not None]

    def _keep_a_spare(self) -> None:
        """Have a spare that has built what this one has; replace one that has not, or that has ended."""
        if self._spare is not None and self._spare.poll() is None and self._spare_built == self._forked:
            return
        if not self._forked or time.monotonic() < self._spare_due:
            return
        self._drop_spare()
        self._spare_due = time.monotonic() + _SPARE_PAUSE_S
        try:
            self._spare_socket, theirs = socket_pair()
        except OSError:
            return  # tried again
        with theirs:
            self._requests.append((None, time.monotonic()))
            with contextlib.suppress(OSError):  # it has just ended: seen at the next look
                socket.send_fds(self._socket, [SPARE], [theirs.fileno()])

    def _drop_spare(self) -> None:
        if self._spare_socket is not None:
            self._spare_socket.close()
        if self._spare is not None:
            self._spare.kill()
            self._spare.wait()
        self._spare = self._spare_socket = None

    def _take_answers(self) -> None:
        with contextlib.suppress(OSError):  # there is no answer, or it has ended
            while answer := self._socket.recv(4096):
                service, _ = self._requests.pop(0)
                pid, _, error = answer.decode().partition(" ")
                if service is None:  # a spare that cannot be forked is asked for again
                    self._spare, self._spare_built = None if error else Fork(int(pid)), set(self._forked)
                    self._spare_failed = bool(error)
                    continue
                self._worked = True
                self._forked.add(service.process.name)
                service.failed(1, error) if error else service.forked(int(pid))

    def _lost(self, code: int) -> None:
        """It has ended. What it was asked for last may have been forked: such a fork ends by itself, because it has not
        begun and its standard input is closed."""
        self._socket.close()
        self._process = None
        requested, self._requests = [service for service, _ in self._requests if service is not None], []
        if not self._worked:
            self._closed = True
            for service in (*requested, *self._waiting):
                service.failed(code)
            return
        self._waiting = requested + self._waiting
        if self._spare is not None and self._spare_socket is not None and self._spare.poll() is None:
            self._report("the process that starts the others has ended: its spare takes over")
            self._socket, self._process, self._forked = self._spare_socket, self._spare, self._spare_built
            self._spare = self._spare_socket = None
            self._spare_due = 0.0
            return
        self._drop_spare()
        self._report("the process that starts the others has ended: it is restarted")
        self._pause()

    def _pause(self) -> None:
        self._pause_s = 0.0 if self._forked else min(2 * self._pause_s or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self._due = time.monotonic() + self._pause_s

    def close(self) -> None:
        """End it; nothing more is started."""
        if self._closed:
            return
        self._closed = True
        if self._process is not None:
            self._process.kill()  # it has nothing to lose
            self._process.wait()
            self._take_answers()
            self._socket.close()
        self._drop_spare()
        for service in (*(service for service, _ in self._requests if service is not None), *self._waiting):
            service.failed(-signal.SIGTERM)


class ProcessGroup:
    """All processes of a run, and what starts them."""

    def __init__(self, file: Path, overrides: list[str], recorded: bool):
        self._unread: list[str] = []
        self._listener: Callable[[str], None] = self._unread.append
        self._there: list[Service] = []
        self._adopted_before = adopt_orphans(True)  # forks of the template are to be our children
        self.template = Template(file, overrides, self._report)
        # the recorder first: the others wait until it watches
        self.recorder = self.start(RECORDER) if recorded else None
        self.services = [self.start(process) for process in SERVICES]

    def _report(self, text: str) -> None:
        self._listener(text)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Pass on what they write from now on, and what they have written already."""
        self._listener = listener
        unread, self._unread = self._unread, []
        for text in unread:
            listener(text)

    def start(self, process: Process) -> Service:
        """Start one more process of this kind."""
        service = Service(process, self._report)
        self._there.append(service)
        self.template.fork(service)
        return service

    @property
    def threads(self) -> list[int]:
        """What works for the run besides its processes: what forks them, and the threads that read their output."""
        return [*self.template.pids, *(reader for each in self._there if (reader := each.reader) is not None)]

    def reap(self, service: Service) -> None:
        """It has ended: drop it."""
        service.end()
        self._there.remove(service)

    def call_off(self) -> None:
        """End all that still run; nothing they write is passed on."""
        self._listener = lambda _: None
        self.template.close()
        for service in self._there:
            service.ask_to_end()
        for service in self._there:  # also one that was forked without a report of it: its output closes when it ends
            service.end()
        adopt_orphans(self._adopted_before)
