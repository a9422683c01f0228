"""What a drive does before anything is started."""

from pathlib import Path

import pytest

from daq_service.sources import refuse_early
from sim_service.machines import load_machine
from sync import build
from sync.config import load
from sync.errors import ConfigError
from tandem.drive import _check_effort, _may_have_efforts, compile_ahead

DRIVE = Path(__file__).resolve().parents[2] / "configs" / "drive.toml"
EFFORT = "source.effort={channel='steering_torque', gain=1.0, limit=1.0, slew=1.0}"


def test_the_effort_loop_is_compiled_ahead_where_there_are_efforts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(build, "ensure", lambda _name, *modules: asked.extend(modules))
    compile_ahead(load(DRIVE))
    assert "sim_service.service" in asked and "daq_service.effort" not in asked
    compile_ahead(load(DRIVE, [EFFORT]))
    assert "daq_service.effort" in asked


def test_whether_there_may_be_efforts_is_seen_without_loading_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    with_effort = ("[source.effort]\n", "[source]\neffort = { gain = 1.0 }", 'include = [\n"calibration.toml"]')
    without = ("", "# [source.effort]\n", "include = [ ]\n")
    for text, found in [*((text, True) for text in with_effort), *((text, False) for text in without)]:
        file.write_text(text)
        assert _may_have_efforts(file, []) is found, text
    assert not _may_have_efforts(DRIVE, ["daq.rate_hz=2000"]) and _may_have_efforts(DRIVE, [EFFORT])
    assert not _may_have_efforts(tmp_path / "none.toml", []) and not _may_have_efforts(tmp_path, [])


def test_only_an_effort_of_the_machine_goes_back_to_a_device() -> None:
    made, _ = load_machine(DRIVE.parent / "vehicles" / "buggy_single_track.toml")
    asked = "source.effort={channel='vx', gain=1.0, limit=1.0, slew=1.0}"
    _check_effort(load(DRIVE, [asked]), made, "x.toml")  # to try it
    with pytest.raises(ConfigError, match=r"x\.toml: source\.effort\.channel = 'vx': .* force_y_front \(N\)$"):
        _check_effort(load(DRIVE, [asked, "source.kind=gamepad"]), made, "x.toml")
    _check_effort(load(DRIVE, ["source.effort.channel=force_y_front", "source.kind=gamepad"]), made, "x.toml")


def test_the_table_that_efforts_had_before_is_named_with_its_new_name_and_keys() -> None:
    config = load(DRIVE, ["source.force={gain=1.0, limit=1.0, slew=1.0}"])
    with pytest.raises(ConfigError, match=r"source\.force: is called \[source\.effort\] now.* gain, limit, slew, rate"):
        refuse_early(config, DRIVE)
