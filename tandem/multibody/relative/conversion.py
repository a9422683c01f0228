"""Between the coordinates of a tree and the natural ones of its mechanism.

To natural coordinates every column is a form of the tree. Back, the coordinates are those whose columns are nearest
and whose loops are closed; the rotation of a ball then goes to its reference, and its own coordinates are 0.
"""

from collections.abc import Mapping

import numpy as np

from tandem.multibody.natural.errors import AssemblyError
from tandem.multibody.relative.kinematics import Pose, gibbs_product, gradient, residuals, tree_pose, value
from tandem.multibody.relative.tree import WORLD, Tree

MOST = 60  # iterations
TRIALS = 30  # beginnings
FITS = 1e-9  # m or rad, of coordinates that are the same position


def to_natural(tree: Tree, at: Pose, w: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of the mechanism, and their rates for velocities w (inputs standing still)."""
    q = np.array([value(form, at) for form in tree.columns])
    if w is None:
        return q, np.zeros(len(q))
    return q, np.array([gradient(form, at) @ w for form in tree.columns])


def from_natural(tree: Tree, q: np.ndarray, u: np.ndarray | None = None) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Coordinates, with those of balls 0, and the reference quaternion of every ball by its first coordinate."""
    random = np.random.default_rng(3)
    balls = tree.balls
    turns = [k for k, kind in enumerate(tree.kinds) if kind == "turn"]
    left = np.inf
    for trial in range(TRIALS):
        x = tree.assembled.copy()
        references = {k: np.array([1.0, 0.0, 0.0, 0.0]) for k in balls}
        if balls and tree.bodies[0].parent == WORLD and balls[0] < tree.first[1]:
            references[balls[0]] = _overall(tree, q)
        if trial:
            x[turns] = random.uniform(-np.pi, np.pi, len(turns))
        for _ in range(MOST):
            at = tree_pose(tree, x, u, references)
            h, J = residuals(tree.loops, at)
            off = np.concatenate([[value(form, at) for form in tree.columns] - q, h])
            left = float(np.abs(off).max(initial=0.0))
            if left < 1e-13:
                break
            jacobian = np.vstack([*(gradient(form, at) for form in tree.columns), J])
            step = -np.linalg.lstsq(jacobian, off, rcond=1e-12)[0]
            angular = np.abs(step[[*turns, *(k + i for k in balls for i in range(3))]]).max(initial=0.0)
            step *= min(1.0, 1.0 / (float(angular) + 1e-300))
            x = x + at.rates @ step
            for k in balls:
                references[k] = gibbs_product(references[k], x[k : k + 3])
                x[k : k + 3] = 0.0
            if np.abs(step).max(initial=0.0) < 1e-15:
                break
        if left < FITS:
            return x, references
    raise AssemblyError(
        f"no coordinates of the tree have these natural coordinates: the last found are off by {left:g} m or rad;"
        " they must fulfil the constraints of the mechanism"
    )


def _overall(tree: Tree, q: np.ndarray) -> np.ndarray:
    """The quaternion of the rotation that the mechanism as a whole has made, by its points and vectors."""
    at = tree_pose(tree, tree.assembled)
    before, after = [], []
    k = 0
    while k < len(tree.columns):
        span = tree.columns[k : k + 3]
        axes = [_axis(form.bodies) for form in span]
        if axes == [0, 1, 2]:
            before.append([value(form, at) for form in span])
            after.append(q[k : k + 3])
            k += 3
        else:
            k += 1
    a, b = np.array(before), np.array(after)
    centre = [np.abs(np.linalg.norm(v, axis=1) - 1.0) > 1e-9 for v in (a, b)]  # vectors are of length 1 in both
    points = centre[0] | centre[1]
    a[points] -= a[points].mean(axis=0) if points.any() else 0.0
    b[points] -= b[points].mean(axis=0) if points.any() else 0.0
    U, _, Vt = np.linalg.svd(b.T @ a)
    R = U @ np.diag([1.0, 1.0, np.sign(np.linalg.det(U @ Vt))]) @ Vt
    return _quaternion(R)


def _axis(bodies: Mapping[int, tuple[np.ndarray, np.ndarray]]) -> int:
    """Which component a column of a node is."""
    for S, L in bodies.values():
        return int(np.argmax(np.abs(S) + np.abs(L).sum(axis=1)))
    return -1


def _quaternion(R: np.ndarray) -> np.ndarray:
    """(w, x, y, z) of a rotation, well conditioned for every one."""
    K = np.array(
        [
            [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [0.0, R[0, 0] - R[1, 1] - R[2, 2], R[1, 0] + R[0, 1], R[0, 2] + R[2, 0]],
            [0.0, 0.0, R[1, 1] - R[0, 0] - R[2, 2], R[2, 1] + R[1, 2]],
            [0.0, 0.0, 0.0, R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    return np.asarray(np.linalg.eigh(K, UPLO="U")[1][:, -1])
