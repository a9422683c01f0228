"""A DAQ that freezes, over either transport: the simulator says what becomes of each channel, stands still, goes on;
and the record gives the same bits again across all of it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sim_service.inputs.stages import counted
from sim_service.step_record import RESTARTED, STALE
from sync.errors import InputLost
from sync.record import open_run
from tandem.records.inspect.info import info
from tandem.records.replay import Options, replay_run
from tests.examples import cases
from tests.system.conftest import DRIVE, Program, leftovers, pid_of, ring_of, until, wait_for_steps

POLICY = (
    "sim.machine=vehicles/buggy_single_track.toml", "sim.stale_after_ms=60", "sim.stale.stop_after_ms=700",
    "inputs.steering.stale={hold_ms=100, extrapolate_ms=100, ramp_ms=200}", "inputs.throttle.stale.hold_ms=100",
    "inputs.brake.stale={ramp_ms=300, safe=2.0}",
)  # fmt: skip


@pytest.mark.parametrize("transport", cases("shm", "ipc"))
def test_a_frozen_daq_is_survived_said_and_replayed(
    drive: Callable[..., Program], name: str, tmp_path: Path, transport: str
) -> None:
    options = [word for setting in POLICY for word in ("--set", setting)]
    # who stands still is not to be replaced here
    options += ["--set", "supervision.restart=false"]
    run = drive("--seconds", "0", "--json", "--transport", transport, *options)
    run.wait_for("the DAQ is there")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 200)
    pid = pid_of(name, "daq")
    os.kill(pid, signal.SIGSTOP)
    try:
        run.wait_for("the model stands still")
    finally:
        os.kill(pid, signal.SIGCONT)
    run.wait_for("input is fresh again")
    wait_for_steps(steps, steps.head + 100)
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    result = run.json()
    assert result["starved_steps"] > 0 and result["balance"]["closes"]

    record = open_run(tmp_path / "runs")
    found = record.topics["/step"].blocks
    # which stages it came by, and how often it stood still, is the machine's: tests/sim_service/test_faults.py has them
    channels = ("steering", "throttle", "brake")
    words = {f"{c} {w}" for c in channels for w in ("held", "ramped to safe", "safe")} | {"steering extrapolated"}
    passed = set(counted(found["input_stages"], channels))
    assert passed and passed <= words
    assert ((found["status"] & STALE != 0) == (found["input_stages"] != 0)).all()
    assert (found["status"] & RESTARTED != 0).sum() >= 1
    assert set(info(record)["steps"]["status"]) >= passed
    assert any("stands still" in text for _, text in record.notices)
    again = replay_run(tmp_path / "runs", Options()).figures
    assert again["identical"] is True and again["steps"] == len(found)


@pytest.mark.parametrize("transport, end", cases(("ipc", signal.SIGKILL), ("shm", signal.SIGTERM)))
def test_a_simulator_that_may_not_go_on_without_input_ends_and_says_so(
    start: Callable[..., Program], name: str, transport: str, end: int
) -> None:
    settings = (f"name={name}", f"transport.kind={transport}", *POLICY, "sim.stale.stop=end")
    options = [str(DRIVE), *(word for setting in settings for word in ("--set", setting))]
    sim, daq = start("sim_service", *options), start("daq_service", *options)
    sim.wait_for("the DAQ is there")
    steps = ring_of(name, "sim")
    until(
        lambda: steps.head >= 50 or sim.popen.poll() is not None, lambda: sim.said
    )  # a host that pauses is a loss, too
    steps.close()
    daq.signal(end)
    daq.end()
    assert sim.end() == InputLost.code, sim.said
    assert "input lost" in sim.said and "sim.stale.stop_after_ms = 700" in sim.said
    for left in leftovers(name):  # of the DAQ that was killed
        Path(left).unlink()
