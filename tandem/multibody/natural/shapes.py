"""Bodies by their shape: volume, and moments about the centre of a uniform one.

    steel = shapes.box((0.4, 0.1, 0.02))
    m.body("plate", nodes, mass := steel.mass(7850.0), centre, steel.inertia(mass, frame=[(0, 1, 0), (0, 0, 1)]))

Cylinders and rods lie along the first axis of their frame; in the plane a cylinder is a disc, its axis across it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.limits import POSITIVE_LENGTH, direction, number, numbers
from tandem.multibody.portable import dot, norm, product


@dataclass(frozen=True)
class Shape:
    kind: str
    volume: float | None  # m3; a rod without a section has none
    moments: tuple[float, float, float]  # about the axes of its frame, of 1 kg
    planar: float  # the same about the normal of the plane

    def mass(self, density: float) -> float:
        if self.volume is None:
            raise MechanismError(f"{self.kind}: has no volume without a radius; give its mass")
        return density * self.volume

    def inertia(self, mass: float, frame: Sequence[ArrayLike] | None = None, dimension: int = 3) -> np.ndarray:
        """About the centre, in world axes as drawn, of a shape with the axes of `frame`; in the plane a number."""
        if dimension == 2:
            return np.asarray(mass * self.planar)
        return in_world_axes(mass * np.diag(self.moments), axes(frame))


def box(size: Sequence[float], depth: float | None = None) -> Shape:
    """`size` along its axes; in the plane two sides, with the depth across it for a volume."""
    sides = [number("size", s, POSITIVE_LENGTH) for s in size]
    if len(sides) not in (2, 3):
        raise MechanismError(f"size = {list(size)}: must be 3 lengths, or 2 in the plane")
    if len(sides) == 2 and depth is not None:
        sides.append(number("depth", depth, POSITIVE_LENGTH))
    volume = math.prod(sides) if len(sides) == 3 else None
    a, b, c = (*sides, 0.0)[:3]
    planar = (a * a + b * b) / 12.0
    return Shape("box", volume, ((b * b + c * c) / 12.0, (a * a + c * c) / 12.0, planar), planar)


def cylinder(radius: float, length: float, bore: float = 0.0) -> Shape:
    """A solid one, or a tube with a bore of that radius."""
    r, length = number("radius", radius, POSITIVE_LENGTH), number("length", length, POSITIVE_LENGTH)
    if not 0.0 <= bore < r:
        raise MechanismError(f"bore = {bore:g}: must be at least 0 and below the radius {r:g}")
    square = r * r + bore * bore
    across = (3.0 * square + length * length) / 12.0
    return Shape(
        "cylinder", math.pi * (r * r - bore * bore) * length, (0.5 * square, across, across), 0.5 * square
    )  # fmt: skip


def sphere(radius: float) -> Shape:
    r = number("radius", radius, POSITIVE_LENGTH)
    about = 0.4 * r * r
    return Shape("sphere", 4.0 / 3.0 * math.pi * r**3, (about, about, about), about)


def rod(length: float, radius: float | None = None) -> Shape:
    """A slender one: none about its axis; a radius gives it a volume."""
    length = number("length", length, POSITIVE_LENGTH)
    volume = None if radius is None else math.pi * number("radius", radius, POSITIVE_LENGTH) ** 2 * length
    across = length * length / 12.0
    return Shape("rod", volume, (0.0, across, across), across)


def axes(frame: Sequence[ArrayLike] | None) -> np.ndarray:
    """Columns: the axes of a frame whose first two directions are given as drawn (one is enough for a round shape)."""
    if frame is None:
        return np.eye(3)
    if not 1 <= len(frame) <= 2:
        raise MechanismError(f"frame: has {len(frame)} axes; give the first, or the first two")
    x = direction("frame", frame[0], 3)
    x = x / norm(x)
    if len(frame) == 2:
        y = direction("frame", frame[1], 3)
        if abs(dot(x, y)) > 1e-6 * norm(y):
            raise MechanismError(
                f"frame = {[list(map(float, numbers('frame', a, 3))) for a in frame]}: its axes must be square"
            )
    else:
        y = np.cross(np.eye(3)[int(np.argmin(np.abs(x)))], x)
    y = y - dot(x, y) * x
    y = y / norm(y)
    return np.array([x, y, np.cross(x, y)]).T


def in_world_axes(J: np.ndarray, R: np.ndarray) -> np.ndarray:
    """A tensor given in the axes R (columns), in world axes."""
    J = product(product(R, J), R.T)
    return np.asarray(0.5 * (J + J.T))
