"""Records of real drives: the same run twice is the same bits; whatever fails, what was recorded can be read."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sync.config.config import load
from sync.errors import TandemError
from sync.record import open_run
from tandem.records.exchange.exporter import export as run_export
from tandem.records.inspect.info import info
from tandem.records.provenance import model_parameters
from tandem.records.replay import Options, replay_run
from tandem.records.replay_save import save
from tandem.reports.outcome import RECORD_INCOMPLETE
from tests.examples import cases
from tests.system.conftest import DRIVE, WEAVE, Program, Recorded, processes_of, ring_of, tandem, until, wait_for_steps

Start = Callable[..., Program]


def replayed(runs: Path, mode: str = "exact") -> dict[str, Any]:
    done = replay_run(runs, Options(mode=mode))
    assert np.abs(done.columns()["steering_speed"]).max() > 1.0
    return done.figures


@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
def test_a_drive_replays_to_the_bit(recorded: Callable[[str], Recorded], tmp_path: Path, transport: str) -> None:
    driven = recorded(transport)
    result, runs = driven.result, driven.runs
    record = result["record"]
    assert record["whole"] and record["state"] == "whole"
    assert record["topics"]["/step"]["recorded"] == result["steps"]
    assert record["topics"]["/daq"]["recorded"] == result["blocks"]
    assert all(t["lost"] == t["dropped"] == t["before"] == 0 for t in record["topics"].values())
    again = replayed(runs)
    assert again["identical"] is True and again["first_difference"] is None
    assert again["steps"] == result["steps"]
    # without transport the same blocks are there a little earlier
    ideal = replayed(runs, "ideal")
    assert ideal["steps"] == result["steps"] and "on_board" in ideal["against"]
    save(replay_run(runs, Options()), tmp_path / "saved", {})
    assert replayed(tmp_path / "saved")["identical"] is True
    found = info(open_run(runs))
    assert found["whole"] and found["ended"] == "all seconds done"
    assert found["topics"]["/daq"]["rate_hz"] == 1000 and found["topics"]["/step"]["channels"]["vx"] == "m/s"
    summary = open_run(runs).json("summary.json")
    assert summary["steps"] == result["steps"] and summary["balance"] == result["balance"]


@pytest.mark.drill
@pytest.mark.parametrize("file, roller", cases(("omni_square", "wheel2_roller"), ("omni_bench", "wheel_roller")))
def test_a_machine_with_omni_wheels_replays_to_the_bit(
    start: Start, name: str, tmp_path: Path, file: str, roller: str
) -> None:
    """Contacts that open and close, impulses found by iteration: all of it from what was recorded."""
    own = ("--set", f"name={name}", "--set", "view.enabled=false", "--runs", str(tmp_path))
    run = start("tandem", "run", str(DRIVE.parent / f"{file}.toml"), "--seconds", "1", *own)
    assert run.end() == 0, run.said
    record = open_run(tmp_path)
    steps = record.topics["/step"].blocks
    assert len(steps) > 50 and np.ptp(steps["x"]) > 0.01 and len(set(steps[roller].tolist())) > 1
    replayed = json.loads(tandem("replay", str(record.path), "--json").printed)
    assert replayed["identical"] is True


@pytest.mark.parametrize(
    "transport,end", cases(("ipc", signal.SIGKILL), ("shm", signal.SIGTERM), ("shm", signal.SIGKILL))
)
def test_a_daq_started_anew_in_the_middle_is_replayed_too(
    start: Start, name: str, tmp_path: Path, transport: str, end: int
) -> None:
    options = (str(DRIVE), "--set", f"name={name}", "--set", f"transport.kind={transport}", *WEAVE)
    recorder = start("tandem", "record", *options, "--runs", str(tmp_path))
    recorder.wait_for("record: state")
    sim, daq = start("tandem", "sim", *options), start("tandem", "daq", *options)
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 200)
    daq.signal(end)
    daq.end()
    epoch = int(steps.newest()["input_epoch"])
    daq = start("tandem", "daq", *options)
    until(lambda: int(steps.newest()["input_epoch"]) != epoch, "no step on a block of the new DAQ")
    before = steps.head
    wait_for_steps(steps, before + 200)
    for program in (sim, daq, recorder):
        program.signal(signal.SIGINT)
    assert sim.end() == 0 and daq.end() == 0
    assert recorder.end() == 0, recorder.said
    steps.close()
    run = open_run(tmp_path)
    recorded = run.topics["/step"].blocks
    assert len(np.unique(recorded["input_epoch"])) == 2
    assert run.topics["/daq"].missing == 0
    again = replayed(tmp_path)
    assert again["identical"] is True
    assert again["steps"] == len(recorded) > 400


@pytest.mark.drill
def test_a_simulator_killed_and_started_anew_is_replayed_too(start: Start, name: str, tmp_path: Path) -> None:
    options = (str(DRIVE), "--set", f"name={name}", *WEAVE)
    # what a life before left behind is none of this record
    left = start("tandem", "daq", *options), start("tandem", "sim", *options)
    ring = ring_of(name, "sim")
    wait_for_steps(ring, 100)
    for program in left:
        program.signal(signal.SIGKILL)
        program.end()
    recorder = start("tandem", "record", *options, "--runs", str(tmp_path))
    recorder.wait_for("record: state")
    daq, sim = start("tandem", "daq", *options), start("tandem", "sim", *options)
    before = ring.head
    wait_for_steps(ring, before + 200)
    sim.signal(signal.SIGKILL)
    sim.end()
    sim = start("tandem", "sim", *options)
    before = ring.head
    wait_for_steps(ring, before + 200)
    for program in (sim, daq, recorder):
        program.signal(signal.SIGINT)
    assert sim.end() == 0 and daq.end() == 0
    assert recorder.end() == 0, recorder.said
    ring.close()
    recorded = open_run(tmp_path).topics["/step"].blocks
    assert np.count_nonzero(recorded["step"] == 0) == 2 and recorded["step"][0] == 0
    again = replayed(tmp_path)
    assert again["identical"] is True and again["steps"] == len(recorded)


@pytest.mark.drill
def test_killed_recorders_that_are_replaced_cost_the_record_nothing(start: Start, name: str, tmp_path: Path) -> None:
    options = (str(DRIVE), "--set", f"name={name}", *WEAVE)
    config = load(DRIVE, [f"name={name}"])
    recorders = [start("tandem.live.recorder", *options, "--supervised", stdin=subprocess.PIPE) for _ in range(3)]
    parameters = model_parameters(config, DRIVE).decode()

    def tell(recorder: Program, **what: Any) -> None:
        until(lambda: "ready" in recorder.printed, lambda: recorder.said)
        assert recorder.popen.stdin is not None
        recorder.popen.stdin.write(json.dumps(what) + "\n")
        recorder.popen.stdin.flush()

    def take_up(recorder: Program, again: bool) -> None:
        tell(recorder, folder=str(tmp_path / "run"), parameters=parameters, again=again)
        until(lambda: "status" in recorder.printed, lambda: recorder.said)

    take_up(recorders[0], again=False)
    sim, daq = start("tandem", "sim", *options), start("tandem", "daq", *options)
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 150)
    recorders[0].signal(signal.SIGKILL)
    recorders[0].end()
    # while nobody records, the DAQ dies too, and comes again
    daq.signal(signal.SIGKILL)
    daq.end()
    epoch = int(steps.newest()["input_epoch"])
    daq = start("tandem", "daq", *options)
    until(lambda: int(steps.newest()["input_epoch"]) != epoch, "no step on a block of the new DAQ")
    take_up(recorders[1], again=True)
    before = steps.head
    wait_for_steps(steps, before + 100)
    recorders[1].signal(signal.SIGKILL)
    take_up(recorders[2], again=True)
    wait_for_steps(steps, before + 200)
    for program in (sim, daq):
        program.signal(signal.SIGINT)
    assert sim.end() == 0 and daq.end() == 0
    tell(recorders[2], reason="all seconds done", summary={})
    assert recorders[2].end() == 0, recorders[2].said
    head = steps.head
    steps.close()
    run = open_run(tmp_path)
    found = info(run)
    assert run.whole and found["ended"] == "all seconds done" and found["cut"] is None
    assert [part["file"] for part in found["parts"]] == ["run.mcap", "run.2.mcap", "run.3.mcap"]
    assert [part["lost"] for part in found["parts"]] == [0, 0, 0]
    assert sum("taken up again" in notice["text"] for notice in found["notices"]) == 2
    assert len(run.topics["/step"]) == head and len(np.unique(run.topics["/step"].blocks["input_epoch"])) == 2
    again = replayed(tmp_path)
    assert again["identical"] is True and again["steps"] == head
    report = json.loads(recorders[2].printed.splitlines()[-1])
    assert report["whole"] and report["topics"]["/step"]["recorded"] == head
    # told of a run in parts, as of any other
    told = tandem("info", str(tmp_path / "run" / "run.2.mcap"))
    assert told.code == 0 and "run.3.mcap: " in told.printed and "goes on where those before it end" in told.printed
    assert run_export(tmp_path, "csv", tmp_path / "out")["cut"] is None


def test_without_its_recorder_the_drive_goes_on_and_says_so(drive: Start, name: str, tmp_path: Path) -> None:
    run = drive("--seconds", "0", "--json", *WEAVE, "--set", "supervision.restart=false")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)

    def on_disk() -> int:
        """Steps that a reader finds in the unfinished file, once the wheel has been turned in them."""
        with contextlib.suppress(TandemError):
            found = len(open_run(tmp_path / "runs").topics["/step"])
            return found if found > 400 else 0
        return 0

    before = until(on_disk, "no step comes to the disk")
    killed = processes_of(run, "record")
    os.kill(killed[0], signal.SIGKILL)
    run.wait_for("the recorder was killed by SIGKILL; the run goes on unrecorded")
    wait_for_steps(steps, steps.head + 100)
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == RECORD_INCOMPLETE, run.said
    result = run.json()
    assert result["balance"]["closes"]
    assert not result["record"]["whole"] and "SIGKILL" in result["record"]["state"]
    found = open_run(tmp_path / "runs")
    assert found.end is None
    assert result["steps"] > len(found.topics["/step"]) >= before
    assert replayed(tmp_path / "runs")["identical"] is True
    said = info(found)
    assert not said["whole"] and said["ended"].startswith("without an end")


@pytest.mark.drill
def test_a_recorder_that_dies_before_it_begins_costs_the_record_only(drive: Start, name: str) -> None:
    while True:  # if we are so late that it has begun, it is replaced: then once more
        run = drive("--seconds", "0", "--json")
        recorder = until(lambda: processes_of(run, "record"), "no recorder was started")[0]  # noqa: B023
        os.kill(recorder, signal.SIGKILL)
        steps = ring_of(name, "sim")
        wait_for_steps(steps, 100)
        steps.close()
        run.wait_for("the recorder was killed by SIGKILL")
        run.signal(signal.SIGINT)
        code = run.end()
        if "another takes its place" not in run.said:
            break
    assert code == RECORD_INCOMPLETE, run.said
    result = run.json()
    assert result["balance"]["closes"] and result["steps"] >= 100
    assert not result["record"]["whole"] and "SIGKILL" in result["record"]["state"]


def test_a_place_that_cannot_be_written_is_named_before_anything_starts(
    start: Start, name: str, tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    run = start(
        "tandem", "drive", str(DRIVE), "--set", f"name={name}", "--seconds", "1", "--runs", str(tmp_path / "runs"),
    )  # fmt: skip
    assert run.end() == 2, run.said
    assert f"--runs {tmp_path / 'runs'}" in run.said and "--no-record" in run.said
    assert "the DAQ is there" not in run.said and "compiling" not in run.said and run.printed == ""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not permitted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_the_record_and_nothing_else(start: Start, name: str, small_disk: Path) -> None:
    run = start(
        "tandem",
        "drive",
        str(DRIVE),
        "--set",
        f"name={name}",
        "--seconds",
        "0",
        "--json",
        "--runs",
        str(small_disk),
        *WEAVE,
    )
    run.wait_for("the disk takes nothing: No space left on device")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, steps.head + 100)  # the drive goes on
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == RECORD_INCOMPLETE, run.said
    result = run.json()
    assert result["balance"]["closes"]
    assert not result["record"]["whole"] and "No space left" in result["record"]["state"]
    found = open_run(small_disk)
    assert found.cut is not None and len(found.topics["/step"]) > 100
    assert replayed(small_disk)["identical"] is True


def test_a_disk_that_was_full_for_a_while_costs_nothing(drive: Start, small_disk: Path, name: str) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(250 * 1024))
    run = drive("--seconds", "0", "--json", "--runs", str(small_disk), *WEAVE)
    run.wait_for("No space left on device")
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    run.wait_for("the disk takes data again")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 100)
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    assert run.json()["record"]["whole"]
    assert replayed(small_disk)["identical"] is True


@pytest.mark.drill
def test_a_recorded_run_drives_again(drive: Start, recorded: Callable[[str], Recorded], tmp_path: Path) -> None:
    first = recorded("ipc").runs
    second = drive("--repeat", str(first), "--json")
    assert second.end() == 0, second.said
    a, b = open_run(first), open_run(tmp_path / "runs")
    blocks, again = a.topics["/daq"].blocks, b.topics["/daq"].blocks
    assert len(again) == len(blocks)
    for channel in ("brake", "throttle", "steering"):
        assert (again[channel] == blocks[channel]).all()
    assert (np.diff(again["t_ns"]) == np.diff(blocks["t_ns"])).all()
    assert replayed(tmp_path / "runs")["identical"] is True
