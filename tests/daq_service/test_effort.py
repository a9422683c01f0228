"""Efforts: limits, slew, the watchdog's time, the port's energy. The real loop and real rings, on a virtual clock."""

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from daq_service import effort_record as rec
from daq_service.effort import DeviceThread, EffortLoop, keep
from daq_service.effort_replay import recompute
from daq_service.effort_settings import EffortSettings
from sync.clock import VirtualClock
from sync.ring.block import EPOCH, PAYLOAD, PUSHED, RECEIVED, SEQ, Channel, Layout, T
from sync.ring.ring import CLOSED, EPOCH_WORD, HEAD_WORD, private_ring, push, since
from sync.virtual_clock import AT, BLOCK, CONTROL, KIND, NEW_EPOCH, PUSH, STATE, WHERE, virtual_clock

MS = 1_000_000
START = 10**12
STEP = Layout((*(Channel(name, "i8") for name in rec.STAMPS), Channel("steering_torque", "f8"), Channel("angle", "f8")))
SAMPLE = Layout((Channel("counts", "i8"),))
AT_TORQUE, AT_ANGLE = PAYLOAD + 4, PAYLOAD + 5
SAMPLE_AGE = 110_000  # ns, of its sample when a step is pushed


def configured(**changes: Any) -> EffortSettings:
    return EffortSettings(**{"channel": "steering_torque", "gain": 0.1, "limit": 0.5, "slew": 5.0, **changes})


@dataclass
class FakeReader:
    """A ring in private memory as a reader would see it."""

    words: np.ndarray
    layout: Layout

    @property
    def head(self) -> int:
        return int(self.words[HEAD_WORD])


@dataclass
class World:
    """Steps at instants of our choice, and what the device gets for them."""

    effort: EffortSettings
    step_ns: int = MS
    read_ns: int = 0  # what a reading of the clock costs
    events: list[tuple[int, int, int, np.ndarray]] = field(default_factory=list)
    pushed: list[np.ndarray] = field(default_factory=list)
    kind: Any = EffortLoop

    def step(
        self, t_ns: int, torque: float, angle: float = 0.0, received: bool = False, ring: int = 0, lag_ns: int = 0
    ) -> None:
        """A step that is pushed, or received, at this instant, so long after it was planned."""
        block = np.zeros(STEP.words, np.int64)
        number = len(self.pushed)
        block[PAYLOAD : PAYLOAD + 4] = number, number, 7, START + t_ns - 60_000
        block[T] = START + t_ns - lag_ns
        # on a wire the simulator's clock may be any
        block[PUSHED], block[RECEIVED] = (12345, START + t_ns) if received else (START + t_ns, 0)
        values = block.view(np.float64)
        values[AT_TORQUE], values[AT_ANGLE] = torque, angle
        self.pushed.append(block)
        self.events.append((START + t_ns, PUSH, ring, block))

    def at(self, t_ns: int, kind: int, where: int = 0, value: int = 0) -> None:
        self.events.append((START + t_ns, kind, where, np.array([value])))

    def run(self, end_ns: int, rings: int = 1) -> np.ndarray:
        """All efforts until this instant."""
        self.at(end_ns, CONTROL, rec.STOP, 1)
        self.events.sort(key=lambda event: event[0])
        script = np.zeros((len(self.events), BLOCK + STEP.words), np.int64)
        for row, (t_ns, kind, where, block) in zip(script, self.events, strict=True):
            row[AT], row[KIND], row[WHERE] = t_ns, kind, where
            row[BLOCK : BLOCK + len(block)] = block
        self.script = script
        self.rings = np.array([private_ring(STEP, 64) for _ in range(rings)])
        self.rings[:, EPOCH_WORD] = np.arange(rings) + 41
        samples = private_ring(SAMPLE, 1 << 14)
        for number, block in enumerate(self.pushed):
            sample = np.zeros(SAMPLE.words, np.int64)
            sample[[SEQ, EPOCH, T, PUSHED]] = (
                number,
                7,
                block[PAYLOAD + 3] - SAMPLE_AGE + 60_000,
                block[PAYLOAD + 3] - 20_000,
            )
            push(samples, sample)
        self.efforts = private_ring(rec.LAYOUT, 1 << 15)
        control = np.zeros(rec.CONTROL_WORDS, np.int64)
        self.clock = virtual_clock(START, script=script, rings=self.rings, control=control, read_ns=self.read_ns)
        self.readers = [FakeReader(ring, STEP) for ring in self.rings]
        self.followed: FakeReader | None = self.readers[0]
        self.loop = self.kind(
            self, lambda: self.followed, samples, SAMPLE.words, self.efforts, self.step_ns, clock=self.clock
        )
        self.loop.control = control
        self.loop.run()
        return self.given()

    def given(self) -> np.ndarray:
        blocks = np.zeros((1 << 15, rec.LAYOUT.words), np.int64)
        count, _, lost = since(self.efforts, 0, blocks)
        assert lost == 0
        return rec.LAYOUT.view(blocks[:count])

    @property
    def compiled_put(self) -> Any:
        return keep, np.zeros(1)

    def put(self, value: float) -> None:
        raise AssertionError("the loop hands over itself")

    def count(self, counter: int) -> int:
        return int(self.loop.counters[counter])

    def made_steps(self) -> np.ndarray:
        """As a record of the simulator's ring has them."""
        rows = self.script[self.script[:, KIND] == PUSH]
        return STEP.view(np.ascontiguousarray(rows[:, BLOCK : BLOCK + STEP.words]))


def assert_recomputed(world: World, found: np.ndarray, least: float = 0.8) -> None:
    """From the steps and the instants alone, to the bit."""
    again, compared = recompute(world.effort, world.made_steps(), found)
    assert again[compared].tobytes() == found[compared].tobytes()
    assert compared.sum() >= least * (len(found) - 2) - 2


# ---- when a step is looked for ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset_ns", [0, 10**15])
def test_a_step_is_looked_for_when_it_is_usually_there(offset_ns: int) -> None:
    """Whatever clock says when it was planned. A look at set times alone finds it half a nap late."""
    jitter = np.random.default_rng(1).exponential(30_000, 400).astype(int)
    waits = {}
    for quantile in (0.0, 0.5):
        world = World(configured(quantile=quantile), step_ns=5 * MS, read_ns=500)
        for k, late in enumerate(jitter):
            lag = 150_000 + int(late)
            world.step(5 * MS * (k + 1) + lag, 1.0, received=True, lag_ns=lag + offset_ns)
        found = world.run(5 * MS * len(jitter))
        assert_recomputed(world, found)
        first = np.unique(found["step"], return_index=True)[1][1:]
        taken = found[first[20:]]
        waits[quantile] = np.median(taken["taken_ns"] - taken["step_received_ns"])
        assert len(first) >= len(jitter) - 2
    assert waits[0.5] < 25_000
    assert waits[0.0] > 70_000


# ---- limits and slew -------------------------------------------------------------------------------------------------


@st.composite
def some_settings(draw: st.DrawFn, **changes: Any) -> EffortSettings:
    rate = draw(st.floats(50, 10_000))
    stale = draw(st.floats(1, 50))
    return configured(
        limit=draw(st.floats(1e-3, 100)),
        slew=draw(st.floats(1e-3, 1e4)),
        rate_hz=rate,
        stale_after_ms=stale,
        zero_within_ms=stale + max(10_001 / rate, 4.01) + draw(st.floats(0, 100)),
        **changes,
    )


TORQUES = st.one_of(st.floats(-1e3, 1e3), st.floats(allow_nan=True, allow_infinity=True))


@settings(max_examples=60, deadline=None)
@given(
    some_settings(),
    st.lists(st.tuples(st.integers(50_000, 60 * MS), TORQUES), min_size=1, max_size=30),
    st.integers(0, 30_000),
)
def test_never_beyond_the_limit_nor_faster_than_allowed_nor_late_at_zero(
    effort: EffortSettings, steps: list[tuple[int, float]], read_ns: int
) -> None:
    world = World(effort, read_ns=read_ns)
    t = 0
    valid = []
    for gap, torque in steps:
        t += gap
        world.step(t, torque)
        if math.isfinite(0.1 * torque):
            valid.append(START + t)
    found = world.run(t + 400 * MS)
    value, at = found["given"][:-1], found["t_ns"][:-1]
    assert np.isfinite(value).all() and (np.abs(value) <= effort.limit).all()
    # from one to the next; instants, also those at which it must begin to fall and be at zero, are whole nanoseconds
    moved, passed = np.abs(np.diff(value)), (np.diff(at) + 1) * 1e-9
    falling = found["status"][1:-1] & rec.WATCHDOG != 0
    fastest = np.where(falling, effort.fall, effort.slew)
    assert (moved <= fastest * passed * (1 + 1e-9) + 1e-12 * effort.limit).all()
    # after the last step that came
    for came, following in itertools.pairwise([*valid, START + t + 400 * MS]):
        end = came + round(1e6 * effort.zero_within_ms)
        late = (at >= end) & (at < following)
        assert (value[late] == 0.0).all()
        if end < following:
            before = value[at <= end]
            assert before.size == 0 or before[-1] == 0.0
    counted = sum(world.count(c) for c in (rec.USED, rec.SUPERSEDED, rec.INVALID))
    assert counted == len(steps)
    assert found["given"][-1] == 0.0 and found["status"][-1] == rec.ENDED
    assert_recomputed(world, found, least=0.0)


def test_it_arrives_where_it_is_asked_to_go_as_fast_as_it_may() -> None:
    world = World(configured(rate_hz=1000.0))
    for k in range(400):
        world.step(k * MS, 3.0 if k < 200 else -1e9)
    found = world.run(400 * MS)
    rise = (found["t_ns"] - START) / MS
    assert found["given"][rise < 200][-1] == pytest.approx(0.3) and found["given"][-2] == -0.5
    arrived = rise[np.flatnonzero(found["given"] == found["given"][rise < 200][-1])[0]]
    assert arrived == pytest.approx(0.3 / 5.0 * 1e3, abs=2.0)
    assert set(found["status"][rise < 50]) == {rec.SLEWED} and found["status"][-2] == rec.LIMITED
    assert world.count(rec.LIMITS) == 200


def test_between_steps_it_goes_on_until_it_is_there_and_then_rests() -> None:
    world = World(configured(slew=10.0, rate_hz=1000.0), step_ns=50 * MS)
    world.step(0, 1.0)  # the first effort has no time to move in
    found = world.run(25 * MS)[:-1]
    assert np.diff(found["t_ns"]).tolist() == [MS] * (len(found) - 1)
    assert np.diff(found["given"])[:10] == pytest.approx([0.01] * 10) and found["given"][-1] == 0.1
    assert found["t_ns"][-1] - found["t_ns"][0] <= 11 * MS


# ---- the watchdog ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("received", [False, True], ids=["shared memory", "off a wire"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("last_ns", [0, 1, 33_333, 499_999, 500_001, 999_999])
def test_from_the_limit_it_is_at_zero_exactly_in_time(received: bool, sign: float, last_ns: int) -> None:
    """Whenever the simulator stops: the ramp is a straight line in time, from the limit at `stale_after_ms`."""
    effort = configured(stale_after_ms=20.0, zero_within_ms=60.0, rate_hz=1000.0)
    world = World(effort)
    for k in range(200):
        world.step(k * MS, sign * 1e6, received=received)
    last = 199 * MS + last_ns + MS
    world.step(last, sign * 1e6, received=received)
    found = world.run(last + 100 * MS)
    age = found["t_ns"] - START - last + SAMPLE_AGE
    assert set(found["given"][(age >= SAMPLE_AGE) & (age < 20 * MS)]) == {sign * 0.5}
    falling = (age >= 20 * MS) & (age < 58 * MS)
    assert falling.sum() >= 35
    line = sign * 0.5 * (58 * MS - age[falling]) / (38 * MS)
    assert found["given"][falling] == pytest.approx(line, abs=1e-12)
    first_zero = age[(age > 0) & (found["given"] == 0.0)][0]
    assert first_zero == 58 * MS  # two periods before what is promised
    assert world.count(rec.ZEROED) == 1
    assert_recomputed(world, found)


def test_a_loop_that_wakes_late_is_at_zero_all_the_same() -> None:
    """What counts is the time that has passed, however few efforts there are."""
    world = World(configured(stale_after_ms=20.0, zero_within_ms=60.0), read_ns=3 * MS)
    for k in range(100):
        world.step(k * 5 * MS, 1e6)
    found = world.run(900 * MS)
    age = found["t_ns"] - START - 495 * MS
    falling = found["given"][age > 20 * MS]
    assert falling[0] > 0.0 and len(falling) <= 5
    assert (found["given"][age >= 58 * MS] == 0.0).all()


def test_not_finite_is_no_news() -> None:
    effort = configured(stale_after_ms=20.0, zero_within_ms=60.0)
    silent, nonsense = World(effort), World(effort)
    for k in range(100):
        silent.step(k * MS, 4.0)
        nonsense.step(k * MS, 4.0)
    for k in range(100, 200):
        nonsense.step(k * MS, (math.nan, math.inf, -math.inf)[k % 3])
    found = nonsense.run(200 * MS)
    assert nonsense.count(rec.INVALID) == 100 and nonsense.count(rec.ZEROED) == 1
    assert found["given"].tolist() == silent.run(200 * MS)["given"].tolist()


@pytest.mark.parametrize("found_again", [True, False], ids=["held", "not in the ring"])
def test_steps_of_motion_that_has_stopped_end_at_zero_as_if_there_were_none(found_again: bool) -> None:
    """The simulator goes on with the last block it has, or with one of which nothing is known here."""
    effort = configured(stale_after_ms=20.0, zero_within_ms=60.0, rise_ms=10.0)
    world = World(effort)
    for k in range(300):
        world.step(k * MS, 4.0)
        if 100 <= k < 200:
            world.pushed[-1][PAYLOAD + 1 : PAYLOAD + 3] = (99, 7) if found_again else (k, 6)
    found = world.run(300 * MS)
    t, value = (found["t_ns"] - START) / MS, found["given"]
    assert value[t < 100][-1] == pytest.approx(0.4) and found["given"][-2] == pytest.approx(0.4)
    assert (value[(t >= 99 + 60) & (t < 200)] == 0.0).all()
    assert world.count(rec.ZEROED) == 1 and world.count(rec.OLD) >= 79
    assert (value[(t >= 200) & (t < 209)] < 0.4).all()  # and rises softly again
    assert_recomputed(world, found)


def test_steps_that_come_again_are_followed_again() -> None:
    world = World(configured(stale_after_ms=20.0, zero_within_ms=60.0))
    for k in (*range(100), *range(200, 300)):
        world.step(k * MS, 2.0)
    world.at(150 * MS, NEW_EPOCH)
    found = world.run(300 * MS)
    assert found["given"][-2] == pytest.approx(0.2) and world.count(rec.ZEROED) == 1
    assert world.count(rec.EPOCHS) == 2
    assert_recomputed(world, found)


def test_a_step_from_the_future_gets_old_too() -> None:
    world = World(configured(stale_after_ms=20.0, zero_within_ms=60.0))
    for k in range(50):
        world.step(k * MS, 1e6)
        world.events[-1][3][PUSHED] += 3600 * 10**9
    found = world.run(200 * MS)
    age = found["t_ns"] - START - 49 * MS
    assert np.abs(found["given"]).max() > 0.0 and (found["given"][age >= 60 * MS] == 0.0).all()


# ---- rings -----------------------------------------------------------------------------------------------------------


def test_a_ring_made_anew_is_followed_and_falls_to_zero_in_between() -> None:
    world = World(configured(stale_after_ms=20.0, zero_within_ms=60.0, displacement="angle"))
    for k in range(50):
        world.step(k * MS, 3.0, 0.01 * k)
    world.at(50 * MS, STATE, 0, CLOSED)
    world.at(200 * MS, CONTROL, rec.LEAVE, 1)
    for k in range(201, 300):
        world.step(k * MS, 2.0, 100.0 + 0.01 * k, ring=1)
    ends: list[int] = []

    class Turns(EffortLoop):
        def run_on_ring(self) -> int:
            ends.append(super().run_on_ring())
            if ends[-1] == rec.LEFT:
                world.followed = world.readers[1]
                ends.append(super().run_on_ring())
            return ends[-1]

    world.kind = Turns
    found = world.run(300 * MS, rings=2)
    assert ends == [rec.RING_CLOSED, rec.LEFT, rec.STOPPED]
    between = (found["t_ns"] > START + 110 * MS) & (found["t_ns"] < START + 200 * MS)
    assert (found["given"][between] == 0.0).all() and world.count(rec.ZEROED) == 1
    assert found["given"][-2] == pytest.approx(0.2)
    assert np.abs(found["energy"]).max() < 5.0  # no energy for the jump from one life to the next
    assert world.count(rec.USED) + world.count(rec.SUPERSEDED) == 149 and world.count(rec.SKIPPED) == 0


@pytest.mark.parametrize("same_ring", [True, False])
def test_steps_that_a_change_of_ring_skips_are_counted(same_ring: bool) -> None:
    """Also of a simulator that comes back in its own ring: every step is used, superseded or skipped."""
    world = World(configured(stale_after_ms=20.0, zero_within_ms=60.0))
    for k in range(200):
        world.step(k * MS, 3.0, ring=0 if k < 50 or same_ring else 1)
    for t in (50, 100):
        world.at(t * MS + 100_000, CONTROL, rec.LEAVE, 1)

    class Turns(EffortLoop):
        def run_on_ring(self) -> int:
            ended = super().run_on_ring()
            if ended == rec.LEFT and world.followed is not None:
                world.followed = None
            elif ended == rec.LEFT:
                world.followed = world.readers[0 if same_ring else 1]
            return ended

    world.kind = Turns
    world.run(210 * MS, rings=2)
    assert 45 <= world.count(rec.SKIPPED) <= 55
    counted = (rec.USED, rec.SUPERSEDED, rec.INVALID, rec.SKIPPED)
    assert sum(world.count(counter) for counter in counted) == 200


def test_outputs_that_the_simulator_does_not_have_are_named() -> None:
    world = World(configured(displacement="angle"))
    world.run(MS)
    angle = Channel("angle", "f8")
    # of another type its bits are no effort
    without = Layout((angle,)), Layout((angle, Channel("steering_torque", "i8")))
    for layout, missing in ((without[0], ["steering_torque"]), (without[1], ["steering_torque"]), (STEP, [])):
        world.followed = FakeReader(private_ring(layout, 64), layout)
        assert world.loop.run_on_ring() == rec.STOPPED and world.loop.missing == missing


def test_a_ring_that_does_not_fit_is_left_alone_until_there_is_another() -> None:
    world = World(configured(channel="no_such_output"))
    for k in range(20):
        world.step(k * MS, 3.0)
    found = world.run(50 * MS)
    assert len(found) == 1 and world.loop.missing == ["no_such_output"]
    world.loop.poll()
    assert world.loop.control[rec.LEAVE] == 0
    world.followed = FakeReader(world.rings[0], STEP)
    world.loop.poll()
    assert world.loop.control[rec.LEAVE] == 1


# ---- the port --------------------------------------------------------------------------------------------------------


class Wall:
    """A mass against a virtual wall whose force comes late: sampling and delay make energy.

    Returns angle and what the wall asks for, step by step; `given` is what the mass feels."""

    def __init__(self, stiffness: float = 2000.0, delay: int = 4):
        self.x, self.v, self.mass, self.h = 0.01, -0.2, 0.5, 1e-3
        self.stiffness, self.late = stiffness, [0.0] * delay

    def asks(self) -> float:
        self.late.append(self.stiffness * self.x if self.x < 0.0 else 0.0)
        return self.late.pop(0)

    def feels(self, effort: float) -> None:
        """An effort that opposes positive displacement, for a step."""
        for _ in range(10):
            self.v += 0.1 * self.h * (-effort / self.mass)
            self.x += 0.1 * self.h * self.v


def bounce(damp: bool, steps: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """(displacement, energy) of a mass that bounces off the wall, pushed back whenever it flies away."""
    from daq_service.effort import advance_effort, new_cursor, new_past, settings_of
    from sync.compile.jit import kernel

    @kernel(cache=False)
    def advance(s, cursor, past, moment, came, output, displacement):
        advance_effort(s, cursor[0], moment, True, came, output, displacement, 1, came, past)

    effort = configured(gain=1.0, limit=1e6, slew=1e12, rate_hz=1000.0, displacement="angle", damp=damp)
    s, cursor, wall = settings_of(effort, MS, True, True), new_cursor(), Wall()
    past = new_past()
    found = np.zeros((steps, 2))
    for k in range(steps):
        advance(s, cursor, past, START + k * MS, START + k * MS, wall.asks(), wall.x)
        found[k] = wall.x, cursor["energy"][0]
        wall.feels(float(cursor["applied"][0]))
        if wall.x > 0.02:
            wall.v = -abs(wall.v)
    return found[:, 0], found[:, 1]


@pytest.mark.parametrize(("age_ms", "power", "share"), [(1.0, 1, 1.0), (2.0, 1, 1.0), (4.5, 1, 0.5), (4.5, 3, 0.125)])
def test_an_effort_of_older_motion_than_limits_hold_for_is_less_at_once(
    age_ms: float, power: int, share: float
) -> None:
    """By half a step and the delay over half a step and the age; and it says so."""
    from daq_service.effort import advance_effort, new_cursor, new_past, settings_of
    from daq_service.effort_record import LOWERED
    from sync.compile.jit import kernel

    @kernel(cache=False)
    def advance(s, cursor, past, moment, sampled):
        advance_effort(s, cursor[0], moment, True, moment, 3.0, 0.0, 1, sampled, past)

    effort = configured(gain=1.0, limit=10.0, slew=1e9, delay_ms=2.0, late_power=power)
    s, cursor = settings_of(effort, MS, True, True), new_cursor()
    for k in range(2):
        advance(s, cursor, new_past(), START + k * MS, START + k * MS - round(1e6 * age_ms))
    assert cursor["applied"][0] == pytest.approx(3.0 * share)
    assert bool(cursor["status"][0] & LOWERED) == (share < 1.0)


def test_the_controller_keeps_a_port_passive_that_a_delay_makes_active() -> None:
    plain, damped = bounce(False), bounce(True)
    assert plain[1].min() < -1.0  # it gives out ever more
    # what a wrong guess of the next displacement lets through is paid back
    assert damped[1].min() > 0.02 * plain[1].min()
    assert np.abs(damped[0]).max() < np.abs(plain[0]).max()


@settings(max_examples=40, deadline=None)
@given(
    some_settings(displacement="angle", displacement_gain=-0.5),
    st.lists(st.tuples(st.floats(-20, 20), st.floats(-3, 3)), min_size=2, max_size=60),
    st.booleans(),
)
def test_the_energy_is_the_sum_of_effort_times_displacement(
    effort: EffortSettings, steps: list[tuple[float, float]], damp: bool
) -> None:
    """Against a sum over what was handed over, and when."""
    world = World(effort.model_copy(update={"damp": damp}))
    for k, (torque, angle) in enumerate(steps):
        world.step(k * MS, torque, angle)
    found = world.run(len(steps) * MS)[:-1]
    t, value = (found["t_ns"] - START) * 1e-9, found["given"] / 0.1
    first = np.flatnonzero(np.diff(found["step_seq"], prepend=-1))  # effort of each step
    energy = [0.0]
    for a, b in itertools.pairwise(first):
        impulse = math.fsum(value[i] * (t[i + 1] - t[i]) for i in range(a, b))
        mean = impulse / (t[b] - t[a])
        way = -0.5 * (found["displacement"][b] - found["displacement"][a])
        energy.append(energy[-1] + mean * way)
    assert found["energy"][first] == pytest.approx(energy, rel=1e-6, abs=1e-9)
    assert ((found["energy"] < 0) == (found["status"] & rec.ACTIVE != 0)).all()
    assert world.loop.cursor["least_energy"][0] == min(found["energy"].min(), 0.0)
    assert_recomputed(world, found, least=0.0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=3, max_size=200), st.floats(0.01, 1.0))
def test_at_a_steady_pace_nothing_is_given_out_that_was_not_put_in(torques: list[float], way: float) -> None:
    """Where the next displacement is as expected, and neither limit nor slew stands in the way."""
    effort = configured(gain=1.0, limit=1e4, slew=1e12, rate_hz=10_000.0, displacement="angle", damp=True)
    world = World(effort)
    for k, torque in enumerate(torques):
        world.step(k * MS, torque, way * k)
    found = world.run(len(torques) * MS)[:-1]
    energy = found["energy"][np.flatnonzero(np.diff(found["step_seq"], prepend=-1))]
    # the first displacement is not expected, for there is none before; what it gave out is paid back at once
    assert energy[2:].min() >= -1e-9 * max(1.0, np.abs(energy).max())
    limits_seen = found["status"] & rec.DAMPED != 0
    assert world.count(rec.DAMPINGS) == limits_seen.sum()


def test_a_displacement_that_is_not_finite_or_after_a_gap_adds_no_energy() -> None:
    world = World(configured(slew=1e9, displacement="angle"))
    for k, angle in enumerate((0.0, 1.0, math.nan, 500.0, 501.0)):
        world.step(k * MS, 1.0, angle)
    world.at(4 * MS + 1, NEW_EPOCH)
    world.step(5 * MS, 1.0, 1e6)
    world.step(6 * MS, 1.0, 1e6 + 1)
    found = world.run(7 * MS)
    energy = found["energy"][np.flatnonzero(np.diff(found["step"], prepend=-1))]
    # the first effort is zero, for it has no time to rise; then 1 N m each
    assert energy == pytest.approx([0, 0, 0, 0, 1, 1, 2], abs=1e-9)


# ---- the round trip --------------------------------------------------------------------------------------------------


def test_the_hops_of_a_round_trip_add_up_to_it() -> None:
    world = World(configured(), read_ns=1000)
    for k in range(500):
        world.step(k * MS + 100_000, 1.0)
    found = world.run(500 * MS + 100_000)
    hops = world.loop.figures()["round_trip_us"]
    assert {name: hop["n"] for name, hop in hops.items()} == dict.fromkeys(rec.LEDGER, 500)
    parts = sum(hops[rec.LEDGER[row]]["mean"] for row in (rec.SENSOR, rec.THERE, rec.STEP, rec.BACK, rec.HAND))
    assert hops["round_trip"]["mean"] == pytest.approx(parts, abs=0.01)
    assert hops["beyond_step"]["mean"] == pytest.approx(parts - hops["step"]["mean"], abs=0.01)
    assert hops["sensor"]["mean"] == 30.0 and hops["step"]["mean"] == 60.0 and hops["there"]["mean"] == 20.0
    assert 0 < hops["back"]["p99"] <= 60.0  # a look every twentieth of a step
    first = found[np.flatnonzero(np.diff(found["step_seq"], prepend=-1))][:-1]
    assert (first["sampled_ns"] == first["step_pushed_ns"] - 110_000).all()
    assert (first["pushed_ns"] >= first["taken_ns"]).all()


def test_a_sample_that_has_left_the_ring_has_no_round_trip() -> None:
    world = World(configured())
    for k in range(10):
        world.step(k * MS, 1.0)
        world.events[-1][3][PAYLOAD + 2] = 6  # of an epoch that our ring does not have
    world.run(10 * MS)
    assert world.count(rec.UNDATED) == 10 and world.loop.figures()["round_trip_us"]["round_trip"]["n"] == 0


# ---- a device whose hand-over is Python ------------------------------------------------------------------------------


class Hand:
    def __init__(self, clock: VirtualClock):
        self.effort, self.clock = configured(), clock
        self.given: list[float] = []

    def put(self, value: float) -> None:
        self.given.append(value)


def test_a_python_device_gets_the_newest_effort_and_zero_from_a_loop_that_hangs() -> None:
    from sync.ring.ledger import histograms
    from sync.ring.ring import HEARTBEAT_WORD

    clock = virtual_clock(START, read_ns=0)
    hand, efforts, ledger = Hand(clock), private_ring(rec.LAYOUT, 16), histograms(len(rec.LEDGER))
    thread = DeviceThread(hand, efforts, ledger, clock)  # type: ignore[arg-type]
    block = np.zeros(rec.LAYOUT.words, np.int64)
    block[[rec.AT_SAMPLED, rec.AT_TAKEN, rec.AT_STEP_NS]] = START - 3 * MS, START, MS
    efforts[HEARTBEAT_WORD] = START
    thread.turn()
    for value in (0.1, 0.2):
        block.view(np.float64)[rec.AT_GIVEN] = value
        push(efforts, block)
    thread.turn()
    thread.turn()
    assert hand.given == [0.0, 0.2, 0.2]
    assert clock.now_ns() - START == 6 * MS  # at its own rate
    from sync.ring.ledger import summary_us

    assert summary_us(ledger[rec.ROUND_TRIP])["max"] == 7000.0 and summary_us(ledger[rec.BEYOND])["max"] == 6000.0
    assert summary_us(ledger[rec.HAND])["n"] == 1
    efforts[HEARTBEAT_WORD] = START - 200 * MS
    thread.turn()
    assert hand.given[-1] == 0.0

    class Stopped:
        def is_set(self) -> bool:
            return True

    efforts[HEARTBEAT_WORD] = clock.now_ns()
    thread.run(Stopped())  # type: ignore[arg-type]
    assert hand.given[-1] == 0.0


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stale_after_ms": 30.0, "zero_within_ms": 40.0}, r"zero_within_ms = 40 leaves no time.*at least 50"),
        ({"rate_hz": 10_000.0, "zero_within_ms": 33.0}, r"zero_within_ms = 33 leaves no time.*at least 34"),
        ({"damp": True}, r"damp = true needs displacement"),
        ({"rate_hz": 20_000.0}, r"rate_hz"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        configured(**changes)


# ---- a soft start, and energy at sample instants ---------------------------------------------------------------------


def test_the_limit_rises_softly_at_the_start_and_again_after_a_silence() -> None:
    world = World(configured(rise_ms=20.0, slew=1e6, rate_hz=1000.0, stale_after_ms=5.0, zero_within_ms=30.0))
    for k in [*range(1, 60), *range(160, 200)]:
        world.step(k * MS, 100.0)
    found = world.run(200 * MS)
    t, value = (found["t_ns"] - START) / MS, found["given"]
    for came, end in ((1.0, 59.0), (160.0, 199.0)):
        here = (t >= came) & (t <= end)
        begun = t[here][0]
        assert begun <= came + 1.0  # after a silence it looks for steps every millisecond
        assert value[here] == pytest.approx(np.minimum((t[here] - begun) / 20.0, 1.0) * 0.5, abs=1e-12)
        rising = found["status"][here] & rec.RISING != 0
        assert (rising == (t[here] - begun < 20.0)).all() and rising.sum() >= 20
    assert (value[(t > 90.0) & (t < 160.0)] == 0.0).all()
    assert_recomputed(world, found)


def test_a_loop_that_stood_still_begins_from_zero() -> None:
    """Stopped for longer than a step stays fresh, and then with a new one at once: the device has let go meanwhile."""
    from daq_service.effort import advance_effort, new_cursor, new_past, settings_of
    from sync.compile.jit import kernel

    @kernel(cache=False)
    def advance(s, cursor, past, moment):
        advance_effort(s, cursor[0], moment, True, moment, 3.0, 0.0, 1, moment, past)

    effort = configured(rise_ms=20.0, slew=1e6, rate_hz=1000.0, stale_after_ms=5.0, zero_within_ms=30.0)
    s, cursor, past = settings_of(effort, MS, True, True), new_cursor(), new_past()
    given = []
    for at in [*range(1, 60), *range(64, 70), *range(170, 200)]:  # 4 ms are nothing, 100 are
        advance(s, cursor, past, START + at * MS)
        given.append(float(cursor["applied"][0]))
    assert given[58:65] == [given[58]] * 7 and given[58] > 0.0
    assert given[65] == 0.0 and 0.0 < given[66] < given[67] < given[58] == given[-1]


@pytest.mark.parametrize("gaps", [[(30, 33)], [(1, 2)], [(3, 50), (60, 61), (63, 64)], [(0, 12)]])
@pytest.mark.parametrize("energy_at", ["step", "sample"])
def test_a_gap_in_the_record_differs_nowhere(gaps: list[tuple[int, int]], energy_at: str) -> None:
    """Inside a rise, whose beginning may be lost, and with steps whose way began before the gap."""
    effort = configured(
        rise_ms=60.0, slew=20.0, limit=2.0, rate_hz=3000.0, displacement="angle", energy_at=energy_at, damp=True
    )
    world = World(effort)
    for k in range(150):
        world.step((k + 1) * MS, 30.0 * math.sin(0.2 * k), 0.01 * math.sin(0.31 * k))
    found = world.run(151 * MS)
    left = np.ones(len(found), bool)
    for begin, end in gaps:
        left[begin:end] = False
    again, compared = recompute(effort, world.made_steps(), found[left])
    assert again[compared].tobytes() == found[left][compared].tobytes()
    assert compared.sum() >= 0.5 * len(found) and (found["status"][left] & rec.DAMPED).any()


@pytest.mark.parametrize("every, rate", [(1, 1000.0), (20, 10_000.0)])
def test_energy_at_samples_counts_efforts_from_when_they_were_handed_over(every: int, rate: float) -> None:
    """A step is made 60 us, its sample 110 us before it is pushed; a displacement is that of the sample."""
    world = World(
        configured(displacement="angle", energy_at="sample", limit=1e6, slew=1e12 if every == 1 else 10.0, rate_hz=rate)
    )
    for k in range(40):
        world.step((k + 1) * every * MS, 3.0 * k, -0.01 * math.sin(0.3 * k))
    found = world.run(41 * every * MS)[:-1]
    assert every == 1 or len(found) > 64 * 40
    first = np.flatnonzero(np.diff(found["step_seq"], prepend=-1))
    sampled, place = found["sampled_ns"][first], found["displacement"][first]
    handed, effort = found["t_ns"], found["given"] / 0.1
    energy = [0.0]
    for a, b, x, y in zip(sampled, sampled[1:], place, place[1:], strict=False):
        edges = np.unique(np.clip([a, *handed, b], a, b))
        mean = sum(
            (v - u) * (effort[handed <= u][-1] if (handed <= u).any() else 0.0) for u, v in itertools.pairwise(edges)
        ) / (b - a)
        energy.append(energy[-1] + mean * (y - x))
    assert found["energy"][first] == pytest.approx(energy, rel=1e-9, abs=1e-12)
    assert_recomputed(world, found)
