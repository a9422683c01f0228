"""One problem, one formulation, one step: what came out, how far it was from the reference, what it cost.

Definitions, the same in every table. *Error*: largest distance of the watched node from the reference, over 51 instants
of the run. *Order*: log2 of the ratio of the errors of two runs whose steps differ by two, h/16 and h/32 for methods of
first and second order, with the iteration converged to the last digits (at the usual tolerance its remainder, some 1e-9
a step, shows at the finest steps). *Constraint drift*: largest |Φ| and |Φ̇| left after any step, m or rad. *Energy
drift*: largest |E − E₀|, J, from our own sum over the mass matrix and the weights, not the core's. *µs per step*:
processor time, the quickest of five runs, in one compiled loop; real time is a multiple of that.
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim_service.contract.machine import Tables
from tandem.mechanism.columns import energies
from tandem.multibody.natural import unrolling
from tandem.multibody.natural.api import Record, Scheme, Settings, State, run, start
from verify.multibody.problems import Problem

INSTANTS = 50


@dataclass(frozen=True)
class Formulation:
    key: str
    settings: Settings
    order_at: tuple[int, int]  # the order is observed between h/2^a and h/2^b
    order: float  # expected
    unrolled: bool = False  # its step by unrolled code: the same bits, so only time is measured again


HALVED_ORDER = 3.0  # or more, where the rule's own series has even powers only
FORMULATIONS = (
    Formulation("I3AL trapezoidal", Settings(), (4, 5), 2.0),
    Formulation("I3AL dissipative", Settings(xi=0.1), (4, 5), 1.0),
    Formulation("Baumgarte", Settings(scheme=Scheme.BAUMGARTE), (0, 1), 4.0),
    Formulation("projection", Settings(scheme=Scheme.PROJECTION), (0, 1), 4.0),
    Formulation("linear-implicit Euler", Settings(scheme=Scheme.LINEAR_IMPLICIT), (4, 5), 1.0),
    Formulation("I3AL generalised-alpha", Settings(rho=0.8), (4, 5), 2.0),
    Formulation("I3AL halved, extrapolated", Settings(scheme=Scheme.I3AL_HALVED), (0, 1), HALVED_ORDER),
)
UNROLLED = tuple(replace(FORMULATIONS[k], key=f"{FORMULATIONS[k].key}, unrolled", unrolled=True) for k in (0, 6))
CONVERGED: dict[str, Any] = {
    "tolerance": 1e-12, "tolerance_phi": 1e-13, "tolerance_velocity": 1e-12, "tolerance_acceleration": 1e-10,
    "passes": 10,
}  # fmt: skip


def begin(problem: Problem, settings: Settings, h: float) -> State:
    return start(problem.build().compile(h=h, settings=settings).state(), rates=problem.rates)


def simulate(problem: Problem, settings: Settings, h: float, share: float = 1.0) -> Record:
    """A run of `share` of the problem's time; the states of the instants, the diagnostics of every step."""
    steps = round(problem.seconds / h)
    every = max(1, steps // INSTANTS)
    return run(begin(problem, settings, h), share * problem.seconds, h, every=every, strict=False)


def instants(problem: Problem, share: float = 1.0) -> np.ndarray:
    return np.linspace(0.0, problem.seconds, INSTANTS + 1)[: round(share * INSTANTS) + 1]


def error(problem: Problem, record: Record, reference: np.ndarray) -> float:
    """nan if the run ended early or left the realm of numbers."""
    found = record[problem.watched]
    if len(found) < len(reference) or not np.all(np.isfinite(found)):
        return math.nan
    gap = (found[: len(reference)] - reference).reshape(len(reference), -1)
    return float(np.linalg.norm(gap, axis=1).max())


def observed_order(
    problem: Problem, settings: Settings, pair: tuple[int, int], reference: np.ndarray, share: float = 1.0
) -> float:
    settings = replace(settings, **CONVERGED)
    coarse, fine = (error(problem, simulate(problem, settings, problem.h / 2**k, share), reference) for k in pair)
    return math.log2(coarse / fine) / (pair[1] - pair[0]) if coarse > 0 and fine > 0 else math.nan


def with_unrolled_code(first: State) -> State:
    """The same state in a system with unrolled code (natural/unrolling.py), all of which is there."""
    system = first.system
    words = unrolling.Words(system.ints, system.reals)
    words.compile()
    assert words.complete
    tables = unrolling.with_code(Tables(system.ints, system.reals), 0, words.values)
    return State(replace(system, ints=tables.ints, reals=tables.floats), first.vector.copy())


def unrolled_alike(problem: Problem, formulation: Formulation, record: Record) -> bool:
    """Whether unrolled code makes the states of a record, bit by bit."""
    first, h = with_unrolled_code(begin(problem, formulation.settings, problem.h)), problem.h
    every = max(1, round(problem.seconds / h) // INSTANTS)
    found = run(first, problem.seconds, h, every=every, strict=False)
    return found.states.tobytes() == record.states.tobytes()


def seconds_of(problem: Problem, formulation: Formulation, h: float, repeats: int = 5) -> float:
    """Processor time of a whole run, the quickest of some."""
    first, best = begin(problem, formulation.settings, h), math.inf
    first = with_unrolled_code(first) if formulation.unrolled else first
    steps = round(problem.seconds / h)
    for _ in range(repeats):
        state = first.copy()
        then = time.thread_time_ns()
        run(state, problem.seconds, h, every=steps, diagnostics=False, strict=False)
        best = min(best, (time.thread_time_ns() - then) / 1e9)
    return best


def figures(
    problem: Problem, record: Record, reference: np.ndarray, order: float | None, expected: float, spent: float
) -> dict[str, Any]:
    """What a row says of a run with the problem's step, whatever its coordinates."""
    iterations = record["iterations"]
    return {
        "h": problem.h,
        "seconds": problem.seconds,
        "error": error(problem, record, reference),
        "order": order,
        "order_expected": expected if problem.smooth else None,
        "phi": float(record["phi_error"].max()),
        "phid": float(record["phid_error"].max()),
        "energy": float(np.abs(energies(record) - energies(record)[0]).max()) if problem.conservative else None,
        "iterations": float(iterations.mean()),
        "iterations_max": int(iterations.max()),
        "capped": int(record["capped"].sum()),
        "us_per_step": 1e6 * spent / round(problem.seconds / problem.h),
        "real_time_factor": problem.seconds / spent,
    }


def trial(problem: Problem, formulation: Formulation, reference: np.ndarray, with_order: bool = True) -> dict[str, Any]:
    """The row of a table."""
    h = problem.h
    record = simulate(problem, formulation.settings, h)
    order, alike = None, None
    if formulation.unrolled:
        alike = unrolled_alike(problem, formulation, record)
    elif with_order and problem.smooth:
        order = observed_order(problem, formulation.settings, formulation.order_at, reference)
    spent = seconds_of(problem, formulation, h)
    return {
        "problem": problem.key,
        "formulation": formulation.key,
        "coordinates": record.system.n,
        "constraints": record.system.m,
        **figures(problem, record, reference, order, formulation.order, spent),
        "same_bits": alike,
    }
