"""Smoothing: every instant estimated from all readings, those after it too. Offline.

The backward recursion of Bryson and Frazier in its form for single readings: with the adjoint l and its covariance L,

    reading   l = (1 - K H)^T l - H^T v / s,   L = (1 - K H)^T L (1 - K H) + H^T H / s
    step      l = F^T l,                       L = F^T L F

the smoothed error is -P l, its covariance P - P L P, P that of the filter before the readings of the instant. It is
what the smoother of Rauch, Tung and Striebel gives, and inverts no covariance.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tandem.estimation.ekf import is_held
from tandem.estimation.experiment import Truth
from tandem.estimation.make import Filter
from tandem.estimation.quantised import of_cell
from tandem.estimation.rows import COUNTS, WIDTH, Count, R


class Smoothed(NamedTuple):
    """Of the kept instants."""

    estimates: np.ndarray  # the filter's, vectors of ekf.py
    corrections: np.ndarray  # what all readings add to them, of every state of the filter
    covariances: np.ndarray


class _Step(NamedTuple):
    F: np.ndarray
    readings: list[tuple[np.ndarray, float, float, np.ndarray]]  # H, innovation, its variance, gain
    P: np.ndarray | None  # of kept instants
    estimate: np.ndarray | None


def smooth(filter: Filter, truth: Truth, after_step: Callable[[], None] = lambda: None) -> Smoothed:
    """Runs a new filter over the readings of a truth, each at its instant, and then backwards."""
    steps = []
    for k in range(len(truth.inputs)):
        steps.append(_forwards(filter, truth, k))
        after_step()
    N = filter.order
    adjoint, spread, found = np.zeros(N), np.zeros((N, N)), []
    for one in reversed(steps):
        adjoint, spread = one.F.T @ adjoint, one.F.T @ spread @ one.F
        for H, v, s, K in reversed(one.readings):
            left = np.eye(N) - np.outer(K, H)
            adjoint = left.T @ adjoint - H * (v / s)
            spread = left.T @ spread @ left + np.outer(H, H) / s
        if one.P is not None:
            found.append((one.estimate, -one.P @ adjoint, one.P - one.P @ spread @ one.P))
    found.reverse()
    return Smoothed(*(np.array(part) for part in zip(*found, strict=True)))


def _forwards(filter: Filter, truth: Truth, k: int) -> _Step:
    """A step of the filter, and what it did: the readings once more, by full matrices."""
    observed, N = filter.observed, filter.order
    n, q = len(observed.coordinates), len(filter.which)
    for i, value in enumerate(truth.seen.readings[k]):
        if not np.isnan(value):
            filter.take(i, k, float(value), factor=float(truth.seen.factors[k, i]))
    P, extra, sampled = filter.covariance(), filter.extra.copy(), k % truth.every == 0
    before, estimate = P.copy() if sampled else None, filter.memory.estimate.copy() if sampled else None
    filter.observe(truth.inputs[k])
    at, F = filter.seen_at(), np.eye(N)
    F[:n, : n + q] = filter.memory.scratch[: n * (n + q)].reshape(n + q, n).T
    which = filter.which.copy()
    which.flags.writeable = False
    rows, counts = filter.model.rows.reshape(-1, WIDTH), filter.model.counts.reshape(-1, COUNTS)
    dx, found = np.zeros(N), []
    for i, row in enumerate(rows):
        signal, bias = int(counts[i, Count.SIGNAL]), int(counts[i, Count.BIAS])
        z, H = truth.seen.readings[k, i], np.zeros(N)
        if np.isnan(z) or not row[R.LOW] < z < row[R.HIGH]:
            continue
        v = z - observed.measure(signal, row, 0.0, at, observed.machine.tables, filter.memory.work, which, H)
        for j in range(q):
            if is_held.py_func(filter.model.sizes, filter.model.limits, at, j):
                H[n + j] = 0.0
        if bias >= 0:
            H[n + q + bias] = 1.0
            v -= extra[q + bias]
        v -= H @ dx
        noise = float(row[R.NOISE] * truth.seen.factors[k, i]) ** 2
        s = float(H @ P @ H) + noise
        if not v * v <= row[R.GATE] * s:
            continue
        if row[R.QUANTUM] > 0.0:
            own = float(H @ P @ H)
            v, r = of_cell(float(v), own, max(noise - row[R.QUANTUM] ** 2 / 12.0, 0.0), float(row[R.QUANTUM]))
            if r < 0.0:
                continue
            s = own + r
        K = P @ H / s
        P, dx = P - np.outer(K, K) * s, dx + K * v
        found.append((H, float(v), s, K))
    return _Step(F, found, before, estimate)
