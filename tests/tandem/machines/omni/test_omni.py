"""Omni wheels: what is promised of the bench and of platforms on several; bad data is refused by name."""

from dataclasses import replace
from itertools import pairwise
from math import cos, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.contract.scene import poses
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.machines.omni.studies.measures import (
    Measured,
    conservation,
    motion_identity,
    square_command,
    tracking_identity,
    wheel_of,
)
from tandem.machines.omni.studies.runs import Rig, make_changed
from tests.examples import cases, thorough
from tests.sim_service.conftest import CONFIGS

BENCH = CONFIGS / "omni" / "bench.toml"


def holds(measured: Measured) -> None:
    assert measured.rows
    assert [row for row in measured.rows if row[3] is False] == []


def test_all_trackings_give_the_same_point_and_its_distance_is_the_radius() -> None:
    measured = Measured()
    tracking_identity(measured)
    holds(measured)


def test_implicit_and_explicit_tracking_give_the_same_motion() -> None:
    measured = Measured()
    motion_identity(measured, 10.0 if thorough() else 1.0)
    holds(measured)


def test_energy_and_spin_are_conserved_without_friction() -> None:
    measured = Measured()
    conservation(measured, 100 if thorough() else 8)
    holds(measured)


def test_contact_passes_from_roller_to_roller_without_a_gap() -> None:
    """A revolution: each roller in its turn, always the whole weight on the floor."""
    v = Rig("bench_inclined", {"friction": 0.4}).run(1.2, 1e-3)
    weight = (0.3 + 4 * 0.02) * 9.81
    assert np.abs(v["wheel_load"] - weight).max() < 1e-6 * weight
    assert set(v["wheel_roller"]) == {1.0, 2.0, 3.0, 4.0}
    order = v["wheel_roller"][np.flatnonzero(np.diff(v["wheel_roller"]) != 0.0)]
    assert all(abs(a - b) in (1.0, 3.0) for a, b in pairwise(order))
    assert np.abs(v["lowest_gap"]).max() < 1e-12


def test_a_driven_wheel_rolls_and_the_books_close() -> None:
    """A torque on the axle, friction that holds: rolling without slip along the wheel, and work is energy."""
    bench = Rig("bench", {"friction": 0.8}, bench={"speed": [0.0, 0.0], "spin": 0.0, "yaw_rate": 0.0})
    v = bench.run(1.0, 5e-4, lambda t: (0.01, 0.0, 0.0, 0.0, 0.0))
    assert v["spin"][-1] > 5.0
    assert v["speed_x"][-1] == pytest.approx(0.05 * v["spin"][-1], rel=1e-6)
    assert np.abs(v["energy_error"]).max() < 1e-6 * v["kinetic"][-1]
    assert v["work_done"][-1] == pytest.approx(v["kinetic"][-1] + v["friction_loss"][-1], rel=1e-6)


def test_a_dropped_wheel_strikes_the_floor_and_loses_that_energy() -> None:
    v = Rig("bench", {"friction": 0.0}, bench={"height": 0.05, "spin": 3.0}).run(0.3, 5e-4)
    weight = (0.3 + 4 * 0.02) * 9.81
    assert v["impact_loss"][-1] == pytest.approx(weight * 0.05, rel=1e-3)
    assert abs(v["energy_error"][-1]) < 1e-6 * weight * 0.05


def test_a_spinning_wheel_bounces_with_its_restitution_then_sticks_and_the_books_close() -> None:
    """Dropped by 50 mm: half the speed is a quarter of the height, each time; friction stops the slip, adds nothing."""
    start = {"height": 0.05, "spin": 20.0, "speed": [0.0, 0.1], "yaw_rate": 0.0}
    v = Rig("bench", {"friction": 0.8, "restitution": 0.5}, bench=start).run(1.0, 5e-4)
    z, total = v["z"] - 0.05, v["kinetic"] + v["potential"]
    tops = z[1:-1][(z[1:-1] > z[2:]) & (z[1:-1] > z[:-2]) & (z[1:-1] > 1e-3)]
    assert tops[0] / 0.05 == pytest.approx(0.25, rel=0.03) and tops[1] / tops[0] == pytest.approx(0.25, rel=0.1)
    assert v["friction_loss"][-1] > 0.04 and v["wheel_slip"][-1] < 1e-12
    assert np.diff(total).max() < 1e-10 and np.abs(v["energy_error"]).max() < 1e-7 * total[0]
    assert v["impact_loss"][-1] == pytest.approx((0.3 + 4 * 0.02) * 9.81 * 0.05, rel=1e-3)


@pytest.mark.parametrize(
    "name, speed_limit, turn_limit",
    [("three_wheels", 0.0012, 0.007), ("four_wheels", 0.005, 0.02), ("mecanum", 0.01, 0.025)],
)
def test_a_platform_goes_where_it_is_told(name: str, speed_limit: float, turn_limit: float) -> None:
    """Ahead, to the left and turning by inverse kinematics; upright; the floor carries its weight.

    Limits are some three times what rollers that pass leave of an error.
    """
    bench = Rig(name)
    v = bench.run(4.0 if thorough() else 1.2, 5e-3, lambda t: (0.2, 0.1, 0.4))
    late = v["t"] > 0.8
    assert v["speed_ahead"][late].mean() == pytest.approx(0.2, abs=speed_limit)
    assert v["speed_left"][late].mean() == pytest.approx(0.1, abs=speed_limit)
    assert v["turn_rate"][late].mean() == pytest.approx(0.4, abs=turn_limit)
    assert np.abs(v["pitch"]).max() < 1e-5 and np.abs(v["roll"]).max() < 1e-5
    wheels = sum(name.endswith("_load") for name in v)
    mass = bench.machine.tables.floats[1]
    assert sum(v[f"wheel{k + 1}_load"][late].mean() for k in range(wheels)) == pytest.approx(9.81 * mass, rel=2e-3)


def test_mecanum_wheels_go_sideways_by_less_than_ideal_kinematics_says() -> None:
    """A roller that passes at q lets the wheel go cot(psi) cos(q) sideways a turn: sin(alpha) / alpha in the mean."""
    v = Rig("mecanum", {"speed_gain": 10.0}).run(2.5, 5e-3, lambda t: (0.0, 0.25, 0.0))
    passage = 0.05 * pi / 4 / 0.25  # s
    late = v["t"] > 2.5 - 6 * passage
    assert v["speed_left"][late].mean() / 0.25 == pytest.approx(sin(pi / 8) / (pi / 8), abs=3e-3)


@pytest.mark.parametrize("control", [1.0, 2.0])
def test_torques_drive_it_too(control: float) -> None:
    v = Rig("three_wheels", {"control": control}).run(1.5, 5e-3, lambda t: (0.2, 0.0, 0.0))
    assert v["speed_ahead"][-1] == pytest.approx(0.2, abs=0.02 if control == 1.0 else 0.1)


def test_the_square_is_the_one_that_is_shown() -> None:
    assert [square_command(t)[:2] for t in (0.1, 4.1, 8.1, 12.1, 16.1)] == [
        (0.25, 0.0), (0.0, 0.25), (-0.25, 0.0), (0.0, -0.25), (0.0, 0.0)
    ]  # fmt: skip


def test_what_comes_next_depends_on_the_state_alone() -> None:
    one, two = Rig("mecanum"), Rig("mecanum")
    one.run(0.2, 5e-3, lambda t: (0.2, 0.1, 0.3))
    two.state[:] = one.state
    for bench in (one, two):
        bench.run(0.2, 5e-3, lambda t: (0.1, -0.2, 0.3))
    assert one.state.tobytes() == two.state.tobytes()


def test_frames_have_rollers_on_the_rim_and_points_of_contact_on_the_floor() -> None:
    bench = Rig("mecanum")
    bench.run(0.3, 5e-3, lambda t: (0.2, 0.1, 0.3))
    m = bench.machine
    assert m.shown.scene is not None
    out = poses(m.shown.scene.frames)
    m.shown.frames(bench.state, bench.params, out)
    assert np.abs(out[-4:, 0, 2]).max() < 1e-5  # where it touches
    wheel, roller = out[1], out[2]
    assert np.linalg.norm(wheel[0] - roller[0]) == pytest.approx(0.0415, rel=1e-9)
    for frame in out:
        assert np.abs(frame[1:] @ frame[1:].T - np.eye(3)).max() < 1e-12
    assert {solid.name for solid in m.shown.scene.solids} >= {"platform", "wheel1", "wheel4_roller8", "contact4"}


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"wheel": {"psi_deg": 90.0}}, r"wheel\.psi_deg = 90: must be from 0 to less than 90"),
        ({"wheel": {"psi_deg": -1.0}}, r"wheel\.psi_deg = -1: must be from 0 to less than 90"),
        ({"wheel": {"alpha_deg": 40.0, "distance": 0.03}}, r"wheel\.alpha_deg = 40: no roller is on the floor between"),
        ({"wheel": {"distance": 0.03}}, r"wheel\.rollers = 4: neighbours overlap by .* mm"),
        ({"wheel": {"distance": 0.04}}, r"wheel\.distance = 0\.04: must be above 0 and at most 0\.0353553"),
        ({"wheel": {"rollers": 1}}, r"wheel\.rollers = 1: must be"),
        ({"wheel": {"rollers": 2}}, r"wheel\.rollers = 2: must be"),
        ({"wheel": {"rollers": 1000}}, r"wheel\.rollers = 1000: must be"),
        ({"wheel": {"rollers": 4.5}}, r"wheel\.rollers = 4\.5: must be"),
        ({"wheel": {"radius": -1.0}}, r"wheel\.radius = -1\.0: must be"),
        ({"wheel": {"roller_mass": 0.0}}, r"wheel\.roller_mass = 0\.0: must be"),
        ({"wheel": {"roller_mass": 1e-300}}, r"wheel\.roller_mass = 1e-300: must be"),
        ({"bench": {"height": 1000.0}}, r"bench\.height = 1000\.0: must be"),
        ({"tracking": "guess"}, r"tracking = 'guess': must be"),
        ({"platform": {"mass": 1.0, "inertia": [1.0, 1.0, 1.0], "wheels": []}}, r"platform\.wheels"),
    ],
)  # fmt: skip
def test_bad_data_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_changed(BENCH, {}, changed)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"wheel": {"row_offset": 0.0}}, r"wheel\.rollers = 10: neighbours overlap by .* mm.*row_offset, now 0\)"),
        ({"wheel": {"row_offset": 0.008}}, r"wheel\.rollers = 10: neighbours overlap by 4\.8\d* mm"),
        ({"wheel": {"rollers": 9}}, r"wheel\.rollers = 9: must be even with rows = 2"),
        ({"tracking": "explicit"}, r"tracking = 'explicit': must be 'support' with a \[platform\]"),
        ({"tracking": "implicit"}, r"tracking = 'implicit': must be 'support' with a \[platform\]"),
    ],
)  # fmt: skip
def test_bad_data_of_a_platform_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_changed(CONFIGS / "omni" / "three_wheels.toml", {}, changed)


def test_a_platform_whose_wheels_cannot_move_it_is_refused() -> None:
    wheels = [{"at": [0.1 * (k - 1), 0.1 * (k % 2)], "axle_deg": 90.0} for k in range(3)]
    with pytest.raises(ConfigError, match=r"platform\.wheels: the directions in which they push do not span the plane"):
        make_changed(CONFIGS / "omni" / "three_wheels.toml", {}, {"platform": {"wheels": wheels}})


@pytest.mark.parametrize(
    "changed",
    [
        {"centre": [0.5, 0.0, 0.0]},
        {"centre": [0.0, -0.2, 0.0]},
        {"wheels": [{"at": [0.1 * k, 0.1 * k], "axle_deg": 120.0 * k} for k in range(3)]},
        {"wheels": [{"at": [0.1, 0.0], "axle_deg": 120.0 * k} for k in range(3)]},
    ],
)
def test_a_platform_that_would_fall_over_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"platform\.wheels: the centre of mass is .* mm outside the polygon"):
        make_changed(CONFIGS / "omni" / "three_wheels.toml", {}, {"platform": changed})


@pytest.mark.parametrize("at, axle_deg", [((0.14, 0.001), 120.0), ((0.15, 0.0), 0.0), ((0.15, 0.06), 90.0)])
def test_wheels_in_each_others_place_are_refused(at: tuple[float, float], axle_deg: float) -> None:
    """The last one would cut through the first from the side, without a corner in it."""
    three = [{"at": [0.15, 0.0], "axle_deg": 0.0}] + [{"at": [-0.075, y], "axle_deg": 120.0 + y} for y in (0.13, -0.13)]
    changed = {"platform": {"wheels": [*three, {"at": list(at), "axle_deg": axle_deg}]}}
    with pytest.raises(ConfigError, match=r"platform\.wheels: wheels 1 and 4 overlap; place them farther apart"):
        make_changed(CONFIGS / "omni" / "three_wheels.toml", {}, changed)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e30, 1e30, 1e300, "text", True, {"a": 1.0}])
def test_no_number_of_a_file_may_be_nan_huge_or_none(value: Any) -> None:
    """Every key in its turn; each error names it."""
    from sync.config.toml import read_toml

    for name in ("bench", "three_wheels"):
        path = CONFIGS / "omni" / f"{name}.toml"
        data = read_toml(path)
        for table, rows in data.items():
            for key, old in rows.items() if isinstance(rows, dict) else ():
                if isinstance(old, bool) or not isinstance(old, int | float | list):
                    continue
                new = [value, *old[1:]] if isinstance(old, list) else value
                if key == "wheels":
                    new = [old[0] | {"axle_deg": value}, *old[1:]]
                with pytest.raises(ConfigError, match=key):
                    make_changed(path, {}, {table: {key: new}})
        with pytest.raises(ConfigError, match=r"wheel\.nosuch = 1\.0: unknown key"):
            make_changed(path, {}, {"wheel": {"nosuch": 1.0}})


def test_a_required_command_that_is_nan_is_not_taken_for_zero() -> None:
    bench = Rig("three_wheels")
    bench.run(0.005, 5e-3, lambda t: (float("nan"), 0.0, 0.0))
    assert not np.isfinite(bench.state).all()


@pytest.mark.parametrize(
    "name, changed",
    [("four_wheels", {}), *cases(("mecanum", {"friction": 10.0, "compliance": 0.0}), ("mecanum", {"friction": 10.0}),
                                 ("four_wheels", {"friction": 0.05, "compliance": 0.0}))],
)  # fmt: skip
def test_every_step_of_a_square_is_solved(name: str, changed: dict[str, float]) -> None:
    """Two rollers of a wheel brace each other where one takes over; sweeps alone need thousands."""
    v = Rig(name, changed).run(5.0 if thorough() else 1.0, 5e-3, lambda t: square_command(3.0 * t))
    assert v["unsolved"].max() <= 1e-11 and v["sweeps"].max() < 200


def test_neighbours_touch_where_they_end_in_a_point_and_not_where_they_are_inclined() -> None:
    pointed = wheel_of("bench")
    assert pointed.distance == pytest.approx(pointed.radius * cos(pi / 4)) and abs(pointed.clearance()) < 1e-6
    assert replace(pointed, psi_deg=20.0).clearance() > 1e-3
    assert replace(pointed, distance=0.03).clearance() < -1e-3


def test_rollers_of_different_rows_are_compared_too() -> None:
    """Against the distance of points on the two surfaces."""
    wheel = wheel_of("three_wheels")
    turns = np.linspace(0.0, 2.0 * pi, 72, endpoint=False)[:, None]

    def surface(k: int) -> np.ndarray:
        centre, axis, rho = wheel.placed(k, np.array([0.0, 1.0, 0.0]))
        across = np.cos(turns) * rho + np.sin(turns) * np.cross(axis, rho)
        outline = [wheel.profile(q) for q in np.linspace(-wheel.alpha_deg, wheel.alpha_deg, 31)]
        return np.concatenate([centre + s * axis + r * across for s, r in outline])

    other = surface(1)
    nearest = min(float(np.linalg.norm(other - point, axis=1).min()) for point in surface(0))
    # points are never nearer than the surfaces
    assert wheel.rows == 2 and 0.0 < wheel.clearance() <= nearest < wheel.clearance() + 1e-4


def test_every_file_makes_a_machine_at_rest_on_the_floor() -> None:
    for path in sorted(Path(CONFIGS / "omni").glob("*.toml")):
        machine, params = load_machine(path)
        state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        machine.initial(state, params, machine.tables, work)
        assert state[2] == 0.05 and len(params) == len(machine.parameters)


def test_a_kilometre_away_it_moves_as_it_does_here() -> None:
    """Contacts are tracked about the machine, not about the world's origin; so is what is drawn."""
    here, there, away = Rig("mecanum"), Rig("mecanum"), np.array([1e3, -1e3])
    there.state[:2] += away
    ideal = [q.name for q in there.machine.states].index("ideal_x")
    there.state[ideal : ideal + 2] += away
    one, two = (bench.run(0.5, 5e-3, lambda t: (0.2, 0.1, 0.4)) for bench in (here, there))
    for channel, limit in (("yaw", 0.0), ("z", 0.0), ("wheel1_load", 0.0), ("wheel1_slip", 0.0), ("path_error", 1e-11)):
        assert np.abs(one[channel] - two[channel]).max() <= limit, channel
    for channel, offset in (("x", 1e3), ("y", -1e3), ("wheel1_point_x", 1e3)):
        assert np.abs(two[channel] - offset - one[channel]).max() < 1e-11, channel
    drawn = []
    for bench in (here, there):
        assert bench.machine.shown.scene is not None
        out = poses(bench.machine.shown.scene.frames)
        bench.machine.shown.frames(bench.state, bench.params, out)
        drawn.append(out)
    drawn[1][:, 0, :2] -= away
    assert np.abs(drawn[0] - drawn[1]).max() < 1e-11


@pytest.mark.parametrize("h", [1e-6, 0.1])
def test_a_step_may_be_tiny_or_long(h: float) -> None:
    v = Rig("mecanum").run(100 * h, h, lambda t: (0.2, 0.1, 0.3))
    assert v["unsolved"].max() <= 1e-11 and np.abs(v["energy_error"]).max() < 1e-5 * max(v["kinetic"].max(), 1e-3)
    assert np.abs(v["z"] - 0.05).max() < 1e-4


def test_without_friction_nothing_moves_the_platform() -> None:
    v = Rig("four_wheels", {"friction": 0.0}).run(1.0, 5e-3, lambda t: (0.5, 0.5, 2.0))
    assert max(np.abs(v[channel]).max() for channel in ("x", "y")) < 1e-6 and v["wheel1_spin"][-1] != 0.0
    assert v["friction_loss"][-1] == 0.0 and v["path_error"][-1] > 0.3


def test_wheels_that_lift_off_come_down_and_the_books_close() -> None:
    """Friction that never slips, and a command that changes its sign: two of the wheels leave the floor."""
    v = Rig("three_wheels", {"friction": 10.0}).run(1.6, 5e-3, lambda t: (1.0 if t < 0.8 else -1.0, 0.0, 0.0))
    loads = np.array([v[f"wheel{k + 1}_load"] for k in range(3)])
    lifted = (loads == 0.0).any(axis=0)
    assert 0.02 < lifted.mean() < 0.9 and np.ptp(v["z"]) > 1e-3 and not lifted[-20:].any()
    assert v["impact_loss"][-1] > 0.0 and v["unsolved"].max() <= 1e-11
    assert np.abs(v["energy_error"]).max() < 1e-3 * v["kinetic"].max()


@pytest.mark.parametrize("torque", [1e6, -1e300, float("inf")])
def test_a_torque_beyond_all_bounds_is_a_divergence_at_once(torque: float) -> None:
    bench = Rig("bench")
    bench.run(5e-3, 1e-3, lambda t: (torque, 0.0, 0.0, 0.0, 0.0))
    assert not np.isfinite(bench.state).all()


def test_a_step_with_scores_of_contacts_ends() -> None:
    """Deep in the floor, where no solution is found in time: sweeps end, and the step says that it is not solved."""
    bench = Rig("four_wheels", {"compliance": 0.0, "friction": 10.0})
    bench.state[2], bench.state[4] = -0.2, 1.3
    v = bench.run(5e-3, 5e-3)
    assert v["sweeps"][0] < 60 and v["unsolved"][0] > 1e-11


@pytest.mark.parametrize("joint, angle, sound", [(4, 1.39, True), (4, 1.41, False), (5, -1.41, False), (5, 3.1, False)])
def test_a_platform_that_fell_over_is_a_divergence(joint: int, angle: float, sound: bool) -> None:
    """In the air; beyond 80 degrees of pitch or roll nothing of it is modelled."""
    bench = Rig("four_wheels")
    bench.state[2], bench.state[joint] = 1.0, angle
    bench.run(5e-3, 5e-3)
    assert np.isfinite(bench.state).all() == sound


# ---- ground, spinning on the spot, compensated wheels ----------------------------------------------------------------

STILL = {"speed": [0.0, 0.0], "spin": 0.0, "yaw_rate": 0.0}


def test_a_wheel_rolls_down_a_slope_as_a_ring_does() -> None:
    road = {"r.toml": b'[surface]\nkind = "slope"\ngrade_percent = -10.0\n'}
    bench = Rig("bench", {"friction": 0.8}, road, tracking="support", bench=STILL)
    v = bench.run(0.5, 1e-3)
    mass, inertia = 0.3 + 4 * 0.02, 2.5e-4 + 4 * (0.02 * 0.05**2 / 2 + wheel_of("bench").inertia()[1])
    down = 9.81 * sin(np.arctan(0.1)) / (1.0 + inertia / mass / 0.05**2)
    assert np.hypot(v["x"][-1], v["z"][-1] - bench.start[2]) == pytest.approx(0.125 * down, rel=1e-6)
    assert abs(v["energy_error"]).max() < 1e-12 and np.abs(v["lowest_gap"]).max() < 1e-12


def test_a_sill_lifts_a_wheel_along_the_curve_at_a_distance_of_its_radius() -> None:
    """Its top is nearly as bent as the wheel is round."""
    road = {"r.toml": b"[[bumps]]\nx = 0.1\nlength = 0.1\nheight = 0.01\n"}
    start = {"speed": [0.8, 0.0], "spin": 16.0, "yaw_rate": 0.0}
    v = Rig("bench", {"friction": 0.0}, road, tracking="support", bench=start).run(0.4, 2e-4)
    x = np.linspace(0.0, 0.5, 50_001)
    z = np.where((x > 0.1) & (x < 0.2), 0.01 * (0.5 - 0.5 * np.cos(2 * pi * (x - 0.1) / 0.1)), 0.0)
    over = np.array([np.max(np.sqrt(np.maximum(0.05**2 - (x - at) ** 2, 0.0)) + z) for at in v["x"]])
    assert v["z"].max() > 0.0599 and v["x"][-1] > 0.27
    assert (v["z"] - over).min() > -2e-4  # it may fly, behind the top


def test_ground_that_touches_a_wheel_twice_is_refused() -> None:
    road = {"sill.toml": b"[[bumps]]\nx = 0.1\nlength = 0.02\nheight = 0.003\n"}
    with pytest.raises(ConfigError, match=r"sill\.toml: bends by 148 1/m .* at most 20 1/m: make bumps longer"):
        make_changed(CONFIGS / "omni" / "mecanum.toml", {}, {}, road)


def test_a_platform_begins_on_its_wheels_wherever_the_ground_is_inclined() -> None:
    road = {"r.toml": b'[surface]\nkind = "slope"\ngrade_percent = 10.0\nbank_percent = 5.0\n'}
    bench = Rig("mecanum", {"speed_gain": 10.0}, road)
    v = bench.run(1.0, 5e-3)
    assert bench.start[4] == pytest.approx(-np.arctan(0.1)) and v["z"][0] == pytest.approx(0.05, abs=1e-3)
    assert np.hypot(v["x"], v["y"]).max() < 1e-3  # motors hold it
    loads = [v[f"wheel{k}_load"][-1] for k in range(1, 5)]
    assert sum(loads) == pytest.approx(9.81 * bench.machine.tables.floats[1], rel=1e-2)
    assert loads[1] > loads[0] and loads[3] < loads[2]  # downhill is behind and to the right
    out = poses(bench.machine.shown.scene.frames)
    bench.machine.shown.frames(bench.state, bench.params, out)
    for x, y, z in out[-4:, 0]:
        assert z == pytest.approx(0.1 * x + 0.05 * y, abs=1e-5)


def test_the_trackings_of_the_paper_and_other_files_are_refused_on_a_road() -> None:
    from sim_service.registry import gather

    with pytest.raises(ConfigError, match=r"tracking = 'explicit': must be 'support' on a road"):
        make_changed(BENCH, {}, {}, {"r.toml": b""})
    with pytest.raises(
        ConfigError, match=r"sim\.files\.course = .*: an omni machine reads no such file; it has a road"
    ):
        gather(BENCH, {"course": CONFIGS / "roads" / "flat.toml"})


def test_slippery_ground_lets_a_wheel_slide() -> None:
    road = {"r.toml": b"[[patches]]\nfactor = 0.1\nbegin = 0.0\nend = 5.0\n"}
    v = Rig("bench", {"friction": 0.5}, road, tracking="support", bench=STILL | {"speed": [0.5, 0.0]}).run(0.05, 1e-3)
    assert v["wheel_force_x"][-1] == pytest.approx(-0.05 * 0.38 * 9.81, rel=1e-6)


@pytest.mark.parametrize("share", [0.9, 1.5])
def test_a_contact_resists_spinning_up_to_its_bound(share: float) -> None:
    bound = 0.6 * 0.002 * 0.38 * 9.81
    bench = Rig("bench", {"spin_reach": 0.002}, tracking="support", bench=STILL)
    v = bench.run(0.2, 1e-3, lambda t: (0.0, 0.0, 0.0, 0.0, share * bound))
    if share < 1.0:
        assert v["yaw_rate"][-1] == pytest.approx(share * 1e-3, rel=1e-6)
    else:
        free = Rig("bench", {"friction": 0.0}, tracking="support", bench=STILL)
        alone = free.run(0.2, 1e-3, lambda t: (0.0, 0.0, 0.0, 0.0, bound))
        assert v["yaw_rate"][-1] == pytest.approx(0.5 * alone["yaw_rate"][-1], rel=1e-3)
        assert v["friction_loss"][-1] == pytest.approx(bound * v["yaw"][-1], rel=1e-6)
    assert abs(v["energy_error"]).max() < 1e-15


def test_a_platform_that_turns_is_slowed_by_its_patches_and_every_step_is_solved() -> None:
    v = Rig("three_wheels", {"spin_reach": 0.002, "control": 2.0}).run(0.5, 5e-3, lambda t: (0.0, 0.0, 1.0))
    free = Rig("three_wheels", {"control": 2.0}).run(0.5, 5e-3, lambda t: (0.0, 0.0, 1.0))
    assert v["unsolved"].max() <= 1e-11 and 0.1 < v["turn_rate"][-1] < 0.95 * free["turn_rate"][-1]
    assert np.diff(v["friction_loss"]).min() > 0.0


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("rows, offset, psi", [(1, 0.0, 45.0), (2, 0.011, 0.0), (2, 0.01, 30.0)])
def test_compensated_speeds_let_nothing_slip_along_the_roller_that_touches(
    mirrored: bool, rows: int, offset: float, psi: float
) -> None:
    """Beside the wheel as drawn, turned, and the point that its support function has."""
    from sync.compile.array_types import read_only
    from tandem.machines.omni.build import cos_sin_deg
    from tandem.machines.omni.dynamics import touching_kinematics
    from tandem.machines.omni.wheel import Wheel
    from tandem.multibody.contact.kinds import ROLLER
    from tandem.multibody.contact.surfaces import track
    from tandem.multibody.rotations import about_axis

    n, R, R1, at, axle_deg = 8, 0.05, 0.0415, np.array([0.15, -0.12]), 70.0
    wheel = Wheel(R, R1, n, psi, 22.5, 0.01, mirrored, rows, offset)
    c, s = cos_sin_deg(axle_deg)
    k1, up = np.array([c, s, 0.0]), np.array([0.0, 0.0, 1.0])
    surface, arm, none = read_only(np.array(wheel.surface())), np.zeros(3), np.zeros(3)
    inclined = (-1.0 if mirrored else 1.0) * np.tan(np.radians(psi))
    row = np.array([0.0] * 6 + [*at, c, s, inclined, offset])
    for angle in np.random.default_rng(2).uniform(-20.0, 20.0, 40):
        T, lowest = about_axis(k1, angle), np.inf
        for k in range(n):
            centre, axis, _ = wheel.placed(k, k1)
            own = np.ascontiguousarray(T @ axis)
            track(ROLLER, surface, own, none, none, arm)
            if (T @ centre + arm)[2] < lowest:
                point, along = T @ centre + arm, own
                lowest = point[2]
        along = along * [1.0, 1.0, 0.0]  # the roller turns about its axis, so what crosses it seen from above is free
        arms = np.array([*at, 0.0]) + point
        spin = along @ np.cross(k1, point)
        expected = [-along @ e / spin for e in (np.eye(3)[0], np.eye(3)[1], np.cross(up, arms))]
        found = touching_kinematics.py_func(np.array([R, R1, n, rows]), row, angle)
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_compensated_mecanum_wheels_drive_the_square() -> None:
    off = [
        Rig("mecanum", {"compensation": share}).run(5.0, 5e-3, lambda t: square_command(3.0 * t))
        for share in (0.0, 1.0)
    ]
    before, after = (float(v["path_error"].max()) for v in off)
    assert after < 0.25 * before, (before, after)
