"""One-sided smooth noise-robust differentiators (Holoborodko), from past values only.

With window N the estimate is (1/h) Σ c_k f_k, f_k the value k steps ago, and the c_k are the coefficients of
(1 - z²)(1 + z)^(N-2) / 2^(N-1): a central difference, smoothed N-2 times. Exact for quadratics, N/2 steps late. The
second derivative is the same operator on the first, another N/2 steps late. Until a window is full the result is 0.
"""

import numpy as np

from sync.compile.jit import kernel

N_MAX = 10
MEMORY = 1 + 2 * (N_MAX + 1)  # how many values have come; then the angles and the speeds, newest first
_ANGLES, _SPEEDS = 1, 2 + N_MAX


def coefficients(n: int) -> np.ndarray:
    """c_0 … c_N for window N; divide by h."""
    c = np.array([1.0, 0.0, -1.0])
    for _ in range(n - 2):
        c = np.convolve(c, [1.0, 1.0])
    return c / 2.0 ** (n - 1)


@kernel()
def _shift_in(window, value):
    for k in range(window.size - 1, 0, -1):
        window[k] = window[k - 1]
    window[0] = value


@kernel()
def _weigh(c, window, h):
    total = 0.0
    for k in range(c.size):
        total += c[k] * window[k]
    return total / h


@kernel()
def differentiate(memory, c, angle, h):
    """Take the angle of this step; returns (speed, acceleration). `memory` starts as zeros, and again after a gap."""
    angles, speeds = memory[_ANGLES : _ANGLES + c.size], memory[_SPEEDS : _SPEEDS + c.size]
    memory[0] += 1.0
    _shift_in(angles, angle)
    if memory[0] < c.size:
        return 0.0, 0.0
    speed = _weigh(c, angles, h)
    _shift_in(speeds, speed)
    if memory[0] < 2 * c.size - 1:
        return speed, 0.0
    return speed, _weigh(c, speeds, h)
