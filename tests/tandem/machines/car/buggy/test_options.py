"""What a vehicle file may leave out: lift, pitch moment, differentials, neutral and reverse, lag, stops, estimates."""

from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.registry import gather
from tandem.machines.car.buggy import build, slots
from tandem.machines.car.buggy.analysis.corner import spring_length
from tandem.machines.car.buggy.analysis.suspension import at_travel
from tandem.machines.car.buggy.description import P
from tandem.machines.car.vehicle import VEHICLE_INPUTS
from tandem.multibody.natural.tables import P as Part
from tests.tandem.machines.car.buggy.conftest import Car
from verify.physics.kerbs import VEHICLE, Coasting
from verify.physics.tyres import rolling

FLAT = VEHICLE.parents[1] / "roads" / "flat.toml"
DENSITY = 1.2


def test_lift_lightens_and_a_pitch_moment_moves_load_forward() -> None:
    loads = []
    for changed in ({}, {"lift_area": 0.5}, {"air_pitch_volume": 0.4}):
        car = Coasting(FLAT, 30.0, changed={"gear_mode": 0.0, **changed})
        qd = car.state[car.system.span(Part.QD)]
        qd[[car.system.column(f"{w}.spin") for w in ("fl", "fr", "rl", "rr")]] = 30.0 / 0.285
        for _ in range(300):
            car.step(5e-3)
        loads.append((car.loads(), 0.5 * DENSITY * car["vx"] ** 2))
    (plain, _), (lifted, q), (pitched, q2) = loads
    assert plain.sum() - lifted.sum() == pytest.approx(0.5 * q, rel=0.03)
    assert pitched.sum() == pytest.approx(plain.sum(), rel=1e-3)
    assert pitched[:2].sum() - plain[:2].sum() == pytest.approx(0.4 * q2 / 2.25, rel=0.1)


def wheel_torques(car: Coasting, steps: int) -> np.ndarray:
    """Of the driveline on both rear wheels, by Newton's law of each: inertia, and the tyre's force at its radius."""
    before = np.array([car["wheel_speed_rl"], car["wheel_speed_rr"]])
    forces_before = force_moments(car)
    for _ in range(steps):
        car.step(1e-3)
    now = np.array([car["wheel_speed_rl"], car["wheel_speed_rr"]])
    return 0.6 * (now - before) / (1e-3 * steps) + 0.5 * (forces_before + force_moments(car))


def force_moments(car: Coasting) -> np.ndarray:
    return np.array([car[f"force_x_{w}"] * car[f"rolling_radius_{w}"] for w in ("rl", "rr")])


@pytest.fixture(scope="module")
def ice(tmp_path_factory: pytest.TempPathFactory) -> Coasting:
    """Ice under the left wheels; no rolling resistance, no drag of brakes: only the driveline turns the wheels."""
    road: Path = tmp_path_factory.mktemp("road") / "ice.toml"
    road.write_text("[[patches]]\nfactor = 0.1\nright = 0.0\n")
    none = dict.fromkeys(("QSY1", "QSY2", "QSY3", "QSY4"), 0.0)
    return Coasting(road, 0.0, changed={"gear_mode": 0.0, "brake_drag": 0.0}, tyre=none)


def on_ice(car: Coasting, speed: float, torque: float, **changed: float) -> Coasting:
    car.again(speed)
    for name, value in changed.items():
        car.params[P[name]] = value
    spins = [car.system.column(f"{w}.spin") for w in ("fl", "fr", "rl", "rr")]
    car.state[car.system.span(Part.QD)][spins] = speed / 0.285
    car.inputs[index(VEHICLE_INPUTS, "drive_torque")] = torque
    for _ in range(300):
        car.step(1e-3)
    return car


@pytest.mark.parametrize(
    ("speed", "torque", "changed", "difference"),
    [
        (0.0, 400.0, {}, 0.0),
        (0.0, 400.0, {"differential_bias": 0.4}, 0.4 * 400.0),
        (0.0, 400.0, {"differential_preload": 30.0}, 2.0 * 30.0),
        (0.0, 400.0, {"differential_preload": 20.0, "differential_bias": 0.3}, 2.0 * 20.0 + 0.3 * 400.0),
        (0.0, 400.0, {"differential_bias_coast": 0.4}, 0.0),
        (15.0, -400.0, {"differential_bias_coast": 0.4}, -0.4 * 400.0),
        (15.0, -400.0, {"differential_bias": 0.4}, 0.0),
    ],
)  # fmt: skip
def test_a_differential_gives_the_wheel_with_grip_what_it_can_hold_back(
    ice: Coasting, speed: float, torque: float, changed: dict[str, float], difference: float
) -> None:
    """One wheel spins (or locks) on ice: T_right - T_left = 2 preload + S |T|, T_right + T_left = T."""
    car = on_ice(ice, speed, torque, **changed)
    left, right = wheel_torques(car, 20)
    assert abs(car["wheel_speed_rl"] - car["wheel_speed_rr"]) > 5.0
    assert left + right == pytest.approx(torque, abs=2.0)
    assert right - left == pytest.approx(difference, abs=4.0)


def test_a_locked_differential_turns_both_rear_wheels_alike(ice: Coasting) -> None:
    car = on_ice(ice, 0.0, 400.0, differential_lock=1e5)
    assert abs(car["wheel_speed_rl"] - car["wheel_speed_rr"]) < 5e-3
    left, right = wheel_torques(car, 20)
    assert left + right == pytest.approx(400.0, abs=2.0) and right > 5.0 * left
    spread = []
    for lock in (0.0, 1e5):
        turning = Car({"gear_mode": 0.0, "differential_lock": lock})
        turning.drive(4.0, drive_torque=500.0, steering_angle=4.0)
        spread.append(abs(turning["wheel_speed_rl"] - turning["wheel_speed_rr"]))
    assert spread[0] > 1.0 and spread[1] < 5e-3


def test_plates_that_hold_creep_no_more_than_agreed(ice: Coasting) -> None:
    """As much preload as the wheel with grip can take: both turn alike, but for the creeping of plates."""
    car = on_ice(ice, 0.0, 300.0, differential_preload=400.0)
    assert abs(car["wheel_speed_rl"] - car["wheel_speed_rr"]) < 0.05


@pytest.mark.parametrize(("where", "at_wheel"), [(1.0, False), (2.0, True)])
def test_stops_may_be_stated_at_spring_or_wheel(where: float, at_wheel: bool) -> None:
    """At the spring: stop_travel of its length; at the wheel: the rate is that of the wheel, by virtual work."""
    sources = gather(VEHICLE)
    built = build.assemble(sources.toml(), sources, {"stops_at": where, "stop_travel": 0.04})
    numbers = built.system.reals[built.tables.ints[slots.NUMBERS] :]
    p = {q.name: float(v) for q, v in zip(build.PARAMETERS, built.params, strict=True)}
    points = [build._points(p, axle, names) for axle, names in (("front", build.FRONT), ("rear", build.REAR))]
    for k, of in enumerate(build.suspensions(p, *points)):
        drawn = spring_length(at_travel(of, 0.0))
        for n, travel in enumerate((0.04, -0.04)):
            begins, share = numbers[slots.STOPS + 2 * k + n], numbers[slots.STOP_SHARES + 2 * k + n]
            if at_wheel:
                ratio = (
                    spring_length(at_travel(of, travel + 1e-5)) - spring_length(at_travel(of, travel - 1e-5))
                ) / 2e-5
                assert begins == pytest.approx(spring_length(at_travel(of, travel)), abs=2e-9)
                assert share == pytest.approx(1.0 / ratio**2, rel=1e-6)
                assert share != 1.0
            else:
                assert begins == pytest.approx(drawn - travel, abs=2e-9) and share == 1.0


def test_reverse_drives_backwards_and_neutral_not_at_all() -> None:
    car = Car({"gear_mode": 2.0, "gear_held": -1.0})
    car.drive(3.0, throttle=0.3)
    assert car["vx"] < -1.0 and car["gear"] == -1.0
    car = Car({"gear_mode": 2.0, "gear_held": 0.0})
    car.drive(3.0, throttle=0.5)
    assert abs(car["vx"]) < 1e-2 and car["axle_torque"] == 0.0


def test_reverse_pulls_as_first_gear_does_the_other_way() -> None:
    """Held by its brakes the converter stalls alike: torques are as the ratios, and of opposite sign."""
    torques = []
    for gear, reverse in ((1.0, 2.475), (-1.0, 2.475), (-1.0, 3.3)):
        car = Car({"gear_mode": 2.0, "gear_held": gear, "gear_reverse": reverse})
        car.drive(2.0, throttle=0.3, brake_pressure_bar=100.0)
        torques.append(car["axle_torque"])
    assert torques[0] > 200.0
    assert torques[1] == pytest.approx(-torques[0], rel=1e-3)
    assert torques[2] == pytest.approx(-torques[0] * 3.3 / 2.475, rel=1e-3)


def test_gears_may_be_chosen_while_driving() -> None:
    """Live: from first to neutral, in which the car rolls, to reverse, in which it goes back."""
    car = Car({"gear_mode": 2.0, "gear_held": 1.0})
    car.drive(2.0, throttle=0.3)
    car.params[P.gear_held] = 0.0
    rolling_on = car.drive(1.0, ("vx", "axle_torque", "gear"), throttle=0.3)
    assert (rolling_on[70:, 1] == 0.0).all() and rolling_on[-1, 2] == 0.0 and rolling_on[-1, 0] > 1.0
    car.drive(4.0, throttle=0.0, brake_pressure_bar=40.0)
    car.params[P.gear_held] = -1.0
    car.drive(3.0, throttle=0.3, brake_pressure_bar=0.0)
    assert car["vx"] < -1.0 and car["gear"] == -1.0


def test_brake_pressure_arrives_with_its_lag() -> None:
    car = Car({"gear_mode": 0.0, "brake_lag": 0.1})
    car.drive(3.0, drive_torque=900.0)
    torque = -car.drive(0.5, ("brake_torque_fl",), drive_torque=0.0, brake_pressure_bar=20.0)[:, 0]
    bar = 20.0 * (1.0 - np.exp(-5e-3 * np.arange(1, 101) / 0.1))
    assert torque[:60] == pytest.approx(11.0 * bar[:60] + 1.0, rel=1e-6)


LIVE = {
    **{"lift_area": 1.0, "air_pitch_volume": 1.0, "differential_lock": 50.0, "differential_preload": 50.0},
    **{"differential_bias": 0.3, "differential_bias_coast": 0.3, "brake_lag": 0.1, "turn_slip": 1.0},
    **{"step_halving": 1.0, "estimate_every": 2.0, "column_stiffness": 120.0, "steering_mode": 1.0},
}
UNUSED = {"column_friction": 2.0, "column_damping": 0.5, "steering_assist": 3.0, "push_rack": 100.0}
UNUSED |= {"hand_torque": 5.0, "steered_mass": 90.0}  # where the rack follows the angle and nothing gives way


@pytest.fixture(scope="module")
def plainly() -> np.ndarray:
    car = Car()
    car.drive(0.4, throttle=0.5, steering_angle=0.5, brake_pressure_bar=2.0)
    return car.state.copy()


@pytest.mark.parametrize("name", LIVE)
def test_an_option_that_is_switched_off_leaves_nothing_behind(name: str, plainly: np.ndarray) -> None:
    """A step with it differs from one without; gone back and off again, the drive is the same to the bit."""
    car = Car()
    start = car.state.copy(), car.work.copy(), car.inputs.copy()
    off = car.params[P[name]]
    assert off == 0.0
    car.params[P[name]] = LIVE[name]
    car.drive(0.4, throttle=0.5, steering_angle=0.5, brake_pressure_bar=2.0)
    assert not np.array_equal(car.state, plainly)
    car.state[:], _, car.inputs[:] = start
    car.params[P[name]] = off
    car.drive(0.4, throttle=0.5, steering_angle=0.5, brake_pressure_bar=2.0)
    assert np.array_equal(car.state, plainly)


def test_what_belongs_to_a_free_rack_does_nothing_to_one_that_follows_the_angle(plainly: np.ndarray) -> None:
    car = Car()
    for name, value in UNUSED.items():
        car.params[P[name]] = value
    car.drive(0.4, throttle=0.5, steering_angle=0.5, brake_pressure_bar=2.0)
    assert np.array_equal(car.state, plainly)


# errors of the steps


def swerve(car: Coasting, h: float, seconds: float = 0.8) -> tuple[np.ndarray, list[float]]:
    """A smooth swerve; where the car is then, and the errors its steps estimate."""
    errors = []
    for k in range(1, round(seconds / h) + 1):
        w, t = 4.4, k * h
        s, c = np.sin(w * t), np.cos(w * t)
        angle = 0.8 * np.array([s**3, 3 * w * s * s * c, 3 * w * w * (2 * s * c * c - s**3)])
        car.inputs[:3] = angle
        car.inputs[index(VEHICLE_INPUTS, "drive_torque")] = 100.0 + 200.0 * s * s
        car.step(h)
        errors.append(car["step_error"])
    return np.array([car[name] for name in ("x", "y", "yaw", "roll", "vy", "yaw_rate")]), errors


@pytest.fixture(scope="module")
def driving() -> Coasting:
    car = rolling(20.0)
    car.inputs[index(VEHICLE_INPUTS, "drive_torque")] = 100.0
    for _ in range(300):
        car.step(5e-3)
    car.start = car.params.copy(), car.state.copy(), car.work.copy(), car.inputs.copy()
    return car


def restart(car: Coasting, **changed: float) -> Coasting:
    car.params[:], car.state[:], car.work[:], car.inputs[:] = car.start
    for name, value in changed.items():
        car.params[P[name]] = value
    return car


def test_halved_steps_are_far_nearer_to_the_truth(driving: Coasting) -> None:
    assert VEHICLE_INPUTS[0].name == "steering_angle"
    truth, _ = swerve(restart(driving, step_halving=1.0), 5e-4)
    plain, _ = swerve(restart(driving), 5e-3)
    halved, _ = swerve(restart(driving, step_halving=1.0), 5e-3)
    finer, _ = swerve(restart(driving, step_halving=1.0), 2.5e-3)
    assert (np.abs(halved - truth) < 0.3 * np.abs(plain - truth)).all()
    assert np.abs(finer - truth).max() < 0.3 * np.abs(halved - truth).max()  # order 2 to 3


def test_halved_steps_follow_a_hand_wheel_whose_rates_come_late(driving: Coasting) -> None:
    """As an estimator gives them: half way the rack is where it was, not where late rates would have it."""
    w, size, period = 2.0 * np.pi * 8.0, 0.02, 25

    def swing(h: float, **changed: float) -> np.ndarray:
        car, every = restart(driving, **changed), round(5e-3 / h)
        torque = []
        for k in range(2 * period * every):
            angle = w * h * (k + 1)
            late = size * np.sin(angle), size * w * np.cos(angle - 0.3), -size * w * w * np.sin(angle - 0.7)
            car.inputs[:3] = late
            car.step(h)
            torque.append(car["steering_torque"])
        return np.array(torque)[every - 1 :: every][period:]

    truth = swing(1e-3)
    plain, halved = (np.abs(swing(5e-3, step_halving=each) - truth).max() / np.ptp(truth) for each in (0.0, 1.0))
    assert halved < 0.3 * plain, (halved, plain)


def test_halved_steps_know_how_long_a_pedal_holds(driving: Coasting) -> None:
    """A pedal that moves in steps of 5 ms, with engine and converter: nearer to the same pedal in steps of 0.5 ms."""

    def accelerate(h: float, **changed: float) -> np.ndarray:
        car = restart(driving, gear_mode=2.0, gear_held=2.0, **changed)
        rows = []
        for k in range(200):
            car.inputs[index(VEHICLE_INPUTS, "throttle")] = 0.5 - 0.5 * np.cos(8.0 * 5e-3 * (k + 1))
            for _ in range(round(5e-3 / h)):
                car.step(h)
            rows.append([car["x"], car["vx"], car["engine_speed"]])
        return np.array(rows)

    truth = accelerate(5e-4, step_halving=1.0)
    plain, halved = accelerate(5e-3), accelerate(5e-3, step_halving=1.0)
    plain, halved = (np.abs(found - truth)[100:].max(axis=0) for found in (plain, halved))
    assert (halved < 0.5 * plain).all()  # a gear is engaged meanwhile, which is no smooth motion


def test_the_estimate_alone_leaves_the_drive_as_it_is(driving: Coasting) -> None:
    plain, _ = swerve(restart(driving), 5e-3)
    state = driving.state.copy()
    estimated, errors = swerve(restart(driving, estimate_every=10.0), 5e-3)
    assert (plain == estimated).all()
    core = driving.system.state_size
    assert (state[:core] == driving.state[:core]).all()
    assert len(set(errors)) == 17  # 160 steps, a new estimate each tenth, none at first


def test_the_estimate_is_the_error_of_a_step(driving: Coasting) -> None:
    """Against the same step made in 32 parts, halved and extrapolated."""
    q = driving.system.span(Part.Q)
    restart(driving, estimate_every=1.0)
    swerve(driving, 5e-3, 0.3)
    at = driving.state.copy()
    driving.step(5e-3)
    estimate, whole = driving["step_error"], driving.state[q].copy()
    driving.state[:] = at
    driving.params[P.step_halving] = 1.0
    value, rate, second = driving.inputs[:3].copy()
    for k in range(32):  # as the rack goes within the step
        back = (31 - k) / 32.0 * 5e-3
        driving.inputs[:3] = value - back * rate + 0.5 * back**2 * second, rate - back * second, second
        driving.step(5e-3 / 32.0)
    true = np.abs(whole - driving.state[q]).max()
    assert estimate == pytest.approx(true, rel=0.25)


def cornering(changed: dict[str, float], live: dict[str, float]) -> Coasting:
    """At 20 m/s, the hand wheel turned by 0.4 rad; `live` is set while it turns."""
    car = Coasting(FLAT, 20.0, changed={"gear_mode": 0.0, **changed})
    qd = car.state[car.system.span(Part.QD)]
    qd[[car.system.column(f"{w}.spin") for w in ("fl", "fr", "rl", "rr")]] = 20.0 / 0.285
    car.inputs[:] = np.nan
    for k in range(300):
        car.inputs[:5] = 0.4 * min(k / 100.0, 1.0), 0.0, 0.0, 0.0, 0.0
        if k == 150:
            for name, value in live.items():
                car.params[P[name]] = value
        car.step(5e-3)
    return car


@pytest.mark.drill
def test_trail_toe_and_roll_centre_change_while_it_turns_as_if_it_had_been_built_so() -> None:
    plain = cornering({}, {})
    # a centimetre more trail: trail difference x lateral force / steering ratio
    trail = cornering({}, {"caster_trail": 0.01})
    ratio = 0.4 / (0.5 * (plain["steer_fl"] + plain["steer_fr"]))
    expected = 0.01 * (trail["force_y_fl"] + trail["force_y_fr"]) / ratio
    assert trail["steering_torque"] - plain["steering_torque"] == pytest.approx(expected, rel=0.05)
    # toe: the same car as one that was built with it
    built, set_ = (
        cornering({"front_toe": 0.01, "rear_toe": 0.005}, {}),
        cornering({}, {"front_toe_in": 0.01, "rear_toe_in": 0.005}),
    )
    for name in ("steering_torque", "yaw_rate", "force_y_fl", "force_y_fr", "force_y_rl", "force_y_rr"):
        assert abs(set_[name] - built[name]) < 0.05 * abs(built[name] - plain[name]), name
    # the roll centre: less roll, by its share of the arm between it and the centre of gravity
    raised = cornering({}, {"front_roll_centre": 0.1, "rear_roll_centre": 0.1})
    assert 0.6 < raised["roll"] / plain["roll"] < 0.9
    assert raised["load_fr"] + raised["load_rr"] == pytest.approx(plain["load_fr"] + plain["load_rr"], rel=0.02)
    assert all(car["capped"] == 0.0 for car in (plain, trail, set_, raised))
