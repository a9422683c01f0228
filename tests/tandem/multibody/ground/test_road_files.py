"""Road files: what is shipped works, what is wrong is named, and a record can rebuild a road to the bit."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.errors import ConfigError
from tandem.multibody.ground import describe, make_road, outside, road_from_sources, sources, surface
from tandem.multibody.ground.grid import parse_grid
from tests.examples import few
from tests.tandem.multibody.ground.crg_files import crg_bytes

ROOT = Path(__file__).resolve().parents[4]
SHIPPED = sorted((ROOT / "configs" / "roads").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_roads_can_be_made_and_rebuilt_to_the_bit(path: Path) -> None:
    road = make_road(path)
    files = sources(path)
    assert path.name in files and all(isinstance(data, bytes) for data in files.values())
    assert road_from_sources(files).tobytes() == road.tobytes()
    assert road.dtype == np.float64 and road.flags.c_contiguous and describe(road)["numbers"] == len(road)
    z, zx, zy, _ = surface(road, 0.0, 0.0)
    assert (z, zx, zy) == (0.0, 0.0, 0.0)  # cars start here, level


def test_the_demo_track_lies_under_the_circuit() -> None:
    path = ROOT / "configs" / "roads" / "demo_track.toml"
    road = make_road(path)
    circuit = tomllib.loads((ROOT / "configs/manoeuvres/follow_circuit.toml").read_text())["follow"]["path"]
    corners = np.array([*circuit, circuit[0]], dtype=float)
    line = np.concatenate([a + (b - a) * np.linspace(0, 1, 60)[:, None] for a, b in pairwise(corners)])
    around = [(x + d, y + e) for x, y in line for d in (-4.0, 0.0, 4.0) for e in (-4.0, 0.0, 4.0)]
    assert not any(outside(road, x, y) for x, y in around)
    at = np.array([surface(road, x, y) for x, y in line])
    slopes = np.hypot(at[:, 1], at[:, 2])
    assert np.ptp(at[:, 0]) > 1.5 and np.percentile(slopes, 95) < 0.06 and slopes.max() < 0.08
    for x, y in ((0.0, 0.0), (1.0, 1.0), (-2.0, 0.7)):
        assert surface(road, x, y)[:3] == (0.0, 0.0, 0.0)
    assert sum(len(data) for data in sources(path).values()) < 300_000


def test_a_road_in_a_folder_below_and_from_crg_is_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rows = np.column_stack((0.1 * np.sin(np.arange(50) / 9.0), np.zeros((50, 3))))
    channels = ["reference line phi,rad", *(f"long section {k},m" for k in (1, 2, 3))]
    data = crg_bytes("KRBI", 0.5, channels, rows, ["LONG_SECTION_V_INCREMENT = 2"])
    (tmp_path / "data" / "a.crg").write_bytes(data)
    (tmp_path / "r.toml").write_text('[surface]\nkind = "crg"\nfile = "data/a.crg"\n[roughness]\niso_class = "D"\n')
    files = sources(tmp_path / "r.toml")
    assert set(files) == {"r.toml", "data/a.crg"}
    road = make_road(tmp_path / "r.toml")
    assert road_from_sources(dict(reversed(files.items()))).tobytes() == road.tobytes()
    del files["data/a.crg"]
    with pytest.raises(ConfigError, match=r"r.toml: surface.file = 'data/a.crg': not among the sources"):
        road_from_sources(files)


WRONG: list[tuple[str, str]] = [
    ("surfaces = 1", r"surfaces = 1: unknown key; did you mean surface\?"),
    ("surface = {}", r"surface.kind = 'None': must be one of flat, slope, grid, crg"),
    ('surface = {kind = "flatt"}', r"surface.kind = 'flatt': must be one of"),
    ('surface = {kind = "flat", grade_percent = 1}', r"surface.grade_percent = 1: unknown key"),
    ('surface = {kind = "slope", grade_procent = 1}', r"grade_procent = 1: unknown key; did you mean grade_percent\?"),
    ('surface = {kind = "slope", grade_percent = 99}', r"surface.grade_percent = 99: must be less than or equal to 60"),
    ('surface = {kind = "slope", grade_percent = nan}', r"surface.grade_percent = nan: must be a finite number"),
    ('surface = {kind = "slope", begin = 2, end = 1}', r"end = 1 must not be before begin = 2"),
    ('surface = {kind = "slope", transition = 0}', r"surface.transition = 0: must be greater than 0"),
    ("roughness = {}", r"roughness: give either iso_class, such as 'C', or density"),
    ('roughness = {iso_class = "Z"}', r"roughness.iso_class = 'Z'"),
    ('roughness = {iso_class = "C", density = 1e-4}', r"give either"),
    ('roughness = {iso_class = "C", spacing = 0.2}', r"shortest = 0.35 must be at least 4 times spacing = 0.2"),
    ('roughness = {iso_class = "C", length = 50}', r"longest = 90 <= length = 50 must hold"),
    ('roughness = {iso_class = "C", length = 20000, width = 200}', r"roughness: 262144 x 801 nodes; at most 4000000"),
    ("bumps = [{x = 1, length = 1, height = 9}]", r"bumps\[0\].height = 9"),
    ("bumps = [{x = 1, length = 1, height = 0.1, ramp = 0.1}]", r"bumps\[0\]: ramp = 0.1: a trapezoid needs it"),
    ('bumps = [{shape = "trapezoid", x = 1, length = 1, height = 0.1}]', r"bumps\[0\]: ramp = None: a trapezoid needs"),
    (
        'bumps = [{shape = "trapezoid", x = 1, length = 1, height = 0.1, ramp = 0.6}]',
        r"ramp = 0.6 must be at most half",
    ),
    ("bumps = [{x = 1, length = 1, height = 0.1, right = 1, left = 0}]", r"left = 0 must be right = 1"),
    ("patches = [{factor = 0}]", r"patches\[0\].factor = 0"),
    ("patches = [{factor = 0.5, begin = 5, end = 1}]", r"begin, end = 5, 1: the second must be the greater"),
    ("patches = [{factor = 0.5, outline = [[0, 0, 1], [0, 0, 1]]}]", r"outline\[1\]: x = 0 must be beyond 0"),
    ("patches = [{factor = 0.5, outline = [[0, 2, 1], [1, 0, 1]]}]", r"outline\[0\]: right = 2 must not be left of"),
    ("patches = [{factor = 0.5, begin = 1, outline = [[0, 0, 1], [1, 0, 1]]}]", r"give either outline or begin"),
    ("x = [", r"not valid TOML"),
]
GRID = 'surface = {{kind = "grid", file = "{}", origin = [0, 0], spacing = [1, 1]{}}}'
WRONG_DATA: list[tuple[str, bytes | None, str]] = [
    (GRID.format("a.csv", ""), None, r"surface.file = 'a.csv': no such file"),
    (GRID.format("../a.csv", ""), None, r"surface.file = '../a.csv': must be a data file beside"),
    (GRID.format("/etc/passwd", ""), None, r"surface.file = '/etc/passwd': must be a data file beside"),
    (GRID.format("a.csv", "").replace("[1, 1]", "[0, 1]"), b"1,2\n3,4", r"surface.spacing\[0\] = 0: must be greater"),
    (GRID.format("a.csv", "").replace("[1, 1]", "[1]"), b"1,2\n3,4", r"surface.spacing"),
    (GRID.format("a.csv", ""), b"", r"a.csv: no rows"),
    (GRID.format("a.csv", ""), b"1,2\n", r"a.csv: 1 rows of 2; at least 2 of 2"),
    (GRID.format("a.csv", ""), b"# remark\n1,2\n3\n", r"a.csv: line 3: 1 values, but 2 in rows before"),
    (GRID.format("a.csv", ""), b"1,2\n3,\n", r"a.csv: line 2, column 2: '': must be a number"),
    (GRID.format("a.csv", ""), b"1,2\n3,x4\n", r"a.csv: line 2, column 2: 'x4': must be a number"),
    (GRID.format("a.csv", ""), b"1,2\n3,nan\n", r"a.csv: row 2, column 2: nan m: must be a height"),
    (GRID.format("a.csv", ", scale = 1000"), b"1,2\n3,1e306\n", r"a.csv: row 2, column 2: inf m"),
    (GRID.format("a.csv", ""), b"\xff\xfe1,2", r"a.csv: byte 0: not text"),
    (GRID.format("a.npy", ""), b"\x93NUMPY\x01\x00\xff\xff", r"a.npy: the head of this .npy file cannot be read"),
]


@pytest.mark.parametrize("text, message", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "road.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        make_road(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("text, data, message", WRONG_DATA)
def test_wrong_data_is_named(tmp_path: Path, text: str, data: bytes | None, message: str) -> None:
    path = tmp_path / "road.toml"
    path.write_text(text)
    if data is not None:
        name = re.search(r'file = "(.*?)"', text)
        assert name
        (tmp_path / name.group(1)).write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        make_road(path)


def test_data_behind_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "roads").mkdir()
    (tmp_path / "secret.csv").write_text("1,2\n3,4\n")
    (tmp_path / "roads" / "a.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "roads" / "road.toml").write_text(GRID.format("a.csv", ""))
    for function in (make_road, sources):
        with pytest.raises(ConfigError, match=r"surface.file = 'a.csv': leads out of"):
            function(tmp_path / "roads" / "road.toml")


def test_tables_without_a_file_have_no_data() -> None:
    keys = {"kind": "grid", "file": "a.csv", "origin": [0, 0], "spacing": [1, 1]}
    with pytest.raises(ConfigError, match=r"surface.file = 'a.csv': only a road read from a file"):
        make_road({"surface": keys})


def test_grids_of_text_and_of_numpy_are_the_same(tmp_path: Path) -> None:
    heights = np.array([[0.5, 1.25, -2.0], [3.0, 4.0, 5.5]])
    np.save(tmp_path / "a.npy", np.asfortranarray(heights.astype(np.float32)))
    texts = [
        b"0.5,1.25,-2\n3,4,5.5\n",
        b"\xef\xbb\xbf# remark\r\n0.5; 1.25; -2\r\n\r\n3;4;5.5",
        b"0.5 1.25\t-2\n3 4 5.5",
    ]
    for data in [*texts, (tmp_path / "a.npy").read_bytes()]:
        assert np.array_equal(parse_grid(data, "f", 1.0), heights)
    for other in (np.zeros(3), np.array([["a", "b"], ["c", "d"]]), np.zeros((2, 2), dtype=complex)):
        np.save(tmp_path / "a.npy", other)
        with pytest.raises(ConfigError, match="two dimensions of float or integer"):
            parse_grid((tmp_path / "a.npy").read_bytes(), "f", 1.0)


def _npy(tmp: Path) -> bytes:
    np.save(tmp / "base.npy", np.arange(12.0).reshape(3, 4))
    return (tmp / "base.npy").read_bytes()


def test_damaged_grids_are_refused_or_read_but_nothing_else(tmp_path: Path) -> None:
    npy, csv = _npy(tmp_path), b"1,2,3\n4,5,6\n7,8,9\n"

    @settings(max_examples=few(300), deadline=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        damaged = bytearray(data.draw(st.sampled_from([npy, csv])))
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, max(len(damaged) - 1, 0)))
            damaged[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        try:
            heights = parse_grid(bytes(damaged), "f", 1.0)
        except ConfigError:
            return
        assert heights.ndim == 2 and np.all(np.isfinite(heights))

    check()


TOML_VALUES = st.recursive(
    st.one_of(st.integers(-(2**60), 2**60), st.floats(), st.text(max_size=6), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
KEYS = ["title", "friction", "surface", "roughness", "bumps", "patches"]


@settings(max_examples=few(80), deadline=None)
@given(tables=st.dictionaries(st.sampled_from(KEYS), TOML_VALUES, max_size=4))
def test_any_tables_make_a_road_or_a_config_error(tables: dict[str, Any]) -> None:
    try:
        road = make_road(tables)
    except ConfigError:
        return
    assert len(road) >= 8


@settings(max_examples=few(100), deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_as_sources_make_a_road_or_a_config_error(data: bytes) -> None:
    for files in ({"a.toml": data}, {"a.toml": GRID.format("b", "").encode(), "b": data}, {"b": data}):
        try:
            road = road_from_sources(files)
        except ConfigError:
            continue
        assert np.all(np.isfinite(road))


def test_the_examples_of_the_documentation_are_valid(tmp_path: Path) -> None:
    (tmp_path / "heights.csv").write_text("0,0,0\n0,0,0\n0,0,0\n")
    rows = np.zeros((5, 3))
    channels = [f"long section {k},m" for k in (1, 2, 3)]
    (tmp_path / "survey.crg").write_bytes(crg_bytes("KRBI", 1.0, channels, rows, ["LONG_SECTION_V_INCREMENT = 1"]))
    examples = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "roads.md").read_text(), re.DOTALL)
    assert len(examples) >= 6
    for example in examples:
        (tmp_path / "road.toml").write_text(example)
        make_road(tmp_path / "road.toml")
