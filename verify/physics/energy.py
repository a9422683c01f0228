"""Energy of mechanisms that nothing does work on, in both formulations: `python -m verify energy`.

A point on a rod, a pendulum, a double pendulum, a four-bar, two four-bars in a row and Bricard's linkage run for 10 s
in steps of 5 ms, by the schemes of either formulation. Printed for each: how far the energy is off, as a share of what
moves (the largest kinetic energy), and the observed order: of the energy's error between 5 and 2.5 ms, and of the
coordinates at 0.6 s, with the iterations converged, between steps of 5, 2.5 and 1.25 ms ("rounding"
where these are too small to tell). What is refused is printed as the run prints it.

Ends with 1 if in some formulation neither the best scheme at 5 ms nor the same at 2.5 ms is within 1e-4, and the run is
not refused.

    --only NAME   one mechanism
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from tandem.mechanism.columns import energies, kinetic_energies
from tandem.multibody.natural.api import Mechanism, MechanismError, Record, Scheme, Settings, State, run
from tandem.multibody.relative.run import Runner
from verify.measure import Row, at_most, figure, holds
from verify.multibody import problems
from verify.multibody.problems import Problem
from verify.multibody.trial import CONVERGED, begin

SECONDS, STEP, MOST = 10.0, 5e-3, 1e-4
ORDER_AT = 0.6  # s: before the double pendulum becomes chaotic, and before the four-bars lie flat
NATURAL = {"i3al": Scheme.I3AL, "i3al_halved": Scheme.I3AL_HALVED, "projection": Scheme.PROJECTION}
RELATIVE = ("rodas4", "rodas3", "ros2", "trapezoidal", "rk4")
ROUNDING = 1e-10  # m, m/s


def point_on_a_rod() -> Problem:
    def build() -> Mechanism:
        m = Mechanism(2)
        A, B = m.point("A", [0, 0], fixed=True), m.point("B", [1, 0])
        m.particle("bob", B, 1.0)
        m.rod("rod", A, B)
        return m

    pendulum = problems.pendulum()
    return Problem("point on a rod", build, "B", pendulum.reference, SECONDS, STEP)


def mechanisms() -> list[Problem]:
    return [
        point_on_a_rod(),
        problems.pendulum(),
        problems.chain(2, 1.0, 1.0, SECONDS, STEP),
        problems.four_bar(),
        problems.n_four_bar(2, SECONDS, STEP),
        problems.bricard(),
    ]


class Trials:
    """Runs of one mechanism by one scheme."""

    def __init__(self, problem: Problem, formulation: str, scheme: str) -> None:
        self.problem, self.formulation, self.scheme = problem, formulation, scheme

    def record(self, seconds: float, h: float, **how: Any) -> Record:
        settings = Settings(scheme=NATURAL.get(self.scheme, Scheme.I3AL), **how)
        state: State = begin(self.problem, settings, h)
        if self.formulation == "natural":
            return run(state, seconds, h, strict=False)
        return Runner(state, self.scheme).run(seconds, h, strict=False)

    def share(self, h: float) -> float:
        record = self.record(SECONDS, h)
        if not record.finite or record.capped:
            return math.inf
        energy = energies(record)
        return float(np.abs(energy - energy[0]).max() / kinetic_energies(record).max())

    def order(self) -> str:
        """Of the coordinates and their rates."""
        ends = [self.record(ORDER_AT, STEP / k, **CONVERGED) for k in (1, 2, 4)]
        places = [np.concatenate([one.q[-1], one.qd[-1]]) for one in ends]
        coarse, fine = (float(np.abs(a - b).max()) for a, b in pairwise(places))
        return f"{math.log2(coarse / fine):.2f}" if fine > ROUNDING else "rounding"


def study(problem: Problem, formulation: str, schemes: tuple[str, ...]) -> Iterator[Row]:
    """The best scheme is good enough, at 5 ms or at half of that, or the mechanism is refused."""
    shares = {}
    for scheme in schemes:
        one, what = Trials(problem, formulation, scheme), f"{problem.key}, {formulation}, {scheme}"
        try:
            shares[scheme] = one.share(STEP)
        except MechanismError as error:
            yield holds(f"{problem.key}, {formulation}: refused", True, error)
            return
        half = one.share(STEP / 2)
        by_energy = f"{math.log2(shares[scheme] / half):.2f}" if half > 1e-13 else "rounding"
        yield figure(f"{what}: energy off at 5 ms", shares[scheme], "of what moves")
        yield figure(f"{what}: at 2.5 ms", half, "of what moves")
        yield figure(f"{what}: order of energy; of coordinates", f"{by_energy}; {one.order()}")
    best = min(shares, key=lambda scheme: shares[scheme])
    if shares[best] <= MOST:
        yield at_most(f"{problem.key}, {formulation}: best scheme at 5 ms ({best})", shares[best], MOST)
        return
    again = Trials(problem, formulation, best).share(STEP / 2)
    yield at_most(f"{problem.key}, {formulation}: best scheme at 2.5 ms ({best})", again, MOST)


def energy(*, only: Annotated[str | None, "one mechanism"] = None) -> Iterator[Row]:
    for problem in mechanisms():
        if only in (None, problem.key):
            yield from study(problem, "natural", tuple(NATURAL))
            yield from study(problem, "relative", RELATIVE)
