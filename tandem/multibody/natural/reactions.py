"""What acts on a body in points that it shares with others, where no multiplier stands for it: by its own equations.

    R = M qdd + Phi_q^T lam - weight - loads        on the coordinates of its nodes

with its own share of the mass matrix and its own equations. Loads are forces and other constraints on places,
directions and turning of this body (`Linear.shares`). What acts on a shared point itself (a spring, a particle on
it) belongs to none of the bodies, and is part of what each of them feels there. Everything is added up term by term,
over all instants of a record at once: the same bits on any machine.
"""

import numpy as np

from tandem.multibody.natural.body import Body
from tandem.multibody.natural.equations import Constraint, Node, Slip
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.linear import Linear, Quadratic
from tandem.multibody.natural.run import Record
from tandem.multibody.natural.system import State
from tandem.multibody.natural.tables import DIAGNOSTICS, P
from tandem.multibody.portable import cos_sin, dot


class Instants:
    """A record with ports, port forces and Jacobian at every kept instant."""

    def __init__(self, record: Record, jacobian: bool = True):
        self.record = record
        s = record.system
        spans = [s.span(p) for p in (P.X, P.PORT_FORCE, P.JAC)]
        self.x, self.f, self.jac = (np.zeros((len(record.states), span.stop - span.start)) for span in spans)
        if not jacobian:
            self.jac = self.jac[:, :0]
        state = State(s, record.states[0].copy())
        for k, row in enumerate(record.states):
            state.vector[:] = row
            work = state.evaluate()
            self.x[k], self.f[k] = work[spans[0]], work[spans[1]]
            if jacobian:
                self.jac[k] = work[spans[2]]


def points_of(body: Body) -> list[Node]:
    return [n for n in body.nodes if isinstance(n, Node) and n.kind == "point"]


def joint_force(state: State, body: str, node: str) -> np.ndarray:
    """Force that the rest of the mechanism exerts on a body at one of its points or vectors."""
    m = state.system.mechanism
    if body not in m.bodies or m.nodes.get(node) is None:
        raise MechanismError(f"{body}, {node}: no such body or node")
    one = Record(state.system, state.vector[None, :].copy(), np.zeros((0, len(DIAGNOSTICS))), 0)
    found = forces_in_nodes(Instants(one), m.bodies[body])
    if m.nodes[node].columns:
        return np.asarray(found.total[0, list(m.nodes[node].columns)])
    held = [n.name for n in points_of(m.bodies[body]) if not n.columns]
    if held != [node]:
        raise MechanismError(
            f"{node}: {body} is held at {', '.join(held) or 'no fixed point'}; one alone has a known force"
        )
    return np.asarray(found.fixed[0])


class NodeForces:
    def __init__(self, total: np.ndarray, fixed: np.ndarray):
        self.total = total  # on every coordinate, over the instants
        self.fixed = fixed  # what is left for a point fixed to the world, if the body has one


def forces_in_nodes(seen: Instants, body: Body) -> NodeForces:
    record = seen.record
    s = record.system
    total = np.zeros((len(record.states), s.n))
    pushed = np.zeros((len(record.states), s.mechanism.dimension))  # all loads together
    for a, b, factor in body.moments:
        for i, ca in a.terms.items():
            for j, cb in b.terms.items():
                total[:, i] += factor * dot(ca, cb) * record.qdd[:, j]
    ptr, col = s.part(P.JAC_PTR), s.part(P.JAC_COL)
    for k, c in enumerate(s.constraints):
        lam = record.lam[:, k]
        if c.name in body.equations:
            for e in range(ptr[k], ptr[k + 1]):
                total[:, col[e]] += seen.jac[:, e] * lam
        else:
            for slope, form in _derivative(record, c, body.name):
                _load(total, pushed, form, body.name, -lam * slope)
    for i, share in body.centre.terms.items():
        total[:, i] -= body.mass * dot(share, s.mechanism.g)
    at = 0
    for element in s.elements:
        for port in element.ports:
            if body.name in port.shares:
                _load(total, pushed, port, body.name, seen.f[:, at])
            at += 1
    left = body.mass * (record.values(body.centre, 2) - s.mechanism.g) - pushed
    for node in points_of(body):
        if node.columns:
            left = left - total[:, list(node.columns)]
    return NodeForces(total, left)


def _load(total: np.ndarray, pushed: np.ndarray, form: Linear, body: str, force: np.ndarray) -> None:
    """A force on a scalar form, as far as it moves with the body."""
    terms, shift = form.shares[body]
    for i, c in terms.items():
        total[:, i] -= float(c[0]) * force
    for axis in range(pushed.shape[1]):
        if shift[0, axis]:
            pushed[:, axis] += float(shift[0, axis]) * force


def _derivative(record: Record, c: Constraint | Slip, body: str) -> list[tuple[np.ndarray, Linear]]:
    """Factors and forms whose motion with the body moves the constraint."""
    if isinstance(c, Slip):
        return [(factor * record.values(a), b) for factor, a, b in c.products if body in b.shares]
    if c.theta is None or c.cosine is None:
        return _products(record, c.residual, body)
    theta = record.values(c.theta)
    cosine, sine = np.empty_like(theta), np.empty_like(theta)
    cos_sin(theta, cosine, sine)
    found = [(sine * f, form) for f, form in _products(record, c.residual, body)]
    return found + [(-cosine * f, form) for f, form in _products(record, c.cosine, body)]


def _products(record: Record, equation: Quadratic, body: str) -> list[tuple[np.ndarray, Linear]]:
    out = []
    for factor, a, b in equation.products:
        for form, other in ((a, b), (b, a)):
            if body in form.shares:
                out.append((factor * record.values(other), form))
    return out
