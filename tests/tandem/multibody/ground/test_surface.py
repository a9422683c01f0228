"""The surface of roads against formulas and against finite differences of itself."""

from collections.abc import Callable
from math import cos, isfinite, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.multibody.ground import describe, make_road, outside, surface
from tests.examples import few
from tests.tandem.multibody.ground.crg_files import crg_bytes

PLACES = st.tuples(st.floats(0.5, 11.5), st.floats(-3.5, 3.5))


def grid_road(folder: Path, heights: np.ndarray, origin=(0.0, -4.0), spacing=(0.5, 0.25), **more: Any) -> np.ndarray:
    np.save(folder / "heights.npy", heights)
    keys = "".join(f"{key} = {value}\n" for key, value in more.items())
    text = f'[surface]\nkind = "grid"\nfile = "heights.npy"\norigin = {list(origin)}\nspacing = {list(spacing)}\n{keys}'
    (folder / "road.toml").write_text(text)
    return make_road(folder / "road.toml")


def curved_road(folder: Path, seed: int = 1) -> np.ndarray:
    """Bends of 15 m, uneven columns, heights at random: as unfriendly as a legal file is."""
    rng = np.random.default_rng(seed)
    v = np.array([-4.2, -3.0, -1.0, -0.6, 0.5, 2.0, 4.4])
    headings = 0.3 * np.sin(np.arange(31) * 0.5 / 4.0)
    rows = np.column_stack((headings, rng.normal(size=(31, len(v))) * 0.05))
    channels = ["reference line phi,rad", *(f"long section at v = {place},m" for place in v)]
    (folder / "road.crg").write_bytes(crg_bytes("KDBI", 0.5, channels, rows))
    (folder / "road.toml").write_text('[surface]\nkind = "crg"\nfile = "road.crg"\n')
    return make_road(folder / "road.toml")


@pytest.fixture(scope="module")
def roads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """One of each kind, all of them lively where the tests look."""
    rng = np.random.default_rng(7)
    folder = tmp_path_factory.mktemp("roads")
    side = {"right": -2.0, "left": 1.5, "side": 0.4}
    rough = {"density": 1e-3, "length": 20.0, "longest": 15.0, "width": 9.0, "begin": 1.0, "transition": 4.0}
    return {
        "flat": make_road({}),
        "slope": make_road({"surface": {"kind": "slope", "grade_percent": 12.0, "bank_percent": -5.0}}),
        "hill": make_road(
            {
                "surface": {
                    "kind": "slope",
                    "grade_percent": -12.0,
                    "bank_percent": 4.0,
                    "begin": 2.0,
                    "end": 8.0,
                    "transition": 3.0,
                }
            }
        ),
        "grid": grid_road(folder, rng.normal(size=(25, 33))),
        "curved": curved_road(folder),
        "rough": make_road({"roughness": rough}),
        "cosine": make_road({"bumps": [{"x": 2.0, "length": 8.0, "height": 0.3, **side}]}),
        "half_sine": make_road({"bumps": [{"shape": "half_sine", "x": -1.0, "length": 14.0, "height": -0.3, **side}]}),
        "trapezoid": make_road(
            {
                "bumps": [
                    {"shape": "trapezoid", "x": 2.0, "length": 8.0, "height": 0.3, "ramp": 2.5, "rounding": 0.5, **side}
                ]
            }
        ),
        "all": make_road(
            {
                "surface": {"kind": "slope", "grade_percent": 5.0},
                "roughness": rough,
                "bumps": [{"x": 3.0, "length": 4.0, "height": 0.1}, {"x": 5.0, "length": 4.0, "height": 0.1}],
                "patches": [{"factor": 0.5, "left": 0.0}],
            }
        ),
    }


KINDS = ["flat", "slope", "hill", "grid", "curved", "rough", "cosine", "half_sine", "trapezoid", "all"]


@pytest.mark.parametrize("kind", KINDS)
def test_slope_is_the_derivative_of_the_height(roads: dict[str, np.ndarray], kind: str) -> None:
    road, h = roads[kind], 1e-5

    @settings(max_examples=few(150), deadline=None)
    @given(place=PLACES)
    def check(place: tuple[float, float]) -> None:
        x, y = place
        _, zx, zy, _ = surface(road, x, y)
        by_x = (surface(road, x + h, y)[0] - surface(road, x - h, y)[0]) / (2 * h)
        by_y = (surface(road, x, y + h)[0] - surface(road, x, y - h)[0]) / (2 * h)
        # curvature jumps at cell edges, hence an error of h times that
        assert abs(zx - by_x) < 2e-3 and abs(zy - by_y) < 2e-3

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_slope_is_exact_inside_cells(roads: dict[str, np.ndarray], kind: str) -> None:
    """At places far from any cell edge the central difference has an error of second order only."""
    road, rng = roads[kind], np.random.default_rng(3)
    errors = []
    for x, y in zip(rng.uniform(0.5, 11.5, 400), rng.uniform(-3.5, 3.5, 400), strict=True):
        _, zx, zy, _ = surface(road, x, y)
        h = 1e-4
        errors.append(abs(zx - (surface(road, x + h, y)[0] - surface(road, x - h, y)[0]) / (2 * h)))
        errors.append(abs(zy - (surface(road, x, y + h)[0] - surface(road, x, y - h)[0]) / (2 * h)))
    assert np.median(errors) < 2e-6


@pytest.mark.parametrize("kind", KINDS)
def test_height_and_slope_are_continuous(roads: dict[str, np.ndarray], kind: str) -> None:
    """Neighbours 1e-9 m apart along lines that cross every cell edge."""
    road, e = roads[kind], 1e-9
    for t in np.concatenate((np.arange(1.0, 11.0, 0.25), np.linspace(1.0, 11.0, 60))):
        for place in ((t, 0.3), (t, -1.0), (6.1, (t - 6.0) * 0.6), (t, (t - 6.0) * 0.5)):
            a, b = surface(road, place[0] - e, place[1] - e), surface(road, place[0] + e, place[1] + e)
            assert abs(a[0] - b[0]) < 1e-7
            assert abs(a[1] - b[1]) < 1e-5 and abs(a[2] - b[2]) < 1e-5


@settings(max_examples=few(60), deadline=None)
@given(
    slopes=st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.floats(-5, 5)),
    place=st.tuples(st.floats(0, 4), st.floats(-1, 1)),
)
def test_a_plane_stays_that_plane_to_the_edge(tmp_path_factory, slopes, place) -> None:
    a, b, c = slopes
    x, y = np.meshgrid(np.arange(0, 4.1, 0.5), np.arange(-1, 1.1, 0.25), indexing="ij")
    road = grid_road(tmp_path_factory.getbasetemp(), a * x + b * y + c, origin=(0.0, -1.0))
    z, zx, zy, mu = surface(road, *place)
    assert z == pytest.approx(a * place[0] + b * place[1] + c, abs=1e-12)
    assert (zx, zy) == (pytest.approx(a, abs=1e-11), pytest.approx(b, abs=1e-11)) and mu == 1.0


def test_a_grid_passes_through_its_nodes(tmp_path: Path) -> None:
    heights = np.random.default_rng(1).normal(size=(9, 17))
    road = grid_road(tmp_path, heights, lift=0.25, scale=2.0)
    for i in range(9):
        for j in range(17):
            assert surface(road, 0.5 * i, -4.0 + 0.25 * j)[0] == pytest.approx(2.0 * heights[i, j] + 0.25, abs=1e-12)


def test_outside_the_edge_is_carried_on_level(roads: dict[str, np.ndarray]) -> None:
    road = roads["grid"]
    for y in (-3.3, 0.1, 2.2):
        inside, beyond = surface(road, 12.0, y), surface(road, 50.0, y)
        assert beyond[0] == inside[0] and beyond[1] == 0.0 and beyond[2] == inside[2]
        assert surface(road, -1e9, y)[0] == surface(road, 0.0, y)[0]
    corner = surface(road, 1e6, -1e6)
    assert corner[:3] == (surface(road, 12.0, -4.0)[0], 0.0, 0.0)
    assert not outside(road, 12.0, 4.0) and outside(road, 12.1, 0.0) and outside(road, 5.0, -4.1)
    assert not outside(roads["rough"], 1e5, 0.0) and outside(roads["rough"], 5.0, 4.6)
    assert not outside(roads["slope"], 1e9, 1e9)


def test_any_finite_place_has_a_finite_answer(roads: dict[str, np.ndarray]) -> None:
    far = st.floats(allow_nan=False, allow_infinity=False)

    @settings(max_examples=few(300), deadline=None)
    @given(kind=st.sampled_from(KINDS), x=far, y=far)
    def check(kind: str, x: float, y: float) -> None:
        assert all(isfinite(value) for value in surface(roads[kind], x, y))
        outside(roads[kind], x, y)

    check()
    for kind in KINDS:  # nor does anything else crash
        surface(roads[kind], np.nan, np.inf)
        outside(roads[kind], -np.inf, np.nan)


def test_a_slope_from_a_place_on() -> None:
    keys = {"kind": "slope", "grade_percent": 10.0, "begin": 20.0, "transition": 10.0}
    road = make_road({"surface": keys})
    assert surface(road, 20.0, 3.0)[:3] == (0.0, 0.0, 0.0)
    assert surface(road, 25.0, 0.0)[1] == pytest.approx(0.05)
    assert surface(road, 130.0, 0.0)[:2] == (pytest.approx(0.1 * 105.0), pytest.approx(0.1))
    over = make_road({"surface": {**keys, "end": 60.0}})
    assert surface(over, 500.0, 0.0)[:2] == (pytest.approx(4.0), pytest.approx(0.0))
    whole = make_road({"surface": {"kind": "slope", "grade_percent": 10.0, "bank_percent": 2.0}})
    assert surface(whole, -30.0, 5.0)[:3] == (pytest.approx(-2.9), pytest.approx(0.1), pytest.approx(0.02))


def by_formula(shape: str) -> Callable[[float], float]:
    def trapezoid(d: float) -> float:
        return min(1.0, d / 0.5, (2.0 - d) / 0.5)

    return {
        "cosine": lambda d: 0.5 * (1.0 - cos(2.0 * pi * d / 2.0)),
        "half_sine": lambda d: sin(pi * d / 2.0),
        "trapezoid": trapezoid,
    }[shape]


@pytest.mark.parametrize("shape", ["cosine", "half_sine", "trapezoid"])
def test_bumps_have_their_shape(shape: str) -> None:
    ramp = {"ramp": 0.5, "rounding": 0.0} if shape == "trapezoid" else {}
    road = make_road({"bumps": [{"shape": shape, "x": 10.0, "length": 2.0, "height": 0.08, "left": 0.0, **ramp}]})
    for d in np.linspace(0.0, 2.0, 41):
        assert surface(road, 10.0 + d, -1.0)[0] == pytest.approx(0.08 * by_formula(shape)(d), abs=1e-12)
        assert surface(road, 10.0 + d, 0.01)[:3] == (0.0, 0.0, 0.0)
    assert surface(road, 9.99, -1.0)[0] == surface(road, 12.01, -1.0)[0] == 0.0


def test_rounding_takes_corners_off_a_trapezoid_and_nothing_else() -> None:
    bump = {"shape": "trapezoid", "x": 0.0, "length": 2.0, "height": 1.0, "ramp": 0.5}
    sharp, round_ = (make_road({"bumps": [{**bump, "rounding": r}]}) for r in (0.0, 0.1))
    assert surface(round_, 1.0, 0.0)[:2] == (1.0, 0.0)
    assert surface(round_, 0.25, 0.0)[0] == pytest.approx(surface(sharp, 0.25, 0.0)[0])
    differences = [abs(surface(round_, x, 0.0)[0] - surface(sharp, x, 0.0)[0]) for x in np.linspace(0, 2, 401)]
    assert 0.01 < max(differences) < 0.11


def test_patches_are_painted_in_their_order() -> None:
    patches = [
        {"factor": 0.2, "begin": 30.0, "end": 130.0, "right": 0.0},
        {"factor": 0.7, "begin": 100.0},
        {"factor": 1.5, "outline": [[0.0, -1.0, 1.0], [10.0, 3.0, 5.0]]},
    ]
    road = make_road({"friction": 0.9, "patches": patches})

    def mu(x: float, y: float) -> float:
        return float(surface(road, x, y)[3])

    assert mu(50.0, 1.0) == 0.2 and mu(50.0, 0.0) == 0.2 and mu(50.0, -1e-9) == 0.9  # split at a line
    assert mu(29.99, 1.0) == 0.9 and mu(110.0, 1.0) == 0.7 and mu(1e9, -5.0) == 0.7
    assert mu(5.0, 2.0) == 1.5 and mu(5.0, 0.9) == 0.9 and mu(5.0, 3.1) == 0.9  # between its stations
    assert surface(road, 50.0, 1.0)[:3] == (0.0, 0.0, 0.0)


def test_edges_of_patches_are_sharp_or_smooth_over_their_width() -> None:
    road = make_road({"patches": [{"factor": 0.2, "right": 0.0, "edge": 0.4}]})
    values = [surface(road, 3.0, y)[3] for y in (-0.21, -0.1, 0.0, 0.1, 0.21)]
    assert values[0] == 1.0 and values[2] == pytest.approx(0.6) and values[4] == pytest.approx(0.2)
    assert values == sorted(values, reverse=True) and len(set(values)) == 5


def test_layers_add_up(roads: dict[str, np.ndarray]) -> None:
    rough = {"density": 1e-3, "length": 20.0, "longest": 15.0, "width": 9.0, "begin": 1.0, "transition": 4.0}
    bumps = [{"x": 3.0, "length": 4.0, "height": 0.1}, {"x": 5.0, "length": 4.0, "height": 0.1}]
    slope = {"surface": {"kind": "slope", "grade_percent": 5.0}}
    parts = [make_road(slope), make_road({"roughness": rough}), make_road({"bumps": bumps})]
    for x, y in ((4.0, 0.3), (6.2, -2.0), (8.0, 3.0)):
        total = surface(roads["all"], x, y)
        sums = np.sum([surface(part, x, y)[:3] for part in parts], axis=0)
        assert total[:3] == pytest.approx(sums, abs=1e-12)


def test_describe_tells_every_layer(roads: dict[str, np.ndarray]) -> None:
    everything = describe(roads["all"])
    assert [layer["kind"] for layer in everything["layers"]] == ["slope", "roughness", "bump", "bump"]
    assert everything["patches"][0]["factor"] == 0.5 and everything["numbers"] == len(roads["all"])
    grid = describe(roads["grid"])["layers"][0]
    assert grid["x"] == [0.0, 12.0] and grid["y"] == [-4.0, 4.0] and grid["nodes"] == [25, 33]
    curved = describe(roads["curved"])["layers"][0]
    assert curved["length"] == 15.0 and not curved["straight"] and curved["v"] == [-4.2, 4.4]
