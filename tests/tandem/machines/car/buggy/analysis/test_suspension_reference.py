"""The suspension reference stands on its own: link lengths, mirror, differences, and geometries with known answers."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.errors import ConfigError
from tandem.machines.car.buggy.analysis.corner import corner, wheel_force, wheel_rate
from tandem.machines.car.buggy.analysis.geometry import HardpointError, slope
from tandem.machines.car.buggy.analysis.suspension import (
    Suspension,
    at_travel,
    double_wishbone,
    macpherson,
    pose,
    rates,
    reach,
)
from tests.examples import few
from tests.tandem.machines.car.buggy.analysis.figures import BUGGY

FRONT = double_wishbone(BUGGY["front_double_wishbone"])
REAR = macpherson(BUGGY["rear_macpherson"])
BOTH = pytest.mark.parametrize("suspension", [FRONT, REAR], ids=["front", "rear"])

TRAVELS = st.floats(-0.08, 0.08)
RACKS = st.floats(-0.065, 0.065)

# parallel level arms of equal length, the tie rod parallel to them in plan and side view: a wheel that only shifts
PARALLEL = {
    "WC": (0, 0.66, 0.275), "UBJ": (0, 0.6, 0.4), "LBJ": (0, 0.6, 0.15), "UAF": (0.1, 0.2, 0.4),
    "UAR": (-0.1, 0.2, 0.4), "LAF": (0.1, 0.2, 0.15), "LAR": (-0.1, 0.2, 0.15), "TRO": (-0.12, 0.6, 0.2),
    "TRI": (-0.12, 0.2, 0.2), "SPL": (0, 0.5, 0.15), "SPU": (0, 0.5, 0.5),
}  # fmt: skip


def distance(points: Any, a: str, b: str) -> float:
    return math.dist(points[a], points[b])


def changed(which: str, **points: Any) -> dict[str, Any]:
    return {**BUGGY[which], **points}


@settings(max_examples=few(30), deadline=None)
@given(travel=TRAVELS, rack=RACKS)
def test_all_links_of_the_wishbone_keep_their_lengths(travel: float, rack: float) -> None:
    at, drawn = at_travel(FRONT, travel, rack).points, dict(FRONT.points)
    drawn["TRI"] = drawn["TRI"] + (0, rack, 0)
    knuckle = [(a, b) for a in ("UBJ", "LBJ", "TRO", "WC") for b in ("UBJ", "LBJ", "TRO", "WC") if a < b]
    arms = [("LBJ", "LAF"), ("LBJ", "LAR"), ("UBJ", "UAF"), ("UBJ", "UAR"), ("SPL", "LAF"), ("SPL", "LBJ")]
    for a, b in knuckle + arms:
        assert distance(at, a, b) == pytest.approx(distance(drawn, a, b), abs=1e-13), (a, b)
    assert distance(at, "TRO", "TRI") == pytest.approx(distance(FRONT.points, "TRO", "TRI"), abs=1e-13)
    assert at["TRI"] == pytest.approx(drawn["TRI"], abs=1e-16)
    assert at["WC"][2] - drawn["WC"][2] == pytest.approx(travel, abs=1e-13)


@settings(max_examples=few(30), deadline=None)
@given(travel=TRAVELS, rack=st.floats(-0.02, 0.02))
def test_the_strut_runs_through_its_mount_and_all_links_keep_their_lengths(travel: float, rack: float) -> None:
    now = at_travel(REAR, travel, rack)
    at, drawn = now.points, REAR.points
    names = ("LBJ", "TRO", "WC", "CLAMP", "SPL")
    for a, b in [(a, b) for a in names for b in names if a < b] + [("LBJ", "LAF"), ("LBJ", "LAR"), ("TRO", "TRI")]:
        assert distance(at, a, b) == pytest.approx(distance(drawn, a, b), abs=1e-13), (a, b)
    along = now.turn @ (drawn["TOP"] - drawn["CLAMP"])
    off = np.cross(at["TOP"] - at["CLAMP"], along / np.linalg.norm(along))
    assert np.linalg.norm(off) < 1e-13
    assert at["WC"][2] - drawn["WC"][2] == pytest.approx(travel, abs=1e-13)


@BOTH
def test_the_knuckle_turns_without_stretching(suspension: Suspension) -> None:
    for travel in (-0.06, 0.0, 0.06):
        turn = at_travel(suspension, travel).turn
        assert turn.T @ turn == pytest.approx(np.eye(3), abs=1e-14)
        assert np.linalg.det(turn) == pytest.approx(1.0, abs=1e-14)


@BOTH
@pytest.mark.parametrize("travel", [-0.06, -0.013, 0.0, 0.05])
@pytest.mark.parametrize("rack", [-0.02, 0.0, 0.015])
def test_velocities_are_the_slopes_of_positions(suspension: Suspension, travel: float, rack: float) -> None:
    now = at_travel(suspension, travel, rack)
    up, across = rates(suspension, now), rates(suspension, now, 0.0, 1.0)
    for name in ("WC", "TRO", "LBJ"):
        by_travel = slope(lambda z, name=name: at_travel(suspension, z, rack).points[name], travel, 8e-3)
        by_rack = slope(lambda x, name=name: at_travel(suspension, travel, x).points[name], rack, 8e-3)
        assert up.at(now.points[name]) == pytest.approx(by_travel, abs=2e-11)
        assert across.at(now.points[name]) == pytest.approx(by_rack, abs=2e-11)
    turning = slope(lambda z: at_travel(suspension, z, rack).axle, travel, 8e-3)
    assert np.cross(up.spin, now.axle) == pytest.approx(turning, abs=2e-11)
    assert up.arm == pytest.approx(float(slope(lambda z: np.array(at_travel(suspension, z, rack).angle), travel, 8e-3)))


@BOTH
@pytest.mark.parametrize("side", ["left", "right"])
def test_gains_are_the_slopes_of_what_they_are_gains_of(suspension: Suspension, side: Any) -> None:
    travel, rack = 0.021, 0.012

    def by_travel(name: str) -> float:
        def value(z: float) -> np.ndarray:
            return np.array(getattr(corner(suspension, z, rack, side), name))

        return float(slope(value, travel, 8e-3))

    at = corner(suspension, travel, rack, side)
    for gain, of in (
        ("camber_gain", "camber"), ("toe_in_gain", "toe_in"), ("half_track_gain", "half_track"),
        ("forward_gain", "forward"), ("motion_ratio", "spring_length"), ("motion_ratio_gain", "motion_ratio"),
    ):  # fmt: skip
        assert getattr(at, gain) == pytest.approx(by_travel(of), abs=1e-9), gain
    steer = slope(lambda x: np.array(corner(suspension, travel, x, side).steer), rack, 8e-3)
    assert at.steer_per_rack == pytest.approx(float(steer), abs=1e-9)


@settings(max_examples=few(12), deadline=None)
@given(travel=TRAVELS, rack=st.floats(-0.06, 0.06))
def test_the_right_side_is_the_left_one_in_a_mirror(travel: float, rack: float) -> None:
    left, right = corner(FRONT, travel, rack, "left"), corner(FRONT, travel, -rack, "right")
    assert right.centre == pytest.approx((left.centre[0], -left.centre[1], left.centre[2]), abs=1e-15)
    assert right.contact == pytest.approx((left.contact[0], -left.contact[1], left.contact[2]), abs=1e-15)
    assert right.steer == -left.steer
    assert right.axle == pytest.approx((-left.axle[0], left.axle[1], -left.axle[2]), abs=1e-15)
    for name in (
        "camber", "toe_in", "caster", "kingpin", "scrub", "trail", "spring_length", "motion_ratio", "roll_centre",
        "brake_path", "drive_path", "half_track", "steer_per_rack", "camber_gain", "toe_in_gain",
    ):  # fmt: skip
        assert getattr(right, name) == getattr(left, name), name


def test_the_axle_is_drawn_with_the_given_camber_and_toe() -> None:
    at = corner(double_wishbone(BUGGY["front_double_wishbone"], camber=-0.02, toe_in=0.003))
    assert (at.camber, at.toe_in, at.steer) == pytest.approx((-0.02, 0.003, -0.003), abs=1e-15)
    assert at.contact[1] > at.centre[1]  # leaning inwards, it stands wider than its centre
    other = corner(double_wishbone(BUGGY["front_double_wishbone"], camber=-0.02, toe_in=0.003), side="right")
    assert (other.camber, other.toe_in, other.steer) == pytest.approx((-0.02, 0.003, 0.003), abs=1e-15)


def test_equal_parallel_arms_only_shift_the_wheel() -> None:
    suspension = double_wishbone(PARALLEL)
    for travel in (-0.05, 0.02, 0.08):
        at = corner(suspension, travel)
        assert (at.camber, at.toe_in, at.forward) == pytest.approx((0, 0, 0), abs=1e-14)
        # the ball joints run on circles of 0.4 m
        angle = math.asin(travel / 0.4)
        assert at.half_track == pytest.approx(0.66 - 0.4 * (1 - math.cos(angle)), abs=1e-14)
        assert at.roll_centre == pytest.approx(-at.half_track * math.tan(angle), abs=1e-13)
        # the spring stands on the arm, 0.3 m out: rise 3/4 of the wheel's
        lower = np.array([0.2 + 0.3 * math.cos(angle), 0.15 + 0.3 * math.sin(angle)])
        rise = np.array([-math.tan(angle), 1.0]) * 0.75
        to = lower - (0.5, 0.5)
        assert at.spring_length == pytest.approx(math.hypot(*to), abs=1e-14)
        assert at.motion_ratio == pytest.approx(float(to @ rise) / math.hypot(*to), abs=1e-13)
    level = corner(suspension)
    assert level.roll_centre == pytest.approx(0.0, abs=1e-14)
    assert level.motion_ratio == pytest.approx(-0.75, abs=1e-14)
    assert (level.brake_path, level.drive_path) == pytest.approx((0, 0), abs=1e-14)
    assert level.scrub == pytest.approx(0.06) and level.trail == pytest.approx(0.0)


def test_roll_centre_of_inclined_arms_is_where_their_lines_lead() -> None:
    # hinges along x: the arms' lines meet in the instant centre; its line to the contact point cuts the middle plane
    points = {**PARALLEL, "UBJ": (0, 0.58, 0.4), "UAF": (0.1, 0.25, 0.36), "UAR": (-0.1, 0.25, 0.36)}
    points |= {"LAF": (0.1, 0.2, 0.17), "LAR": (-0.1, 0.2, 0.17), "LBJ": (0, 0.62, 0.15)}
    upper, lower = (0.4 - 0.36) / (0.58 - 0.25), (0.15 - 0.17) / (0.62 - 0.2)
    y = (0.17 - 0.36 + upper * 0.25 - lower * 0.2) / (upper - lower)
    z = 0.36 + upper * (y - 0.25)
    # the tie rod must aim at the same centre, or the wheel steers as well
    tie = np.array([0.6, 0.2]) + 0.7 * (np.array([y, z]) - (0.6, 0.2))
    points |= {"TRI": (-0.12, float(tie[0]), float(tie[1]))}
    at = corner(double_wishbone(points))
    assert at.roll_centre == pytest.approx(0.66 * z / (0.66 - y), abs=1e-12)
    assert at.toe_in_gain == pytest.approx(0.0, abs=1e-12)
    assert at.camber_gain == pytest.approx(-1.0 / (0.66 - y), abs=1e-12)


def test_roll_centre_of_a_strut_is_found_by_its_construction() -> None:
    # plane strut: instant centre where the arm's line meets the perpendicular to the strut through its mount
    points = {
        "WC": (0, 0.67, 0.275), "LBJ": (0, 0.62, 0.17), "LAF": (0.15, 0.3, 0.19), "LAR": (-0.15, 0.3, 0.19),
        "TOP": (0, 0.54, 0.72), "CLAMP": (0, 0.58, 0.43), "TRO": (-0.13, 0.6, 0.2), "TRI": (-0.13, 0.3, 0.2),
        "SPL": (0, 0.58, 0.43), "SPU": (0, 0.54, 0.72),
    }  # fmt: skip
    strut = np.array([0.54 - 0.58, 0.72 - 0.43])
    arm = np.array([0.62 - 0.3, 0.17 - 0.19])
    # centre = LBJ − s·arm with (centre − TOP)·strut = 0
    s = ((np.array([0.62, 0.17]) - (0.54, 0.72)) @ strut) / (arm @ strut)
    y, z = np.array([0.62, 0.17]) - s * arm
    tie = np.array([0.6, 0.2]) + 0.3 * (np.array([y, z]) - (0.6, 0.2))
    points["TRI"] = (-0.13, float(tie[0]), float(tie[1]))
    at = corner(macpherson(points))
    assert at.roll_centre == pytest.approx(0.67 * z / (0.67 - y), abs=1e-12)
    assert at.camber_gain == pytest.approx(-1.0 / (0.67 - y), abs=1e-12)
    # the spring lies in the strut: it shortens as the knuckle's point at the mount slides through it
    lever = np.hypot(0.54 - y, 0.72 - z)
    assert at.motion_ratio == pytest.approx(-lever / (0.67 - y), abs=1e-12)


@BOTH
def test_spring_and_wheel_do_the_same_work(suspension: Suspension) -> None:
    stiffness, free = 30e3, 0.45

    def stored(z: float) -> np.ndarray:
        return np.array(0.5 * stiffness * (corner(suspension, z).spring_length - free) ** 2)

    at = corner(suspension, 0.03)
    force = stiffness * (free - at.spring_length)
    assert wheel_force(at, force) == pytest.approx(float(slope(stored, 0.03, 8e-3)), rel=1e-10)

    def push(z: float) -> np.ndarray:
        there = corner(suspension, z)
        return np.array(wheel_force(there, stiffness * (free - there.spring_length)))

    assert wheel_rate(at, stiffness, force) == pytest.approx(float(slope(push, 0.03, 8e-3)), rel=1e-9)


@BOTH
def test_steering_turns_the_wheel_about_the_kingpin(suspension: Suspension) -> None:
    now = at_travel(suspension, 0.02, 0.01)
    top = "UBJ" if suspension is FRONT else "TOP"
    # with the arm held, the knuckle can only turn about the line of its two ball points
    motion = rates(suspension, now, 0.0, 1.0)
    free = rates(suspension, now, 1.0, 0.0)
    held_spin = motion.spin - free.spin * (motion.arm / free.arm)
    pin = now.points[top] - now.points["LBJ"]
    assert np.cross(held_spin, pin) == pytest.approx(np.zeros(3), abs=1e-12)


def test_newton_for_the_travel_agrees_with_the_arm_angle_it_found() -> None:
    for angle in (-0.2, 0.07, 0.15):
        travel = pose(FRONT, angle).points["WC"][2] - FRONT.points["WC"][2]
        assert at_travel(FRONT, float(travel)).angle == pytest.approx(angle, abs=1e-12)


@BOTH
def test_a_travel_out_of_reach_says_what_is_within(suspension: Suspension) -> None:
    low, high = reach(suspension)
    assert low < -0.1 and high > 0.1
    for travel in (high + 0.02, low - 0.02, 3.0):
        with pytest.raises(HardpointError, match=r"WC: travel .* out of reach of LBJ, .* allow"):
            at_travel(suspension, travel)
    assert at_travel(suspension, 0.99 * high).points["WC"][2] > suspension.points["WC"][2]


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (changed("front_double_wishbone", LAR=BUGGY["front_double_wishbone"]["LAF"]), "LAF: coincides with LAR"),
        (changed("front_double_wishbone", LBJ=[0.0, 0.27, 0.182]), "LBJ: on the line LAF-LAR"),
        (changed("front_double_wishbone", TRO=[-0.002, 0.6, 0.2825]), "LBJ, UBJ, TRO: on one line"),
        (changed("front_double_wishbone", UBJ=[0.1, float("nan"), 0.3]), "UBJ: .* three finite numbers"),
        (changed("front_double_wishbone", WC=[0.0, -0.66, 0.275]), "WC: y = -0.66 m; hardpoints are of the left"),
        (changed("front_double_wishbone", SPL=BUGGY["front_double_wishbone"]["SPU"]), "SPL: coincides with SPU"),
        ({"WC": [0, 0.6, 0.3]}, "UBJ, LBJ, .* missing"),
        ({**PARALLEL, "UAF": (0.1, 0.6, 0.8), "UAR": (-0.1, 0.6, 0.8)}, r"UBJ: .*\(dead centre\)"),
        ({**PARALLEL, "TRO": (0.0, 0.7, 0.2), "TRI": (0.0, 0.2, 0.2)}, r"TRO: .*\(dead centre\)"),
    ],
)
def test_impossible_wishbones_are_refused_by_the_name_of_their_point(points: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        double_wishbone(points)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (changed("rear_macpherson", CLAMP=BUGGY["rear_macpherson"]["TOP"]), "CLAMP: coincides with TOP"),
        (changed("rear_macpherson", TRO=[-2.2518, 0.593, 0.39]), "LBJ, TOP, TRO: on one line"),
        (changed("rear_macpherson", LBJ=[-2.235, 0.3, 0.175]), "LBJ: on the line LAF-LAR"),
    ],
)
def test_impossible_struts_are_refused_by_the_name_of_their_point(points: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        macpherson(points)


def test_a_rack_the_tie_rod_cannot_follow_is_refused() -> None:
    with pytest.raises(HardpointError, match="TRI: the tie rod cannot follow"):
        at_travel(FRONT, 0.0, 0.4)
