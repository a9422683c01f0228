"""The columns of a mechanism's record: what moved, which forces acted, how well each step was solved.

    NODE_x, NODE_x_rate, NODE_x_accel     points, vectors, scalars and named places, with both derivatives
    SPRING_force                          its tension; of what acts on a scalar, the force or torque on it
    FORCE_force_x, TORQUE_torque_x        of a force, a drag and a contact, and of a torque and a rotor, in world axes
    CONTACT_lost                          what its damping and friction have taken since the start
    JOINT_force_x, JOINT_torque_x         on the second body at the joint's place; of a rod its tension, JOINT_force
    BODY_NODE_force_x                     on a body at a point that it shares, or at the one by which it is fixed;
                                          what acts on that point itself is in it
    DRIVE_effort                          with which a drive makes its motion

Everything is added up term by term: a product of a library adds up in an order of its own on every machine, and a
record is made again to the bit. The first row is the start.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from tandem.multibody.natural.api import Record, System
from tandem.multibody.natural.reactions import Instants, forces_in_nodes, points_of
from tandem.multibody.natural.tables import (
    CONTACT,
    CONTACT_STATES,
    DRAG,
    FORCE_ON,
    ROTOR,
    SPRING,
    TORQUE_2D,
    TORQUE_3D,
    P,
)

Column = tuple[str, str, np.ndarray]  # name, unit, values over the kept instants
SOLVER = {"phi_error": "m", "phid_error": "m/s", "iterations": "1", "energy_residual": "J", "contraction": "1"}
MOST_COORDINATES = 600  # beyond, what bodies exert on each other in shared points is left out: the record is large
_UNITS = {"point": "m", "vector": "1"}
_DERIVATIVES = (("", ""), ("_rate", "/s"), ("_accel", "/s2"))


def motions(record: Record, turning: set[str]) -> list[Column]:
    """Time, and whatever moves."""
    found: list[Column] = [("time", "s", record.t)]
    mechanism = record.system.mechanism
    for name, form in {**mechanism.nodes, **mechanism.places}.items():
        if form.constant:
            continue  # fixed to the world
        unit = _UNITS.get(form.kind, "rad" if name in turning else "m")
        for derivative, (suffix, per) in enumerate(_DERIVATIVES):
            found += _spread(name, suffix, unit + per, record.values(form, derivative))
    return found


def columns(record: Record) -> list[Column]:
    turning = turning_scalars(record.system)
    found = motions(record, turning)
    seen = Instants(record, record.system.n <= MOST_COORDINATES)
    found += _elements(record, seen, turning)
    found += _joints(record)
    found += [
        (f"{drive}_effort", "N m" if of in turning else "N", -_lam(record, drive)) for drive, of in _drives(record)
    ]
    if record.system.n <= MOST_COORDINATES:
        found += _shared(seen)
    found += _solver(record)
    return found


def _spread(name: str, suffix: str, unit: str, values: np.ndarray) -> list[Column]:
    """A column for every component."""
    if values.ndim == 1 or values.shape[1] == 1:
        return [(f"{name}{suffix}", unit, values.reshape(len(values)))]
    return [(f"{name}_{axis}{suffix}", unit, values[:, k]) for k, axis in enumerate("xyz"[: values.shape[1]])]


def _loads(name: str, force: np.ndarray | None, torque: np.ndarray | None) -> Iterator[Column]:
    for what, unit, values in (("force", "N", force), ("torque", "N m", torque)):
        if values is not None:
            for column, _, component in _spread(f"{name}_{what}", "", unit, values):
                yield column, unit, component


def turning_scalars(system: System) -> set[str]:
    """Scalars that are angles: those of an angle between bodies, and spins."""
    mechanism = system.mechanism
    angles = {i for c in mechanism.constraints.values() if c.theta is not None for i in c.theta.terms}
    angles |= set(mechanism.rotors)
    return {n for n, node in mechanism.nodes.items() if node.kind == "scalar" and node.columns[0] in angles}


def _lam(record: Record, constraint: str) -> np.ndarray:
    return record.lam[:, record.system.rows(constraint)[0]]


def _drives(record: Record) -> Iterable[tuple[str, str]]:
    return record.system.mechanism.drives.items()


def _elements(record: Record, seen: Instants, turning: set[str]) -> Iterator[Column]:
    s = record.system
    column_of = {node.columns[0]: n for n, node in s.mechanism.nodes.items() if node.kind == "scalar" and node.columns}
    at, contacts = 0, 0
    for e in s.elements:
        x, f = (a[:, at : at + len(e.ports)] for a in (seen.x, seen.f))
        at += len(e.ports)
        if e.kind == SPRING:
            length = np.sqrt(_sum(x[:, i] * x[:, i] for i in range(x.shape[1])))
            tension = -_sum(f[:, i] * x[:, i] for i in range(x.shape[1])) / np.maximum(length, 1e-12)
            yield f"{e.name}_force", "N", tension
        elif e.kind in (TORQUE_2D, TORQUE_3D, ROTOR):
            yield from _loads(e.name, None, _moment(x, f, s.mechanism.dimension))
        elif len(e.ports) == 1:
            name = column_of.get(next(iter(e.ports[0].terms), -1), "")
            yield f"{e.name}_force", "N m" if name in turning else "N", f[:, 0]
        elif e.kind in (FORCE_ON, CONTACT, DRAG):
            yield from _loads(e.name, f, None)
        if e.kind == CONTACT:
            state = record.states[:, s.span(P.ELEMENT)]
            yield f"{e.name}_lost", "J", state[:, CONTACT_STATES * contacts]
            contacts += 1


def _moment(x: np.ndarray, f: np.ndarray, dimension: int) -> np.ndarray:
    """The torque of forces f on the basis vectors x of a body."""
    if dimension == 2:
        return _cross(x, f)
    total = np.zeros((len(x), 3))
    for k in range(0, 9, 3):
        total += _cross(x[:, k : k + 3], f[:, k : k + 3])
    return total


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row by row; of planar vectors one number."""
    if a.shape[1] == 2:
        return np.asarray(a[:, :1] * b[:, 1:] - a[:, 1:] * b[:, :1])
    pairs = ((1, 2), (2, 0), (0, 1))
    return np.stack([a[:, i] * b[:, j] - a[:, j] * b[:, i] for i, j in pairs], axis=1)


def _sum(terms: Iterable[np.ndarray]) -> np.ndarray:
    out: np.ndarray | float = 0.0
    for term in terms:
        out = out + term
    return np.asarray(out)


def _joints(record: Record) -> Iterator[Column]:
    """Minus multipliers times what each constraint of a joint acts along."""
    mechanism = record.system.mechanism
    forces: dict[str, np.ndarray] = {}
    torques: dict[str, np.ndarray] = {}
    for constraint, load in mechanism.loads.items():
        if constraint not in mechanism.constraints and constraint not in mechanism.slips:
            continue  # it tied fixed things to each other
        lam = _lam(record, constraint)[:, None]
        first = record.values(load.first).reshape(len(lam), -1)
        if load.axial:
            size = np.sqrt(_sum(first[:, i] * first[:, i] for i in range(first.shape[1])))
            yield f"{load.of}_force", "N", lam[:, 0] * size
        elif load.second is None:
            forces[load.of] = forces.get(load.of, 0.0) - lam * first
        else:
            second = record.values(load.second).reshape(len(lam), -1)
            torques[load.of] = torques.get(load.of, 0.0) - lam * _cross(first, second)
    for name in dict.fromkeys((*forces, *torques)):
        yield from _loads(name, forces.get(name), torques.get(name))


def _shared(seen: Instants) -> Iterator[Column]:
    """What the rest of the mechanism exerts on a body in a shared or fixed point."""
    mechanism = seen.record.system.mechanism
    users: dict[str, int] = {}
    for body in mechanism.bodies.values():
        for node in points_of(body):
            users[node.name] = users.get(node.name, 0) + 1
    for body in mechanism.bodies.values():
        points = points_of(body)
        fixed = [n for n in points if not n.columns]
        shared = [n for n in points if n.columns and users[n.name] > 1]
        # one that stands on places of others has its forces there, and not at nodes of its own
        if len(points) < sum(n.kind == "point" for n in body.nodes) or not (shared or len(fixed) == 1):
            continue
        found = forces_in_nodes(seen, body)
        for node in shared:
            yield from _loads(f"{body.name}_{node.name}", found.total[:, list(node.columns)], None)
        if len(fixed) == 1:
            yield from _loads(f"{body.name}_{fixed[0].name}", found.fixed, None)


def _solver(record: Record) -> Iterator[Column]:
    """The diagnostics of the step that led to each instant; the start was not led to, and has its own residuals."""
    start = record.state(0)
    first = {"phi_error": _largest(start.phi()), "phid_error": _largest(start.phid())}
    at = np.ceil((record.t[1:] - record.t[0]) / record.system.h - 1e-3).astype(int) - 1
    at = np.clip(at, 0, max(len(record.diagnostics) - 1, 0))
    for name, unit in SOLVER.items():
        yield name, unit, np.concatenate([[first.get(name, 0.0)], record[name][at]])


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0))


def kinetic_energies(record: Record) -> np.ndarray:
    """At the kept instants."""
    return np.asarray(0.5 * np.einsum("ti,ij,tj->t", record.qd, record.system.mass(), record.qd))


def energies(record: Record) -> np.ndarray:
    """Kinetic and potential energy at the kept instants."""
    system = record.system
    pull = np.zeros(system.n)
    for column, force in system.mechanism.weight.items():
        pull[column] = force
    total = kinetic_energies(record) - record.q @ pull
    for element in system.elements:
        if element.potential is not None:
            values = np.stack([record.values(port) for port in element.ports], axis=1)
            params = np.array(list(element.params.values()))
            total = total + np.array([element.potential(x, params) for x in values])
    return np.asarray(total)
