"""What is done to a mechanism while it runs: torques, motions, joint types, limits, friction; and the same again."""

import math
from typing import Any

import numpy as np
import pytest

from sim_service.multibody.mechanism_file import describe
from sim_service.multibody.natural.api import AssemblyError, MechanismError, angular_acceleration
from tandem.mechanism_run import prepare
from tandem.view.bench import Bench, with_hands
from tandem.view.mechanism_controls import arc
from tandem.view.mechanism_page import arrow, force_of
from tests.tandem.view.test_mechanism_page import bench

VECTORS = {n: {"along": np.eye(3)[k].tolist()} for k, n in enumerate("uvw")}


def made(data: dict[str, Any]) -> Bench:
    described = describe({"name": "m", **data}, "m.toml")
    with_hands(described.mechanism)
    return Bench(prepare(described)[1])


def spindle(**tables: Any) -> Bench:
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


def steps(b: Bench, seconds: float) -> None:
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
    assert b.log == log or len(b.log) == len(log)
    b.reset()
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
