"""Chains by the articulated-body recursion against a full mass matrix, energy, and the natural formulation."""

from typing import Any

import numpy as np
import pytest

from tandem.multibody.natural.api import Mechanism, accelerations, angular_acceleration
from verify.multibody.chain import Chain
from verify.multibody.references import chains
from verify.multibody.references.one_freedom import GRAVITY as DOWN

GRAVITY = np.array([0.3, -9.0, 1.7])


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


def dense_accelerations(chain: Chain, axes: np.ndarray, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """M qdd = torques - c by Jacobians of the centres in axes of the world."""
    N = chain.links
    R, origin = np.eye(3), np.zeros(3)
    at, turn, of_link = [], [], []
    for i in range(N):
        if i > 0:
            origin = origin + R @ chain.offset
        turn.append(R @ axes[i])
        R = R @ rotation(axes[i], q[i])
        at.append(origin)
        of_link.append((origin + R @ chain.centre, R @ chain.inertia @ R.T))
    # velocities, and accelerations with qdd = 0
    M, right = np.zeros((N, N)), np.zeros(N)
    if chain.torques is not None:
        right += chain.torques
    w, alpha = np.zeros(3), np.zeros(3)
    acceleration = np.zeros(3)
    for i in range(N):
        if i > 0:
            r = at[i] - at[i - 1]
            acceleration = acceleration + np.cross(alpha, r) + np.cross(w, np.cross(w, r))
        alpha = alpha + np.cross(w, turn[i] * qd[i])
        w = w + turn[i] * qd[i]
        place, inertia = of_link[i]
        r = place - at[i]
        centre = acceleration + np.cross(alpha, r) + np.cross(w, np.cross(w, r))
        linear = np.array([np.cross(turn[k], place - at[k]) if k <= i else np.zeros(3) for k in range(N)])
        angular = np.array([turn[k] if k <= i else np.zeros(3) for k in range(N)])
        M += chain.mass * linear @ linear.T + angular @ inertia @ angular.T
        right -= linear @ (chain.mass * (centre - chain.gravity))
        right -= angular @ (inertia @ alpha + np.cross(w, inertia @ w))
    return np.linalg.solve(M, right)


def spatial(N: int, planar: bool = False) -> tuple[Chain, np.ndarray]:
    rng = np.random.default_rng(N)
    axes = rng.normal(size=(N, 3))
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    if planar:
        axes = np.tile([0.0, 0.0, 1.0], (N, 1))
    L = rng.normal(size=(3, 3))
    inertia = 0.01 * (L @ L.T) + 0.02 * np.eye(3)
    torques = rng.normal(size=N)
    return Chain(N, 1.3, np.array([0.2, 0.05, -0.1]), inertia, np.array([0.5, -0.1, 0.2]), GRAVITY, axes, torques), axes


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("N", [1, 2, 10, 50])
def test_accelerations_are_those_of_a_full_mass_matrix(N: int, planar: bool) -> None:
    chain, axes = spatial(N, planar)
    rng = np.random.default_rng(N + 100)
    for _ in range(3):
        q, qd = rng.normal(size=N), rng.normal(size=N)
        expected = dense_accelerations(chain, axes, q, qd)
        np.testing.assert_allclose(chain.accelerations(q, qd), expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("N", [1, 2, 10, 50])
def test_a_planar_chain_is_a_spatial_one_with_parallel_axes(N: int) -> None:
    whole, _ = spatial(N, planar=True)
    flat = Chain(
        N, whole.mass, whole.centre[:2], whole.inertia[2, 2], whole.offset[:2], whole.gravity[:2], None, whole.torques
    )
    rng = np.random.default_rng(N)
    q, qd = rng.normal(size=N), rng.normal(size=N)
    expected = whole.accelerations(q, qd)
    np.testing.assert_allclose(flat.accelerations(q, qd), expected, atol=1e-10 * np.abs(expected).max())


def rods(N: int) -> Chain:
    """Uniform rods of 1 m and 1 kg, as those of references/chains.py."""
    return Chain(N, 1.0, np.array([0.5, 0.0]), np.array(1.0 / 12.0), np.array([1.0, 0.0]), np.array([0.0, -DOWN]))


def test_accelerations_of_rods_are_those_of_the_natural_formulation() -> None:
    N, rng = 10, np.random.default_rng(4)
    q, qd = rng.normal(size=N), rng.normal(size=N)
    m = Mechanism(dimension=2)
    points = [m.point("p0", (0, 0), fixed=True)]
    for i in range(N):
        points.append(m.point(f"p{i + 1}", (i + 1, 0)))
        m.bar(f"rod{i}", points[-2], points[-1], mass=1.0)
    state = m.compile().state()
    phi, rate = np.cumsum(q), np.cumsum(qd)
    along = np.stack([np.cos(phi), np.sin(phi)], axis=1)
    across = np.stack([-np.sin(phi), np.cos(phi)], axis=1)
    state.set_values({f"p{i + 1}": p for i, p in enumerate(np.cumsum(along, axis=0))})
    state.set_values({f"p{i + 1}": v for i, v in enumerate(np.cumsum(rate[:, None] * across, axis=0))}, rates=True)
    accelerations(state)
    second = np.array([np.zeros(2), *(state.second(p) for p in points[1:])])
    expected = np.sum(np.diff(second, axis=0) * across, axis=1)
    np.testing.assert_allclose(np.cumsum(rods(N).accelerations(q, qd)), expected, atol=1e-9 * np.abs(expected).max())


def test_accelerations_in_space_are_those_of_the_natural_formulation() -> None:
    N, rng = 10, np.random.default_rng(5)
    random, axes = spatial(N)
    chain = Chain(N, 1.3, random.centre, random.inertia, random.offset, GRAVITY, axes)
    q, qd = rng.normal(size=N), rng.normal(size=N)
    m = Mechanism(dimension=3, gravity=GRAVITY)
    last = None
    for i in range(N):
        at = i * chain.offset
        nodes = [m.point(f"p{i}", at), *(m.vector(f"e{i}{k}", np.eye(3)[k]) for k in range(3))]
        body = m.body(f"link{i}", nodes, chain.mass, at + chain.centre, chain.inertia)
        m.revolute(f"joint{i}", last, body, at, axes[i])
        last = body
    state = m.compile().state()
    R, w, place, velocity = np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3)
    alpha, expected = np.zeros(3), []
    found = chain.accelerations(q, qd)
    for i in range(N):
        if i > 0:
            arm = R @ chain.offset
            place, velocity = place + arm, velocity + np.cross(w, arm)
        turn = R @ axes[i]
        alpha = alpha + np.cross(w, turn * qd[i]) + turn * found[i]
        w, R = w + turn * qd[i], R @ rotation(axes[i], q[i])
        state.set_values({f"p{i}": place, **{f"e{i}{k}": R[:, k] for k in range(3)}})
        state.set_values({f"p{i}": velocity, **{f"e{i}{k}": np.cross(w, R[:, k]) for k in range(3)}}, rates=True)
        expected.append(alpha)
    accelerations(state)
    of_natural = np.array([angular_acceleration(state, f"link{i}") for i in range(N)])
    np.testing.assert_allclose(of_natural, np.array(expected), atol=1e-9 * np.abs(expected).max())


def test_a_run_is_that_of_the_reference() -> None:
    N, rng = 5, np.random.default_rng(6)
    q, qd = rng.normal(size=N), rng.normal(size=N)
    phi, rate = chains.motion(np.cumsum(q), np.cumsum(qd), np.array([0.0, 0.5]), 1.0, 1.0)
    angles, rates = rods(N).run(q, qd, 5e-4, 1000)
    np.testing.assert_allclose(np.cumsum(angles), phi[-1], atol=1e-8)
    np.testing.assert_allclose(np.cumsum(rates), rate[-1], atol=1e-7)


def test_a_run_in_space_converges_with_fourth_order() -> None:
    chain, _ = spatial(4)
    q, qd = np.zeros(4), np.ones(4)
    ends = [np.concatenate(chain.run(q, qd, 0.2 / n, n)) for n in (100, 200, 400)]
    assert np.log2(np.abs(ends[0] - ends[1]).max() / np.abs(ends[1] - ends[2]).max()) == pytest.approx(4.0, abs=0.3)


def test_a_run_that_diverges_raises() -> None:
    with pytest.raises(FloatingPointError, match="try a smaller one"):
        rods(3).run(np.full(3, np.inf), np.zeros(3), 1e-3, 10)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"links": 0}, "at least one"),
        ({"mass": 0.0}, "positive mass"),
        ({"centre": np.zeros(2)}, "centre of a chain in 3 dimensions"),
        ({"axes": np.ones((2, 3))}, "2 unit vectors"),
        ({"torques": np.zeros(3)}, "torques must be 2"),
    ],
)
def test_chains_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    chain, axes = spatial(2)
    given = {name: getattr(chain, name) for name in ("links", "mass", "centre", "inertia", "offset", "gravity")}
    with pytest.raises(ValueError, match=message):
        Chain(**{**given, "axes": axes, **change})
