"""Joints leave the freedoms they promise, and measure what they promise."""

import numpy as np
import pytest

from tandem.multibody.natural.api import (
    AssemblyError,
    Mechanism,
    assemble,
    effort,
    freedoms,
    harmonic,
    polynomial,
    run,
    start,
    velocities,
)

AT, AXIS = np.array([0.4, 0.1, -0.2]), np.array([0.2, 0.3, 1.0])


def two_bodies():
    m = Mechanism(dimension=3, gravity=(0.3, 0.2, -9.81))
    bodies = []
    for k, place in enumerate(((0, 0, 0), (1, 0.5, 0))):
        nodes = [m.point(f"r{k}", place), *(m.vector(f"e{k}{i}", e) for i, e in enumerate(np.eye(3)))]
        bodies.append(m.body(f"b{k}", nodes, 1.0 + k, place, (0.1, 0.12, 0.15)))
    return m, *bodies


JOINTS = {
    "spherical": (lambda m, a, b: m.spherical("j", a.at(AT), b.at(AT)), 3),
    "revolute": (lambda m, a, b: m.revolute("j", a, b, AT, AXIS), 1),
    "universal": (lambda m, a, b: m.universal("j", a, b, AT, (1, 0, 0), (0, 1, 0)), 2),
    "cylindrical": (lambda m, a, b: m.cylindrical("j", a, b, AT, AXIS), 2),
    "prismatic": (lambda m, a, b: m.prismatic("j", a, b, AT, AXIS), 1),
    "weld": (lambda m, a, b: m.weld("j", a, b, AT), 0),
    "rod": (lambda m, a, b: m.rod("j", a.at(AT), b.at((1, 1, 1))), 5),
    "slider": (lambda m, a, b: m.slider("j", b.at(AT), AT, AXIS, on=a), 4),
    "rack": (lambda m, a, b: m.rack("j", b.at(AT), AT, AXIS, m.scalar("x"), on=a), 4),
    "revolute with angle": (
        lambda m, a, b: (m.revolute("j", a, b, AT, AXIS), m.angle("theta", a, b, AXIS, value=0.3)), 1),
}  # fmt: skip


@pytest.mark.parametrize(("joint", "relative"), JOINTS.values(), ids=JOINTS)
def test_joints_leave_the_freedoms_they_promise(joint, relative: int) -> None:
    m, a, b = two_bodies()
    joint(m, a, b)
    system = m.compile()
    state = start(system.state())
    assert freedoms(state).shape[1] == 6 + relative
    # also away from the position as drawn
    state.qd += np.random.default_rng(0).normal(size=system.n)
    record = run(start(state), 0.3, 1e-3)
    assert freedoms(record.state(-1)).shape[1] == 6 + relative
    assert record["phi_error"].max() < 1e-9 and record["phid_error"].max() < 1e-8
    assert record["capped"].sum() == 0


def test_a_revolute_joint_keeps_point_and_axis() -> None:
    m, a, b = two_bodies()
    m.revolute("j", a, b, AT, AXIS)
    state = m.compile().state()
    state.qd[:] = np.random.default_rng(4).normal(size=len(state.qd))
    end = run(start(state), 1.0).state(-1)
    np.testing.assert_allclose(end.value(a.at(AT)), end.value(b.at(AT)), atol=1e-9)
    np.testing.assert_allclose(end.value(a.along(AXIS)), end.value(b.along(AXIS)), atol=1e-9)


def test_the_angle_is_not_wrapped_and_turns_with_the_body() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    arm = m.bar("arm", m.point("A", (0, 0), fixed=True), m.point("B", (1, 0)), 1.0)
    m.angle("theta", None, arm, value=0.25)
    system = m.compile()
    record = run(start(system.state(), rates={"theta": 10.0}), 2.0)
    theta = record["theta"]
    assert theta[-1] == pytest.approx(0.25 + 20.0, rel=1e-3)
    tip = record["B"]
    np.testing.assert_allclose(np.cos(theta - 0.25), tip[:, 0], atol=1e-9)
    np.testing.assert_allclose(np.sin(theta - 0.25), tip[:, 1], atol=1e-9)


def test_an_angle_in_space_has_the_sign_of_its_axis() -> None:
    m, a, b = two_bodies()
    m.revolute("j", a, b, AT, AXIS)
    m.angle("theta", a, b, AXIS)
    state = velocities(assemble(m.compile().state()), theta=2.0)
    n = AXIS / np.linalg.norm(AXIS)
    relative = np.zeros(3)
    for k, e in enumerate(np.eye(3)):
        relative += 0.5 * np.cross(e, state.rate(m.nodes[f"e1{k}"]) - state.rate(m.nodes[f"e0{k}"]))
    np.testing.assert_allclose(relative, 2.0 * n, atol=1e-12)


def test_a_gear_turns_as_often_as_it_says() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    a, b = m.scalar("a", 1.0, inertia=2.0), m.scalar("b", 0.5, inertia=0.1)
    m.gear("gear", a, b, -3.0)
    m.torque("drive", b, 1.0)
    record = run(start(m.compile().state()), 1.0)
    reduced = 0.1 + 9.0 * 2.0
    assert record["b"][-1] - 0.5 == pytest.approx(0.5 / reduced, rel=1e-9)
    assert record["a"][-1] - 1.0 == pytest.approx(-3.0 * 0.5 / reduced, rel=1e-9)


def test_a_rod_may_have_a_length_that_is_a_coordinate() -> None:
    m = Mechanism(dimension=3)
    s = m.scalar("s", 2.0)
    tip = m.point("B", (0, 0, -2))
    m.particle("mass", tip, 1.5)
    m.rod("line", (0, 0, 0), tip, length=s)
    m.torsion("spring", s, stiffness=100.0, rest=2.0)
    record = run(start(m.compile().state()), 2.0)
    t = record.t
    sag = 1.5 * 9.81 / 100.0
    np.testing.assert_allclose(record["s"], 2.0 + sag * (1.0 - np.cos(np.sqrt(100.0 / 1.5) * t)), atol=1e-4)


@pytest.mark.parametrize("motion", [harmonic(0.4, 6.0, 0.3, 0.1), polynomial(0.0, 2.0, 1.0, -0.5)])
def test_a_drive_follows_its_law_and_knows_its_effort(motion) -> None:
    """An arm in the plane, driven: torque = I thetadd + m g l cos(theta) / 2."""
    m = Mechanism(dimension=2)
    arm = m.bar("arm", m.point("A", (0, 0), fixed=True), m.point("B", (1, 0)), 3.0)
    theta = m.angle("theta", None, arm)
    m.drive("motor", theta, motion)
    system = m.compile()
    state = start(system.state())
    for record in (run(state, 0.0), run(state, 1.0)):
        end = record.state(-1)
        value, rate, second = end.inputs[0]
        assert end["theta"][0] == pytest.approx(value, abs=1e-10)
        assert end.qd[system.column("theta")] == pytest.approx(rate, abs=1e-7)
        assert end.qdd[system.column("theta")] == pytest.approx(second, abs=1e-6)
        # exact, as the multipliers follow the projected accelerations; Newmark's own are of first order here
        assert effort(end, "motor") == pytest.approx(1.0 * second + 3.0 * 9.81 * 0.5 * np.cos(value), abs=2e-5)


def test_a_rack_on_a_moving_body_takes_inputs_from_outside() -> None:
    m, a, b = two_bodies()
    m.prismatic("j", a, b, AT, AXIS)
    x = m.scalar("x")
    m.rack("rack", b.at(AT), AT, AXIS, x, on=a)
    m.drive("steer", x)
    system = m.compile()
    state = start(system.state())
    place = system.input("steer")
    for k in range(200):
        t = (k + 1) * 1e-3
        state.vector[place] = 0.1 * np.sin(5 * t), 0.5 * np.cos(5 * t), -2.5 * np.sin(5 * t)
        record = run(state, 1e-3)
        assert record["phi_error"][-1] < 1e-9 and record["phid_error"][-1] < 1e-8
    n = AXIS / np.linalg.norm(AXIS)
    moved = state.value(b.at(AT)) - state.value(a.at(AT))
    np.testing.assert_allclose(moved, 0.1 * np.sin(1.0) * state.value(a.along(n)), atol=1e-9)


def test_what_cannot_be_assembled_is_said() -> None:
    m = Mechanism(dimension=2)
    tip = m.point("B", (1, 0))
    m.particle("mass", tip, 1.0)
    m.rod("short", (0, 0), tip, 1.0)
    m.rod("far", (5, 0), tip, 1.0)
    with pytest.raises(AssemblyError, match="does not close"):
        assemble(m.compile().state())
