"""Kerbs: what lifts the car slows it down, whatever the time step; the whole grid is `python -m verify kerbs`."""

import math
from pathlib import Path

import numpy as np
import pytest

from tandem.machines.car.tyres.enveloping import SAMPLES, envelope
from tandem.multibody.ground import make_road, surface
from tandem.multibody.ground.layout import Head
from tandem.multibody.ground.sharpness import TooSharp
from tests.tandem.machines.car.buggy.conftest import Car, G
from verify.physics.kerbs import (
    FRONT_LOAD,
    HEIGHT,
    LOW,
    MOST_CREATED,
    MOST_HARDER,
    MOST_JUMP,
    MOST_OFF,
    MOST_SPREAD,
    RAMP,
    Coasting,
    climbed,
    kerb_file,
    over,
    pushed_up,
    rigid_slope,
    slowly_up,
    tandem_slope,
)

R, K = 0.2891, 165e3


def kerb(height: float, ramp: float) -> np.ndarray:
    bump = {"shape": "trapezoid", "x": 2.0, "length": 50.0, "height": height, "ramp": ramp, "rounding": 0.25 * ramp}
    return make_road({"bumps": [bump]})


def test_a_kerb_gives_no_energy_and_its_loads_do_not_depend_on_the_time_step() -> None:
    runs = [over(0.05, 5.0, h) for h in (5e-3, 1e-3)]
    for gained, _, capped, _ in runs:
        assert gained < 1.0 and capped == 0
    assert max(r[1] for r in runs) / min(r[1] for r in runs) < MOST_SPREAD
    # lifted by 5 cm at the cost of speed; dampers take some more
    lost = 0.5 * 790.0 * (5.0**2 - runs[1][3] ** 2)
    assert lost > 790.0 * G * HEIGHT


def test_without_dampers_the_energy_of_a_car_on_a_kerb_stays() -> None:
    dampers = {f"{axle}_damper_{way}": 0.0 for axle in ("front", "rear") for way in ("bump", "rebound")}
    car = Coasting.slippery(HEIGHT, 0.1, 3.0, {"VERTICAL_DAMPING": 0.0}, **dampers)
    car.step(1e-3)
    before = car.energy()
    for _ in range(1500):
        car.step(1e-3)
    assert car["x"] > 3.0 and car["vx"] < 3.0
    assert car.energy() == pytest.approx(before, abs=0.01 * 790.0 * G * HEIGHT)


@pytest.mark.parametrize(("height", "ramp"), [(0.05, 0.05), (0.05, 0.2), (0.05, 0.02), (1.0, 0.02)])
def test_the_force_of_an_enveloping_tyre_is_the_gradient_of_its_energy(height: float, ramp: float) -> None:
    """On ramps that are resolved by the points of the outline and by the finer ones, and in a wall."""
    road = kerb(height, ramp)
    for x, z in ((1.85, 0.29), (1.93, 0.30), (2.0, 0.31), (2.03, 0.33), (1.0, 0.275)):

        def energy(dx: float, dz: float, x: float = x, z: float = z) -> float:
            return 0.5 * K * envelope(road, R, K, x + dx, 0.0, z + dz, 0.0, 1.0, 0.0)[0] ** 2

        e = 1e-6
        _, fx, _, fz = envelope(road, R, K, x, 0.0, z, 0.0, 1.0, 0.0)[:4]
        assert fx == pytest.approx(-(energy(e, 0.0) - energy(-e, 0.0)) / (2 * e), rel=1e-4, abs=1.0)
        assert fz == pytest.approx(-(energy(0.0, e) - energy(0.0, -e)) / (2 * e), rel=1e-4, abs=1.0)


@pytest.mark.parametrize("camber", [0.0, 0.4, 0.9, 1.3, 1.5])
def test_its_moment_is_the_gradient_of_the_same_energy(camber: float) -> None:
    """Of a wheel that stands, leans and lies, at the edge of a kerb and beside the side of a ramp."""
    ramp = make_road({"bumps": [{"shape": "cosine", "x": 0.0, "length": 4.0, "height": 0.3, "right": 0.0}]})
    for road, x, y in ((kerb(0.05, 0.05), 1.93, 0.0), (ramp, 1.5, 0.04)):
        axle = np.array([0.3, math.cos(camber), math.sin(camber)])
        axle /= np.linalg.norm(axle)
        z = surface(road, x, y)[0]
        while envelope(road, R, K, x, y, z, *axle)[0] > 0.2 * R:
            z += 0.01
        _, _, _, fz, mx, my, mz, _ = envelope(road, R, K, x, y, z, *axle)
        e, found = 1e-6, np.array([mx, my, mz])
        for i in range(3):
            energies = []
            for step in (e, -e):
                rotated = axle + step * np.cross(np.eye(3)[i], axle)
                rotated /= np.linalg.norm(rotated)
                energies.append(0.5 * K * envelope(road, R, K, x, y, z, *rotated)[0] ** 2)
            assert found[i] == pytest.approx((energies[1] - energies[0]) / (2 * e), rel=1e-3, abs=1.0 + 1e-4 * fz * R)


@pytest.mark.parametrize("deflection", [0.003, 0.01, 0.02, 0.05])
def test_on_a_plane_it_is_the_spring_of_the_file(deflection: float) -> None:
    _, fx, fy, fz = envelope(kerb(0.05, 0.05), R, K, 0.5, 0.0, R - deflection, 0.0, 1.0, 0.0)[:4]
    assert fz == pytest.approx(K * deflection, rel=5e-3 if deflection < 0.01 else 1e-3)
    assert fx == fy == 0.0


@pytest.mark.parametrize("height", [0.02, 0.05, 0.11])
def test_an_edge_takes_what_tandem_cams_take_and_more_where_the_wheel_is_lifted(height: float, tmp_path: Path) -> None:
    """Pushed slowly up, without jumps of the force; all heights are `python -m verify kerbs`."""
    load, tyre = FRONT_LOAD, {"UNLOADED_RADIUS": R, "VERTICAL_STIFFNESS": K}
    forces = slowly_up(make_road(kerb_file(tmp_path, height, RAMP, "bump")), tyre, load)
    cams, rigid = load * tandem_slope(R, height), load * rigid_slope(R - load / K, height)
    assert np.abs(np.diff(forces)).max() < MOST_JUMP * forces.max()
    if height <= LOW:
        assert forces.max() == pytest.approx(cams, rel=MOST_OFF)
    else:
        assert 1.1 * cams < forces.max() < 0.9 * rigid


@pytest.mark.parametrize(
    ("height", "ramp", "rounding"), [(0.005, 0.005, 0.001), (0.01, 0.021, 0.001), (0.02, 0.02, 0.005)]
)
def test_an_edge_that_is_low_or_has_sharp_corners_is_passed_evenly(height: float, ramp: float, rounding: float) -> None:
    bump = {"shape": "trapezoid", "x": 2.0, "length": 50.0, "height": height, "ramp": ramp, "rounding": rounding}
    forces = slowly_up(make_road({"bumps": [bump]}), {"UNLOADED_RADIUS": R, "VERTICAL_STIFFNESS": K}, FRONT_LOAD)
    assert np.abs(np.diff(forces)).max() < MOST_JUMP * forces.max()


def test_at_an_edge_the_force_points_away_from_it() -> None:
    """The wheel hangs at the edge alone, 40 degrees beside it."""
    road, angle = kerb(0.16, RAMP), math.radians(40.0)
    for depth in (0.01, 0.02, 0.03):
        way = R - depth
        _, fx, _, fz = envelope(
            road, R, K, 2.01 - way * math.sin(angle), 0.0, 0.16 + way * math.cos(angle), 0.0, 1.0, 0.0
        )[:4]
        assert math.degrees(math.atan2(-fx, fz)) == pytest.approx(40.0, abs=3.0)
        assert 0.2 < math.hypot(fx, fz) / (K * depth) < 0.5


def test_deeper_than_its_radius_the_spring_goes_on_linearly() -> None:
    """A wheel that was run into a wall must be pushed out, not shot out."""
    forces = [envelope(kerb(0.05, 0.05), R, K, 0.5, 0.0, R - x * R, 0.0, 1.0, 0.0)[3] / (K * x * R) for x in (1, 2, 4)]
    assert min(forces) > 0.7 and max(forces) < 0.9


def test_what_pushes_a_car_up_does_not_depend_on_the_time_step() -> None:
    pushes = [pushed_up(0.13, 0.02, h) for h in (5e-3, 2.5e-3)]
    assert max(pushes) / min(pushes) < MOST_HARDER


def test_against_a_disc_in_many_more_points() -> None:
    """The same integral over a fine profile fixed to the road, its forces radial: another way to the same force."""
    road = kerb(0.05, 0.1)
    xs = np.linspace(1.5, 2.5, 20001)
    zs = np.array([surface(road, x, 0.0)[0] for x in xs])
    cx, cz = 1.95, 0.30
    rho = np.hypot(xs - cx, cz - zs)
    p = np.maximum(R - rho, 0.0)
    ds = xs[1] - xs[0]
    g = 3.0 * p**2 * ds
    # moving the disc over fixed points: each pushes along its radius
    fx, fz = float((g * (cx - xs) / rho).sum()), float((g * (cz - zs) / rho).sum())
    _, ex, _, ez = envelope(road, R, K, cx, 0.0, cz, 0.0, 1.0, 0.0)[:4]
    assert ex / ez == pytest.approx(fx / fz, abs=0.02)
    assert SAMPLES * 0.02 > 2.0 * R  # finer than the shortest ramp of the check


def test_a_tall_step_is_not_climbed_at_walking_pace() -> None:
    farthest, capped = climbed(1.4, 5e-3)
    assert farthest < 0.0 and capped == 0


def test_smooth_roads_keep_their_one_point_of_contact(tmp_path: Path) -> None:
    assert make_road({})[Head.SHARP] == 0.0
    assert make_road({"surface": {"kind": "slope", "grade_percent": 10.0}})[Head.SHARP] == 0.0
    assert kerb(0.05, 0.2)[Head.SHARP] == 1.0
    heights = np.zeros((40, 3))
    heights[20:] = 0.05
    np.save(tmp_path / "step.npy", heights)
    file = tmp_path / "step.toml"
    file.write_text('[surface]\nkind = "grid"\nfile = "step.npy"\norigin = [0.0, -5.0]\nspacing = [0.05, 5.0]\n')
    assert make_road(file)[Head.SHARP] == 1.0


def test_a_kerb_along_the_road_is_as_sharp_as_one_across(tmp_path: Path) -> None:
    """5 cm within 10 or 20 cm at the side: as a bump and as heights on a grid."""
    for side in (0.1, 0.2):
        bump = {"shape": "cosine", "x": 0.0, "length": 50.0, "height": 0.05, "right": 0.0, "side": side}
        assert make_road({"bumps": [bump]})[Head.SHARP] == 1.0
    assert make_road({"bumps": [bump | {"side": 1.0}]})[Head.SHARP] == 0.0
    heights = np.zeros((3, 40))
    heights[:, 20:] = 0.05
    np.save(tmp_path / "kerb.npy", heights)
    file = tmp_path / "kerb.toml"
    file.write_text('[surface]\nkind = "grid"\nfile = "kerb.npy"\norigin = [-5.0, -2.0]\nspacing = [5.0, 0.1]\n')
    assert make_road(file)[Head.SHARP] == 1.0


def test_layers_on_top_of_each_other_are_as_sharp_as_their_sum() -> None:
    bump = {"shape": "cosine", "x": 0.0, "length": 1.0, "height": 0.03}  # bends by 0.59/m
    assert make_road({"bumps": [bump]})[Head.SHARP] == 0.0
    assert make_road({"bumps": [bump, bump]})[Head.SHARP] == 1.0
    assert make_road({"bumps": [bump, bump | {"x": 1.0}, bump | {"x": 2.0}]})[Head.SHARP] == 0.0


def test_a_kerb_that_is_crossed_sideways_of_its_road_is_the_same_kerb() -> None:
    """The data of an OpenCRG file lie across the way of the car."""
    along, across = (over(0.1, 5.0, 5e-3, kind=kind) for kind in ("crg", "crg_across"))
    assert across[0] < MOST_CREATED and across[2] == 0
    assert across[1] == pytest.approx(along[1], rel=0.02) and across[3] == pytest.approx(along[3], abs=0.01)


def test_a_road_that_is_too_sharp_is_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "wall.toml"
    file.write_text('[[bumps]]\nshape = "trapezoid"\nx = 5\nlength = 9\nheight = 0.2\nramp = 0.01\nrounding = 0.0025\n')
    for _ in range(2):  # each time it is made
        with pytest.warns(
            TooSharp, match=r"wall.toml: \[\[bumps\]\]\[0\].ramp = 0.01: climbs by 26.7 m per m at its steepest"
        ):
            Car(road=file)
