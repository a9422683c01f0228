"""Vehicle files: what is wrong in one is said with file, parameter, value, limits and unit."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sim_service.registry import MACHINES, load_machine
from sync.errors import ConfigError
from tests.sim_service.conftest import CONFIGS

VEHICLES = sorted((CONFIGS / "vehicles").glob("*.toml"))
BUGGY = CONFIGS / "vehicles" / "buggy_single_track.toml"

Change = Callable[[str, str], Path]


@pytest.fixture
def buggy(tmp_path: Path) -> Change:
    """The buggy's file with one text in it replaced by another."""

    def change(old: str, new: str) -> Path:
        text = BUGGY.read_text()
        assert text.count(old) == 1
        path = tmp_path / "car.toml"
        path.write_text(text.replace(old, new))
        return path

    return change


def refused(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_machine(path)
    lines = str(error.value).split("\n")
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


@pytest.mark.parametrize("path", VEHICLES, ids=lambda path: path.stem)
def test_every_vehicle_we_ship_loads(path: Path) -> None:
    model, params = load_machine(path)
    assert model.name in MACHINES
    values = params[: len(model.parameters)]
    assert all(p.low <= value <= p.high for p, value in zip(model.parameters, values, strict=True))


def test_parameters_arrive_in_the_models_order_whatever_the_files(buggy: Change, tmp_path: Path) -> None:
    model, params = load_machine(BUGGY)
    lines = [line for line in BUGGY.read_text().split("\n") if " = " in line and not line.startswith("machine")]
    path = tmp_path / "shuffled.toml"
    path.write_text('machine = "single_track"\n[parameters]\n' + "\n".join(reversed(lines)))
    assert load_machine(path)[1].tolist() == params.tolist()
    heavier = load_machine(buggy("mass = 790.0", "mass = 800"))[1]  # a whole number is a number
    changed = [p.name for p, a, b in zip(model.parameters, params, heavier, strict=True) if a != b]
    assert changed == ["mass"] and heavier[0] == 800.0


def test_missing_parameter_is_named_with_its_unit_and_meaning(buggy: Change) -> None:
    assert refused(buggy("mass = 790.0", "")) == ["parameters.mass: is missing (kg; car with driver)"]


def test_unknown_parameter_is_named(buggy: Change) -> None:
    said = refused(buggy("mass = 790.0", "mass = 790.0\nmas = 1.0"))
    assert said == ["parameters.mas = 1: unknown to single_track; did you mean mass?"]


@pytest.mark.parametrize("value", ["100.0", "1e9", "-790"])
def test_parameter_out_of_range_is_named_with_value_limits_and_unit(buggy: Change, value: str) -> None:
    said = refused(buggy("mass = 790.0", f"mass = {value}"))
    assert said == [f"parameters.mass = {float(value):g}: must be from 400 to 2500 kg"]


def test_the_limits_themselves_are_allowed(buggy: Change) -> None:
    for limit in (400.0, 2500.0):
        assert load_machine(buggy("mass = 790.0", f"mass = {limit}"))[1][0] == limit


def test_everything_wrong_is_said_at_once(buggy: Change) -> None:
    said = refused(buggy("mass = 790.0", "mas = 1.0\nrelaxation_z = 0.1"))
    assert len(said) == 3
    assert {re.split(" =|:", line)[0] for line in said} == {
        "parameters.mas",
        "parameters.relaxation_z",
        "parameters.mass",
    }


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", '"790"', "true", "[790.0]"])
def test_what_is_no_number_is_refused(buggy: Change, value: str) -> None:
    (said,) = refused(buggy("mass = 790.0", f"mass = {value}"))
    assert "parameters.mass" in said and "must be a" in said and "number" in said


def test_unknown_model_is_named_with_those_there_are(buggy: Change) -> None:
    (said,) = refused(buggy('machine = "single_track"', 'machine = "two_track"'))
    assert said.startswith("machine = 'two_track': must be one of ") and "single_track" in said


def test_unknown_key_of_the_file_is_refused(buggy: Change) -> None:
    (said,) = refused(buggy('machine = "single_track"', 'machine = "single_track"\ncolour = "red"'))
    assert said == "colour = 'red': unknown key"


def test_missing_file_is_named_with_its_neighbours() -> None:
    (said,) = refused(CONFIGS / "vehicles" / "bugy.toml")
    assert "no such file" in said and "buggy_single_track.toml" in said


def test_a_copied_car_is_told_where_the_tyres_are_that_tandem_ships(tmp_path: Path) -> None:
    copy = tmp_path / "mycar.toml"
    copy.write_text((CONFIGS / "vehicles" / "buggy.toml").read_text())
    (said, *_) = refused(copy)
    tyre = CONFIGS / "tyres" / "155_80_r13.tir"
    assert said.startswith("tyre_front = '../tyres/155_80_r13.tir': cannot be read")
    assert said.endswith(f"tandem ships '{tyre}': write that, or copy it") and tyre.is_file()
