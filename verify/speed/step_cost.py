"""What a step of the buggy costs here and in another checkout.

`--drives 5`: so many whole drives of each as well, in turn: seconds to the first step, how late steps began, and the
memory of all processes together (PSS, the most while it drove), as medians. One drive of each before them, which
compiles, does not count. `../other` needs no environment of its own: this Python runs both.

`--road configs/roads/rough_c.toml` drives on that road in place of the flat one; `../other` may be this checkout.

Both are loaded in a process of their own and take turns, a burst of steps each, so that whatever else the computer does
meets both alike. The drive is the same: half throttle from rest, then a slalom. Printed is processor time of a step,
least and median over the bursts, and the ratio of this checkout to the other.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from verify import ROOT
from verify.measure import Row, at_most, figure
from verify.real_runs import end, options, reported
from verify.speed.memory import children, pss_mb

_PATIENCE_S = 600.0  # of a drive; the first one compiles
# figure of a drive, where it is in what the drive says, and the ratio to the other above which the exit code is 1
FIGURES = (
    ("first step, s", ("first_step_s",), 1.1),
    ("memory, MB", ("memory_mb",), 1.1),
    ("lateness p50, us", ("lateness_us", "p50"), 1.03),
    ("lateness p99, us", ("lateness_us", "p99"), None),  # of a busy machine, the machine's
)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder.resolve())}


def drive(folder: Path, seconds: float) -> dict:
    """What a drive there says of itself, with the most memory that its processes had."""
    with tempfile.TemporaryDirectory(prefix="tandem") as runs:
        words = options([f"name=compared_{os.getpid()}", "view.port=0"])
        running = subprocess.Popen(
            [sys.executable, "-m", "tandem", "drive", "--seconds", str(seconds), "--json", "--runs", runs, *words],
            cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        most, late = 0.0, time.monotonic() + _PATIENCE_S
        try:
            while running.poll() is None:
                if time.monotonic() > late:
                    raise SystemExit(f"{folder}: the drive did not end within {_PATIENCE_S:g} s")
                with contextlib.suppress(OSError, SystemExit):  # processes that end meanwhile
                    most = max(most, sum(pss_mb(pid) for pid in (running.pid, *children(running.pid))))
                time.sleep(0.25)
            return {**reported(running), "memory_mb": most}
        finally:
            end(running)


def compared_drives(other: Path, drives: int, seconds: float) -> Iterator[Row]:
    found: list[list[dict]] = [[], []]
    for turn in range(drives + 1):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            report = drive((ROOT, other)[which], seconds)
            if turn > 0:
                found[which].append(report)
    for name, where, most in FIGURES:
        here, there = (float(np.median([_at(each, where) for each in of])) for of in found)
        what = f"{name}: here {here:.2f}, other {there:.2f}, ratio"
        yield figure(what, here / there) if most is None else at_most(what, here / there, most)


def _at(figures: dict, where: tuple[str, ...]) -> float:
    found: Any = figures
    for key in where:
        found = found[key]
    return float(found)


def step_cost(
    *,
    other: Annotated[Path, "another checkout, or this one"],
    rounds: int = 30,
    most: Annotated[float, "ratio to the other"] = 1.1,
    road: Annotated[Path | None, "in place of the flat one"] = None,
    drives: Annotated[int, "of each, compared as well"] = 0,
    seconds: Annotated[float, "of a drive"] = 10.0,
) -> Iterator[Row]:
    server = str(Path(__file__).with_name("step_cost_server.py"))
    both = [
        subprocess.Popen(
            [sys.executable, "-P", server, *([str(road)] if road else [])],
            cwd=folder,
            env={**environment(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in (ROOT, other)
    ]
    costs: list[list[float]] = [[], []]
    try:
        for process in both:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for turn in range(rounds):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                process = both[which]
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write("go\n")
                process.stdin.flush()
                costs[which].append(float(process.stdout.readline()))
    finally:
        for process in both:
            process.kill()
            process.communicate()
    for name, each in zip(("here", "other"), costs, strict=True):
        yield figure(f"{name}: a step, least; median", f"{min(each):.1f}; {np.median(each):.1f}", "us")
    yield figure("ratio of the least", min(costs[0]) / min(costs[1]))
    yield at_most("ratio of the medians", float(np.median(costs[0]) / np.median(costs[1])), most)
    if drives:
        yield from compared_drives(other, drives, seconds)
