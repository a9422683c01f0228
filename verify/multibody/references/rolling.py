"""What rolls or slides on an edge, without anything of the formulations: closed forms, and a disc in seven variables.

The disc's frame follows its lean and not its spin: e1 lies in the plane, e2 points up the slope of the disc, e3 is its
axle, at the angle beta to the normal. With its rate b of leaning, Omega sin beta = p and the spin n about the axle,
A across and C about the axle,

    (A + m R^2) db/dt = A p^2 cot beta - (C + m R^2) p n - m g R cos beta
    A dp/dt = b (C n - A p cot beta),   (C + m R^2) dn/dt = m R^2 p b

(Newton and Euler about the middle, the force of the plane taken away). `sleigh` is Chaplygin's, with the middle at a
before the edge: m dv/dt = m a w^2, (I + m a^2) dw/dt = -m a v w, solved by hyperbolic functions.
"""

import math
from dataclasses import dataclass

import numpy as np

from verify.multibody.references.extrapolation import integrate
from verify.multibody.references.one_freedom import GRAVITY


@dataclass(frozen=True)
class Disc:
    mass: float
    radius: float
    across: float  # moment of inertia about a diameter
    axle: float

    def spin_of_circle(self, beta: float, turn: float) -> float:
        """n with which it keeps its lean while it turns about the normal at `turn`."""
        A, C, m, R = self.across, self.axle, self.mass, self.radius
        return (A * turn**2 * math.sin(beta) - m * GRAVITY * R) / ((C + m * R**2) * turn * math.tan(beta))

    def motion(self, beta: float, b: float, turn: float, n: float, times: np.ndarray) -> np.ndarray:
        """Rows beta, b, p, n, heading, x, y of the middle; e1 along -x at the start, and the middle at 0, 0."""
        A, C, m, R = self.across, self.axle, self.mass, self.radius

        def change(_: float, y: np.ndarray) -> np.ndarray:
            beta, b, p, n, psi = y[:5]
            s, c = math.sin(beta), math.cos(beta)
            lean = (A * p * p * c / s - (C + m * R**2) * p * n - m * GRAVITY * R * c) / (A + m * R**2)
            # v = b R e3 - n R e1; e3 = s (-e1 turned by a quarter) + c up
            e1 = np.array([-math.cos(psi), -math.sin(psi)])
            flat = s * np.array([e1[1], -e1[0]])
            v = b * R * flat - n * R * e1
            return np.array([b, lean, b * (C * n - A * p * c / s) / A, m * R**2 * p * b / (C + m * R**2), p / s, *v])

        return integrate(change, np.array([beta, b, turn * math.sin(beta), n, 0.0, 0.0, 0.0]), times)


def sleigh(
    a: float, gyration: float, v: float, w: float, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Speed of the edge along itself, rate of turning, heading, place of the edge; gyration^2 = I / m + a^2."""
    k = gyration
    V = math.hypot(v, k * w)
    begin = math.atanh(v / V)
    tau = begin + a * V / k**2 * times

    def heading(x: np.ndarray) -> np.ndarray:
        """Gudermann's function."""
        return k / a * (2.0 * np.arctan(np.tanh(0.5 * x)) - 2.0 * math.atan(math.tanh(0.5 * begin)))

    nodes, weights = np.polynomial.legendre.leggauss(12)
    place = np.zeros((len(times), 2))
    for i in range(1, len(times)):
        middle, half = 0.5 * (times[i] + times[i - 1]), 0.5 * (times[i] - times[i - 1])
        x = begin + a * V / k**2 * (middle + half * nodes)
        along = np.stack([np.cos(heading(x)), np.sin(heading(x))])
        place[i] = place[i - 1] + half * (along * V * np.tanh(x)) @ weights
    return V * np.tanh(tau), V / k / np.cosh(tau), heading(tau), place
