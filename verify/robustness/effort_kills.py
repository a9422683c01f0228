"""The simulator is killed again and again (kill -9) while the effort is at its limit.

One drive, whose effort is the simulated time, and in which every killed simulator is replaced. From the record alone:
after the last step of each, the effort must have been handed over as zero within `zero_within_ms`, by the instant at
which the device had it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from daq_service.effort_record import WATCHDOG
from sync.config.config import load
from sync.errors import RingError
from sync.record import open_run
from sync.ring.ring import RingReader
from verify import ROOT
from verify.measure import Row, at_least, at_most, figure

DRIVE = ROOT / "configs" / "drive.toml"
LIMIT, ZERO_MS = 0.05, 80.0
_PATIENCE_S = 60.0


def effort_kills(*, kills: int = 20, transport: Literal["shm", "ipc"] = "shm") -> Iterator[Row]:
    name = f"effort_kills_{os.getpid()}"
    effort = f"channel='time', gain=1.0, limit={LIMIT}, slew=1.0, stale_after_ms=20.0, zero_within_ms={ZERO_MS}"
    settings = [
        f"name={name}", f'transport.kind="{transport}"', f"source.effort={{{effort}}}", "view.enabled=false",
        f"supervision.restarts={kills + 1}",
    ]  # fmt: skip
    config = load(DRIVE, settings)
    with tempfile.TemporaryDirectory() as folder:
        options = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "tandem", "drive", str(DRIVE), *options, "--seconds", "0", "--runs", folder]
        drive = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(kills):
                os.kill(_simulator_at_the_limit(config.ring("effort"), config.ring("sim")), signal.SIGKILL)
                time.sleep(2.0 * ZERO_MS * 1e-3)
            _simulator_at_the_limit(config.ring("effort"), config.ring("sim"))
        finally:
            drive.send_signal(signal.SIGINT)
            drive.wait(_PATIENCE_S)
        found = silences(Path(folder))
    yield figure("zero after, each", ", ".join(f"{ms:.1f}" for ms in found), "ms")
    yield at_most("zero after, at most", max(found, default=float("inf")), ZERO_MS, "ms")
    yield at_least("silences seen", len(found), kills)


def _simulator_at_the_limit(efforts: str, steps: str) -> int:
    """The process of a simulator whose steps have brought the effort to its limit."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        time.sleep(0.05)
        with contextlib.suppress(RingError), contextlib.ExitStack() as stack:
            effort, step = RingReader(efforts), RingReader(steps)
            stack.callback(effort.close)
            stack.callback(step.close)
            newest = effort.newest()
            if newest is not None and newest["given"] == LIMIT and step.writer_alive:
                return step.writer_pid
    raise TimeoutError(f"no simulator brought the effort to its limit within {_PATIENCE_S:g} s")


def silences(folder: Path) -> list[float]:
    """After each silence of the simulator that the watchdog had to act in: ms from the last step to zero."""
    found = open_run(next(folder.iterdir())).topics["/effort"].blocks
    came = np.where(found["step_received_ns"] > 0, found["step_received_ns"], found["step_pushed_ns"])
    begins = np.flatnonzero(np.diff(found["step_seq"], prepend=-1))  # effort of each step
    times = []
    for begin, end in zip(begins, np.append(begins[1:], len(found)), strict=True):
        silent = found[begin:end]
        if not (silent["status"] & WATCHDOG).any() or not (silent["given"] == LIMIT).any():
            continue
        zero = silent["pushed_ns"][silent["given"] == 0.0]
        times.append((zero[0] - came[begin]) * 1e-6 if len(zero) else np.inf)
    return times
