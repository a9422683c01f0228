"""Where runs are made: threads of this process, processes of this machine, or a Dask cluster. The rows are the same.

Runs go out in chunks of about a second, sized by what runs have taken so far, a few chunks ahead: whatever the number
of runs, little waits. Kernels hold no GIL, so threads use all cores. Where a machine has to be built for every run,
processes do. A cluster's workers need this version of tandem and nothing else.

A worker process that is lost (a crash in compiled code, a kill, too little memory) is a row and nothing more: the runs
of its chunk are made again, each in a process that makes no other, and the one that ends its process is the row.
"""

import multiprocessing
import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import TracebackType
from typing import Any, TypeVar

from sync.child_python import python_environment
from sync.errors import TandemError
from tandem.ensembles.cluster import Warn, connected

ENGINES = ("auto", "threads", "processes")
_CHUNK_S = 1.0
_LARGEST = 4096
_AHEAD = 2  # chunks a worker
_POLL_S = 0.5
_GOES_S = 10.0  # that a process may take to end by itself

_forkserver_starts = threading.Lock()

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT")


class WorkerEnded(TandemError):
    """A worker process ended, or those of a cluster, before it had answered."""

    code = 1

    def __init__(self, text: str, exit_code: int = 0):
        super().__init__(text, exit_code)
        self.killed = -exit_code in (signal.SIGKILL, signal.SIGTERM)  # from outside, perhaps for want of memory

    def __str__(self) -> str:
        return str(self.args[0])


def _ended(exit_code: int) -> WorkerEnded:
    if exit_code >= 0:
        return WorkerEnded(f"worker ended with exit code {exit_code}", exit_code)
    name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else "?"
    killed = ": killed, or out of memory" if -exit_code == signal.SIGKILL else ""
    return WorkerEnded(f"worker ended by signal {-exit_code} ({name}){killed}", exit_code)


class Interrupted(TandemError):
    """Ctrl-C: what is done is kept."""

    code = 130


@dataclass(frozen=True)
class Pool:
    executor: Executor
    workers: int
    kind: str

    def submit(self, alone: bool, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """`alone`: in a process that has made no other run, where there are processes."""
        if alone and isinstance(self.executor, Processes):
            return self.executor.submit_alone(function, *arguments)
        return self.executor.submit(function, *arguments)


def cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def pool(
    kind: str,
    workers: int = 0,
    cluster: str = "",
    preload: Sequence[str] = (),
    certificate: str = "",
    warn: Warn = warnings.warn,
) -> Iterator[Pool]:
    """`kind` threads or processes; with `cluster`, the address of a scheduler, that cluster."""
    if cluster:
        with connected(cluster, certificate, warn) as client:
            # a worker that is lost gives its chunks to others
            yield Pool(client.get_executor(pure=False, retries=3), sum(client.nthreads().values()), "cluster")
        return
    count = workers or cores()
    threads = kind != "processes"
    executor = ThreadPoolExecutor(count, thread_name_prefix="run") if threads else processes(count, preload)
    try:
        yield Pool(executor, count, kind)
    except BaseException:
        if isinstance(executor, Processes):
            executor.kill()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def processes(count: int, preload: Sequence[str] = ()) -> "Processes":
    """Worker processes. The one that forks them is started as every child of ours (sync/child_python.py);
    `multiprocessing` takes its environment from this process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *preload])
    with _forkserver_starts:
        before = dict(os.environ)
        os.environ.update(python_environment())
        try:
            forkserver.ensure_running()
        finally:
            for name in ("PYTHONPATH", "PYTHONSAFEPATH"):
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]
    return Processes(count, context)


@dataclass(frozen=True)
class _Child:
    process: ForkServerProcess
    line: "connection.Connection[Any, Any]"


class Processes(ThreadPoolExecutor):
    """Threads, each with a process that runs its calls.

    `ProcessPoolExecutor` gives up all its work when one of its processes is lost. Here it is the one call that the
    process had, which raises WorkerEnded; the thread goes on with a new process.
    """

    def __init__(self, count: int, context: ForkServerContext):
        super().__init__(count, thread_name_prefix="worker")
        self._context = context
        self._own = threading.local()
        self._children: set[_Child] = set()
        self._changing = threading.Lock()  # multiprocessing looks after all children at every start

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        return super().submit(self._call, False, function, arguments, named)

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Run the call in a new process: an earlier call may have damaged the memory of an old one."""
        return super().submit(self._call, True, function, arguments, {})

    def _call(self, alone: bool, function: Callable[..., Any], arguments: Any, named: Any) -> Any:
        if alone and (old := getattr(self._own, "child", None)) is not None:
            self._end(old)
        child: _Child | None = getattr(self._own, "child", None)
        if child is None:
            child = self._own.child = self._start()
        try:
            child.line.send((function, arguments, named))
            if child.line not in connection.wait([child.line, child.process.sentinel]):
                raise EOFError
            answered, answer = child.line.recv()
        except (EOFError, OSError):
            raise _ended(self._end(child)) from None
        if not answered:
            raise answer
        return answer

    def _start(self) -> _Child:
        ours, theirs = self._context.Pipe()
        with self._changing, theirs:
            process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            child = _Child(process, ours)
            self._children.add(child)
        return child

    def _end(self, child: _Child) -> int:
        """What it ended with; one that still runs goes when its line is closed."""
        child.line.close()
        if not connection.wait([child.process.sentinel], _GOES_S):
            child.process.kill()
        with self._changing:
            self._children.discard(child)
            child.process.join()
        self._own.child = None
        return child.process.exitcode or 0

    def kill(self) -> None:
        """Whatever is being done is given up."""
        super().shutdown(wait=False, cancel_futures=True)
        for child in list(self._children):
            child.process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            for child in list(self._children):
                self._end(child)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self.shutdown()


def _serve(line: "connection.Connection[Any, Any]") -> None:
    """What a process does: calls that come over the line, until it is closed. Ctrl-C is for the parent to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            function, arguments, named = line.recv()
            try:
                answer = (True, function(*arguments, **named))
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = (False, error)
            try:
                line.send(answer)
            except OSError:
                raise  # the parent is gone
            except Exception as error:  # it cannot be sent
                line.send((False, TandemError(f"{type(error).__name__}: {error}: {answer[1]!r:.200}")))


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Ctrl-C sets an event instead of raising in the middle of a row; a second one raises."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def first(*_: Any) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def run_all(
    where: Pool,
    make: Callable[[list[ItemT]], tuple[Callable[..., tuple[list[RowT], float]], tuple[Any, ...]]],
    items: Sequence[ItemT],
    sink: Callable[[list[RowT]], None],
    lost: Callable[[ItemT, WorkerEnded], RowT],
) -> bool:
    """All items; `make` gives the function and the arguments of a chunk, `sink` gets its rows as they come, `lost`
    makes the row of an item that ended the process it was alone in.

    False where Ctrl-C ended it: what had begun is finished and kept.
    """
    waiting = iter(items)
    left, size = len(items), 1
    again: list[ItemT] = []  # of chunks whose worker was lost
    out: dict[Future[tuple[list[RowT], float]], list[ItemT]] = {}

    def collect(done: set[Future[tuple[list[RowT], float]]]) -> None:
        nonlocal size
        for future in done:
            chunk = out.pop(future)
            try:
                rows, seconds = future.result()
            except Exception as error:
                ended = _worker_ended(error)
                if ended is None:
                    raise
                if len(chunk) == 1:
                    sink([lost(chunk[0], ended)])
                else:
                    again.extend(chunk)
                continue
            sink(rows)
            fitting = round(_CHUNK_S * len(chunk) / max(seconds, 1e-6))
            size = max(1, min(fitting, 4 * size, _LARGEST, -(-left // (_AHEAD * where.workers)) or 1))

    with _interrupts() as interrupted:
        while ((left or again) and not interrupted.is_set()) or out:
            while (left or again) and not interrupted.is_set() and len(out) < _AHEAD * where.workers:
                alone = bool(again)
                chunk = [again.pop()] if alone else list(islice(waiting, min(size, left)))
                left -= 0 if alone else len(chunk)
                function, arguments = make(chunk)
                out[where.submit(alone, function, *arguments)] = chunk
            if interrupted.is_set():
                for future in [each for each in out if each.cancel()]:
                    again += out.pop(future)
            collect(wait(out, _POLL_S, FIRST_COMPLETED).done)
    return not left and not again


def _worker_ended(error: Exception) -> WorkerEnded | None:
    if isinstance(error, WorkerEnded):
        return error
    if type(error).__name__ == "KilledWorker":  # of Dask, which need not be installed
        return WorkerEnded("the workers of the cluster that had it ended, one after the other")
    return None
