"""Runs of a mechanism in relative coordinates, from and to states of the natural ones.

`Runner(state, method)` makes the system of a natural state's mechanism; `run` advances that state and returns a record
of natural coordinates, so that whatever reads one (reports, pages, comparisons) reads the other. Multipliers are found
at the kept instants by natural coordinates: they are no part of this formulation.

Where the independent coordinates come near a position in which they no longer determine the others, others take their
place, with the state carried over (`partitions` counts the changes). That is done between two steps, in compiled code
(partitions.py); only a choice that was not met before is found here, from the largest pivots there, and its code
generated. A position in which no choice serves ends the run with a `MechanismError` that names its loops. All of one
run's time is in `steps_ns` but for the generation of code and what is kept.
"""

import math
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tandem.multibody.code.llvm import Compiled
from tandem.multibody.natural import tables as core
from tandem.multibody.natural.errors import DivergedError, MechanismError, NotConverged
from tandem.multibody.natural.problems import CHECKED, accelerations, freedoms
from tandem.multibody.natural.run import Record
from tandem.multibody.natural.system import State
from tandem.multibody.relative import integrators
from tandem.multibody.relative.build import build
from tandem.multibody.relative.conversion import from_natural
from tandem.multibody.relative.generate import Generated, Position
from tandem.multibody.relative.groups import pivots
from tandem.multibody.relative.kinematics import gradient, residuals, tree_pose
from tandem.multibody.relative.partitions import (
    AT_SINGULAR,
    BETTER,
    NEAR_SINGULAR,
    OPEN_GAP,
    UNKNOWN,
    Partitions,
    run_steps,
)
from tandem.multibody.relative.system import CLOSED, GOOD, System, make_system, natural_places, settle
from tandem.multibody.relative.system import P as Part
from tandem.multibody.relative.tree import Tree

METHODS = {
    "rodas4": integrators.rodas4_step, "rodas3": integrators.rodas3_step, "ros2": integrators.ros2_step,
    "linear_euler": integrators.linear_euler_step, "trapezoidal": integrators.trapezoidal_step,
    "rk4": integrators.rk4_step,
}  # fmt: skip
MOST_PARTITIONS = 1000  # of a run: more often it is no passing position
NATURAL = 'formulation = "natural"'
PASS_IT = f"{NATURAL} passes it; a shorter step is enough where the motion only comes near it"
LISTED = 4  # loops in a message
SMALLEST_SPAN = 1e-6  # m; a point on a rod of that size, 2 s at 5 ms: energy off by 9e-5 of what moves
RANK = 1e-9  # relative; conditions on velocities that are nearer to others than this follow from them
WEIGHTLESS = 1e-12  # share of what coordinates weigh


def _named(tree: Tree, rows: Sequence[int]) -> str:
    """Loops by their names; those of one point differ in the axis behind it."""
    names = list(dict.fromkeys(re.sub(r" \d$", "", tree.loops[k].name) for k in rows))
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def best_dependent(generated: Generated, J: np.ndarray) -> tuple[int, ...]:
    """Dependent coordinates by the largest pivots of the derivatives of the loops, group by group."""
    tree = generated.tree
    uses = [set(np.flatnonzero(np.abs(J[list(rows)]).max(axis=0) > 1e-9)) - set(tree.driven) for rows in tree.groups]
    used = [{int(k) for k in generated.dependent[rows[0] : rows[-1] + 1]} for rows in tree.groups]
    out: list[int] = []
    for i, rows in enumerate(tree.groups):
        others = set().union(*(uses[j] | used[j] for j in range(len(uses)) if j != i))
        private = sorted(int(k) for k in uses[i] - others)
        found, least = pivots(J[np.ix_(list(rows), private)])
        if least == 0.0:
            raise MechanismError(
                f"{_named(tree, rows)}: no choice of coordinates determines the others here: a singular position"
            )
        out += [private[k] for k in found]
    return tuple(out)


def _largest_change(
    groups: Sequence[Sequence[int]], dependent: Sequence[int], before: np.ndarray, after: np.ndarray
) -> float:
    """Of the determinant of a group of loops between two positions, as largest_change of partitions.py has it."""
    most = 0.0
    for rows in groups:
        own = np.ix_(list(rows), [dependent[k] for k in rows])
        (sign, size), (sign_before, size_before) = np.linalg.slogdet(after[own]), np.linalg.slogdet(before[own])
        most = max(most, math.expm1(min(abs(size - size_before), 600.0)) if sign == sign_before != 0.0 else math.inf)
    return most


def check_movable(state: State) -> None:
    """Refuses what has no equations of motion in these coordinates: motions without inertia, and a mechanism that is
    hardly larger than the gaps that its loops are closed to."""
    m = state.system.mechanism
    for name in m.impacts:
        raise MechanismError(
            f"impact {name}: is located in natural coordinates alone; take {NATURAL}, or leave impacts out"
        )
    if m.slips:
        J = state.jacobian()
        rows = J / np.maximum(np.linalg.norm(J, axis=1, keepdims=True), 1e-300)
        ranks = [np.linalg.matrix_rank(rows[:count], tol=RANK) for count in (state.system.held, len(J))]
        if ranks[1] - ranks[0] < len(m.slips):
            raise MechanismError(
                f"{', '.join(m.slips)}: of these conditions on velocities some follow from others, or from joints;"
                f" relative coordinates need all to hold something: leave those out that do not, or take {NATURAL}"
            )
    if 0.0 < m.span < SMALLEST_SPAN:
        raise MechanismError(
            f"the mechanism is {m.span:g} m large: loops are closed to {CLOSED:g} m, which is too coarse below"
            f" {SMALLEST_SPAN:g} m; draw it larger, or take {NATURAL}"
        )
    if state.system.n > CHECKED:
        return
    M = state.system.mass()
    size = np.sqrt(np.diag(M))
    size[size == 0.0] = 1.0
    # motions that the constraints leave, as shares of what each coordinate weighs: masses may differ by any factor
    N = np.linalg.qr(size[:, None] * freedoms(state))[0]
    values, vectors = np.linalg.eigh(N.T @ (M / np.outer(size, size)) @ N)
    if len(values) and values[0] < WEIGHTLESS:
        motion = N @ vectors[:, 0] / size
        column = int(np.argmax(np.abs(motion)))
        node = next(n for n in m.nodes.values() if column in n.columns)
        raise MechanismError(
            f"{node.kind} {node.name}: can move without mass or inertia, and has no equation of motion; give it a mass,"
            " and a body its inertia about every axis that it turns about, or fix it; where a spring holds it,"
            f" {NATURAL} will do"
        )


class Runner:
    """A natural state's mechanism in relative coordinates, at that state."""

    def __init__(self, state: State, method: str = "rodas4", built: tuple[Generated, Compiled] | None = None) -> None:
        """`built`: its functions, where they are there already (build.py)."""
        self.method = method
        check_movable(state)
        self._systems = [make_system(state.system.mechanism, built)]
        self._tried = [0.0]  # of every system the change of its determinants at which no better one was found
        self.restart(state)

    def restart(self, state: State, method: str | None = None) -> None:
        """Begin again at another state of the same mechanism, perhaps by another method; what was generated stays."""
        self.method = method or self.method
        self.natural, self.partitions = state, 0
        self.steps_ns = 0  # of the processor, spent in steps and changes of coordinates, without what is kept of them
        self._current = 0  # of the systems
        self._tables = Partitions(self._systems, METHODS[self.method])
        self._take_natural()

    @property
    def system(self) -> System:
        """The one that the state is in."""
        return self._systems[self._current]

    def _take_natural(self) -> None:
        """Take the natural state into the system's coordinates."""
        system = self.system
        tree, s = system.generated.tree, self.natural
        x, references = from_natural(tree, s.q, s.inputs[:, 0].copy())
        self.state = np.zeros(system.state_size)
        self._fill(x, references, self._velocities(x, references))
        settle(system.ints, system.reals, self.state, self._tables.work)
        self._old = self.state.copy()

    def _velocities(self, x: np.ndarray, references: dict[int, np.ndarray]) -> np.ndarray:
        """Velocities with the natural state's rates, that keep the loops closed while inputs move."""
        tree, s = self.system.generated.tree, self.natural
        pose = tree_pose(tree, x, s.inputs[:, 0], references)
        J, moved = self._loops(x, references, s.inputs)
        jacobian = np.vstack([*(gradient(form, pose) for form in tree.columns), J])
        return np.asarray(np.linalg.lstsq(jacobian, np.concatenate([s.qd, -moved]), rcond=1e-12)[0])

    def _loops(
        self, x: np.ndarray, references: dict[int, np.ndarray], inputs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the loops by velocity, and what moving inputs add to their rates."""
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

    def _changed(self, status: int, change: float) -> bool:
        """Whether the run can go on where no known coordinates serve well: with others, or with these as long as none
        are better; not where loops came open in too long a step."""
        begun, known = time.thread_time_ns(), len(self._systems)
        chosen = self._chosen(status, change)
        if chosen is None:
            return False
        if chosen == self._current:
            self._tried[chosen] = change
            self.steps_ns += time.thread_time_ns() - begun
            return True
        of = self.system
        places = (of.part(which, self.state) for which in (Part.X, Part.REF, Part.W, Part.INPUT))
        (of.part(Part.W, self.state)[:],) = of.code.call("velocities", *places, of.part(Part.D, of.reals))
        self._current = chosen
        self.partitions += 1
        tables, system = self._tables, self.system
        tables.scratch[:] = 0.0
        settle(system.ints, system.reals, self.state, tables.work)
        gap = float(np.abs(system.part(Part.H, tables.work)).max(initial=0.0))
        if len(self._systems) == known:
            self.steps_ns += time.thread_time_ns() - begun
        return gap < OPEN_GAP

    def _jacobian_at(self, vector: np.ndarray) -> tuple[Position, np.ndarray, float]:
        """Where a state is, the derivatives of the loops there, and how far these are from being closed."""
        system = self.system
        x, ref = (system.part(which, vector).copy() for which in (Part.X, Part.REF))
        inputs = system.part(Part.INPUT, vector).reshape(-1, 3)[:, 0].copy()
        references = {k: ref[4 * i : 4 * i + 4] for i, k in enumerate(system.generated.balls)}
        h, J = residuals(system.generated.tree.loops, tree_pose(system.generated.tree, x, inputs, references))
        return Position(x, ref, inputs), J, float(np.abs(h).max(initial=0.0))

    def _chosen(self, status: int, change: float) -> int | None:
        """The system with the coordinates that are best here; the present one where these are not much better; none
        where no choice serves and the loops are open: there the step was too long."""
        generated = self.system.generated
        at, J, gap = self._jacobian_at(self.state)
        groups, time_s = generated.tree.groups, float(self.system.part(Part.TIME, self.state)[0])
        try:
            dependent = best_dependent(generated, J)
        except MechanismError as error:
            if status == NEAR_SINGULAR and change < AT_SINGULAR:
                return self._current
            if gap > OPEN_GAP:
                return None
            raise MechanismError(f"{error}, at {time_s:g} s; {PASS_IT}") from None
        known = [system.generated.dependent for system in self._systems]
        if status == NEAR_SINGULAR:
            _, before, _ = self._jacobian_at(self._old)
            now, then = (_largest_change(groups, one, before, J) for one in (generated.dependent, dependent))
            if not then < BETTER * now:
                if change < AT_SINGULAR:
                    return self._current
                if gap > OPEN_GAP:
                    return None
                passed = [g for g in groups if _largest_change([g], dependent, before, J) >= AT_SINGULAR]
                names = _named(generated.tree, [k for g in passed for k in g])
                raise MechanismError(
                    f"{names}: at {time_s:g} s the step passes a singular position, in which no choice"
                    f" of coordinates determines the others; {PASS_IT}"
                )
        if dependent in known:
            return known.index(dependent)
        built = build(self.system.mechanism, tree=replace(generated.tree, dependent=dependent), at=at)
        self._systems.append(make_system(self.system.mechanism, built))
        self._tried.append(0.0)
        self._tables = Partitions(self._systems, METHODS[self.method])
        return len(known)

    def to_natural(self, system: System, vector: np.ndarray, into: State) -> None:
        """A state of a system's coordinates as one of natural ones; multipliers recomputed."""
        n = into.system.n
        q, qd, qdd = np.zeros(n), np.zeros(n), np.zeros(n)
        natural_places(system.ints, system.reals, vector, self._tables.work, q, qd, qdd)
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
                most_stored = (end - done) // stride + 1
                states, systems = np.zeros((most_stored, len(self.state))), np.zeros(most_stored, np.int64)
                begun = done if size == h else 0
                at = self._tables
                then = time.thread_time_ns()
                completed, status, more, self._current, changes, change = run_steps(
                    at.words, at.spans, at.ints, at.reals, at.layouts, at.settings, at.groups, at.alike, self._current,
                    self._old, self.state, at.work, at.scratch, at.before, size, end - done, stride, begun,
                    MOST_PARTITIONS - self.partitions, np.array(self._tried), states, systems, diagnosis[done:],
                )  # fmt: skip
                self.steps_ns += time.thread_time_ns() - then
                stored = (begun + completed) // stride - begun // stride
                first = (begun // stride + 1) * stride - 1 - begun + done
                pieces.append(self._converted(states[:stored], systems, diagnosis[first::stride]))
                done += completed
                capped += more
                self.partitions += changes
                finite = status == GOOD or (status in (UNKNOWN, NEAR_SINGULAR) and self._changed(status, change))
        if finite:
            self.to_natural(self.system, self.state, self.natural)
        errors = diagnosis[:done, core.STEP_ERROR]
        most = float(np.nanmax(errors)) if np.isfinite(errors).any() else math.nan
        # the sum of the estimates would be that of the lower order beside: no bound worth a word
        record = Record(self.natural.system, np.vstack(pieces), diagnosis[:done], done, finite, capped, math.nan, most)
        if strict and not finite:
            raise DivergedError(f"the run diverged after {done} steps, {done * h:g} s; try a smaller step", record)
        if strict and capped:
            warnings.warn(f"{capped} of {done} steps did not converge; try a smaller step", NotConverged, stacklevel=2)
        return record

    def _converted(self, states: np.ndarray, systems: np.ndarray, diagnosis: np.ndarray) -> np.ndarray:
        """Kept states as natural ones; how far constraints and their rates are from holding is looked at there."""
        out = np.zeros((len(states), self.natural.system.state_size))
        one = self.natural.copy()
        for k, vector in enumerate(states):
            self.to_natural(self._systems[systems[k]], vector, one)
            out[k] = one.vector
            diagnosis[k, core.PHI_ERROR] = max(diagnosis[k, core.PHI_ERROR], np.abs(one.phi()).max(initial=0.0))
            diagnosis[k, core.PHID_ERROR] = np.abs(one.phid()).max(initial=0.0)
        return out
