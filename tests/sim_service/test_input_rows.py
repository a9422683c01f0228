"""Rows of inputs: every kind against its formula, chains, limits, age, and what a configuration may not say. No machine
that is shipped has anything to do with it: channels and inputs have names of their own."""

import math
import re
import tomllib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sim_service.contract.machine import STEP, Machine, Quantity
from sim_service.inputs import forget, forget_what_was_stale, make_inputs, observe_block, oldest
from sim_service.inputs.stages import HELD, RAMPED, SAFE, counted, in_words, stage_of
from sim_service.inputs.table import rows
from sim_service.replay import as_available, replay
from sim_service.simulation import Simulation
from sync.compile.jit import kernel
from sync.config.config import ChannelConfig, Daq, load
from sync.config.input_rows import KINDS, Rows
from sync.errors import ConfigError
from tests.examples import few
from tests.sim_service.conftest import DRIVE

H, PERIOD, STALE_MS = 1e-3, 1e-3, 10.0
MS = 1_000_000
FEW = settings(max_examples=few(25), deadline=None, derandomize=True)
LAYOUT = Daq(
    channels=[
        ChannelConfig(name="front", type="i2"),
        ChannelConfig(name="rear", type="i2"),
        ChannelConfig(name="coil", type="i2"),
        ChannelConfig(name="lever", type="i4"),
        ChannelConfig(name="lever_age_us", type="u4", unit="us"),
    ]
).layout
i2 = st.integers(-32768, 32767)


@dataclass(frozen=True)
class Input:
    name: str
    unit: str = "1"
    optional: bool = False


class Bench:
    """Rows without a machine: `to` names its inputs as they come."""

    def __init__(self, **given: dict[str, Any]):
        self.names = list(given)
        self.given = TypeAdapter(Rows).validate_python(given)
        units = {to: row.machine_unit for row in self.given.values() for to in row.to if to}
        named = list(units)
        self.rows = rows(self.given, LAYOUT, [Input(*pair) for pair in units.items()], H, PERIOD, STALE_MS)
        self.inputs = dict.fromkeys(named, math.nan)
        self.stages = self.clipped = 0
        self.t_ns = 10**12
        self.block = np.zeros(LAYOUT.words, np.int64)

    def feed(self, age_ms: float = 0.0, **counts: int) -> dict[str, float]:
        record = np.zeros(1, LAYOUT.dtype)
        self.t_ns += round(PERIOD * 1e9)
        record["t_ns"] = self.t_ns
        for name, value in counts.items():
            record[name] = value
        self.block = record.view(np.int64)
        observe_block(self.block, self.rows)
        return self.step(age_ms)

    def step(self, age_ms: float = 0.0) -> dict[str, float]:
        values = np.zeros(len(self.inputs))
        self.stages, self.clipped = make_inputs(self.block, round(age_ms * MS), H, self.rows, values)
        self.inputs = dict(zip(self.inputs, values.tolist(), strict=True))
        return self.inputs


# ---- kinds -----------------------------------------------------------------------------------------------------------


@FEW
@given(i2, st.floats(-500, 500), st.floats(1, 5000), st.sampled_from([1, -1]), st.floats(0.1, 100))
def test_affine(counts: int, zero: float, full_counts: float, sign: int, full: float) -> None:
    row = {"zero_counts": zero, "full_counts": sign * full_counts, "full": full, "channel": "coil", "kind": "affine"}
    for unit, factor in (("1", 1.0), ("N", 1.0), ("deg", math.pi / 180)):
        bench = Bench(force={**row, "unit": unit, "to": ["f"]})
        expected = full * (counts - zero) / (sign * full_counts) * factor
        assert bench.feed(coil=counts)["f"] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        # and back again
        value = full * (counts - zero) / (sign * full_counts)
        assert bench.given["force"].counts(value) == pytest.approx(counts, abs=1e-6)


@pytest.mark.parametrize("estimator", ["source", "full_rate", "kalman", "edges"])
def test_encoder(estimator: str) -> None:
    """A steady turn: angle, rate and no acceleration, whatever estimates them."""
    bench = Bench(
        key={"channel": "lever", "kind": "encoder", "unit": "deg", "per_count": 0.01, "sign": -1, "zero_counts": 50.0,
             "estimator": estimator, "to": ["angle", "rate", "acceleration"]}
    )  # fmt: skip
    for k in range(400):
        found = bench.feed(lever=3 * k)
    assert math.degrees(found["angle"]) == pytest.approx(-0.01 * (3 * 399 - 50), abs=0.011)
    assert math.degrees(found["rate"]) == pytest.approx(-30.0, rel=0.02)
    assert abs(math.degrees(found["acceleration"])) < 30.0
    assert bench.given["key"].counts(-0.01 * (3 * 399 - 50)) == pytest.approx(3 * 399)


@FEW
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.integers(-2000, 2000), st.integers(-5, 5))
def test_polynomial_of_a_channel_and_of_a_row_with_its_rates(c: list[float], counts: int, speed: int) -> None:
    p = np.polynomial.Polynomial(c)
    found = Bench(
        x={"channel": "coil", "kind": "affine", "full_counts": 1000.0, "unit": "V"},
        y={"row": "x", "kind": "polynomial", "coefficients": c, "to": ["y"]},
    ).feed(coil=counts)
    assert found["y"] == pytest.approx(p(counts / 1000), rel=1e-9, abs=1e-9)
    bench = Bench(
        x={"channel": "lever", "kind": "encoder", "unit": "m", "per_count": 1e-3, "estimator": "source",
           "differentiator": 2},
        y={"row": "x", "kind": "polynomial", "coefficients": c, "to": ["y", "yd", "ydd"]},
    )  # fmt: skip
    for k in range(8):
        found = bench.feed(lever=counts + speed * k)
    x, xd = (counts + 7 * speed) * 1e-3, speed * 1e-3 / H
    assert found["yd"] == pytest.approx(p.deriv()(x) * xd, rel=1e-6, abs=1e-6)
    assert found["ydd"] == pytest.approx(p.deriv(2)(x) * xd**2, rel=1e-4, abs=1e-4)


@FEW
@given(i2, i2, st.floats(-2, 2), st.floats(-1, 1), st.floats(-20, 20))
def test_a_pair_of_hall_sensors_then_affine_then_arctangent_is_an_angle(
    front: int, rear: int, k: float, o: float, slope: float
) -> None:
    volts = 10 / 32768
    found = Bench(
        angle={"row": "height", "kind": "arctangent", "slope": slope, "offset": 0.1, "to": ["key_angle"]},
        position={"pair": ["front", "rear"], "kind": "hall_pair", "volts_per_count": volts, "gain": k, "offset": o,
                  "unit": "V2", "to": ["z"]},
        height={"row": "position", "kind": "affine", "unit": "m", "zero_counts": 0.5, "full_counts": 200.0},
    ).feed(front=front, rear=rear)  # fmt: skip
    z = k * ((front * volts) ** 2 - (rear * volts) ** 2) + o
    assert found["z"] == pytest.approx(z, rel=1e-9, abs=1e-9)
    assert found["key_angle"] == pytest.approx(math.atan(slope * (z - 0.5) / 200 + 0.1), rel=1e-9, abs=1e-12)


def test_the_rate_of_an_arctangent_is_that_of_its_angle() -> None:
    bench = Bench(
        x={"channel": "lever", "kind": "encoder", "unit": "m", "per_count": 1e-4, "estimator": "source",
           "differentiator": 2},
        angle={"row": "x", "kind": "arctangent", "slope": 5.0, "to": ["a", "ad", "add"]},
    )  # fmt: skip
    angles = []
    for k in range(60):
        angles.append(bench.feed(lever=20 * k)["a"])
    # a window of 2 is a step late, which on a line is nothing; what is left is the curvature of the angle
    assert bench.inputs["ad"] == pytest.approx((3 * angles[-1] - 4 * angles[-2] + angles[-3]) / (2 * H), rel=1e-3)
    second = (2 * angles[-1] - 5 * angles[-2] + 4 * angles[-3] - angles[-4]) / H**2
    assert bench.inputs["add"] == pytest.approx(second, rel=0.02)


@FEW
@given(i2, st.floats(0.5, 50), st.floats(0.01, 0.5))
def test_a_voice_coil_is_a_joint_rate(counts: int, kappa: float, arm: float) -> None:
    found = Bench(
        rate={"channel": "coil", "kind": "voice_coil", "zero_counts": 12.0, "volts_per_count": 1e-3,
              "kappa_v_s_per_m": kappa, "lever_arm_m": arm, "unit": "rad/s", "to": ["w"]},
    ).feed(coil=counts)  # fmt: skip
    assert found["w"] == pytest.approx((counts - 12) * 1e-3 / kappa / arm, rel=1e-12, abs=1e-15)


def fused(crossover_hz: float) -> Bench:
    return Bench(
        z={"channel": "front", "kind": "affine", "unit": "m", "full_counts": 1e4},
        v={"channel": "coil", "kind": "affine", "unit": "m/s", "full_counts": 1e3},
        key={"position": "z", "velocity": "v", "kind": "fused", "crossover_hz": crossover_hz, "unit": "m",
             "to": ["x", "xd"]},
    )  # fmt: skip


def test_a_fused_position_has_neither_the_noise_of_the_one_nor_the_offset_of_the_other() -> None:
    bench, random = fused(1.0), np.random.default_rng(1)
    found = []
    for k in range(8000):
        t = k * H
        z, v = 0.5 * math.sin(2 * t), math.cos(2 * t)
        # a noisy position, and a velocity with an offset
        step = bench.feed(front=round(1e4 * (z + 0.02 * random.standard_normal())), coil=round(1e3 * (v + 0.05)))
        found.append((step["x"] - z, step["xd"] - v))
    off, rate = np.array(found[3000:]).T
    assert off.std() < 0.003 and abs(off.mean()) < 0.05 / (2 * math.pi) * 1.1 and rate == pytest.approx(0.05, abs=1e-3)


def test_a_fused_position_begins_at_the_position_and_again_after_a_gap() -> None:
    bench = fused(1.0)
    assert bench.feed(front=1000, coil=0)["x"] == 0.1
    assert bench.feed(front=5000, coil=0)["x"] < 0.11  # drawn to it, not thrown
    forget(bench.rows)
    assert bench.feed(front=5000, coil=0)["x"] == 0.5


def test_a_rate_that_is_measured_takes_the_place_of_the_estimate() -> None:
    bench = Bench(
        key={"channel": "lever", "kind": "encoder", "unit": "deg", "per_count": 0.1, "to": ["a", "", "add"]},
        rate={"channel": "coil", "kind": "affine", "unit": "deg/s", "full_counts": 10.0, "to": ["ad"]},
    )
    for k in range(100):
        found = bench.feed(lever=k, coil=720)
    assert found["ad"] == pytest.approx(math.radians(72.0)) and math.degrees(found["a"]) == pytest.approx(9.9, abs=0.1)
    assert list(bench.inputs) == ["a", "add", "ad"]


@pytest.mark.parametrize("estimator", ["kalman", "edges"])
def test_an_encoder_of_small_motions_is_that_of_large_ones_on_another_scale(estimator: str) -> None:
    """A way in metres, ten thousand times smaller than an angle in rad: with `motion` the same to rounding."""
    row = {"channel": "lever", "kind": "encoder", "estimator": estimator, "to": ["x", "v", "a"]}
    large = Bench(key={**row, "unit": "rad", "per_count": 1e-2})
    small = Bench(key={**row, "unit": "m", "per_count": 1e-6, "motion": 1e-4})
    for k in range(300):
        counts = round(300 * math.sin(0.02 * k))
        one, other = large.feed(lever=counts), small.feed(lever=counts)
    assert [1e4 * other[n] for n in "xva"] == pytest.approx([one[n] for n in "xva"], rel=1e-9)


# ---- limits and age --------------------------------------------------------------------------------------------------


@FEW
@given(st.integers(-3000, 3000))
def test_what_is_beyond_its_limits_is_clipped_and_reported_by_row(counts: int) -> None:
    bench = Bench(
        free={"channel": "coil", "kind": "affine", "full_counts": 1000.0, "unit": "N", "to": ["f"]},
        held={"channel": "coil", "kind": "affine", "full_counts": 1000.0, "unit": "N", "least": -1.0, "most": 1.0,
              "tolerance_above": 0.5, "to": ["h"]},
        read={"row": "held", "kind": "polynomial", "coefficients": [0.0, 2.0], "to": ["r"]},
    )  # fmt: skip
    found = bench.feed(coil=counts)
    value = counts * (1.0 / 1000.0)
    assert found["f"] == value and found["h"] == min(max(value, -1.0), 1.0)
    assert found["r"] == 2 * found["h"]  # a chain goes on with what was clipped
    beyond = counts < -1000 or counts > 1500
    assert bench.clipped == (0b10 if beyond else 0)
    assert bench.rows.clipped[1] == value if beyond else np.isnan(bench.rows.clipped).all()


def test_a_value_that_overflows_is_finite_all_the_same() -> None:
    bench = Bench(
        huge={"channel": "coil", "kind": "polynomial", "coefficients": [0.0, 1e308], "to": ["y"]},
        next={"row": "huge", "kind": "affine", "full_counts": 1.0, "to": ["n"]},
    )
    assert bench.feed(coil=30000) == {"y": 0.0, "n": 0.0} and bench.clipped == 0b01


def test_every_row_goes_its_own_way_when_it_is_stale() -> None:
    bench = Bench(
        stays={"channel": "coil", "kind": "affine", "full_counts": 10.0, "unit": "N", "to": ["a"],
               "stale": {"hold_ms": 5.0}},
        goes={"channel": "coil", "kind": "affine", "full_counts": 10.0, "unit": "N", "to": ["b"],
              "stale": {"hold_ms": 5.0, "ramp_ms": 20.0, "safe": 2.0}},
        reads={"row": "goes", "kind": "affine", "full_counts": 1.0, "unit": "N", "to": ["c"]},
    )  # fmt: skip
    assert bench.feed(coil=100) == {"a": 10.0, "b": 10.0, "c": 10.0} and bench.stages == 0
    found = bench.step(age_ms=STALE_MS + 5.0 + 10.0)
    assert found == {"a": 10.0, "b": pytest.approx(6.0), "c": 10.0}  # each policy is for its own result
    assert [stage_of(bench.stages, n) for n in range(3)] == [HELD, RAMPED, HELD]
    assert in_words(bench.stages, bench.names) == "stays held, goes ramped to safe, reads held"
    assert bench.step(age_ms=1000.0)["b"] == 2.0 and stage_of(bench.stages, 1) == SAFE
    assert set(counted(np.array([bench.stages]), bench.names)) == {"stays held", "goes safe", "reads held"}


def test_the_age_of_a_value_is_that_of_all_it_is_made_from() -> None:
    bench = Bench(
        lever={"channel": "lever", "kind": "encoder", "unit": "m", "per_count": 1e-3, "to": ["x"]},
        coil={"channel": "coil", "kind": "affine", "full_counts": 1.0, "to": ["u"]},
        both={"position": "lever", "velocity": "coil", "kind": "fused", "crossover_hz": 1.0, "to": ["b"]},
    )
    bench.feed(lever=3, lever_age_us=30_000)
    assert [stage_of(bench.stages, n) for n in range(3)] == [HELD, 0, HELD]
    assert oldest(bench.block, bench.rows) == (0, 30 * MS)


def test_only_what_was_stale_begins_anew_when_it_is_fresh_again() -> None:
    bench = Bench(
        lever={"channel": "lever", "kind": "encoder", "unit": "m", "per_count": 1e-3, "to": ["x", "v"]},
        z={"channel": "front", "kind": "affine", "unit": "m", "full_counts": 1e4},
        u={"channel": "coil", "kind": "affine", "unit": "m/s", "full_counts": 1e3},
        key={"position": "z", "velocity": "u", "kind": "fused", "crossover_hz": 1.0, "to": ["y"]},
    )
    for k in range(50):
        bench.feed(lever=10 * k, front=1000, lever_age_us=30_000 if k == 49 else 0)
    assert stage_of(bench.stages, 0) == HELD and stage_of(bench.stages, 3) == 0
    stages, memory = bench.stages, bench.rows.memory.copy()
    bench.block = bench.block.copy()
    forget_what_was_stale(bench.block, 0, stages, bench.rows)  # the value in it is as old as before
    assert (bench.rows.memory == memory).all()
    record = np.zeros(1, LAYOUT.dtype)
    forget_what_was_stale(record.view(np.int64), 0, stages, bench.rows)
    assert (bench.rows.memory[0] == 0).all() and (bench.rows.memory[3] == memory[3]).all() and memory[3].any()


# ---- through the loop's own step -------------------------------------------------------------------------------------


@kernel(STEP)
def _sum_up(state, inputs, params, tables, work, h):
    for i in range(3):
        state[i] += h * inputs[i]
        work[i] = state[i]


def test_channels_of_any_name_reach_a_machine_of_any_kind() -> None:
    """Three channels of a key, an integrator of three inputs: the step that the live loop makes, from blocks alone."""
    inputs = (Quantity("force", "N", ""), Quantity("key_angle", "rad", ""), Quantity("key_rate", "rad/s", ""))
    sums = tuple(Quantity(f"sum_of_{q.name}", q.unit, "") for q in inputs)
    model = Machine("key", inputs, sums, sums, (), _sum_up)
    key = 'channel="lever", kind="encoder", unit="deg", per_count=0.01, estimator="source", differentiator=2'
    channels = ", ".join(f'{{name="{name}", type="i4"}}' for name in ("front", "rear", "lever"))
    hall = 'pair=["front", "rear"], kind="hall_pair", volts_per_count=0.001, gain=2.0, offset=1.0, unit="N"'
    hall, key = f'{{{hall}, to=["force"]}}', f'{{{key}, to=["key_angle", "key_rate"]}}'
    config = load(DRIVE, [f"daq.channels=[{channels}]", f"inputs={{hall={hall}, key={key}}}"])
    simulation = Simulation(config, model, np.zeros(1))
    layout = config.daq.layout
    words = np.zeros((200, layout.words), np.int64)
    blocks = layout.view(words)
    blocks["t_ns"] = 10**12 + MS * np.arange(200)
    blocks["seq"] = np.arange(200)
    blocks["front"], blocks["rear"], blocks["lever"] = 1500, 500, 4 * np.arange(200)
    instants = blocks["t_ns"][4::5] + 1000
    found = replay(simulation, as_available(instants, words, blocks, blocks["t_ns"].copy()))
    force, angle, rate = found[:, :3].T
    assert force == pytest.approx(2.0 * (1.5**2 - 0.5**2) + 1.0)
    assert np.degrees(angle) == pytest.approx(0.01 * 4 * (5 * np.arange(40) + 4))
    assert np.degrees(rate[3:]) == pytest.approx(40.0)
    assert found[-1, 3] == pytest.approx(40 * 0.005 * force[0])


# ---- what cannot be --------------------------------------------------------------------------------------------------

AFFINE = {"channel": "coil", "kind": "affine", "full_counts": 1.0}


MEASURED = {"kind": "measurement", "channel": "lever", "per_count": 0.5}


def test_an_angle_in_two_signals_is_their_sum_with_its_rate() -> None:
    both = {"kind": "encoder", "unit": "deg", "estimator": "full_rate"}
    bench = Bench(
        whole={"channel": "lever", "per_count": 0.1, **both, "to": ["angle", "rate"]},
        coarse={"channel": "front", "per_count": 1.5, **both},
        fraction={"channel": "rear", "per_count": 0.1, **both},
        sum={"of": ["coarse", "fraction"], "kind": "sum", "unit": "deg", "to": ["added", "added_rate"]},
        apart={
            "of": ["coarse", "fraction"],
            "kind": "sum",
            "unit": "deg",
            "weights": [2.0, -1.0],
            "to": ["difference"],
        },
    )
    for tenths in np.rint(300 * np.sin(0.02 * np.arange(200))).astype(int):
        coarse = round(tenths / 15)
        found = bench.feed(lever=int(tenths), front=coarse, rear=int(tenths - 15 * coarse))
        assert found["added"] == pytest.approx(math.radians(0.1 * tenths), abs=1e-12)
        assert found["added_rate"] == pytest.approx(found["rate"], abs=1e-9)
        assert found["difference"] == pytest.approx(
            math.radians(3.0 * coarse - 0.1 * (tenths - 15 * coarse)), abs=1e-12
        )


def test_a_constant_is_the_same_at_every_age() -> None:
    stale = {"hold_ms": 5.0, "ramp_ms": 5.0}
    bench = Bench(
        tilt={"kind": "constant", "unit": "deg", "value": 90.0, "to": ["tilt"]},
        front={"channel": "front", "kind": "affine", "full_counts": 10, "to": ["front"], "stale": stale},
    )
    assert bench.feed(front=10) == {"tilt": math.radians(90.0), "front": 1.0}
    assert bench.step(age_ms=500.0) == {"tilt": math.radians(90.0), "front": 0.0}
    assert stage_of(bench.stages, 0) == 0 and stage_of(bench.stages, 1) == SAFE


def test_a_measurement_has_its_age_against_its_block_and_is_never_stale() -> None:
    """It has no stage, wherever it stands, and takes no place among the rows that have one."""
    bench = Bench(
        reading={**MEASURED, "zero_counts": -1.0, "sign": -1, "unit": "m", "to": ["place", "age"]},
        **{f"row_{n}": {**AFFINE, "to": [f"x{n}"]} for n in range(15)},
    )
    assert list(bench.given)[-1] == "reading"
    found = bench.feed(50.0, seq=1, lever=9, lever_age_us=150_000)
    assert (found["place"], found["age"]) == (-5.0, pytest.approx(0.15))
    assert all(stage_of(bench.stages, n) == HELD for n in range(15)) and bench.stages >> 60 == 0
    assert oldest(bench.block, bench.rows) == (0, 0)
    # without a newer block it is a step older, then as old as it says
    assert bench.step(55.0)["age"] == pytest.approx(0.15 + H) and bench.step(60.0)["age"] == pytest.approx(0.15 + 2 * H)
    assert bench.feed(seq=2, lever=9, lever_age_us=153_000)["age"] == pytest.approx(0.153)
    assert bench.feed(seq=3, lever=11, lever_age_us=2**32 - 1)["age"] == pytest.approx(4294.967295)
    assert bench.stages == 0 and bench.clipped == 0


@pytest.mark.parametrize(
    "given, why",
    [
        ({"a": {"kind": "magic"}}, r"a.kind = 'magic': must be one of affine, encoder"),
        ({"a": {"channel": "coil"}}, r"a.kind is missing: must be one of affine"),
        ({"a": {**AFFINE, "row": "b"}}, "give channel, or row"),
        ({"a": {"kind": "affine", "full_counts": 1.0}}, "give channel, or row"),
        ({"a": {"kind": "affine", "full_counts": 1.0, "row": "b"}}, "reads the row b, which is not there"),
        ({"a": {"kind": "affine", "full_counts": 1.0, "row": "a"}}, "in a circle"),
        ({"a": {**AFFINE, "to": ["x", "y"]}}, r"makes 1 of these, not 2"),
        ({"a": {**AFFINE, "to": ["x"]}, "b": {**AFFINE, "to": ["x"]}}, "x is written by a already"),
        ({"a": {**AFFINE, "least": 1.0, "most": 0.0}}, "least = 1 must not be above most = 0"),
        ({"a": {**AFFINE, "most": 1.0, "stale": {"safe": 2.0}}}, "stale.safe = 2 must be from"),
        ({"a": {**AFFINE, "stale": {"extrapolate_ms": 5.0}}}, "makes no rate"),
        ({"a": {**AFFINE, "full_counts": 0.0}}, "must not be 0"),
        ({f"row_{n}": AFFINE for n in range(16)}, "at most 15"),
        ({f"row_{n}": MEASURED for n in range(46)}, "at most 45"),
        ({"a": {**MEASURED, "stale": {"hold_ms": 5.0}}}, "stale: is not for a measurement"),
        ({"a": {"kind": "constant", "value": 1.0, "stale": {"hold_ms": 5.0}}}, "stale: is not for a constant"),
        ({"a": AFFINE, "b": AFFINE, "c": {"kind": "sum", "of": ["a", "b"], "unit": "m"}}, "must be in one unit"),
        ({"a": AFFINE, "c": {"kind": "sum", "of": ["a", "c"]}}, "in a circle"),
        ({"a": AFFINE, "c": {"kind": "sum", "of": ["a", "b"]}}, "reads the row b, which is not there"),
        ({"a": MEASURED, "b": {"kind": "affine", "full_counts": 1.0, "row": "a"}}, "a measurement is for the machine"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_are_refused_in_words(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TypeAdapter(Rows).validate_python(given)


def test_rows_and_a_machine_that_do_not_fit_are_refused() -> None:
    def made(given: dict[str, Any], *inputs: Input) -> None:
        rows(TypeAdapter(Rows).validate_python(given), LAYOUT, inputs, H, PERIOD, STALE_MS)

    with pytest.raises(ConfigError, match=r"inputs\.a\.to: y is no input of the machine, which has x"):
        made({"a": {**AFFINE, "to": ["y"]}}, Input("x"))
    with pytest.raises(ConfigError, match="no row has z in its `to`, which the machine needs"):
        made({"a": {**AFFINE, "to": ["x"]}}, Input("x"), Input("z"), Input("w", optional=True))
    with pytest.raises(ConfigError, match=r"reads the channel clutch; daq\.channels has front"):
        made({"a": {**AFFINE, "channel": "clutch", "to": ["x"]}}, Input("x"))
    with pytest.raises(ConfigError, match=r"inputs\.a\.unit = 'mm': for x it must be 'm'"):
        made({"a": {**AFFINE, "unit": "mm", "to": ["x"]}}, Input("x", "m"))
    with pytest.raises(ConfigError, match=r"inputs\.a\.unit = '1': for x it must be 'rad/s' or 'deg/s'"):
        made({"a": {**AFFINE, "to": ["x"]}}, Input("x", "rad/s"))
    made({"a": {**AFFINE, "to": ["x"]}}, Input("x"), Input("w", optional=True))


def test_the_examples_of_the_documentation_are_rows() -> None:
    text = (DRIVE.parents[1] / "docs" / "inputs.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert [list(TypeAdapter(Rows).validate_python(tomllib.loads(e)["inputs"])) for e in examples] == [
        ["key"], ["position", "key"], ["coarse", "fraction", "steering", "brake"]
    ]  # fmt: skip
    assert all(f"| `{kind}` |" in text for kind in KINDS)
