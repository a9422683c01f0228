"""Random numbers by counter: the bits of numpy's Philox, normal, and the same in any order."""

import math

import numpy as np
import pytest

from tandem.estimation.noise import logarithm, normal_number, philox, uniform_number


@pytest.mark.parametrize("seed, stream, index", [(0, 0, 1), (7, 3, 12345), (2**40, 9, 2**50)])
def test_the_words_are_those_of_numpy(seed, stream, index):
    ours = philox(*(np.uint64(word) for word in (index, stream, 0, 0, seed, 0)))
    theirs = np.random.Philox(counter=[index - 1, stream, 0, 0], key=[seed, 0])  # it counts before it draws
    assert list(ours) == theirs.random_raw(4).tolist()


def test_the_logarithm_is_one():
    for x in (1e-300, 2**-53, 0.1, 0.5, 0.70710678, 0.99, 1.0, 1.5, 1e10):
        assert abs(logarithm(x) - math.log(x)) <= 4e-16 * max(1.0, abs(math.log(x)))


def test_numbers_are_normal_and_streams_are_independent():
    a = np.array([normal_number(1, 0, k) for k in range(20000)])
    b = np.array([normal_number(1, 1, k) for k in range(20000)])
    # a seeded draw: five standard deviations of each estimate
    assert abs(a.mean()) < 5 / math.sqrt(20000) and abs(a.var() - 1.0) < 5 * math.sqrt(2 / 20000)
    assert abs(np.mean(a**4) - 3.0) < 5 * math.sqrt(96 / 20000)
    assert abs(np.mean(a * b)) < 5 / math.sqrt(20000)
    assert normal_number(1, 0, 17) == a[17]
    assert 0.0 < uniform_number(3, 4, 5) < 1.0
