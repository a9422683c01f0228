"""The tyre as a differential equation: exact derivatives, and the same tyre as the one that is stepped."""

import math

import numpy as np
import pytest

from sim_service.machines.car.tyres.keys import T
from sim_service.machines.car.tyres.magic_formula import capacity, steady
from sim_service.machines.car.tyres.rates import HOLDS, RESULTS, VARIABLES, WITHOUT_TURNING, X, Y, law, rates, values
from sim_service.machines.car.tyres.tir import parse_tir, read_tir, tyre_vector
from sim_service.machines.car.tyres.transient import LOCKED, OUT, OUTPUTS, STATES, V_LOW, S, relaxation, tyre
from tests.complex_step import complex_kernel, jacobian
from tests.sim_service.tyres.samples import FULL, SHIPPED, WIDE, written

TYRES = {
    "shipped": tyre_vector(read_tir(SHIPPED)),
    "full": tyre_vector(parse_tir(written(FULL), "full")),
    "limited": tyre_vector(parse_tir(written(WIDE | {"FRICTION_ELLIPSE": 1.0}), "limited")),
}
TYRE = TYRES["shipped"]
LOAD = 1940.0


def at(fz=LOAD, vx=0.0, vy=0.0, u=0.0, gamma=0.0, mu=1.0, e=(0.0, 0.0), turn=0.0, twist=0.0):
    return np.array([fz, vx, vy, u, gamma, mu, *e, turn, twist], dtype=float)


def evaluated(p, x, side=1.0, turning=False):
    """Results, and their derivatives in rows."""
    n = VARIABLES if turning else WITHOUT_TURNING
    out, by = np.zeros(RESULTS), np.zeros(RESULTS * n)
    rates(p, x, side, turning, out, by)
    return out, by.reshape(RESULTS, n)


def normal(p, x):
    """Deflection to e_n (2), and the limits of |s_n| and |e_n|."""
    Dx, Dy, Kx, Ky = capacity(p, x[X.FZ], x[X.GAMMA], x[X.MU])
    sigma = relaxation(p, x[X.FZ], x[X.GAMMA])
    n = np.array([Kx / Dx, abs(Ky) / Dy])
    slide = math.hypot(*(n * [x[X.VX] - x[X.U], x[X.VY]]))
    most = max(p[T.PEAK_SLIP], slide / max(abs(x[X.VX]), V_LOW))
    return n / sigma, most, most / math.sqrt(1.0 + most * most)


def random_state(rng, p, low, high, speed=None):
    """A state whose |e_n| is between these parts of the limit."""
    v = rng.choice([0.0, 0.1, 1.0, 10.0, 40.0]) * rng.choice([-1, 1]) if speed is None else speed
    kappa, ta = rng.normal(0.0, [0.2, 0.2])
    size = max(abs(v), 0.3)
    x = at(
        *(rng.uniform(500.0, 3500.0), v, ta * size, v + kappa * size, rng.uniform(-0.1, 0.1), rng.uniform(0.3, 1.1)),
        *((0.0, 0.0), rng.normal(), 0.3 * rng.normal()),
    )
    scale, _, n = normal(p, x)
    angle = rng.uniform(0.0, 2.0 * math.pi)
    x[[X.EX, X.EY]] = rng.uniform(low, high) * n * np.array([math.cos(angle), math.sin(angle)]) / scale
    return x


# ---- derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turning", [False, True])
@pytest.mark.parametrize("name", TYRES)
def test_derivatives_are_those_of_the_complex_step(name, turning):
    p, rng = TYRES[name], np.random.default_rng(5)
    plain = complex_kernel(law)
    worst = 0.0
    for part in (0.5, 0.97, 1.0, 1.02, 1.5):
        for side in (1.0, -1.0):
            for _ in range(8):
                x = random_state(rng, p, part - 0.1, part)
                out, by = evaluated(p, x, side, turning)
                n = by.shape[1]

                def function(z, x=x, side=side):
                    z = [*z, *x[len(z) :]]
                    return plain(p, *z[:6], side, *z[6:8], turning, *z[8:])

                value, expected = jacobian(function, x[:n])
                assert out == pytest.approx(value, rel=1e-13, abs=1e-13)
                # against what a change of each variable by its own size does to the result
                reach = np.abs(expected) @ np.maximum(np.abs(x[:n]), 1e-3)
                error = np.abs(by - expected) * np.maximum(np.abs(x[:n]), 1e-3)
                worst = max(worst, np.max(error / np.maximum(reach, 1e-9)[:, None]))
    assert worst < 1e-12


@pytest.mark.parametrize("turning", [False, True])
def test_values_are_those_of_floats_to_the_bit(turning):
    rng, out = np.random.default_rng(6), np.zeros(RESULTS)
    for p in TYRES.values():
        for _ in range(50):
            x = random_state(rng, p, 0.0, 1.3)
            values(p, x, 1.0, turning, out)
            assert (evaluated(p, x, 1.0, turning)[0] == out).all()


def test_anything_finite_gives_something_finite():
    rng = np.random.default_rng(7)
    for _ in range(300):
        x = at() + rng.normal(0.0, 1.0, VARIABLES) * 10.0 ** rng.uniform(-3, 4, VARIABLES) * rng.integers(
            0, 2, VARIABLES
        )
        for turning in (False, True):
            out, by = evaluated(TYRE, x, 1.0, turning)
            assert np.isfinite(out).all() and np.isfinite(by).all(), x
    for turning in (False, True):
        out, by = evaluated(TYRE, np.zeros(VARIABLES), 1.0, turning)
        assert (out == 0.0).all() and np.isfinite(by).all()


# ---- the same tyre ---------------------------------------------------------------------------------------------------


def stepped(p, x, h, side=1.0, turning=False):
    """Forces and deflections of `tyre` after a step from these states, in which nothing else changes."""
    out, _ = evaluated(p, x, side, turning)
    states, after, forces = np.zeros(STATES), np.zeros(STATES), np.zeros(OUTPUTS)
    V = min(abs(x[X.VX]), LOCKED * abs(x[X.U]))
    m = [out[Y.KAPPA] / x[X.EX], -out[Y.TAN_ALPHA] / x[X.EY]]  # over sigma
    states[[S.EX, S.EY, S.VSX, S.VSY]] = x[X.EX], x[X.EY], x[X.VX] - x[X.U], x[X.VY]
    states[[S.RX, S.RY]] = V * m[0], V * m[1]
    states[[S.TWIST, S.TURN]] = x[X.TWIST], x[X.TURN]
    tyre(
        *(p, states, after, 0, h, x[X.FZ], x[X.VX], x[X.VY], x[X.U], 1.0, x[X.GAMMA], x[X.MU], side, turning),
        *(x[X.TURN], forces),
    )
    return forces, after[[S.EX, S.EY]]


def quotient(p, x, slopes):
    """Rates of deflection by steps that are short against everything that happens in them, and their limit."""
    h = 1e-3 / (np.abs(slopes).max() + 10.0)
    far, near = ((stepped(p, x, k * h)[1] - x[[X.EX, X.EY]]) / (k * h) for k in (2.0, 1.0))
    return 2.0 * near - far


@pytest.mark.parametrize("name", TYRES)
def test_the_rates_are_the_limit_of_the_step(name):
    p, rng = TYRES[name], np.random.default_rng(8)
    for _ in range(200):
        x = random_state(rng, p, 0.05, HOLDS)
        out, by = evaluated(p, x)
        forces, _ = stepped(p, x, 0.0)
        assert out[:5] == pytest.approx(forces[:5], rel=1e-10, abs=1e-9 * LOAD)
        rate = out[[Y.EX_RATE, Y.EY_RATE]]
        expected = quotient(p, x, by[[Y.EX_RATE, Y.EY_RATE]][:, [X.EX, X.EY]])
        assert rate == pytest.approx(expected, abs=2e-5 * (np.abs(rate).max() + 0.1))


def test_at_the_limit_the_sliding_patch_moves_as_in_the_step():
    rng = np.random.default_rng(9)
    slid = 0
    for _ in range(200):
        x = random_state(rng, TYRE, 1.0, 1.0)
        scale, _, n = normal(TYRE, x)
        out, by = evaluated(TYRE, x)
        rate = out[[Y.EX_RATE, Y.EY_RATE]]
        expected = quotient(TYRE, x, by[[Y.EX_RATE, Y.EY_RATE]][:, [X.EX, X.EY]])
        assert rate == pytest.approx(expected, abs=1e-4 * (np.abs(rate).max() + 0.1))
        if abs(scale * x[[X.EX, X.EY]] @ (scale * rate)) < 1e-9 * n * np.abs(scale * rate).max():
            slid += 1  # it stays at the limit
    assert slid > 30


def advance(p, e, x, h):
    """Deflections at the end of a step of the implicit rule of Euler, for the variables x of its end."""
    e1 = e
    for _ in range(12):
        x[[X.EX, X.EY]] = e1
        out, by = evaluated(p, x)
        slope = np.eye(2) - h * by[[Y.EX_RATE, Y.EY_RATE]][:, [X.EX, X.EY]]
        step = np.linalg.solve(slope, e + h * out[[Y.EX_RATE, Y.EY_RATE]] - e1)
        e1 = e1 + step
        if np.abs(step).max() < 1e-15:
            break
    return e1


def gentle(t):
    """Loads, camber and velocities that change at once: from rest to 1 m/s, back through rest, with slip both ways."""
    vx = math.sin(math.pi * t) ** 3
    return LOAD * (1.0 + 0.3 * math.sin(4.0 * t)), vx, vx * 0.05 * math.cos(2.0 * t), 0.97 * vx, 0.03 * math.sin(t)


def rough(t):
    """A wheel that is locked at speed and let go again, while it goes aside."""
    vx = 12.0 - 4.0 * t
    u = vx * (0.5 + 0.5 * math.cos(2.0 * math.pi * t))
    return LOAD * (1.0 + 0.1 * math.sin(9.0 * t)), vx, 0.4 * math.sin(2.0 * t), u, 0.0


@pytest.mark.parametrize(("way", "tolerance"), [(gentle, 3e-4), (rough, 3e-2)])
def test_trajectories_are_those_of_tiny_steps(way, tolerance):
    h, steps = 4e-4, 2000
    states, after, forces = np.zeros(STATES), np.zeros(STATES), np.zeros(OUTPUTS)
    e, most, error = np.zeros(2), 0.0, 0.0
    fz, vx, vy, u, gamma = way(0.0)
    tyre(TYRE, states, states, 0, 0.0, fz, vx, vy, u, 1.0, gamma, 1.0, 1.0, False, 0.0, forces)
    for k in range(steps):
        for part in range(4):
            e = advance(TYRE, e, at(*way((k + 0.25 * (part + 1)) * h)), 0.25 * h)
        fz, vx, vy, u, gamma = way((k + 1) * h)
        tyre(TYRE, states, after, 0, h, fz, vx, vy, u, 1.0, gamma, 1.0, 1.0, False, 0.0, forces)
        states[:] = after
        found = evaluated(TYRE, at(fz, vx, vy, u, gamma, e=e))[0][:2]
        most = max(most, np.abs(forces[: OUT.FY + 1]).max())
        error = max(error, np.abs(found - forces[: OUT.FY + 1]).max())
    assert error < tolerance * most


# ---- what was promised -----------------------------------------------------------------------------------------------


def settle(p, x, turning=False, h=2e-3, steps=3000):
    """Steps of the linearly implicit rule with the exact derivatives, until nothing changes."""
    which, states = [Y.EX_RATE, Y.EY_RATE], [X.EX, X.EY]
    if turning:
        which, states = [*which, Y.TWIST_RATE], [*states, X.TWIST]
    for _ in range(steps):
        out, by = evaluated(p, x, 1.0, turning)
        step = np.linalg.solve(np.eye(len(which)) / h - by[which][:, states], out[which])
        x[states] += step
        if np.abs(step).max() < 1e-15:
            break
    return evaluated(p, x, 1.0, turning)[0]


@pytest.mark.parametrize("name", TYRES)
@pytest.mark.parametrize("speed", [-20.0, 2.0, 30.0])
def test_in_steady_rolling_the_forces_are_steady(name, speed):
    p, rng = TYRES[name], np.random.default_rng(10)
    for kappa, ta in [(0.02, 0.0), (0.0, 0.05), (-0.15, 0.3), (0.9, -0.4), (-0.8, 0.02)]:
        gamma, mu = rng.uniform(-0.1, 0.1), rng.uniform(0.3, 1.1)
        u = speed + kappa * abs(speed)
        out = settle(p, at(LOAD, speed, ta * abs(speed), u, gamma, mu))
        assert out[:5] == pytest.approx(steady(p, LOAD, kappa, ta, gamma, mu, 1.0, u), rel=1e-8, abs=1e-8 * LOAD)


@pytest.mark.parametrize("speed", [0.3, 5.0, 25.0])
def test_a_locked_wheel_slides_with_the_slip_it_should_have(speed):
    out = settle(TYRE, at(LOAD, speed, 0.2 * speed, 0.0))
    scale, most, _ = normal(TYRE, at(LOAD, speed, 0.2 * speed, 0.0))
    slip = np.array([out[Y.KAPPA], -out[Y.TAN_ALPHA]])
    if speed > V_LOW:
        assert slip == pytest.approx([-1.0, -0.2], rel=1e-8)
    assert np.hypot(*(slip * scale * relaxation(TYRE, LOAD, 0.0))) == pytest.approx(most, rel=1e-8)


def test_a_standing_tyre_is_a_spring_that_does_not_creep():
    x = at()
    scale, _, n = normal(TYRE, x)
    held = 0.9 * n / scale[0]
    x[X.EX] = held
    assert (evaluated(TYRE, x)[0][[Y.EX_RATE, Y.EY_RATE]] == 0.0).all()
    # shaken, it goes the way of the rim and back
    h = 1e-3
    for k in range(2000):
        x[X.VX] = 0.02 * math.cos(2.0 * math.pi * 50.0 * (k + 0.5) * h)
        out, _ = evaluated(TYRE, x)
        assert out[Y.EX_RATE] == -x[X.VX]
        x[X.EX] += h * out[Y.EX_RATE]
    assert x[X.EX] == pytest.approx(held, rel=1e-9)


def test_a_deflection_beyond_the_limit_comes_back_and_one_in_the_air_goes():
    x = at()
    scale, _, n = normal(TYRE, x)
    x[X.EX] = 5.0 / scale[0]
    settle(TYRE, x, h=1e-3, steps=200)
    assert x[X.EX] * scale[0] == pytest.approx(n, rel=0.01)
    out, by = evaluated(TYRE, at(0.0, 3.0, 1.0, 2.0, e=(0.01, -0.02)))
    assert (out[:5] == 0.0).all() and out[Y.EX_RATE] < 0.0 < out[Y.EY_RATE] and by[Y.EX_RATE, X.VX] == 0.0


def test_a_patch_that_is_turned_on_the_spot_gives_way():
    p = TYRES["full"]
    out = settle(p, at(turn=0.4), turning=True)
    back = settle(p, at(turn=-0.4), turning=True)
    assert abs(out[Y.TWIST_RATE]) < 1e-9 and out[Y.MZ] < 0.0 < back[Y.MZ]
