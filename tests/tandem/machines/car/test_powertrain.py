"""Cars with engine maps, gears, all-wheel drive, motors and brakes of their file, held to what must hold of any."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.contract.start import moving
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.car.powertrain.step import map_torque

H = 0.005
SHIPPED = CONFIGS / "vehicles" / "all_wheel_drive_single_track.toml"
MOTOR = """
[powertrain.motor]
torque = 400.0
power_kw = 150.0
ratio = 9.0
front = 0.0
regeneration = 80.0
regeneration_pedal = 150.0
"""


class Car:
    def __init__(self, file: Path, given: Mapping[str, float] | None = None, **parameters: float) -> None:
        self.machine, self.params = load_machine(file, parameters)
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        begun = moving(self.machine, given) if given else self.machine
        begun.initial(self.state, self.params, self.machine.tables, self.work)
        self.inputs = np.array([np.nan if q.optional else 0.0 for q in self.machine.inputs])
        self.seen: list[np.ndarray] = []

    def __getitem__(self, output: str) -> float:
        return float(self.work[index(self.machine.outputs, output)])

    def of(self, output: str) -> np.ndarray:
        return np.array(self.seen)[:, index(self.machine.outputs, output)]

    def drive(self, seconds: float, **inputs: float) -> "Car":
        for _ in range(round(seconds / H)):
            row = self.inputs.copy()
            for name, value in inputs.items():
                row[index(self.machine.inputs, name)] = value
            self.machine.step(self.state, row, self.params, self.machine.tables, self.work, H)
            self.seen.append(self.work[: len(self.machine.outputs)].copy())
        return self


def made(folder: Path, change: Mapping[str, str]) -> Path:
    """The shipped car with other words."""
    text = SHIPPED.read_text()
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    file = folder / "car.toml"
    file.write_text(text)
    return file


def test_a_map_is_linear_between_its_points_and_ends_at_them() -> None:
    rpm, pedal = np.array([600.0, 2000.0, 6000.0]), np.array([0.0, 0.4, 1.0])
    torque = np.array([[-20.0, -30.0, -80.0], [90.0, 150.0, 20.0], [200.0, 350.0, 280.0]])
    for at, n in ((0.2, 1300.0), (0.7, 5000.0), (0.4, 2000.0), (1.0, 9000.0), (0.0, 10.0)):
        rows = [np.interp(n, rpm, row) for row in torque]
        assert map_torque.py_func(rpm, pedal, torque.ravel(), at, n) == pytest.approx(np.interp(at, pedal, rows))


def test_a_launch_goes_up_through_the_gears_and_never_back() -> None:
    car = Car(SHIPPED).drive(20.0, throttle=1.0)
    gears = car.of("gear")
    assert gears[0] == 1.0 and gears[-1] >= 5.0 and (np.diff(gears) >= 0.0).all()
    assert car.of("engine_speed").max() * 30.0 / np.pi < 7324.0 + 150.0 and car["vx"] > 50.0
    assert np.isfinite(np.array(car.seen)).all()


def test_what_the_engine_gives_arrives_at_the_wheels_less_the_loss_of_the_gears(tmp_path: Path) -> None:
    """A clutch that is engaged, one gear, steady: power in is power out, over the efficiency."""
    file = made(tmp_path, {'kind = "converter"': 'kind = "clutch"'})
    car = Car(file, {"vx": 25.0}).drive(1.5, throttle=0.35)
    wheels = car["axle_torque_front"] * car["wheel_speed_front"] + car["axle_torque_rear"] * car["wheel_speed_rear"]
    engine = car["engine_torque"] * car["engine_speed"]
    # what turns the engine faster is not at the wheels
    rate = float(np.gradient(car.of("engine_speed"), H)[-5])
    engine -= 1.2 * rate * car["engine_speed"]
    assert wheels == pytest.approx(0.95 * engine, rel=0.02)


@pytest.mark.parametrize("front, driven, rolling", [(0.0, "rear", "front"), (1.0, "front", "rear")])
def test_an_open_car_drives_the_axle_that_its_file_says(front: float, driven: str, rolling: str) -> None:
    car = Car(SHIPPED, front_share=front, centre_lock=0.0).drive(2.0, throttle=0.5)
    assert car[f"force_x_{driven}"] > 2000.0 and car[f"force_x_{rolling}"] < 0.0
    assert car[f"slip_{driven}"] > 0.01 > car[f"slip_{rolling}"]


def test_locked_axles_turn_alike_where_an_open_one_would_spin() -> None:
    slippery = {"friction": 0.3, "front_share": 0.2}
    open_, locked = (Car(SHIPPED, **slippery, centre_lock=lock).drive(2.0, throttle=1.0) for lock in (0.0, 3000.0))
    assert open_["wheel_speed_rear"] > 1.5 * open_["wheel_speed_front"]
    assert locked["wheel_speed_rear"] == pytest.approx(locked["wheel_speed_front"], rel=0.05)
    assert locked["vx"] > open_["vx"]


def test_the_anti_lock_control_keeps_wheels_turning() -> None:
    """And stops within a tenth of what sliding does: this tyre loses no friction by sliding."""
    with_abs, without = (Car(SHIPPED, {"vx": 25.0}, abs=on).drive(4.0, brake_pedal=1.0) for on in (1.0, 0.0))
    fast = with_abs.of("vx") > 5.0
    assert with_abs.of("slip_front")[fast].min() > -0.6 and without.of("slip_front").min() < -0.95
    assert with_abs["x"] < 1.1 * without["x"] and abs(with_abs["vx"]) < 0.1


def test_the_booster_gives_less_beyond_its_knee(tmp_path: Path) -> None:
    booster = "booster_knee = 0.5\nbooster_rest = 0.2\nlag_s = 0.0 "
    file = made(tmp_path, {"lag_s = 0.1 ": booster, "abs = true": "abs = false"})
    for pedal, bar in ((0.25, 25.0), (0.5, 50.0), (1.0, 60.0)):
        assert Car(file, {"vx": 10.0}).drive(0.05, brake_pedal=pedal)["brake_bar"] == pytest.approx(bar)


def test_a_motor_gives_back_what_the_car_loses_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "car.toml"
    file.write_text(SHIPPED.read_text().split("[powertrain.engine]")[0] + MOTOR)
    car = Car(file, {"vx": 25.0})
    begun = 0.5 * 2074.4 * 25.0**2
    lifted = car.drive(3.0)["motor_energy"]
    left = 0.5 * 2074.4 * car["vx"] ** 2
    assert lifted < 0.0 and -lifted < 0.92 * (begun - left)
    more = car.drive(2.0, brake_pedal=0.2)["motor_energy"]
    assert more < lifted and car["motor_torque"] < -80.0
    start = car["motor_energy"]
    car.drive(2.0, throttle=1.0)
    assert car["motor_energy"] > start and 0.0 < car["motor_power"] <= 150e3 / 0.92 * 1.001 and car["gear"] == 0.0


def test_a_given_torque_or_speed_replaces_the_powertrain() -> None:
    car = Car(SHIPPED, {"vx": 20.0}).drive(1.0, prescribed_speed=20.0, throttle=1.0)
    assert car["vx"] == pytest.approx(20.0) and car["axle_torque_rear"] == 0.0
    pushed = Car(SHIPPED, {"vx": 20.0}).drive(1.0, drive_torque=1000.0)
    assert pushed["axle_torque_rear"] == 0.0 and pushed["force_x_rear"] > 1500.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"drag = [-40, -50, -90, -100, -105]": "drag = [-40, -50]"}, "powertrain.engine: each row of torque needs 5"),
        ({"rpm = [600, 1821": "rpm = [1821, 600"}, "powertrain.engine: rpm must rise"),
        ({"ratios = [5.0, 3.2,": "ratios = [3.2, 5.0,"}, "powertrain.gearbox: ratios must fall"),
        ({"up_rpm = [[6500, 6500], ": "up_rpm = ["}, "up_rpm must be one pair, or 7"),
        ({"down_rpm = [[1250, 1562]": "down_rpm = [[6600, 1562]"}, "must be above down_rpm"),
        ({"[powertrain.gearbox]": "[powertrain.gears]"}, "powertrain.gears"),
        ({"front = 0.5 ": "front = 1.5 "}, "powertrain.drive.front"),
    ],
)
def test_a_powertrain_that_cannot_be_is_a_sentence(tmp_path: Path, change: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_machine(made(tmp_path, change))
    assert words in str(caught.value) and "car.toml" in str(caught.value)


def test_a_parameter_of_the_powertrain_is_one_of_the_car() -> None:
    with pytest.raises(ConfigError, match=r"sim.parameters.front_share = 2: must be from 0 to 1"):
        load_machine(SHIPPED, {"front_share": 2.0})
    machine, params = load_machine(SHIPPED, {"front_share": 0.4, "mass": 2000.0})
    names = [p.name for p in machine.parameters]
    assert params[names.index("front_share")] == 0.4 and params[names.index("mass")] == 2000.0
