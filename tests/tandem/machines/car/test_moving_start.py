"""A car that begins in motion, at a prescribed speed, with a given road-wheel angle."""

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.contract.start import check_start, moving
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.machines.car.single_track import MACHINE

H = 0.005
PARAMS = np.array([p.value for p in MACHINE.parameters])
AT = {q.name: k for k, q in enumerate(MACHINE.outputs)}


class Car:
    def __init__(self, given: dict[str, float], **inputs: float) -> None:
        self.inputs = np.array([np.nan if q.optional else 0.0 for q in MACHINE.inputs])
        for name, value in inputs.items():
            self.inputs[index(MACHINE.inputs, name)] = value
        self.state, self.work = np.zeros(len(MACHINE.states)), np.zeros(MACHINE.work_size)
        moving(MACHINE, given, self.inputs).initial(self.state, PARAMS, MACHINE.tables, self.work)

    def __getitem__(self, output: str) -> float:
        return float(self.work[AT[output]])

    def step(self, count: int = 1, **inputs: float) -> "Car":
        for _ in range(count):
            row = self.inputs.copy()
            for name, value in inputs.items():
                row[index(MACHINE.inputs, name)] = value
            MACHINE.step(self.state, row, PARAMS, MACHINE.tables, self.work, H)
        return self


@pytest.mark.parametrize("speed, angle", [(8.0, 0.1), (20.0, 0.03), (20.0, -0.04), (35.0, 0.01)])
def test_what_is_not_given_is_in_equilibrium(speed: float, angle: float) -> None:
    """Steps at that speed and steer angle leave it where it began: two ways to the steady circle."""
    car = Car({"vx": speed}, prescribed_speed=speed, prescribed_road_wheel_angle=angle)
    begun = {name: car[name] for name in ("vy", "yaw_rate", "force_y_front", "force_y_rear", "load_front")}
    car.step(1000)
    assert {name: car[name] for name in begun} == pytest.approx(begun, rel=2e-3)
    assert abs(begun["yaw_rate"]) > 0.05


def test_what_is_given_is_where_it_begins() -> None:
    given = {"x": 3.0, "y": -2.0, "yaw": 1.0, "vx": 18.0, "vy": -0.4, "yaw_rate": 0.25}
    car = Car(given)
    assert {name: car[name] for name in given} == given
    assert car["wheel_speed_rear"] == pytest.approx(18.0 / 0.275) and car["force_y_rear"] > 0.0
    slipping = Car({"vx": 18.0, "sideslip": -0.05, "yaw_rate": 0.25})
    assert slipping["sideslip"] == pytest.approx(-0.05)


def test_a_yaw_rate_alone_gets_the_side_slip_that_carries_it() -> None:
    car = Car({"vx": 20.0, "yaw_rate": 0.2})
    mass, a, base = (PARAMS[index(MACHINE.parameters, n)] for n in ("mass", "cg_to_front", "wheelbase"))  # type: ignore[arg-type]
    assert car["force_y_rear"] == pytest.approx(mass * 20.0 * 0.2 * a / base, rel=1e-4)


def test_beyond_the_friction_limit_the_rear_slides_at_it() -> None:
    car = Car({"vx": 30.0, "yaw_rate": 0.8})
    assert np.isfinite(car.state).all() and car["force_y_rear"] < 0.95 * car["load_rear"]
    assert np.isfinite(car.step(200, prescribed_speed=30.0).state).all()


def test_a_prescribed_speed_is_had_at_the_end_of_every_step_and_its_force_is_told() -> None:
    """By Newton: force is mass times acceleration, and drag."""
    car, mass, drag = Car({"vx": 20.0}), PARAMS[0], 0.5 * 1.2 * 0.95
    for k in range(1, 101):
        speed = 20.0 - 4.0 * H * k  # brakes, straight on
        car.step(prescribed_speed=speed)
        assert car["vx"] == pytest.approx(speed, abs=1e-9)
        assert car["drive_force"] == pytest.approx(-4.0 * mass + drag * speed * speed, rel=2e-3)
    assert car["ax"] == pytest.approx(-4.0) and car["load_front"] > 0.5 * mass * 9.81
    assert car["x"] == pytest.approx(20.0 * 0.5 - 0.5 * 4.0 * 0.25, rel=1e-6)


def test_a_held_speed_corners_as_one_that_the_engine_holds() -> None:
    """The prescribed car and one that a torque keeps at the speed: within what the engine's slip takes of the grip."""
    prescribed = Car({"vx": 15.0}, prescribed_speed=15.0, steering_angle=0.8).step(600)
    driven = Car({"vx": 15.0}, steering_angle=0.8)
    for _ in range(600):
        driven.step(drive_torque=min(max(4000.0 * (15.0 - driven["vx"]), -2000.0), 2000.0))
    for name in ("yaw_rate", "sideslip", "ay"):
        assert prescribed[name] == pytest.approx(driven[name], rel=0.02)
    assert prescribed["drive_force"] == pytest.approx(driven["drive_force"], rel=0.05)


def test_a_road_wheel_angle_replaces_the_hand_wheels() -> None:
    turn = 0.045 / (2.0 * np.pi) / 0.115  # of the road wheels for one radian of the hand wheel
    by_hand = Car({"vx": 15.0}, prescribed_speed=15.0, steering_angle=0.8).step(100)
    by_wheel = Car({"vx": 15.0}, prescribed_speed=15.0, prescribed_road_wheel_angle=0.8 * turn, steering_angle=-2.0)
    assert by_wheel.step(100)["yaw_rate"] == pytest.approx(by_hand["yaw_rate"], rel=1e-9)
    assert by_wheel["road_wheel_angle"] == pytest.approx(0.8 * turn)


def test_a_prescribed_car_stops_and_stands() -> None:
    car = Car({"vx": 1.0}, prescribed_road_wheel_angle=0.2)
    for k in range(400):
        car.step(prescribed_speed=max(1.0 - H * k, 0.0))
    assert car["vx"] == 0.0 and np.isfinite(car.work).all() and abs(car["yaw_rate"]) < 1e-3


def test_a_machine_that_says_nothing_of_it_begins_with_its_states() -> None:
    machine, params = load_machine("mass_spring")
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    begun = moving(machine, {"x": 0.02, "v": -0.1})
    begun.initial(state, params, machine.tables, work)
    assert state.tolist() == [0.02, -0.1]
    with pytest.raises(ConfigError, match=r"study: start\.vx: mass_spring begins with x, v"):
        check_start(machine, {"vx": 1.0}, "study: start")


def test_a_machine_that_would_be_half_consistent_is_refused() -> None:
    """Its bodies and felts depend on each other: a state alone is no start."""
    action = load_machine("piano_multibody")[0]
    with pytest.raises(ConfigError, match=r"sim\.start\.\w+: .* begins at rest, where its own laws have it"):
        check_start(action, {action.states[0].name: 1.0}, "sim.start")
    check_start(load_machine("mass_spring")[0], {"x": 0.01, "v": 1.0}, "sim.start")
