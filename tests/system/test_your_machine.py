"""docs/your_machine.md, command by command: run, record, replay, calibrate, tune and feel a machine that is no car."""

import json
import re
import shlex
import signal
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.config.config import load
from sync.record import open_run
from tests.system.conftest import ROOT, Program, assert_all_that_was_due, ring_of, tandem, until, wait_for_steps
from tests.system.test_calibrate import Levers, Person

PAGE = (ROOT / "docs" / "your_machine.md").read_text()
FENCES = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [command for language, text in FENCES if language == "sh" for command in text.splitlines()]
MASS_SPRING = ROOT / "configs" / "mass_spring.toml"
Start = Callable[..., Program]


def commands(*words: str) -> list[list[str]]:
    """Those of the page that have these words, as `tandem` gets them."""
    return [shlex.split(c)[1:] for c in COMMANDS if all(word in c for word in words)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where its commands find what they name, and leave their runs."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_here(place: Path, name: str, words: list[str]) -> str:
    run = Program("tandem", *words, "--set", f"name={name}", "--set", "view.enabled=false", place=place)
    try:
        assert run.end() == 0, f"{words}\n{run.printed}\n{run.said}"
    finally:
        run.close()
    return run.printed


def test_the_machine_is_as_small_as_it_says_and_as_it_is_shown() -> None:
    module = ROOT / "tandem" / "machines" / "mass_spring" / "__init__.py"
    # a machine is one file; its derivatives, which nobody needs for a drive, are another
    assert {file.name for file in module.parent.glob("*.py")} == {"__init__.py", "tangent.py"}
    assert sum(len(file.read_text().splitlines()) for file in (module, MASS_SPRING)) <= 150
    (shown,) = [text for language, text in FENCES if language == "python"]
    assert shown in module.read_text()
    assert len(commands()) == len(commands(".")) == 14  # every one of them has its place below


def test_it_runs_is_recorded_and_replays(place: Path, name: str) -> None:
    for words in commands("run ", "--seconds 3"):
        assert "record whole" in run_here(place, name, words)
    first, second = commands("run ", "--seconds 5")
    said = run_here(place, name, first)
    assert "balance closes" in said and "record whole" in said and "Round trip" in said
    run_here(place, name, second)
    heavy = open_run(place / "runs")
    steps = heavy.topics["/step"].blocks
    figures = json.loads((heavy.path.parent / "report.json").read_text())["runs"][0]["figures"]
    assert_all_that_was_due(figures, 5000)
    assert len(steps) == figures["steps"] and len(heavy.topics["/effort"].blocks) > 0
    # by its own equation, from what was recorded: the spring of the second run is twice as stiff
    assert np.allclose(steps["hand_force"], 400.0 * steps["stretch"], rtol=0, atol=1e-12)
    assert np.allclose(steps["stretch"], steps["handle"] - steps["position"], rtol=0, atol=1e-12)
    assert np.ptp(steps["position"]) > 0.03
    for words in commands("info runs") + commands("replay runs", "--out") + commands("compare") + commands("plot"):
        done = tandem(*words)
        assert done.code == 0, f"{words}\n{done.printed}\n{done.said}"
    done = tandem("replay", str(heavy.path), "--json")
    assert json.loads(done.printed)["identical"] is True and json.loads(done.printed)["efforts"]["differing"] == 0


def test_it_is_calibrated_by_its_own_row(start: Start, place: Path, name: str) -> None:
    (words,) = commands("calibrate")
    levers = Levers(load(MASS_SPRING).daq.layout, {"handle": 0}, {"handle": -800})
    try:
        far = f'source={{kind="remote", host="127.0.0.1", port={levers.port}}}'
        (place / "runs").mkdir()
        out = place / "runs" / "calibration.toml"
        asked = ["calibrate", str(MASS_SPRING), "--out", str(out)]
        assert words == ["calibrate", "configs/mass_spring.toml", "--out", "runs/calibration.toml"]
        run = start("tandem", *asked, "--set", f"name={name}", "--set", far, stdin=subprocess.PIPE)
        Person(run, levers, {"handle": "0.04"}).until()
        assert run.end() == 0, run.said
    finally:
        levers.close()
    found = tomllib.loads(out.read_text())["inputs"]["handle"]
    assert found["per_count"] == pytest.approx(5e-5, rel=0.01) and found["sign"] == -1
    assert "in the middle" in run.said and "to the right" in run.said


@pytest.mark.drill
def test_it_is_tuned_and_felt_while_it_runs(start: Start, place: Path, name: str) -> None:
    (words,) = commands("run ", "--seconds 0")
    running = start(
        "tandem", "run", str(MASS_SPRING), *words[2:], "--set", f"name={name}", "--set", "view.enabled=false",
        "--runs", str(place / "runs"), "--json",
    )  # fmt: skip
    steps = ring_of(name, "sim")
    wait_for_steps(steps, 200)
    (tune,) = commands("tune")
    done = tandem(*tune, "--set", f"name={name}")
    assert done.code == 0, done.said

    def stiffer() -> bool:
        last = steps.newest()
        return abs(last["stretch"]) > 1e-4 and last["hand_force"] == pytest.approx(300.0 * last["stretch"])

    until(stiffer, lambda: f"{steps.newest()}")
    steps.close()
    running.signal(signal.SIGINT)
    assert running.end() == 0, running.said
    effort = running.json()["effort"]
    assert effort["round_trip_us"]["round_trip"]["p50"] > 0
    record = open_run(place / "runs")
    given, made = record.topics["/effort"].blocks, record.topics["/step"].blocks
    force = dict(zip(made["step"].tolist(), made["hand_force"].tolist(), strict=True))
    of_steps = given[given["step"] >= 0]
    assert len(of_steps) > 100  # the first of them rise from zero, within the slew
    assert of_steps["wanted"] == pytest.approx([0.1 * force[step] for step in of_steps["step"].tolist()], rel=1e-12)
    assert np.abs(given["given"]).max() > 0.5 * np.abs(given["wanted"]).max() > 0.0
    replayed = json.loads(tandem("replay", str(record.path), "--json").printed)
    assert replayed["identical"] is True  # with the change of the stiffness, at its own step


def test_a_car_needs_no_code(place: Path, name: str) -> None:
    (drive,) = commands("drive")
    run_here(place, name, drive)
    for words in commands("replay runs", "cg_height") + commands("vehicle report"):
        done = tandem(*words)
        assert done.code == 0, f"{words}\n{done.printed}\n{done.said}"
