"""The tyre in time: relaxation, order of the step, and a wheel with a mass on it that stands, stops and spins.

`Wheel` is a quarter of a car with an integrator of its own: the trapezoidal rule, solved by Newton's rule with the
slopes that the kernel gives, as the car does it.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sync.compile.array_copy import copy
from sync.compile.jit import kernel
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.steady import capacity, relaxation, steady, steady_turning
from tandem.machines.car.tyres.tir import parse_tir, read_tir, tyre_vector
from tandem.machines.car.tyres.transient import OUT, OUTPUTS, STATES, S, tyre
from tests.examples import few
from tests.tandem.machines.car.tyres.samples import FULL, SHIPPED, written

TYRE = tyre_vector(read_tir(SHIPPED))
FULL_TYRE = tyre_vector(parse_tir(written(FULL), "full"))
LOAD = 1940.0
RADIUS = 0.287
STEP = 5e-3


class Rim:
    """A tyre whose rim is moved as one likes."""

    def __init__(self, p=TYRE, fz=LOAD, gamma=0.0, mu=1.0, side=1.0, turning=False):
        self.p, self.fz, self.gamma, self.mu, self.side, self.turning = p, fz, gamma, mu, side, turning
        self.turn = 0.0  # rad/s, about the road's normal
        self.states, self.after, self.out = np.zeros(STATES), np.zeros(STATES), np.zeros(OUTPUTS)

    def ask(self, h, vx, vy, u):
        tyre(
            *(self.p, self.states, self.after, 0, h, self.fz, vx, vy, u / RADIUS, RADIUS),
            *(self.gamma, self.mu, self.side, self.turning, self.turn, self.out),
        )
        return self.out

    def move(self, h, vx, vy, u):
        self.ask(h, vx, vy, u)
        self.states[:] = self.after
        return self.out


class Wheel(Rim):
    """A mass on a wheel with spin inertia, along x; `wheel` is 'free' or 'locked', a brake is friction."""

    def __init__(self, speed=0.0, mass=198.0, inertia=0.6, h=STEP, **rim):
        super().__init__(**rim)
        self.m, self.J, self.h = mass, inertia, h
        self.v, self.w, self.x = speed, speed / RADIUS, 0.0
        self.move(0.0, speed, 0.0, speed)
        self.most_iterations = 0

    def step(self, drive=0.0, brake=0.0, push=0.0, locked=False):
        h, r, m, J = self.h, RADIUS, self.m, self.J
        v0, w0 = self.v, self.w
        F0, M0 = self.out[OUT.FX], self.out[OUT.MY]
        stick = locked or (w0 == 0.0 and brake > 0.0)
        while True:
            v, w = v0, 0.0 if stick else w0
            iteration = 0
            while True:
                F, M, C = self.ask(h, v, 0.0, r * w)[[OUT.FX, OUT.MY, OUT.CX]]
                f1 = m * (v - v0) - h * (0.5 * (F0 + F) + push)
                torque = drive + 0.5 * (M0 + M) - 0.5 * r * (F0 + F)
                f2 = J * (w - w0) - h * (torque - brake * np.sign(w0))
                A = np.array([[m + 0.5 * h * C, -0.5 * h * C * r], [-0.5 * h * C * r, J + 0.5 * h * C * r * r]])
                dv, dw = (-f1 / A[0, 0], 0.0) if stick else np.linalg.solve(A, [-f1, -f2])
                v, w = v + dv, w + dw
                iteration += 1
                if abs(dv) + abs(dw) < 1e-12 or iteration == 40:
                    break
            self.most_iterations = max(self.most_iterations, iteration)
            crossed = not stick and brake > 0.0 and w * w0 < 0.0
            if not crossed:
                break
            stick = True  # the brake catches the wheel as it stops
        self.x += 0.5 * h * (v + v0)
        self.v, self.w = v, w
        self.states[:] = self.after


# ---- rolling ---------------------------------------------------------------------------------------------------------


@settings(max_examples=few(80), deadline=None)
@given(
    st.sampled_from([TYRE, FULL_TYRE]),
    st.floats(-0.95, 1.5),
    st.floats(-1.0, 1.0),
    st.floats(1.0, 40.0),
    st.sampled_from([-1.0, 1.0]),
    st.floats(-0.1, 0.1),
    st.floats(0.2, 1.2),
)
def test_in_steady_rolling_the_forces_are_steady(p, kappa, ta, v, direction, gamma, mu):
    vx = direction * v
    u = vx + kappa * v
    rim = Rim(p, gamma=gamma, mu=mu)
    rim.move(0.0, vx, ta * v, u)
    for _ in range(400):
        rim.move(0.02, vx, ta * v, u)
    expected = steady(p, LOAD, kappa, ta, gamma, mu, 1.0, u)
    assert rim.out[:5] == pytest.approx(expected, rel=1e-9, abs=1e-9 * LOAD)
    assert rim.out[OUT.KAPPA] == pytest.approx(kappa, rel=1e-9, abs=1e-9)
    assert math.tan(rim.out[OUT.ALPHA]) == pytest.approx(ta, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("speed", [10.0, -25.0])
def test_side_force_builds_up_over_the_relaxation_length(speed):
    _, sigma = relaxation(TYRE, LOAD, 0.0)
    assert sigma == pytest.approx(0.35, abs=0.02)
    h = 1e-4
    rim = Rim()
    rim.move(0.0, speed, 1e-4 * abs(speed), speed)
    goal = steady(TYRE, LOAD, 0.0, 1e-4, 0.0, 1.0, 1.0, speed)[1] * (1.0 - math.exp(-1.0))
    way = before = 0.0
    while abs(rim.out[OUT.FY]) < abs(goal):
        before = rim.out[OUT.FY]
        rim.move(h, speed, 1e-4 * abs(speed), speed)
        way += abs(speed) * h
    way -= abs(speed) * h * (rim.out[OUT.FY] - goal) / (rim.out[OUT.FY] - before)
    assert way == pytest.approx(sigma, rel=0.02)


def test_longitudinal_force_builds_up_over_its_own_length():
    sigma, _ = relaxation(TYRE, LOAD, 0.0)
    assert sigma == pytest.approx(0.15, abs=0.01)
    v, h = 15.0, 1e-4
    rim = Rim()
    rim.move(0.0, v, 0.0, v * 1.0001)
    for _ in range(round(sigma / (v * h))):
        rim.move(h, v, 0.0, v * 1.0001)
    reached = rim.out[OUT.FX] / steady(TYRE, LOAD, 1e-4, 0, 0, 1, 1, v)[0]
    assert reached == pytest.approx(1.0 - math.exp(-1.0), abs=0.01)


def manoeuvre(t):
    """Loads, camber and velocities that change at once: from rest to 1 m/s, back through rest, with slip both ways."""
    vx = math.sin(math.pi * t) ** 3 * 1.0 if t < 1.0 else -(math.sin(math.pi * t) ** 2) * math.sin(math.pi * (t - 1.0))
    u = vx * (1.0 + 0.03 * math.sin(3.0 * t))
    vy = vx * 0.05 * math.cos(2.0 * t)
    return LOAD * (1.0 + 0.3 * math.sin(4.0 * t)), vx, vy, u, 0.03 * math.sin(t)


def driven(n, seconds=2.0, course=manoeuvre):
    rim = Rim()
    h = seconds / n
    path = []
    for i in range(n + 1):
        rim.fz, vx, vy, u, rim.gamma = course(i * h)
        rim.move(h if i else 0.0, vx, vy, u)
        if i % (n // 20) == 0:
            path.append(rim.out[:5].copy())
    return np.array(path)


def fast(t):
    """At speed, up to the peak and beyond."""
    vx = 20.0 + 3.0 * math.sin(2.0 * t)
    return (
        LOAD * (1.0 + 0.3 * math.sin(4.0 * t)),
        vx,
        vx * 0.2 * math.sin(3.0 * t),
        vx * (1.0 - 0.1 * math.sin(5.0 * t) ** 2),
        0.0,
    )


@pytest.mark.parametrize("course, n", [(manoeuvre, 400), (fast, 800)])
def test_the_error_is_of_second_order_in_the_step(course, n):
    best = driven(32 * n, course=course)
    errors = [np.abs(driven(k * n, course=course) - best).max() for k in (1, 2, 4)]
    assert errors[0] < 0.01 * LOAD
    assert errors[0] / errors[1] > 3.3
    assert errors[1] / errors[2] > 3.3


def gentle(t):
    """At speed, below the peak, all at once."""
    vx = 15.0 + 3.0 * math.sin(2.0 * t)
    load = LOAD * (1.0 + 0.3 * math.sin(4.0 * t))
    return load, vx, vx * 0.1 * math.sin(3.0 * t), vx * (1.0 - 0.08 * math.sin(5.0 * t) ** 2), 0.0


def test_the_law_is_the_one_that_is_written_down():
    """de/dt = -v_s - V s(e), integrated by a rule of another kind with steps so short that only the law matters."""

    def slip(t, e):
        fz, *_ = gentle(t)
        Dx, Dy, Kx, Ky = capacity(TYRE, fz, 0.0, 1.0)
        sigma = np.array(relaxation(TYRE, fz, 0.0))
        e_n = e * np.array([Kx / Dx, -Ky / Dy]) / sigma
        return e / sigma / math.sqrt(1.0 - e_n @ e_n)

    def rate(t, e):
        _, vx, vy, u, _ = gentle(t)
        return -np.array([vx - u, vy]) - abs(vx) * slip(t, e)

    h, e = 5e-4, np.zeros(2)
    for i in range(1600):
        t = i * h
        k1 = rate(t, e)
        k2 = rate(t + h / 2, e + h / 2 * k1)
        k3 = rate(t + h / 2, e + h / 2 * k2)
        k4 = rate(t + h, e + h * k3)
        e = e + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    rim = Rim()
    for i in range(8001):
        rim.fz, vx, vy, u, _ = gentle(i * 1e-4)
        rim.move(1e-4 if i else 0.0, vx, vy, u)
    kappa, ta = slip(0.8, e) * (1.0, -1.0)
    assert abs(kappa) > 0.02 and abs(ta) > 0.03
    assert rim.states[[S.EX, S.EY]] == pytest.approx(e, rel=1e-5)
    assert rim.out[OUT.KAPPA] == pytest.approx(kappa, rel=1e-4)
    assert math.tan(rim.out[OUT.ALPHA]) == pytest.approx(ta, rel=1e-4)


def test_states_may_be_written_in_place():
    rim, other = Rim(), Rim()
    for i in range(20):
        _, vx, vy, u, _ = gentle(0.005 * i)
        rim.move(STEP, vx, vy, u)
        args = (LOAD, vx, vy, u / RADIUS, RADIUS, 0.0, 1.0, 1.0)
        tyre(TYRE, other.states, other.states, 0, STEP, *args, False, 0.0, other.out)
    assert (rim.states == other.states).all()
    assert (rim.out == other.out).all()


# ---- any input -------------------------------------------------------------------------------------------------------

velocities = st.floats(-30.0, 30.0)
finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=few(150), deadline=None)
@given(
    st.sampled_from([TYRE, FULL_TYRE]),
    st.floats(0.05, 1.3),
    st.lists(st.tuples(st.floats(0.0, 7000.0), velocities, velocities, velocities), min_size=1, max_size=12),
    st.sampled_from([0.0, 1e-4, STEP, 0.1]),
)
@example(FULL_TYRE, 1.0, [(5e-324, 0.0, 0.0, 0.0)], 0.0)  # the least load there is
def test_force_is_within_friction_and_slopes_are_not_negative(p, mu, moves, h):
    rim = Rim(p, mu=mu)
    for fz, vx, vy, u in moves:
        rim.fz = fz
        out = rim.move(h, vx, vy, u)
        assert np.isfinite(out).all() and np.isfinite(rim.states).all()
        assert (out[[OUT.CX, OUT.CY]] >= 0.0).all()
        f = min(max(fz, p[T.LOW_LOAD]), p[T.HIGH_LOAD])
        Dx, Dy, _, _ = capacity(p, f, 0.0, mu)
        shift = 0.05 * f * mu * 1.1  # no vertical shift is greater
        limits = (Dx + shift) * fz / f, (Dy + shift) * fz / f
        most = 1.01 if p is FULL_TYRE else 1.0 + 1e-9  # as published, combined slip goes a little beyond the ellipse
        assert math.hypot(out[OUT.FX] / (limits[0] + 1e-9), out[OUT.FY] / (limits[1] + 1e-9)) <= most


@settings(max_examples=few(200), deadline=None)
@given(st.lists(finite, min_size=8, max_size=8), st.floats(0.0, 1e3), st.booleans())
def test_any_finite_input_gives_finite_output(numbers, h, turning):
    rim = Rim(FULL_TYRE)
    for _ in range(3):
        fz, vx, vy, omega, r_e, gamma, mu, turn = numbers
        with np.errstate(over="ignore"):
            tyre(rim.p, rim.states, rim.after, 0, h, fz, vx, vy, omega, r_e, gamma, mu, 1.0, turning, turn, rim.out)
        rim.states[:] = rim.after
        assert np.isfinite(rim.out).all() and np.isfinite(rim.states).all()


def test_a_tyre_in_the_air_has_no_force_and_forgets():
    rim = Rim()
    for _ in range(20):
        rim.move(STEP, 10.0, 1.0, 9.0)
    assert rim.out[OUT.FY] < -100.0
    rim.fz = -5.0
    assert (rim.move(STEP, 10.0, 1.0, 9.0) == 0.0).all()
    assert rim.states[S.EX] == rim.states[S.EY] == 0.0


@settings(max_examples=few(60), deadline=None)
@given(st.lists(st.tuples(velocities, velocities, velocities), min_size=1, max_size=8), st.floats(-0.2, 0.2))
def test_the_right_side_is_the_mirror_image_to_the_bit(moves, gamma):
    left, right = Rim(FULL_TYRE, gamma=gamma), Rim(FULL_TYRE, gamma=-gamma, side=-1.0)
    for vx, vy, u in moves:
        a, b = left.move(STEP, vx, vy, u), right.move(STEP, vx, -vy, u)
        same = [OUT.FX, OUT.MY, OUT.CX, OUT.CY, OUT.KAPPA]
        mirrored = [OUT.FY, OUT.MX, OUT.MZ, OUT.ALPHA]
        assert (a[same] == b[same]).all()
        assert (a[mirrored] == -b[mirrored]).all()


def test_a_call_remembers_nothing():
    rim = Rim()
    for i in range(30):
        rim.move(STEP, 5.0, 0.1 * i / 30, 5.2)
    first = rim.ask(STEP, 5.0, 0.2, 5.1).copy()
    rim.ask(STEP, -3.0, 2.0, 7.0)
    assert (rim.ask(STEP, 5.0, 0.2, 5.1) == first).all()


@pytest.mark.parametrize("vx, vy, u", [(0.0, 0.0, 0.0), (10.0, 0.05, 10.02), (1.0, 0.0, 1.01), (30.0, 0.5, 30.2)])
def test_slopes_are_those_of_the_force_at_small_slip(vx, vy, u):
    rim = Rim()
    rim.move(0.0, vx, vy, u)
    for _ in range(10):
        rim.move(STEP, vx, vy, u)
    out = rim.ask(STEP, vx, vy, u).copy()
    e = 1e-6
    by_x = -(rim.ask(STEP, vx, vy, u - e)[OUT.FX] - out[OUT.FX]) / e
    by_y = -(rim.ask(STEP, vx, vy + e, u)[OUT.FY] - out[OUT.FY]) / e
    assert out[OUT.CX] == pytest.approx(by_x, rel=0.15)
    assert out[OUT.CY] == pytest.approx(by_y, rel=0.15)


# ---- standing, stopping, spinning ------------------------------------------------------------------------------------


def test_a_locked_wheel_stays_on_a_slope():
    car = Wheel()
    push = -car.m * 9.81 * math.sin(math.radians(20.0))
    for _ in range(round(2.0 / STEP)):
        car.step(push=push, locked=True)
    place = car.x
    assert -0.01 < place < 0.0
    for _ in range(round(60.0 / STEP)):
        car.step(push=push, locked=True)
    assert car.x == pytest.approx(place, abs=1e-7)
    assert abs(car.v) < 1e-9
    assert car.most_iterations <= 6


def test_a_shaken_locked_wheel_does_not_creep():
    rim = Rim()
    rim.states[S.EX] = 2e-3
    held = []
    for i in range(4000):
        rim.move(STEP, 0.02 * math.sin(2.0 * math.pi * i / 100), 0.0, 0.0)
        if i % 100 == 0:
            held.append(rim.states[S.EX])
    assert np.ptp(held) < 1e-12


@pytest.mark.parametrize("brake", [200.0, 400.0, 520.0, 2000.0])
@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_braking_to_a_stop_ends_in_rest(brake, mu):
    """Also of a wheel that locks. It springs back by a few millimetres and rocks to rest, it does not chatter."""
    car = Wheel(speed=8.0, mu=mu)
    speeds, places, forces = [], [], []
    for _ in range(round(7.0 / STEP)):
        car.step(brake=brake)
        speeds.append(car.v)
        places.append(car.x)
        forces.append(car.out[OUT.FX])
    stop = int(np.argmax(np.array(speeds) < 0.0))
    assert stop > 0
    assert max(places) - min(places[stop:]) < 0.01
    assert (np.diff(speeds[20:stop]) < 0.0).all()  # without chatter on the way
    assert abs(car.v) < 1e-6
    assert np.abs(forces[-20:]).max() < 1.0
    later = np.sign(speeds[stop:])[np.abs(speeds[stop:]) > 1e-5]
    assert np.count_nonzero(np.diff(later)) <= 12  # swings, at 1e-5 m/s long over
    assert car.most_iterations < 40


def test_a_stop_is_the_same_with_shorter_steps():
    ends = []
    for h in (STEP, STEP / 4):
        car = Wheel(speed=8.0, h=h)
        for _ in range(round(4.0 / h)):
            car.step(brake=400.0)
        ends.append(car.x)
    assert ends[0] == pytest.approx(ends[1], abs=3e-3)


def test_a_wheel_spins_up_at_standstill_with_the_friction_there_is():
    for mu in (1.0, 0.4):
        car = Wheel(mass=1e9, mu=mu)
        forces = []
        for i in range(300):
            car.step(drive=min(8.0 * i, 800.0))
            forces.append(car.out[OUT.FX])
        Dx, *_ = capacity(TYRE, LOAD, 0.0, mu)
        assert max(forces) == pytest.approx(Dx, rel=0.01)  # as it breaks loose
        slip = RADIUS * car.w / 0.5
        assert slip > 20.0
        assert forces[-1] == pytest.approx(steady(TYRE, LOAD, slip, 0, 0, mu, 1, 30.0)[0], rel=0.01)
        assert min(forces[100:]) > 0.65 * mu * LOAD


@pytest.mark.parametrize("direction", np.radians([0.0, 30.0, 90.0, 200.0]))
@pytest.mark.parametrize("speed", [0.05, 3.0])
def test_friction_opposes_sliding_at_standstill(direction, speed):
    """The rim slides sideways and spins, without going forward."""
    rim = Rim()
    u, vy = speed * math.cos(direction), speed * math.sin(direction)
    for _ in range(400):
        rim.move(STEP, 0.0, vy, u)
    fx, fy = rim.out[OUT.FX], rim.out[OUT.FY]
    size = math.hypot(fx, fy)
    assert fx * u / speed - fy * vy / speed > 0.95 * size
    assert 0.64 * LOAD < size < LOAD


@kernel()
def work_of(p, course, h, ends, states, after, out):
    """Work done on the tyre by a rim whose velocities go from row to row of `course`, in `ends` steps each."""
    tyre(p, states, states, 0, 0.0, 1940.0, 0.0, 0.0, 0.0, 0.287, 0.0, 1.0, 1.0, False, 0.0, out)
    work = 0.0
    power0 = 0.0
    for i in range(len(course) - 1):
        for k in range(ends):
            s = (k + 1.0) / ends
            vx = course[i, 0] * (1.0 - s) + course[i + 1, 0] * s
            vy = course[i, 1] * (1.0 - s) + course[i + 1, 1] * s
            u = course[i, 2] * (1.0 - s) + course[i + 1, 2] * s
            tyre(p, states, after, 0, h, 1940.0, vx, vy, u / 0.287, 0.287, 0.0, 1.0, 1.0, False, 0.0, out)
            copy(states, after)
            power = -(out[0] * (vx - u) + out[1] * vy)
            work += 0.5 * h * (power + power0)
            power0 = power
    return work


@settings(max_examples=few(80), deadline=None)
@given(
    st.lists(st.tuples(*[st.floats(-1.0, 1.0)] * 3), min_size=2, max_size=12),
    st.floats(0.01, 5.0),
    st.integers(5, 100),
)
def test_a_tyre_gives_back_less_than_it_took(course, speed, ends):
    """From rest to rest by any course: what goes in is not less than what comes out, but for the error of the sum."""
    rows = np.array([(0.0, 0.0, 0.0), *course, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)]) * speed
    assert (
        work_of(TYRE, rows, 1e-3, ends, np.zeros(STATES), np.zeros(STATES), np.zeros(OUTPUTS)) > -0.02
    )  # J; a deflection to the friction limit holds some 20


# turn slip


def parking_moment(p, fz=LOAD, mu=1.0):
    Dy = capacity(p, fz, 0.0, mu)[1]
    return p[T.QCRP1] * Dy * p[T.UNLOADED_RADIUS] * math.sqrt(fz / p[T.NOMINAL_LOAD])


def turn_on_the_spot(rim, angle, seconds=1.0, h=STEP):
    """The rim turned on the spot; moments on the way."""
    rim.turn = angle / seconds
    moments = [rim.move(h, 0.0, 0.0, 0.0)[OUT.MZ] for _ in range(round(seconds / h))]
    rim.turn = 0.0
    return np.array(moments)


@pytest.mark.parametrize("mu", [1.0, 0.5])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_turned_on_the_spot_it_is_a_spring_that_gives_way(mu, side):
    """QDRP1 = 1: straight up to the parking moment; held there without creep; and it springs back half way."""
    rim = Rim(turning=True, mu=mu, side=side)
    rim.move(0.0, 0.0, 0.0, 0.0)
    most = parking_moment(TYRE, mu=mu)
    first = turn_on_the_spot(rim, 0.01)
    stiff = -rim.move(STEP, 0.0, 0.0, 0.0)[OUT.MZ] / 0.01
    assert 100.0 < stiff < 2000.0
    assert first[-1] == pytest.approx(-0.01 * stiff, rel=0.05)
    turn_on_the_spot(rim, 0.02)
    assert rim.move(STEP, 0.0, 0.0, 0.0)[OUT.MZ] == pytest.approx(-0.03 * stiff, rel=1e-3)
    moments = turn_on_the_spot(rim, 1.0)
    assert moments[-1] == pytest.approx(-most, rel=0.01) and np.abs(moments).max() <= 1.0001 * most
    held = [rim.move(STEP, 0.0, 0.0, 0.0)[OUT.MZ] for _ in range(2000)]
    assert held[-1] == pytest.approx(-most, rel=0.01) and held[-1] == held[1]
    turn_on_the_spot(rim, -most / stiff)
    assert abs(rim.move(STEP, 0.0, 0.0, 0.0)[OUT.MZ]) < 0.02 * most


def test_in_steady_rolling_turn_slip_is_that_of_the_formula():
    for u, turn in ((10.0, 1.0), (2.0, -1.5), (-3.0, 0.7)):
        rim = Rim(FULL_TYRE, turning=True, gamma=0.05)
        rim.turn = turn
        rim.move(0.0, u, 0.3, u)
        for _ in range(4000):
            out = rim.move(STEP, u, 0.3, 1.02 * u).copy()
        kappa = math.copysign(0.02, u)  # 2 % faster backwards is slip the other way
        state = (FULL_TYRE, LOAD, kappa, 0.3 / abs(u), 0.05, 1.0, 1.0, 1.02 * u)
        expected = steady_turning(*state, turn / abs(u))
        assert out[[OUT.FX, OUT.FY, OUT.MX, OUT.MY, OUT.MZ]] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_turning_to_and_fro_takes_energy():
    rim = Rim(turning=True)
    rim.move(0.0, 0.0, 0.0, 0.0)
    rng, work, last = np.random.default_rng(5), 0.0, 0.0
    for _ in range(400):
        rim.turn = float(rng.uniform(-3.0, 3.0))
        for _ in range(5):
            moment = rim.move(STEP, 0.0, 0.0, 0.0)[OUT.MZ]
            work -= 0.5 * STEP * (moment + last) * rim.turn
            last = moment
    assert work > 10.0


def test_a_wheel_that_slides_turns_lightly():
    """Locked at speed: the moment is that of psi' / v, not that of turning on the spot."""
    rim = Rim(turning=True)
    rim.turn = 0.5
    rim.move(0.0, 20.0, 0.0, 0.0)
    for _ in range(400):
        out = rim.move(STEP, 20.0, 0.0, 0.0)
    assert abs(out[OUT.MZ]) < 0.05 * parking_moment(TYRE)


def test_without_turn_slip_turning_counts_for_nothing():
    still, turns = Rim(), Rim()
    turns.turn = 2.0
    for k in range(50):
        a, b = (rim.move(STEP, 0.1 * k, 0.02, 0.1 * k) for rim in (still, turns))
        assert (a == b).all()
    assert (still.states == turns.states).all()
