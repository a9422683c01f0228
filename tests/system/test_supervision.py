"""Whoever dies during a drive is replaced: at once, without loss, and the record tells that it was so."""

import configparser
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.record import open_run
from tandem.replay import Asked, replay_run
from tests.system.conftest import ROOT, Program, pid_of, ring_of, wait_for_steps

Start = Callable[..., Program]
WEAVE = ("--set", "source.manoeuvre=manoeuvres/weave.toml")
ALLOWED_S = 20.0  # to be back: with a spare 0.2 s are seen, without one 4 s


def _spares(run: Program) -> set[str]:
    """Modules of which a spare waits: it has imported everything, so it sleeps in a read of its standard input."""
    found = set()
    for child in Path(f"/proc/{run.popen.pid}/task/{run.popen.pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"--spare" in words and Path(f"/proc/{child}/wchan").read_text().endswith(("pipe_read", "pipe_wait")):
            found.add(words[2].decode())
    return found


def _until(run: Program, what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, run.said
        time.sleep(0.05)


def _recorder(run: Program) -> int:
    for child in Path(f"/proc/{run.popen.pid}/task/{run.popen.pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        open_files = [os.readlink(fd) for fd in Path(f"/proc/{child}/fd").iterdir()]
        if b"tandem.recorder" in words and any(file.endswith(".mcap") for file in open_files):
            return int(child)
    raise AssertionError("no recorder")


def test_whoever_dies_or_stands_still_is_replaced_and_nothing_recorded_is_lost(
    drive: Start, name: str, tmp_path: Path
) -> None:
    run = drive("--seconds", "0", "--json", *WEAVE, "--set", "supervision.spares=true")
    steps = ring_of(name, "sim")
    _until(run, lambda: _spares(run) == {"daq_service", "sim_service", "tandem.recorder"})
    os.kill(pid_of(name, "sim"), signal.SIGKILL)
    run.wait_for("the simulator is back", ALLOWED_S)
    os.kill(_recorder(run), signal.SIGKILL)
    run.wait_for("the recorder is back", ALLOWED_S)
    os.kill(pid_of(name, "daq"), signal.SIGSTOP)  # it lives, but its heart has stopped
    run.wait_for("the DAQ has not moved for", ALLOWED_S)
    run.wait_for("the DAQ is back", ALLOWED_S)
    _until(run, lambda: _spares(run) == {"daq_service", "sim_service", "tandem.recorder"})
    # both at once, as the supervisor sees it: the new recorder must have the old rings before they are made anew
    run.signal(signal.SIGSTOP)
    for pid in (pid_of(name, "sim"), _recorder(run)):
        os.kill(pid, signal.SIGKILL)
    run.signal(signal.SIGCONT)
    _until(run, lambda: run.said.count("the simulator is back") == run.said.count("the recorder is back") == 2)
    head = steps.head
    time.sleep(0.5)
    assert steps.head > head
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end(60) == 0, run.said
    result = run.json()
    assert [d["process"] for d in result["deaths"]] == ["sim", "record", "daq", "record", "sim"]
    assert all(d["outage_s"] < ALLOWED_S for d in result["deaths"])
    assert result["balance"]["closes"] and result["record"]["whole"], result["record"]
    record = open_run(tmp_path / "runs")
    assert record.whole
    epochs = record.topics["/daq"].blocks["epoch"].astype(np.int64)
    assert np.flatnonzero(np.diff(epochs)).size == 1  # of the DAQ that stood still
    assert (record.topics["/step"].blocks["step"] == 0).sum() == 3  # of three simulators
    for topic in record.topics.values():
        assert topic.missing == 0
    said = [text for _, text in record.said]
    for what in ("the simulator was killed by SIGKILL", "the recorder was killed by SIGKILL", "the DAQ is back"):
        assert any(what in text for text in said), said
    assert replay_run(tmp_path / "runs", Asked()).figures["identical"] is True


def _importing(run: Program, module: str, other_than: int) -> int:
    """A replacement that has just been started."""
    end = time.monotonic() + ALLOWED_S
    while time.monotonic() < end:
        for child in Path(f"/proc/{run.popen.pid}/task/{run.popen.pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError):
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if module.encode() in words and int(child) != other_than:
                    return int(child)
        time.sleep(0.01)
    raise AssertionError(f"no other {module}")


def test_a_replacement_that_dies_is_replaced_and_who_dies_too_often_is_given_up(drive: Start, name: str) -> None:
    run = drive("--seconds", "0", "--json", "--transport", "shm", "--set", "supervision.restarts=2")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 1)
    steps.close()
    first = pid_of(name, "daq")
    os.kill(first, signal.SIGKILL)
    os.kill(_importing(run, "daq_service", first), signal.SIGKILL)  # it has not done anything yet
    run.wait_for("the DAQ is back", 2 * ALLOWED_S)
    os.kill(pid_of(name, "daq"), signal.SIGKILL)
    assert run.end(60) == 1
    assert "it died 3 times within 60 s" in run.said
    result = run.json()
    assert result["record"]["whole"] and len(result["deaths"]) == 2


def test_a_service_manager_is_told_that_it_runs(drive: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        run = drive("--seconds", "2", "--json")
        told = [manager.recv(100).decode()]
        while told[-1] != "STOPPING=1":
            told.append(manager.recv(100).decode())
        assert run.end() == 0
    assert told.index("READY=1") < len(told) - 2 and told[-2] == "WATCHDOG=1"


def test_the_unit_for_systemd_is_one() -> None:
    unit = ROOT / "deploy" / "tandem.service"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    said = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    # the program is not in its place here, everything else must be right
    wrong = [line for line in said.stderr.splitlines() if "tandem.service" in line and "is not executable" not in line]
    assert not wrong
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    words = parser["Service"]["ExecStart"].split()[1:]
    assert words[0] == "drive" and "--seconds" in words and parser["Install"]["WantedBy"] == "multi-user.target"
