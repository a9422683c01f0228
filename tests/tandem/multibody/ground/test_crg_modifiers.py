"""Modifiers of OpenCRG files: each against a file in which it has been applied by hand."""

from math import cos, hypot, pi, sin

import numpy as np
import pytest

from tandem.multibody.ground.crg import Crg, parse_crg
from tests.tandem.multibody.ground.crg_files import crg_bytes, polyline
from tests.tandem.multibody.ground.test_crg import CHANNELS, V, winding_rows

START = ("REFERENCE_LINE_START_X = 7.0", "REFERENCE_LINE_START_Y = -3.0", "REFERENCE_LINE_START_Z = 0.5")


def read(*modifiers: str, rows: np.ndarray | None = None, increment: float = 0.5, channels: list[str] = CHANNELS,
         start: tuple[str, ...] = START, **options: bool) -> Crg:  # fmt: skip
    more = ["$ROAD_CRG_MODS", *modifiers, "$"] if modifiers else []
    data = crg_bytes("KDBI", increment, channels, winding_rows() if rows is None else rows, start, more)
    return parse_crg(data, "f", **options)


def same(one: Crg, other: Crg) -> None:
    assert (one.x, one.y, one.increment) == pytest.approx((other.x, other.y, other.increment), abs=1e-12)
    for a, b in ((one.headings, other.headings), (one.v, other.v), (one.heights, other.heights)):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_scales_are_those_of_a_file_written_with_them() -> None:
    by_hand = winding_rows()
    by_hand[:, 0] = 0.4 + 0.9 * np.sin(0.25 * np.arange(121) * 2 / 18.0)
    turned = by_hand.copy()
    heads = turned[1:, 0]
    turned[1:, 0] = 0.4 + 1.5 * (heads - heads[0])  # the line begins as the head says
    turned[:, 1] *= -2.0
    turned[:, 2] *= 3.0
    turned[:, 3:] *= 4.0
    wide = [*CHANNELS[:3], *(f"long section at v = {0.5 * v:.4f},m" for v in V)]
    named = ("CURVATURE = 1.5", "BANKING = -2", "SLOPE = 3", "Z_GRID = 4", "WIDTH = 0.5", "LENGTH = 2")
    head = (*START, "REFERENCE_LINE_START_PHI = 0.4")
    found = read(*(f"SCALE_{each}" for each in named), rows=by_hand, start=head)
    same(found, read(rows=turned, increment=1.0, channels=wide, start=head))


def test_nothing_and_what_is_ignored_change_nothing() -> None:
    plain = read()
    for other in (
        read(" "),
        read("SCALE_LENGTH = 1"),
        read("SCALE_Z_GRID = 3", "REFPOINT_X = 9", ignore_modifiers=True),
    ):
        np.testing.assert_array_equal(plain.heights, other.heights)
        np.testing.assert_array_equal(plain.headings, other.headings)


def test_offsets_turn_the_line_about_a_point_and_then_move_it() -> None:
    plain = read()
    found = read("REFLINE_ROTCENTER_X = 1", "REFLINE_ROTCENTER_Y = 2", f"REFLINE_OFFSET_PHI = {pi / 2!r}",
                 "REFLINE_OFFSET_X = 10", "REFLINE_OFFSET_Y = 20", "REFLINE_OFFSET_Z = -0.25")  # fmt: skip
    # a quarter turn to the left about (1, 2) takes (7, -3) to (6, 8)
    assert (found.x, found.y) == pytest.approx((16.0, 28.0))
    np.testing.assert_allclose(found.headings, plain.headings + pi / 2)
    np.testing.assert_allclose(found.heights, plain.heights - 0.25)


BY_U = ("REFPOINT_U = 20", "REFPOINT_V = 1")
BY_SHARE = ("REFPOINT_U_FRACTION = 0.25", "REFPOINT_U_OFFSET = 5", "REFPOINT_V_FRACTION = 0.5", "REFPOINT_V_OFFSET = 1")


@pytest.mark.parametrize("how", [BY_U, BY_SHARE])
def test_a_point_of_the_road_is_where_it_is_wanted(how: tuple[str, ...]) -> None:
    wanted = ("REFPOINT_X = 100", "REFPOINT_Y = 50", "REFPOINT_Z = 3", "REFPOINT_PHI = 0.7", "REFLINE_OFFSET_X = 999")
    found = read(*how, *wanted)
    points = polyline(found.x, found.y, 0.5, found.headings)
    phi, column = found.headings[40], V.index(1.0)  # u = 20 is row 40; the piece behind it heads as wanted
    assert phi == pytest.approx(0.7)
    x, y = points[40]
    assert (x - sin(phi), y + cos(phi)) == pytest.approx((100.0, 50.0))
    assert found.heights[40, column] == pytest.approx(3.0)
    assert hypot(x - found.x, y - found.y) == pytest.approx(
        hypot(*(np.array(polyline(0, 0, 0.5, read().headings)[40])))
    )


def test_holes_at_the_sides_are_filled_as_the_modifiers_say() -> None:
    rows = winding_rows()
    rows[:, 1:3] = 0.0
    rows[5:9, 3] = rows[7, -1] = np.nan
    flat = ("REFERENCE_LINE_START_Z = 0.0",)
    last = read("GRID_NAN_MODE = 2", "GRID_NAN_OFFSET = -0.1", rows=rows, start=flat)
    zero = read("GRID_NAN_MODE = 1", "GRID_NAN_OFFSET = -0.1", rows=rows, start=flat)
    assert last.heights[6, 0] == pytest.approx(rows[6, 4] - 0.1) and last.heights[7, -1] == pytest.approx(
        rows[7, -2] - 0.1
    )
    assert zero.heights[6, 0] == pytest.approx(-0.1) and zero.heights[7, -1] == pytest.approx(-0.1)
    there = np.isfinite(rows[:, 3:])
    np.testing.assert_allclose(last.heights[there], rows[:, 3:][there])
