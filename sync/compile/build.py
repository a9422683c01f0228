"""Compiling everything ahead, on all cores: `ensure` before anything starts, or `python -m sync.compile.build`.

Importing a module compiles its kernels, one after the other. Here worker processes import one module with kernels
each, once the modules that its import runs are done; the longest chain of waiting modules goes first. Modules that
import each other (through the file of their package) are one job. A note beside the compiled code says that a module
is done. After an edit the modules that import the edited one are imported again, and only kernels that the edit has
changed are compiled (sync/compile/stamps.py). A module that cannot be imported here (the software of its device is
missing) is skipped: the process that needs it reports the error. If compiled code cannot be stored (a full disk),
`ensure` raises ConfigError. A process that compiles for itself uses its code and reports once that it is not stored.
A module with `COMPILED_ON_REQUEST = True` is compiled, with what it imports, only if it or a module that imports it is
named, or with `--all`: few need it, and the others do not wait for it.

Standard library only: a command may call this before it imports anything.
"""

import contextlib
import functools
import gc
import importlib
import itertools
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sync.child_python import python_command, python_environment
from sync.compile import dependencies as code
from sync.compile import shipped
from sync.compile.dependencies import own_cache
from sync.errors import ConfigError

_ON_REQUEST = re.compile(r"^COMPILED_ON_REQUEST = True\b", re.MULTILINE)
_WORD = re.compile(r"[a-z][\w-]*")  # of a command line, before its options and files
_EVERY_S = 5.0  # between lines of progress where there is no terminal
_URGENT = 0.5  # share of the longest waiting chain: jobs with at least this much may be taken
_DONE = "done\n"  # a worker's answer; any other line is an error
Report = Callable[[int, int], None]  # kernels compiled, of how many


def missing(*modules: str) -> list[Path]:
    """Files with kernels that are not compiled yet: of these modules and what their import runs, or of all."""
    if modules:
        files = {each for module in modules for each in code.runs(code.file_of(module))}
    else:
        files = {file for file in code.all_sources() if not on_request(file)}
    return [file for file in sorted(files) if code.kernels_in(file) and not code.compiled_note(file).exists()]


def needed_by(file: Path) -> frozenset[Path]:
    """What a module may import, at once or later, without what is compiled when it is asked for."""
    return code.dependencies_outside(file, on_request)


@functools.cache
def on_request(file: Path) -> bool:
    return _ON_REQUEST.search(file.read_text()) is not None


def done(name: str) -> bool:
    """Whether `ensure` of this name would find nothing missing; quick."""
    return code.marker(name).exists()


def ensure(name: str, *modules: str, report: Report | None = None) -> None:
    """Compile what is missing of these modules, or of all; at once if nothing is (20 ms).

    `name` is what these modules are for: it is remembered that nothing was missing. One process compiles, others wait.
    Raises ConfigError where compiled code cannot be kept.
    """
    if done(name):
        return
    own_cache()
    with code.alone(code.cache_directory() / "build.lock"):
        if missing(*modules):
            shipped.take(shipped.FOLDER)
        if files := missing(*modules):
            build(files, report or Progress())
        with contextlib.suppress(OSError):
            code.marker(name).touch()


def take_shipped() -> None:
    """Copy what a wheel brings into the cache, once for these sources, before a command imports any of it. Quick if
    nothing is shipped; an invalid cache is reported by the code that needs it."""
    if shipped.FOLDER.is_dir() and not done("shipped"):
        with contextlib.suppress(ConfigError, OSError):
            own_cache()
            shipped.take(shipped.FOLDER)
            code.marker("shipped").touch()


def ensure_for(*modules: str) -> None:
    """Compile what these may import, at once or later, and no more; at once if nothing of it is missing."""
    # a marker's name has the fingerprint of folders with kernels, but nothing of these
    ours = [module for module in modules if module.startswith("tandem.")]
    name = "-".join(["for", *modules, *(code.stamp(code.file_of(module))[:12] for module in ours)])
    if not done(name):
        files = {each for module in modules for each in needed_by(code.file_of(module)) if code.kernels_in(each)}
        if files:  # no names would mean all
            ensure(name, *sorted(code.module_name(each) for each in files))


class Progress:
    """A line that is written over on a terminal; elsewhere one every few seconds. Nothing in the first `silent_s`.

    It says for which command of ours something is compiled, and for how long."""

    def __init__(self, silent_s: float = 0.0, of: str = "") -> None:
        command = _command()
        self._what = f"compiling{of and f' {of}'}{command and f' for `{command}`:'}"
        # a progress bar replaces sys.stderr: below it a line is shown only when it is complete
        self._terminal = sys.stderr.isatty() and sys.stderr is sys.__stderr__
        self._begun = time.monotonic()
        self._next = self._begun + silent_s
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        self.show(f"{self._what} {done} of {total}", done == total)

    def show(self, text: str, ended: bool = False) -> None:
        now = time.monotonic()
        if now < self._next and not (self._shown and (ended or self._terminal)):
            return
        self._shown = True
        took = f" ({now - self._begun:.0f} s)" if ended or now - self._begun >= 1.0 else ""
        if self._terminal:
            print(f"\r\x1b[K{text}{took}", end="\n" if ended else "", file=sys.stderr, flush=True)
        else:
            self._next = now + _EVERY_S
            print(f"{text}{took}", file=sys.stderr, flush=True)


def _command() -> str:
    """What was typed after `tandem`, up to its options and files; nothing of another program."""
    place = Path(sys.argv[0])
    ours = "tandem" in (place.name, place.parent.name)
    return " ".join(itertools.takewhile(_WORD.fullmatch, sys.argv[1:])) if ours else ""


def order(files: list[Path]) -> dict[tuple[Path, ...], set[tuple[Path, ...]]]:
    """Jobs, and what has to be done before each of them."""
    jobs = list({tuple(other for other in files if _needs(file, other) and _needs(other, file)) for file in files})
    return {job: {other for other in jobs if other != job and _needs(job[0], other[0])} for job in jobs}


def _needs(file: Path, other: Path) -> bool:
    return other in code.runs(file)


def _urgency(before: dict[tuple[Path, ...], set[tuple[Path, ...]]]) -> dict[tuple[Path, ...], int]:
    """The size of the longest chain of modules that begins with each: a stand-in for its compile time.

    Inner functions count for their callers, where they are compiled."""
    size = {job: sum(each.stat().st_size for each in _compiled_in(job)) for job in before}
    longest = dict(size)
    for job in sorted(before, key=lambda each: -len(before[each])):  # those that others need have fewer before them
        for other in before[job]:
            longest[other] = max(longest[other], size[other] + longest[job])
    return longest


def chosen(
    ready: list[tuple[Path, ...]], urgency: dict[tuple[Path, ...], int], compiled: set[Path]
) -> tuple[Path, ...]:
    """Of the most urgent jobs the one that shares most with what this worker has compiled."""
    most = max(urgency[job] for job in ready)

    def shared(job: tuple[Path, ...]) -> tuple[int, int]:
        return sum(each.stat().st_size for each in _compiled_in(job) & compiled), urgency[job]

    return max((job for job in ready if urgency[job] >= _URGENT * most), key=shared)


def _compiled_in(job: tuple[Path, ...]) -> set[Path]:
    return {*job} | {each for file in job for each in code.dependencies(file) if code.has_inner(each)}


class _Worker:
    def __init__(self) -> None:
        command = python_command("-m", "sync.compile.build", code.FOR_OTHERS)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=python_environment()
        )
        self.job: tuple[Path, ...] = ()
        self.compiled: set[Path] = set()  # inner functions of these need not be compiled again here

    def give(self, job: tuple[Path, ...]) -> None:
        self.job = job
        self.compiled |= _compiled_in(job)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: the reader of its answer will see it
            self.process.stdin.write(" ".join(code.module_name(file) for file in job) + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        if self.job:
            self.process.terminate()  # what it compiles is no longer needed
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.process.wait()


def build(files: list[Path], report: Report, workers: int | None = None) -> None:
    """Compile these, each after what it needs of them. Raises ConfigError where what is compiled cannot be kept."""
    before = order(files)
    urgency = _urgency(before)
    waiting = sorted(before, key=lambda job: -urgency[job])
    kernels = {job: sum(code.kernels_in(file) for file in job) for job in before}
    total, done = sum(kernels.values()), set[tuple[Path, ...]]()
    report(0, total)
    pool: list[_Worker] = []
    ready = selectors.DefaultSelector()

    def start_worker() -> None:
        worker = _Worker()
        assert worker.process.stdout is not None
        pool.append(worker)
        ready.register(worker.process.stdout, selectors.EVENT_READ, worker)

    try:
        for _ in range(min(workers or len(os.sched_getaffinity(0)), len(before))):
            start_worker()
        while len(done) < len(before):
            for worker in pool:
                if not worker.job and (can := [job for job in waiting if before[job] <= done]):
                    worker.give(chosen(can, urgency, worker.compiled))
                    waiting.remove(worker.job)
            for key, _ in ready.select():
                worker = key.data
                assert worker.process.stdout is not None
                job, answer = worker.job, worker.process.stdout.readline()
                if not answer:
                    ready.unregister(worker.process.stdout)  # it crashed: the import that needs this module shows why
                    pool.remove(worker)
                    worker.end()
                    if not job:  # it did not even get as far as its first module: nor would another
                        return
                    start_worker()
                elif answer != _DONE:
                    raise ConfigError(answer.strip())
                done.add(job)
                worker.job = ()
                report(sum(kernels[each] for each in done), total)
    finally:
        for worker in pool:
            worker.end()
        ready.close()


def _work() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C just ends it
    answers, sys.stdout = sys.stdout, sys.stderr  # a module may print: that is not an answer
    gc.disable()  # a compiler makes millions of objects that are no garbage yet, and this process ends soon
    for line in sys.stdin:
        for name in line.split():
            _compile(name)
        answers.write(f"{code.unstored[-1]}\n" if code.unstored else _DONE)
        answers.flush()
    os._exit(0)  # all is written; taking down an interpreter full of the compiler's objects takes a second


def _compile(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # reported by the process that needs it; here it is only skipped
        return
    from sync.compile import stamps

    if not code.unstored:
        try:
            stamps.note_compiled(code.file_of(name))
        except OSError as error:
            code.report_unstored(code.cache_directory(), error)


if __name__ == "__main__":
    if sys.argv[1:] == [code.FOR_OTHERS]:
        _work()
    every = [code.module_name(file) for file in code.all_sources() if code.kernels_in(file)]
    try:
        ensure(*(["all", *every] if sys.argv[1:] == ["--all"] else ["everything"]))
    except ConfigError as refused:
        print(f"tandem: {refused}", file=sys.stderr)
        sys.exit(refused.code)
