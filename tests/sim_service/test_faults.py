"""Stale input and diverging models: what becomes of them is promised by docs/faults.md, and asserted on what the loop
itself recorded; all of it is the same to the bit when it is replayed."""

import itertools
import math
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_service import loop
from sim_service.replay import INITIAL, TOLD, Plan, obeyed_as_recorded, replay
from sim_service.saying import CALM_NS, WINDOW_NS, Overload, StaleInput
from sim_service.signals.stale import (
    EXTRAPOLATED,
    FRESH,
    HELD,
    RAMPED,
    SAFE,
    aged,
    in_words,
    stage_of,
)
from sim_service.turn import OVER
from sync.clock import now_ns, sleep_until
from sync.config import Sim
from sync.ring import RingReader

from .conftest import World
from .test_commands import Commanded
from .test_replay import Record, afresh, assert_same, record

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
    told = np.zeros((len(plan), len(TOLD)), np.int64)
    assert_same(found, replay(afresh(found.world), plan, told=told))
    assert (told[:, 0] == found.steps["input_stages"]).all()
    assert ((told[:, 1] != 0) == flagged(found.steps, loop.BEYOND)).all()
    assert ((told[:, 2] != 0) == flagged(found.steps, loop.NOT_FINITE)).all()


# ---- what age does to a value ----------------------------------------------------------------------------------------

spans = st.sampled_from([0.0, 1.0, 5e6, 1e8]) | st.floats(1.0, 6e10)
values = st.floats(-30.0, 30.0)


@given(values, st.floats(-20.0, 20.0), spans, spans.filter(lambda s: s <= 1e9), spans, values)
@settings(deadline=None, database=None, max_examples=400)
def test_age_moves_a_value_without_a_jump_from_what_was_read_to_what_is_safe(
    value: float, speed: float, hold: float, extrapolate: float, ramp: float, safe: float
) -> None:
    par = np.array([hold, extrapolate, ramp, safe])
    ends = [0.0, hold, hold + extrapolate, hold + extrapolate + ramp]

    def at(since: float) -> tuple[float, float, int]:
        return aged(value, speed, since, par)  # type: ignore[no-any-return]

    # fresh is untouched
    assert at(0.0) == at(-5.0) == (value, speed, FRESH)
    # no boundary is a jump: a nanosecond is worth what the fastest stage moves in it, and what rounding adds
    end = value + speed * extrapolate * 1e-9
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
        ({"stale": {"throttle": {"extrapolate_ms": 10.0}}}, "is for steering"),
        ({"stale": {"steering": {"extrapolate_ms": 10.0}}, "signals": {"steering_estimator": "source"}}, "kalman"),
        ({"stale": {"brake": {"safe_bar": -1.0}}}, "greater than or equal to 0"),
        ({"stale": {"stop": "never"}}, "'pause' or 'end'"),
        ({"overload": "hurry"}, "'catch_up' or 'skip'"),
    ],
)
def test_policies_that_cannot_be_are_refused(changed: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Sim.model_validate({"vehicle": "car.toml", **changed})


# ---- sources that freeze, slow down, are corrupted, die --------------------------------------------------------------

POLICY = (
    "sim.step_ms=2", "sim.stale_after_ms=20", "sim.signals.steering_estimator=kalman",
    "sim.stale.steering={hold_ms=20, extrapolate_ms=30, ramp_ms=40, safe_deg=10}",
    "sim.stale.throttle={hold_ms=10, ramp_ms=60, safe=0.125}",
    "sim.stale.brake={hold_ms=30, ramp_ms=80, safe_bar=5}",
)  # fmt: skip


def turning(world: World, count: int, first: int = 0) -> None:
    """A wheel that turns steadily, a block a millisecond; both pedals a little pressed."""
    due = now_ns()
    for k in range(first, first + count):
        world.push(steering=4 * k, throttle=210, brake=8192)
        due += MS
        sleep_until(due)


def test_a_source_that_freezes_is_held_extrapolated_ramped_and_waited_for(world: Make) -> None:
    live = world(*POLICY, "sim.stale.stop_after_ms=200")
    turning(live, 50)
    live.start()
    turning(live, 100, 50)
    frozen = live.daq.head - 1
    sleep_until(now_ns() + 400 * MS)  # a hundred and eighty of them without a step
    assert live.simulation.control[loop.LOST_NS] > 220 * MS
    made = live.results.head
    sleep_until(now_ns() + 50 * MS)
    assert live.results.head == made and live.running and live.results.heartbeat_age_ns < 1000 * MS
    turning(live, 100, 150)
    live.ask(loop.NOW)
    steps = live.join()

    old = steps[steps["input_seq"] == frozen]
    age = old["input_age_ns"].astype(float)
    assert age.max() <= 220 * MS and live.count(loop.STARVED) > 30
    # each channel goes its way, by the age that was recorded
    ends = ((20, 40, 70, 110), (20, 30, 30, 90), (20, 50, 50, 130))
    for channel, bounds in enumerate(ends):
        expected = [FRESH, HELD, EXTRAPOLATED, RAMPED, SAFE]
        by_hand = [expected[sum(a > bound * MS for bound in bounds)] for a in age]
        at_end = np.isin(age, [bound * MS for bound in bounds])
        assert (stages(old, channel) == by_hand)[~at_end].all()
        assert set(by_hand) == {*expected} - ({EXTRAPOLATED} if channel != STEERING else set())
    assert (flagged(steps, loop.STALE) == (steps["input_stages"] != 0)).all()
    assert live.count(loop.STALES) == flagged(steps, loop.STALE).sum()
    # the wheel: its speed fits what it does, and it ends where it is safe
    fresh, angle, speed = (
        stages(old, STEERING) == FRESH,
        old["steering_angle"],
        old["steering_speed"],
    )
    last, turned = angle[fresh][-1], speed[fresh][-1]
    assert turned == pytest.approx(math.radians(0.18) * 4000, rel=0.2)
    assert (angle[stages(old, STEERING) == HELD] == last).all()
    going = stages(old, STEERING) == EXTRAPOLATED
    assert (
        angle[going] == pytest.approx(last + turned * (age[going] - 40 * MS) * 1e-9) and (speed[going] == turned).all()
    )
    ramp = stages(old, STEERING) == RAMPED
    furthest = last + turned * 0.03
    slope = (math.radians(10) - furthest) / 0.04
    assert angle[ramp] == pytest.approx(furthest + slope * (age[ramp] - 70 * MS) * 1e-9)
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
    assert (again["input_stages"] == 0).all() and flagged(again, loop.RESUMED)[0]
    assert (again["throttle"] == 0.5).all()
    assert_replays(record(live, steps))


def test_a_run_whose_input_is_lost_ends_where_that_is_asked_for(world: Make) -> None:
    over = world(*POLICY, "sim.stale.stop_after_ms=60", "sim.stale.stop=end")
    turning(over, 30)
    over.start()
    steps = over.join()
    assert over.ended == loop.INPUT_LOST
    assert over.simulation.control[loop.LOST_NS] > 80 * MS >= steps["input_age_ns"].max()
    assert over.count(loop.STARVED) == 0 and over.count(loop.USED) + over.count(loop.SUPERSEDED) == over.daq.head
    assert_replays(record(over, steps))


def test_a_silent_channel_of_fresh_blocks_stops_the_model_and_is_named(world: Make) -> None:
    """Off a bus whose brake is silent: new blocks come, and all of them are accounted for."""
    ages = ", ".join(f'{{name="{name}_age_us", type="u4", unit="us"}}' for name in ("throttle", "brake"))
    channels = ", ".join(f'{{name="{name}", type="i4"}}' for name in ("brake", "throttle", "steering"))
    bus = world(*POLICY, "sim.stale.stop_after_ms=100", f"daq.channels=[{channels}, {ages}]")
    bus.push()
    bus.start()
    began = now_ns()
    while now_ns() - began < 250 * MS:
        bus.push(brake_age_us=(now_ns() - began) // 1000, throttle_age_us=5)
        sleep_until(now_ns() + MS)
    assert bus.simulation.control[loop.LOST_CHANNEL] == BRAKE and bus.simulation.control[loop.LOST_NS] > 120 * MS
    assert bus.count(loop.STARVED) > 10
    bus.daq.close()  # a closed ring is noticed while the model stands still
    steps = bus.join()
    assert bus.ended == loop.RING_CLOSED
    assert bus.count(loop.USED) + bus.count(loop.SUPERSEDED) == bus.daq.head
    assert {*stages(steps, STEERING)} == {*stages(steps, THROTTLE)} == {FRESH}
    assert {*stages(steps, BRAKE)} == {FRESH, HELD, RAMPED}


def test_slow_and_corrupted_sources_are_told_and_replayed(world: Make) -> None:
    """Ten blocks a second, some of them with values that cannot be, a gap in the middle, one block from the past."""
    live = world(*POLICY, "sim.signals.brake_zero_counts=0", "sim.signals.throttle_full_counts=100")
    live.push(throttle=50)
    live.start()
    wrong = {2: {"steering": 2**31 - 1}, 3: {"throttle": 30_000}, 5: {"brake": -32768}, 6: {"age_ns": 150 * MS}}
    for k in range(9):
        sleep_until(now_ns() + 60 * MS)
        if k == 4:
            live.daq.bump_epoch()
        live.push(**{"steering": 40 * k, "throttle": 50, **wrong.get(k, {})})
    sleep_until(now_ns() + 30 * MS)
    live.ask(loop.NOW)
    steps = live.join()
    assert (flagged(steps, loop.BEYOND) == np.isin(steps["input_seq"], [3, 4, 6])).all()
    assert live.count(loop.CLIPS) == flagged(steps, loop.BEYOND).sum() > 0
    limit = math.radians(1800)
    assert (np.abs(steps["steering_angle"]) <= limit).all() and (steps["throttle"] <= 1).all()
    assert (steps["brake_pressure_bar"] >= 0).all() and np.isfinite(steps["steering_speed"]).all()
    # every block is believed anew, and gets old anew; the one from the past never was fresh
    for seq in range(1, 9):
        mine = steps[steps["input_seq"] == seq]
        assert {*stages(mine, STEERING)} >= ({SAFE} if seq == 7 else {FRESH, HELD})
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
        sleep_until(now_ns() + MS)
    live.ask(loop.NOW)
    return record(live, live.join())


@pytest.mark.parametrize("then", ["end", "anew", "keep"])
def test_a_model_that_diverges_leaves_nothing_behind_that_is_no_number(
    world: Make, puppet: Callable[..., str], then: str
) -> None:
    """While the brake is pressed the puppet leaves its bound and what it remembers the numbers."""
    settings = ("sim.step_ms=2", "sim.signals.steering_estimator=kalman", "sim.most_divergences=1000")
    live = world(*settings, f"sim.on_divergence={then}", puppet(bad_bar=5.0))
    found = braking(live, [False, False, True, False, True, False])
    steps = found.steps
    diverged = flagged(steps, loop.NOT_FINITE)
    assert live.count(loop.DIVERGENCES) == diverged.sum() > 0
    for channel in (*(q.name for q in live.simulation.model.inputs), "steps", "wheel_speed_rear"):
        assert np.isfinite(steps[channel]).all() and np.abs(steps[channel]).max() < 1e9
    assert np.isfinite(live.simulation.state).all() and np.isfinite(live.simulation.work).all()
    assert (diverged == (steps["brake_pressure_bar"] > 5.0)).all()  # with the inputs that did it
    assert live.simulation.offending[4] > 5.0
    if then == "end":
        assert live.ended == loop.DIVERGED and np.flatnonzero(diverged).tolist() == [len(steps) - 1]
        assert steps["steps"][-1] == steps["steps"][-2] == len(steps) - 1
    else:
        assert live.ended == loop.STOPPED and 0 < diverged.sum() < len(steps)
        expected, n = [], 0
        for bad in diverged:
            n = n + 1 if not bad else n if then == "keep" else 0
            expected.append(n)
        assert steps["steps"].tolist() == expected
    assert_replays(found)


@pytest.mark.parametrize("then", ["anew", "keep"])
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
    told = np.zeros((n, len(TOLD)), np.int64)
    results = replay(afresh(sick), plan, told=told)
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
        live.ask(loop.NOW)
        found = record(live, live.join())
        bad = flagged(found.steps, loop.NOT_FINITE)
        assert live.ended == loop.STOPPED and (np.diff(bad.astype(int)) == 1).sum() == 2 and not bad[-1]
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
    said = StaleInput(live.config, [], live.results, live.simulation.control)
    now, told = 0, []
    word = lambda steering, throttle: steering | throttle << 4  # noqa: E731
    history = [(0, 5), (word(HELD, HELD), 30), (word(HELD, HELD), 35), (word(HELD, RAMPED), 60)]
    history += [(0, 3), (word(HELD, HELD), 30), (0, 3)] * 20  # it flickers: a source far too slow
    history += [(word(HELD, SAFE), 700)]
    for found, age_ms in history:
        now += CALM_NS // 10
        told += said.judge(now, found, age_ms * MS)
    live.simulation.control[loop.LOST_NS] = 6000 * MS
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
    assert in_words(0) == "" and stage_of(word(HELD, SAFE), THROTTLE) == SAFE


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
        told += said.poll(slow.simulation.counters)
        threading.Event().wait(0.02)
    slow.join()
    assert len(told) == 1 and told[0].startswith("cannot keep up")
