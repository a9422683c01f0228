"""A process that has imported everything and forks the programs that tests start.

    python -m tests.system.starter FD

A new interpreter spends three seconds of processor time before `tandem drive` does anything: half of what the tests of
real processes cost. What is forked here runs `python -P -m MODULE` from its first line, with its own arguments, folder,
environment and descriptors, and ends as an interpreter does. The template of a drive is forked from it while it has
one thread; one that replaces it later is a new interpreter, as always.

Not everything comes from here: what a test starts inside another program (`unshare`, `setpriv`), with an environment
that differs where an import would notice, or by a shell is a new interpreter from its start, as a user's is.

A program is started through a process that stays its parent, and that tells the test how it ended.
"""

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from sync.files import consent

ROOT = Path(__file__).resolve().parents[2]
# what differs between two tests, and what nothing looks at before a program begins
_LATE = {"PYTEST_CURRENT_TEST", "TANDEM_TOKEN", "NOTIFY_SOCKET", "COLUMNS", "PYTHONPATH", "OPENBLAS_NUM_THREADS"}
_LATE |= {"NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"}  # sync.compile.jit sets them
_LATE |= {consent.ENVIRONMENT}
_MOST_BYTES = 1 << 17
_PATIENCE_S = 60.0
_ENDED = struct.Struct("qq")  # the program's pid, then (its pid, how it ended)


# ---- in the test


class Starter:
    """The process that forks them, as a test sees it."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        # of the test that happens to be the first: what the programs of later ones must not find in theirs
        own = {key: value for key, value in os.environ.items() if key != "TANDEM_TOKEN"}
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.system.starter", str(theirs.fileno())], cwd=ROOT,
                env={**own, "OPENBLAS_NUM_THREADS": "1"}, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def can(self, environment: dict[str, str]) -> bool:
        """Whether a program with this environment would import the same."""
        changed = {key for key, _ in environment.items() ^ self.environment.items()}
        return changed <= _LATE and self._runs()

    def _runs(self) -> bool:
        """Also in a process that was forked from the one that has started it."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self._popen.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        return False

    def start(self, words: list[str], place: Path, environment: dict[str, str], fds: tuple[int, int, int]) -> int:
        """The end of a pipe from which it is told how the program is called and how it ended."""
        told, tell = os.pipe()
        task = json.dumps([words, str(place), environment]).encode()
        try:
            socket.send_fds(self._ours, [task], [*fds, tell])
        finally:
            os.close(tell)
        return told

    def close(self) -> None:
        """It waits for what it has started, which tests have ended."""
        self._ours.close()
        try:
            self._popen.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


class Forked:
    """A program that was forked; as subprocess.Popen has it."""

    def __init__(self, starter: Starter, words: list[str], place: Path, environment: dict[str, str], stdin: int | None):
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        outside = []
        if stdin == subprocess.PIPE:
            theirs, ours = os.pipe()
            outside.append(theirs)
            self.stdin = open(ours, "w")  # noqa: SIM115
        else:
            theirs = os.open(os.devnull, os.O_RDONLY) if stdin in (None, subprocess.DEVNULL) else os.dup(stdin)
            outside.append(theirs)
        (out, out_write), (err, err_write) = os.pipe(), os.pipe()
        outside += [out_write, err_write]
        self.stdout, self.stderr = open(out), open(err)  # noqa: SIM115
        self._told = starter.start(words, place, environment, (theirs, out_write, err_write))
        for fd in outside:
            os.close(fd)
        self.pid, _ = self._read()
        if not self.pid:
            raise OSError(f"{' '.join(words)}: could not be forked")

    def _read(self) -> tuple[int, int]:
        told = os.read(self._told, _ENDED.size)
        return _ENDED.unpack(told) if len(told) == _ENDED.size else (0, -signal.SIGKILL)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            _, self.returncode = self._read()
            os.close(self._told)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked program", timeout or 0.0)
            select.select([self._told], [], [], 0.5)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


# ---- in the process that forks


def _load() -> None:
    """What every program imports, and the compiled code of the car."""
    importlib.import_module("tandem.commands.cli")
    from tandem.live.supervisor.launch import PROCESSES
    from tandem.live.supervisor.template import Builder

    builder = Builder(ROOT / "configs" / "drive.toml", [])
    for process in PROCESSES:
        if not process.builds_itself:
            builder.prepare(process)
    # the page builds itself: it takes a low priority and other cores first, which would be those of every program here
    for name in ("viser", "tandem.view.process", "tandem.view.panel", "tandem.view.scene_view"):
        importlib.import_module(name)


def _fork_template(words: list[str]) -> Any:
    """In place of `launch.start_template`, which starts an interpreter."""
    from tandem.live.supervisor import launch, template

    if threading.active_count() > 1:
        return _START_TEMPLATE(words)
    ours, theirs = launch.socket_pair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.environ.pop("TANDEM_TOKEN", None)
        for number in (signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = [template.__file__, str(theirs.detach()), *words]
        template.main()
        os._exit(0)
    theirs.close()
    return ours, launch.Fork(pid)


def _become(words: list[str], place: str, environment: dict[str, str]) -> None:
    """What `python -P -m WORDS` does."""
    from tandem.live.supervisor import launch

    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.register(signal.SIGUSR2, all_threads=True, chain=False)
    launch.start_template = _fork_template
    gc.enable()
    sys.argv = list(words)
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def _serve(channel: socket.socket) -> tuple[list[str], str, dict[str, str]] | None:
    """In a program that was forked: what it is. None: nothing more is to be started."""
    while True:
        task, fds, _, _ = socket.recv_fds(channel, _MOST_BYTES, 4)
        with contextlib.suppress(ChildProcessError):  # what has ended is counted as ours: the processor time of tests
            while os.waitpid(-1, os.WNOHANG if task else 0)[0]:
                pass
        if not task:
            return None
        if os.fork() == 0:
            channel.close()
            return _start(fds, task)
        for fd in fds:
            os.close(fd)


def _start(fds: list[int], task: bytes) -> tuple[list[str], str, dict[str, str]]:
    *standard, tell = fds
    pid = os.fork()
    if pid == 0:
        for number, fd in enumerate(standard):
            os.dup2(fd, number)
        for fd in fds:
            os.close(fd)
        words, place, environment = json.loads(task)
        return words, place, environment
    for fd in standard:
        os.close(fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the program decides what it does
    os.write(tell, _ENDED.pack(pid, 0))
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):  # nobody wants to know any more
        os.write(tell, _ENDED.pack(pid, os.waitstatus_to_exitcode(status)))
    os._exit(0)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    gc.disable()
    _load()
    gc.freeze()
    if (task := _serve(channel)) is not None:
        _become(*task)


if __name__ == "__main__":
    from tandem.live.supervisor import launch

    _START_TEMPLATE = launch.start_template
    main()
