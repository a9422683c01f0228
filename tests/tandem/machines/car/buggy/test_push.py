"""A hand on the car: what it pushes, the road holds, by statics alone."""

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.registry import load_machine
from tests.tandem.machines.car.buggy.conftest import VEHICLE, Car, G

MASS = 790.0
TRACK = {"front": 1.32, "rear": 1.34}


def pushed(**values: float) -> Car:
    """At rest, brakes on, driveline open, pushed for five seconds."""
    car = Car({"gear_mode": 0.0})
    for name, value in values.items():
        car.params[index(car.model.parameters, name)] = value  # type: ignore[arg-type]
    car.drive(5.0, brake_pressure_bar=30.0)
    return car


def test_lifted_it_is_lighter_by_as_much() -> None:
    assert pushed(push_z=1000.0).each("load").sum() == pytest.approx(MASS * G - 1000.0, rel=1e-4)


@pytest.mark.parametrize("axis", ["x", "y"])
def test_pushed_along_or_across_the_tyres_hold_it(axis: str) -> None:
    car = pushed(**{f"push_{axis}": 800.0})
    assert car.each(f"force_{axis}").sum() == pytest.approx(-800.0, rel=0.01)
    assert abs(car["vx"]) < 1e-3 and abs(car["vy"]) < 1e-3


def test_a_roll_torque_is_carried_by_the_tracks() -> None:
    load = pushed(push_roll=600.0).each("load")  # to the right
    carried = (load[1] - load[0]) * TRACK["front"] / 2 + (load[3] - load[2]) * TRACK["rear"] / 2
    # the car leans, and its own weight helps
    assert carried == pytest.approx(600.0, rel=0.1) and carried > 600.0
    assert load.sum() == pytest.approx(MASS * G, rel=1e-4)


def test_a_pitch_torque_is_carried_by_the_wheelbase() -> None:
    rest, load = pushed().each("load"), pushed(push_pitch=500.0).each("load")  # nose down
    moved = (load - rest)[:2].sum()
    assert moved == pytest.approx(500.0 / 2.25, rel=0.05)


@pytest.mark.parametrize(("body", "wheel"), [(1, 0), (2, 1), (3, 2), (4, 3)])
def test_a_wheel_pressed_down_stands_harder_on_the_road(body: int, wheel: int) -> None:
    rest, load = pushed().each("load"), pushed(push_body=float(body), push_z=-300.0).each("load")
    more = load - rest
    # the wheel is between the spring and the road: nearly all of it goes to the road there
    assert more[wheel] == pytest.approx(300.0, rel=0.15) and more.sum() == pytest.approx(300.0, rel=1e-3)


def test_a_yaw_torque_turns_the_car_in_the_air() -> None:
    """Too light to stand: the rate grows by torque over inertia, as the masses of the file give it."""
    car = Car({"gear_mode": 0.0})
    params = {p.name: i for i, p in enumerate(car.model.parameters)}
    car.params[params["push_z"]] = 20000.0
    car.drive(0.5)
    before = car["yaw_rate"]
    car.params[params["push_yaw"]] = 300.0
    rates = car.drive(0.2, ("yaw_rate",))[:, 0]
    inertia = 300.0 * 0.2 / (rates[-1] - before)
    assert 690.0 < inertia < 1000.0  # the sprung mass alone has 690; wheels and arms come on top


def test_a_vehicle_file_says_nothing_of_hands() -> None:
    model, params = load_machine(VEHICLE)
    hands = [p for p in model.parameters if p.name.startswith("push_")]
    assert not any(p.of_the_file for p in hands)
    assert [p.name for p in hands][:2] == ["push_body", "push_x"]
    assert all(params[index(model.parameters, p.name)] == 0.0 and p.live for p in hands)  # type: ignore[arg-type]
    _, changed = load_machine(VEHICLE, {"push_z": 10.0})
    assert np.flatnonzero(changed[: len(params)] != params).size >= 1
