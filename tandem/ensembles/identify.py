"""Identification as one call, and its answer as tables, pictures and JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tandem.ensembles.estimate import Estimate, estimate
from tandem.ensembles.identification import load_problem
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.sections import section, table

_HEADINGS = ("parameter", "unit", "start", "found", "95 % each, from", "to", "95 % all, from", "to", "remark")
_MOST_PICTURES = 12


def identify(
    study: str | Path | dict[str, Any],
    only_sensitivity: bool = False,
    workers: int = 0,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> Estimate:
    """Parameters of a machine from records: a study's file, or what would stand in it (docs/ensembles.md).

    Raises ConfigError where the study is wrong, NotEstimated where the machine does not run.
    """
    return estimate(load_problem(study), only_sensitivity, workers, progress)


def left_over(found: Estimate, predicted: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """Root mean square of every channel's difference from what was measured."""
    pairs = list(zip(predicted, found.problem.measured, strict=True))
    errors = {name: np.concatenate([p[name] - m[name] for p, m in pairs]) for name in found.problem.channels}
    return {name: float(np.sqrt(np.mean(error * error))) for name, error in errors.items()}


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
        "noise": found.sigmas,
        "rms_before": left_over(found, found.before),
        "rms_after": left_over(found, found.after),
        "influence": found.influence,
        "iterations": found.iterations,
        "runs": found.runs,
        "message": found.message,
    }  # fmt: skip


def rows(found: Estimate) -> list[list[str]]:
    units = {p.name: p.unit for p in found.problem.machine.parameters}
    loose = {name for combination in found.combinations for name in combination.weights}
    out = []
    for k, name in enumerate(found.problem.names):
        remark = "not told by the data" if name in loose else "at its bound" if name in found.at_bounds else ""
        ends = (found.low, found.high, found.joint_low, found.joint_high)
        interval = ["–"] * 4 if name in loose else [f"{end[k]:.5g}" for end in ends]
        out.append([name, units[name], f"{found.problem.start[k]:.5g}", f"{found.values[k]:.5g}", *interval, remark])
    return out


def headline(found: Estimate) -> str:
    before, after = left_over(found, found.before), left_over(found, found.after)
    fits = ", ".join(f"{name} {before[name]:.3g} → {after[name]:.3g}" for name in found.problem.channels)
    count = sum(len(next(iter(m.values()))) for m in found.problem.measured)
    tail = f"; {len(found.combinations)} combinations are not told by the data" * bool(found.combinations)
    return (
        f"{len(found.problem.names)} parameters of {found.problem.machine.name} from {count} steps of"
        f" {len(found.problem.measured)} records; left over (rms): {fits}{tail}."
    )


def remarks(found: Estimate) -> list[str]:
    out = [f"not told apart: {combination}" for combination in found.combinations]
    out += [f"correlated: {a} and {b}, {value:+.3f}" for a, b, value in found.correlated()]
    out.append(
        f"intervals: each holds its value with 95 % (±1.96 deviations); all hold at once with 95 % (±"
        f"{found.joint_factor:.2f}, Bonferroni); the ellipsoid of all reaches ±{found.ellipsoid_factor:.2f} (Scheffé)"
    )
    how = "exact, by the tangent of the step" if found.sensitivities == "exact" else "by differences of runs"
    out.append(f"sensitivities: {how}")
    return [*out, f"{found.iterations} iterations, {found.runs} runs; {found.message}"]


def print_estimate(console: Console, found: Estimate) -> None:
    console.print(headline(found), highlight=False, markup=False)
    _print(console, _HEADINGS, rows(found))
    _print(console, ("a tenth of the range moves", *found.problem.channels), influence_rows(found))
    for line in remarks(found):
        console.print(line, highlight=False, markup=False)


def _print(console: Console, headings: tuple[str, ...], cells: list[list[str]]) -> None:
    shown = Table(box=SIMPLE_HEAD)
    for k, heading in enumerate(headings):
        shown.add_column(escape(heading), justify="left" if k < 2 else "right")
    for row in cells:
        shown.add_row(*(escape(cell) for cell in row))
    console.print(shown)


def influence_rows(found: Estimate) -> list[list[str]]:
    return [[name, *(f"{value:.3g}" for value in by.values())] for name, by in found.influence.items()]


def page_sections(found: Estimate) -> list[str]:
    names, channels = found.problem.names, found.problem.channels
    out = [section("found", "Parameters", "\n".join(remarks(found)), table(_HEADINGS, rows(found), "beside"))]
    lead = "Root mean square of what a tenth of a parameter's range does to a channel, in deviations of its noise."
    out.append(section("influence", "Influence", lead, table(("", *channels), influence_rows(found), "beside")))
    cells = [[name, *(f"{v:+.2f}" for v in found.correlation[k])] for k, name in enumerate(names)]
    out.append(section("correlation", "Correlation of the estimates", "", table(("", *names), cells, "beside")))
    step_s, pictures = 1e-3 * found.problem.study.step_ms, []
    for case, record in enumerate(found.problem.study.records):
        for name in channels:
            measured = found.problem.measured[case][name]
            t = step_s * np.arange(1, len(measured) + 1)
            ends = (("before", found.before), ("after", found.after))
            series = [Series(word, t, measured - predicted[case][name]) for word, predicted in ends]
            pictures.append(curves(f"{record}: {name}, measured minus predicted", series))
    out.append(section("residuals", "What is left over", headline(found), *pictures[:_MOST_PICTURES]))
    return out
