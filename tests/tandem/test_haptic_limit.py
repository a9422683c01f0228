"""The limit that a haptic run is held down to: when it is measured, and what is said."""

from pathlib import Path

import pytest

from sync.config import load
from tandem.doctor import haptics
from tandem.doctor.findings import Case
from tandem.doctor.haptics import Loop, held_down, loop

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
WALL, SPRING = CONFIGS / "wall.toml", CONFIGS / "mass_spring.toml"


def test_nothing_is_measured_where_no_hand_is_in_the_loop_or_the_limit_is_set() -> None:
    assert held_down(load(SPRING), SPRING, []) == ([], "")
    own = ["sim.parameters.stiffness_limit=9e5"]
    assert held_down(load(WALL, own), WALL, own) == ([], "")
    assert "no hand" in loop(Case(load(SPRING), SPRING, 1.0)).reason


def test_a_wall_that_is_too_stiff_is_held_down_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement itself is a run: checks/haptics.py."""
    monkeypatch.setattr(haptics, "measured", lambda *_: Loop(5000.0, 4e-4, 1e-4, 4000.0))
    config = load(WALL, ["sim.parameters.stiffness=20000.0"])
    settings, said = held_down(config, WALL, [])
    assert settings == ["sim.parameters.stiffness_limit=4000.0"]
    assert "delay 400 us (median 100)" in said and "20000 N/m asked for are held down" in said
    found = loop(Case(config, WALL, 1.0))
    assert found.verdict == "warn" and "held down" in found.reason and "stiffness_limit" in found.remedy
    assert loop(Case(load(WALL, ["sim.parameters.stiffness=3000.0"]), WALL, 1.0)).verdict == "pass"
    unknown = loop(Case(load(WALL, ["sim.parameters.device_damping=0.0"]), WALL, 1.0))
    assert unknown.verdict == "warn" and "device_damping" in unknown.remedy
