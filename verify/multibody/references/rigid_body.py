"""One rigid body: free in space, or turning about a fixed point under gravity. Euler's equations and a quaternion.

State: quaternion (w, x, y, z) from body to space, angular velocity in the body's axes. `inertia` is about the fixed
point (the centre of mass, if free), along the body's principal axes.
"""

import numpy as np

from verify.multibody.references.extrapolation import integrate
from verify.multibody.references.one_freedom import GRAVITY


def motion(
    inertia: np.ndarray,
    rate: np.ndarray,
    times: np.ndarray,
    mass: float = 0.0,
    centre: np.ndarray | None = None,
    tolerance: float = 1e-13,
    down: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rotation matrices (body to space) and body rates at `times`, from the axes aligned; gravity along `down` (−z)."""
    gravity = GRAVITY * (np.array([0.0, 0.0, -1.0]) if down is None else down)
    lever = np.zeros(3) if centre is None else np.asarray(centre, float)

    def change(_: float, y: np.ndarray) -> np.ndarray:
        q, w = y[:4], y[4:]
        torque = mass * np.cross(lever, rotation(q).T @ gravity)
        turn = 0.5 * np.concatenate([[-q[1:] @ w], q[0] * w + np.cross(q[1:], w)])
        return np.concatenate([turn, (torque - np.cross(w, inertia * w)) / inertia])

    out = integrate(change, np.concatenate([[1.0, 0, 0, 0], rate]), times, tolerance)
    return np.array([rotation(q) for q in out[:, :4]]), out[:, 4:]


def rotation(q: np.ndarray) -> np.ndarray:
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
