"""Strokes of the grand action from the softest to fortissimo, and as fast one after the other as it repeats.

Each dip is imposed in so many ways (gestures.py), and done by the virtual finger. A stroke has one note, a faster key a
faster hammer, and behind a blow the hammer is in check. Literature: hammers reach 5 to 7 m/s in fortissimo, a key goes
down in 160 ms (piano) to 25 ms (forte) and 20 ms at the least (A. Askenfelt and E. Jansson 1990; W. Goebl, R. Bresin,
A. Galembo 2005); a grand's action repeats up to some 14 times a second.
"""

import itertools
from functools import partial

import numpy as np

from tandem.machines.piano.studies.gestures import STROKE_SHAPES, Stroke, motion, pressed
from tandem.machines.piano.studies.study import H, Played, Studies, Study, move

DIP = 9.5e-3  # m
MS = (8, 10, 12, 16, 20, 30, 50, 80, 120, 200, 300, 400)
FINGER = (8, 12, 16, 20, 30, 50, 80, 120, 200)
FASTEST = (5.0, 12.0)  # m/s: where the hammer's speed at the quickest of the dips has to be
_HOPS = 80  # ms, of a ramp: from here on its hammer hops
HZ = (2.0, 3.0, 4.0, 5.0, 5.5, 6.0, 8.0, 10.0, 12.0, 13.0, 14.0)
BLOWS = 8
# not promised: how high the key comes, and how often a second
_APART = {
    (0.35 * DIP, 2.0): "6.2 mm in 250 ms: softer than what sounds",
    (0.35 * DIP, 14.0): "in check for longer than the key is up",
}
_REST, _HOLD = 0.3, 0.3  # s


def imposed(strokes: list[Stroke], after: float = 0.0, **parameters: float) -> Played:
    """By a motion that nothing stops, from a rest in which felt settles."""
    first = Stroke(1e-3, 0.0, rest=_REST, hold=0.0, up=1e-3)
    x, v, a = motion([first, *strokes], H, after)
    return move("piano_multibody", x, v, None, a, **parameters)


def _ways(study: Study, shape: str) -> None:
    speeds, forces = [], []
    for ms in MS:
        run = imposed([Stroke(1e-3 * ms, DIP, shape, hold=_HOLD + 0.2, up=1e-3, to=DIP)])
        notes = run.strikes
        speeds.append(notes[0][1] if notes else 0.0)
        forces.append(float(np.abs(run.of("tip_force")).max()))
        late = run.of("hammer")[-200:]
        caught = run.of("check_force")[-200:].min() > 0.0
        text = "; ".join(f"{1e3 * (t - _REST):.1f} ms, {v:.2f} m/s" for t, v in notes) or "none"
        study.row(f"dip in {ms} ms: notes", f"{len(notes)}: {text}", "1", len(notes) == 1)
        where = f"{'in check' if caught else 'on the lever'} at {late.mean():.3f} rad, still within {np.ptp(late):.4f}"
        study.row(f"dip in {ms} ms: hammer then", where, "in check" if ms <= 50 else "", caught if ms <= 50 else None)
        gained, work = run.of("energy_error"), max(float(run.of("work_done").max()), 1e-12)
        share = f"{forces[-1]:.0f} N; {100 * gained.max() / work:.3f} %"
        study.row(f"dip in {ms} ms: most at the tip; energy made", share,
                  "at most 0.1 % made", gained.max() <= 1e-3 * work)  # fmt: skip
    # a ramp is at its speed at once, which throws a slow hammer off the leather: what it lands with is the hop's
    last = MS.index(_HOPS) if shape == "ramp" else len(MS)
    rises = all(a > b for a, b in itertools.pairwise(speeds[:last]))
    study.row(f"a faster key, a faster hammer, in up to {MS[last - 1]} ms", "", "", rises)
    study.row("the fastest hammer", f"{speeds[0]:.2f} m/s", f"{FASTEST[0]:g} to {FASTEST[1]:g} m/s",
              FASTEST[0] <= speeds[0] <= FASTEST[1])  # fmt: skip


def _finger(study: Study) -> None:
    speeds = []
    for ms in FINGER:
        run = pressed([(0.0, 0.0), (_REST, 0.0), (_REST + 1e-3 * ms, 0.012)], _REST + 1e-3 * ms + _HOLD)
        speeds.append(run.strikes[0][1] if run.strikes else 0.0)
        text = "; ".join(f"{1e3 * (t - _REST):.1f} ms, {v:.2f} m/s" for t, v in run.strikes) or "none"
        study.row(f"a finger that wants down in {ms} ms: notes; most at the tip",
                  f"{run.count}: {text}; {np.abs(run.force).max():.0f} N", "1 note", run.count == 1)  # fmt: skip
    study.row("a faster finger, a faster hammer", "", "", all(a >= b for a, b in itertools.pairwise(speeds)))


def trill(hz: float, count: int, top: float) -> list[Stroke]:
    """Strokes of a cosine, half of the time down and half up, up to `top`."""
    half = 0.5 / hz
    return [Stroke(half, DIP, "cosine", hold=0.0, up=half, to=top) for _ in range(count)]


def _repeats(study: Study) -> None:
    for top, name in ((0.0, "from rest"), (0.35 * DIP, "from a third of the dip")):
        for hz in HZ:
            run = imposed(trill(hz, BLOWS, top), 0.2)
            speeds = [v for _, v in run.strikes]
            text = f"{len(speeds)} of {BLOWS}" + (f", {min(speeds):.2f} to {max(speeds):.2f} m/s" if speeds else "")
            apart = (top, hz) in _APART
            held = None if apart else len(speeds) == BLOWS
            study.row(f"{name}, {hz:g} Hz: notes", text, _APART[top, hz] if apart else f"{BLOWS}", held)
            if hz in (HZ[2], HZ[-1]):
                study.pictures.append((f"Hammer, rad, {name}, {hz:g} Hz", [run.curve("hammer", "hammer", 4)], "s"))


STUDIES: Studies = {
    **{
        f"dips-{shape.replace(' ', '-')}": (f"Dips of 8 to 400 ms, {shape}", partial(_ways, shape=shape))
        for shape in STROKE_SHAPES
    },
    "dips-finger": ("Dips by a finger of mass, spring and damper, on the virtual clock", _finger),
    "trills": ("Repetition, 2 to 14 Hz", _repeats),
}
