"""A record carries the files of its run: they are what it is read with, not those that tandem ships today."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from sync.errors import ConfigError
from sync.record import Run, open_run
from tandem.records.feed import record_feed
from tandem.records.replay import Options, configuration, replay_run
from tandem.records.replay_save import save
from verify.tree.golden import GOLDEN, store

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
SINGLE_TRACK = CONFIGS / "vehicles" / "buggy_single_track.toml"
FLAT = CONFIGS / "roads" / "flat.toml"


def opened(golden: str) -> Run:
    """A golden run of a car that tandem ships, named as its configuration names it."""
    run = open_run(GOLDEN / f"{golden}.mcap")
    assert (CONFIGS / run.json("config.json")["sim"]["machine"]).is_file()
    return run


def with_mass(folder: Path, golden: str, name: str, value: str) -> Path:
    """The run with another mass in the file that it carries, and without the words that were made of it."""
    run = opened(golden)
    text, found = re.subn(rf"(?m)^({name}\s*=\s*)\S+", rf"\g<1>{value}", run.attachments["machine.toml"].decode())
    assert found == 1
    described = run.json("parameters.json")
    del described["made"]
    attached = {"machine.toml": text.encode(), "parameters.json": json.dumps(described).encode()}
    path = folder / "run.mcap"
    store(path, run, attached={**run.attachments, **attached})
    return path


def parameter(path: Path, name: str, *overrides: str) -> float:
    _, model, params = configuration(open_run(path), Options(mode="ideal", overrides=list(overrides)))
    return float(params[[p.name for p in model.parameters].index(name)])


def test_a_record_is_read_with_the_car_it_carries(tmp_path: Path) -> None:
    path = with_mass(tmp_path, "single_track", "mass", "900.0")
    assert parameter(path, "mass") == 900.0
    assert replay_run(path, Options()).figures["identical"] is False


def test_a_setting_changes_nothing_else_of_the_car_it_carries(tmp_path: Path) -> None:
    path = with_mass(tmp_path, "single_track", "mass", "900.0")
    setting = "sim.parameters.yaw_inertia=800.0"
    assert (parameter(path, "mass", setting), parameter(path, "yaw_inertia", setting)) == (900.0, 800.0)


def test_what_is_wrong_in_the_car_it_carries_is_refused(tmp_path: Path) -> None:
    path = with_mass(tmp_path, "single_track", "mass", "nan")
    with pytest.raises(ConfigError, match=rf"{re.escape(str(path))} \(machine\.toml\).*mass"):
        replay_run(path, Options())


def test_another_car_of_that_name_where_the_user_stands_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_mass(tmp_path, "single_track", "mass", "900.0")
    here = tmp_path / "vehicles" / SINGLE_TRACK.name
    here.parent.mkdir()
    here.write_text(SINGLE_TRACK.read_text())
    monkeypatch.chdir(tmp_path)
    assert parameter(path, "mass") == 900.0
    assert parameter(path, "mass", f"sim.machine=vehicles/{SINGLE_TRACK.name}") == 790.0  # the one that is asked for


def test_another_road_is_put_under_the_car_it_carries(tmp_path: Path) -> None:
    path = with_mass(tmp_path, "lane_change", "sprung_mass", "700.0")
    assert parameter(path, "sprung_mass", f"sim.files.road={FLAT}") == 700.0
    assert parameter(path, "sprung_mass", "sim.files.road=") == 700.0
    road = {name for name in replay_run(path, asked(f"sim.files.road={FLAT}")).files if name.startswith("road")}
    assert road == {"road:flat.toml"}


def test_another_car_is_put_on_the_road_it_carries(tmp_path: Path) -> None:
    run = opened("lane_change")
    path = tmp_path / "run.mcap"
    own = b"# of the record\n" + run.attachments["road:demo_track.toml"]
    store(path, run, attached={**run.attachments, "road:demo_track.toml": own})
    done = replay_run(path, asked(f"sim.machine={CONFIGS / 'vehicles' / 'buggy.toml'}"))
    assert done.files["road:demo_track.toml"] == own


def asked(*overrides: str) -> Options:
    return Options(mode="ideal", overrides=list(overrides), to_s=0.1)


def test_a_replay_with_another_car_is_saved_and_shown_with_its_files(tmp_path: Path) -> None:
    change = asked(f"sim.machine={SINGLE_TRACK}", "sim.files.road=")
    done = replay_run(GOLDEN / "lane_change.mcap", change)
    saved = save(done, tmp_path / "b", {})
    again = replay_run(saved, Options())
    assert again.model.name == "single_track" and again.figures["identical"] is True
    assert "tyre_front" not in open_run(saved).attachments
    shown = record_feed(GOLDEN / "lane_change.mcap", change, lambda _: None, lambda *_: None)
    assert shown.files["machine.toml"] == SINGLE_TRACK.read_bytes() and "road:demo_track.toml" not in shown.files


def test_a_saved_replay_names_no_folder_of_this_computer(tmp_path: Path) -> None:
    done = replay_run(GOLDEN / "single_track.mcap", Options(overrides=["sim.parameters.mass=800.0"]))
    again = open_run(save(done, tmp_path / "b", {}))
    assert again.json("config.json")["sim"]["machine"] == "vehicles/buggy_single_track.toml"
    assert np.array_equal(replay_run(again.path, Options()).results, done.results, equal_nan=True)
