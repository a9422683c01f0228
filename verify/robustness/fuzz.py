"""Does anything of tandem crash, hang or eat memory, whatever bytes it is given?

Real inputs from the repository are changed (verify/robustness/fuzz_inputs.py) and thrown at everything that reads what
others wrote (verify/robustness/fuzz_targets.py). A finding is any exception but a documented refusal, the death of the
process, an input that takes longer than ten seconds, or one that takes more than half a gigabyte. What was accepted and
what was refused is counted: a door that nothing passes proves nothing about the rooms behind it.

    python -m verify fuzz --inputs 1000000                     all targets, two processes, some twenty minutes
    python -m verify fuzz --target road --seconds 60           one of them, for a minute
    python -m verify fuzz --target road --seed 3 --only 1234   one input again, with its traceback
    python -m verify fuzz --target road --input FILE           the same from a saved file
    python -m verify fuzz --target tir --atheris --seconds 60  guided by coverage

Inputs are numbered: target, seed and number make the same bytes again.
"""

import logging
import mmap
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np

from verify import ROOT
from verify.measure import NotHere, Row, equal, figure, holds, note
from verify.robustness.fuzz_targets import MAKERS, Maker, Target, make

HANG_S = 10.0
MOST_GROWTH = 512 << 20  # bytes of real memory that one input may take
MOST_VIRTUAL = 3 << 30  # bytes of address space beyond what the program has at its start
SLICE = 200  # inputs of a target in a row
_SOME = 12  # inputs of a target, of which at least one is refused
MOST_FINDINGS = 40  # of a run; then it is broken enough
# words of a worker's page: which target, which input, since when; then of each target accepted, refused, microseconds
_TARGET, _INDEX, _SINCE, _CPU, _DONE, _COUNTS = range(6)


def _plan(targets: list[Target], inputs: int) -> list[int]:
    """How many of each: by their shares, but not fewer than make sense, and of a few inputs some for each."""
    total = sum(t.share for t in targets)
    scale = inputs / 1_000_000
    some = max(1, min(_SOME, inputs // (2 * len(targets))))
    counts = [max(round(inputs * t.share / total), round(t.least * scale), some) for t in targets]
    surplus = sum(counts) - inputs
    counts[int(np.argmax(counts))] -= surplus if surplus < max(counts) else 0
    return counts


def _where(error: BaseException) -> str:
    """Kind of error and the last line of ours: the same twice is one finding."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if str(ROOT) in f.filename]
    ours = [f for f in frames if "/verify/" not in f.filename] or frames
    last = ours[-1] if ours else None
    place = f"{Path(last.filename).relative_to(ROOT)}:{last.lineno}" if last else "?"
    return f"{type(error).__name__} at {place}: {str(error)[:160]}"


def _limit() -> None:
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (virtual + MOST_VIRTUAL, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class WorkerPool:
    """Targets, workers that throw inputs at them, and the watch over the workers."""

    def __init__(
        self,
        makers: list[Maker],
        seed: int,
        inputs: int,
        seconds: float = 0.0,
        processes: int = 2,
        hang_s: float = HANG_S,
    ):
        self.folder = Path(tempfile.mkdtemp(prefix="tandem-fuzz-"))
        self.makers, self.seed, self.seconds, self.processes, self.hang_s = makers, seed, seconds, processes, hang_s
        begun = time.monotonic()
        self.targets = make(makers, self.folder / "first")  # compiles, before any fork
        note(f"ready after {time.monotonic() - begun:.1f} s")
        self.plan = _plan(self.targets, inputs)
        words = _COUNTS + 3 * len(self.targets)
        self.pages = [
            np.frombuffer(mmap.mmap(-1, 8 * words), np.int64) for _ in range(processes)
        ]  # shared with the children  # fmt: skip
        self.findings: dict[str, dict[str, Any]] = {}
        self._queue: Any = multiprocessing.get_context("fork").SimpleQueue()
        self._lives = 0

    # a worker takes every so manieth input; after a death its successor goes on behind the input that killed it

    def _work(self, me: int, skip: dict[int, int]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        warnings.simplefilter("ignore")
        page = self.pages[me]
        # each has files of its own; the first one takes over those that are there
        mine = self.targets if self._lives == 1 else make(self.makers, self.folder / f"{me}.{self._lives}")
        _limit()
        left = {k: iter(range(me + self.processes * skip[k], n, self.processes)) for k, n in enumerate(self.plan)}
        stop = time.monotonic() + self.seconds if self.seconds else None
        while left:
            for k in list(left):
                for _ in range(max(1, round(SLICE * self.plan[k] / max(self.plan)))):
                    index = next(left[k], None)
                    if index is None or (stop is not None and time.monotonic() > stop):
                        del left[k]
                        break
                    self._try(mine[k], k, index, page)
        page[_DONE] = 1

    def _try(self, target: Target, k: int, index: int, page: np.ndarray) -> None:
        page[_TARGET], page[_INDEX] = k, index
        data = target.input(self.seed, index)
        page[_CPU], page[_SINCE] = time.process_time_ns(), time.monotonic_ns()
        before = _resident()
        try:
            accepted = target.run(data)
            page[_COUNTS + 3 * k + (not accepted)] += 1
            page[_COUNTS + 3 * k + 2] += (time.process_time_ns() - page[_CPU]) // 1000
            if _resident() - before > MOST_GROWTH:
                self._queue.put((target.name, index, f"took {(_resident() - before) >> 20} MB of memory"))
        except BaseException as error:
            self._queue.put((target.name, index, _where(error)))
        page[_SINCE] = 0

    def _start(self, me: int) -> Any:
        # how many inputs of each target this worker has behind it: all are tried in order
        done = self._counts(me)[:, :2].sum(axis=1)
        behind = [int(n) + self._odd.get((me, k), 0) for k, n in enumerate(done)]
        self._lives += 1
        process = multiprocessing.get_context("fork").Process(
            target=self._work, args=(me, dict(enumerate(behind))), daemon=True
        )
        process.start()
        return process

    def run(self) -> bool:
        self._odd: dict[tuple[int, int], int] = {}  # inputs without a count: those that were findings
        begun = time.monotonic()
        pool = [self._start(me) for me in range(self.processes)]
        reported = begun
        while any(process is not None for process in pool):
            time.sleep(0.05)
            self._collect()
            for me, process in enumerate(pool):
                if process is None:
                    continue
                page = self.pages[me]
                if self._hangs(page, process.pid):
                    process.kill()
                    process.join()
                    self._note(me, f"took longer than {self.hang_s:g} s")
                    pool[me] = self._start(me)
                elif not process.is_alive():
                    process.join()
                    if page[_DONE]:
                        pool[me] = None
                        continue
                    self._collect()
                    self._note(me, f"the process crashed: exit code {process.exitcode}")
                    pool[me] = self._start(me)
            if time.monotonic() - reported > 10.0:
                reported = time.monotonic()
                done = sum(int(self._counts(me)[:, :2].sum()) for me in range(self.processes))
                note(f"{done} inputs, {done / (reported - begun):.0f} a second, {len(self.findings)} findings")
            if len(self.findings) >= MOST_FINDINGS:
                for process in pool:
                    if process is not None:
                        process.kill()
                break
        self._collect()
        return not self.findings

    def _hangs(self, page: np.ndarray, pid: int) -> bool:
        """Too long by the clock, and by its own work: on a busy machine everything takes long."""
        since = int(page[_SINCE])
        waited = (time.monotonic_ns() - since) * 1e-9
        if not since or waited < self.hang_s:
            return False
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        worked = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") - page[_CPU] * 1e-9
        return bool(worked > 0.5 * self.hang_s or waited > 3 * self.hang_s)

    def _counts(self, me: int) -> np.ndarray:
        """A row a target: accepted, refused, microseconds."""
        return self.pages[me][_COUNTS:].reshape(-1, 3)

    def _note(self, me: int, what: str) -> None:
        k, index = int(self.pages[me][_TARGET]), int(self.pages[me][_INDEX])
        self._found(self.targets[k].name, index, what, me)
        self.pages[me][_SINCE] = 0

    def _collect(self) -> None:
        while not self._queue.empty():
            name, index, what = self._queue.get()
            self._found(name, index, what, index % self.processes)

    def _found(self, name: str, index: int, what: str, me: int) -> None:
        k = next(k for k, target in enumerate(self.targets) if target.name == name)
        if "of memory" not in what:
            self._odd[me, k] = self._odd.get((me, k), 0) + 1
        kind = f"{name}: {what.split(': ', maxsplit=1)[0]}"
        known = self.findings.get(kind)
        if known is not None:
            known["times"] += 1
            return
        findings_folder = Path(tempfile.gettempdir()) / "tandem-fuzz-findings"
        findings_folder.mkdir(exist_ok=True)
        file = findings_folder / f"{name}-{self.seed}-{index}"
        file.write_bytes(self.targets[k].input(self.seed, index))
        repeat = f"python -m verify fuzz --target {name} --seed {self.seed} --only {index}"
        self.findings[kind] = {"what": what, "times": 1, "file": str(file), "repeat": repeat}
        note(f"FINDING {name} {index}: {what}\n        {repeat}\n        {file}")

    def rows(self) -> Iterator[Row]:
        counts = np.sum([self._counts(me) for me in range(self.processes)], axis=0)
        for target, (accepted, refused, us) in zip(self.targets, counts.tolist(), strict=True):
            cost = us / 1e3 / max(accepted + refused, 1)
            yield figure(f"{target.name}: accepted; refused; CPU ms each", f"{accepted}; {refused}; {cost:.3f}")
        for name, finding in self.findings.items():
            again = f"{finding['what']}; {finding['repeat']}; {finding['file']}"
            yield holds(f"{finding['times']} x {name.split(':')[0]}", False, again)
        yield equal(f"findings of {int(counts[:, :2].sum())} inputs, seed {self.seed}", len(self.findings), 0)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _once(name: str, data: bytes) -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp(prefix="tandem-fuzz-"))
    try:
        (target,) = make([MAKERS[name]], folder / "once")
        _limit()
        begun = time.monotonic()
        accepted = target.run(data)
        yield holds("no finding", True, f"{'accepted' if accepted else 'refused'} in {time.monotonic() - begun:.3f} s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _modules() -> tuple[list[str], list[str]]:
    """Modules of ours without kernels, and with: numba cannot compile what a coverage tool has rewritten."""
    found: tuple[list[str], list[str]] = ([], [])
    for package in ("sync", "sim_service", "daq_service", "tandem"):
        for file in (ROOT / package).rglob("*.py"):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[bool(re.search("kernel|numba|intrinsic", file.read_text()))].append(name)
    return found


def _guided(name: str, seconds: float, seed: int) -> None:
    """libFuzzer keeps inputs that reach new lines of ours, and changes those further; it ends at the first finding."""
    try:
        import atheris
    except ImportError:
        raise NotHere("atheris is not installed; docs/verification.md says how it can be had") from None
    folder = Path(tempfile.mkdtemp(prefix="tandem-fuzz-"))
    plain, compiled = _modules()
    with atheris.instrument_imports(include=plain, exclude=compiled):
        (target,) = make([MAKERS[name]], folder / "guided")
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(data)
    findings_folder = Path(tempfile.gettempdir()) / "tandem-fuzz-findings"
    findings_folder.mkdir(exist_ok=True)

    def change(data: bytes, most: int, number: int) -> bytes:
        r = Random(number)
        if r.random() < 0.2:
            return bytes(atheris.Mutate(data, most))
        try:
            return target.change(r, bytes(data), target.seeds)[:most]
        except Exception:  # what libFuzzer has grown may have lost the form that the change expects
            return target.change(r, r.choice(target.seeds), target.seeds)[:most]

    counts = [0, 0]

    def run(data: bytes) -> None:
        counts[not target.run(data)] += 1
        if sum(counts) % 1000 == 0:
            note(f"{counts[0]} accepted, {counts[1]} refused")

    options = [
        f"-max_total_time={round(seconds) or 60}",
        f"-timeout={HANG_S:.0f}",
        f"-artifact_prefix={findings_folder}/{name}-",
    ]
    options += [f"-seed={seed}", "-max_len=200000", "-rss_limit_mb=4096"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], run, custom_mutator=change)
    atheris.Fuzz()


def fuzz(
    *,
    inputs: Annotated[int, "in all"] = 100_000,
    seed: int = 1,
    target: Annotated[tuple[str, ...], "these only"] = tuple(MAKERS),
    seconds: Annotated[float, "stop then, at the latest"] = 0.0,
    processes: int = 2,
    only: Annotated[int | None, "the input of this number, alone"] = None,
    input: Annotated[Path | None, "a saved input, alone"] = None,
    atheris: Annotated[bool, "guided by coverage, until the first finding"] = False,
) -> Iterator[Row]:
    logging.disable()  # what cantools thinks of a file
    if unknown := {*target} - {*MAKERS}:
        raise NotHere(f"no target {', '.join(unknown)}; there are {', '.join(MAKERS)}")
    if only is not None or input is not None or atheris:
        if len(target) != 1:
            raise NotHere("this needs one --target")
        if atheris:
            _guided(target[0], seconds, seed)
            return
        if input is not None:
            yield from _once(target[0], input.read_bytes())
            return
        folder = Path(tempfile.mkdtemp(prefix="tandem-fuzz-"))
        (one,) = make([MAKERS[target[0]]], folder / "make")
        data = one.input(seed, only or 0)
        shutil.rmtree(folder, ignore_errors=True)
        yield from _once(target[0], data)
        return
    pool = WorkerPool([MAKERS[name] for name in target], seed, inputs, seconds, processes)
    try:
        pool.run()
        yield from pool.rows()
    finally:
        pool.close()
