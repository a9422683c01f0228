"""A drive with a look ahead: recorded, made again to the bit, held against what happened; its crash ends nothing."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from sync.record import open_run
from tandem.records.replay import Options, replay_run
from tests.system.conftest import DRIVE, Program, ring_of, tandem, until, wait_for_steps


def test_predictions_are_recorded_and_made_again_and_a_crash_is_counted(
    drive: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    run = drive("--seconds", "0", "--json", "--set", "look_ahead.enabled=true")
    ring = ring_of(name, "look_ahead")
    until(lambda: ring.head > 5, lambda: run.said)
    os.kill(ring.writer_pid, signal.SIGKILL)
    run.wait_for("the look ahead is back")
    before, steps = ring.head, ring_of(name, "sim")
    until(lambda: ring.head > before, lambda: run.said)
    wait_for_steps(steps, steps.head + 600)  # more than its horizon: what was predicted has happened
    until(lambda: ring.head > before + 20, lambda: run.said)
    ring.close()
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    figures = run.json()
    assert [death["process"] for death in figures["deaths"]] == ["look_ahead"]
    ahead = figures["look_ahead"]
    assert ahead["predictions"]["held"] > 0 and set(ahead["off_m"]["held"]) == {"0.5 s", "1 s", "2 s"}
    assert figures["record"]["whole"] and figures["balance"]["closes"]
    topic = open_run(tmp_path / "runs").topics["/look_ahead"]
    assert len(topic) > 20 and topic.missing == 0
    again = replay_run(tmp_path / "runs", Options(predictions=20)).figures
    assert again["identical"]
    assert again["look_ahead"]["compared"] == 20 and again["look_ahead"]["differing"] == 0


def test_a_machine_that_cannot_be_looked_ahead_of_is_refused_before_anything_starts(name: str) -> None:
    vehicle = 'sim.machine="vehicles/buggy_single_track.toml"'
    settings = (f"name={name}", "look_ahead.enabled=true", vehicle, "view.enabled=false")
    run = tandem("drive", str(DRIVE), "--seconds", "1", *(word for s in settings for word in ("--set", s)))
    assert run.code == 2
    assert "look_ahead.enabled = true: single_track does not say when control of it is lost" in run.said
