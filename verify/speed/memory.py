"""How much memory a drive takes: the sum of the proportional set sizes (PSS) of all its processes.

A drive with its page and its record is started and measured, or one that is running (`--pid`, of `tandem drive`).
Counted besides is how many page faults the loop's thread has per second after the start.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from verify import ROOT
from verify.measure import Row, at_most, figure
from verify.real_runs import end, options

CONFIG = ROOT / "configs" / "drive.toml"


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"/proc/{pid}/smaps_rollup has no Pss")


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def loop_faults(pid: int) -> tuple[int, int]:
    """(minor, major) page faults so far of the thread with the highest real-time priority: the loop."""
    tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    loop = max(tasks, key=lambda task: os.sched_getparam(task).sched_priority)
    words = Path(f"/proc/{pid}/task/{loop}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[7]), int(words[9])


def of_processes(pid: int, seconds: float, most_mb: float) -> Iterator[Row]:
    there = [pid, *children(pid)]
    sizes = {process: pss_mb(process) for process in there}
    for process, mb in sizes.items():
        yield figure(f"PSS of {name_of(process) if process != pid else 'supervisor'}", mb, "MB")
    yield at_most("sum of PSS", sum(sizes.values()), most_mb, "MB")
    for process in there:
        if name_of(process) == "tandem-sim":
            before = loop_faults(process)
            time.sleep(seconds)
            minor, major = (now - then for now, then in zip(loop_faults(process), before, strict=True))
            yield figure(f"page faults of the loop in {seconds:g} s: minor; major", f"{minor}; {major}")


def memory(
    *,
    pid: Annotated[int | None, "of a running `tandem drive`"] = None,
    after_s: Annotated[float, "after the start, if it starts one"] = 10.0,
    seconds: Annotated[float, "in which page faults are counted"] = 5.0,
    most_mb: float = 600.0,
) -> Iterator[Row]:
    if pid is not None:
        yield from of_processes(pid, seconds, most_mb)
        return
    with tempfile.TemporaryDirectory() as runs:
        words = options([f"name=memory_{os.getpid()}", "view.port=0"])
        command = [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", "0", "--runs", runs, *words]
        drive = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not any(name_of(child) == "tandem-view" for child in children(drive.pid)):
                if drive.poll() is not None:
                    raise SystemExit(f"the drive ended with exit code {drive.returncode}")
                time.sleep(0.1)
            time.sleep(after_s)
            yield from of_processes(drive.pid, seconds, most_mb)
        finally:
            end(drive)
