"""What checks/haptics.py makes of a record."""

import numpy as np
import pytest

from checks.haptics import in_force
from tandem.studies.wall import theory


def test_holds_count_by_their_square_and_a_pause_as_much_as_it_is_long() -> None:
    """Beside the work of the forces themselves, on a push and release with pauses at random."""
    K, v, d, T = 2000.0, 0.05, 0.005, 2e-4
    draw = np.random.default_rng(3)
    hold = np.where(draw.random(40_000) < 2e-3, 20.0, draw.uniform(0.5, 1.5, 40_000)) * T
    t = np.concatenate([[0.0], np.cumsum(hold)])
    sampled = t - draw.uniform(5e-5, 1.5e-4, len(t))

    def place(at: np.ndarray) -> np.ndarray:  # from d to -d and back, again and again; the wall is below 0
        return np.abs((at * v / (2.0 * d)) % 2.0 - 1.0) * 2.0 * d - d

    force = K * np.maximum(-place(sampled), 0.0)
    given_out = -float(force[:-1] @ -np.diff(place(t)))
    pushes = t[-1] * v / (4.0 * d)
    at = 1_000_000_000
    period, delay, longest = in_force(
        at + np.round(1e9 * t).astype(np.int64), at + np.round(1e9 * sampled).astype(np.int64), force != 0.0
    )
    assert longest == pytest.approx(20.0 * T) and delay == pytest.approx(1e-4, rel=0.05)
    assert period > 1.5 * float(hold.mean())
    assert given_out / pushes == pytest.approx(theory.hold_leak(K, v, period, d, delay), rel=0.05)
