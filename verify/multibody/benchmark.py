"""`python -m verify multibody-bench`: every formulation on every problem, beside other codes, in one run.

What it measures is defined in trial.py; the mechanisms are in problems.py, the other codes in other_codes.py. Besides
the table it draws error over cost (work_precision.py), measures forward dynamics of trees beside Pinocchio (trees.py),
what a chain costs as it grows, how long the core takes to compile from an empty cache and to
start from a full one, and how far the slider of a slider-crank strays without stabilisation, with Baumgarte's, with
projection, and with I3AL: the picture of the paper on simulation quality (C. R. Mécanique 2011).
"""

import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sync.child_python import python_command, python_environment
from sync.config.extras import install_extra
from tandem.multibody.natural.api import run
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.markup import Markup
from tandem.reports.report import Report, Section, Table
from verify.measure import Result, at_most, equal, figure, note, reported
from verify.multibody import other_codes, relative, trees, work_precision
from verify.multibody import problems as catalogue
from verify.multibody.problems import Problem
from verify.multibody.relative import RELATIVE
from verify.multibody.stabilisation import stabilisation
from verify.multibody.trial import (
    FORMULATIONS,
    INSTANTS,
    UNROLLED,
    Formulation,
    begin,
    error,
    instants,
    seconds_of,
    trial,
)
from verify.multibody.work_precision import Contestant, distance, in_relative, natural

Say = Callable[[str, float], None]  # what is being done, and which share of all is

QUICK = ("pendulum", "slider-crank", "bricard", "rotor")
CHAINS = (10, 25, 50, 100, 250)
GROWING = (FORMULATIONS[0], FORMULATIONS[4])  # the iterative one, and the one that solves once a step
# the one to use, and those of fourth order
COMPARED = (
    natural(FORMULATIONS[0]), natural(FORMULATIONS[3]), *map(natural, UNROLLED), in_relative(RELATIVE[0]),
    in_relative(RELATIVE[5]),
)  # fmt: skip
CURVES = ("bricard", "four-bar", "chain of 10")  # error over cost
QUICK_CURVES = ("bricard",)


def measure(quick: bool, say: Say) -> dict[str, Any]:
    """All figures, as one object."""
    chosen = [p for p in catalogue.everything() if not quick or p.key in QUICK]
    rows: list[dict[str, Any]] = []
    compared: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    forward: list[dict[str, Any]] = []
    refused: dict[str, str] = {}
    runners = other_codes.runners()
    curves_of = QUICK_CURVES if quick else CURVES
    for k, problem in enumerate(chosen):
        reference = problem.reference(instants(problem))
        for formulation in (*FORMULATIONS, *UNROLLED):
            say(f"{problem.key}, {formulation.key}", k / (len(chosen) + 3))
            rows.append(trial(problem, formulation, reference, with_order=not quick))
        why_not = relative.refused(problem)
        if why_not:
            refused[problem.key] = why_not
        else:
            for method in RELATIVE:
                say(f"{problem.key}, {method.key}", k / (len(chosen) + 3))
                rows.append(relative.trial(problem, method, reference, with_order=not quick))
            say(f"{problem.key}, forward dynamics", k / (len(chosen) + 3))
            tree = trees.beside_pinocchio(problem, 20 if quick else 60)
            forward += [tree] if tree else []
        if problem.bars is not None:
            for code, runner in runners.items():
                say(f"{problem.key}, {code}", k / (len(chosen) + 3))
                theirs = _other(problem, reference, code, runner, not quick)
                rows.append(theirs)
                if math.isfinite(theirs["error"]):
                    ours = [c for c in COMPARED if not (why_not and c.key.startswith("relative"))]
                    compared += [_at_equal_accuracy(problem, reference, theirs, c) for c in ours]
        if problem.key in curves_of:
            say(f"{problem.key}, error over cost", k / (len(chosen) + 3))
            points += work_precision.measure(problem, reference, runners, quick)
    say("chains of growing length", (len(chosen) + 0) / (len(chosen) + 3))
    grown = [chain_costs(CHAINS[:3] if quick else CHAINS, f) for f in GROWING]
    say("compilation from an empty cache", (len(chosen) + 1) / (len(chosen) + 3))
    compilation = {} if quick else compile_times()
    say("stabilisation of the slider-crank", (len(chosen) + 2) / (len(chosen) + 3))
    return {
        "rows": rows,
        "equal_accuracy": compared,
        "work_precision": points,
        "cheapest": work_precision.at_equal_accuracy(points),
        "refused": refused,
        "forward_dynamics": forward,
        "recursion": trees.growth(trees.LINKS[:3] if quick else trees.LINKS, 20 if quick else 100),
        "chains": grown,
        "compilation": compilation,
        "stabilisation": stabilisation(2.0 if quick else 10.0),
        "other_codes": other_codes.installed(),
        "pinocchio": trees.pinocchio_version(),
    }


# ---- beside other codes ----------------------------------------------------------------------------------------------


def _other(problem: Problem, reference: np.ndarray, code: str, runner: Any, with_order: bool) -> dict[str, Any]:
    bars = problem.bars
    row: dict[str, Any] = {"problem": problem.key, "formulation": code, "h": problem.h, "seconds": problem.seconds}
    row |= dict.fromkeys(("order", "phi", "phid", "energy", "iterations", "iterations_max", "capped"))
    try:
        found = min((runner(bars, problem.h, problem.bars_watched) for _ in range(3)), key=lambda o: o.seconds)
        row["error"] = distance(problem, found, reference)
        row["us_per_step"] = 1e6 * found.seconds / found.steps
        row["real_time_factor"] = problem.seconds / found.seconds
        if with_order:
            finer = distance(problem, runner(bars, problem.h / 2, problem.bars_watched), reference)
            row["order"] = math.log2(row["error"] / finer) if finer > 0 else None
    except Exception as failure:  # theirs to explain: a solver that gives up is a result, not our error
        row |= {"error": math.nan, "us_per_step": math.nan, "real_time_factor": math.nan}
        row["failed"] = f"{type(failure).__name__}: {failure}".split("\n")[0]
    return row


# how many steps we make for one of the other code, until we are as accurate
FINER = (
    0.2,
    0.25,
    0.3,
    0.4,
    0.5,
    0.6,
    0.75,
    1,
    1.25,
    1.5,
    1.75,
    2,
    2.5,
    3,
    3.5,
    4,
    5,
    6,
    7,
    8,
    10,
    12,
    14,
    16,
    20,
    24,
    28,
    32,
)


def _at_equal_accuracy(
    problem: Problem, reference: np.ndarray, theirs: dict[str, Any], contestant: Contestant
) -> dict[str, Any]:
    """Our coarsest step of those tried that is at least as accurate as the other code at its step; what both cost."""
    row = {
        "problem": problem.key,
        "code": theirs["formulation"],
        "their_h": theirs["h"],
        "their_error": theirs["error"],
        "their_cost": 1.0 / theirs["real_time_factor"],  # s of computing a simulated second
        "ours": contestant.key,
    }
    steps = round(problem.seconds / problem.h)
    for finer in FINER:
        if (steps * finer) % INSTANTS:
            continue
        h = problem.h / finer
        gap = error(problem, contestant.simulate(problem, h), reference)
        if gap <= theirs["error"]:
            cost = contestant.seconds(problem, h) / problem.seconds
            return row | {"our_h": h, "our_error": gap, "our_cost": cost, "times_quicker": row["their_cost"] / cost}
    return row | dict.fromkeys(("our_h", "our_error", "our_cost", "times_quicker"))  # not reached


# ---- growth, compilation ------------------------------------------------------------------------------


def chain_costs(counts: tuple[int, ...], formulation: Formulation = FORMULATIONS[0]) -> dict[str, Any]:
    """µs per step of a falling chain, and the exponent of its growth with the number of rods."""
    costs, iterations = [], []
    for count in counts:
        problem = catalogue.chain(count, 0.1, 0.1, 0.2, 1e-3)
        record = run(begin(problem, formulation.settings, problem.h), problem.seconds, problem.h, strict=False)
        iterations.append(float(record["iterations"].mean()))
        costs.append(1e6 * seconds_of(problem, formulation, problem.h) / round(problem.seconds / problem.h))
    return {
        "formulation": formulation.key,
        "rods": list(counts),
        "us_per_step": costs,
        "iterations": iterations,
        "exponent": _slope(counts, costs),
        "exponent_per_iteration": _slope(counts, np.array(costs) / np.array(iterations)),
    }


def _slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


_CHILD = """
import time
begin = time.perf_counter_ns()
from sync.compile.jit import compiling
with compiling("bench"):
    from tandem.multibody.natural.api import Mechanism, Scheme, Settings, run, start
    for scheme in (Scheme.I3AL, Scheme.BAUMGARTE, Scheme.PROJECTION, Scheme.LINEAR_IMPLICIT):
        m = Mechanism(2)
        m.bar("rod", m.point("A", [0, 0], fixed=True), m.point("B", [1, 0]), 1.0)
        run(start(m.compile(h=1e-3, settings=Settings(scheme=scheme)).state()), 2e-3)
        print((time.perf_counter_ns() - begin) / 1e9, time.process_time_ns() / 1e9)
"""


def compile_times() -> dict[str, dict[str, float]]:
    """Seconds (of the clock, of the processor) until a step is made: from an empty cache, then from the one that left.

    `i3al`: the core itself; `all`: the formulations for comparison too, which are compiled when one is first asked for.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = python_environment(XDG_CACHE_HOME=cache)
        environment.pop("TANDEM_CACHE", None)

        def once() -> list[list[float]]:
            done = subprocess.run(
                python_command("-c", _CHILD), env=environment, capture_output=True, text=True, check=False
            )
            lines = done.stdout.split("\n") if done.returncode == 0 else 4 * ["nan nan"]
            return [[float(x) for x in line.split()] for line in lines[:4]]

        cold, warm = once(), min(once(), once(), once())
    found = {}
    for name, k in (("i3al", 0), ("all", 3)):
        found[name] = {
            "cold_s": cold[k][0], "cold_processor_s": cold[k][1],
            "warm_s": warm[k][0], "warm_processor_s": warm[k][1],
        }  # fmt: skip
    return found


# ---- for people ------------------------------------------------------------------------------------------------------

HEADINGS = (
    "formulation",
    "h, ms",
    "error",
    "order",
    "|Φ|",
    "|dΦ/dt|",
    "energy",
    "iterations",
    "capped",
    "µs/step",
    "× real",
)


def cells(row: dict[str, Any]) -> list[str]:
    iterations = "–" if row["iterations"] is None else f"{row['iterations']:.2f}/{row['iterations_max']}"
    figures = [
        row["formulation"],
        f"{1e3 * row['h']:g}",
        _small(row["error"]) if "failed" not in row else "failed",
        "–" if row["order"] is None else f"{row['order']:.2f}",
        _small(row["phi"]),
        _small(row["phid"]),
        _small(row["energy"]),
        iterations,
        "–" if row["capped"] is None else str(row["capped"]),
        _plain_number(row["us_per_step"]),
        _plain_number(row["real_time_factor"]),
    ]
    return figures


def _small(value: Any) -> str:
    return "–" if value is None or not math.isfinite(value) else "0" if value == 0 else f"{value:.1e}"


def _plain_number(value: float) -> str:
    return f"{value:.3g}" if not math.isfinite(value) or value < 100 else f"{value:.0f}"


FORWARD = ("tree", "freedoms", "generated, µs", "Pinocchio, µs", "times ours", "largest difference")


def _other_tables(result: dict[str, Any]) -> list[Section]:
    found = []
    if result["cheapest"]:
        cheapest = [work_precision.cells(row) for row in result["cheapest"]]
        title = "The cheapest way to an accuracy; µs of computing a simulated second (+ changes of coordinates)"
        found.append(Section(title, [Table(work_precision.HEADINGS, cheapest)], key="cheapest"))
    if result["forward_dynamics"]:
        rows = []
        for row in result["forward_dynamics"]:
            theirs = ["–"] * 3
            if row["pinocchio_us"] is not None:
                theirs = [f"{row['pinocchio_us']:.2f}", f"{row['ratio']:.1f}", f"{row['difference']:.0e}"]
            rows.append([row["problem"], str(row["freedoms"]), f"{row['ours_us']:.3f}", *theirs])
        found.append(Section("Accelerations of trees; µs an evaluation", [Table(FORWARD, rows)], key="forward"))
    return found


EQUAL = ("problem", "code", "h, ms", "error", "s/s", "ours", "h, ms", "error", "s/s", "times quicker")


def equal_cells(row: dict[str, Any]) -> list[str]:
    theirs = [row["problem"], row["code"], f"{1e3 * row['their_h']:g}", _small(row["their_error"])]
    theirs += [f"{row['their_cost']:.1e}", row["ours"]]
    if row["our_h"] is None:
        return [*theirs, "–", "–", "–", "not reached"]
    ours = [f"{1e3 * row['our_h']:.3g}", _small(row["our_error"]), f"{row['our_cost']:.1e}"]
    return [*theirs, *ours, f"{row['times_quicker']:.2f}"]


def closing(result: dict[str, Any]) -> list[str]:
    lines = work_precision.verdicts(result["cheapest"])
    for grown in result["chains"]:
        costs = ", ".join(f"{n}: {us:.1f}" for n, us in zip(grown["rods"], grown["us_per_step"], strict=True))
        lines.append(
            f"chains, {grown['formulation']}, rods: µs per step: {costs}; grows like n^{grown['exponent']:.2f}"
            f" (per iteration n^{grown['exponent_per_iteration']:.2f})"
        )
    for kind in result["recursion"]:
        costs = ", ".join(f"{n}: {us:.2f}" for n, us in zip(kind["links"], kind["us"], strict=True))
        lines.append(
            f"articulated-body recursion, {kind['kind']}, links: µs an evaluation: {costs};"
            f" grows like n^{kind['exponent']:.3f}"
        )
    changed = [r for r in result["rows"] if r.get("partitions") and r["formulation"] == RELATIVE[0].key]
    for row in changed:
        lines.append(
            f"{row['problem']}: independent coordinates changed {row['partitions']} times, which is part of µs/step"
        )
    for problem, reason in result["refused"].items():
        lines.append(f"{problem}: not in relative coordinates: {reason}")
    for name, c in result["compilation"].items():
        which = {"i3al": "I3AL", "all": "all formulations"}[name]
        lines.append(
            f"imports, compilation and first steps, {which}: from an empty cache {c['cold_s']:.1f} s"
            f" ({c['cold_processor_s']:.1f} s of processor), from a full one {c['warm_s']:.2f} s"
            f" ({c['warm_processor_s']:.2f} s)"
        )
    return lines


def report(result: dict[str, Any]) -> Report:
    """The stabilisation picture first, then the tables."""
    found = [_stabilisation(result["stabilisation"])]
    problems = dict.fromkeys(p["problem"] for p in result["work_precision"])
    if problems:
        lead = (
            "Error over what a simulated second costs, a point a step: left and low is better. Time of relative"
            " coordinates is that of the steps; of the others, of a whole run."
        )
        charts = [_cost_chart(problem, result) for problem in problems]
        found.append(Section("Work and precision", charts, lead))
    for problem in dict.fromkeys(row["problem"] for row in result["rows"]):
        mine = [row for row in result["rows"] if row["problem"] == problem]
        lead = f"{mine[0]['coordinates']} coordinates, {mine[0]['constraints']} constraints, {mine[0]['seconds']:g} s."
        found.append(Section(problem, [Table(HEADINGS, [cells(row) for row in mine])], lead))
    if result["equal_accuracy"]:
        table = Table(EQUAL, [equal_cells(row) for row in result["equal_accuracy"]])
        lead = (
            "Our coarsest step (halving) that is at least as accurate as the other code at its own; s/s: seconds of"
            " computing a simulated second."
        )
        found.append(Section("Beside other codes, at equal accuracy", [table], lead, key="equal"))
    found += _other_tables(result)
    series = [
        Series(grown["formulation"], np.array(grown["rods"], float), np.array(grown["us_per_step"]))
        for grown in result["chains"]
    ]
    growth = curves("µs per step over the number of rods", series, x_label="")
    found.append(Section("Chains, and compilation", [*closing(result), growth], key="growth"))
    absent = [name for name in ("exudyn", "mujoco") if name not in result["other_codes"]]
    absent += [] if result["pinocchio"] else ["pin"]
    hint = f"not installed, so not compared: {', '.join(absent)} ({install_extra('compare')})"
    return Report("multibody formulations", _headline(result), result, found, [hint] if absent else [])


def _stabilisation(picture: dict[str, Any]) -> Section:
    t = np.array(picture["t"])

    def chart(key: str, title: str) -> Markup:
        series = [Series(c["label"], t, np.array(c[key], float)) for c in picture["curves"]]
        return curves(title, series, logarithmic=True, height=300)

    lead = (
        f"A slider-crank, left alone, steps of {1e3 * picture['h']:g} ms. Without stabilisation the accelerations are"
        " right but the loop opens; Baumgarte pulls it together again; projections and I3AL keep it closed."
    )
    charts = [
        chart("open_by", "distance of the slider from where the angle of the crank would have it, m"),
        chart("error", "distance of the slider from its true place, m"),
    ]
    return Section("Stabilisation of constraints", charts, lead, key="stabilisation")


def _cost_chart(problem: str, result: dict[str, Any]) -> Markup:
    series = []
    points = [p for p in result["work_precision"] if p["problem"] == problem]
    for method in dict.fromkeys(p["method"] for p in points):
        mine = sorted((p["us_per_second"], p["error"]) for p in points if p["method"] == method)
        costs, errors = np.array(mine).T
        series.append(Series(method, costs, errors))
    title = f"{problem}: error, m, over µs of computing a simulated second"
    return curves(title, series, x_label="µs", logarithmic=True, height=420, logarithmic_x=True)


def _headline(result: dict[str, Any]) -> str:
    ours = [r for r in result["rows"] if r["formulation"] == FORMULATIONS[0].key]
    worst = max(r["phi"] for r in ours)
    text = f"I3AL on {len(ours)} mechanisms: constraints kept to {worst:.0e} m after every step"
    orders = [r["order"] for r in ours if r["order"] is not None]
    if orders:
        text += f", orders {min(orders):.2f} to {max(orders):.2f}"
    quicker = [r for r in result["equal_accuracy"] if r["problem"] == "bricard" and r["times_quicker"]]
    quicker = [r for r in quicker if r["ours"] == FORMULATIONS[0].key]
    if quicker:
        listed = ", ".join(f"{r['times_quicker']:.2g} times as quick as {r['code']}" for r in quicker)
        text += f"; Bricard's linkage at equal accuracy {listed}"
    return text + "."


# ---- as a promise ----------------------------------------------------------------------------------------------------

OPEN_M = 1e-9  # constraints after a step of I3AL


def multibody_benchmark(
    *,
    small: Annotated[bool, "a few mechanisms, no orders, no compile times"] = False,
    report_in: Annotated[Path | None, "folder for report.html, with the pictures, and report.json"] = None,
) -> Iterator[Result]:
    result = measure(small, lambda what, share: note(f"{100 * share:.0f} %: {what}"))
    yield reported(report(result), report_in)
    ours = [row for row in result["rows"] if row["formulation"] == FORMULATIONS[0].key]
    yield at_most("I3AL: constraints after a step, largest", max(row["phi"] for row in ours), OPEN_M, "m")
    orders = [row["order"] for row in ours if row["order"] is not None]
    if orders:
        yield figure("I3AL: observed order", f"{min(orders):.2f} to {max(orders):.2f}")
    for formulation in UNROLLED:
        mine = {row["problem"]: row for row in result["rows"] if row["formulation"] == formulation.key}
        by_tables = {r["problem"]: r for r in result["rows"] if f"{r['formulation']}, unrolled" == formulation.key}
        alike = sum(row["same_bits"] for row in mine.values())
        yield equal(f"{formulation.key}: mechanisms with the bits of tables", alike, len(mine))
        gains = [by_tables[name]["us_per_step"] / row["us_per_step"] for name, row in mine.items()]
        yield figure(f"{formulation.key}: times quicker than by tables, median", float(np.median(gains)))
