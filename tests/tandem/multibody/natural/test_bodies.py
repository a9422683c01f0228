"""Rigid bodies: the constant mass matrix against rigid-body formulas, for every choice of nodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.multibody.natural.api import Mechanism, MechanismError, energy, momentum, run, start
from tests.examples import few
from tests.tandem.multibody.natural.mechanisms import free_body

NODES = {
    "point and three vectors": [("p", (0, 0, 0)), ("v", (1, 0, 0.2)), ("v", (0, 1, 0)), ("v", (0.3, 0, 1))],
    "two points and two vectors": [("p", (0, 0, 0)), ("p", (0.7, 0.1, 0)), ("v", (0, 1, 0)), ("v", (0.3, 0, 1))],
    "three points and a vector": [("p", (0, 0, 0)), ("p", (0.7, 0.1, 0)), ("p", (0, 2, 0)), ("v", (0.3, 0, 1))],
    "four points": [("p", (1, 1, 1)), ("p", (0.7, 0.1, 0)), ("p", (0, 2, 0)), ("p", (0.3, 0, 1))],
    "five points": [("p", (1, 1, 1)), ("p", (0.7, 0.1, 0)), ("p", (0, 2, 0)), ("p", (0.3, 0, 1)), ("p", (0, 0.4, 0))],
    "six, some in line": [("p", (0, 0, 0)), ("p", (1, 0, 0)), ("p", (2, 0, 0)), ("v", (1, 0, 0)), ("v", (0, 1, 0)),
                          ("v", (0, 0, 1))],
}  # fmt: skip
TENSOR = np.array([[1.0, 0.1, -0.2], [0.1, 1.4, 0.05], [-0.2, 0.05, 0.9]])
CENTRE = np.array([0.2, 0.3, -0.1])


def body_on(nodes, gravity=(0, 0, -9.81)) -> Mechanism:
    m = Mechanism(dimension=3, gravity=gravity)
    made = [
        m.point(f"n{i}", place) if kind == "p" else m.vector(f"n{i}", place) for i, (kind, place) in enumerate(nodes)
    ]
    m.body("body", made, 3.0, CENTRE, TENSOR)
    return m


def twisted(m: Mechanism, v: np.ndarray, omega: np.ndarray):
    """The state of the body moving with v at the centre of mass and turning with omega."""
    state = m.compile().state()
    for node in m.nodes.values():
        arm = m.where(node) - (CENTRE if node.kind == "point" else 0.0)
        state.qd[list(node.columns)] = np.cross(omega, arm) + (v if node.kind == "point" else 0.0)
    return state


@pytest.mark.parametrize("nodes", NODES.values(), ids=NODES)
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=few(5), deadline=None)
def test_kinetic_energy_and_momentum_are_those_of_a_rigid_body(nodes, seed: int) -> None:
    v, omega = np.random.default_rng(seed).normal(size=(2, 3))
    state = twisted(body_on(nodes), v, omega)
    assert energy(state).kinetic == pytest.approx(0.5 * 3.0 * v @ v + 0.5 * omega @ TENSOR @ omega, rel=1e-12)
    linear, angular = momentum(state)
    np.testing.assert_allclose(linear, 3.0 * v, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(angular, np.cross(CENTRE, 3.0 * v) + TENSOR @ omega, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(state.phid(), 0.0, atol=1e-12)


@pytest.mark.parametrize("nodes", NODES.values(), ids=NODES)
def test_all_choices_of_nodes_make_the_same_motion(nodes) -> None:
    v, omega = np.array([1.0, -0.5, 2.0]), np.array([3.0, -2.0, 4.0])
    m = body_on(nodes)
    moving = twisted(m, v, omega)
    record = run(start(moving, rates={}), 0.5)
    t = 0.5
    centre = record.state(-1).value(m.bodies["body"].centre)
    np.testing.assert_allclose(centre, CENTRE + v * t + 0.5 * m.g * t * t, atol=1e-9)
    # the same orientation, to the error of the rule, as the finest of the choices
    along = record.state(-1).value(m.bodies["body"].along((0, 0, 1)))
    reference = twisted(body_on(NODES["point and three vectors"]), v, omega)
    finer = run(start(reference), 0.5, 2.5e-4).state(-1)
    expected = finer.value(finer.system.mechanism.bodies["body"].along((0, 0, 1)))
    np.testing.assert_allclose(along, expected, atol=1e-4)
    assert record["phi_error"].max() < 1e-9 and record["phid_error"].max() < 1e-8


def test_a_free_body_keeps_energy_and_both_momenta() -> None:
    m = free_body()
    state = m.compile(h=1e-3).state()
    rng = np.random.default_rng(1)
    state.qd[:] = rng.normal(size=len(state.qd))
    start(state)
    before = energy(state).total, *momentum(state)
    record = run(state, 2.0)
    after = energy(record.state(-1)).total, *momentum(record.state(-1))
    assert after[0] == pytest.approx(before[0], rel=1e-5)
    np.testing.assert_allclose(after[1], before[1], rtol=1e-9)
    np.testing.assert_allclose(after[2], before[2], rtol=1e-4)


def test_the_planar_two_point_body_is_the_textbook_one() -> None:
    m = Mechanism(dimension=2)
    m.body("b", [m.point("i", (0, 0)), m.point("j", (2, 0))], 3.0, (0.7, 0.4), inertia=0.5)
    L, x, y = 2.0, 0.7, 0.4
    about_i = 0.5 + 3.0 * (x * x + y * y)
    a, b, c = 3.0 + about_i / L**2 - 2 * 3.0 * x / L, 3.0 * x / L - about_i / L**2, 3.0 * y / L
    expected = np.array([[a, 0, b, -c], [0, a, c, b], [b, c, about_i / L**2, 0], [-c, b, 0, about_i / L**2]])
    np.testing.assert_allclose(m.compile().mass(), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda m, p, q: m.body("b", [p, q], 1.0, (0, 1, 0), (1, 1, 1)), "outside the span"),
        (lambda m, p, q: m.body("b", [p, q], -1.0, (0, 0, 0)), "at least 0"),
        (lambda m, p, q: m.body("b", [p], 1.0, (0, 0, 0)), "needs a direction"),
        (lambda m, p, q: m.body("b", [p, q, m.vector("v", (0, 1, 0))], 1.0, (0, 0, 0), (1, 1, 3)), "none may exceed"),
        (lambda m, p, q: m.point("p", (0, 0, 0)), "already"),
        (lambda m, p, q: m.point("z", (0, 0)), "3 finite numbers"),
        (lambda m, p, q: m.rod("r", p, p), "must be positive"),
        (lambda m, p, q: Mechanism(dimension=2).universal("u", None, None, (0, 0), (1, 0), (0, 1)), "3 dimensions"),
        (lambda m, p, q: m.spherical("s", (0, 0, 0), (1, 0, 0)), "off by"),
        (lambda m, p, q: m.limit("l", p[0], 2, 1, 10), "below"),
        (lambda m, p, q: m.model_force("f", [p]) or m.compile(), "hook"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(wrong, message: str) -> None:
    m = Mechanism(dimension=3)
    p, q = m.point("p", (0, 0, 0)), m.point("q", (1, 0, 0))
    with pytest.raises(MechanismError, match=message):
        wrong(m, p, q)


def test_a_body_may_stand_on_points_and_vectors_of_another() -> None:
    """A pendulum hinged to a block: point and axis of the hinge are forms of the block's nodes, not equations."""
    m = Mechanism(dimension=3)
    block = m.body(
        "block", [m.point("r", (0, 0, 0)), *(m.vector(n, e) for n, e in zip("abc", np.eye(3), strict=True))], 5.0,
        (0, 0, 0), (1, 1, 1),
    )  # fmt: skip
    hinge, axis = block.at((0.5, 0, 0)), block.along((0, 1, 0))
    before = len(m.constraints)
    nodes = [hinge, axis, m.point("tip", (0.5, 0, -1)), m.vector("side", (1, 0, 0))]
    m.body("rod", nodes, 1.0, (0.5, 0, -0.5), (0.1, 0.1, 0.02))
    assert len(m.constraints) - before == 5  # unit length of the side, four more to keep the rod rigid
    m.weld("wall", None, block, (0, 0, 0))
    system = m.compile()
    state = start(system.state(), rates={"tip": (1.0, 0.0, 0.0)})
    record = run(state, 1.0)
    tip = record["tip"]
    np.testing.assert_allclose(tip[:, 1], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.hypot(tip[:, 0] - 0.5, tip[:, 2]), 1.0, atol=1e-9)
