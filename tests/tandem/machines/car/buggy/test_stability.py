"""What the buggy says of its control: against linear theory, its own loads, and drives that lose it."""

import numpy as np
import pytest

from sim_service.contract.stability import GROWTH, JUDGED, LOSS, USE, stability_monitor
from tandem.machines.car.buggy.stability import growth, mass_figures
from tests.tandem.machines.car.buggy.conftest import Car, G
from verify.estimation.prediction_drives import is_lost


def judged(car: Car) -> np.ndarray:
    monitor, out = stability_monitor(car.model, car.params, "buggy.toml"), np.zeros(JUDGED)
    monitor.judge(car.work, car.params, car.model.tables, monitor.numbers, out)
    return out


def test_masses_are_those_that_press_on_the_road() -> None:
    car = Car()
    mass, _, front, rear = mass_figures(car.params)
    loads = car.each("load")
    assert loads.sum() == pytest.approx(mass * G, rel=1e-6)
    assert loads[:2].sum() / loads.sum() == pytest.approx(rear / (front + rear), abs=2e-3)


@pytest.mark.parametrize("front, rear", [(30e3, 40e3), (40e3, 20e3), (10e3, -2e3), (-1e3, 5e3), (0.0, 0.0)])
@pytest.mark.parametrize("v", [3.0, 12.0, 40.0])
def test_growth_is_the_largest_real_part_of_the_single_track_car(front: float, rear: float, v: float) -> None:
    m, inertia, a, b = 790.0, 864.0, 1.288, 0.962
    turning = a * front - b * rear
    matrix = np.array(
        [
            [-(front + rear) / (m * v), -v - turning / (m * v)],
            [-turning / (inertia * v), -(a * a * front + b * b * rear) / (inertia * v)],
        ]
    )
    assert growth(m, inertia, a, b, front, rear, v) == pytest.approx(np.linalg.eigvals(matrix).real.max(), abs=1e-9)


def test_a_car_that_is_driven_calmly_is_far_from_losing_control_and_one_that_spins_is_not() -> None:
    car = Car()
    car.set(drive_torque=np.nan, hand_wheel_torque=np.nan)
    car.drive(3.0, throttle=1.0)
    calm = judged(car)
    assert calm[LOSS] < 0.05 and calm[GROWTH] < -3.0
    uses, growths, losses, rows = [], [], [], []
    for k in range(400):
        car.set(steering_angle=min(0.02 * k, 4.0), steering_speed=4.0 if k < 200 else 0.0, throttle=0.4)
        car.step()
        found = judged(car)
        uses.append(found[USE])
        growths.append(found[GROWTH])
        losses.append(found[LOSS])
        rows.append(car.work[: len(car.names)].copy())
    assert max(uses) > 0.9 and max(growths) > -0.5 and max(losses) > 1.0
    # the checks' own judgement, made of other lines, agrees where it is lost
    np.testing.assert_array_equal(np.array(losses) > 1.0, is_lost(car.model, np.array(rows), 1.0))


def test_use_is_nearly_nothing_at_rest_and_locked_wheels_leave_no_stability() -> None:
    car = Car()
    assert judged(car)[USE] < 0.1
    car.set(drive_torque=np.nan, hand_wheel_torque=np.nan)
    car.drive(3.0, throttle=1.0)
    car.drive(0.4, throttle=0.0, brake_pressure_bar=150.0)
    locked = judged(car)
    # beyond its peak a tyre bears less, whichever way it slides: nothing turns the car back
    assert 0.7 < locked[USE] < 1.0 and locked[GROWTH] > -0.5
