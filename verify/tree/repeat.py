"""Runs test files many times over, on a quiet machine or beside busy processes, and counts the failures of each test.

    python -m verify repeat --files tests/sync/ring/test_ring.py tests/tandem --times 50 --busy 4

A test that fails once in a thousand runs is broken: it depends on something it does not state, mostly on when it runs.
Every file runs in a process of its own, all its tests in order, then again; the seeds of property tests differ each
time. `--busy N` runs N processes at nice 0 beside it that do nothing but count.
`--fresh` starts a new process for every repetition, for what a process does only once (imports, compiled code, files).
`--pauses all` stops the tests and all they have started for a second or three, now and then, as a host does that has
other work; `--pauses one` stops one of these processes while the others go on.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from verify import ROOT
from verify.measure import Row, equal, figure, holds, note

_TIMES, _RESULTS = "TANDEM_REPEAT_TIMES", "TANDEM_REPEAT_RESULTS"
_NUMBER = "repetition_number"


# ---- as a plugin, inside the process that runs one file --------------------------------------------------------------


def pytest_generate_tests(metafunc: Any) -> None:
    metafunc.fixturenames.append(_NUMBER)
    metafunc.parametrize(_NUMBER, range(int(os.environ[_TIMES])))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """All tests once, then all of them again: as a file runs, many times."""
    items.sort(key=lambda item: item.callspec.params[_NUMBER])


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        name = report.nodeid.split("::", 1)[-1]
        with open(os.environ[_RESULTS], "a") as file:
            file.write(json.dumps({"test": name, "why": report.longreprtext}) + "\n")


# ---- as a command ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def counting(count: int) -> Iterator[None]:
    """So many processes that take all the processor they get."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _tree(pid: int) -> list[int]:
    """A process and all that it has started and that is still there."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                found += map(int, Path(f"/proc/{parent}/task/{thread}/children").read_text().split())
    return found


def _stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return True


def pause_now_and_then(process: "subprocess.Popen[str]", which: str) -> None:
    """Stop it, with all it has started or one of them, for a second or three, until it has ended."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(random.uniform(0.5, 4.0))
            return
        tree = [pid for pid in _tree(process.pid) if not _stopped(pid)]  # by a test: the test continues it
        stopped = tree if which == "all" else [random.choice(tree)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(random.uniform(1.0, 3.0) if number == signal.SIGSTOP else 0.0)


def repeated(file: Path, times: int, results: Path, keyword: str | None, pauses: str | None = None) -> int:
    """Run one file so many times in one process; its exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "verify.tree.repeat", str(file)]
    command += ["-k", keyword] if keyword else []
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, _TIMES: str(times), _RESULTS: str(results), "PYTHONPATH": paths}
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out, text=True)
        if pauses:
            pause_now_and_then(process, pauses)
        code = process.wait()
        if code not in (0, 1, 5):  # neither passed nor failed, nor without tests: it did not run
            out.seek(0)
            note(out.read()[-2000:])
    return code


def repeat(
    *,
    files: Annotated[tuple[Path, ...], "test files, or folders of them"],
    times: int = 50,
    busy: Annotated[int, "busy processes beside it"] = 0,
    fresh: Annotated[bool, "a new process for every repetition"] = False,
    pauses: Annotated[Literal["all", "one"] | None, "stop the tests' processes now and then"] = None,
    keyword: Annotated[str | None, "only tests whose name matches, as in pytest"] = None,
    why: Annotated[bool, "print the first traceback of each test that failed"] = False,
) -> Iterator[Row]:
    chosen = [f for path in files for f in ([path] if path.is_file() else sorted(path.rglob("test_*.py")))]
    with counting(busy), tempfile.TemporaryDirectory() as folder:
        for n, file in enumerate(chosen):
            results = Path(folder) / f"{n}.json"
            results.touch()
            rounds = [1] * times if fresh else [times]
            codes = {repeated(file, count, results, keyword, pauses) for count in rounds}
            found = [json.loads(line) for line in results.read_text().splitlines()]
            failed = Counter(one["test"].rsplit("[", 1)[0] for one in found)
            yield holds(f"{file.relative_to(ROOT)}: ran", not codes - {0, 1, 5})
            yield equal(f"{file.relative_to(ROOT)}: failures in {times} times", sum(failed.values()), 0)
            for test, count in failed.most_common():
                yield figure(f"{test}: failed", count)
                if why:
                    note(next(one["why"] for one in found if one["test"].rsplit("[", 1)[0] == test))
