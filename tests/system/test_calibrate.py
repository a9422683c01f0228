"""Calibration for real: a DAQ process, answers through a pipe or a terminal, and a drive with what was found."""

import os
import pty
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.record import open_run
from tandem.replay import Asked, replay_run
from tests.system.conftest import DRIVE, PATIENCE_S, ROOT, Program, leftovers

Start = Callable[..., Program]

# An encoder that counts down to the left, a throttle that counts down when pressed; the pressure's scale and offset.
SENSORS = """
encoder_deg_per_count = 0.12
throttle_full_counts = 300.0
brake_full_bar = 60.0
brake_full_counts = 20000.0
brake_offset_counts = -50.0
"""
LEFT_DEG, FALL, PRESSURE_BAR = 90.0, 0.9, 30.0
STILL = 0.01  # a lever that still creeps to its end by less than this counts as held


def manoeuvre(steering: float, throttle: float, brake: float) -> str:
    """Everything at rest until these instants, then in 0.3 s to its other end, and held there."""
    return f"""
title = "Plateaus"
seconds = 600.0
[steering_deg]
points = [[0, 0], [{steering}, 0], [{steering + 0.3}, {-LEFT_DEG}]]
[throttle]
points = [[0, 1], [{throttle}, 1], [{throttle + 0.3}, {1 - FALL}]]
[brake_bar]
points = [[0, 0], [{brake}, 0], [{brake + 0.3}, {PRESSURE_BAR}]]
"""


@pytest.fixture
def car(tmp_path: Path) -> Path:
    folder = tmp_path / "car"
    shutil.copytree(ROOT / "configs" / "vehicles", folder / "vehicles")
    shutil.copytree(ROOT / "configs" / "tyres", folder / "tyres")
    (folder / "slowly.toml").write_text(manoeuvre(2.0, 4.0, 6.0))
    (folder / "quickly.toml").write_text(manoeuvre(0.2, 0.2, 0.2))
    text = DRIVE.read_text().replace('"manoeuvres/town.toml"', '"slowly.toml"' + SENSORS)
    (folder / "car.toml").write_text(text.replace("vehicles/buggy.toml", "vehicles/buggy_single_track.toml"))
    return folder / "car.toml"


class Person:
    """Enter, again and again, until the program has moved on."""

    def __init__(self, program: Program):
        self._program = program
        program.wait_for("Enter captures")

    def answer(self, text: str = "") -> None:
        assert self._program.popen.stdin is not None
        self._program.popen.stdin.write(text + "\n")
        self._program.popen.stdin.flush()

    def until(self, said: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while said not in self._program.said:
            assert time.monotonic() < end and self._program.popen.poll() is None, self._program.said
            self.answer()
            time.sleep(0.25)


def calibrating(start: Start, car: Path, name: str, *options: str, stdin: int = subprocess.PIPE) -> Program:
    return start("tandem", "calibrate", str(car), "--set", f"name={name}", *options, stdin=stdin)


def nothing_left(car: Path, name: str) -> None:
    assert leftovers(f"{name[:16]}_cal_*") == []
    assert sorted(p.name for p in car.parent.glob("*car*")) == ["car.toml"]


def test_a_drive_with_what_was_found_reads_the_truth_and_so_does_its_replay(
    start: Start, drive: Start, car: Path, name: str, tmp_path: Path
) -> None:
    run = calibrating(start, car, name)
    person = Person(run)
    person.until("steering: wheels straight ahead at")
    person.until("steering: deg you will move it")
    person.answer(f"{LEFT_DEG:g}")
    person.until("throttle: released, then")
    person.until("throttle: fully pressed at")
    person.until("brake: released at")
    person.answer(f"{PRESSURE_BAR:g}")
    person.until("brake: pressed with 30 bar at")
    person.answer()
    assert run.end() == 0, run.said
    assert leftovers(f"{name[:16]}_cal_*") == []
    fragment = car.with_name("car_calibration.toml")
    assert str(fragment) in run.said
    found = tomllib.loads(fragment.read_text())
    assert list(found) == ["inputs"] and list(found["inputs"]) == ["steering", "throttle", "brake"]
    steering, throttle, brake = found["inputs"].values()
    assert steering["per_count"] == pytest.approx(0.12, rel=STILL)
    assert steering["sign"] == -1
    assert throttle["full_counts"] == pytest.approx(-FALL * 300, rel=STILL)
    assert brake["full_counts"] == pytest.approx(10_000, rel=STILL)
    assert brake["zero_counts"] == pytest.approx(-50, abs=1)
    assert brake["full"] == PRESSURE_BAR
    assert steering["zero_counts"] == throttle["zero_counts"] == 0.0

    settings = ("source.manoeuvre=quickly.toml", 'include=["car_calibration.toml"]')
    options = [word for setting in settings for word in ("--set", setting)]
    done = drive("--seconds", "1", "--transport", "shm", *options, config=car)
    assert done.end() == 0, done.said
    fragment.unlink()
    record = open_run(tmp_path / "runs")
    last = record.topics["/step"].blocks[-1]
    assert np.degrees(last["steering_angle"]) == pytest.approx(LEFT_DEG, rel=STILL)
    assert last["throttle"] == pytest.approx(1.0, rel=STILL)
    assert last["brake_pressure_bar"] == pytest.approx(PRESSURE_BAR, rel=STILL)
    assert b"sign = -1" in record.attachments["include_1.toml"]
    assert replay_run(tmp_path / "runs", Asked()).figures["identical"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whatever_interrupts_it_leaves_nothing_behind(start: Start, car: Path, name: str, number: int) -> None:
    run = calibrating(start, car, name)
    Person(run).until("steering: wheels straight ahead at")
    run.signal(number)
    assert run.end() == 1
    assert "nothing is written" in run.said and "Traceback" not in run.said
    nothing_left(car, name)


def test_answers_that_end_too_early_write_nothing(start: Start, car: Path, name: str) -> None:
    run = calibrating(start, car, name, stdin=subprocess.DEVNULL)
    assert run.end() == 1
    assert "nothing is written" in run.said and "Traceback" not in run.said
    nothing_left(car, name)


def test_it_can_only_be_looked_at(start: Start, car: Path, name: str) -> None:
    run = calibrating(start, car, name, "--show", stdin=subprocess.DEVNULL)
    run.wait_for("blocks/s")
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    assert "steering" in run.said and "bar" in run.said
    nothing_left(car, name)


def test_on_a_terminal_a_key_acts_at_once(start: Start, car: Path, name: str) -> None:
    person, terminal = pty.openpty()
    run = calibrating(start, car, name, stdin=terminal)
    os.close(terminal)
    run.wait_for("Enter captures")
    for channel in ("steering", "throttle", "brake"):
        os.write(person, b"s")
        run.wait_for(f"{channel}: skipped")
    assert run.end() == 1
    assert "every row was skipped" in run.said
    os.close(person)
    nothing_left(car, name)


def test_a_source_that_cannot_be_opened_is_said(start: Start, car: Path, name: str) -> None:
    run = calibrating(start, car, name, "--set", "source.manoeuvre=none.toml")
    assert run.end() == 2
    assert "none.toml" in run.said and "no such file" in run.said
    nothing_left(car, name)
