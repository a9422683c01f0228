"""Runs of a mechanism in relative coordinates, from and to states of the natural ones.

`Runner(state, method)` makes the system of a natural state's mechanism; `run` advances that state and returns a record
of natural coordinates, so that whatever reads one (reports, pages, comparisons) reads the other. Multipliers are found
at the kept instants by natural coordinates: they are no part of this formulation.

Where the independent coordinates come near a position in which they no longer determine the others, others take their
place, with the state carried over (`partitions` counts the changes); what they are is found anew from the largest
pivots there.
"""

import math
import time
import warnings
from dataclasses import replace

import numpy as np
from numba import float64, int64, types

from sim_service.multibody.natural import tables as core
from sim_service.multibody.natural.errors import AssemblyError, DivergedError, MechanismError, NotConverged
from sim_service.multibody.natural.problems import accelerations
from sim_service.multibody.natural.run import Record
from sim_service.multibody.natural.system import State
from sim_service.multibody.natural.views import part
from sim_service.multibody.relative import integrators, ode
from sim_service.multibody.relative.build import build
from sim_service.multibody.relative.conversion import from_natural
from sim_service.multibody.relative.generate import Generated, Position
from sim_service.multibody.relative.groups import pivots
from sim_service.multibody.relative.kinematics import gradient, residuals, tree_pose
from sim_service.multibody.relative.system import (
    CAPPED,
    FUNCTIONS,
    NOT_FINITE,
    OPEN,
    SINGULAR,
    System,
    advance,
    make_system,
    natural_places,
    rates,
    rates_and_jacobian,
    settle,
)
from sim_service.multibody.relative.system import P as Part
from sync.array_types import CONSTANTS, INDICES, VECTOR
from sync.jit import kernel

METHODS = {
    "rodas4": integrators.rodas4_step, "rodas3": integrators.rodas3_step, "ros2": integrators.ros2_step,
    "linear_euler": integrators.linear_euler_step, "trapezoidal": integrators.trapezoidal_step,
    "rk4": integrators.rk4_step,
}  # fmt: skip
OPEN_GAP = 1e-9  # m or rad
GOOD_PIVOT = 0.3  # of what it is where the coordinates were chosen: better ones are not looked for
MOST_PARTITIONS = 1000  # of a run: more often it is no passing position


@kernel(
    types.UniTuple(int64, 3)(
        *FUNCTIONS, INDICES, CONSTANTS, INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, float64, int64,
        int64, int64, float64[:, ::1], float64[:, ::1],
    ),
    error_model="numpy",
)  # fmt: skip
def run_steps(
    step, of_rates, of_both, layout, settings, ints, reals, state, work, scratch, h, steps, every, begun, states,
    diagnostics,
):  # fmt: skip
    """Steps until one does not end well; how many, how that one ended, and how many were capped.

    States are kept where the number of the step in the whole run (from `begun`) is a multiple of `every`.
    """
    capped = 0
    gaps = part(ints, work, Part.H)
    for s in range(steps):
        status = advance(step, of_rates, of_both, layout, settings, ints, reals, state, work, scratch, h)
        if status == NOT_FINITE:
            return s, status, capped
        if status == CAPPED:
            capped += 1
        gap = 0.0
        for i in range(len(gaps)):
            gap = max(gap, abs(gaps[i]))
        diagnostics[s, core.ITERATIONS] = scratch[ode.EVALUATIONS]
        diagnostics[s, core.PHI_ERROR] = gap
        diagnostics[s, core.CAPPED] = 1.0 if status in (CAPPED, OPEN) else 0.0
        diagnostics[s, core.FACTORISATIONS] = scratch[ode.FACTORISATIONS]
        diagnostics[s, core.ATTEMPTS] = 1.0
        diagnostics[s, core.STEP_ERROR] = scratch[ode.ERROR]
        if (begun + s + 1) % every == 0:
            kept = (begun + s + 1) // every - begun // every - 1
            for i in range(len(state)):
                states[kept, i] = state[i]
        if status in (OPEN, SINGULAR):
            return s + 1, status, capped
    return steps, 0, capped


def best_dependent(generated: Generated, J: np.ndarray) -> tuple[int, ...]:
    """Dependent coordinates by the largest pivots of the slopes of the loops, group by group."""
    tree = generated.tree
    uses = [set(np.flatnonzero(np.abs(J[list(rows)]).max(axis=0) > 1e-9)) - set(tree.driven) for rows in tree.groups]
    used = [{int(k) for k in generated.dependent[rows[0] : rows[-1] + 1]} for rows in tree.groups]
    out: list[int] = []
    for i, rows in enumerate(tree.groups):
        others = set().union(*(uses[j] | used[j] for j in range(len(uses)) if j != i))
        private = sorted(int(k) for k in uses[i] - others)
        found, least = pivots(J[np.ix_(list(rows), private)])
        if least == 0.0:
            names = ", ".join(tree.loops[r].name for r in rows)
            raise MechanismError(f"{names}: no choice of coordinates determines the others here: a singular position")
        out += [private[k] for k in found]
    return tuple(out)


class Runner:
    """A natural state's mechanism in relative coordinates, at that state."""

    def __init__(self, state: State, method: str = "rodas4") -> None:
        self.natural = state
        self.step = METHODS[method]
        self.method = method
        self.partitions = 0
        self.steps_ns = 0  # of the processor, spent in steps, without what is kept of them
        first = make_system(state.system.mechanism)
        self._systems = {first.generated.dependent: first}
        self._use(first)

    def restart(self, state: State, method: str | None = None) -> None:
        """Begin again at another state of the same mechanism, perhaps by another method; what was generated stays."""
        if method is not None:
            self.step, self.method = METHODS[method], method
        self.natural, self.partitions, self.steps_ns = state, 0, 0
        self._use(next(iter(self._systems.values())))

    def _use(self, system: System) -> None:
        """Take the natural state into this system's coordinates."""
        self.system = system
        tree, s = system.generated.tree, self.natural
        x, references = from_natural(tree, s.q, s.inputs[:, 0].copy())
        self.state = np.zeros(system.state_size)
        self._fill(x, references, self._velocities(x, references))
        self.work, self.scratch = system.work(), ode.make_scratch(system.layout)
        settle(system.ints, system.reals, self.state, self.work)

    def _velocities(self, x: np.ndarray, references: dict[int, np.ndarray]) -> np.ndarray:
        """Velocities with the natural state's rates, that keep the loops closed while inputs move."""
        tree, s = self.system.generated.tree, self.natural
        pose = tree_pose(tree, x, s.inputs[:, 0], references)
        J, moved = self._loops(x, references, s.inputs)
        slopes = np.vstack([*(gradient(form, pose) for form in tree.columns), J])
        return np.asarray(np.linalg.lstsq(slopes, np.concatenate([s.qd, -moved]), rcond=1e-12)[0])

    def _loops(
        self, x: np.ndarray, references: dict[int, np.ndarray], inputs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slopes of the loops by velocity, and what moving inputs add to their rates."""
        tree = self.system.generated.tree
        u, ud = inputs[:, 0], inputs[:, 1]
        _, J = residuals(tree.loops, tree_pose(tree, x, u, references))
        moved = np.zeros(len(J))
        if any(form.inputs for loop in tree.loops for form in loop.forms):
            dt = 1e-4
            ends = [residuals(tree.loops, tree_pose(tree, x, u + k * dt * ud, references))[0] for k in (1.0, -1.0)]
            moved = (ends[0] - ends[1]) / (2.0 * dt)
        return J, moved

    def _fill(self, x: np.ndarray, references: dict[int, np.ndarray], w: np.ndarray) -> None:
        system, s = self.system, self.natural
        system.part(Part.TIME, self.state)[0] = s.time
        system.part(Part.X, self.state)[:] = x
        for k, first in enumerate(system.generated.balls):
            system.part(Part.REF, self.state)[4 * k : 4 * k + 4] = references[first]
        system.part(Part.W, self.state)[:] = w
        system.part(Part.INPUT, self.state)[:] = s.inputs.ravel()

    def _repartitioned(self) -> bool:
        """Whether other independent coordinates could take over; not where loops came open in too long a step."""
        try:
            self._repartition()
        except (AssemblyError, MechanismError):
            return False
        return True

    def _repartition(self) -> None:
        """Other independent coordinates, those that serve best here. The state is laid out alike and stays.

        Only velocities that were dependent are missing in it: those that become independent are found from the loops.
        """
        self.partitions += 1
        old, state = self.system.generated, self.state
        x, w, ref, inputs = (self.system.part(which, state) for which in (Part.X, Part.W, Part.REF, Part.INPUT))
        d = self.system.part(Part.D, self.system.reals)
        (w[:],) = self.system.code.call("velocities", x, ref, w, inputs, d)
        self.system = self._known(x, ref, inputs) or self._chosen(old, x, ref, inputs.reshape(-1, 3))
        self.work, self.scratch = self.system.work(), ode.make_scratch(self.system.layout)
        settle(self.system.ints, self.system.reals, state, self.work)
        gap = float(np.abs(self.system.part(Part.H, self.work)).max(initial=0.0))
        if not gap < OPEN_GAP:
            raise AssemblyError(f"loops are open by {gap:g} m or rad after a step; try a smaller one")

    def _known(self, x: np.ndarray, ref: np.ndarray, inputs: np.ndarray) -> System | None:
        """Of the systems that were made before that with the largest pivots here, if they are good ones."""
        best, most = None, GOOD_PIVOT
        for system in self._systems.values():
            if system is not self.system:
                _, _, pivots = system.code.call("close", x, ref, inputs, system.part(Part.D, system.reals))
                least = float(np.abs(pivots / system.part(Part.PIVOT, system.reals)).min(initial=1.0))
                if least > most:
                    best, most = system, least
        return best

    def _chosen(self, old: Generated, x: np.ndarray, ref: np.ndarray, inputs: np.ndarray) -> System:
        """With the coordinates that are best here."""
        J, _ = self._loops(x, {k: ref[4 * i : 4 * i + 4] for i, k in enumerate(old.balls)}, inputs)
        dependent = best_dependent(old, J)
        if dependent not in self._systems:
            at = Position(x.copy(), ref.copy(), inputs[:, 0].copy())
            made = build(self.system.mechanism, tree=replace(old.tree, dependent=dependent), at=at)
            self._systems[dependent] = make_system(self.system.mechanism, made)
        return self._systems[dependent]

    def to_natural(self, vector: np.ndarray, into: State) -> None:
        """A state of relative coordinates as one of natural ones; multipliers found anew."""
        system = self.system
        n = into.system.n
        q, qd, qdd = np.zeros(n), np.zeros(n), np.zeros(n)
        natural_places(system.ints, system.reals, vector, self.work, q, qd, qdd)
        into.q[:], into.qd[:], into.qdd[:] = q, qd, qdd
        into.vector[into.system.span(core.P.TIME)] = system.part(Part.TIME, vector)
        into.inputs[:] = system.part(Part.INPUT, vector).reshape(-1, 3)
        accelerations(into)
        into.qdd[:] = qdd

    def run(self, seconds: float, h: float, every: int = 1, strict: bool = True) -> Record:
        """As `run` of natural coordinates: advances the natural state and keeps what happened."""
        whole = math.floor(seconds / h + 1e-6)
        rest = seconds - whole * h
        rest = rest if rest > 1e-6 * h else 0.0
        pieces = [self.natural.vector[None, :].copy()]
        diagnosis = np.zeros((whole + (rest > 0.0), len(core.DIAGNOSTICS)))
        done = capped = 0
        finite = True
        for size, steps in ((h, whole), (rest, 1 if rest else 0)):
            end = done + steps
            stride = every if size == h else (1 if (whole + 1) % every == 0 else 2)
            while done < end and finite:
                states = np.zeros(((end - done) // stride + 1, self.system.state_size))
                begun = done if size == h else 0
                system = self.system
                then = time.process_time_ns()
                made, status, more = run_steps(
                    self.step, rates, rates_and_jacobian, system.layout, system.settings, system.ints, system.reals,
                    self.state, self.work, self.scratch, size, end - done, stride, begun, states, diagnosis[done:],
                )  # fmt: skip
                self.steps_ns += time.process_time_ns() - then
                kept = (begun + made) // stride - begun // stride
                first = (begun // stride + 1) * stride - 1 - begun + done
                pieces.append(self._converted(states[:kept], diagnosis[first::stride]))
                done += made
                capped += more + (status == OPEN)
                finite = status != NOT_FINITE
                if status in (OPEN, SINGULAR) and done < end:
                    finite = self.partitions < MOST_PARTITIONS and self._repartitioned()
        if finite:
            self.to_natural(self.state, self.natural)
        errors = diagnosis[:done, core.STEP_ERROR]
        most = float(np.nanmax(errors)) if np.isfinite(errors).any() else math.nan
        # the sum of the estimates would be that of the lower order beside: no bound worth a word
        record = Record(self.natural.system, np.vstack(pieces), diagnosis[:done], done, finite, capped, math.nan, most)
        if strict and not finite:
            raise DivergedError(f"the run diverged after {done} steps, {done * h:g} s; try a smaller step", record)
        if strict and capped:
            warnings.warn(f"{capped} of {done} steps did not converge; try a smaller step", NotConverged, stacklevel=2)
        return record

    def _converted(self, states: np.ndarray, diagnosis: np.ndarray) -> np.ndarray:
        """Kept states as natural ones; how far constraints and their rates are from holding is looked at there."""
        out = np.zeros((len(states), self.natural.system.state_size))
        one = self.natural.copy()
        for k, vector in enumerate(states):
            self.to_natural(vector, one)
            out[k] = one.vector
            diagnosis[k, core.PHI_ERROR] = max(diagnosis[k, core.PHI_ERROR], np.abs(one.phi()).max(initial=0.0))
            diagnosis[k, core.PHID_ERROR] = np.abs(one.phid()).max(initial=0.0)
        return out
