"""What would give a silent wrong result is refused or said: by the builder as by mechanism files."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sync.errors import ConfigError
from tandem.multibody.description.mechanism_file import describe
from tandem.multibody.natural.api import (
    DivergedError,
    LockedMechanism,
    Mechanism,
    MechanismError,
    NotConverged,
    Scheme,
    Settings,
    accelerations,
    angular_acceleration,
    angular_velocity,
    harmonic,
    locked,
    polynomial,
    redundant,
    run,
    shapes,
    start,
)
from tests.tandem.multibody.natural.mechanisms import free_body, pendulum

NAN, INF = math.nan, math.inf


def _space() -> tuple[Mechanism, Any, Any, Any]:
    """A body in space, a point and a scalar."""
    m = free_body()
    p = m.point("p", (1, 1, 1))
    m.particle("bead", p, 1.0)
    return m, m.bodies["body"], p, m.scalar("s", 0.5, inertia=1.0)


Wrong = Callable[[Mechanism, Any, Any, Any], Any]
NUMBERS: list[tuple[str, Wrong]] = [
    ("point x", lambda m, b, p, s: m.point("x", (NAN, 0, 0))),
    ("point x", lambda m, b, p, s: m.point("x", "here")),
    ("vector x", lambda m, b, p, s: m.vector("x", (0, 0, 0))),
    ("scalar x", lambda m, b, p, s: m.scalar("x", NAN)),
    ("scalar x", lambda m, b, p, s: m.scalar("x", [1.0, 2.0])),
    ("scalar x: inertia", lambda m, b, p, s: m.scalar("x", 0.0, inertia=-1.0)),
    ("particle x: mass", lambda m, b, p, s: m.particle("x", p, NAN)),
    ("particle x: mass", lambda m, b, p, s: m.particle("x", p, -2.0)),
    ("mass at a point", lambda m, b, p, s: m.add_mass(p, NAN)),
    ("bar x: mass", lambda m, b, p, s: m.bar("x", p, m.point("y", (0, 0, 0)), INF)),
    ("body x: mass", lambda m, b, p, s: m.body("x", list(b.nodes), NAN, (0, 0, 0), 1.0)),
    ("body x: centre", lambda m, b, p, s: m.body("x", list(b.nodes), 1.0, (NAN, 0, 0), 1.0)),
    ("body x: inertia", lambda m, b, p, s: m.body("x", list(b.nodes), 1.0, (0, 0, 0), (1.0, NAN, 1.0))),
    ("body x: the inertia must be", lambda m, b, p, s: m.body("x", list(b.nodes), 1.0, (0, 0, 0), (1.0, 2.0))),
    ("body x: principal moments", lambda m, b, p, s: m.body("x", list(b.nodes), 1.0, (0, 0, 0), (-1.0, 1.0, 1.0))),
    ("rod x: length", lambda m, b, p, s: m.rod("x", p, (0, 0, 0), NAN)),
    ("rod x: length", lambda m, b, p, s: m.rod("x", p, (0, 0, 0), -1.0)),
    ("gear x: ratio", lambda m, b, p, s: m.gear("x", s, m.scalar("y"), NAN)),
    ("axis", lambda m, b, p, s: m.revolute("x", None, b, (0, 0, 0), (NAN, 0, 1))),
    ("axis", lambda m, b, p, s: m.cylindrical("x", None, b, (0, 0, 0), (0, 0, 0))),
    ("a place", lambda m, b, p, s: m.revolute("x", None, b, (0, NAN, 0), (0, 0, 1))),
    ("is no body", lambda m, b, p, s: m.revolute("x", b, None, (0, 0, 0), (0, 0, 1))),
    ("law", lambda m, b, p, s: m.drive("x", s, harmonic(NAN, 1.0))),
    ("spring x: length", lambda m, b, p, s: m.spring("x", p, (0, 0, 0), 10.0, length=-0.1)),
    ("spring x: stiffness", lambda m, b, p, s: m.spring("x", p, (0, 0, 0), NAN)),
    ("spring x: damping", lambda m, b, p, s: m.spring("x", p, (0, 0, 0), 1.0, -1.0)),
    ("spring x", lambda m, b, p, s: m.spring("x", p, s, 1.0)),
    ("torsion x: stiffness", lambda m, b, p, s: m.torsion("x", s, NAN)),
    ("torsion x", lambda m, b, p, s: m.torsion("x", p, 1.0)),
    ("force x", lambda m, b, p, s: m.force("x", p, (0, NAN, 0))),
    ("force x", lambda m, b, p, s: m.force("x", p, (0, 1))),
    ("is no point", lambda m, b, p, s: m.force("x", (0, 0, 0), (0, 1, 0))),
    ("torque x: world", lambda m, b, p, s: m.torque("x", b, world=(0, 0, NAN))),
    ("torque x: own", lambda m, b, p, s: m.torque("x", b, own=(0, 1))),
    ("torque x", lambda m, b, p, s: m.torque("x", s, own=(0, 0, 1))),
    ("friction x: level", lambda m, b, p, s: m.friction("x", s, -1.0, 0.1)),
    ("friction x: speed", lambda m, b, p, s: m.friction("x", s, 1.0, NAN)),
    ("limit x: stiffness", lambda m, b, p, s: m.limit("x", s, 0.0, 1.0, NAN)),
    ("contact x: normal", lambda m, b, p, s: m.contact("x", p, (0, 0, 0), (0, 0, 0), 1e4)),
    ("contact x: through", lambda m, b, p, s: m.contact("x", p, (0, NAN, 0), (0, 0, 1), 1e4)),
    ("contact x: stiffness", lambda m, b, p, s: m.contact("x", p, (0, 0, 0), (0, 0, 1), -1e4)),
    ("contact x: friction", lambda m, b, p, s: m.contact("x", p, (0, 0, 0), (0, 0, 1), 1e4, friction=-0.5)),
    ("contact x: speed", lambda m, b, p, s: m.contact("x", p, (0, 0, 0), (0, 0, 1), 1e4, speed=0.0)),
    ("force x: gain", lambda m, b, p, s: m.model_force("x", [p], {"gain": NAN})),
    ("constraint x: is not finite", lambda m, b, p, s: m.constrain("x", p[0] - NAN)),
    ("size", lambda m, b, p, s: shapes.box((1.0, NAN, 1.0))),
    ("bore", lambda m, b, p, s: shapes.cylinder(0.1, 1.0, 0.2)),
    ("rotor x: inertia", lambda m, b, p, s: m.rotor("x", b, (0, 0, 1), s, -0.1)),
    ("rotor x: axis", lambda m, b, p, s: m.rotor("x", b, (0, 0, 0), s, 0.1)),
    ("rotor x: inertia", lambda m, b, p, s: m.rotor("x", b, (0, 0, 1), s, 0.0)),
    ("limit x: stiffness", lambda m, b, p, s: m.limit("x", s, 0.0, 1.0, 0.0)),
    ("rod x: is of length 0 as drawn", lambda m, b, p, s: m.rod("x", p, p, length=m.scalar("l"))),
    ("rod x: is of length 0 as drawn", lambda m, b, p, s: m.rod("x", p, (1, 1, 1), length=m.input("l").form)),
    ("torque x: give world", lambda m, b, p, s: m.torque("x", b)),
    ("h, s", lambda m, b, p, s: m.compile(h=0.0)),
    ("h, s", lambda m, b, p, s: m.compile(h=-1e-3)),
    ("h, s", lambda m, b, p, s: m.compile(h=NAN)),
    ("h, s", lambda m, b, p, s: m.compile(h="fast")),  # type: ignore[arg-type]
    ("setting xi", lambda m, b, p, s: Settings(xi=-0.1)),
    ("setting tolerance", lambda m, b, p, s: Settings(tolerance=0.0)),
    ("setting cap", lambda m, b, p, s: Settings(cap=0)),
    ("setting cap", lambda m, b, p, s: m.compile().set(cap=NAN)),
]


@pytest.mark.parametrize(("message", "wrong"), NUMBERS, ids=[f"{k}: {n[0]}" for k, n in enumerate(NUMBERS)])
def test_a_number_that_means_nothing_is_refused_with_its_name(message: str, wrong: Wrong) -> None:
    with pytest.raises(MechanismError, match=message):
        wrong(*_space())


@pytest.mark.parametrize(
    ("what", "put"),
    [
        ("friction x", lambda m, s: m.friction("x", s, 1.0, 0.1)),
        ("torsion x", lambda m, s: m.torsion("x", s, 1.0)),
        ("limit x", lambda m, s: m.limit("x", s, -1.0, 1.0, 1e3)),
        ("drive x", lambda m, s: m.drive("x", s)),
        ("gear x", lambda m, s: m.gear("x", m.scalar("other", inertia=1.0), s, 2.0)),
        ("torque x on more", lambda m, s: m.torque("x", s - m.scalar("other", inertia=1.0), 2.0)),
    ],
)
def test_what_would_push_a_spin_off_from_nothing_is_refused(what: str, put: Any) -> None:
    """In both orders; on a scalar that is no spin it is allowed."""
    for rotor_first in (True, False):
        m, b, _, s = _space()
        acts = [lambda m=m, b=b, s=s: m.rotor("wheel", b, (0, 0, 1), s, 0.1), lambda m=m, s=s: put(m, s)]
        first, second = acts if rotor_first else acts[::-1]
        first()
        with pytest.raises(MechanismError, match=f"{what}.*acts on the spin of a rotor.*give a torque on the spin"):
            second()
    m, _, _, s = _space()
    put(m, s)
    m.compile()


@pytest.mark.parametrize("scheme", [s for s in Scheme if s != Scheme.I3AL], ids=lambda s: s.name)
def test_dissipation_is_of_one_scheme(scheme: Scheme) -> None:
    for given in ({"rho": 0.8}, {"xi": 0.1}):
        with pytest.raises(MechanismError, match=f"dissipation is of scheme I3AL, not of {scheme.name}"):
            Settings(scheme=scheme, **given)
    system = pendulum(xi=0.1)
    with pytest.raises(MechanismError, match="dissipation is of scheme I3AL"):
        system.set(scheme=scheme, tolerance=1.0)
    assert system.scheme == Scheme.I3AL  # and nothing of it was set
    system.set(scheme=scheme, xi=0.0)


def test_a_negative_planar_inertia_is_refused() -> None:
    m = Mechanism(2)
    with pytest.raises(MechanismError, match="inertia"):
        m.body("b", [m.point("p", (0, 0)), m.point("q", (1, 0))], 1.0, (0.5, 0), -0.1)


def test_an_inertia_of_a_small_body_is_judged_by_its_own_size() -> None:
    m = Mechanism(3)
    nodes = [m.point("r", (0, 0, 0)), *(m.vector(n, np.eye(3)[k]) for k, n in enumerate("uvw"))]
    with pytest.raises(MechanismError, match="none may exceed"):
        m.body("balance wheel", nodes, 1e-6, (0, 0, 0), (1e-13, 1e-13, 5e-13))


FOREIGN: list[Wrong] = [
    lambda m, b, p, s: m.spherical("x", m.point("own", (0, 0, 0)), p),
    lambda m, b, p, s: m.rod("x", m.point("own", (0, 0, 0)), p),
    lambda m, b, p, s: m.spring("x", (0, 0, 0), p, 1.0),
    lambda m, b, p, s: m.force("x", p, (1, 0, 0)),
    lambda m, b, p, s: m.torque("x", b, (1, 0, 0)),
    lambda m, b, p, s: m.torque("x", s, 1.0),
    lambda m, b, p, s: m.revolute("x", None, b, (0, 0, 0), (0, 0, 1)),
    lambda m, b, p, s: m.weld("x", b, m.bar("y", m.point("u", (0, 0, 0)), m.point("v", (1, 0, 0)), 1.0), (0, 0, 0)),
    lambda m, b, p, s: m.body("x", [p, m.point("own", (0, 0, 0))], 1.0, (0, 0, 0)),
    lambda m, b, p, s: m.particle("x", p, 1.0),
    lambda m, b, p, s: m.drive("x", s),
    lambda m, b, p, s: m.gear("x", s, m.scalar("own"), 2.0),
    lambda m, b, p, s: m.rotor("x", b, (0, 0, 1), m.scalar("own"), 1.0),
    lambda m, b, p, s: m.constrain("x", p[0] - 1.0),
    lambda m, b, p, s: m.constrain("x", (p - m.point("own", (0, 0, 0))) @ np.ones(3)),
    lambda m, b, p, s: m.model_force("x", [p]),
    lambda m, b, p, s: m.force("x", m.point("own", (0, 0, 0)), (1, 0, 0), scale=p.owner.input("load")),
    lambda m, b, p, s: m.where(p),
    lambda m, b, p, s: m.contact("x", p, (0, 0, 0), (0, 0, 1), 1e4),
    lambda m, b, p, s: m.place("x", b, (0, 0, 0)),
    lambda m, b, p, s: m.drive("x", m.scalar("own"), p.owner.input("load")),
]


@pytest.mark.parametrize("wrong", FOREIGN, ids=range(len(FOREIGN)))
def test_nodes_bodies_and_inputs_of_another_mechanism_are_refused(wrong: Wrong) -> None:
    _, b, p, s = _space()
    with pytest.raises(MechanismError, match="mechanism"):
        wrong(Mechanism(3), b, p, s)


# the same slips in a file, with the same limits
@pytest.mark.parametrize(
    ("table", "entry", "key"),
    [
        ("forces", {"kind": "spring", "points": ["A", "B"], "stiffness": 1.0, "length": -1.0}, "length"),
        ("forces", {"kind": "spring", "points": ["A", "B"], "stiffness": math.nan}, "stiffness"),
        ("joints", {"kind": "rod", "points": ["A", "B"], "length": -1.0}, "length"),
        ("scalars", {"inertia": -1.0}, "inertia"),
        ("bodies", {"nodes": ["A", "B"], "mass": math.nan}, "mass"),
        ("bodies", {"nodes": ["A", "B"], "mass": 1.0, "centre": [0.5, 0.0], "inertia": -1.0}, "inertia"),
    ],
)
def test_a_file_refuses_what_the_builder_refuses(table: str, entry: dict[str, Any], key: str) -> None:
    data = {"name": "m", "points": {"A": {"at": [0.0, 0.0], "fixed": True}, "B": {"at": [1.0, 0.0]}}}
    with pytest.raises(ConfigError, match=rf"m.toml: .*{key}"):
        describe({**data, table: {"x": entry}}, "m.toml")


# ---- torques ---------------------------------------------------------------------------------------------------------


def test_a_torque_of_its_own_on_a_planar_body_and_on_a_scalar_acts() -> None:
    m = Mechanism(2, (0, 0))
    body = m.body("b", [m.point("i", (0, 0)), m.point("j", (2, 1))], 3.0, (0.7, 0.4), inertia=0.5)
    m.torque("T", body, own=4.0)
    s = m.scalar("s", inertia=2.0)
    m.torque("U", s, 1.0, own=3.0)
    state = accelerations(m.compile().state())
    assert angular_acceleration(state, "b")[0] == pytest.approx(8.0, rel=1e-9)
    assert state.second(s)[0] == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("torque_first", [False, True])
def test_a_reaction_wheel_turns_the_satellite(torque_first: bool) -> None:
    """Against the conservation of angular momentum, along an axis that is none of the satellite's own."""
    m = free_body(centre=(0.3, 0.2, -0.1), inertia=(2.0, 2.0, 2.0))
    satellite, spin, axis = m.bodies["body"], m.scalar("spin"), np.array([1.0, 2.0, 2.0]) / 3.0
    if torque_first:
        m.torque("motor", spin, 1.5)
    m.rotor("wheel", satellite, 5.0 * axis, spin, 0.1)
    if not torque_first:
        m.torque("motor", spin, 1.5)
    state = start(m.compile().state())
    run(state, 0.5)
    assert state.rate(spin)[0] == pytest.approx(1.5 * 0.5 / 0.1, rel=1e-9)
    np.testing.assert_allclose(2.0 * angular_velocity(state, "body"), -1.5 * 0.5 * axis, rtol=1e-6, atol=1e-9)


def test_a_scaled_motor_reacts_by_as_much_and_a_force_on_the_spin_not_at_all() -> None:
    m = free_body(centre=(0.3, 0.2, -0.1), inertia=(2.0, 2.0, 2.0))
    spin, load = m.scalar("spin"), m.input("load")
    m.rotor("wheel", m.bodies["body"], (0, 0, 1), spin, 0.1)
    m.torque("motor", spin, 1.0, scale=load)
    m.force("wind", spin, 5.0)
    state = m.compile().state()
    state.inputs[load.index, 0] = 3.0
    accelerations(state)
    np.testing.assert_allclose(angular_acceleration(state, "body"), [0, 0, -1.5], atol=1e-9)
    assert state.second(spin)[0] == pytest.approx(80.0, rel=1e-9)


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_ends_when_it_was_asked_to() -> None:
    state = start(pendulum(h=3e-3).state())
    record = run(state, 0.01)
    assert state.time == pytest.approx(0.01, abs=1e-15) and record.steps == 4 and len(record["iterations"]) == 4
    np.testing.assert_allclose(record.t, [0.0, 0.003, 0.006, 0.009, 0.01])
    fine = start(pendulum(h=1e-4).state())
    run(fine, 0.01)
    assert np.abs(state.q - fine.q).max() < 1e-6
    sparse = start(pendulum(h=3e-3).state())
    assert run(sparse, 0.01, every=2).t == pytest.approx([0.0, 0.006, 0.01])
    assert sparse.vector.tobytes() == state.vector.tobytes()


@pytest.mark.parametrize(
    ("seconds", "h"), [(-1.0, None), (NAN, None), (INF, None), (1.0, 0.0), (1.0, -1e-3), (1.0, NAN)]
)
def test_a_run_without_a_meaning_is_refused(seconds: float, h: float | None) -> None:
    with pytest.raises(MechanismError, match="must be"):
        run(pendulum().state(), seconds, h)


def test_a_run_that_diverges_raises_with_what_there_was_of_it() -> None:
    m = Mechanism(2)
    p = m.point("P", (1, 0))
    m.particle("mass", p, 1.0)
    m.spring("spring", (0, 0), p, 1e9, length=0.9)
    state = start(m.compile(h=1e-2, settings=Settings(scheme=Scheme.BAUMGARTE)).state())
    with pytest.raises(DivergedError, match=r"diverged after \d+ of 500 steps") as error:
        run(state.copy(), 5.0)
    assert error.value.record.steps < 500 and "diverged" in error.value.record.ended
    assert not run(state, 5.0, strict=False).finite


def test_a_run_whose_steps_do_not_converge_says_so() -> None:
    state = start(pendulum(h=1e-2, cap=1).state())
    with pytest.warns(NotConverged, match="50 of 50 steps did not converge within 1"):
        record = run(state, 0.5)
    assert record.capped == 50 and record.ended == "finished, but 50 of 50 steps did not converge"
    with pytest.warns(NotConverged, match="50 of 50 steps"):  # also where nothing is kept of them
        quiet = run(state, 0.5, every=50, diagnostics=False)
    assert quiet.capped == 50 and len(quiet.diagnostics) == 0


def test_what_a_run_may_be_off_is_said_of_halving_and_not_invented_for_others() -> None:
    def spun(scheme: Scheme) -> Any:
        return run(start(pendulum(5e-3, scheme=scheme).state(), rates={"B": (0.0, 200.0)}), 0.2, strict=False)

    assert "halving took away" in spun(Scheme.I3AL_HALVED).ended
    compared = spun(Scheme.PROJECTION)
    assert math.isnan(compared.drift) and compared.ended == "finished"


def test_what_an_input_moves_is_not_locked() -> None:
    m = Mechanism(2)
    p = m.point("P", (1, 0))
    m.particle("bead", p, 1.0)
    m.rack("rack", p, (0, 0), (1, 0), m.input("x", *_ramp()).form)
    state = m.compile().state()
    start(state)  # no LockedMechanism, which the tests take for an error
    assert not locked(state)
    run(state, 0.5)
    assert state["P"][0] == pytest.approx(1.5)


def _ramp() -> tuple[int, tuple[float, ...]]:
    law = polynomial(1.0, 1.0)
    return law.kind, law.law


def test_a_locked_mechanism_is_said_and_a_driven_one_is_not() -> None:
    def triangle() -> Mechanism:
        m = Mechanism(2)
        feet = m.point("A", (0, 0), fixed=True), m.point("B", (1, 0), fixed=True)
        top = m.point("C", (0.5, 1))
        for k, foot in enumerate(feet):
            m.bar(f"leg{k}", foot, top, 1.0)
        return m

    with pytest.warns(LockedMechanism, match="no freedom is left"):
        state = start(triangle().compile().state())
    assert redundant(state) == 0
    m = Mechanism(2)
    crank = m.bar("crank", m.point("A", (0, 0), fixed=True), m.point("B", (1, 0)), 1.0)
    m.drive("turn", m.angle("theta", None, crank), harmonic(1.0, 1.0))
    start(m.compile().state())
