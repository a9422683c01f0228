"""A rehearsed step changes nothing: the same loop with and without, in virtual time, to the bit."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sim_service import step_record as rec
from sim_service.bounds import RAISED
from sim_service.command_record import AT_KIND, AT_VALUE, PARAMETER, PAUSE, RESET, RESUME, SLOW
from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.contract.machine import STEP, Machine
from sim_service.rehearsal import refuse, rehearsing
from sim_service.step_kernel import HOW
from sync.compile.jit import kernel
from sync.errors import ConfigError
from sync.process import realtime
from sync.ring.ring import private_ring, push
from tests.sim_service.conftest import World

MS = 1_000_000
Make = Callable[..., World]
Puppet = Callable[..., str]


@kernel(STEP)
def keeping_step(state, inputs, params, tables, work, h):
    """Goes by what it keeps at the end of its work, and writes into all it may write."""
    last = work.size - 1
    work[last] += 1.0 + inputs[0]
    state[0] += h * work[last]
    for i in range(work.size - 1):
        work[i] += state[0]
    inputs[inputs.size - 1] += work[last]


def keeping(machine: Machine) -> Machine:
    return replace(machine, step=keeping_step, work_size=len(machine.outputs) + 5)


def command(ring: np.ndarray, kind: int, value: float = 0.0) -> None:
    block = np.zeros(COMMANDS.words, np.int64)
    block[AT_KIND], block[AT_VALUE] = kind, np.float64(value).view(np.int64)
    push(ring, block)


def both(
    make: Callable[[str], World],
    steps: int,
    begin: Callable[[World], object],
    then: Callable[[World], object] = lambda world: None,
) -> tuple[World, list[np.ndarray]]:
    """The world with rehearsals, and what was recorded with and without."""
    found = []
    for kind in ("off", "on"):
        world = make(f"sim.rehearse={kind}")
        begin(world)
        world.start(steps)
        then(world)
        found.append(world.join())
        made = world.count(rec.REHEARSED)
        assert made > 0 if kind == "on" else made + world.count(rec.NOT_REHEARSED) == 0
    return world, found


def differs(found: list[np.ndarray]) -> list[str]:
    """What of a record is not the same to the bit; the epochs are those of the rings, which every world has anew."""
    without, rehearsed = found
    assert len(without) == len(rehearsed)
    names = [name for name in without.dtype.names or () if "epoch" not in name]
    return [name for name in names if without[name].tobytes() != rehearsed[name].tobytes()]


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> Make:
    def make(*settings: str) -> World:
        world = World(*settings, changed=keeping)
        request.addfinalizer(world.close)
        return world

    return make


@pytest.mark.parametrize("estimator", ["kalman", "source", "full_rate", "edges"])
@pytest.mark.parametrize("period_ns", [1_000_000, 1_300_000, 12_000_000])
def test_a_rehearsal_changes_no_bit_and_no_instant(kept: Make, estimator: str, period_ns: int) -> None:
    """Of a machine that keeps things in its work, with blocks in the rhythm that is expected, in another, and rarely:
    all that is recorded is the same to the bit, the instants too."""

    def make(kind: str) -> World:
        return kept(kind, f'inputs.steering.estimator="{estimator}"', "sim.phase=locked")

    world, found = both(make, 120, lambda world: world.stream(period_ns, 2_000))
    assert differs(found) == []
    assert world.count(rec.REHEARSED) > 90 and world.count(rec.REHEARSED_LATE) == 0


def test_commands_and_gaps_meet_a_rehearsed_loop_as_any_other(kept: Make) -> None:
    def then(world: World) -> None:
        ring = world.simulation.commands
        for kind, value in ((PARAMETER, 0.0), (RESET, 0.0), (PAUSE, 3.0), (RESUME, 0.0), (SLOW, 3.0), (SLOW, 1.0)):
            world.let_pass(37 * MS + 123_456)
            command(ring, kind, value)
        world.daq.bump_epoch()

    def begin(world: World) -> None:
        world.simulation.listen(private_ring(COMMANDS, 16))
        at = world.stream(MS, 2_000)
        late = (at > at[300]) & (at < at[300] + 60 * MS)  # so long nothing comes, then all at once
        world.moved(np.where(late, at[300] + 60 * MS, at))

    world, found = both(lambda kind: kept(kind, "sim.phase=locked", "sim.stale_after_ms=20"), 120, begin, then)
    assert differs(found) == []
    status = np.bitwise_or.reduce(found[1]["status"])
    assert status & rec.STALE and status & rec.RESTARTED and status & rec.SLOWED
    assert 40 < world.count(rec.REHEARSED) < 119  # none for a step that goes on from something else


@pytest.mark.parametrize("policy", ["keep", "reset"])
def test_a_machine_that_diverges_does_it_once(world: Make, puppet: Puppet, policy: str) -> None:
    """A rehearsal that leaves the numbers first is no divergence, and does not count as one."""
    machine = puppet(nan_at=20)

    def make(kind: str) -> World:
        return world(kind, machine, f"sim.on_divergence={policy}", "sim.most_divergences=3")

    made, found = both(make, 60, lambda world: world.stream(MS, 2_000))
    assert differs(found) == []
    assert made.count(rec.DIVERGENCES) > 0


@kernel(STEP)
def dividing_step(state, inputs, params, tables, work, h):
    state[0] += 1.0
    work[0] = 1.0 / (0.0 if inputs[4] > 5.0 else 1.0)


def test_a_rehearsal_that_divides_by_zero_is_none_of_the_runs_business(request: pytest.FixtureRequest) -> None:
    """It is made with the block before the one that the step will have, and of that alone the machine dies."""

    def make(kind: str) -> World:
        made = World(kind, changed=lambda machine: replace(machine, step=dividing_step))
        request.addfinalizer(made.close)
        return made

    def begin(world: World) -> None:
        at = world.now + MS * (np.arange(2_000) + 1)
        blocks = np.zeros(len(at), world.daq.layout.dtype)
        blocks["brake"] = np.where(np.arange(len(at)) % 5 == 0, 0, 8192)
        world.script(blocks, at)

    world, found = both(make, 60, begin)
    assert differs(found) == [] and len(found[1]) == 60
    assert world.count(rec.DIVERGENCES) == 0 and world.count(rec.REHEARSED) > 50
    assert world.simulation.twin.divergence.result[HOW] == RAISED


def test_a_rehearsal_whose_time_is_known_never_makes_a_step_late(world: Make, puppet: Puppet) -> None:
    """Steps that take a third of the period: there is time for two of them. Of more than that there is not."""
    for slow_ms, rehearsed in ((1.2, True), (2.0, False)):
        made = world("sim.rehearse=on", puppet(slow_from=0, slow_steps=1000, slow_ms=slow_ms))
        made.stream(MS, 2_000)
        outputs = made.run(100)
        assert (outputs["started_ns"] - outputs["t_ns"]).max() < 1_000  # looks at the clock
        assert made.count(rec.REHEARSED_LATE) == made.count(rec.MISSES) == 0
        assert (made.count(rec.REHEARSED) > 90) is rehearsed


def test_a_step_that_suddenly_takes_long_is_late_once_and_counted(world: Make, puppet: Puppet) -> None:
    """Nobody can know it, and a rehearsal cannot be ended in the middle. From the next step on it is known."""
    made = world("sim.rehearse=on", puppet(slow_from=20, slow_steps=30, slow_ms=2.0))
    made.stream(MS, 2_000)
    outputs = made.run(100)
    late = outputs["started_ns"] - outputs["t_ns"]
    assert (late > 1_000).sum() == made.count(rec.REHEARSED_LATE) == 1 and late.max() < 2 * MS
    assert made.count(rec.MISSES) == 0


def test_what_is_spun_is_a_tenth_of_a_period_at_most(world: Make) -> None:
    made = world("sim.rehearse=on", "sim.phase=locked")
    made.simulation.settings = made.simulation.settings._replace(spin_ns=made.h_ns // 20)
    at = made.stream(MS, 2_000)
    made.moved(at + np.where(np.arange(len(at)) % 5 == 4, 400_000, 0))  # a block of some steps is late
    outputs = made.run(200)
    assert 0 < made.count(rec.SPUN_NS) <= 200 * made.h_ns // 10
    assert (outputs["started_ns"] >= outputs["t_ns"]).all()


def test_who_rehearses(monkeypatch: pytest.MonkeyPatch, world: Make) -> None:
    """By default a loop that has a core for itself; a machine with memory of its own never."""
    made = world("realtime.enabled=true")
    settings, model, config = made.simulation.settings, made.simulation.model, made.config
    other = model.having(replace(model.stepping, one_at_a_time=True))

    def asked(kind: str, cores: set[int], machine: Machine = model, **times: object) -> tuple[int, int]:
        monkeypatch.setattr(realtime, "own_cores", lambda: frozenset(cores))
        sim = config.sim.model_copy(update={"rehearse": kind})
        live = config.realtime.model_copy(update=times)
        found = rehearsing(settings, config.model_copy(update={"sim": sim, "realtime": live}), machine)
        return found.rehearses, found.spin_ns

    spun = min(100_000, made.h_ns // 20)
    assert asked("auto", {0, 1}) == asked("on", {0, 1}) == (1, spun)
    assert asked("auto", {0}) == asked("off", {0, 1}) == asked("auto", {0, 1}, enabled=False) == (0, 0)
    assert asked("auto", {0, 1}, daq_core=1, sim_core=1) == (0, 0)
    assert asked("on", {0}) == (1, 0)  # it is not spun where others wait for the core
    assert asked("auto", {0, 1}, other) == (0, 0)
    large = replace(model, work_size=40_000)
    assert asked("auto", {0, 1}, large) == (0, 0)
    assert asked("on", {0, 1}, large) == (1, spun)
    on = config.model_copy(update={"sim": config.sim.model_copy(update={"rehearse": "on"})})
    with pytest.raises(ConfigError, match=r"sim.rehearse = 'on': .* must be 'auto' or 'off'"):
        refuse(on, other, "drive.toml")
    refuse(on, model, "drive.toml")
