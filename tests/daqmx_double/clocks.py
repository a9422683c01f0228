"""The time that the double samples in: the machine's own, or one that a test shares with it through a file.

Shared time is the first word of the file, in nanoseconds. It passes only when somebody sleeps, here or in the test, and
only one of them is ever at work: the other waits for an answer. So nothing depends on how long anything really took.
"""

import mmap
import time
from pathlib import Path
from typing import Protocol


class Time(Protocol):
    least_ns: int  # of a sleep

    def now_ns(self) -> int: ...

    def sleep(self, duration_ns: int) -> None: ...


class RealTime:
    least_ns = 20_000

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, duration_ns: int) -> None:
        time.sleep(duration_ns * 1e-9)


class SharedTime:
    least_ns = 1

    def __init__(self, file: Path):
        with file.open("r+b") as opened:
            self._words = memoryview(mmap.mmap(opened.fileno(), 0)).cast("q")

    def now_ns(self) -> int:
        return self._words[0]

    def sleep(self, duration_ns: int) -> None:
        self._words[0] += duration_ns
