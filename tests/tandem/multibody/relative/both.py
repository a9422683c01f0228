"""A mechanism in both formulations at the same state, and how far they are apart.

A state is random: independent coordinates, velocities, inputs with their rates, time (for laws); loops are closed from
it. `natural` is the state of the first formulation with the coordinates and rates that `places` gives.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tandem.multibody.code.llvm import Compiled, Function, compiled
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.forces import MODEL
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.natural.problems import accelerations, effort, energy
from tandem.multibody.natural.system import State, System
from tandem.multibody.natural.tables import EXTERNAL
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.relative.generate import Generated, generate
from tandem.multibody.relative.kinematics import gibbs_product
from tests.tandem.multibody.relative.test_tree import mechanism

CLOSED = 1e-12  # m, rad; a loop
SINGULAR = 0.05  # of what a pivot of the loops is in the assembled mechanism: below, other coordinates are independent
STEP = 1e-30  # of the complex step


@dataclass(frozen=True)
class At:
    """A state in the coordinates of the tree."""

    x: np.ndarray
    ref: np.ndarray
    w: np.ndarray
    u: np.ndarray  # inputs: value, rate, second derivative of each
    time: float


class Both:
    """Generated functions are interpreted, which for few states takes less than to compile them.

    Code is the graph to the bit (test_llvm.py).
    """

    def __init__(self, m: Mechanism, system: System | None = None, compile: bool = False) -> None:
        self.m = m
        self.made: Generated = generate(m)
        self.tree = self.made.tree
        self.code: Compiled | None = None
        self.d = np.zeros(0)
        if compile:
            self.code = compiled([f for f in self.made.functions if f.name != "derivatives"])
        self.d = self.called("prepare", p=self.made.parameters)["d"]
        has_model = any(e.kind == MODEL for e in m.elements.values())
        if has_model and system is None:
            raise MechanismError("a mechanism with forces of a model needs its system")
        self.system = system or m.compile(1e-3)
        self.independent = list(self.made.independent)
        self.dependent = list(self.made.dependent)
        self.balls = list(self.made.balls)

    # states

    def state(self, rng: np.random.Generator, reach: float = 1.0, speed: float = 3.0) -> At:
        """A random one, as far from the drawing as the loops allow: tried ever nearer."""
        kinds = self.tree.kinds
        for trial in range(60):
            near = reach * 0.85**trial
            u, time = self.inputs(rng, min(near, 0.1))
            x = self.tree.assembled.copy()
            for k in self.independent:
                x[k] += rng.uniform(-1.0, 1.0) * near * {"turn": 2.0, "ball": 1.0}.get(kinds[k], 0.5)
            ref = self.references(rng, near)
            x, off = self.close(x, ref, u)
            if off > CLOSED:
                continue
            if np.any(np.abs(self.pivots(x, ref, u)) < SINGULAR * np.abs(self._pivots_assembled)):
                continue
            w = np.zeros(self.tree.n)
            w[self.independent] = rng.uniform(-speed, speed, len(self.independent))
            return self._without_slip(At(x, ref, w, u.ravel(), time))
        raise AssertionError("loops do not close near the drawing")

    def _without_slip(self, at: At) -> At:
        """The nearest velocities that what rolls may have."""
        if self.m.slips:
            rates = [self.places(replace(at, w=e, u=0 * at.u), np.zeros(self.tree.n))[1] for e in np.eye(self.tree.n)]
            q = self.places(at, np.zeros(self.tree.n))[0]
            J = self.natural(at, q, 0 * q).jacobian()[self.system.held :] @ np.transpose(rates)[:, self.independent]
            at.w[self.independent] -= np.linalg.pinv(J) @ (J @ at.w[self.independent])
        return at

    def inputs(self, rng: np.random.Generator, size: float) -> tuple[np.ndarray, float]:
        """Those set from outside at random, the others by their laws."""
        state = self.system.state()
        state.time = float(rng.uniform(0.0, 3.0))
        for i in self.m.inputs.values():
            if i.kind == EXTERNAL:
                state.inputs[i.index] = self.tree.start[i.index] + size * rng.uniform(-1, 1), *rng.uniform(-2, 2, 2)
        state.evaluate()
        return state.inputs.copy(), state.time

    def references(self, rng: np.random.Generator, near: float) -> np.ndarray:
        """Any way round where a ball is free in all three directions and in no loop, else near the drawing."""
        out = []
        for k in self.balls:
            size = 20.0 if k == 0 else near
            out.append(gibbs_product(np.array([1.0, 0.0, 0.0, 0.0]), size * rng.uniform(-1.0, 1.0, 3)))
        return np.concatenate([np.zeros(0), *out])

    def follow(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Driven coordinates where the inputs have them."""
        x = np.array(x)
        for k in self.made.driven:
            form = self.tree.driven[k]
            x[k] = form.const + sum(c * u[3 * i] for i, c in form.inputs.items())
        return x

    def close(self, x: np.ndarray, ref: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, float]:
        x = self.follow(x, u.ravel())
        for _ in range(40):
            try:
                with np.errstate(all="ignore"):
                    new = self.called("close", x=x, ref=ref, u=u.ravel())["new"]
            except (ArithmeticError, ValueError):  # no way on from here
                return x, np.inf
            step = new - x[self.dependent]
            if not np.all(np.isfinite(step)):
                return x, np.inf
            longest = np.abs(step).max(initial=0.0)
            x[self.dependent] += step * min(1.0, 0.5 / (longest + 1e-300))
            if longest < 1e-14:
                break
        return x, float(np.abs(self.called("close", x=x, ref=ref, u=u.ravel())["h"]).max(initial=0.0))

    def pivots(self, x: np.ndarray, ref: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.called("close", x=x, ref=ref, u=u.ravel())["pivots"]

    @functools.cached_property
    def _pivots_assembled(self) -> np.ndarray:
        u = np.zeros((len(self.m.inputs), 3))
        u[:, 0] = self.tree.start
        return self.pivots(self.tree.assembled, np.tile([1.0, 0.0, 0.0, 0.0], len(self.balls)), u)

    # the second formulation

    def forces(self, at: At) -> np.ndarray:
        return np.zeros(len(self.made.ports))

    def motion(self, at: At, f: np.ndarray) -> dict[str, np.ndarray]:
        return self.called("motion", x=at.x, ref=at.ref, w=at.w, u=at.u, f=f)

    def places(self, at: At, full: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(self.called("places", x=at.x, ref=at.ref, w=at.w, u=at.u, full=full).values())

    # the first

    def natural(self, at: At, q: np.ndarray, qd: np.ndarray) -> State:
        state = self.system.state()
        state.time = at.time
        state.q[:], state.qd[:] = q, qd
        state.inputs[:] = at.u.reshape(-1, 3)
        state.evaluate()
        return state

    def differences(self, at: At) -> dict[str, float]:
        """By what: the largest, relative to the largest number of its kind."""
        f = self.forces(at)
        motion = self.motion(at, f)
        q, qd, qdd = self.places(at, motion["full"])
        state = self.natural(at, q, qd)
        out = {
            "position": float(np.abs(state.phi()).max(initial=0.0)),
            "velocity": float(np.abs(state.phid()).max(initial=0.0)) / (1.0 + float(np.abs(qd).max(initial=0.0))),
        }
        accelerations(state)
        out["acceleration"] = apart(qdd, state.qdd)
        if "ports" in motion:
            work = state.evaluate()
            at_model = len(self.system.part(Part.X, work)) - len(f)
            out["ports"] = apart(motion["ports"], self.system.part(Part.X, work)[at_model:])
            out["port rates"] = apart(motion["rates"], self.system.part(Part.XD, work)[at_model:])
            out["port forces"] = apart(f, self.system.part(Part.PORT_FORCE, work)[at_model:])
        for k, driven in zip(self.made.driven, motion["effort"], strict=True):
            found, name = driven, self.tree.drives[k]
            row = self.system.rows(name)[0]
            as_solved = -float(state.lam[row])
            lam = self.multipliers(state)
            if name in self.m.drives:
                assert as_solved == effort(state, name)
            elif found * as_solved < 0.0:  # what only holds a guide may count the other way
                found = -found
            out["effort"] = max(out.get("effort", 0.0), abs(found + lam[row]) / max(abs(lam[row]), 1.0))
            off = abs(found - as_solved) / max(float(np.abs(lam).max()), 1.0)
            out["effort as solved"] = max(out.get("effort as solved", 0.0), off)
        if "energy" in self.names:
            kinetic, potential = self.called("energy", x=at.x, ref=at.ref, w=at.w, u=at.u).values()
            other = energy(state)
            out["kinetic"] = abs(kinetic[0] - other.kinetic) / max(other.kinetic, 1e-3)
            zero = self._potential_offset
            out["potential"] = abs(potential[0] - other.potential - zero) / max(abs(other.potential), abs(zero), 1.0)
        if "reactions" in self.names and not self._redundant(state):
            multipliers = self.multipliers(state)
            given = {"x": at.x, "ref": at.ref, "w": at.w, "u": at.u, "full": motion["full"], "f": f}
            (lam,) = self.called("reactions", **given).values()
            rows = {c.name: k for k, c in enumerate(self.system.constraints)}
            pairs = [(a, multipliers[rows[loop.name]]) for a, loop in zip(lam, self.tree.loops, strict=True)
                     if loop.name in rows]  # fmt: skip
            if pairs:
                out["reactions"] = apart(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
        return out

    def multipliers(self, state: State) -> np.ndarray:
        """Of the accelerations that were found: without what rounding of a stiff penalty leaves in those solved for."""
        J = state.jacobian()
        return np.asarray(np.linalg.lstsq(J.T, state.forces() - self.system.mass() @ state.qdd, rcond=1e-12)[0])

    @functools.cached_property
    def _potential_offset(self) -> float:
        """The zero of the potential is free: what both say where the mechanism is assembled."""
        u = np.zeros((len(self.m.inputs), 3))
        u[:, 0] = self.tree.start
        ref = np.tile([1.0, 0.0, 0.0, 0.0], len(self.balls))
        at = At(self.tree.assembled, ref, np.zeros(self.tree.n), u.ravel(), 0.0)
        q, qd, _ = self.places(at, np.zeros(self.tree.n))
        potential = self.called("energy", x=at.x, ref=at.ref, w=at.w, u=at.u)["potential"]
        return float(potential[0]) - energy(self.natural(at, q, qd)).potential

    def _redundant(self, state: State) -> bool:
        J = state.jacobian()
        return len(J) > 0 and np.linalg.matrix_rank(J, 1e-9) < len(J)

    # evaluation

    @property
    def names(self) -> set[str]:
        return {f.name for f in self.made.functions}

    def called(self, name: str, **given: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs of a function for real numbers."""
        f = self.function(name)
        if self.code is None:
            return self.evaluated(name, **given)
        arrays = {"d": self.d, **given}
        out = self.code.call(name, *(arrays[key] for key in f.inputs))
        return dict(zip(f.outputs, out, strict=True))

    def function(self, name: str) -> Function:
        return next(f for f in self.made.functions if f.name == name)

    def evaluated(self, name: str, **given: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs of a function by `Graph.evaluate`, with any numbers."""
        f = self.function(name)
        outputs = [e for array in f.outputs.values() for e in array]
        numbers = {key: np.asarray(values).tolist() for key, values in {"d": self.d, **given}.items()}
        flat = f.graph.evaluate(outputs, numbers) if outputs else np.zeros(0)
        out, k = {}, 0
        for array, exprs in f.outputs.items():
            out[array], k = flat[k : k + len(exprs)], k + len(exprs)
        return out

    def closed(self, x: np.ndarray, ref: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Newton's method on the loops in complex numbers: three corrections of one that is closed but for STEP."""
        x = self.follow(x, u)
        for _ in range(3 if self.dependent else 0):
            x[self.dependent] = self.evaluated("close", x=x, ref=ref, u=u)["new"]
        return x

    def moved(self, at: At, f: np.ndarray, dx: Any = None, dw: Any = None, du: Any = None, df: Any = None) -> Any:
        """Exact derivatives of everything in `motion` in a direction, the loops followed."""
        x, w, u = at.x.astype(complex), at.w.astype(complex), at.u.astype(complex)
        f = f.astype(complex)
        if dx is not None:
            x[self.independent] += 1j * STEP * np.asarray(dx)
        if dw is not None:
            w[self.independent] += 1j * STEP * np.asarray(dw)
        if du is not None:
            u += 1j * STEP * np.asarray(du)
        if df is not None:
            f += 1j * STEP * np.asarray(df)
        x = self.closed(x, at.ref, u)
        motion = self.evaluated("motion", x=x, ref=at.ref, w=w, u=u, f=f)
        places = self.evaluated("places", x=x, ref=at.ref, w=w, u=u, full=motion["full"])
        return {name: values.imag / STEP for name, values in (motion | places).items()}


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    if not len(b):
        return 0.0
    return float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-3))


@functools.cache
def both(name: str) -> Both:
    return Both(mechanism(name))


def worst(one: Both, states: Sequence[At]) -> dict[str, float]:
    out: dict[str, float] = {}
    for at in states:
        for what, size in one.differences(at).items():
            out[what] = max(out.get(what, 0.0), size)
    return out
