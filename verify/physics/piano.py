"""A piano key through the real path: python -m verify.physics.piano loop | multibody | octave

    loop        60 s at 4 kHz with the virtual device and finger: lost, misses beside a bare loop's, what a step costs,
                energy beside the work done; the record replayed to the bit and exported as notes
    multibody   the same with the grand action of six bodies
    octave      thirteen keys at 1 kHz in one process: lost, misses, what a step costs

Runs of configs/piano.toml, piano_multibody.toml and piano_octave.toml through shared memory; figures come from their
records. What it is at goes to standard error: a first run compiles, for minutes where it shares its cores.
Misses are held against a bare loop's beside it: verify/real_runs.py.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from verify.real_runs import ROOT, Misses, run_beside_bare, tandem

CONFIGS = ROOT / "configs"
# p99.9 of what a step of one key may take
_STEP_US = {"piano.toml": 60.0, "piano_multibody.toml": 150.0}


def show(line: str) -> None:
    """At once: what follows may take its time."""
    print(line, flush=True)


def costs_us(steps: np.ndarray) -> np.ndarray:
    """From the block taken to the result."""
    return np.asarray(1e-3 * (steps["pushed_ns"] - steps["taken_ns"]))


def run_it(file: str, seconds: float, folder: str) -> tuple[dict[str, Any], Misses, np.ndarray]:
    return run_beside_bare(CONFIGS / file, [f"name=piano_{os.getpid()}", "view.enabled=false"], seconds, folder)


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
    cheap, whole = p999 <= _STEP_US[file] and made < 0.01 * put_in, lost == 0 and same and notes
    return bool(whole and cheap and not misses.ours_to_answer_for)


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
    return bool(lost == 0 and not misses.ours_to_answer_for and again["identical"])


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
