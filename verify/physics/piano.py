"""A piano key, or thirteen, through the real path, with the virtual device and finger.

Counted are what was lost, misses beside a bare loop's, what a step costs, the energy that the action makes, and the
notes; the record is replayed to the bit.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from verify import CONFIGS
from verify.measure import Row, at_most, equal, figure, holds
from verify.real_runs import Misses, costs_us, replayed, run_beside_bare, tandem

# p99.9 of what a step of one key may take
_STEP_US = {"piano": 60.0, "piano_multibody": 150.0}


def run_it(file: str, seconds: float, folder: str) -> tuple[dict[str, Any], Misses, np.ndarray]:
    return run_beside_bare(CONFIGS / file, [f"name=piano_{os.getpid()}", "view.enabled=false"], seconds, folder)


def one_key(*, seconds: float = 60.0, action: Literal["piano", "piano_multibody"] = "piano") -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        result, misses, steps = run_it(f"{action}.toml", seconds, folder)
        p50, p999 = np.percentile(costs_us(steps), [50.0, 99.9])
        made, put_in = float(steps["energy_error"].max()), float(np.abs(np.diff(steps["work_done"])).sum()) / 2.0
        yield equal(f"blocks lost, of {result['steps']} steps", result["balance"]["lost"], 0)
        yield misses.row
        yield figure("a step, p50", p50, "us")
        yield at_most("a step, p99.9", p999, _STEP_US[action], "us")
        yield at_most(f"energy made, of {1e3 * put_in:.1f} mJ done on the key", 100.0 * made / put_in, 1.0, "%")
        notes = tandem("notes", folder, "--out", f"{folder}/notes")["notes"]
        velocities = sorted({n["velocity"] for n in notes})
        yield holds("notes are found", notes, f"{len(notes)}, velocities {velocities}")
        yield replayed(folder)


def octave(*, seconds: float = 60.0) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        result, misses, steps = run_it("piano_octave.toml", seconds, folder)
        yield equal(f"blocks lost, of {result['steps']} steps of 13 keys", result["balance"]["lost"], 0)
        yield misses.row
        for name, value in zip(("p50", "p99.9"), np.percentile(costs_us(steps), [50.0, 99.9]), strict=True):
            yield figure(f"a step, {name}", value, "us")
        notes = tandem("notes", folder, "--out", f"{folder}/notes")["notes"]
        yield figure(f"notes, of {len({n['pitch'] for n in notes})} pitches", len(notes))
        yield replayed(folder)
