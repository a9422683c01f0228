"""Vectors and rotations of three numbers in plain numpy, for everything that is no kernel (for those: spatial.py)."""

import math

import numpy as np


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a × b of two 3-vectors; numpy's own takes ten times as long on so few numbers."""
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


def skew(v: np.ndarray) -> np.ndarray:
    """The matrix of v ×."""
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def about_axis(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation matrix about a unit vector (Rodrigues)."""
    K = skew(axis)
    return np.asarray(np.eye(3) + math.sin(angle) * K + (1.0 - math.cos(angle)) * K @ K)


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """The rotation of a unit quaternion (w, x, y, z)."""
    K = skew(quaternion[1:])
    return np.asarray(np.eye(3) + 2.0 * (quaternion[0] * K + K @ K))


def rotated(points: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Vectors by a unit quaternion (w, x, y, z)."""
    across = np.cross(q[1:], points)
    return np.asarray(points + 2.0 * (q[0] * across + np.cross(q[1:], across)))
