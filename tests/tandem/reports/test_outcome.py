"""What a run amounts to: counted from the rings, judged by a pure function, and said in words."""

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from sync.record.damage import read_index
from sync.ring.ring import RingWriter, push
from tandem.commands import cli
from tandem.console.present import print_report
from tandem.console.terminal import progress_bar
from tandem.live import latency
from tandem.live import reported as run_command
from tandem.live.figures import figures, printed
from tandem.live.follow import Steps
from tandem.live.run import figures_line
from tandem.live.supervisor.restart_policy import Crash
from tandem.live.supervisor.supervise import Outcome, Supervisor
from tandem.reports.html import RunData, headline
from tandem.reports.outcome import DAMAGED, FAILED, INTERRUPTED, RECORD_INCOMPLETE, SHORT, verdict
from tandem.reports.report import Report
from tests.tandem.runs import BEGIN_NS, CONFIG, CONFIGS, MS, STEP, step_words, write_drive

STEP_NS = 5 * MS
SIM_GONE = {"process": "sim", "at_s": 1.3, "why": "the simulator was killed by SIGKILL", "outage_s": None}
CLOSES = {"produced": 5000, "used": 1000, "superseded": 4000, "lost": 0, "closes": True}
CLEAN: dict[str, Any] = {"steps": 1000, "steps_not_made": 0, "deaths": [], "balance": CLOSES, "record": None}


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingWriter]:
    ring = RingWriter(f"test.outcome.{tmp_path.name}", STEP, 4096)
    yield ring
    ring.close()


def follow(ring: RingWriter, *lives: np.ndarray) -> Steps:
    """A supervisor's view of the steps of simulators that followed each other."""
    steps = Steps(ring.name, STEP_NS)
    for life in lives:
        for row in life:
            push(ring.words, row)
        steps.poll()
    return steps


def later(words: np.ndarray, steps: int) -> np.ndarray:
    """The same steps, made by a simulator that was restarted so many steps later."""
    moved = words.copy()
    view = STEP.view(moved)
    for name in ("t_ns", "started_ns", "pushed_ns"):
        view[name] += steps * STEP_NS
    view["input_seq"] += 5 * steps
    return moved


# ---- counted -------------------------------------------------------------------------------------------------------


def test_a_run_without_a_crash_has_made_every_step(ring: RingWriter) -> None:
    steps = follow(ring, step_words(300))
    assert steps.as_dict() == {**steps.as_dict(), "steps": 300, "steps_not_made": 0, "unread": 0}


def test_seconds_are_those_from_the_first_to_the_last_step_whenever_anybody_looks(ring: RingWriter) -> None:
    words = step_words(400)
    steps = follow(ring, words[:100], words[100:])
    assert steps.seconds == pytest.approx(399 * 5e-3, abs=1e-3)
    outcome = Outcome(seconds=steps.seconds, reports={"daq": {}, "sim": {}})
    outcome.counted = {"read": 0, "lost": 0, "out_of_order": 0, "head": 0, **steps.as_dict()}
    assert figures(CONFIG, outcome)["seconds"] == pytest.approx(1.995, abs=1e-3)


@pytest.mark.parametrize("together", [True, False], ids=["in one look", "in two"])
def test_steps_that_were_due_between_two_simulators_are_counted(ring: RingWriter, together: bool) -> None:
    first, second = step_words(100), later(step_words(50), 100 + 60)
    steps = follow(ring, np.concatenate([first, second])) if together else follow(ring, first, second)
    assert steps.missed == 60
    assert steps.unread == 5 * 61 - 1  # numbers 496 … 799: after the last block of one, before the first of the other


def test_steps_that_were_due_after_a_simulator_that_did_not_come_back_are_counted(ring: RingWriter) -> None:
    steps = follow(ring, step_words(268))
    steps.absent_until(BEGIN_NS + 1000 * STEP_NS)
    assert steps.missed == 732


def test_blocks_that_nobody_could_read_are_lost_not_superseded(ring: RingWriter) -> None:
    steps = follow(ring, step_words(100), later(step_words(50), 160))
    outcome = Outcome(reports={"daq": {}, "sim": {}}, crashes=[Crash("sim", 0.5, "killed", 0.3)])
    produced = steps.last_seq + 1 + 17  # the last of them came after the last step
    outcome.counted = {"read": produced, "lost": 0, "out_of_order": 0, "head": produced, **steps.as_dict()}
    balance = figures(CONFIG, outcome)["balance"]
    assert balance["closes"] and balance["used"] == 150
    assert balance["lost"] == 17 + 5 * 61 - 1


# ---- judged --------------------------------------------------------------------------------------------------------


def test_a_run_that_made_every_step_is_clean() -> None:
    assert verdict(CLEAN).code == 0 and verdict(CLEAN).complaints == ()


def test_a_crash_that_was_bridged_is_reported_and_leaves_the_run_clean() -> None:
    bridged = {**CLEAN, "deaths": [{**SIM_GONE, "outage_s": 0.3}], "steps_not_made": 60}
    assert verdict(bridged).code == 0
    assert "crashed once" in headline(
        RunData("x", {**bridged, "age_us": {"n": 9, "p50": 1.0, "max": 2.0}}, step_words(0))
    )


def test_a_simulator_that_did_not_come_back_makes_a_run_short() -> None:
    found = verdict({**CLEAN, "steps": 268, "steps_not_made": 732, "deaths": [SIM_GONE]})
    assert found.code == SHORT
    assert found.complaints == (
        "the simulator crashed and was not back at the end",
        "732 of 1000 steps that were due were not made",
    )


def test_a_view_or_a_recorder_that_did_not_come_back_does_not() -> None:
    assert verdict({**CLEAN, "deaths": [{**SIM_GONE, "process": "view"}]}).code == 0


@pytest.mark.parametrize(
    "changed, failure, code",
    [
        ({"balance": {**CLOSES, "closes": False}}, None, FAILED),
        ({"record": {"whole": False, "state": "its file is gone"}}, None, RECORD_INCOMPLETE),
        ({"record": {"whole": False, "state": "its file is gone"}, "deaths": [SIM_GONE]}, None, SHORT),
        ({"deaths": [SIM_GONE]}, "input lost", 8),
    ],
    ids=["a balance that does not close", "a record with gaps", "the more serious first", "a failure before all"],
)
def test_every_other_trouble_has_its_own_code(changed: dict[str, Any], failure: str | None, code: int) -> None:
    found = verdict({**CLEAN, **changed}, failure, code if failure else 0)
    assert found.code == code and found.complaints


# ---- said ----------------------------------------------------------------------------------------------------------


def test_crashes_and_steps_that_were_not_made_are_in_the_headline() -> None:
    short = {
        **CLEAN,
        "steps": 268,
        "steps_not_made": 732,
        "deaths": [SIM_GONE],
        "age_us": {"n": 9, "p50": 1.0, "max": 2.0},
    }
    short["balance"] = {**CLOSES, "lost": 3683, "superseded": 317}
    said = headline(RunData("x", short, step_words(0)))
    assert "nothing was lost" not in said and "All 268 steps were in time" not in said
    assert "The simulator crashed once and was not back at the end." in said
    assert "732 of 1000 steps that were due were not made." in said


def ended(**changed: Any) -> Outcome:
    """A drive that came to nothing."""
    nothing = {"read": 0, "lost": 0, "out_of_order": 0, "head": 0, "steps": 0, "steps_lost": 0, "steps_not_made": 0}
    counted = {**nothing, "used": 0, "unread": 0, "last_seq": -1}
    return Outcome(**{"reports": {"daq": {}, "sim": {}}, "counted": counted, **changed})


def run_cli(
    monkeypatch: pytest.MonkeyPatch, runs: Path, outcome: Outcome, *arguments: str, command: str = "drive"
) -> Any:
    folder = runs / "20260101T120000Z-x"
    folder.mkdir(parents=True)
    (folder / "run.mcap").write_bytes(b"of a run that never was")
    monkeypatch.setattr(run_command, "live_run", lambda *_, **__: (CONFIG, outcome, folder))
    return CliRunner().invoke(cli.app, [command, *arguments])


def test_a_failed_start_says_why_in_a_line_and_leaves_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    why = "the DAQ ended with exit code 1: tcp://127.0.0.1:5601: address in use"
    done = run_cli(monkeypatch, tmp_path / "runs", ended(failure=why, code=1))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"tandem: the drive did not start: {why}\n"
    assert not list((tmp_path / "runs").iterdir())


def test_any_machine_runs_by_its_own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        outcome = ended(failure="no device", code=7)
        return run_cli(monkeypatch, tmp_path / str(len(arguments)), outcome, *arguments, command="run")

    assert (done := run("machine.toml")).exit_code == 7 and done.stderr == "tandem: the run did not start: no device\n"
    assert (done := run()).exit_code == 2 and "CONFIG" in done.stderr  # it has none of its own


def test_a_failed_start_is_one_object_for_a_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = run_cli(monkeypatch, tmp_path / "runs", ended(failure="no room", code=1), "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["ended"] == "no room"


def test_ctrl_c_before_the_first_step_has_its_code_and_leaves_no_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = run_cli(monkeypatch, tmp_path / "runs", ended())
    assert done.exit_code == INTERRUPTED and "stopped before the first step" in done.stderr
    assert not list((tmp_path / "runs").iterdir())


def test_a_crash_stands_in_the_printed_report() -> None:
    result = figures(CONFIG, ended(crashes=[Crash("sim", 1.3, "the simulator was killed by SIGKILL")]))
    text = io.StringIO()
    shown = printed({**result, "steps": 268, "steps_not_made": 732})
    print_report(Console(file=text, width=140), Report("", "", result, shown))
    assert "The simulator crashed once and was not back at the end." in text.getvalue()
    assert "732 of 1000 steps that were due were not made." in text.getvalue()


def test_the_status_line_fits_into_80_columns() -> None:
    times = {"p50": 12345.6}
    sim = {"steps": 99, "shown": "200.0 km/h", "age_us": times, "hops_us": {"step": times}, "deadline_misses": 12345}
    bar = progress_bar()
    bar.add_task("drive", total=50.0, completed=20.0, figures=figures_line({"sim": sim}))
    text = io.StringIO()
    Console(file=text, width=80, force_terminal=True, color_system=None).print(bar.get_renderable())
    (line,) = text.getvalue().splitlines()
    for part in ("drive", "200.0 km/h", "age 12346 us", "step 12346 us", "12345 missed"):
        assert part in line


# ---- a refused configuration ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting, said",
    [
        ("daq.rat_hz=1000", "did you mean rate_hz?"),
        ("daq.rate_hz=0", "daq.rate_hz = 0"),
        ('source.kind="crystal_ball"', "must be one of virtual"),
        ("source.sede=3", "did you mean seed?"),
        ('sim.machine="vehicles/none.toml"', "none.toml': no such file"),
        ('source.manoeuvre="manoeuvres/none.toml"', "none.toml': no such file"),
        ('sim.files.road="roads/none.toml"', "none.toml': no such file"),
    ],
)
def test_a_mistyped_setting_is_refused_before_compiled_code_is_loaded(setting: str, said: str) -> None:
    """In a process of its own: what it has imported is the test. The template beside it is called off."""
    script = """
import sys
from tandem.__main__ import main
try:
    main()
finally:
    heavy = sorted({"numba", "llvmlite", "zmq", "mcap"} & set(sys.modules))
    print("heavy", heavy, file=sys.stderr)
"""
    command = [sys.executable, "-c", script, "drive", str(CONFIGS / "drive.toml"), "--set", setting]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CONFIGS.parent)
    assert ended.returncode == 2, ended.stderr
    assert said in ended.stderr and "heavy []" in ended.stderr


# ---- a run of several ----------------------------------------------------------------------------------------------


def test_the_first_step_of_each_latency_run_counts_from_its_own_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[float] = []

    def drive(*_: Any, begun_at: float | None = None) -> Any:
        assert begun_at is not None
        begun.append(begun_at)
        return CONFIG, ended(), None

    monkeypatch.setattr(latency, "live_run", drive)
    monkeypatch.setattr(latency, "checked_config", lambda *_: CONFIG)
    monkeypatch.setattr("tandem.doctor.baseline.bare_lateness", lambda *_: {})
    monkeypatch.setattr("tandem.doctor.baseline.bare_ipc", lambda *_: {})
    latency.measure(CONFIGS / "drive.toml", [], ("shm", "ipc"), 1.0, False, Console(file=io.StringIO()))
    assert len(begun) == 2 and begun[0] < begun[1] <= time.monotonic()


def test_a_run_that_is_told_when_it_began_counts_from_there() -> None:
    group: Any = type("ProcessGroup", (), {"recorder": None, "start": lambda *_: None})()
    began = time.monotonic() - 3.0
    supervisor = Supervisor(CONFIG, group, lambda *_: None, lambda _: None, None, lambda _: {}, began)
    assert supervisor._begun_at == began
    before = time.monotonic()
    alone = Supervisor(CONFIG, group, lambda *_: None, lambda _: None, None, lambda _: {})
    assert before - alone._begun_at > 0.0  # since this process began


# ---- a damaged record ----------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A drive with one damaged chunk of blocks."""
    folder = write_drive(tmp_path / "run")
    file = folder / "run.mcap"
    data = bytearray(file.read_bytes())
    index = read_index(io.BytesIO(data), len(data))
    assert index is not None
    chunk = index.chunks[sorted(index.chunks)[1]]
    data[chunk.chunk_start_offset + chunk.chunk_length - 9] ^= 0x55
    file.write_bytes(data)
    return folder


@pytest.mark.parametrize(
    "command",
    [("info",), ("info", "--json"), ("replay",), ("replay", "--mode", "ideal"), ("export", "--to", "csv"), ("plot",)],
    ids=" ".join,
)
def test_whoever_reads_a_damaged_record_reads_on_and_says_what_is_missing(damaged: Path, command: Any) -> None:
    done = CliRunner().invoke(cli.app, [command[0], str(damaged), *command[1:]])
    assert done.exit_code == DAMAGED, done.output
    assert "damaged at byte" in done.stderr and "1000 /daq missing" in done.stderr
    if command == ("info", "--json"):
        found = json.loads(done.stdout)
        assert not found["whole"] and found["topics"]["/daq"]["messages"] == 1000 and len(found["damage"]) == 1
        assert found["topics"]["/step"]["messages"] == 400  # what stands behind the damage
