"""Recursive Newton-Euler of a serial chain of hinges, in world axes: which torques a motion takes.

Outwards the motion of each link, inwards the forces that it takes; no coordinates but the joints' angles.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Link:
    """As drawn, in world axes, where all angles are 0."""

    at: np.ndarray  # a point of its hinge's axis
    axis: np.ndarray
    mass: float
    centre: np.ndarray
    inertia: np.ndarray  # about the centre


def rotation(vector: np.ndarray) -> np.ndarray:
    """By the length of a vector about it (Rodrigues)."""
    angle = np.sqrt(vector @ vector)
    x, y, z = vector
    S = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    if angle < 1e-9:
        return np.asarray(np.eye(3) + S + 0.5 * S @ S)
    return np.asarray(np.eye(3) + np.sin(angle) / angle * S + (1.0 - np.cos(angle)) / angle**2 * S @ S)


def torques(links: list[Link], q: np.ndarray, w: np.ndarray, a: np.ndarray, gravity: np.ndarray) -> np.ndarray:
    R, at, omega, alpha = np.eye(3), links[0].at, np.zeros(3), np.zeros(3)
    accel = -gravity
    moved = []
    for k, link in enumerate(links):
        if k:
            arm = R @ (link.at - links[k - 1].at)
            accel = accel + np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm))
            at = at + arm
        axis = R @ link.axis
        alpha = alpha + axis * a[k] + np.cross(omega, axis) * w[k]
        omega = omega + axis * w[k]
        R = R @ rotation(link.axis * q[k])
        arm = R @ (link.centre - link.at)
        force = link.mass * (accel + np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm)))
        J = R @ link.inertia @ R.T
        moved.append((axis, at, at + arm, force, J @ alpha + np.cross(omega, J @ omega)))
    out, force, about = np.zeros(len(links)), np.zeros(3), np.zeros(3)  # moment about the origin
    for k in reversed(range(len(links))):
        axis, at, centre, own, moment = moved[k]
        force = force + own
        about = about + moment + np.cross(centre, own)
        out[k] = axis @ (about - np.cross(at, force))
    return out
