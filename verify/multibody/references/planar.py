"""Planar linkages of bars whose joints are a formula of few numbers s, with an extended Kalman filter in plain numpy.

Bars are three particles each (1/6, 4/6, 1/6 of their mass). M(s) s'' + m J^T (J' s') = Q, J by complex steps, J' s' by
a difference along s'. The filter steps by Runge and Kutta, and takes all derivatives as differences.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from verify.multibody.references.one_freedom import GRAVITY

Places = dict[str, np.ndarray]  # of joints, (2,)
TINY, SMALL = 1e-30, 1e-6


def meeting(a: np.ndarray, b: np.ndarray, to_a: float, to_b: float, side: float) -> np.ndarray:
    """Where circles about a and b meet: on the left of the way from a to b (side 1), or on the right."""
    d = b - a
    square = d @ d
    along = (to_a**2 - to_b**2 + square) / (2.0 * square)
    across = side * np.sqrt(to_a**2 / square - along**2)
    return np.asarray(a + along * d + across * np.array([-d[1], d[0]]))


@dataclass(frozen=True)
class Planar:
    joints: Callable[[np.ndarray], Places]
    bars: dict[str, tuple[str, str, float]]  # from joint to joint, mass
    springs: dict[str, tuple[float, float]]  # of a bar's angle: stiffness, angle at rest

    def _particles(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, out, masses = self.joints(s), [], []
        for a, b, mass in self.bars.values():
            out += [p[a], 0.5 * (p[a] + p[b]), p[b]]
            masses += [mass / 6.0, 4.0 * mass / 6.0, mass / 6.0]
        return np.array(out), np.array(masses)

    def angle(self, bar: str, s: np.ndarray) -> float:
        p = self.joints(s)
        d = p[self.bars[bar][1]] - p[self.bars[bar][0]]
        return float(np.arctan2(d[1].real, d[0].real))

    @staticmethod
    def derivatives(f: Callable[[np.ndarray], np.ndarray], s: np.ndarray) -> np.ndarray:
        """Exact derivatives, by complex steps."""
        return np.stack([np.imag(f(s + 1j * TINY * e)) / TINY for e in np.eye(len(s))], axis=-1)

    def bent(self, f: Callable[[np.ndarray], np.ndarray], s: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """f'' s' s'"""
        ahead, back = (self.derivatives(f, s + sign * SMALL * rate) for sign in (1.0, -1.0))
        return np.asarray((ahead - back) @ rate / (2.0 * SMALL))

    def acceleration(self, s: np.ndarray, rate: np.ndarray) -> np.ndarray:
        masses = self._particles(s)[1]
        J = self.derivatives(lambda x: self._particles(x)[0], s)
        bias = self.bent(lambda x: self._particles(x)[0], s, rate)
        M = np.einsum("p,pik,pil->kl", masses, J, J)
        Q = -GRAVITY * np.einsum("p,pk->k", masses, J[:, 1]) - np.einsum("p,pik,pi->k", masses, J, bias)
        for bar, (stiffness, rest) in self.springs.items():
            Q -= stiffness * (self.angle(bar, s) - rest) * self.turn(bar, s)
        return np.linalg.solve(M, Q)

    def turn(self, bar: str, s: np.ndarray) -> np.ndarray:
        """Derivatives of a bar's angle."""
        a, b, _ = self.bars[bar]
        d = self.joints(s)
        way = d[b] - d[a]
        D = self.derivatives(lambda x: self.joints(x)[b] - self.joints(x)[a], s)
        return np.asarray((way[0] * D[1] - way[1] * D[0]) / (way @ way))

    def step(self, x: np.ndarray, h: float) -> np.ndarray:
        n = len(x) // 2

        def f(y: np.ndarray) -> np.ndarray:
            return np.concatenate([y[n:], self.acceleration(y[:n], y[n:])])

        k1 = f(x)
        k2 = f(x + 0.5 * h * k1)
        k3 = f(x + 0.5 * h * k2)
        return np.asarray(x + h / 6.0 * (k1 + 2.0 * (k2 + k3) + f(x + h * k3)))

    def imu(self, bar: str, place: np.ndarray, reference: Places, x: np.ndarray) -> np.ndarray:
        """Specific force along x and y of the world as it lies in the bar, and rate, at a place of the drawing."""
        n = len(x) // 2
        s, rate = x[:n], x[n:]
        a, b, _ = self.bars[bar]
        way = reference[b] - reference[a]
        along, across = (
            (place - reference[a]) @ way / (way @ way),
            (way[0] * (place - reference[a])[1] - way[1] * (place - reference[a])[0]) / (way @ way),
        )

        def at(y: np.ndarray) -> np.ndarray:
            p = self.joints(y)
            d = p[b] - p[a]
            return np.asarray(p[a] + along * d + across * np.array([-d[1], d[0]]))

        force = self.derivatives(at, s) @ self.acceleration(s, rate) + self.bent(at, s, rate) + np.array([0.0, GRAVITY])
        angle = self.angle(bar, s) - float(np.arctan2(way[1], way[0]))
        c, sine = np.cos(angle), np.sin(angle)
        return np.array([c * force[0] + sine * force[1], -sine * force[0] + c * force[1], self.turn(bar, s) @ rate])


@dataclass
class Kalman:
    """x, P: of all numbers; `read` gives what sensors read."""

    of: Planar
    read: Callable[[np.ndarray], np.ndarray]
    noise: np.ndarray  # of readings
    x: np.ndarray
    P: np.ndarray

    @staticmethod
    def _derivatives(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        return np.stack([(f(x + SMALL * e) - f(x - SMALL * e)) / (2.0 * SMALL) for e in np.eye(len(x))], axis=-1)

    def go(self, readings: np.ndarray, Q: np.ndarray, h: float) -> None:
        """Update by the readings of an instant, then predict over a step."""
        H = self._derivatives(self.read, self.x)
        S = H @ self.P @ H.T + np.diag(self.noise**2)
        K = np.linalg.solve(S, H @ self.P).T
        self.x = self.x + K @ (readings - self.read(self.x))
        self.P = (np.eye(len(self.x)) - K @ H) @ self.P
        F = self._derivatives(lambda y: self.of.step(y, h), self.x)
        self.x = self.of.step(self.x, h)
        self.P = F @ self.P @ F.T + Q
