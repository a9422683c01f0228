"""What a run does before anything is started."""

import re
from pathlib import Path
from typing import Any

import pytest

from daq_service.devices import refuse_early, settings_class
from sim_service.checked import check_effort_channels, effort_fault
from sim_service.registry import load_machine
from sync.compile import build
from sync.config import plugins
from sync.config.config import load
from sync.errors import ConfigError
from tandem.console.compiled import compile_machine
from tandem.live.figures import answers
from tandem.live.run import compile_ahead
from tandem.live.run import refuse_early as early

DRIVE = Path(__file__).resolve().parents[3] / "configs" / "drive.toml"
MASS_SPRING = DRIVE.with_name("mass_spring.toml")
EFFORT = "source.effort={channel='steering_torque', gain=1.0, limit=1.0, slew=1.0}"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, ...]]:
    """What is asked of the compiler, by the name under which it is remembered."""
    found: dict[str, tuple[str, ...]] = {}
    monkeypatch.setattr(build, "done", lambda name: name in found)
    monkeypatch.setattr(build, "ensure", lambda name, *modules: found.update({name: modules}))
    return found


def test_what_a_machine_and_its_device_need_is_compiled_ahead_and_nothing_of_others(
    asked: dict[str, tuple[str, ...]],
) -> None:
    for file in (DRIVE, MASS_SPRING):
        compile_ahead(load(file), file)
    car, spring = asked.values()
    of_a_car = {"tandem.machines.car.buggy.dynamics", "tandem.machines.car.device.virtual", "sim_service.service"}
    assert of_a_car <= set(car)
    assert {"tandem.machines.mass_spring", "daq_service.devices.waves", "sim_service.service"} <= set(spring)
    assert "tandem.machines.mass_spring" not in car
    assert not [name for name in spring if name.startswith(("tandem.multibody.natural", "tandem.machines.car.buggy"))]
    asked_before = dict(asked)
    compile_ahead(load(MASS_SPRING, ["name=another", "daq.rate_hz=2000"]), MASS_SPRING)
    assert asked == asked_before  # the same set under the same name


def test_the_effort_loop_is_compiled_ahead_where_there_are_efforts(asked: dict[str, tuple[str, ...]]) -> None:
    compile_ahead(load(DRIVE), DRIVE)
    compile_ahead(load(DRIVE, [EFFORT]), DRIVE)
    without, with_efforts = asked.values()
    assert "daq_service.effort" in with_efforts and "daq_service.effort" not in without


@pytest.mark.parametrize("name", ["another", "of-another.org/machine"])
def test_a_machine_of_another_package_is_left_to_its_import(
    asked: dict[str, tuple[str, ...]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "known", lambda group, own: [*own, name])
    compile_ahead(load(MASS_SPRING, [f'sim.machine="{name}"']), MASS_SPRING)
    ((compiled, modules),) = asked.items()
    assert compiled.isprintable() and "/" not in compiled and "sim_service.service" in modules


def test_a_machine_that_is_none_is_refused_before_anything_is_compiled(asked: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ConfigError, match=r"sim\.machine = '\.\./x': .* file ends in \.toml$"):
        compile_ahead(load(MASS_SPRING, ['sim.machine="../x"']), MASS_SPRING)
    assert asked == {}


def test_a_file_that_is_nowhere_is_reported_with_both_places_it_was_looked_for_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the configuration and where the user stands, once where that is the same; with the nearest there."""
    monkeypatch.chdir(tmp_path)
    config = load(DRIVE, ["sim.machine=vehicles/bugy.toml"])
    here, there = tmp_path / "vehicles" / "bugy.toml", DRIVE.parent / "vehicles" / "bugy.toml"
    expected = rf"sim\.machine = 'vehicles/bugy\.toml': no such file: {there}, nor {here}; did you mean .*buggy\.toml\?"
    with pytest.raises(ConfigError, match=expected):
        early(config, DRIVE)
    own = tmp_path / "own.toml"
    with pytest.raises(ConfigError, match=rf"no such file: {here}$"):
        early(config, own)
    (tmp_path / "bugy.toml").touch()
    with pytest.raises(ConfigError, match=rf"no such file: {here}; did you mean bugy\.toml\?$"):
        early(config, Path("own.toml"))  # the same place, by another path


BLOCKS = {"lost": 0, "produced": 10_000, "used": 9_999}


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({}, "in time: all 2000 steps\ninputs: 9 us old (median), at most 40 us; never stale\nlost: nothing of 10000"),
        ({"deadline_misses": 3, "skipped": 1, "steps_not_made": 2}, "1997 of 2003 steps; 3 ended too late, 3 were not"),
        ({"stale_steps": 7, "reused": 4}, "stale in 7 steps; 4 steps used a block again"),
        ({"age_us": {"n": 0}}, "inputs: none was used; never stale"),
        ({"balance": {**BLOCKS, "lost": 5}, "record": {"file": "runs/x"}}, "5 of 10000 blocks\nrecord: runs/x"),
    ],
)
def test_the_last_lines_of_a_run_answer_with_its_figures(changed: dict[str, Any], expected: str) -> None:
    result: dict[str, Any] = {
        "steps": 2000, "deadline_misses": 0, "skipped": 0, "steps_not_made": 0, "stale_steps": 0, "reused": 0,
        "age_us": {"n": 2000, "p50": 9.0, "max": 40.0}, "balance": BLOCKS, "record": None,
    }  # fmt: skip
    assert expected in "\n".join(map(str, answers(result | changed)))


def test_only_an_effort_of_the_machine_goes_back_to_a_device() -> None:
    made, _ = load_machine(DRIVE.parent / "vehicles" / "buggy_single_track.toml")
    asked = load(DRIVE, ["source.effort={channel='vx', gain=1.0, limit=1.0, slew=1.0}"])
    expected = r"x\.toml: source\.effort\.channel = 'vx': .* force_y_front \(N\)$"
    assert re.fullmatch(expected, effort_fault(asked, made, "x.toml"))
    assert settings_class(asked).takes_any_effort  # to try it
    assert effort_fault(load(DRIVE, ["source.effort.channel=force_y_front"]), made, "x.toml") == ""


@pytest.mark.parametrize("key, value, meant", [
    ("channel", "hand_forse", r"did you mean hand_force\?"), ("displacement", "handel", r"did you mean handle\?"),
    ("displacement", "q", "there are handle, position, "),
])  # fmt: skip
def test_an_effort_from_a_channel_that_is_none_is_named_with_its_key(key: str, value: str, meant: str) -> None:
    config, (made, _) = load(MASS_SPRING, [f"source.effort.{key}={value}"]), load_machine("mass_spring")
    with pytest.raises(ConfigError, match=rf"x\.toml: source\.effort\.{key} = '{value}': is no channel .*; {meant}"):
        check_effort_channels(config, made, "x.toml")
    check_effort_channels(load(MASS_SPRING), made, "x.toml")


@pytest.mark.parametrize("name, said", [
    ("mien.toml", r"no such file: .*; did you mean mine\.toml\?$"),
    ("cars/mine.toml", r"no such file: .*; did you mean mine\.toml\?$"),
    ("../mine.tml", r"the name of a machine's file ends in \.toml; did you mean mine\.toml\?$"),
    ("vehicles/bugy.toml", r"; did you mean .*vehicles/buggy\.toml\?$"),
    ("vehicles/none.toml", r"; in .*vehicles there are .*, buggy\.toml"),
])  # fmt: skip
def test_a_machines_file_that_is_not_there_is_named_with_the_nearest(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=rf"drive\.toml: sim\.machine = .*{said}"):
        early(load(DRIVE, [f"sim.machine={name}"]), DRIVE)


def test_a_machine_by_name_alone_that_needs_a_file_says_so_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^sim\.machine = 'buggy': is made from a file that has .*rear.*that file$"):
        load_machine("buggy")


def test_the_table_that_efforts_had_before_is_named_with_its_new_name_and_keys() -> None:
    config = load(DRIVE, ["source.force={gain=1.0, limit=1.0, slew=1.0}"])
    with pytest.raises(ConfigError, match=r"source\.force: is called \[source\.effort\] now.* gain, limit, slew, rate"):
        refuse_early(config, DRIVE)


def test_a_machine_under_a_name_that_is_not_its_folders_is_compiled_ahead(asked: dict[str, tuple[str, ...]]) -> None:
    compile_machine("piano_phases")
    compile_machine("of-another.org/machine")
    (modules,) = asked.values()
    assert "tandem.machines.piano.phases" in modules and "tandem.machines.car.buggy.dynamics" not in modules


def test_commands_compile_what_they_need_and_not_everything(asked: dict[str, tuple[str, ...]]) -> None:
    texts = [file.read_text() for file in (DRIVE.parents[1] / "tandem").rglob("*.py")]
    asks = re.compile(r"(?:ensure_for\(|compiled\(\"\w+\", )(\"[^)]*)\)")
    named = [re.findall(r'"([^"]+)"', found) for text in texts for found in asks.findall(text)]
    for modules in named:
        build.ensure_for(*modules)
    assert len(named) >= 14 and {"tandem.records.replay"} <= {name for modules in named for name in modules}
    (sweep,) = (modules for name, modules in asked.items() if "tandem.ensembles.sweep" in name)
    assert "sim_service.many_steps" in sweep and len(sweep) < 12
    assert not {"sim_service.loop", "daq_service.effort", "sync.transport.wire", "tandem.records.replay"} & {*sweep}
    assert not any("tandem.machines.wall.machine" in modules for name, modules in asked.items() if "wall" not in name)
