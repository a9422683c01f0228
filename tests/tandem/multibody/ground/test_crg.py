"""OpenCRG files: every data format, against a plain evaluation of the same figures, and everything that is refused."""

import contextlib
from collections.abc import Callable
from math import cos, isfinite, pi, sin
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.errors import ConfigError
from tandem.multibody.ground import describe, make_road, outside, road_from_sources, surface
from tandem.multibody.ground.crg import parse_crg
from tests.examples import few
from tests.tandem.multibody.ground.crg_files import HEAD_END, beside, crg_bytes, polyline

FORMS = ["LRFI", "LDFI", "KRBI", "KDBI"]
ROUNDING = {"LRFI": 2e-6, "LDFI": 1e-9, "KRBI": 2e-6, "KDBI": 1e-9}
V = (-3.0, -2.0, -1.2, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)
CHANNELS = [
    "reference line phi,rad",
    "reference line banking,m/m",
    "reference line slope,m/m",
    *(f"long section at v = {v:.3f},m" for v in V),
]


def road_of(folder: Path, data: bytes, keys: str = "") -> np.ndarray:
    (folder / "road.crg").write_bytes(data)
    (folder / "road.toml").write_text(f'[surface]\nkind = "crg"\nfile = "road.crg"\n{keys}\n')
    return make_road(folder / "road.toml")


def winding_rows(count: int = 121, increment: float = 0.5) -> np.ndarray:
    """Heading, banking, slope and heights of a road with bends of some 20 m; nothing repeats after a row."""
    u = increment * np.arange(count)
    rows = np.empty((count, 3 + len(V)))
    rows[:, 0] = 0.4 + 0.9 * np.sin(u / 18.0)
    rows[:, 1] = 0.05 * np.sin(u / 9.0)
    rows[:, 2] = 0.03 * np.cos(u / 15.0)
    rows[:, 3:] = 0.02 * np.sin(u[:, None] / 1.5 + np.array(V)) + 0.01 * np.array(V)
    rows[0, 0] = rows[0, 2] = np.nan  # of no meaning: there is no piece of line before the first row
    return rows


def plain_height(rows: np.ndarray, increment: float, start: float, row: int, column: int) -> float:
    z = start
    for k in range(1, row + 1):
        z += increment * rows[k, 2]
    return z + rows[row, 1] * V[column] + rows[row, 3 + column]


@pytest.mark.parametrize("form", FORMS)
def test_every_format_means_the_same_road(tmp_path: Path, form: str) -> None:
    increment, rows = 0.5, winding_rows()
    start = ["REFERENCE_LINE_START_X = 3.0", "reference_line_start_y = -2.0E0", "REFERENCE_LINE_START_Z = 0.7D+1"]
    road = road_of(tmp_path, crg_bytes(form, increment, CHANNELS, rows, start))
    points = polyline(3.0, -2.0, increment, rows[1:, 0])
    for row in range(1, len(rows) - 1):
        for column, v in enumerate(V):
            x, y = beside(points, row, v)
            # the spline's normal and the mean of two chords differ in third order of the increment
            height = plain_height(rows, increment, 7.0, row, column)
            assert surface(road, x, y)[0] == pytest.approx(height, abs=2e-4 + ROUNDING[form])
            assert not outside(road, x, y) or abs(v) == 3.0


def test_points_of_the_line_are_met_exactly(tmp_path: Path) -> None:
    rows = winding_rows()
    road = road_of(tmp_path, crg_bytes("KDBI", 0.5, CHANNELS, rows))
    for row, (x, y) in enumerate(polyline(0.0, 0.0, 0.5, rows[1:, 0])):
        assert surface(road, x, y)[0] == pytest.approx(plain_height(rows, 0.5, 0.0, row, 4), abs=1e-9)


def test_a_circle_of_constant_banking_is_a_cone(tmp_path: Path) -> None:
    """Independent of rows and columns: in a left bend of radius R, height falls with the distance from its centre."""
    R, bank, count = 25.0, 0.06, 401
    increment = 2.0 * R * sin(pi / 400.0)
    rows = np.zeros((count, 4))
    rows[:, 0] = (np.arange(count) - 0.5) * 2.0 * pi / 400.0
    channels = ["reference line phi,rad", "long section 1,m", "long section 2,m", "long section 3,m"]
    keys = [
        "LONG_SECTION_V_RIGHT = -4.0",
        "LONG_SECTION_V_LEFT = 4.0",
        "LONG_SECTION_V_INCREMENT = 4.0",
        f"REFERENCE_LINE_START_B = {bank}",
    ]
    road = road_of(tmp_path, crg_bytes("LDFI", increment, channels, rows, keys))
    for angle in np.linspace(0.1, 2.0 * pi - 0.1, 57):
        for r in (21.5, 24.0, 25.0, 27.7, 28.9):
            x, y = r * sin(angle), R - r * cos(angle)
            z, zx, zy, _ = surface(road, x, y)
            assert z == pytest.approx(bank * (R - r), abs=1e-6)
            assert (zx, zy) == pytest.approx((-bank * sin(angle), bank * cos(angle)), abs=1e-5)


def test_a_straight_line_in_any_direction(tmp_path: Path) -> None:
    phi, s, b = 0.7, 0.04, -0.03
    keys = [
        f"REFERENCE_LINE_START_PHI = {phi}",
        f"REFERENCE_LINE_START_S = {s}",
        f"REFERENCE_LINE_START_B = {b}",
        "LONG_SECTION_V_INCREMENT = 0.5",
    ]
    data = crg_bytes("LRFI", 1.0, [f"long section {k},m" for k in range(1, 8)], np.zeros((23, 7)), keys)
    road = road_of(tmp_path, data)
    assert describe(road)["layers"][0]["straight"]
    for u, v in ((0.0, 0.0), (3.3, 1.2), (21.9, -1.5)):
        x, y = u * cos(phi) - v * sin(phi), u * sin(phi) + v * cos(phi)
        z, zx, zy, _ = surface(road, x, y)
        assert z == pytest.approx(s * u + b * v, abs=1e-12)
        assert (zx, zy) == pytest.approx((s * cos(phi) - b * sin(phi), s * sin(phi) + b * cos(phi)), abs=1e-12)


def test_noise_of_measured_headings_does_not_fold_the_road(tmp_path: Path) -> None:
    """Headings every centimetre, each off by half a degree: pieces turn so sharply that their normals cross."""
    rng = np.random.default_rng(4)
    rows = np.zeros((1001, 4))
    rows[:, 0] = np.arange(1001) * 0.01 / 30.0 + rng.normal(size=1001) * 0.01
    rows[:, 1:] = 0.05 * 0.01 * np.arange(1001)[:, None]
    channels = ["reference line phi,rad", *(f"long section {k},m" for k in (1, 2, 3))]
    data = crg_bytes("KRBI", 0.01, channels, rows, ["LONG_SECTION_V_INCREMENT = 1.7"])
    road = road_of(tmp_path, data)
    points = polyline(0.0, 0.0, 0.01, rows[1:, 0])
    for row in range(50, 950, 31):
        z, zx, zy, _ = surface(road, *points[row])
        assert z == pytest.approx(rows[row, 1], abs=1e-3)
        heading = row * 0.01 / 30.0
        assert zx * cos(heading) + zy * sin(heading) == pytest.approx(0.05, rel=0.1)
        assert not outside(road, *points[row])


def test_a_road_can_be_placed(tmp_path: Path) -> None:
    rows = winding_rows()
    data = crg_bytes("KDBI", 0.5, CHANNELS, rows, ["REFERENCE_LINE_START_X = 50.0"])
    here, there = road_of(tmp_path, data), road_of(tmp_path, data, "at = [0, 0]\nheading_deg = 0\nlift = -1.0")
    turn = rows[1, 0]
    for d, e in ((5.0, 1.0), (20.0, 2.0), (30.0, -1.0)):
        x, y = 50.0 + d * cos(turn) - e * sin(turn), d * sin(turn) + e * cos(turn)
        assert surface(there, d, e)[0] == pytest.approx(surface(here, x, y)[0] - 1.0, abs=1e-9)


def test_beyond_its_ends_and_sides_the_edge_goes_on(tmp_path: Path) -> None:
    rows = winding_rows()
    road = road_of(tmp_path, crg_bytes("KDBI", 0.5, CHANNELS, rows))
    before = rows[1, 0] - 0.5 * (rows[2, 0] - rows[1, 0])  # the heading at the very start
    x, y = -10.0 * cos(before), -10.0 * sin(before)
    z, zx, zy, _ = surface(road, x, y)
    assert outside(road, x, y) and z == pytest.approx(surface(road, 0.0, 0.0)[0], abs=1e-5)
    assert zx * cos(before) + zy * sin(before) == pytest.approx(0.0, abs=1e-5)
    points = polyline(0.0, 0.0, 0.5, rows[1:, 0])
    x, y = beside(points, 60, 4.0)
    assert outside(road, x, y)
    assert surface(road, x, y)[0] == pytest.approx(surface(road, *beside(points, 60, 3.0))[0], abs=1e-3)


def test_binary_records_are_filled_up_and_no_more() -> None:
    """80 bytes a record: padding may be longer than a row, a row of NaN in the middle is a hole."""
    for columns in (2, 3, 7, 19, 25):
        rows = np.arange(5.0 * columns).reshape(5, columns) / 100.0
        channels = [f"long section {k + 1},m" for k in range(columns)]
        for form in ("KRBI", "KDBI"):
            data = crg_bytes(form, 1.0, channels, rows, ["LONG_SECTION_V_INCREMENT = 0.1"])
            assert parse_crg(data, "f").heights == pytest.approx(rows, abs=1e-6)
            assert parse_crg(data + b"\n", "f").heights.shape == rows.shape
            with pytest.raises(ConfigError, match=r"cut off|cross sections"):
                parse_crg(data[:-80], "f")


def test_sides_may_be_missing_if_the_road_file_says_so(tmp_path: Path) -> None:
    rows = np.arange(20.0).reshape(4, 5) / 10.0
    rows[1, :2] = rows[1, 4] = np.nan
    data = crg_bytes("LRFI", 1.0, [f"long section {k},m" for k in range(1, 6)], rows, ["LONG_SECTION_V_INCREMENT = 1"])
    with pytest.raises(ConfigError, match=r"road.crg: data row 2, channel 1: a hole"):
        road_of(tmp_path, data)
    road = road_of(tmp_path, data, 'missing = "extend"')
    assert [surface(road, 1.0, v)[0] for v in (-2.0, -1.0, 0.0, 1.0, 2.0)] == pytest.approx([0.7, 0.7, 0.7, 0.8, 0.8])
    rows[2, 2] = np.nan
    data = crg_bytes("KDBI", 1.0, [f"long section {k},m" for k in range(1, 6)], rows, ["LONG_SECTION_V_INCREMENT = 1"])
    with pytest.raises(ConfigError, match=r"data row 3: a hole inside"):
        road_of(tmp_path, data, 'missing = "extend"')


def simple(form: str = "LRFI", road: list[str] | None = None, more: list[str] | None = None, **change: object) -> bytes:
    rows = np.zeros((5, 3))
    channels = ["long section 1,m", "long section 2,m", "long section 3,m"]
    step = ["LONG_SECTION_V_INCREMENT = 1.0"]
    use = {"rows": rows, "channels": channels, "increment": 1.0, **change}
    return crg_bytes(form, use["increment"], use["channels"], use["rows"], step + (road or []), more or [])  # type: ignore[arg-type]


def sharp_bend() -> bytes:
    rows = np.zeros((5, 3))
    rows[:, 0] = 2.0 * np.arange(5)
    return simple(rows=rows, channels=["reference line phi,rad", "long section 1,m", "long section 2,m"])


WRONG: list[tuple[Callable[[], bytes], str]] = [
    (lambda: b"", r"not an OpenCRG file"),
    (lambda: simple().split(HEAD_END.encode())[0], r"not an OpenCRG file"),
    (lambda: simple(more=["$ROAD_CRG_FILE", "other.crg", "$"]), r"\$ROAD_CRG_FILE"),
    (
        lambda: simple(more=["$ROAD_CRG_MODS", "SCALE_Z = 2", "$"]),
        r"\$ROAD_CRG_MODS: SCALE_Z = 2: unknown; known are",
    ),
    (lambda: simple(more=["$ROAD_CRG_MODS", "SCALE_WIDTH = 0", "$"]), r"SCALE_WIDTH = 0: must be from 1e-3"),
    (lambda: simple(more=["$ROAD_CRG_MODS", "GRID_NAN_MODE = 3", "$"]), r"GRID_NAN_MODE = 3: must be 0"),
    (lambda: simple(more=["$ROAD_CRG_MODS", "REFPOINT_U = 1e3", "$"]), r"u = 1000, v = 0 is not on the road"),
    (lambda: simple(more=["$ROAD_CRG_MODS", "REFPOINT_V = 0", "REFPOINT_V_FRACTION = 0", "$"]), r"give one of them"),
    (lambda: simple(more=["$ROAD_CRG_OPTS", "BORDER_MODE_U = 3", "$"]), r"BORDER_MODE_U = 3: only 2 .* ignore_options"),
    (lambda: simple(road=["REFERENCE_LINE_OFFSET_X = 1"]), r"REFERENCE_LINE_OFFSET_X = 1: only 0"),
    (lambda: simple(road=["REFERENCE_LINE_STRAT_X = 1"]), r"REFERENCE_LINE_STRAT_X = 1: unknown key"),
    (lambda: simple(road=["REFERENCE_LINE_START_X = one"]), r"must be KEY = number"),
    (lambda: simple(road=["REFERENCE_LINE_END_U = 9"]), r"5 cross sections, but .* are those of 10"),
    (lambda: simple(road=["REFERENCE_LINE_END_X = 9"]), r"REFERENCE_LINE_END_X = 9: .* ends at 4"),
    (lambda: simple(road=["LONG_SECTION_V_RIGHT = -1", "LONG_SECTION_V_LEFT = 3"]), r"do not fit 3 long sections"),
    (lambda: simple(increment=0.0), r"REFERENCE_LINE_INCREMENT = 0: must be given"),
    (lambda: simple(increment=-1.0), r"REFERENCE_LINE_INCREMENT = -1"),
    (lambda: simple().replace(b"LONG_SECTION_V_INCREMENT = 1.0", b""), r"LONG_SECTION_V_INCREMENT: is missing"),
    (lambda: simple().replace(b"#:LRFI", b"#:LRFX"), r"#:LRFX: must be one of LRFI"),
    (lambda: simple(rows=np.zeros((1, 3))), r"1 cross sections; at least 2"),
    (lambda: simple(channels=["long section 1,m", "long section 2,m", "friction,1"]), r"D:friction,1: must be"),
    (
        lambda: simple(channels=["long section 1,m", "long section 3,m", "long section 2,m"]),
        r"numbered 1 to 3 in order",
    ),
    (lambda: simple(channels=["long section 1,mm", "long section 2,m", "long section 3,m"]), r"must be in m"),
    (lambda: simple(channels=["reference line phi,deg", "long section 1,m", "long section 2,m"]), r"must be in rad"),
    (lambda: simple(channels=[f"long section at v = {v},m" for v in (1, 0, -1)]), r"must go from right to left"),
    (lambda: simple() + b" 1.0 nonsense\n", r"data row 6, channel 1: '1.0 nonse': must be a number"),
    (lambda: simple() + b" 0.0000000\n", r"data row 6, channel 2: ''"),
    (lambda: simple() + b"0" * 90 + b"\n", r"data row 6: 90 characters"),
    (lambda: simple(rows=np.full((5, 3), 1e7), form="KDBI"), r"data row 1: a height of 1e\+07"),
    (lambda: simple(rows=np.full((5, 3), np.inf), form="KDBI"), r"data row 1, channel 1: a hole"),
    (sharp_bend, r"m along the reference line: a curvature of .* cross sections meet"),
]


@pytest.mark.parametrize("make, message", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, make: Callable[[], bytes], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^road\.crg: .*{message}" if message[0] != "n" else message):
        road_of(tmp_path, make())


def test_options_can_be_ignored_and_harmless_ones_pass(tmp_path: Path) -> None:
    plain = road_of(tmp_path, simple())
    unusual = simple(more=["$ROAD_CRG_OPTS", "BORDER_MODE_U = 3", "$"])
    assert np.array_equal(road_of(tmp_path, unusual, "ignore_options = true"), plain)
    harmless = ["$ROAD_CRG_OPTS", "BORDER_MODE_U = 2", "CHECK_EPS = 1e-5", "$", "$ROAD_CRG_MODS", "$"]
    assert np.array_equal(road_of(tmp_path, simple(more=harmless)), plain)


TOML = b'surface = {kind = "crg", file = "f.crg", missing = "extend"}'
BASE = [crg_bytes(form, 0.5, CHANNELS, winding_rows(9)) for form in FORMS]


@settings(max_examples=few(400), deadline=None)
@given(data=st.data(), base=st.sampled_from(BASE))
def test_damaged_files_are_refused_or_read_but_nothing_else(data: st.DataObject, base: bytes) -> None:
    damaged = bytearray(base)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, max(len(damaged) - 1, 0)))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert", "swap"]))
        if kind == "flip" and damaged:
            damaged[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del damaged[place : place + data.draw(st.integers(1, 300))]
        elif kind == "insert":
            damaged[place:place] = data.draw(st.binary(max_size=20))
        else:
            damaged[place:place] = data.draw(
                st.sampled_from([b"$", b"\n", b"*****", b"= 1e999", b"-9999999", b"D:", b"$$\n"])
            )
    try:
        road = road_from_sources({"r.toml": TOML, "f.crg": bytes(damaged)})
    except ConfigError:
        return
    assert np.all(np.isfinite(road))
    assert all(isfinite(value) for place in ((0.0, 0.0), (3.0, 1.0), (1e6, -1e6)) for value in surface(road, *place))


@settings(max_examples=few(100), deadline=None)
@given(noise=st.binary(max_size=400))
def test_noise_is_refused(noise: bytes) -> None:
    for head in (b"", b"$ROAD_CRG\n"):
        with pytest.raises(ConfigError, match=r"^f"):
            parse_crg(head + noise, "f")
    for head in (BASE[2][:500], BASE[0].split(b"$$")[0] + b"$$\n"):  # which some noise may well complete
        with contextlib.suppress(ConfigError):
            assert parse_crg(head + noise, "f") is not None
