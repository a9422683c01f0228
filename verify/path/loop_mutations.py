"""Whether the check of schedules can fail.

One fault at a time is put into a copy of the loop (sim_service/loop.py), as a slip of the hand would: a sign, a bound,
a line left out. The check (schedules.py) then runs on that copy, and has to find a broken promise. Every fault compiles
a loop, so this takes some minutes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from verify import ROOT
from verify.measure import Row, holds

_COPIED = ("sync", "daq_service", "sim_service", "tandem", "verify", "configs", "tests")


class Fault(NamedTuple):
    name: str
    written: str  # stands in the file exactly once
    instead: str
    file: str = "sim_service/loop.py"


FAULTS = (
    Fault("a superseded block too many", "at.position - at.used - 1\n", "at.position - at.used\n"),
    Fault("reused blocks count as used", "        counters[rec.REUSED] += 1\n", "        counters[rec.USED] += 1\n"),
    Fault(
        "the age from the push, not the sampling",
        "    at.age = at.taken - block[T]\n",
        "    at.age = at.taken - block[PUSHED]\n",
    ),
    Fault("a gap is no new epoch", "        at.status |= rec.NEW_EPOCH\n", "        pass\n"),
    Fault("a pause does not restart", "    at.status |= rec.RESTARTED\n    beat_at", "    beat_at"),
    Fault("catching up without end", "> settings.catch_up:", "> settings.catch_up + 1000:"),
    Fault(
        "a step too many after being asked to end",
        "if at.stop == rec.DRAIN and at.position == at.used:",
        "if at.stop == rec.DRAIN + 7:",
    ),
    Fault(
        "ended without waiting for the last blocks",
        "return age > settings.drain_ns and not more",
        "return True",
    ),
    Fault(
        "commands obeyed a step later",
        "    at.obeyed = obey_all(\n",
        "    at.obeyed = at.obeyed if at.late else obey_all(\n",
    ),
    Fault(
        "the phase lock corrects the wrong way",
        "correction = min(max(KP",
        "correction = -min(max(KP",
        "sim_service/phase.py",
    ),
    Fault(
        "the wire's hop is not in the ledger", "        record(ledger[rec.WIRE], block[RECEIVED] - block[SENT])\n", ""
    ),
    Fault(
        "adopted blocks are shown to the estimator",
        "adopted = at.shown < control[rec.BEGIN] and",
        "adopted = at.shown > control[rec.BEGIN] + 10**9 and",
    ),
    Fault(
        "a rehearsal steps the machine itself",
        "step_machine, twin.machine, twin.divergence,",
        "step_machine, machine, twin.divergence,",
        "sim_service/rehearsal.py",
    ),
    Fault(
        "a rehearsal shows its blocks to the real estimators",
        "twin.buffers, settings, twin.rows,",
        "twin.buffers, settings, rows,",
        "sim_service/rehearsal.py",
    ),
    Fault(
        "a rehearsal counts as the guard's good step",
        "step_machine, twin.machine, twin.divergence,",
        "step_machine, twin.machine, divergence,",
        "sim_service/rehearsal.py",
    ),
    Fault(
        "a rehearsal begins when it is almost too late",
        "latest = at.planned - (at.longest + at.longest // 2 + _SPARE_NS)",
        "latest = at.planned - 1_000",
        "sim_service/rehearsal.py",
    ),
    Fault("stale input goes unsaid", "        at.status |= rec.STALE\n", "        pass\n"),
)


def notices(fault: Fault, schedules: int) -> tuple[bool, str]:
    """Whether the check finds it; and the last thing it printed."""
    with tempfile.TemporaryDirectory(prefix="tandem-mutation-") as folder:
        copy = Path(folder)
        for name in _COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / fault.file
        text = file.read_text()
        if text.count(fault.written) != 1:
            raise SystemExit(
                f"{fault.file}: {fault.written!r} stands there {text.count(fault.written)} times, not once"
            )
        file.write_text(text.replace(fault.written, fault.instead))
        words = [sys.executable, "-m", "verify", "schedules", "--schedules", str(schedules), "--seed", "1"]
        run = subprocess.run(
            words, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True, check=False
        )
        if run.returncode not in (0, 1):
            raise SystemExit(f"{fault.name}: {run.stdout[-2000:]}{run.stderr[-2000:]}")
        lines = [line for line in run.stderr.splitlines() if line.startswith("verify: schedules: ")]
        return run.returncode == 1, next((line for line in lines if "MISSED" in line), lines[-1])


def loop_mutations(
    *, schedules: Annotated[int, "tried on each"] = 400, only: Annotated[str, "faults whose name contains this"] = ""
) -> Iterator[Row]:
    for fault in FAULTS:
        if only in fault.name:
            found, line = notices(fault, schedules)
            yield holds(f"{fault.name}: found", found, line.removeprefix("verify: schedules: "))
