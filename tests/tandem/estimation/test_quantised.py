"""What a count says, beside sums over the normal distribution that is cut to a cell."""

from math import erf, sqrt

import numpy as np
import pytest

from tandem.estimation.quantised import FAR, NARROW, of_cell, upper_tail


def test_the_tail_is_that_of_the_normal_distribution():
    for x in np.linspace(0.0, 6.0, 61):
        assert np.isclose(upper_tail(x), 0.5 * (1.0 - erf(x / sqrt(2.0))), rtol=2e-7, atol=1e-15)


@pytest.mark.parametrize("s, r", [(1.0, 0.0), (0.04, 0.0), (0.3, 0.2)])
@pytest.mark.parametrize("v", [0.0, 0.4, -0.9, 1.6])
def test_after_a_count_mean_and_variance_are_those_of_what_is_left(s, r, v):
    """x is normal, y = x + noise fell into the cell about v: mean and variance of x by a sum over y."""
    cell, sigma = 1.5, sqrt(s + r)
    if max(v - 0.75, -v - 0.75) > FAR * sigma:
        pytest.skip("the plain form")
    y = v + cell * (np.arange(200_000) + 0.5) / 200_000 - 0.5 * cell
    weight = np.exp(-0.5 * (y / sigma) ** 2)
    weight /= weight.sum()
    gain = s / (s + r)
    mean = gain * (weight @ y)
    variance = s - gain * s + gain**2 * (weight @ y**2 - (weight @ y) ** 2)
    innovation, noise = of_cell(v, s, r, cell)
    if noise < 0.0:
        assert abs(mean) < 1e-2 * sqrt(s) and variance > 0.999 * s
        return
    assert np.isclose(s / (s + noise) * innovation, mean, rtol=1e-4, atol=1e-6)
    assert np.isclose(s * noise / (s + noise), variance, rtol=1e-4)


def test_narrow_cells_and_cells_far_off_are_plain_readings():
    assert of_cell(0.7, 1.0, 0.1, 0.9 * NARROW) == (0.7, 0.1 + (0.9 * NARROW) ** 2 / 12.0)
    assert of_cell(1.1 * FAR + 0.5, 1.0, 0.0, 1.0) == (1.1 * FAR + 0.5, 1.0 / 12.0)


def test_in_the_middle_of_a_wide_cell_a_count_says_nothing():
    assert of_cell(0.01, 1e-4, 0.0, 1.0)[1] < 0.0
