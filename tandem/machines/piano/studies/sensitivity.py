"""How instant and speed of a strike follow the gesture: the two numbers that are all a stroke's sound hears (R. B.
Gillespie 1996, section 2). Each feature of a dip is varied alone, a little up and down; and dips of other shapes are
sought that strike as fast, for many gestures make one note.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tandem.machines.piano.studies.gestures import STROKE_SHAPES, Stroke, motion
from tandem.machines.piano.studies.study import H, Studies, Study, move

_REST, _AFTER = 0.3, 0.25  # s
_DIPS = {"piano": 0.1, "mezzo": 0.05, "forte": 0.025}  # s
_DEPTH = {"piano_multibody": 9.5e-3, "piano_phases": 6.4e-3}
_SHARE = 0.02  # by which a feature is more, and less
_FEATURES: dict[str, Callable[[Stroke, float], Stroke]] = {
    "time of the dip": lambda stroke, share: replace(stroke, down=stroke.down * (1.0 + share)),
    "depth of the dip": lambda stroke, share: replace(stroke, depth=stroke.depth * (1.0 + share)),
}
_NEAR = 5e-3  # of the speed, where two dips strike as fast


def struck(machine: str, stroke: Stroke) -> tuple[float, float]:
    """(s after the dip began, m/s) of the first strike; NaN: there is none."""
    first = Stroke(1e-3, 0.0, rest=_REST, hold=0.0, up=1e-3)
    whole = replace(stroke, hold=_AFTER, up=1e-3, to=stroke.depth)
    x, v, a = motion([first, whole], H)
    run = move(machine, x, v, None, a if machine == "piano_multibody" else None)
    if not run.strikes:
        return float("nan"), float("nan")
    return run.strikes[0][0] - _REST - 2e-3, run.strikes[0][1]


def _as_fast(machine: str, shape: str, speed: float, near: float) -> float:
    """Time of a dip of this shape that strikes as fast; NaN: none was found."""
    low, high = 0.6 * near, 1.7 * near
    for _ in range(14):
        middle = (low * high) ** 0.5
        found = struck(machine, Stroke(middle, _DEPTH[machine], shape))[1]
        if abs(found - speed) < _NEAR * speed:
            return float(middle)
        low, high = (middle, high) if found > speed else (low, middle)
    return float("nan")


def _measure(machine: str) -> Callable[[Study], None]:
    def measure(study: Study) -> None:
        for name, seconds in _DIPS.items():
            base = Stroke(seconds, _DEPTH[machine])
            at, speed = struck(machine, base)
            study.row(f"{name}, dip in {1e3 * seconds:.0f} ms: strike", f"{1e3 * at:.2f} ms, {speed:.3f} m/s", "one",
                      bool(np.isfinite(at)))  # fmt: skip
            for feature, vary in _FEATURES.items():
                less, more = (struck(machine, vary(base, share)) for share in (-_SHARE, _SHARE))
                sooner, faster = ((more[k] - less[k]) / (2.0 * _SHARE) for k in (0, 1))
                text = f"{10.0 * sooner:+.2f} ms, {1.0 * faster / speed:+.2f} %"
                slow = feature == "time of the dip"
                holds = sooner > 0.0 and faster < 0.0 if slow else None
                study.row(f"{name}: 1 % more {feature}", text, "later and softer" if slow else "", holds)
            for shape in STROKE_SHAPES:
                other = _as_fast(machine, shape, speed, seconds)
                when = struck(machine, Stroke(other, _DEPTH[machine], shape))[0] if np.isfinite(other) else float("nan")
                study.row(
                    f"{name}: as fast by {shape}", f"dip in {1e3 * other:.1f} ms, strike after {1e3 * when:.2f} ms"
                )

    return measure


STUDIES: Studies = {
    "multibody": ("Strike over gesture, bodies with felt", _measure("piano_multibody")),
    "phases": ("Strike over gesture, phase model", _measure("piano_phases")),
}
