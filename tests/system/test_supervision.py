"""A process that crashes or hangs during a drive is replaced: at once, without loss, and the record shows it."""

import configparser
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.errors import TandemError
from sync.record import open_run
from tandem.records.replay import Options, replay_run
from tests.examples import cases
from tests.ports import free_port
from tests.system.conftest import (
    DRIVE,
    PATIENCE_S,
    ROOT,
    Program,
    pid_of,
    processes_of,
    ring_of,
    running,
    until,
    wait_for_steps,
)

Start = Callable[..., Program]
WEAVE = ("--set", "source.manoeuvre=manoeuvres/weave.toml")
PAGE = ("view.enabled=true", "view.port=0", "look_ahead.enabled=true")


def _until(run: Program, what: Callable[[], bool]) -> None:
    until(what, lambda: run.said)


def _recorder(run: Program) -> int:
    (pid,) = processes_of(run, "record")
    return pid


def _noted(runs: Path, text: str) -> bool:
    """Whether it stands in a record that is still being written."""
    with contextlib.suppress(TandemError):
        return any(text in said for _, said in open_run(runs).notices)
    return False


def test_a_process_that_crashes_or_hangs_is_replaced_and_nothing_recorded_is_lost(
    drive: Start, name: str, tmp_path: Path
) -> None:
    run = drive("--seconds", "0", "--json", *WEAVE)
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 1)
    os.kill(pid_of(name, "sim"), signal.SIGKILL)
    run.wait_for("the simulator is back")
    os.kill(_recorder(run), signal.SIGKILL)
    run.wait_for("the recorder is back")
    os.kill(pid_of(name, "daq"), signal.SIGSTOP)  # it is there, but has no heartbeat
    run.wait_for("the DAQ has not moved for")
    run.wait_for("the DAQ is back")
    until(lambda: _noted(tmp_path / "runs", "the DAQ is back"), "what was said does not reach the record")
    # both at once, as the supervisor sees it: what the simulator had received must still reach the record
    run.signal(signal.SIGSTOP)
    for pid in (pid_of(name, "sim"), _recorder(run)):
        os.kill(pid, signal.SIGKILL)
    run.signal(signal.SIGCONT)
    _until(run, lambda: run.said.count("the simulator is back") == run.said.count("the recorder is back") == 2)
    wait_for_steps(steps, steps.head + 100)
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    result = run.json()
    deaths = [d["process"] for d in result["deaths"]]
    seen = iter(deaths)
    assert all(each in seen for each in ("sim", "record", "daq")), deaths
    # in which order it sees the last two depends on where in a look it was stopped
    assert deaths.count("sim") >= 2 and deaths.count("record") >= 2, deaths
    # and whatever else a busy machine stopped for so long
    assert len(deaths) == 4 + run.said.count("has not moved for"), deaths
    assert all(d["outage_s"] is not None for d in result["deaths"])  # how long: verify/robustness/soak.py
    assert result["balance"]["closes"] and result["record"]["whole"], result["record"]
    record = open_run(tmp_path / "runs")
    assert record.whole
    epochs = record.topics["/daq"].blocks["epoch"].astype(np.int64)
    assert np.flatnonzero(np.diff(epochs)).size == 1  # of the DAQ that stood still
    assert (record.topics["/step"].blocks["step"] == 0).sum() == 3  # of three simulators
    for topic in record.topics.values():
        assert topic.missing == 0
    said = [text for _, text in record.notices]
    for what in ("the simulator was killed by SIGKILL", "the recorder was killed by SIGKILL", "the DAQ is back"):
        assert any(what in text for text in said), said
    assert replay_run(tmp_path / "runs", Options()).figures["identical"] is True


@pytest.mark.drill
def test_a_process_that_worked_since_the_last_look_is_replaced_when_it_crashes(
    drive: Start, start: Start, name: str
) -> None:
    """Its ring says that it worked: the supervisor sees the first step and the crash at one look (unless it was stopped
    in the middle of one; tests/tandem/live/supervisor/test_restart_policy.py has that look alone)."""
    ports = {key: free_port() for key in ("daq_port", "sim_port", "clock_port", "every_port")}
    far = ["transport.kind=tcp", f"name={name}_far", *(f"transport.{key}={port}" for key, port in ports.items())]
    source = f'source={{kind="remote", host="127.0.0.1", port={ports["every_port"]}}}'
    run = drive("--seconds", "0", "--json", "--set", source)
    steps = ring_of(name, "sim")
    run.signal(signal.SIGSTOP)
    assert steps.head == 0
    start("tandem", "daq", str(DRIVE), *(word for setting in far for word in ("--set", setting)))  # the first block
    wait_for_steps(steps, 1)
    crashed = pid_of(name, "sim")
    os.kill(crashed, signal.SIGKILL)
    until(lambda: not running([crashed]), "it does not end")
    run.signal(signal.SIGCONT)
    run.wait_for("the simulator is back")
    wait_for_steps(steps, steps.head + 20)
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    assert [d["process"] for d in run.json()["deaths"]] == ["sim"], run.said


def test_a_replacement_that_dies_is_replaced_and_who_dies_too_often_is_given_up(drive: Start, name: str) -> None:
    run = drive("--seconds", "0", "--json", "--transport", "shm", "--set", "supervision.restarts=2")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 1)
    steps.close()
    first = pid_of(name, "daq")
    os.kill(first, signal.SIGKILL)
    _until(run, lambda: processes_of(run, "daq") not in ([], [first]))
    os.kill(max(set(processes_of(run, "daq")) - {first}), signal.SIGKILL)  # perhaps before it has done anything
    _until(run, lambda: run.said.count("the DAQ was killed by SIGKILL; another takes its place") == 2)
    _until(run, lambda: processes_of(run, "daq") != [] and pid_of(name, "daq") in processes_of(run, "daq"))
    os.kill(pid_of(name, "daq"), signal.SIGKILL)
    assert run.end() == 1
    assert "it crashed 3 times within 60 s" in run.said
    result = run.json()
    assert result["record"]["whole"] and len(result["deaths"]) == 2


@pytest.mark.parametrize(
    ("killed", "then"),
    cases(
        (("template", "sim"), "its spare takes over"),
        (("template", "spare", "sim"), "it is restarted"),
        (("template",), "its spare takes over"),
    ),
)
def test_a_template_that_crashes_is_replaced_and_the_drive_goes_on(
    drive: Start, name: str, tmp_path: Path, killed: tuple[str, ...], then: str
) -> None:
    run = drive("--seconds", "0", "--json", *WEAVE)
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 1)
    _until(run, lambda: len(processes_of(run, "spare")) == 1)
    (template,), (spare,) = processes_of(run, "template"), processes_of(run, "spare")
    run.signal(signal.SIGSTOP)
    for pid in [pid for role in killed for pid in processes_of(run, role)]:
        os.kill(pid, signal.SIGKILL)
    run.signal(signal.SIGCONT)
    run.wait_for(f"the process that starts the others has ended: {then}")
    if "sim" not in killed:
        os.kill(pid_of(name, "sim"), signal.SIGKILL)
    run.wait_for("the simulator is back")
    wait_for_steps(steps, steps.head + 20)
    steps.close()
    # and it has a spare again
    _until(run, lambda: processes_of(run, "template") not in ([], [template]))
    _until(run, lambda: processes_of(run, "spare") not in ([], [spare]))
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    result = run.json()
    assert [d["process"] for d in result["deaths"]] == ["sim"], run.said
    assert result["balance"]["closes"] and result["record"]["whole"], result["record"]
    assert replay_run(tmp_path / "runs", Options()).figures["identical"] is True


def test_all_processes_end_when_the_supervisor_is_killed(drive: Start, name: str) -> None:
    run = drive("--seconds", "0", "--json")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 1)
    steps.close()
    _until(run, lambda: len(processes_of(run, "spare")) == 1)
    pids = [pid for role in ("template", "spare", "daq", "sim", "record") for pid in processes_of(run, role)]
    assert len(pids) == 5
    run.signal(signal.SIGKILL)
    run.end()
    _until(run, lambda: not running(pids))


@pytest.mark.parametrize("seen", cases("daq", "template", "", quick=2))
def test_a_drive_that_is_interrupted_while_it_starts_leaves_nothing(drive: Start, name: str, seen: str) -> None:
    """At once; while the template imports; while the first of its forks are there."""
    run = drive("--seconds", "0", "--json", fresh=True)
    if seen:
        _until(run, lambda: processes_of(run, seen) != [])
    pids = [pid for role in ("template", "daq", "sim", "record") for pid in processes_of(run, role)]
    run.signal(signal.SIGINT)
    run.end()
    _until(run, lambda: not running(pids))
    if seen:  # at once, it may still be the interpreter that is interrupted
        assert "Traceback" not in run.said, run.said
    assert not list(Path("/dev/shm").glob(f"tandem.{name}.*"))


def test_forks_have_one_thread_to_begin_with(tmp_path: Path) -> None:
    """A thread of the template would not survive a fork: neither imports nor the model may start one."""
    code = (
        "import os; from pathlib import Path; from tandem.live.supervisor.template import Builder; "
        "from tandem.live.supervisor.launch import PROCESSES;"
        f"b = Builder(Path({str(ROOT / 'configs' / 'drive.toml')!r}), []);"
        "[b.prepare(p) for p in PROCESSES]; print(len(os.listdir('/proc/self/task')))"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1"], done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: all take turns on it")
def test_nothing_but_the_loop_runs_on_its_core_and_nothing_is_forked_once_it_runs(drive: Start, name: str) -> None:
    """What a page imports, a recorder writes and a template forks would make the loop wait."""
    run = drive("--seconds", "0", *(word for s in PAGE for word in ("--set", s)))
    run.wait_for("the page: ")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, steps.head + 10)
    steps.close()
    roles = ("daq", "sim", "record", "view", "look_ahe", "template", "spare")  # as long as the kernel lets a name be
    found = {role: processes_of(run, role) for role in roles}
    assert all(len(pids) == 1 for pids in found.values()), found
    threads = [int(task.name) for role in roles for task in Path(f"/proc/{found[role][0]}/task").iterdir()]
    loop_core = max(os.sched_getaffinity(0))
    there = [thread for thread in [run.popen.pid, *threads] if loop_core in os.sched_getaffinity(thread)]
    (loop,) = there
    assert Path(f"/proc/{found['sim'][0]}/task/{loop}").exists()
    begun = {pid: _started(pid) for pids in found.values() for pid in pids}
    # in ticks of the kernel, since it started: all are older than the loop
    assert all(begun[pid] <= _started(loop) for pid in begun), (begun, _started(loop))
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said


def _started(thread: int) -> int:
    return int(Path(f"/proc/{thread}/stat").read_text().rsplit(")", 1)[1].split()[19])


def test_a_service_manager_is_told_that_it_runs(drive: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
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
