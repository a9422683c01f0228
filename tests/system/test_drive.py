"""A drive: two processes that share nothing but blocks, from the first to the last, on every transport."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sync.config import load, runtime_directory
from sync.errors import RingError
from sync.ring import SHM, RingReader
from tests.system.conftest import DRIVE, ROOT, Program, free_port

Start = Callable[..., Program]
TIMES = ("transfer_us", "age_us", "step_us", "lateness_us")


@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
def test_a_drive_ends_clean_and_its_balance_closes(drive: Start, transport: str) -> None:
    ports = ["--set", f"transport.daq_port={free_port()}", "--set", f"transport.sim_port={free_port()}"]
    run = drive("--seconds", "3", "--json", "--transport", transport, *ports)
    assert run.end() == 0, run.said
    result = run.json()
    assert result["transport"] == transport
    assert result["seconds"] == pytest.approx(3.0, abs=1.0)
    assert 3.0 / 0.005 * 0.7 < result["steps"] < 5.0 / 0.005
    balance = result["balance"]
    assert balance["closes"]
    assert balance["produced"] == result["blocks"] == balance["used"] + balance["superseded"] + balance["lost"]
    assert balance["lost"] == 0
    assert result["bytes"] == 8 * result["blocks"]
    assert result["ring_reader"] == {**result["ring_reader"], "lost": 0, "out_of_order": 0, "read": result["blocks"]}
    assert result["not_newest"] == 0
    assert result["capped_steps"] == 0
    assert result["first_step_s"] < 60  # three seconds once everything is compiled
    if transport != "shm":  # counted at both ends of the wire: hardly anything is overtaken at 1 kHz
        assert result["wire"]["received"] > 0.7 * result["wire"]["sent"]
    for key in TIMES:
        times = result[key]
        assert times["n"] > 0, key
        assert times["p50"] <= times["p90"] <= times["p99"] <= times["p999"] <= times["max"], key
    assert result["age_us"]["n"] == result["steps"]


def test_without_json_the_table_of_the_source_stands_beside_ours(drive: Start) -> None:
    run = drive("--seconds", "1")
    assert run.end() == 0, run.said
    for expected in (
        "source, mean of five",
        "0.43",
        "ms per loop",
        "transfer",
        "age at use",
        "lateness",
        "balance closes",
    ):
        assert expected in run.printed


def test_ctrl_c_ends_a_drive_with_its_report(drive: Start) -> None:
    run = drive("--seconds", "0", "--json")
    run.wait_for("the DAQ is there")
    time.sleep(1.0)
    run.signal(signal.SIGINT)
    assert run.end(20) == 0, run.said
    assert run.json()["balance"]["closes"]


def test_a_simulator_reads_no_block_of_a_life_before_it(start: Start, name: str) -> None:
    """A killed simulator leaves its received blocks behind; the next one does not drive by them."""
    config = load(DRIVE, [f"name={name}"])
    leave = "import sys, os, numpy as np; from sync.config import load; from sync.ring import RingWriter, push;"
    leave += f"c = load({str(DRIVE)!r}, ['name={name}']); w = RingWriter(c.ring('sim_in'), c.daq.layout, 16384);"
    leave += "[push(w.words, np.zeros(c.daq.layout.words, np.int64)) for _ in range(100)]; os._exit(9)"
    assert subprocess.run([sys.executable, "-c", leave], cwd=ROOT, check=False).returncode == 9
    sim = start("sim_service", str(DRIVE), "--set", f"name={name}", "--json")
    sim.wait_for("steps 0")
    time.sleep(1.0)
    sim.signal(signal.SIGINT)
    assert sim.end(20) == 0, sim.said
    assert sim.json()["steps"] == 0
    assert not (SHM / config.ring("sim_in")).exists()


def test_a_second_drive_of_the_same_name_is_refused(drive: Start) -> None:
    first = drive("--seconds", "0", "--json")
    first.wait_for("the DAQ is there")
    second = drive("--seconds", "1", "--json")
    assert second.end() == 1
    assert "is going on already" in second.said
    first.signal(signal.SIGINT)
    assert first.end(20) == 0
    assert first.json()["balance"]["closes"]


def test_ten_kilohertz_lose_nothing_and_leave_the_step_alone(drive: Start) -> None:
    run = drive("--seconds", "3", "--json", "--set", "daq.rate_hz=10000.0")
    assert run.end() == 0, run.said
    result = run.json()
    assert result["blocks"] > 25_000
    assert result["ring_reader"]["read"] == result["blocks"]
    assert result["ring_reader"]["lost"] == 0
    assert result["balance"]["closes"]
    assert result["steps"] == pytest.approx(result["seconds"] / 0.005, rel=0.1)


def test_a_driver_in_the_loop_steers_by_the_published_pose(drive: Start, name: str) -> None:
    """Open loop the circuit cannot be driven: the pose must come back, and be the car's."""
    run = drive("--seconds", "14", "--json", "--set", 'source.manoeuvre="manoeuvres/follow_circuit.toml"')
    run.wait_for("the DAQ is there")
    config = load(DRIVE, [f"name={name}"])
    ring = RingReader(config.ring("sim"), timeout_s=30)
    x, y = [], []
    end = time.monotonic() + 12
    while time.monotonic() < end:
        block = ring.newest()
        if block is not None:
            x.append(float(block["x"]))
            y.append(float(block["y"]))
        time.sleep(0.02)
    ring.close()
    assert run.end() == 0, run.said
    assert max(x) > 50  # along the first straight and into the bend …
    assert max(y) > 3  # … and round it, on the road: the path's bend ends at x = 64
    assert max(x) < 68


@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_two_terminals_find_each_other_and_each_other_again(start: Start, name: str, transport: str) -> None:
    setting = ("--set", f"name={name}", "--set", f"transport.kind={transport}")
    sim = start("tandem", "sim", str(DRIVE), *setting, "--json")
    daq = start("tandem", "daq", str(DRIVE), *setting)
    sim.wait_for("the DAQ is there")
    daq.wait_for("the simulator is there")
    time.sleep(0.5)
    daq.signal(signal.SIGINT)
    assert daq.end(20) == 0, daq.said
    sim.wait_for("the DAQ has ended")
    again = start("tandem", "daq", str(DRIVE), *setting)
    sim.wait_for("input is fresh again")
    time.sleep(0.5)
    sim.signal(signal.SIGINT)
    assert sim.end(20) == 0, sim.said
    report = sim.json()
    assert report["epochs"] == 2
    if transport == "ipc":
        assert report["received"]["epochs"] == 2
        # the DAQ went on sending: what came after the last step is all that is missing
        assert 0 <= report["received"]["blocks"] - report["used"] - report["superseded"] < 100
    again.signal(signal.SIGINT)
    assert again.end(20) == 0


def test_services_do_not_outlive_a_killed_supervisor(drive: Start, name: str) -> None:
    run = drive("--seconds", "0", "--json")
    run.wait_for("the DAQ is there")
    config = load(DRIVE, [f"name={name}"])
    pids = []
    for role in ("daq", "sim"):
        ring = RingReader(config.ring(role), timeout_s=10)
        pids.append(ring.writer_pid)
        ring.close()
    run.signal(signal.SIGKILL)
    run.end()
    end = time.monotonic() + 15
    while time.monotonic() < end and any(_alive(pid) for pid in pids):
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in pids)
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


def test_every_run_leaves_its_report(drive: Start, tmp_path: Path) -> None:
    run = drive("--seconds", "1", "--json")
    assert run.end() == 0, run.said
    (folder,) = (tmp_path / "runs").iterdir()
    assert "age" in (folder / "report.html").read_text()
    report = json.loads((folder / "report.json").read_text())
    assert report["runs"][0]["figures"]["steps"] == run.json()["steps"]


def test_a_disk_that_takes_no_report_is_no_reason_to_lose_the_figures(drive: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = drive("--seconds", "1", "--json", "--no-record", "--runs", str(tmp_path / "file"))
    assert run.end() == 0, run.said
    assert run.json()["steps"] > 0
    assert "no report" in run.said


def test_runtime_directory_is_private() -> None:
    assert runtime_directory().stat().st_mode & 0o777 == 0o700


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
