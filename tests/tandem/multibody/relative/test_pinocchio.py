"""A third opinion: trees in Pinocchio, where it is installed (the extra `compare`).

Its model is made of the tree alone (bodies, motions, masses), joint by joint with the same coordinates; a ball's
velocity is in the child's axes there too. What Pinocchio has no word for is left out: forces, scalars.
"""

import functools

import numpy as np
import pytest

from tandem.multibody.natural.tables import ROTOR
from tandem.multibody.relative.kinematics import gibbs_product, residuals, tree_pose
from tandem.multibody.relative.tree import WORLD, Tree
from tests.tandem.multibody.relative.both import At, Both, apart
from tests.tandem.multibody.relative.test_tree import KINDS, mechanism

pin = pytest.importorskip("pinocchio")

TREES = ("double_pendulum", "pendulum", *(kind for kind in KINDS if kind != "weld"), "line_bodies", "planar_joints")
LOOPS = ("four_bar", "slider_crank", "spatial_slider_crank", "bricard", "hinges_of_places", "five_bar_in_space")


@functools.cache
def made(name: str) -> Both:
    """Without its forces."""
    mechanism.cache_clear()  # ours to change
    m = mechanism(name)
    mechanism.cache_clear()
    for element in [e for e in m.elements.values() if e.kind != ROTOR]:
        del m.elements[element.name]
    return Both(m)


def model(tree: Tree):
    assert not tree.scalars
    out = pin.Model()
    out.gravity.linear = np.array(tree.gravity, float)
    joint_of: list[int] = []
    for b, body in enumerate(tree.bodies):
        parent, origin = 0, np.zeros(3)
        if body.parent != WORLD:
            parent, origin = joint_of[body.parent], frame_at(tree, body.parent)
        placement = pin.SE3(np.eye(3), body.at - origin)
        for k, motion in enumerate(body.motions):
            axis = np.array(motion.axis, float)
            if motion.kind == "ball":
                joint = pin.JointModelSpherical()
            elif motion.kind == "turn":
                joint = pin.JointModelRevoluteUnaligned(axis)
            else:
                joint = pin.JointModelPrismaticUnaligned(axis)
            parent = out.addJoint(parent, joint, placement, f"{body.name}{b}.{k}")
            placement = pin.SE3.Identity()
        joint_of.append(parent)
        at = np.zeros(3) if body.motions else placement.translation
        inertia = pin.Inertia(float(body.mass), body.centre - body.at, np.array(body.inertia, float))
        out.appendBodyToJoint(parent, inertia, pin.SE3(np.eye(3), at))
    return out


def frame_at(tree: Tree, b: int) -> np.ndarray:
    """As drawn, the origin of the joint that a body is fixed to."""
    while not tree.bodies[b].motions:
        b = tree.bodies[b].parent
        if b == WORLD:
            return np.zeros(3)
    return tree.bodies[b].at


def configuration(one: Both, at: At) -> np.ndarray:
    """Pinocchio's: a quaternion (x, y, z, w) for every ball."""
    out: list[float] = []
    k = 0
    while k < one.tree.n:
        if k in one.balls:
            i = one.balls.index(k)
            w, *xyz = gibbs_product(at.ref[4 * i : 4 * i + 4], at.x[k : k + 3])
            out += [*xyz, w]
            k += 3
        else:
            out.append(at.x[k])
            k += 1
    return np.array(out)


def states(one: Both) -> list[At]:
    rng = np.random.default_rng(9)
    return [one.state(rng) for _ in range(4)]


@pytest.mark.parametrize("name", TREES)
def test_mass_and_accelerations_of_trees(name):
    one = made(name)
    theirs = model(one.tree)
    data = theirs.createData()
    n = one.tree.n
    assert theirs.nv == n == len(one.independent)
    for at in states(one):
        q = configuration(one, at)
        M = their_mass(theirs, data, q)
        assert apart(mass(one, at).ravel(), M.ravel()) < 1e-11
        found = one.motion(at, np.zeros(0))["acceleration"]
        assert apart(found, np.array(pin.aba(theirs, data, q, at.w, np.zeros(n)))) < 1e-9
        np.testing.assert_allclose(M @ found, -pin.nonLinearEffects(theirs, data, q, at.w), atol=1e-9)
        kinetic, potential = one.called("energy", x=at.x, ref=at.ref, w=at.w, u=at.u).values()
        assert kinetic[0] == pytest.approx(pin.computeKineticEnergy(theirs, data, q, at.w), rel=1e-12)
        assert potential[0] == pytest.approx(pin.computePotentialEnergy(theirs, data, q), rel=1e-12, abs=1e-12)


def their_mass(theirs, data, q: np.ndarray) -> np.ndarray:
    """Column by column by its inverse dynamics: its composite recursion wants joints numbered branch by branch."""
    rest = np.zeros(theirs.nv)
    weight = np.array(pin.rnea(theirs, data, q, rest, rest))
    return np.array([np.array(pin.rnea(theirs, data, q, rest, e)) - weight for e in np.eye(theirs.nv)])


def mass(one: Both, at: At) -> np.ndarray:
    """By the kinetic energy of pairs of velocities."""

    def twice(w: np.ndarray) -> float:
        return 2.0 * float(one.called("energy", x=at.x, ref=at.ref, w=w, u=at.u)["kinetic"][0])

    unit = np.eye(one.tree.n)
    single = [twice(e) for e in unit]
    return np.array(
        [[0.5 * (twice(a + b) - single[i] - single[j]) for j, b in enumerate(unit)] for i, a in enumerate(unit)]
    )


@pytest.mark.parametrize("name", LOOPS)
def test_accelerations_and_multipliers_of_loops(name):
    """Mass and bias by Pinocchio, loops by the plain kinematics; their second derivative by a difference."""
    one = made(name)
    theirs = model(one.tree)
    data = theirs.createData()
    for at in states(one):
        references = {k: at.ref[4 * i : 4 * i + 4] for i, k in enumerate(one.balls)}
        pose = tree_pose(one.tree, at.x, at.u[0::3], references)
        _, J = residuals(one.tree.loops, pose)
        w = at.w.copy()
        free = J[:, one.independent] @ w[one.independent]
        w[one.dependent] = -np.linalg.solve(J[:, one.dependent], free)
        step = 1e-5
        ahead, behind = (
            residuals(one.tree.loops, tree_pose(one.tree, at.x + s * pose.rates @ w, at.u[0::3], references))[1] @ w
            for s in (step, -step)
        )
        q, n, m = configuration(one, at), one.tree.n, len(J)
        M = their_mass(theirs, data, q)
        K = np.block([[M, J.T], [J, np.zeros((m, m))]])
        right = np.concatenate([-pin.nonLinearEffects(theirs, data, q, w), -(ahead - behind) / (2.0 * step)])
        expected = np.linalg.solve(K, right)
        found = one.motion(at, np.zeros(0))["full"]
        assert apart(found, expected[:n]) < 1e-7
        given = {"x": at.x, "ref": at.ref, "w": at.w, "u": at.u, "full": found, "f": np.zeros(0)}
        lam = one.called("reactions", **given)["lam"]
        if name == "hinges_of_places":  # three of a point, in the axes of the body that the loop is anchored to
            lam[:3] = pose.R[one.tree.anchors[0]] @ lam[:3]
        assert apart(lam, expected[n:]) < 1e-7


def test_a_rotor_is_a_body_of_its_own():
    """The gyroscope: Pinocchio has the wheel as a body on a hinge, whose speed is against the frame."""
    one = made("gyroscope")
    frame, (spin,) = one.tree.bodies[0], one.tree.scalars
    axis = np.array([1.0, 0.2, 0.0]) / np.hypot(1.0, 0.2)
    theirs = pin.Model()
    theirs.gravity.linear = np.array(one.tree.gravity, float)
    ball = theirs.addJoint(0, pin.JointModelSpherical(), pin.SE3(np.eye(3), frame.at), "ball")
    wheel = theirs.addJoint(ball, pin.JointModelRevoluteUnaligned(axis), pin.SE3.Identity(), "wheel")
    inertia = pin.Inertia(float(frame.mass), frame.centre - frame.at, np.array(frame.inertia, float))
    theirs.appendBodyToJoint(ball, inertia, pin.SE3.Identity())
    along = spin.inertia * np.outer(axis, axis)
    theirs.appendBodyToJoint(wheel, pin.Inertia(0.0, np.zeros(3), along), pin.SE3.Identity())
    data = theirs.createData()
    for at in states(one):
        q = np.append(configuration_of_ball(at), 0.0)
        v = np.append(at.w[:3], at.w[3] - axis @ at.w[:3])
        a = np.array(pin.aba(theirs, data, q, v, np.zeros(4)))
        found = one.motion(at, np.zeros(0))["acceleration"]
        assert apart(found, np.append(a[:3], a[3] + axis @ a[:3])) < 1e-9


def configuration_of_ball(at: At) -> np.ndarray:
    w, *xyz = gibbs_product(at.ref, at.x[:3])
    return np.array([*xyz, w])
