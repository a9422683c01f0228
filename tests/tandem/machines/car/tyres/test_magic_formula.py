"""The Magic Formula against a second way to write it down (published.py), and against what any tyre must do."""

import math
from math import atan, cos, sin, tan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.machines.car.tyres.keys import SECTIONS, T
from tandem.machines.car.tyres.steady import capacity, effective_radius, steady, steady_turning
from tandem.machines.car.tyres.tir import parse_tir, read_tir, tyre_vector
from tests.examples import few
from tests.tandem.machines.car.tyres.comparison import (
    SETS,
    TURNING,
    coefficient_set,
    grid,
    over_the_grid,
    second,
    worst,
)
from tests.tandem.machines.car.tyres.published import published
from tests.tandem.machines.car.tyres.samples import FULL, LEAST, SHIPPED, written

FULL_TYRE = tyre_vector(parse_tir(written(FULL), "full"))
RIGHT_TYRE = tyre_vector(parse_tir(written(FULL, side="RIGHT"), "right"))
TYRE = tyre_vector(read_tir(SHIPPED))
LEAST_TYRE = tyre_vector(parse_tir(written(LEAST), "least"))
FAST = 20.0  # m/s of rolling


loads = st.floats(400.0, 8500.0)
slips = st.floats(-1.2, 1.2)
cambers = st.floats(-0.2, 0.2)
frictions = st.floats(0.1, 1.3)


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=few(60), deadline=None)
@given(loads, slips, slips, cambers, frictions, st.sampled_from([-60.0, -0.3, 0.2, 5.0, 60.0]))
def test_the_formula_written_twice_is_the_same(name, fz, kappa, ta, gamma, mu, u):
    p = SETS[name][0]
    fz = min(fz, p[T.HIGH_LOAD])
    *expected, _ = second(name, fz, kappa, ta, gamma, direction=math.copysign(1.0, u), speed=abs(u), mu=mu)
    assert worst(steady(p, fz, kappa, ta, gamma, mu, 1.0, u), expected, fz) < 1e-9


@pytest.mark.parametrize("name", SETS)
def test_the_published_formula_over_a_grid(name):
    """A limit of the force shows here: many states are outside the ellipse of the peaks."""
    most, outside = over_the_grid(name)
    assert most < 1e-9
    assert outside > 50  # or the grid proves nothing


@pytest.mark.parametrize("name", TURNING)
def test_turn_slip_over_a_grid(name):
    assert over_the_grid(name, turning=True)[0] < 1e-9


def test_without_turn_slip_it_is_the_published_formula_to_the_bit():
    """Keys of turn slip in a file that does not ask for it count for nothing."""
    without = {key: value for key, value in FULL.items() if key not in SECTIONS["TURNSLIP_COEFFICIENTS"]}
    p, q = coefficient_set(FULL)[0], coefficient_set(without)[0]
    for fz, kappa, ta, gamma in list(grid(FULL))[::97]:
        assert steady(p, fz, kappa, ta, gamma, 1.0, 1.0, FAST) == steady(q, fz, kappa, ta, gamma, 1.0, 1.0, FAST)


def test_a_file_that_asks_for_turn_slip_has_it():
    p, c = coefficient_set(FULL, mode="25")
    *expected, _ = published(c, 3000.0, 0.02, 0.05, 0.1, phi_t=0.0)
    state = (3000.0, 0.02, 0.05, 0.1, 1.0, 1.0, FAST)
    assert worst(steady(p, *state), expected, 3000.0) < 1e-9
    assert steady(p, *state) != steady(FULL_TYRE, *state)


def test_turning_on_the_spot_takes_the_parking_moment():
    """All of QCRP1 mu R0 Fz sqrt(Fz / Fz0), against the turning, and no side force."""
    for phi in (1e3, -1e3):
        _, fy, _, _, mz = steady_turning(TYRE, 1700.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, phi)
        moment = TYRE[T.QCRP1] * capacity(TYRE, 1700.0, 0.0, 1.0)[1] * 0.2891 * math.sqrt(1700.0 / 2500.0)
        assert mz == pytest.approx(-math.copysign(moment, phi), rel=1e-3) and fy == 0.0


def test_the_limit_of_the_force_is_an_option():
    limited = tyre_vector(parse_tir(written(FULL | {"FRICTION_ELLIPSE": 1.0}), "limited"))
    shorter = 0
    for fz, kappa, ta, gamma in grid(FULL):
        Fx, Fy, *_, inside = published(FULL, fz, kappa, ta, gamma)
        fx, fy, *_ = steady(limited, fz, kappa, ta, gamma, 1.0, 1.0, FAST)
        if inside:
            assert (fx, fy) == pytest.approx((Fx, Fy), rel=1e-12, abs=1e-12 * fz)
        else:  # shorter, and of the same direction
            assert fx * Fy == pytest.approx(fy * Fx, rel=1e-9, abs=1e-9 * fz * fz)
            assert math.hypot(fx, fy) < math.hypot(Fx, Fy)
            shorter += 1
    assert shorter > 50


@settings(max_examples=few(60), deadline=None)
@given(loads, slips, cambers)
def test_pure_slip_is_that_of_the_formula(fz, slip, gamma):
    clean = dict(FULL, RVY1=0.0, RVY2=0.0, RVY3=0.0)
    p = tyre_vector(parse_tir(written(clean), "clean"))
    Fx = published(clean, fz, slip, 0.0, gamma)[0]
    assert steady(p, fz, slip, 0, gamma, 1, 1, FAST)[0] == pytest.approx(Fx, rel=1e-12, abs=1e-12 * fz)
    Fy = published(clean, fz, 0.0, slip, gamma)[1]
    assert steady(p, fz, 0, slip, gamma, 1, 1, FAST)[1] == pytest.approx(Fy, rel=1e-12, abs=1e-12 * fz)


@pytest.mark.parametrize("deflection", [0.0, 0.004, 0.02, 0.05])
def test_the_rolling_radius_is_that_of_the_formula(deflection):
    nominal = FULL["FNOMIN"] / FULL["VERTICAL_STIFFNESS"]
    d = deflection / nominal
    radius = FULL["UNLOADED_RADIUS"] - nominal * (FULL["DREFF"] * atan(FULL["BREFF"] * d) + FULL["FREFF"] * d)
    assert effective_radius(FULL_TYRE, deflection * FULL["VERTICAL_STIFFNESS"]) == pytest.approx(radius, rel=1e-13)


@pytest.mark.parametrize("fz", [500.0, 1940.0, 4000.0])
def test_slopes_at_zero_slip_are_the_stiffnesses(fz):
    _, _, Kx, Ky = capacity(TYRE, fz, 0.0, 1.0)
    e = 1e-6
    assert steady(TYRE, fz, e, 0, 0, 1, 1, FAST)[0] / e == pytest.approx(Kx, rel=1e-6)
    assert steady(TYRE, fz, 0, e, 0, 1, 1, FAST)[1] / e == pytest.approx(Ky, rel=1e-6)
    assert Kx > 0 > Ky


@pytest.mark.parametrize("fz", [500.0, 1940.0, 4000.0])
@pytest.mark.parametrize("mu", [0.2, 0.6, 1.0])
def test_the_greatest_force_is_the_peak(fz, mu):
    Dx, Dy, _, _ = capacity(TYRE, fz, 0.0, mu)
    grid = np.linspace(0.0, 1.0, 4001)
    assert max(steady(TYRE, fz, k, 0, 0, mu, 1, FAST)[0] for k in grid) == pytest.approx(Dx, rel=1e-5)
    assert min(steady(TYRE, fz, 0, k, 0, mu, 1, FAST)[1] for k in grid) == pytest.approx(-Dy, rel=1e-5)


def test_the_shipped_tyre_is_a_small_car_tyre():
    fz = 1940.0
    Dx, Dy, Kx, Ky = capacity(TYRE, fz, 0.0, 1.0)
    assert 0.9 < Dy / fz < Dx / fz < 1.01
    assert 18 < Kx / fz < 22
    assert 12 < -Ky / fz < 15
    fx, fy, _, my, mz = steady(TYRE, fz, 0.0, 1e-5, 0.0, 1.0, 1.0, FAST)
    assert 0.025 < -mz / fy < 0.030  # pneumatic trail
    assert -my / (fz * 0.2891) == pytest.approx(0.0135, abs=0.0005)
    assert fx == 0.0
    camber = steady(TYRE, fz, 0.0, 0.0, 1e-5, 1.0, 1.0, FAST)[1] / 1e-5
    assert 0.03 < camber / Ky < 0.12
    # per load, friction and cornering stiffness fall as the load grows
    light, heavy = (np.array(capacity(TYRE, f, 0.0, 1.0)) / f for f in (1000.0, 4000.0))
    assert (light > heavy)[:2].all()
    assert light[3] < heavy[3] < 0
    assert effective_radius(TYRE, 0.0) == 0.2891
    assert 0.2891 - 0.012 / 3 < effective_radius(TYRE, 0.012 * TYRE[T.VERTICAL_STIFFNESS]) < 0.2891


def test_signs():
    fx, fy, mx, my, mz = steady(TYRE, 2000.0, 0.03, 0.03, 0.0, 1.0, 1.0, FAST)
    assert fx > 0 > fy  # driven; moving to the left
    assert mz > 0  # turns the wheel to where it is going
    assert my < 0  # resists rolling forwards
    assert mx < 0  # as the side force leans
    fx, fy, mx, my, mz = steady(TYRE, 2000.0, -0.03, 0.03, 0.0, 1.0, 1.0, -FAST)
    assert fx < 0 and fy < 0 and mz < 0 < my  # in reverse the trail leads and rolling resists the other way
    assert steady(TYRE, 2000.0, 0.0, 0.0, 0.05, 1.0, 1.0, FAST)[1] < 0  # top to the right, force to the right
    assert steady(TYRE, 2000.0, 0.0, 0.03, 0.0, 1.0, 1.0, 0.0)[4] == 0.0  # without rolling, no trail


def test_the_angle_enters_by_its_tangent():
    """At great angles, where it matters: the formula of pure side slip sees tan(alpha)."""
    alpha = 0.6
    _, Dy, _, Ky = capacity(TYRE, 2500.0, 0.0, 1.0)
    C, E = TYRE[T.PCY1], TYRE[T.PEY1]
    x = Ky / (C * Dy) * tan(alpha)
    expected = Dy * sin(C * atan(x - E * (x - atan(x))))
    assert steady(TYRE, 2500.0, 0, tan(alpha), 0, 1, 1, FAST)[1] == pytest.approx(expected, rel=1e-12)


@settings(max_examples=few(150), deadline=None)
@given(loads, st.floats(-5, 5), st.floats(-5, 5), st.floats(-0.5, 0.5), frictions, st.floats(-30, 30))
def test_the_right_side_is_the_mirror_image_to_the_bit(fz, kappa, ta, gamma, mu, u):
    fx, fy, mx, my, mz = steady(FULL_TYRE, fz, kappa, ta, gamma, mu, 1.0, u)
    assert steady(FULL_TYRE, fz, kappa, -ta, -gamma, mu, -1.0, u) == (fx, -fy, -mx, my, -mz)
    # a tyre measured on the right is, on the right, as one measured on the left is on the left
    assert steady(RIGHT_TYRE, fz, kappa, ta, gamma, mu, -1.0, u) == (fx, fy, mx, my, mz)


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=few(300), deadline=None)
@given(st.sampled_from([FULL_TYRE, TYRE]), finite, finite, finite, finite, finite, finite)
def test_any_finite_input_gives_finite_forces(p, fz, kappa, ta, gamma, mu, u):
    force = steady(p, fz, kappa, ta, gamma, mu, 1.0, u)
    if fz <= 0.0:
        assert force == (0.0, 0.0, 0.0, 0.0, 0.0)
    else:
        assert np.isfinite(force).all()


@settings(max_examples=few(200), deadline=None)
@given(st.sampled_from([FULL_TYRE, TYRE, LEAST_TYRE]), finite, finite, finite, finite, finite, finite, finite)
def test_any_finite_input_gives_finite_forces_with_turn_slip(p, fz, kappa, ta, gamma, mu, u, phi):
    assert np.isfinite(steady_turning(p, fz, kappa, ta, gamma, mu, 1.0, u, phi)).all()


@settings(max_examples=few(200), deadline=None)
@given(loads, st.floats(-20, 20), st.floats(-20, 20), cambers, frictions)
def test_combined_slip_stays_inside_the_friction_ellipse_where_asked(fz, kappa, ta, gamma, mu):
    limited = TYRE.copy()
    limited[T.FRICTION_ELLIPSE] = 1.0
    Dx, Dy, _, _ = capacity(TYRE, min(fz, TYRE[T.HIGH_LOAD]), gamma, mu)
    scale = fz / min(fz, TYRE[T.HIGH_LOAD])
    shift = abs(TYRE[T.PVY3]) * 2 * abs(gamma) * fz * mu
    fx, fy, *_ = steady(limited, fz, kappa, ta, gamma, mu, 1.0, FAST)
    assert (fx / (scale * Dx)) ** 2 + (fy / (scale * Dy + shift)) ** 2 <= 1.0 + 1e-9


@pytest.mark.parametrize("direction", np.radians([0, 20, 45, 70, 90, 135, 180, 250]))
@pytest.mark.parametrize("slip", [0.3, 1.0, 10.0])
def test_sliding_friction_opposes_sliding(direction, slip):
    fx, fy, *_ = steady(TYRE, 1940.0, -slip * cos(direction), slip * sin(direction), 0.0, 1.0, 1.0, 0.0)
    against = -(fx * cos(direction) + fy * sin(direction))
    assert against > 0.98 * math.hypot(fx, fy)
    assert 0.6 * 1940.0 < math.hypot(fx, fy) < 1940.0


@settings(max_examples=few(60), deadline=None)
@given(st.floats(400.0, 6000.0), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(0.1, 1.0))
def test_a_slippery_road_is_similar_to_a_dry_one(fz, kappa, ta, mu):
    """Slips, forces and all scale with the friction of the road: stiffness is kept."""
    dry = steady(TYRE, fz, kappa, ta, 0.0, 1.0, 1.0, FAST)
    wet = steady(TYRE, fz, mu * kappa, mu * ta, 0.0, mu, 1.0, FAST)
    assert wet[0] == pytest.approx(mu * dry[0], rel=1e-9, abs=1e-6)
    assert wet[1] == pytest.approx(mu * dry[1], rel=1e-9, abs=1e-6)


def test_outside_the_range_of_loads_forces_go_with_the_load():
    for edge, factor in ((TYRE[T.LOW_LOAD], 0.01), (TYRE[T.HIGH_LOAD], 3.0)):
        at = np.array(steady(TYRE, edge, 0.04, 0.05, 0.02, 1.0, 1.0, FAST))
        beyond = np.array(steady(TYRE, factor * edge, 0.04, 0.05, 0.02, 1.0, 1.0, FAST))
        assert beyond == pytest.approx(factor * at, rel=1e-12)
