"""Wheels: a locked one stands, and what the driveline gives arrives somewhere."""

import numpy as np
import pytest

from checks.kerbs import VEHICLE, Coasting
from sim_service.machines.buggy import brake_parameters, forces
from sim_service.machines.car.vehicle import VEHICLE_INPUTS
from sim_service.machines.contract import index
from sim_service.multibody.natural.tables import P as Part

FLAT = VEHICLE.parents[1] / "roads" / "flat.toml"
WHEELS = ("fl", "fr", "rl", "rr")


@pytest.mark.parametrize("bar", [70.0, 100.0, 150.0, 200.0, 300.0])
def test_a_locked_wheel_stands(bar: float) -> None:
    """Against its carrier, which nods as the car brakes: by the rates of the axle and of a vector of the knuckle."""
    car = Coasting(FLAT, 15.0, changed={"gear_mode": 0.0})
    qd, spins = car.state[car.system.span(Part.QD)], [car.system.column(f"{w}.spin") for w in WHEELS]
    qd[spins] = 15.0 / 0.285
    for _ in range(20):
        car.step(5e-3)
    car.inputs[index(VEHICLE_INPUTS, "brake_pressure_bar")] = bar
    locked, turned, worst = [False] * 4, [0.0] * 4, 0.0
    elements = car.state[car.system.span(Part.ELEMENT)]
    rates = forces.BRAKES + int(brake_parameters.S.wheel_speed) + len(brake_parameters.STATES) * np.arange(4)
    for _ in range(250):
        car.step(5e-3)
        carrier = [car[f"wheel_speed_{w}"] for w in WHEELS] - elements[rates]
        for w in range(4):
            speed = float(qd[spins[w]] - carrier[w])
            locked[w] = locked[w] or abs(speed) < 1e-3
            turned[w] = min(turned[w], speed)
            worst = max(worst, abs(speed) if locked[w] else 0.0)
        assert abs(car["wheel_speed_fl"]) < 60.0
    assert all(locked)
    assert worst < 1e-3 and min(turned) > -1e-3


def test_a_locked_wheel_turns_no_more_than_the_car_nods() -> None:
    car = Coasting(FLAT, 15.0, changed={"gear_mode": 0.0})
    qd = car.state[car.system.span(Part.QD)]
    qd[[car.system.column(f"{w}.spin") for w in WHEELS]] = 15.0 / 0.285
    car.inputs[index(VEHICLE_INPUTS, "brake_pressure_bar")] = 300.0
    for n in range(200):
        car.step(5e-3)
        if n > 4:
            assert abs(car["wheel_speed_fl"]) < 1.3 * abs(car["pitch_rate"]) + 0.05


def test_power_of_the_driveline_arrives_in_full() -> None:
    """A tyre that resists no rolling (QSY1 to QSY4 are 0): input = kinetic and potential energy + slip, to 0.1 %."""
    h = 1e-3
    changed = {"gear_mode": 0.0, "drag_area": 0.0, "brake_drag": 0.0}
    car = Coasting(FLAT, 5.0, changed=changed, tyre=dict.fromkeys(("QSY1", "QSY2", "QSY3", "QSY4"), 0.0))
    car.state[car.system.span(Part.QD)][[car.system.column(f"{w}.spin") for w in WHEELS]] = 5.0 / 0.285
    car.inputs[index(VEHICLE_INPUTS, "drive_torque")] = 700.0

    def powers() -> tuple[float, float]:
        into = car["axle_torque"] * car["wheel_speed_rear"]
        lost = 0.0
        for w in WHEELS:
            slip = car[f"wheel_speed_{w}"] * car[f"rolling_radius_{w}"] - car[f"speed_{w}"]
            lost += car[f"force_x_{w}"] * slip
        return into, lost

    for _ in range(2000):  # until it squats no more
        car.step(h)
    before, into, lost = car.energy(), 0.0, 0.0
    last = powers()
    for _ in range(2000):
        car.step(h)
        now = powers()
        into, lost = into + 0.5 * h * (last[0] + now[0]), lost + 0.5 * h * (last[1] + now[1])
        last = now
    assert into > 20e3
    assert car.energy() - before + lost == pytest.approx(into, rel=1e-3)
