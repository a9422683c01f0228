"""Whether a filter's errors are as large as it says: normalised errors (NEES) and innovations (NIS) and their bands.

The sum of n squared errors, normalised by their covariance, is chi-squared with n degrees of freedom if the filter is
consistent; the mean over R independent runs lies between the quantiles of chi-squared with R n degrees, over R. Above
the band a filter claims more than it knows; below, less.
"""

from math import erf, sqrt

import numpy as np

from tandem.estimation.experiment import Estimates, Truth
from tandem.estimation.make import Filter


def nees(
    filter: Filter, truth: Truth, estimates: Estimates, quantities: np.ndarray, chosen: np.ndarray | None = None
) -> np.ndarray:
    """Of every kept estimate; `quantities` are the true values of what is estimated where the truth's do not wander,
    `chosen` some states of all. What the filter is certain of counts only if it is wrong there."""
    out = np.zeros(len(estimates.sampled))
    chosen = np.arange(filter.order) if chosen is None else chosen
    before = filter.memory.estimate.copy()
    for k, sampled in enumerate(estimates.sampled):
        filter.memory.estimate[:] = sampled
        e = errors(filter, truth, k, quantities)[chosen]
        P = filter.covariance()[np.ix_(chosen, chosen)]
        unsure = np.diag(P) > 0.0
        e, P, wrong = e[unsure], P[np.ix_(unsure, unsure)], np.any(e[~unsure])
        scale = 1.0 / np.sqrt(np.diag(P))
        out[k] = np.inf if wrong else (e * scale) @ np.linalg.solve(P * np.outer(scale, scale), e * scale)
    filter.memory.estimate[:] = before
    return out


def errors(filter: Filter, truth: Truth, k: int, quantities: np.ndarray) -> np.ndarray:
    """Truth less the filter's present estimate, of all its states, at the k-th kept instant."""
    q = len(filter.which)
    e = filter.observed.difference(truth.seen.states[k], filter.state, truth.machine)
    if truth.seen.quantities.shape[1]:
        quantities = truth.seen.quantities[k]
    return np.concatenate([e, quantities - filter.extra[:q], truth.seen.biases[k] - filter.extra[q:]])


def normal_quantile(p: float) -> float:
    """Of the standard normal distribution, by bisection."""
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 0.5 * (1.0 + erf(middle / sqrt(2.0))) < p else (low, middle)
    return 0.5 * (low + high)


def chi_squared_quantile(p: float, degrees: float) -> float:
    """Wilson and Hilferty's approximation: within 0.2 % from ten degrees on."""
    c = 2.0 / (9.0 * degrees)
    return float(degrees * (1.0 - c + normal_quantile(p) * sqrt(c)) ** 3)


def mean_band(degrees: int, runs: int, share: float = 0.95) -> tuple[float, float]:
    """Between which the mean of normalised errors squared over `runs` lies with that probability."""
    low, high = (chi_squared_quantile(p, degrees * runs) / runs for p in (0.5 - 0.5 * share, 0.5 + 0.5 * share))
    return low, high
