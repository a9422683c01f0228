"""Steering by torque: a hand wheel that is held, released, struck, or that a haptic wheel turns."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import index, tables
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.description import INPUTS, P
from tandem.multibody.natural import tables as core
from tandem.multibody.natural.tables import P as Part
from tests.tandem.machines.car.buggy.conftest import Car, assembled

PER_ANGLE = 0.045 / (2.0 * math.pi)  # m of the rack per rad
ELASTIC = {"column_stiffness": 120.0, "column_damping": 0.1}  # a torsion bar of 2 N m per degree


def turning(changed: dict[str, float] | None = None, seconds: float = 3.2) -> Car:
    """In a steady turn by angle, at 10 m/s if nothing else is wanted."""
    car = Car({"gear_mode": 0.0, **(changed or {})})
    car.drive(seconds, drive_torque=900.0)
    car.drive(2.0, drive_torque=0.0, steering_angle=1.2)
    return car


def exactly(car: Car) -> Car:
    """With tolerances far below what the step leaves out."""
    ints, floats, system = np.array(car.model.tables.ints), np.array(car.model.tables.floats), assembled().system
    setting, option = floats[system.span(Part.SETTING)], ints[slots.HEAD :][system.span(Part.OPTION)]
    for which, value in (
        (core.TOLERANCE, 1e-11),
        (core.TOLERANCE_PHI, 1e-12),
        (core.TOLERANCE_VELOCITY, 1e-11),
        (core.TOLERANCE_ACCELERATION, 1e-8),
    ):
        setting[which] = value
    option[core.CAP], option[core.PASSES] = 40, 20
    car.model = replace(car.model, tables=tables(ints, floats))
    return car


@pytest.mark.parametrize("changed", [{}, ELASTIC])
def test_the_torque_that_the_angle_needs_holds_the_angle(changed: dict[str, float]) -> None:
    car = turning(changed)
    rack, torque = car["rack"], car["steering_torque"]
    car.params[P.steering_mode], car.params[P.hand_torque] = 1.0, torque
    rows = car.drive(0.5, ("rack", "steering_torque", "column_torque"))
    assert abs(rows[:3, 0] - rack).max() < 1e-5  # no jump
    assert rows[:, 0] == pytest.approx(rack, rel=0.1)
    assert (rows[:, 1] == torque).all() and rows[-1, 2] == pytest.approx(torque, abs=0.1)


@pytest.mark.parametrize("changed", [{"column_inertia": 0.005}, {"column_damping": 0.5}, ELASTIC])
def test_a_hand_wheel_that_is_let_go_at_20_metres_a_second_turns_back_to_straight(changed: dict[str, float]) -> None:
    car = Car({"gear_mode": 0.0, "column_damping": 0.2, **changed})
    car.drive(4.5, drive_torque=1200.0)
    car.drive(1.0, drive_torque=0.0, steering_angle=0.5)
    rack = car["rack"]
    assert 18.0 < car["vx"] < 24.0
    car.params[P.steering_mode] = 1.0
    rows = car.drive(4.0, ("rack", "yaw_rate", "capped", "hand_wheel_angle"))
    assert abs(rows[-1, 0]) < 0.1 * abs(rack) and abs(rows[-1, 1]) < 0.05
    # first to where the wheels run along with the sliding front axle, then to straight
    assert np.abs(rows[:, 0]).max() < 5.0 * abs(rack) and rows[:, 2].sum() == 0
    assert abs(rows[-1, 3]) < 0.05


def test_by_torque_the_error_is_of_second_order_in_the_step() -> None:
    racks = []
    for h in (4e-3, 2e-3, 1e-3):
        car = exactly(turning({"column_damping": 0.1}))
        holding = car["steering_torque"]
        car.params[P.steering_mode] = 1.0
        for n in range(round(0.2 / h)):
            car.drive(h, h=h, hand_wheel_torque=holding * math.cos(8.0 * (n + 1) * h))
        racks.append(car["rack"])
    ratio = (racks[0] - racks[1]) / (racks[1] - racks[2])
    assert 3.3 < ratio < 6.0  # 2 for first order


def test_a_stiff_column_moves_like_a_rigid_one() -> None:
    racks = []
    for stiffness in (0.0, 1e4):
        car = turning({"column_stiffness": stiffness, "column_damping": 0.2, "steering_assist": 1.0})
        car.params[P.steering_mode] = 1.0
        racks.append(car.drive(0.5, ("rack",), h=2e-3)[:, 0])
    assert racks[1] == pytest.approx(racks[0], abs=2e-5)


def test_energy_of_the_column_is_what_the_driver_gave_less_what_damping_and_pinion_took() -> None:
    car = turning({**ELASTIC, "column_friction": 1.0, "steering_assist": 2.0})
    car.params[P.steering_mode] = 1.0
    names = ("hand_wheel_speed", "column_torque", "rack", "rack_force", "steering_torque")
    h, J, k, d = 1e-3, car.params[P.column_inertia], ELASTIC["column_stiffness"], ELASTIC["column_damping"]
    rows = []
    for n in range(800):
        car.params[P.hand_torque] = 6.0 * math.sin(2.0 * math.pi * 1.5 * n * h)
        rows.append(car.drive(h, names, h=h)[0])
    speed, bar, rack, force, torque = np.array(rows).T
    rack_speed = np.gradient(rack, h)
    sign = math.copysign(1.0, np.sum(speed * rack_speed))
    pinion = sign * rack_speed / PER_ANGLE

    def work(power: np.ndarray) -> float:
        return float(h * (power[1:-1].sum() + 0.5 * (power[0] + power[-1])))

    stored = 0.5 * J * speed**2 + 0.5 * bar**2 / k
    given = work(torque * speed)
    assert given > 2.0  # J
    assert stored[-1] - stored[0] == pytest.approx(given - work(d * speed**2) - work(bar * pinion), abs=0.01 * given)
    # the pinion: thrice the torque of the bar less friction moves the rack
    rubbed = work(1.0 * np.abs(pinion))
    assert work(force * rack_speed) == pytest.approx(work(3.0 * bar * pinion) - rubbed, abs=0.02 * given)


@pytest.mark.parametrize("changed", [{}, ELASTIC])
def test_a_shock_of_200_newton_metres_on_the_rack_ends_at_its_stop_and_is_over(changed: dict[str, float]) -> None:
    car = turning({"column_friction": 1.0, **changed})
    car.params[P.steering_mode] = 1.0
    car.params[P.push_rack] = 200.0 / PER_ANGLE
    struck = car.drive(0.05, ("rack", "yaw_rate", "capped"))
    car.params[P.push_rack] = 0.0
    after = car.drive(3.0, ("rack", "yaw_rate", "capped"))
    both = np.vstack([struck, after])
    assert np.isfinite(both).all() and both[:, 2].sum() == 0
    assert 0.06 < np.abs(both[:, 0]).max() < 0.065 + 0.025  # the stop takes what the hand wheel brings along
    assert abs(after[-1, 0]) < 0.02


def test_switched_back_the_rack_follows_the_angle_again() -> None:
    car = turning()
    car.params[P.steering_mode] = 1.0
    car.drive(0.3)
    car.params[P.steering_mode] = 0.0
    rack = car.drive(1.0, ("rack",), steering_angle=0.6)[:, 0]
    assert np.abs(np.diff(rack)).max() <= 0.25 * 5e-3 + 1e-12  # no quicker than a rack can be moved
    assert abs(rack[-1]) == pytest.approx(0.6 * PER_ANGLE, rel=1e-6)


def test_friction_holds_a_column_against_a_small_torque() -> None:
    car = Car({"gear_mode": 0.0, "column_friction": 2.0})
    car.params[P.steering_mode], car.params[P.hand_torque] = 1.0, 1.0
    assert np.abs(car.drive(0.5, ("rack",), brake_pressure_bar=20.0)).max() < 1e-6


def test_the_input_does_what_the_parameter_does_and_without_it_the_parameter_is_what_was_used() -> None:
    by_input, by_parameter = turning(), turning()
    by_input.params[P.steering_mode] = by_parameter.params[P.steering_mode] = 1.0
    by_parameter.params[P.hand_torque] = 1.5
    for _ in range(100):
        one = by_input.drive(5e-3, ("rack", "steering_torque"), hand_wheel_torque=1.5)
        assert np.array_equal(one, by_parameter.drive(5e-3, ("rack", "steering_torque"), hand_wheel_torque=math.nan))
        assert by_parameter.inputs[index(INPUTS, "hand_wheel_torque")] == 1.5


def test_a_haptic_wheel_in_admittance_mode_is_turned_to_where_its_hand_holds_it() -> None:
    """It measures the torque of the hand, a damped spring about 0.8 rad, and is driven to hand_wheel_angle."""
    car = turning({"column_damping": 0.3})
    car.params[P.steering_mode] = 1.0
    for _ in range(600):
        car.drive(5e-3, hand_wheel_torque=40.0 * (0.8 - car["hand_wheel_angle"]) - 0.5 * car["hand_wheel_speed"])
    holding = car["steering_torque"]
    assert car["hand_wheel_angle"] == pytest.approx(0.8 - holding / 40.0, abs=0.02)
    assert abs(car["hand_wheel_speed"]) < 0.02 and car["rack"] == pytest.approx(
        math.copysign(car["hand_wheel_angle"] * PER_ANGLE, car["rack"]), abs=1e-9
    )


def test_a_column_that_gives_way_by_angle_holds_what_its_bar_holds() -> None:
    """In a steady turn: rack = p (theta - M / k), M the torque in the column, which the rigid one has at that rack."""
    stiffness = 120.0
    car = turning({"column_stiffness": stiffness})
    assert car["hand_wheel_angle"] == pytest.approx(1.2, abs=1e-12)
    wound = 1.2 - abs(car["rack"]) / PER_ANGLE
    assert wound == pytest.approx(car["column_torque"] / stiffness, rel=0.01) and wound > 0.003
    assert car["column_torque"] == pytest.approx(abs(car["rack_force"]) * PER_ANGLE, rel=1e-3)
    rigid = Car({"gear_mode": 0.0})
    rigid.drive(3.2, drive_torque=900.0)
    rigid.drive(2.0, drive_torque=0.0, steering_angle=1.2 - wound)
    assert rigid["steering_torque"] == pytest.approx(car["steering_torque"], rel=0.02)


def test_a_bar_as_stiff_as_a_rigid_column_is_one_by_angle() -> None:
    racks = []
    for stiffness in (0.0, 1e5):
        car = Car({"gear_mode": 0.0, "column_stiffness": stiffness})
        car.drive(2.0, drive_torque=700.0)
        rows = []
        for k in range(200):
            t, w = 5e-3 * (k + 1), 6.0
            angle = {"steering_angle": 1.0 - math.cos(w * t), "steering_speed": w * math.sin(w * t)}
            rows.append(car.drive(5e-3, ("rack", "capped"), **angle, steering_acceleration=w * w * math.cos(w * t))[0])
        assert not np.array(rows)[:, 1].any()
        racks.append(np.array(rows)[:, 0])
    assert racks[1] == pytest.approx(racks[0], abs=2e-5)


def test_a_rack_without_any_travel_has_a_stop_too() -> None:
    car = Car({"gear_mode": 0.0, "rack_limit": 0.0})
    car.params[P.steering_mode], car.params[P.hand_torque] = 1.0, 20.0
    assert np.abs(car.drive(0.5, ("rack",), brake_pressure_bar=20.0)).max() < 2e-3


def test_a_car_with_a_bar_settles_with_its_rack_in_the_middle(tmp_path: Path) -> None:
    """On a banked road the wheels push the rack aside: the bar winds up from 0, without a jump in the first step."""
    road = tmp_path / "banked.toml"
    road.write_text('[surface]\nkind = "slope"\nbank_percent = 15.0\n')
    car = Car({"gear_mode": 0.0, **ELASTIC}, road)
    rows = car.drive(0.5, ("rack", "load_fl"), brake_pressure_bar=40.0)
    rigid = Car({"gear_mode": 0.0}, road)
    rigid.step()
    assert rows[0, 1] == pytest.approx(rigid["load_fl"], rel=1e-3)
    assert abs(rows[0, 0]) < 0.2 * np.abs(rows[:, 0]).max()


def test_a_step_in_which_column_and_car_do_not_agree_is_reported() -> None:
    """Blows of 50 kN from both sides on a rack at its stops: some steps run out of tries."""
    car = turning({**ELASTIC}, 1.0)
    car.params[P.steering_mode] = 1.0
    rows = []
    for k in range(60):
        car.params[P.push_rack] = 5e4 if (k // 7) % 2 else -5e4
        rows.append(car.drive(5e-3, ("capped", "rack"))[0])
    capped, rack = np.array(rows).T
    assert set(capped) == {0.0, 1.0} and np.isfinite(rack).all()
