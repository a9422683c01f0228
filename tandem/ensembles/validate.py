"""`tandem validate`: a machine beside what was measured of the real one, and a verdict.

Nothing is fitted. Windows that parameters were found from are shown apart; the verdict is of the others. A machine is
valid where, in every channel, enough of the unused steps lie within the tolerance and enough of the signal is
explained. Curves are compared as ISO 19364 has it: what was measured, averaged, with its scatter, in a band of
tolerance, the simulated curve inside or not.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Floats
from sync.errors import ConfigError
from tandem.ensembles.agreement import (
    Agreement,
    Averaged,
    averaged,
    band,
    channels,
    drift,
    ran,
    regions,
    tolerated,
    worst,
)
from tandem.ensembles.estimate import as_far_as_it_runs
from tandem.ensembles.identification import Narrowed, Problem, load_problem
from tandem.ensembles.pool import cores
from tandem.ensembles.windows import Window
from tandem.ensembles.work import Worker
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.scatter import side_by_side
from tandem.reports.html.words import Raw
from tandem.reports.report import Cell, Report, Section, Table, bad, inside

VALID, NOT_VALID = 0, 1
_MOST_BYTES = 1 << 24  # of a report of identify
_HEADINGS = (
    "channel", "unit", "windows", "signal, rms", "error, rms", "median window", "bias", "largest", "explained",
    "within tolerance", "",
)  # fmt: skip
_CURVE = ("between", "windows", "measured", "scatter ±", "tolerance ±", "simulated", "")
_BY = ("channel", "by", "between", "steps", "error, rms", "bias", "within tolerance")


@dataclass(frozen=True)
class Validated:
    problem: Problem
    simulated: list[dict[str, Floats]]  # of every window; NaN where the machine diverged
    diverged: tuple[str, ...]  # in which windows it did
    found: str = ""  # where parameters came from

    def __repr__(self) -> str:
        return f"<tandem.Validated {headline(self)}>"

    @property
    def unused(self) -> dict[str, Agreement]:
        """How well each channel agrees in windows that nothing was fitted to."""
        return channels(self.problem, self.simulated, False)

    @property
    def fitted(self) -> dict[str, Agreement]:
        return channels(self.problem, self.simulated, True)

    @property
    def complaints(self) -> list[str]:
        """Why it is not valid; none where it is."""
        limits, settings = self.problem.study.validation, self.problem.study.measured
        out = [f"diverges in {window}" for window in self.diverged]
        for name, each in self.unused.items():
            if tolerated(settings[name]) and not each.inside >= limits.inside:
                out.append(
                    f"{name}: {each.inside:.1%} of the steps are within the tolerance, {limits.inside:.1%} must be"
                )
            if not each.explained >= limits.explained:
                out.append(f"{name}: {each.explained:.1%} of the signal is explained, {limits.explained:.1%} must be")
        for name, points in self.curves().items():
            outside = [p for p in points if not p.inside]
            if outside:
                out.append(f"curve {name}: {len(outside)} of {len(points)} points are outside of the band")
        return out

    @property
    def code(self) -> int:
        return NOT_VALID if self.complaints else VALID

    @property
    def worst(self) -> int:
        """The unused window that is farthest off."""
        first = self.problem.fitted
        return first + worst(self.problem.windows[first:], self.simulated[first:], self.problem.study.measured)

    def judged(self) -> tuple[list[Window], list[dict[str, Floats]]]:
        """Unused windows, and what the machine made of them, as far as it did not diverge."""
        return ran(self.problem.windows[self.problem.fitted :], self.simulated[self.problem.fitted :])

    def curves(self) -> dict[str, list[Averaged]]:
        """Of unused windows."""
        study = self.problem.study
        windows, simulated = self.judged()
        found = {
            name: averaged(windows, simulated, curve, study.measured[curve.of])
            for name, curve in study.validation.curves.items()
        }
        return {name: points for name, points in found.items() if points}


def validate(
    study: str | Path | Mapping[str, object],
    found: Path | None = None,
    settings: Mapping[str, float] | None = None,
    narrowed: Narrowed | None = None,
    workers: int = 0,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> Validated:
    """A machine beside what was measured, in windows it was not fitted to, and a verdict (docs/validation.md).

    `found` is a report of `tandem identify`, whose parameters are taken; `settings` are parameters themselves. Raises
    ConfigError where the study is wrong.

    >>> handle = 0.03 * np.sin(np.linspace(0.0, 30.0, 401))
    >>> table = tandem.load_machine("mass_spring").run({"handle": handle[:-1]})
    >>> rows = np.column_stack([0.005 * np.arange(401), handle, np.append(0.0, table["position"])])
    >>> np.savetxt("pull.csv", rows, delimiter=",", header="t,handle,position", comments="")
    >>> study = {
    ...     "name": "pull", "machine": "mass_spring", "step_ms": 5.0, "records": ["pull.csv"],
    ...     "measured": {"position": {"tolerance": 0.001}}, "windows": {"unused": [[0.0, 2.0]]},
    ... }
    >>> tandem.validate(study)
    <tandem.Validated VALID: mass_spring in 1 unused windows; explained: position 100.0%.>
    >>> tandem.validate(study, settings={"stiffness": 100.0}).code
    1
    """
    narrowed = narrowed or Narrowed()
    values = {**(_found(found) if found is not None else {}), **(settings or {})}
    problem = load_problem(study, Narrowed(narrowed.begin, narrowed.end, values), fit=False)
    if problem.fitted == len(problem.windows):
        raise ConfigError(
            f"{problem.job.where}: windows.unused: is missing, or none of them is left: a machine is judged by what it"
            " was not fitted to. Where nothing was fitted, that is everything: unused = [[from, to]]"
        )
    cases = range(len(problem.windows))
    runs, diverged = as_far_as_it_runs(problem, Worker(problem.job), problem.start, cases, workers or cores(), progress)
    return Validated(problem, runs, diverged, str(found or ""))


def _found(path: Path) -> dict[str, float]:
    """The parameters of a report: report.json, or its folder."""
    file = path / "report.json" if path.is_dir() else path
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"--found {path}: is no report of tandem identify: it has over {_MOST_BYTES} bytes")
        content = json.loads(file.read_bytes())
        return {str(name): float(each["found"]) for name, each in content["parameters"].items()}
    except OSError as error:
        raise ConfigError(f"--found {path}: {error.strerror}; give the folder of a report of tandem identify") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigError(f"--found {path}: is no report.json of tandem identify, which has parameters") from None


def headline(done: Validated) -> str:
    problem = done.problem
    word = "NOT VALID" if done.code else "VALID"
    fits = ", ".join(f"{name} {each.explained:.1%}" for name, each in done.unused.items())
    count = len(problem.windows) - problem.fitted
    return f"{word}: {problem.machine.name} in {count} unused windows; explained: {fits or 'none'}."


def summary(done: Validated) -> dict[str, Any]:
    problem = done.problem
    windows = {
        "fitted": [str(w) for w in problem.windows if w.fitted],
        "left_out": problem.gaps,
        "left_out_s": problem.lost_s,
    }
    return {
        "study": problem.study.name,
        "machine": problem.machine.name,
        "verdict": "not valid" if done.code else "valid",
        "complaints": done.complaints,
        "parameters_from": done.found,
        "set": problem.job.study["set"],
        "windows": {**windows, "unused": [str(w) for w in problem.windows if not w.fitted]},
        "unused": {name: asdict(each) for name, each in done.unused.items()},
        "fitted": {name: asdict(each) for name, each in done.fitted.items()},
        "regions": region_rows(done),
        "curves": {name: [asdict(p) | {"inside": p.inside} for p in points] for name, points in done.curves().items()},
        "drift": {name: [x.tolist() for x in _drift(done, name)] for name in problem.channels},
        "worst": str(problem.windows[done.worst]),
    }


def rows(done: Validated) -> list[list[Cell]]:
    units = {q.name: q.unit for q in done.problem.machine.outputs}
    limits = done.problem.study.validation
    out: list[list[Cell]] = []
    for word, found in (("unused", done.unused), ("fitted", done.fitted)):
        for name, each in found.items():
            good = each.explained >= limits.explained and not each.inside < limits.inside
            verdict = "" if word == "fitted" else inside(good)
            numbers = [f"{v:.3g}" for v in (each.signal, each.error, each.median, each.bias, each.largest)]
            out.append([name, units[name], word, *numbers, f"{each.explained:.1%}", _share(each.inside), verdict])
    return out


def _share(value: float) -> str:
    return f"{value:.1%}" if np.isfinite(value) else "–"


def region_rows(done: Validated) -> list[list[str]]:
    problem, out = done.problem, []
    windows, simulated = done.judged()
    for label, by in problem.study.validation.regions.items() if windows else ():
        for name in problem.channels:
            for each in regions(windows, simulated, name, by, problem.study.measured[name]):
                f = each.found
                span = f"{each.low:g} … {each.high:g}"
                out.append([name, label, span, str(f.steps), f"{f.error:.3g}", f"{f.bias:.3g}", _share(f.inside)])
    return out


def _drift(done: Validated, name: str) -> tuple[Floats, Floats]:
    return drift(*done.judged(), name, 1e-3 * done.problem.study.step_ms)


def _curve_rows(points: list[Averaged]) -> list[list[Cell]]:
    out: list[list[Cell]] = []
    for p in points:
        numbers = [f"{v:.4g}" for v in (p.measured, p.scatter, p.tolerance, p.simulated)]
        out.append([f"{p.at:.4g}", str(p.windows), *numbers, inside(p.inside)])
    return out


def remarks(done: Validated) -> list[str]:
    problem = done.problem
    out = [f"not valid: {line}" for line in done.complaints]
    for name in problem.channels:
        _, values = _drift(done, name)
        if len(values) > 1:
            out.append(
                f"drift in a window: {name} is off by {values[0]:.3g} at its begin, by {values[-1]:.3g} at its end"
            )
    out.append(f"worst window: {problem.windows[done.worst]}")
    out += problem.left_out
    if problem.fitted == 0:
        out.append("no window is marked as fitted: whether parameters were found from these data is not known")
    return out


def report(done: Validated) -> Report:
    problem, study = done.problem, done.problem.study
    points = done.curves()
    sections = [Section("Agreement", [Table(_HEADINGS, rows(done))])]
    if points:
        lead = "Measured in unused windows, averaged, with the scatter of the mean (95 %) and the band of tolerance."
        pictures = [_curve_picture(name, each) for name, each in points.items()]
        tables = [Table((name, *_CURVE[1:]), _curve_rows(each)) for name, each in points.items()]
        sections.append(Section("Curves", [*pictures, *tables], lead))
    if by := region_rows(done):
        sections.append(Section("By region", [Table(_BY, by)], "Of unused windows.", key="regions"))
    lead = "Root mean square of the error over the time since a window began, of unused windows."
    charts = [curves(name, [Series("error, rms", *_drift(done, name))], width=_HALF) for name in problem.channels]
    sections.append(Section("Drift within a window", [side_by_side(charts)], lead, key="drift"))
    lead = f"{problem.windows[done.worst]}, which was not fitted. `tandem view` shows it: worst/ beside this page."
    shown = [_window_picture(done, done.worst, name) for name in problem.channels]
    sections.append(Section("The worst window", shown, lead, key="worst"))
    named = [[str(w), "fitted" if w.fitted else "unused"] for w in problem.windows]
    sections.append(Section("Windows", [Table(("window", ""), named)], f"Set: {study.set}", "page"))
    notes = [bad(line) if line.startswith("not valid") else line for line in remarks(done)]
    return Report(f"tandem validate {study.name}", headline(done), summary(done), sections, notes, code=done.code)


_HALF = 520


def _window_picture(done: Validated, case: int, name: str) -> Raw:
    window, settings = done.problem.windows[case], done.problem.study.measured[name]
    measured, t = (
        window.measured[name],
        window.begin + 1e-3 * done.problem.study.step_ms * np.arange(1, len(window.rows) + 1),
    )
    series = [Series("measured", t, measured), Series("simulated", t, done.simulated[case][name])]
    if tolerated(settings):
        half = band(measured, settings)
        series += [Series("band, from", t, measured - half), Series("band, to", t, measured + half)]
    return curves(name, series)


def _curve_picture(name: str, points: list[Averaged]) -> Raw:
    x, y, simulated = (np.array([getattr(p, key) for p in points]) for key in ("at", "measured", "simulated"))
    half, scatter = np.array([p.tolerance for p in points]), np.array([p.scatter for p in points])
    series = [
        Series("measured, mean", x, y), Series("simulated", x, simulated), Series("band, from", x, y - half),
        Series("band, to", x, y + half), Series("scatter, from", x, y - scatter), Series("scatter, to", x, y + scatter),
    ]  # fmt: skip
    return curves(name, series, x_label="")
