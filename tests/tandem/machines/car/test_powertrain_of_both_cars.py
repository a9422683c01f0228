"""The multibody car with a powertrain by its figures: beside the single-track car that has the same, and by itself."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import Reshape
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.car.buggy.description import P as CAR_P
from tandem.machines.car.powertrain import implicit
from tandem.machines.car.powertrain.layout import LIVE, MOST_POINTS, OF_MAP, OF_NUMBERS, OF_PARAMETERS, D, N
from tests.tandem.machines.car.test_powertrain import MOTOR, H
from tests.tandem.machines.car.test_powertrain import Car as AnyCar

WHEELS = ("fl", "fr", "rl", "rr")
PARTS = """
[powertrain.engine]
rpm = [800, 1500, 3000, 4500, 6000, 7000]
full = [70, 95, 120, 125, 110, 80]
drag = [-8, -10, -14, -18, -24, -28]
inertia = 0.15
idle_rpm = 850

[powertrain.coupling]
kind = "clutch"
most = 300.0

[powertrain.gearbox]
ratios = [3.3, 1.9, 1.3, 1.0, 0.8]
final = 4.1
up_rpm = [2000, 6500]
down_rpm = [1200, 2500]

[powertrain.drive]
front = 0.0
"""


def made(
    folder: Path, change: Mapping[str, str] | None = None, more: str = "", parts: str = PARTS, of: str = "buggy"
) -> Path:
    text = (CONFIGS / "vehicles" / f"{of}.toml").read_text().replace('"../tyres', f'"{CONFIGS.as_posix()}/tyres')
    for old, new in (change or {}).items():
        assert old in text + parts
        text, parts = text.replace(old, new), parts.replace(old, new)
    file = folder / f"{of}.toml"
    file.write_text(text + parts + more)
    return file


class Car(AnyCar):
    def drive(self, seconds: float, **inputs: float) -> "Car":
        super().drive(seconds, **inputs)
        assert np.isfinite(self.state).all() and not self.of("capped").any()
        return self


@pytest.mark.parametrize("kind", ["clutch", "converter"])
def test_both_cars_launch_alike(tmp_path: Path, kind: str) -> None:
    """0 to 100 km/h within 3 %, through the same gears; 2 % faster or slower goes with tyres and rolling resistance."""
    change = {'"clutch"': f'"{kind}"'}
    one = Car(made(tmp_path, change)).drive(14.0, throttle=1.0)
    other = AnyCar(made(tmp_path, change, of="buggy_single_track")).drive(14.0, throttle=1.0)
    at = [int(np.argmax(car.of("vx") > 100.0 / 3.6)) for car in (one, other)]
    assert at[0] > 5.0 / H and at[0] == pytest.approx(at[1], rel=0.03)
    gears = one.of("gear")
    assert gears[0] == 1.0 and (np.diff(gears) >= 0.0).all()
    assert gears[at[0]] == other.of("gear")[at[1]] == 3.0
    assert one.of("engine_speed").max() * 30.0 / np.pi < 7000.0 + 150.0


def test_what_the_engine_gives_is_at_the_wheels_in_the_engine_or_lost(tmp_path: Path) -> None:
    """In steady pull to the loss of the gears; over a launch clutch and shifts take at most some per cent more."""
    car = Car(made(tmp_path), {"vx": 15.0}).drive(3.0, throttle=0.6)
    wheels = car["axle_torque_rear"] * car["wheel_speed_rear"]
    rate = float(np.gradient(car.of("engine_speed"), H)[-5])
    assert wheels == pytest.approx(0.95 * (car["engine_torque"] - 0.15 * rate) * car["engine_speed"], rel=1e-3)
    car = Car(made(tmp_path)).drive(12.0, throttle=1.0)
    engine = np.trapezoid(car.of("engine_torque") * car.of("engine_speed"), dx=H)
    wheels = np.trapezoid(car.of("axle_torque_rear") * car.of("wheel_speed_rear"), dx=H)
    stored = 0.5 * 0.15 * (car["engine_speed"] ** 2 - car.of("engine_speed")[0] ** 2)
    assert 0.045 < (engine - wheels - stored) / engine < 0.075


def test_it_rolls_back_stops_and_pulls_away(tmp_path: Path) -> None:
    for kind in ("clutch", "converter"):
        car = Car(made(tmp_path, {'"clutch"': f'"{kind}"'}), {"vx": -5.0}).drive(5.0, throttle=1.0)
        assert car["vx"] > 5.0 and car.of("engine_speed").min() > 0.8 * 850.0 * np.pi / 30.0
        car.drive(3.0, brake_pedal=0.6)
        assert abs(car["vx"]) < 0.2 and car["gear"] <= 2.0 and car["engine_speed"] * 30.0 / np.pi > 700.0
        car.drive(3.0, throttle=0.6)
        assert car["vx"] > 3.0


def test_pedals_to_and_fro_leave_a_smooth_pull(tmp_path: Path) -> None:
    """An engine that turns with the wheels by a rule of its own would shake at every second step."""
    car = Car(made(tmp_path), {"vx": 20.0})
    for k in range(8):
        car.drive(0.25, throttle=float(k % 2))
    torque = car.of("axle_torque_rear")[4:]
    assert np.abs(np.diff(torque, 2)).max() < 0.1 * np.ptp(torque)


def test_torque_goes_where_the_file_says(tmp_path: Path) -> None:
    for share in (0.0, 0.4, 1.0):
        car = Car(made(tmp_path, {"front = 0.0": f"front = {share}"})).drive(2.0, throttle=0.7)
        both = car["axle_torque_front"] + car["axle_torque_rear"]
        assert both > 500.0 and car["axle_torque_front"] == pytest.approx(share * both)
    slippery = {"grip": 0.2, "front_share": 0.2}
    file = made(tmp_path)
    open_, locked = (Car(file, **slippery, centre_lock=lock).drive(2.0, throttle=1.0) for lock in (0.0, 3000.0))
    assert open_["wheel_speed_rear"] > 5.0 * open_["wheel_speed_front"]
    assert locked["wheel_speed_rear"] == pytest.approx(locked["wheel_speed_front"], rel=0.01)
    assert locked["vx"] > open_["vx"]


@pytest.mark.parametrize("axle, left, right", [("front", "fl", "fr"), ("rear", "rl", "rr")])
def test_each_axle_has_its_differential(tmp_path: Path, axle: str, left: str, right: str) -> None:
    front = {"front = 0.0": f"front = {float(axle == 'front')}"}
    ratios = []
    for lock in (0.0, 1e5):
        file = made(tmp_path, front, f"[powertrain.drive.{axle}_axle]\nlock = {lock}\n")
        car = Car(file, {"vx": 8.0}).drive(1.5, throttle=0.3, steering_angle=4.0)
        ratios.append(car[f"wheel_speed_{right}"] / car[f"wheel_speed_{left}"])
    assert ratios[0] > 1.05 and ratios[1] == pytest.approx(1.0, abs=1e-3)


def test_a_motor_gives_back_what_the_car_loses_and_no_more(tmp_path: Path) -> None:
    motor = MOTOR.replace("torque = 400.0", "torque = 150.0").replace("front = 0.0", "front = 1.0")
    car = Car(made(tmp_path, parts=motor), {"vx": 20.0})
    lifted = car.drive(2.0)["motor_energy"]
    assert lifted < 0.0 and -lifted < 0.92 * 0.5 * 860.0 * (20.0**2 - car["vx"] ** 2)
    more = car.drive(1.0, brake_pedal=0.2)["motor_energy"]
    assert more < lifted and car["motor_torque"] < -80.0 and car["axle_torque_front"] < 0.0
    car.drive(2.0, throttle=1.0)
    assert car["motor_energy"] > more and 0.0 < car["motor_power"] <= 150e3 / 0.92 * 1.001 and car["gear"] == 0.0
    work = np.trapezoid(car.of("motor_power"), dx=H)
    assert car["motor_energy"] == pytest.approx(work, rel=0.02)


def test_brakes_have_booster_lag_and_an_abs_at_each_wheel(tmp_path: Path) -> None:
    booster = "[powertrain.brakes]\nbooster_knee = 0.5\nbooster_rest = 0.2\nlag_s = 0.0\nabs = true\n"
    file = made(tmp_path, more=booster)
    for pedal, bar in ((0.25, 25.0), (0.5, 50.0), (1.0, 60.0)):
        car = Car(file, {"vx": 10.0}, abs=0.0).drive(0.05, brake_pedal=pedal)
        assert car["brake_bar"] == pytest.approx(bar)
    file = made(tmp_path, more="[powertrain.brakes]\nabs = true\n")
    held, locked = (Car(file, {"vx": 25.0}, **given).drive(1.5, brake_pedal=1.0) for given in ({}, {"abs": 0.0}))
    turning = [np.mean([car.of(f"wheel_speed_{w}")[100:] > 5.0 for w in WHEELS]) for car in (held, locked)]
    assert turning[0] > 0.95 and turning[1] < 0.05
    assert held["x"] < locked["x"]


def test_a_given_torque_or_speed_replaces_the_powertrain(tmp_path: Path) -> None:
    file = made(tmp_path)
    car = Car(file, {"vx": 20.0}).drive(1.0, prescribed_speed=20.0, throttle=1.0)
    assert car["vx"] == pytest.approx(20.0) and car["axle_torque_rear"] == 0.0
    pushed = Car(file, {"vx": 20.0}).drive(1.0, drive_torque=500.0)
    assert pushed["axle_torque"] == 500.0 and pushed["force_x_rl"] + pushed["force_x_rr"] > 1500.0
    assert pushed.drive(1.0, throttle=1.0)["axle_torque_rear"] > 300.0


def test_it_may_be_another_car_while_it_drives_and_is_solved_finer(tmp_path: Path) -> None:
    file = made(tmp_path, {"front = 0.0": "front = 0.4"})
    car = Car(file)
    reshape = car.machine.of(Reshape)
    assert reshape is not None
    heavier = car.params.copy()
    heavier[CAR_P.sprung_mass] += 100.0
    numbers, _ = reshape.make(heavier)
    assert len(numbers) == len(car.machine.tables.floats)
    plain, halved = (Car(file, step_halving=on).drive(3.0, throttle=0.8)["vx"] for on in (0.0, 1.0))
    assert halved == pytest.approx(plain, rel=0.005)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"front = 0.0": "front = 1.5"}, "powertrain.drive.front = 1.5"),
        ({"[powertrain.gearbox]": "[powertrain.gears]"}, "powertrain.gears"),
        ({"front = 0.0": "front = 0.0\nrear_axle = {lock = -1.0}"}, "powertrain.drive.rear_axle.lock = -1"),
        ({'machine = "buggy"': 'machine = "buggy"\nformulation = "relative"'}, 'formulation = "natural" serves it'),
    ],
)
def test_what_cannot_be_is_a_sentence(tmp_path: Path, change: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_machine(made(tmp_path, change))
    assert words in str(caught.value) and "buggy.toml" in str(caught.value)


def test_torque_on_the_gears_falls_with_their_speed_by_the_slope_that_is_returned() -> None:
    """Whatever the engine does: slipping, holding, idling, limited, rolling back, changing gears."""
    random = np.random.default_rng(4)
    seen = set()
    for _ in range(2000):
        g = np.zeros(LIVE)
        numbers = g[OF_NUMBERS:OF_PARAMETERS]
        numbers[[N.inertia, N.idle_rpm, N.limit_rpm, N.most, N.engages_rpm]] = 0.15, 850.0, 6500.0, 300.0, 300.0
        numbers[[N.capacity, N.stall_ratio, N.coupling]] = 2.4e-3, 2.0, 0.87
        numbers[N.clutch] = float(random.integers(2))
        g[[D.points, D.idle_torque, D.converts]] = 3.0, 40.0, random.choice([1e9, 60.0])
        g[D.carries] = random.choice([0.0, 80.0, 300.0])
        g[OF_MAP : OF_MAP + 3] = 800.0, 3000.0, 7000.0
        g[OF_MAP + MOST_POINTS :][:3] = random.uniform(-20.0, 150.0, 3)
        g[OF_MAP + 2 * MOST_POINTS :][:3] = -10.0, -20.0, -30.0
        p0, t, h = random.uniform(0.0, 750.0), random.uniform(-100.0, 750.0), random.choice([0.0, 1e-3, 5e-3])
        if random.random() < 0.5:
            p0 = max(t + random.normal(0.0, 1.0), 0.0)
        rate = random.uniform(-300.0, 300.0)
        p, after, sticks, T, given, slope = implicit.coupled(g, numbers, p0, rate, t, h)
        assert np.isfinite([p, after, T, given, slope]).all() and p >= 0.0
        seen.add((sticks, h > 0.0))
        if h == 0.0:
            continue
        # engine and what it is held by: J dp/dt is what is left, by the trapezoidal rule
        assert 0.15 * (p - p0) == pytest.approx(0.5 * h * 0.15 * (rate + after), abs=1e-6 * (1.0 + abs(p))) or p == 0.0
        e = 1e-4
        up, down = (implicit.coupled(g, numbers, p0, rate, t + d, h) for d in (e, -e))
        if up[2] == down[2] == sticks:
            numeric = (up[4] - down[4]) / (2.0 * e)
            assert slope <= 1e-9 and slope == pytest.approx(min(numeric, 0.0), rel=0.02, abs=0.3)
    assert seen == {(0.0, True), (1.0, True), (0.0, False)} | ({(1.0, False)} & seen)
