"""The rows of the vehicle report are those of the references, complete and plain."""

import json
import math
from itertools import pairwise

import pytest

from tandem.machines.car.buggy.analysis.car import Tyre, suspensions
from tandem.machines.car.buggy.analysis.corner import corner
from tandem.machines.car.buggy.analysis.linear import to_json
from tandem.machines.car.buggy.analysis.report_rows import COARSE, FINE, VehicleReport, steer_rows, vehicle_report
from tests.tandem.machines.car.buggy.analysis.figures import BUGGY

TYRE = Tyre(cornering=lambda load: 13.0 * load, stiffness=165e3, damping=500.0)


@pytest.fixture(scope="module")
def report() -> VehicleReport:
    return vehicle_report(BUGGY, TYRE, TYRE)


def test_tables_span_the_travel_and_pass_through_the_drawing(report: VehicleReport) -> None:
    assert [row.travel for row in report.front] == list(COARSE) == [-0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06]
    assert [row.travel for row in report.rear_fine] == list(FINE)
    for rows in (report.front, report.rear):
        middle = rows[3]
        assert (middle.camber, middle.toe_in, middle.half_track_change) == pytest.approx((0, 0, 0), abs=1e-14)
    front, _ = suspensions(BUGGY)
    assert report.front[5].roll_centre == corner(front, 0.04).roll_centre


def test_force_at_the_wheel_grows_by_its_rate(report: VehicleReport) -> None:
    # trapezoidal sum of the rates over the fine table against the forces themselves
    for rows in (report.front_fine, report.rear_fine):
        force = [-row.spring_force * row.motion_ratio for row in rows]
        summed = sum(0.5 * (a.wheel_rate + b.wheel_rate) * 0.002 for a, b in pairwise(rows))
        assert force[-1] - force[0] == pytest.approx(summed, rel=1e-5)


def test_left_and_right_lock_are_mirror_images(report: VehicleReport) -> None:
    rows = report.steering
    assert rows[0].rack == pytest.approx(-0.065) and rows[-1].rack == pytest.approx(0.065)
    for row, other in zip(rows, reversed(rows), strict=True):
        assert row.left == pytest.approx(-other.right, abs=1e-14)
        assert row.hand_wheel == pytest.approx(-other.hand_wheel)
        assert row.ackermann_error == pytest.approx(other.ackermann_error, abs=1e-14)
        # the hand wheel's left is the road wheels' left
        assert row.hand_wheel * row.mean >= 0.0
    assert math.isnan(rows[6].ackermann) and math.isinf(rows[6].turn_radius)


def test_ackermann_is_full_where_the_wheels_roll_about_one_point() -> None:
    front, _ = suspensions(BUGGY)
    row = steer_rows(front, 2.25, 0.045, 0.04, steps=1)[0]
    # a wheelbase at which the linkage happens to be right, from the two angles
    inner, outer = max(abs(row.left), abs(row.right)), min(abs(row.left), abs(row.right))
    track = sum(corner(front, 0.0, -0.04, side).half_track for side in ("left", "right"))
    fitting = track / (1 / math.tan(outer) - 1 / math.tan(inner))
    exact = steer_rows(front, fitting, 0.045, 0.04, steps=1)[0]
    assert exact.ackermann == pytest.approx(1.0) and exact.ackermann_error == pytest.approx(0.0, abs=1e-14)


def test_the_report_is_json(report: VehicleReport) -> None:
    text = json.loads(json.dumps(to_json(report), allow_nan=False))
    assert set(text) >= {"front", "rear", "steering", "standing", "corners", "prediction"}
    assert len(text["steering"]) == 13
    assert text["steering"][6]["ackermann"] is None
