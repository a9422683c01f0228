"""How much memory a drive takes: the sum of the proportional set sizes (PSS) of all its processes.

    python -m verify.speed.memory                          starts a drive with its page and its record, and measures it
    python -m verify.speed.memory --pid PID                a drive that is running (the pid of `tandem drive`)

Prints every process, the sum, and how many page faults the loop's thread had per second after the start. Exit code 1 if
the sum is above the limit (`--most-mb`, 600).
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from verify import ROOT

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


def measure(pid: int, seconds: float) -> float:
    there = [pid, *children(pid)]
    total = 0.0
    for process in there:
        mb = pss_mb(process)
        total += mb
        print(f"{name_of(process) if process != pid else 'supervisor':18s} {process:8d} {mb:8.1f} MB")
    print(f"{'sum of PSS':18s} {'':8s} {total:8.1f} MB")
    for process in there:
        if name_of(process) == "tandem-sim":
            before = loop_faults(process)
            time.sleep(seconds)
            minor, major = (now - then for now, then in zip(loop_faults(process), before, strict=True))
            print(f"page faults of the loop in {seconds:g} s: {minor} minor, {major} major")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pid", type=int, help="of a running `tandem drive`")
    parser.add_argument("--after-s", type=float, default=10.0, help="after the start, if it starts one")
    parser.add_argument("--seconds", type=float, default=5.0, help="in which page faults are counted")
    parser.add_argument("--most-mb", type=float, default=600.0)
    options = parser.parse_args()
    if options.pid:
        return int(measure(options.pid, options.seconds) > options.most_mb)
    with tempfile.TemporaryDirectory() as runs:
        settings = [f"name=memory_{os.getpid()}", "view.port=0"]
        words = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", "0", "--runs", runs, *words]
        drive = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not any(name_of(child) == "tandem-view" for child in children(drive.pid)):
                if drive.poll() is not None:
                    raise SystemExit(f"the drive ended with exit code {drive.returncode}")
                time.sleep(0.1)
            time.sleep(options.after_s)
            total = measure(drive.pid, options.seconds)
        finally:
            drive.send_signal(signal.SIGINT)
            drive.wait(60)
    return int(total > options.most_mb)


if __name__ == "__main__":
    sys.exit(main())
