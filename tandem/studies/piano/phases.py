"""The studies of the phase model: a rigid finger takes the key along a path, at 4 kHz.

Presses are of the model's own travel, 8 mm: its let-off begins 3.3 mm and ends 5.9 mm below rest.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sim_service.machines import load_machine
from sim_service.machines.contract import Machine, index
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.sections import section, table

H = 2.5e-4
FULL, HALF = 8e-3, 2.4e-3  # m
_MARKS = {True: "holds", False: "DOES NOT HOLD", None: ""}
HEADINGS = ("", "measured", "expected", "")
Path = list[tuple[float, float]]  # s, m


@dataclass
class Study:
    name: str
    title: str
    rows: list[tuple[str, str, str, bool | None]] = field(default_factory=list)
    pictures: list[tuple[str, list[Series], str]] = field(default_factory=list)

    def row(self, what: str, measured: str, expected: str = "", holds: bool | None = None) -> None:
        self.rows.append((what, measured, expected, None if holds is None else bool(holds)))

    @property
    def holds(self) -> bool:
        return all(row[3] is not False for row in self.rows)

    def figures(self) -> dict[str, Any]:
        rows = [dict(zip(("what", "measured", "expected", "holds"), row, strict=True)) for row in self.rows]
        return {"study": self.name, "rows": rows}


@dataclass
class Played:
    machine: Machine
    t: np.ndarray
    out: np.ndarray

    def of(self, name: str) -> np.ndarray:
        found: np.ndarray = self.out[:, index(self.machine.outputs, name)]
        return found

    def first(self, phase: int) -> int:
        """The first step in this phase; the last step if there is none."""
        found = np.flatnonzero(self.of("phase") == phase)
        return int(found[0]) if len(found) else len(self.t) - 1

    @property
    def strikes(self) -> list[tuple[float, float]]:
        """(s, m/s)."""
        rises = np.flatnonzero(np.diff(self.of("strike_count"), prepend=0.0) > 0.0)
        return [(float(self.t[k] - self.of("strike_age")[k]), float(self.of("strike_speed")[k])) for k in rises]

    @property
    def blows(self) -> int:
        """Strikes without those that follow within 0.2 s: a hammer that no back-check holds is thrown up again."""
        times = [t for t, _ in self.strikes]
        return sum(1 for k, t in enumerate(times) if k == 0 or t - times[k - 1] > 0.2)

    def curve(self, name: str, label: str, every: int = 8) -> Series:
        return Series(label, self.t[::every], self.of(name)[::every])

    def over_travel(self, name: str, label: str, every: int = 8) -> Series:
        down = slice(0, int(np.argmax(self.of("port"))) + 1, every)
        return Series(label, 1e3 * self.of("port")[down], self.of(name)[down])


def play(path: Path, seconds: float, **parameters: float) -> Played:
    machine, params = load_machine("piano_phases", parameters)
    state, work, inputs = np.zeros(len(machine.states)), np.zeros(machine.work_size), np.zeros(2)
    machine.initial(state, params, machine.tables, work)
    n = round(seconds / H)
    x = np.interp(np.arange(n + 1) * H, [t for t, _ in path], [place for _, place in path])
    out = np.zeros((n, len(machine.outputs)))
    for k in range(n):
        inputs[:] = x[k], (x[k + 1] - x[k]) / H
        machine.step(state, inputs, params, machine.tables, work, H)
        out[k] = work[: len(machine.outputs)]
    return Played(machine, (np.arange(n) + 1) * H, out)


def press(speed: float, depth: float = FULL, start: float = 0.2) -> Path:
    return [(0.0, 0.0), (start, 0.0), (start + depth / speed, depth)]


def _slow(study: Study) -> None:
    run = play(press(0.01), 1.4)
    a, b = run.first(1), run.first(2)
    port, felt = run.of("port"), run.of("tip_force")
    rest, bump = felt[round(0.19 / H)], felt[a:b].max(initial=0.0)
    study.row("let-off begins, ends", f"{1e3 * port[a]:.2f}, {1e3 * port[b]:.2f} mm")
    study.row("phases in their order", "acceleration, let-off, catch", "", 0 < a < b < len(run.t) - 1)
    study.row("felt at rest, most in acceleration", f"{rest:.2f}, {felt[round(0.1 / H) : a].max():.2f} N")
    study.row(
        "most at let-off", f"{bump:.2f} N", "a bump: 1.3 times as much", bump > 1.3 * felt[round(0.1 / H) : a].max()
    )
    study.row("strikes", f"{len(run.strikes)}", "0: pressed slowly it sounds nothing", not run.strikes)
    curve = [run.over_travel("tip_force", "at the tip"), run.over_travel("pilot_force", "at the capstan")]
    study.pictures.append(("Force over travel, N", curve, "mm"))


def _button(study: Study) -> None:
    begin, most, series = [], [], []
    for offset in (-5e-4, 0.0, 5e-4):
        run = play(press(0.01), 1.2, let_off=offset)
        a, b = run.first(1), run.first(2)
        begin.append(1e3 * run.of("port")[a])
        most.append(run.of("tip_force")[a:b].max(initial=0.0))
        series.append(run.over_travel("tip_force", f"button {1e3 * offset:+.1f} mm"))
        study.row(f"button {1e3 * offset:+.1f} mm: let-off begins, most felt", f"{begin[-1]:.2f} mm, {most[-1]:.2f} N")
    study.row("a higher button lets off later", "", "", begin[0] < begin[1] < begin[2])
    study.pictures.append(("Force at the tip over travel, N", series, "mm"))


def _hammer(study: Study) -> None:
    felt, series = [], []
    for extra in (-6e-3, -3e-3, 0.0, 3e-3, 6e-3):
        run = play(press(0.01), 1.2, hammer_mass=0.014 + extra)
        felt.append(run.of("tip_force")[round(0.35 / H)])
        series.append(run.over_travel("tip_force", f"hammer {1e3 * extra:+.0f} g"))
        study.row(f"hammer {1e3 * extra:+.0f} g: felt 1.5 mm down", f"{felt[-1]:.2f} N")
    study.row("a heavier hammer is felt", "", "", all(a < b for a, b in itertools.pairwise(felt)))
    study.pictures.append(("Force at the tip over travel, N", series, "mm"))


def _spring(study: Study) -> None:
    for preload in (0.02, 0.03, 0.04):
        run = play([*press(0.08), (0.6, FULL), (0.7, HALF), (1.2, HALF)], 1.2, spring_preload=preload)
        study.row(
            f"repetition spring {preload:.2f} N m: hammer caught at, phase after half a return",
            f"{run.of('hammer')[round(0.58 / H)]:.3f} rad, {run.of('phase')[-1]:.0f}",
        )


def _double(study: Study, speed: float) -> None:
    back = FULL / speed
    path = [*press(speed), (0.4 + back, FULL), (0.4 + 2 * back, 0.0), (0.6 + 2 * back, 0.0), (0.6 + 3 * back, FULL)]
    run = play([*path, (1.4 + 3 * back, FULL)], 1.4 + 3 * back)
    settled = run.of("pilot_force")[-round(0.1 / H) :].mean()
    text = ", ".join(f"{t:.3f} s at {v:.2f} m/s" for t, v in run.strikes) or "none"
    if speed > 0.05:
        study.row("strikes", text, "2 blows; no back-check holds the hammer", run.blows == 2)
    else:
        study.row("strikes", text)
    study.row("force at the capstan, held down", f"{settled:.2f} N")
    study.pictures.append(("Hammer, rad", [run.curve("hammer", "hammer")], "s"))
    study.pictures.append(("Force at the capstan, N", [run.curve("pilot_force", "capstan")], "s"))


def _rebound(study: Study) -> None:
    kept = []
    for restitution in (0.0, 0.5, 1.0):
        run = play([*press(0.2), (1.0, FULL)], 1.0, restitution=restitution)
        at = round(run.strikes[0][0] / H) if run.strikes else 0
        kept.append(run.of("hammer")[at : at + 400].min())
        study.row(f"string returns {restitution:.1f} of the speed: lowest hammer in 0.1 s", f"{kept[-1]:.3f} rad")
    study.row("a livelier string throws it lower", "", "", kept[2] < kept[1] < kept[0])


def _repetition(study: Study) -> None:
    path = [*press(0.2), (0.5, FULL), (0.6, HALF), (0.65, HALF), (0.65 + (FULL - HALF) / 0.2, FULL), (1.2, FULL)]
    run = play(path, 1.2)
    text = ", ".join(f"{t:.3f} s at {v:.2f} m/s" for t, v in run.strikes)
    study.row("strikes", text, "2 blows; no back-check holds the hammer", run.blows == 2)
    least = run.of("port")[round(0.45 / H) :].min()
    study.row("the key is never above", f"{1e3 * least:.1f} mm", "above rest", least > 1e-3)
    study.pictures.append(("Hammer, rad", [run.curve("hammer", "hammer")], "s"))
    study.pictures.append(("Felt at the tip, N", [run.curve("tip_force", "tip")], "s"))


def _speeds(study: Study) -> None:
    found = []
    for speed in (0.06, 0.08, 0.12, 0.2, 0.3, 0.4):
        run = play(press(speed, 6.4e-3), 0.6)
        found.append(run.strikes[0] if run.strikes else (np.inf, 0.0))
        text = f"{1e3 * (found[-1][0] - 0.2):.1f} ms, {found[-1][1]:.2f} m/s" if run.strikes else "no strike"
        study.row(f"key at {speed:.2f} m/s: strike after, hammer", text)
        put_in = run.of("work_done").max()
        made = run.of("energy_error").max()
        study.row("energy made", f"{100.0 * made / put_in:.4f} % of the work", "1 %", made < 0.01 * put_in)
    earlier = all(a >= b for (a, _), (b, _) in itertools.pairwise(found))
    harder = all(a <= b for (_, a), (_, b) in itertools.pairwise(found))
    study.row("faster is earlier and harder", "", "", earlier and harder)


STUDIES: dict[str, tuple[str, Callable[[Study], None]]] = {
    "slow-press": ("Slow press, 10 mm/s", _slow),
    "button": ("Let-off button 0.5 mm lower and higher", _button),
    "hammer": ("Hammer 3 and 6 g lighter and heavier", _hammer),
    "spring": ("Repetition spring", _spring),
    "slow-double": ("Slow double blow, 20 mm/s", lambda study: _double(study, 0.02)),
    "fast-double": ("Fast double blow, 200 mm/s", lambda study: _double(study, 0.2)),
    "rebound": ("Rebound from the string", _rebound),
    "repetition": ("Repetition from half-way", _repetition),
    "speeds": ("Speeds of the key, and energy", _speeds),
}


def examine(say: Callable[[str, float], None]) -> list[Study]:
    found = []
    for k, (name, (title, measure)) in enumerate(STUDIES.items()):
        say(name, k / len(STUDIES))
        study = Study(name, title)
        measure(study)
        found.append(study)
    return found


def headline(results: list[Study]) -> str:
    rows = [row for study in results for row in study.rows if row[3] is not None]
    broken = [f"{row[0]}: {row[1]}" for row in rows if not row[3]]
    return f"{len(broken)} of {len(rows)} do not hold: {'; '.join(broken)}" if broken else f"All {len(rows)} hold."


def print_results(console: Console, results: list[Study]) -> None:
    for study in results:
        shown = Table(title=study.title, title_justify="left", box=SIMPLE_HEAD)
        for heading in HEADINGS:
            shown.add_column(heading)
        for what, measured, expected, holds in study.rows:
            shown.add_row(what, measured, expected, _MARKS[holds])
        console.print(shown)
    console.print(headline(results), markup=False)


def page_sections(results: list[Study]) -> list[str]:
    pieces = []
    for study in results:
        rows = [(what, measured, expected, _MARKS[holds]) for what, measured, expected, holds in study.rows]
        charts = [curves(title, series, x_label=unit) for title, series, unit in study.pictures]
        pieces.append(section(study.name, study.title, "", table(HEADINGS, rows, "figures"), *charts))
    return pieces
