"""What a mechanism is made of: nodes, inertia, constraints, force elements and inputs, before any of it is compiled.

Rigid bodies (rigid.py), joints (joints.py) and forces (forces.py) add to these equations; the compiler (compiler.py)
turns them into tables. All of them import this module and it imports none of them. `Mechanism` (mechanism.py) puts them
together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural.body import Body
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.limits import MASS, direction, number, numbers
from tandem.multibody.natural.linear import ONE, Linear, Quadratic, linear, quadratic, square
from tandem.multibody.natural.tables import EXTERNAL
from tandem.multibody.portable import dot, norm

Place = Linear | ArrayLike  # a node, a point of a body, or fixed numbers
TOUCHING = 1e-9  # of the size of the mechanism: points that are nearer to each other have no direction between them
SAME = 1e-9  # relative; constant equations that hold this well are dropped


class Node(Linear):
    """A point, a unit vector or a scalar with a name; free ones own the coordinates `columns`."""

    def __init__(self, name: str, const: ArrayLike, columns: Sequence[int], kind: str, owner: Any = None) -> None:
        values = np.atleast_1d(np.asarray(const, float))
        if columns:
            eye = np.eye(len(values))
            super().__init__(np.zeros(len(values)), {i: eye[k] for k, i in enumerate(columns)}, owner=owner)
        else:
            super().__init__(values, owner=owner)
        self.name, self.columns, self.kind = name, tuple(columns), kind


@dataclass(frozen=True)
class Constraint:
    """One scalar equation: a quadratic, or `A sin(theta) - B cos(theta)` if there is a theta."""

    name: str
    residual: Quadratic
    cosine: Quadratic | None = None  # B
    theta: Linear | None = None

    def value(self, q: np.ndarray, u: np.ndarray | None = None) -> float:
        a = self.residual.value(q, u)
        if self.theta is None or self.cosine is None:
            return a
        theta = float(self.theta.value(q, u)[0])
        return a * math.sin(theta) - self.cosine.value(q, u) * math.cos(theta)


@dataclass(frozen=True)
class Slip:
    """A speed that stays 0, sum c a db/dt: a condition on velocities that holds no place."""

    name: str
    products: tuple[tuple[float, Linear, Linear], ...]
    theta: Linear | None = None  # none, as of a plain constraint


@dataclass(frozen=True)
class Input:
    """A quantity given from outside at every step, or by a law of time; use `form` where a scalar is expected."""

    name: str
    index: int
    kind: int
    law: tuple[float, ...]
    owner: Any = field(default=None, repr=False, compare=False)

    @property
    def form(self) -> Linear:
        return Linear([0.0], {}, {self.index: np.ones(1)}, self.owner)


@dataclass
class Element:
    """A force element: ports (scalar forms), parameters by name, an input that scales it."""

    name: str
    kind: int
    ports: tuple[Linear, ...]
    params: dict[str, float]
    input: int = -1
    states: int = 0
    data: np.ndarray = field(default_factory=lambda: np.zeros(0))  # numbers without names, after the parameters
    potential: Any = None  # (x, params) -> energy, where there is one
    live: np.ndarray = field(default_factory=lambda: np.zeros(0))  # what the hook reads besides, constant for a step

    @property
    def numbers(self) -> np.ndarray:
        return np.concatenate([list(self.params.values()), self.data])


@dataclass(frozen=True)
class Joint:
    """A joint between two bodies (`a` None: the world), where it is as drawn; an axis if it has one."""

    name: str
    kind: str
    a: Body | None
    b: Body
    at: np.ndarray
    axis: np.ndarray | None = None


@dataclass(frozen=True)
class Load:
    """What a multiplier 1 of a constraint is: minus a force along `first`, or minus the moment `first` x `second`."""

    of: str  # the joint
    first: Linear
    second: Linear | None = None
    axial: bool = False  # of a rod: one number says it all, its tension


NO_SPIN = (
    "{}: acts on the spin of a rotor, and would push off from nothing instead of its carrier; give a torque on the"
    " spin, which has a reaction, a force where it comes from outside, or make the rotor a body on a revolute joint"
)


@dataclass
class Equations:
    """The equations of a mechanism under construction, in 3 dimensions or in the plane."""

    dimension: int = 3
    gravity: Sequence[float] | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    bodies: dict[str, Body] = field(default_factory=dict)
    constraints: dict[str, Constraint] = field(default_factory=dict)
    slips: dict[str, Slip] = field(default_factory=dict)
    elements: dict[str, Element] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    places: dict[str, Linear] = field(default_factory=dict)  # named points and vectors without coordinates
    joints: dict[str, Joint] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)  # constraint of a joint -> what it exerts on the second side
    drives: dict[str, str] = field(default_factory=dict)  # constraint of a prescribed coordinate -> that coordinate
    inertia: dict[tuple[int, int], float] = field(default_factory=dict)  # mass matrix, lower triangle
    weight: dict[int, float] = field(default_factory=dict)  # gravity on each coordinate
    masses: list[tuple[Linear, float]] = field(default_factory=list)  # points and the masses there, for momentum
    moments: list[tuple[Linear, Linear, float]] = field(default_factory=list)  # pairs a, b: sum of factor a x db/dt
    rigid: set[Any] = field(default_factory=set)  # pairs of basis vectors that an equation keeps already
    rotors: dict[int, tuple[Body, np.ndarray]] = field(default_factory=dict)  # spin coordinate -> carrier, axis
    spin_torques: list[tuple[str, int, float, Any]] = field(default_factory=list)  # name, scalar, value, input
    no_spins: dict[int, str] = field(default_factory=dict)  # coordinate -> what acts on it without a reaction
    surfaces: dict[str, Any] = field(default_factory=dict)  # impacts.py
    impacts: dict[str, Any] = field(default_factory=dict)
    # of springs and rods: name, kind, and both ends, which need not be nodes
    ends: list[tuple[str, str, Linear, Linear]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.dimension not in (2, 3):
            raise MechanismError(f"dimension = {self.dimension}: must be 2 or 3")
        down = (0.0, -9.81) if self.dimension == 2 else (0.0, 0.0, -9.81)
        self.g = numbers("gravity", down if self.gravity is None else self.gravity, self.dimension)
        self._q0: list[float] = []
        self._corners = np.array([np.inf, -np.inf])[:, None] * np.ones(self.dimension)  # of the box around all points

    # nodes

    def point(self, name: str, at: ArrayLike, fixed: bool = False) -> Node:
        """A point; fixed to the world, or free with `dimension` coordinates."""
        return self._node(name, at, "point", fixed)

    def vector(self, name: str, along: ArrayLike, fixed: bool = False) -> Node:
        """A unit vector; a free one brings the equation that keeps its length."""
        v = direction(f"vector {name}", along, self.dimension)
        node = self._node(name, v / norm(v), "vector", fixed)
        if not fixed:
            self.constrain(f"{name}.unit", 0.5 * (square(node) - 1.0))
        return node

    def scalar(self, name: str, value: float = 0.0, inertia: float = 0.0) -> Node:
        """A scalar coordinate: an angle or a distance. It may carry an inertia of its own (a rotor's spin)."""
        inertia = number(f"scalar {name}: inertia", inertia, MASS)
        node = self._node(name, [number(f"scalar {name}", value)], "scalar", False)
        if inertia:
            self.add_inertia(node, node, inertia)
        return node

    # inertia

    def add_mass(self, point: Linear, mass: float) -> None:
        """Mass at a point, with its gravity."""
        self.own("mass", point, dimension=self.dimension)
        self.add_inertia(point, point, number("mass at a point", mass, MASS))
        self.masses.append((point, mass))
        self.moments.append((point, point, mass))
        for i, c in point.terms.items():
            self.weight[i] = self.weight.get(i, 0.0) + mass * dot(c, self.g)

    def add_inertia(self, a: Linear, b: Linear, factor: float) -> None:
        """M += factor (D_a^T D_b + D_b^T D_a) / 2 for forms a = D_a q + ..., b alike."""
        self.own("inertia", a, b)
        if a.inputs or b.inputs:
            raise MechanismError("inertia on a form that depends on an input; prescribe a coordinate instead")
        for i, x in a.terms.items():
            for j, y in b.terms.items():
                # both orders of the pair meet in one entry of the lower triangle, and twice on the diagonal
                value = factor * dot(x, y) * (1.0 if i == j else 0.5)
                if value:
                    key = (max(i, j), min(i, j))
                    self.inertia[key] = self.inertia.get(key, 0.0) + value

    # equations

    def constrain(self, name: str, residual: Quadratic | Linear) -> None:
        """A constraint `residual = 0` of one's own. Divide by a length so that it is in metres or radians."""
        if name in self.constraints:
            raise MechanismError(f"constraint {name}: there is one already")
        equation = simplified(quadratic(residual))
        self.own(f"constraint {name}", *(form for _, a, b in equation.products for form in (a, b)))
        if all(a.constant and b.constant for _, a, b in equation.products):
            off = equation.value(self.q0)
            if abs(off) > SAME * (1.0 + sum(abs(c * a.const[0] * b.const[0]) for c, a, b in equation.products)):
                raise MechanismError(f"constraint {name}: ties fixed things to each other and is off by {off:g}")
            return
        if not math.isfinite(equation.value(self.q0)):
            raise MechanismError(f"constraint {name}: is not finite as drawn")
        self.constraints[name] = Constraint(name, equation)

    def constrain_angle(self, name: str, cosine: Quadratic, sine: Quadratic, theta: Linear) -> None:
        """theta is the angle whose cosine and sine (to a common factor) are given."""
        if name in self.constraints:
            raise MechanismError(f"constraint {name}: there is one already")
        forms = [form for side in (cosine, sine) for _, a, b in side.products for form in (a, b)]
        self.own(f"constraint {name}", theta, *forms)
        self.constraints[name] = Constraint(name, simplified(cosine), simplified(sine), theta)

    def hold_slip(self, name: str, products: Sequence[tuple[float, Linear, Linear]]) -> None:
        """sum c a db/dt = 0 of scalar forms a, b. Scale it so that it is in m/s or rad/s."""
        if name in self.slips or name in self.constraints:
            raise MechanismError(f"constraint {name}: there is one already")
        self.own(f"constraint {name}", *(form for _, a, b in products for form in (a, b)), dimension=1)
        moving = tuple((c, a, b) for c, a, b in products if c and not (b.constant or (a.constant and not a.const[0])))
        if not any(b.terms for _, _, b in moving):
            raise MechanismError(f"constraint {name}: depends on no velocity")
        self.slips[name] = Slip(name, moving)

    def input(self, name: str, kind: int = EXTERNAL, law: Sequence[float] = ()) -> Input:
        """An input: set at every step, or following a law of time (see `motions`)."""
        if name in self.inputs:
            raise MechanismError(f"input {name}: there is one already")
        coefficients = numbers(f"input {name}: law", law, len(law)).tolist() if len(law) else []
        padded = (*coefficients, 0.0, 0.0, 0.0, 0.0)[:4]
        self.inputs[name] = Input(name, len(self.inputs), kind, padded, self)
        return self.inputs[name]

    # reading

    @property
    def q0(self) -> np.ndarray:
        """Coordinates as drawn."""
        return np.array(self._q0)

    @property
    def n(self) -> int:
        return len(self._q0)

    @property
    def span(self) -> float:
        """The longest side of the box around all points as drawn, m."""
        return max(0.0, float((self._corners[1] - self._corners[0]).max()))

    def apart(self, what: str, distance: float) -> None:
        """Refuses two places that are the same but for rounding, where what is between them needs a direction."""
        if distance <= TOUCHING * self.span:
            raise MechanismError(
                f"{what}: its points are {distance:g} m apart, in a mechanism of {self.span:g} m: that is rounding;"
                " draw them apart, or make them one"
            )

    def named(self, name: str) -> Linear:
        """A node or named place."""
        found = self.nodes.get(name) or self.places.get(name)
        if found is None:
            raise MechanismError(f"{name}: no such node or place")
        return found

    def where(self, place: Place) -> np.ndarray:
        """Components as drawn."""
        self.own("a place", linear(place))
        return linear(place).value(self.q0, np.zeros(len(self.inputs)))

    def _node(self, name: str, at: ArrayLike, kind: str, fixed: bool) -> Node:
        if name in self.nodes or name in self.places:
            there = (self.nodes.get(name) or self.places[name]).kind
            raise MechanismError(f"{kind} {name}: there is a {there} of that name already")
        values = numbers(f"{kind} {name}", at, 1 if kind == "scalar" else self.dimension)
        if kind == "point":
            self._corners = np.array([np.minimum(self._corners[0], values), np.maximum(self._corners[1], values)])
        columns: Sequence[int] = ()
        if not fixed:
            columns = range(self.n, self.n + len(values))
            self._q0.extend(float(v) for v in values)
        self.nodes[name] = Node(name, values, columns, kind, self)
        return self.nodes[name]

    # checks

    def own(self, what: str, *forms: Any, dimension: int | None = None) -> None:
        """Refuses what is no form, or one of another mechanism, or of another size than `dimension`."""
        for form in forms:
            if not isinstance(form, Linear):
                raise MechanismError(f"{what}: {form!r} is no point, vector, scalar or form of them")
            if form.owner is not None and form.owner is not self:
                named = getattr(form, "name", "one of its nodes")
                raise MechanismError(f"{what}: {named} belongs to another mechanism; use nodes of this one")
            if dimension is not None and form.dim != dimension:
                raise MechanismError(f"{what}: has {form.dim} components, and {dimension} are needed")

    def own_body(self, what: str, body: Any) -> Body:
        """The body, which must be one of this mechanism."""
        if not isinstance(body, Body):
            raise MechanismError(f"{what}: {body!r} is no body; make one with body() or bar()")
        self.own(f"{what}: body {body.name}", body.origin, *body.basis)
        return body

    def no_spin(self, what: str, *forms: Linear) -> None:
        """Refuses a rotor's spin, now and later: what acts on it so would push off from nothing."""
        for column in {column for form in forms for column in form.terms}:
            self.no_spins.setdefault(column, what)
            if column in self.rotors:
                raise MechanismError(NO_SPIN.format(what))

    def own_input(self, what: str, signal: Any) -> None:
        """An input must be one of this mechanism."""
        if not isinstance(signal, Input) or signal.owner is not self:
            raise MechanismError(f"{what}: {signal!r} is no input of this mechanism; make one with input()")


def simplified(equation: Quadratic) -> Quadratic:
    """Products with a constant factor become linear; constants are gathered."""
    products = []
    constant = 0.0
    for c, a, b in equation.products:
        if c == 0.0:
            continue
        if a.constant and b.constant:
            constant += c * a.const[0] * b.const[0]
        elif a.constant:
            products.append((c * a.const[0], b, ONE))
        elif b.constant:
            products.append((c * b.const[0], a, ONE))
        else:
            products.append((c, a, b))
    products = [p for p in products if p[0] != 0.0]
    if constant:
        products.append((constant, ONE, ONE))
    return Quadratic(products)
