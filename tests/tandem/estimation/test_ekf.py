"""The filter beside a plain Kalman filter on a linear machine; gates, ranges, late readings."""

import numpy as np
import pytest

from sync.errors import ConfigError
from tandem.estimation import ekf
from tandem.estimation.description import read_sensors
from tandem.estimation.experiment import Seen, Truth
from tandem.estimation.make import Filter, Tuning, noise
from tandem.estimation.rows import CLIPPED, FREE, GATED, LATE, TOO_OLD, USED, R
from tandem.estimation.smoother import smooth
from tests.tandem.estimation.linear import FAILS, LINEAR, transition

H = 0.01
PARAMS = np.array([p.value for p in LINEAR.machine.parameters])
START, WALK = np.array([0.05, 0.3, 0.02]), np.array([0.0, 0.4, 1e-3])


def sensors(text=None):
    given = text or {
        "scale": {"kind": "value", "signal": "x", "rate_hz": 100.0, "noise": 0.01, "bias": 0.02, "bias_walk": 1e-3},
        "speed": {"kind": "value", "signal": "v", "rate_hz": 50.0, "noise": 0.1, "high": 5.0, "low": -5.0},
    }
    return read_sensors(given, LINEAR, H, "test")


def make(**options):
    s = sensors()
    return Filter(LINEAR, PARAMS, np.zeros(2), s, (), Tuning(START, WALK), H, **options)


def handle(k):
    return np.array([0.05 * np.sin(0.07 * k)])


def readings(steps, seed=1):
    rng = np.random.default_rng(seed)
    F, B = transition(PARAMS, H)
    x, out = np.array([0.03, -0.2]), np.full((steps, 2), np.nan)
    for k in range(steps):
        out[k, 0] = x[0] + 0.015 + 0.01 * rng.normal()
        if k % 2 == 0:
            out[k, 1] = x[1] + 0.1 * rng.normal()
        x = F @ x + B * handle(k)[0] + np.array([0.0, 0.04 * rng.normal()])
    return out


def plain(z):
    """The textbook's filter, of full matrices."""
    F2, B = transition(PARAMS, H)
    F, C = np.eye(3), np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    F[:2, :2] = F2
    Q, P, x, out = noise(LINEAR, WALK, H).reshape(3, 3), np.diag(START**2), np.zeros(3), []
    for k in range(len(z)):
        for i in range(2):
            if not np.isnan(z[k, i]):
                s = C[i] @ P @ C[i] + (0.01, 0.1)[i] ** 2
                gain = P @ C[i] / s
                x = x + gain * (z[k, i] - C[i] @ x)
                P = P - np.outer(gain, gain) * s
        x, P = F @ x, F @ P @ F.T + Q
        x[:2] += B * handle(k)[0]
        out.append((x, P))
    return out


def feed(filter, z, k, late=0):
    for i in range(2):
        if not np.isnan(z[k, i]):
            filter.take(i, k, z[k, i])


def test_on_a_linear_machine_it_is_the_kalman_filter():
    z, filter = readings(300), make()
    for k, (x, P) in enumerate(plain(z)):
        feed(filter, z, k)
        filter.observe(handle(k))
        assert np.allclose(np.concatenate([filter.state, filter.extra]), x, rtol=0, atol=1e-12)
        assert np.allclose(filter.covariance(), P, rtol=1e-9, atol=1e-15)
    assert filter.counters[:, USED].tolist() == [300, 150]
    assert filter.memory.notes[ekf.RAISED] == 0


@pytest.mark.parametrize("most", [2, 5, 100])
def test_a_late_reading_gives_to_the_bit_what_it_gives_in_time(most):
    """The first one's readings come 12 steps late, in blocks and out of order; afterwards both are the same."""
    z, steps, late = readings(200), 200, 12
    in_time, behind = make(), make(most=most)
    z[steps - 60 :, 0] = np.nan  # nothing comes late to the end, so that it can catch up
    for k in range(steps):
        feed(in_time, z, k)
        in_time.observe(handle(k))
        if not np.isnan(z[k, 1]):
            behind.take(1, k, z[k, 1])
        if k % 3 == 0 and k >= late:
            for m in (k - late + 1, k - late - 1, k - late):
                if m >= 0 and not np.isnan(z[m, 0]):
                    behind.take(0, m, z[m, 0])
        behind.observe(handle(k))
    assert behind.counters[0, LATE] > 100
    assert behind.counters[0, USED] == in_time.counters[0, USED]
    assert behind.memory.notes[ekf.ACTIVE] == 0 and behind.memory.notes[ekf.MOST_REPEATED] <= most
    assert behind.memory.estimate.tobytes() == in_time.memory.estimate.tobytes()


def test_the_same_readings_give_the_same_bits():
    z, found = readings(100), []
    for _ in range(2):
        filter = make()
        for k in range(100):
            feed(filter, z, k)
            filter.observe(handle(k))
        found.append(filter.memory.estimate.tobytes())
    assert found[0] == found[1]


def test_a_reading_too_far_off_is_counted_and_not_used():
    z, filter, other = readings(50), make(), make()
    for k in range(50):
        feed(filter, z, k)
        feed(other, z, k)
        if k == 40:
            filter.take(0, k, z[k, 0] + 1.0)
            other.take(0, k, np.nan)
        filter.observe(handle(k))
        other.observe(handle(k))
    assert filter.counters[0, GATED] == 1
    assert filter.memory.estimate.tobytes() == other.memory.estimate.tobytes()


def test_a_filter_that_gates_everything_widens_until_it_sees_again():
    """A scale that slipped by 5 m: after twenty refused readings it is believed again."""
    z, filter = readings(200), make()
    for k in range(200):
        if k == 60:
            filter.extra[0] += 5.0
        feed(filter, z, k)
        filter.observe(handle(k))
        if k == 78:
            assert filter.counters[0, GATED] == 19
    assert filter.memory.notes[ekf.WIDENED] >= 1 and filter.counters[0, GATED] < 30
    assert np.abs(filter.state[0] + filter.extra[0] - z[199, 0]) < 0.05


def test_after_a_failed_step_it_begins_anew_from_what_it_remembers():
    """The step is told to fail by an input: one estimate is lost, older readings are too old, and it finds back."""
    z, filter = readings(300), make(history=16)
    for k in range(300):
        feed(filter, z, k)
        if k == 100:
            before = filter.state.copy()
        filter.observe(np.array([FAILS]) if k == 100 else handle(k))
        if k == 100:
            assert filter.memory.notes[ekf.LOST] == 1
            assert np.allclose(np.diag(filter.covariance()), START**2)
            assert 0.0 < np.abs(filter.state - before).max() < 1.0
            assert not filter.take(0, 95, 0.0) and filter.counters[0, TOO_OLD] == 1
    assert filter.memory.notes[ekf.LOST] == 1
    assert np.abs(filter.state[0] + filter.extra[0] - z[299, 0]) < 0.05


def test_a_late_reading_whose_steps_fail_is_given_up():
    z, filter = readings(100), make(most=2)
    for k in range(100):
        if k == 60:
            filter.memory.inputs[52 % 64] = FAILS  # what is made again meets a step that fails
            filter.take(0, 50, z[50, 0])
        filter.observe(handle(k))
    assert filter.memory.notes[ekf.ABANDONED] == 1 and filter.memory.notes[ekf.ACTIVE] == 0
    assert filter.memory.notes[ekf.LOST] == 0 and np.isfinite(filter.memory.estimate).all()


def test_a_reading_at_the_end_of_its_range_or_too_old_is_not_used():
    filter = make(history=16)
    filter.take(1, 0, 5.0)
    for k in range(30):
        filter.observe(handle(k))
    assert filter.counters[1, CLIPPED] == 1
    assert not filter.take(0, 14, 0.0) and filter.take(0, 15, 0.0)
    assert not filter.take(0, 31, 0.0)  # of an instant that is still to come
    assert filter.counters[0, TOO_OLD] == 2


def test_the_constant_form_knows_no_spring():
    z, exact, free = readings(400), make(), make(form=FREE)
    off = []
    for k in range(400):
        for one in (exact, free):
            feed(one, z, k)
            one.observe(handle(k))
        off.append([np.trace(one.covariance()[:2, :2]) for one in (exact, free)])
    assert free.memory.notes[ekf.CONSTANT_STEPS] == 400 and exact.memory.notes[ekf.CONSTANT_STEPS] == 0
    assert np.mean(off, axis=0)[0] < np.mean(off, axis=0)[1]  # it is less sure


@pytest.mark.parametrize(
    "table, message",
    [
        ({"kind": "lidar"}, "sensors.a.kind = 'lidar': must be one of imu, gnss, pulses, value"),
        ({"kind": "value", "signal": "y", "rate_hz": 10.0, "noise": 1.0}, "signal 'y': must be one of x, v"),
        ({"kind": "value", "signal": "x", "rate_hz": 30.0, "noise": 1.0}, "must divide the rate of the steps, 100 Hz"),
        ({"kind": "value", "signal": "x", "rate_hz": 10.0, "noise": -1.0}, "noise = -1.0"),
        ({"kind": "pulses", "signals": ["x"], "rate_hz": 10.0}, "per_turn"),
    ],
)
def test_a_wrong_sensor_is_refused_with_its_key_and_value(table, message):
    with pytest.raises(ConfigError) as error:
        sensors({"a": table})
    assert message in str(error.value) and "test" in str(error.value)


def test_an_encoder_reads_in_the_middle_of_its_steps():
    (row,) = sensors({"a": {"kind": "pulses", "signals": ["x"], "rate_hz": 10.0, "per_turn": 48}}).rows
    quantum = 2 * np.pi / 48
    assert np.isclose(row[R.QUANTUM], quantum) and np.isclose(row[R.NOISE], quantum / np.sqrt(12))
    from tandem.estimation.experiment import read

    row.flags.writeable = False
    values = np.linspace(-1, 1, 2001)
    assert np.abs(values - [read(row, v, 0.0, 0.0) for v in values]).max() <= 0.5 * quantum * (1 + 1e-12)


def test_smoothing_is_that_of_rauch_tung_and_striebel():
    """Of the textbook: filtered estimates corrected backwards, with an inverse of every predicted covariance."""
    z, steps = readings(80), 80
    F2, B = transition(PARAMS, H)
    F, C, R_ = np.eye(3), np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), (0.01**2, 0.1**2)
    F[:2, :2] = F2
    Q, P, x = noise(LINEAR, WALK, H).reshape(3, 3), np.diag(START**2), np.zeros(3)
    filtered, predicted = [], []
    for k in range(steps):
        for i in range(2):
            if not np.isnan(z[k, i]):
                s = C[i] @ P @ C[i] + R_[i]
                gain = P @ C[i] / s
                x, P = x + gain * (z[k, i] - C[i] @ x), P - np.outer(gain, gain) * s
        filtered.append((x, P))
        x, P = F @ x, F @ P @ F.T + Q
        x[:2] += B * handle(k)[0]
        predicted.append((x, P))
    x, P = filtered[-1]
    wanted = [(x, P)]
    for k in range(steps - 2, -1, -1):
        (a, A), (p, S) = filtered[k], predicted[k]
        G = A @ F.T @ np.linalg.inv(S)
        x, P = a + G @ (x - p), A + G @ (P - S) @ G.T
        wanted.append((x, P))
    wanted.reverse()
    truth = Truth(Seen(z, np.zeros((0, 2)), np.zeros((0, 4)), np.zeros((0, 1)), np.ones_like(z), np.zeros((0, 0))),
                  np.array([handle(k) for k in range(steps)]), 1, PARAMS, LINEAR.machine)  # fmt: skip
    smoothed = smooth(make(), truth)
    for k in range(steps):
        estimate = np.concatenate([smoothed.estimates[k, :2], smoothed.estimates[k, 5:6]])
        assert np.allclose(estimate + smoothed.corrections[k], wanted[k][0], rtol=0, atol=1e-10)
        assert np.allclose(smoothed.covariances[k], wanted[k][1], rtol=1e-6, atol=1e-12)
