"""A piano key, or thirteen, through the real path, with the virtual device and finger.

Counted are what was lost, misses beside a bare loop's, what a step costs, the energy that the action makes, and the
notes; the record is replayed to the bit.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tandem.machines.piano.studies.gestures import Stroke, drawn, motion, returned
from tandem.machines.piano.studies.study import H, Played, move
from verify import CONFIGS
from verify.measure import Row, at_most, equal, figure, holds, note
from verify.real_runs import Misses, costs_us, replayed, run_beside_bare, tandem

# p99.9 of what a step of one key may take
_STEP_US = {"piano": 60.0, "piano_multibody": 150.0}
_OCTAVE = {"piano": "piano_octave.toml", "piano_multibody": "piano_octave_multibody.toml"}


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


def octave(*, seconds: float = 60.0, action: Literal["piano", "piano_multibody"] = "piano") -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        result, misses, steps = run_it(_OCTAVE[action], seconds, folder)
        yield equal(f"blocks lost, of {result['steps']} steps of 13 keys", result["balance"]["lost"], 0)
        yield misses.row
        p50, p999 = np.percentile(costs_us(steps), [50.0, 99.9])
        yield figure("a step, p50", p50, "us")
        yield at_most("a step, p99.9", p999, 1000.0, "us")
        notes = tandem("notes", folder, "--out", f"{folder}/notes")["notes"]
        yield figure("notes", len(notes))
        yield equal("keys that sounded", len({n["pitch"] for n in notes}), 13)
        yield replayed(folder)


DIP = 9.5e-3  # m
FASTEST, SLOWEST = 8e-3, 0.3  # s, of a dip
_REST = 0.3  # s


def strokes(*, count: int = 1000, seed: int = 1, together: int = 50) -> Iterator[Row]:
    """Strokes at random, imposed on the grand action one after the other, so many of them in one go: how fast, how
    deep, in which way, how long held, from which height again. Promised is one note of each that begins with the hammer
    back, by the time in which it falls freely and hops; of the others it is counted."""
    wanted = drawn(count, seed, FASTEST, SLOWEST, DIP)
    made, most, work, slowest, fastest = 0.0, 0.0, 0.0, np.inf, 0.0
    notes: list[int] = []
    for first in range(0, count, together):
        note(f"stroke {first} of {count}")
        some = wanted[first : first + together]
        if first:  # it begins at rest here, at its own speed
            up = some[0].depth / (some[0].depth - wanted[first - 1].to)
            some = [replace(some[0], down=some[0].down * up), *some[1:]]
        run, begins = _played(some)
        struck = np.array([t for t, _ in run.strikes])
        speeds = [v for _, v in run.strikes]
        notes += np.histogram(struck, bins=[*begins, np.inf])[0].tolist()
        error, put_in = run.of("energy_error"), np.abs(np.diff(run.of("work_done"))).sum() / 2.0
        made = max(made, float((error - np.minimum.accumulate(error)).max()) / put_in)
        work += put_in
        most = max(most, float(np.abs(run.of("tip_force")).max()))
        fastest, slowest = max([fastest, *speeds]), min([slowest, *speeds])
    found = np.array(notes)
    back = np.array([returned(None if k % together == 0 else wanted[k - 1], wanted[k]) for k in range(count)])
    dips = f"of {1e3 * FASTEST:g} to {1e3 * SLOWEST:g} ms"
    yield equal(
        f"strokes without a note, of {back.sum()} {dips} with the hammer back", int((found[back] == 0).sum()), 0
    )
    yield equal("strokes with more than one", int((found[back] > 1).sum()), 0)
    others = f"{(found[~back] == 0).sum()} without a note, {(found[~back] > 1).sum()} with more than one"
    yield figure(f"{(~back).sum()} before it is back", others)
    yield figure("hammer, slowest and fastest", f"{slowest:.2f}, {fastest:.2f}", "m/s")
    yield figure("most at the tip", most, "N")
    yield at_most(f"energy made, of {work:.1f} J done on the key", 100.0 * made, 0.02, "%")
    once, again = (_played(wanted[:together])[0] for _ in range(2))
    same = once.out.tobytes() == again.out.tobytes() and once.states.tobytes() == again.states.tobytes()
    yield holds("the same strokes twice are the same bits", same)


def _played(some: list[Stroke]) -> tuple[Played, np.ndarray]:
    """And when each stroke begins."""
    rest = Stroke(1e-3, 0.0, rest=_REST, hold=0.0, up=1e-3)
    x, v, a = motion([rest, *some], H, 0.2)
    begins = np.cumsum([rest.seconds, *(each.seconds for each in some)])[:-1]
    return move("piano_multibody", x, v, None, a), begins
