"""What the whole car does on roads, with its pedals and options."""

from pathlib import Path

import numpy as np

from tests.tandem.machines.car.buggy.conftest import CONFIGS, Car, G

ROADS = CONFIGS / "roads"


def _turning(changed: dict[str, float]) -> Car:
    car = Car(changed)
    car.drive(6.0, throttle=0.6)
    car.drive(2.5, steering_angle=0.9, throttle=0.35)
    return car


def test_anti_roll_bars_take_roll_and_move_load() -> None:
    plain, front, rear = (_turning(c) for c in ({}, {"front_anti_roll": 20000.0}, {"rear_anti_roll": 20000.0}))
    for barred in (front, rear):
        assert barred["roll"] / barred["ay"] < 0.85 * plain["roll"] / plain["ay"]
    share = [(car["load_fr"] - car["load_fl"]) / (car["load_rr"] - car["load_rl"]) for car in (plain, front, rear)]
    assert share[2] < 0.8 * share[0] < 0.64 * share[1]


def test_brakes_lock_wheels_on_a_slippery_road_and_anti_lock_control_does_not() -> None:
    ways, slips = [], []
    for abs_ in (0.0, 1.0):
        car = Car({"grip": 0.4, "abs": abs_})
        car.drive(12.0, throttle=0.5)
        start = car["x"]
        kept = car.drive(10.0, ("vx", "slip_fl", "slip_rl"), throttle=0.0, brake_pressure_bar=40.0)
        fast = kept[:, 0] > 4.0
        slips.append(kept[fast, 1:].min())
        ways.append(car["x"] - start)
        assert abs(kept[-1, 0]) < 1e-2
    assert slips[0] < -0.9 < -0.5 < slips[1]
    assert ways[1] < ways[0]


def test_braking_with_one_side_on_ice_turns_the_car_to_the_other(tmp_path: Path) -> None:
    road = tmp_path / "ice.toml"
    road.write_text("[[patches]]\nfactor = 0.1\nbegin = 90.0\nend = 500.0\nright = -10.0\nleft = 0.0\n")
    car = Car(road=road)
    car.drive(8.0, throttle=0.7)
    while car["x"] < 93.0:
        car.drive(0.05, throttle=0.0)
    before = car["yaw"]
    kept = car.drive(0.4, ("yaw", "force_x_fl", "force_x_fr"), throttle=0.0, brake_pressure_bar=25.0)
    left, right = kept[-1, 1], kept[-1, 2]
    assert abs(left - right) > 300.0
    assert (kept[-1, 0] - before) * (right - left) > 0.0  # braked more on the left, it turns to the left


def test_a_bump_is_felt_and_left_behind(tmp_path: Path) -> None:
    road = tmp_path / "bump.toml"
    road.write_text("[[bumps]]\nshape = 'cosine'\nx = 25.0\nlength = 1.0\nheight = 0.03\n")
    car, flat = Car(road=road), Car()
    for each in (car, flat):
        each.drive(3.5, throttle=0.5)
    names = ("x", "load_fl", "load_rl", "z", "capped")
    bumpy, level = (each.drive(6.0, names, throttle=0.3) for each in (car, flat))
    assert bumpy[:, 1].max() > 1.3 * level[:, 1].max() and bumpy[:, 2].max() > 1.3 * level[:, 2].max()
    assert abs(bumpy[-1, 3] - level[-1, 3]) < 2e-3
    assert not bumpy[:, 4].any()


def test_it_rolls_back_on_a_slope_in_neutral_and_the_brake_stops_it(tmp_path: Path) -> None:
    road = tmp_path / "steep.toml"
    road.write_text('[surface]\nkind = "slope"\ngrade_percent = 15.0\n')
    car = Car({"gear_mode": 0.0}, road)
    kept = car.drive(2.0, ("vx", "wheel_speed_fl"))
    expected = -G * np.sin(np.arctan(0.15)) * 2.0
    assert 0.75 * expected > kept[-1, 0] > expected  # wheels turn too, tyres and bearings resist
    assert kept[-1, 1] < 0.0
    stopped = car.drive(4.0, ("vx", "capped"), brake_pressure_bar=30.0)
    assert np.abs(stopped[-100:, 0]).max() < 1e-3
    assert stopped[:, 1].sum() <= 1  # the step in which a sliding wheel stops may end at its limit


def test_with_a_fixed_gear_the_torque_is_that_of_the_signals() -> None:
    car = Car({"gear_mode": 0.0, "brake_drag": 0.0})
    car.drive(2.0, drive_torque=400.0)
    assert car["axle_torque"] == 400.0
    force = 400.0 / 0.28
    assert 0.75 * force / 790.0 < car["vx"] / 2.0 < force / 790.0


def test_a_rough_road_shakes_the_car_about_its_mean() -> None:
    car = Car(road=ROADS / "rough_c.toml")
    car.drive(8.0, throttle=0.5)
    kept = car.drive(10.0, ("load_fl", "az", "capped"), throttle=0.3)
    assert 0.05 < kept[:, 0].std() / kept[:, 0].mean() < 0.6
    assert abs(kept[:, 1].mean() / G - 1.0) < 0.02
    assert not kept[:, 2].any()
