"""The multibody car that begins in motion, at a prescribed speed, with a given road-wheel angle."""

import numpy as np
import pytest

from sim_service.contract.machine import Machine, index
from sim_service.contract.start import check_start, moving
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.car.buggy.bodies import AXLES, FIRST, POINTS
from tandem.machines.car.buggy.prescribed import total_mass

H = 0.005
VEHICLE = CONFIGS / "vehicles" / "buggy.toml"


@pytest.fixture(scope="module", name="made")
def _made() -> tuple[Machine, np.ndarray]:
    return load_machine(VEHICLE)


class Car:
    def __init__(self, made: tuple[Machine, np.ndarray], given: dict[str, float], **inputs: float) -> None:
        self.machine, self.params = made
        self.inputs = np.array([np.nan if q.optional else 0.0 for q in self.machine.inputs])
        for name, value in inputs.items():
            self.inputs[index(self.machine.inputs, name)] = value
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        begun = moving(self.machine, given, self.inputs)
        begun.initial(self.state, self.params, self.machine.tables, self.work)

    def __getitem__(self, output: str) -> float:
        return float(self.work[index(self.machine.outputs, output)])

    def step(self, count: int = 1, **inputs: float) -> "Car":
        for _ in range(count):
            row = self.inputs.copy()
            for name, value in inputs.items():
                row[index(self.machine.inputs, name)] = value
            self.machine.step(self.state, row, self.params, self.machine.tables, self.work, H)
        return self


def test_points_and_axles_stand_where_the_mechanism_has_them(made: tuple[Machine, np.ndarray]) -> None:
    names = [q.name for q in made[0].states][1:]
    points = [k for k, name in enumerate(names[:73]) if name in {f"{p}.x" for p in _points(names)}]
    assert tuple(points) == POINTS
    assert [names[k] for k in (*FIRST, *AXLES)] == ["fl.UBJ.x", "fr.UBJ.x", "fl.axle.x", "fr.axle.x"]
    assert [names[k + 3] for k in FIRST] == ["fl.LBJ.x", "fr.LBJ.x"]
    assert [names[k + 6] for k in FIRST] == ["fl.TRO.x", "fr.TRO.x"]


def _points(names: list[str]) -> list[str]:
    vectors = ("ahead", "left", "up", "axle", "normal", "strut")
    return [n.removesuffix(".x") for n in names[:73] if n.endswith(".x") and n.split(".")[-2] not in vectors]


@pytest.mark.parametrize("speed, angle", [(8.0, 1.2), (20.0, 0.4), (20.0, -0.4)])
def test_what_is_not_given_is_in_equilibrium(made: tuple[Machine, np.ndarray], speed: float, angle: float) -> None:
    """Steps at that speed and steering angle leave it where it began: two ways to the steady circle."""
    car = Car(made, {"vx": speed}, prescribed_speed=speed, steering_angle=angle)
    names = ("vy", "yaw_rate", "roll", "force_y_fl", "force_y_rr", "load_fl", "load_rr", "spring_length_rl")
    begun = {name: car[name] for name in names}
    car.step(300)
    assert {name: car[name] for name in begun} == pytest.approx(begun, rel=5e-3, abs=1e-4)
    assert abs(begun["yaw_rate"]) > 0.1 and begun["roll"] * begun["yaw_rate"] > 0.0


def test_what_is_given_is_where_it_begins(made: tuple[Machine, np.ndarray]) -> None:
    given = {"x": 3.0, "y": -2.0, "yaw": 2.0, "vx": 18.0, "vy": -0.4, "yaw_rate": 0.25}
    car = Car(made, given)
    assert {name: car[name] for name in given} == pytest.approx(given, abs=1e-4)
    assert car["wheel_speed_rl"] * car["rolling_radius_rl"] == pytest.approx(18.0, rel=0.03)
    before = car["x"], car["y"]
    car.step(2)
    assert (car["x"] - before[0]) / (2 * H) == pytest.approx(18.0 * np.cos(2.0) + 0.4 * np.sin(2.0), abs=0.1)
    assert car["capped"] == 0.0 and abs(car["roll_rate"]) < 0.02
    slipping = Car(made, {"vx": 18.0, "sideslip": -0.03, "yaw_rate": 0.25})
    assert slipping["sideslip"] == pytest.approx(-0.03, abs=1e-5)


def test_a_given_acceleration_pitches_and_loads_it(made: tuple[Machine, np.ndarray]) -> None:
    rolling, braking = Car(made, {"vx": 20.0}), Car(made, {"vx": 20.0, "ax": -4.0})
    assert braking["ax"] == pytest.approx(-4.0, abs=0.2)
    assert braking["load_fl"] > rolling["load_fl"] + 200.0 and braking["pitch"] > rolling["pitch"] + 0.005


def test_a_prescribed_speed_is_had_at_the_end_of_every_step_and_its_force_is_reported(
    made: tuple[Machine, np.ndarray],
) -> None:
    """By Newton: force is mass times acceleration, and drag."""
    car = Car(made, {"vx": 20.0, "ax": -4.0}, prescribed_speed=20.0)
    mass = total_mass.py_func(made[1])
    forces = []
    for k in range(1, 201):
        speed = 20.0 - 4.0 * H * k
        car.step(prescribed_speed=speed)
        assert car["vx"] == pytest.approx(speed, abs=1e-6)
        forces.append(car["drive_force"] + 4.0 * mass - car["drag"])
    assert np.abs(np.mean(forces[50:])) < 0.03 * 4.0 * mass  # the rolling resistance of wheels is in it
    assert car["load_fl"] > car["load_rl"]
    assert car["x"] == pytest.approx(20.0 - 0.5 * 4.0, rel=1e-3)


def test_a_held_speed_corners_as_one_that_the_engine_holds(made: tuple[Machine, np.ndarray]) -> None:
    prescribed = Car(made, {"vx": 15.0}, prescribed_speed=15.0, steering_angle=0.8).step(200)
    driven = Car(made, {"vx": 15.0}, steering_angle=0.8)
    driven.params = driven.params.copy()
    driven.params[index(driven.machine.parameters, "gear_mode")] = 0.0  # type: ignore[arg-type]
    for _ in range(400):
        driven.step(drive_torque=min(max(6000.0 * (15.0 - driven["vx"]) + 60.0, -2000.0), 2000.0))
    for name in ("yaw_rate", "sideslip", "ay", "roll"):
        assert prescribed[name] == pytest.approx(driven[name], rel=0.03)


def test_a_road_wheel_angle_replaces_the_hand_wheels(made: tuple[Machine, np.ndarray]) -> None:
    car = Car(made, {"vx": 15.0}, prescribed_speed=15.0, prescribed_road_wheel_angle=0.04, steering_angle=-2.0)
    assert car["road_wheel_angle"] == pytest.approx(0.04, abs=2e-4)
    for k in range(200):
        wanted = 0.04 * np.cos(0.03 * k)
        car.step(prescribed_road_wheel_angle=wanted)
        assert car["road_wheel_angle"] == pytest.approx(wanted, abs=2e-4)
    assert car["hand_wheel_angle"] != 0.0


def test_it_drives_off_prescribed_from_rest_and_stands_again(made: tuple[Machine, np.ndarray]) -> None:
    car = Car(made, {})
    for k in range(300):
        car.step(prescribed_speed=5.0 * np.sin(np.pi * k / 299.0))
    assert abs(car["vx"]) < 1e-6 and np.isfinite(car.work).all() and car["overturned"] == 0.0


def test_a_motion_that_no_car_has_is_refused(made: tuple[Machine, np.ndarray]) -> None:
    with pytest.raises(ConfigError, match=r"buggy.toml: start: vx = 30, .* does not stay on its wheels"):
        Car(made, {"vx": 30.0, "yaw_rate": 3.0, "sideslip": 1.2})
    with pytest.raises(ConfigError, match=r"sim\.start\.roll: buggy begins with x, y, yaw, vx"):
        check_start(made[0], {"roll": 0.1}, "sim.start")


def test_in_relative_coordinates_it_begins_the_same(made: tuple[Machine, np.ndarray], tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "relative.toml"
    file.write_text('formulation = "relative"\n' + VEHICLE.read_text().replace('"../tyres/', f'"{CONFIGS}/tyres/'))
    given = {"x": 5.0, "yaw": 2.0, "vx": 20.0, "yaw_rate": 0.2}
    natural, relative = (Car(each, given, steering_angle=0.4) for each in (made, load_machine(file)))
    for car in (natural, relative):
        car.step(40)
    assert relative["parts"] == 0.0
    for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate", "roll", "load_fl"):
        assert relative[name] == pytest.approx(natural[name], rel=2e-3, abs=2e-3)
