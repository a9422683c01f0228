"""Compiling everything ahead, on all cores: `ensure` before anything starts, or `python -m sync.build`.

A module's kernels are compiled when it is imported, one after the other. Here worker processes import one module with
kernels each, as soon as the modules it imports are done; those on which the longest chain of others waits come first.
What is done is marked in the folder of its compiled code (sync/sources.py), so only what an edit has changed is
compiled again. A module that cannot be imported here (its device's software is missing) is left to who needs it, and to
the error that it then gets.

Standard library only: a command may ask before it imports anything.
"""

import fcntl
import importlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sync import sources
from sync.sources import own_cache

_DONE = "complete"
_EVERY_S = 5.0  # between lines of progress where there is no terminal
Report = Callable[[int, int], None]  # kernels compiled, of how many


def missing(*modules: str) -> list[Path]:
    """Files with kernels among these modules and what they import (or all there are) that are still to be compiled."""
    asked = [sources.file_of(module) for module in modules]
    files = {each for file in asked for each in sources.dependencies(file)} if asked else set(sources.all_sources())
    return [
        file for file in sorted(files) if sources.kernels_in(file) and not (sources.folder_of(file) / _DONE).exists()
    ]


def done(name: str) -> bool:
    """Whether `ensure` of this name would find nothing missing; quick."""
    return sources.marker(name).exists()


def ensure(name: str, *modules: str, report: Report | None = None) -> None:
    """Compile what is missing of these modules, or of all; at once if nothing is (20 ms).

    `name` is what these modules are for: it is remembered that nothing was missing. One process compiles, others wait.
    """
    if done(name):
        return
    own_cache()
    with open(sources.cache_directory() / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if files := missing(*modules):
            build(files, report or Progress())
        sources.marker(name).touch()


class Progress:
    """A line that is written over on a terminal; elsewhere a line every few seconds."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = 0.0
        self._begun = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now, ended = time.monotonic(), done == total
        if self._terminal:
            print(f"\rcompiling {done} of {total}", end="\n" if ended else "", file=sys.stderr, flush=True)
        elif now >= self._next or ended:
            self._next = now + _EVERY_S
            took = f" ({now - self._begun:.0f} s)" if ended else ""
            print(f"compiling {done} of {total}{took}", file=sys.stderr, flush=True)


def order(files: list[Path]) -> dict[Path, set[Path]]:
    """What has to be compiled before each of them. Modules that import each other do not wait for each other."""
    return {
        file: {other for other in files if other != file and _needs(file, other) and not _needs(other, file)}
        for file in files
    }


def _needs(file: Path, other: Path) -> bool:
    return other in sources.dependencies(file)


def _urgency(before: dict[Path, set[Path]]) -> dict[Path, int]:
    """The size of the longest chain of modules that begins with each: a stand-in for its compile time."""
    size = {file: file.stat().st_size for file in before}
    longest = dict(size)
    for file in sorted(before, key=lambda each: -len(before[each])):  # those that others need have fewer before them
        for other in before[file]:
            longest[other] = max(longest[other], size[other] + longest[file])
    return longest


class _Worker:
    def __init__(self) -> None:
        command = [sys.executable, "-m", "sync.build", "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=sources.ROOT
        )
        self.job: Path | None = None

    def give(self, file: Path) -> None:
        self.job = file
        assert self.process.stdin is not None
        self.process.stdin.write(sources.module_name(file) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        if self.job is not None:
            self.process.terminate()  # nobody waits for what it compiles any longer
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


def build(files: list[Path], report: Report, workers: int | None = None) -> None:
    """Compile these, each after what it needs of them."""
    before = order(files)
    urgency = _urgency(before)
    waiting = sorted(files, key=lambda file: -urgency[file])
    kernels = {file: sources.kernels_in(file) for file in files}
    total, done = sum(kernels.values()), set[Path]()
    report(0, total)
    pool: list[_Worker] = []
    ready = selectors.DefaultSelector()

    def start_worker() -> None:
        worker = _Worker()
        assert worker.process.stdout is not None
        pool.append(worker)
        ready.register(worker.process.stdout, selectors.EVENT_READ, worker)

    try:
        for _ in range(min(workers or len(os.sched_getaffinity(0)), len(files))):
            start_worker()
        while len(done) < len(files):
            for worker in pool:
                if worker.job is None and (file := next((f for f in waiting if before[f] <= done), None)):
                    waiting.remove(file)
                    worker.give(file)
            for key, _ in ready.select():
                worker = key.data
                assert worker.process.stdout is not None
                job, answer = worker.job, worker.process.stdout.readline()
                if not answer:
                    ready.unregister(worker.process.stdout)  # it crashed: the import that needs this module shows why
                    pool.remove(worker)
                    worker.end()
                    if job is None:  # it did not even get as far as its first module: nor would another
                        return
                    start_worker()
                done.add(job)
                worker.job = None
                report(sum(kernels[file] for file in done), total)
    finally:
        for worker in pool:
            worker.end()
        ready.close()


def _work() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C just ends it
    for line in sys.stdin:
        name = line.strip()
        try:
            importlib.import_module(name)
        except Exception as error:  # told by who needs it; here it is only not done
            print(f"{name}: {error}".replace("\n", " "), flush=True)
            continue
        folder = sources.folder_of(sources.file_of(name))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / _DONE).touch()
        print(name, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        _work()
    else:
        ensure("everything")
