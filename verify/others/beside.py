"""A drive that goes on while something beside it comes and goes: its start, and what that costs the loop."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sync.clock import now_ns
from sync.config.config import load
from sync.errors import RingError
from sync.ring.ring import RingReader
from verify import ROOT
from verify.measure import Row, figure

CONFIG = ROOT / "configs" / "drive.toml"
END_S = 60.0
Span = tuple[int, int]


@contextlib.contextmanager
def driving(name: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A drive of this name, recorded below the folder; ended in the end, whatever happens."""
    words = [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", "0", "--json", "--runs", str(folder)]
    drive = subprocess.Popen([*words, *settings(name)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        _wait_for_steps(name, drive)
        yield drive
    finally:
        if drive.poll() is None:
            drive.send_signal(signal.SIGINT)
            drive.wait(END_S)


def settings(name: str) -> list[str]:
    """Of every command that has to do with the drive."""
    return ["--set", f"name={name}", "--set", "view.enabled=false"]


def ended(drive: "subprocess.Popen[str]") -> dict[str, Any]:
    """What it came to."""
    drive.send_signal(signal.SIGINT)
    result: dict[str, Any] = json.loads(drive.communicate(timeout=END_S)[0])
    return result


def slept(seconds: float) -> Span:
    begun = now_ns()
    time.sleep(seconds)
    return begun, now_ns()


def cost(steps: np.ndarray, spans: dict[str, list[Span]], what: str) -> Iterator[Row]:
    """How late steps start, and what they take, in the spans with it and in those without."""
    values = {
        "started late": (steps["started_ns"] - steps["t_ns"]) * 1e-3,
        "step": (steps["pushed_ns"] - steps["taken_ns"]) * 1e-3,
    }
    for quantity, column in values.items():
        for phase, parts in spans.items():
            inside = np.zeros(len(steps), bool)
            for begin, end in parts:
                inside |= (steps["t_ns"] >= begin) & (steps["t_ns"] < end)
            for label, q in (("p50", 50), ("p99", 99), ("p99.9", 99.9)):
                yield figure(f"{phase} {what}: {quantity}, {label}", np.percentile(column[inside], q), "us")


def _wait_for_steps(name: str, drive: "subprocess.Popen[str]") -> None:
    ring = load(CONFIG, [f"name={name}"]).ring("sim")
    while True:
        if drive.poll() is not None:
            raise SystemExit(f"the drive ended with exit code {drive.returncode}")
        with contextlib.suppress(RingError):
            reader = RingReader(ring)
            head = reader.head
            reader.close()
            if head > 0:
                return
        time.sleep(0.1)
