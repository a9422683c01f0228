"""What a mechanism consists of, and its linear forms as forms of moving frames.

The builder's coordinates belong to nodes, and bodies share nodes. Here every body has a frame of its own: a node is
written in the frame of its owner, the first body that is built on it (or, if none is, a point body of its own).
`Linear.shares` says which part of a form moves with which body; that part is written in the frame of that body, so
that a force on a place acts on the body whose place it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tandem.multibody.natural.body import Body
from tandem.multibody.natural.equations import Constraint, Equations, Node, Slip
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.linear import Linear, Quadratic
from tandem.multibody.portable import dot, least_squares, norm, product
from tandem.multibody.relative.tree import WORLD, Equation, Form, Products, SlipEquation

SMALL = 1e-12  # relative; a coefficient that is rounding
INDEPENDENT = 1e-9  # relative; what is left of a column that depends on others


def in_space(vector: np.ndarray) -> np.ndarray:
    """A vector of the plane with its third component."""
    out = np.zeros(3)
    out[: len(vector)] = vector
    return out


@dataclass
class Part:
    """What becomes a body of the tree: a rigid body, or a point that no body is built on."""

    name: str
    body: Body | None
    at: np.ndarray  # (3) as drawn, origin of its frame
    line: np.ndarray | None = None  # unit vector as drawn, of a body in space whose nodes lie on one line
    mass: float = 0.0
    centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))

    @property
    def turns(self) -> bool:
        """Whether its frame shows every rotation of it."""
        return self.body is not None and self.line is None

    def add(self, mass: float, at: np.ndarray) -> None:
        """A mass at a point of it."""
        total = self.mass + mass
        if total == 0.0:
            return
        centre = (self.mass * self.centre + mass * at) / total
        for m, d in ((self.mass, self.centre - centre), (mass, at - centre)):
            self.inertia = self.inertia + m * (dot(d, d) * np.eye(3) - np.outer(d, d))
        self.mass, self.centre = total, centre


@dataclass
class Shared:
    """A point or direction that parts of a mechanism have in common."""

    name: str
    kind: str  # "point", "vector"
    form: Linear
    reference: np.ndarray  # (3)
    holders: list[int] = field(default_factory=list)  # the first is the one whose frame the form itself is in


@dataclass
class Parts:
    """Parts of a mechanism, what they share, and which node belongs to which."""

    m: Equations
    parts: list[Part]
    shared: list[Shared]
    owner: dict[int, tuple[int, str, np.ndarray, int]]  # column -> part, kind, node as drawn, component
    scalars: dict[int, Node]  # column -> scalar


def _key(form: Linear) -> tuple[object, ...]:
    """The same for equal forms, and for a vector and its negative."""
    items = [
        (i, *(float(v) for v in np.round(c, 10))) for i, c in sorted(form.terms.items()) if np.abs(c).max() > SMALL
    ]
    const = [float(v) for v in np.round(form.const, 10)]
    flat = [v for item in items for v in item[1:]] + const
    sign = next((1.0 if v > 0.0 else -1.0 for v in flat if v), 1.0) if form.kind == "vector" else 1.0
    return (form.kind, *((i, *(sign * v + 0.0 for v in c)) for i, *c in items), *(sign * v + 0.0 for v in const))


def find_parts(m: Equations) -> Parts:
    """Bodies in the order they were defined, then points that no body is built on."""
    parts, names = [], list(m.bodies)
    found: dict[tuple[object, ...], Shared] = {}
    for index, body in enumerate(m.bodies.values()):
        part = Part(body.name, body, in_space(body.reference_origin))
        if m.dimension == 3 and len(body.basis) == 1:
            axis = body.reference_basis[:, 0]
            part.line = axis / norm(axis)
        part.mass, part.centre = body.mass, in_space(m.where(body.centre))
        part.inertia = np.diag([0.0, 0.0, float(body.inertia)]) if m.dimension == 2 else np.asarray(body.inertia, float)
        parts.append(part)
        for form in body.nodes:
            key = _key(form)
            if key not in found:
                label = form.name if isinstance(form, Node) else f"{body.name}[{len(found)}]"
                found[key] = Shared(label, form.kind, form, in_space(m.where(form)), _carriers(form, names))
            if index not in found[key].holders:
                found[key].holders.append(index)
    owner: dict[int, tuple[int, str, np.ndarray, int]] = {}
    scalars = {}
    for node in m.nodes.values():
        if node.kind == "scalar":
            scalars[node.columns[0]] = node
        elif node.columns:
            key = _key(node)
            if key not in found:
                if node.kind == "vector":
                    raise MechanismError(
                        f"vector {node.name}: no body is built on it; in relative coordinates a free vector must be"
                        " one of a body: give it among the nodes of one, or make it fixed"
                    )
                reference = in_space(m.where(node))
                parts.append(Part(node.name, None, reference, centre=reference))
                found[key] = Shared(node.name, "point", node, reference, [len(parts) - 1])
            place = found[key]
            for k, column in enumerate(node.columns):
                owner[column] = place.holders[0], node.kind, in_space(m.where(node)), k
    out = Parts(m, parts, list(found.values()), owner, scalars)
    _add_masses(out)
    return out


def own_equations(m: Equations) -> set[str]:
    """Constraints that keep bodies rigid and vectors of unit length: frames keep themselves."""
    out = {name for body in m.bodies.values() for name in body.equations}
    return out | {f"{node.name}.unit" for node in m.nodes.values() if node.kind == "vector"}


def _carriers(form: Linear, names: Sequence[str]) -> list[int]:
    """Who has a form already: the world, or the body that it is a place of."""
    if form.constant:
        return [WORLD]
    if len(form.shares) == 1:
        ((name, (terms, _)),) = form.shares.items()
        same = set(terms) == set(form.terms) and all(
            np.allclose(terms[i], c, atol=SMALL) for i, c in form.terms.items()
        )
        if same and name in names:
            return [names.index(name)]
    return []


def _add_masses(parts: Parts) -> None:
    """Masses at points that are not those of the bodies themselves, and a check that all inertia is accounted for."""
    m = parts.m
    resolver = Resolver(parts, {i: Form(0.0, {}, {i: 1.0}) for i in parts.scalars})
    own = {id(body.centre) for body in m.bodies.values()}
    known: dict[tuple[int, int], float] = {}
    pairs = [pair for body in m.bodies.values() for pair in body.moments]
    for point, mass in m.masses:
        if id(point) in own:
            continue
        pairs.append((point, point, mass))
        if point.constant or mass == 0.0:
            continue
        forms = [resolver.form(c) for c in point]
        bodies = {b for form in forms for b in form.bodies}
        at = in_space(m.where(point))
        if len(bodies) != 1 or any(
            np.abs(form.bodies[b][0] - np.eye(3)[k]).max() > INDEPENDENT
            for b in bodies
            for k, form in enumerate(forms)
            if b in form.bodies
        ):
            raise MechanismError(
                f"mass of {mass:g} kg at {m.where(point).tolist()}: its point moves with more than one body; put it on"
                " a node, or on a place of one body"
            )
        parts.parts[bodies.pop()].add(mass, at)
    for a, b, factor in pairs:
        for i, x in a.terms.items():
            for j, y in b.terms.items():
                key = (max(i, j), min(i, j))
                known[key] = known.get(key, 0.0) + factor * dot(x, y) * (1.0 if i == j else 0.5)
    for (i, j), total in m.inertia.items():
        rest = total - known.get((i, j), 0.0)
        if abs(rest) > INDEPENDENT * (abs(total) + abs(known.get((i, j), 0.0))) and not (i == j and i in parts.scalars):
            raise MechanismError(
                f"inertia on coordinates {i} and {j} is not that of a body, of a mass at a point or of one scalar:"
                " relative coordinates have no place for it; give it by body(), particle() or scalar(inertia=...)"
            )
    if m.dimension == 2:
        for part in parts.parts:
            part.inertia = np.diag([0.0, 0.0, part.inertia[2, 2]])


class Resolver:
    """Forms of a mechanism in the frames of its parts, with `scalars` (column -> form) for its scalars."""

    def __init__(self, parts: Parts, scalars: Mapping[int, Form], index: Sequence[int] | None = None) -> None:
        self.parts, self.m, self.scalars = parts, parts.m, scalars
        self.index = list(range(len(parts.parts))) if index is None else list(index)  # part -> body of the tree
        self._numbers = {name: k for k, name in enumerate(parts.m.bodies)}
        self._q0 = parts.m.q0
        self._systems: dict[str, tuple[list[int], np.ndarray, list[int]]] = {}

    # places and directions of a part

    def place(self, part: int, reference: np.ndarray, axis: int) -> Form:
        """A component of the point of a part that is at `reference` as drawn."""
        if part == WORLD:
            return Form(float(reference[axis]))
        e, p = np.eye(3)[axis], self.parts.parts[part]
        arm = reference - p.at if p.body is not None else np.zeros(3)
        return Form(0.0, {self.index[part]: (e, np.outer(e, arm))})

    def along(self, part: int, reference: np.ndarray, axis: int) -> Form:
        """A component of the vector of a part that is `reference` as drawn."""
        if part == WORLD:
            return Form(float(reference[axis]))
        return Form(0.0, {self.index[part]: (np.zeros(3), np.outer(np.eye(3)[axis], reference))})

    # forms of the mechanism

    def form(self, linear: Linear) -> Form:
        """A scalar form; its constant is what makes it right as drawn."""
        q0 = self._q0
        bodies: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        coordinates: dict[int, float] = {}
        rest = {i: float(c[0]) for i, c in linear.terms.items()}
        shift = 0.0
        reference = 0.0  # of everything but the constant

        def put(part: int, S: np.ndarray, L: np.ndarray) -> None:
            nonlocal reference
            reference += dot(S, self.parts.parts[part].at) + float(np.trace(L))
            b = self.index[part]
            before = bodies.get(b, (np.zeros(3), np.zeros((3, 3))))
            bodies[b] = before[0] + S, before[1] + L

        for name, (terms, moved) in linear.shares.items():
            part = self._numbers[name]
            put(part, *self._share(part, {i: float(c[0]) for i, c in terms.items()}, moved[0]))
            for i, c in terms.items():
                rest[i] = rest.get(i, 0.0) - float(c[0])
        least = SMALL * max([1.0, *(abs(float(c[0])) for c in linear.terms.values())])
        for i, factor in rest.items():
            if abs(factor) <= least:
                continue
            if i in self.parts.scalars:
                form = self.scalars[i]
                shift += factor * form.const
                reference += factor * float(q0[i])
                for k, f in form.coordinates.items():
                    coordinates[k] = coordinates.get(k, 0.0) + factor * f
                continue
            part, kind, node, axis = self.parts.owner[i]
            here = (self.place if kind == "point" else self.along)(part, node, axis)
            ((S, L),) = here.bodies.values()
            put(part, factor * S, factor * L)
        total = float(linear.value(q0)[0])
        # the constants of forms of scalars are part of what is subtracted as drawn
        const = total - reference + shift
        bodies = {b: (S, L) for b, (S, L) in bodies.items() if np.abs(S).max() > SMALL or np.abs(L).max() > SMALL}
        coordinates = {k: f for k, f in coordinates.items() if abs(f) > SMALL}
        inputs = {j: float(c[0]) for j, c in linear.inputs.items() if c[0]}
        if abs(const) <= SMALL * (1.0 + abs(total) + abs(reference)):
            const = 0.0
        return Form(const, bodies, coordinates, inputs)

    def _share(self, part: int, terms: dict[int, float], moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """S and L of what moves with a body: moved . origin + sum_k beta_k . e_k, with beta found from its terms.

        Where vectors of the basis do not move against each other (two of them end in fixed points), more than one
        beta has the same terms, and they differ by a constant: any of them will do.
        """
        body, p = self.parts.parts[part].body, self.parts.parts[part]
        assert body is not None
        d = len(moved)
        if body.name not in self._systems:
            columns = sorted({i for e in (*body.basis, body.origin) for i in e.terms})
            forms = [c for e in body.basis for c in e]
            X = np.array([[float(f.terms[i][0]) if i in f.terms else 0.0 for f in forms] for i in columns])
            X = X.reshape(len(columns), len(forms))
            chosen = _independent(X)
            inverse = least_squares(X[:, chosen], np.eye(len(columns))) if chosen else np.zeros((0, len(columns)))
            self._systems[body.name] = columns, inverse, chosen
        columns, inverse, chosen = self._systems[body.name]
        right = np.array([terms.get(i, 0.0) for i in columns])
        for axis, component in enumerate(body.origin):
            right -= moved[axis] * np.array(
                [float(component.terms[i][0]) if i in component.terms else 0.0 for i in columns]
            )
        beta = np.zeros(d * len(body.basis))
        if chosen:
            beta[chosen] = product(inverse, right)
        S, L = in_space(moved), np.zeros((3, 3))
        L += np.outer(S, in_space(body.reference_origin) - p.at)
        for k in range(len(body.basis)):
            L += np.outer(in_space(beta[k * d : (k + 1) * d]), in_space(body.reference_basis[:, k]))
        return S, L

    def products(self, quadratic: Quadratic) -> Products:
        out: list[tuple[float, Form, Form | None]] = []
        for factor, x, y in quadratic.products:
            a, b = self.form(x), self.form(y)
            for one, other in ((a, b), (b, a)):
                if one.constant:
                    out.append((factor * one.const, other, None))
                    break
            else:
                out.append((factor, a, b))
        return tuple(out)

    def slip(self, slip: Slip) -> SlipEquation:
        return SlipEquation(slip.name, tuple((c, self.form(a), self.form(b)) for c, a, b in slip.products))

    def equation(self, constraint: Constraint) -> Equation:
        name, residual = constraint.name, self.products(constraint.residual)
        if constraint.theta is None or constraint.cosine is None:
            return Equation(name, residual)
        return Equation(name, residual, self.products(constraint.cosine), self.form(constraint.theta))


def _independent(X: np.ndarray) -> list[int]:
    """Columns of a matrix that the earlier ones do not make up."""
    independent: list[int] = []
    before: list[np.ndarray] = []
    for k in range(X.shape[1]):
        v = X[:, k].copy()
        size = norm(v)
        for q in before:
            v = v - dot(q, v) * q
        if size > 0.0 and norm(v) > INDEPENDENT * size:
            independent.append(k)
            before.append(v / norm(v))
    return independent
