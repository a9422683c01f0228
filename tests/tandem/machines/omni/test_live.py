"""Omni platforms through the live loop, in virtual time: by a game pad, and with commands that none can follow."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from daq_service.devices import open_device
from daq_service.devices.contract import Host
from sim_service import step_record
from sim_service.contract.machine import Machine
from sim_service.notices import divergence_message
from sync.errors import ConfigError, Diverged
from sync.virtual_clock import virtual_clock
from tests.daq_service.virtual_wheel import VirtualWheel, unplug_lasting
from tests.sim_service.conftest import CONFIGS, World

MS = 1_000_000
GAMEPAD, SQUARE = CONFIGS / "omni_gamepad.toml", CONFIGS / "omni_square.toml"


@pytest.fixture
def pad() -> Iterator[VirtualWheel]:
    unplug_lasting()
    made = VirtualWheel("Virtual pad", product=21, axes=4)
    yield made
    made.close()


def test_a_platform_is_driven_with_the_sticks_of_a_game_pad(pad: VirtualWheel) -> None:
    """Left stick away from the driver and to the left, right stick to the left: ahead, to the left, turning left.

    The device on its own virtual clock; its scans are what the loop reads.
    """
    clock = virtual_clock(read_ns=100)
    live = World(file=GAMEPAD)
    source = open_device(live.config, GAMEPAD, Host(clock=clock))
    names = live.config.daq.layout.names
    room, t_ns, scans = np.zeros((4096, len(names)), np.int64), np.zeros(4096, np.int64), []
    source.find()
    source.start()
    try:
        for axes, until in (({0: 0, 1: 0, 3: 0}, 100), ({0: -6553, 1: -13107, 3: -4096}, 1600), ({1: 0}, 2000)):
            pad.move(axes)
            end = clock.now_ns() + 60_000 * MS
            while len(scans) < until:
                assert clock.now_ns() < end
                count, _ = source.read(room, t_ns, 20 * MS)
                scans += room[:count].tolist()
        blocks = np.zeros(len(scans), live.daq.layout.dtype)
        for name, column in zip(names, np.array(scans).T, strict=True):
            blocks[name] = column
        live.script(blocks, live.now + MS * np.arange(1, len(scans) + 1))
        steps = live.run(390)
    finally:
        source.stop()
        live.close()
    t = 1e-9 * (steps["t_ns"] - steps["t_ns"][0])
    driven = (t > 1.2) & (t < 1.6)
    # a dead zone of 0.05 is taken off, and the rest is stretched
    for channel, full, share in (("speed_ahead", 1.0, 0.4), ("speed_left", 1.0, 0.2), ("turn_rate", 3.0, 0.125)):
        expected = full * (share - 0.05) / 0.95
        assert steps[channel][driven].mean() == pytest.approx(expected, rel=0.1), channel
    assert steps["speed_ahead"][-1] < 0.5 * steps["speed_ahead"][driven].mean() and np.isfinite(steps["x"]).all()


def test_a_required_command_that_is_nan_ends_a_run_as_a_divergence() -> None:
    """No row gives NaN, and a command without a row is refused; where one comes all the same, the run says so."""
    without = "inputs.turn.to=[]"
    with pytest.raises(ConfigError, match=r"no row has command_turn in its `to`, which the machine needs"):
        World(without, file=SQUARE)

    def lenient(machine: Machine) -> Machine:
        return replace(machine, inputs=tuple(replace(q, optional=True) for q in machine.inputs))

    live = World(without, file=SQUARE, changed=lenient)
    try:
        live.push()
        steps = live.run(20)
        assert live.ended == step_record.ENDED_DIVERGED and Diverged.code == 3
        assert steps["status"][-1] & step_record.DIVERGED
        assert divergence_message(live.simulation) == "at step 0 with command_ahead 0, command_left 0, command_turn nan"
        assert np.isfinite(live.simulation.state).all()
    finally:
        live.close()


def driven(settings: dict[str, object], counts: int, steps: int) -> tuple[World, np.ndarray]:
    """The square's configuration with so many counts on the channel `ahead`; a block a millisecond."""
    live = World(*(f"{key}={value}" for key, value in settings.items()), file=SQUARE)
    try:
        blocks = np.zeros(5 * steps, live.daq.layout.dtype)
        blocks["ahead"] = counts
        live.script(blocks, live.now + MS * np.arange(1, len(blocks) + 1))
        return live, live.run(steps)
    finally:
        live.close()


@pytest.mark.parametrize("counts", [32767, -32768])
def test_counts_at_their_end_are_clipped_and_counted(counts: int) -> None:
    live, steps = driven({}, counts, 40)
    assert live.count(step_record.CLIPS) == np.sum(steps["status"] & step_record.CLIPPED > 0) > 30
    assert np.abs(steps["command_ahead"]).max() == 1.0 and np.isfinite(steps["x"]).all()
    assert live.count(step_record.DIVERGENCES) == 0


def test_a_row_that_overflows_gives_nothing_and_is_counted() -> None:
    live, steps = driven({"inputs.ahead.full": 1e307, "inputs.ahead.full_counts": 1.0}, 32767, 40)
    assert live.count(step_record.CLIPS) > 30 and not steps["command_ahead"].any()
    assert np.abs(steps["x"]).max() < 1e-9 and live.count(step_record.DIVERGENCES) == 0


WIDE = {"inputs.ahead.least": -1e301, "inputs.ahead.most": 1e301}


@pytest.mark.parametrize("machine", ["three_wheels", "mecanum"])
@pytest.mark.parametrize("full", [1e300, 1e12, 1e3])
def test_a_command_that_no_platform_can_follow_ends_as_a_divergence(full: float, machine: str) -> None:
    """A huge one at once; 1000 m/s once it has fallen over, which motors at their limit do to it."""
    settings = WIDE | {"inputs.ahead.full": full, "sim.machine": f"omni/{machine}.toml"}
    live, steps = driven(settings, 1000, 200)
    assert live.ended == step_record.ENDED_DIVERGED and steps["status"][-1] & step_record.DIVERGED
    assert len(steps) == 1 if full > 1e9 else len(steps) > 20
    assert np.isfinite(live.simulation.state).all() and np.abs(steps["pitch"]).max() < 1.4
    assert f"command_ahead {full:g}" in divergence_message(live.simulation)


def test_after_a_fall_it_may_begin_again() -> None:
    settings = WIDE | {"inputs.ahead.full": 1e3, "sim.machine": "omni/mecanum.toml", "sim.on_divergence": "reset"}
    live, steps = driven(settings, 1000, 200)
    assert len(steps) == 200 and live.count(step_record.DIVERGENCES) >= 2
    assert all(np.isfinite(steps[channel]).all() for channel in steps.dtype.names)
