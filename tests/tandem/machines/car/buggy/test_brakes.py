"""Brakes on a wheel: free, hung on a tyre's spring, and carrying a quarter of a car over a slippery road."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.compile.array_copy import copy
from sync.compile.jit import kernel
from tandem.machines.car.buggy.brake_parameters import MEMORY, OPEN_BAR, PARAMETERS, STATES, M, P, S
from tandem.machines.car.buggy.brakes import brake, control, friction_limit
from tests.examples import few

J, RADIUS, G = 0.6, 0.275, 9.81
H = 5e-3


def parameters(**changed: float) -> np.ndarray:
    values = {p.name: p.value for p in PARAMETERS} | changed
    return np.array([values[p.name] for p in PARAMETERS])


PAR = parameters()


@kernel()
def turn(par, limit, load, spring, states, after, motion, h):
    """One implicit step of a wheel under a constant torque, on a spring to the ground; motion: angle, speed,
    acceleration. Returns the iterations of Newton's rule."""
    w = motion[1]
    count = 0
    for _ in range(30):
        count += 1
        T, slope = brake(par, limit, states, after, 0, h, w, J)
        angle = motion[0] + 0.5 * h * (motion[1] + w)
        residual = J * (w - motion[1] - 0.5 * h * motion[2]) - 0.5 * h * (T + load - spring * angle)
        change = residual / (J + 0.5 * h * (slope + 0.5 * h * spring))
        w -= change
        if abs(change) < 1e-13:
            break
    motion[0] += 0.5 * h * (motion[1] + w)
    T, slope = brake(par, limit, states, after, 0, h, w, J)
    motion[1] = w
    motion[2] = (T + load - spring * motion[0]) / J
    copy(states, after)
    return count


class Wheel:
    def __init__(self, speed: float = 0.0, par: np.ndarray = PAR) -> None:
        self.par = par
        self.states, self.after = np.zeros((2, len(STATES)))
        self.states[S.wheel_speed] = speed
        self.motion = np.array([0.0, speed, 0.0])
        self.iterations = 0

    def run(self, seconds: float, limit: float, load: float = 0.0, spring: float = 0.0, h: float = H) -> np.ndarray:
        """Rows of angle, speed, acceleration."""
        T, _ = brake(self.par, limit, self.states, self.after, 0, 0.0, self.motion[1], J)
        self.motion[2] = (T + load - spring * self.motion[0]) / J
        record = np.empty((round(seconds / h), 3))
        for row in record:
            count = turn(self.par, limit, load, spring, self.states, self.after, self.motion, h)
            self.iterations = max(self.iterations, count)
            row[:] = self.motion
        return record


@kernel()
def quarter_car(par, line_bar, mu, speed, states, after, memory, record):
    """A quarter of a car braked to rest on a tyre with peak friction mu. Control every 5 ms, motion in 20 parts of it.

    record: a row per step of speed, slip, wheel pressure. Returns steps and distance.
    """
    m = 200.0
    memory[M.valve_bar] = OPEN_BAR
    v, w, lagged, x = speed, speed / RADIUS, 0.0, 0.0
    states[S.wheel_speed] = w
    dt = H / 20
    for i in range(len(record)):
        bar = control(par, memory, 0, line_bar, RADIUS * w, v, H)
        limit = friction_limit(par, True, bar)
        for _ in range(20):
            # force follows slip over 0.15 m of rolling; its peak is at slip 0.144, a locked wheel has 0.79 of it
            slip = (v - RADIUS * w) / max(v, 0.5)
            lagged += (slip - lagged) * min(dt * max(v, 0.5) / 0.15, 1.0)
            F = mu * m * G * np.sin(1.5 * np.arctan(12.0 * lagged))
            w1 = w
            for _ in range(10):
                T, slope = brake(par, limit, states, after, 0, dt, w1, J)
                w1 -= (J * (w1 - w) - dt * (T + RADIUS * F)) / (J + dt * slope)
            brake(par, limit, states, after, 0, dt, w1, J)
            copy(states, after)
            w = w1
            v -= dt * F / m
            x += dt * v
        record[i, 0], record[i, 1], record[i, 2] = v, 1.0 - RADIUS * w / max(v, 0.01), bar
        if v < 0.05:
            return i + 1, x
    return len(record), x


def test_torque_per_bar_and_drag() -> None:
    assert friction_limit(PAR, True, 10.0) == pytest.approx(111.0)
    assert friction_limit(PAR, False, 10.0) == pytest.approx(66.0)
    assert friction_limit(PAR, True, -3.0) == PAR[P.brake_drag]


@settings(max_examples=few(30), deadline=None)
@given(st.floats(1.0, 450.0), st.floats(-0.98, 0.98), st.sampled_from([0.0, 2e4]))
def test_a_torque_below_the_limit_is_held_for_ever(limit: float, part: float, spring: float) -> None:
    wheel = Wheel()
    early = wheel.run(1.0, limit, part * limit, spring)
    late = wheel.run(5.0, limit, part * limit, spring)
    assert abs(late[:, 0] - early[-1, 0]).max() < 1e-12
    assert abs(late[:, 1]).max() < 1e-9
    if abs(part) < 0.4:  # a load put on at once swings, and a larger one slips before it is held
        assert abs(early[:, 0]).max() < limit / PAR[P.brake_stiffness]


def test_above_the_limit_the_wheel_turns_under_what_is_left() -> None:
    wheel = Wheel()
    record = wheel.run(1.0, 100.0, 130.0)
    assert record[50:, 2] == pytest.approx(30.0 / J, rel=1e-12)


@settings(max_examples=few(60), deadline=None)
@given(st.floats(-60.0, 60.0), st.floats(5.0, 441.0))
def test_a_turning_wheel_is_stopped_in_time_and_stays(speed: float, limit: float) -> None:
    wheel = Wheel(speed)
    due = abs(speed) * J / limit
    record = wheel.run(due + 0.5, limit)
    angle = np.sign(speed) * record[:, 0]
    assert angle.max() == pytest.approx(0.5 * abs(speed) * due, abs=1.2 * limit / PAR[P.brake_stiffness])
    assert angle.max() - angle[-1] < limit / PAR[P.brake_stiffness]  # no more than the wind-up comes back
    assert abs(record[-20:, 1]).max() < 1e-7
    assert wheel.iterations <= 5


def test_a_stopping_wheel_does_not_give_back_the_whole_wind_up() -> None:
    wheel = Wheel(20.0)
    angle = wheel.run(0.3, 400.0, h=1e-4)[:, 0]
    assert angle.max() - angle[-1] < 0.6 * 400.0 / PAR[P.brake_stiffness]


def test_release_lets_go_at_once() -> None:
    wheel = Wheel()
    wheel.run(1.0, 300.0, 200.0)
    assert wheel.states[S.wind_up] == pytest.approx(200.0 / PAR[P.brake_stiffness])
    record = wheel.run(0.5, 1.0, 200.0)
    assert record[:, 2] == pytest.approx(199.0 / J)
    assert abs(wheel.states[S.wind_up]) <= 1.0 / PAR[P.brake_stiffness]


def test_held_in_second_order() -> None:
    """A held wheel on its tyre's spring, pushed by a load that grows as sin^2: error a quarter for half the step."""
    ends = []
    for h in (5e-4, 2.5e-4, 1.25e-4, 6.25e-5):
        wheel = Wheel()
        for i in range(round(0.05 / h)):
            load = 100.0 * np.sin(20.0 * (i + 1) * h) ** 2
            turn(PAR, 441.0, load, 2e4, wheel.states, wheel.after, wheel.motion, h)
        ends.append(wheel.motion[0])
    ratios = [(ends[i] - ends[i + 1]) / (ends[i + 1] - ends[i + 2]) for i in range(2)]
    assert ratios == pytest.approx([4.0, 4.0], rel=0.1)


NUMBER = st.floats(-1e12, 1e12)


@settings(max_examples=few(200), deadline=None)
@given(NUMBER, NUMBER, NUMBER, st.floats(0.0, 1e6), st.sampled_from([0.0, 1e-4, 5e-3, 1.0]))
def test_any_numbers_are_answered_within_the_limit(
    wind_up: float, before: float, w: float, limit: float, h: float
) -> None:
    states, after = np.array([wind_up, before]), np.zeros(2)
    torque, slope = brake(PAR, limit, states, after, 0, h, w, J)
    assert abs(torque) <= limit and slope >= 0.0
    if h <= H:  # with a longer step the brake is taken softer
        assert abs(after[S.wind_up]) <= limit / PAR[P.brake_stiffness] * (1.0 + 1e-15)
    assert list(states) == [wind_up, before]


@settings(max_examples=few(200), deadline=None)
@given(st.floats(-0.02, 0.02), st.floats(-3.0, 3.0), st.floats(-3.0, 3.0))
def test_slope_is_that_of_the_torque(wind_up: float, before: float, w: float) -> None:
    states, after, e = np.array([wind_up, before]), np.zeros(2), 1e-7
    low, slope_low = brake(PAR, 300.0, states, after, 0, H, w - e, J)
    high, slope_high = brake(PAR, 300.0, states, after, 0, H, w + e, J)
    if slope_low == slope_high:
        assert (low - high) / (2.0 * e) == pytest.approx(slope_low, abs=1e-3)
    assert high <= low


@settings(max_examples=few(30), deadline=None)
@given(st.lists(st.tuples(st.floats(-8.0, 8.0), st.floats(0.0, 400.0)), min_size=2, max_size=6))
def test_only_takes_energy(motion: list[tuple[float, float]]) -> None:
    """Whatever the wheel is made to do: work done by the brake is never more than its spring had."""
    h, states, after, work, last = 2e-4, np.zeros(2), np.zeros(2), 0.0, 0.0
    speeds = np.interp(np.arange(0.0, len(motion) - 1.0, 0.01), range(len(motion)), [m[0] for m in motion])
    states[S.wheel_speed] = speeds[0]
    for i, w in enumerate(speeds):
        torque, _ = brake(PAR, motion[int(i * 0.01)][1] + 1.0, states, after, 0, h, w, J)
        work += 0.5 * h * (torque * w + last)
        last = torque * w
        states[:] = after
        spring = 0.5 * PAR[P.brake_stiffness] * states[S.wind_up] ** 2
        assert work + spring < 0.02


def test_without_control_pressure_passes() -> None:
    memory = np.array([3.0, 0.0])
    assert control(PAR, memory, 0, 25.0, 0.0, 20.0, H) == 25.0
    assert memory[M.valve_bar] == OPEN_BAR and len(memory) == len(MEMORY)


@pytest.mark.parametrize("mu, line_bar", [(0.9, 60.0), (0.3, 40.0)])
@pytest.mark.parametrize("speed", [15.0, 30.0])
def test_anti_lock_keeps_the_wheel_turning_and_the_way_short(mu: float, line_bar: float, speed: float) -> None:
    ideal = speed**2 / (2.0 * mu * G)
    record = np.zeros((4000, 3))
    steps, locked_way = quarter_car(PAR, line_bar, mu, speed, *np.zeros((3, 2)), record)
    assert record[steps // 2, 1] > 0.99 and locked_way > 1.2 * ideal
    steps, way = quarter_car(parameters(abs=1.0), line_bar, mu, speed, *np.zeros((3, 2)), record)
    controlled = record[:steps][record[:steps, 0] > 2.5]
    assert controlled[:, 1].max() < 0.5
    assert ideal < way < 1.15 * ideal
    assert record[:steps, 0].min() < 0.05
