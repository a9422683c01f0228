"""Nearest points of two smooth surfaces, as seed 004 has them in general: eqs. 5 (algebraic) and 7, 8 (differential).

A surface is f(r) = 0 in axes of its body, with gradient and Hessian; a body has a place, an attitude and a motion.
Unknown are the points r_A, r_B, and lambda, mu: x has these eight numbers in this order. Both forms use one matrix, the
derivative of (5) by x: Newton's method solves (5) with it, and (8) is a system of linear equations with it. mu > 0: the
bodies are apart, if the gradient of B points out of it.

This is the reference for the trackings that need no iteration (surfaces.py): plain numpy, no part of any step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

Derivatives = tuple[float, np.ndarray, np.ndarray]  # f, its gradient, its Hessian


@dataclass(frozen=True)
class Plane:
    """normal . r = offset."""

    normal: np.ndarray
    offset: float = 0.0

    def at(self, r: np.ndarray) -> Derivatives:
        return float(self.normal @ r) - self.offset, self.normal, np.zeros((3, 3))


@dataclass(frozen=True)
class Revolution:
    """A convex surface about the first axis from its support function u -> (H, H', H''), within |u| <= most.

    f = y^2 + z^2 - r(s)^2, with the profile s = u H + (1 - u^2) H', r = (H - u H') sqrt(1 - u^2).
    """

    support: Callable[[float], tuple[float, float, float]]
    most: float = 0.999

    def profile(self, u: float) -> tuple[float, float]:
        H, H1, _ = self.support(u)
        return u * H + (1.0 - u * u) * H1, (H - u * H1) * sqrt(1.0 - u * u)

    def at(self, r: np.ndarray) -> Derivatives:
        u = 0.0
        for _ in range(100):  # which normal belongs to this place along the axis
            H, H1, H2 = self.support(u)
            step = (r[0] - (u * H + (1.0 - u * u) * H1)) / (H - u * H1 + (1.0 - u * u) * H2)
            before, u = u, min(max(u + step, -self.most), self.most)
            if abs(u - before) < 1e-16:
                break
        H, H1, H2 = self.support(u)
        across = sqrt(1.0 - u * u)
        radius, slope = (H - u * H1) * across, -u / across
        bend = -1.0 / (across**3 * (H - u * H1 + (1.0 - u * u) * H2))
        f = r[1] ** 2 + r[2] ** 2 - radius**2
        gradient = np.array([-2.0 * radius * slope, 2.0 * r[1], 2.0 * r[2]])
        return float(f), gradient, np.diag([-2.0 * (slope**2 + radius * bend), 2.0, 2.0])


def spheroid(along: float, across: float) -> Revolution:
    def support(u: float) -> tuple[float, float, float]:
        a, b = along**2, across**2
        H = sqrt(a * u * u + b * (1.0 - u * u))
        return H, (a - b) * u / H, (a - b) * (1.0 / H - (a - b) * u * u / H**3)

    return Revolution(support)


def roller(R: float, R1: float, cos_psi: float, u_max: float) -> Revolution:
    """The smooth part of a ROLLER (surfaces.py)."""

    def support(u: float) -> tuple[float, float, float]:
        s = u / cos_psi
        root = sqrt(1.0 - s * s)
        return R - R1 * root, R1 * s / (cos_psi * root), R1 / (cos_psi**2 * root**3)

    return Revolution(support, u_max)


@dataclass(frozen=True)
class Body:
    """A surface with its place, attitude (columns: axes of the body in the world) and motion."""

    surface: Plane | Revolution
    at: np.ndarray = field(default_factory=lambda: np.zeros(3))
    T: np.ndarray = field(default_factory=lambda: np.eye(3))
    v: np.ndarray = field(default_factory=lambda: np.zeros(3))
    omega: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def world(self, r: np.ndarray) -> Derivatives:
        """Eq. 6."""
        f, g, H = self.surface.at(self.T.T @ (r - self.at))
        return f, self.T @ g, self.T @ H @ self.T.T

    def velocity(self, r: np.ndarray) -> np.ndarray:
        """Eq. 9: of the body's own point that is there."""
        return self.v + np.cross(self.omega, r - self.at)


def residual(A: Body, B: Body, x: np.ndarray) -> np.ndarray:
    """Of eqs. 5."""
    (fa, ga, _), (fb, gb, _) = A.world(x[:3]), B.world(x[3:6])
    return np.concatenate([ga - x[6] * gb, x[:3] - x[3:6] - x[7] * gb, [fa, fb]])


def derivative(A: Body, B: Body, x: np.ndarray) -> np.ndarray:
    """Of the residual by x."""
    (_, ga, Ha), (_, gb, Hb) = A.world(x[:3]), B.world(x[3:6])
    J = np.zeros((8, 8))
    J[:3, :3], J[:3, 3:6], J[:3, 6] = Ha, -x[6] * Hb, -gb
    J[3:6, :3], J[3:6, 3:6], J[3:6, 7] = np.eye(3), -np.eye(3) - x[7] * Hb, -gb
    J[6, :3], J[7, 3:6] = ga, gb
    return J


def nearest(A: Body, B: Body, x: np.ndarray, tolerance: float = 1e-14) -> np.ndarray:
    """Solve eqs. 5 from an estimate."""
    x = x.copy()
    for _ in range(50):
        step = np.linalg.solve(derivative(A, B, x), -residual(A, B, x))
        x += step
        if float(np.abs(step[:6]).max()) < tolerance:
            break
    return x


def rates(A: Body, B: Body, x: np.ndarray) -> np.ndarray:
    """Eqs. 8: how the points, lambda and mu change as the bodies move."""
    (_, ga, Ha), (_, gb, Hb) = A.world(x[:3]), B.world(x[3:6])
    va, vb = A.velocity(x[:3]), B.velocity(x[3:6])
    of_a, of_b = np.cross(A.omega, ga) - Ha @ va, np.cross(B.omega, gb) - Hb @ vb
    right = np.concatenate([-of_a + x[6] * of_b, x[7] * of_b, [ga @ va, gb @ vb]])
    found: np.ndarray = np.linalg.solve(derivative(A, B, x), right)
    return found
