"""Linkages of one freedom, from nothing but where their particles are.

A rigid body moves like a handful of particles with its mass, centre and second moments (a uniform rod like 1/6, 4/6,
1/6 of its mass at end, middle, end). A linkage with one freedom s is therefore its particles' positions p_k(s), and

    T = ½ J(s) ṡ²,   J = Σ m_k |p_k'|²,   V = −Σ m_k g·p_k,   J s̈ + ½ J' ṡ² = −V'

`motion` integrates that equation; `passage` needs no integrator: while ṡ keeps its sign, t = ∫ ds √(J / 2(E − V)).
The two are independent of each other, and both of any constraint equation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from verify.multibody.references.extrapolation import integrate
from verify.multibody.references.jets import Jet, variable

GRAVITY = 9.81


@dataclass(frozen=True)
class Linkage:
    masses: np.ndarray
    positions: Callable[[Jet], Jet]  # s of shape (…) → (…, particles, 3)
    gravity: np.ndarray  # vector, m/s²

    def terms(self, s: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """J, J', V, V' at s."""
        p = self.positions(variable(s))
        m = self.masses
        inertia = np.einsum("k,...ki,...ki->...", m, p.d, p.d)
        slope = 2.0 * np.einsum("k,...ki,...ki->...", m, p.d, p.dd)
        potential = -np.einsum("k,...ki,i->...", m, p.v, self.gravity)
        pull = -np.einsum("k,...ki,i->...", m, p.d, self.gravity)
        return inertia, slope, potential, pull

    def energy(self, s: np.ndarray, rate: np.ndarray) -> np.ndarray:
        inertia, _, potential, _ = self.terms(s)
        total: np.ndarray = 0.5 * inertia * rate**2 + potential
        return total


class Series:
    """J and V of a linkage that repeats itself after s = 2π, as Fourier series: exact to rounding, and quick."""

    def __init__(self, linkage: Linkage) -> None:
        points = 32
        while True:
            s = 2.0 * math.pi / points * np.arange(points)
            inertia, _, potential, _ = linkage.terms(s)
            waves = np.fft.rfft(np.stack([inertia, potential])) / points
            size = np.max(np.abs(waves), axis=1, keepdims=True)
            if np.all(np.abs(waves[:, -points // 8 :]) < 1e-15 * size) or points >= 4096:
                break
            points *= 2
        waves[:, 1:] *= 2.0
        count = 1 + int(np.max(np.flatnonzero(np.any(np.abs(waves) > 1e-17 * size, axis=0))))
        self._order = np.arange(count)
        self._waves = np.concatenate([waves[:, :count], 1j * self._order * waves[:, :count]])

    def __call__(self, s: float) -> np.ndarray:
        """J, V, J', V'."""
        found: np.ndarray = (self._waves @ np.exp(1j * s * self._order)).real
        return found


def motion(linkage: Linkage, s0: float, rate0: float, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """s and ṡ at `times` (the first is the start)."""
    series = Series(linkage)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        inertia, _, slope, pull = series(float(y[0]))
        return np.array([y[1], -(pull + 0.5 * slope * y[1] ** 2) / inertia])

    out = integrate(rate, np.array([s0, rate0]), times, 3e-13)
    return out[:, 0], out[:, 1]


def passage(linkage: Linkage, s0: float, rate0: float, s: float) -> float:
    """The time from s0 to s, by Gauss-Legendre quadrature, for a linkage that does not turn back on the way."""
    energy = float(linkage.energy(np.array(s0), np.array(rate0)))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    pieces = max(1, math.ceil(abs(s - s0) / 0.1))
    edges = np.linspace(s0, s, pieces + 1)
    half = 0.5 * np.diff(edges)[:, None]
    at = edges[:-1, None] + half * (1.0 + nodes)
    inertia, _, potential, _ = linkage.terms(at)
    free = energy - potential
    if np.any(free <= 0):
        raise ValueError("the linkage turns back on the way: use motion()")
    return float(abs(np.sum(weights * half * np.sqrt(0.5 * inertia / free))))


def rod(start: Jet, end: Jet, mass: float) -> tuple[list[float], list[Jet]]:
    """The particles of a uniform thin rod."""
    return [mass / 6, 4 * mass / 6, mass / 6], [start, 0.5 * (start + end), end]


def bar(
    start: Jet, axes: tuple[Jet, Jet, Jet], length: float, width: float, mass: float
) -> tuple[list[float], list[Jet]]:
    """The particles of a uniform bar of square section along the first of its (orthonormal) axes."""
    middle = start + 0.5 * length * axes[0]
    masses, places = [mass / 4], [middle]
    for axis, size in zip(axes, (length, width, width), strict=True):
        reach = math.sqrt(size**2 / 12 * 4)  # 2 (m/8) reach² = m size²/12
        masses += [mass / 8, mass / 8]
        places += [middle + reach * axis, middle - reach * axis]
    return masses, places
