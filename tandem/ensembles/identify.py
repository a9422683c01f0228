"""Identification as one call, and its answer as a report."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tandem.ensembles.agreement import Agreement, channels
from tandem.ensembles.correlated import MOST_ORDER
from tandem.ensembles.estimate import Estimate, estimate
from tandem.ensembles.identification import Narrowed, load_problem
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.markup import Markup
from tandem.reports.report import Report, Section, Table, warn

FIT_HEADINGS = ("channel", "unit", "windows", "signal, rms", "error, rms", "median window", "bias", "explained")
_HEADINGS = ("parameter", "unit", "start", "found", "95 % each, from", "to", "95 % all, from", "to", "remark")
_MOST_PICTURES = 12
_EXPLAINED = 0.5  # share of a signal: where less is explained, what is left is of the size of the signal
_WORSE = 1.5  # times the error in fitted windows


def identify(
    study: str | Path | Mapping[str, object],
    only_sensitivity: bool = False,
    workers: int = 0,
    progress: Callable[[str, float], None] = lambda *_: None,
    narrowed: Narrowed | None = None,
) -> Estimate:
    """Parameters of a machine from records: a study's file, or what would stand in it (docs/ensembles.md).

    Raises ConfigError where the study is wrong, NotEstimated where the machine does not run.

    >>> t, handle = 0.005 * np.arange(401), 0.03 * np.sin(np.linspace(0.0, 30.0, 401))
    >>> table = tandem.load_machine("mass_spring", {"stiffness": 260.0}).run({"handle": handle[:-1]})
    >>> position = np.append(0.0, table["position"]) + 1e-5 * np.cos(1e4 * t)  # with some noise
    >>> rows = np.column_stack([t, handle, position])
    >>> np.savetxt("pull.csv", rows, delimiter=",", header="t,handle,position", comments="")
    >>> found = tandem.identify({
    ...     "name": "pull", "machine": "mass_spring", "step_ms": 5.0, "records": ["pull.csv"],
    ...     "measured": {"position": {"sigma": 1e-5}}, "parameters": {"stiffness": {"low": 100.0, "high": 400.0}},
    ... })
    >>> round(float(found.values[0]))
    260
    """
    return estimate(load_problem(study, narrowed), only_sensitivity, workers, progress)


def left_over(found: Estimate, predicted: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """Root mean square of every channel's difference from what was measured, in the windows that were fitted."""
    return {name: each.error for name, each in channels(found.problem, predicted, True).items()}


def warnings(found: Estimate) -> list[str]:
    """What makes the intervals less than they seem, the most serious first."""
    problem = found.problem
    fitted, unused = (channels(problem, found.after, which) for which in (True, False))
    out = []
    for name, each in fitted.items():
        if not each.explained >= _EXPLAINED:
            out.append(
                f"{name}: {1.0 - each.explained:.0%} of what was measured is not explained: an rms of {each.error:.3g}"
                f" of a signal of {each.signal:.3g}. The model is wrong or starts wrong, and the intervals hold for one"
                " that is right"
            )
    if found.halves is not None and not found.halves.agree:
        pairs = [f"{n} {a:.4g} and {b:.4g} ({abs(s):.1f} deviations)" for n, a, b, s in _apart(found)[:4]]
        out.append(
            f"the first and the second half of the data do not have the same parameters (chi-squared"
            f" {found.halves.chi2:.0f} for {found.halves.freedom}): {', '.join(pairs)}. The model is wrong, not the"
            " noise: the intervals are those of this model on these data, not of the machine"
        )
    for name, each in unused.items():
        if each.error > _WORSE * fitted[name].error:
            out.append(
                f"{name}: off by {each.error:.3g} in unused windows, by {fitted[name].error:.3g} in fitted ones: the"
                " parameters fit the windows, not the machine"
            )
    if not unused:
        out.append("no unused windows: nothing judges this fit but the data it was made from (windows.unused)")
    if found.diverged:
        out.append(
            f"the machine diverges in {len(found.diverged)} unused windows ({'; '.join(found.diverged[:3])}), which are"
            " in no figure: the parameters fit the windows, not the machine"
        )
    short = [name for name, each in found.noises.items() if each.order == each.limit < MOST_ORDER]
    if short:
        out.append(
            f"{', '.join(short)}: the fitted windows are too short to tell what residuals remember: the intervals may"
            " be too narrow; give longer ones (windows.seconds)"
        )
    return out + problem.left_out


def _apart(found: Estimate) -> list[tuple[str, float, float, float]]:
    """Parameters of both halves, those farthest apart first: name, values, difference over its deviation."""
    assert found.halves is not None
    a, b = found.values + found.halves.moved
    rows = zip(found.problem.names, a.tolist(), b.tolist(), found.halves.apart.tolist(), strict=True)
    return sorted(rows, key=lambda row: -abs(row[3]))


def summary(found: Estimate) -> dict[str, Any]:
    problem = found.problem
    units = {p.name: p.unit for p in problem.machine.parameters}
    return {
        "study": problem.study.name,
        "machine": problem.machine.name,
        "records": list(problem.study.records),
        "parameters": {
            name: {
                "unit": units[name], "start": problem.start[k], "found": found.values[k],
                "low": found.low[k], "high": found.high[k], "sigma": found.deviations[k],
                "joint_low": found.joint_low[k], "joint_high": found.joint_high[k],
            }
            for k, name in enumerate(problem.names)
        },
        "correlation": found.correlation.tolist(),
        "correlated": found.correlated(),
        "not_told_apart": [c.weights for c in found.combinations],
        "at_bounds": list(found.at_bounds),
        "joint_factor": found.joint_factor,
        "ellipsoid_factor": found.ellipsoid_factor,
        "sensitivities": found.sensitivities,
        "by_differences": list(found.by_differences),
        "noise": found.sigmas,
        "rms_before": left_over(found, found.before),
        "rms_after": left_over(found, found.after),
        "fitted": _figures(channels(problem, found.after, True)),
        "unused": _figures(channels(problem, found.after, False)),
        "windows": {
            "fitted": [str(w) for w in problem.windows if w.fitted],
            "unused": [str(w) for w in problem.windows if not w.fitted],
            "left_out": problem.gaps,
            "left_out_s": problem.lost_s,
            "diverged": list(found.diverged),
        },
        "residuals": {n: {"order": e.order, "memory_steps": e.memory} for n, e in found.noises.items()},
        "wider_than_white": dict(zip(problem.names, found.wider.tolist(), strict=True)),
        "intervals": "blocks" if found.by_blocks else "noise model",
        "halves": {"not_compared": found.not_halved} if found.halves is None else {
            "agree": found.halves.agree, "chi2": found.halves.chi2, "freedom": found.halves.freedom,
            "parameters": {n: [a, b] for n, a, b, _ in _apart(found)},
        },
        "warnings": warnings(found),
        "influence": found.influence,
        "iterations": found.iterations,
        "runs": found.runs,
        "message": found.message,
    }  # fmt: skip


def _figures(found: dict[str, Agreement]) -> dict[str, Any]:
    return {name: asdict(each) for name, each in found.items()}


def rows(found: Estimate) -> list[list[str]]:
    units = {p.name: p.unit for p in found.problem.machine.parameters}
    loose = {name for combination in found.combinations for name in combination.weights}
    out = []
    for k, name in enumerate(found.problem.names):
        beyond = found.joint_low[k] < found.problem.low[k] or found.joint_high[k] > found.problem.high[k]
        remark = "interval reaches beyond its bounds" if beyond else ""
        remark = "not told by the data" if name in loose else "at its bound" if name in found.at_bounds else remark
        ends = (found.low, found.high, found.joint_low, found.joint_high)
        interval = ["–"] * 4 if name in loose else [f"{end[k]:.5g}" for end in ends]
        out.append([name, units[name], f"{found.problem.start[k]:.5g}", f"{found.values[k]:.5g}", *interval, remark])
    return out


def _headline(found: Estimate) -> str:
    before, after = left_over(found, found.before), left_over(found, found.after)
    fits = ", ".join(f"{name} {before[name]:.3g} → {after[name]:.3g}" for name in found.problem.channels)
    count = sum(len(w.rows) for w in found.problem.windows[: found.problem.fitted])
    tail = f"; {len(found.combinations)} combinations are not told by the data" * bool(found.combinations)
    many = found.problem.fitted
    return (
        f"{len(found.problem.names)} parameters of {found.problem.machine.name} from {count} steps of {many}"
        f" window{'s' * (many > 1)}; left over (rms): {fits}{tail}."
    )


def remarks(found: Estimate) -> list[str]:
    out = [f"warning: {line}" for line in warnings(found)]
    out += [f"not told apart: {combination}" for combination in found.combinations]
    out += [f"correlated: {a} and {b}, {value:+.3f}" for a, b, value in found.correlated()]
    out.append(
        f"intervals: each holds its value with 95 % (±1.96 deviations); all hold at once with 95 % (±"
        f"{found.joint_factor:.2f}, Bonferroni); the ellipsoid of all reaches ±{found.ellipsoid_factor:.2f} (Scheffé)"
    )
    memories = ", ".join(f"{name} over {each.memory:.0f} steps" for name, each in found.noises.items() if each.order)
    if memories or found.by_blocks:
        by = f"the scatter of {found.blocks} blocks" if found.by_blocks else "a model of the noise"
        out.append(
            f"residuals are correlated ({memories or 'between channels or windows'}): intervals are by {by},"
            f" {found.wider.min():.1f} to {found.wider.max():.1f} times those for white noise"
        )
    if found.halves is not None and found.halves.agree:
        out.append(
            f"the first and the second half of the data agree (chi-squared {found.halves.chi2:.1f} for"
            f" {found.halves.freedom})"
        )
    if found.halves is None:
        out.append(f"the halves of the data are not compared: {found.not_halved}")
    how = {"exact": "exact, by the tangent of the step", "differences": "by differences of runs"}
    both = f"exact, by the tangent of the step; of {', '.join(found.by_differences)} by differences of runs"
    out.append(f"sensitivities: {how.get(found.sensitivities, both)}")
    return [*out, f"{found.iterations} iterations, {found.runs} runs; {found.message}"]


def fit_rows(found: Estimate) -> list[list[str]]:
    units = {q.name: q.unit for q in found.problem.machine.outputs}
    out = []
    for word, which in (("fitted", True), ("unused", False)):
        for name, each in channels(found.problem, found.after, which).items():
            cells = (each.signal, each.error, each.median, each.bias)
            out.append([name, units[name], word, *(f"{v:.3g}" for v in cells), f"{each.explained:.1%}"])
    return out


def influence_rows(found: Estimate) -> list[list[str]]:
    return [[name, *(f"{value:.3g}" for value in by.values())] for name, by in found.influence.items()]


def report(found: Estimate) -> Report:
    names, channels = found.problem.names, found.problem.channels
    influence = "Root mean square of what a tenth of a parameter's range does to a channel, in deviations of its noise."
    correlated = [[name, *(f"{v:+.2f}" for v in found.correlation[k])] for k, name in enumerate(names)]
    sections = [
        Section("Parameters", [Table(_HEADINGS, rows(found))], key="found"),
        Section("Fitted and unused windows", [Table(FIT_HEADINGS, fit_rows(found))], key="windows"),
        Section("Influence", [Table(("a tenth of", *channels), influence_rows(found))], influence),
        Section("Correlation of the estimates", [Table(("", *names), correlated)], on="page", key="correlation"),
        Section("What is left over", _residuals(found), key="residuals"),
    ]
    notes = [warn(line) if line.startswith("warning") else line for line in remarks(found)]
    return Report(f"tandem identify {found.problem.study.name}", _headline(found), summary(found), sections, notes)


def _residuals(found: Estimate) -> list[Markup]:
    step_s, pictures = 1e-3 * found.problem.study.step_ms, []
    for case, window in enumerate(found.problem.windows[:_MOST_PICTURES]):
        for name in found.problem.channels:
            measured = found.problem.measured[case][name]
            t = window.begin + step_s * np.arange(1, len(measured) + 1)
            ends = (("before", found.before), ("after", found.after))
            series = [Series(word, t, measured - predicted[case][name]) for word, predicted in ends]
            pictures.append(curves(f"{window}: {name}, measured minus predicted", series))
    return pictures[:_MOST_PICTURES]
