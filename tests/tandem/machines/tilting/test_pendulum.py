"""The tilting vehicle and its filter: tangents beside differences, its balance, consistency on seeded runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from tandem.estimation.consistency import mean_band, nees
from tandem.estimation.description import read_sensors
from tandem.estimation.experiment import record, replay
from tandem.estimation.make import Filter, Tuning
from tandem.estimation.rows import GATED, WIDTH, R
from tandem.estimation.smoother import smooth
from tandem.estimation.unscented import replay_unscented
from tandem.machines.tilting import GRAVITY, MACHINE, P, S, W
from tandem.machines.tilting.observed import OBSERVED

H = 0.005
PARAMS = np.array([p.value for p in MACHINE.parameters])
WHICH = np.array([0, 1], np.int32)
WHICH.flags.writeable = False
SENSORS = {
    "imu": {
        "kind": "imu", "place": [0.1, 0.05, 0.9], "rate_hz": 200.0, "force_noise": 0.05, "rate_noise": 0.002,
        "force_bias": 0.1, "rate_bias": 0.01, "force_bias_walk": 1e-3,
    },
    "potentiometer": {"kind": "value", "signal": "joint", "rate_hz": 200.0, "noise": 0.01},
    "torque": {"kind": "value", "signal": "torque", "rate_hz": 200.0, "noise": 10.0},
    "speed": {"kind": "value", "signal": "speed", "rate_hz": 20.0, "noise": 0.1, "latency_ms": 50.0},
}  # fmt: skip
START = np.array([0.05, 0.1, 20.0, 0.05, 0.3, 0.02])
BEGIN = np.array([0.0, 0.0, 0.0, 0.0, 8.0, 0.0])
WALK = np.array([0.0, 0.03, 10.0, 0.01, 0.03, 1e-4])


def state():
    return np.array([0.2, -0.3, 80.0, 0.4, 9.0, 1.0])


def linearise(x, params, extra, work=None):
    x, F, at = x.copy(), np.zeros(54), np.zeros(OBSERVED.at_size)
    work = np.zeros(MACHINE.work_size) if work is None else work
    OBSERVED.linearise(x, np.array([0.1, 0.3]), params, MACHINE.tables, work, H, WHICH, extra, F, at)
    return x, F.reshape(9, 6)[:8].T, at


def moved(k, d):
    """State, parameters, bank and mass with one of the eight directions moved."""
    x, params, extra = state(), PARAMS.copy(), np.array([0.03, PARAMS[P.mass]])
    if k < 6:
        x[k] += d
    else:
        extra[k - 6] += d
    params[P.mass] = extra[1]
    return x, params, extra


def test_the_tangent_is_that_of_the_step():
    own = np.zeros(MACHINE.work_size)
    x, F, _ = linearise(*moved(0, 0.0), own)
    y, work = state(), np.zeros(MACHINE.work_size)
    MACHINE.step(y, np.array([0.1, 0.3]), PARAMS, MACHINE.tables, work, H)
    assert x.tobytes() == y.tobytes() and own.tobytes() == work.tobytes()
    d = 1e-5
    G = np.array([(linearise(*moved(k, d))[0] - linearise(*moved(k, -d))[0]) / (2 * d) for k in range(8)]).T
    assert np.allclose(F, G, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("signal", range(5))
def test_slopes_of_every_sensor_are_those_of_differences(signal):
    row = np.zeros(WIDTH)
    row[R.PLACE : R.PLACE + 3], row[R.DIRECTION : R.DIRECTION + 3] = (0.1, 0.2, 0.9), (0.2, 0.6, 0.7)
    row.flags.writeable = False

    def at(k, d):
        slopes = np.zeros(8)
        return OBSERVED.measure(
            signal, row, 0.0, linearise(*moved(k, d))[2], MACHINE.tables, np.zeros(0), WHICH, slopes
        ), slopes

    d = 1e-5
    G = [(at(k, d)[0] - at(k, -d)[0]) / (2 * d) for k in range(8)]
    assert np.allclose(at(0, 0.0)[1], G, rtol=1e-7, atol=1e-7)


def test_it_leans_until_its_occupant_feels_nothing_sideways():
    x, work = np.zeros(6), np.zeros(MACHINE.work_size)
    MACHINE.initial(x, PARAMS, MACHINE.tables, work)
    for _ in range(2000):
        MACHINE.step(x, np.array([0.08, 0.0]), PARAMS, MACHINE.tables, work, H)
    a = work[W.lateral_acceleration]
    assert a > 2.0 and abs(x[S.roll] + np.arctan(a / GRAVITY)) < 1e-6 and abs(work[W.felt]) < 1e-5
    # an accelerometer there, at the joint, feels it too; above it also while it rolls
    row = np.zeros(WIDTH)
    row[R.DIRECTION + 1] = 1.0
    row.flags.writeable = False
    at = linearise(x, PARAMS, np.array([0.0, PARAMS[P.mass]]))[2]
    at[7] = 0.0
    assert abs(OBSERVED.measure(0, row, 0.0, at, MACHINE.tables, np.zeros(0), WHICH, np.zeros(8))) < 1e-4


def begun():
    """A filter at its beginning."""
    sensors = read_sensors(SENSORS, OBSERVED, H, "test")
    biases = [(b.start, b.walk) for b in sensors.biases]
    start = np.array([*START, 25.0, *(b for b, _ in biases)])
    walk = np.array([*WALK, 1e-2, *(w for _, w in biases)])
    return Filter(OBSERVED, PARAMS, BEGIN, sensors, ("mass",), Tuning(start, walk), H)


def runs(count, steps):
    """(filter, truth, estimates) of seeded runs whose true start and mass are drawn from what the filter believes."""
    sensors, t = read_sensors(SENSORS, OBSERVED, H, "test"), H * np.arange(steps)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        params, inputs = PARAMS.copy(), np.zeros((steps, 2))
        params[P.mass] += 25.0 * rng.normal()
        for _ in range(3):
            inputs[:, 0] += rng.uniform(0.02, 0.06) * np.sin(rng.uniform(0.6, 5.0) * t + rng.uniform(0.0, 6.0))
        truth = record(
            OBSERVED, params, BEGIN + START * rng.normal(size=6), inputs, sensors, H, seed, motion=WALK, every=10
        )
        filter = begun()
        yield filter, truth, replay(filter, truth)


def test_errors_are_as_large_as_the_filter_says():
    """Normalised errors squared, averaged over seeded runs, lie in their two-sided 95 % band for 90 % of the time."""
    found, innovations = [], []
    for filter, truth, estimates in runs(20, 800):
        found.append(nees(filter, truth, estimates, np.array([truth.params[P.mass]])))
        innovations.append(estimates.innovations.reshape(800, -1, 2)[200:])
        assert filter.counters[:, GATED].sum() <= 1
    mean, (low, high) = np.mean(found, axis=0), mean_band(filter.order, 20)
    inside = np.mean((mean > low) & (mean < high))
    assert inside > 0.9, inside
    all_of_them = np.array(innovations)
    ratio = np.nanmean(all_of_them[..., 0] ** 2 / all_of_them[..., 1], axis=(0, 1))
    assert np.all(np.abs(ratio - 1.0) < 0.1), ratio  # every sensor's innovations are as large as expected


def test_a_bank_is_told_from_a_lean():
    """The potentiometer sees tilt against the base, the accelerometer the vertical: together they give the bank."""
    sensors = read_sensors(SENSORS, OBSERVED, H, "test")
    inputs = np.zeros((1200, 2))
    inputs[:, 0] = 0.05 * np.sin(0.01 * np.arange(1200))
    truth = record(OBSERVED, PARAMS, BEGIN, inputs, sensors, H, 3)
    truth.seen.readings[:, list(sensors.names).index("potentiometer")] -= 0.06
    biases = [b.start for b in sensors.biases]
    tuning = Tuning(np.array([*START, 0.1, *biases]), np.array([*WALK, 1e-3, *0.0 * np.array(biases)]))
    filter = Filter(OBSERVED, PARAMS, BEGIN, sensors, ("bank",), tuning, H)
    replay(filter, truth)
    assert abs(filter.extra[0] - 0.06) < 4.0 * np.sqrt(filter.covariance()[6, 6]) < 0.04


def test_points_and_derivatives_agree_where_the_machine_is_nearly_linear():
    """The unscented filter beside the extended one, both with readings in order: the same estimate and covariance."""
    ((_, truth, _),) = runs(1, 200)
    sensors = read_sensors(SENSORS, OBSERVED, H, "test")
    biases = [(b.start, b.walk) for b in sensors.biases]
    tuning = Tuning(
        np.array([*0.1 * START, 2.5, *(b for b, _ in biases)]), np.array([*WALK, 1e-2, *(w for _, w in biases)])
    )
    start = truth.seen.states[0]
    both = []
    for how in ("extended", "unscented"):
        filter = Filter(OBSERVED, truth.params, start, sensors, ("mass",), tuning, H)
        if how == "extended":
            replay(filter, truth, in_order=True)
        else:
            replay_unscented(filter, truth, tuning.walk)
        both.append((np.concatenate([filter.state, filter.extra]), filter.covariance()))
    (x, P), (y, Q) = both
    sigma = np.sqrt(np.diag(P))
    assert np.abs((x - y) / sigma).max() < 0.1
    assert np.abs((P - Q) / np.outer(sigma, sigma)).max() < 0.05


def test_smoothing_is_better_and_ends_where_the_filter_does():
    """Beside Rauch, Tung and Striebel's on the linear part it is checked in test_ekf.py; here errors shrink."""
    ((_, truth, _),) = runs(1, 600)
    smoothed = smooth(begun(), truth)
    off = np.array([truth.seen.states[k] - smoothed.estimates[k, :6] for k in range(len(smoothed.estimates))])
    left = off - smoothed.corrections[:, :6]
    better = np.mean(left**2, axis=0) / np.mean(off**2, axis=0)
    assert np.all(better[:5] < 0.9), better  # nothing measures the heading
    sigma = np.sqrt(np.array([np.diag(P)[:6] for P in smoothed.covariances]))
    assert 0.4 < np.mean((left / sigma)[:, :5] ** 2) < 2.5


def test_what_the_page_shows_is_executed(capsys):
    text = (Path(__file__).parents[4] / "docs" / "observer_files.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "docs/observer_files.md", "exec"), {})
    roll, sigma = map(float, capsys.readouterr().out.split())
    assert abs(roll) < 0.02 and 0.0 < sigma < 0.01
