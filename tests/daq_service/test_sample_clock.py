"""Instants of a device's own clock, from observations that come late by chance but never early."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daq_service.sample_clock import SampleClock
from tests.examples import few

SECOND = 1_000_000_000
START = 5 * 10**12


class Run:
    """A device off by `ppm`, read as an acquisition would, with delays that a seed draws."""

    def __init__(self, rate_hz: float, ppm: float, seed: int, least_us: float, spread_us: float, start: bool = True):
        self.random = np.random.default_rng(seed)
        self.nominal = 1e9 / rate_hz
        self.period = self.nominal * (1.0 + ppm * 1e-6)
        self.least, self.spread = least_us * 1e3, spread_us * 1e3
        self.clock = SampleClock(self.nominal)
        if start:
            self.clock.start(START - round(self.random.uniform(0, 2e6)))
        self.told: list[np.ndarray] = []
        self.seen: list[int] = []  # when the last of each batch was seen
        self.k = 0

    def true(self, k: np.ndarray) -> np.ndarray:
        return START + k * self.period

    def go(self, seconds: float, scans: int) -> None:
        end = self.k + max(int(seconds * 1e9 / self.nominal), 1)
        while self.k < end:
            count = min(scans, end - self.k)
            if self.random.random() < 0.02:
                count = min(scans * int(self.random.integers(2, 20)), end - self.k)  # the reader was kept waiting
            self.k += count
            late = self.least + self.spread * self.random.exponential() * (self.random.random() < 0.7)
            t = round(START + (self.k - 1) * self.period + late)
            t = max(t, self.seen[-1] + 1 if self.seen else 0)  # calls follow one another
            self.clock.saw(self.k, t)
            times = np.zeros(count, np.int64)
            self.clock.instants(self.k - count, times)
            self.told.append(times)
            self.seen.append(t)


RATES = st.sampled_from([1.0, 20.0, 100.0, 1000.0, 3000.0, 10_000.0])
SEEDS = st.integers(0, 2**32 - 1)
PPM = st.floats(-100, 100)


@settings(max_examples=few(60), deadline=None)
@given(rate=RATES, ppm=PPM, seed=SEEDS, least=st.floats(0, 500), spread=st.floats(0, 3000), start=st.booleans())
def test_instants_rise_and_are_never_ahead_of_the_clock(
    rate: float, ppm: float, seed: int, least: float, spread: float, start: bool
) -> None:
    run = Run(rate, ppm, seed, least, spread, start)
    run.go(min(6.0, 20_000 / rate), max(round(rate * 0.005), 1))
    assert (np.diff(np.concatenate(run.told)) > 0).all()
    assert all(told[-1] <= seen for told, seen in zip(run.told, run.seen, strict=True))


@settings(max_examples=few(15), deadline=None)
@given(rate=st.sampled_from([100.0, 1000.0, 10_000.0]), ppm=PPM, seed=SEEDS, least=st.floats(0, 500))
def test_once_settled_they_are_off_by_the_least_delay_and_little_more(
    rate: float, ppm: float, seed: int, least: float
) -> None:
    run = Run(rate, ppm, seed, least, spread_us=300.0)
    run.go(25.0, max(round(rate * 0.02), 1))
    told = np.concatenate(run.told)
    settled = np.arange(len(told)) > rate * 10
    off_us = (told - run.true(np.arange(len(told))))[settled] * 1e-3 - least
    assert off_us.min() > -40.0 and off_us.max() < 40.0
    assert run.clock.ppm == pytest.approx(ppm, abs=4.0)


@settings(max_examples=few(15), deadline=None)
@given(ppm=PPM, seed=SEEDS, least=st.floats(0, 50))
def test_a_slow_clock_is_found_as_well_as_its_few_samples_allow(ppm: float, seed: int, least: float) -> None:
    run = Run(1.0, ppm, seed, least, spread_us=20.0)
    run.go(60.0, 1)
    told = np.concatenate(run.told)
    off_us = (told - run.true(np.arange(len(told))))[30:] * 1e-3 - least
    assert np.abs(off_us).max() < 100.0
    assert run.clock.ppm == pytest.approx(ppm, abs=4.0)


def test_they_do_not_jump_when_the_delay_does() -> None:
    """Two seconds of slow calls leave the line where the quick ones had put it."""
    run = Run(1000.0, 30.0, 1, least_us=100.0, spread_us=0.0)
    run.go(8.0, 5)
    run.least = 3e6
    run.go(2.0, 5)
    run.least = 1e5
    run.go(2.0, 5)
    steps = np.diff(np.concatenate(run.told))
    assert (np.abs(steps - run.nominal) <= 0.0201 * run.nominal).all()


def test_the_first_are_not_before_the_start_and_a_new_start_forgets() -> None:
    run = Run(1000.0, 0.0, 2, least_us=500.0, spread_us=0.0)
    run.clock.start(START - 200_000)
    run.go(0.1, 5)
    assert run.told[0][0] >= START - 200_000
    run.clock.start()
    assert run.clock.ppm == 0.0
    times = np.zeros(3, np.int64)
    run.clock.saw(3, START + 10 * SECOND)
    run.clock.instants(0, times)
    assert times.tolist() == [START + 10 * SECOND - 2_000_000, START + 10 * SECOND - 1_000_000, START + 10 * SECOND]
