"""Where the bodies of a tree are and how forms change with its velocities, in plain numpy: slow, and easy to check."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tandem.multibody.relative.tree import WORLD, Equation, Form, Products, Tree, TreeBody
from tandem.multibody.rotations import about_axis, rotation, skew

CLOSED = 1e-12  # m or rad, of a loop
MOST = 60  # Newton iterations


@dataclass(frozen=True)
class Pose:
    """Positions and rotations of all bodies, and what moves them, at coordinates x and input values u."""

    x: np.ndarray
    u: np.ndarray
    p: np.ndarray  # (bodies, 3)
    R: np.ndarray  # (bodies, 3, 3)
    Jp: np.ndarray  # (bodies, 3, n): velocity of the origin per velocity
    Jw: np.ndarray  # (bodies, 3, n): angular velocity, world axes
    rates: np.ndarray  # (n, n): dx/dt = rates w


def gibbs(xi: np.ndarray) -> np.ndarray:
    """The rotation of the quaternion along (1, xi / 2)."""
    K = 0.5 * skew(xi)
    return np.asarray(np.eye(3) + 2.0 / (1.0 + 0.25 * float(xi @ xi)) * (K + K @ K))


def gibbs_rate(xi: np.ndarray) -> np.ndarray:
    """dxi/dt = this times the angular velocity in the child's axes."""
    return np.asarray(np.eye(3) + 0.5 * skew(xi) + 0.25 * np.outer(xi, xi))


def gibbs_product(reference: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """The unit quaternion (w, x, y, z) of a reference followed by the rotation of xi."""
    w, v, g = reference[0], reference[1:], 0.5 * np.asarray(xi, float)
    out = np.concatenate([[w - v @ g], w * g + v + np.cross(v, g)])
    return np.asarray(out / math.sqrt(float(out @ out)))


def pose(
    bodies: Sequence[TreeBody],
    n: int,
    x: np.ndarray,
    u: np.ndarray,
    references: Mapping[int, np.ndarray] | None = None,
) -> Pose:
    """`n` velocities: those of the bodies, and of scalars behind them. References of balls are by first coordinate."""
    count = len(bodies)
    out = Pose(
        np.asarray(x, float),
        np.asarray(u, float),
        np.zeros((count, 3)),
        np.zeros((count, 3, 3)),
        np.zeros((count, 3, n)),
        np.zeros((count, 3, n)),
        np.eye(n),
    )
    k = 0
    for i, body in enumerate(bodies):
        p, R, Jp, Jw = body.at.astype(float), np.eye(3), np.zeros((3, n)), np.zeros((3, n))
        if body.parent != WORLD:
            R = out.R[body.parent].copy()
            arm = R @ (body.at - bodies[body.parent].at)
            p = out.p[body.parent] + arm
            Jw = out.Jw[body.parent].copy()
            Jp = out.Jp[body.parent] - skew(arm) @ Jw
        for motion in body.motions:
            if motion.kind == "turn":
                Jw[:, k] += R @ motion.axis
                R = R @ about_axis(motion.axis, x[k])
            elif motion.kind == "slide":
                # what the origin has moved along so far turns with all that turned before
                Jp += -skew(R @ motion.axis * x[k]) @ Jw
                Jp[:, k] += R @ motion.axis
                p = p + R @ motion.axis * x[k]
            else:
                xi = np.asarray(x[k : k + 3], float)
                if references is not None and k in references:
                    R = R @ rotation(references[k])
                R = R @ gibbs(xi)
                Jw[:, k : k + 3] += R
                out.rates[k : k + 3, k : k + 3] = gibbs_rate(xi)
            k += motion.size
        out.p[i], out.R[i], out.Jp[i], out.Jw[i] = p, R, Jp, Jw
    return out


def tree_pose(
    tree: Tree, x: np.ndarray, u: np.ndarray | None = None, references: Mapping[int, np.ndarray] | None = None
) -> Pose:
    return pose(tree.bodies, tree.n, x, tree.start if u is None else u, references)


def value(form: Form, at: Pose) -> float:
    out = form.const
    for b, (S, L) in form.bodies.items():
        out += float(S @ at.p[b]) + float(np.sum(L * at.R[b]))
    out += sum(c * at.x[k] for k, c in form.coordinates.items())
    return float(out + sum(c * at.u[j] for j, c in form.inputs.items()))


def gradient(form: Form, at: Pose) -> np.ndarray:
    """Per velocity; inputs held."""
    out = np.zeros(len(at.rates))
    for b, (S, L) in form.bodies.items():
        M = at.R[b] @ L.T
        axial = np.array([M[1, 2] - M[2, 1], M[2, 0] - M[0, 2], M[0, 1] - M[1, 0]])
        out += S @ at.Jp[b] + axial @ at.Jw[b]
    for k, c in form.coordinates.items():
        out += c * at.rates[k]
    return out


def _sum(products: Products, at: Pose) -> tuple[float, np.ndarray]:
    total, slope = 0.0, np.zeros(len(at.rates))
    for c, a, b in products:
        if b is None:
            total += c * value(a, at)
            slope += c * gradient(a, at)
        else:
            va, vb = value(a, at), value(b, at)
            total += c * va * vb
            slope += c * (vb * gradient(a, at) + va * gradient(b, at))
    return total, slope


def _total(products: Products, at: Pose) -> float:
    return sum(c * value(a, at) * (1.0 if b is None else value(b, at)) for c, a, b in products)


def equation_value(equation: Equation, at: Pose) -> float:
    """What is left of an equation."""
    a = _total(equation.products, at)
    if equation.theta is None:
        return a
    theta = value(equation.theta, at)
    return a * math.sin(theta) - _total(equation.cosine, at) * math.cos(theta)


def residual(equation: Equation, at: Pose) -> tuple[float, np.ndarray]:
    """Value and gradient of an equation."""
    a, da = _sum(equation.products, at)
    if equation.theta is None:
        return a, da
    b, db = _sum(equation.cosine, at)
    theta, slope = value(equation.theta, at), gradient(equation.theta, at)
    s, c = math.sin(theta), math.cos(theta)
    return a * s - b * c, s * da - c * db + (a * c + b * s) * slope


def residuals(equations: Sequence[Equation], at: Pose) -> tuple[np.ndarray, np.ndarray]:
    h, J = np.zeros(len(equations)), np.zeros((len(equations), len(at.rates)))
    for k, equation in enumerate(equations):
        h[k], J[k] = residual(equation, at)
    return h, J


def follow(driven: dict[int, Form], x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Coordinates with driven ones at what they follow."""
    out = np.array(x, float)
    for k, form in driven.items():
        out[k] = form.const + sum(c * u[j] for j, c in form.inputs.items())
    return out


def close(
    bodies: Sequence[TreeBody],
    equations: Sequence[Equation],
    driven: dict[int, Form],
    x: np.ndarray,
    u: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Coordinates near x with the equations fulfilled as well as they can be, and the largest of what is left."""
    x = follow(driven, x, u)
    left = 0.0
    for _ in range(MOST):
        at = pose(bodies, len(x), x, u)
        h, J = residuals(equations, at)
        left = float(np.abs(h).max(initial=0.0))
        if left < CLOSED:
            break
        J[:, list(driven)] = 0.0
        step = -np.linalg.lstsq(J, h, rcond=1e-9)[0]
        step *= min(1.0, 0.5 / (float(np.abs(step).max()) + 1e-300))  # far steps would change the branch
        x = x + at.rates @ step
    return x, left


def close_loops(tree: Tree, x: np.ndarray, u: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Coordinates near x with loops closed, driven ones where they must be, and the largest of what is left."""
    return close(tree.bodies, tree.loops, tree.driven, x, tree.start if u is None else u)
