"""The studies of the phase model.

Presses are of the model's own travel, 8 mm: its let-off begins 3.3 mm and ends 5.9 mm below rest.
"""

import itertools

import numpy as np

from tandem.machines.piano.studies.study import H, Path, Played, Studies, Study, play, press

FULL, HALF = 8e-3, 2.4e-3  # m


def _play(path: Path, seconds: float, **parameters: float) -> Played:
    return play("piano_phases", path, seconds, **parameters)


def _press(speed: float, depth: float = FULL) -> Path:
    return press(speed, depth, 0.2)


def _deep(study: Study) -> None:
    """Dips beyond the model's own travel, as a measured key has them."""
    for depth in (6.4e-3, 8e-3, 9.5e-3, 11e-3):
        for seconds in (0.02, 0.05, 0.95):
            path = [*press(depth / seconds, depth, 0.2), (0.6 + seconds, depth), (0.7 + seconds, 0.0)]
            run = _play([*path, (1.0 + seconds, 0.0)], 1.0 + seconds)
            most = "1" if seconds < 0.1 else "1 at most"
            held = len(run.strikes) == 1 if seconds < 0.1 else len(run.strikes) <= 1
            name = f"{1e3 * depth:.1f} mm in {1e3 * seconds:.0f} ms: strikes"
            study.row(name, f"{len(run.strikes)}", most, held)


def _slow(study: Study) -> None:
    run = _play(_press(0.01), 1.4)
    a, b = run.first(1), run.first(2)
    port, force = run.of("port"), run.of("tip_force")
    rest, bump = force[round(0.19 / H)], force[a:b].max(initial=0.0)
    study.row("let-off begins, ends", f"{1e3 * port[a]:.2f}, {1e3 * port[b]:.2f} mm")
    study.row("phases in their order", "acceleration, let-off, catch", "", 0 < a < b < len(run.t) - 1)
    study.row("felt at rest, most in acceleration", f"{rest:.2f}, {force[round(0.1 / H) : a].max():.2f} N")
    study.row(
        "most at let-off", f"{bump:.2f} N", "a bump: 1.3 times as much", bump > 1.3 * force[round(0.1 / H) : a].max()
    )
    study.row("strikes", f"{len(run.strikes)}", "0: pressed slowly it sounds nothing", not run.strikes)
    curve = [run.over_travel("tip_force", "at the tip"), run.over_travel("pilot_force", "at the capstan")]
    study.pictures.append(("Force over travel, N", curve, "mm"))


def _button(study: Study) -> None:
    begin, most, series = [], [], []
    for offset in (-5e-4, 0.0, 5e-4):
        run = _play(_press(0.01), 1.2, let_off=offset)
        a, b = run.first(1), run.first(2)
        begin.append(1e3 * run.of("port")[a])
        most.append(run.of("tip_force")[a:b].max(initial=0.0))
        series.append(run.over_travel("tip_force", f"button {1e3 * offset:+.1f} mm"))
        study.row(f"button {1e3 * offset:+.1f} mm: let-off begins, most felt", f"{begin[-1]:.2f} mm, {most[-1]:.2f} N")
    study.row("a higher button lets off later", "", "", begin[0] < begin[1] < begin[2])
    study.pictures.append(("Force at the tip over travel, N", series, "mm"))


def _hammer(study: Study) -> None:
    forces, series = [], []
    for extra in (-6e-3, -3e-3, 0.0, 3e-3, 6e-3):
        run = _play(_press(0.01), 1.2, hammer_mass=0.014 + extra)
        forces.append(run.of("tip_force")[round(0.35 / H)])
        series.append(run.over_travel("tip_force", f"hammer {1e3 * extra:+.0f} g"))
        study.row(f"hammer {1e3 * extra:+.0f} g: felt 1.5 mm down", f"{forces[-1]:.2f} N")
    study.row("a heavier hammer is felt", "", "", all(a < b for a, b in itertools.pairwise(forces)))
    study.pictures.append(("Force at the tip over travel, N", series, "mm"))


def _spring(study: Study) -> None:
    for preload in (0.02, 0.03, 0.04):
        run = _play([*_press(0.08), (0.6, FULL), (0.7, HALF), (1.2, HALF)], 1.2, spring_preload=preload)
        study.row(
            f"repetition spring {preload:.2f} N m: hammer caught at, phase after half a return",
            f"{run.of('hammer')[round(0.58 / H)]:.3f} rad, {run.of('phase')[-1]:.0f}",
        )


def _double(study: Study, speed: float) -> None:
    back = FULL / speed
    path = [*_press(speed), (0.4 + back, FULL), (0.4 + 2 * back, 0.0), (0.6 + 2 * back, 0.0), (0.6 + 3 * back, FULL)]
    run = _play([*path, (1.4 + 3 * back, FULL)], 1.4 + 3 * back)
    settled = run.of("pilot_force")[-round(0.1 / H) :].mean()
    text = ", ".join(f"{t:.3f} s at {v:.2f} m/s" for t, v in run.strikes) or "none"
    if speed > 0.05:
        study.row("strikes", text, "2", len(run.strikes) == 2)
    else:
        study.row("strikes", text)
    study.row("force at the capstan, held down", f"{settled:.2f} N")
    study.pictures.append(("Hammer, rad", [run.curve("hammer", "hammer")], "s"))
    study.pictures.append(("Force at the capstan, N", [run.curve("pilot_force", "capstan")], "s"))


def _rebound(study: Study) -> None:
    lowest = []
    for restitution in (0.0, 0.5, 1.0):
        run = _play([*_press(0.2), (1.0, FULL)], 1.0, restitution=restitution)
        at = round(run.strikes[0][0] / H) if run.strikes else 0
        lowest.append(run.of("hammer")[at : at + 400].min())
        study.row(f"string returns {restitution:.1f} of the speed: lowest hammer in 0.1 s", f"{lowest[-1]:.3f} rad")
    study.row("a livelier string throws it lower", "", "", lowest[2] < lowest[1] < lowest[0])


def _repetition(study: Study) -> None:
    path = [*_press(0.2), (0.5, FULL), (0.6, HALF), (0.65, HALF), (0.65 + (FULL - HALF) / 0.2, FULL), (1.2, FULL)]
    run = _play(path, 1.2)
    text = ", ".join(f"{t:.3f} s at {v:.2f} m/s" for t, v in run.strikes)
    study.row("strikes", text, "2", len(run.strikes) == 2)
    least = run.of("port")[round(0.45 / H) :].min()
    study.row("the key is never above", f"{1e3 * least:.1f} mm", "above rest", least > 1e-3)
    study.pictures.append(("Hammer, rad", [run.curve("hammer", "hammer")], "s"))
    study.pictures.append(("Felt at the tip, N", [run.curve("tip_force", "tip")], "s"))


def _speeds(study: Study) -> None:
    found = []
    for speed in (0.06, 0.08, 0.12, 0.2, 0.3, 0.4):
        run = _play(_press(speed, 6.4e-3), 0.6)
        found.append(run.strikes[0] if run.strikes else (np.inf, 0.0))
        text = f"{1e3 * (found[-1][0] - 0.2):.1f} ms, {found[-1][1]:.2f} m/s" if run.strikes else "no strike"
        study.row(f"key at {speed:.2f} m/s: strike after, hammer", text)
        put_in = run.of("work_done").max()
        gained = run.of("energy_error").max()
        study.row("energy made", f"{100.0 * gained / put_in:.4f} % of the work", "1 %", gained < 0.01 * put_in)
    earlier = all(a >= b for (a, _), (b, _) in itertools.pairwise(found))
    harder = all(a <= b for (_, a), (_, b) in itertools.pairwise(found))
    study.row("faster is earlier and harder", "", "", earlier and harder)


STUDIES: Studies = {
    "slow-press": ("Slow press, 10 mm/s", _slow),
    "deep": ("One strike a stroke at any dip", _deep),
    "button": ("Let-off button 0.5 mm lower and higher", _button),
    "hammer": ("Hammer 3 and 6 g lighter and heavier", _hammer),
    "spring": ("Repetition spring", _spring),
    "slow-double": ("Slow double blow, 20 mm/s", lambda study: _double(study, 0.02)),
    "fast-double": ("Fast double blow, 200 mm/s", lambda study: _double(study, 0.2)),
    "rebound": ("Rebound from the string", _rebound),
    "repetition": ("Repetition from half-way", _repetition),
    "speeds": ("Speeds of the key, and energy", _speeds),
}
