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

from tandem.machines.piano.studies.gestures import Stroke, motion, returned, sampled
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
        excess, put_in = float(steps["energy_error"].max()), float(np.abs(np.diff(steps["work_done"])).sum()) / 2.0
        yield equal(f"blocks lost, of {result['steps']} steps", result["balance"]["lost"], 0)
        yield misses.row
        yield figure("a step, p50", p50, "us")
        yield at_most("a step, p99.9", p999, _STEP_US[action], "us")
        yield at_most(f"energy made, of {1e3 * put_in:.1f} mJ done on the key", 100.0 * excess / put_in, 1.0, "%")
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
FASTEST, SLOWEST = 8e-3, 0.4  # s, of a dip
FINGER, SOFT = 20e-3, 0.16  # s: no finger is quicker (Goebl, Bresin and Galembo 2005); from here on barely a note
TRILLS = ((3.0, 0.0), (5.5, 0.0), (8.0, 0.0), (12.0, 0.0), (14.0, 0.0), (6.0, 3.3e-3), (13.0, 3.3e-3), (14.0, 3.3e-3))
_REST = 0.3  # s


def strokes(*, count: int = 1000, seed: int = 1, together: int = 50) -> Iterator[Row]:
    """Strokes at random, imposed on the grand action one after the other, so many of them in one go: how fast, how
    deep, in which way, how long held, from which height again. Those that fail are counted by what they are, and those
    that begin with the hammer back, by the time in which it falls freely and hops, apart. Trills beside them."""
    wanted = sampled(count, seed, FASTEST, SLOWEST, DIP)
    excess, most, work, slowest, fastest = 0.0, 0.0, 0.0, np.inf, 0.0
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
        excess = max(excess, float((error - np.minimum.accumulate(error)).max()) / put_in)
        work += put_in
        most = max(most, float(np.abs(run.of("tip_force")).max()))
        fastest, slowest = max([fastest, *speeds]), min([slowest, *speeds])
    yield from _counted(wanted, np.array(notes), together)
    yield figure("hammer, slowest and fastest", f"{slowest:.2f}, {fastest:.2f}", "m/s")
    yield figure("most at the tip", most, "N")
    yield at_most(f"energy made, of {work:.1f} J done on the key", 100.0 * excess, 0.02, "%")
    once, again = (_played(wanted[:together])[0] for _ in range(2))
    same = once.out.tobytes() == again.out.tobytes() and once.states.tobytes() == again.states.tobytes()
    yield holds("the same strokes twice are the same bits", same)
    for hz, top in TRILLS:
        half = 0.5 / hz
        run, _ = _played([Stroke(half, DIP, "cosine", hold=0.0, up=half, to=top) for _ in range(6)])
        yield equal(f"six strokes at {hz:g} Hz from {1e3 * top:g} mm: notes", len(run.strikes), 6)


def _counted(wanted: list[Stroke], found: np.ndarray, together: int) -> Iterator[Row]:
    """By notes found."""
    before = [None if k % together == 0 else wanted[k - 1] for k in range(len(wanted))]
    back = np.array([returned(b, then) for b, then in zip(before, wanted, strict=True)])
    heights = [0.0, *(each.to for each in wanted[:-1])]
    dips = np.array([each.down / (each.depth - at) * DIP for each, at in zip(wanted, heights, strict=True)])
    yield equal(f"strokes without a note, of {len(wanted)} of {1e3 * FASTEST:g} to {1e3 * SLOWEST:g} ms",
                int((found == 0).sum()), 0)  # fmt: skip
    yield equal("strokes with more than one", int((found > 1).sum()), 0)
    yield equal(f"without a note, of {back.sum()} with the hammer back", int((found[back] == 0).sum()), 0)
    yield equal("more than one, of these", int((found[back] > 1).sum()), 0)
    quick, slow = dips < FINGER, dips >= SOFT
    for name, of_them in (
        (f"quicker than a finger, {1e3 * FINGER:g} ms", quick),
        ("between", ~quick & ~slow),
        (f"{1e3 * SOFT:g} ms and slower", slow),
    ):
        those = of_them & ~back
        text = f"{(found[those] == 0).sum()} without a note, {(found[those] > 1).sum()} with more than one"
        yield figure(f"{those.sum()} before it is back, {name}", text)


def _played(some: list[Stroke]) -> tuple[Played, np.ndarray]:
    """And when each stroke begins."""
    rest = Stroke(1e-3, 0.0, rest=_REST, hold=0.0, up=1e-3)
    x, v, a = motion([rest, *some], H, 0.2)
    begins = np.cumsum([rest.seconds, *(each.seconds for each in some)])[:-1]
    return move("piano_multibody", x, v, None, a), begins
