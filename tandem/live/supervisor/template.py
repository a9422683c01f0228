"""The template: one single-threaded process that imports, loads compiled code and builds the model, then forks.

    python -m tandem.live.supervisor.template FD [WORD]...

The words only show in `ps` whose template it is. It takes requests on a socket (FD). The first message names the
configuration and what is set in it; then each message asks for a process: its name, with its standard input and output
as descriptors; without descriptors the process is only built. The template builds what that process needs, unless it
has done so already, forks it and answers with its pid; a process that nothing waits for (`builds_itself`) is forked
first and builds itself. All that the template has built is shared with its forks, page by page, until one of them
writes there. So it may hold nothing that does not survive a fork: no thread (BLAS included), no socket of ZeroMQ, no
device, no CUDA. A DAQ whose driver would not survive (`survives_fork` of its settings) is started in the fork, by exec.

It is also asked for a spare: a fork of itself with a socket of its own, which has built the same and takes over if the
template crashes. To import and build again would take a second, in which no crashed process could be replaced.

The configuration is the one the run was started with; the process that needs it reports its errors. The template ends
with its supervisor, however that ends.
"""

import ctypes
import errno
import functools
import gc
import importlib
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sync.child_python import python_command, python_environment
from sync.files.private import only_for_this_user
from sync.visible import warn_in_words
from tandem.live.supervisor.launch import PROCESSES, SPARE, Process

if TYPE_CHECKING:
    from sync.config.config import Config
    from sync.process.service import Prepared

_SET_PDEATHSIG, _SET_NAME = 1, 15  # prctl
_MOST_BYTES = 1 << 20  # of a path and settings


def name_process(name: str) -> None:
    """Name this process in `ps` and `top`: forks have the command line of their template."""
    ctypes.CDLL(None).prctl(_SET_NAME, f"tandem-{name}".encode(), 0, 0, 0)


class Builder:
    """What processes need before they can run, built once."""

    def __init__(self, file: Path, overrides: list[str]):
        self._file, self._overrides = file, overrides

    @functools.cached_property
    def _config(self) -> "Config":
        from sync.config.config import load

        return load(self._file, self._overrides)

    @functools.cache  # noqa: B019  (one builder a process)
    def _attempt(self, process: Process) -> "tuple[Config, Prepared] | Exception":
        try:
            config = self._config
            from sync.compile.jit import compiling

            with compiling(process.name):
                module = importlib.import_module(process.prepare)
            return config, module.prepare(config, self._file)
        except Exception as error:  # the process itself reports it, and ends with its code
            return error

    def own_process(self, process: Process) -> bool:
        """Whether this process must be started by exec."""
        if process.name != "daq":
            return False
        from sync.errors import ConfigError

        try:
            config = self._config
            from daq_service.devices import settings_class

            return not settings_class(config).survives_fork
        except ConfigError:  # the process itself reports it
            return False

    def prepare(self, process: Process) -> None:
        if not self.own_process(process):
            self._attempt(process)

    def run(self, process: Process) -> NoReturn:
        """Become that process."""
        if self.own_process(process):
            words = [word for override in self._overrides for word in ("--set", override)]
            command = python_command("-m", process.module, str(self._file), "--supervised", *words)
            from sync.process.realtime import own_cores

            os.sched_setaffinity(0, own_cores())
            os.execve(sys.executable, command, python_environment())
        from sync.process.service import work

        def prepared() -> "tuple[Config, Prepared]":
            result = self._attempt(process)
            if isinstance(result, Exception):
                raise result
            return result

        code = work(process.name, prepared, self._file, True, real_time=process.real_time, waits=process.waits)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what is left of the template's is not ours to take down


def _fork(title: str, become: Callable[[], NoReturn]) -> str:
    """Fork; returns the pid of the new process, or " " and why there is none. It becomes a child of the process that
    adopts orphans (the supervisor), so that it does not depend on the template."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # a garbage collection in a fork would write into every shared object
    try:
        between = os.fork()
    except OSError as error:
        os.close(read)
        os.close(write)
        return f" {title} cannot be started: {error.strerror}"
    if between == 0:
        try:
            pid = os.fork()
        except OSError as error:
            os.write(write, struct.pack("q", -(error.errno or errno.EAGAIN)))
            os._exit(1)
        if pid:
            os.write(write, struct.pack("q", pid))
            os._exit(0)
        os.close(read)
        os.close(write)
        become()
    os.close(write)
    answer = os.read(read, 8)
    os.close(read)
    os.waitpid(between, 0)  # now it has been adopted
    pid = struct.unpack("q", answer)[0] if len(answer) == 8 else -1
    return str(pid) if pid > 0 else f" {title} cannot be started: {os.strerror(-pid)}"


def _fork_process(process: Process, builder: Builder, channel: socket.socket, stdin: int, stdout: int) -> str:
    def become() -> NoReturn:
        os.setsid()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.close(stdin)
        os.close(stdout)
        channel.close()
        gc.enable()
        name_process(process.name)
        builder.run(process)

    return _fork(process.title, become)


def _fork_spare(builder: Builder, channel: socket.socket, fd: int) -> str:
    """Fork a template that has built all that this one has, and waits on a socket of its own."""

    def become() -> NoReturn:
        channel.close()
        name_process("spare")
        os.set_inheritable(fd, False)
        _serve(socket.socket(fileno=fd), builder)
        os._exit(0)  # what is left of the template's is not ours to take down

    return _fork("a spare of the process that starts the others", become)


def _serve(channel: socket.socket, builder: Builder) -> None:
    """Serve requests until the supervisor has ended, or needs nothing more."""
    processes = {process.name: process for process in PROCESSES}
    while True:
        message, fds, _, _ = socket.recv_fds(channel, 64, 2)
        if not message:
            return
        if message == SPARE:
            name_process("template")  # a spare that is asked for a spare has become the template
            answer = _fork_spare(builder, channel, fds[0])
        else:
            process = processes[message.decode()]
            if not process.builds_itself:
                builder.prepare(process)
            if not fds:
                continue  # only to be built
            answer = _fork_process(process, builder, channel, *fds)
        for fd in fds:
            os.close(fd)
        channel.send(answer.encode())


def _import_libraries() -> None:
    """Import what every run needs, except modules with kernels: those may have to be compiled first."""
    for name in (
        "sync.compile.jit",
        "sync.config.config",
        "msgpack",
        "zmq",
    ):  # the first sets where numba stores compiled code
        importlib.import_module(name)
    from sync.process.realtime import own_cores

    own_cores()  # noted now for all forks, before the template leaves the loop's core


def main() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    name_process("template")
    only_for_this_user()
    warn_in_words()  # one line on stderr, here and in the services that are forked
    fd = int(sys.argv[1])
    os.set_inheritable(fd, False)
    channel = socket.socket(fileno=fd)
    gc.disable()  # nothing that is built here is ever freed
    _import_libraries()
    if not (task := channel.recv(_MOST_BYTES)):
        return  # there is no run after all
    file, *overrides = json.loads(task)
    _serve(channel, Builder(Path(file), overrides))


if __name__ == "__main__":
    main()
