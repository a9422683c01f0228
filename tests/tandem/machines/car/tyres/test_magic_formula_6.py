"""MF 6.1 and 6.2 against their second implementation, and what holds of any tyre."""

import math

import numpy as np
import pytest

from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.steady import capacity_6, heights, steady_6
from tandem.machines.car.tyres.tir import tyre_vector
from tests.tandem.machines.car.tyres import published_6
from tests.tandem.machines.car.tyres.comparison_6 import tyre, worst, worst_height

VERSIONS = (61, 62)
MOST = 1e-9


@pytest.mark.parametrize("every", [False, True], ids=["as published", "every coefficient"])
@pytest.mark.parametrize("version", VERSIONS)
def test_both_implementations_agree(version: int, every: bool) -> None:
    tir = tyre(version, every)
    assert worst(tir, 2000, turning=False) < MOST
    assert worst(tir, 2000, turning=True) < MOST
    assert max(worst_height(tir, 1000)) < MOST


@pytest.mark.parametrize("version", VERSIONS)
def test_relaxation_is_slip_stiffness_over_that_of_the_carcass(version: int) -> None:
    tir = tyre(version)
    p = tyre_vector(tir)
    loads, pressures = np.array([4000.0, 6752.0, 9000.0]), np.array([2.2e5, 2.6e5, 3.5e5])
    by_slopes = published_6.relaxation(tir, loads, 0.0 * loads, pressures)
    for k, load in enumerate(loads):
        found = heights(p, load, 50.0, 0.0, 0.0, 0.0, pressures[k])[3:]
        assert found == pytest.approx([by_slopes[0][k], by_slopes[1][k]], rel=0.02)  # shifts move the slope a little


def test_a_tyre_without_carcass_stiffness_relaxes_as_mf_52() -> None:
    p = tyre_vector(tyre(61))
    p[[T.LONGITUDINAL_STIFFNESS, T.LATERAL_STIFFNESS]] = 0.0
    p[[T.PTX1, T.PTY1, T.PTY2]] = 1.4, 2.0, 2.0
    nominal = p[T.NOMINAL_LOAD]
    sx, sy = heights(p, nominal, 50.0, 0.0, 0.0, 0.0, 0.0)[3:]
    R0 = p[T.UNLOADED_RADIUS]
    assert sx == pytest.approx(1.4 * R0)
    assert sy == pytest.approx(2.0 * math.sin(2.0 * math.atan(0.5)) * R0)


def test_sides_of_the_car_are_mirror_images() -> None:
    p = tyre_vector(tyre(62, every=True))
    left = steady_6(p, 5000.0, 0.03, 0.06, 0.04, 1.0, 1.0, 20.0, True, 0.2, 2.4e5)
    right = steady_6(p, 5000.0, 0.03, -0.06, -0.04, 1.0, -1.0, 20.0, True, -0.2, 2.4e5)
    assert right == (left[0], -left[1], -left[2], left[3], -left[4])


def test_a_slippery_road_is_a_dry_one_at_a_smaller_scale() -> None:
    p = tyre_vector(tyre(61))
    dry = steady_6(p, 5000.0, 0.06, 0.09, 0.0, 1.0, 1.0, 20.0, False, 0.0, 0.0)
    wet = steady_6(p, 5000.0, 0.03, 0.045, 0.0, 0.5, 1.0, 20.0, False, 0.0, 0.0)
    assert wet[:2] == pytest.approx([0.5 * dry[0], 0.5 * dry[1]], rel=1e-12)


def test_pressure_changes_stiffness_and_stays_within_its_range() -> None:
    tir = tyre(62)
    p = tyre_vector(tir)
    soft, hard = (capacity_6(p, 6752.0, 0.0, 1.0, at) for at in (2.0e5, 4.0e5))
    assert soft != hard
    assert capacity_6(p, 6752.0, 0.0, 1.0, 9.9e5) == hard
    assert capacity_6(p, 6752.0, 0.0, 1.0, 0.0) == capacity_6(p, 6752.0, 0.0, 1.0, tir["INFLPRES"])


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_extreme_gives_a_number_that_is_none(version: int) -> None:
    p = tyre_vector(tyre(version, every=True))
    for load in (-1.0, 0.0, 1e-9, 1.0, 1e6, 1e300, math.inf):
        for slip in (-1e300, -1.0, 0.0, 1.0, math.inf):
            for lean in (-1.6, 0.0, 1.6):
                for at in (-1.0, 0.0, 1.0, 1e9):
                    found = steady_6(p, load, slip, -slip, lean, 1e-9, 1.0, slip, True, slip, at)
                    assert all(map(math.isfinite, found)), (load, slip, lean, at)
