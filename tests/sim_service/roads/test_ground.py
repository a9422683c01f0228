"""The ground with derivatives: bends of the road, exact, for contact that is differentiated."""

from pathlib import Path

import numpy as np
import pytest
from numba import float64, void

from sim_service.roads import ground, make_road, surface
from sync.array_types import CONSTANTS
from sync.dual import seed, value, write_partials
from sync.jit import kernel
from tests.complex_step import complex_kernel, jacobian

VECTOR = float64[::1]
CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "roads"
ROADS = ("bump", "demo_track", "mu_split", "rough_c", "slope_10_percent")


@kernel(void(CONSTANTS, float64, float64, VECTOR, VECTOR), error_model="numpy")
def evaluate(road, x, y, out, by):
    found = ground(road, seed(x, 0, 2), seed(y, 1, 2))
    for k in range(4):
        out[k] = value(found[k])
        write_partials(found[k], by, 2 * k)


@pytest.mark.parametrize("name", ROADS)
def test_derivatives_of_height_slopes_and_friction_are_exact(name):
    road = make_road(CONFIGS / f"{name}.toml")
    plain, rng = complex_kernel(ground), np.random.default_rng(3)
    bent = 0
    for x, y in rng.uniform([-5.0, -8.0], [120.0, 8.0], (60, 2)):
        out, by = np.zeros(4), np.zeros(8)
        evaluate(road, x, y, out, by)
        by = by.reshape(4, 2)
        assert tuple(out) == surface(road, x, y)
        assert by[0] == pytest.approx(out[1:3], rel=1e-9, abs=1e-9)  # the slope is the derivative of the height
        assert by[1, 1] == pytest.approx(by[2, 0], rel=1e-6, abs=1e-6)  # nothing is gained by going round
        _, expected = jacobian(lambda z, road=road: plain(road, *z), np.array([x, y]))
        assert by == pytest.approx(expected, rel=1e-11, abs=1e-12)
        bent += np.abs(by[1:3]).max() > 1e-4
    assert bent > 0 or name in ("mu_split", "slope_10_percent")
