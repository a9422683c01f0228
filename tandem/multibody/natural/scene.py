"""Scenes in natural coordinates, in which every point and direction of every body is a linear function of the state.

`LinearFrames` are frames made of such functions, all of them by one product; `scene_of` draws a mechanism that says
nothing of its looks.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sim_service.contract.scene import Bar, Point, Scene, Solid

if TYPE_CHECKING:
    from tandem.multibody.natural.body import Body
    from tandem.multibody.natural.linear import Linear
    from tandem.multibody.natural.system import System


@dataclass(frozen=True)
class Place:
    """A point or a direction in the world: matrix @ state + offset, three numbers."""

    columns: np.ndarray  # positions in the state …
    factors: np.ndarray  # … and the 3 x n numbers they are multiplied with
    offset: np.ndarray


class LinearFrames:
    """Frames whose origins and directions are linear functions of the state. Complete before it is called first."""

    def __init__(self) -> None:
        self.count = 0
        self._places: list[Place] = []
        self._rows: list[int] = []  # of the poses, four a frame

    def add(self, origin: Place, *axes: Place | None) -> int:
        """A frame with this origin and, as far as they are given, directions ahead, left and up; its number."""
        for row, place in enumerate((origin, *axes)):
            if place is not None:
                self._places.append(place)
                self._rows.append(4 * self.count + row)
        self.count += 1
        return self.count - 1

    def point(self, origin: Place) -> Point:
        return Point(self.add(origin))

    def pack(self) -> "LinearFrames":
        used = [p.columns for p in self._places if len(p.columns)]
        self._columns = np.unique(np.concatenate(used)) if used else np.zeros(0, np.int64)
        self._matrix = np.zeros((3 * len(self._places), len(self._columns)))
        self._offset = np.zeros(3 * len(self._places))
        for k, place in enumerate(self._places):
            at = np.searchsorted(self._columns, place.columns)
            self._matrix[3 * k : 3 * k + 3, at] = place.factors
            self._offset[3 * k : 3 * k + 3] = place.offset
        return self

    def __call__(self, state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        found = self._matrix @ state[self._columns] + self._offset
        out.reshape(-1, 3)[self._rows] = found.reshape(-1, 3)


def place_of(system: "System", form: "Linear", into: np.ndarray | None = None) -> Place:
    """Where a point or a direction of a mechanism is, from the state vector of its system.

    `into` turns its axes into the world's, 3 x dimension.
    """
    from tandem.multibody.natural.tables import P

    matrix = np.eye(3)[:, : form.dim] if into is None else into
    q, u = system.span(P.Q).start, system.span(P.INPUT).start
    terms = [(q + i, c) for i, c in form.terms.items()] + [(u + 3 * j, c) for j, c in form.inputs.items()]
    terms = [(column, c) for column, c in terms if np.any(c)]
    factors = np.array([matrix @ c for _, c in terms]).T if terms else np.zeros((3, 0))
    return Place(np.array([column for column, _ in terms], np.int64), factors, matrix @ form.const)


def scene_of(system: "System") -> tuple[Scene, LinearFrames]:
    """Every body as bars between its points, or as a box of the same inertia if it has but one; springs and rods; z up
    against gravity.

    A mechanism of the plane stands upright in the plane of x and z.
    """
    mechanism = system.mechanism
    into = upright(mechanism.g)
    frames = LinearFrames()
    bars: list[Bar] = []
    solids: list[Solid] = []
    positions = [into @ mechanism.where(n) for n in mechanism.nodes.values() if n.kind == "point"]
    spread = np.ptp(np.array(positions), axis=0).max() if len(positions) > 1 else 0.0
    size = float(spread) or 1.0
    for body in mechanism.bodies.values():
        points = [node for node in body.nodes if node.kind == "point"]
        if len(points) > 1:
            places = [frames.point(place_of(system, point, into)) for point in points]
            bars += [Bar(body.name, a, b, "arm", 0.012 * size) for a, b in combinations(places, 2)]
        elif len(body.basis) == mechanism.dimension:
            solids.append(_box(system, body, into, frames))
        else:
            start, end = (frames.point(place_of(system, form, into)) for form in (points[0], body.centre))
            bars.append(Bar(body.name, start, end, "arm", 0.012 * size))
    for name, kind, *ends in mechanism.ends:
        start, end = (frames.point(place_of(system, form, into)) for form in ends)
        bars.append(Bar(name, start, end, kind, (0.02 if kind == "spring" else 0.006) * size))
    return Scene(frames.count, bars=tuple(bars), solids=tuple(solids), size=size), frames.pack()


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


def _box(system: "System", body: "Body", into: np.ndarray, frames: LinearFrames) -> Solid:
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
    frame = frames.add(place_of(system, body.centre, into), ahead, left, up)
    return Solid(body.name, frame, -half, half)
