"""A mechanism as a tree of bodies with cut loops, independent of how its equations are evaluated.

The drawn position is the zero of every joint coordinate, and the axes of every body frame are those of the world as
drawn. From parent to child the motions of a joint follow each other: with R, p of the child's frame so far (as drawn
rigidly fixed to the parent), a turn is R <- R rot(axis, x), a slide p <- p + R axis x, a ball R <- R rot(xi), where
xi are Gibbs parameters: the rotation of the unit quaternion along (1, xi / 2). A velocity belongs to every coordinate:
its rate, and of a ball the angular velocity of the child against the parent in the child's axes. A ball may have a
reference, a unit quaternion that the rotation of xi follows: so it can turn any way round.

Everything of the mechanism is a `Form` of positions and rotations of the bodies, of coordinates and of inputs; loops
are `Equation`s of forms. `make_tree` (spanning.py) makes the tree of a mechanism; kinematics.py evaluates it.
"""

from dataclasses import dataclass, field

import numpy as np

WORLD = -1


@dataclass(frozen=True)
class Motion:
    """One piece of a joint."""

    kind: str  # "turn" (about axis), "slide" (along axis), "ball" (3 velocities)
    axis: np.ndarray  # unit vector as drawn, world axes (zeros for ball)

    @property
    def size(self) -> int:
        return 3 if self.kind == "ball" else 1


@dataclass(frozen=True)
class TreeBody:
    """A rigid body, or a point mass, which only slides and whose rotation is its parent's."""

    name: str
    parent: int  # index of an earlier body, or WORLD
    motions: tuple[Motion, ...]  # () : welded to its parent
    at: np.ndarray  # (3) as drawn: origin of its frame, on the joint
    mass: float
    centre: np.ndarray  # (3) as drawn
    inertia: np.ndarray  # (3, 3) about the centre, world axes as drawn

    @property
    def freedoms(self) -> int:
        return sum(motion.size for motion in self.motions)


@dataclass(frozen=True)
class Scalar:
    """A coordinate that is no joint: the spin of a rotor, the length of a rod."""

    name: str
    inertia: float
    value: float  # as drawn


@dataclass(frozen=True)
class Form:
    """const + sum_b (S_b . p_b + L_b : R_b) + sum c x + sum c input, with p_b the origin and R_b the rotation of b."""

    const: float
    bodies: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)  # body -> S (3), L (3, 3)
    coordinates: dict[int, float] = field(default_factory=dict)  # index of a scalar coordinate -> coefficient
    inputs: dict[int, float] = field(default_factory=dict)

    @property
    def constant(self) -> bool:
        return not (self.bodies or self.coordinates or self.inputs)


Products = tuple[tuple[float, Form, Form | None], ...]  # sum of factor a b (b None: 1)


@dataclass(frozen=True)
class Equation:
    """A cut loop: sum of `products` = 0, or with theta: products sin(theta) - cosine cos(theta) = 0."""

    name: str
    products: Products
    cosine: Products = ()
    theta: Form | None = None

    @property
    def forms(self) -> tuple[Form, ...]:
        pairs = (form for _, a, b in (*self.products, *self.cosine) for form in (a, b) if form is not None)
        return (*pairs, *(() if self.theta is None else (self.theta,)))

    @property
    def bodies(self) -> set[int]:
        return {body for form in self.forms for body in form.bodies}


@dataclass(frozen=True)
class SlipEquation:
    """A speed that stays 0, sum of factor a db/dt."""

    name: str
    products: tuple[tuple[float, Form, Form], ...]


@dataclass(frozen=True)
class Tree:
    """Bodies with parents first, and what else a mechanism consists of, in terms of them."""

    dimension: int
    gravity: np.ndarray  # (3)
    bodies: tuple[TreeBody, ...]
    scalars: tuple[Scalar, ...]  # their velocities come behind those of the bodies
    velocities: tuple[str, ...]  # a name for every velocity and coordinate: motions of the bodies in order, scalars
    reference: np.ndarray  # coordinates as drawn: 0 for joints, the value for scalars
    assembled: np.ndarray  # coordinates with the loops closed and driven ones as they start, nearest to the drawing
    start: np.ndarray  # values of the inputs at time 0
    driven: dict[int, Form]  # coordinate -> what it follows: const + inputs
    drives: dict[int, str]  # driven coordinate -> the constraint of the mechanism that prescribes it
    loops: tuple[Equation, ...]  # independent closure equations, group by group
    groups: tuple[tuple[int, ...], ...]  # loops whose dependent coordinates appear in no other group's equations
    anchors: tuple[int, ...]  # of every group: a body that may be taken as the world for it, however it moves, or WORLD
    dependent: tuple[int, ...]  # one coordinate per loop equation, those of a group where its equations are
    columns: tuple[Form, ...]  # every coordinate of the mechanism
    ports: dict[str, tuple[Form, ...]]  # of every force element
    aliases: dict[str, Form]  # scalars of the mechanism that follow from joint coordinates: const + coordinates only
    slips: tuple[SlipEquation, ...] = ()

    @property
    def n(self) -> int:
        return len(self.velocities)

    @property
    def first(self) -> tuple[int, ...]:
        """Index of the first velocity of every body, and behind them that of the first scalar."""
        out = [0]
        for body in self.bodies:
            out.append(out[-1] + body.freedoms)
        return tuple(out)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of every coordinate: "turn", "slide", "ball", "scalar"."""
        joints = (motion.kind for body in self.bodies for motion in body.motions for _ in range(motion.size))
        return (*joints, *("scalar" for _ in self.scalars))

    @property
    def balls(self) -> tuple[int, ...]:
        """The first coordinate of every ball."""
        out, k = [], 0
        for motion in (motion for body in self.bodies for motion in body.motions):
            if motion.kind == "ball":
                out.append(k)
            k += motion.size
        return tuple(out)

    @property
    def freedoms(self) -> int:
        return self.n - len(self.driven) - len(self.loops)
