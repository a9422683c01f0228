"""Forces against formulas of their own."""

import numpy as np
import pytest

from sync.compile.jit import kernel
from tandem.multibody.natural.api import FORCE, Mechanism, accelerations, energy, external, momentum, run, start
from tandem.multibody.natural.tables import P
from tests.tandem.multibody.natural.mechanisms import free_body


def acceleration_of(m: Mechanism):
    return accelerations(m.compile().state())


def omega_dot(state, body) -> np.ndarray:
    """Angular acceleration at rest: 1/2 sum e^k x d2e_k/dt2."""
    G = body.metric
    e = [state.value(v) for v in body.basis]
    edd = [state.second(v) for v in body.basis]
    return 0.5 * sum(np.cross(sum(G[k, j] * e[j] for j in range(3)), edd[k]) for k in range(3))


def test_a_torque_turns_a_body_as_its_inertia_says() -> None:
    T, own = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.2, 1.0])
    m = free_body()
    m.torque("T", m.bodies["body"], world=T, own=own)
    state = acceleration_of(m)
    np.testing.assert_allclose(np.diag([1.0, 2.0, 2.5]) @ omega_dot(state, m.bodies["body"]), T + own, rtol=1e-9)
    np.testing.assert_allclose(state.second(m.bodies["body"].centre), 0.0, atol=1e-9)


def test_a_force_off_the_centre_pushes_and_turns() -> None:
    F, place = np.array([3.0, 1.0, -2.0]), np.array([0.5, 0.6, 0.7])
    m = free_body()
    m.force("F", m.bodies["body"].at(place), F)
    state = acceleration_of(m)
    np.testing.assert_allclose(state.second(m.bodies["body"].centre), F / 2.0, rtol=1e-9)
    turning = np.cross(place - np.array([0.1, -0.2, 0.3]), F)
    np.testing.assert_allclose(np.diag([1.0, 2.0, 2.5]) @ omega_dot(state, m.bodies["body"]), turning, rtol=1e-8)


def test_a_planar_torque() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    body = m.body("b", [m.point("i", (0, 0)), m.point("j", (2, 1))], 3.0, (0.7, 0.4), inertia=0.5)
    m.torque("T", body, 4.0)
    state = acceleration_of(m)
    d, dd = state.value(body.basis[0]), state.second(body.basis[0])
    assert (d[0] * dd[1] - d[1] * dd[0]) / (d @ d) == pytest.approx(8.0, rel=1e-9)


@pytest.mark.parametrize("h", [1e-3, 5e-3])
def test_a_rotor_answers_torque_exactly(h: float) -> None:
    """At 100 rad/s and 5 ms; unit vectors in the plane of the rotor would answer 12 % low."""
    m = free_body()
    spin = m.scalar("spin")
    m.rotor("wheel", m.bodies["body"], (0, 0, 1), spin, 0.8)
    m.torque("motor", spin, 40.0)
    system = m.compile(h=h)
    state = start(system.state(), rates={"spin": 100.0})
    end = run(state, 2.0).state(-1)
    assert end.qd[system.column("spin")] == pytest.approx(100.0 + 50.0 * 2.0, rel=1e-9)
    assert end["spin"][0] == pytest.approx(200.0 + 0.5 * 50.0 * 4.0, rel=1e-9)


def top():
    """A rotor on a light carrier, hinged at the origin 0.2 m from its centre; axle level."""
    m = Mechanism(dimension=3)
    tip = m.point("O", (0, 0, 0), fixed=True)
    axle, side, up = (m.vector(n, v) for n, v in zip(("w", "s", "u"), np.eye(3), strict=True))
    carrier = m.body("carrier", [tip, axle, side, up], 2.0, (0.2, 0, 0), (0.005, 0.01, 0.01))
    spin = m.scalar("spin")
    m.rotor("rotor", carrier, (1, 0, 0), spin, 0.02)
    return m


def test_a_gyroscope_precesses_slowly_and_keeps_its_energy() -> None:
    m = top()
    system = m.compile(h=1e-3)
    spin = 300.0
    # steady precession: W (I_s spin - I_t W tan 0) = m g l for a level axle
    rate = 2.0 * 9.81 * 0.2 / (0.02 * spin)
    state = system.state()
    state.set_values({"w": (0, rate, 0), "s": (-rate, 0, 0), "spin": spin}, rates=True)
    start(state)
    before = energy(state).total
    record = run(state, 2.0)
    heading = np.unwrap(np.arctan2(record["w"][:, 1], record["w"][:, 0]))
    assert heading[-1] == pytest.approx(2.0 * rate, rel=1e-4)
    assert np.abs(record["w"][:, 2]).max() < 1e-4  # it stays level
    assert energy(record.state(-1)).total == pytest.approx(before, rel=1e-7)
    assert record["capped"].sum() == 0


def test_the_gyroscopic_torque_is_that_of_a_body_that_really_spins() -> None:
    """Rotor as a scalar against the same body on spinning vectors, finely integrated: the carrier moves alike."""
    ends = []
    for scalar in (True, False):
        m = Mechanism(dimension=3)
        tip = m.point("O", (0, 0, 0), fixed=True)
        axle, side, up = (m.vector(n, v) for n, v in zip(("w", "s", "u"), np.eye(3), strict=True))
        inertia = (1e-4, 0.01, 0.01) if scalar else (0.02, 0.01, 0.01)
        carrier = m.body("carrier", [tip, axle, side, up], 2.0, (0.2, 0, 0), inertia)
        omega = np.array([20.0, 0.5, 0.3])
        if scalar:
            m.rotor("rotor", carrier, (1, 0, 0), m.scalar("spin"), 0.02)
        state = m.compile(h=2e-4).state()
        turning = omega * (np.array([0, 1, 1]) if scalar else 1.0)
        state.set_values({n: np.cross(turning, e) for n, e in zip(("w", "s", "u"), np.eye(3), strict=True)}, rates=True)
        if scalar:
            state.set_values({"spin": omega[0]}, rates=True)
        ends.append(run(start(state), 0.5).state(-1)["w"])
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-5)


def test_a_limit_pushes_and_never_pulls() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    x = m.scalar("x", 0.0, inertia=1.0)
    m.limit("stop", x, -1.0, 0.1, stiffness=1e4, damping=0.5)
    system = m.compile(h=1e-4)
    record = run(start(system.state(), rates={"x": 1.0}), 0.5)
    assert record["x"].max() < 0.1 + 0.011  # v sqrt(m / k)
    back = record.state(-1).qd[0]
    assert -1.0 < back < -0.6  # some of the energy is lost, none is gained
    qdd = record.qdd[:, 0]
    assert qdd.max() <= 1e-9


def test_friction_stops_and_holds() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    x = m.scalar("x", 0.0, inertia=2.0)
    m.friction("rub", x, level=3.0, speed=1e-3)
    record = run(start(m.compile(h=1e-3).state(), rates={"x": 1.5}), 2.0)
    assert record["x"][-1] == pytest.approx(0.5 * 2.0 * 1.5**2 / 3.0, rel=1e-2)
    assert abs(record.qd[-1, 0]) < 1e-4


@pytest.mark.parametrize(
    "h,inertia,level,speed", [(5e-3, 1.0, 3.0, 1e-3), (1e-3, 1.0, 3.0, 1e-4), (1e-3, 1.0, 30.0, 1e-3)]
)
def test_friction_comes_to_rest_however_sharp_its_corner(h: float, inertia: float, level: float, speed: float) -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    x = m.scalar("x", 0.0, inertia=inertia)
    m.friction("rub", x, level=level, speed=speed)
    record = run(start(m.compile(h=h).state(), rates={"x": 1.5}), 2.0)
    assert record["capped"].sum() == 0
    assert abs(record.qd[-1, 0]) < speed


def test_an_input_scales_a_force() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    x = m.scalar("x", 0.0, inertia=2.0)
    throttle = m.input("throttle")
    m.force("pull", x, 4.0, scale=throttle)
    system = m.compile()
    state = system.state()
    state.vector[system.input("throttle")] = 0.5, 0.0, 0.0
    record = run(start(state), 1.0)
    assert record.qd[-1, 0] == pytest.approx(1.0, rel=1e-9)


def test_parameters_may_change_while_running() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    x = m.scalar("x", 1.0, inertia=1.0)
    m.torsion("k", x, 100.0)
    system = m.compile()
    state = start(system.state())
    run(state, 0.1)
    system.reals[system.parameter("k", "stiffness")] = 0.0
    start(state)
    speed = state.qd[0]
    record = run(state, 0.5)
    np.testing.assert_allclose(record.qd[:, 0], speed, rtol=1e-9)


def test_a_joint_may_be_let_go_while_running() -> None:
    m = Mechanism(dimension=2)
    tip = m.point("B", (1, 0))
    m.particle("mass", tip, 1.0)
    m.rod("line", (0, 0), tip)
    system = m.compile()
    state = start(system.state())
    run(state, 0.3)
    system.switch("line", False)
    state.lam[:] = 0.0
    accelerations(state)
    at, speed = state["B"].copy(), state.qd.copy()
    run(state, 0.2)
    np.testing.assert_allclose(state["B"], at + 0.2 * speed + [0, -0.5 * 9.81 * 0.04], atol=1e-9)


@kernel(FORCE)
def lagging(t, h, x, xd, inputs, live, params, states, after, f, K, C):
    """A force that follows -k x with the time constant tau: implicit in its own state."""
    k, tau = params[0], params[1]
    after[0] = (states[0] * tau - h * k * x[0]) / (tau + h)
    f[0] = after[0]
    K[0] = k * h / (tau + h)


def test_model_forces_have_states_that_advance_once_a_step() -> None:
    m = Mechanism(dimension=2, gravity=(0, 0))
    x = m.scalar("x", 1.0, inertia=1.0)
    m.model_force("lag", [x], {"k": 4.0, "tau": 0.3}, states=1)
    system = m.compile(h=1e-4, hook=lagging)
    record = run(start(system.state()), 1.0)
    # x''' tau + x'' + k x = 0 with x(0) = 1, x'(0) = x''(0) = 0
    roots = np.roots([0.3, 1.0, 0.0, 4.0])
    weights = np.linalg.solve(np.vander(roots, 3, increasing=True).T, [1.0, 0.0, 0.0])
    exact = np.real(weights @ np.exp(np.outer(roots, record.t)))
    np.testing.assert_allclose(record["x"], exact, atol=5e-4)
    force = record.states[:, system.span(P.ELEMENT).start]
    np.testing.assert_allclose(force[1:], record.qdd[1:, 0], atol=1e-6)


def test_inner_forces_leave_the_momentum_alone() -> None:
    m = Mechanism(dimension=3, gravity=(0, 0, 0))
    for k, place in enumerate(((0, 0, 0), (1, 0.5, 0))):
        nodes = [m.point(f"r{k}", place), *(m.vector(f"e{k}{i}", e) for i, e in enumerate(np.eye(3)))]
        m.body(f"b{k}", nodes, 1.0 + k, place, (0.1, 0.12, 0.15))
    m.spring("s", m.bodies["b0"].at((0.1, 0.2, 0)), m.bodies["b1"].at((0.9, 0.2, 0.3)), 200.0, 3.0, 0.2)
    state = m.compile().state()
    state.qd[:] = np.random.default_rng(2).normal(size=len(state.qd))
    start(state)
    before = momentum(state)
    run(state, 1.0)
    after = momentum(state)
    np.testing.assert_allclose(after[0], before[0], atol=1e-8)
    np.testing.assert_allclose(after[1], before[1], atol=1e-3)


def test_external_is_the_law_of_an_input_that_is_set() -> None:
    m = Mechanism(dimension=2)
    x = m.scalar("x", 0.7, inertia=1.0)
    m.drive("hold", x, external(0.7))
    record = run(start(m.compile().state()), 0.1)
    np.testing.assert_allclose(record["x"], 0.7, atol=1e-10)
