"""What is done to a mechanism while it runs: torques, motions, joint types, limits, friction; and the same again."""

import math
from typing import Any

import numpy as np
import pytest

from tandem.mechanism.run import prepare
from tandem.multibody.description.mechanism_file import describe
from tandem.multibody.natural.api import AssemblyError, MechanismError, angular_acceleration
from tandem.view.mechanism_controls import arc
from tandem.view.mechanism_page import arrow, force_of
from tandem.view.rig import Rig, with_hands
from tests.tandem.view.test_mechanism_page import bench

VECTORS = {n: {"along": np.eye(3)[k].tolist()} for k, n in enumerate("uvw")}


def made(data: dict[str, Any]) -> Rig:
    described = describe({"name": "m", **data}, "m.toml")
    with_hands(described.mechanism)
    return Rig(prepare(described)[1])


def spindle(**tables: Any) -> Rig:
    """A drum that turns and slides on the x axis, without gravity; 2 kg, 0.1 kg m2 about it."""
    return made({
        "dimension": 3, "gravity": [0.0, 0.0, 0.0],
        "points": {"P": {"at": [0.2, 0.3, 0.0]}}, "vectors": VECTORS,
        "bodies": {"drum": {"nodes": ["P", "u", "v", "w"], "mass": 2.0, "centre": [0.2, 0.0, 0.0],
                            "inertia": [0.1, 0.2, 0.2]}},
        "joints": {"bearing": {"kind": "cylindrical", "bodies": ["ground", "drum"], "at": [0.0, 0.0, 0.0],
                               "axis": [1.0, 0.0, 0.0]}},
        **tables,
    })  # fmt: skip


def steps(b: Rig, seconds: float) -> None:
    for _ in range(round(seconds / b.system.h)):
        b.step()


def test_a_torque_turns_any_body() -> None:
    b = spindle()
    b.do("turn", "drum", [0.3, 5.0, 0.0])  # across the axis the bearing takes it
    steps(b, 0.5)
    assert b.motion("drum").angular_velocity == pytest.approx([1.5, 0.0, 0.0], abs=2e-3)  # half a step
    b.do("turn", "drum", [0.0, 0.0, 0.0])
    steps(b, 0.1)
    assert b.motion("drum").angular_velocity[0] == pytest.approx(1.5, abs=2e-3)  # left alone it goes on
    plane = bench("double_pendulum")
    body = plane.bodies[0]
    free = angular_acceleration(plane.state, body)[0]
    plane.do("turn", body, [5.0])
    plane.step()
    assert angular_acceleration(plane.state, body)[0] > free + 1.0


def test_a_torque_on_a_bar_in_space_acts_across_it() -> None:
    """A bar of 3 kg and 2 m on a ball joint: m L² / 3 = 4 kg m2; along the bar it feels nothing."""
    b = made({
        "dimension": 3, "gravity": [0.0, 0.0, 0.0],
        "points": {"O": {"at": [0.0, 0.0, 0.0], "fixed": True}, "E": {"at": [2.0, 0.0, 0.0]}},
        "bodies": {"bar": {"nodes": ["O", "E"], "mass": 3.0}},
    })  # fmt: skip
    b.do("turn", "bar", [2.0, 0.0, 0.4])
    steps(b, 0.2)
    assert b.motion("bar").angular_velocity == pytest.approx([0.0, 0.0, 0.4 / 4.0 * 0.2], abs=2e-4)


def test_a_cylindrical_joint_becomes_revolute_where_it_is_and_back() -> None:
    b = spindle(start={"velocity": {"P": [0.5, 0.0, 0.6], "v": [0.0, 0.0, 2.0]}})
    steps(b, 0.2)
    slid = b.present("bearing", "slide")
    assert slid == pytest.approx(0.1, rel=1e-6)
    spin = b.motion("drum").angular_velocity[0]
    b.do("change", "bearing", "revolute")
    # the sliding is lost as in an impact, the spin is not touched
    assert b.motion("drum").velocity[0] == pytest.approx(0.0, abs=1e-9)
    assert b.motion("drum").angular_velocity[0] == pytest.approx(spin, rel=1e-9)
    b.do("push", "P", [10.0, 0.0, 0.0])
    steps(b, 0.2)
    assert b.present("bearing", "slide") == pytest.approx(slid, abs=1e-8)
    angle = b.present("bearing", "turn")
    assert angle == pytest.approx(0.8, rel=1e-4)
    b.do("change", "bearing", "prismatic")
    steps(b, 0.1)
    assert b.present("bearing", "turn") == pytest.approx(angle, abs=1e-8)
    assert b.present("bearing", "slide") == pytest.approx(slid + 0.5 * 5.0 * 0.1**2, rel=1e-3)
    b.do("change", "bearing", "weld")
    fixed = b.state.q.copy()
    steps(b, 0.1)
    np.testing.assert_allclose(b.state.q, fixed, atol=1e-8)
    b.do("change", "bearing", "cylindrical")
    steps(b, 0.1)
    assert b.present("bearing", "slide") > slid + 0.04 and b.diagnosis()["phi_error"] < 1e-9
    with pytest.raises(MechanismError, match="cannot become universal"):
        b.do("change", "bearing", "universal")


def test_a_hinge_that_bodies_share_can_be_locked() -> None:
    b = bench("four_bar")
    assert len(b.hinges) == 4  # two on the ground, two between the bars
    name = next(iter(b.hinges))
    steps(b, 0.1)
    b.do("change", name, "weld")
    still = b.state.q.copy()
    steps(b, 0.2)
    np.testing.assert_allclose(b.state.q, still, atol=1e-7)  # one freedom, and it is locked
    b.do("change", name, "revolute")
    steps(b, 0.2)
    assert np.abs(b.state.q - still).max() > 1e-3


def test_a_limit_stops_and_friction_brakes_while_it_runs() -> None:
    b = spindle(start={"velocity": {"v": [0.0, 0.0, 2.0]}})
    b.do("friction", "bearing", "turn", 0.05)
    steps(b, 1.0)
    # 0.05 N m on 0.1 kg m2: 0.5 rad/s in a second
    assert b.motion("drum").angular_velocity[0] == pytest.approx(1.5, rel=1e-3)
    b.do("friction", "bearing", "turn", 0.0)
    at = b.present("bearing", "turn")
    b.do("limit", "bearing", "turn", -1.0, at + 0.1)
    most = at
    for _ in range(600):
        b.step()
        most = max(most, b.present("bearing", "turn"))
    assert at + 0.1 < most < at + 0.2 and b.motion("drum").angular_velocity[0] < 0.0
    b.do("limit", "bearing", "turn", -1.0, 1.0, False)  # and off
    steps(b, 1.5)
    assert b.present("bearing", "turn") < most - 1.0
    with pytest.raises(MechanismError, match="must be below"):
        b.do("limit", "bearing", "turn", 1.0, 0.0)


def test_a_motion_is_prescribed_on_any_body_and_its_effort_is_known() -> None:
    b = spindle()
    b.do("prescribe", "bearing turn", 0.0, 0.5, 2.0)
    steps(b, 0.3)
    w, t = 4.0 * math.pi, b.state.time
    assert b.present("bearing", "turn") == pytest.approx(0.5 * math.sin(w * t), abs=1e-6)
    assert b.effort("bearing turn") == pytest.approx(-0.1 * 0.5 * w * w * math.sin(w * t), rel=1e-3)
    b.do("prescribe", "drum along x", 0.4)  # beside it
    steps(b, 0.5)
    assert b.present("bearing", "slide") == pytest.approx(0.2, abs=1e-8)
    b.do("prescribe", "bearing turn", 1.0)  # another law, from where it is
    before = b.present("bearing", "turn")
    steps(b, 0.2)
    assert b.present("bearing", "turn") == pytest.approx(before + 0.2, abs=1e-6)
    b.do("release", "drum along x")
    b.do("push", "P", [-4.0, 0.0, 0.0])
    steps(b, 0.4)
    assert b.motion("drum").velocity[0] == pytest.approx(0.4 - 2.0 * 0.4, abs=2e-3)
    # what cannot be is refused, and all goes on as before
    with pytest.raises((MechanismError, AssemblyError)):
        b.do("prescribe", "drum along y", 1.0)
    assert "drum along y" not in b.motions
    steps(b, 0.01)
    assert b.diagnosis()["phi_error"] < 1e-9


def test_a_free_body_is_turned_about_an_axis_of_the_world() -> None:
    b = made({
        "dimension": 3, "gravity": [0.0, 0.0, 0.0], "points": {"P": {"at": [0.0, 0.0, 0.0]}}, "vectors": VECTORS,
        "bodies": {"box": {"nodes": ["P", "u", "v", "w"], "mass": 1.0, "centre": [0.0, 0.0, 0.0],
                           "inertia": [0.1, 0.2, 0.25]}},
        "start": {"velocity": {"v": [0.0, 0.0, 1.0]}},
    })  # fmt: skip
    steps(b, 0.3)
    b.do("prescribe", "box turn about z", 2.0)
    steps(b, 0.5)
    assert b.motion("box").angular_velocity == pytest.approx([0.0, 0.0, 2.0], abs=1e-5)
    b.do("release", "box turn about z")
    steps(b, 0.1)
    assert np.linalg.norm(b.motion("box").angular_velocity) > 1.0


def test_a_motion_that_cannot_go_on_ends_and_the_mechanism_does_not() -> None:
    b = bench("four_bar")
    b.do("prescribe", "coupler along x", 0.05)  # as far as it reaches
    steps(b, 0.2)
    assert b.motions == {} and "cannot go on" in b.notice and not b.paused
    assert np.isfinite(b.state.vector).all() and b.diagnosis()["phi_error"] < 1e-6 and b.steps == 200
    before = b.state.q.copy()
    steps(b, 0.1)
    assert np.abs(b.state.q - before).max() > 1e-4  # it goes on


def test_the_same_acts_again_are_the_same_bits() -> None:
    b = spindle(start={"velocity": {"P": [0.5, 0.0, 0.6], "v": [0.0, 0.0, 2.0]}})
    steps(b, 0.05)
    b.do("turn", "drum", [0.3, 0.0, 0.0])
    steps(b, 0.05)
    b.do("change", "bearing", "revolute")
    b.do("limit", "bearing", "turn", -0.2, 0.4)
    steps(b, 0.1)
    b.do("friction", "bearing", "turn", 0.02)
    b.do("change", "bearing", "cylindrical")
    b.do("prescribe", "drum along x", 0.1, 0.05, 3.0)
    b.do("hold", "P", [0.3, 0.3, 0.2])
    steps(b, 0.1)
    b.do("release", "drum along x")
    steps(b, 0.1)
    vector, count, log = b.state.vector.copy(), b.steps, list(b.log)
    b.repeat(log, count)
    np.testing.assert_array_equal(b.state.vector, vector)
    assert b.log == log
    b.do("reset")
    fresh = spindle(start={"velocity": {"P": [0.5, 0.0, 0.6], "v": [0.0, 0.0, 2.0]}})
    np.testing.assert_array_equal(b.state.vector, fresh.state.vector)
    assert list(b.mechanism.constraints) == list(fresh.mechanism.constraints)


def test_the_arrow_of_a_force_says_how_large_it_is() -> None:
    force = np.array([3.0, -4.0, 12.0])
    drawn = arrow(force, 2.0, 10.0)
    assert np.linalg.norm(drawn) == pytest.approx(2.0 * 13.0 / 23.0)
    np.testing.assert_allclose(force_of(drawn, 2.0, 10.0), force)
    assert np.linalg.norm(force_of(100.0 * drawn, 2.0, 10.0)) == pytest.approx(190.0)


def test_an_input_of_the_file_is_set_while_it_runs() -> None:
    b = spindle(
        inputs={"load": {"value": 0.0}},
        forces={"pull": {"kind": "force", "point": "P", "vector": [2.0, 0.0, 0.0], "scale": "load"}},
    )
    assert b.inputs == {"load": 0.0}
    steps(b, 0.1)
    assert b.motion("drum").velocity[0] == 0.0
    b.do("give", "load", 3.0)
    steps(b, 0.2)
    assert b.motion("drum").velocity[0] == pytest.approx(3.0 * 0.2, abs=2e-3)
    b.do("change", "bearing", "revolute")
    b.do("change", "bearing", "cylindrical")
    assert b.inputs == {"load": 3.0}  # also in new tables
    with pytest.raises(MechanismError, match="no such input"):
        b.do("give", "lode", 1.0)
    b.reset()
    assert b.inputs == {"load": 0.0}


def test_the_arc_of_a_torque_lies_about_its_axis() -> None:
    centre, torque = np.array([1.0, 2.0, 3.0]), np.array([0.0, -4.0, 3.0])
    points = arc(centre, torque, 0.5)[:-2].reshape(-1, 3) - centre
    np.testing.assert_allclose(points @ torque, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 0.5)
    # it goes round as the torque turns
    assert np.cross(points[0], points[1]) @ torque > 0.0


def satellite() -> Rig:
    return made({
        "dimension": 3, "gravity": [0.0, 0.0, 0.0],
        "points": {"P": {"at": [0.0, 0.0, 0.0]}}, "vectors": VECTORS, "scalars": {"spin": {}},
        "bodies": {"bus": {"nodes": ["P", "u", "v", "w"], "mass": 5.0, "centre": [0.0, 0.0, 0.0], "inertia": 2.0}},
        "forces": {
            "disc": {"kind": "rotor", "body": "bus", "axis": [0.0, 0.0, 1.0], "scalar": "spin", "inertia": 0.1},
            "motor": {"kind": "torque", "on": "spin", "value": 0.0},
            "floor": {"kind": "contact", "point": "P", "through": [0.0, 0.0, -9.0], "normal": [0.0, 0.0, 1.0],
                      "stiffness": 1e4},
        },
    })  # fmt: skip


def test_a_torque_that_is_changed_takes_its_reaction_along() -> None:
    """What the disc gains in angular momentum the bus loses; what follows from the drawing is not offered."""
    b = satellite()
    assert set(b.parameters) == {"motor", "floor"} and set(b.parameters["motor"]) == {"x"}
    assert set(b.parameters["floor"]) == {"stiffness", "damping", "friction", "speed"}
    b.do("set", "motor", "x", 0.4)
    steps(b, 0.5)
    spin = b.state.qd[b.system.column("spin")]
    assert spin == pytest.approx(2.0, rel=2e-3)  # half a step
    assert 2.0 * b.motion("bus").angular_velocity[2] + 0.1 * spin == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (("set", "floor", "stiffness", -1.0), "floor: stiffness = -1: must be above 0"),
        (("set", "floor", "speed", 0.0), "floor: speed = 0: must be above 0"),
        (("set", "motor", "x", math.nan), "motor: x = nan"),
        (("set", "floor", "offset", 1.0), "no such parameter"),
        (("push", "P", [math.nan, 0.0, 0.0]), "push on P"),
        (("push", "P", [1e13, 0.0, 0.0]), "push on P"),
        (("turn", "bus", [0.0, math.inf, 0.0]), "torque on bus"),
        (("turn", "bass", [0.0, 0.0, 0.0]), "bass: no such body"),
        (("hold", "P", [0.0, math.nan, 0.0]), "hand on P"),
        (("prescribe", "bus along x", 1e9), "bus along x: speed"),
        (("prescribe", "bus along x", 0.0, math.nan), "bus along x: amplitude"),
    ],
)
def test_what_means_nothing_is_refused_and_changes_nothing(act: tuple[Any, ...], words: str) -> None:
    b = satellite()
    reals = b.system.reals.copy()
    with pytest.raises(MechanismError, match=words):
        b.do(*act)
    b.step()
    np.testing.assert_array_equal(b.system.reals, reals)
    assert not b.log and not b.motions and np.isfinite(b.state.vector).all()


def test_a_change_that_breaks_off_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    b = spindle()
    b.do("prescribe", "drum along x", 0.1)
    law, constraints = dict(b.motions), list(b.mechanism.constraints)

    def broken(*_: Any) -> None:
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr("tandem.multibody.natural.changes._close", broken)
    for act in (("change", "bearing", "weld"), ("prescribe", "bearing turn", 1.0), ("release", "drum along x"),
                ("prescribe", "drum along x", 0.7)):  # fmt: skip
        with pytest.raises(np.linalg.LinAlgError):
            b.do(*act)
        assert list(b.mechanism.constraints) == constraints and b.motions == law
        assert b.hinges["bearing"].kind == "cylindrical"


def test_velocities_that_are_not_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b = spindle()
    b.state.qd[:] = math.nan
    with pytest.raises((AssemblyError, np.linalg.LinAlgError)):
        b.do("change", "bearing", "revolute")
    assert b.hinges["bearing"].kind == "cylindrical"


def test_a_joint_that_is_off_stays_off_in_another_type() -> None:
    b = spindle()
    b.do("switch", "bearing", False)
    b.do("change", "bearing", "weld")
    b.do("push", "P", [10.0, 0.0, 0.0])
    steps(b, 0.1)
    assert b.motion("drum").velocity[0] > 0.1


def test_one_motion_takes_the_place_of_another_or_leaves_it() -> None:
    b = spindle()
    b.do("prescribe", "drum along x", 0.1)
    b.do("prescribe", "bearing slide", 0.5, 0.0, 0.0, ("drum along x",))  # both together would contradict each other
    assert list(b.motions) == ["bearing slide"]
    steps(b, 0.1)
    with pytest.raises((MechanismError, AssemblyError)):
        b.do("prescribe", "drum along y", 1.0, 0.0, 0.0, ("bearing slide",))
    assert list(b.motions) == ["bearing slide"]
    before = b.present("bearing", "slide")
    steps(b, 0.1)
    assert b.present("bearing", "slide") == pytest.approx(before + 0.05, abs=1e-8)
