"""The loop between two real rings, in virtual time. What it promises is asserted on its own output."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numba.core.runtime import _nrt_python
from numba.core.runtime.nrt import rtsys

from sim_service import step_record
from sim_service.inputs.stages import FRESH, HELD
from sync.clock import now_ns
from sync.compile.jit import kernel
from tests.sim_service.conftest import World

MS = 1_000_000

Make = Callable[..., World]
Fast = tuple[World, np.ndarray, np.ndarray]


def streamed(world: World, period_ns: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """So many steps beside a DAQ of this period; and when each block could be read."""
    done = world.stream(period_ns, 15_000)
    return world.run(steps), done


def flagged(outputs: np.ndarray, bit: int) -> np.ndarray:
    found: np.ndarray = (outputs["status"] & bit) != 0
    return found


# which block a step takes


@pytest.fixture(scope="module")
def fast_daq() -> Iterator[Fast]:
    """300 steps of 2 ms beside a DAQ of 5 kHz."""
    world = World("sim.step_ms=2")
    try:
        outputs, done = streamed(world, 200_000, 300)
        yield world, outputs, done
    finally:
        world.close()


def test_every_step_takes_the_newest_block_there_is(fast_daq: Fast) -> None:
    """No block that could be read before the step began is newer than the one taken, none comes from the future."""
    world, outputs, done = fast_daq
    done = done[: world.daq.head]
    assert len(outputs) == 300
    for row in outputs:
        readable = int(np.searchsorted(done, row["started_ns"], side="right"))
        assert row["input_seq"] >= readable - 1
        assert row["input_t_ns"] <= row["taken_ns"]
    assert world.count(step_record.NOT_NEWEST) == 0
    assert (np.diff(outputs["input_seq"]) >= 0).all()


def test_inputs_of_a_step_are_those_of_the_block_it_names(fast_daq: Fast) -> None:
    _, outputs, _ = fast_daq
    seq = outputs["input_seq"]
    assert outputs["steering_angle"] == pytest.approx(np.radians(0.18 * seq))
    assert outputs["brake_pressure_bar"] == pytest.approx(40.0 * (seq & 0x7FFF) / 32767)
    assert outputs["throttle"] == pytest.approx(np.minimum(seq % 421 / 420, 1.0))


def test_used_superseded_and_unread_blocks_are_all_that_were_pushed(
    fast_daq: Fast,
) -> None:
    world, outputs, _ = fast_daq
    taken = np.unique(outputs["input_seq"])
    used, superseded = world.count(step_record.USED), world.count(step_record.SUPERSEDED)
    assert used == len(taken)
    assert superseded == taken[-1] + 1 - len(taken)
    unread = world.daq.head - 1 - int(taken[-1])
    assert used + superseded + unread == world.daq.head
    assert world.simulation.figures()["last_seq"] == taken[-1]
    assert used + world.count(step_record.REUSED) == world.count(step_record.STEPS) == 300
    assert superseded > 300  # ten blocks a step: most of them are never looked at


def test_output_says_what_was_used_and_when(fast_daq: Fast) -> None:
    world, outputs, done = fast_daq
    n = len(outputs)
    assert outputs["step"].tolist() == outputs["seq"].tolist() == list(range(n))
    assert outputs["time"] == pytest.approx((np.arange(n) + 1) * 2e-3)
    assert (outputs["epoch"] == world.results.epoch).all()
    assert (outputs["input_epoch"] == world.daq.epoch).all()
    # planned, started, taken, pushed: in this order; the age is exactly what it says
    assert (outputs["started_ns"] >= outputs["t_ns"]).all()
    assert (outputs["taken_ns"] >= outputs["started_ns"]).all()
    assert (outputs["pushed_ns"] >= outputs["taken_ns"]).all()
    assert (outputs["input_age_ns"] == outputs["taken_ns"] - outputs["input_t_ns"]).all()
    assert (outputs["input_t_ns"] <= done[outputs["input_seq"]]).all()
    assert world.simulation.figures()["first_step_ns"] == outputs["started_ns"][0]


def test_ledger_has_one_entry_a_step(fast_daq: Fast) -> None:
    world, outputs, _ = fast_daq
    figures = world.simulation.figures()
    for name in ("age_us", "lateness_us", "step_us"):
        assert figures[name]["n"] == 300 and "negative" not in figures[name]
    assert figures["age_us"]["max"] == pytest.approx(outputs["input_age_ns"].max() / 1e3, abs=1e-3)
    assert figures["age_us"]["mean"] == pytest.approx(outputs["input_age_ns"].mean() / 1e3, abs=1e-3)
    lateness = outputs["started_ns"] - outputs["t_ns"]
    assert figures["lateness_us"]["max"] == pytest.approx(lateness.max() / 1e3, abs=1e-3)
    cost = outputs["pushed_ns"] - outputs["started_ns"]
    assert figures["step_us"]["mean"] >= cost.mean() / 1e3


def test_first_step_alone_is_a_new_epoch(fast_daq: Fast) -> None:
    world, outputs, _ = fast_daq
    assert np.flatnonzero(flagged(outputs, step_record.NEW_EPOCH)).tolist() == [0]
    assert world.count(step_record.EPOCHS) == 1


def test_without_a_new_block_the_last_one_is_repeated_and_counted(world: Make) -> None:
    slow = world("sim.step_ms=1")
    outputs, _ = streamed(slow, 7 * MS, 150)
    same = np.diff(outputs["input_seq"], prepend=-1) == 0
    assert (flagged(outputs, step_record.REPEATED) == same).all()
    assert slow.count(step_record.REUSED) == same.sum()
    assert slow.count(step_record.USED) == (~same).sum() == len(np.unique(outputs["input_seq"]))
    assert 150 * 6 // 7 - 1 <= same.sum() <= 150 * 6 // 7 + 1  # six of seven
    assert slow.count(step_record.SUPERSEDED) <= outputs["input_seq"][-1]


# gaps


def derivatives(outputs: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Steering speed and acceleration by thesis table 4.3, N = 4, from the angles since the last new epoch."""
    speeds, accelerations = [], []
    angles: list[float] = []
    since: list[float] = []
    for angle, restart in zip(outputs["steering_angle"], flagged(outputs, step_record.NEW_EPOCH), strict=True):
        if restart:
            angles, since = [], []
        angles.append(float(angle))
        f = angles[::-1]
        speed = (f[0] + 2 * f[1] - 2 * f[3] - f[4]) / (8 * h) if len(f) > 4 else 0.0
        if len(f) > 4:
            since.append(speed)
        g = since[::-1]
        speeds.append(speed)
        accelerations.append((g[0] + 2 * g[1] - 2 * g[3] - g[4]) / (8 * h) if len(g) > 4 else 0.0)
    return np.array(speeds), np.array(accelerations)


def test_new_epoch_is_flagged_and_restarts_the_derivatives(world: Make) -> None:
    """A wheel that turns all the while, and a gap, after which it stands elsewhere."""
    gap = world("sim.step_ms=2", "sim.stale_after_ms=10000")
    gap.start()
    for piece in range(3):
        for k in range(20):
            gap.push(steering=1000 * piece + 5 * k + k % 3)
            gap.wait_for_steps(gap.results.head + 1)
        gap.daq.bump_epoch()
    gap.ask(step_record.NOW)
    outputs = gap.join()
    new = np.diff(outputs["input_epoch"], prepend=-1) != 0
    assert (flagged(outputs, step_record.NEW_EPOCH) == new).all()
    assert gap.count(step_record.EPOCHS) == new.sum() == 3
    speed, acceleration = derivatives(outputs, 2e-3)
    assert outputs["steering_speed"] == pytest.approx(speed)
    assert outputs["steering_acceleration"] == pytest.approx(acceleration, rel=1e-6, abs=1e-6)
    # the jump of 1000 counts in 2 ms would be 200 rad/s even after smoothing; nothing of it is seen
    assert np.abs(outputs["steering_speed"]).max() < 100
    for first in np.flatnonzero(new):
        assert (outputs["steering_speed"][first : first + 4] == 0).all()
        assert (outputs["steering_acceleration"][first : first + 8] == 0).all()


def test_old_input_is_flagged_stale_and_held(world: Make) -> None:
    held = world("sim.step_ms=5", "sim.stale_after_ms=150")
    held.push(steering=100, brake=1000)
    outputs = held.run(80)
    stale = flagged(outputs, step_record.STALE)
    assert (stale == (outputs["input_age_ns"] > 150 * MS)).all()
    assert held.count(step_record.STALES) == stale.sum()
    assert not stale[0] and stale[-1]
    assert (outputs["input_seq"] == 0).all()
    assert (outputs["brake_pressure_bar"] == outputs["brake_pressure_bar"][0]).all()


def test_a_fresh_block_with_a_value_held_too_long_is_stale(world: Make) -> None:
    """Off a bus: the block is new, the steering in it is not."""
    ages = ", ".join(f'{{name="{name}_age_us", type="u4", unit="us"}}' for name in ("steering", "brake"))
    channels = ", ".join(f'{{name="{name}", type="i4"}}' for name in ("brake", "throttle", "steering"))
    bus = world("sim.step_ms=2", "sim.stale_after_ms=5000", f"daq.channels=[{channels}, {ages}]")
    bus.push(steering=7, steering_age_us=1_000)
    bus.start(steps=40)
    bus.wait_for_steps(10)
    bus.push(steering=7, steering_age_us=5_000_001)
    bus.wait_for_steps(20)
    bus.push(steering=8, brake_age_us=1_000)
    outputs = bus.join()
    assert flagged(outputs, step_record.STALE).tolist() == (outputs["input_seq"] == 1).tolist()
    assert set(outputs["input_seq"]) == {0, 1, 2}


def test_a_pedal_that_is_stale_leaves_the_steering_its_speed(world: Make) -> None:
    """Off a bus whose brake is silent: flagged, but the wheel still turns, and nothing is begun anew."""
    ages = ", ".join(f'{{name="{name}_age_us", type="u4", unit="us"}}' for name in ("steering", "brake"))
    channels = ", ".join(f'{{name="{name}", type="i4"}}' for name in ("brake", "throttle", "steering"))
    settings = ("sim.step_ms=2", "sim.stale_after_ms=1000", "inputs.steering.estimator=kalman")
    bus = world(*settings, f"daq.channels=[{channels}, {ages}]")
    bus.push(steering=0)
    bus.start(steps=150)
    while bus.running and bus.results.head < 150:
        bus.push(steering=int(bus.daq.head), brake_age_us=2_000_000)
        bus.let_pass(1 * MS)
    outputs = bus.join()
    late = outputs[100:]
    assert flagged(late, step_record.STALE).all()
    assert (late["input_stages"] & 15 == FRESH).all() and (late["input_stages"] >> 8 == HELD).all()
    assert (late["steering_speed"] > 0.5).all()  # a count a millisecond or less often are up to 3 rad/s


def test_a_fresh_block_ends_the_stale_state(world: Make) -> None:
    old = world("sim.step_ms=2", "sim.stale_after_ms=5000")
    old.push(age_ns=6000 * MS)
    old.start()
    old.wait_for_steps(3)
    old.push()
    old.wait_for_steps(old.results.head + 2)
    old.ask(step_record.NOW)
    outputs = old.join()
    assert flagged(outputs, step_record.STALE).tolist() == (outputs["input_seq"] == 0).tolist()


# beginning and end


@pytest.mark.parametrize("stop", [step_record.DRAIN, step_record.NOW])
def test_no_step_is_made_before_the_first_block_and_the_wait_can_be_ended(world: Make, stop: int) -> None:
    early = world("sim.step_ms=1")
    early.start()
    early.let_pass(30 * MS)
    assert early.running and early.results.head == 0
    assert early.heartbeat_age_ns < 2 * MS  # alive all the while
    early.ask(stop)
    assert len(early.join()) == 0
    assert early.ended == step_record.STOPPED and early.count(step_record.STEPS) == 0


def test_first_step_takes_the_newest_of_all_that_waited(world: Make) -> None:
    late = world("sim.step_ms=1")
    for k in range(25):
        late.push(steering=k)
    outputs = late.run(1)
    assert late.ended == step_record.ALL_STEPS
    assert outputs["input_seq"].tolist() == [24]
    assert (late.count(step_record.USED), late.count(step_record.SUPERSEDED)) == (1, 24)


def test_loop_ends_after_the_steps_it_was_given(world: Make) -> None:
    bounded = world("sim.step_ms=1")
    bounded.push()
    assert len(bounded.run(17)) == 17
    assert bounded.ended == step_record.ALL_STEPS and bounded.count(step_record.STEPS) == 17


def test_a_run_of_so_many_seconds_makes_just_the_steps_that_are_due_however_late_it_is_ended(world: Make) -> None:
    whole = world("sim.step_ms=5")
    whole.simulation.control[step_record.RUN_NS] = 98 * MS  # the twentieth begins before its end
    whole.stream(MS, 1000)
    whole.start()
    whole.let_pass(300 * MS)
    assert whole.running and whole.results.head == 20 and whole.heartbeat_age_ns < 10 * MS
    assert whole.simulation.control[step_record.AT_END]
    whole.ask(step_record.DRAIN)
    whole.let_pass(30 * MS)
    assert whole.running  # for what is still on its way: the DAQ may have been asked later
    outputs = whole.join()
    assert len(outputs) == 20 and whole.ended == step_record.STOPPED
    assert whole.count(step_record.SKIPS) == whole.count(step_record.PAUSES) == whole.count(step_record.MISSES) == 0
    # what came after the last step is booked, so that a balance closes
    assert whole.count(step_record.USED) + whole.count(step_record.SUPERSEDED) == whole.daq.head
    assert whole.simulation.control[step_record.LAST_SEQ] == whole.daq.head - 1


@pytest.mark.parametrize("slow_from, slow_ms, steps", [(4, 100.0, 5), (16, 1000.0, 17), (19, 1000.0, 20)])
def test_steps_that_a_slow_one_leaves_no_time_for_are_given_up_until_the_end_and_no_further(
    world: Make, puppet: Callable[..., str], slow_from: int, slow_ms: float, steps: int
) -> None:
    slow = world("sim.step_ms=2", "sim.catch_up_steps=2", puppet(slow_from=slow_from, slow_steps=1, slow_ms=slow_ms))
    slow.simulation.control[step_record.RUN_NS] = 40 * MS
    slow.push()
    slow.start()
    slow.let_pass(2000 * MS)
    slow.ask(step_record.DRAIN)
    assert len(slow.join()) == steps
    assert steps + slow.count(step_record.SKIPS) == 20
    assert slow.count(step_record.MISSES) == (steps < 20)


@pytest.mark.parametrize("stop", [step_record.DRAIN, step_record.NOW])
@pytest.mark.parametrize("steps", [True, False])
def test_blocks_that_came_after_the_loop_had_ended_are_counted_too(world: Make, stop: int, steps: bool) -> None:
    ended = world("sim.step_ms=2")
    ended.start()
    if steps:
        ended.push()
        ended.wait_for_steps(3)
    ended.ask(stop)
    made = len(ended.join())
    ended.push()
    ended.push()
    for _ in range(2):  # it counts them once
        ended.simulation.give_up_rest()
        assert ended.count(step_record.USED) == int(steps) and ended.count(step_record.STEPS) == made
        assert ended.count(step_record.USED) + ended.count(step_record.SUPERSEDED) == ended.daq.head
        assert ended.simulation.figures()["last_seq"] == ended.daq.head - 1


def test_draining_waits_for_blocks_on_their_way_but_makes_no_step_without_one(world: Make) -> None:
    drained = world("sim.step_ms=2")
    drained.simulation.settings = drained.simulation.settings._replace(drain_ns=500 * MS)
    drained.push()
    drained.start()
    drained.wait_for_steps(3)
    drained.ask(step_record.DRAIN)
    drained.let_pass(20 * MS)  # whatever step was under way is done
    before = drained.results.head
    for _ in range(3):
        drained.push()
        drained.wait_for_steps(before + 1)
        drained.let_pass(20 * MS)
        assert drained.results.head == before + 1 and drained.running
        before += 1
    outputs = drained.join()
    assert drained.ended == step_record.STOPPED
    assert len(outputs) == before
    assert outputs["input_seq"][-3:].tolist() == [1, 2, 3]
    assert (
        drained.count(step_record.USED) + drained.count(step_record.SUPERSEDED) == drained.daq.head
    )  # not one was missed
    # the wait is counted from the sample instant of the last block
    assert 500 * MS < drained.now - int(outputs["input_t_ns"][-1]) < 505 * MS


def test_drain_is_over_at_once_if_the_last_block_is_old(world: Make) -> None:
    over = world("sim.step_ms=1")
    over.push(age_ns=1000 * MS)
    over.ask(step_record.DRAIN)
    assert len(over.run(-1)) == 1  # the block that was there is used, once
    assert over.ended == step_record.STOPPED


def test_now_ends_at_once(world: Make) -> None:
    """One step may be under way, the next may be waiting for its instant; no more."""
    stopped = world("sim.step_ms=5")
    stopped.stream(MS, 1000)
    stopped.start()
    stopped.wait_for_steps(5)
    stopped.ask(step_record.NOW)
    made = stopped.results.head
    asked = stopped.now
    outputs = stopped.join()
    took = stopped.now - asked
    assert stopped.ended == step_record.STOPPED
    assert len(outputs) <= made + 1
    assert took < 2 * stopped.h_ns


def test_now_before_the_start_makes_no_step(world: Make) -> None:
    never = world()
    never.push()
    never.ask(step_record.NOW)
    assert len(never.run(-1)) == 0
    assert never.ended == step_record.STOPPED


# models that misbehave


def test_model_that_leaves_the_numbers_ends_the_run_with_its_last_good_output(
    world: Make, puppet: Callable[..., str]
) -> None:
    sick = world("sim.step_ms=1", puppet(nan_at=12))
    sick.push()
    outputs = sick.run(100)
    assert sick.ended == step_record.ENDED_DIVERGED
    assert len(outputs) == sick.count(step_record.STEPS) == 13
    assert np.flatnonzero(flagged(outputs, step_record.DIVERGED)).tolist() == [12]
    assert outputs["steps"].tolist() == [*range(1, 13), 12]  # the last good one


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_car_with_impossible_parameters_ends_the_run_at_its_first_step(world: Make, value: float) -> None:
    sick = world("sim.step_ms=1")
    sick.simulation.params[: len(sick.simulation.model.parameters)] = value
    sick.push()
    outputs = sick.run(100)
    assert sick.ended == step_record.ENDED_DIVERGED
    assert len(outputs) == 1 and flagged(outputs, step_record.DIVERGED).all()


def assert_no_time_is_unaccounted_for(world: World, outputs: np.ndarray) -> None:
    """What holds of every run: each instant of the clock is either a step or counted as skipped."""
    h = world.h_ns
    given_up = np.diff(outputs["t_ns"]) // h - 1
    assert (np.diff(outputs["t_ns"]) % h == 0).all() and (given_up >= 0).all()
    assert (flagged(outputs, step_record.SKIPPED)[1:] == (given_up > 0)).all()
    assert world.count(step_record.SKIPS) == given_up.sum()
    assert world.count(step_record.MISSES) == flagged(outputs, step_record.MISSED).sum()
    # a step that was pushed after the next was due is a miss, and steps are only given up after one
    late = outputs["pushed_ns"][:-1] > outputs["t_ns"][1:] - given_up * h
    assert (late <= flagged(outputs, step_record.MISSED)[1:]).all()
    assert (flagged(outputs, step_record.SKIPPED) <= flagged(outputs, step_record.MISSED)).all()
    # nothing is started before its time
    assert (outputs["started_ns"] >= outputs["t_ns"]).all()
    # a step is never begun further behind than allowed (its predecessor ended after its own push)
    catch_up = world.simulation.settings.catch_up
    assert (outputs["pushed_ns"][:-1] - outputs["t_ns"][1:] < (catch_up + 1) * h).all()
    # never more late ones in a row than allowed: then it rests until an instant to come
    row = 0
    for missed, skipped in zip(
        flagged(outputs, step_record.MISSED), flagged(outputs, step_record.SKIPPED), strict=True
    ):
        row = row + 1 if missed and not skipped else 0
        assert row <= catch_up
    # (the instant in the loop's own books is a little after the push)
    rested = flagged(outputs, step_record.SKIPPED)[1:]
    assert (outputs["t_ns"][1:][rested] > outputs["pushed_ns"][:-1][rested]).all()


def test_slow_step_is_a_deadline_miss_and_is_caught_up_with(world: Make, puppet: Callable[..., str]) -> None:
    """One step of three and a half periods: the next three begin late, one after the other, and none is given up."""
    slow = world("sim.step_ms=4", "sim.catch_up_steps=1000", puppet(slow_from=10, slow_steps=1, slow_ms=14.0))
    slow.push()
    outputs = slow.run(60)
    assert_no_time_is_unaccounted_for(slow, outputs)
    assert slow.count(step_record.SKIPS) == 0
    missed = flagged(outputs, step_record.MISSED)
    assert missed[11:14].all()
    assert slow.count(step_record.MISSES) >= 3
    # back on the clock: some step after them begins when it was planned to, within a period
    assert not missed[14:].all()
    assert (outputs["started_ns"] - outputs["t_ns"])[14:].min() < slow.h_ns


def test_loop_too_far_behind_gives_steps_up_and_counts_them(world: Make, puppet: Callable[..., str]) -> None:
    """One step of twenty and a half periods with at most four to catch up."""
    slow = world("sim.step_ms=2", "sim.catch_up_steps=4", puppet(slow_from=10, slow_steps=1, slow_ms=41.0))
    slow.push()
    outputs = slow.run(40)
    assert_no_time_is_unaccounted_for(slow, outputs)
    assert flagged(outputs, step_record.SKIPPED)[11] and flagged(outputs, step_record.MISSED)[11]
    assert (outputs["t_ns"][11] - outputs["t_ns"][10]) // slow.h_ns - 1 >= 19
    # and the next step is planned for the first instant to come
    assert 0 < outputs["t_ns"][11] - outputs["pushed_ns"][10] < 10 * slow.h_ns


@pytest.mark.parametrize("overload, least", [("catch_up", 30), ("skip", 60)])
def test_loop_that_is_too_slow_never_chases_the_clock_and_comes_back(
    world: Make, puppet: Callable[..., str], overload: str, least: int
) -> None:
    """Steps of one and a half periods: never further behind than allowed; and on time again when they are over."""
    model = puppet(slow_from=0, slow_steps=80, slow_ms=3.0)
    slow = world("sim.step_ms=2", "sim.catch_up_steps=4", f"sim.overload={overload}", model)
    slow.push()
    began = slow.now
    outputs = slow.run(160)
    took = slow.now - began
    assert_no_time_is_unaccounted_for(slow, outputs)
    assert flagged(outputs, step_record.MISSED)[1:80].all()
    assert slow.count(step_record.SKIPS) >= least  # of eight instants three, or of two one
    assert slow.count(step_record.STEPS) + slow.count(step_record.SKIPS) <= took / slow.h_ns + 1
    # no lateness is left, and none is made up for: some step starts within the tenth of a period
    assert (outputs["started_ns"] - outputs["t_ns"])[100:].min() < slow.h_ns // 10
    assert not flagged(outputs, step_record.MISSED)[100:].all()


def test_steady_loop_misses_and_skips_nothing_it_does_not_say(world: Make, puppet: Callable[..., str]) -> None:
    steady = world("sim.step_ms=5", puppet())
    steady.push()
    outputs = steady.run(60)
    assert_no_time_is_unaccounted_for(steady, outputs)
    assert outputs["steps"].tolist() == list(range(1, 61))


# memory


@kernel(allocates=True)
def _allocates(n):
    total = 0.0
    for k in range(n):
        total += np.zeros(k + 1).sum()
    return total


@pytest.fixture
def counted_memory() -> Iterator[None]:
    before = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not before:
        _nrt_python.memsys_disable_stats()


@pytest.mark.usefixtures("counted_memory")
def test_loop_allocates_nothing(world: Make) -> None:
    """A thousand steps take as many pieces of memory as ten: those of the call itself."""

    def pieces(work: Callable[[], object]) -> tuple[int, int]:
        before = rtsys.get_allocation_stats()
        work()
        after = rtsys.get_allocation_stats()
        return after.alloc - before.alloc, after.mi_alloc - before.mi_alloc

    # the count does see what a loop allocates
    _allocates(1)
    assert pieces(lambda: _allocates(1000))[0] - pieces(lambda: _allocates(10))[0] == 990

    # on the real clock, whose loop it is that must not
    lean = world("sim.step_ms=0.1", "sim.stale_after_ms=0.2", "sim.stale.stop_after_ms=0")
    lean.push(steering=10, throttle=100, age_ns=lean.now - now_ns())
    used = []
    for steps in (10, 10, 1000):
        lean.simulation.counters[:] = 0
        lean.simulation.settings = lean.simulation.settings._replace(most_steps=steps)
        used.append(pieces(lambda: lean.simulation.run(lean.blocks.words, lean.steps.words)))
        assert lean.count(step_record.STEPS) == steps
    assert used[0] == used[1] == used[2]


def test_every_block_reaches_the_estimator_not_only_the_newest(world: Make) -> None:
    """A ramp of one count a millisecond, seen at 1 kHz: far better known than from one angle in five milliseconds."""
    full = world("inputs.steering.estimator=kalman")
    for k in range(60):
        full.push(steering=k, age_ns=(60 - k) * MS)
    outputs = full.run(1)
    assert outputs["steering_speed"][0] == pytest.approx(math.radians(0.18) * 1000, rel=0.03)


def test_the_estimator_starts_anew_in_a_new_epoch(world: Make) -> None:
    full = world("inputs.steering.estimator=kalman")
    for k in range(60):
        full.push(steering=50 * k, age_ns=(120 - k) * MS)
    full.daq.bump_epoch()
    for k in range(60):
        full.push(steering=7, age_ns=(60 - k) * MS)
    outputs = full.run(1)
    assert abs(outputs["steering_speed"][0]) < 0.05
