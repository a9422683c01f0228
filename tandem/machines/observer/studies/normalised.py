"""Whether errors of outputs are as large as a filter says, of a record beside its truth: normalised errors and bands.

A truth's record has outputs, not the filter's states: of m outputs with slopes H by all states of the filter, the error
normalised by H (P + Q) H^T is chi-squared with m degrees of freedom if the filter is consistent (Q: a step lies between
an estimate and its outputs). Slopes are differences of the machine's step. Instants of one run are not independent of
each other: told is the share of the time in the band of one run, two-sided, 95 %, and no band of the mean.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from sim_service.contract.machine import index
from tandem.estimation.consistency import chi_squared_quantile, normal_quantile
from tandem.estimation.make import Filter

_STEP = 1e-3  # of a standard deviation: how far a state is moved for its slope
_DEPENDS = 1e-8  # of the correlation's eigenvalues: what is smaller says nothing of its own


def output_derivatives(filter: Filter, names: Sequence[str], inputs: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Derivatives of outputs, as the step from the present estimate makes them, by all states of the filter."""
    own, n = filter.observed, len(filter.observed.coordinates)
    machine, places = own.machine, [index(own.machine.outputs, name) for name in names]
    work = np.zeros(machine.work_size)

    def after(j: int, by: float) -> np.ndarray:
        state, params = filter.state.copy(), filter.params.copy()
        if j < n:
            dx = np.zeros(n)
            dx[j] = by
            own.correct(state, params, machine.tables, work, dx)
        else:
            params[own.estimable[filter.which[j - n]].parameter] += by
        machine.step(state, inputs.copy(), params, machine.tables, work, filter.h)
        return work[places].copy()

    found = np.zeros((len(names), filter.order))
    q = len(filter.which)
    for j in range(n + q):
        by = _STEP * sigma[j]
        if by > 0.0 and (j < n or own.estimable[filter.which[j - n]].parameter >= 0):
            found[:, j] = (after(j, by) - after(j, -by)) / (2.0 * by)
    return found


def normalised(errors: np.ndarray, spread: np.ndarray) -> tuple[float, int]:
    """An error squared over its covariance, and of how many independent outputs."""
    scale = np.sqrt(np.diag(spread))
    there = (scale > 0.0) & ~np.isnan(errors)
    if not there.any():
        return float("nan"), 0
    z = errors[there] / scale[there]
    values, vectors = np.linalg.eigh(spread[np.ix_(there, there)] / np.outer(scale[there], scale[there]))
    significant = values > _DEPENDS
    return float(np.sum((vectors.T @ z)[significant] ** 2 / values[significant])), int(significant.sum())


@cache
def chi_squared_band(degrees: int) -> tuple[float, float]:
    """Two-sided, 95 %; of one or two degrees by formulas, where the approximation is too coarse."""
    if degrees == 1:
        return normal_quantile(0.5125) ** 2, normal_quantile(0.9875) ** 2
    if degrees == 2:
        return -2.0 * float(np.log(0.975)), -2.0 * float(np.log(0.025))
    return chi_squared_quantile(0.025, degrees), chi_squared_quantile(0.975, degrees)


def consistency(names: Sequence[str], errors: np.ndarray, spreads: np.ndarray) -> dict[str, Any]:
    """Of all outputs together, and of each alone: mean, band, shares of the instants in, below and above it."""
    out: dict[str, Any] = {}
    for label, chosen in [("all", list(range(len(names)))), *((name, [i]) for i, name in enumerate(names))]:
        found = [normalised(e[chosen], s[np.ix_(chosen, chosen)]) for e, s in zip(errors, spreads, strict=True)]
        found = [one for one in found if one[1] > 0]
        if not found:
            continue
        values, bands = np.array([one[0] for one in found]), np.array([chi_squared_band(one[1]) for one in found])
        degrees = int(np.median([one[1] for one in found]))
        low, high = chi_squared_band(degrees)
        out[label] = {
            "outputs": degrees, "instants": len(found), "mean": float(values.mean()), "low": low, "high": high,
            "below": float(np.mean(values < bands[:, 0])), "above": float(np.mean(values > bands[:, 1])),
            "inside": float(np.mean((values >= bands[:, 0]) & (values <= bands[:, 1]))),
        }  # fmt: skip
    return out
