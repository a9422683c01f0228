"""Replay: what ran live on real rings runs again from the record, to the bit; and plans, against plain searches."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_service import replay as again
from sim_service import step_record
from sim_service.registry import load_machine
from sim_service.replay import Plan, as_available, as_recorded, replay
from sim_service.simulation import Simulation
from sync.ring.block import PAYLOAD, Channel, Layout
from sync.ring.ring import RingReader
from tests.examples import few
from tests.sim_service.conftest import DRIVE, World

MS = 1_000_000

Make = Callable[..., World]


@dataclass
class Record:
    """What a recorder would have: all of both rings, by position."""

    world: World
    steps: np.ndarray
    blocks: np.ndarray
    words: np.ndarray

    @property
    def rings(self) -> np.ndarray:
        return np.zeros(len(self.blocks), np.int64)

    def plan(self) -> Plan:
        return as_recorded(self.steps, self.blocks, self.words, self.rings)

    def columns(self) -> np.ndarray:
        """Inputs and outputs of every step, as bits."""
        model = self.world.simulation.model
        names = [q.name for q in (*model.inputs, *model.outputs)]
        return np.stack([self.steps[name] for name in names], axis=1).view(np.int64)


def record(world: World, steps: np.ndarray) -> Record:
    reader = RingReader(world.config.ring("daq"))
    blocks, _, lost = reader.since(0, world.config.daq.ring_blocks)
    reader.close()
    assert lost == 0
    words = np.ascontiguousarray(blocks).view(np.int64).reshape(len(blocks), -1)
    return Record(world, steps, blocks, words)


def afresh(world: World) -> Simulation:
    """Another simulation of the same configuration: nothing of the live one is left in it."""
    return Simulation(world.config, *load_machine(DRIVE.parent / world.config.sim.machine))


def assert_same(found: Record, results: np.ndarray) -> None:
    expected = found.columns()
    assert results.shape == expected.shape
    unequal = np.flatnonzero((results.view(np.int64) != expected).any(axis=1))
    assert len(unequal) == 0, f"first at step {unequal[0]}: {results[unequal[0]]} {expected[unequal[0]].view(float)}"


def flagged(steps: np.ndarray, bit: int) -> np.ndarray:
    found: np.ndarray = (steps["status"] & bit) != 0
    return found


# ---- as it was -------------------------------------------------------------------------------------------------------


def drive(world: World, seconds: float = 0.5, seed: int = 1) -> Record:
    """A restless DAQ: bursts, blocks that were sampled long before, pauses, gaps, a wheel that never rests."""
    random = np.random.default_rng(seed)
    steering = 0
    for _ in range(int(random.integers(1, 90))):  # what was there before the first step
        steering += int(random.integers(-3, 4))
        world.push(steering=steering, throttle=200)
    world.start()
    end = world.now + round(seconds * 1e9)
    for burst in itertools.count():
        if world.now > end:
            break
        for _ in range(int(random.integers(1, 12))):
            steering += int(random.integers(-5, 9))
            brake, throttle = (int(value) for value in random.integers(0, (3000, 420)))
            world.push(brake, throttle, steering, age_ns=int(random.integers(0, 8 * MS)))
        pause = int(random.choice([0, MS, 3 * MS, 30 * MS], p=[0.3, 0.4, 0.2, 0.1]))
        world.let_pass(pause)
        if burst % 17 == 16:
            world.daq.bump_epoch()
    world.ask(step_record.NOW)
    return record(world, world.join())


@pytest.mark.parametrize("estimator", ["kalman", "full_rate", "edges", "source"])
def test_a_recorded_run_gives_the_same_bits_again(world: Make, estimator: str) -> None:
    live = world("sim.step_ms=2", "sim.stale_after_ms=10", f"inputs.steering.estimator={estimator}")
    found = drive(live)
    steps = found.steps
    # it was as restless as meant: otherwise this says little
    assert len(steps) > 50 and (np.diff(found.blocks["seq"].astype(int)) == 1).all()
    for bit in (step_record.STALE, step_record.REPEATED, step_record.NEW_EPOCH):
        assert flagged(steps, bit).sum() > 1
    assert np.abs(steps["steering_speed"]).max() > 0 and np.abs(steps["vx"]).max() > 0
    plan = found.plan()
    assert len(plan) == len(steps)
    assert (found.blocks["seq"][plan.which].astype(int) == steps["input_seq"]).all()
    assert_same(found, replay(afresh(live), plan))


def test_the_same_run_in_pieces_gives_the_same_bits(world: Make) -> None:
    """However often the caller looks on meanwhile; and every look sees what is done so far."""
    live = world("sim.step_ms=2", "inputs.steering.estimator=kalman")
    found = drive(live, 0.2)
    seen: list[int] = []

    def look(done: int, results: np.ndarray) -> None:
        seen.append(done)
        assert (results[:done].view(np.int64) == found.columns()[:done]).all() and not results[done:].any()

    assert_same(found, replay(afresh(live), found.plan(), batch=7, each=look))
    assert seen == [*range(7, len(found.steps), 7), len(found.steps)]


def test_a_replay_leaves_its_plan_and_the_record_as_they_were(world: Make) -> None:
    live = world("sim.step_ms=2", "inputs.steering.estimator=kalman")
    found = drive(live, 0.1)
    plan = found.plan()
    before = [array.copy() for array in (plan.blocks, plan.which, plan.floor, plan.flags, plan.ages, found.words)]
    first = replay(afresh(live), plan)
    after = (plan.blocks, plan.which, plan.floor, plan.flags, plan.ages, found.words)
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert (replay(afresh(live), plan).view(np.int64) == first.view(np.int64)).all()


def test_steps_given_up_restart_the_derivatives_in_the_replay_too(world: Make, puppet: Callable[..., str]) -> None:
    """A step of thirty periods while the wheel turns."""
    live = world(
        "sim.step_ms=2", "sim.catch_up_steps=4", "inputs.steering.estimator=kalman", "sim.stale_after_ms=5000",
        puppet(slow_from=20, slow_steps=1, slow_ms=60.0),
    )  # fmt: skip
    live.push()
    live.start()
    for k in range(150):
        live.push(steering=4 * k, throttle=100)
        live.let_pass(MS)
    live.wait_for_steps(25)
    live.ask(step_record.NOW)
    found = record(live, live.join())
    assert flagged(found.steps, step_record.SKIPPED).any()
    plan = found.plan()
    assert ((plan.flags & again.RESTART != 0) >= flagged(found.steps, step_record.SKIPPED)).all()
    assert_same(found, replay(afresh(live), plan))


def test_blocks_overwritten_before_their_step_are_not_seen_in_the_replay_either(world: Make) -> None:
    """A ring of sixteen blocks that is overrun between two steps: live the estimator begins anew, and so it does again,
    although the record has every block."""
    live = world("sim.step_ms=20", "inputs.steering.estimator=kalman", "daq.ring_blocks=16", "sim.stale_after_ms=5000")
    pushed: list[np.ndarray] = []
    live.start()
    reader = RingReader(live.config.ring("daq"))
    for k in range(300):
        live.push(steering=3 * k)
        blocks, _, lost = reader.since(k, 1)
        assert lost == 0
        pushed.append(np.ascontiguousarray(blocks).view(np.int64).reshape(-1))
        live.let_pass(MS)
    live.ask(step_record.NOW)
    steps = live.join()
    reader.close()
    words = np.stack(pushed)
    found = Record(live, steps, live.daq.layout.view(words), words)
    assert flagged(steps, step_record.LAPPED).sum() > 3
    plan = found.plan()
    assert ((plan.flags & again.LAPPED != 0) == flagged(steps, step_record.LAPPED)).all()
    assert_same(found, replay(afresh(live), plan))
    # the flag matters: with all the blocks that stand in the record the estimator knows the speed
    plan.flags &= ~np.int64(again.LAPPED)
    knowing = replay(afresh(live), plan)
    assert (knowing.view(np.int64) != found.columns()).any()


def test_a_model_that_leaves_the_numbers_ends_the_replay_where_it_ended_the_run(
    world: Make, puppet: Callable[..., str]
) -> None:
    sick = world("sim.step_ms=1", puppet(nan_at=12))
    sick.push(steering=5)
    steps = sick.run(100)
    found = record(sick, steps)
    assert len(steps) == 13
    # more steps than were made: a replay ends at the same one by itself
    plan = found.plan()
    arrays = (plan.which, plan.floor, plan.flags, plan.ages)
    longer = Plan(plan.blocks, *(np.append(a, a[-1:].repeat(30)) for a in arrays))
    looks: list[int] = []
    for batch in (5, 13, 1000):
        results = replay(afresh(sick), longer, batch=batch, each=lambda done, _: looks.append(done))
        assert_same(found, results)
    assert looks == [5, 10, 13, 13, 13]


def test_initial_begins_with_a_new_simulator(world: Make) -> None:
    """The same run twice in one record, as after a restart of the simulator: twice the same results."""
    live = world("sim.step_ms=2", "inputs.steering.estimator=kalman")
    found = drive(live, 0.2)
    n, m = len(found.steps), len(found.blocks)
    blocks = np.concatenate([found.blocks, found.blocks])
    blocks["epoch"][m:] += 1000
    steps = np.concatenate([found.steps, found.steps])
    steps["input_epoch"][n:] += 1000
    words = np.ascontiguousarray(blocks).view(np.int64).reshape(2 * m, -1)
    rings = np.repeat([0, m], m)
    plan = as_recorded(steps, blocks, words, rings)
    assert np.flatnonzero(plan.flags & again.INITIAL).tolist() == [0, n]
    assert plan.floor.tolist() == [0] * n + [m] * n
    results = replay(afresh(live), plan)
    assert_same(found, results[:n])
    assert_same(found, results[n:])


def test_a_restarted_daq_is_a_new_ring_for_the_same_simulator(world: Make) -> None:
    """The ring is closed, another takes its name: the loop ends and goes on there, with the state it had; the record
    has the blocks of both, one after the other, and their numbers begin anew."""
    live = world("sim.step_ms=2", "inputs.steering.estimator=kalman", "sim.stale_after_ms=5000")
    parts: list[np.ndarray] = []
    for ring in range(2):
        for k in range(30):
            live.push(steering=2 * k + 100 * ring, throttle=300)
        live.start()
        live.wait_for_steps(live.results.head + 5)
        for k in range(30):
            live.push(steering=60 + 2 * k, throttle=300)
            live.let_pass(MS)
        live.wait_for_steps(live.results.head + 2)
        parts.append(record(live, np.zeros(0)).words)
        if ring == 0:
            live.daq.close()
            steps = live.join()
            assert live.ended == step_record.RING_CLOSED
            live.renew_daq()
    live.ask(step_record.NOW)
    steps = live.join()
    words = np.concatenate(parts)
    found = Record(live, steps, live.daq.layout.view(words), words)
    rings = np.repeat([0, len(parts[0])], [len(part) for part in parts])
    plan = as_recorded(steps, found.blocks, words, rings)
    assert flagged(steps, step_record.NEW_EPOCH).sum() == 2 and (plan.flags & again.INITIAL != 0).sum() == 1
    assert_same(found, replay(afresh(live), plan))


def test_no_step_sees_blocks_of_the_ring_before(world: Make) -> None:
    """A restarted simulator has a ring of its own, which begins with the block that came last: of the same epoch."""
    live = world("sim.step_ms=2", "inputs.steering.estimator=kalman")
    for k in range(60):
        live.push(steering=k * k)
    words = record(live, np.zeros(0)).words
    which, flags = np.arange(3, 20, 4), np.zeros(5, np.int64)
    flags[0] = again.INITIAL | again.RESTART
    alone = replay(afresh(live), Plan(words[40:].copy(), which, np.zeros(5, np.int64), flags, np.zeros(5, np.int64)))
    both = Plan(
        np.concatenate([words, words[40:]]),
        np.concatenate([which, 60 + which]),
        np.repeat([0, 60], 5),
        np.tile(flags, 2),
        np.zeros(10, np.int64),
    )
    results = replay(afresh(live), both)
    assert (results[5:].view(np.int64) == alone.view(np.int64)).all()
    assert (results[:5].view(np.int64) != alone.view(np.int64)).any()


# ---- plans from records with holes -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short() -> Iterator[Record]:
    """Some sixty steps, each with a block of its own, one of them in five flagged as something."""
    made = World("sim.step_ms=1", "inputs.steering.estimator=kalman")
    try:
        yield drive(made, 0.15)
    finally:
        made.close()


def holes(found: Record, steps: slice | list[int], blocks: list[int] | None = None) -> Plan:
    kept = np.delete(np.arange(len(found.steps)), steps)
    there = np.delete(np.arange(len(found.blocks)), blocks or [])
    return as_recorded(found.steps[kept], found.blocks[there], found.words[there], found.rings[there])


def test_a_plan_without_the_first_step_is_empty(short: Record) -> None:
    assert len(holes(short, [0])) == 0
    assert len(holes(short, slice(0, 20))) == 0


@given(st.integers(1, 2**16), st.integers(1, 3))
@settings(deadline=None, database=None, max_examples=few(50))
def test_a_plan_ends_before_missing_steps(short: Record, number: int, count: int) -> None:
    first = 1 + number % (len(short.steps) - count - 1)
    plan = holes(short, list(range(first, first + count)))
    assert len(plan) == first
    assert_same(Record(short.world, short.steps[:first], short.blocks, short.words), replay(afresh(short.world), plan))


@given(st.integers(0, 2**16))
@settings(deadline=None, database=None, max_examples=few(50))
def test_a_plan_ends_before_the_step_whose_block_is_missing(short: Record, number: int) -> None:
    used = int(short.steps["input_seq"][number % len(short.steps)])
    first = int(np.flatnonzero(short.steps["input_seq"] == used)[0])
    assert len(holes(short, [], [used])) == first


def test_a_block_is_told_from_its_namesake_by_the_instant_of_reception(short: Record) -> None:
    """A restarted simulator gets the newest block of the DAQ again, into another ring."""
    steps, blocks = short.steps[:1].repeat(6), short.blocks[:4].repeat([1, 3, 1, 1])
    words = np.ascontiguousarray(blocks).view(np.int64).reshape(len(blocks), -1).copy()
    blocks = short.world.daq.layout.view(words)
    blocks["received_ns"] = [10, 20, 30, 40, 50, 60]
    steps["step"] = [0, 1, 0, 1, 0, 1]
    steps["input_seq"], steps["input_epoch"] = [0, 1, 1, 1, 1, 2], blocks["epoch"][0]
    steps["input_received_ns"] = [10, 20, 30, 30, 40, 50]
    plan = as_recorded(steps, blocks, words, np.zeros(6, np.int64))
    assert plan.which.tolist() == [0, 1, 2, 2, 3, 4]


# ---- as it would have been -------------------------------------------------------------------------------------------

LAYOUT = Layout((Channel("brake", "i2"), Channel("throttle", "i2"), Channel("steering", "i4")))


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks in the order of their sampling, when each is there (in any order), and the instants of steps."""
    apart = draw(st.lists(st.integers(0, 5), min_size=1, max_size=30))
    words = np.zeros((len(apart), LAYOUT.words), np.int64)
    blocks = LAYOUT.view(words)
    blocks["seq"] = np.arange(len(apart))
    blocks["t_ns"] = 100 + np.cumsum(apart)
    gaps = draw(st.lists(st.booleans(), min_size=len(apart), max_size=len(apart)))
    blocks["epoch"] = np.cumsum(gaps)
    delays = draw(st.lists(st.integers(0, 20), min_size=len(apart), max_size=len(apart)))
    instants = sorted(draw(st.lists(st.integers(95, 300), min_size=1, max_size=40)))
    return words, blocks["t_ns"] + np.array(delays), np.array(instants, np.int64)


@given(deliveries())
@settings(deadline=None, database=None, max_examples=few(300))
def test_every_step_has_the_newest_block_there_is_by_then(drawn: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    words, available, instants = drawn
    blocks = LAYOUT.view(words)
    plan = as_available(instants, words, blocks, available)
    assert len(plan) == len(instants)
    used = LAYOUT.view(plan.blocks[plan.which])
    epoch: int | None = None
    first = min(range(len(words)), key=lambda n: (available[n], n))  # of all, the first that is there
    for k, instant in enumerate(instants):
        there = [n for n in range(len(words)) if available[n] <= instant]
        mine = max(there, default=first)
        assert used["seq"][k] == mine
        # what the loop would have said about it
        restart = blocks["epoch"][mine] != epoch
        epoch = int(blocks["epoch"][mine])
        assert plan.flags[k] == (again.INITIAL if k == 0 else 0) | (again.RESTART if restart else 0)
        assert plan.ages[k] == instant - blocks["t_ns"][mine]
    assert (np.diff(plan.which) >= 0).all() and (plan.floor == 0).all()
    # the ring of the replay holds only what was of use when it came, in the order of sampling
    kept = LAYOUT.view(plan.blocks)["seq"].tolist()
    assert kept == [n for n in range(len(words)) if all(available[n] <= available[m] for m in range(n, len(words)))]


def test_a_plan_of_what_was_available_is_one_that_can_be_run(short: Record) -> None:
    """Without a delay, at the instants of the run itself: the same blocks, as they came just when they were sampled."""
    instants = short.steps["taken_ns"]
    t_ns = np.sort(short.blocks["t_ns"])
    words = short.words.copy()
    blocks = short.world.daq.layout.view(words)
    blocks["t_ns"] = t_ns
    plan = as_available(instants, words, blocks, t_ns)
    assert (plan.which == np.searchsorted(t_ns, instants, "right") - 1).all()
    simulation = afresh(short.world)
    results, inputs = replay(simulation, plan), simulation.model.inputs
    given = [k for k in range(results.shape[1]) if k >= len(inputs) or not inputs[k].optional]
    assert len(results) == len(instants) and np.isfinite(results[:, given]).all()
    # the inputs are those of the blocks, by hand
    brake = [q.name for q in short.world.simulation.model.inputs].index("brake_pressure_bar")
    assert results[:, brake] == pytest.approx(40.0 * (words[plan.which, PAYLOAD] & 0x7FFF) / 32767)


def test_stale_input_is_held_and_does_not_move(world: Make) -> None:
    live = world("sim.step_ms=2", "inputs.steering.estimator=kalman", "sim.stale_after_ms=20")
    for k in range(200):
        live.push(steering=5 * k)
    found = record(live, np.zeros(0))
    blocks = live.daq.layout.view(found.words)
    blocks["t_ns"] = MS * np.arange(200)
    instants = np.arange(100 * MS, 400 * MS, 2 * MS)
    plan = as_available(instants, found.words, blocks, blocks["t_ns"])
    told = np.zeros((len(plan), len(again.REPORTED)), np.int64)
    results = replay(afresh(live), plan, reported=told)
    stale = told[:, 0] != 0
    assert (stale == (instants - np.minimum(instants, 199 * MS) > 20 * MS)).all() and 0 < stale.sum() < len(stale)
    names = [q.name for q in live.simulation.model.inputs]
    angle, speed, acceleration = (
        results[:, names.index(f"steering_{what}")] for what in ("angle", "speed", "acceleration")
    )
    assert (speed[stale] == 0).all() and (acceleration[stale] == 0).all() and (speed[~stale][5:] > 0).all()
    assert angle[stale] == pytest.approx(np.radians(0.18 * 5 * 199))
