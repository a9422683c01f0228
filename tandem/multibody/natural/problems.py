"""Solved before and beside a run: assembly, velocities, accelerations, equilibrium. Read from a state: efforts, energy.

These are done once, densely, with numpy: least squares copes with redundant constraints and singular positions.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.multibody.natural import evaluation
from tandem.multibody.natural.equations import Constraint, Equations
from tandem.multibody.natural.errors import AssemblyError, LockedMechanism, MechanismError
from tandem.multibody.natural.forces import MODEL, REACTION
from tandem.multibody.natural.system import State
from tandem.multibody.natural.tables import CONTACT, CONTACT_STATES, TORQUE_2D, TORQUE_3D, P

CLOSED = 1e-12  # m, rad; how well the position problem is solved
MOST = 100
BALANCED = 1e-9  # relative; unbalanced force of an equilibrium
REACH = 0.5  # m, rad; longest correction of a coordinate
CHECKED = 600  # coordinates; beyond, freedoms are not counted unasked
RANK = 1e-9  # relative; singular values below are taken for redundant


# starting


def _pins(state: State, names: Mapping[str, Any]) -> tuple[list[int], np.ndarray]:
    columns: list[int] = []
    values: list[float] = []
    for name, value in names.items():
        start = state.system.column(name)
        numbers = state.system.components(name, value)
        columns += range(start, start + len(numbers))
        values += numbers.tolist()
    return columns, np.array(values)


def assemble(state: State, /, **pinned: Any) -> State:
    """The position problem: close the mechanism with the given nodes at the given values; others move least."""
    s = state.system
    columns, values = _pins(state, pinned)
    pick = np.eye(s.n)[columns]
    for _ in range(MOST):
        phi = np.concatenate([state.phi()[: s.held], state.q[columns] - values])
        if not len(phi) or float(np.abs(phi).max()) <= CLOSED:
            return state
        dq = np.linalg.lstsq(np.vstack([state.jacobian()[: s.held], pick]), -phi, rcond=1e-11)[0]
        longest = float(np.abs(dq).max())
        if longest < 1e-15:
            break
        state.q += dq * min(1.0, REACH / longest)
    phi = np.concatenate([state.phi()[: s.held], state.q[columns] - values])
    worst = int(np.argmax(np.abs(phi)))
    if abs(phi[worst]) <= 100 * CLOSED:
        return state
    name = s.constraints[worst].name if worst < s.held else "a given value"
    raise AssemblyError(f"the mechanism does not close: {name} is off by {phi[worst]:.3g}")


def velocities(state: State, /, **pinned: Any) -> State:
    """The velocity problem: velocities that fulfil the constraints with the given nodes at the given rates.

    Without given rates: the least change of the velocities there are.
    """
    columns, values = _pins(state, pinned)
    pick = np.eye(state.system.n)[columns]
    for _ in range(3):
        residual = np.concatenate([state.phid(), state.qd[columns] - values])
        state.qd += np.linalg.lstsq(np.vstack([state.jacobian(), pick]), -residual, rcond=1e-11)[0]
    residual = np.concatenate([state.phid(), state.qd[columns] - values])
    if len(residual) and float(np.abs(residual).max()) > 1e-9 * (1.0 + float(np.abs(state.qd).max())):
        raise AssemblyError(f"no velocities with {', '.join(pinned) or 'these inputs'} as given fulfil the constraints")
    return state


def accelerations(state: State) -> State:
    """The acceleration problem: accelerations and multipliers of a state whose position and velocity are consistent."""
    s, work = state.system, state.system.work()
    evaluation.accelerate(s.ints, s.reals, state.vector, work, s.hook)
    for at in _contact_states(state).values():
        state.elements[at + 1] = s.part(P.ELEMENT_NEXT, work)[at + 1]  # the power that the first step begins with
    return state


def start(state: State, rates: Mapping[str, Any] | None = None, **pinned: Any) -> State:
    """A consistent beginning of a run: position with `pinned` nodes, velocity with `rates`, accelerations."""
    accelerations(velocities(assemble(state, **pinned), **(rates or {})))
    if locked(state):
        s = state.system
        warnings.warn(
            f"no freedom is left: {s.m} constraints hold all {s.n} coordinates, and there is no drive",
            LockedMechanism,
            stacklevel=2,
        )
    return state


def locked(state: State) -> bool:
    """Whether the constraints leave no motion and no drive makes one; of a very large system it is not asked."""
    s = state.system
    return s.m >= s.n and s.n <= CHECKED and not _driven(s.mechanism) and freedoms(state).shape[1] == 0


def _driven(m: Equations) -> bool:
    """Whether an input moves something: a drive, or a rack or rod whose scalar is an input."""
    return any(_moved(c) for c in m.constraints.values())


def _moved(c: Constraint) -> bool:
    sides = (side for side in (c.residual, c.cosine) if side is not None)
    forms = [form for side in sides for _, a, b in side.products for form in (a, b)]
    return any(form.inputs for form in (*forms, c.theta) if form is not None)


def working(m: Equations) -> list[str]:
    """What does work that no potential counts, by name: drives, dampers, friction, scaled forces, torques on bodies."""
    found = [name for name, c in m.constraints.items() if _moved(c)]
    for e in m.elements.values():
        lossy = any(
            e.params.get(key, 0.0) for key in ("damping", "friction", "level", "viscous", "linear", "coefficient")
        )
        turning = e.kind in (TORQUE_2D, TORQUE_3D) and any(
            v for key, v in e.params.items() if not key.startswith("metric")
        )
        if lossy or turning or e.kind == MODEL or e.input >= 0:
            found.append(e.name.removesuffix(REACTION))
    return list(dict.fromkeys(found))


def redundant(state: State) -> int:
    """How many constraints follow from the others here, beyond those that the freedoms need."""
    return int(state.system.m - state.system.n + freedoms(state).shape[1])


def freedoms(state: State) -> np.ndarray:
    """An orthonormal basis of the motions that the constraints leave, n x dof."""
    s = state.system
    if s.m == 0:
        return np.eye(s.n)
    _, sizes, V = np.linalg.svd(state.jacobian())
    rank = int(np.sum(sizes > RANK * sizes[0]))
    return np.asarray(V[rank:].T)


def equilibrium(state: State, most: int = 300) -> State:
    """The static equilibrium near a state: Newton's method in the free directions, damped by the mass until it helps.

    Velocities and accelerations become zero (inputs are taken as standing); multipliers are those of rest.
    """
    s = state.system
    state.qd[:] = 0.0
    state.inputs[:, 1:] = 0.0
    assemble(state)
    M = s.mass()
    M += 1e-9 * np.trace(M) / s.n * np.eye(s.n)
    damping, last = 1.0, np.inf
    for _ in range(most):
        Q, J = state.forces(), state.jacobian()
        N = freedoms(state)
        state.lam[:] = np.linalg.lstsq(J.T, Q, rcond=RANK)[0] if s.m else 0.0
        force = N.T @ Q
        size = float(np.abs(force).max()) if len(force) else 0.0
        if size <= BALANCED * (1.0 + float(np.abs(Q).max())):
            state.qdd[:] = 0.0
            return state
        damping = max(damping * (0.2 if size < last else 4.0), 1e-8)
        last = size
        H = N.T @ (stiffness(state) + _curvature(state)) @ N
        values = np.linalg.eigvalsh(0.5 * (H + H.T))
        shift = max(0.0, -1.5 * float(values[0]))  # walk away from an unstable one
        A = H + (shift + damping * float(np.abs(values).max())) * np.eye(len(H))
        dq = N @ np.linalg.solve(A + 1e-300 * np.eye(len(A)), force)
        dq *= min(1.0, 0.2 * REACH / float(np.abs(dq).max()))
        state.q += dq
        assemble(state)
    raise AssemblyError(f"no equilibrium found; {size:.3g} N are left unbalanced")


def stiffness(state: State, step: float = 1e-6) -> np.ndarray:
    """K = -dQ/dq of the applied forces, by central differences: all of it, also what the tangent leaves out."""
    return _difference(state, state.q, step)


def damping(state: State, step: float = 1e-6) -> np.ndarray:
    """C = -dQ/dqd of the applied forces, by central differences."""
    return _difference(state, state.qd, step)


def _difference(state: State, vector: np.ndarray, step: float) -> np.ndarray:
    out = np.empty((state.system.n, state.system.n))
    for i in range(state.system.n):
        initial = vector[i]
        vector[i] = initial + step
        high = state.forces()
        vector[i] = initial - step
        out[:, i] = (state.forces() - high) / (2.0 * step)
        vector[i] = initial
    return out


def _curvature(state: State, step: float = 1e-4) -> np.ndarray:
    """sum_k lam_k Phi_k,qq: exact for all but angles, since their Jacobian is linear."""
    s = state.system
    out = np.zeros((s.n, s.n))
    for i in range(s.n if s.m else 0):
        initial = state.q[i]
        state.q[i] = initial + step
        high = state.jacobian().T @ state.lam
        state.q[i] = initial - step
        out[:, i] = (high - state.jacobian().T @ state.lam) / (2.0 * step)
        state.q[i] = initial
    return out


# reading


def effort(state: State, drive: str) -> float:
    """Inverse dynamics: the force or torque with which a drive makes its motion (accelerations must be consistent)."""
    if drive not in state.system.mechanism.drives:
        raise MechanismError(f"{drive}: no drive; there are {', '.join(state.system.mechanism.drives)}")
    return -float(state.lam[state.system.rows(drive)[0]])


def reaction(state: State, name: str) -> np.ndarray:
    """Generalised forces -Phi_q^T lam that the equations of a joint (or of a body) exert on the coordinates."""
    rows = state.system.rows(name)
    return np.asarray(-state.jacobian()[rows].T @ state.lam[rows])


def port_forces(state: State, element: str) -> np.ndarray:
    """Forces of an element on its ports: of a spring, the force on its far end; of a torsion spring, its torque."""
    s = state.system
    at = 0
    for e in s.elements:
        if e.name == element:
            return s.part(P.PORT_FORCE, state.evaluate())[at : at + len(e.ports)].copy()
        at += len(e.ports)
    raise MechanismError(f"{element}: no such force; there are {', '.join(e.name for e in s.elements)}")


def dissipated(state: State, contact: str) -> float:
    """Energy that damping and friction of a contact have taken since the start, J."""
    places = _contact_states(state)
    if contact not in places:
        raise MechanismError(f"{contact}: no contact; there are {', '.join(places) or 'none'}")
    return float(state.elements[places[contact]])


def _contact_states(state: State) -> dict[str, int]:
    contacts = [e.name for e in state.system.elements if e.kind == CONTACT]
    return {name: CONTACT_STATES * k for k, name in enumerate(contacts)}


@dataclass(frozen=True)
class BodyMotion:
    """A body at an instant, in world axes (in the plane turning is one number); force and torque are the resultants.

    The resultant force is mass times acceleration of the centre, the resultant torque the rate of the angular momentum
    about it. A bar on two points does not know its turning about its own axis: there it has none.
    """

    velocity: np.ndarray  # of its centre
    angular_velocity: np.ndarray
    acceleration: np.ndarray  # of its centre
    angular_acceleration: np.ndarray
    force: np.ndarray
    torque: np.ndarray


def body_motion(state: State, name: str) -> BodyMotion:
    body, d = state.system.mechanism.bodies[name], state.system.mechanism.dimension
    centre, acceleration = state.value(body.centre), state.second(body.centre)
    torque = np.zeros(3 if d == 3 else 1)
    for a, b, factor in body.moments:
        torque = torque + factor * _cross(state.value(a), state.second(b))
    torque = torque - body.mass * _cross(centre, acceleration)
    e, de, dde = (np.array([read(v) for v in body.basis]) for read in (state.value, state.rate, state.second))
    if d == 3 and len(e) == 2:  # the third direction is known where it has no coordinates
        e, de, dde = (
            np.vstack([e, np.cross(e[0], e[1])]),
            np.vstack([de, np.cross(de[0], e[1]) + np.cross(e[0], de[1])]),
            np.vstack([dde, np.cross(dde[0], e[1]) + 2.0 * np.cross(de[0], de[1]) + np.cross(e[0], dde[1])]),
        )
    if len(e) == 3:
        reciprocal = 0.5 * np.linalg.inv(e).T
        turning, change = (np.cross(reciprocal, x).sum(axis=0) for x in (de, dde))
    else:
        turning, change = (_cross(e[0], x[0]) / float(e[0] @ e[0]) for x in (de, dde))
    return BodyMotion(
        state.rate(body.centre), turning, acceleration, change, body.mass * acceleration, np.atleast_1d(torque)
    )  # fmt: skip


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.cross(a, b) if len(a) == 3 else np.array([a[0] * b[1] - a[1] * b[0]])


def angular_velocity(state: State, body: str) -> np.ndarray:
    """Of a body, in world axes; one number in the plane."""
    return _turning(state, body, [state.rate(e) for e in state.system.mechanism.bodies[body].basis])


def angular_acceleration(state: State, body: str) -> np.ndarray:
    """Of a body, in world axes; one number in the plane."""
    return _turning(state, body, [state.second(e) for e in state.system.mechanism.bodies[body].basis])


def _turning(state: State, name: str, change: list[np.ndarray]) -> np.ndarray:
    """1/2 sum e^k x change_k with the reciprocal basis."""
    body = state.system.mechanism.bodies[name]
    e = np.array([state.value(v) for v in body.basis])
    if state.system.mechanism.dimension == 2:
        return np.array([(e[0, 0] * change[0][1] - e[0, 1] * change[0][0]) / (e[0] @ e[0])])
    if len(e) < 3:
        raise MechanismError(f"body {name}: its turning about its axis is not defined; it has too few nodes")
    return np.asarray(0.5 * np.cross(body.metric @ e, np.array(change)).sum(axis=0))


@dataclass(frozen=True)
class Energy:
    kinetic: float
    potential: float  # gravity and the springs; model forces and scaled forces have none

    @property
    def total(self) -> float:
        return self.kinetic + self.potential


def energy(state: State) -> Energy:
    s = state.system
    work = state.evaluate()
    kinetic = 0.5 * float(state.qd @ s.mass() @ state.qd)
    potential = -float(s.part(P.CONSTANT_FORCE) @ state.q)
    x, params = s.part(P.X, work), s.part(P.PARAM)
    port = param = 0
    for e in s.elements:
        ends = port + len(e.ports), param + len(e.numbers)
        if e.kind != MODEL and e.potential is not None:
            potential += e.potential(x[port : ends[0]], params[param : ends[1]])
        port, param = ends
    return Energy(kinetic, potential)


def momentum(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Linear momentum, and angular momentum about the origin, of the bodies and particles (a rotor's spin apart)."""
    s = state.system
    d = s.mechanism.dimension
    linear, angular = np.zeros(d), np.zeros(3 if d == 3 else 1)
    for a, b, factor in s.mechanism.moments:
        r, v = state.value(a), state.rate(b)
        angular = angular + factor * (np.cross(r, v) if d == 3 else np.array([r[0] * v[1] - r[1] * v[0]]))
    for point, mass in s.mechanism.masses:
        linear = linear + mass * state.rate(point)
    return linear, angular
