"""Hands off in the model: `steering_mode` changed while a haptic run goes on, by its record."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daq_service import effort_record as rec
from sync.config.config import load
from sync.record import open_run
from tandem.live.tune import tune
from tests.examples import thorough
from tests.system.conftest import ROOT, Program, ring_of, tandem, until, wait_for_steps

WHEEL = ROOT / "configs" / "haptic_wheel.toml"
SLEW, LIMIT = 40.0, 3.0  # N m/s: slow enough to be what holds the change; N m


@pytest.mark.skipif(not thorough(), reason="12 s of processor time: make drill")
def test_the_wheel_let_go_in_the_model_while_it_is_felt_keeps_slew_and_limit_and_replays(
    start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    settings = [
        f"name={name}", "view.enabled=false", "sim.parameters.feel_limit=20.0", f"source.effort.slew={SLEW}",
        f"source.effort.limit={LIMIT}", "source.effort.rise_ms=0.0",
    ]  # fmt: skip
    options = [word for setting in settings for word in ("--set", setting)]
    run = start("tandem", "run", str(WHEEL), *options, "--seconds", "0", "--json", "--runs", str(tmp_path / "runs"))
    config, steps = load(WHEEL, settings), ring_of(name, "sim")
    for mode in (1.0, 0.0):
        # it is let go, and taken again, while there is a torque to lose
        until(lambda: (s := steps.newest()) is not None and abs(s["steering_angle"]) > 0.3, lambda: run.said)
        tune(config, [f"steering_mode={mode}"], False)
        wait_for_steps(steps, steps.head + 300)
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said

    record = open_run(tmp_path / "runs")
    made, efforts = record.topics["/step"].blocks, record.topics["/effort"].blocks
    changes = record.topics["/command"].blocks
    assert len(changes) >= 2
    # nobody's torque on the model's wheel while it is let go, and the car turns it by itself
    free = (made["felt_torque"] == 0.0) & (made["hand_wheel_angle"] != made["steering_angle"])
    assert free.sum() > 100 and np.ptp(made["hand_wheel_angle"][free]) > 0.01
    assert np.abs(made["felt_torque"][~free]).max() > 0.5
    # what was asked for jumps there, what was given does not
    passed, moved = 1e-9 * np.diff(efforts["t_ns"]), np.abs(np.diff(efforts["given"]))
    asked = np.abs(np.diff(efforts["wanted"]))
    followed = efforts["status"] & (rec.WATCHDOG | rec.ENDED) == 0  # the way to zero is quicker
    followed = followed[1:] & followed[:-1]
    assert (asked[followed] > SLEW * passed[followed]).any() and followed.mean() > 0.5
    assert (moved[followed] <= SLEW * passed[followed] + 1e-12).all()
    assert np.abs(efforts["given"]).max() <= LIMIT
    again = json.loads(tandem("replay", str(record.path), "--json").printed)
    assert again["identical"] is True and again["efforts"]["differing"] == 0 < again["efforts"]["compared"]
