"""How a run ends is how it was: crashes, steps that were not made, records that are gone, starts that failed."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sync.record import open_run
from tandem.reports.outcome import INTERRUPTED, RECORD_INCOMPLETE, SHORT
from tests.ports import free_port
from tests.system.conftest import DRIVE, ROOT, Program, pid_of, processes_of, ring_of, running, until, wait_for_steps

Start = Callable[..., Program]


def shell_code(run: Program) -> int:
    """The exit code as a shell reports it, also of a process that a signal ended."""
    code = run.end()
    return 128 - code if code < 0 else code


def test_a_simulator_that_is_not_back_makes_the_run_short(drive: Start, name: str, tmp_path: Path) -> None:
    run = drive("--seconds", "0", "--json")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    steps.close()
    for role in ("template", "spare"):
        until(lambda role=role: processes_of(run, role), lambda: run.said)  # type: ignore[misc]
        for pid in processes_of(run, role):
            os.kill(pid, signal.SIGSTOP)  # nobody starts another one
    os.kill(pid_of(name, "sim"), signal.SIGKILL)
    run.wait_for("the simulator was killed by SIGKILL")
    run.signal(signal.SIGINT)
    code, result = run.end(), run.json()
    (crash,) = result["deaths"]
    assert code == SHORT and crash["outage_s"] is None, run.said
    assert crash["process"] == "sim" and result["steps_not_made"] > 0
    assert "was not back at the end" in run.said and "that were due were not made" in run.said
    assert result["balance"]["closes"] and result["balance"]["lost"] > 0  # blocks that nobody could read
    # what passed is what the record says, not when it was noticed
    record = open_run(tmp_path / "runs").topics["/step"].blocks
    passed = (int(record["pushed_ns"][-1]) - int(record["started_ns"][0])) * 1e-9
    assert result["seconds"] == pytest.approx(passed, abs=0.002)
    page = next((tmp_path / "runs").glob("*/report.html")).read_text()
    assert "crashed once" in page and "were not made" in page


def test_a_run_that_fails_says_how_much_of_it_was_not_made(drive: Start, name: str, tmp_path: Path) -> None:
    run = drive("--seconds", "60", "--json", "--set", "supervision.restart=false")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    steps.close()
    os.kill(pid_of(name, "sim"), signal.SIGKILL)
    assert run.end() == 1, run.said
    result = run.json()
    made = open_run(tmp_path / "runs").topics["/step"].blocks
    assert result["steps"] == len(made)
    passed_s = 1e-9 * int(made["pushed_ns"][-1] - made["started_ns"][0])  # not counted in steps: some may be given up
    assert result["steps_not_made"] == pytest.approx((60.0 - passed_s) / 0.005, abs=200)
    assert result["balance"]["closes"] and "steps that were due were not made" in run.said


def test_a_record_that_is_deleted_during_the_drive_is_missed_and_said(drive: Start, name: str, tmp_path: Path) -> None:
    run = drive("--seconds", "0", "--json")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 50)
    shutil.rmtree(tmp_path / "runs")
    run.wait_for("was deleted or moved during the run: the record is not whole")
    wait_for_steps(steps, steps.head + 20)  # the drive goes on
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == RECORD_INCOMPLETE, run.said
    record = run.json()["record"]
    assert not record["whole"] and "was deleted or moved" in record["state"]
    assert "the record is not whole" in run.said


@pytest.mark.drill
def test_a_start_without_room_for_its_rings_says_so_and_leaves_no_run(drive: Start, tmp_path: Path) -> None:
    small = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"'
    inside = ("unshare", "-m", "sh", "-c", small, "sh")
    if shutil.which("unshare") is None or os.system("unshare -m mount -t tmpfs -o size=64k tmpfs /dev/shm 2>/dev/null"):
        pytest.skip("a small /dev/shm cannot be made here")
    run = drive("--seconds", "1", inside=inside)
    assert run.end() == 1, run.said
    assert "the drive did not start" in run.said and "/dev/shm" in run.said
    assert run.printed.strip() == ""
    assert not list((tmp_path / "runs").iterdir())


def _children(run: Program) -> list[str]:
    try:
        return Path(f"/proc/{run.popen.pid}/task/{run.popen.pid}/children").read_text().split()
    except FileNotFoundError:
        return []


def _at_work(run: Program, name: str) -> bool:
    ring_of(name, "sim").close()
    return True


def test_ctrl_c_while_the_command_line_is_imported_has_that_code_too() -> None:
    script = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "tandem.commands.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from tandem.__main__ import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (INTERRUPTED, "", "")


@pytest.mark.drill
def test_ctrl_c_while_it_compiles_has_that_code_too(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "tandem", "drive", "--seconds", "1", "--runs", str(runs)]
    run = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "TANDEM_CACHE": str(tmp_path / "cache")}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert run.stderr is not None
    try:
        said = iter(run.stderr.readline, "")
        assert any("compiling for `drive`: 0 of" in line for line in said)
        until(lambda: list((tmp_path / "cache").rglob("*.nbi")), "nobody compiles")
        workers = [int(pid) for pid in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
        os.killpg(run.pid, signal.SIGINT)  # everybody, as a terminal does
        printed, rest = run.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    assert (128 - run.returncode if run.returncode < 0 else run.returncode) == INTERRUPTED, rest
    assert workers
    until(lambda: not running(workers), lambda: f"left: {running(workers)}")
    assert printed == "" and "Traceback" not in rest and not runs.exists()


@pytest.mark.parametrize(
    "phase", [lambda run, name: bool(_children(run)), _at_work], ids=["processes started", "processes at work"]
)
def test_ctrl_c_before_the_first_step_has_one_code_in_every_phase(
    drive: Start, name: str, tmp_path: Path, phase: Callable[[Program, str], bool]
) -> None:
    nobody = f'source={{kind="remote", host="127.0.0.1", port={free_port()}}}'  # so that there is no first step
    run = drive("--seconds", "0", "--json", "--set", nobody, fresh=True)
    until(lambda: phase(run, name), lambda: run.said)
    run.signal(signal.SIGINT)
    assert shell_code(run) == INTERRUPTED, run.said
    assert run.printed == ""
    assert not list(tmp_path.glob("runs/*"))


def test_a_run_ends_after_its_seconds_though_its_device_gives_nothing(start: Start, name: str, tmp_path: Path) -> None:
    nobody = f'source={{kind="remote", host="127.0.0.1", port={free_port()}}}'
    run = start(
        "tandem", "run", str(ROOT / "configs" / "mass_spring.toml"), "--seconds", "1", "--set", f"name={name}",
        "--set", "view.enabled=false", "--set", nobody, "--runs", str(tmp_path / "runs"),
    )  # fmt: skip
    assert run.end() == 1
    assert "no step within 3 s: the source gave no block (source.kind = 'remote')" in run.said


@pytest.mark.drill
def test_services_alone_say_what_they_wait_for_and_end_in_words(start: Start, name: str) -> None:
    sim = start("tandem", "sim", str(DRIVE), "--set", f"name={name}")
    daq = start("tandem", "daq", str(DRIVE), "--set", f"name={name}_b")
    sim.wait_for("waiting for blocks of a DAQ (ipc://")
    daq.wait_for(f"waiting for a simulator on this host (blocks are in ring tandem.{name}_b.daq.{os.getuid()}, ipc://")
    sim.wait_for("still waiting for blocks of a DAQ")  # and since when
    for service, word in ((sim, "no step was made, for want of a block"), (daq, "scans lost")):
        service.signal(signal.SIGINT)
        assert service.end() == 0, service.said
        assert service.printed == ""
        assert word in service.said


def test_the_lane_change_that_is_shown_is_within_its_seconds() -> None:
    (command,) = [line for line in (ROOT / "docs" / "uses.md").read_text().splitlines() if "lane_change.toml" in line]
    options = command.split()
    seconds = float(options[options.index("--seconds") + 1])
    manoeuvre = next(word for word in options if "manoeuvre=" in word).partition("=")[2]
    sines = tomllib.loads((ROOT / "configs" / manoeuvre).read_text())["steering_deg"]["sines"]
    assert seconds >= max(sine["start"] + sine["cycles"] / sine["frequency_hz"] for sine in sines)
