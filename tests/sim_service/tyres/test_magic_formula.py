"""The Magic Formula against a second way to write it down, and against what any tyre must do.

`by_hand` is written from the published equations (Pacejka, Tyre and Vehicle Dynamics; the PAC2002 equations with
tan(alpha) for alpha), coefficient by coefficient, and shares no code with the kernels.
"""

import math
from math import atan, cos, sin, sqrt, tan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_service.machines.car.tyres.keys import T
from sim_service.machines.car.tyres.magic_formula import capacity, effective_radius, steady
from sim_service.machines.car.tyres.tir import parse_tir, read_tir, tyre_vector
from tests.examples import few
from tests.sim_service.tyres.samples import FULL, SHIPPED, WIDE, written

FULL_TYRE = tyre_vector(parse_tir(written(FULL), "full"))
RIGHT_TYRE = tyre_vector(parse_tir(written(FULL, side="RIGHT"), "right"))
TYRE = tyre_vector(read_tir(SHIPPED))
FAST = 20.0  # m/s of rolling

loads = st.floats(400.0, 8500.0)
slips = st.floats(-1.2, 1.2)
cambers = st.floats(-0.2, 0.2)
frictions = st.floats(0.1, 1.3)


def sgn(x):
    return float(np.sign(x))


def by_hand(c, Fz, kappa, ta, gamma, mu=1.0):
    """Fx, Fy, Mz of combined slip, rolling forwards without end, before any limit; whether inside the ellipse."""
    Fz0 = c["FNOMIN"] * c["LFZO"]
    d = (Fz - Fz0) / Fz0
    R0 = c["UNLOADED_RADIUS"]
    lmux, lmuy = c["LMUX"] * mu, c["LMUY"] * mu
    # longitudinal
    gx = gamma * c["LGAX"]
    Shx = (c["PHX1"] + c["PHX2"] * d) * c["LHX"]
    Svx = Fz * (c["PVX1"] + c["PVX2"] * d) * c["LVX"] * lmux
    kx = kappa + Shx
    mux = (c["PDX1"] + c["PDX2"] * d) * (1 - c["PDX3"] * gx**2) * lmux
    Cx = c["PCX1"] * c["LCX"]
    Ex = min((c["PEX1"] + c["PEX2"] * d + c["PEX3"] * d**2) * (1 - c["PEX4"] * sgn(kx)) * c["LEX"], 1.0)
    Kx = Fz * (c["PKX1"] + c["PKX2"] * d) * math.exp(c["PKX3"] * d) * c["LKX"]
    Bx = Kx / (Cx * mux * Fz)
    Fx0 = mux * Fz * sin(Cx * atan(Bx * kx - Ex * (Bx * kx - atan(Bx * kx)))) + Svx
    # lateral
    gy = gamma * c["LGAY"]
    Shy = (c["PHY1"] + c["PHY2"] * d) * c["LHY"] + c["PHY3"] * gy
    Svy = Fz * ((c["PVY1"] + c["PVY2"] * d) * c["LVY"] + (c["PVY3"] + c["PVY4"] * d) * gy) * lmuy
    ay = ta + Shy
    muy = (c["PDY1"] + c["PDY2"] * d) * (1 - c["PDY3"] * gy**2) * lmuy
    Cy = c["PCY1"] * c["LCY"]
    Ey = min((c["PEY1"] + c["PEY2"] * d) * (1 - (c["PEY3"] + c["PEY4"] * gy) * sgn(ay)) * c["LEY"], 1.0)
    Ky = c["PKY1"] * Fz0 * sin(2 * atan(Fz / (c["PKY2"] * Fz0))) * (1 - c["PKY3"] * abs(gy)) * c["LKY"]
    By = Ky / (Cy * muy * Fz)
    Fy0 = muy * Fz * sin(Cy * atan(By * ay - Ey * (By * ay - atan(By * ay)))) + Svy

    # combined: weights by slip / mu
    def weight(B, C, E, x, S):
        def g(z):
            return cos(C * atan(B * z - E * (B * z - atan(B * z))))

        return g(x + S) / g(S)

    k, a = kappa / mu, ta / mu
    Gx = weight(c["RBX1"] * cos(atan(c["RBX2"] * k)) * c["LXAL"], c["RCX1"], c["REX1"] + c["REX2"] * d, a, c["RHX1"])
    Byk = c["RBY1"] * cos(atan(c["RBY2"] * (a - c["RBY3"]))) * c["LYKA"]
    Gy = weight(Byk, c["RCY1"], c["REY1"] + c["REY2"] * d, k, c["RHY1"] + c["RHY2"] * d)
    Dvyk = muy * Fz * (c["RVY1"] + c["RVY2"] * d + c["RVY3"] * gamma) * cos(atan(c["RVY4"] * a))
    Svyk = Dvyk * sin(c["RVY5"] * atan(c["RVY6"] * k)) * c["LVYKA"]
    Fx, Fy = Fx0 * Gx, Fy0 * Gy + Svyk
    # aligning
    gz = gamma * c["LGAZ"]
    at = ta + c["QHZ1"] + c["QHZ2"] * d + (c["QHZ3"] + c["QHZ4"] * d) * gz
    ar = ta + Shy + Svy / Ky
    Bt = (c["QBZ1"] + c["QBZ2"] * d + c["QBZ3"] * d**2) * (1 + c["QBZ4"] * gz + c["QBZ5"] * abs(gz)) * c["LKY"] / lmuy
    Bt = max(Bt, 0.0)
    Dt = Fz * (c["QDZ1"] + c["QDZ2"] * d) * (1 + c["QDZ3"] * gz + c["QDZ4"] * gz**2) * R0 / Fz0 * c["LTR"]
    Et = c["QEZ1"] + c["QEZ2"] * d + c["QEZ3"] * d**2
    Et = min(Et * (1 + (c["QEZ4"] + c["QEZ5"] * gz) * 2 / math.pi * atan(Bt * c["QCZ1"] * at)), 1.0)
    ateq = sqrt(at**2 + (Kx / Ky) ** 2 * kappa**2) * math.copysign(1.0, at)  # its cosine has no sign to lose
    areq = sqrt(ar**2 + (Kx / Ky) ** 2 * kappa**2) * sgn(ar)
    t = Dt * cos(c["QCZ1"] * atan(Bt * ateq - Et * (Bt * ateq - atan(Bt * ateq)))) * cos(atan(ta))
    Dr = ((c["QDZ6"] + c["QDZ7"] * d) * c["LRES"] + (c["QDZ8"] + c["QDZ9"] * d) * gz) * Fz * R0 * lmuy
    Mzr = Dr * cos(atan((c["QBZ9"] * c["LKY"] / lmuy + c["QBZ10"] * By * Cy) * areq)) * cos(atan(ta))
    s = (c["SSZ1"] + c["SSZ2"] * Fy / Fz0 + (c["SSZ3"] + c["SSZ4"] * d) * gamma) * R0 * c["LS"]
    Mz = -t * (Fy - Svyk) + Mzr + s * Fx
    inside = (Fx / (mux * Fz + abs(Svx))) ** 2 + (Fy / (muy * Fz + abs(Svy))) ** 2 <= 1.0
    return Fx, Fy, Mz, inside


SETS = {  # every coefficient at work; the shipped tyre; one whose combined slip leaves the ellipse far behind
    "full": (FULL_TYRE, FULL),
    "shipped": (TYRE, dict(read_tir(SHIPPED).values)),
    "wide": (tyre_vector(parse_tir(written(WIDE), "wide")), WIDE),
}


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=few(150), deadline=None)
@given(loads, slips, slips, cambers, frictions)
def test_the_formula_written_twice_is_the_same(name, fz, kappa, ta, gamma, mu):
    p, c = SETS[name]
    fz = min(fz, p[T.HIGH_LOAD])
    Fx, Fy, Mz, _ = by_hand(c, fz, kappa, ta, gamma, mu)
    u = 1e9  # so fast that rolling is forwards to the last bit
    fx, fy, _, _, mz = steady(p, fz, kappa, ta, gamma, mu, 1.0, u)
    assert fx == pytest.approx(Fx, rel=1e-9, abs=1e-9 * fz)
    assert fy == pytest.approx(Fy, rel=1e-9, abs=1e-9 * fz)
    assert mz == pytest.approx(Mz, rel=1e-9, abs=1e-9 * fz * 0.3)


def grid(c):
    """4725 states: load, kappa, tan(alpha), camber."""
    for fz in np.array([0.4, 0.8, 1.0, 1.5, 1.9]) * c["FNOMIN"]:
        for kappa in np.linspace(-0.5, 0.5, 21):
            for alpha in np.linspace(-0.35, 0.35, 15):
                for gamma in (-0.1, 0.0, 0.1):
                    yield fz, kappa, tan(alpha), gamma


@pytest.mark.parametrize("name", SETS)
def test_the_published_formula_over_a_grid(name):
    """A limit of the force shows here: many states are outside the ellipse of the peaks."""
    p, c = SETS[name]
    outside, worst = 0, 0.0
    for fz, kappa, ta, gamma in grid(c):
        Fx, Fy, Mz, inside = by_hand(c, fz, kappa, ta, gamma)
        fx, fy, _, _, mz = steady(p, fz, kappa, ta, gamma, 1.0, 1.0, 1e9)
        worst = max(worst, abs(fx - Fx) / fz, abs(fy - Fy) / fz, abs(mz - Mz) / (0.3 * fz))
        outside += not inside
    assert worst < 1e-9
    assert outside > 50  # or the grid proves nothing


def test_the_limit_of_the_force_is_an_option():
    limited = tyre_vector(parse_tir(written(FULL | {"FRICTION_ELLIPSE": 1.0}), "limited"))
    shorter = 0
    for fz, kappa, ta, gamma in grid(FULL):
        Fx, Fy, _, inside = by_hand(FULL, fz, kappa, ta, gamma)
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
    Fx, _, _, _ = by_hand(clean, fz, slip, 0.0, gamma)
    assert steady(p, fz, slip, 0, gamma, 1, 1, FAST)[0] == pytest.approx(Fx, rel=1e-12, abs=1e-12 * fz)
    _, Fy, _, _ = by_hand(clean, fz, 0.0, slip, gamma)
    assert steady(p, fz, 0, slip, gamma, 1, 1, FAST)[1] == pytest.approx(Fy, rel=1e-12, abs=1e-12 * fz)


@settings(max_examples=few(60), deadline=None)
@given(loads, slips, slips, cambers, st.floats(2.0, 60.0))
def test_overturning_and_rolling_moment_are_those_of_the_formula(fz, kappa, ta, gamma, u):
    c, Fz0 = FULL, FULL["FNOMIN"] * FULL["LFZO"]
    fx, fy, mx, my, _ = steady(FULL_TYRE, fz, kappa, ta, gamma, 1.0, 1.0, u)
    Mx = c["QSX1"] * c["LVMX"] - c["QSX2"] * gamma + c["QSX3"] * fy / Fz0
    v = u / c["LONGVL"]
    roll = c["QSY1"] + c["QSY3"] * v + c["QSY4"] * v**4
    My = -(roll + c["QSY2"] * fx / Fz0)
    near = 4e-3 * c["UNLOADED_RADIUS"] * fz * c["LMY"] * roll  # resistance fades in with speed
    assert mx == pytest.approx(c["UNLOADED_RADIUS"] * fz * c["LMX"] * Mx, rel=1e-9, abs=1e-9)
    assert my == pytest.approx(c["UNLOADED_RADIUS"] * fz * c["LMY"] * My, rel=1e-9, abs=near)
    # backwards the resistance turns round, the arm on which drive pulls does not
    arm = -2.0 * c["UNLOADED_RADIUS"] * fz * c["LMY"] * c["QSY2"] * fx / Fz0
    assert steady(FULL_TYRE, fz, kappa, ta, gamma, 1.0, 1.0, -u)[3] == pytest.approx(arm - my, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("deflection", [0.0, 0.004, 0.02, 0.05])
def test_the_rolling_radius_is_that_of_the_formula(deflection):
    nominal = FULL["FNOMIN"] / FULL["VERTICAL_STIFFNESS"]
    d = deflection / nominal
    radius = FULL["UNLOADED_RADIUS"] - nominal * (FULL["DREFF"] * atan(FULL["BREFF"] * d) + FULL["FREFF"] * d)
    assert effective_radius(FULL_TYRE, deflection) == pytest.approx(radius, rel=1e-14)


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
    assert 0.2891 - 0.012 / 3 < effective_radius(TYRE, 0.012) < 0.2891


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
