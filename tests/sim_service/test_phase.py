"""The phase lock alone, in simulated time: ten minutes take a second."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import float64, int64, types

from sim_service.phase import (
    APPLIED,
    DELAY,
    ERROR,
    FREQUENCY,
    GUARD_NS,
    LOCKED,
    QUANTILE,
    UNIT,
    advance,
    align,
    arrival_histograms,
    arrived,
    cheapest_delay,
    overdue,
    phase_state,
    phase_unit_ns,
    usual_delay,
)
from sync.compile.jit import kernel
from sync.ring.ledger import record
from tests.examples import few

H, P = 5_000_000, 1_000_000


@kernel(
    types.void(
        float64[::1],
        int64[:, ::1],
        int64,
        float64,
        float64,
        int64,
        int64,
        float64[::1],
        int64[::1],
        int64,
        int64[:, ::1],
    )
)
def drive_in_simulated_time(
    phase, arrivals, h_ns, period_ns, start_ns, steps, delay_ns, jitter_ns, pause, late_ns, out
):
    """Blocks sampled every `period_ns` from `start_ns` on arrive `delay_ns` + jitter later; steps follow the lock.

    No blocks come from step pause[0] to pause[1]. `out` rows: planned, seq used, age, locked.
    """
    planned = np.int64(start_ns) + h_ns
    seen, used = np.int64(-1), np.int64(-1)
    for k in range(steps):
        now = planned + late_ns
        newest = used
        n = seen + 1
        while True:
            t = np.int64(start_ns + n * period_ns)
            came = t + delay_ns + np.int64(jitter_ns[n % jitter_ns.size])
            if came > now:
                break
            if not pause[0] <= k < pause[1]:
                arrived(phase, arrivals, came - t)
                newest = n
            seen = n
            n += 1
        fresh = newest != used
        used = newest
        t = np.int64(start_ns + used * period_ns)
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = planned, used, now - t, np.int64(phase[LOCKED])
        planned = advance(phase, t, fresh, planned, h_ns)


def _run(ppm: float, steps: int, jitter: np.ndarray | None = None, delay: int = 50_000, pause=(0, 0), rate=P, h=H):
    phase = phase_state("locked", h, rate, 0.005)
    arrivals = arrival_histograms()
    out = np.zeros((steps, 4), np.int64)
    jitter = np.zeros(1) if jitter is None else jitter
    period = rate * (1 + ppm * 1e-6)
    start = 1e9 + 20e6  # twenty milliseconds after the other clock
    drive_in_simulated_time(
        phase, arrivals, h, period, start, steps, delay, jitter, np.array(pause, np.int64), 10_000, out
    )
    return phase, out


@pytest.mark.parametrize("ppm", [-100.0, 0.0, 100.0])
def test_ten_minutes_with_a_foreign_crystal_stay_locked(ppm: float) -> None:
    jitter = np.random.default_rng(3).exponential(8_000, 100_003)
    phase, out = _run(ppm, 120_000, jitter)
    settled = out[4_000:]
    assert settled[:, 3].all()
    ages = settled[:, 2]
    # transfer (50 us and jitter) and margin, never the half period of a free timer
    assert ages.mean() < 50_000 + 100_000 + 10_000
    assert np.percentile(ages, 99) < 250_000
    # as many blocks as the rates imply, none twice: five a step; a block that comes too late gives four and then six
    strides = np.diff(settled[:, 1])
    assert set(np.unique(strides)) <= {4, 5, 6}
    assert (strides != 5).mean() < 2e-3
    assert abs(strides.sum() - 5 * len(strides)) <= 1
    # the model's time is the DAQ's time
    assert phase[FREQUENCY] / H * 1e6 == pytest.approx(ppm, abs=2.0)
    step = np.diff(settled[:, 0]).mean()
    assert (step / H - 1) * 1e6 == pytest.approx(ppm, abs=0.5)


def test_without_a_lock_the_age_is_a_sawtooth() -> None:
    """The comparison: a free timer and a crystal 100 ppm off pass through every age up to a sampling period."""
    steps = np.arange(60_000)
    planned = 1_000_000_000 + H * steps
    period = P * (1 + 100e-6)
    age = (planned - 1_020_000_000) % period
    assert age.min() < 20_000 and age.max() > 980_000
    assert np.count_nonzero(np.abs(np.diff(age)) > P / 2) >= 29


def test_a_pause_is_held_over_and_pulled_in_again() -> None:
    phase, out = _run(80.0, 12_000, pause=(6_000, 8_000))  # ten seconds without a block
    assert out[5_999, 3] == 1
    error_after = 80e-6 * 10e9 * 0.05  # holdover knows the frequency: far less than the drift of those ten seconds
    assert abs(phase[ERROR]) < 5_000
    assert out[8_001:8_100, 2].max() < 50_000 + GUARD_NS + 60_000 + error_after
    assert out[8_200:, 3].all()


def test_corrections_never_exceed_the_slew_limit() -> None:
    _, out = _run(0.0, 2_000, delay=400_000)
    assert np.abs(np.diff(out[:, 0]) - H).max() <= 0.005 * H + 1


def test_slower_sampling_than_stepping_locks_too() -> None:
    phase, out = _run(50.0, 4_000, rate=20_000_000)
    assert phase[UNIT] == H
    fresh = np.diff(out[1_000:, 1]) > 0
    assert fresh.mean() == pytest.approx(0.25, abs=0.01)
    first = out[1_000:][np.concatenate([[False], fresh])]
    assert first[:, 2].max() < 200_000  # a new block is used just after it came


def test_one_block_a_step_is_used_once_each() -> None:
    jitter = np.random.default_rng(5).exponential(5_000, 10_007)
    _, out = _run(100.0, 20_000, jitter, rate=H)
    assert (np.diff(out[500:, 1]) == 1).all()


def test_a_new_delay_does_not_pass_for_drift() -> None:
    phase, out = _run(100.0, 4_000)
    frequency, planned, t = phase[FREQUENCY], int(out[-1, 0]), 1_020_000_000 + round(out[-1, 1] * P * (1 + 100e-6))
    phase[DELAY] += 300_000
    moved = 0
    for k in range(1, 100):
        h = round(H * (1 + 100e-6))
        following = advance(phase, t + k * h, True, planned + h * (k == 1), H)
        assert abs(following - planned - h * (k == 1) - H) <= 0.005 * H + 1
        planned, moved = following, following - out[-1, 0] - (k + 1) * h
    assert phase[APPLIED] == phase[DELAY]
    assert moved == pytest.approx(300_000, abs=2_000)
    assert abs(phase[FREQUENCY] - frequency) < 5e-6 * H


@given(st.integers(0, 10**12), st.integers(-400_000, 400_000), st.integers(0, 5))
@settings(deadline=None)
def test_a_block_is_overdue_if_a_newer_one_should_be_there(t: int, off: int, behind: int) -> None:
    phase = phase_state("locked", H, P, 0.005)
    phase[APPLIED] = 120_000
    planned = t + 120_000 + off  # in phase to less than half a period
    assert overdue(phase, t - behind * P, planned) == (behind > 0)


@pytest.mark.parametrize(
    "step, period, unit",
    [(H, P, P), (H, 100_000, 100_000), (H, H, H), (H, 20_000_000, H), (H, 3_000_000, 0), (5_000_700, P, P)],
)
def test_a_lock_needs_multiples(step: int, period: int, unit: int) -> None:
    assert phase_unit_ns(step, period) == unit


@given(st.lists(st.integers(1_000, 900_000), min_size=1, max_size=300))
@settings(deadline=None, max_examples=few(50))
def test_the_delay_is_the_cheapest_there_is(delays: list[int]) -> None:
    arrivals = arrival_histograms()
    for delay in delays:
        record(arrivals[0], delay)
    cost = 20.0 * P
    chosen = cheapest_delay(arrivals, cost, float(P))

    def price(v: float) -> float:
        return v + cost * float(np.mean(np.array(delays) > v))

    # to the width of a bucket
    assert price(chosen) <= min(price(float(d)) for d in delays) * 1.035


@given(st.lists(st.integers(1_000, 900_000), min_size=1, max_size=300), st.floats(0.5, 0.999))
@settings(deadline=None, max_examples=few(50))
def test_so_many_blocks_are_there_after_the_usual_delay(delays: list[int], quantile: float) -> None:
    arrivals = arrival_histograms()
    for k, delay in enumerate(delays):
        record(arrivals[k % 2], delay)
    chosen = usual_delay(arrivals, quantile, float(P))
    right = float(np.quantile(delays, quantile, method="inverted_cdf"))
    assert 0.965 * right <= chosen <= 1.035 * right  # to the width of a bucket


def test_a_block_later_than_a_period_is_not_waited_for_by_all() -> None:
    arrivals = arrival_histograms()
    for delay in [50_000] * 40 + [1_500_000] * 60:
        record(arrivals[0], delay)
    assert usual_delay(arrivals, 0.9, float(P)) < 60_000


def test_steps_are_locked_to_the_quantile_where_blocks_are_waited_for() -> None:
    jitter = np.random.default_rng(3).exponential(20_000, 100_003).astype(np.int64)
    phase, arrivals = phase_state("locked", H, P, 0.005, 0.9), arrival_histograms()
    for each in jitter[:20_000]:
        arrived(phase, arrivals, 50_000 + each)
    expected = 50_000 + np.quantile(jitter, 0.9)
    assert phase[DELAY] - GUARD_NS == pytest.approx(expected, rel=0.06)
    # of blocks that come more seldom than steps none is waited for
    assert phase_state("locked", H, 20_000_000, 0.005, 0.9)[QUANTILE] == 0.0


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 999_999))
@settings(deadline=None)
def test_alignment_is_in_phase_and_soon(t: int, ahead: int, delay: int) -> None:
    phase = phase_state("locked", H, P, 0.005)
    phase[DELAY] = delay
    now = t + ahead
    planned = align(phase, t, now)
    assert now < planned <= now + P + 1
    assert min((planned - t - delay) % P, -(planned - t - delay) % P) <= 2
