"""What verify/physics/haptics.py makes of a record."""

import numpy as np
import pytest

from daq_service.effort_record import LAYOUT
from tandem.doctor import passivity as theory
from verify.physics.haptics import leak


@pytest.mark.parametrize("disturbed", [False, True])
def test_what_a_push_gives_out_goes_with_the_age_of_its_efforts_however_the_host_pauses(disturbed: bool) -> None:
    """Beside the work of the forces themselves; where some are taken away, the rest is judged."""
    K, v, d, T = 2000.0, 0.05, 0.005, 2e-4
    draw = np.random.default_rng(3)
    hold = np.where(draw.random(40_000) < 2e-3, 20.0, draw.uniform(0.5, 1.5, 40_000)) * T
    t = 1e-9 * np.round(1e9 * np.concatenate([[0.0], np.cumsum(hold)]))
    sampled = 1e-9 * np.round(1e9 * (t - draw.uniform(5e-5, 1.5e-4, len(t))))

    def place(at: np.ndarray) -> np.ndarray:  # from d to -d and back, again and again; the wall is below 0
        return np.abs((at * v / (2.0 * d)) % 2.0 - 1.0) * 2.0 * d - d

    wanted = K * np.minimum(place(sampled), 0.0)
    given = np.where((draw.random(len(t)) < 1e-3) & disturbed, 0.5 * wanted, wanted)
    whole = np.concatenate([[0.0], np.cumsum(given[:-1] * np.diff(t))])
    at = np.maximum(np.searchsorted(t, sampled, side="right") - 1, 0)
    impulse = whole[at] + (sampled - t[at]) * given[at]
    mean = np.diff(impulse) / np.diff(sampled)
    efforts = LAYOUT.view(np.zeros((len(t), LAYOUT.words), np.int64))
    efforts["seq"], efforts["t_ns"] = np.arange(len(t)), 10**12 + np.round(1e9 * t).astype(np.int64)
    efforts["sampled_ns"] = 10**12 + np.round(1e9 * sampled).astype(np.int64)
    efforts["wanted"], efforts["given"], efforts["displacement"] = wanted, given, place(sampled)
    efforts["energy"] = np.concatenate([[0.0], np.cumsum(mean * np.diff(place(sampled)))])
    found, age, covered, inside = leak(efforts, K, 0.01)
    assert inside == pytest.approx(0.5 * t[-1], rel=0.05)
    assert 0.98 * inside < covered <= inside if not disturbed else 0.9 * inside < covered < 0.999 * inside
    assert age > 1.4 * (1e-4 + 0.5 * T)  # a pause counts as much as it is long
    pushes = 0.5 * v * covered / d
    assert found / pushes == pytest.approx(theory.hold_leak(K, v, 0.0, d, age), rel=0.05)
