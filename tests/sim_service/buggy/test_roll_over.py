"""A car that rolls over lies there, finite, and says so; many more are `python -m checks.roll_overs`."""

import numpy as np
import pytest

from sim_service.machines.buggy.description import P

from .conftest import Car, G


@pytest.mark.parametrize(("torque", "seconds"), [(8e3, 0.8), (-8e3, 0.8)])
def test_a_car_pushed_over_lies_on_its_side_or_roof(torque: float, seconds: float) -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = torque
    car.drive(seconds)
    car.params[P.push_roll] = 0.0
    kept = car.drive(6.0, ("z", "roll", "body_load", "vx", "vy", "vz"))
    assert np.isfinite(car.state).all() and np.isfinite(kept).all()
    z, roll, load = kept[-1, :3]
    assert abs(roll) > 0.7 and z > 0.1  # lies, and not in the ground
    assert load > 500.0  # says so
    assert np.abs(kept[-1, 3:]).max() < 0.1  # at rest
    assert load + car.each("load").sum() == pytest.approx(790.0 * G, rel=0.2)


def test_a_car_pushed_for_long_stays_finite_and_above_ground() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = 6e3
    pushed = car.drive(1.5, ("body_load",))
    car.params[P.push_roll] = 0.0
    kept = car.drive(4.0, ("z", "roll", "body_load"))
    assert np.isfinite(car.state).all() and np.isfinite(kept).all()
    assert max(pushed.max(), kept[:, 2].max()) > 1e3 and kept[-1, 0] > 0.1


def test_upright_the_body_does_not_touch() -> None:
    car = Car()
    kept = car.drive(1.0, ("body_load",), brake_pressure_bar=20.0)
    assert (kept == 0.0).all()


def test_the_suspension_holds_as_much_as_a_push_may_be() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_z] = -20e3
    kept = car.drive(1.0, ("z", "spring_length_fl", "spring_length_rl", "load_fl"), brake_pressure_bar=30.0)
    assert np.isfinite(kept).all()
    assert kept[:, 1].min() > 0.2 and kept[:, 2].min() > 0.1


def test_a_stop_carries_sixty_kilonewtons_within_five_centimetres() -> None:
    from sim_service.machines.buggy.forces import _STOP_FREE, _STOP_HARD

    depth, rate = 0.05, 2e5
    more = depth - _STOP_FREE
    assert rate * (depth + (more / _STOP_HARD) ** 2 * more) > 60e3
