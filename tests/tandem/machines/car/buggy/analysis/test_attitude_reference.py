"""Standing, leaning, diving with exact geometry: balances of the whole car, energy, and linear theory in the small."""

import math
from typing import Any

import numpy as np
import pytest

from tandem.machines.car.buggy.analysis.attitude import Attitude, attitude
from tandem.machines.car.buggy.analysis.car import GRAVITY, Tyre, build, lumps, standing, suspensions
from tandem.machines.car.buggy.analysis.corner import corner
from tandem.machines.car.buggy.analysis.geometry import HardpointError
from tandem.machines.car.buggy.analysis.steady import lean
from tandem.machines.car.buggy.analysis.suspension import at_travel
from tandem.multibody.rotations import about_axis as turn
from tests.tandem.machines.car.buggy.analysis.figures import BUGGY

WEIGHT = 790.0 * GRAVITY
TYRE = Tyre(cornering=lambda load: 13.0 * load, stiffness=165e3)
REST = attitude(BUGGY)
PAIR = suspensions(BUGGY)


def swapped(state: Attitude, name: str) -> list[float]:
    fl, fr, rl, rr = getattr(state, name)
    return [fr, fl, rr, rl]


def leaning(pitch: float, roll: float) -> np.ndarray:
    return turn(np.array([0.0, 1.0, 0.0]), pitch) @ turn(np.array([1.0, 0.0, 0.0]), roll)


def energy(rise: float, pitch: float, roll: float, travel: Any) -> float:
    """Potential energy of the car in any position, from positions alone."""
    turned = leaning(pitch, roll)
    up = np.array([0.0, 0.0, 1.0])
    masses, tyre = BUGGY["masses"], BUGGY["tyre"]
    total = masses["sprung"] * GRAVITY * (rise + (turned @ masses["sprung_cg"])[2])
    for i in range(4):
        name = ("front", "rear")[i // 2]
        mirror = np.array([1.0, (1.0, -1.0)[i % 2], 1.0])
        at = at_travel(PAIR[i // 2], travel[i])
        spring = BUGGY["spring_damper"][name]
        total += 0.5 * spring["k"] * (math.dist(at.points["SPL"], at.points["SPU"]) - spring["free_length"]) ** 2
        centre = rise + (turned @ (mirror * at.points["WC"]))[2]
        hung = rise + (turned @ (mirror * PAIR[i // 2].points["WC"]))[2]
        for mass, share in lumps(BUGGY[f"corner_bodies_{name}"]):
            total += mass * GRAVITY * (share * centre + (1.0 - share) * hung)
        lean_of_wheel = float((turned @ (mirror * at.axle)) @ up)
        radius = centre / math.sqrt(1.0 - lean_of_wheel**2)
        total += 0.5 * tyre["vertical_stiffness"] * (tyre["free_radius"] - radius) ** 2
    return float(total)


def test_at_rest_the_energy_is_least() -> None:
    place = np.array([REST.rise, REST.pitch, REST.roll, *REST.travel])
    h = 1e-4
    least = energy(*place[:3], place[3:])
    for j in range(7):
        step = h * np.eye(7)[j]
        ahead, behind = (energy(*p[:3], p[3:]) for p in (place + step, place - step))
        # force (or moment) against thousands of newtons of weight
        assert (ahead - behind) / (2 * h) == pytest.approx(0.0, abs=0.05), j
        assert ahead + behind > 2 * least


def test_at_rest_the_car_stands_as_its_springs_and_tyres_have_it() -> None:
    assert sum(REST.load) == pytest.approx(WEIGHT, rel=1e-10)
    assert REST.roll == pytest.approx(0.0, abs=1e-12)
    for stand, travel, load in zip(standing(BUGGY), REST.travel[::2], REST.load[::2], strict=True):
        assert travel == pytest.approx(stand.travel, abs=5e-5)
        assert load == pytest.approx(stand.load, rel=5e-4)


def test_leaning_little_is_linear_theory() -> None:
    small = attitude(BUGGY, 0.05)
    theory = lean(build(BUGGY, TYRE, TYRE, settled=True), 0.05)
    assert small.roll == pytest.approx(theory.roll, rel=0.01)
    for i, transfer in enumerate(theory.transfer):
        assert 0.5 * (small.load[2 * i + 1] - small.load[2 * i]) == pytest.approx(transfer, rel=0.005)
    # wheels lean with the body, less what their camber gain takes
    for i, axle in enumerate(build(BUGGY, TYRE, TYRE, settled=True).axles):
        leaning = theory.roll + axle.roll_camber * theory.suspension_roll[i]
        assert small.camber[2 * i + 1] - REST.camber[2 * i + 1] == pytest.approx(leaning, rel=0.02)
        assert small.camber[2 * i] - REST.camber[2 * i] == pytest.approx(-leaning, rel=0.02)


@pytest.mark.parametrize("a_y", [2.0, 5.0])
def test_left_and_right_turns_are_mirror_images_and_balance(a_y: float) -> None:
    left, right = attitude(BUGGY, a_y), attitude(BUGGY, -a_y)
    assert right.roll == pytest.approx(-left.roll, abs=1e-11)
    assert right.load == pytest.approx(swapped(left, "load"), rel=1e-8)
    assert right.camber == pytest.approx(swapped(left, "camber"), abs=1e-10)
    assert sum(left.load) == pytest.approx(WEIGHT, rel=1e-10)
    # moments about the road's line below the drawing's middle: weight and −m a of every mass against the loads
    turned = leaning(left.pitch, left.roll)
    masses = [(BUGGY["masses"]["sprung"], np.array(BUGGY["masses"]["sprung_cg"]))]
    for i in range(4):
        mirror = np.array([1.0, (1.0, -1.0)[i % 2], 1.0])
        centre = at_travel(PAIR[i // 2], left.travel[i]).points["WC"]
        for mass, share in lumps(BUGGY[f"corner_bodies_{('front', 'rear')[i // 2]}"]):
            masses += [(mass * share, mirror * centre), (mass * (1 - share), mirror * PAIR[i // 2].points["WC"])]
    moment = sum(y * load for y, load in zip(left.contact_y, left.load, strict=True))
    for mass, point in masses:
        _, y, z = turned @ point + (0.0, 0.0, left.rise)
        moment += mass * (a_y * z - GRAVITY * y)
    assert moment == pytest.approx(0.0, abs=1e-6 * WEIGHT)


def test_braking_moves_load_forward_and_the_links_take_their_part_of_the_dive() -> None:
    small = attitude(BUGGY, 0.0, -0.1)
    car = build(BUGGY, TYRE, TYRE, settled=True)
    moved = car.mass * 0.1 * car.cg_height / car.wheelbase
    # a little more than m a h / L, for the nose goes down and the centre of gravity forward
    assert moved < small.load[0] + small.load[1] - 2 * REST.load[0] < 1.03 * moved
    # each spring answers for the load its wheel gains and for what the brake force does along the wheel's path
    for i, part in enumerate((11.0 / 17.5, 6.5 / 17.5)):
        gained = small.load[2 * i] - REST.load[2 * i]
        at = corner(PAIR[i], REST.travel[2 * i], radius=car.axles[i].radius)
        force = gained - 0.5 * part * car.mass * 0.1 * math.tan(at.brake_path + REST.pitch)
        force += sum(m * share for m, share in car.axles[i].unsprung) * 0.1 * math.tan(at.drive_path + REST.pitch)
        # a wheel that leans as it rises stands a little lower than it would upright: its load softens the spring
        stiffness = car.axles[i].stiffness - REST.load[2 * i] * car.axles[i].radius * at.camber_gain**2
        assert small.travel[2 * i] - REST.travel[2 * i] == pytest.approx(force / stiffness, rel=0.005)
    assert small.pitch > REST.pitch


def test_driving_squats_along_the_path_of_the_wheel_centre() -> None:
    small = attitude(BUGGY, 0.0, 0.1)
    car = build(BUGGY, TYRE, TYRE, settled=True)
    gained = [small.load[k] - REST.load[k] for k in (0, 2)]
    path = corner(PAIR[1], REST.travel[2], radius=car.rear.radius).drive_path
    moving = sum(m * share for m, share in car.rear.unsprung)
    force = gained[1] + (0.5 * car.mass - moving) * 0.1 * math.tan(path + REST.pitch)
    assert small.travel[2] - REST.travel[2] == pytest.approx(force / car.rear.stiffness, rel=0.005)
    assert small.travel[0] - REST.travel[0] == pytest.approx(gained[0] / car.front.stiffness, rel=0.005)


def test_a_wheel_off_the_road_is_named_and_a_car_that_jacks_itself_up_refused() -> None:
    hard = {}
    for name, stand in zip(("front", "rear"), standing(BUGGY), strict=True):
        spring = BUGGY["spring_damper"][name]
        length = spring["free_length"] - stand.spring_force / spring["k"]
        hard[name] = {"k": 8.0 * spring["k"], "free_length": length + stand.spring_force / (8.0 * spring["k"])}
    with pytest.raises(HardpointError, match="left off the road"):
        attitude({**BUGGY, "spring_damper": hard}, 14.5)
    with pytest.raises(HardpointError, match="finds no rest"):
        attitude(BUGGY, 12.0)
