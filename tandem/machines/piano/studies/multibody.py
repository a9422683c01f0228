"""The studies of the grand action with felt: results of seed 000, in the directions and sizes it states.

Every press is of the whole dip, 9.5 mm, after 0.3 s in which felt settles.
"""

import functools
import itertools

import numpy as np

from tandem.machines.piano.studies.study import H, Path, Played, Studies, Study, play, press

DIP, HALF = 9.5e-3, 4.5e-3  # m
_REST = 0.3  # s
_BUTTON = 0.0514
_RANGES = ((1.0, 4.0), (5.5, 7.0), (8.0, 9.0))  # mm


def _play(path: Path, seconds: float, **parameters: float) -> Played:
    return play("piano_multibody", path, seconds, **parameters)


@functools.lru_cache(maxsize=2)
def _slow_press(**parameters: float) -> Played:
    return _play([*press(0.01, DIP, _REST), (1.5, DIP)], 1.5, **parameters)


def _mean(run: Played, low: float, high: float) -> float:
    """Force at the tip on the way down, N."""
    port = 1e3 * run.of("port")
    down = (run.t < _REST + DIP / 0.01) & (port > low) & (port < high)
    return float(run.of("tip_force")[down].mean())


def _means(run: Played) -> str:
    return ", ".join(f"{_mean(run, *each):.2f}" for each in _RANGES) + " N"


def _slow(study: Study) -> None:
    run = _slow_press()
    down = run.t < _REST + DIP / 0.01
    force, port = run.of("tip_force")[down], run.of("port")[down]
    peak, place = force.max(), 1e3 * port[np.argmax(force)]
    study.row("force at the tip, 1 to 4, 5.5 to 7, 8 to 9 mm", _means(run))
    study.row("escapement", f"{peak:.2f} N at {place:.2f} mm", "between 8 and 9 mm", 8.0 < place < 9.0)
    bump = peak / _mean(run, 5.5, 7.0)
    study.row("it is a bump", f"{bump:.2f} times 5.5 to 7 mm", "1.5", bump > 1.5)
    phases = [int(k) for k, _ in itertools.groupby(run.of("phase")[run.t > _REST])]
    study.row("phases, from contacts alone", ", ".join(str(k) for k in phases), "0, then 1", phases[:2] == [0, 1])
    study.row("strikes", f"{len(run.strikes)}", "0: pressed slowly it sounds nothing", not run.strikes)
    curve = [run.over_travel("tip_force", "at the tip"), run.over_travel("pilot_force", "at the pilot")]
    study.pictures.append(("Force over travel, N", curve, "mm"))


def _button(study: Study) -> None:
    runs = [_slow_press(let_off_button=_BUTTON + offset) for offset in (-5e-4, 0.0, 5e-4)]
    found = [_mean(run, 8.0, 9.0) for run in runs]
    for name, force in zip(("0.5 mm lower", "normal", "0.5 mm higher"), found, strict=True):
        study.row(f"button {name}: 8 to 9 mm", f"{force:.2f} N")
    study.row("higher button, higher force; lower, lower", "", "", found[0] < found[1] < found[2])
    series = [r.over_travel("tip_force", n) for r, n in zip(runs, ("low", "normal", "high"), strict=True)]
    study.pictures.append(("Force at the tip over travel, N", series, "mm"))


def _hammer(study: Study) -> None:
    extra = (-6e-3, -3e-3, 0.0, 3e-3, 6e-3)
    runs = [_slow_press(hammer_mass_added=mass) for mass in extra]
    for mass, run in zip(extra, runs, strict=True):
        study.row(f"hammer {1e3 * mass:+.0f} g: 1 to 4, 5.5 to 7, 8 to 9 mm", _means(run))
    rises = all(_mean(a, *each) < _mean(b, *each) for a, b in itertools.pairwise(runs) for each in _RANGES)
    study.row("a heavier hammer raises the force everywhere", "", "", rises)
    series = [r.over_travel("tip_force", f"{1e3 * m:+.0f} g") for m, r in zip(extra, runs, strict=True)]
    study.pictures.append(("Force at the tip over travel, N", series, "mm"))


def _spring(study: Study) -> None:
    held = []
    for spring in (0.04, 0.056, 0.07):
        run = _play([*press(0.1, DIP, _REST), (0.8, DIP)], 0.8, repetition_spring=spring)
        held.append(run.of("pilot_force")[-1])
        study.row(f"repetition spring {spring:.3f} N m: pilot held with", f"{held[-1]:.2f} N")
    study.row("a stronger spring holds the pilot with more", "", "", held[0] < held[1] < held[2])


def _damper(study: Study) -> None:
    runs = [_slow_press(), _slow_press(damper=0.0)]
    for name, run in zip(("with", "without"), runs, strict=True):
        study.row(f"{name} damper: 1 to 4, 5.5 to 7, 8 to 9 mm", _means(run))
    less = _mean(runs[0], 5.5, 7.0) - _mean(runs[1], 5.5, 7.0)
    same = abs(_mean(runs[0], 1.0, 4.0) - _mean(runs[1], 1.0, 4.0))
    text = f"{less:.2f} N, before {same:.3f} N"
    study.row("the damper is felt in the second half alone", text, "", less > 0.2 and same < 1e-3)
    series = [r.over_travel("tip_force", n) for r, n in zip(runs, ("with", "without"), strict=True)]
    study.pictures.append(("Force at the tip over travel, N", series, "mm"))


def _double(study: Study, path: Path, held: tuple[float, float]) -> None:
    run = _play(path, path[-1][0])
    text = ", ".join(f"{t:.3f} s at {v:.2f} m/s" for t, v in run.strikes) or "none"
    study.row("strikes", text, "2", len(run.strikes) == 2)
    pilot = [run.of("pilot_force")[round(t / H)] for t in held]
    text = ", ".join(f"{each:.2f}" for each in pilot)
    study.row("pilot, held down", f"{text} N", "near 3 N", all(abs(each - 3.0) < 0.5 for each in pilot))
    study.pictures.append(("Hammer, rad", [run.curve("hammer", "hammer", 4)], "s"))
    study.pictures.append(("Force at the pilot, N", [run.curve("pilot_force", "pilot", 4)], "s"))


_TWICE = [(0.0, 0.0), (0.3, 0.0), (0.42, DIP), (0.9, DIP), (1.0, 0.0), (1.5, 0.0), (1.62, DIP), (2.1, DIP)]
_TWICE_FAST = [(0.0, 0.0), (0.3, 0.0), (0.34, DIP), (0.5, DIP), (0.56, 0.0), (0.7, 0.0), (0.74, DIP), (0.9, DIP)]


def _rebound(study: Study) -> None:
    path = [*press(0.2, DIP, _REST), (0.6, DIP), (0.7, 0.0), (1.2, 0.0)]
    run = _play(path, 1.2)
    if not run.strikes:
        study.row("strikes", "none", "1", False)
        return
    (at, speed), last = run.strikes[0], run.of("hammer_speed")
    k = round(at / H)
    back = -last[k : k + round(0.02 / H)].min()
    share = back / speed
    study.row(
        "hammer meets, leaves the string with", f"{speed:.2f}, {back:.2f} m/s", "0.6 to 0.8 of it", 0.6 < share < 0.8
    )
    study.row("notes", f"{len(run.strikes)}", "1", len(run.strikes) == 1)
    check = run.of("check_force")[k : round(0.6 / H)]
    study.row("the back-check catches it", f"{check.max():.1f} N", "more than 0", check.max() > 0.0)
    pilot = run.of("pilot_force")
    rest, peak = pilot[-1], pilot[round(0.62 / H) :].max()
    study.row("after release: most at the pilot, at rest", f"{peak:.2f}, {rest:.2f} N", "peaks", peak > 1.2 * rest)
    study.pictures.append(("Hammer, rad", [run.curve("hammer", "hammer", 4)], "s"))
    study.pictures.append(("Force at the pilot, N", [run.curve("pilot_force", "pilot", 4)], "s"))


def _repetition(study: Study) -> None:
    again = 0.65 + (DIP - HALF) / 0.2
    run = _play([*press(0.2, DIP, _REST), (0.5, DIP), (0.6, HALF), (0.65, HALF), (again, DIP), (1.0, DIP)], 1.0)
    text = ", ".join(f"{t:.3f} s at {v:.2f} m/s" for t, v in run.strikes)
    least = run.of("port")[round(0.4 / H) :].min()
    study.row("strikes", text, "2", len(run.strikes) == 2)
    study.row("the key is never above", f"{1e3 * least:.1f} mm", "half-way", least > 4e-3)
    study.pictures.append(("Hammer, rad", [run.curve("hammer", "hammer", 4)], "s"))
    study.pictures.append(("Felt at the tip, N", [run.curve("tip_force", "tip", 4)], "s"))


def _speeds(study: Study) -> None:
    found = []
    for seconds in (0.2, 0.12, 0.08, 0.05, 0.03, 0.02):
        run = _play([*press(DIP / seconds, DIP, _REST), (0.8, DIP)], 0.8)
        found.append(run.strikes[0] if run.strikes else (np.inf, 0.0))
        text = f"{1e3 * (found[-1][0] - _REST):.1f} ms, {found[-1][1]:.2f} m/s" if run.strikes else "no strike"
        name = f"dip in {1e3 * seconds:.0f} ms"
        study.row(
            f"{name}: strike after, hammer; notes", f"{text}; {len(run.strikes)}", "1 note", len(run.strikes) == 1
        )
        error, work = run.of("energy_error"), run.of("work_done").max()
        gained, lost = error.max() / work, -error.min() / work
        text = f"{100.0 * gained:.3f}; {100.0 * lost:.1f} % of the work"
        study.row("energy made; lost by the method", text, "at most 1 % made", gained < 0.01)
    earlier = all(a[0] >= b[0] for a, b in itertools.pairwise(found))
    harder = all(a[1] < b[1] for a, b in itertools.pairwise(found[2:]))
    study.row("faster is earlier, and in less than 80 ms harder", "", "", earlier and harder)


STUDIES: Studies = {
    "slow-press": ("Slow press, 10 mm/s over 9.5 mm", _slow),
    "button": ("Let-off button 0.5 mm lower and higher", _button),
    "hammer": ("Hammer 3 and 6 g lighter and heavier", _hammer),
    "spring": ("Repetition spring", _spring),
    "damper": ("With and without damper", _damper),
    "slow-double": ("Slow double blow", lambda study: _double(study, _TWICE, (0.89, 2.09))),
    "fast-double": ("Fast double blow", lambda study: _double(study, _TWICE_FAST, (0.49, 0.89))),
    "rebound": ("Stroke with rebound", _rebound),
    "repetition": ("Repetition from half-way", _repetition),
    "speeds": ("Speeds of the key, and energy", _speeds),
}
