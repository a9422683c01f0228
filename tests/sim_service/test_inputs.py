"""From counts to inputs: against the tables and formulas of the source, written out here once more."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from daq_service.counters import TOTAL, counter_table, unwrap
from sim_service.contract.machine import index
from sim_service.inputs import make_inputs, observe_block
from sim_service.inputs.table import rows
from sync.config.config import ChannelConfig, Daq, load
from sync.config.input_rows import Rows
from sync.ring.block import PAYLOAD
from sync.ring.block_values import put_integer
from sync.signals.differentiator import MEMORY, N_MAX, coefficients, differentiate
from tandem.machines.car.vehicle import VEHICLE_INPUTS
from tests.examples import few
from tests.sim_service.conftest import DRIVE

H = 5e-3
CAR = load(DRIVE).daq
WINDOWS = range(2, 11)

# thesis table 4.3: N, the divisor of h, and the weights of f_i, f_(i-1), ...
TABLE_4_3 = {
    2: (2, [1, 0, -1]),
    3: (4, [1, 1, -1, -1]),
    4: (8, [1, 2, 0, -2, -1]),
    5: (16, [1, 3, 2, -2, -3, -1]),
    6: (32, [1, 4, 5, 0, -5, -4, -1]),
    7: (64, [1, 5, 9, 5, -5, -9, -5, -1]),
    8: (128, [1, 6, 14, 14, 0, -14, -14, -6, -1]),
}


def given_rows(**changes: dict[str, Any]) -> dict[str, Any]:
    """Those of the car, with what a test changes."""
    car = {name: row.model_dump() for name, row in load(DRIVE).inputs.items()}
    free = {"estimator": "source", "least": None, "most": None}
    car["steering"] |= free
    return TypeAdapter(Rows).validate_python({name: {**row, **changes.get(name, {})} for name, row in car.items()})


class Wire:
    """Blocks of the car into its inputs, one after the other."""

    def __init__(self, **changes: dict[str, Any]):
        self.layout = CAR.layout
        self._rows = rows(given_rows(**changes), self.layout, VEHICLE_INPUTS, H, 1e-3, 100.0)
        self.inputs = np.full(len(VEHICLE_INPUTS), 7.0)

    def feed(self, brake: int = 0, throttle: int = 0, steering: int = 0) -> "Wire":
        record = np.zeros(1, self.layout.dtype)
        record["brake"], record["throttle"], record["steering"] = brake, throttle, steering
        return self.feed_block(record.view(np.int64))

    def feed_block(self, block: np.ndarray) -> "Wire":
        make_inputs(block, 0, H, self._rows, self.inputs)
        return self

    def __getitem__(self, name: str) -> float:
        return float(self.inputs[index(VEHICLE_INPUTS, name)])


def test_an_input_that_no_row_gives_is_left_to_the_machine() -> None:
    assert math.isnan(Wire().feed(throttle=210)["drive_torque"])


# pedals and wheel


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(st.integers(-32768, 0))
def test_brake_counts_below_zero_are_exactly_no_pressure(count: int) -> None:
    assert Wire().feed(brake=count)["brake_pressure_bar"] == 0.0


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(st.integers(0, 32767))
def test_brake_pressure_is_forty_bar_at_the_full_count(count: int) -> None:
    assert Wire().feed(brake=count)["brake_pressure_bar"] == pytest.approx(40.0 * count / 32767, rel=1e-12)


def test_throttle_is_the_fraction_of_its_travel_and_never_beyond() -> None:
    for count, fraction in ((0, 0.0), (42, 0.1), (210, 0.5), (420, 1.0), (421, 1.0), (32767, 1.0), (-1, 0.0)):
        assert Wire().feed(throttle=count)["throttle"] == fraction


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from([1, -1]))
def test_steering_is_018_degrees_a_count_with_the_configured_sign(count: int, sign: int) -> None:
    wire = Wire(steering={"sign": sign}).feed(steering=count)
    assert wire["steering_angle"] == pytest.approx(sign * count * 0.18 * math.pi / 180, rel=1e-12)


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(st.integers(-32768, 32767), st.integers(-32768, 32767), st.integers(-(2**31), 2**31 - 1))
def test_channels_do_not_leak_into_each_other(brake: int, throttle: int, steering: int) -> None:
    together = Wire().feed(brake=brake, throttle=throttle, steering=steering)
    assert together["brake_pressure_bar"] == Wire().feed(brake=brake)["brake_pressure_bar"]
    assert together["throttle"] == Wire().feed(throttle=throttle)["throttle"]
    assert together["steering_angle"] == Wire().feed(steering=steering)["steering_angle"]


# derivatives


@pytest.mark.parametrize("n", TABLE_4_3)
def test_weights_are_those_of_table_4_3(n: int) -> None:
    divisor, weights = TABLE_4_3[n]
    assert (coefficients(n) * divisor).tolist() == weights


@pytest.mark.parametrize("n", WINDOWS)
def test_weights_are_antisymmetric_and_give_a_line_its_slope(n: int) -> None:
    c = [Fraction(float(weight)) for weight in coefficients(n)]  # powers of two divide: exact
    assert len(c) == n + 1
    assert c == [-weight for weight in reversed(c)]
    assert sum(c) == 0
    assert sum(-k * weight for k, weight in enumerate(c)) == 1  # f_k = -k: a line of slope 1
    # smooth: the fastest oscillation leaves no trace
    assert sum((-1) ** k * weight for k, weight in enumerate(c)) == 0


def derivatives(n: int, angles: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Speed and acceleration after each of these angles."""
    memory, c = np.zeros(MEMORY), coefficients(n)
    pairs = [differentiate(memory, c, angle, H) for angle in angles]
    return np.array([speed for speed, _ in pairs]), np.array([acceleration for _, acceleration in pairs])


coefficient = st.floats(-100.0, 100.0)


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(st.integers(2, 10), coefficient, coefficient, coefficient)
def test_quadratic_has_its_exact_derivatives_late(n: int, a: float, b: float, c: float) -> None:
    """The first half a window late, the second a whole one; rounding is what the divisions by h and h^2 make of it."""
    t = np.arange(3 * n + 4) * H
    speed, acceleration = derivatives(n, (a + b * t + c * t**2).tolist())
    scale = abs(a) + abs(b) + abs(c)
    assert speed[n:] == pytest.approx((b + 2 * c * (t - n / 2 * H))[n:], abs=1e-12 * scale)
    assert acceleration[2 * n :] == pytest.approx(2 * c, abs=1e-9 * scale)


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(st.integers(2, 10), coefficient, coefficient, coefficient, coefficient)
def test_second_derivative_is_a_whole_window_late(n: int, a: float, b: float, c: float, d: float) -> None:
    """On a cubic the delay shows: the operator adds a constant to its first derivative, which the second removes."""
    t = np.arange(3 * n + 4) * H
    _, acceleration = derivatives(n, (a + b * t + c * t**2 + d * t**3).tolist())
    expected = 2 * c + 6 * d * (t - n * H)
    assert acceleration[2 * n :] == pytest.approx(expected[2 * n :], abs=1e-9 * (abs(a) + abs(b) + abs(c) + abs(d)))


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(st.integers(2, 8), st.lists(st.integers(-5000, 5000), min_size=1, max_size=40))
def test_derivatives_of_any_motion_are_those_of_table_4_3(n: int, counts: list[int]) -> None:
    """In exact fractions, the first from the angles, the second from the first."""
    divisor, weights = TABLE_4_3[n]
    h = Fraction(5, 1000)

    def apply(values: list[Fraction], k: int) -> Fraction:
        return sum(w * values[k - j] for j, w in enumerate(weights)) / (divisor * h)

    angles = [Fraction(c) for c in counts]
    first = [apply(angles, k) if k >= n else Fraction(0) for k in range(len(angles))]
    second = [apply(first, k) if k >= 2 * n else Fraction(0) for k in range(len(angles))]
    speed, acceleration = derivatives(n, [float(c) for c in counts])
    assert speed == pytest.approx([float(v) for v in first], rel=1e-9, abs=1e-6)
    assert acceleration == pytest.approx([float(v) for v in second], rel=1e-9, abs=1e-3)


@pytest.mark.parametrize("n", WINDOWS)
def test_derivatives_are_zero_until_their_window_is_full(n: int) -> None:
    """N+1 angles make the first speed, N+1 speeds the first acceleration; and then they are there."""
    angles = [1.0 + 10.0 * (k * H) ** 2 + k * H for k in range(2 * n + 3)]
    speed, acceleration = derivatives(n, angles)
    assert (speed[:n] == 0.0).all() and (speed[n:] > 0.5).all()
    assert (acceleration[: 2 * n] == 0.0).all() and (acceleration[2 * n :] > 10.0).all()


@pytest.mark.parametrize("n", WINDOWS)
def test_after_a_gap_the_differentiator_knows_nothing_of_before(n: int) -> None:
    memory, c = np.zeros(MEMORY), coefficients(n)
    rng = np.random.default_rng(n)
    before, after = rng.normal(size=(2, 3 * n))
    for angle in before:
        differentiate(memory, c, angle, H)
    memory[:] = 0.0  # what the loop does at a new epoch
    speed, acceleration = derivatives(n, after.tolist())
    again = [differentiate(memory, c, angle, H) for angle in after]
    assert [s for s, _ in again] == speed.tolist() and [a for _, a in again] == acceleration.tolist()


def test_largest_window_is_the_largest_the_configuration_allows() -> None:
    assert N_MAX == WINDOWS[-1] == given_rows(steering={"differentiator": N_MAX})["steering"].differentiator
    with pytest.raises(ValueError, match="differentiator"):
        given_rows(steering={"differentiator": N_MAX + 1})


def test_inputs_carry_angle_and_both_derivatives() -> None:
    """A parabola of counts through the default window, N = 4."""
    wire = Wire()
    rad = math.radians(0.18)
    for k in range(20):
        wire.feed(steering=k * k)
    assert wire["steering_angle"] == pytest.approx(19**2 * rad)
    assert wire["steering_speed"] == pytest.approx(2 * (19 - 2) * rad / H)
    assert wire["steering_acceleration"] == pytest.approx(2 * rad / H**2)


# values held between the frames of a bus


def off_a_bus(truth: Callable[[float], float], aged: bool) -> tuple[np.ndarray, np.ndarray]:
    """(instants, estimated speeds in deg/s) at the steps: an angle of 0.1 deg a count, sent every 10 ms, held in
    blocks of 1 kHz, with or without its age."""
    ages = [ChannelConfig(name="steering_age_us", type="u4", unit="us")] if aged else []
    layout = Daq(channels=[*(ChannelConfig(name=c.name, type="i4") for c in CAR.channels), *ages]).layout
    given = given_rows(steering={"estimator": "kalman", "per_count": 0.1})
    table = rows(given, layout, VEHICLE_INPUTS, H, 1e-3, 100.0)
    inputs = np.zeros(len(VEHICLE_INPUTS))
    record = np.zeros(1, layout.dtype)
    start_ns, phase_ns = 5_000_000_000, 3_400_000  # frames come between blocks
    instants, speeds = [], []
    for k in range(4000):
        t_ns = start_ns + k * 1_000_000
        frame_ns = (t_ns - phase_ns) // 10_000_000 * 10_000_000 + phase_ns
        record["t_ns"] = t_ns
        record["steering"] = math.floor(truth((frame_ns - start_ns) * 1e-9) / 0.1)
        if aged:
            record["steering_age_us"] = (t_ns - frame_ns) // 1000
        block = record.view(np.int64)
        observe_block(block, table)
        if k % 5 == 4:
            make_inputs(block, 0, H, table, inputs)
            instants.append((frame_ns - start_ns) * 1e-9)  # what is known is known of the last frame
            speeds.append(math.degrees(inputs[index(VEHICLE_INPUTS, "steering_speed")]))
    return np.array(instants), np.array(speeds)


@pytest.mark.parametrize("motion", ["ramp", "sine"])
def test_a_value_held_with_its_age_is_observed_once(motion: str) -> None:
    """The speed is that of the hand; without the age the estimator sees a stair of standing and leaping."""

    def angle(t: float) -> float:
        return 151.3 * t if motion == "ramp" else 90.0 * math.sin(2 * math.pi * 0.7 * t)

    def rms_error(aged: bool) -> float:
        t, speed = off_a_bus(angle, aged)
        truth = np.full(len(t), 151.3) if motion == "ramp" else 90 * 1.4 * math.pi * np.cos(1.4 * math.pi * t)
        return float(np.sqrt(np.mean((speed - truth)[t > 0.5] ** 2)))

    with_age, without = rms_error(True), rms_error(False)
    assert with_age < 6.0 and without > 25.0, (with_age, without)


# from the register on


@settings(max_examples=few(60), deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(-20, 20)), min_size=1, max_size=40),
    st.integers(0, 65535),
    st.integers(0, 65535),
)
def test_wrap_of_a_register_upstream_changes_nothing_downstream(
    moves: list[tuple[int, int]], steering_start: int, throttle_start: int
) -> None:
    """Registers that start anywhere, unwrapped and packed, against counts that never knew a register."""
    counters = counter_table([*CAR.channels], CAR.rate_hz)
    names = CAR.layout.names
    plain, wrapped = Wire(), Wire()
    steering = throttle = 0
    for turn, press in [(0, 0), *moves]:
        steering += turn
        throttle += press
        block = np.zeros(CAR.layout.words, np.int64)
        for name, start, count in (("steering", steering_start, steering), ("throttle", throttle_start, throttle)):
            row = names.index(name)
            unwrap(counters[row], (start + count) % 65536)
            put_integer(block, CAR.layout.table[row], counters[row, TOTAL])
        assert block[:PAYLOAD].tolist() == [0] * PAYLOAD
        wrapped.feed_block(block)
        plain.feed(steering=steering, throttle=throttle)
        assert wrapped.inputs[:5].tolist() == plain.inputs[:5].tolist()
