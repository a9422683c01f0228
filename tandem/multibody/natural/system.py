"""A compiled mechanism and its states.

`System` is constant but for parameters, weights and settings. `State` is one instant of one run: everything that the
next step depends on, in one vector. It can be copied (a fork), saved and loaded; the same state steps to the same bits.
"""

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sync.compile import parts
from sync.compile.jit import kernel
from tandem.multibody.natural import evaluation, tables
from tandem.multibody.natural.equations import Constraint, Element, Equations, Slip
from tandem.multibody.natural.errors import MechanismError, StateError
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.pattern import Pattern
from tandem.multibody.natural.settings import Scheme, Settings, check_dissipation, checked_setting
from tandem.multibody.natural.tables import FORCE, P


@kernel(FORCE)
def no_force(t, h, x, xd, inputs, live, params, states, after, f, K, C):
    """The hook of a system without model forces."""


_OPTIONS = {"scheme": tables.SCHEME, "cap": tables.CAP, "passes": tables.PASSES, "retries": tables.RETRIES}
_PLACES = {
    "xi": tables.XI, "tolerance": tables.TOLERANCE, "tolerance_phi": tables.TOLERANCE_PHI,
    "tolerance_velocity": tables.TOLERANCE_VELOCITY, "tolerance_acceleration": tables.TOLERANCE_ACCELERATION,
    "refactor": tables.REFACTOR, "baumgarte_rate": tables.BAUMGARTE_RATE,
    "baumgarte_damping": tables.BAUMGARTE_DAMPING, "stabilisation": tables.STABILISATION, "rho": tables.RHO,
}  # fmt: skip


def option_values(settings: Settings) -> list[int]:
    """Settings that are whole numbers, as the kernels read them."""
    return [int(getattr(settings, name)) for name in sorted(_OPTIONS, key=_OPTIONS.__getitem__)]


def setting_values(settings: Settings) -> list[float]:
    """The others."""
    return [float(getattr(settings, name)) for name in sorted(_PLACES, key=_PLACES.__getitem__)]


@dataclass(frozen=True, repr=False)
class System:
    mechanism: Equations
    ints: np.ndarray
    reals: np.ndarray
    state_size: int
    work_size: int
    hook: Any
    h: float
    settings: Settings
    pattern: Pattern
    constraints: tuple[Constraint | Slip, ...]  # slips last
    elements: tuple[Element, ...]
    weights: np.ndarray  # of the constraints, as compiled

    def __repr__(self) -> str:
        return f"System({self.n} coordinates, {self.m} constraints, {len(self.elements)} forces)"

    # sizes and places

    @property
    def n(self) -> int:
        return self.mechanism.n

    @property
    def scheme(self) -> Scheme:
        return Scheme(int(self.part(P.OPTION)[tables.SCHEME]))

    @property
    def m(self) -> int:
        return len(self.constraints)

    @property
    def held(self) -> int:
        """Constraints of positions; those behind are of velocities alone."""
        return self.m - len(self.mechanism.slips)

    @property
    def q0(self) -> np.ndarray:
        return self.mechanism.q0

    def span(self, which: P) -> slice:
        """Where a part lies in its array."""
        return parts.span(self.ints, which)

    def part(self, which: P, array: np.ndarray | None = None) -> np.ndarray:
        """A view of a part: of `ints` or `reals`, or of the state or work vector given."""
        if array is None:
            array = self.ints if which < P.FORM_COEF else self.reals
        return array[self.span(which)]

    def work(self) -> np.ndarray:
        """Scratch for steps; one per thread. The hook's `live` in it is as it was compiled."""
        work = np.zeros(self.work_size)
        self.part(P.LIVE, work)[:] = np.concatenate([np.zeros(0), *(e.live for e in self.elements)])
        return work

    def components(self, name: str, value: Any) -> np.ndarray:
        """Numbers for a node, as many as it has."""
        numbers = np.atleast_1d(np.asarray(value, float))
        size = len(self.mechanism.nodes[name].columns)
        if numbers.shape != (size,) or not np.all(np.isfinite(numbers)):
            raise MechanismError(f"{name} = {value}: must be {size} finite number{'s' * (size > 1)}")
        return numbers

    def column(self, name: str) -> int:
        """The coordinate of a scalar, or the first one of a point or vector."""
        node = self.mechanism.nodes.get(name)
        if node is None or not node.columns:
            free = ", ".join(n for n, node in self.mechanism.nodes.items() if node.columns)
            raise MechanismError(f"{name}: no free node; there are {free}")
        return int(node.columns[0])

    def rows(self, name: str) -> list[int]:
        """Equations of a constraint, joint or body: the one named so, else those beginning with the name and a dot."""
        found = [k for k, c in enumerate(self.constraints) if c.name == name]
        found = found or [k for k, c in enumerate(self.constraints) if c.name.startswith(f"{name}.")]
        if not found:
            raise MechanismError(f"{name}: no constraint of that name")
        return found

    def parameter(self, element: str, name: str) -> int:
        """Place in `reals` of a parameter of a force, which may be changed between any two steps."""
        place: int = self.span(P.PARAM).start
        for e in self.elements:
            for key in e.params:
                if (e.name, key) == (element, name):
                    return place
                place += 1
            place += len(e.data)
        raise MechanismError(f"{element}.{name}: no such parameter")

    def input(self, name: str) -> slice:
        """Place in a state vector of value, rate and second derivative of an input."""
        if name not in self.mechanism.inputs:
            raise MechanismError(f"{name}: no such input; there are {', '.join(self.mechanism.inputs)}")
        start = self.span(P.INPUT).start + 3 * self.mechanism.inputs[name].index
        return slice(start, start + 3)

    def switch(self, name: str, on: bool) -> None:
        """Switch the equations of a joint off, or on again as compiled. Clear their multipliers when switching off."""
        weight = self.part(P.WEIGHT)
        for k in self.rows(name):
            weight[k] = self.weights[k] if on else 0.0

    def set(self, **settings: Any) -> None:
        """Change some settings between steps (not the penalty, which is compiled in); the others stay as they are."""
        for name, value in settings.items():
            if name not in _PLACES and name not in _OPTIONS:
                known = ", ".join((*_OPTIONS, *_PLACES))
                raise MechanismError(f"{name}: no setting that can change; there are {known}")
            if name == "rho" and (value < 1.0) != (self.settings.rho < 1.0):
                raise MechanismError(f"rho = {value}: generalised-alpha is switched on or off by compile alone")
        options, changed = self.part(P.OPTION).copy(), self.part(P.SETTING).copy()
        for name, value in settings.items():
            if name in _OPTIONS:
                options[_OPTIONS[name]] = int(checked_setting(name, value))
            else:
                changed[_PLACES[name]] = checked_setting(name, value)
        check_dissipation(int(options[tables.SCHEME]), float(changed[tables.RHO]), float(changed[tables.XI]))
        self.part(P.OPTION)[:], self.part(P.SETTING)[:] = options, changed

    def state(self) -> "State":
        """The position as drawn, at rest, at time 0, with the inputs of that time."""
        state = State(self, np.zeros(self.state_size))
        state.q[:] = self.q0
        for i in self.mechanism.inputs.values():
            state.inputs[i.index, 0] = i.law[0]
        state.evaluate()
        return state

    # dense pieces, for what is not done at every step

    def mass(self) -> np.ndarray:
        M = np.zeros((self.n, self.n))
        row, col = self.part(P.MASS_ROW), self.part(P.MASS_COL)
        M[row, col] = M[col, row] = self.part(P.MASS)
        return M

    def jacobian(self, q: np.ndarray, t: float = 0.0) -> np.ndarray:
        """Phi_q, m x n."""
        state = self.state()
        state.q[:], state.time = q, t
        return state.jacobian()

    def tangent_diagonal(self, q: np.ndarray) -> np.ndarray:
        """Diagonal of M + gamma h C + beta h^2 K, without negative entries."""
        state, h = self.state(), self.h
        state.q[:] = q
        work = self.work()
        weights = self.part(P.WEIGHT).copy()
        self.part(P.WEIGHT)[:] = 0.0
        evaluation.tangent(self.ints, self.reals, state.vector, work, self.hook, 0.25 * h * h, 0.5 * h)
        self.part(P.WEIGHT)[:] = weights
        A = self.part(P.FACTOR, work)
        return np.maximum([A[self.pattern.entry(i, i)] for i in range(self.n)], np.zeros(self.n))

    @property
    def fingerprint(self) -> str:
        """Of the tables; a saved state belongs to one."""
        # without what may change between steps: options, parameters, weights, settings
        fixed = self.ints[: self.span(P.OPTION).start].tobytes() + self.reals[: self.span(P.PARAM).start].tobytes()
        return hashlib.sha256(fixed).hexdigest()[:16]


class State:
    """One instant: time, q, qd, qdd, multipliers, element states, inputs. Attributes are views of `vector`."""

    def __init__(self, system: System, vector: np.ndarray) -> None:
        if vector.shape != (system.state_size,):
            raise StateError(f"a state of {vector.size} numbers for a system of {system.state_size}")
        self.system, self.vector = system, vector
        self._work: np.ndarray | None = None
        self.q = system.part(P.Q, vector)
        self.qd = system.part(P.QD, vector)
        self.qdd = system.part(P.QDD, vector)
        self.lam = system.part(P.LAM, vector)
        self.elements = system.part(P.ELEMENT, vector)
        self.inputs = system.part(P.INPUT, vector).reshape(-1, 3)

    @property
    def time(self) -> float:
        return float(self.system.part(P.TIME, self.vector)[0])

    @time.setter
    def time(self, t: float) -> None:
        self.system.part(P.TIME, self.vector)[0] = t

    def copy(self) -> "State":
        """A fork: steps of the one leave the other alone."""
        return State(self.system, self.vector.copy())

    def save(self, path: Path) -> None:
        with open(path, "wb") as file:
            np.savez(file, fingerprint=np.array(self.system.fingerprint), vector=self.vector)

    @staticmethod
    def load(system: System, path: Path) -> "State":
        try:
            with np.load(path) as saved:
                fingerprint, vector = str(saved["fingerprint"]), np.ascontiguousarray(saved["vector"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise StateError(f"{path}: no saved state: {error}") from None
        if fingerprint != system.fingerprint or vector.shape != (system.state_size,):
            raise StateError(f"{path}: was saved from another system")
        return State(system, vector)

    # values

    def __getitem__(self, name: str) -> np.ndarray:
        """Components of a node or named place."""
        return self.value(self.system.mechanism.named(name))

    def value(self, form: Linear) -> np.ndarray:
        return form.value(self.q, self.inputs[:, 0])

    def rate(self, form: Linear) -> np.ndarray:
        return form.rate(self.qd, self.inputs[:, 1])

    def second(self, form: Linear) -> np.ndarray:
        return form.rate(self.qdd, self.inputs[:, 2])

    def set_values(self, values: Mapping[str, Any], rates: bool = False) -> None:
        """Set coordinates (or their rates) of nodes by name, without closing the mechanism."""
        target = self.qd if rates else self.q
        for name, value in values.items():
            start = self.system.column(name)
            numbers = self.system.components(name, value)
            target[start : start + len(numbers)] = numbers

    # evaluation

    def evaluate(self) -> np.ndarray:
        """The work vector of this state: constraints, Jacobian, forces."""
        if self._work is None:
            self._work = self.system.work()
        s = self.system
        evaluation.evaluate(s.ints, s.reals, self.vector, self._work, s.hook)
        return self._work

    def phi(self) -> np.ndarray:
        return self.system.part(P.PHI, self.evaluate()).copy()

    def phid(self) -> np.ndarray:
        return self.system.part(P.RESIDUAL, self.evaluate()).copy()

    def forces(self) -> np.ndarray:
        """Generalised applied forces Q."""
        return self.system.part(P.FORCE, self.evaluate()).copy()

    def jacobian(self) -> np.ndarray:
        s, work = self.system, self.evaluate()
        J = np.zeros((s.m, s.n))
        ptr, col, values = s.part(P.JAC_PTR), s.part(P.JAC_COL), s.part(P.JAC, work)
        J[np.repeat(np.arange(s.m), np.diff(ptr)), col] = values
        return J
