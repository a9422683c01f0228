"""The vehicle report: two methods agree, figures are whole and SI, and what is wrong is said in a line."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sync.errors import ConfigError
from tandem.commands.cli import app
from tandem.console.terminal import parameters
from tandem.machines.car.studies.iso.vehicle import load_vehicle as iso_vehicle
from tandem.machines.car.studies.vehicle import shown
from tandem.machines.car.studies.vehicle.comparison import compare
from tandem.machines.car.studies.vehicle.figures import examine
from tandem.machines.car.studies.vehicle.parameters import Loaded, load_vehicle
from tandem.machines.car.tyres.tir import AsPublished

VEHICLES = Path(__file__).resolve().parents[6] / "configs" / "vehicles"
BUGGY = VEHICLES / "buggy.toml"
OTHER = {  # every way in which a vehicle file can be another
    "front_camber": -0.02,
    "front_toe": 0.004,
    "rear_camber": -0.03,
    "rear_toe": -0.005,
    "stop_travel": 0.045,
    "rack_limit": 0.05,
    "front_anti_roll": 8000.0,
    "sprung_mass": 640.0,
    "sprung_cg_y": 0.02,
}


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["vehicle", "report", *words])


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return examine(load_vehicle(BUGGY, {}))


@pytest.fixture
def examined(result: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command on the car as it is finds what was found already: by the same function, of the same car."""

    def same(vehicle: Loaded, progress: Any) -> dict[str, Any]:
        assert not vehicle.changed and vehicle.path == result["vehicle"]
        return result

    monkeypatch.setattr("tandem.machines.car.studies.vehicle.figures.examine", same)


@pytest.fixture(scope="module")
def other() -> Loaded:
    return load_vehicle(BUGGY, OTHER)


def test_mechanism_and_closed_form_agree_over_travel_and_rack(result: dict[str, Any]) -> None:
    seen = result["comparison"]
    assert seen["agrees"] and seen["largest"] < 1e-5 and seen["largest_deg"] < 1e-3
    assert (seen["travel"], seen["rack"]) == ([-0.06, 0.06], [-0.065, 0.065])
    assert seen["largest"] == max(row["difference"] for key in ("front", "rear", "steering") for row in result[key])


def test_they_agree_for_another_car(other: Loaded) -> None:
    assert compare(other, (-0.045, 0.02), (-0.05, 0.0, 0.03), lambda share: None).agrees


def test_a_mechanism_of_other_points_does_not_pass(other: Loaded) -> None:
    """The comparison would see a tenth of a millimetre in one hardpoint."""
    moved = load_vehicle(BUGGY, {**OTHER, "front_TRI_z": other.values["front_TRI_z"] + 1e-4})
    seen = compare(replace(other, built=moved.built), (0.03,), (0.0,), lambda share: None)
    assert not seen.agrees
    assert seen.position[1].max() < 1e-9 and seen.position[0].max() > 5e-6 and seen.angle[0].max() > 1e-3


def test_the_standing_car_is_that_of_statics(result: dict[str, Any]) -> None:
    static = result["static"]
    computed, multibody = static["computed"], static["multibody"]
    np.testing.assert_allclose(multibody["load"], computed["load"], rtol=1e-4)
    np.testing.assert_allclose(multibody["travel"], computed["travel"], atol=2e-4)
    np.testing.assert_allclose(multibody["ride_height"], computed["ride_height"], atol=2e-4)
    assert abs(sum(multibody["load"]) - 9.81 * static["mass"]) < 0.01
    assert abs(multibody["cg_height"] - computed["cg_height"]) < 2e-4


def test_rates_are_in_series_and_follow_the_springs(result: dict[str, Any]) -> None:
    c = result["compliance"]
    assert c["bushings"] is False
    for wheel, tyre, ride in zip(c["wheel_rate"], c["tyre_rate"], c["ride_rate"], strict=True):
        assert 1.0 / ride == pytest.approx(1.0 / wheel + 1.0 / tyre)
    middle = result["front"][3]
    assert middle["travel"] == 0.0
    assert middle["wheel_rate"] == pytest.approx(40000.0 * middle["motion_ratio"] ** 2, rel=0.15)


@pytest.mark.drill
def test_a_bar_stiffens_roll_and_a_toe_is_reported(other: Loaded) -> None:
    found = examine(other)
    assert found["front"][3]["camber"] == pytest.approx(-0.02)
    assert found["front"][3]["toe_in"] == pytest.approx(0.004)
    assert found["rear"][3]["toe_in"] == pytest.approx(-0.005)
    assert found["compliance"]["anti_roll_stiffness"][0] > 5000.0 > found["compliance"]["anti_roll_stiffness"][1] == 0.0
    assert found["front"][0]["travel"] == -0.045 and found["comparison"]["agrees"]


def test_a_car_whose_tyres_are_read_tolerantly_is_reported_and_tested(tmp_path: Path, result: dict[str, Any]) -> None:
    tyre = (VEHICLES.parent / "tyres" / "155_80_r13.tir").read_text()
    (tmp_path / "own.tir").write_text(tyre.replace("[VERTICAL]", "[VERTICAL]\nDYNAMIC_STIFFNESS = 2e5"))
    text = BUGGY.read_text().replace("../tyres/155_80_r13.tir", "own.tir")
    (tmp_path / "car.toml").write_text(text.replace("[parameters]", 'tyre_reading = "tolerant"\n[parameters]', 1))
    with pytest.warns(AsPublished, match="DYNAMIC_STIFFNESS = 2e5"):
        found = examine(load_vehicle(tmp_path / "car.toml", {}))
    assert {**found, "vehicle": ""} == {**result, "vehicle": ""}
    driven = iso_vehicle(tmp_path / "car.toml", {})
    assert driven.linear.wheelbase == pytest.approx(result["static"]["wheelbase"], rel=1e-4)


@pytest.mark.drill
def test_where_x_begins_does_not_matter(result: dict[str, Any]) -> None:
    moved = {}
    for name, value in load_vehicle(BUGGY, {}).values.items():
        if name == "sprung_cg_x" or (name.endswith("_x") and name.split("_")[0] in ("front", "rear")):
            moved[name] = value - 0.3
    found = examine(load_vehicle(BUGGY, moved))
    assert found["comparison"]["agrees"]
    np.testing.assert_allclose(found["static"]["multibody"]["load"], result["static"]["multibody"]["load"], rtol=1e-6)
    np.testing.assert_allclose(found["static"]["computed"]["load"], result["static"]["computed"]["load"], rtol=1e-9)
    for key, value in result["geometry"].items():
        np.testing.assert_allclose(found["geometry"][key], value, rtol=1e-6, err_msg=key)


def test_tables_are_in_millimetres_and_degrees(result: dict[str, Any]) -> None:
    sections = {each.key: each for each in shown.report(result).sections}
    found = {key: each.parts[0] for key, each in sections.items()}
    assert [row[0] for row in found["front"].rows] == ["-60", "-40", "-20", "0", "+20", "+40", "+60"]
    assert found["front"].headings[:2] == ["travel\nmm", "camber\ndeg"]
    assert float(found["front"].rows[0][1]) == pytest.approx(math.degrees(result["front"][0]["camber"]), abs=1e-3)
    assert all(len(row) == len(t.headings) for t in found.values() for row in t.rows)
    inner, outer = (float(found["steering"].rows[-1][k]) for k in (2, 3))
    assert inner > outer > 30.0
    assert "no bushings" in sections["compliance"].lead


@pytest.mark.drill
def test_json_is_strict_and_the_page_stands_alone(tmp_path: Path) -> None:
    done = run("--json", "--set", "sprung_mass=700", "--out", str(tmp_path / "new" / "car.html"))
    assert done.exit_code == 0, done.output

    def never(word: str) -> None:
        raise AssertionError(word)

    found = json.loads(done.stdout, parse_constant=never)
    assert found["changed"] == {"sprung_mass": 700.0} and found["static"]["mass"] == pytest.approx(800.0)
    page = (tmp_path / "new" / "car.html").read_text()
    assert page.count("<svg") == 2 * 8 + 4 and "http://" not in page and "<script" not in page
    assert "mechanism and closed form agree" in page


def test_the_command_prints_the_largest_difference(examined: None) -> None:
    done = run(str(BUGGY))
    assert done.exit_code == 0, done.output
    assert "mechanism and closed form agree: largest difference" in done.stdout.splitlines()[0]
    assert len(done.stdout.splitlines()) < 60 and "Ackermann" not in done.stdout
    done = run(str(BUGGY), "--tables")
    for word in ("Ackermann", "roll centre", "anti-dive", "Natural frequencies", "multibody"):
        assert word.split()[0] in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([str(VEHICLES / "buggy_single_track.toml")], "machine = 'single_track': has no suspension"),
        ([str(VEHICLES / "none.toml")], "no such file; beside it: all_wheel_drive_single_track.toml, buggy.toml"),
        ([str(VEHICLES)], "is a folder"),
        (["--set", "sprung_mass"], "--set sprung_mass: expected PARAMETER=NUMBER"),
        (["--set", "sprung_mass=heavy"], "--set sprung_mass=heavy: expected PARAMETER=NUMBER"),
        (["--set", "sprung_mas=700"], "did you mean sprung_mass?"),
        (["--set", "front_spring_length=0.9"], "sim.parameters.front_spring_length = 0.9: the car would rest"),
        (["--out", str(VEHICLES)], "cannot be written"),
    ],
)
def test_what_is_wrong_is_said_in_lines_with_exit_code_2(examined: None, words: list[str], said: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert all(line.startswith("tandem: ") for line in done.stderr.strip().split("\n"))


def test_settings_are_numbers_by_name() -> None:
    assert parameters(["a=1", " b = -2.5e3 "]) == {"a": 1.0, "b": -2500.0}
    for wrong in ("=1", "a=", "a=nan", "a=inf", "a"):
        with pytest.raises(ConfigError):
            parameters([wrong])
