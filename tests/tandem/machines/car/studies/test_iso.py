"""`tandem iso`: the simulated car does what theory says of the same parameters, and the command tells it."""

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sync.errors import Diverged
from tandem.commands.cli import app
from tandem.machines.car.studies.iso import lanes, runner
from tandem.machines.car.studies.iso.manoeuvres import MANOEUVRES
from tandem.machines.car.studies.iso.result import Result
from tandem.machines.car.studies.iso.runner import Drive, H, plan
from tandem.machines.car.studies.iso.tables import _cost, report
from tandem.machines.car.studies.iso.theory import turn
from tandem.machines.car.studies.iso.vehicle import Vehicle, load_vehicle
from tandem.reports.html.report_page import report_page

ROOT = Path(__file__).resolve().parents[5]
BUGGY = ROOT / "configs" / "vehicles" / "buggy.toml"
CLOSE = 0.1  # what is promised of figures that linear theory predicts


@cache
def car() -> Vehicle:
    return load_vehicle(BUGGY, {})


@cache
def result(name: str) -> Result:
    return MANOEUVRES[name].run(car(), None, lambda what, share: None)


def close(name: str, *quantities: str) -> None:
    found = {row.quantity: row for row in result(name).rows}
    for quantity in quantities:
        row = found[quantity]
        assert row.difference is not None
        assert abs(row.difference) < CLOSE, f"{quantity}: {row.predicted} predicted, {row.simulated} simulated"


# ---- theory ----------------------------------------------------------------------------------------------------------


def test_steady_turn_agrees_with_theory():
    close(
        "circle",
        "understeer gradient",
        "understeer gradient at the hand wheel",
        "yaw gain at 44 km/h",
        "roll gradient",
        "sideslip gradient",
        "load transfer front",
        "load transfer rear",
    )
    assert result("circle").capped == 0


def test_left_and_right_circles_are_mirror_images():
    (note,) = result("circle").notes
    assert float(note.split(" by ")[1].split()[0]) < 1e-5


def test_step_steer_agrees_with_theory_where_tyres_are_linear():
    close("step", *(row.quantity for row in result("step").rows if "at 1 m/s²" in row.quantity and row.predicted))
    close("step", "yaw gain at 4 m/s²", "roll at 4 m/s²")


def test_ride_and_roll_frequencies_agree_with_theory():
    close("ride", *(f"{mode}, frequency" for mode in ("heave", "pitch", "roll", "yaw", "sway")))
    close("ride", *(f"{axle} {mode}, frequency" for axle in ("front", "rear") for mode in ("hop", "tramp")))
    close("ride", "heave, damping", "pitch, damping", "roll, damping")


def test_coast_down_follows_the_resistances():
    for row in result("coast-down").rows:
        assert row.difference is not None and abs(row.difference) < 0.02, row


@pytest.mark.drill
def test_braking_agrees_with_theory_and_the_car_stays_where_it_stopped():
    close("brake", *(row.quantity for row in result("brake").rows if row.predicted))
    rows = {row.quantity: row.simulated for row in result("brake").rows}
    assert rows["deviation to the side"] < 1e-6
    assert rows["after the stop: speed at 3 s"] < 0.1
    assert rows["and to a stop in gear: speed at 3 s"] < 0.1
    assert rows["and to a stop in gear: speed changes sign"] < 10  # it rocks, it does not chatter


@pytest.mark.drill
def test_axles_that_lock_at_one_pressure_are_said_to_lock_together():
    (row,) = [row for row in result("brake").rows if row.quantity == "pressure at which a wheel locks"]
    assert "both axles together" in row.by  # the buggy's; it said "front first, by 0.0 %"


def test_a_step_error_that_no_method_estimates_is_no_number():
    found = result("slope")
    assert found.step_error is None or found.step_error > 0.0
    assert _cost(replace(found, step_error=None)).endswith("error of a step not estimated")
    assert _cost(replace(found, step_error=2e-5)).endswith("error of a step estimated as 2.0e-05 m at most")


def test_parked_on_a_slope_the_car_does_not_drift():
    rows = {row.quantity: row.simulated for row in result("slope").rows}
    assert abs(rows["drift parked for 60 s"]) < 1.0
    assert rows["largest motion while parked"] < 1.0
    assert rows["rolls back when starting"] < 50.0
    assert rows["speed 6 s after"] > 5.0
    close("slope", "front axle load", "rear axle load", "force of the brakes")


@pytest.mark.drill
def test_double_lane_change_at_80_km_h_is_clean_and_every_step_converges():
    rows = {row.quantity: row.simulated for row in result("lane-change").rows}
    assert rows["cones hit"] == rows["gates missed"] == rows["steps capped"] == 0


def test_steady_turn_adds_a_few_per_cent_to_the_textbook():
    from tandem.machines.car.buggy.analysis.steady import lean

    at = turn(car(), 15.0, 0.5)
    known = lean(car().linear, 0.5)
    assert at.roll == pytest.approx(known.roll, rel=0.05)
    assert sum(at.transfer) == pytest.approx(sum(known.transfer), rel=0.05)
    assert sum(at.loads) == pytest.approx(car().linear.mass * 9.81)


def test_a_change_of_the_car_moves_theory_and_simulation_alike():
    """A stiffer front spring: the front axle takes more of the load transfer, in both by the same amount."""
    stiff = load_vehicle(BUGGY, {"front_spring_rate": 60000.0, "front_spring_length": 0.3975})
    speed, a_y = 15.0, 1.0
    found = []
    for each in (car(), stiff):
        drive = Drive(each)
        drive.reach(speed)
        hands = turn(each, speed, a_y).steer * each.linear.steering_ratio
        share = np.minimum(runner.instants(5.0) / 2.0, 1.0)
        log = drive.go(plan(5.0, angle=hands * share, curvature=share * a_y / speed**2, speed=speed)).last(0.5)
        found.append(0.5 * (log.mean("load_fr") - log.mean("load_fl")))
    change = turn(stiff, speed, a_y).transfer[0] - turn(car(), speed, a_y).transfer[0]
    assert change > 10.0
    assert found[1] - found[0] == pytest.approx(change, rel=CLOSE)


def test_where_x_begins_does_not_matter_to_theory():
    moved = {
        name: value - 0.3
        for name, value in car().values.items()
        if name == "sprung_cg_x" or (name.endswith("_x") and name.split("_")[0] in ("front", "rear"))
    }
    other = load_vehicle(BUGGY, moved)
    assert other.linear.sprung_height == pytest.approx(car().linear.sprung_height, rel=1e-9)
    assert other.linear.loads == pytest.approx(car().linear.loads, rel=1e-9)
    assert turn(other, 15.0, 1.0).steer == pytest.approx(turn(car(), 15.0, 1.0).steer, rel=1e-9)


# ---- running ---------------------------------------------------------------------------------------------------------


def test_the_same_drive_twice_gives_the_same_bits():
    logs = []
    for _ in range(2):
        drive = Drive(car())
        drive.reach(10.0, settle=0.5)
        drive.go(plan(1.0, angle=0.5 * np.sin(runner.instants(1.0)), speed=10.0))
        logs.append(drive.whole().rows)
    assert np.array_equal(logs[0], logs[1], equal_nan=True)  # of inputs that are not given


def test_a_drive_that_leaves_finite_numbers_says_so():
    drive = Drive(car())
    drive.state[1] = math.nan
    with pytest.raises(Diverged, match=r"diverged 0\.01 s after the start"):
        drive.go(plan(1.0))


def test_cones_are_hit_by_the_wheels_and_not_by_the_air_beside_them():
    drive = Drive(car())
    log = drive.reach(5.0, settle=2.0)
    x, beside = float(log["x"][len(log) // 2]), 0.5 * car().width
    hit, room = lanes.hits(car(), log, np.array([[x, beside + 0.05], [x, beside - 0.05]]))
    assert hit.tolist() == [False, True]
    assert room == pytest.approx(-0.05, abs=1e-3)
    assert len(log) == round(2.0 / H)


# ---- the command -----------------------------------------------------------------------------------------------------


def test_command_prints_json_and_writes_a_page(tmp_path):
    done = CliRunner().invoke(app, ["iso", "coast-down", "--speed-kmh", "50", "--json", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (test,) = told["tests"]
    assert test["test"] == "coast-down"
    assert set(test) == {"test", "title", "conditions", "rows", "notes", "simulated_s", "capped", "step_error"}
    assert {"quantity", "unit", "predicted", "simulated", "difference", "by"} == set(test["rows"][0])
    assert test["rows"][0]["quantity"] == "time 50 to 40 km/h"
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["tests"] == told["tests"]


@pytest.mark.drill
def test_steps_may_be_halved(tmp_path):
    command = ["iso", "coast-down", "--speed-kmh", "30", "--json", "--out", str(tmp_path)]
    figures = json.loads(CliRunner().invoke(app, [*command, "--halved"]).stdout)
    assert figures["changed"] == {"step_halving": 1.0}
    (test,) = figures["tests"]
    assert 0.0 < test["step_error"] < 1e-3  # the jump of the torque at the start
    assert abs(test["rows"][0]["difference"]) < 1e-3


def test_a_page_says_how_many_figures_are_close():
    found = report("iso coast-down", car(), [result("coast-down")])
    piece = report_page(found)
    assert "predicted figures within" in found.headline and "Coast-down" in piece and "∫ m* dv" in piece


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["nonsense"], "there are circle, step, sweep, lane-change"),
        (["step", "--set", "sprung_weight=1"], "sprung_weight"),
        (["step", "--set", "sprung_mass"], "PARAMETER=NUMBER"),
        (["step", "--set", "sprung_mass=heavy"], "PARAMETER=NUMBER"),
        (["circle", "--speed-kmh", "50"], "circle has its own speeds"),
        (["step", "buggy_single_track"], "multibody car"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(arguments, said):
    done = CliRunner().invoke(app, ["iso", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_car_that_diverges_has_its_own_exit_code(monkeypatch, tmp_path):
    from tandem.machines.car.studies.iso import manoeuvres

    def diverges(vehicle, speed, update):
        raise Diverged("the car diverged 1.00 s after the start")

    monkeypatch.setitem(manoeuvres.MANOEUVRES, "brake", manoeuvres.Manoeuvre(diverges))
    done = CliRunner().invoke(app, ["iso", "brake", "--runs", str(tmp_path)])
    assert done.exit_code == 3
    assert "brake: the car diverged" in done.stderr
