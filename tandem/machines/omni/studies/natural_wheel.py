"""The tree of an omni machine again in natural coordinates, from its tables: points and vectors at a state."""

import numpy as np

from tandem.multibody.contact.kinds import AT, AXIS, CENTRE, INERTIA, MASS, SYMMETRIC, TURN
from tandem.multibody.contact.tree_tables import TreeTables
from tandem.multibody.natural.api import Body, Linear, Mechanism
from tandem.multibody.rotations import about_axis


class Poses:
    """Where every link is at q, and how it moves at v."""

    def __init__(self, tree: TreeTables, q: np.ndarray, v: np.ndarray) -> None:
        self.R: list[np.ndarray] = []
        self.p: list[np.ndarray] = []
        self.axis: list[np.ndarray] = []
        self.omega: list[np.ndarray] = []
        self.speed: list[np.ndarray] = []
        self.tree = tree
        for k, (parent, kind, _) in enumerate(tree.links):
            row = np.array(tree.numbers[k])
            R, p = (self.R[parent], self.p[parent]) if parent >= 0 else (np.eye(3), np.zeros(3))
            w, s = (self.omega[parent], self.speed[parent]) if parent >= 0 else (np.zeros(3), np.zeros(3))
            axis, at = R @ row[AXIS : AXIS + 3], R @ row[AT : AT + 3]
            s, p = s + np.cross(w, at), p + at
            if kind == TURN:
                R, w = R @ about_axis(row[AXIS : AXIS + 3], q[k]), w + axis * v[k]
            else:
                s, p = s + axis * v[k] + np.cross(w, axis * q[k]), p + axis * q[k]
            for to, value in zip((self.R, self.p, self.axis, self.omega, self.speed), (R, p, axis, w, s), strict=True):
                to.append(value)

    def jacobian(self, link: int, point: np.ndarray) -> np.ndarray:
        """Velocity of a link's own point for the rate of every joint, 3 x joints."""
        J = np.zeros((3, len(self.tree.links)))
        while link >= 0:
            parent, kind, _ = self.tree.links[link]
            J[:, link] = np.cross(self.axis[link], point - self.p[link]) if kind == TURN else self.axis[link]
            link = parent
        return J


def natural(tree: TreeTables, poses: Poses, loads: dict[int, tuple[np.ndarray, np.ndarray]]) -> Mechanism:
    """Every link with mass as a body: a point, three vectors; rollers share point and axis with what carries them.

    `loads` are forces on links at points, as drawn.
    """
    m = Mechanism(dimension=3)
    bodies: dict[int, Body] = {}
    for k, (parent, _, flags) in enumerate(tree.links):
        row, R = np.array(tree.numbers[k]), poses.R[k]
        if row[MASS] == 0.0:
            continue
        name = tree.names[k]
        xx, yy, zz, xy, xz, yz = row[INERTIA : INERTIA + 6]
        # of a symmetric link the rows are in axes of its parent
        J = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
        if flags & SYMMETRIC:
            J = poses.R[parent] @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ poses.R[parent].T
        carrier = bodies.get(parent)
        if carrier is None:
            point: Linear = m.point(name, poses.p[k])
            axis: Linear = m.vector(f"{name} axis", poses.axis[k])
        else:
            point = m.place(name, carrier, poses.p[k])
            axis = m.direction(f"{name} axis", carrier, poses.axis[k])
        side = np.cross(poses.axis[k], [0.3, 0.5, 0.8])
        side /= np.linalg.norm(side)
        one = m.vector(f"{name} one", side)
        two = m.vector(f"{name} two", np.cross(poses.axis[k], side))
        centre = poses.p[k] + R @ row[CENTRE : CENTRE + 3]
        bodies[k] = m.body(name, [point, axis, one, two], row[MASS], centre, J)
        if k in loads:
            at, force = loads[k]
            m.force(f"load {k}", bodies[k].at(at), force)
    return m
