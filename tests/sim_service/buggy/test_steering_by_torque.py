"""Steering by torque: what a driver lets go of, holds, or has torn from his hands."""

import numpy as np
import pytest

from sim_service.machines.buggy.description import P

from .conftest import Car


def turning(changed: dict[str, float] | None = None) -> Car:
    """At 10 m/s in a steady turn, by angle."""
    car = Car({"gear_mode": 0.0, **(changed or {})})
    car.drive(3.2, drive_torque=900.0)
    car.drive(2.0, drive_torque=0.0, steering_angle=1.2)
    return car


def test_the_torque_that_the_angle_needs_holds_the_angle() -> None:
    car = turning()
    rack, torque = car["rack"], car["steering_torque"]
    car.params[P.steering_mode], car.params[P.hand_torque] = 1.0, torque
    kept = car.drive(0.5, ("rack", "steering_torque"))
    assert abs(kept[:3, 0] - rack).max() < 1e-5  # no jump
    assert kept[:, 0] == pytest.approx(rack, rel=0.1)
    assert kept[-1, 1] == pytest.approx(torque, abs=0.1)


@pytest.mark.parametrize("inertia", [0.005, 0.02, 0.1])
def test_let_go_the_wheels_turn_back_to_straight(inertia: float) -> None:
    car = turning({"column_inertia": inertia, "column_damping": 0.2})
    rack = car["rack"]
    car.params[P.steering_mode] = 1.0
    kept = car.drive(3.0, ("rack", "yaw_rate", "capped"))
    assert abs(kept[-1, 0]) < 0.1 * abs(rack) and abs(kept[-1, 1]) < 0.05
    assert np.abs(kept[:, 0]).max() < 1.5 * abs(rack) and kept[:, 2].sum() == 0


def test_by_torque_it_converges_with_the_time_step() -> None:
    """With order 1: the rack's force is that of the last step."""
    racks = []
    for h in (1e-3, 5e-4):
        car = turning()
        car.params[P.steering_mode] = 1.0
        racks.append(car.drive(0.4, ("rack",), h=h)[-1, 0])
    assert racks[0] == pytest.approx(racks[1], abs=2e-4)


def test_switched_back_the_rack_follows_the_angle_again() -> None:
    car = turning()
    car.params[P.steering_mode] = 1.0
    car.drive(0.3)
    car.params[P.steering_mode] = 0.0
    rack = car.drive(1.0, ("rack",), steering_angle=0.6)[:, 0]
    assert np.abs(np.diff(rack)).max() <= 0.25 * 5e-3 + 1e-12  # no quicker than a rack can be moved
    assert abs(rack[-1]) == pytest.approx(0.6 * 0.045 / (2 * np.pi), rel=1e-6)


def test_a_shock_on_the_rack_is_survived() -> None:
    car = turning()
    car.params[P.steering_mode] = 1.0
    car.params[P.hand_torque] = 200.0
    kept = car.drive(0.1, ("rack", "yaw_rate"))
    car.params[P.hand_torque] = 0.0
    car.params[P.push_rack] = -5e3
    kept = np.vstack([kept, car.drive(0.2, ("rack", "yaw_rate"))])
    car.params[P.push_rack] = 0.0
    kept = np.vstack([kept, car.drive(2.0, ("rack", "yaw_rate"))])
    assert np.isfinite(kept).all() and np.abs(kept[:, 0]).max() <= 0.065 + 1e-12


def test_friction_holds_a_column_against_a_small_torque() -> None:
    car = Car({"gear_mode": 0.0, "column_friction": 2.0})
    car.params[P.steering_mode], car.params[P.hand_torque] = 1.0, 1.0
    assert np.abs(car.drive(0.5, ("rack",), brake_pressure_bar=20.0)).max() < 1e-6
