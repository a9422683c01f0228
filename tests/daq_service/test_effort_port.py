"""Efforts between steps by a port's model: the real loop, on a virtual clock, with a mass, a damper and a spring."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from daq_service import effort_record as rec
from daq_service.devices import open_device
from daq_service.effort import EffortLoop, keep
from daq_service.effort_port import make_follower, model_names, port_effort
from daq_service.effort_replay import recompute
from daq_service.effort_settings import EffortSettings
from sync.config.config import load
from sync.config.input_rows import Encoder
from sync.errors import ConfigError
from sync.ring.block import EPOCH, PAYLOAD, PUSHED, SEQ, Channel, Layout, T
from sync.ring.ring import EPOCH_WORD, private_ring, since
from sync.virtual_clock import AT, BLOCK, CONTROL, KIND, PUSH, WHERE, virtual_clock
from tests.daq_service.conftest import DRIVE
from tests.daq_service.test_effort import FakeReader
from tests.examples import cases

US, MS = 1000, 1_000_000
START = 10**12
PORT = {"input": "wheel", "motion": ["angle", "speed", "acceleration"], "ahead": "ahead", "slopes": ["k", "b", "m"]}
NAMES = ("torque", "ahead", "k", "b", "m", "angle", "speed", "acceleration", "middle")
STEP = Layout((*(Channel(name, "i8") for name in rec.STAMPS), *(Channel(name, "f8") for name in NAMES)))
# as long as a step: rings of one clock are of one shape
SAMPLE = Layout((Channel("counts", "i8"), *(Channel(f"spare{k}", "i8") for k in range(len(STEP.channels) - 1))))
PER_COUNT = 1e-5
ENCODER: Any = TypeAdapter(Encoder).validate_python(
    {"kind": "encoder", "channel": "counts", "unit": "rad", "per_count": PER_COUNT, "to": list(PORT["motion"])}
)
K, B, M = 2.0, 0.05, 0.0005
SLOW, FAST = 5 * MS, 200 * US  # a step, a sample
W = 2.0 * math.pi * 8.0  # Hz


def settings(**changes: Any) -> EffortSettings:
    plain = {
        "channel": "torque", "gain": 1.0, "limit": 10.0, "slew": 1e9, "rate_hz": 5000.0, "stale_after_ms": 20.0,
        "zero_within_ms": 40.0, "displacement": "angle", "energy_at": "sample", "port": PORT,
    }  # fmt: skip
    return EffortSettings(**{**plain, **changes})


def motion(t: float) -> tuple[float, float, float]:
    a = 0.05
    return a * math.sin(W * t), a * W * math.cos(W * t), -a * W * W * math.sin(W * t)


def torque(x: float, v: float, a: float) -> float:
    return K * x + B * v + M * a


def world(
    effort: EffortSettings, seconds: float = 1.0, steps_until: float = 9.0, spoil: int = -1, seed: int | None = None
) -> tuple[np.ndarray, np.ndarray, EffortLoop]:
    """(efforts, steps, the loop): samples at 5 kHz, a step every 5 ms that comes 0.8 ms after its sample. With a seed
    the host pauses: steps are late by up to 30 ms or missing, and so are samples."""
    events, h = [], 1e-9 * SLOW
    dice = np.random.default_rng(seed)
    held = silent = 0  # until when steps and samples are held up
    for n in range(round(seconds * 1e9 / FAST)):
        t_ns = n * FAST
        block = np.zeros(SAMPLE.words, np.int64)
        block[T], block[PUSHED] = START + t_ns, START + t_ns + 30 * US
        block[PAYLOAD] = math.floor(motion(1e-9 * t_ns)[0] / PER_COUNT)
        if seed is not None and dice.random() < 2e-3:
            held = t_ns + int(dice.integers(30 * MS))
            silent = t_ns + int(dice.integers(12 * MS)) if dice.random() < 0.5 else silent
        events.append((START + max(t_ns, silent) + 30 * US, 1, block))
        if t_ns % SLOW == 0 and 1e-9 * t_ns < steps_until:
            x, v, a = motion(1e-9 * t_ns)
            then, half = ((x + dt * (v + 0.5 * dt * a), v + dt * a, a) for dt in (h, 0.5 * h))
            block = np.zeros(STEP.words, np.int64)
            block[PAYLOAD : PAYLOAD + 4] = t_ns // SLOW, n, 7, START + t_ns + 60 * US
            if seed is not None and dice.random() < 0.1:
                continue
            block[T] = block[PUSHED] = START + max(t_ns, held) + 800 * US
            values = [torque(x, v, a), torque(*then), K, B, M, x, v, a, torque(*half)]
            if t_ns // SLOW == spoil:
                values[3] = math.nan
            block.view(np.float64)[PAYLOAD + 4 : PAYLOAD + 13] = values
            events.append((START + max(t_ns, held) + 800 * US, 0, block))
    events.sort(key=lambda event: event[0])
    script = np.zeros((len(events) + 1, BLOCK + STEP.words), np.int64)
    for row, (t_ns, where, block) in zip(script, events, strict=False):
        row[AT], row[KIND], row[WHERE] = t_ns, PUSH, where
        row[BLOCK:] = block
    script[-1, [AT, KIND, WHERE, BLOCK]] = START + round(seconds * 1e9), CONTROL, rec.STOP, 1
    rings = np.array([private_ring(STEP, 1 << 14), private_ring(SAMPLE, 1 << 14)])
    rings[:, EPOCH_WORD] = 41, 7
    control, efforts = np.zeros(rec.CONTROL_WORDS, np.int64), private_ring(rec.LAYOUT, 1 << 14)

    class Device:
        compiled_put = keep, np.zeros(1)

        def put(self, value: float) -> None:
            raise AssertionError("the loop hands over itself")

    device: Any = Device()
    device.effort = effort
    clock = virtual_clock(START, script=script, rings=rings, control=control, read_ns=500)
    reader: Any = FakeReader(rings[0], STEP)
    loop = EffortLoop(
        device, lambda: reader, rings[1], SAMPLE.words, efforts, SLOW, clock=clock,
        port=make_follower(ENCODER, SAMPLE, 1e-9 * SLOW, 1e-9 * FAST),
    )  # fmt: skip
    loop.control = control
    loop.run()
    blocks = np.zeros((1 << 14, rec.LAYOUT.words), np.int64)
    count, _, lost = since(efforts, 0, blocks)
    assert lost == 0
    made = np.ascontiguousarray(script[(script[:, KIND] == PUSH) & (script[:, WHERE] == 0)][:, BLOCK:])
    made[:, SEQ], made[:, EPOCH] = np.arange(len(made)), 41
    return rec.LAYOUT.view(blocks[:count]), STEP.view(made), loop


def test_between_steps_the_torque_is_that_of_the_newest_sample() -> None:
    """Of a port of mass, damper and spring: near what it would give by itself, and to the bit from the record."""
    effort = settings()
    found, steps, loop = world(effort)
    late = found[(found["t_ns"] > START + 300 * MS) & (found["status"] & rec.ENDED == 0)]
    assert 4900 <= len(late) / 0.7 <= 5300  # one for every sample, and some for new steps
    tau = 1e-9 * (late["motion_ns"] - START)
    true = np.array([torque(*motion(float(t))) for t in tau])
    held = np.array([torque(*motion(1e-9 * float(t))) for t in late["sampled_ns"] - START])
    off, off_held = (np.abs(each - true).max() / np.abs(true).max() for each in (late["given"], held))
    assert off < 0.07 and off_held > 0.2  # the estimator itself is late by some of it
    assert np.median(late["t_ns"] - late["motion_ns"]) <= 120 * US
    assert loop.figures()["between_steps_us"]["n"] >= 4900
    again, compared = recompute(effort, steps, found, SLOW)
    assert compared.sum() > 0.98 * len(found) and again[compared].tobytes() == found[compared].tobytes()


def test_with_the_torque_half_way_it_is_exact_within_a_step_where_the_acceleration_is_constant() -> None:
    x, v, a = 0.03, 1.0, -80.0
    then, half = (
        torque(x + 1e-9 * dt * (v + 0.5e-9 * dt * a), v + 1e-9 * dt * a, a) for dt in (SLOW, SLOW // 2)
    )  # fmt: skip
    straight = np.array([torque(x, v, a), then, K, B, M, x, v, a, math.nan])
    curved = np.array([*straight[:-1], half])
    for tau in (0.3, 0.5, 0.9, 1.0, 1.7):
        t = 1e-9 * tau * SLOW
        there = x + t * (v + 0.5 * t * a), v + t * a, a
        args = (*there, START, START + round(tau * SLOW), SLOW, False)
        beyond = 2.0 * (curved[0] - 2.0 * half + then) * max(tau - 1.0, 0.0) ** 2  # there it goes on as the tangent
        assert port_effort(curved, *args) == pytest.approx(torque(*there) - beyond, rel=1e-9)
        off = port_effort(straight, *args) - torque(*there)
        assert off == pytest.approx(0.5e-18 * K * a * SLOW**2 * tau * (1.0 - tau), rel=1e-6, abs=1e-12)


def test_the_energy_is_that_of_the_samples() -> None:
    found, _, loop = world(settings(), 0.5)
    newer = np.flatnonzero(np.diff(found["motion_ns"][:-1], prepend=0) > 0)
    at, x = found["motion_ns"][newer], found["angle"][newer]
    handed, given = found["t_ns"], found["given"]
    energy = [0.0]
    for a, b, way in zip(at, at[1:], np.diff(x), strict=False):
        edges = np.unique(np.clip([a, *handed[(handed > a) & (handed < b)], b], a, b))
        mean = sum(
            (v - u) * (given[handed <= u][-1] if (handed <= u).any() else 0.0) for u, v in itertools.pairwise(edges)
        ) / (b - a)
        energy.append(energy[-1] + mean * way)
    assert found["energy"][newer] == pytest.approx(energy, rel=1e-9, abs=1e-12)
    assert loop.cursor["energy"][0] == found["energy"][-1]


def test_a_model_is_followed_for_two_steps_and_the_watchdog_sees_the_steps_alone() -> None:
    found, steps, _ = world(settings(displacement=""), 0.6, steps_until=0.4)
    last = START + 395 * MS
    between = found[(found["t_ns"] > last + 11 * MS) & (found["t_ns"] < last + 20 * MS)]
    assert len(set(between["given"].tolist())) == 1 and len(between) > 30  # it holds
    assert found["given"][found["t_ns"] > last + 41 * MS].tolist() == [0.0] * (found["t_ns"] > last + 41 * MS).sum()
    again, compared = recompute(settings(displacement=""), steps, found, SLOW)
    assert again[compared].tobytes() == found[compared].tobytes()


@pytest.mark.parametrize("seed", cases(*range(40), quick=2))
def test_efforts_are_made_again_to_the_bit_from_any_part_of_a_record_of_a_host_that_pauses(seed: int) -> None:
    port = PORT | {"middle": "middle"} if seed % 2 else PORT
    effort = settings(rise_ms=30.0, limit=0.2, slew=40.0, stale_after_ms=12.0, port=port)
    found, steps, _ = world(effort, 0.6, seed=seed)
    dice = np.random.default_rng(seed)
    for _ in range(10):
        there = np.ones(len(found), bool)
        for _ in range(int(dice.integers(4))):  # gaps, at the beginning or within
            first = int(dice.integers(-200, len(found)))
            there[max(first, 0) : first + int(dice.integers(1, 400))] = False
        kept = steps[dice.random(len(steps)) > 0.02]
        again, compared = recompute(effort, kept, found[there], SLOW)
        assert compared.sum() > 0.5 * there.sum() - 200
        assert again[compared].tobytes() == found[there][compared].tobytes()


def test_limits_slew_and_rise_hold_between_steps() -> None:
    effort = settings(limit=0.1, slew=20.0, rise_ms=100.0)
    found, steps, _ = world(effort, 0.5)
    t, given = found["t_ns"], found["given"]
    assert np.abs(given).max() == 0.1 and (found["status"] & rec.LIMITED != 0).any()
    assert (np.abs(np.diff(given[:-1])) <= 20.0 * 1e-9 * np.diff(t[:-1]) + 1e-12).all()
    rising = t - t[0] < 100 * MS
    assert (np.abs(given[rising]) <= 0.1 * (t - t[0])[rising] / (100 * MS) + 1e-12).all()
    again, compared = recompute(effort, steps, found, SLOW)
    assert again[compared].tobytes() == found[compared].tobytes()


def test_a_step_with_a_model_that_is_not_finite_is_no_news() -> None:
    found, _, loop = world(settings(), 0.3, spoil=40)
    assert loop.counters[rec.INVALID] == 1 and 40 not in found["step"] and np.isfinite(found["given"]).all()


def test_a_port_that_nothing_can_follow_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"energy_at must be 'sample'"):
        settings(energy_at="step")
    assert set(settings().wants) == set(model_names(settings())) - {""}
    plain = "source={kind='waves', channels={}, effort={channel='steering_torque', gain=1.0, limit=1.0, slew=1.0, "
    good = "motion=['steering_angle', 'steering_speed', 'steering_acceleration'], ahead='a', slopes=['k', 'b', 'm']"
    for port, rate, said in (
        (f"input='brake', {good}", 500, r"port.input = 'brake': must be a row of \[inputs\] of kind encoder: steering"),
        ("input='steering', motion=['a', 'b', 'c'], ahead='a', slopes=['k', 'b', 'm']", 500, r"must be as inputs"),
        (f"input='steering', {good}", 9000, r"rate_hz = 9000: with a port model it must not be above daq.rate_hz"),
    ):
        with pytest.raises(ConfigError, match=said):
            open_device(load(DRIVE, [f"{plain}rate_hz={rate}.0, port={{{port}}}}}}}"]), DRIVE)
    changed = [f"{plain}port={{input='steering', {good}}}}}}}", "inputs.steering.estimator='source'"]
    with pytest.raises(ConfigError, match=r"estimator = 'source' works at steps"):
        open_device(load(DRIVE, changed), DRIVE)
