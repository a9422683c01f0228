"""Where runs are made: threads of this process, processes of this machine, or a Dask cluster. The rows are the same.

Runs go out in chunks of about a second, sized by what runs have taken so far, a few chunks ahead: whatever the number
of runs, little waits. Kernels hold no GIL, so threads use all cores unless a machine has to be made anew for every run;
then processes do. A cluster's workers need this version of tandem and nothing else.
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import forkserver
from typing import Any, TypeVar

from sync.child_python import python_environment
from sync.errors import TandemError
from tandem.ensembles.cluster import Warn, connected

ENGINES = ("auto", "threads", "processes")
_CHUNK_S = 1.0
_LARGEST = 4096
_AHEAD = 2  # chunks a worker
_LOOK_S = 0.5

_forkserver_starts = threading.Lock()

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT")


class WorkerLost(TandemError):
    """What is done stays done: the same command goes on."""

    code = 1


class Interrupted(TandemError):
    """Ctrl-C: what is done is kept."""

    code = 130


@dataclass(frozen=True)
class Pool:
    executor: Executor
    workers: int
    kind: str


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
    executor: Executor
    if kind == "processes":
        executor = processes(count, preload, _leave_interrupts_to_the_parent)
    else:
        executor = ThreadPoolExecutor(count, thread_name_prefix="run")
    try:
        yield Pool(executor, count, kind)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def processes(
    count: int, preload: Sequence[str] = (), initializer: Callable[[], None] | None = None
) -> ProcessPoolExecutor:
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
    return ProcessPoolExecutor(count, mp_context=context, initializer=initializer)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Ctrl-C sets an event instead of raising in the middle of a row; a second one raises."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def first(*_: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def run_all(
    where: Pool,
    make: Callable[[list[ItemT]], tuple[Callable[..., tuple[list[RowT], float]], tuple[Any, ...]]],
    items: Sequence[ItemT],
    sink: Callable[[list[RowT]], None],
) -> bool:
    """All items; `make` gives the function and the arguments of a chunk, `sink` gets its rows as they come.

    False where Ctrl-C ended it: what had begun is finished and kept. Raises WorkerLost.
    """
    waiting = iter(items)
    left, size = len(items), 1
    out: dict[Future[tuple[list[RowT], float]], int] = {}

    def collect(done: set[Future[tuple[list[RowT], float]]]) -> None:
        nonlocal size
        for future in done:
            count = out.pop(future)
            rows, seconds = future.result()
            sink(rows)
            fitting = round(_CHUNK_S * count / max(seconds, 1e-6))
            size = max(1, min(fitting, 4 * size, _LARGEST, -(-left // (_AHEAD * where.workers)) or 1))

    try:
        with _interrupts() as interrupted:
            while (left and not interrupted.is_set()) or out:
                while left and not interrupted.is_set() and len(out) < _AHEAD * where.workers:
                    chunk = list(islice(waiting, min(size, left)))
                    left -= len(chunk)
                    function, arguments = make(chunk)
                    out[where.executor.submit(function, *arguments)] = len(chunk)
                if interrupted.is_set():
                    for future in [each for each in out if each.cancel()]:
                        left += out.pop(future)
                collect(wait(out, _LOOK_S, FIRST_COMPLETED).done)
        return left == 0
    except BrokenProcessPool:
        raise WorkerLost("a worker process was killed; what is done is kept, and the same command goes on") from None
    except Exception as error:
        if type(error).__name__ != "KilledWorker":  # of Dask, which need not be installed
            raise
        raise WorkerLost(f"{error}; what is done is kept, and the same command goes on") from None
