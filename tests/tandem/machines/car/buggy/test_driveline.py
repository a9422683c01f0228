"""Engine, converter and gearbox: alone, and driving a point of mass along a road of any grade."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.compile.array_copy import copy
from sync.compile.jit import kernel
from tandem.machines.car.buggy.driveline import FREE, RPM, converter, driveline, engine, gears, shift, start
from tandem.machines.car.buggy.driveline_parameters import MEMORY, PARAMETERS, STATES, M, P, S
from tests.examples import few

MASS, RADIUS, DRAG, ROLLING, G = 790.0, 0.275, 0.57, 0.013, 9.81
INERTIA = MASS * RADIUS**2 + 4 * 0.6  # of the rolling car, referred to the axle
H = 5e-3


def parameters(**changed: float) -> np.ndarray:
    values = {p.name: p.value for p in PARAMETERS} | changed
    return np.array([values[p.name] for p in PARAMETERS])


@kernel()
def resistance(w, grade):
    """Torque at the axle against forward motion, and its derivative."""
    v = RADIUS * w
    roll = ROLLING * MASS * G * RADIUS
    turn = 0.1 + abs(w)
    T = MASS * G * grade * RADIUS + DRAG * v * abs(v) * RADIUS + roll * w / turn
    return T, 2.0 * DRAG * abs(v) * RADIUS * RADIUS + roll * 0.1 / (turn * turn)


@kernel()
def advance(par, memory, states, after, motion, throttle, brake, grade, h):
    """One step of the car on its wheels, as the mechanism does it; motion is axle speed and acceleration."""
    ratio = shift(par, memory, throttle, motion[0], h)
    w = motion[0]
    torque = 0.0
    for _ in range(20):
        torque, slope = driveline(par, throttle, 0.0, ratio, states, after, 0, h, w)
        against, against_x = resistance(w, grade)
        stop = 1.0 + abs(w)  # a brake soft enough for any step
        net = torque - against - brake * w / stop
        residual = INERTIA * (w - motion[0] - 0.5 * h * motion[1]) - 0.5 * h * net
        change = residual / (INERTIA + 0.5 * h * (slope + against_x + brake / (stop * stop)))
        w -= change
        if abs(change) < 1e-12:
            break
    torque, slope = driveline(par, throttle, 0.0, ratio, states, after, 0, h, w)
    motion[1] = 2.0 * (w - motion[0]) / h - motion[1]
    motion[0] = w
    copy(states, after)
    return torque


@kernel()
def journey(par, memory, states, after, motion, throttle, brake, grade, h, steps, record):
    """record: a row per step of axle speed, torque, engine speed, gear, ratio."""
    for i in range(steps):
        torque = advance(par, memory, states, after, motion, throttle, brake, grade, h)
        record[i, 0] = motion[0]
        record[i, 1] = torque
        record[i, 2] = states[S.engine_speed]
        record[i, 3] = memory[M.gear]
        record[i, 4] = memory[M.ratio]


class Car:
    """A car on its wheels; `drive` returns the record of a stretch."""

    def __init__(self, speed: float = 0.0, **changed: float) -> None:
        self.par = parameters(**changed)
        self.memory, (self.states, self.after) = np.zeros(len(MEMORY)), np.zeros((2, len(STATES)))
        self.motion = np.array([speed / RADIUS, 0.0])
        start(self.par, self.states, 0, self.memory, self.motion[0])

    def drive(
        self, seconds: float, throttle: float, brake: float = 0.0, grade: float = 0.0, h: float = H
    ) -> np.ndarray:
        record = np.empty((round(seconds / h), 5))
        torque, _ = driveline(
            self.par, throttle, 0.0, self.memory[M.ratio], self.states, np.zeros(2), 0, 0.0, self.motion[0]
        )
        against, _ = resistance(self.motion[0], grade)
        self.motion[1] = (torque - against - brake * self.motion[0] / (1.0 + abs(self.motion[0]))) / INERTIA
        journey(
            self.par, self.memory, self.states, self.after, self.motion, throttle, brake, grade, h, len(record), record
        )
        return record


def shifts(record: np.ndarray) -> list[int]:
    """The gears engaged one after the other."""
    gear = record[:, 3].astype(int)
    return [int(gear[0]), *(int(g) for g in gear[1:][np.diff(gear) != 0])]


def settle(throttle: float, rpm: float, turbine: float = 0.0, seconds: float = 3.0) -> float:
    """Engine speed (rpm) it comes to against a turbine at a fixed speed."""
    par, states, after = parameters(gear_mode=2.0, gear_held=3.0), np.array([rpm / RPM, turbine]), np.zeros(2)
    for _ in range(round(seconds / H)):
        driveline(par, throttle, 0.0, 1.0, states, after, 0, H, turbine)
        states[:] = after
    return float(states[S.engine_speed] * RPM)


PAR = parameters()
PEDAL = st.floats(0.0, 1.0)


@pytest.mark.parametrize("rpm, torque", [(1000.0, 96.0), (3000.0, 137.0), (6000.0, 0.0)])
def test_full_throttle_is_the_curve_of_the_source(rpm: float, torque: float) -> None:
    assert engine(PAR, 1.0, rpm / RPM)[0] == pytest.approx(torque, abs=0.5)


def test_released_pedal_is_the_line_of_the_source_above_idle() -> None:
    for rpm in (900.0, 2000.0, 5000.0):
        assert engine(PAR, 0.0, rpm / RPM)[0] == pytest.approx(-0.015 * rpm)


@given(PEDAL, st.floats(6100.0, 1e5))
def test_limiter_leaves_no_pedal(throttle: float, rpm: float) -> None:
    assert engine(PAR, throttle, rpm / RPM)[0] == pytest.approx(-0.015 * rpm)


def test_an_unloaded_engine_stays_below_the_limiter() -> None:
    assert settle(1.0, 850.0, turbine=5990.0 / RPM, seconds=5.0) < 6000.0


@settings(max_examples=few(100), deadline=None)
@given(PEDAL, st.floats(0.0, 700.0))
def test_engine_slope_is_that_of_its_torque(throttle: float, speed: float) -> None:
    e = 1e-4
    slope = (engine(PAR, throttle, speed + e)[0] - engine(PAR, throttle, speed - e)[0]) / (2.0 * e)
    assert engine(PAR, throttle, speed)[1] == pytest.approx(slope, abs=2e-3)


@pytest.mark.parametrize("rpm", [0.0, 400.0, 3000.0])
def test_idle_in_gear(rpm: float) -> None:
    assert settle(0.0, rpm) == pytest.approx(850.0, abs=2.0)  # held by the brake
    assert settle(0.0, rpm, turbine=850.0 / RPM) == pytest.approx(850.0, abs=25.0)  # next to no load


def test_stall() -> None:
    rpm = settle(1.0, 850.0)
    assert 1900.0 < rpm < 2300.0
    pump, turbine, *_ = converter(PAR, rpm / RPM, 0.0)
    assert turbine == pytest.approx(2.0 * pump)
    assert pump == pytest.approx(engine(PAR, 1.0, rpm / RPM)[0], rel=1e-9)


CONVERTERS = st.builds(
    parameters,
    converter_capacity=st.floats(1e-3, 1e-2),
    converter_stall_ratio=st.floats(1.5, 2.5),
    converter_coupling=st.floats(0.75, 0.92),
    gear_efficiency=st.floats(0.8, 1.0),
)


@settings(max_examples=few(300), deadline=None)
@given(CONVERTERS, st.floats(0.0, 700.0), st.floats(-700.0, 700.0))
def test_converter_and_gears_only_lose_power(par: np.ndarray, p: float, t: float) -> None:
    pump, turbine, *_ = converter(par, p, t)
    assert turbine * t <= pump * p + 1e-9
    out, _ = gears(par, turbine, 0.0, t)
    assert out * t <= turbine * t + 1e-9


@settings(max_examples=few(300), deadline=None)
@given(CONVERTERS, st.floats(1.0, 700.0), st.floats(-2.0, 3.0) | st.sampled_from([0.0, 1.0]) | st.floats(0.999, 1.001))
def test_converter_is_smooth_and_monotone(par: np.ndarray, p: float, nu: float) -> None:
    t, e = nu * p, 1e-5 * p
    _, _, *slopes = converter(par, p, t)
    right, left = np.array(converter(par, p + e, t)), np.array(converter(par, p - e, t))
    up, down = np.array(converter(par, p, t + e)), np.array(converter(par, p, t - e))
    for i in range(2):
        assert (right - left)[i] / (2.0 * e) == pytest.approx(slopes[2 * i], abs=2e-3 * par[P.converter_capacity] * p)
        assert (up - down)[i] / (2.0 * e) == pytest.approx(slopes[2 * i + 1], abs=2e-3 * par[P.converter_capacity] * p)
    assert min(slopes[0], slopes[2]) >= 0.0 >= max(slopes[1], slopes[3])


ANY = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=few(300), deadline=None)
@given(ANY, ANY, ANY, ANY, st.floats(0.0, 20.0), st.sampled_from([0.0, 1e-4, 5e-3, 0.1, 10.0]))
def test_any_numbers_are_answered(
    throttle: float, engine_speed: float, turbine_speed: float, axle_speed: float, ratio: float, h: float
) -> None:
    states, after = np.array([0.0, engine_speed, turbine_speed]), np.full(3, np.nan)
    torque, slope = driveline(PAR, throttle, 0.0, ratio, states, after, 1, h, axle_speed)
    assert np.isfinite([torque, slope]).all() and np.isfinite(after[1:]).all()
    assert slope >= 0.0 and after[1] >= 0.0
    assert list(states[1:]) == [engine_speed, turbine_speed]


@settings(max_examples=few(300), deadline=None)
@given(PEDAL, st.floats(20.0, 650.0), st.floats(-100.0, 650.0), st.floats(-0.1, 0.1), st.sampled_from([0.0, 1e-3, H]))
def test_slope_is_that_of_the_torque(throttle: float, p: float, t: float, change: float, h: float) -> None:
    ratio, e = 5.4, 1e-5
    states, after = np.array([p, t]), np.zeros(2)
    w = t / ratio * (1.0 + change)
    _, slope = driveline(PAR, throttle, 0.0, ratio, states, after, 0, h, w)
    high, _ = driveline(PAR, throttle, 0.0, ratio, states, after, 0, h, w + e)
    low, _ = driveline(PAR, throttle, 0.0, ratio, states, after, 0, h, w - e)
    assert slope == pytest.approx((low - high) / (2.0 * e), rel=1e-3, abs=1e-2)


@pytest.mark.drill
def test_second_order_in_the_step() -> None:
    """From rest through stall to coupling, and with engine braking."""
    ends = []
    for h in (4e-3, 2e-3, 1e-3, 5e-4):
        car = Car(gear_mode=2.0, gear_held=1.0)
        car.drive(2.0, 0.7, h=h)
        ends.append((car.states[S.engine_speed], car.motion[0]))
        car.drive(1.0, 0.0, h=h)
        ends[-1] = np.array([*ends[-1], car.states[S.engine_speed], car.motion[0]])
    first, second, third = (ends[i] - ends[i + 1] for i in range(3))
    assert first / second == pytest.approx(np.full(4, 4.0), rel=0.25)
    assert second / third == pytest.approx(np.full(4, 4.0), rel=0.15)


@pytest.mark.parametrize("throttle", [0.0, 0.6])
def test_energy_is_accounted_for(throttle: float) -> None:
    """Work of the engine = kinetic energy of engine and car + losses of converter and gears + work against the road."""
    h, car = 2.5e-4, Car(8.0, gear_mode=2.0, gear_held=2.0)
    par, ratio, J = car.par, car.memory[M.ratio], car.par[P.engine_inertia]

    def powers(p: float, w: float) -> np.ndarray:
        pump, turbine, *_ = converter(par, p, ratio * w)
        out, _ = gears(par, turbine, 0.0, ratio * w)
        lost_converter, lost_gears = pump * p - turbine * ratio * w, (turbine - out) * ratio * w
        return np.array([engine(par, throttle, p)[0] * p, lost_converter, lost_gears, resistance(w, 0.02)[0] * w])

    before = (car.states[S.engine_speed], car.motion[0])
    record = car.drive(4.0, throttle, grade=0.02, h=h)
    rows = np.array([powers(*before), *(powers(p, w) for p, w in record[:, [2, 0]])])
    work, lost_converter, lost_gears, road = h * (rows[1:] + rows[:-1]).sum(axis=0) / 2.0
    kinetic = 0.5 * J * (record[-1, 2] ** 2 - before[0] ** 2) + 0.5 * INERTIA * (record[-1, 0] ** 2 - before[1] ** 2)
    assert lost_converter > 0.0 and lost_gears > 0.0
    assert kinetic + lost_converter + lost_gears + road == pytest.approx(work, abs=1e-6 * h * abs(rows).sum())


def test_creeps_at_idle_and_stands_on_the_brake() -> None:
    car = Car()
    record = car.drive(20.0, 0.0)
    assert 6.0 < 3.6 * RADIUS * record[-1, 0] < 11.0
    assert record[-1, 2] * RPM == pytest.approx(850.0, abs=25.0)
    assert abs(car.drive(5.0, 0.0, brake=2e4)[-1, 0]) < 0.05


def test_rolling_back_on_a_hill_keeps_the_engine_turning() -> None:
    record = Car().drive(10.0, 0.0, grade=0.3)
    assert record[-1, 0] < -5.0
    assert record[:, 2].min() * RPM > 600.0 and (record[:, 1] > 0.0).all()


def test_full_throttle_goes_up_through_the_gears_and_braking_down() -> None:
    car = Car()
    record = car.drive(30.0, 1.0)
    assert shifts(record) == [1, 2, 3]
    seconds = H * np.argmax(RADIUS * record[:, 0] > 100.0 / 3.6)
    assert 7.0 < seconds < 13.0
    assert record[:, 2].max() * RPM < 6000.0
    assert shifts(car.drive(15.0, 0.0, brake=1500.0)) == [3, 2, 1]


def test_light_throttle_shifts_early() -> None:
    record = Car().drive(60.0, 0.25)
    assert shifts(record) == [1, 2, 3]
    assert record[:, 2].max() * RPM < 3200.0


def test_kick_down() -> None:
    car = Car(60.0 / 3.6)
    assert shifts(car.drive(10.0, 0.3)) == [3]
    record = car.drive(1.0, 1.0)
    assert shifts(record) == [2]
    assert record[-1, 1] > 1.2 * Car(60.0 / 3.6, gear_mode=2.0, gear_held=3.0).drive(1.0, 1.0)[-1, 1]


def test_torque_is_continuous_through_a_shift() -> None:
    """What torque changes by in a step goes to zero with the step; the ratio does not jump either."""
    leaps = []
    for h in (5e-3, 1.25e-3):
        record = Car(40.0 / 3.6).drive(8.0, 1.0, h=h)[round(1.0 / h) :]
        assert shifts(record)[-2:] == [2, 3]
        leaps.append((abs(np.diff(record[:, 1])).max(), abs(np.diff(record[:, 4])).max()))
    assert leaps[1][0] < 0.3 * leaps[0][0] and leaps[1][1] < 0.3 * leaps[0][1]


def test_no_hunting_on_any_grade() -> None:
    """Under a constant pedal the gears come to rest: up, down to what the road asks for, and no cycle."""
    for throttle in np.linspace(0.0, 1.0, 11):
        for grade in np.linspace(-0.1, 0.3, 13):
            for speed in (0.0, 20.0):
                record = Car(speed).drive(90.0, throttle, grade=grade, h=0.02)
                assert len(shifts(record)) <= 4, f"throttle {throttle:.2f}, grade {grade:.2f}: {shifts(record)}"


def test_shifts_keep_their_distance() -> None:
    car, rng = Car(), np.random.default_rng(7)
    record = np.concatenate([car.drive(0.5, rng.random(), brake=rng.choice([0.0, 900.0])) for _ in range(600)])
    at = np.flatnonzero(np.diff(record[:, 3]))
    assert len(at) > 30 and np.diff(at).min() * H >= PAR[P.shift_pause] - 1e-9


def test_held_gear_and_torque_from_outside() -> None:
    assert shifts(Car(gear_mode=2.0, gear_held=2.0).drive(20.0, 1.0)) == [2]
    par, after = parameters(gear_mode=0.0), np.zeros(2)
    assert driveline(par, 0.3, 321.0, 5.4, np.zeros(2), after, 0, H, 20.0) == (321.0, 0.0)
    assert after[S.engine_speed] == pytest.approx(108.0)
    memory = np.zeros(len(MEMORY))
    start(par, np.zeros(2), 0, memory, 20.0)
    assert shift(par, memory, 1.0, 20.0, H) == pytest.approx(1.475 * 3.673)


def test_a_new_held_gear_is_shifted_to() -> None:
    car = Car(10.0, gear_mode=2.0, gear_held=1.0)
    car.drive(0.5, 0.2)
    car.par[P.gear_held] = 3.0
    record = car.drive(0.5, 0.2)
    assert record[0, 4] == pytest.approx(2.475 * 3.673) and record[-1, 4] == pytest.approx(3.673)
    assert abs(np.diff(record[:, 4])).max() < 0.2
    assert car.memory[M.loaded_throttle] == FREE
