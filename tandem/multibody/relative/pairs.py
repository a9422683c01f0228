"""The joint between two parts: from the equations between them to the motions that they leave.

Equations between two parts are what they share and the constraints of the builder that concern no other part. Their
null space as drawn says how many motions there are; directions and points that the equations were made of are tried
as axes, and motions are accepted only if every equation holds identically, at any coordinates of the joint and
wherever the parent is. So no motion is lost and none is added; what is not recognised is a freer joint, and the
equations that it does not fulfil become loops.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from tandem.multibody.natural.joints import frame
from tandem.multibody.portable import dot, norm, product
from tandem.multibody.relative.kinematics import equation_value, pose, residuals
from tandem.multibody.relative.resolve import Part, Parts, Resolver, Shared
from tandem.multibody.relative.tree import WORLD, Equation, Form, Motion, TreeBody

HOLDS = 1e-9  # m or rad: an equation that holds identically, up to rounding
SAME = 1e-9  # of directions and relative places
RANK = 1e-7  # relative, of singular values


@dataclass
class Between:
    """Equations between two parts, by the joint or the node they come from, with what they were made of."""

    equations: dict[str, list[Equation]] = field(default_factory=dict)
    axes: list[np.ndarray] = field(default_factory=list)
    last_axes: list[np.ndarray] = field(default_factory=list)  # to be tried behind all others
    places: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class FoundJoint:
    motions: tuple[Motion, ...]
    at: np.ndarray

    @property
    def freedoms(self) -> int:
        return sum(motion.size for motion in self.motions)


def minus(a: Form, b: Form) -> Form:
    bodies = dict(a.bodies)
    for k, (S, L) in b.bodies.items():
        before = bodies.get(k, (np.zeros(3), np.zeros((3, 3))))
        bodies[k] = before[0] - S, before[1] - L
    coordinates = {k: a.coordinates.get(k, 0.0) - b.coordinates.get(k, 0.0) for k in {*a.coordinates, *b.coordinates}}
    inputs = {k: a.inputs.get(k, 0.0) - b.inputs.get(k, 0.0) for k in {*a.inputs, *b.inputs}}
    return Form(a.const - b.const, bodies, coordinates, inputs)


def product_sum(name: str, pairs: Sequence[tuple[Form, Form]]) -> Equation:
    """Sum of products, with constants drawn out."""
    out: list[tuple[float, Form, Form | None]] = []
    for a, b in pairs:
        if a.constant or b.constant:
            one, other = (a, b) if a.constant else (b, a)
            if one.const:
                out.append((one.const, other, None))
        else:
            out.append((1.0, a, b))
    return Equation(name, tuple(out))


def coincidences(resolver: Resolver, a: int, b: int, shared: Sequence[Shared]) -> dict[str, list[Equation]]:
    """That two parts have points and directions in common: per point one equation along every axis of a part, for all
    further points and directions that they stay parallel. In axes that move with a part they are never singular."""
    parts, dimension = resolver.parts.parts, resolver.m.dimension
    lead = next((k for k in (a, b) if k == WORLD or parts[k].turns), None)
    other = b if lead == a else a
    out: dict[str, list[Equation]] = {}
    points = [s for s in shared if s.kind == "point"]
    directions = [(s.name, s.reference) for s in shared if s.kind == "vector"]
    if points:
        first = points[0]
        directions = [(s.name, s.reference - first.reference) for s in points[1:]] + directions
        ends = [[resolver.place(k, first.reference, i) for i in range(dimension)] for k in (b, a)]
        gap = [minus(one, other) for one, other in zip(*ends, strict=True)]
        out[first.name] = []
        for axis in range(dimension):
            name = f"{first.name} {axis}"
            if lead is None or lead == WORLD:
                out[first.name].append(Equation(name, ((1.0, gap[axis], None),)))
            else:
                along = [resolver.along(lead, np.eye(3)[axis], i) for i in range(dimension)]
                out[first.name].append(product_sum(name, list(zip(gap, along, strict=True))))
    for name, vector in directions:
        length = norm(vector)
        if length < SAME or not all(k == WORLD or parts[k].body is not None for k in (a, b)):
            continue
        u = vector / length
        if lead is None:
            out[name] = [
                Equation(f"{name} {i}", ((1.0, minus(resolver.along(b, u, i), resolver.along(a, u, i)), None),))
                for i in range(dimension)
            ]
            continue
        across = [np.array([-u[1], u[0], 0.0])] if dimension == 2 else list(frame(u)[1:])
        out[name] = []
        for k, n in enumerate(across):
            pairs = [(resolver.along(other, u, i), resolver.along(lead, n, i)) for i in range(dimension)]
            out[name].append(product_sum(f"{name} {k}", pairs))
    return out


def rebased(equation: Equation, index: Mapping[int, tuple[int, np.ndarray]]) -> Equation:
    """An equation with bodies by other numbers, and their origins moved by a vector as drawn."""

    def form(original: Form) -> Form:
        bodies = {}
        for b, (S, L) in original.bodies.items():
            to, moved = index[b]
            bodies[to] = S, L - np.outer(S, moved)
        return replace(original, bodies=bodies)

    def side(products: tuple[tuple[float, Form, Form | None], ...]) -> tuple[tuple[float, Form, Form | None], ...]:
        return tuple((c, form(a), None if b is None else form(b)) for c, a, b in products)

    theta = None if equation.theta is None else form(equation.theta)
    return Equation(equation.name, side(equation.products), side(equation.cosine), theta)


def moved_to(equation: Equation, resolver: Resolver, old: int, new: int, point: Shared) -> Equation | None:
    """The equation with a point that two parts share taken as one of the other part, if it concerns that point only."""
    arm = point.reference - resolver.parts.parts[old].at
    for form in equation.forms:
        if old in form.bodies:
            S, L = form.bodies[old]
            if np.abs(L - np.outer(S, arm)).max() > SAME * (1.0 + float(np.abs(arm).max())):
                return None

    def change(form: Form | None) -> Form | None:
        if form is None or old not in form.bodies:
            return form
        bodies = {k: v for k, v in form.bodies.items() if k != old}
        S, _ = form.bodies[old]
        zero = new, (np.zeros(3), np.zeros((3, 3)))
        L = np.outer(S, point.reference - resolver.parts.parts[new].at)
        before = bodies.get(*zero)
        bodies[new] = before[0] + S, before[1] + L
        return replace(form, bodies=bodies)

    products = tuple((c, change(a), change(b)) for c, a, b in equation.products)
    return Equation(equation.name, products)  # type: ignore[arg-type]


# recognising


def free_motions(part: Part, dimension: int) -> tuple[Motion, ...]:
    """All that a part can do."""
    eye = np.eye(3)
    slides = tuple(Motion("slide", eye[k]) for k in range(dimension))
    if part.body is None:
        return slides
    if dimension == 2:
        return (*slides, Motion("turn", eye[2]))
    if part.line is not None:
        _, n1, n2 = frame(part.line)
        return (*slides, Motion("turn", n1), Motion("turn", n2))
    return (*slides, Motion("ball", np.zeros(3)))


def find_joint(parts: Parts, a: int, b: int, between: Between) -> FoundJoint | None:
    """The joint with the fewest freedoms that all, or some, of the equations between a parent and a child leave."""
    everything = [e for group in between.equations.values() for e in group]
    if not everything:
        return None
    attempts = [everything, *between.equations.values()] if len(between.equations) > 1 else [everything]
    best: FoundJoint | None = None
    for attempt in attempts:
        found = _recognise(parts, a, b, attempt, between)
        if found is not None and (best is None or found.freedoms < best.freedoms):
            best = found
        if best is not None and attempt is everything:
            break  # the others leave no fewer
    return best


def _mini_tree(parts: Parts, a: int, motions: tuple[Motion, ...], at: np.ndarray) -> list[TreeBody]:
    none = np.zeros(3)
    child = TreeBody("child", WORLD if a == WORLD else 0, motions, at, 0.0, none, np.zeros((3, 3)))
    if a == WORLD:
        return [child]
    parent = parts.parts[a]
    loose = free_motions(parent, parts.m.dimension)
    return [TreeBody("parent", WORLD, loose, parent.at, 0.0, none, np.zeros((3, 3))), child]


def _recognise(parts: Parts, a: int, b: int, equations: Sequence[Equation], between: Between) -> FoundJoint | None:
    m, child = parts.m, parts.parts[b]
    loose = free_motions(replace(child, line=None), m.dimension)
    index = {b: (0 if a == WORLD else 1, np.zeros(3))} | ({} if a == WORLD else {a: (0, np.zeros(3))})
    placed = [rebased(e, index) for e in equations]
    bodies = _mini_tree(parts, a, loose, child.at)
    before = sum(body.freedoms for body in bodies[:-1])
    n = before + bodies[-1].freedoms
    h, J = residuals(placed, pose(bodies, n, np.zeros(n), np.zeros(len(m.inputs))))
    if np.abs(h).max(initial=0.0) > HOLDS:
        return None  # as drawn it is not closed: a loop will close it
    J = J[:, before:]
    # twists (velocity of the origin, angular velocity) that the part shows
    E = np.zeros((6, J.shape[1]))
    if child.body is None:
        E[: m.dimension] = np.eye(m.dimension)
    elif m.dimension == 2:
        E[0, 0] = E[1, 1] = E[5, 2] = 1.0
    else:
        E = np.eye(6)
        if child.line is not None:
            _, n1, n2 = frame(child.line)
            E = np.column_stack([E[:, :3], np.r_[np.zeros(3), n1], np.r_[np.zeros(3), n2]])
            J = J @ E
    N = E @ _null(J)
    total = N.shape[1]
    if total == E.shape[1]:
        return None
    T, W = _split(N)
    places = [*between.places, *_points(parts, equations), child.at, child.centre]
    # a point is where it is: its frame has no other points
    for at in [child.at] if child.body is None else _origins(N, T, places, child.at):
        index[b] = index[b][0], at - child.at
        placed = [rebased(e, index) for e in equations]
        for motions in _candidates(T, W, [*between.axes, *between.last_axes], child, m.dimension):
            if sum(motion.size for motion in motions) == total and _holds(parts, a, b, motions, at, placed):
                return FoundJoint(motions, at)
    return None


def _points(parts: Parts, equations: Sequence[Equation]) -> list[np.ndarray]:
    """Points of parts, as drawn, that equations are made of."""
    out = []
    for form in (form for equation in equations for form in equation.forms):
        for b, (S, L) in form.bodies.items():
            size = dot(S, S)
            if size > SAME:
                arm = product(L.T, S) / size
                if np.abs(L - np.outer(S, arm)).max() < SAME:
                    out.append(parts.parts[b].at + arm)
    return out


def _origins(N: np.ndarray, T: np.ndarray, places: Sequence[np.ndarray], origin: np.ndarray) -> list[np.ndarray]:
    """Known points that move along the translations only, each once; one that is computed if there are none."""
    out: list[np.ndarray] = []
    for place in places:
        if _meets(N, T, place - origin) and not any(np.abs(place - at).max() < SAME for at in out):
            out.append(place)
    found = None if out else _meeting(N, T, origin)
    return out if found is None else [found]


def _null(J: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(J, axis=1)
    J = J[sizes > SAME] / sizes[sizes > SAME, None]
    if not len(J):
        return np.eye(J.shape[1])
    _, s, Vt = np.linalg.svd(J)
    return np.asarray(Vt[int(np.sum(s > RANK * s[0])) :].T)


def _split(N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions of pure translation, and directions of rotation, of a space of twists: orthonormal columns."""
    _, s, Vt = np.linalg.svd(N[3:], full_matrices=True) if N.shape[1] else (0, np.zeros(0), np.zeros((0, 0)))
    r = int(np.sum(s > RANK)) if len(s) else 0
    T = N[:3] @ Vt[r:].T if N.shape[1] else np.zeros((3, 0))
    W = np.linalg.svd(N[3:])[0][:, :r] if r else np.zeros((3, 0))
    return np.linalg.qr(T)[0] if T.shape[1] else T, W


def _meets(N: np.ndarray, T: np.ndarray, c: np.ndarray) -> bool:
    """Whether the point at c from the origin moves along the translations only."""
    v = N[:3] + np.cross(N[3:].T, c).T
    v = v - T @ (T.T @ v)
    return bool(np.abs(v).max(initial=0.0) < SAME * (1.0 + float(np.abs(c).max())))


def _meeting(N: np.ndarray, T: np.ndarray, origin: np.ndarray) -> np.ndarray | None:
    """A point that moves along the translations only."""
    P = np.eye(3) - T @ T.T
    rows, right = [], []
    for v, w in zip(N[:3].T, N[3:].T, strict=True):
        rows.append(P @ np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]]))
        right.append(-P @ v)
    if not rows:
        return origin
    c = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=RANK)[0]
    return origin + c if _meets(N, T, c) else None


def _snapped(space: np.ndarray, axes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Known directions that lie in a space (orthonormal columns), each once; exact where a basis would be rounded."""
    out: list[np.ndarray] = []
    for axis in (*axes, *np.eye(3)):
        size = norm(axis)
        if size < SAME:
            continue
        u = axis / size
        if np.abs(u - space @ (space.T @ u)).max() < SAME and not any(abs(dot(u, v)) > 1.0 - SAME for v in out):
            out.append(u)
    return out


def _basis(space: np.ndarray, axes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """An orthonormal basis of a space, of known directions as far as they go."""
    if space.shape[1] == 3:
        return list(np.eye(3))
    out: list[np.ndarray] = []
    for axis in (*_snapped(space, axes), *space.T):
        v = np.array(axis, float)
        for u in out:
            v = v - dot(u, v) * u
        if norm(v) > 1e-3 and len(out) < space.shape[1]:
            out.append(v / norm(v) if out else v)
    return out


def _candidates(
    T: np.ndarray, W: np.ndarray, axes: Sequence[np.ndarray], child: Part, dimension: int
) -> Iterator[tuple[Motion, ...]]:
    slides = tuple(Motion("slide", axis) for axis in _basis(T, axes))
    rotations: list[tuple[Motion, ...]] = []
    r = W.shape[1]
    if r == 0:
        rotations = [()]
    elif r == 1:
        axis = np.eye(3)[2] if dimension == 2 else _basis(W, axes)[0]
        rotations = [(Motion("turn", axis),)]
    elif r == 2:
        if child.line is None:
            pairs = [*permutations(_snapped(W, axes), 2), tuple(_basis(W, axes))]
        else:
            pairs = [frame(child.line)[1:]]  # any two axes across it will do
        rotations = [(Motion("turn", u), Motion("turn", v)) for u, v in pairs]
    else:
        rotations = [(Motion("ball", np.zeros(3)),)]
    for rotation in rotations:
        yield (*slides, *rotation)
        if slides and rotation:
            yield (*rotation, *slides)


def _holds(
    parts: Parts, a: int, b: int, motions: tuple[Motion, ...], at: np.ndarray, equations: Sequence[Equation]
) -> bool:
    """Whether equations hold at any coordinates of a joint, and wherever the parent is."""
    bodies = _mini_tree(parts, a, motions, at)
    n = sum(body.freedoms for body in bodies)
    random = np.random.default_rng(1)
    for _ in range(3):
        where = pose(bodies, n, random.uniform(-0.8, 0.8, n), random.uniform(-1.0, 1.0, len(parts.m.inputs)))
        h = np.array([equation_value(e, where) for e in equations])
        if np.abs(h).max(initial=0.0) > HOLDS * (1.0 + float(np.abs(where.p).max())):
            return False
    return True
