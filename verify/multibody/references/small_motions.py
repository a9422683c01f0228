"""Small motions of anything whose places are a function of few numbers, by differences of these places alone.

A rigid body moves like six particles on its principal axes. With the places p(s) of all particles, M = sum m p'^T p';
springs of length l(s) between places give V and the damping; V has its least value at the rest, where its second
derivatives are the stiffness.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

STEP = 1e-4  # of s, m or rad
GRAVITY = 9.81


@dataclass(frozen=True)
class Spring:
    first: int  # places between which it acts
    second: int
    stiffness: float
    damping: float
    free: float  # length, without tension
    preload: float = 0.0  # tension at that length


@dataclass(frozen=True)
class Moved:
    masses: np.ndarray  # of the first places
    places: Callable[[np.ndarray], np.ndarray]  # s -> all places, a row each
    springs: tuple[Spring, ...]

    def _length(self, spring: Spring, places: np.ndarray) -> float:
        return float(np.linalg.norm(places[spring.second] - places[spring.first]))

    def potential(self, s: np.ndarray) -> float:
        p = self.places(s)
        out = GRAVITY * float(self.masses @ p[: len(self.masses), -1])
        for spring in self.springs:
            longer = self._length(spring, p) - spring.free
            out += 0.5 * spring.stiffness * longer**2 + spring.preload * longer
        return out

    def _derivatives(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivatives of the potential by s."""
        n = len(s)
        e = STEP * np.eye(n)
        V = self.potential
        grad = np.array([(V(s + d) - V(s - d)) / (2.0 * STEP) for d in e])
        second = np.array(
            [[(V(s + a + b) - V(s + a - b) - V(s - a + b) + V(s - a - b)) / (4.0 * STEP**2) for b in e] for a in e]
        )
        return grad, second

    def rest(self, s: np.ndarray) -> np.ndarray:
        for _ in range(30):
            grad, second = self._derivatives(s)
            change = np.linalg.solve(second, grad)
            s = s - change
            if np.abs(change).max() < 1e-9:
                break
        return s

    def eigenvalues(self, s: np.ndarray) -> np.ndarray:
        """Eigenvalues of the small motions about s, by their size; each pair once."""
        n = len(s)
        e = STEP * np.eye(n)
        ends = [(self.places(s + d), self.places(s - d)) for d in e]
        by = [(a - b)[: len(self.masses)] / (2.0 * STEP) for a, b in ends]
        M = np.array([[np.sum(self.masses[:, None] * a * b) for b in by] for a in by])
        C = np.zeros((n, n))
        for spring in self.springs:
            rates = np.array([(self._length(spring, a) - self._length(spring, b)) / (2.0 * STEP) for a, b in ends])
            C += spring.damping * np.outer(rates, rates)
        K = self._derivatives(s)[1]
        A = np.block([[np.zeros((n, n)), np.eye(n)], [-np.linalg.solve(M, K), -np.linalg.solve(M, C)]])
        values = np.linalg.eigvals(A)
        values = values[values.imag > 0.0]
        return np.asarray(values[np.argsort(np.abs(values))])


def six_particles(mass: float, centre: np.ndarray, inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masses and places of particles with the same mass, centre and moments; the inertia is diagonal."""
    about = 0.5 * inertia.sum() - inertia  # integral of x^2 dm, and so on
    off = np.sqrt(3.0 * about / mass)[:, None] * np.eye(3)
    return np.full(6, mass / 6.0), np.concatenate([centre + off, centre - off])


def hanging_chain(count: int, length: float, mass: float, load: float) -> np.ndarray:
    """Circular frequencies of small swings of a chain of uniform rods with a load at its end: M and K by hand, in the
    horizontal places of the joints."""
    M, K = np.zeros((count + 1, count + 1)), np.zeros((count + 1, count + 1))
    for k in range(count):
        both = slice(k, k + 2)
        M[both, both] += mass / 6.0 * np.array([[2.0, 1.0], [1.0, 2.0]])
        tension = GRAVITY * (load + mass * (count - k - 0.5))  # half of its own weight: that hangs in its middle
        K[both, both] += tension / length * np.array([[1.0, -1.0], [-1.0, 1.0]])
    M[count, count] += load
    values = np.linalg.eigvals(np.linalg.solve(M[1:, 1:], K[1:, 1:])).real
    return np.asarray(np.sqrt(np.sort(values)))
