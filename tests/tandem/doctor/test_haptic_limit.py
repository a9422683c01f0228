"""The limit that a haptic run is held down to: when it is measured, and what is said."""

import math
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim_service.registry import configured_machine
from sync.config.config import load
from sync.errors import ConfigError
from tandem.commands.cli import app
from tandem.doctor import haptics, trial_run
from tandem.doctor.findings import Case
from tandem.doctor.haptics import Loop, device_delay, held_down, loop, shown_share
from tandem.live import run as live_run

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
WALL, SPRING = CONFIGS / "wall.toml", CONFIGS / "mass_spring.toml"


def test_nothing_is_measured_where_no_hand_is_in_the_loop_or_the_limit_is_set() -> None:
    assert held_down(load(SPRING), SPRING, []) == ([], "")
    own = ["sim.parameters.stiffness_limit=9e5"]
    assert held_down(load(WALL, own), WALL, own) == ([], "")
    assert "no hand" in loop(Case(load(SPRING), SPRING, 1.0)).reason


def test_a_wall_that_is_too_stiff_is_held_down_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement itself is a run: verify/physics/haptics.py."""
    monkeypatch.setattr(haptics, "measured", lambda *_: Loop(5000.0, 4e-4, 1e-4, 4000.0, 3e-4))
    config = load(WALL, ["sim.parameters.stiffness=20000.0"])
    settings, said = held_down(config, WALL, [])
    assert settings[:3] == [
        f"sim.parameters.{each}" for each in ("stiffness_limit=4000.0", "damping_limit=0.0", "passive_only=1.0")
    ]
    assert settings[3:] == ["source.effort.delay_ms=0.3", "source.effort.late_power=1"]
    assert "delay 400 us (median 100)" in said and "20000 N/m asked for are held down" in said
    found = loop(Case(config, WALL, 1.0))
    assert found.verdict == "warn" and "held down" in found.reason and "stiffness_limit" in found.remedy
    assert loop(Case(load(WALL, ["sim.parameters.stiffness=3000.0"]), WALL, 1.0)).verdict == "pass"
    unknown = loop(Case(load(WALL, ["sim.parameters.device_damping=0.0"]), WALL, 1.0))
    assert unknown.verdict == "warn" and "device_damping" in unknown.remedy


@pytest.mark.parametrize("aside", ["display=2.0", "crossing=1.0"])
def test_what_no_limit_is_known_of_is_shown_to_a_hand_only_where_the_limit_is_set(aside: str) -> None:
    with pytest.raises(ConfigError, match="stiffness_limit yourself"):
        held_down(load(WALL, [f"sim.parameters.{aside}"]), WALL, [])


@pytest.mark.parametrize(
    ("gain", "newton", "share"),
    [(1.0, 1.0, 1.0), (10.0, 1.0, 0.1), (1.0, 4.0, 0.25), (-1.0, 1.0, 0.0)],
)
def test_a_device_that_gives_more_than_the_machine_asks_for_has_a_lower_limit(
    gain: float, newton: float, share: float
) -> None:
    config = load(WALL, [f"source.effort.gain={gain}", f"source.newton={newton}"])
    assert shown_share(config) == pytest.approx(share)


def test_dead_time_and_lag_of_the_actuator_are_delay() -> None:
    config = load(WALL, ["source.dead_time_ms=0.5", "source.bandwidth_hz=100.0"])
    assert device_delay(config) == pytest.approx(0.5e-3 + 1.0 / (2.0 * math.pi * 100.0))
    assert device_delay(load(WALL)) == 0.0


def test_of_a_device_whose_unit_is_not_known_nothing_is_passive() -> None:
    assert shown_share(load(SPRING)) == 0.0


@pytest.mark.parametrize(("file", "limit"), [("wall", "stiffness_limit"), ("haptic_wheel", "feel_limit")])
def test_a_limit_that_was_measured_cannot_be_tuned_away(file: str, limit: str) -> None:
    machine, _ = configured_machine(load(CONFIGS / f"{file}.toml"), CONFIGS)
    assert limit in {each.name for each in machine.parameters if not each.live}


@pytest.mark.parametrize("file", ["wall", "haptic_wheel"])
def test_a_simulator_by_itself_wants_the_limit_in_its_configuration(file: str) -> None:
    done = CliRunner().invoke(app, ["sim", str(CONFIGS / f"{file}.toml")])
    assert done.exit_code == 2 and "_limit is not set: a hand is in this loop" in done.stderr


class SilentOnceThere:
    """Since long ago, as soon as that file is there."""

    def __init__(self, file: Path):
        self._file = file

    @property
    def too_long(self) -> bool:
        return self._file.exists()


def test_a_run_that_hangs_while_it_is_measured_is_said_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs, asked = tmp_path / "hangs", tmp_path / "asked"
    hangs.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{asked}.new' && mv '{asked}.new' '{asked}' && exec sleep 900"
    )
    hangs.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr(trial_run, "_POLL_S", 0.01)
    monkeypatch.setattr(trial_run, "Silence", lambda _: SilentOnceThere(asked))
    own = ("source.dead_time_ms=1.0",)
    with pytest.raises(ConfigError, match=r"measured: a run of 1 s has not ended, and nothing was compiled for 301 s"):
        loop(Case(load(WALL, list(own)), WALL, 1.0, own))
    # as the doctor was asked, and nobody is pushed
    words = asked.read_text().splitlines()
    assert own[0] in words and words.index("source.effort.gain=0.0") > words.index(own[0])


def test_what_is_wrong_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run, "_limits", lambda *_: pytest.fail("measured"))
    with pytest.raises(ConfigError, match=r"source\.mass = -1"):
        live_run.live_run(WALL, ["source.mass=-1.0"], 1.0, "x")
