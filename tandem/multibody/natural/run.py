"""Runs: many steps in one compiled loop, with a record of states and diagnostics.

A run ends where it was asked to: the last step is shorter where the duration is not a multiple of the step. One that
leaves the finite numbers raises, one with steps that did not converge warns, also where no diagnostics are kept;
`Record.ended` says it in words.
"""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import float64, int64, types

from sync.compile.array_types import CONSTANTS
from sync.compile.jit import kernel
from tandem.multibody.natural.augmented import STEP, step
from tandem.multibody.natural.errors import DivergedError, InaccurateSteps, NotConverged
from tandem.multibody.natural.impact_tables import COUNTS, EVENT
from tandem.multibody.natural.impacts import Meeting
from tandem.multibody.natural.limits import STEP as STEPS_S
from tandem.multibody.natural.limits import Range, number
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.settings import Scheme
from tandem.multibody.natural.system import State, System
from tandem.multibody.natural.tables import CAP, CAPPED, DIAGNOSTICS, HOOK, INTS, REALS, STEP_ERROR, P
from tandem.multibody.natural.views import part

INACCURATE = 0.05  # m, rad, or a share of a small mechanism: estimated error of a run that is worth a word
TOO_COARSE = 0.01  # the same of one step of halving: what it takes away is no longer small
UNCONVERGED, ERROR_SUM, ERROR_MOST = range(3)  # totals of a run
TOTALS = 3


@kernel(
    int64(
        types.FunctionType(STEP), INTS, CONSTANTS, REALS, REALS, HOOK, float64, int64, int64, float64[:, ::1],
        float64[:, ::1], REALS,
    )
)  # fmt: skip
def run_steps(advance, ints, reals, state, work, hook, h, steps, every, states, diagnostics, totals):
    """`steps` steps; every `every`-th state is kept, and the diagnostics of every step. Ends early when not finite.

    Steps that did not converge and error estimates are added to `totals`.
    """
    out = part(ints, work, P.DIAGNOSTIC)
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    stored = 0
    for s in range(steps):
        advance(ints, reals, state, work, hook, h)
        totals[UNCONVERGED] += out[CAPPED]
        totals[ERROR_SUM] += out[STEP_ERROR]
        totals[ERROR_MOST] = max(totals[ERROR_MOST], out[STEP_ERROR])
        if len(diagnostics) > 0:
            for i in range(len(out)):
                diagnostics[s, i] = out[i]
        if (s + 1) % every == 0 and stored < len(states):
            for i in range(len(state)):
                states[stored, i] = state[i]
            stored += 1
        total = 0.0
        for i in range(len(q)):
            total += q[i] + qd[i] + qdd[i]
        if not np.isfinite(total):
            return s + 1
    return steps


def stepper(scheme: Scheme) -> Any:
    """The step of a scheme; all have one signature. Those for comparison are compiled when they are asked for."""
    if scheme == Scheme.I3AL:
        return step
    if scheme == Scheme.I3AL_HALVED:
        from tandem.multibody.natural.halved_step import halved_step

        return halved_step
    from tandem.multibody.natural.comparison import compared_step

    return compared_step


def _with_impacts() -> Any:
    """The loop with impacts, compiled when it is asked for."""
    from tandem.multibody.natural.impact_kernel import run_impacts

    return run_impacts


@dataclass(frozen=True)
class Record:
    """What a run left: states at the kept instants (the first is the start) and the diagnostics of every step."""

    system: System
    states: np.ndarray  # kept x state_size
    diagnostics: np.ndarray  # steps x diagnostics
    steps: int
    finite: bool = True  # as far as it went
    capped: int = 0  # steps that did not converge
    error_sum: float = 0.0  # of the error estimates of all steps
    error_most: float = 0.0  # of one
    impacts: np.ndarray = field(default_factory=lambda: np.zeros((0, EVENT)))  # rows of impact_kernel.py
    counts: np.ndarray = field(default_factory=lambda: np.zeros(COUNTS))  # of the impacts

    @property
    def ended(self) -> str:
        """How the run went, in words; "finished" if there is nothing to say."""
        if not self.finite:
            return f"diverged after {self.steps} steps"
        if self.capped:
            return f"finished, but {self.capped} of {self.steps} steps did not converge"
        if self.drift > INACCURATE:
            return f"finished, but may be off by {self.drift:.2g} (m, rad; sum of the error estimates of its steps)"
        if self.system.scheme == Scheme.I3AL_HALVED and self.error_most > TOO_COARSE:
            return f"finished, but halving took away {self.error_most:.2g} (m, rad) in a step: too much to rely on"
        return "finished"

    @property
    def drift(self) -> float:
        """The error estimates of all steps together: m or rad, of a mechanism below 1 m a share of its size.

        Errors of a motion that goes to and fro cancel in part: it is a bound of the right size, not the error. Halving
        takes what it estimates away, and the schemes for comparison have no estimate: there it is not a number.
        """
        return self.error_sum if self.system.scheme == Scheme.I3AL else math.nan

    @property
    def t(self) -> np.ndarray:
        return self.states[:, self.system.span(P.TIME).start]

    @property
    def q(self) -> np.ndarray:
        return self.states[:, self.system.span(P.Q)]

    @property
    def qd(self) -> np.ndarray:
        return self.states[:, self.system.span(P.QD)]

    @property
    def qdd(self) -> np.ndarray:
        return self.states[:, self.system.span(P.QDD)]

    @property
    def lam(self) -> np.ndarray:
        return self.states[:, self.system.span(P.LAM)]

    def __getitem__(self, name: str) -> np.ndarray:
        """A diagnostic by name, over the steps; or the components of a node, over the kept instants."""
        if name in DIAGNOSTICS:
            return self.diagnostics[:, DIAGNOSTICS.index(name)]
        return self.values(self.system.mechanism.named(name))

    def values(self, form: Linear, derivative: int = 0) -> np.ndarray:
        """A form over the kept instants, or its first or second derivative; a scalar one as a plain vector."""
        inputs = self.states[:, self.system.span(P.INPUT)].reshape(len(self.states), -1, 3)[:, :, derivative]
        of = (self.q, self.qd, self.qdd)[derivative]
        out = np.zeros((len(of), form.dim))
        for i, c in form.terms.items():  # term by term: a library's product adds up in an order of its own
            out += of[:, i, None] * c
        for j, c in form.inputs.items():
            out += inputs[:, j, None] * c
        if derivative == 0:
            out += form.const
        return np.asarray(out[:, 0] if form.dim == 1 else out)

    def state(self, k: int) -> State:
        """The k-th kept instant, to look at or to go on from."""
        return State(self.system, self.states[k].copy())


def run(
    state: State,
    seconds: float,
    h: float | None = None,
    every: int = 1,
    diagnostics: bool = True,
    strict: bool = True,
) -> Record:
    """Advance `state` by so many seconds in steps of h (the compiled one if not given) and keep what happened.

    `strict`: a run that diverges raises `DivergedError` and one with steps that did not converge warns; otherwise
    the record alone says so.
    """
    system = state.system
    h = system.h if h is None else number("h, s", h, STEPS_S)
    seconds = number("seconds", seconds, Range(0.0))
    every = int(number("every", every, Range(1.0)))
    # whole steps, then what is left, if it is more than rounding
    whole = math.floor(seconds / h + 1e-6)
    rest = seconds - whole * h
    rest = rest if rest > 1e-6 * h else 0.0
    steps = whole + (rest > 0.0)
    states = np.zeros((steps // every, system.state_size))
    first = state.vector[None, :].copy()
    diagnosis = np.zeros((steps if diagnostics else 0, len(DIAGNOSTICS)))
    work: Any = system.work()
    fixed = stepper(system.scheme), system.ints, system.reals, state.vector, work, system.hook
    totals = np.zeros(TOTALS)
    meeting = Meeting(system) if system.mechanism.impacts else None
    loop, more = (run_steps, ()) if meeting is None else (_with_impacts(), meeting.tables)
    done = loop(*fixed, h, whole, every, states, diagnosis, totals, *more)
    if rest and done == whole:
        last = states[whole // every :] if steps % every == 0 else states[:0]
        done += loop(*fixed, rest, 1, 1, last, diagnosis[whole:], totals, *more)
    finite = bool(np.all(np.isfinite(state.vector)))
    summed = int(totals[UNCONVERGED]), float(totals[ERROR_SUM]), float(totals[ERROR_MOST])
    struck = () if meeting is None else (meeting.rows(), meeting.counts)
    stored = np.vstack([first, states[: done // every]])
    record = Record(system, stored, diagnosis[:done], done, finite, *summed, *struck)
    if strict and not finite:
        raise DivergedError(
            f"the run diverged after {done} of {steps} steps, {done * h:g} s; try a smaller step than {h:g} s", record
        )
    if strict and record.capped:
        warnings.warn(
            f"{record.capped} of {done} steps did not converge within {system.part(P.OPTION)[CAP]} iterations:"
            " their forces may be wrong; try a smaller step, or look at record['correction']",
            NotConverged,
            stacklevel=2,
        )
    elif strict and record.ended != "finished":
        warnings.warn(
            f"the run {record.ended}; up to {record.error_most:.2g} a step, though every step converged: {h:g} s is"
            " long for this motion; try a smaller step, or of I3AL scheme=Scheme.I3AL_HALVED",
            InaccurateSteps,
            stacklevel=2,
        )
    return record
