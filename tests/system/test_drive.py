"""A drive: two processes that share nothing but blocks, from the first to the last, on every transport."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.step_record import SKIPPED
from sync.config.config import load, runtime_directory
from sync.errors import RingError
from sync.record import open_run
from sync.ring.ring import SHM, RingReader
from tests.examples import cases
from tests.system.conftest import (
    DRIVE,
    ROOT,
    Program,
    Recorded,
    assert_all_that_was_due,
    pid_of,
    ring_of,
    running,
    until,
    wait_for_steps,
)

Start = Callable[..., Program]
TIMES = ("transfer_us", "age_us", "step_us", "lateness_us")


@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
def test_a_drive_ends_clean_and_its_balance_closes(recorded: Callable[[str], Recorded], transport: str) -> None:
    driven = recorded(transport)
    result = driven.result
    assert result["transport"] == transport
    steps = open_run(driven.runs).topics["/step"].blocks
    assert_every_period_has_its_step(steps, result)
    assert result["seconds"] == pytest.approx(1e-9 * (steps["pushed_ns"][-1] - steps["started_ns"][0]), abs=0.002)
    balance = result["balance"]
    assert balance["closes"]
    assert balance["produced"] == result["blocks"] == balance["used"] + balance["superseded"] + balance["lost"]
    assert balance["lost"] == 0
    assert result["bytes"] == 8 * result["blocks"]
    assert result["ring_reader"] == {**result["ring_reader"], "lost": 0, "out_of_order": 0, "read": result["blocks"]}
    assert result["not_newest"] == 0
    assert result["capped_steps"] == 0
    if transport != "shm":  # counted at both ends of the wire; only the newest block is put on it, and taken from it
        assert 0 < result["wire"]["received"] <= result["wire"]["sent"] <= result["blocks"]
    for key in TIMES:
        times = result[key]
        assert times["n"] > 0, key
        assert times["p50"] <= times["p90"] <= times["p99"] <= times["p999"] <= times["max"], key
    assert result["age_us"]["n"] == result["steps"]


@pytest.mark.drill  # as the README's spring does
def test_any_machine_runs_without_the_tables_of_a_car(start: Start, name: str, tmp_path: Path) -> None:
    """What is shown is what every machine has, and what this one brings: of the car it shows nothing."""
    runs = tmp_path / "runs"
    own = ("--set", f"name={name}", "--set", "view.enabled=false", "--runs", str(runs))
    run = start("tandem", "run", str(DRIVE.with_name("tilting.toml")), "--seconds", "1", *own)
    assert run.end() == 0, run.said
    assert "balance closes" in run.printed and "Times in us" in run.printed and "beside the source" not in run.printed
    made = json.loads(next(runs.glob("*/report.json")).read_text())["runs"][0]["figures"]
    assert len(open_run(runs).topics["/step"]) == made["steps"] > 0
    assert_all_that_was_due(made, 200)
    page = next(runs.glob("*/report.html")).read_text()
    assert "<h1>tandem run: tilting</h1>" in page and "beside the source" not in page and "Gallo" not in page
    refused = start("tandem", "run", str(tmp_path / "nowhere.toml"), *own)
    assert refused.end() == 2 and "nowhere.toml: no such file" in refused.said


def assert_every_period_has_its_step(steps: np.ndarray, result: dict[str, Any]) -> None:
    """Every period of the three seconds was simulated or counted as skipped, and none after them.

    Locked to the blocks, an instant may move by a part of a period; whole ones are not lost.
    """
    assert len(steps) == result["steps"]
    assert (np.diff(steps["step"]) == 1).all()
    instants, h = steps["t_ns"], 5_000_000
    end = int(instants[0]) + 3_000_000_000
    assert instants[-1] < end
    left_out = np.round(np.diff(instants) / h).astype(int) - 1
    assert result["starved_steps"] or (left_out > 0).tolist() == (steps["status"][1:] & SKIPPED != 0).tolist()
    after_the_last = max(round((end - int(instants[-1])) / h) - 1, 0)
    assert abs(left_out.sum() + after_the_last - result["skipped"] - result["starved_steps"]) <= (after_the_last > 0)
    assert_all_that_was_due(result, 600)


@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_the_hops_of_every_step_add_up_to_its_age(recorded: Callable[[str], Recorded], transport: str) -> None:
    driven = recorded(transport)
    steps = open_run(driven.runs).topics["/step"].blocks
    sampled, pushed, sent, received = (
        steps[f"input_{stamp}"] for stamp in ("t_ns", "pushed_ns", "sent_ns", "received_ns")
    )
    if transport == "shm":
        assert not sent.any() and not received.any()
        hops = {"sensor": pushed - sampled, "wait": steps["taken_ns"] - pushed}
    else:
        hops = {"sensor": pushed - sampled, "ring": sent - pushed, "wire": received - sent}
        hops["wait"] = steps["taken_ns"] - received
    for hop in hops.values():
        assert (hop >= 0).all()  # nothing arrives before it was sent
    assert np.abs(sum(hops.values()) - steps["input_age_ns"]).max() <= 1_000
    for name, hop in hops.items():
        assert driven.result["hops_us"][name]["n"] == len(steps)
        assert driven.result["hops_us"][name]["max"] == pytest.approx(hop.max() / 1e3, abs=0.01)


def test_every_run_leaves_its_report(recorded: Callable[[str], Recorded]) -> None:
    driven = recorded("ipc")
    (folder,) = driven.runs.iterdir()
    assert "age" in (folder / "report.html").read_text()
    report = json.loads((folder / "report.json").read_text())
    assert report["runs"][0]["figures"]["steps"] == driven.result["steps"]


@pytest.mark.drill
def test_a_drive_is_the_only_one_of_its_name_until_ctrl_c_ends_it_with_its_report(drive: Start, name: str) -> None:
    first = drive("--seconds", "0", "--json")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    steps.close()
    second = drive("--seconds", "1", "--json")
    assert second.end() == 1
    assert "is going on already" in second.said
    first.signal(signal.SIGINT)
    assert first.end() == 0, first.said
    assert first.json()["balance"]["closes"]


def test_a_simulator_reads_no_block_of_a_life_before_it(start: Start, name: str) -> None:
    """A killed simulator leaves its received blocks behind; the next one does not drive by them."""
    config = load(DRIVE, [f"name={name}"])
    leave = (
        "import sys, os, numpy as np; from sync.config.config import load; from sync.ring.ring import RingWriter, push;"
    )
    leave += f"c = load({str(DRIVE)!r}, ['name={name}']); w = RingWriter(c.ring('sim_in'), c.daq.layout, 16384);"
    leave += "[push(w.words, np.zeros(c.daq.layout.words, np.int64)) for _ in range(100)]; os._exit(9)"
    assert subprocess.run([sys.executable, "-c", leave], cwd=ROOT, check=False).returncode == 9
    sim = start("sim_service", str(DRIVE), "--set", f"name={name}", "--json")
    # status lines while it waits: it has looked at its ring many times
    until(lambda: sim.said.count("steps 0") > 1, lambda: sim.said)
    sim.signal(signal.SIGINT)
    assert sim.end() == 0, sim.said
    assert sim.json()["steps"] == 0
    assert not (SHM / config.ring("sim_in")).exists()


def test_ten_kilohertz_lose_nothing_and_leave_the_step_alone(drive: Start, tmp_path: Path) -> None:
    # whoever reads, or all of us, may be stopped for seconds: a ring of ten holds what comes at once afterwards
    ring = ("--set", "daq.ring_blocks=131072")
    run = drive("--seconds", "3", "--json", "--set", "daq.rate_hz=10000.0", *ring)
    assert run.end() == 0, run.said
    result = run.json()
    record = open_run(tmp_path / "runs")
    sampled = record.topics["/daq"].blocks["t_ns"]
    assert np.median(np.diff(sampled)) == pytest.approx(100_000, rel=0.01)
    assert result["ring_reader"]["read"] == result["blocks"] == len(sampled)
    assert result["ring_reader"]["lost"] == 0
    assert result["balance"]["closes"]
    assert_every_period_has_its_step(record.topics["/step"].blocks, result)


@pytest.mark.drill
@pytest.mark.alone  # where others work the pose comes late, and a driver in the loop loses the road
def test_a_driver_in_the_loop_steers_by_the_published_pose(drive: Start, name: str, tmp_path: Path) -> None:
    """Open loop the circuit cannot be driven: the pose must come back, and be the car's."""
    run = drive("--seconds", "0", "--json", "--set", 'source.manoeuvre="manoeuvres/follow_circuit.toml"')
    steps = ring_of(name, "sim")
    # along the first straight and into the bend, and round it; of a driver that knows nothing the wheel stays as it is
    until(lambda: steps.head and float(steps.newest()["y"]) > 3.0, lambda: f"{steps.newest()}")  # type: ignore[index]
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    made = open_run(tmp_path / "runs").topics["/step"].blocks
    assert made["x"].max() > 50
    assert np.degrees(made["steering_angle"][made["x"] < 20]).max() < 0.5 * np.degrees(made["steering_angle"]).max()


@pytest.mark.parametrize("transport", cases("ipc", "shm"))
def test_two_terminals_find_each_other_and_each_other_again(start: Start, name: str, transport: str) -> None:
    setting = ("--set", f"name={name}", "--set", f"transport.kind={transport}")
    sim = start("tandem", "sim", str(DRIVE), *setting, "--json")
    daq = start("tandem", "daq", str(DRIVE), *setting)
    sim.wait_for("the DAQ is there")
    daq.wait_for("the simulator is there")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    daq.signal(signal.SIGINT)
    assert daq.end() == 0, daq.said
    sim.wait_for("the DAQ has ended")
    again = start("tandem", "daq", str(DRIVE), *setting)
    sim.wait_for("input is fresh again")
    wait_for_steps(steps, steps.head + 100)
    steps.close()
    sim.signal(signal.SIGINT)
    assert sim.end() == 0, sim.said
    report = sim.json()
    assert report["epochs"] == 2
    if transport == "ipc":
        assert report["received"]["epochs"] == 2
        # the DAQ went on sending: blocks may have come after the last step
        assert report["received"]["blocks"] >= report["used"] + report["superseded"]
    again.signal(signal.SIGINT)
    assert again.end() == 0


def test_services_do_not_outlive_a_killed_supervisor(drive: Start, name: str) -> None:
    run = drive("--seconds", "0", "--json")
    run.wait_for("the DAQ is there")
    config = load(DRIVE, [f"name={name}"])
    pids = [pid_of(name, role) for role in ("daq", "sim")]
    run.signal(signal.SIGKILL)
    run.end()
    until(lambda: not running(pids), lambda: f"outlived their supervisor: {running(pids)}")
    with pytest.raises(RingError):
        RingReader(config.ring("daq"))


def test_a_drive_without_permission_says_so_once_and_goes_on(drive: Start) -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("taking permissions away needs root and setpriv")
    without = (setpriv, "--bounding-set=-sys_nice,-ipc_lock", "prlimit", "--rtprio=0")
    run = drive("--seconds", "1", "--json", inside=without)
    assert run.end() == 0, run.said
    assert run.json()["balance"]["closes"]
    for service in ("daq", "sim"):
        assert run.said.count(f"{service}: real-time priority not permitted") == 1
    assert "limits.conf" in run.said


@pytest.mark.drill
def test_a_disk_that_takes_no_report_is_no_reason_to_lose_the_figures(drive: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = drive("--seconds", "1", "--json", "--no-record", "--runs", str(tmp_path / "file"))
    assert run.end() == 0, run.said
    assert_all_that_was_due(run.json(), 200)
    assert "no report" in run.said


def test_runtime_directory_is_private() -> None:
    assert runtime_directory().stat().st_mode & 0o777 == 0o700
