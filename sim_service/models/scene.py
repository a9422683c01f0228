"""What a model looks like: points and vectors as linear functions of its state, and what is drawn between them.

In natural coordinates every point of every body is such a function, so a scene follows from a mechanism alone
(`scene_of`); a model adds what a mechanism does not know: wheels with a radius, a road wheel, where forces act.
"""

from dataclasses import dataclass, field

import numpy as np


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
    """A line between two points."""

    name: str  # of the body
    start: Place
    end: Place


@dataclass(frozen=True)
class Wheel:
    name: str
    centre: Place
    axle: Place  # a direction, to the left
    spin: int  # position of its angle in the state; -1: it has none
    radius: float
    width: float


@dataclass(frozen=True)
class Solid:
    """A body with an orientation: a point and three directions."""

    name: str
    origin: Place
    ahead: Place
    left: Place
    up: Place
    low: np.ndarray  # corners of a box around it, in its own axes
    high: np.ndarray


@dataclass(frozen=True)
class Handle:
    """A point that can be pushed: the parameters that hold the force on it, and where it is."""

    name: str
    place: Place
    parameters: tuple[str, ...]  # force along x, y, z of the world (N)
    number: int  # what the parameter `push_point` is set to for it


@dataclass(frozen=True)
class Arrow:
    """A force on a point, from outputs of the model."""

    name: str
    place: Place
    outputs: tuple[str, ...]  # names of outputs: along the wheel, across it, and the load
    axle: Place | None = None  # direction from which "along" follows


@dataclass(frozen=True)
class Scene:
    bars: tuple[Bar, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    solids: tuple[Solid, ...] = ()  # the first one is what a camera follows
    arrows: tuple[Arrow, ...] = ()
    handles: tuple[Handle, ...] = ()
    size: float = 1.0  # of the whole, in m; for cameras and grids
    extras: dict[str, float] = field(default_factory=dict)
