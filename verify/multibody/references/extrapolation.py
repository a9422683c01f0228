"""An integrator for references: Gragg's midpoint rule extrapolated eight times (order 16), with a controlled step.

Explicit and in plain numpy: nothing in common with the formulations under test. At tolerance 1e-13 the error it leaves
is that of rounding.
"""

from collections.abc import Callable

import numpy as np

_PARTS = tuple(range(2, 18, 2))  # substeps of the columns: 2, 4, … 16


def integrate(
    rate: Callable[[float, np.ndarray], np.ndarray],
    start: np.ndarray,
    times: np.ndarray,
    tolerance: float = 1e-13,
    first_step: float = 0.01,
) -> np.ndarray:
    """The states at `times`, a row each; `times[0]` is the instant of `start`. Tolerance relative to 1 + |y|."""
    y = np.array(start, float)
    out = np.empty((len(times), len(y)))
    out[0] = y
    t, h = float(times[0]), first_step
    for k in range(1, len(times)):
        end = float(times[k])
        while t < end:
            last = t + h >= end * (1 - 1e-15)
            step = end - t if last else h
            new, error = _step(rate, t, y, step)
            error = error / tolerance
            if error > 1.0 and step > 1e-12:
                h = step * max(0.2, 0.8 * error ** (-1.0 / 15))
                continue
            y, t = new, end if last else t + step
            grown = step * min(3.0, 0.8 * max(error, 1e-12) ** (-1.0 / 15))
            h = max(h, grown) if last else grown
        out[k] = y
    return out


def _step(
    rate: Callable[[float, np.ndarray], np.ndarray], t: float, y: np.ndarray, h: float
) -> tuple[np.ndarray, float]:
    slope = rate(t, y)
    row: list[np.ndarray] = []
    for j, parts in enumerate(_PARTS):
        d = h / parts
        before, now = y, y + d * slope
        for i in range(1, parts):
            before, now = now, before + 2.0 * d * rate(t + i * d, now)
        new = [0.5 * (now + before + d * rate(t + h, now))]  # Gragg's smoothing
        for k in range(j):
            ratio = (parts / _PARTS[j - k - 1]) ** 2 - 1.0
            new.append(new[k] + (new[k] - row[k]) / ratio)
        row = new
    return row[-1], float(np.max(np.abs(row[-1] - row[-2]) / (1.0 + np.abs(row[-1]))))
