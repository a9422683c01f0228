"""Planar chains of uniform rods hung from the origin, in relative angles, by recursive dynamics.

`accelerations` is the articulated-body method in the plane: outwards velocities, inwards articulated inertias, outwards
accelerations; its cost grows like the number of rods, and it solves no system of equations. `dense_accelerations` is
the same from Lagrange's equations in absolute angles, with a full mass matrix: the two share only the rod.
Angles are measured from the x axis; gravity acts along −y.
"""

import numpy as np

from verify.multibody.references.extrapolation import integrate
from verify.multibody.references.one_freedom import GRAVITY


def accelerations(phi: np.ndarray, rate: np.ndarray, length: float, mass: float) -> np.ndarray:
    """Of the absolute angles. A motion is (turn, x, y) of the body at its upper joint, a force (moment, x, y) there."""
    n = len(phi)
    along = length * np.stack([np.cos(phi), np.sin(phi)], axis=1)  # from joint to joint
    inertia, bias, down, factor = [], [], [], []
    for k in range(n):
        cx, cy = 0.5 * along[k]
        moment = mass * length**2 / 3
        inertia.append(np.array([[moment, -mass * cy, mass * cx], [-mass * cy, mass, 0], [mass * cx, 0, mass]]))
        # weight, and the centripetal part of the centre's acceleration, as forces at the upper joint
        fx, fy = -mass * rate[k] ** 2 * cx, -mass * rate[k] ** 2 * cy + mass * GRAVITY
        bias.append(np.array([cx * fy - cy * fx, fx, fy]))
        x, y = along[k]
        down.append(np.array([[1.0, 0, 0], [-y, 1, 0], [x, 0, 1]]))  # motion at the lower joint from the upper one
        factor.append(np.array([0.0, -(rate[k] ** 2) * x, -(rate[k] ** 2) * y]))
    total, force = [m.copy() for m in inertia], [b.copy() for b in bias]
    for k in range(n - 1, 0, -1):
        # a hinge passes no moment: the turn of rod k is eliminated before it weighs on rod k−1
        m, b = total[k], force[k]
        column = m[:, 0]
        m = m - np.outer(column, column) / column[0]
        b = b - column * (b[0] / column[0])
        to, shift = down[k - 1], factor[k - 1]
        total[k - 1] += to.T @ m @ to
        force[k - 1] += to.T @ (b + m @ shift)
    out = np.empty(n)
    joint = np.zeros(2)  # acceleration of the upper joint
    for k in range(n):
        m, b = total[k], force[k]
        out[k] = -(b[0] + m[0, 1:] @ joint) / m[0, 0]
        joint = (down[k] @ np.array([out[k], *joint]) + factor[k])[1:]
    return out


def dense_accelerations(phi: np.ndarray, rate: np.ndarray, length: float, mass: float) -> np.ndarray:
    n = len(phi)
    below = n - np.maximum.outer(np.arange(n), np.arange(n)) - 1  # rods below both
    weight = mass * length**2 * (below + 0.5)
    weight[np.diag_indices(n)] = mass * length**2 * (np.arange(n)[::-1] + 1 / 3)
    difference = phi[:, None] - phi[None, :]
    pull = mass * GRAVITY * length * (np.arange(n)[::-1] + 0.5) * np.cos(phi)
    found: np.ndarray = np.linalg.solve(weight * np.cos(difference), -pull - (weight * np.sin(difference)) @ rate**2)
    return found


def motion(
    phi: np.ndarray, rate: np.ndarray, times: np.ndarray, length: float, mass: float, tolerance: float = 1e-12
) -> tuple[np.ndarray, np.ndarray]:
    """Absolute angles and their rates at `times`, a row each."""
    n = len(phi)

    def change(_: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate([y[n:], accelerations(y[:n], y[n:], length, mass)])

    out = integrate(change, np.concatenate([phi, rate]), times, tolerance)
    return out[:, :n], out[:, n:]


def joints(phi: np.ndarray, length: float) -> np.ndarray:
    """Positions of the lower ends, (…, rods, 2)."""
    return np.cumsum(length * np.stack([np.cos(phi), np.sin(phi)], axis=-1), axis=-2)


def energy(phi: np.ndarray, rate: np.ndarray, length: float, mass: float) -> np.ndarray:
    velocity = length * rate[..., None] * np.stack([-np.sin(phi), np.cos(phi)], axis=-1)
    centre = np.cumsum(velocity, axis=-2) - 0.5 * velocity
    height = joints(phi, length)[..., 1] - 0.5 * length * np.sin(phi)
    turning = mass * length**2 / 12 * rate**2
    total: np.ndarray = np.sum(0.5 * (mass * np.sum(centre**2, axis=-1) + turning) + mass * GRAVITY * height, axis=-1)
    return total
