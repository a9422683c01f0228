"""What a machine looks like: frames that its own code moves, and what is drawn on them and between them.

`Machine.frames(state, params, out)` fills the poses: `out[k]` are the origin of frame k and its directions ahead, left
and up, four rows of three numbers in the world, z up. Before the call all of them are the world's own, so that a
machine writes only what differs: `out[1, 0, 0] = state[0]` moves the second frame along x. It is called for rendering,
some thirty times a second, and is plain Python; no step reads it. Any formulation can provide it; for natural
coordinates it is generated (natural_scene.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_NOTHING = np.zeros((0, 3))


def poses(count: int) -> Floats:
    """So many frames, all of them the world's."""
    return np.tile(np.vstack([np.zeros(3), np.eye(3)]), (count, 1, 1))


@dataclass(frozen=True)
class Point:
    """Fixed in a frame."""

    frame: int
    at: tuple[float, float, float] = (0.0, 0.0, 0.0)  # own axes

    def where(self, out: Floats) -> Floats:
        """In the world, with the frames as they are."""
        found: Floats = out[self.frame, 0] + np.array(self.at) @ out[self.frame, 1:]
        return found


@dataclass(frozen=True)
class Bar:
    """Something long between two points."""

    name: str  # of the body
    start: Point
    end: Point
    kind: str = "rod"  # rod, arm, link, upright, strut, rack, spring
    radius: float = 0.011


@dataclass(frozen=True)
class Wheel:
    """A wheel about the left axis of its frame, which turns with it; or of a body on which it turns by itself."""

    name: str
    centre: Point
    radius: float
    width: float
    rim: float = 0.0  # radius; 0: three fifths of the wheel's
    steer: str = ""  # a channel of a step: the angle by which it is turned about the frame's upward axis
    rate: str = ""  # likewise: the rate at which it turns about its axle, where its frame does not


@dataclass(frozen=True)
class Solid:
    """A body: a frame, and what is fixed in it, in its own axes."""

    name: str
    frame: int
    low: Floats  # corners of a box around it
    high: Floats
    tubes: Floats = field(default_factory=lambda: np.zeros((0, 2, 3)))  # ends of straight tubes
    tube_radius: float = 0.016
    shell: Floats = field(default_factory=lambda: _NOTHING)  # vertices of a skin; without one the box is drawn
    faces: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))  # … and its triangles
    kind: str = "body"  # body: one sees through it; dark: as rubber is; mark: red, something to look at


@dataclass(frozen=True)
class Lever:
    """Something on the first solid that turns with a channel of a step: a hand wheel, a pedal."""

    name: str
    kind: str  # wheel, pedal
    at: Floats  # own axes
    axis: Floats  # own axes; it turns right-handed about it
    size: float  # radius, or length
    channel: str
    factor: float  # rad per unit of the channel


@dataclass(frozen=True)
class Arrow:
    """The force of the ground on a wheel, from outputs of the machine, in the axes of the contact."""

    wheel: int  # of the scene's wheels
    along: str
    across: str
    load: str
    share: float = 1.0  # of what the outputs say, such as half of an axle's


@dataclass(frozen=True)
class PushPoints:
    """Where a hand may push the machine from outside, and the parameters of the machine by which it does."""

    points: tuple[tuple[str, Point], ...]  # with their names, in the order of the numbers that `which` gives them
    which: str  # the parameter that holds the number of the point
    force: tuple[str, str, str]  # parameters, N, along the axes of the world
    torque: tuple[str, str, str] | None = None  # parameters, N m
    torque_is: str = ""  # on what and about which axes


@dataclass(frozen=True)
class Camera:
    """Looks at the first solid from a place that moves with it."""

    name: str
    at: tuple[float, float, float]  # m, in its axes
    to: tuple[float, float, float]  # what it looks at, likewise
    axes: str = "heading"  # body: turns with it; heading: follows its heading, level; world: does not turn
    field_of_view: float = 0.85  # rad, upright
    near: float = 0.01  # m: nothing nearer is drawn; the more, the better the depth buffer resolves what is far


def usual_cameras(size: float, eye: Floats | None = None) -> tuple[Camera, ...]:
    """From behind, from a driver's seat if there is one, from above."""
    chase = Camera("chase", (-2.1 * size, 0.0, 0.75 * size), (0.9 * size, 0.0, 0.0))
    top = Camera("top", (0.0, 0.0, 9.0 * size), (0.0, 0.0, 0.0), "world", 0.8)
    if eye is None:
        return chase, top
    x, y, z = (float(c) for c in eye)
    return chase, Camera("driver", (x, y, z), (x + 10.0, y, z - 1.6), "body", 1.15), top


@dataclass(frozen=True)
class Scene:
    frames: int = 1
    bars: tuple[Bar, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    solids: tuple[Solid, ...] = ()  # the first one is what a camera follows
    levers: tuple[Lever, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    size: float = 1.0  # of the whole, in m; for cameras and grids
    cameras: tuple[Camera, ...] = ()  # none: the usual ones
    load: float = 0.0  # N, of a wheel at rest; forces are drawn in proportion to it
    push: PushPoints | None = None  # none: no hand on it
    ground: str = ""  # which of the machine's files (`[sim.files]`) is the surface below it; none: a plane


def box(name: str, frame: int, low: Iterable[float], high: Iterable[float]) -> Solid:
    return Solid(name, frame, np.array([*low], float), np.array([*high], float))


def skin(sections: Iterable[tuple[float, float, float, float]]) -> tuple[Floats, NDArray[np.int64]]:
    """A closed skin over upright rectangles (x, half width, low, high), front to back: vertices and triangles."""
    rings = [[(x, w, a), (x, -w, a), (x, -w, b), (x, w, b)] for x, w, a, b in sections]
    last = 4 * (len(rings) - 1)
    faces = [(0, 1, 2), (0, 2, 3), (last, last + 2, last + 1), (last, last + 3, last + 2)]
    for k in range(0, last, 4):
        for i in range(4):
            a, b = k + i, k + (i + 1) % 4
            faces += [(a, a + 4, b), (b, a + 4, b + 4)]
    return np.array(rings, float).reshape(-1, 3), np.array(faces, np.int64)
