"""Real runs of tandem, for checks: a run that hangs is ended, and a loop's misses are compared with a bare loop's.

The bare loop only sleeps (tandem/doctor/baseline.py). It runs at the same time, at the same rate, on the core and with
the priority of the simulator's loop, and catches up or gives up by the same rule. The comparison is of what both can
have: wake-ups more than a period late. The simulator's loop also misses when a step ends after the next is due; these
misses are counted separately. Whatever stops the machine delays both loops, and so does a step of ours that takes
longer than a period; any other fault of ours delays only our loop. So misses without a miss of the other loop near them
are counted, too; ours by their cause: woken late, a late block, the step.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.step_record import MISSED
from sync.config.config import load
from sync.record import open_run
from tandem.doctor.baseline import BareLoop
from verify import ROOT
from verify.measure import Row, holds, note

LIMIT_S = 900.0  # beyond the length of the run: a first run compiles


def options(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def tandem(*words: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Run tandem; returns what it printed. Its messages meanwhile, such as what it compiles, go to our standard error.

    If it hangs, it is ended with every process that it started.
    """
    note(f"tandem {' '.join(words)}")
    child = subprocess.Popen(
        [sys.executable, "-m", "tandem", *words, "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    found = reported(child, limit_s)
    return found | {"code": child.returncode}


def reported(child: "subprocess.Popen[str]", limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The figures that a run prints at its end, which must come in time."""
    command = " ".join(str(word) for word in child.args) if isinstance(child.args, list) else str(child.args)
    try:
        printed, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{command}: no end after {limit_s:g} s") from None
    finally:
        end(child)
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{command}: no figures, exit code {child.returncode}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def end(child: "subprocess.Popen[Any]") -> None:
    """End a run: by Ctrl-C, on which it ends cleanly, then by force; nothing if it has ended."""
    for order, patience_s in ((signal.SIGINT, 20.0), (signal.SIGKILL, None)):
        if child.poll() is None:
            if os.getpgid(child.pid) == child.pid:  # with all processes that it started
                os.killpg(child.pid, order)
            else:
                child.send_signal(order)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(patience_s)


def costs_us(steps: np.ndarray) -> np.ndarray:
    """From the block taken to the result."""
    return np.asarray(1e-3 * (steps["pushed_ns"] - steps["taken_ns"]))


def more_than_chance(ours: int, theirs: int) -> bool:
    """Whether a fair coin would give us so many of the misses, or more, less than once in twenty times."""
    both = ours + theirs
    return bool(20 * sum(math.comb(both, k) for k in range(ours, both + 1)) < 2**both)


def replayed(folder: str | Path) -> Row:
    """Whether a replay of a run's record is bit-identical, its efforts too."""
    again = tandem("replay", str(folder))
    efforts = again.get("efforts") or {"compared": 0, "differing": 0}
    found = f"{efforts['compared']} efforts compared, {efforts['differing']} differ"
    same = again["identical"] and not efforts["differing"] and again["code"] == 0
    return holds("the record is replayed to the bit", same, f"{'identical' if same else 'DIFFERS'}, {found}")


@dataclass(frozen=True)
class Misses:
    steps: int
    ended: int  # steps that ended after the next was due
    ours: int  # those that were woken more than a period late
    bare: int
    ours_alone: dict[str, int]  # those with no miss of the bare loop near them, by cause
    bare_alone: int

    @property
    def ours_to_answer_for(self) -> bool:
        """Whether we are woken late more often than chance explains, or more than one in a thousand of our steps
        overruns, which a bare loop has none of."""
        return more_than_chance(self.ours, self.bare) or self.ours_alone["the step"] > 1e-3 * self.steps

    @property
    def row(self) -> Row:
        return holds("late no more often than a bare loop beside it", not self.ours_to_answer_for, self.text)

    @property
    def text(self) -> str:
        causes = ", ".join(f"{count} {cause}" for cause, count in self.ours_alone.items())
        alone = sum(self.ours_alone.values())
        return (
            f"{self.ours} woken more than a period late, of a bare loop beside it {self.bare}; {self.ended} ended late,"
            f" of them {alone} alone ({causes}), of the bare loop's {self.bare_alone}"
        )


def compare(steps: np.ndarray, bare: np.ndarray, period_ns: int) -> Misses:
    """Misses of a run's steps, and of the bare loop while the run lasted, from when each step was due and done."""
    times = np.column_stack([steps[name] for name in ("t_ns", "started_ns", "taken_ns", "pushed_ns")])
    # the flag refers to the step before
    ours = times[:-1][steps["status"][1:] & MISSED != 0]
    bare = bare[(bare[:, 1] >= times[0, 0]) & (bare[:, 0] <= times[-1, -1])]
    near = (bare[:, 0] <= ours[:, -1:] + period_ns) & (bare[:, 1] >= ours[:, :1] - period_ns)
    causes = dict.fromkeys(("woken late", "a late block", "the step"), 0)
    for worst in np.argmax(np.diff(ours[~near.any(axis=1)], axis=1), axis=1):
        causes[list(causes)[worst]] += 1
    woken = int((times[:, 1] - times[:, 0] > period_ns).sum())
    return Misses(len(times), len(ours), woken, len(bare), causes, int((~near.any(axis=0)).sum()))


def run_beside_bare(
    file: Path, settings: list[str], seconds: float, folder: str
) -> tuple[dict[str, Any], Misses, np.ndarray]:
    """(the figures of a run, the misses of it and of a bare loop beside it, its steps)."""
    config = load(file, settings)
    limit_s = seconds + LIMIT_S
    with BareLoop(config, limit_s) as bare:
        result = tandem("run", str(file), *options(settings), "--seconds", str(seconds), "--runs", folder,
                        limit_s=limit_s)  # fmt: skip
    if bare.missed > len(bare.misses):
        raise SystemExit(f"the bare loop missed {bare.missed} times, more than are listed: nothing can be compared")
    steps = open_run(Path(folder)).topics["/step"].blocks
    return result, compare(steps, bare.misses, config.step_ns), steps
