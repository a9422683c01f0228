"""`kill -9` of either process during a drive: the other says so at once, nothing hangs, nothing is left behind."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sync.record import open_run
from tests.examples import cases
from tests.system.conftest import DRIVE, Program, pid_of, ring_of, running, until, wait_for_steps

Start = Callable[..., Program]


@pytest.mark.parametrize(
    "transport, victim, exit_message, says",
    cases(
        ("shm", "daq", "the DAQ was killed by SIGKILL", "sim: the DAQ (pid "),
        ("ipc", "sim", "the simulator was killed by SIGKILL", "daq: the simulator (pid "),
    ),
)
def test_a_killed_service_is_missed_by_the_supervisor_and_by_the_other(
    drive: Start, name: str, transport: str, victim: str, exit_message: str, says: str
) -> None:
    run = drive("--seconds", "0", "--json", "--transport", transport, "--set", "supervision.restart=false")
    run.wait_for("the DAQ is there")
    run.wait_for("the simulator is there")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    steps.close()
    os.kill(pid_of(name, victim), signal.SIGKILL)
    run.wait_for(exit_message)
    run.wait_for(says)
    assert run.end() == 1
    result = run.json()
    assert "SIGKILL" in result["ended"]
    noted = [text for _, text in open_run(Path(result["record"]["file"])).notices]
    assert exit_message in noted and any(text.startswith(says) for text in noted)
    if victim == "daq":  # what it produced is known from its ring, and where every block went from the living
        assert result["balance"]["closes"]


def test_a_killed_daq_leaves_a_simulator_that_says_so_and_waits(start: Start, name: str) -> None:
    setting = ("--set", f"name={name}")
    sim = start("sim_service", str(DRIVE), *setting, "--json")
    daq = start("daq_service", str(DRIVE), *setting)
    sim.wait_for("the DAQ is there")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    daq.signal(signal.SIGKILL)
    daq.end()
    sim.wait_for("has crashed")
    sim.wait_for("input is stale")
    # a new DAQ adopts the dead one's ring: positions go on, in a new epoch
    reborn = start("daq_service", str(DRIVE), *setting)
    sim.wait_for("input is fresh again")
    wait_for_steps(steps, steps.head + 50)
    steps.close()
    reborn.signal(signal.SIGINT)
    assert reborn.end() == 0
    sim.signal(signal.SIGINT)
    assert sim.end() == 0
    report = sim.json()
    assert report["epochs"] == 2
    assert report["received"]["backwards"] == 0
    assert report["stale_steps"] > 0


def test_leftovers_of_a_dead_run_are_swept_by_the_next(drive: Start, name: str) -> None:
    run = drive("--seconds", "0", "--json")
    run.wait_for("the DAQ is there")
    run.wait_for("the simulator is there")
    pids = [pid_of(name, "daq"), pid_of(name, "sim")]
    run.signal(signal.SIGKILL)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    run.end()
    until(lambda: not running(pids), lambda: f"killed processes are still there: {running(pids)}")
    following = drive("--seconds", "1", "--json")
    assert following.end() == 0, following.said
    assert following.json()["balance"]["closes"]
