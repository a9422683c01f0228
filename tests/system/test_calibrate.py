"""Calibration for real: a DAQ process, answers through a pipe or a terminal, and a drive with what was found."""

import os
import pty
import shutil
import signal
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sync.clock import now_ns
from sync.config.config import load
from sync.record import open_run
from sync.ring.block import Layout
from sync.transport.wire import Publisher, context
from tandem.records.replay import Options, replay_run
from tests.ports import free_port
from tests.system.conftest import DRIVE, ROOT, Program, leftovers, ring_of, until

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
RELEASED = {"steering": 0, "throttle": 300, "brake": -50}  # in counts of these sensors
HELD = {"steering": -750, "throttle": 30, "brake": 9950}
AMOUNTS = {"steering": f"{LEFT_DEG:g}", "brake": f"{PRESSURE_BAR:g}"}  # what a person says of these
STILL = 0.01  # a lever that still creeps to its end by less than this counts as held

# everything at rest, then in 0.3 s to its other end, and held there
QUICKLY = f"""
title = "Plateaus"
seconds = 600.0
[steering_deg]
points = [[0, 0], [0.2, 0], [0.5, {-LEFT_DEG}]]
[throttle]
points = [[0, 1], [0.2, 1], [0.5, {1 - FALL}]]
[brake_bar]
points = [[0, 0], [0.2, 0], [0.5, {PRESSURE_BAR}]]
"""


@pytest.fixture
def car(tmp_path: Path) -> Path:
    folder = tmp_path / "car"
    shutil.copytree(ROOT / "configs" / "vehicles", folder / "vehicles")
    shutil.copytree(ROOT / "configs" / "tyres", folder / "tyres")
    (folder / "quickly.toml").write_text(QUICKLY)
    text = DRIVE.read_text().replace('"manoeuvres/town.toml"', '"quickly.toml"' + SENSORS)
    (folder / "car.toml").write_text(text.replace("vehicles/buggy.toml", "vehicles/buggy_single_track.toml"))
    return folder / "car.toml"


class Levers:
    """The wheel and the pedals at another DAQ, whose every block a remote source reads: moved when the test says so."""

    def __init__(self, layout: Layout, released: dict[str, int], held: dict[str, int]):
        self.port, self._layout = free_port(), layout
        self.released, self.held = released, held
        self._there, self._wanted, self._still = dict(released), dict(released), 0
        self._stop, self._changed = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def move(self, row: str, counts: int) -> None:
        """Returns when it has been there for longer than is looked back."""
        with self._changed:
            self._wanted[row], self._still = counts, 0
        until(lambda: self._still > 700, "nothing is published")

    def _publish(self) -> None:
        own = context()
        publisher = Publisher(own, f"tcp://127.0.0.1:{self.port}", self._layout, waiting=10_000)
        words = np.zeros((1, self._layout.words), np.int64)
        block = self._layout.view(words)[0]
        block["epoch"] = 1
        while not self._stop.wait(0.001):
            with self._changed:
                for row, counts in self._wanted.items():
                    self._there[row] += int(np.clip(counts - self._there[row], -40, 40))  # as fast as a hand
                    block[row] = self._there[row]
                self._still = self._still + 1 if self._there == self._wanted else 0
            block["seq"] += 1
            block["t_ns"] = block["pushed_ns"] = now_ns()
            publisher.publish(words[0])
        publisher.close()
        own.destroy(0)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def levers() -> Iterator[Levers]:
    made = Levers(load(DRIVE).daq.layout, RELEASED, HELD)
    yield made
    made.close()


class Person:
    """Answers every question once, when it has been asked; before that a hand does what is asked for."""

    def __init__(self, program: Program, levers: Levers | None = None, amounts: dict[str, str] = AMOUNTS):
        self._program, self._levers, self._amounts, self._answered = program, levers, amounts, 0

    def _question(self) -> str:
        """The next one; empty when the program has ended."""
        asked: list[str] = []

        def come() -> bool:
            asked[:] = [line for line in list(self._program.err) if line.endswith(":")]
            return len(asked) > self._answered or self._program.popen.poll() is not None

        until(come, lambda: self._program.said)
        if len(asked) <= self._answered:
            return ""
        self._answered = len(asked)
        return asked[-1]

    def _answer(self, question: str) -> str:
        row = question.partition(":")[0]
        if "you will" in question:
            return self._amounts[row]
        if self._levers is not None and "then Enter" in question:
            self._levers.move(row, (self._levers.held if "hold it" in question else self._levers.released)[row])
        return ""

    def until(self, said: str = "nothing that it says") -> None:
        """Answers until it has said that, or has ended."""
        while said not in self._program.said and (question := self._question()):
            if said in self._program.said:
                break
            assert self._program.popen.stdin is not None
            self._program.popen.stdin.write(self._answer(question) + "\n")
            self._program.popen.stdin.flush()


def calibrating(start: Start, car: Path, name: str, *options: str, stdin: int = subprocess.PIPE) -> Program:
    return start("tandem", "calibrate", str(car), "--set", f"name={name}", *options, stdin=stdin)


def nothing_left(car: Path, name: str) -> None:
    assert leftovers(f"{name[:16]}_cal_*") == []
    assert sorted(p.name for p in car.parent.glob("*car*")) == ["car.toml"]


@pytest.mark.drill
def test_a_drive_with_what_was_found_reads_the_truth_and_so_does_its_replay(
    start: Start, drive: Start, car: Path, levers: Levers, name: str, tmp_path: Path
) -> None:
    far = f'source={{kind="remote", host="127.0.0.1", port={levers.port}}}'
    run = calibrating(start, car, name, "--set", far)
    Person(run, levers).until()
    assert run.end() == 0, run.said
    assert "steering: wheels straight ahead at" in run.said and "brake: pressed with 30 bar at" in run.said
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

    options = ("--set", 'include=["car_calibration.toml"]')
    done = drive("--seconds", "0", "--transport", "shm", *options, config=car)
    steps = ring_of(name, "sim")

    def held() -> bool:
        last = steps.newest()
        return last is not None and (
            np.degrees(last["steering_angle"]) == pytest.approx(LEFT_DEG, rel=STILL)
            and last["throttle"] == pytest.approx(1.0, rel=STILL)
            and last["brake_pressure_bar"] == pytest.approx(PRESSURE_BAR, rel=STILL)
        )

    until(held, lambda: f"{steps.newest()}")
    steps.close()
    done.signal(signal.SIGINT)
    assert done.end() == 0, done.said
    fragment.unlink()
    record = open_run(tmp_path / "runs")
    assert b"sign = -1" in record.attachments["include_1.toml"]
    assert replay_run(tmp_path / "runs", Options()).figures["identical"] is True


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
