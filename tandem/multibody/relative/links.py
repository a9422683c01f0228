"""From the tree to links with symbolic places and rotations.

Every joint is a sequence of single motions; a body with several has links without mass between its parent and itself.
A link's axes are those of its parent, or, where it turns about an axis that is none of these, a frame with its z along
that axis: so every turn is about a coordinate axis. A link on a ball has the axes of the drawing, as the tree has it.
Numbers of the drawing (offsets, axes, masses, inertias) become *parameters*, symbols that may change between two steps;
what is exactly zero in the drawing is structure and vanishes from the equations, and so are ones in rotations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.portable import norm, product
from tandem.multibody.relative import vectors as v
from tandem.multibody.relative.tree import Tree, TreeBody
from tandem.multibody.relative.vectors import Matrix, Vector

ROUNDING = 1e-14  # relative; a component that is not there but for rounding
WORLD = -1


@dataclass
class Parameters:
    """Numbers of the drawing as inputs "p" of the graph; equal roles are one."""

    g: Graph
    names: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    _index: dict[str, int] = field(default_factory=dict)

    def scalar(self, name: str, value: float, exact: bool = False) -> Expr:
        """A parameter; 0 is structure, and with `exact` so is 1 (in rotations and directions)."""
        if value == 0.0 or (exact and abs(value) == 1.0):
            return self.g.constant(value)
        return self.live(name, value)

    def live(self, name: str, value: float) -> Expr:
        """A parameter whatever its value: it may be zero now and not later."""
        if name not in self._index:
            self._index[name] = len(self.values)
            self.names.append(name)
            self.values.append(float(value))
        return self.g.input("p", self._index[name])

    def vector(self, name: str, values: Sequence[float] | np.ndarray, exact: bool = False) -> Vector:
        cleaned = clean(np.asarray(values, float))
        return [self.scalar(f"{name}.{axis}", x, exact) for axis, x in zip("xyz", cleaned, strict=False)]


def clean(values: np.ndarray) -> np.ndarray:
    """Without what is rounding against the largest."""
    out = np.array(values, float)
    out[np.abs(out) < ROUNDING * np.abs(out).max(initial=0.0)] = 0.0
    near = np.abs(np.abs(out) - 1.0) < ROUNDING
    out[near] = np.sign(out[near])
    return out


@dataclass
class Link:
    body: int  # of the tree
    parent: int
    kind: str  # turn, slide, ball, weld
    velocity: int  # its first, of as many as it has
    axis: int  # turn: 0, 1, 2 for a coordinate axis
    sign: float  # turn: against that axis
    along: Vector  # slide: direction in the link's axes
    offset: Vector  # of its origin from the parent's, in the parent's axes, at x = 0
    R: Matrix  # from its axes to those of the parent
    reference_axes: np.ndarray  # its axes as drawn, columns in the world
    mass: Expr
    moment: Vector  # mass times the place of the centre, own axes
    inertia: Matrix  # about its origin, own axes


@dataclass
class Links:
    g: Graph
    tree: Tree
    p: Parameters
    x: Vector
    w: Vector
    links: list[Link]
    of_body: list[int]  # the link that is the body itself
    balls: list[int]  # links that are balls; k-th has the quaternion ref[4 k:]

    @property
    def size(self) -> int:
        return len(self.x)

    # places relative to another link

    def place(self, base: int, link: int) -> tuple[Vector, Matrix]:
        """Origin and axes of a link in the axes of `base`, which is above it (WORLD: the world's)."""
        key = (base, link)
        if key not in self._places:
            if link == base:
                self._places[key] = v.zeros(self.g), v.identity(self.g)
            else:
                one = self.links[link]
                r, R = self.place(base, one.parent)
                step = self.step(link)
                self._places[key] = v.plus(r, v.apply(R, step)), v.multiply(R, one.R)
        return self._places[key]

    def step(self, link: int) -> Vector:
        """From the parent's origin to the link's, in the parent's axes."""
        one = self.links[link]
        if one.kind != "slide":
            return one.offset
        # a slide does not turn: its axes are the parent's
        return v.plus(one.offset, v.times(one.along, self.x[one.velocity]))

    def arm(self, base: int, link: int) -> Vector:
        """From the parent's origin to the link's, in the axes of `base`."""
        return v.apply(self.place(base, self.links[link].parent)[1], self.step(link))

    def moved(
        self, link: int, direction: Mapping[int, Expr], memory: dict[int, tuple[Vector, Vector]]
    ) -> tuple[Vector, Vector]:
        """How the link turns and its origin moves in the world when the velocities are those of `direction`.

        What a link carries without moving it is one rigid body with it: its origin is reached by one arm.
        """
        if link == WORLD:
            return v.zeros(self.g), v.zeros(self.g)
        if link not in memory:
            top = link
            while top != WORLD and not any(k in direction for k in self.velocities(top)):
                top = self.links[top].parent
            if top == link:
                one = self.links[link]
                _, R = self.place(WORLD, link)
                turn, move = self.moved(one.parent, direction, memory)
                move = v.plus(move, v.cross(turn, self.arm(WORLD, link)))
                own = [direction.get(k, self.g.zero) for k in self.velocities(link)]
                if one.kind == "slide":
                    move = v.plus(move, v.times(v.apply(R, one.along), own[0]))
                elif one.kind == "turn":
                    turn = v.plus(turn, v.times(v.column(R, one.axis), own[0] * one.sign))
                else:
                    turn = v.plus(turn, v.apply(R, own))
            else:
                turn, move = self.moved(top, direction, memory)
                if top != WORLD:
                    arm = v.minus(self.place(WORLD, link)[0], self.place(WORLD, top)[0])
                    move = v.plus(move, v.cross(turn, arm))
            memory[link] = turn, move
        return memory[link]

    def velocities(self, link: int) -> range:
        """Those of its joint."""
        one = self.links[link]
        return range(one.velocity, one.velocity + {"ball": 3, "weld": 0}.get(one.kind, 1))

    def seeds(self, direction: Mapping[int, Expr]) -> dict[Expr, Expr]:
        """The coordinates' change when they move at the velocities of `direction`.

        Of a ball also that of its rotation, which is simpler than by way of the coordinates.
        """
        out = {self.x[k]: e for k, e in direction.items()}
        for link in self.balls:
            own = [direction.get(k, self.g.zero) for k in self.velocities(link)]
            if any(e.value != 0.0 for e in own):
                xi = [self.x[k] for k in self.velocities(link)]
                out.update(zip(xi, ball_rate(xi, own), strict=True))
                R = self.links[link].R
                changed = v.multiply(R, v.skew(self.g, own))
                for row, new in zip(R, changed, strict=True):
                    out.update(zip(row, new, strict=True))
        return out

    def columns(self, base: int, link: int) -> dict[int, tuple[Vector, Vector]]:
        """How the link turns and its origin moves per velocity, in the axes of `base`, which rests."""
        key = (base, link)
        if key not in self._columns:
            if link == base:
                self._columns[key] = {}
            else:
                one = self.links[link]
                _, R = self.place(base, link)
                arm = self.arm(base, link)
                out = {k: (w, v.plus(u, v.cross(w, arm))) for k, (w, u) in self.columns(base, one.parent).items()}
                none = v.zeros(self.g)
                if one.kind == "turn":
                    out[one.velocity] = self._times(v.column(R, one.axis), one.sign), none
                elif one.kind == "ball":
                    for k in range(3):
                        out[one.velocity + k] = v.column(R, k), none
                elif one.kind == "slide":
                    out[one.velocity] = none, v.apply(R, one.along)
                self._columns[key] = out
        return self._columns[key]

    def _times(self, a: Vector, sign: float) -> Vector:
        return a if sign > 0.0 else [-x for x in a]

    def motion(self, base: int, link: int) -> tuple[Vector, Vector]:
        """Angular velocity of the link and velocity of its origin in the axes of `base`, which rests."""
        key = (base, link)
        if key not in self._motions:
            turn, move = v.zeros(self.g), v.zeros(self.g)
            for k, (w, u) in self.columns(base, link).items():
                turn, move = v.plus(turn, v.times(w, self.w[k])), v.plus(move, v.times(u, self.w[k]))
            self._motions[key] = turn, move
        return self._motions[key]

    def bias(self, base: int, link: int) -> tuple[Vector, Vector]:
        """Angular acceleration and that of the origin with all velocities as they are and none changing."""
        key = (base, link)
        if key not in self._biases:
            if link == base:
                self._biases[key] = v.zeros(self.g), v.zeros(self.g)
            else:
                one = self.links[link]
                alpha, a = self.bias(base, one.parent)
                omega, _ = self.motion(base, one.parent)
                _, R = self.place(base, link)
                arm = self.arm(base, link)
                a = v.plus(a, v.apply(v.turning(self.g, omega, alpha), arm))
                if one.kind in ("turn", "ball"):
                    own = v.minus(self.motion(base, link)[0], omega)
                    alpha = v.plus(alpha, v.cross(omega, own))
                elif one.kind == "slide":
                    rate = v.times(v.apply(R, one.along), self.w[one.velocity] * 2.0)
                    a = v.plus(a, v.cross(omega, rate))
                self._biases[key] = alpha, a
        return self._biases[key]

    def __post_init__(self) -> None:
        self._places: dict[tuple[int, int], tuple[Vector, Matrix]] = {}
        self._columns: dict[tuple[int, int], dict[int, tuple[Vector, Vector]]] = {}
        self._motions: dict[tuple[int, int], tuple[Vector, Vector]] = {}
        self._biases: dict[tuple[int, int], tuple[Vector, Vector]] = {}

    def common(self, bodies: Sequence[int]) -> int:
        """The lowest link that carries all these bodies, or is one of them; WORLD if none."""
        ways = []
        for body in bodies:
            way, link = [], self.of_body[body]
            while link != WORLD:
                way.append(link)
                link = self.links[link].parent
            ways.append(way[::-1])
        found = WORLD
        for level in zip(*ways, strict=False):
            if len(set(level)) > 1:
                break
            found = level[0]
        return found


def make_links(g: Graph, tree: Tree, x: Vector) -> Links:
    p = Parameters(g)
    links = Links(g, tree, p, x, g.inputs("w", len(x)), [], [], [])
    at_velocity = 0
    frames: list[np.ndarray] = []
    for b, body in enumerate(tree.bodies):
        parent = WORLD if body.parent < 0 else links.of_body[body.parent]
        axes = np.eye(3) if body.parent < 0 else frames[body.parent]
        origin = np.zeros(3) if body.parent < 0 else tree.bodies[body.parent].at
        offset = p.vector(f"{body.name}.at", product(axes.T, body.at - origin))
        motions = [(m.kind, m.axis) for m in body.motions] or [("weld", np.zeros(3))]
        for kind, direction in motions:
            link = Link(
                b, parent, kind, at_velocity, 0, 1.0, v.zeros(g), offset, v.identity(g), axes, g.zero, v.zeros(g),
                [v.zeros(g) for _ in range(3)],
            )  # fmt: skip
            if kind == "slide":
                link.along = p.vector(f"{body.name}.slide{at_velocity}", product(axes.T, direction), exact=True)
            elif kind == "turn":
                axes = _turn(g, p, link, body.name, direction, x[at_velocity])
            elif kind == "ball":
                k = len(links.balls)
                ref = [g.input("ref", 4 * k + i) for i in range(4)]
                link.R = ball(g, ref, x[at_velocity : at_velocity + 3])
                if not np.array_equal(axes, np.eye(3)):
                    # its coordinates are those of the tree, in the axes of the drawing
                    C = [p.vector(f"{body.name}.axes{at_velocity}.{i}", axes.T[i], exact=True) for i in range(3)]
                    link.R = v.multiply(C, link.R)
                    link.reference_axes = axes = np.eye(3)
                links.balls.append(len(links.links))
            at_velocity += {"ball": 3, "weld": 0}.get(kind, 1)
            links.links.append(link)
            parent, offset = len(links.links) - 1, v.zeros(g)
        links.of_body.append(len(links.links) - 1)
        frames.append(axes)
        _inertia(p, links.links[-1], body)
    return links


def _turn(g: Graph, p: Parameters, link: Link, name: str, direction: np.ndarray, angle: Expr) -> np.ndarray:
    """Give the link of a turn its axis and rotation; its axes as drawn."""
    above = link.reference_axes
    local = clean(product(above.T, direction))
    if np.count_nonzero(local) == 1:
        link.axis = int(np.argmax(np.abs(local)))
        link.sign = float(np.sign(local[link.axis]))
        C = v.identity(g)
    else:
        link.axis = 2
        link.reference_axes = frame_along(direction)
        rotated = product(above.T, link.reference_axes)
        C = [p.vector(f"{name}.axes{link.velocity}.{i}", rotated[i], exact=True) for i in range(3)]
    s, c = g.sin(angle) * link.sign, g.cos(angle)
    i, j = (link.axis + 1) % 3, (link.axis + 2) % 3
    link.R = [[g.zero] * 3 for _ in range(3)]
    for row, of in zip(link.R, C, strict=True):
        row[link.axis] = of[link.axis]
        row[i] = of[i] * c + of[j] * s
        row[j] = of[j] * c - of[i] * s
    return link.reference_axes


def frame_along(direction: np.ndarray) -> np.ndarray:
    """Axes with z along a direction, as columns."""
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    first = np.cross(helper, direction)
    first /= norm(first)
    return np.array([first, np.cross(direction, first), direction]).T


def _inertia(p: Parameters, link: Link, body: TreeBody) -> None:
    """Mass, its moment and the inertia about the link's origin, in its axes."""
    arm = product(link.reference_axes.T, body.centre - body.at)
    about = product(product(link.reference_axes.T, body.inertia), link.reference_axes)
    link.mass = p.scalar(f"{body.name}.mass", body.mass)
    c = p.vector(f"{body.name}.centre", arm)
    link.moment = v.times(c, link.mass)
    size = np.abs(about).max(initial=0.0)
    square = v.dot(c, c)
    for i in range(3):
        for j in range(i, 3):
            value = float(about[i, j]) if abs(about[i, j]) > ROUNDING * size else 0.0
            own = p.scalar(f"{body.name}.inertia.{'xyz'[i]}{'xyz'[j]}", value)
            shifted = (square if i == j else link.inertia[i][j]) - c[i] * c[j]
            link.inertia[i][j] = link.inertia[j][i] = own + link.mass * shifted


def ball(g: Graph, ref: Vector, xi: Vector) -> Matrix:
    """Rotation by the unit quaternion `ref` and then, in its axes, by the increment xi: (1, xi / 2), normalised."""
    h = [0.5 * e for e in xi]
    a, b = ref[0], ref[1:]
    w = a - v.dot(b, h)
    q = v.plus(v.plus(b, v.times(h, a)), v.cross(b, h))
    scale = 2.0 / (1.0 + v.dot(h, h))
    x, y, z = v.times(q, scale)
    xx, yy, zz = x * q[0], y * q[1], z * q[2]
    xy, xz, yz = x * q[1], x * q[2], y * q[2]
    wx, wy, wz = x * w, y * w, z * w
    return [
        [1.0 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1.0 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1.0 - (xx + yy)],
    ]


def ball_rate(xi: Vector, w: Vector) -> Vector:
    """How the increment changes while the child turns at w, in its axes."""
    along = v.dot(xi, w) * 0.25
    crossed = v.cross(xi, w)
    return [a + t * 0.5 + e * along for a, t, e in zip(w, crossed, xi, strict=True)]
