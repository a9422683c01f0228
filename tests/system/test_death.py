"""`kill -9` of either process during a drive: the other says so at once, nothing hangs, nothing is left behind."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sync.record import open_run
from tests.system.conftest import DRIVE, Program, pid_of

Start = Callable[..., Program]
ALLOWED_S = 2.0  # the promise is 0.5 s, seen are 0.05 to 0.2 s; ten times that is what a loaded machine gets


@pytest.mark.parametrize(
    "transport, victim, obituary, says",
    [
        ("shm", "daq", "the DAQ was killed by SIGKILL", "sim: the DAQ (pid "),
        ("ipc", "sim", "the simulator was killed by SIGKILL", "daq: the simulator (pid "),
    ],
)
def test_a_killed_service_is_missed_at_once(
    drive: Start, name: str, transport: str, victim: str, obituary: str, says: str
) -> None:
    run = drive("--seconds", "0", "--json", "--transport", transport, "--set", "supervision.restart=false")
    run.wait_for("the DAQ is there")
    run.wait_for("the simulator is there")
    time.sleep(1.0)
    pid = pid_of(name, victim)
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    assert run.wait_for(obituary, 10) - killed < ALLOWED_S
    assert run.wait_for(says, 10) - killed < ALLOWED_S
    assert run.end(30) == 1
    result = run.json()
    assert "SIGKILL" in result["ended"]
    noted = [text for _, text in open_run(Path(result["record"]["file"])).said]
    assert obituary in noted and any(text.startswith(says) for text in noted)
    if victim == "daq":  # what it produced is known from its ring, and where every block went from the living
        assert result["balance"]["closes"]


def test_a_killed_daq_leaves_a_simulator_that_says_so_and_waits(start: Start, name: str) -> None:
    setting = ("--set", f"name={name}")
    sim = start("sim_service", str(DRIVE), *setting, "--json")
    daq = start("daq_service", str(DRIVE), *setting)
    sim.wait_for("the DAQ is there")
    time.sleep(1.0)
    killed = time.monotonic()
    daq.signal(signal.SIGKILL)
    daq.end()
    assert sim.wait_for("has died", 10) - killed < ALLOWED_S
    assert sim.wait_for("input is stale", 10) - killed < ALLOWED_S
    # a new DAQ adopts the dead one's ring: positions go on, in a new epoch
    reborn = start("daq_service", str(DRIVE), *setting)
    sim.wait_for("input is fresh again")
    time.sleep(0.3)
    reborn.signal(signal.SIGINT)
    assert reborn.end(20) == 0
    sim.signal(signal.SIGINT)
    assert sim.end(20) == 0
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
    time.sleep(0.2)
    following = drive("--seconds", "1", "--json")
    assert following.end() == 0, following.said
    assert following.json()["balance"]["closes"]
