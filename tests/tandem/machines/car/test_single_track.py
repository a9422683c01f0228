"""The single-track car against formulas that do not share its code, and against the promises of its description.

Where a test needs a limit case to be exact (no drag, no load sensitivity) it sets the parameter, so that tolerances
stand for what the formula leaves out and not for what the model adds.
"""

import math
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_service.contract.machine import index
from tandem.machines.car.single_track import MACHINE
from tandem.machines.car.single_track.dynamics import SUBSTEP, tyre
from tests.examples import few

G = 9.81
DEFAULTS = {p.name: p.value for p in MACHINE.parameters}
BUGGY = Path(__file__).resolve().parents[4] / "configs" / "vehicles" / "buggy_single_track.toml"
MIRRORED = ("y", "yaw", "vy", "yaw_rate", "deflection_y_front", "deflection_y_rear", "transfer_y")


class Car:
    """A car and its inputs, driven in plain steps."""

    def __init__(self, speed: float = 0.0, **parameters: float) -> None:
        self.p = {**DEFAULTS, **parameters}
        self.params = np.array(list(self.p.values()))
        self.state = np.full(len(MACHINE.states), np.nan)
        self.work = np.full(MACHINE.work_size, np.nan)
        self.inputs = np.array([np.nan if q.name.startswith("prescribed") else 0.0 for q in MACHINE.inputs])
        MACHINE.initial(self.state, self.params, MACHINE.tables, self.work)
        self.set("vx", speed)
        self.set("wheel_speed_front", speed / self.p["wheel_radius"])
        self.set("wheel_speed_rear", speed / self.p["wheel_radius"])

    def set(self, name: str, value: float) -> None:
        self.state[index(MACHINE.states, name)] = value

    def get(self, name: str) -> float:
        return float(self.state[index(MACHINE.states, name)])

    def __getitem__(self, output: str) -> float:
        return float(self.work[index(MACHINE.outputs, output)])

    def drive(self, seconds: float, h: float = 5e-3, each: Callable[[], None] | None = None, **inputs: float) -> "Car":
        for name, value in inputs.items():
            self.inputs[index(MACHINE.inputs, name)] = value
        for _ in range(round(seconds / h)):
            MACHINE.step(self.state, self.inputs, self.params, MACHINE.tables, self.work, h)
            if each is not None:
                each()
        return self

    def cruise(self, seconds: float, speed: float) -> "Car":
        """Hold the speed with the drive torque."""
        for _ in range(round(seconds / 5e-3)):
            self.drive(5e-3, drive_torque=min(2000.0 * (speed - self.get("vx")), 500.0))
        return self

    def fastest(self) -> float:
        return float(np.max(np.abs(self.state[[index(MACHINE.states, n) for n in ("vx", "vy", "yaw_rate")]])))

    def energy(self) -> float:
        """Kinetic energy of body and wheels, and elastic energy of the tyres."""
        p, g = self.p, self.get
        front, rear = 2.0 * p["wheel_inertia"], 2.0 * p["wheel_inertia"] + p["driveline_inertia"]
        kinetic = p["mass"] * (g("vx") ** 2 + g("vy") ** 2) + p["yaw_inertia"] * g("yaw_rate") ** 2
        kinetic += front * g("wheel_speed_front") ** 2 + rear * g("wheel_speed_rear") ** 2
        load = 2.0 * p["tyre_load"]
        along = p["slip_stiffness"] / p["relaxation_x"] * (g("deflection_x_front") ** 2 + g("deflection_x_rear") ** 2)
        across = p["cornering_front"] * g("deflection_y_front") ** 2 + p["cornering_rear"] * g("deflection_y_rear") ** 2
        return 0.5 * (kinetic + load * along + load * across / p["relaxation_y"])


def rolling_mass(p: dict[str, float]) -> float:
    return p["mass"] + (4.0 * p["wheel_inertia"] + p["driveline_inertia"]) / p["wheel_radius"] ** 2


def axle_cornering_stiffness(p: dict[str, float], axle: str) -> tuple[float, float]:
    """Static load and cornering stiffness of an axle, N and N/rad, wheel by wheel."""
    arm = p["wheelbase"] - p["cg_to_front"] if axle == "front" else p["cg_to_front"]
    wheel = 0.5 * p["mass"] * G * arm / p["wheelbase"]
    stiffness = p[f"cornering_{axle}"] * wheel * (1.0 - p["stiffness_fall"] * (wheel / p["tyre_load"] - 1.0))
    return 2.0 * wheel, 2.0 * stiffness


def understeer(p: dict[str, float]) -> float:
    """K_us in rad: W_f / C_f - W_r / C_r."""
    (wf, cf), (wr, cr) = axle_cornering_stiffness(p, "front"), axle_cornering_stiffness(p, "rear")
    return wf / cf - wr / cr


# the description


def test_description_is_consistent() -> None:
    for entries in (MACHINE.inputs, MACHINE.states, MACHINE.outputs, MACHINE.parameters):
        names = [e.name for e in entries]
        assert len(set(names)) == len(names)
        assert all(e.unit and e.text for e in entries)
    assert all(p.low <= p.value <= p.high and p.low < p.high for p in MACHINE.parameters)
    assert MACHINE.work_size >= len(MACHINE.outputs)


def test_buggy_file_lists_every_parameter_with_its_default() -> None:
    data = tomllib.loads(BUGGY.read_text())
    assert data["machine"] == MACHINE.name
    assert DEFAULTS | data["parameters"] == DEFAULTS
    assert set(DEFAULTS) - set(data["parameters"]) == {"lift_area"}


# the car against formulas


def test_static_loads_are_those_of_sprung_and_unsprung_masses() -> None:
    car = Car()
    assert car["load_front"] == pytest.approx(G * (690.0 * (2.25 - 1.305) / 2.25 + 2 * 24.0), rel=5e-4)
    assert car["load_rear"] == pytest.approx(G * (690.0 * 1.305 / 2.25 + 2 * 26.0), rel=5e-4)
    assert car["load_front"] + car["load_rear"] == pytest.approx(790.0 * G, rel=1e-12)


def test_lift_unloads_both_axles_as_a_force_in_the_centre_of_gravity_does() -> None:
    free = {"drag_area": 0.0, "rolling_resistance": 0.0}
    plain, up = Car(40.0, **free).drive(0.1), Car(40.0, **free, lift_area=0.5).drive(0.1)
    lift = 0.5 * plain.p["air_density"] * 0.5 * 40.0**2
    front = 1.0 - plain.p["cg_to_front"] / plain.p["wheelbase"]
    assert plain["load_front"] - up["load_front"] == pytest.approx(lift * front, rel=1e-3)
    assert plain["load_rear"] - up["load_rear"] == pytest.approx(lift * (1.0 - front), rel=1e-3)
    flown = Car(100.0, **free, lift_area=5.0).drive(0.1)
    assert flown["load_front"] > 0.0 and flown["load_rear"] > 0.0


def test_braking_moves_load_m_ax_h_over_wheelbase() -> None:
    car = Car(30.0, drag_area=0.0)
    rest = car["load_front"]
    car.drive(1.5, brake_pressure_bar=25.0)
    p = car.p
    assert car["ax"] < -3.0
    assert car["load_front"] - rest == pytest.approx(-p["mass"] * car["ax"] * p["cg_height"] / p["wheelbase"], rel=1e-3)


def test_locked_wheels_stop_the_car_in_v2_over_2_mu_g() -> None:
    # without drag and load sensitivity the formula lacks only the build-up of force at the start, where the brakes also
    # take up the wheels' own energy, and the rocking at the end: 0.3 % of the distance, allowed 1 %
    car = Car(25.0, drag_area=0.0, friction_fall=0.0, friction=0.6)
    car.drive(1.0, brake_pressure_bar=60.0)
    assert car.get("wheel_speed_front") == 0.0 and car.get("wheel_speed_rear") == 0.0
    assert car["ax"] == pytest.approx(-0.6 * G, rel=1e-9)
    car.drive(6.0)
    assert car.fastest() < 1e-6
    assert car["x"] == pytest.approx(25.0**2 / (2 * 0.6 * G), rel=0.01)


def test_coast_down_follows_the_one_dimensional_law() -> None:
    # M v' = -B - A v^2, in closed form
    car = Car(30.0)
    p = car.p
    A, B, M = 0.5 * p["air_density"] * p["drag_area"], p["rolling_resistance"] * p["mass"] * G, rolling_mass(p)
    for seconds in (5.0, 15.0, 30.0):
        car.drive(seconds)
    law = math.sqrt(B / A) * math.tan(math.atan(30.0 * math.sqrt(A / B)) - math.sqrt(A * B) / M * 50.0)
    assert law > 5.0
    assert car["vx"] == pytest.approx(law, rel=2e-4)


def test_drive_torque_accelerates_mass_and_wheels() -> None:
    car = Car(10.0, drag_area=0.0, rolling_resistance=0.0)
    car.drive(1.0, drive_torque=200.0)
    assert abs(car["slip_rear"]) < 0.01
    # the wheels turn with the car but for slip, which changes by less than 1e-3 in this second
    expected = 200.0 / car.p["wheel_radius"] / rolling_mass(car.p)
    assert car["ax"] == pytest.approx(expected, rel=1e-3)
    assert car["vx"] - 10.0 == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("speed", [5.0, 15.0, 30.0])
def test_steady_cornering_has_the_understeer_of_its_axles(speed: float) -> None:
    car = Car(speed, drag_area=0.0, rolling_resistance=0.0)
    K, L = understeer(car.p), car.p["wheelbase"]
    assert K > 0.0
    # a lateral acceleration of about 0.2 m/s2, where the slip characteristic is straight within 1 %
    delta = (L / speed**2 + K / G) * 0.2
    ratio = car.p["steering_arm"] * 2.0 * math.pi / car.p["rack_travel_per_turn"]
    assert ratio == pytest.approx(16.0, rel=0.01)
    car.inputs[index(MACHINE.inputs, "steering_angle")] = delta * ratio
    car.cruise(8.0, speed)
    assert car["road_wheel_angle"] == pytest.approx(delta, rel=1e-12)
    assert car["ay"] == pytest.approx(car["yaw_rate"] * car["vx"], rel=1e-6)
    assert delta == pytest.approx(L * car["yaw_rate"] / car["vx"] + K * car["ay"] / G, rel=4e-3)
    assert (delta - L * car["yaw_rate"] / car["vx"]) * G / car["ay"] == pytest.approx(K, rel=0.015)
    assert car["yaw_rate"] / delta == pytest.approx(speed / (L + K * speed**2 / G), rel=5e-3)
    # slip angles carry the axles' share of the lateral force
    for axle in ("front", "rear"):
        load, stiffness = axle_cornering_stiffness(car.p, axle)
        assert car[f"slip_angle_{axle}"] == pytest.approx(-load / G * car["ay"] / stiffness, rel=0.015)


def test_steady_cornering_drives_a_circle() -> None:
    car = Car(10.0)
    car.inputs[index(MACHINE.inputs, "steering_angle")] = 2.0
    car.cruise(10.0, 10.0)
    speed = math.hypot(car["vx"], car["vy"])
    radius = speed / car["yaw_rate"]
    course = car["yaw"] + car["sideslip"]
    x0, y0 = car["x"] - radius * math.sin(course), car["y"] + radius * math.cos(course)
    for _ in range(20):
        car.cruise(0.5, 10.0)
        assert math.hypot(car["x"] - x0, car["y"] - y0) == pytest.approx(radius, rel=1e-4)
    assert car["yaw"] > 2.0 * math.pi  # not wrapped


def test_load_transfer_across_an_axle_costs_grip_wheel_by_wheel() -> None:
    # the locked car slides sideways, both axles at their limit
    car = Car(0.0, friction_fall=0.3)
    car.set("vy", 15.0)
    car.drive(0.8, brake_pressure_bar=60.0)
    p = car.p
    for axle, share in (("front", p["transfer_share_front"]), ("rear", 1.0 - p["transfer_share_front"])):
        moved = share * p["mass"] * abs(car["ay"]) * p["cg_height"] / p[f"track_{axle}"]
        wheels = (0.5 * car[f"load_{axle}"] + moved, 0.5 * car[f"load_{axle}"] - moved)
        limit = sum(p["friction"] * Z * (1.0 - p["friction_fall"] * (Z / p["tyre_load"] - 1.0)) for Z in wheels)
        assert moved > 500.0
        assert math.hypot(car[f"force_x_{axle}"], car[f"force_y_{axle}"]) == pytest.approx(limit, rel=2e-3)


def test_lateral_acceleration_is_limited_by_friction() -> None:
    # load transfer across the axles and the drive cost some of it
    car = Car(20.0)
    highest = 0.0
    for k in range(300):
        car.inputs[index(MACHINE.inputs, "steering_angle")] = 2.0 * k / 300
        car.cruise(0.04, 20.0)
        highest = max(highest, car["ay"])
    assert 0.9 * car.p["friction"] * G < highest < car.p["friction"] * G


# the tyre against its own law, in steady rolling and in a step


def roll_tyre(sx: float, sy: float, u: float, metres: float, N: float, cx: float, cy: float) -> tuple[float, float]:
    ex = ey = Fx = Fy = 0.0
    for _ in range(round(metres / u / SUBSTEP)):
        Fx, Fy, ex, ey = tyre(ex, ey, sx * u, sy * u, u, N, cx / 0.15, cy / 0.35, cx, cy, 0.04, 16.0, SUBSTEP)
    return Fx, Fy


@pytest.mark.parametrize("u", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("sx, sy", [(0.02, 0.0), (0.0, -0.05), (-0.03, 0.04), (0.05, 0.08), (-0.3, 0.1), (0.0, 0.5)])
def test_rolling_tyre_settles_on_its_characteristic(sx: float, sy: float, u: float) -> None:
    N, cx, cy = 3500.0, 80e3, 50e3
    s = math.hypot(cx * sx, cy * sy) / N
    Fx, Fy = roll_tyre(sx, sy, u, 6.0, N, cx, cy)
    if s < 2.0:
        grip = N * (s - s * s / 4.0) / s
        # in combined slip the implicit update takes one relaxation for both directions: within 1 % while the damper
        # of the standing tyre is at work
        assert Fx == pytest.approx(-grip * cx * sx / N, rel=1e-2 if sx * sy else 1e-6)
        assert Fy == pytest.approx(-grip * cy * sy / N, rel=1e-2 if sx * sy else 1e-6)
    else:
        assert math.hypot(Fx, Fy) == pytest.approx(N, rel=1e-12)
        assert Fx * sx <= 0.0 and Fy * sy < 0.0


@pytest.mark.parametrize("degrees", [0.0, 10.0, 30.0, 60.0, 90.0, 150.0])
@pytest.mark.parametrize("speed", [0.2, 10.0])
def test_locked_tyre_rubs_against_its_motion(degrees: float, speed: float) -> None:
    N, cx, cy = 3500.0, 80e3, 50e3
    sx, sy = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    ex = ey = Fx = Fy = 0.0
    for _ in range(4000):
        Fx, Fy, ex, ey = tyre(ex, ey, speed * sx, speed * sy, 0.0, N, cx / 0.15, cy / 0.35, cx, cy, 0.04, 16.0, SUBSTEP)
    assert Fx == pytest.approx(-N * sx, abs=2e-3 * N) and Fy == pytest.approx(-N * sy, abs=2e-3 * N)


def test_force_follows_slip_over_the_relaxation_length() -> None:
    # small slip: 1 - exp(-distance / length)
    N, cx, cy = 1e9, 80e3, 50e3
    _, Fy = roll_tyre(0.0, 0.01, 20.0, 0.35, N, cx, cy)
    assert Fy == pytest.approx(-cy * 0.01 * (1.0 - math.exp(-1.0)), rel=0.03)
    Fx, _ = roll_tyre(0.01, 0.0, 20.0, 0.15, N, cx, cy)
    assert Fx == pytest.approx(-cx * 0.01 * (1.0 - math.exp(-1.0)), rel=0.05)


# standing still


def test_parked_car_with_brake_stays() -> None:
    car = Car().drive(60.0, brake_pressure_bar=20.0)
    assert not car.state.any()


def test_parked_car_without_brake_stays() -> None:
    car = Car().drive(60.0)
    assert not car.state.any()


def test_brake_holds_the_car_against_the_drive() -> None:
    car = Car().drive(2.0, brake_pressure_bar=20.0, drive_torque=200.0)
    assert car.get("wheel_speed_rear") == 0.0
    assert abs(car["x"]) < 1e-3 and car.fastest() < 1e-9


def test_car_disturbed_at_standstill_comes_to_rest_where_it_is() -> None:
    car = Car().drive(0.0, brake_pressure_bar=20.0)
    car.set("vx", 0.05)
    car.set("vy", 0.05)
    car.set("yaw_rate", 0.05)
    car.drive(2.0)
    before = car.state.copy()
    car.drive(60.0)
    assert np.max(np.abs(car.state - before)[:3]) < 1e-6
    assert car.fastest() == 0.0


def test_steering_at_standstill_does_not_move_the_car() -> None:
    car = Car(8.0).drive(0.5, steering_angle=2.0).drive(5.0, brake_pressure_bar=30.0)
    before = car.state.copy()
    for angle in (9.0, -9.0, 0.0):
        car.drive(1.0, steering_angle=angle)
        assert np.max(np.abs(car.state - before)[:3]) < 2e-3


@pytest.mark.parametrize("h", [1e-4, 5e-3, 2e-2])
@pytest.mark.parametrize("bar, angle", [(10.0, 0.0), (40.0, 0.0), (60.0, 0.0), (30.0, 3.0), (60.0, 5.0)])
def test_braking_ends_at_standstill(h: float, bar: float, angle: float) -> None:
    car = Car(10.0).drive(0.2, h, steering_angle=angle).drive(0.0, brake_pressure_bar=bar)
    slowest = math.inf

    def watch() -> None:
        nonlocal slowest
        slowest = min(slowest, car.get("wheel_speed_front"), car.get("wheel_speed_rear"))

    # standstill begins when the wheels have stopped and the car is within its rocking on the tyres
    while car.fastest() > 0.3 or car.get("wheel_speed_front") or car.get("wheel_speed_rear"):
        car.drive(0.02, h, watch)
    assert slowest == 0.0
    car.drive(1.0, h)
    assert car.fastest() < 1e-3
    before = car.state.copy()
    car.drive(60.0, max(h, 5e-3))
    assert np.max(np.abs(car.state - before)[:3]) < 1e-3
    assert car.fastest() == 0.0


def test_rolling_backwards_slows_down_and_stops() -> None:
    car = Car(-8.0)
    fastest = 8.0
    for _ in range(150):
        car.drive(1.0, steering_angle=1.0)
        speed = math.hypot(car["vx"], car["vy"])
        assert speed <= fastest
        fastest = speed
    assert fastest == 0.0


# energy, friction, finiteness


@pytest.mark.parametrize("seed", range(8))
def test_energy_only_falls_without_drive(seed: int) -> None:
    rng = np.random.default_rng(seed)
    car = Car(rng.uniform(0.0, 40.0))
    car.set("yaw_rate", rng.uniform(-1.0, 1.0))
    before = car.energy()
    for _ in range(60):
        angle, bar = rng.uniform(-10.0, 10.0), max(rng.uniform(-30.0, 60.0), 0.0)
        for _ in range(10):
            after = car.drive(5e-3, steering_angle=angle, brake_pressure_bar=bar).energy()
            # the substep exchanges energy between tyre and wheel to first order only: some mJ, of up to 600 kJ
            assert after <= before + 0.02
            before = after


commands = st.lists(
    st.tuples(
        st.floats(-10.0, 10.0),  # steering
        st.floats(-0.1, 1.2),  # throttle
        st.one_of(st.just(0.0), st.floats(0.0, 60.0)),  # brake
        st.floats(-3000.0, 3000.0),  # torque
        st.sampled_from([1e-4, 3e-4, 1e-3, 3.3e-3, 5e-3, 2e-2]),  # h
    ),
    min_size=1,
    max_size=15,
)
vehicles = st.fixed_dictionaries({}, optional={p.name: st.floats(p.low, p.high) for p in MACHINE.parameters})


@settings(max_examples=few(150), deadline=None, derandomize=True)
@given(speed=st.floats(-40.0, 40.0), parameters=vehicles, sequence=commands)
def test_friction_limit_holds_and_everything_stays_finite(
    speed: float, parameters: dict[str, float], sequence: list[tuple[float, float, float, float, float]]
) -> None:
    car = Car(speed, **parameters)
    p = car.p

    def watch() -> None:
        assert np.isfinite(car.state).all() and np.isfinite(car.work).all()
        assert abs(car["vx"]) < 500.0 and abs(car["yaw_rate"]) < 50.0
        for axle in ("front", "rear"):
            load = car[f"load_{axle}"]
            # load transfer across the axle only lowers the limit, down to a tenth at most
            factor = max(1.0 - p["friction_fall"] * (0.5 * load / p["tyre_load"] - 1.0), 0.1)
            force = math.hypot(car[f"force_x_{axle}"], car[f"force_y_{axle}"])
            assert load > 0.0 and force <= p["friction"] * factor * load * (1.0 + 1e-12)

    for angle, throttle, bar, torque, h in sequence:
        car.drive(
            20 * h, h, watch, steering_angle=angle, throttle=throttle, brake_pressure_bar=bar, drive_torque=torque
        )


# numerics


def slalom(car: Car, side: float = 1.0, h: float = 5e-3, hold: float = 5e-3) -> Car:
    """Slalom with throttle and brakes, inputs held for `hold`."""
    for k in range(round(2.0 / hold)):
        t = k * hold
        wheel = side * 1.2 * math.sin(4.0 * t)
        car.drive(hold, h, steering_angle=wheel, drive_torque=300.0, brake_pressure_bar=30.0 * max(0.0, t - 1.5))
    return car


def test_left_is_the_mirror_image_of_right_to_the_bit() -> None:
    left, right = slalom(Car(18.0), 1.0), slalom(Car(18.0), -1.0)
    sign = np.array([-1.0 if s.name in MIRRORED else 1.0 for s in MACHINE.states])
    assert abs(left["y"]) > 0.1
    assert np.array_equal(left.state, sign * right.state)


def test_same_arguments_give_the_same_bits() -> None:
    one, two = slalom(Car(18.0)), slalom(Car(18.0))
    assert one.state.tobytes() == two.state.tobytes() and one.work.tobytes() == two.work.tobytes()


@pytest.mark.parametrize("h", [5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2])
def test_division_of_time_does_not_matter_down_to_the_substep(h: float) -> None:
    whole, parts = slalom(Car(18.0), h=2e-2, hold=2e-2), slalom(Car(18.0), h=h, hold=2e-2)
    assert whole.state.tobytes() == parts.state.tobytes() and whole.work.tobytes() == parts.work.tobytes()


def test_error_is_of_first_order_in_the_substep() -> None:
    ends = [slalom(Car(18.0), h=h, hold=4e-3).state for h in (SUBSTEP, SUBSTEP / 2, SUBSTEP / 4, SUBSTEP / 8)]
    steps = [float(np.linalg.norm((a - b)[:6])) for a, b in pairwise(ends)]
    assert steps[0] < 5e-3
    for coarse, fine in pairwise(steps):
        assert 1.7 < coarse / fine < 2.3
