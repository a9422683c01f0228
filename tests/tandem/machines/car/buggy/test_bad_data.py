"""Wrong vehicle data are refused before the first step: by file, key or point, value, and what would be right."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim_service.registry import gather, load_machine
from sync.errors import ConfigError
from tandem.machines.car.buggy.build import assemble
from tandem.machines.car.buggy.checks import UnusualGeometry
from tandem.machines.car.buggy.description import P
from tests.tandem.machines.car.buggy.conftest import CONFIGS, VEHICLE, Car

TYRE = CONFIGS / "tyres" / "155_80_r13.tir"
SOURCES = gather(VEHICLE)
Edit = Callable[[str], str]


def value(name: str, to: str) -> Edit:
    """Of a parameter, or of a point behind its table's name: `front.WC`."""
    axle, dot, point = name.rpartition(".")

    def edit(text: str) -> str:
        head, table, rest = text.partition(f"[{axle}]") if dot else ("", "", text)
        changed, count = re.subn(rf"(?m)^{point} = [^#\n]*", f"{point} = {to} ", rest, count=1)
        assert count == 1
        return head + table + changed

    return edit


def without(name: str) -> Edit:
    axle, _, point = name.rpartition(".")

    def edit(text: str) -> str:
        head, table, rest = text.partition(f"[{axle}]")
        return head + table + re.sub(rf"(?m)^{point} = .*\n", "", rest, count=1)

    return edit


def refused(folder: Path, *edits: Edit, changed: dict[str, float] | None = None, road: Path | None = None) -> str:
    """What is said of the shipped car after the edits."""
    text = VEHICLE.read_text().replace("../tyres/155_80_r13.tir", "tyre.tir")
    (folder / "tyre.tir").write_bytes(TYRE.read_bytes())
    for edit in edits:
        text = edit(text)
    vehicle = folder / "car.toml"
    vehicle.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_machine(vehicle, changed, {"road": road} if road else None)
    assert caught.value.code == 2
    said = str(caught.value)
    return said


BAD: dict[str, tuple[Edit, tuple[str, ...]]] = {
    "negative mass": (value("sprung_mass", "-690.0"), ("parameters.sprung_mass = -690", "from 100 to 5000 kg")),
    "model is a table": (
        lambda text: text.replace('machine = "buggy"', "machine = {}", 1),
        ("machine = {}", "must be one of"),
    ),
    "mass is text": (value("wheel_mass", '"15"'), ("parameters.wheel_mass = '15'", "number")),
    "parameter nan": (value("sprung_ixx", "nan"), ("parameters.sprung_ixx = nan", "finite")),
    "parameter inf": (value("front_spring_rate", "inf"), ("parameters.front_spring_rate = inf", "finite")),
    "point nan": (value("front.UBJ", "[-0.012, nan, 0.39]"), ("front.UBJ[1] = nan", "finite")),
    "point inf": (value("rear.TOP", "[-2.262, 0.545, -inf]"), ("rear.TOP[2] = -inf", "finite")),
    "point of two": (value("front.UBJ", "[-0.012, 0.39]"), ("front.UBJ = [-0.012, 0.39]", "3")),
    "missing point": (without("front.TRO"), ("front.TRO", "is missing", "[x, y, z] in m")),
    "unknown point": (
        value("rear.SPL", "[-2.2555, 0.5775, 0.48]\nTOPP = [0.0, 0.0, 0.0]"),
        ("rear.TOPP", "TOP, CLAMP"),
    ),
    "parameter unknown": (value("abs", "0.0\nsprung_mas = 5.0"), ("parameters.sprung_mas = 5", "sprung_mass?")),
    "coincident hinge": (
        value("front.LAR", "[0.15, 0.27, 0.186]"),
        ("front.LAF = [0.15, 0.27, 0.186]", "coincides with LAR", "two points"),
    ),
    "coincident spring": (
        value("rear.SPL", "[-2.262, 0.545, 0.72]"),
        ("rear.SPL = [-2.262, 0.545, 0.72]", "coincides with SPU", "length"),
    ),
    "coincident ball joints": (
        value("front.UBJ", "[0.008, 0.615, 0.175]"),
        ("front.LBJ = ", "UBJ = [0.008, 0.615, 0.175]", "TRO"),
    ),
    "coincident strut": (value("rear.CLAMP", "[-2.262, 0.545, 0.72]"), ("rear.CLAMP = [", "TOP", "another point")),
    "arms that cannot travel": (
        value("front.UBJ", "[-0.012, 0.345, 0.39]"),
        ("front.WC = [0.0, 0.66, 0.275]", "out of reach", "the links allow", "stop_travel = 0.06"),
    ),
    "rack beyond the tie rod": (
        value("rack_limit", "0.15"),
        ("front.", "rack", "parameters.rack_limit = 0.15"),
    ),
    "wheel on the right": (
        value("front.WC", "[0.0, -0.66, 0.275]"),
        ("front.WC[1] = -0.66", "from 0 to 2 m", "left side"),
    ),
    "wheel inside its arm": (value("rear.WC", "[-2.25, 0.2, 0.275]"), ("rear.WC = [-2.25, 0.2, 0.275]", "above 0.3 m")),
    "wheel drawn in the air": (
        value("front.WC", "[0.0, 0.66, 0.9]"),
        ("front.WC = [0.0, 0.66, 0.9]", "radius 0.2891 m", "0.202 to 0.318 m"),
    ),
    "rear wheels in front": (value("rear.WC", "[0.5, 0.67, 0.275]"), ("rear.WC = [0.5,", "behind the front ones")),
    "impossible inertia": (
        value("sprung_izz", "1690.0"),
        ("parameters.sprung_izz = 1690", "sum of the others", "kg m2"),
    ),
    "impossible product of inertia": (value("sprung_ixz", "-500.0"), ("parameters.sprung_ixz = -500", "within ±337")),
    "impossible wheel": (value("wheel_spin_inertia", "0.9"), ("parameters.wheel_spin_inertia = 0.9", "at most 0.68")),
    "spring too long": (
        value("front_spring_length", "0.9"),
        ("parameters.front_spring_length = 0.9", "rest on its stops", "m is right"),
    ),
    "spring too short": (
        value("rear_spring_length", "0.15"),
        ("parameters.rear_spring_length = 0.15", "rest on its stops", "m is right"),
    ),
    "spring too soft": (value("rear_spring_rate", "2000.0"), ("parameters.rear_spring_length = 0.3297", "2000 N/m")),
    "spring upside down": (
        value("front.SPU", "[-0.01, 0.36, 0.02]"),
        ("front.SPU = [-0.01, 0.36, 0.02]", "shorter as the wheel rises"),
    ),
    "nothing on the rear axle": (value("sprung_cg_x", "0.4"), ("parameters.sprung_cg_x = 0.4", "-2.25 to 0 m")),
    "falls over": (value("sprung_cg_y", "0.8"), ("parameters.sprung_cg_y = 0.8", "within ±0.66 m")),
    "tyre missing": (value("tyre_rear", '"none.tir"'), ("tyre_rear = 'none.tir'", "No such file", "tyre.tir")),
    "tyre not named": (value("tyre_front", '"tyre.tir"\ntyre_frnt = "x"'), ("tyre_frnt",)),
    "not a buggy": (value("machine", '"bugy"'), ("machine = 'bugy'", "buggy, single_track")),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_data_are_refused_by_name(name: str, tmp_path: Path) -> None:
    edit, parts = BAD[name]
    said = refused(tmp_path, edit)
    for line in said.split("\n"):
        assert line.startswith(str(tmp_path / "car.toml")), line
    for part in parts:
        assert part in said, said


def test_a_parameter_that_is_missing_is_named_with_its_unit(tmp_path: Path) -> None:
    said = refused(tmp_path, lambda text: re.sub(r"(?m)^grip = .*\n", "", text))
    assert "car.toml: parameters.grip: is missing (1; factor on the friction" in said


def test_what_the_mechanism_says_is_told_with_the_parameters_it_comes_from(tmp_path: Path) -> None:
    """The rack is part of the sprung mass; what is left without it must be possible too."""
    said = refused(tmp_path, value("sprung_izz", "780.0"), value("rack_mass", "50.0"))
    assert "car.toml: body chassis: principal moments" in said
    assert "made of sprung_mass, sprung_cg_x to _z, sprung_ixx to _ixz, rack_mass" in said


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, value("sprung_izz", "1690.0"), value("front.LAR", "[0.15, 0.27, 0.186]"))
    assert "sprung_izz" in said and "front.LAF" in said


@pytest.mark.parametrize(
    ("line", "wrong", "parts"),
    [
        ("VERTICAL_STIFFNESS", "VERTICAL_STIFNESS = 165000", ("VERTICAL_STIFNESS", "VERTICAL_STIFFNESS")),
        ("VERTICAL_STIFFNESS", "VERTICAL_STIFFNESS = -5", ("VERTICAL_STIFFNESS", "-5")),
        ("UNLOADED_RADIUS", "UNLOADED_RADIUS = nan", ("UNLOADED_RADIUS", "nan")),
    ],
)
def test_a_wrong_tyre_is_told_with_its_own_file_and_line(
    line: str, wrong: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    text, count = re.subn(rf"(?m)^{line}\s*=.*", wrong, TYRE.read_text())
    assert count == 1
    (tmp_path / "wrong.tir").write_text(text)
    said = refused(tmp_path, value("tyre_rear", '"wrong.tir"'))
    assert said.startswith(str(tmp_path / "wrong.tir") + ":")
    for part in parts:
        assert part in said, said


def test_a_road_with_holes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holes.csv").write_text("0,0,0\n0,nan,0\n0,0,0\n")
    road = tmp_path / "road.toml"
    road.write_text('[surface]\nkind = "grid"\nfile = "holes.csv"\norigin = [0.0, 0.0]\nspacing = [1.0, 1.0]\n')
    said = refused(tmp_path, road=road)
    assert "holes.csv" in said and "nan" in said, said


def test_parameters_of_a_run_are_told_as_such(tmp_path: Path) -> None:
    said = refused(tmp_path, changed={"sprung_mas": 700.0})
    assert said == "sim.parameters.sprung_mas = 700: unknown to buggy; did you mean sprung_mass?"
    assert "sim.parameters.sprung_mass = -1: must be from 100 to 5000 kg" in refused(
        tmp_path, changed={"sprung_mass": -1.0}
    )
    assert "sim.parameters.sprung_mass = nan" in refused(tmp_path, changed={"sprung_mass": np.nan})
    assert "sim.parameters.front_spring_length = 0.9: the car would" in refused(
        tmp_path, changed={"front_spring_length": 0.9}
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sprung_cg_y": 0.55}, r"the front left wheel rests on its stop"),
        ({"sprung_cg_y": 0.42, "front_anti_roll": 1e5}, r"the front right wheel carries no load"),
        ({"sprung_cg_y": 0.64, "sprung_cg_z": 1.5}, r"the chassis leans by \d+ degrees"),
    ],
)
def test_a_car_that_does_not_stand_is_refused_before_the_first_step(changed: dict[str, float], said: str) -> None:
    """Each figure and point is possible; only its rest is not."""
    with pytest.raises(ConfigError) as caught:
        Car(changed)
    text = str(caught.value)
    assert re.search(said, text), text
    assert text.startswith(str(VEHICLE)) and f"sprung_cg_y = {changed['sprung_cg_y']:g}" in text
    assert "must stand on four wheels between their stops" in text


def test_figures_at_the_edge_of_what_is_possible_still_make_a_car() -> None:
    for changed in ({"front_spring_length": 0.41}, {"sprung_izz": 780.0}, {"sprung_cg_y": 0.1}, {"stop_travel": 0.05}):
        assert Car(changed).each("load").min() > 500.0


@pytest.mark.parametrize(
    ("point", "moved", "said"),
    [
        (
            "front_WC_x",
            0.2,
            r"front.WC = \[0.2, .* ahead of the steering axis at its height 0.201 m .*; trail -0.176 m",
        ),
        (
            "front_WC_y",
            0.2,
            r"front.WC = .* outside the steering axis .* 0.259 m .*; scrub radius 0.221 m",
        ),
        ("rear_WC_x", 0.2, r"rear.WC = \[-2.05, .* ahead of the steering axis at its height 0.198 m"),
        ("rear_WC_y", -0.2, r"rear.WC = .* outside the steering axis at its height -0.1"),
        ("front_UBJ_x", -0.06, r"front.WC .* caster 20.\d+ deg \(usual -8 to 16\)"),
    ],
)
def test_a_hardpoint_moved_alone_is_reported_with_its_figure(point: str, moved: float, said: str) -> None:
    built = assemble(SOURCES.toml(), SOURCES, {})
    assert built.unusual == ()
    with pytest.warns(UnusualGeometry, match=said):
        found = assemble(SOURCES.toml(), SOURCES, {point: float(built.params[P[point]]) + moved})
    assert len(found.unusual) == 1 and re.search(said, found.unusual[0])


def test_a_wheel_that_no_hub_can_hold_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, value("front.WC", "[0.35, 0.66, 0.275]"))
    assert "front.WC = [0.35, 0.66, 0.275]: the wheel centre is 0.354 m from the steering axis" in said
    said = refused(tmp_path, value("front.UBJ", "[0.3, 0.585, 0.39]"))
    assert "the steering axis leans by 54 deg; it must be within 45 deg of upright" in said
