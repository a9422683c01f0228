"""How good a step is: retries, tolerances that know the size, the error estimate, halving, generalised-alpha."""

import math

import numpy as np
import pytest

from sync.compile.jit import kernel
from tandem.multibody.natural.api import (
    FORCE,
    Mechanism,
    MechanismError,
    Scheme,
    Settings,
    State,
    energy,
    run,
    start,
    step,
)
from tandem.multibody.natural.tables import DIAGNOSTICS, P
from tests.tandem.multibody.natural.mechanisms import bricard, four_bar, pendulum
from verify.multibody.references import closed_form

# ---- steps that do not converge at once ------------------------------------------------------------------------------


@kernel(FORCE)
def sharp_friction(t, h, x, xd, inputs, live, params, states, after, f, K, C):
    """Rounded Coulomb friction with its true derivative: an undamped iteration overshoots to the other side."""
    s = xd[0] / params[1]
    f[0] = -params[0] * s / (1.0 + s * s) ** 0.5
    C[0] = params[0] / params[1] / (1.0 + s * s) ** 1.5


def _block(retries: int, h: float = 5e-3, push: float = 30.0) -> State:
    m = Mechanism(2, (0, 0))
    x = m.scalar("x", inertia=1.0)
    m.force("push", x, push)
    m.model_force("rub", [x], {"level": 50.0, "speed": 1e-3})
    return start(m.compile(h=h, hook=sharp_friction, settings=Settings(retries=retries)).state(), rates={"x": 0.7})


def test_a_step_whose_iteration_goes_to_and_fro_is_made_again_with_damped_corrections() -> None:
    alone = run(_block(0), 0.2, strict=False)
    again = run(_block(2), 0.2)
    assert alone.capped > 5 and again.capped == 0 and again["attempts"].max() >= 2
    fine = run(_block(2, 1e-4), 0.2)
    # it comes to rest against the push, as it does with steps that need no help
    assert again["x"][-1] == pytest.approx(fine["x"][-1], abs=1e-3)
    assert abs(again.qd[-1, 0]) < 2e-3


def test_a_step_that_converges_knows_nothing_of_retries() -> None:
    ends = []
    for retries in (0, 2):
        state = start(four_bar(5e-3, retries=retries).state(), rates={"theta": 3.0})
        run(state, 2.0)
        ends.append(state.vector.tobytes())
    assert ends[0] == ends[1]


def test_the_cost_of_a_step_that_never_converges_is_bounded() -> None:
    state = start(pendulum(1e-2, cap=1).state())
    record = run(state, 0.1, strict=False)
    assert record["capped"].all() and (record["attempts"] == 3).all()
    assert record["iterations"].max() == 4  # one, one damped, one in each half
    assert state.time == pytest.approx(0.1, abs=1e-12)


def test_halves_meet_an_input_from_outside_at_their_own_instants() -> None:
    """A step in two halves of a mass carried by an input with a rate: it ends where and as fast as the input does."""
    m = Mechanism(2, (0, 0))
    x = m.scalar("x", inertia=1.0)
    m.drive("carry", x)
    system = m.compile(h=1e-2, settings=Settings(cap=1, tolerance=1e-30))
    state, work = start(system.state()), system.work()
    for k in range(1, 51):
        t = 1e-2 * k
        state.vector[system.input("carry")] = math.sin(3 * t), 3 * math.cos(3 * t), -9 * math.sin(3 * t)
        step(system.ints, system.reals, state.vector, work, system.hook, 1e-2)
        found = dict(zip(DIAGNOSTICS, system.part(P.DIAGNOSTIC, work), strict=True))
        assert found["attempts"] == 3
    assert state.q[0] == pytest.approx(math.sin(1.5), abs=1e-6)
    assert state.qd[0] == pytest.approx(3 * math.cos(1.5), abs=1e-5)


# ---- tolerances and the error estimate -------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1e-4, 1.0, 100.0])
def test_a_small_pendulum_swings_as_exactly_as_a_large_one(length: float) -> None:
    """All lengths are one motion in the time sqrt(length / g); against the elliptic functions."""
    pace = math.sqrt(length)
    m = Mechanism(2)
    m.bar("rod", m.point("A", (0, 0), fixed=True), m.point("B", (length, 0)), 1.0)
    record = run(start(m.compile(h=1e-3 * pace).state()), pace)
    angle, _ = closed_form.pendulum(record.t, math.pi / 2, 0.0, math.sqrt(1.5 * 9.81 / length))
    place = length * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    assert np.abs(record["B"] - place).max() == pytest.approx(
        1.036e-5 * length, rel=1e-3
    )  # the rule's own error, at any size
    assert record["iterations"].mean() > 1.2


def _spinning(h: float, rate: float = 100.0, **settings: object):
    m = Mechanism(2, (0, 0))
    m.bar("rod", m.point("A", (0, 0), fixed=True), m.point("B", (1, 0)), 1.0)
    return run(start(m.compile(h=h, settings=Settings(**settings)).state(), rates={"B": (0, rate)}), 1.0, strict=False)


def test_fast_rotation_is_seen_by_the_error_estimate() -> None:
    """At 100 rad/s and 5 ms each step turns 2 atan(w h / 2) in place of w h; the estimate says that very number."""
    record = _spinning(5e-3)
    missing = 0.5 - 2 * math.atan(0.25)
    assert np.median(record["step_error"]) == pytest.approx(missing, rel=0.1)
    angle = np.unwrap(np.arctan2(record["B"][:, 1], record["B"][:, 0]))[-1]
    assert record["step_error"].sum() == pytest.approx(100.0 - angle, rel=0.1)
    assert record.drift == pytest.approx(record["step_error"].sum())
    assert "may be off by" in record.ended


def test_a_run_with_large_steps_warns_and_one_with_small_steps_does_not() -> None:
    fast = start(pendulum(5e-3).state(), rates={"B": (0.0, 100.0)})
    with pytest.warns(UserWarning, match="may be off by"):
        run(fast, 1.0)
    assert run(start(pendulum(1e-3).state()), 1.0).ended == "finished"


# ---- halving and generalised-alpha -----------------------------------------------------------------------------------


def _errors(steps: list[float], **settings: object) -> list[float]:
    tight = {"tolerance": 1e-13, "tolerance_phi": 1e-13, "tolerance_velocity": 1e-12, "tolerance_acceleration": 1e-10}
    out = []
    for h in steps:
        m = Mechanism(2)
        m.bar("rod", m.point("A", (0, 0), fixed=True), m.point("B", (1, 0)), 1.0)
        record = run(start(m.compile(h=h, settings=Settings(**tight, **settings)).state()), 1.0, strict=False)
        angle, _ = closed_form.pendulum(record.t, math.pi / 2, 0.0, math.sqrt(1.5 * 9.81))
        out.append(float(np.abs(record["B"] - np.stack([np.sin(angle), -np.cos(angle)], axis=1)).max()))
    return out


@pytest.mark.parametrize(
    ("settings", "order"),
    [({}, 2.0), ({"xi": 0.1}, 1.0), ({"rho": 0.8}, 2.0), ({"rho": 0.0}, 2.0)],
    ids=["trapezoidal", "xi", "rho 0.8", "rho 0"],
)
def test_dissipation_by_rho_is_of_second_order_and_by_xi_of_first(settings: dict, order: float) -> None:
    coarse, fine = _errors([2e-3, 1e-3], **settings)
    assert math.log2(coarse / fine) == pytest.approx(order, abs=0.15)


def test_rho_damps_what_the_step_cannot_resolve_and_leaves_the_rest() -> None:
    """A stiff spring rings for ever with the trapezoidal rule; with rho it is gone, and the slow motion is kept."""
    left = []
    for rho in (1.0, 0.6):
        m = Mechanism(2, (0, 0))
        a, b = m.scalar("a", 0.1, inertia=1.0), m.scalar("b", 0.1, inertia=1.0)
        m.torsion("slow", a, 10.0)
        m.torsion("stiff", b, 1e8)
        state = start(m.compile(h=5e-3, settings=Settings(rho=rho)).state())
        run(state, 2.0, strict=False)
        left.append(state["b"][0] ** 2 * 1e8 + state.rate(b)[0] ** 2)
        assert state["a"][0] == pytest.approx(0.1 * math.cos(2.0 * math.sqrt(10.0)), abs=2e-4)
    assert left[0] > 0.1 and left[1] < 1e-12 * left[0]


def test_rho_is_chosen_when_a_system_is_compiled() -> None:
    with pytest.raises(MechanismError, match="compile alone"):
        pendulum().set(rho=0.5)
    with pytest.raises(MechanismError, match="choose one dissipation"):
        Settings(rho=0.5, xi=0.1)


def test_halving_takes_the_error_away_and_says_how_large_it_was() -> None:
    plain, halved = _errors([1e-2]), _errors([1e-2, 5e-3], scheme=Scheme.I3AL_HALVED)
    assert halved[0] < 0.02 * plain[0]
    assert math.log2(halved[0] / halved[1]) > 2.7


def test_the_estimate_of_halving_is_the_error_of_a_step() -> None:
    """One step of Bricard's linkage against a thousand."""
    truth = start(bricard(1e-5).state())
    run(truth, 1e-2)
    for scheme in (Scheme.I3AL, Scheme.I3AL_HALVED):
        state = start(bricard(1e-2, scheme=scheme, tolerance=1e-13, tolerance_phi=1e-13).state())
        record = run(state, 1e-2, strict=False)
        gap = float(np.abs(state.q - truth.q).max())
        if scheme == Scheme.I3AL:
            whole = gap
        else:  # of two halves: a quarter of what the whole step is off
            assert record["step_error"][0] == pytest.approx(whole / 4, rel=0.02)
            assert gap < 0.05 * whole


def test_halving_keeps_energy_and_constraints() -> None:
    state = start(four_bar(5e-3, scheme=Scheme.I3AL_HALVED).state(), rates={"theta": 3.0})
    before = energy(state).total
    record = run(state, 1.0)
    assert record["phi_error"].max() < 1e-7 and record["capped"].sum() == 0
    # what the spring's damper took is work of a force, and not in the residual
    left = energy(state).total - before
    fine = start(four_bar(1e-3).state(), rates={"theta": 3.0})
    run(fine, 1.0)
    assert left == pytest.approx(energy(fine).total - before, abs=1e-3)


def test_halving_is_of_third_order_also_where_forces_depend_on_velocity() -> None:
    """A gyroscope on a fixed point, and a damper across a pendulum: against steps an eighth as long."""

    def gyroscope(h: float) -> State:
        m = Mechanism(3)
        nodes = [m.point("O", (0, 0, 0), fixed=True), *(m.vector(n, np.eye(3)[k]) for k, n in enumerate("uvw"))]
        carrier = m.body("top", nodes, 2.0, (0.3, 0.0, 0.0), (0.05, 0.1, 0.1))
        m.rotor("rotor", carrier, (1, 0, 0), m.scalar("spin"), 0.05)
        m.spring("damper", (1.0, 0.5, 0.0), carrier.at((0.3, 0.1, 0.0)), 5.0, 4.0)
        settings = Settings(scheme=Scheme.I3AL_HALVED, tolerance=1e-13, tolerance_phi=1e-13)
        state = start(m.compile(h, settings).state(), rates={"spin": 60.0})
        run(state, 0.32, strict=False)
        return state

    truth = gyroscope(5e-4)["u"]
    coarse, fine = (float(np.abs(gyroscope(h)["u"] - truth).max()) for h in (4e-3, 2e-3))
    assert coarse < 1e-4 and math.log2(coarse / fine) > 2.7


@pytest.mark.parametrize("size", [1e-4, 1e-2])
def test_a_small_mechanism_without_constraints_is_solved_as_well_as_a_large_one(size: float) -> None:
    """A mass on a spring to a place that is no node, flung aside: the same motion in every size."""

    def flung(size: float) -> np.ndarray:
        m = Mechanism(2, gravity=(0, 0))
        p = m.point("P", (size, 0))
        m.particle("mass", p, 1.0)
        m.spring("spring", (0, 0), p, 100.0, 0.5, 0.5 * size)
        state = start(m.compile(5e-3).state(), rates={"P": (0.0, 5.0 * size)})
        run(state, 1.0, strict=False)
        return np.asarray(state["P"] / size)

    np.testing.assert_allclose(flung(size), flung(0.999), atol=1e-9)
