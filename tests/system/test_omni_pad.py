"""An omni platform driven with the sticks of a game pad through DAQ, simulator and recorder; replayed to the bit."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sync.config.config import load
from sync.record import open_run
from sync.ring.ring import RingReader
from tandem.records.replay import Options, replay_run
from tests.daq_service.virtual_wheel import HIGHEST, LOWEST, VirtualWheel, unplug_lasting
from tests.system.conftest import PATIENCE_S, ROOT, until
from tests.system.sampling import Start, sampling, simulator

FILE = ROOT / "configs" / "omni_gamepad.toml"


@pytest.fixture
def pad() -> Iterator[VirtualWheel]:
    unplug_lasting()
    made = VirtualWheel("Virtual pad", product=22, axes=4)
    yield made
    made.close()


@pytest.mark.drill
def test_a_game_pad_drives_a_platform_and_the_record_replays_to_the_bit(
    start: Start, name: str, tmp_path: Path, pad: VirtualWheel
) -> None:
    """Ahead, left, turning left; each stick to its other end, and let go; at last the pad is unplugged."""
    settings = [f"name={name}", "source.device='Virtual pad'"]
    options = [word for setting in settings for word in ("--set", setting)]
    recorder = start("tandem", "record", str(FILE), *options, "--runs", str(tmp_path))
    recorder.wait_for("record: state")
    config = load(FILE, settings)
    sim = simulator(start, FILE, settings)
    with sampling(config, FILE):
        steps = RingReader(config.ring("sim"), timeout_s=PATIENCE_S)

        def now() -> Any:
            return until(steps.newest, lambda: str(sim.said))

        for axes, reached in (
            ({1: -13107}, lambda s: s["speed_ahead"] > 0.2), ({1: 0, 0: -13107}, lambda s: s["speed_left"] > 0.2),
            ({0: 0, 3: -13107}, lambda s: s["turn_rate"] > 0.6),
            ({0: HIGHEST, 1: HIGHEST, 3: HIGHEST}, lambda s: s["command_ahead"] == -1.0 and s["command_turn"] == -3.0),
            ({0: LOWEST, 1: LOWEST, 3: LOWEST}, lambda s: s["command_left"] == 1.0 and s["command_turn"] == 3.0),
            ({0: 0, 1: 0, 3: 0}, lambda s: abs(s["command_ahead"]) + abs(s["command_turn"]) == 0.0),
        ):  # fmt: skip
            pad.move(axes)
            until(lambda reached=reached: reached(now()), lambda: f"{now()} {sim.said}")
        pad.move({1: -13107})
        until(lambda: now()["speed_ahead"] > 0.2, lambda: f"{now()} {sim.said}")
        pad.unplug()  # stale: held, then brought to rest
        until(lambda: now()["command_ahead"] == 0.0 and abs(now()["speed_ahead"]) < 0.05, lambda: f"{now()} {sim.said}")
        steps.close()
        for program in (sim, recorder):
            program.signal(signal.SIGINT)
            assert program.end() == 0, program.said
    record = open_run(tmp_path)
    assert record.whole and record.topics["/step"].blocks["speed_ahead"].max() > 0.2
    assert replay_run(tmp_path, Options()).figures["identical"] is True
