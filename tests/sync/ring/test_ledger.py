"""Histograms against the exact samples, and the balance that may not close."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sync.ring.ledger import BUCKETS, Balance, bucket, histogram, histograms, quantiles, record, summary_us
from tests.sync.strategies import PROPERTY

SECOND = 10**9
# as many short times as long ones
times = st.one_of(st.integers(0, 10 * SECOND), st.floats(2, 10).map(lambda p: min(int(10**p), 10 * SECOND)))


def filled(samples: list[int]) -> np.ndarray:
    hist = histogram()
    for sample in samples:
        record(hist, sample)
    return hist


def nearest_rank(samples: list[int], fraction: str) -> int:
    return sorted(samples)[max(math.ceil(Fraction(fraction) * len(samples)), 1) - 1]


@given(st.integers(100, 10 * SECOND))
@example(100)
@example(10 * SECOND)
@PROPERTY
def test_a_time_is_kept_to_one_part_in_sixty_four(value: int) -> None:
    hist = filled([value, 30 * SECOND])  # the second one keeps the exact maximum out of the way
    (kept,) = quantiles(hist, (0.5,))
    assert abs(kept - value) <= value / 64


def test_every_octaves_edges_are_kept_to_one_part_in_sixty_four() -> None:
    for power in range(7, 34):
        for value in (2**power - 1, 2**power, 2**power + 1, 3 * 2 ** (power - 1)):
            (kept,) = quantiles(filled([value, 30 * SECOND]), (0.5,))
            assert abs(kept - value) <= value / 64


def test_times_below_64_ns_are_exact() -> None:
    for value in range(64):
        assert quantiles(filled([value, 1000]), (0.5,)) == [value]


@given(st.integers(0, 40 * SECOND), st.integers(0, 40 * SECOND))
@PROPERTY
def test_a_longer_time_is_never_in_an_earlier_bucket(one: int, other: int) -> None:
    short, long = sorted((one, other))
    assert 0 <= bucket(short) <= bucket(long) < BUCKETS


@given(st.lists(times, min_size=1, max_size=300))
@PROPERTY
def test_quantiles_are_those_of_the_sorted_samples(samples: list[int]) -> None:
    hist = filled(samples)
    fractions = ("0.5", "0.9", "0.99", "0.999")
    for fraction, kept in zip(fractions, quantiles(hist, (0.5, 0.9, 0.99, 0.999)), strict=True):
        exact = nearest_rank(samples, fraction)
        assert abs(kept - exact) <= exact / 64


def test_quantiles_agree_with_numpy_on_a_long_run() -> None:
    random = np.random.default_rng(3)
    samples = np.exp(random.normal(11, 1.5, 20_000)).astype(np.int64)  # about 60 us, with a long tail
    fractions = (0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)
    exact = np.quantile(samples, fractions, method="inverted_cdf")
    assert quantiles(filled(samples.tolist()), fractions) == pytest.approx(exact, rel=0.016)


@given(st.lists(times, min_size=1, max_size=50))
@PROPERTY
def test_number_mean_and_largest_are_exact(samples: list[int]) -> None:
    summary = summary_us(filled(samples))
    assert summary["n"] == len(samples)
    assert summary["max"] == round(max(samples) / 1e3, 3)
    assert summary["mean"] == pytest.approx(sum(samples) / len(samples) / 1e3, abs=0.001)
    assert "negative" not in summary
    assert summary["p50"] <= summary["p90"] <= summary["p99"] <= summary["p999"] <= summary["max"]


@given(st.lists(st.integers(-(2**63), -1), max_size=20), st.lists(times, max_size=20))
@PROPERTY
def test_negative_times_are_counted_apart_and_change_nothing_else(wrong: list[int], right: list[int]) -> None:
    summary = summary_us(filled(wrong + right))
    assert summary.pop("negative", 0) == len(wrong)
    assert summary == summary_us(filled(right))


@pytest.mark.parametrize("value", [2**35, 60 * SECOND, 2**62])
def test_a_time_beyond_all_buckets_is_in_the_last_one_and_the_largest_is_exact(value: int) -> None:
    hist = filled([1000, value])
    assert hist[:BUCKETS].sum() == 2 and hist[BUCKETS - 1] == 1
    assert summary_us(hist)["max"] == value / 1e3


def test_an_empty_histogram_says_nought() -> None:
    assert quantiles(histogram(), (0.5, 1.0)) == [0.0, 0.0]
    summary = summary_us(histogram())
    assert summary == {"n": 0, "mean": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0}


def test_rows_of_a_table_of_histograms_are_histograms() -> None:
    table = histograms(3)
    record(table[1], 5)
    assert [summary_us(row)["n"] for row in table] == [0, 1, 0]


@given(*[st.integers(0, 10**12)] * 3, st.integers(-3, 3))
@PROPERTY
def test_a_balance_closes_exactly_when_every_block_went_somewhere(
    used: int, superseded: int, lost: int, error: int
) -> None:
    balance = Balance(used + superseded + lost + error, used, superseded, lost)
    assert balance.closes == (error == 0)
    expected: dict[str, Any] = {"produced": balance.produced, "used": used, "superseded": superseded, "lost": lost}
    assert balance.as_dict() == {**expected, "closes": error == 0}
