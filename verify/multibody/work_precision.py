"""Work and precision: error over cost of every method of ours and of every other code, over many steps, in one run.

*Cost* is microseconds of computing for a second of the mechanism's time, the quickest of some runs: what counts is not
the price of a step but that of an accuracy. Of the points of a method that reach a given error the cheapest is taken;
so a method of high order may use its long steps and a cheap one its many.

In relative coordinates changes of the independent ones between two steps are part of the cost.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.multibody.natural.api import Record
from tandem.multibody.natural.errors import AssemblyError, MechanismError
from verify.multibody import other_codes, relative, trial
from verify.multibody.problems import Problem
from verify.multibody.trial import FORMULATIONS, INSTANTS, UNROLLED, Formulation

# steps for one of the problem's own
FACTORS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0, 8.0, 16.0)
QUICK_FACTORS = (0.025, 0.1, 0.4, 1.0, 4.0)
LONGEST_STEP = 0.1  # s, of natural coordinates; the others get no longer ones either
USELESS = 0.3  # longer steps than one with this error are not tried
LEAST_ERROR = 1e-9  # finer steps would show the reference's own error
TARGETS = (1e-3, 1e-4, 1e-6)
NATURAL, RELATIVE, OTHER = "natural", "relative", "other"


@dataclass(frozen=True)
class Contestant:
    """A method of ours on any problem at any step."""

    key: str
    simulate: Callable[[Problem, float], Record]
    seconds: Callable[[Problem, float], float]  # of the processor


def natural(formulation: Formulation, repeats: int = 5) -> Contestant:
    settings = formulation.settings
    return Contestant(
        formulation.key,
        lambda problem, h: trial.simulate(problem, settings, h),
        lambda problem, h: trial.seconds_of(problem, formulation, h, repeats),
    )


def in_relative(method: relative.Method, repeats: int = 5) -> Contestant:
    return Contestant(
        method.key,
        lambda problem, h: relative.simulate(problem, method.name, h),
        lambda problem, h: relative.seconds_of(problem, method.name, h, repeats),
    )


def step_sizes(problem: Problem, factors: tuple[float, ...]) -> list[float]:
    """Each divides the problem's time into a multiple of the instants that are compared, or into few of them."""
    usual = problem.seconds / problem.h
    wanted = [usual * factor for factor in factors]
    counts = {INSTANTS * round(n / INSTANTS) if n > 0.7 * INSTANTS else 25 if n > 15 else 10 for n in wanted}
    return [problem.seconds / count for count in sorted(counts) if problem.seconds / count <= LONGEST_STEP]


def distance(problem: Problem, outcome: other_codes.Outcome, reference: np.ndarray | None = None) -> float:
    """Largest distance of another code's result from the reference, which is recomputed if the instants differ."""
    stride = max(1, INSTANTS // max(1, len(outcome.times) - 1))
    usual = trial.instants(problem)[::stride]
    near = len(usual) == len(outcome.times) and np.abs(usual - outcome.times).max() < 1e-12 * problem.seconds
    expected = problem.reference(outcome.times) if reference is None or not near else reference[::stride]
    gap = outcome.positions[:, : expected.shape[1]] - expected
    return float(np.linalg.norm(gap, axis=1).max())


def measure(problem: Problem, reference: np.ndarray, runners: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    """A point a method and step: group, method, h, error, µs per simulated second, from short steps to useless ones."""
    steps = step_sizes(problem, QUICK_FACTORS if quick else FACTORS)
    repeats = 2 if quick else 3
    ours = [(NATURAL, natural(f, repeats)) for f in (*FORMULATIONS, *UNROLLED)]
    if not relative.refused(problem):
        ours += [(RELATIVE, in_relative(m, repeats)) for m in relative.RELATIVE]
    points = []
    for group, contestant in ours:
        for h in reversed(steps):
            stride = max(1, INSTANTS // round(problem.seconds / h))
            try:
                gap = trial.error(problem, contestant.simulate(problem, h), reference[::stride])
            except (AssemblyError, MechanismError):  # the step is so long that loops cannot be closed behind it
                break
            if not gap < USELESS:
                break
            if gap > LEAST_ERROR:
                cost = 1e6 * contestant.seconds(problem, h) / problem.seconds
                points.append(_point(problem, group, contestant.key, h, gap, cost))
    for code, runner in runners.items():
        points += _of_code(problem, reference, code, runner, steps, repeats)
    return points


def _of_code(
    problem: Problem, reference: np.ndarray, code: str, runner: Any, steps: list[float], repeats: int
) -> Iterator[dict[str, Any]]:
    for h in steps:
        try:
            found = min(
                (runner(problem.bars, h, problem.bars_watched) for _ in range(repeats)), key=lambda o: o.seconds
            )
            gap = distance(problem, found, reference)
        except Exception:  # a solver that gives up at a coarse step has no point there
            continue
        if math.isfinite(gap):
            yield _point(problem, OTHER, code, h, gap, 1e6 * found.seconds / problem.seconds)
        if gap < LEAST_ERROR:
            break


def _point(problem: Problem, group: str, method: str, h: float, gap: float, cost: float) -> dict[str, Any]:
    return {"problem": problem.key, "group": group, "method": method, "h": h, "error": gap, "us_per_second": cost}


def cheapest(points: list[dict[str, Any]], target: float) -> dict[str, Any] | None:
    enough = [p for p in points if p["error"] <= target]
    return min(enough, key=lambda p: float(p["us_per_second"])) if enough else None


def at_equal_accuracy(points: list[dict[str, Any]], targets: tuple[float, ...] = TARGETS) -> list[dict[str, Any]]:
    """For every problem and error: the cheapest of ours in either formulation, and every other code, with its ratio.

    `ratio` is the cost of the row over that of the cheapest of ours; a code that did not reach the error has none, and
    its least error beside.
    """
    rows = []
    for problem in dict.fromkeys(p["problem"] for p in points):
        here = [p for p in points if p["problem"] == problem]
        rivals: dict[str, list[dict[str, Any]]] = {}
        for p in here:
            rivals.setdefault(p["method"] if p["group"] == OTHER else p["group"], []).append(p)
        for target in targets:
            ours = cheapest([p for p in here if p["group"] != OTHER], target)
            for rival, mine in rivals.items():
                best = cheapest(mine, target)
                row = {"problem": problem, "target": target, "rival": rival}
                row["least_error"] = min(p["error"] for p in mine)
                if best is None:
                    row |= dict.fromkeys(("method", "h", "error", "us_per_second", "ratio"))
                else:
                    row |= {key: best[key] for key in ("method", "h", "error", "us_per_second")}
                    row["ratio"] = best["us_per_second"] / ours["us_per_second"] if ours else None
                rows.append(row)
    return rows


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for every problem: how much quicker we are at equal accuracy than each of the other codes, or not."""
    lines = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        theirs = [r for r in rows if r["problem"] == problem and r["rival"] not in (NATURAL, RELATIVE)]
        words = []
        for code in dict.fromkeys(row["rival"] for row in theirs):
            mine = [row for row in theirs if row["rival"] == code]
            found = [f"{_times(row)} at {row['target']:.0e}" for row in mine]
            slower = any(row["method"] is not None and (row["ratio"] or 0.0) <= 1.0 for row in mine)
            words.append(f"{code} {', '.join(found)}" + (" (NOT quicker)" if slower else ""))
        if words:
            lines.append(f"{problem}, times quicker than other codes at equal accuracy: {'; '.join(words)}")
    return lines


def _times(row: dict[str, Any]) -> str:
    if row["method"] is None:
        return "not reached by it"
    return "not reached by us" if row["ratio"] is None else f"{row['ratio']:.1f}"


HEADINGS = (
    "problem",
    "error at most",
    "",
    "method",
    "h, ms",
    "error",
    "µs per s",
    "times the cheapest of ours",
)


def cells(row: dict[str, Any]) -> list[str]:
    first = [
        row["problem"],
        f"{row['target']:.0e}",
        row["rival"] if row["rival"] not in (NATURAL, RELATIVE) else "ours",
    ]
    if row["method"] is None:
        return [*first, "–", "–", f"{row['least_error']:.1e}", "–", "not reached"]
    figures = [f"{1e3 * row['h']:.3g}", f"{row['error']:.1e}", f"{row['us_per_second']:.0f}"]
    return [*first, row["method"], *figures, "not reached by ours" if row["ratio"] is None else f"{row['ratio']:.2f}"]
