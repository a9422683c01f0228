"""A piano key through the real path: python -m checks.piano loop | multibody | octave

    loop        60 s at 4 kHz with the virtual device and finger: lost, misses beside a bare loop's, what a step costs,
                energy beside the work done; the record replayed to the bit and exported as notes
    multibody   the same with the grand action of six bodies
    octave      thirteen keys at 1 kHz in one process: lost, misses, what a step costs

Runs of configs/piano.toml, piano_multibody.toml and piano_octave.toml through shared memory; figures come from their
records. What it is at goes to standard error: a first run compiles, for minutes where it shares its cores.

The bare loop only sleeps (tandem/baseline.py). It runs at the same time, at the same rate, on the core and with the
priority of the simulator's loop, and catches up or gives up by the same rule. Held against each other is what both
have: wake-ups more than a period late. A step that ends after the next is due is a miss of the loop's, too; they are
counted beside. What stops the machine stops both; what is ours stops one. So of the misses those are counted, too,
that none of the other's is near to, ours by what made them late: woken late, a late block, the step.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.step_record import MISSED
from sync.config import load
from sync.record import open_run
from tandem.baseline import BareLoop

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs"
_LIMIT_S = 900.0  # beside what a run is asked to take: a first one compiles
# p99.9 of what a step of one key may take
_STEP_US = {"piano.toml": 60.0, "piano_multibody.toml": 150.0}


def note(text: str) -> None:
    print(f"checks.piano: {text}", file=sys.stderr, flush=True)


def show(line: str) -> None:
    """At once: what follows may take its time."""
    print(line, flush=True)


def tandem(*words: str, limit_s: float = _LIMIT_S) -> dict[str, Any]:
    """What it printed. What it says meanwhile, such as what it compiles, goes to our own standard error.

    One that hangs is ended, and every process it started with it.
    """
    note(f"tandem {' '.join(words)}")
    child = subprocess.Popen(
        [sys.executable, "-m", "tandem", *words, "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        printed, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"tandem {' '.join(words)}: no end after {limit_s:g} s") from None
    finally:
        end(child)
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"tandem {' '.join(words)}: no figures, exit code {child.returncode}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found | {"code": child.returncode}


def end(child: subprocess.Popen[str]) -> None:
    """Ctrl-C, to which a run ends cleanly, then by force; nothing if it has ended."""
    for order, patience_s in ((signal.SIGINT, 20.0), (signal.SIGKILL, None)):
        if child.poll() is None:
            os.killpg(child.pid, order)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(patience_s)


def costs_us(steps: np.ndarray) -> np.ndarray:
    """From the block taken to the result."""
    return np.asarray(1e-3 * (steps["pushed_ns"] - steps["taken_ns"]))


@dataclass(frozen=True)
class Misses:
    ended: int  # steps that ended after the next was due
    ours: int  # those that were woken more than a period late
    bare: int
    ours_alone: dict[str, int]  # with none of the bare loop's near, by cause
    bare_alone: int

    @property
    def text(self) -> str:
        causes = ", ".join(f"{count} {cause}" for cause, count in self.ours_alone.items())
        alone = sum(self.ours_alone.values())
        return (
            f"{self.ours} woken more than a period late, of a bare loop beside it {self.bare}; {self.ended} ended late,"
            f" of them {alone} alone ({causes}), of the bare loop's {self.bare_alone}"
        )


def compare(steps: np.ndarray, bare: np.ndarray, period_ns: int) -> Misses:
    """Misses of a run's steps and of the bare loop while it ran: when each was due and done."""
    times = np.column_stack([steps[name] for name in ("t_ns", "started_ns", "taken_ns", "pushed_ns")])
    # the flag is that of the step before
    ours = times[:-1][steps["status"][1:] & MISSED != 0]
    bare = bare[(bare[:, 1] >= times[0, 0]) & (bare[:, 0] <= times[-1, -1])]
    near = (bare[:, 0] <= ours[:, -1:] + period_ns) & (bare[:, 1] >= ours[:, :1] - period_ns)
    causes = dict.fromkeys(("woken late", "a late block", "the step"), 0)
    for worst in np.argmax(np.diff(ours[~near.any(axis=1)], axis=1), axis=1):
        causes[list(causes)[worst]] += 1
    woken = int((times[:, 1] - times[:, 0] > period_ns).sum())
    return Misses(len(ours), woken, len(bare), causes, int((~near.any(axis=0)).sum()))


def run_it(file: str, seconds: float, folder: str) -> tuple[dict[str, Any], Misses, np.ndarray]:
    """Its figures, what it and a bare loop beside it missed, its steps."""
    settings = [f"name=piano_{os.getpid()}", "view.enabled=false"]
    config = load(CONFIGS / file, settings)
    options = [word for setting in settings for word in ("--set", setting)]
    limit_s = seconds + _LIMIT_S
    with BareLoop(config, limit_s) as bare:
        result = tandem("run", str(CONFIGS / file), *options, "--seconds", str(seconds), "--runs", folder,
                        limit_s=limit_s)  # fmt: skip
    if bare.missed > len(bare.misses):
        raise SystemExit(f"the bare loop missed {bare.missed} times, more than are listed: nothing can be compared")
    steps = open_run(Path(folder)).topics["/step"].blocks
    return result, compare(steps, bare.misses, config.step_ns), steps


def loop(seconds: float, file: str = "piano.toml") -> bool:
    with tempfile.TemporaryDirectory() as folder:
        result, misses, steps = run_it(file, seconds, folder)
        lost = result["balance"]["lost"]
        p50, p999 = np.percentile(costs_us(steps), [50.0, 99.9])
        made, put_in = float(steps["energy_error"].max()), float(np.abs(np.diff(steps["work_done"])).sum()) / 2.0
        share = 100.0 * made / put_in
        show(f"{result['steps']} steps: {lost} lost, {misses.text}")
        show(f"a step takes p50 {p50:.1f}, p99.9 {p999:.1f} us (at most {_STEP_US[file]:.0f})")
        show(f"energy made: {1e3 * made:.4f} mJ, {share:.4f} % of {1e3 * put_in:.1f} mJ done on the key")
        notes = tandem("notes", folder, "--out", f"{folder}/notes")["notes"]
        sizes = [(Path(folder) / "notes" / name).stat().st_size for name in ("notes.mid", "notes.wav")]
        velocities = sorted({n["velocity"] for n in notes})
        show(f"{len(notes)} notes, velocities {velocities}, {sizes[0]} and {sizes[1]} bytes")
        again = tandem("replay", folder)
    efforts = again["efforts"]
    show(f"replay: identical {again['identical']}, efforts {efforts['compared']}, differing {efforts['differing']}")
    same = again["identical"] and not efforts["differing"] and again["code"] == 0
    return bool(
        lost == 0 and misses.ours <= misses.bare and p999 <= _STEP_US[file] and made < 0.01 * put_in and same and notes
    )


def multibody(seconds: float) -> bool:
    return loop(seconds, "piano_multibody.toml")


def octave(seconds: float) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        result, misses, steps = run_it("piano_octave.toml", seconds, folder)
        p50, p999 = np.percentile(costs_us(steps), [50.0, 99.9])
        lost = result["balance"]["lost"]
        show(f"{result['steps']} steps of 13 keys: {lost} lost, {misses.text}")
        notes = tandem("notes", folder, "--out", f"{folder}/notes")["notes"]
        pitches = len({n["pitch"] for n in notes})
        show(f"a step takes p50 {p50:.1f}, p99.9 {p999:.1f} us; {len(notes)} notes of {pitches} pitches")
        again = tandem("replay", folder)
    show(f"replay: identical {again['identical']}")
    return bool(lost == 0 and misses.ours <= misses.bare and again["identical"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["loop", "multibody", "octave"])
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    good = {"loop": loop, "multibody": multibody, "octave": octave}[asked.what](asked.seconds)
    print("as promised" if good else "not as promised")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
