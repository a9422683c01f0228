"""A car that rolls over lies there, finite, and says so; many more are `python -m verify roll-overs`."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sim_service.registry import gather
from tandem.machines.car.buggy import forces, slots
from tandem.machines.car.buggy.build import assemble
from tandem.machines.car.buggy.description import P, W
from tandem.machines.car.buggy.forces import depth_inside, point_load
from tandem.multibody.ground import make_road, surface
from tandem.multibody.natural.tables import P as Part
from tests.tandem.machines.car.buggy.conftest import VEHICLE, Car, G, assembled
from verify.physics.roll_overs import MOST_CREATED, NAMED, WALLS, Case, random_case, random_impact, run, run_impact


@pytest.mark.parametrize(("torque", "seconds"), [(8e3, 0.5), (-7e3, 0.7)])
def test_a_car_pushed_over_lies_on_its_side_or_roof(torque: float, seconds: float) -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = torque
    car.drive(seconds)
    car.params[P.push_roll] = 0.0
    rows = car.drive(6.0, ("z", "roll", "body_load", "vx", "vy", "vz"))
    assert np.isfinite(car.state).all() and np.isfinite(rows).all()
    z, roll, load = rows[-1, :3]
    assert abs(roll) > 0.7 and z > 0.1  # lies, and not in the ground
    assert load > 500.0 and car["overturned"] > 0.0  # reported
    assert np.abs(rows[-1, 3:]).max() < 1e-3  # at rest
    assert load + car.each("load").sum() == pytest.approx(790.0 * G, rel=1e-3)


def test_a_car_pushed_for_long_stays_finite_and_above_ground() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = 6e3
    pushed = car.drive(1.5, ("body_load",))
    car.params[P.push_roll] = 0.0
    rows = car.drive(4.0, ("z", "roll", "body_load"))
    assert np.isfinite(car.state).all() and np.isfinite(rows).all()
    assert max(pushed.max(), rows[:, 2].max()) > 1e3 and rows[-1, 0] > 0.1


def test_upright_the_body_does_not_touch() -> None:
    car = Car()
    rows = car.drive(1.0, ("body_load", "overturned"), brake_pressure_bar=20.0)
    assert (rows == 0.0).all()


@pytest.mark.parametrize("case", [*NAMED, random_case(17, 12), random_case(17, 16)], ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore::tandem.multibody.ground.sharpness.TooSharp")
def test_a_roll_over_makes_no_energy_and_every_step_converges(case: Case, tmp_path: Path) -> None:
    """Pushed over at standstill for long and for short, on a wedge at 20 m/s, and two of the random ones."""
    result = run(case, tmp_path, {})
    assert result.finite and result.share <= MOST_CREATED
    assert result.capped == result.thrown_away == 0
    assert result.at_rest == result.lies


def test_an_impact_is_made_in_parts_until_its_work_is_right() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_roll] = 8e3
    rows = car.drive(0.8, ("parts", "energy_residual", "capped"))
    car.params[P.push_roll] = 0.0
    rows = np.vstack([rows, car.drive(3.0, ("parts", "energy_residual", "capped"))])
    parts = rows[:, 0]
    assert set(parts) <= {1.0, 4.0, 16.0} and 0 < (parts > 1.0).sum() < 0.05 * len(parts)
    assert np.abs(rows[:, 1]).max() < 100.0 and rows[:, 2].max() == 0.0


@pytest.mark.parametrize("speed", [1e200, 1e5])
def test_a_step_that_finds_no_end_leaves_the_car_at_rest_where_it_was(speed: float) -> None:
    """Whether it ends in NaN or in a finite place far away, what is stored and what is reported are the car's."""
    car = Car({"gear_mode": 0.0})
    car.drive(0.5, drive_torque=500.0, steering_angle=0.5)
    before = {name: car[name] for name in ("x", "y", "z", "yaw", "roll", "pitch", "load_fl", "load_rr", "rack")}
    q = assembled().system.span(Part.Q)
    places = car.state[q].copy()
    car.state[assembled().system.span(Part.QD)][4] = speed
    car.step()
    assert car["capped"] == 2.0
    assert np.isfinite(car.state).all() and np.isfinite(car.work[: len(car.names)]).all()
    assert np.array_equal(car.state[q], places)
    assert {name: car[name] for name in before} == before
    names = ("vx", "vy", "vz", "yaw_rate", "roll_rate", "wheel_speed_fl", "hand_wheel_speed", "energy_residual")
    assert [car[name] for name in names] == [0.0] * len(names)
    car.drive(1.0, drive_torque=0.0)
    assert car["capped"] == 0.0 and car["overturned"] == 0.0


def test_points_of_the_body_touch_wherever_the_centre_of_gravity_is() -> None:
    """On its roof, by 2 mm in the road, with a centre of gravity 20 cm lower than the shipped one."""
    sources = gather(VEHICLE)
    built = assemble(sources.toml(), sources, {"sprung_cg_z": 0.3, "gear_mode": 0.0})
    car = Car({"sprung_cg_z": 0.3, "gear_mode": 0.0})
    at = car.model.tables.ints[slots.NUMBERS] + slots.BODY
    points = car.model.tables.floats[at : at + 3 * forces.BODY_POINTS].reshape(-1, 3)
    q = car.state[built.system.span(Part.Q)]
    lowest = points[:, 2].max() - 2e-3
    for node in built.system.mechanism.nodes.values():
        if len(node.columns) == 3:
            _, y, z = node.columns
            q[y], q[z] = -q[y], lowest + car["z"] - q[z] if node.kind == "point" else -q[z]
    car.step(1e-4)
    assert abs(car["roll"]) > 3.0 and car["body_load"] > 500.0


def test_the_way_to_rest_counts_like_the_rest_of_a_roll_over(tmp_path: Path) -> None:
    class Fake:
        def __init__(self, capped: float, energy: float) -> None:
            self.inputs, self.params, self.n = np.zeros(9), np.zeros(len(P)), 0
            self.state, self.work = np.zeros(1), np.zeros(len(W))
            self.late = {"capped": capped, "energy": energy}

        def again(self, speed: float, across: float) -> None: ...

        def energy_at_start(self) -> float:
            return 1.0

        def energy(self, springs: bool = True) -> float:
            return 1.0 + self.late["energy"] * springs * (self.n > 900)

        def step(self, h: float) -> None:
            self.n += 1

        def __getitem__(self, name: str) -> float:
            if name == "capped":
                return self.late["capped"] * (self.n > 900)
            return {"overturned": 1.0, "vx": float(self.n < 1000)}.get(name, 0.0)

    still, thrown, hot = (run(Case("x"), tmp_path, {"": Fake(*late)}) for late in ((0.0, 0.0), (2.0, 0.0), (0.0, 1.0)))
    assert (still.thrown_away, still.share, still.at_rest, still.steps) == (0, 0.0, True, 1000)
    assert thrown.thrown_away == 100 and hot.share == 1.0


def test_the_force_on_a_point_of_the_body_is_the_gradient_of_an_energy_also_beside_a_wall() -> None:
    """Around a loop through the wall of a ramp a point that slides without friction or damping takes no work."""
    road = make_road({"bumps": [{"shape": "trapezoid", "x": 0.0, "length": 20.0, "height": 0.5, "ramp": 5.0,
                                 "rounding": 0.5, "right": 0.0}]})  # fmt: skip
    loop = [(9.0, -0.1, 0.45), (9.0, 0.2, 0.45), (9.0, 0.2, 0.3), (9.0, -0.1, 0.3), (9.0, -0.1, 0.45)]
    work = scale = 0.0
    for a, b in itertools.pairwise(loop):
        way = (np.array(b) - np.array(a)) / 1000
        for k in range(1000):
            x, y, z = np.array(a) + (k + 0.5) * way
            height, slope_x, slope_y, _ = surface(road, x, y)
            if height > z:
                depth, *gradient = depth_inside(road, x, y, z, height - z, slope_x, slope_y)
                piece = -point_load(depth)[0] * float(np.array(gradient) @ way)
                work, scale = work + piece, scale + abs(piece)
    assert scale > 1e3 and abs(work) < 1e-3 * scale


@pytest.mark.parametrize("slope", [0.1, 1.0, 10.0])
def test_a_point_in_a_ramp_is_as_deep_as_it_is_away_from_its_plane(slope: float) -> None:
    """Also in one so steep that there are decimetres of road above the point."""
    bump = {"shape": "trapezoid", "x": 0.0, "length": 9.0, "height": 0.4 * slope, "ramp": 0.4, "rounding": 1e-3}
    road = make_road({"bumps": [bump]})
    z, zx, zy, _ = surface(road, 0.2, 0.0)
    assert zx == pytest.approx(slope, rel=1e-2)
    depth, *gradient = depth_inside(road, 0.2, 0.0, z - 0.08 * slope, 0.08 * slope, zx, zy)
    n = np.array([slope, 0.0, -1.0]) / np.hypot(slope, 1.0)
    assert depth == pytest.approx(0.08 * slope / np.hypot(slope, 1.0), rel=0.01)
    assert gradient == pytest.approx(list(n), abs=0.015)


@pytest.mark.parametrize("case", [*WALLS, random_impact(17, 11)], ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore::tandem.multibody.ground.sharpness.TooSharp")
def test_a_body_that_runs_into_a_step_of_the_road_makes_no_energy_in_any_step(case: Case, tmp_path: Path) -> None:
    """At 30 m/s it comes 15 cm farther in a step, through the whole face; the third makes 218 J unless the energy of
    its contacts is looked at. More: `python -m verify impacts`."""
    result = run_impact(case, tmp_path)
    assert result.touched and result.in_parts > 0
    assert result.good, result


def test_the_suspension_holds_as_much_as_a_push_may_be() -> None:
    car = Car({"gear_mode": 0.0})
    car.params[P.push_z] = -20e3
    rows = car.drive(1.0, ("z", "spring_length_fl", "spring_length_rl", "load_fl"), brake_pressure_bar=30.0)
    assert np.isfinite(rows).all()
    assert rows[:, 1].min() > 0.2 and rows[:, 2].min() > 0.1


def test_a_stop_carries_sixty_kilonewtons_within_five_centimetres() -> None:
    from tandem.machines.car.buggy.law import _STOP_FREE, _STOP_HARD

    depth, rate = 0.05, 2e5
    more = depth - _STOP_FREE
    assert rate * (depth + (more / _STOP_HARD) ** 2 * more) > 60e3
