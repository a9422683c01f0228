"""The problems in relative coordinates: every integrator of theirs, measured as trial.py measures natural coordinates.

One `Runner` serves all methods and repetitions of a problem: its machine code is generated once. Time is that of the
processor from the first step to the end of the last, the quickest of five runs. Where a linkage passes a position in
which the independent coordinates no longer determine the others, these are changed between two steps: that is part of
the time, and the number of changes a figure of its own (`partitions`). Code for every choice of coordinates was
generated in a run before.

An "iteration" of these rows is an evaluation of the equations; there is nothing else in a step that repeats.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tandem.multibody.natural.api import Record, Settings
from tandem.multibody.natural.errors import AssemblyError, MechanismError
from tandem.multibody.natural.system import State
from tandem.multibody.relative.run import METHODS, Runner
from verify.multibody.problems import Problem
from verify.multibody.trial import INSTANTS, begin, error, figures


@dataclass(frozen=True)
class Method:
    key: str
    name: str  # in METHODS
    order: float  # expected
    order_at: tuple[int, int]  # observed between h/2^a and h/2^b


# the orders of the quick methods show before round-off does
RELATIVE = (
    Method("relative RODAS4", "rodas4", 4.0, (0, 1)),
    Method("relative RODAS3", "rodas3", 3.0, (2, 3)),
    Method("relative ROS2", "ros2", 2.0, (3, 4)),
    Method("relative linear-implicit Euler", "linear_euler", 1.0, (5, 6)),
    Method("relative trapezoidal", "trapezoidal", 2.0, (3, 4)),
    Method("relative RK4", "rk4", 4.0, (0, 1)),
)


@dataclass(frozen=True)
class Prepared:
    """A problem's system, and the state it starts from."""

    runner: Runner
    first: State


@lru_cache(maxsize=1)  # problems come one after the other, and machine code is large
def _prepared(problem: Problem) -> Prepared:
    first = begin(problem, Settings(), problem.h)
    return Prepared(Runner(first.copy()), first)


def refused(problem: Problem) -> str:
    """Why relative coordinates cannot have this problem; empty if they can."""
    if problem.relative:
        try:
            _prepared(problem)
        except (AssemblyError, MechanismError) as failure:
            return str(failure).split("\n")[0]
        return ""
    return "its loops pass positions in which every choice of independent coordinates is singular"


def _run(problem: Problem, method: str, h: float, every: int) -> Record:
    setup = _prepared(problem)
    setup.runner.restart(setup.first.copy(), method)
    return setup.runner.run(problem.seconds, h, every=every, strict=False)


def simulate(problem: Problem, method: str, h: float) -> Record:
    """The states of the instants, the diagnostics of every step."""
    return _run(problem, method, h, max(1, round(problem.seconds / h) // INSTANTS))


def seconds_of(problem: Problem, method: str, h: float, repeats: int = 5) -> float:
    """Of the steps of a whole run and of what happens between them, the quickest of some."""
    runner, best = _prepared(problem).runner, math.inf
    for _ in range(repeats):
        _run(problem, method, h, round(problem.seconds / h))
        best = min(best, runner.steps_ns / 1e9)
    return best


def observed_order(problem: Problem, method: Method, reference: np.ndarray) -> float:
    coarse, fine = (
        error(problem, simulate(problem, method.name, problem.h / 2**k), reference) for k in method.order_at
    )
    return math.log2(coarse / fine) if coarse > 0 and fine > 0 else math.nan


def trial(problem: Problem, method: Method, reference: np.ndarray, with_order: bool = True) -> dict[str, Any]:
    """The row of a table, with the keys of a row of natural coordinates."""
    h = problem.h
    record = simulate(problem, method.name, h)
    runner = _prepared(problem).runner
    partitions = runner.partitions
    order = observed_order(problem, method, reference) if with_order and problem.smooth else None
    spent = seconds_of(problem, method.name, h)
    return {
        "problem": problem.key,
        "formulation": method.key,
        "coordinates": runner.system.generated.tree.n,
        "constraints": len(runner.system.generated.dependent),
        **figures(problem, record, reference, order, method.order, spent),
        "partitions": partitions,
    }


assert {m.name for m in RELATIVE} == set(METHODS)
