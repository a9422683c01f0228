"""Runs: many steps in one compiled loop, with a record of states and diagnostics."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, types

from sim_service.multibody.natural.augmented import STEP, step
from sim_service.multibody.natural.linear import Linear
from sim_service.multibody.natural.settings import Scheme
from sim_service.multibody.natural.system import State, System
from sim_service.multibody.natural.tables import DIAGNOSTICS, HOOK, INTS, REALS, P
from sim_service.multibody.natural.views import part
from sync.array_types import CONSTANTS
from sync.jit import kernel


@kernel(
    int64(
        types.FunctionType(STEP), INTS, CONSTANTS, REALS, REALS, HOOK, float64, int64, int64, float64[:, ::1],
        float64[:, ::1],
    )
)  # fmt: skip
def run_steps(advance, ints, reals, state, work, hook, h, steps, every, states, diagnostics):
    """`steps` steps; every `every`-th state is kept, and the diagnostics of every step. Ends early when not finite."""
    out = part(ints, work, P.DIAGNOSTIC)
    q, qd = part(ints, state, P.Q), part(ints, state, P.QD)
    stored = 0
    for s in range(steps):
        advance(ints, reals, state, work, hook, h)
        if len(diagnostics) > 0:
            for i in range(len(out)):
                diagnostics[s, i] = out[i]
        if (s + 1) % every == 0 and stored < len(states):
            for i in range(len(state)):
                states[stored, i] = state[i]
            stored += 1
        total = 0.0
        for i in range(len(q)):
            total += q[i] + qd[i]
        if not np.isfinite(total):
            return s + 1
    return steps


def stepper(scheme: Scheme) -> Any:
    """The step of a scheme; all have one signature. Those for comparison are compiled when they are asked for."""
    if scheme == Scheme.I3AL:
        return step
    from sim_service.multibody.natural.comparison import compared_step

    return compared_step


@dataclass(frozen=True)
class Record:
    """What a run left: states at the kept instants (the first is the start) and the diagnostics of every step."""

    system: System
    states: np.ndarray  # kept x state_size
    diagnostics: np.ndarray  # steps x diagnostics
    steps: int

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
        return self.values(self.system.mechanism.nodes[name])

    def values(self, form: Linear, derivative: int = 0) -> np.ndarray:
        """A form over the kept instants, or its first or second derivative; a scalar one as a plain vector."""
        inputs = self.states[:, self.system.span(P.INPUT)].reshape(len(self.states), -1, 3)[:, :, derivative]
        out = (self.q, self.qd, self.qdd)[derivative] @ form.jacobian(self.system.n).T
        for j, c in form.inputs.items():
            out += inputs[:, j, None] * c
        if derivative == 0:
            out += form.const
        return np.asarray(out[:, 0] if form.dim == 1 else out)

    def state(self, k: int) -> State:
        """The k-th kept instant, to look at or to go on from."""
        return State(self.system, self.states[k].copy())


def run(state: State, seconds: float, h: float | None = None, every: int = 1, diagnostics: bool = True) -> Record:
    """Advance `state` by so many seconds in steps of h (the compiled one if not given) and keep what happened."""
    system = state.system
    h = system.h if h is None else h
    steps = round(seconds / h)
    states = np.zeros((steps // every, system.state_size))
    first = state.vector[None, :].copy()
    diagnosis = np.zeros((steps if diagnostics else 0, len(DIAGNOSTICS)))
    work: Any = system.work()
    advance = stepper(system.scheme)
    done = run_steps(
        advance, system.ints, system.reals, state.vector, work, system.hook, h, steps, every, states, diagnosis
    )
    return Record(system, np.vstack([first, states[: done // every]]), diagnosis[:done], done)
