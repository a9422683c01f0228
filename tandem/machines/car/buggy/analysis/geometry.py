"""Points on circles and spheres: what a suspension's joints are found by, in closed form.

Every function has two answers (the elbow bends one way or the other); the caller keeps the one that is continuous with
the drawing by passing its sign. Where there is no answer, `Unreachable` says by how much.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from sync.errors import ConfigError
from tandem.multibody.rotations import about_axis, cross

X, Y, Z = np.eye(3)


class HardpointError(ConfigError):
    """Hardpoints that make no suspension, or a position their links cannot reach; names the point."""


class Unreachable(Exception):
    """Two loci do not meet; `gap` is the relative amount they miss each other by. Never leaves this package."""

    def __init__(self, gap: float) -> None:
        super().__init__(gap)
        self.gap = gap


def about(point: np.ndarray, origin: np.ndarray, axis: np.ndarray, angle: float) -> np.ndarray:
    """The point turned about the line through `origin` along the unit vector `axis`."""
    moved: np.ndarray = origin + about_axis(axis, angle) @ (point - origin)
    return moved


def circle_terms(
    start: np.ndarray, origin: np.ndarray, axis: np.ndarray, centre: np.ndarray, distance: float
) -> tuple[float, float, float]:
    """a, b, c of a cos ψ + b sin ψ = c: the angles at which `start`, turned by ψ, is `distance` from `centre`."""
    foot = origin + axis * (axis @ (start - origin))
    out = start - foot
    to = centre - foot
    a, b = 2.0 * (out @ to), 2.0 * (cross(axis, out) @ to)
    return float(a), float(b), float(out @ out + to @ to - distance**2)


def circle_branch(start: np.ndarray, origin: np.ndarray, axis: np.ndarray, centre: np.ndarray) -> float:
    """Sign of the branch `start` itself is on (ψ = 0), or 0 at dead centre, where the two answers are one."""
    a, b, _ = circle_terms(start, origin, axis, centre, 0.0)
    size = math.hypot(a, b)
    return 0.0 if abs(b) < 1e-9 * size or size == 0.0 else -math.copysign(1.0, b)


def circle_angle(
    start: np.ndarray, origin: np.ndarray, axis: np.ndarray, centre: np.ndarray, distance: float, branch: float
) -> float:
    """The ψ that brings `start`, on its circle about the axis, to `distance` from `centre`."""
    a, b, c = circle_terms(start, origin, axis, centre, distance)
    size = math.hypot(a, b)
    if abs(c) > size:
        raise Unreachable(abs(c) / size - 1.0)
    psi = math.atan2(b, a) + branch * math.acos(c / size)
    # the inverse cosine loses digits near dead centre; one Newton step of the equation itself gives them back
    slope = b * math.cos(psi) - a * math.sin(psi)
    if abs(slope) > 1e-6 * size:
        psi -= (a * math.cos(psi) + b * math.sin(psi) - c) / slope
    return math.remainder(psi, 2.0 * math.pi)


def three_spheres(centres: tuple[np.ndarray, ...], radii: tuple[float, ...], branch: float) -> np.ndarray:
    """The point at given distances from three points, on the side of their plane that `branch` names."""
    p, q, s = centres
    e1 = q - p
    d = float(np.linalg.norm(e1))
    e1 = e1 / d
    i = float(e1 @ (s - p))
    e2 = s - p - i * e1
    j = float(np.linalg.norm(e2))
    e2 = e2 / j
    x = (radii[0] ** 2 - radii[1] ** 2 + d**2) / (2.0 * d)
    y = (radii[0] ** 2 - radii[2] ** 2 + i**2 + j**2 - 2.0 * i * x) / (2.0 * j)
    height = radii[0] ** 2 - x**2 - y**2
    if height < 0.0:
        raise Unreachable(-height / radii[0] ** 2)
    found: np.ndarray = p + x * e1 + y * e2 + branch * math.sqrt(height) * cross(e1, e2)
    return found


def plane_side(point: np.ndarray, centres: tuple[np.ndarray, ...]) -> float:
    """Sign of the branch of `three_spheres` that `point` is on, or 0 in the plane of the centres."""
    p, q, s = centres
    normal = cross(q - p, s - p)
    size = float(np.linalg.norm(normal))
    height = float(normal @ (point - p)) / size if size else 0.0
    return 0.0 if abs(height) < 1e-6 * float(np.linalg.norm(point - p)) else math.copysign(1.0, height)


def triad(p: np.ndarray, q: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Orthonormal columns carried by three points: along p→q, towards s, and across."""
    e1 = (q - p) / math.dist(p, q)
    e2 = s - p - e1 * (e1 @ (s - p))
    e2 = e2 / np.linalg.norm(e2)
    return np.stack([e1, e2, cross(e1, e2)], axis=1)


def collinear(p: np.ndarray, q: np.ndarray, s: np.ndarray) -> bool:
    size = float(np.linalg.norm(q - p) * np.linalg.norm(s - p))
    return float(np.linalg.norm(cross(q - p, s - p))) <= 1e-6 * size


def slope(f: Callable[[float], np.ndarray], x: float, step: float) -> np.ndarray:
    """f'(x) by central differences over h, h/2, h/4, h/8, extrapolated (Richardson): error of order h⁸."""
    column: list[np.ndarray] = [(f(x + h) - f(x - h)) / (2.0 * h) for h in (step, step / 2, step / 4, step / 8)]
    for order in (1, 2, 3):
        factor = 4.0**order
        column = [(factor * fine - rough) / (factor - 1.0) for rough, fine in pairwise(column)]
    best: np.ndarray = column[0]
    return best
