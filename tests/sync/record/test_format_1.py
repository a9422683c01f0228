"""Configurations recorded before inputs were rows: they mean what they meant."""

from pathlib import Path
from typing import Any

import pytest

from sync.config.config import Config, load
from sync.config.toml import check
from sync.errors import ConfigError
from sync.record import open_run
from sync.record.format_1 import machine_files, translated, with_machine
from sync.record.settings import recorded_rows, recorded_settings

ROOT = Path(__file__).resolve().parents[3]
WORDS = {"zero_is", "full_is"}  # for a person who calibrates


def old(sim: dict[str, Any], model: str = "buggy") -> Config:
    channels = [{"name": name, "type": "i4"} for name in ("brake", "throttle", "steering")]
    settings = {"daq": {"channels": channels}, "source": {"kind": "virtual"}, "sim": {"vehicle": "x.toml", **sim}}
    return check(Config, with_machine(translated(settings, model)), "old")


def test_a_run_of_before_has_the_rows_of_today() -> None:
    run = open_run(ROOT / "tests" / "sync" / "record" / "format_1.mcap")  # of a drive as it was recorded then
    assert "signals" in run.json("config.json")["sim"] and "inputs" not in run.json("config.json")
    found = check(Config, recorded_settings(run), "format_1").inputs
    today = load(ROOT / "configs" / "drive.toml").inputs
    assert recorded_rows(run) == list(found) == list(today)
    for name, row in today.items():
        assert found[name].model_dump(exclude=WORDS) == row.model_dump(exclude=WORDS)


def test_calibration_policies_and_ratios_are_those_of_before() -> None:
    signals = {
        "steering_estimator": "edges", "steering_sign": -1, "steering_most_deg": 900.0, "throttle_full_counts": -300.0,
        "brake_full_bar": 60.0, "brake_most_bar": 100.0, "brake_zero_counts": 5.0, "gear_ratio": 2.475,
    }  # fmt: skip
    stale = {
        "steering": {"hold_ms": 5.0, "extrapolate_ms": 20.0, "safe_deg": 3.0}, "throttle": {"hold_ms": 7.0},
        "brake": {"safe_bar": 2.0, "ramp_ms": 9.0}, "stop": "end",
    }  # fmt: skip
    config = old({"signals": signals, "stale": stale, "parameters": {"mass": 700.0}}, "single_track")
    rows: Any = config.inputs
    assert (rows["steering"].estimator, rows["steering"].sign, rows["steering"].least) == ("edges", -1, -900.0)
    assert rows["steering"].stale.model_dump() == {"hold_ms": 5, "extrapolate_ms": 20, "ramp_ms": 0, "safe": 3}
    assert rows["throttle"].full_counts == -300.0 and rows["throttle"].stale.hold_ms == 7.0
    assert rows["throttle"].stale.ramp_ms == 500.0  # a default of its own
    assert (rows["brake"].full, rows["brake"].most, rows["brake"].tolerance_below) == (60.0, 100.0, 15.0)
    assert rows["brake"].stale.safe == 2.0 and config.sim.stale.stop == "end"
    assert config.sim.parameters == {"mass": 700.0, "gear_ratio": 2.475}
    assert old({"signals": signals}).sim.parameters == {}  # the buggy has gears of its own


@pytest.mark.parametrize("model", ["buggy", "single_track"])
@pytest.mark.parametrize(
    "sim", [{"signals": 3}, {"signals": {"steering_most_deg": "far"}}, {"stale": [1]}, {"parameters": [1]}]
)
def test_what_is_no_configuration_of_before_is_refused_in_words(sim: dict[str, Any], model: str) -> None:
    with pytest.raises(ConfigError, match=r"old: sim\."):
        old(sim, model)


def test_a_recorded_vehicle_is_a_machine_and_its_road_one_of_its_files() -> None:
    found = with_machine({"sim": {"vehicle": "a.toml", "road": "b.toml", "step_ms": 5.0}})
    assert found == {"sim": {"machine": "a.toml", "files": {"road": "b.toml"}, "step_ms": 5.0}}
    assert with_machine({"sim": {"vehicle": "a.toml", "road": ""}})["sim"]["files"] == {}
    assert with_machine(found) == found
    files = machine_files(
        {"vehicle.toml": b'# of before\nmodel = "buggy"\n[parameters]\nmodel = 1\n', "tyre_front": b""}
    )
    assert files == {
        "machine.toml": b'# of before\nmachine = "buggy"\n[parameters]\nmodel = 1\n', "tyre_front": b"",
    }  # fmt: skip
    assert machine_files({"machine.toml": b"", "vehicle.toml": b"x"})["machine.toml"] == b""


def test_a_configuration_without_a_simulator_is_left_to_those_who_check_it() -> None:
    assert translated({"name": "x"}, "buggy") == {"name": "x"}
