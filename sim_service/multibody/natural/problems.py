"""What is solved before and beside a run: assembly, velocities, accelerations.

These are done once, densely, with numpy: least squares copes with redundant constraints and singular positions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim_service.multibody.natural import evaluation
from sim_service.multibody.natural.errors import AssemblyError
from sim_service.multibody.natural.system import State

CLOSED = 1e-12  # m, rad; how well the position problem is solved
MOST = 100


def _pins(state: State, names: Mapping[str, Any]) -> tuple[list[int], np.ndarray]:
    columns: list[int] = []
    values: list[float] = []
    for name, value in names.items():
        numbers = np.atleast_1d(np.asarray(value, float))
        start = state.system.column(name)
        columns += range(start, start + len(numbers))
        values += numbers.tolist()
    return columns, np.array(values)


def assemble(state: State, **given: Any) -> State:
    """The position problem: close the mechanism with the given nodes at the given values; others move least."""
    s = state.system
    columns, values = _pins(state, given)
    pick = np.eye(s.n)[columns]
    for _ in range(MOST):
        phi = np.concatenate([state.phi(), state.q[columns] - values])
        error = float(np.abs(phi).max()) if len(phi) else 0.0
        if error <= CLOSED:
            return state
        J = np.vstack([state.jacobian(), pick])
        dq = np.linalg.lstsq(J, -phi, rcond=1e-11)[0]
        longest = float(np.abs(dq).max())
        state.q += dq * min(1.0, 0.5 / longest) if longest > 0.0 else 0.0
        if longest < 1e-15:
            break
    phi = np.concatenate([state.phi(), state.q[columns] - values])
    if float(np.abs(phi).max()) <= 100 * CLOSED:
        return state
    worst = int(np.argmax(np.abs(phi)))
    name = s.constraints[worst].name if worst < s.m else "a given value"
    raise AssemblyError(f"the mechanism does not close: {name} is off by {phi[worst]:.3g}")


def velocities(state: State, **given: Any) -> State:
    """The velocity problem: velocities that fulfil the constraints with the given nodes at the given rates.

    Without given rates: the least change of the velocities there are.
    """
    columns, values = _pins(state, given)
    pick = np.eye(state.system.n)[columns]
    for _ in range(3):
        residual = np.concatenate([state.phid(), state.qd[columns] - values])
        state.qd += np.linalg.lstsq(np.vstack([state.jacobian(), pick]), -residual, rcond=1e-11)[0]
    residual = np.concatenate([state.phid(), state.qd[columns] - values])
    if len(residual) and float(np.abs(residual).max()) > 1e-9 * (1.0 + float(np.abs(state.qd).max())):
        raise AssemblyError(f"no velocities with {', '.join(given)} as given fulfil the constraints")
    return state


def accelerations(state: State) -> State:
    """The acceleration problem: accelerations and multipliers of a state whose position and velocity are consistent."""
    s = state.system
    evaluation.accelerate(s.ints, s.reals, state.vector, s.work(), s.hook)
    return state


def start(state: State, rates: Mapping[str, Any] | None = None, **given: Any) -> State:
    """A consistent beginning of a run: position with `given` nodes, velocity with `rates`, accelerations."""
    return accelerations(velocities(assemble(state, **given), **(rates or {})))
