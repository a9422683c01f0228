"""What a vehicle file may leave out: lift, pitch moment, differential lock, neutral and reverse, lag."""

import numpy as np
import pytest

from checks.kerbs import VEHICLE, Coasting
from sim_service.multibody.natural.tables import P as Part

from .conftest import Car

FLAT = VEHICLE.parents[1] / "roads" / "flat.toml"
DENSITY = 1.2


def test_lift_lightens_and_a_pitch_moment_moves_load_forward() -> None:
    loads = []
    for changed in ({}, {"lift_area": 0.5}, {"air_pitch_volume": 0.4}):
        car = Coasting(FLAT, 30.0, changed={"gear_mode": 0.0, **changed})
        qd = car.state[car.system.span(Part.QD)]
        qd[[car.system.column(f"{w}.spin") for w in ("fl", "fr", "rl", "rr")]] = 30.0 / 0.285
        for _ in range(300):
            car.step(5e-3)
        loads.append((car.loads(), 0.5 * DENSITY * car["vx"] ** 2))
    (plain, _), (lifted, q), (pitched, q2) = loads
    assert plain.sum() - lifted.sum() == pytest.approx(0.5 * q, rel=0.03)
    assert pitched.sum() == pytest.approx(plain.sum(), rel=1e-3)
    assert pitched[:2].sum() - plain[:2].sum() == pytest.approx(0.4 * q2 / 2.25, rel=0.1)


def test_a_locked_differential_turns_both_rear_wheels_alike() -> None:
    spread = []
    for lock in (0.0, 1000.0):
        car = Car({"gear_mode": 0.0, "differential_lock": lock})
        car.drive(4.0, drive_torque=500.0, steering_angle=4.0)
        spread.append(abs(car["wheel_speed_rl"] - car["wheel_speed_rr"]))
    assert spread[0] > 1.0 and spread[1] < 0.1 * spread[0]


def test_reverse_drives_backwards_and_neutral_not_at_all() -> None:
    car = Car({"gear_mode": 2.0, "gear_held": -1.0})
    car.drive(3.0, throttle=0.3)
    assert car["vx"] < -1.0 and car["gear"] == -1.0
    car = Car({"gear_mode": 2.0, "gear_held": 0.0})
    car.drive(3.0, throttle=0.5)
    assert abs(car["vx"]) < 1e-2 and car["axle_torque"] == 0.0


def test_brake_pressure_arrives_with_its_lag() -> None:
    car = Car({"gear_mode": 0.0, "brake_lag": 0.1})
    car.drive(3.0, drive_torque=900.0)
    torque = -car.drive(0.5, ("brake_torque_fl",), drive_torque=0.0, brake_pressure_bar=20.0)[:, 0]
    bar = 20.0 * (1.0 - np.exp(-5e-3 * np.arange(1, 101) / 0.1))
    assert torque[:60] == pytest.approx(11.0 * bar[:60] + 1.0, rel=1e-6)


def test_defaults_change_nothing_and_need_not_be_in_the_file() -> None:
    plain, said = Car(), Car({"lift_area": 0.0, "differential_lock": 0.0, "brake_lag": 0.0, "air_pitch_volume": 0.0})
    for car in (plain, said):
        car.drive(1.0, throttle=0.5, steering_angle=0.5)
    assert (plain.state == said.state).all()
