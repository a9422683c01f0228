"""A car that rolls over lies there, finite, and says so; many more are `python -m checks.roll_overs`."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from checks.roll_overs import MOST_CREATED, NAMED, Case, random_case, run
from sim_service.machines.buggy.description import P
from sim_service.machines.buggy.forces import point_load
from sim_service.roads import make_road, surface

from .conftest import Car, G


@pytest.mark.parametrize(("torque", "seconds"), [(8e3, 0.5), (-7e3, 0.7)])
def test_a_car_pushed_over_lies_on_its_side_or_roof(torque: float, seconds: float) -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = torque
    car.drive(seconds)
    car.params[P.push_roll] = 0.0
    rows = car.drive(6.0, ("z", "roll", "body_load", "vx", "vy", "vz"))
    assert np.isfinite(car.state).all() and np.isfinite(rows).all()
    z, roll, load = rows[-1, :3]
    assert abs(roll) > 0.7 and z > 0.1  # lies, and not in the ground
    assert load > 500.0 and car["overturned"] > 0.0  # reported
    assert np.abs(rows[-1, 3:]).max() < 1e-3  # at rest
    assert load + car.each("load").sum() == pytest.approx(790.0 * G, rel=1e-3)


def test_a_car_pushed_for_long_stays_finite_and_above_ground() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = 6e3
    pushed = car.drive(1.5, ("body_load",))
    car.params[P.push_roll] = 0.0
    rows = car.drive(4.0, ("z", "roll", "body_load"))
    assert np.isfinite(car.state).all() and np.isfinite(rows).all()
    assert max(pushed.max(), rows[:, 2].max()) > 1e3 and rows[-1, 0] > 0.1


def test_upright_the_body_does_not_touch() -> None:
    car = Car()
    rows = car.drive(1.0, ("body_load", "overturned"), brake_pressure_bar=20.0)
    assert (rows == 0.0).all()


@pytest.mark.parametrize("case", [*NAMED, random_case(17, 12), random_case(17, 16)], ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore::sim_service.roads.sharpness.TooSharp")
def test_a_roll_over_makes_no_energy_and_every_step_converges(case: Case, tmp_path: Path) -> None:
    """The cases that were known to fail: 17 % created by a wheel in the side of a wedge, steps capped in all."""
    result = run(case, tmp_path, {})
    assert result.finite and result.share <= MOST_CREATED
    assert result.capped == result.thrown_away == 0
    assert result.at_rest == result.lies


def test_an_impact_is_made_in_parts_until_its_work_is_right() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = 8e3
    rows = car.drive(0.8, ("parts", "energy_residual", "capped"))
    car.params[P.push_roll] = 0.0
    rows = np.vstack([rows, car.drive(3.0, ("parts", "energy_residual", "capped"))])
    parts = rows[:, 0]
    assert set(parts) <= {1.0, 4.0, 16.0} and 0 < (parts > 1.0).sum() < 0.05 * len(parts)
    assert np.abs(rows[:, 1]).max() < 100.0 and rows[:, 2].max() == 0.0


def test_the_force_on_a_point_of_the_body_is_the_gradient_of_an_energy_also_beside_a_wall() -> None:
    """Around a loop through the wall of a ramp a point that slides without friction or damping takes no work."""
    road = make_road({"bumps": [{"shape": "trapezoid", "x": 0.0, "length": 20.0, "height": 0.5, "ramp": 5.0,
                                 "rounding": 0.5, "right": 0.0}]})  # fmt: skip
    loop = [(9.0, -0.1, 0.45), (9.0, 0.2, 0.45), (9.0, 0.2, 0.3), (9.0, -0.1, 0.3), (9.0, -0.1, 0.45)]
    work = scale = 0.0
    for a, b in itertools.pairwise(loop):
        way = (np.array(b) - np.array(a)) / 4000
        for k in range(4000):
            x, y, z = np.array(a) + (k + 0.5) * way
            height, slope_x, slope_y, _ = surface(road, x, y)
            press = point_load(height - z)[0]
            piece = press * float(np.array([-slope_x, -slope_y, 1.0]) @ way)
            work, scale = work + piece, scale + abs(piece)
    assert scale > 1e3 and abs(work) < 1e-3 * scale


def test_the_suspension_holds_as_much_as_a_push_may_be() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_z] = -20e3
    rows = car.drive(1.0, ("z", "spring_length_fl", "spring_length_rl", "load_fl"), brake_pressure_bar=30.0)
    assert np.isfinite(rows).all()
    assert rows[:, 1].min() > 0.2 and rows[:, 2].min() > 0.1


def test_a_stop_carries_sixty_kilonewtons_within_five_centimetres() -> None:
    from sim_service.machines.buggy.forces import _STOP_FREE, _STOP_HARD

    depth, rate = 0.05, 2e5
    more = depth - _STOP_FREE
    assert rate * (depth + (more / _STOP_HARD) ** 2 * more) > 60e3
