"""Equilibrium, reactions, inverse dynamics, energy and modes against formulas."""

import numpy as np
import pytest

from tandem.multibody.natural.api import (
    REAL_TIME,
    Mechanism,
    accelerations,
    angular_acceleration,
    angular_velocity,
    assemble,
    effort,
    energy,
    equilibrium,
    harmonic,
    joint_force,
    linearise,
    port_forces,
    reaction,
    run,
    start,
)
from tests.tandem.multibody.natural.mechanisms import bricard, chain, four_bar, free_body, pendulum


def test_assembly_puts_given_coordinates_where_they_are_told() -> None:
    system = four_bar()
    state = assemble(system.state(), theta=1.2)
    assert state["theta"][0] == pytest.approx(1.2, abs=1e-12)
    np.testing.assert_allclose(state["A"], [np.cos(1.2), np.sin(1.2)], atol=1e-11)
    assert np.linalg.norm(state["A"] - state["B"]) == pytest.approx(np.hypot(3, 1), abs=1e-11)


def test_a_hanging_chain_finds_its_equilibrium_from_the_level() -> None:
    system = chain(5)
    state = equilibrium(system.state())
    np.testing.assert_allclose(state["p5"], [0, -5], atol=1e-6)
    # each link carries what hangs below its middle
    np.testing.assert_allclose(state.lam, [9.81 * (4.5 - k) for k in range(5)], rtol=1e-6)


def test_a_spring_sags_by_its_load() -> None:
    m = Mechanism(dimension=3)
    p = m.point("p", (0.1, 0, -1))
    m.particle("mass", p, 2.0)
    m.spring("s", (0, 0, 0), p, 500.0, length=1.0)
    state = equilibrium(m.compile().state())
    np.testing.assert_allclose(state["p"], [0, 0, -1 - 2 * 9.81 / 500], atol=1e-7)


def test_rest_is_rest_after_an_equilibrium() -> None:
    state = equilibrium(four_bar().state())
    at = state.q.copy()
    record = run(accelerations(state), 1.0)
    np.testing.assert_allclose(record.q, np.broadcast_to(at, record.q.shape), atol=1e-8)


def test_reactions_of_a_swinging_bar() -> None:
    """Level and at rest the hinge carries a quarter of the weight; hanging and turning, weight and centripetal."""
    m = Mechanism(dimension=2)
    m.body("rod", [m.point("A", (0, 0)), m.point("B", (1, 0))], 3.0, (0.5, 0), inertia=0.25)
    m.spherical("hinge", (0, 0), m.nodes["A"])
    system = m.compile()
    state = start(system.state())
    np.testing.assert_allclose(reaction(state, "hinge")[:2], [0, 3.0 * 9.81 / 4], atol=1e-8)
    state = system.state()
    state.set_values({"B": (0, -1)})
    state.set_values({"B": (2.0, 0)}, rates=True)
    start(state)
    np.testing.assert_allclose(reaction(state, "hinge")[:2], [0, 3.0 * (9.81 + 0.5 * 4.0)], atol=1e-8)
    np.testing.assert_allclose(joint_force(state, "rod", "A"), [0, 3.0 * (9.81 + 0.5 * 4.0)], atol=1e-8)


def test_forces_in_a_shared_node_are_equal_and_opposite() -> None:
    m = Mechanism(dimension=2)
    a, b, c = m.point("A", (0, 0), fixed=True), m.point("B", (1, 0)), m.point("C", (2, 0.3))
    m.bar("one", a, b, 1.0)
    m.bar("two", b, c, 2.0)
    state = run(start(m.compile().state()), 0.4).state(-1)
    accelerations(state)
    np.testing.assert_allclose(joint_force(state, "one", "B"), -joint_force(state, "two", "B"), atol=1e-7)
    np.testing.assert_allclose(joint_force(state, "two", "C"), 0.0, atol=1e-7)


def test_inverse_dynamics_driven_back_gives_the_same_motion() -> None:
    """The torque that a drive needed, applied as a force, makes the motion that was prescribed."""

    def arm(prescribed: bool) -> Mechanism:
        m = Mechanism(dimension=2)
        p = m.point("O", (0, 0), fixed=True)
        one = m.bar("one", p, m.point("A", (1, 0)), 1.0)
        two = m.bar("two", m.nodes["A"], m.point("B", (1, 1)), 1.0)
        theta, phi = m.angle("theta", None, one), m.angle("phi", one, two)
        for name, angle, size in (("m1", theta, 0.5), ("m2", phi, 0.8)):
            if prescribed:
                m.drive(name, angle, harmonic(size, 4.0, 0.1 * size))
            else:
                m.torque(name, angle, 1.0, scale=m.input(name))
        return m

    driven, pushed = arm(True).compile(h=1e-3), arm(False).compile(h=1e-3)
    state = start(driven.state())
    free = pushed.state()
    free.q[:], free.qd[:] = state.q, state.qd
    inputs = [pushed.input(n).start for n in ("m1", "m2")]
    free.vector[inputs] = [effort(state, n) for n in ("m1", "m2")]
    start(free)
    for _ in range(500):
        run(state, 1e-3)
        free.vector[inputs] = [effort(state, n) for n in ("m1", "m2")]
        run(free, 1e-3)
    np.testing.assert_allclose(free["B"], state["B"], atol=2e-4)


def test_energy_is_kinetic_and_potential() -> None:
    record = run(start(pendulum().state()), 1.0)
    first, last = energy(record.state(0)), energy(record.state(-1))
    assert first.kinetic == 0.0
    assert last.total == pytest.approx(first.total, abs=5e-5)
    assert last.potential == pytest.approx(9.81 * 0.5 * record["B"][-1][1], abs=1e-12)


def test_modes_of_a_double_pendulum() -> None:
    system = chain(2)
    state = equilibrium(system.state())
    frequencies = [mode.frequency_hz for mode in linearise(state).modes()]
    # M = [[4/3, 1/2], [1/2, 1/3]], K = g [[3/2, 0], [0, 1/2]] for unit uniform bars
    M, K = np.array([[4 / 3, 1 / 2], [1 / 2, 1 / 3]]), 9.81 * np.diag([1.5, 0.5])
    exact = np.sqrt(np.sort(np.linalg.eigvals(np.linalg.solve(M, K)).real)) / (2 * np.pi)
    np.testing.assert_allclose(frequencies, exact, rtol=1e-6)


def test_modes_show_damping_and_instability() -> None:
    m = Mechanism(dimension=2)
    body = m.bar("rod", m.point("A", (0, 0), fixed=True), m.point("B", (0, 1)), 3.0)
    theta = m.angle("theta", None, body)
    m.torsion("k", theta, 5.0, damping=0.4)
    state = start(m.compile().state())  # standing on its head: 5 - 3 g / 2 < 0
    values = sorted(mode.eigenvalue.real for mode in linearise(state).modes())
    exact = np.roots([1.0, 0.4, 5.0 - 3.0 * 9.81 / 2])
    np.testing.assert_allclose(values, sorted(exact.real), rtol=1e-6)


def test_modes_of_a_spinning_top_are_gyroscopic() -> None:
    """A rotor in a frame without weight: nutation at I_s spin / I_t."""
    m = Mechanism(dimension=3, gravity=(0, 0, 0))
    nodes = [m.point("O", (0, 0, 0), fixed=True), *(m.vector(n, v) for n, v in zip("abc", np.eye(3), strict=True))]
    carrier = m.body("carrier", nodes, 1.0, (0, 0, 0), (0.0, 0.05, 0.05))
    # a little inertia about the axle keeps the carrier itself from being free to spin without mass
    m.rotor("rotor", carrier, (1, 0, 0), m.scalar("spin"), 0.08)
    m.rod("hold", m.nodes["b"] * 1.0, (0, 1, 5.0))
    state = m.compile().state()
    state.set_values({"spin": 40.0}, rates=True)
    start(state)
    fastest = linearise(state).modes()[-1]
    assert abs(fastest.eigenvalue.imag) == pytest.approx(0.08 * 40.0 / 0.05, rel=0.05)


def test_turning_of_a_body_is_read_in_world_axes() -> None:
    m = free_body()
    state = m.compile().state()
    omega = np.array([1.0, -2.0, 0.5])
    for name in ("u", "v", "w"):
        state.set_values({name: np.cross(omega, state[name])}, rates=True)
    state.set_values({"r": np.cross(omega, state["r"] - np.array([0.1, -0.2, 0.3]))}, rates=True)
    start(state)
    np.testing.assert_allclose(angular_velocity(state, "body"), omega, atol=1e-12)
    J = np.diag([1.0, 2.0, 2.5])
    euler = np.linalg.solve(J, -np.cross(omega, J @ omega))
    np.testing.assert_allclose(angular_acceleration(state, "body"), euler, atol=1e-9)
    swing = start(pendulum().state())
    assert angular_acceleration(swing, "rod")[0] == pytest.approx(-1.5 * 9.81, rel=1e-9)


def test_forces_of_an_element_can_be_read() -> None:
    m = Mechanism(dimension=2)
    p = m.point("p", (0, -1))
    m.particle("mass", p, 2.0)
    m.spring("s", (0, 0), p, 500.0, length=0.9)
    np.testing.assert_allclose(port_forces(m.compile().state(), "s"), [0, 50.0], atol=1e-9)


def test_rates_over_a_run_are_those_of_the_positions() -> None:
    record = run(start(pendulum().state()), 1.0)
    tip = record.system.mechanism.nodes["B"]
    speed = np.gradient(record.values(tip), record.t, axis=0)
    np.testing.assert_allclose(record.values(tip, 1)[5:-5], speed[5:-5], atol=1e-3)
    change = np.gradient(record.values(tip, 1), record.t, axis=0)
    np.testing.assert_allclose(record.values(tip, 2)[5:-5], change[5:-5], atol=2e-2)


def test_settings_for_a_deadline_cost_little_accuracy() -> None:
    exact, quick = bricard(5e-3), bricard(5e-3, **{k: getattr(REAL_TIME, k) for k in ("tolerance", "cap", "passes")})
    ends = [run(start(s.state()), 2.0) for s in (exact, quick)]
    np.testing.assert_allclose(ends[0].q[-1], ends[1].q[-1], atol=1e-5)
    assert ends[1]["iterations"].mean() < ends[0]["iterations"].mean()
    assert ends[1]["capped"].sum() == 0


def test_the_ground_reacts_where_a_body_is_held() -> None:
    """A uniform rod let go level: a quarter of its weight at the pin; hanging at rest: all of it."""
    for end, share in (((1, 0), 0.25), ((0, -1), 1.0)):
        m = Mechanism(dimension=2)
        A = m.point("A", (0, 0), fixed=True)
        B = m.point("B", end)
        m.bar("rod", A, B, mass=2.0)
        state = start(m.compile(h=1e-3).state())
        np.testing.assert_allclose(joint_force(state, "rod", "A"), [0.0, share * 2.0 * 9.81], atol=1e-6)


def test_the_pin_of_a_swinging_rod_pulls_as_the_book_says() -> None:
    """Also after steps: m g cos(a) + m (l / 2) w^2 along a rod that swings through its lowest point."""
    m = Mechanism(dimension=2)
    A = m.point("A", (0, 0), fixed=True)
    B = m.point("B", (0, -1))
    m.bar("rod", A, B, mass=1.0)
    state = start(m.compile(h=1e-3).state(), rates={"B": (8.0, 0.0)})
    np.testing.assert_allclose(joint_force(state, "rod", "A")[1], 9.81 + 0.5 * 64.0, atol=1e-6)
    for _ in range(3):
        run(state, 0.05)
        q, qd = state["B"], state.rate(state.system.mechanism.nodes["B"])
        along = -q / np.linalg.norm(q)
        pull = joint_force(state, "rod", "A") @ along
        assert pull == pytest.approx(9.81 * along[1] + 0.5 * (qd @ qd), rel=1e-5)
