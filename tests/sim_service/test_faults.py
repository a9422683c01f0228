"""Stale input and diverging models: what becomes of them is promised by docs/faults.md, and asserted on what the loop
itself recorded; all of it is the same to the bit when it is replayed."""

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_service import step_record
from sim_service.contract.machine import STEP
from sim_service.inputs.stages import EXTRAPOLATED, FRESH, HELD, RAMPED, SAFE, in_words, stage_of
from sim_service.inputs.stale import stale_value
from sim_service.many_steps import run_steps
from sim_service.notices import CALM_NS, WINDOW_NS, ClippedInput, Overload, StaleInput, divergence_message
from sim_service.replay import INITIAL, REPORTED, Plan, obeyed_as_recorded, replay
from sim_service.simulation import Simulation
from sim_service.step_kernel import OVER
from sync.clock import now_ns, sleep_until
from sync.compile.jit import kernel
from sync.config.config import load
from sync.errors import ConfigError, Diverged
from sync.ring.follower import RingFollower
from sync.ring.ring import RingReader, newest
from sync.transport.wire import Publisher, Receiver, context
from tandem.library.batch import Batch
from tandem.offline.model import Model
from tests.examples import few
from tests.sim_service.conftest import DRIVE, World
from tests.sim_service.puppet import MACHINE as PUPPET
from tests.sim_service.test_commands import Commanded
from tests.sim_service.test_replay import Record, afresh, assert_same, record

MS = 1_000_000
Make = Callable[..., World]
STEERING, THROTTLE, BRAKE = range(3)


def flagged(steps: np.ndarray, bit: int) -> np.ndarray:
    found: np.ndarray = (steps["status"] & bit) != 0
    return found


def stages(steps: np.ndarray, channel: int) -> np.ndarray:
    found: np.ndarray = steps["input_stages"] >> (4 * channel) & 15
    return found


def assert_replays(found: Record) -> None:
    """The same bits, and the same words about them."""
    plan = found.plan()
    told = np.zeros((len(plan), len(REPORTED)), np.int64)
    assert_same(found, replay(afresh(found.world), plan, reported=told))
    assert (told[:, 0] == found.steps["input_stages"]).all()
    assert ((told[:, 1] != 0) == flagged(found.steps, step_record.CLIPPED)).all()
    assert ((told[:, 2] != 0) == flagged(found.steps, step_record.DIVERGED)).all()


# ---- what age does to a value ----------------------------------------------------------------------------------------

spans = st.sampled_from([0.0, 1.0, 5e6, 1e8]) | st.floats(1.0, 6e10)
values = st.floats(-30.0, 30.0)


@given(values, st.floats(-20.0, 20.0), spans, spans.filter(lambda s: s <= 1e9), spans, values)
@settings(deadline=None, database=None, max_examples=few(400))
def test_age_moves_a_value_without_a_jump_from_what_was_read_to_what_is_safe(
    value: float, speed: float, hold: float, extrapolate: float, ramp: float, safe: float
) -> None:
    par = np.array([hold, extrapolate, ramp, safe])
    ends = [0.0, hold, hold + extrapolate, hold + extrapolate + ramp]

    def at(since: float) -> tuple[float, float, int]:
        return stale_value(value, speed, since, par)  # type: ignore[no-any-return]

    # fresh is untouched
    assert at(0.0) == at(-5.0) == (value, speed, FRESH)
    # no boundary is a jump: a nanosecond is worth what the fastest stage moves in it, and what rounding adds
    end = value + speed * (extrapolate * 1e-9)
    slope = max(abs(speed), abs(safe - end) / (ramp * 1e-9) if ramp else 0.0)
    for boundary in ends if ramp != 0.0 else ends[:-1]:
        before, after = at(max(boundary - 0.5, 0.0))[0], at(boundary + 0.5)[0]
        assert abs(after - before) <= slope * 1e-9 * 1.001 + 1e-9
    # stages come in order, at the speed the value has
    instants = sorted({max(e + d, 1.0) for e in ends for d in (-0.5, 0.5, 0.3 * ramp, 0.9 * ramp, 0.4 * extrapolate)})
    found = [at(since) for since in instants]
    assert [stage for *_, stage in found] == sorted(stage for *_, stage in found)
    for _, moving, stage in found:
        assert stage in (EXTRAPOLATED, RAMPED) or moving == 0.0
    ramped = [v for v, _, stage in found if stage == RAMPED]
    assert ramped in (sorted(ramped), sorted(ramped, reverse=True))
    assert all(min(end, safe) <= v <= max(end, safe) for v in ramped)
    for (a, moving, one), (b, _, other), (since, later) in zip(
        found, found[1:], itertools.pairwise(instants), strict=False
    ):
        if one == other and later - since > 1e3:
            assert b - a == pytest.approx(moving * (later - since) * 1e-9, rel=1e-6, abs=1e-9)
    # and the end is exactly what was asked for
    last = at(ends[-1] + 1.0)
    if ramp:
        assert last == (safe, 0.0, SAFE) and at(1e15) == last
    else:
        assert last == (end, 0.0, EXTRAPOLATED if extrapolate else HELD)


@pytest.mark.parametrize(
    "changed, why",
    [
        ("inputs.throttle.stale.extrapolate_ms=10", "throttle.stale.extrapolate_ms = 10: .* makes no rate"),
        (
            'inputs.steering={kind="encoder", channel="steering", per_count=1.0, estimator="source",'
            " stale={extrapolate_ms=10}}",
            "inputs.steering: stale.extrapolate_ms = 10: estimator must be 'kalman'",
        ),
        ("inputs.brake.stale.safe=-1", "inputs.brake: stale.safe = -1 must be from least = 0"),
        ("sim.stale.stop=never", "'pause' or 'end'"),
        ("sim.overload=hurry", "'catch_up' or 'skip'"),
    ],
)
def test_policies_that_cannot_be_are_refused(changed: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(DRIVE, [changed])


# ---- sources that freeze, slow down, are corrupted, die --------------------------------------------------------------

POLICY = (
    "sim.step_ms=2", "sim.stale_after_ms=100", "inputs.steering.estimator=kalman",
    "inputs.steering.stale={hold_ms=50, extrapolate_ms=60, ramp_ms=80, safe=10}",
    "inputs.throttle.stale={hold_ms=40, ramp_ms=100, safe=0.125}",
    "inputs.brake.stale={hold_ms=60, ramp_ms=120, safe=5}",
)  # fmt: skip
ENDS_MS = ((0, 50, 110, 190), (0, 40, 40, 140), (0, 60, 60, 180))  # of fresh, held, extrapolated, ramped


def assert_stages_are_those_of_the_age(steps: np.ndarray, stale_ms: float = 100.0) -> None:
    """Each channel goes its way, by the age that was recorded."""
    age = steps["input_age_ns"] / MS - stale_ms
    for channel, ends in enumerate(ENDS_MS):
        by_hand = sum((age > end).astype(int) for end in ends)
        assert (stages(steps, channel) == by_hand)[~np.isin(age, ends)].all()
    assert (flagged(steps, step_record.STALE) == (steps["input_stages"] != 0)).all()


def turning(world: World, count: int = 60) -> None:
    """A wheel that has turned steadily, a block a millisecond up to now; both pedals a little pressed."""
    for k in range(count):
        world.push(steering=4 * k, throttle=210, brake=8192, age_ns=(count - 1 - k) * MS)


def test_a_source_that_freezes_is_held_extrapolated_ramped_and_waited_for(world: Make) -> None:
    live = world(*POLICY, "sim.stale.stop_after_ms=300")
    turning(live)
    live.start()
    frozen = live.daq.head - 1
    live.let_pass(550 * MS)  # 150 of them without a step
    assert (
        live.simulation.control[step_record.LOST_NS] > 400 * MS and live.simulation.control[step_record.LOST_ROW] == -1
    )
    made = live.results.head
    live.let_pass(50 * MS)
    assert live.results.head == made and live.running and live.heartbeat_age_ns < 3 * MS
    live.push(throttle=210)
    live.wait_for_steps(made + 20)
    live.ask(step_record.NOW)
    steps = live.join()

    old = steps[steps["input_seq"] == frozen]
    age = old["input_age_ns"].astype(float)
    assert age.max() <= 400 * MS and live.count(step_record.STARVED) > 30
    assert_stages_are_those_of_the_age(steps)
    for channel in range(3):
        assert {*stages(old, channel)} == {FRESH, HELD, RAMPED, SAFE} | ({EXTRAPOLATED} if channel == 0 else set())
    assert live.count(step_record.STALES) == flagged(steps, step_record.STALE).sum()
    # the wheel: its speed fits what it does, and it ends where it is safe
    fresh, angle, speed = (
        stages(old, STEERING) == FRESH,
        old["steering_angle"],
        old["steering_speed"],
    )
    last, turned = angle[fresh][-1], speed[fresh][-1]
    assert turned == pytest.approx(math.radians(0.18) * 4000, rel=0.05)
    assert (angle[stages(old, STEERING) == HELD] == last).all()
    going = stages(old, STEERING) == EXTRAPOLATED
    assert (
        angle[going] == pytest.approx(last + turned * (age[going] - 150 * MS) * 1e-9) and (speed[going] == turned).all()
    )
    ramp = stages(old, STEERING) == RAMPED
    furthest = last + turned * 0.06
    slope = (math.radians(10) - furthest) / 0.08
    assert angle[ramp] == pytest.approx(furthest + slope * (age[ramp] - 210 * MS) * 1e-9)
    assert speed[ramp] == pytest.approx(slope)
    assert (angle[stages(old, STEERING) == SAFE] == math.radians(10)).all()
    assert (old["steering_acceleration"][~fresh] == 0).all()
    # the pedals; and the torque is that of the pedal as it was used
    for channel, name, safe in ((THROTTLE, "throttle", 0.125), (BRAKE, "brake_pressure_bar", 5.0)):
        mine = old[name]
        held = mine[0]
        assert (mine[stages(old, channel) <= HELD] == held).all() and (mine[stages(old, channel) == SAFE] == safe).all()
        assert (np.diff(mine) * (safe - held) >= 0).all()
    assert old["drive_torque"][-1] < 0.6 * old["drive_torque"][0]
    # fresh again: from the start, after a pause that is told
    again = steps[steps["input_seq"] > frozen]
    assert flagged(again, step_record.RESTARTED)[0] and (again["steering_speed"] == 0).all()
    assert again["input_stages"][0] == 0 and again["throttle"][0] == 0.5
    assert_replays(record(live, steps))


def test_a_run_whose_input_is_lost_ends_where_that_is_asked_for(world: Make) -> None:
    over = world(*POLICY, "sim.stale.stop_after_ms=60", "sim.stale.stop=end")
    turning(over)
    over.start()
    steps = over.join()
    assert over.ended == step_record.INPUT_LOST
    assert over.simulation.control[step_record.LOST_NS] > 160 * MS >= steps["input_age_ns"].max()
    assert over.count(step_record.USED) + over.count(step_record.SUPERSEDED) == over.daq.head
    assert_replays(record(over, steps))


def test_a_silent_wheel_of_fresh_blocks_goes_on_at_its_last_speed(world: Make) -> None:
    """A bus that loses one signal: blocks come, the angle in them gets older, and is extrapolated as if none came."""
    channels = ", ".join(f'{{name="{name}", type="i4"}}' for name in ("brake", "throttle", "steering"))
    bus = world(
        *POLICY, "sim.stale.stop_after_ms=0",
        f'daq.channels=[{channels}, {{name="steering_age_us", type="u4", unit="us"}}]',
    )  # fmt: skip
    bus.push(steering_age_us=0)
    bus.start()
    began, freezes = bus.now, 300 * MS
    while (n := bus.now - began) < 600 * MS:
        bus.push(steering=4 * (min(n, freezes) // MS), steering_age_us=max(n - freezes, 0) // 1000)
        bus.let_pass(MS)
    bus.ask(step_record.NOW)
    steps = bus.join()
    assert not flagged(steps, step_record.SKIPPED | step_record.LAPPED).any()
    extrapolated = steps[stages(steps, STEERING) == EXTRAPOLATED]
    per_s = math.radians(0.18) * 4000.0
    assert len(extrapolated) > 5
    assert extrapolated["steering_speed"] == pytest.approx(per_s, rel=0.2)
    assert np.diff(extrapolated["steering_angle"]).sum() > 0.5 * per_s * 0.002 * len(extrapolated)


def test_a_silent_channel_of_fresh_blocks_stops_the_model_and_is_named(world: Make) -> None:
    """Off a bus whose brake is silent: new blocks come, and all of them are accounted for."""
    ages = ", ".join(f'{{name="{name}_age_us", type="u4", unit="us"}}' for name in ("throttle", "brake"))
    channels = ", ".join(f'{{name="{name}", type="i4"}}' for name in ("brake", "throttle", "steering"))
    bus = world(*POLICY, "sim.stale.stop_after_ms=100", f"daq.channels=[{channels}, {ages}]")
    bus.push()
    bus.start()
    began = bus.now
    while bus.now - began < 400 * MS:
        bus.push(brake_age_us=(bus.now - began) // 1000, throttle_age_us=5)
        bus.let_pass(MS)
    assert (
        bus.simulation.control[step_record.LOST_ROW] == BRAKE and bus.simulation.control[step_record.LOST_NS] > 200 * MS
    )
    assert bus.count(step_record.STARVED) > 10
    bus.daq.close()  # a closed ring is noticed while the model stands still
    steps = bus.join()
    assert bus.ended == step_record.RING_CLOSED
    assert bus.count(step_record.USED) + bus.count(step_record.SUPERSEDED) == bus.daq.head
    assert {*stages(steps, STEERING)} == {*stages(steps, THROTTLE)} == {FRESH}
    assert {*stages(steps, BRAKE)} == {FRESH, HELD, RAMPED}


def test_slow_and_corrupted_sources_are_told_and_replayed(world: Make) -> None:
    """Few blocks a second; values that cannot be, a gap in the middle, blocks of the past and of tomorrow."""
    live = world(*POLICY, "sim.stale_after_ms=20", "inputs.throttle.full_counts=100")
    live.push(throttle=50)
    live.start()
    wrong = {2: {"steering": 2**31 - 1}, 3: {"throttle": 30_000}, 5: {"brake": -32768}, 6: {"age_ns": 300 * MS}}
    wrong[7] = {"age_ns": -3_600_000 * MS}
    for k in range(9):
        live.let_pass(60 * MS)
        if k == 4:
            live.daq.bump_epoch()
        live.push(**{"steering": 40 * k, "throttle": 50, **wrong.get(k, {})})
    live.let_pass(30 * MS)
    live.ask(step_record.NOW)
    steps = live.join()
    assert (flagged(steps, step_record.CLIPPED) == np.isin(steps["input_seq"], [3, 4, 6])).all()
    assert live.count(step_record.CLIPS) == flagged(steps, step_record.CLIPPED).sum() > 0
    limit = math.radians(1800)
    assert (np.abs(steps["steering_angle"]) <= limit).all() and (steps["throttle"] <= 1).all()
    assert (steps["brake_pressure_bar"] >= 0).all() and np.isfinite(steps["steering_speed"]).all()
    # every block gets old anew: that of the past was never fresh, that of tomorrow is so only when it comes
    assert_stages_are_those_of_the_age(steps, 20)
    past, tomorrow = (stages(steps[steps["input_seq"] == seq], STEERING) for seq in (7, 8))
    assert {*past} == {SAFE} and tomorrow[0] == FRESH and HELD in tomorrow
    assert_replays(record(live, steps))


def newest_of(world: World) -> np.ndarray:
    block = np.zeros((1, world.daq.layout.words), np.int64)
    newest(world.daq.words, block[0])
    return block


def test_a_source_that_sends_nonsense_is_a_silent_one(world: Make) -> None:
    """Over a real socket: a block, then messages that are none, then blocks again."""
    live = world(*POLICY, "sim.stale.stop_after_ms=0")
    endpoint, stop = live.config.endpoint("daq"), threading.Event()
    own = context()
    receiver = Receiver(own, endpoint, live.daq)

    def receive() -> None:
        receiver.connect()
        while not stop.is_set():
            receiver.receive()

    thread = threading.Thread(target=receive)
    thread.start()
    block = np.zeros(1, live.daq.layout.dtype)
    block["throttle"] = 210

    def until(done: Callable[[], bool], send: Callable[[], object] = lambda: None) -> None:
        """Sockets live in real time: until it has come, and again and again, for the first may find nobody."""
        end = now_ns() + 60_000 * MS
        while not done():
            assert now_ns() < end
            send()
            sleep_until(now_ns() + MS)

    def blocks(life: int) -> None:
        publisher = Publisher(own, endpoint, live.daq.layout)
        block["epoch"] = life

        def one() -> None:
            block["seq"] += 1
            block["t_ns"] = block["pushed_ns"] = live.now
            publisher.publish(block.view(np.int64))

        until(lambda: receiver.count()["epochs"] == life, one)
        if life == 1:
            live.start()
        made = live.results.head
        while live.results.head <= made + 20:
            one()
            until(lambda: live.daq.layout.view(newest_of(live))["seq"][0] == block["seq"][0])
            live.let_pass(MS)
        publisher.close()

    def nonsense() -> None:
        alien = own.socket(zmq.PUB)
        alien.bind(endpoint)
        junk = itertools.cycle([bytes(100), b"\x93\x01\x02", b""])
        until(lambda: receiver.count()["malformed"] > 5, lambda: alien.send(next(junk)))
        live.let_pass(400 * MS)
        alien.close()

    try:
        blocks(1)
        nonsense()
        blocks(2)
        live.ask(step_record.NOW)
        steps = live.join()
    finally:
        stop.set()
        thread.join()
        receiver.close()
        own.destroy(0)
        live.config.socket("daq").unlink(missing_ok=True)
    assert SAFE in stages(steps, THROTTLE) and SAFE in stages(steps, STEERING)
    assert (steps["throttle"][stages(steps, THROTTLE) == FRESH] == 0.5).all()
    assert steps["input_epoch"][-1] == 2 and stages(steps, THROTTLE)[-1] == FRESH
    assert_replays(record(live, steps))


# ---- models that diverge ---------------------------------------------------------------------------------------------


def braking(live: World, pattern: list[bool]) -> Record:
    """Ten milliseconds each with or without a pressed brake, and a wheel that turns all the while."""
    live.push()
    live.start()
    for k in range(10 * len(pattern)):
        if not live.running:
            break
        live.push(steering=3 * k, brake=8192 if pattern[k // 10] else 0)
        live.let_pass(MS)
    live.ask(step_record.NOW)
    return record(live, live.join())


@pytest.mark.parametrize("then", ["end", "reset", "keep"])
def test_a_model_that_diverges_leaves_nothing_behind_that_is_no_number(
    world: Make, puppet: Callable[..., str], then: str
) -> None:
    """While the brake is pressed the puppet leaves its bound and what it remembers the numbers."""
    settings = ("sim.step_ms=2", "inputs.steering.estimator=kalman", "sim.most_divergences=1000")
    live = world(*settings, f"sim.on_divergence={then}", puppet(bad_bar=5.0))
    found = braking(live, [False, False, True, False, True, False])
    steps = found.steps
    diverged = flagged(steps, step_record.DIVERGED)
    assert live.count(step_record.DIVERGENCES) == diverged.sum() > 0
    for channel in (*(q.name for q in live.simulation.model.inputs), "steps", "wheel_speed_rear"):
        assert np.isfinite(steps[channel]).all() and np.abs(steps[channel]).max() < 1e9
    assert np.isfinite(live.simulation.state).all() and np.isfinite(live.simulation.work).all()
    assert (diverged == (steps["brake_pressure_bar"] > 5.0)).all()  # with the inputs that did it
    assert live.simulation.divergence.offending[4] > 5.0
    if then == "end":
        assert live.ended == step_record.ENDED_DIVERGED and np.flatnonzero(diverged).tolist() == [len(steps) - 1]
        assert steps["steps"][-1] == steps["steps"][-2] == len(steps) - 1
    else:
        assert live.ended == step_record.STOPPED and 0 < diverged.sum() < len(steps)
        expected, n = [], 0
        for bad in diverged:
            n = n + 1 if not bad else n if then == "keep" else 0
            expected.append(n)
        assert steps["steps"].tolist() == expected
    assert_replays(found)


@kernel(STEP)
def _divides(state, inputs, params, tables, work, h):
    state[0] += 1.0
    work[0] = 1.0 / (3.0 - state[0])


@pytest.mark.parametrize(
    "then, diverged, last", [("end", [2], 2), ("reset", [2, 5, 8], 8), ("keep", [2, 3, 4, 5, 6, 7, 8, 9], 9)]
)
def test_a_step_that_divides_by_zero_has_diverged(
    puppet: Callable[..., str], request: pytest.FixtureRequest, then: str, diverged: list[int], last: int
) -> None:
    """As one that leaves its bounds: what is selected becomes of it, and a replay does the same."""
    live = World(puppet(), f"sim.on_divergence={then}", changed=lambda machine: replace(machine, step=_divides))
    request.addfinalizer(live.close)
    live.stream(live.h_ns, 20)
    found = record(live, live.run(10))
    assert np.flatnonzero(flagged(found.steps, step_record.DIVERGED)).tolist() == diverged
    assert (live.ended == step_record.ENDED_DIVERGED) == (then == "end") == (len(found.steps) == 3)
    assert divergence_message(live.simulation).startswith(f"at step {last} with steering")
    assert divergence_message(live.simulation).endswith(": its step raised an exception, such as by a division by zero")
    model, params = live.simulation.model, live.simulation.params
    assert_same(found, replay(Simulation(live.config, model, params), found.plan()))


def test_wherever_a_step_that_divides_by_zero_is_made_it_has_diverged() -> None:
    """In the hand, in a run of a study, in a copy of a batch."""
    machine = replace(PUPPET, step=_divides)
    params = np.array([p.value for p in machine.parameters])
    model = Model(machine, params)
    model.run({}, steps=2)
    with pytest.raises(Diverged, match=r"its step raised an exception, .*; it stands where it stood"):
        model.step({})
    assert model.state.tolist() == [2.0]
    inputs, work, bound = np.zeros(len(machine.inputs)), np.zeros(machine.work_size), 1e9
    rows, log = np.zeros((10, len(inputs))), np.zeros((10, 1))
    logged, outputs = np.zeros(1, np.int64), len(machine.outputs)
    made = run_steps(
        _divides, np.zeros(1), inputs, params, machine.tables, work, 0.005, rows, logged, log, outputs, bound
    )
    assert made == 2
    with Batch(Model(machine, params), 3, 0.005, 1) as copies:
        copies.states[1] = -10.0
        copies.step(steps=10)
        assert copies.diverged.tolist() == [1, 0, 1] and copies.states[:, 0].tolist() == [2.0, 0.0, 2.0]


@pytest.mark.parametrize("then", ["reset", "keep"])
def test_divergence_upon_divergence_ends_a_run_unless_there_is_calm_between(
    world: Make, puppet: Callable[..., str], then: str
) -> None:
    """Seven are allowed without a second of good steps between: five hundred are one, one less is not."""
    settings = ("sim.step_ms=2", "sim.most_divergences=7", f"sim.on_divergence={then}", "daq.ring_blocks=4096")
    sick = world(*settings, puppet(bad_bar=5.0))
    pattern = [False] * 10 + [True] * 7 + [False] * 500 + [True] * 4 + [False] * 499 + [True] * 4 + [False] * 10
    for bad in pattern:
        sick.push(brake=8192 if bad else 0)
    n = len(pattern)
    flags = np.zeros(n, np.int64)
    flags[0] = INITIAL
    plan = Plan(record(sick, np.zeros(0)).words, np.arange(n), np.zeros(n, np.int64), flags, np.zeros(n, np.int64))
    told = np.zeros((n, len(REPORTED)), np.int64)
    results = replay(afresh(sick), plan, reported=told)
    assert len(results) == n - 10 and np.isfinite(results).all()
    assert np.flatnonzero(told[:, 2]).tolist() == np.flatnonzero(pattern).tolist()
    assert (told[: n - 11, 2] < OVER).all() and told[n - 11, 2] == OVER


def test_a_parameter_set_to_what_cannot_be_is_survived_and_replayed(puppet: Callable[..., str]) -> None:
    """Over the command ring, and back again: anew in between."""
    setting = puppet(bad_bar=5.0)
    commanded = Commanded("sim.step_ms=2", "sim.on_divergence=keep", "sim.most_divergences=1000", setting)
    try:
        live = commanded.world
        live.push(steering=3)
        live.start()
        for asked in (-1.0, 5.0, -1.0, 5.0):
            live.wait_for_steps(live.results.head + 10)
            assert commanded.client.ask({"bad_bar": asked})["ok"]
        live.wait_for_steps(live.results.head + 10)
        live.ask(step_record.NOW)
        found = record(live, live.join())
        bad = flagged(found.steps, step_record.DIVERGED)
        assert live.ended == step_record.STOPPED and (np.diff(bad.astype(int)) == 1).sum() == 2 and not bad[-1]
        told = RingReader(live.config.ring("command"))
        commands, _, _ = told.since(0, 100)
        told.close()
        plan = found.plan()
        plan.commands = np.ascontiguousarray(commands).view(np.int64).reshape(len(commands), -1)
        plan.obeyed = obeyed_as_recorded(found.steps, commands)
        assert_same(found, replay(afresh(live), plan))
    finally:
        commanded.close()


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_stale_input_is_said_once_when_worse_and_when_over(world: Make) -> None:
    live = world("sim.stale_after_ms=20")
    said = StaleInput(live.config, RingFollower(live.config.ring("daq")), live.results, live.simulation.control)
    now, told = 0, []
    word = lambda steering, throttle: steering | throttle << 4  # noqa: E731
    history = [(0, 5), (word(HELD, HELD), 30), (word(HELD, HELD), 35), (word(HELD, RAMPED), 60)]
    history += [(0, 3), (word(HELD, HELD), 30), (0, 3)] * 20  # it flickers: a source far too slow
    history += [(word(HELD, SAFE), 700)]
    for found, age_ms in history:
        now += CALM_NS // 10
        told += said.judge(now, found, age_ms * MS)
    live.simulation.control[step_record.LOST_NS] = 6000 * MS
    told += said.judge(now, word(HELD, SAFE), 6000 * MS)
    for _ in range(20):
        now += CALM_NS // 10
        told += said.judge(now, 0, 2 * MS)
    assert [text.partition(";")[2].strip() or text for text in told] == [
        "steering held, throttle held",
        "steering held, throttle ramped to safe",
        "steering held, throttle safe",
        "steering is 6.00 s old: the model stands still until its input is fresh again",
        "input is fresh again",
    ]
    assert in_words(0, ["steering"]) == "" and stage_of(word(HELD, SAFE), THROTTLE) == SAFE


def test_overload_is_said_once_with_its_share_and_when_over() -> None:
    said, told = Overload(), []
    now = steps = misses = skips = 0
    for k in range(300):  # tenths of a second, twenty steps of 5 ms each
        slow = 100 <= k < 150
        now += 100 * MS
        steps, misses, skips = steps + (12 if slow else 20), misses + (12 if slow else 0), skips + (8 if slow else 0)
        told += [(k, text) for text in said.judge(now, steps, misses, skips)]
    (began, first), (ended, last) = told
    assert 100 <= began < 105 and "cannot keep up" in first and "%" in first and "given up" in first
    assert 150 <= ended <= 150 + WINDOW_NS // (100 * MS) + 1 and last == "keeps up again"
    # a single late step now and then is no overload
    quiet = Overload()
    assert not any(quiet.judge(k * 100 * MS, 20 * k, k // 10, 0) for k in range(100))


def test_the_loop_is_heard_by_who_says_it(world: Make, puppet: Callable[..., str]) -> None:
    """Steps that take two periods for a second and a half, then none."""
    slow = world("sim.step_ms=5", "sim.overload=skip", puppet(slow_from=20, slow_steps=150, slow_ms=7.0))
    slow.push()
    said, told = Overload(), []
    slow.start(500)
    while slow.running:
        counted = (slow.count(c) for c in (step_record.STEPS, step_record.MISSES, step_record.SKIPS))
        told += said.judge(slow.now, *counted)
        slow.let_pass(20 * MS)
    slow.join()
    assert len(told) == 1 and told[0].startswith("cannot keep up")


# ---- clipped input ---------------------------------------------------------------------------------------------------


def test_a_clipped_input_is_named_once_with_its_value_and_its_limits() -> None:
    rows = load(DRIVE, ["inputs.steering.least=-90.0", "inputs.steering.most=90.0"]).inputs
    assert rows["steering"].unit == "deg"
    last = np.full(len(rows), np.nan)
    clipping = ClippedInput(rows, last)
    assert clipping.poll() == []
    last[list(rows).index("steering")] = np.radians(123.0)
    (said,) = clipping.poll()
    assert said.startswith("inputs.steering = 123, its limits are -90 and 90 (unit deg): clipped")
    last[list(rows).index("throttle")] = np.inf
    (said,) = clipping.poll()
    assert said.startswith("inputs.throttle is not finite, its limits are ")
    assert clipping.poll() == []
