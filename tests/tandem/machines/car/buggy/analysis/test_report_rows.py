"""The rows of the vehicle report are those of the references."""

import math
from itertools import pairwise

import pytest

from tandem.machines.car.buggy.analysis.car import suspensions
from tandem.machines.car.buggy.analysis.corner import corner
from tandem.machines.car.buggy.analysis.linear import to_json
from tandem.machines.car.buggy.analysis.report_rows import TravelRow, steer_rows, travel_rows
from tests.tandem.machines.car.buggy.analysis.figures import BUGGY

AXLES = ("front", "rear")


def rows_of(axle: str, travels: tuple[float, ...]) -> tuple[TravelRow, ...]:
    spring = BUGGY["spring_damper"][axle]
    return travel_rows(suspensions(BUGGY)[AXLES.index(axle)], spring["k"], spring["free_length"], travels)


@pytest.mark.parametrize("axle", AXLES)
def test_rows_stand_at_their_travel_and_pass_through_the_drawing(axle: str) -> None:
    travels = (-0.06, -0.04, 0.0, 0.04)
    rows = rows_of(axle, travels)
    assert tuple(row.travel for row in rows) == travels
    assert (rows[2].camber, rows[2].toe_in, rows[2].half_track_change) == pytest.approx((0, 0, 0), abs=1e-14)
    assert rows[3].roll_centre == corner(suspensions(BUGGY)[AXLES.index(axle)], 0.04).roll_centre


@pytest.mark.parametrize("axle", AXLES)
def test_force_at_the_wheel_grows_by_its_rate(axle: str) -> None:
    # trapezoidal sum of the rates over a fine table against the forces themselves
    rows = rows_of(axle, tuple(0.002 * k for k in range(-30, 31)))
    force = [-row.spring_force * row.motion_ratio for row in rows]
    summed = sum(0.5 * (a.wheel_rate + b.wheel_rate) * 0.002 for a, b in pairwise(rows))
    assert force[-1] - force[0] == pytest.approx(summed, rel=1e-5)


def test_left_and_right_lock_are_mirror_images() -> None:
    steering = BUGGY["steering"]
    rows = steer_rows(
        suspensions(BUGGY)[0], BUGGY["wheelbase"], steering["rack_travel_per_rev"], steering["rack_limit"]
    )
    assert len(rows) == 13
    assert rows[0].rack == pytest.approx(-0.065) and rows[-1].rack == pytest.approx(0.065)
    for row, other in zip(rows, reversed(rows), strict=True):
        assert row.left == pytest.approx(-other.right, abs=1e-14)
        assert row.hand_wheel == pytest.approx(-other.hand_wheel)
        assert row.ackermann_error == pytest.approx(other.ackermann_error, abs=1e-14)
        # the hand wheel's left is the road wheels' left
        assert row.hand_wheel * row.mean >= 0.0
    assert math.isnan(rows[6].ackermann) and math.isinf(rows[6].turn_radius)
    assert to_json(rows[6])["ackermann"] is None


def test_ackermann_is_full_where_the_wheels_roll_about_one_point() -> None:
    front, _ = suspensions(BUGGY)
    row = steer_rows(front, 2.25, 0.045, 0.04, steps=1)[0]
    # a wheelbase at which the linkage happens to be right, from the two angles
    inner, outer = max(abs(row.left), abs(row.right)), min(abs(row.left), abs(row.right))
    track = sum(corner(front, 0.0, -0.04, side).half_track for side in ("left", "right"))
    fitting = track / (1 / math.tan(outer) - 1 / math.tan(inner))
    exact = steer_rows(front, fitting, 0.045, 0.04, steps=1)[0]
    assert exact.ackermann == pytest.approx(1.0) and exact.ackermann_error == pytest.approx(0.0, abs=1e-14)
