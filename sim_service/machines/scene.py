"""What a model looks like: points and vectors as linear functions of its state, and what is drawn between them.

In natural coordinates every point of every body is such a function, so a scene follows from a mechanism alone
(`scene_of`); a model adds what a mechanism does not know: wheels with a radius, a hand wheel, where forces act. Nothing
here is read by a step.

World axes: z up. Own axes of a solid: along its directions ahead, left and up, from its origin.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sim_service.multibody.natural.body import Body
    from sim_service.multibody.natural.linear import Linear
    from sim_service.multibody.natural.system import System

_NOTHING = np.zeros((0, 3))


@dataclass(frozen=True)
class Place:
    """A point or a direction in the world: matrix @ state + offset, three numbers."""

    columns: np.ndarray  # positions in the state …
    factors: np.ndarray  # … and the 3 x n numbers they are multiplied with
    offset: np.ndarray

    def at(self, state: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.factors @ state[self.columns] + self.offset
        return found


@dataclass(frozen=True)
class Bar:
    """Something long between two points."""

    name: str  # of the body
    start: Place
    end: Place
    kind: str = "rod"  # rod, arm, link, upright, strut, rack, spring
    radius: float = 0.011


@dataclass(frozen=True)
class Wheel:
    name: str
    centre: Place
    axle: Place  # a direction, to the left
    spin: int  # position of its angle in the state, about the axle; -1: it has none
    radius: float
    width: float
    rim: float = 0.0  # radius; 0: three fifths of the wheel's


@dataclass(frozen=True)
class Solid:
    """A body with an orientation: a point and three directions, and what is fixed in it, in its own axes."""

    name: str
    origin: Place
    ahead: Place
    left: Place
    up: Place
    low: np.ndarray  # corners of a box around it
    high: np.ndarray
    tubes: np.ndarray = field(default_factory=lambda: np.zeros((0, 2, 3)))  # ends of straight tubes
    tube_radius: float = 0.016
    shell: np.ndarray = field(default_factory=lambda: _NOTHING)  # vertices of a skin; without one the box is drawn
    faces: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))  # … and its triangles


@dataclass(frozen=True)
class Lever:
    """Something on the first solid that turns with a channel of a step: a hand wheel, a pedal."""

    name: str
    kind: str  # wheel, pedal
    at: np.ndarray  # own axes
    axis: np.ndarray  # own axes; it turns right-handed about it
    size: float  # radius, or length
    channel: str
    factor: float  # rad per unit of the channel


@dataclass(frozen=True)
class Arrow:
    """The force of the road on a wheel, from outputs of the model, in the axes of the contact."""

    wheel: int  # of the scene's wheels
    along: str
    across: str
    load: str
    share: float = 1.0  # of what the outputs say, such as half of an axle's


@dataclass(frozen=True)
class Scene:
    bars: tuple[Bar, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    solids: tuple[Solid, ...] = ()  # the first one is what a camera follows
    levers: tuple[Lever, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    size: float = 1.0  # of the whole, in m; for cameras and grids
    eye: np.ndarray | None = None  # of a driver, in the axes of the first solid
    load: float = 0.0  # N, of a wheel at rest; forces are drawn in proportion to it


# ---- of a mechanism --------------------------------------------------------------------------------------------------


def place_of(system: "System", form: "Linear", into: np.ndarray | None = None) -> Place:
    """Where a point or a direction of a mechanism is, from the state vector of its system.

    `into` turns its axes into the world's, 3 x dimension.
    """
    from sim_service.multibody.natural.tables import P

    matrix = np.eye(3)[:, : form.dim] if into is None else into
    q, u = system.span(P.Q).start, system.span(P.INPUT).start
    terms = [(q + i, c) for i, c in form.terms.items()] + [(u + 3 * j, c) for j, c in form.inputs.items()]
    terms = [(column, c) for column, c in terms if np.any(c)]
    factors = np.array([matrix @ c for _, c in terms]).T if terms else np.zeros((3, 0))
    return Place(np.array([column for column, _ in terms], np.int64), factors, matrix @ form.const)


def scene_of(system: "System") -> Scene:
    """Every body as bars between its points, or as a box of the same inertia if it has but one; z up against gravity.

    A mechanism of the plane stands upright in the plane of x and z.
    """
    mechanism = system.mechanism
    into = upright(mechanism.g)
    bars: list[Bar] = []
    solids: list[Solid] = []
    drawn = [into @ mechanism.where(n) for n in mechanism.nodes.values() if n.kind == "point"]
    spread = np.ptp(np.array(drawn), axis=0).max() if len(drawn) > 1 else 0.0
    size = float(spread) or 1.0
    for body in mechanism.bodies.values():
        points = [node for node in body.nodes if node.kind == "point"]
        if len(points) > 1:
            places = [place_of(system, point, into) for point in points]
            bars += [Bar(body.name, a, b, "arm", 0.012 * size) for a, b in combinations(places, 2)]
        elif len(body.basis) == mechanism.dimension:
            solids.append(_box(system, body, into))
        else:
            ends = (place_of(system, points[0], into), place_of(system, body.centre, into))
            bars.append(Bar(body.name, *ends, "arm", 0.012 * size))
    return Scene(bars=tuple(bars), solids=tuple(solids), size=size)


def upright(gravity: np.ndarray) -> np.ndarray:
    """Axes of a mechanism to those of the world, 3 x dimension: its gravity points down."""
    if len(gravity) == 2:
        return np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    size = np.linalg.norm(gravity)
    up = -gravity / size if size > 0.0 else np.eye(3)[2]
    first = np.eye(3)[0] if abs(up[0]) < 0.9 else np.eye(3)[1]
    ahead = first - float(first @ up) * up
    ahead /= np.linalg.norm(ahead)
    return np.array([ahead, np.cross(up, ahead), up])


def _box(system: "System", body: "Body", into: np.ndarray) -> Solid:
    """A body as the box that has its mass and inertia."""
    if len(into[0]) == 2:
        side = np.sqrt(6.0 * float(body.inertia) / body.mass) if body.mass else 0.1
        axes, half = np.eye(2), 0.5 * np.array([side, 0.3 * side, side])
        directions = [body.along(axes[0]), body.along(axes[1])]
        ahead, up = (place_of(system, d, into) for d in directions)
        left = Place(np.zeros(0, np.int64), np.zeros((3, 0)), np.array([0.0, 1.0, 0.0]))
    else:
        moments, axes = np.linalg.eigh(np.asarray(body.inertia))
        axes = axes if np.linalg.det(axes) > 0.0 else -axes
        squares = 6.0 * (moments.sum() - 2.0 * moments) / max(body.mass, 1e-9)
        half = np.maximum(0.5 * np.sqrt(np.maximum(squares, 0.0)), 0.01)
        ahead, left, up = (place_of(system, body.along(axes[:, k]), into) for k in range(3))
    return Solid(body.name, place_of(system, body.centre, into), ahead, left, up, -half, half)


def skin(sections: Iterable[tuple[float, float, float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """A closed skin over upright rectangles (x, half width, low, high), front to back: vertices and triangles."""
    rings = [[(x, w, a), (x, -w, a), (x, -w, b), (x, w, b)] for x, w, a, b in sections]
    last = 4 * (len(rings) - 1)
    faces = [(0, 1, 2), (0, 2, 3), (last, last + 2, last + 1), (last, last + 3, last + 2)]
    for k in range(0, last, 4):
        for i in range(4):
            a, b = k + i, k + (i + 1) % 4
            faces += [(a, a + 4, b), (b, a + 4, b + 4)]
    return np.array(rings, float).reshape(-1, 3), np.array(faces, np.int64)
