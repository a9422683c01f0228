"""A car from figures of a data sheet has those figures, by analysis that knows nothing of how it got them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sync.errors import ConfigError
from tandem.commands import cli
from tandem.machines.car.buggy.analysis.corner import wheel_rate
from tandem.machines.car.buggy.analysis.steady import understeer
from tandem.machines.car.studies.vehicle import data_sheet
from tandem.machines.car.studies.vehicle.parameters import Loaded, linear_car, load_vehicle, standing_corners
from tandem.machines.car.tyres.keys import T

ROOT = Path(__file__).resolve().parents[5]
BUGGY = ROOT / "configs" / "vehicles" / "buggy.toml"
FIGURES = {
    "wheelbase": 2.31, "track_front": 1.495, "track_rear": 1.505, "mass": 1100.0, "front_share": 0.52,
    "cg_height": 0.46, "front_roll_centre": 0.06, "rear_roll_centre": 0.1, "front_wheel_rate": 22000.0,
    "rear_wheel_rate": 20000.0, "front_bar_rate": 15000.0, "rear_bar_rate": 5000.0, "steering_ratio": 15.5,
}  # fmt: skip
MX5 = {
    "wheelbase": "2310 mm", "track_front": "1495 mm", "track_rear": "1.505 m", "mass": "1090", "front_share": "52 %",
    "cg_height": "46 cm", "tyre_size": "195/50 R16", "steering_ratio": "15.5", "drag_area": "0.66 m2",
}  # fmt: skip


def car(folder: Path, figures: Mapping[str, object], **changed: float) -> Loaded:
    text = BUGGY.read_text().replace("../tyres", str(ROOT / "configs" / "tyres"))
    lines = "\n".join(f"{name} = {value!r}" for name, value in figures.items())
    (folder / "car.toml").write_text(text.replace("[parameters]", f"[figures]\n{lines}\n[parameters]", 1))
    return load_vehicle(folder / "car.toml", changed)


def test_the_car_has_the_figures_that_its_file_gives(tmp_path: Path) -> None:
    made = car(tmp_path, FIGURES | {"tyre_size": "195/50 R16"})
    theory, corners = linear_car(made.values, made.tyres), standing_corners(made.table)
    found = {
        "wheelbase": made.table["wheelbase"], "mass": theory.mass, "cg_height": theory.cg_height,
        "front_share": theory.loads[0] / sum(theory.loads),
        "steering_ratio": 2 * np.pi / made.values["rack_travel_per_turn"] / abs(corners[0].steer_per_rack),
    }  # fmt: skip
    for axle, at, of, suspension in zip(("front", "rear"), corners, theory.axles, made.suspensions, strict=True):
        spring = made.table["spring_damper"][axle]
        force = spring["k"] * (spring["free_length"] - at.spring_length)
        found |= {
            f"track_{axle}": 2.0 * float(suspension.points["WC"][1]), f"{axle}_roll_centre": at.roll_centre,
            f"{axle}_wheel_rate": wheel_rate(at, spring["k"], force), f"{axle}_bar_rate": of.anti_roll,
        }  # fmt: skip
        assert at.travel == pytest.approx(0.0, abs=1e-5)  # the springs hold it where it is drawn
    assert found.pop("cg_height") == pytest.approx(FIGURES["cg_height"], rel=2e-3)  # arms as if at the wheels
    assert found == pytest.approx({k: v for k, v in FIGURES.items() if k != "cg_height"}, rel=1e-4)
    assert made.tyres[0][T.UNLOADED_RADIUS] == made.tyres[1][T.UNLOADED_RADIUS] == 0.3007
    assert len(made.built.follows) >= 10 and made.built.unusual == ()


def test_kinematics_are_those_of_the_file_where_no_figure_asks_for_others(tmp_path: Path) -> None:
    base, moved = load_vehicle(BUGGY, {}), car(tmp_path, {"wheelbase": 2.6, "track_front": 1.5, "mass": 1200.0})
    assert base.built.follows == ()
    for before, now in zip(standing_corners(base.table), standing_corners(moved.table), strict=True):
        for name in ("camber_gain", "toe_in_gain", "motion_ratio", "caster", "trail"):
            assert getattr(now, name) == pytest.approx(getattr(before, name), abs=0.02), name
    a, b = (linear_car(each.values, each.tyres) for each in (base, moved))
    for k in range(2):  # the same ride frequency
        more = (b.loads[k] - 9.81 * b.axles[k].mass) / (a.loads[k] - 9.81 * a.axles[k].mass)
        assert b.axles[k].stiffness / a.axles[k].stiffness == pytest.approx(more, rel=0.03)


def test_a_parameter_of_the_run_counts_more_than_what_follows(tmp_path: Path) -> None:
    assert car(tmp_path, {"mass": 1000.0}, front_spring_rate=51000.0).values["front_spring_rate"] == 51000.0


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"mass": 210.0}, r"car.toml: figures: mass = 210 kg: of it wheels and arms have 100 kg"),
        ({"tyre_size": "wide"}, r"car.toml: tyre_size = 'wide': must be width in mm, .* '195/50 R16'"),
        ({"front_share": 58.0}, r"figures.front_share = 58.0: .*less than or equal to 0.8"),
        ({"wheel_base": 2.4}, r"figures.wheel_base = 2.4: unknown key; did you mean wheelbase"),
    ],
)
def test_figures_that_no_car_has_are_refused_by_name(tmp_path: Path, figures: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        car(tmp_path, figures)


def tables(folder: Path) -> tuple[Path, Path]:
    (folder / "mx5.csv").write_text("# as published\n" + "".join(f"{k},{v}\n" for k, v in MX5.items()))
    (folder / "mx5.toml").write_text("".join(f"{k} = {v!r}\n" for k, v in MX5.items()))
    return folder / "mx5.csv", folder / "mx5.toml"


def test_a_table_of_either_kind_and_answers_give_the_same_car(tmp_path: Path) -> None:
    one, other = (data_sheet.from_table(file) for file in tables(tmp_path))
    replies = {question.text: MX5.get(question.key) for question in data_sheet.QUESTIONS}
    replies["Tyre size"] = MX5["tyre_size"]
    asked = data_sheet.ask_answers(lambda question, usual: _reply(replies, question, usual))
    assert one == other
    assert one.values["wheelbase"] == 2.31 and one.values["cg_height"] == pytest.approx(0.46)
    assert asked.values == pytest.approx(one.values) and asked.size == one.size
    assert one.origin["front_wheel_rate"] == "estimate: 1.25 Hz" and one.origin["mass"] == "given"


def _reply(replies: Mapping[str, str | None], question: str, usual: str) -> str:
    text = question if question in replies else question.rpartition(",")[0]
    return replies[text] or usual


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("wheelbase,2.31", r"wheelbase = 2.31 mm: must be from 500 to 6000 mm"),
        ("wheelbase,2310 kg", r"wheelbase = '2310 kg': must be a number, with one of cm, m, mm behind it"),
        ("weelbase,2310", r"weelbase: no figure of a car; did you mean wheelbase\?"),
        ("tyre_size,195", r"tyre_size = '195': must be width in mm"),
        ("wheelbase", r"'wheelbase': must be NAME,VALUE"),
    ],
)
def test_a_table_with_something_wrong_is_refused_in_a_sentence(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "wrong.csv").write_text(line + "\n")
    with pytest.raises(ConfigError, match=said):
        data_sheet.from_table(tmp_path / "wrong.csv")


def test_the_command_writes_a_sound_commented_file_and_overwrites_none(tmp_path: Path) -> None:
    table, _ = tables(tmp_path)
    made = tmp_path / "mine.toml"
    found = CliRunner().invoke(cli.app, ["vehicle", "new", str(made), "--from", str(table)])
    assert found.exit_code == 0, found.output
    assert "7 of 15 figures are estimates" in found.output and "front_spring_rate = " in found.output
    text = made.read_text()
    assert "wheelbase = 2.31 " in text and "# Wheelbase: 2310 mm, given" in text
    assert "# Spring rate at one front wheel: 15.38 N/mm, estimate: 1.25 Hz" in text
    assert "sprung_mass = 690.0               # of the template; replaced by what follows from [figures]" in text
    loaded = load_vehicle(made, {})
    car = linear_car(loaded.values, loaded.tyres)
    assert car.mass == pytest.approx(1090.0)
    # a characteristic speed of 90 km/h: the front tyres have less of their stiffness, the rear ones all of it
    assert understeer(car).total == pytest.approx(2.31 / 25.0**2, rel=1e-3)
    assert loaded.tyres[0][T.LKY] < 0.9 and loaded.tyres[1][T.LKY] == 1.0
    front = 0.52 + 0.46 / 2.31  # both axles lock at 1 g
    assert loaded.values["brake_front"] / loaded.values["brake_rear"] == pytest.approx(front / (1.0 - front), rel=1e-3)
    table.write_text(table.read_text() + "understeer_gradient,12\n")
    none = CliRunner().invoke(cli.app, ["vehicle", "new", str(tmp_path / "none.toml"), "--from", str(table)])
    assert none.exit_code == 2 and "understeer_gradient = 12 deg/g: a rigid car of these" in " ".join(
        none.output.split()
    )
    assert not list(tmp_path.glob("none*"))
    again = CliRunner().invoke(cli.app, ["vehicle", "new", str(made), "--from", str(table)])
    assert again.exit_code == 2 and "is there already" in again.output and made.read_text() == text
