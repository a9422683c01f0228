"""What correlated residuals do to an estimate: the covariance of a least-squares answer whose noise is not white.

At the answer J'r = 0, and values scatter as H^-1 M H^-1, with H = J'J and M the covariance of J'r. For white noise M is
H. Here M comes from the residuals in two ways:

- a noise model: each channel's residuals are an autoregressive process, of the order that Akaike's criterion in Hurvich
  and Tsai's form chooses; M = sum of J' C J over windows and channels, with its autocovariance C;
- blocks: the scatter of J'r from block to block of the data, a block much longer than the noise remembers. It asks for
  no model, but scatters itself: it replaces the first where it is larger than chance allows (99 %).

The same M of the first and of the second half of the data says whether both can have the same parameters.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sim_service.contract.machine import Floats
from tandem.ensembles.extras import needs

MOST_ORDER = 30
_LEAST_BLOCKS = 12  # beyond the number of parameters
LEAST_TO_HALVE = 2 * _LEAST_BLOCKS
_MOST_BLOCKS = 200
_MEMORIES = 10  # a block is at least so many correlation times long
_CHANCE = 0.01


@dataclass(frozen=True)
class Noise:
    """The noise of one channel, over its standard deviation."""

    variance: float
    coefficients: Floats  # e[k] = sum of coefficients[i] e[k - 1 - i] + white noise
    memory: float  # steps: the integral of its correlation, 1 for white noise
    limit: int = MOST_ORDER  # the highest order that so much data allow

    @property
    def order(self) -> int:
        return len(self.coefficients)

    def covariance(self, count: int) -> Floats:
        """Between values 0 to count - 1 steps apart."""
        found = np.zeros(count)
        p = self.order
        head = min(count, p + 1)
        found[:head] = self._head[:head]
        for k in range(head, count):
            found[k] = self.coefficients @ found[k - 1 : k - p - 1 if k > p else None : -1] if p else 0.0
        return found

    @property
    def _head(self) -> Floats:
        """The covariance at lags up to the order: the equations of Yule and Walker, solved for it."""
        p, a = self.order, self.coefficients
        system = np.eye(p + 1)
        for lag in range(p + 1):
            for i in range(p):
                system[lag, abs(lag - 1 - i)] -= a[i]
        right = np.zeros(p + 1)
        right[0] = 1.0
        found = np.linalg.solve(system, right)
        return np.asarray(found * (self.variance / found[0]))


def noise_of(residuals: list[Floats]) -> Noise:
    """The model of what is left over in pieces that follow each other in time, each by itself."""
    count = sum(map(len, residuals))
    usual = sorted(map(len, residuals))[-1]
    for size in sorted(map(len, residuals)):  # half of the values are in pieces at least so long
        if sum(len(piece) for piece in residuals if len(piece) >= size) >= 0.5 * count:
            usual = size
    most = min(MOST_ORDER, count // 20, usual // 3)
    lags = np.zeros(most + 1)
    for piece in residuals:
        for lag in range(min(most + 1, len(piece))):
            lags[lag] += piece[lag:] @ piece[: len(piece) - lag]
    lags /= count
    variance = float(lags[0])
    if variance <= 0.0:
        return Noise(0.0, np.zeros(0), 1.0)  # nothing is left over, and nothing is remembered
    best, best_score = np.zeros(0), np.inf
    a, error = np.zeros(0), variance
    for order in range(most + 1):  # Levinson's recursion
        if order:
            k = (lags[order] - a @ lags[order - 1 : 0 : -1] if order > 1 else lags[1]) / error
            a = np.append(a - k * a[::-1], k)
            error *= 1.0 - k * k
            if not error > 1e-12 * variance:
                break
        score = count * np.log(error) + count * (count + order) / max(count - order - 2, 1)
        # a coefficient that is within chance of nothing buys no order: of white noise hardly one in a hundred gets one
        if score < best_score - (6.6 if order else 0.0):
            best, best_score = a.copy(), score
    memory = 1.0
    if len(best):
        c = Noise(variance, best, 1.0).covariance(min(max(map(len, residuals)), 20_000))
        memory = max(float(1.0 + 2.0 * c[1:].sum() / c[0]), 1.0)
    return Noise(variance, best, memory, most)


@dataclass(frozen=True)
class Part:
    """Rows of the residual: a channel of a window."""

    channel: str
    first: int
    end: int


def meat(jacobian: Floats, parts: list[Part], noises: dict[str, Noise]) -> Floats:
    """M by the noise model."""
    n = jacobian.shape[1]
    found = np.zeros((n, n))
    longest = max((part.end - part.first for part in parts), default=0)
    known = {name: noise.covariance(longest) for name, noise in noises.items()}
    for part in parts:
        rows = jacobian[part.first : part.end]
        found += rows.T @ _toeplitz(known[part.channel][: len(rows)], rows)
    return found


def _toeplitz(first: Floats, rows: Floats) -> Floats:
    """The symmetric matrix with this first column, times these columns."""
    n = len(first)
    if not first[1:].any():
        return np.asarray(first[0] * rows)
    ring = np.concatenate([first, [0.0], first[:0:-1]])
    spectrum = np.fft.rfft(ring)[:, None] * np.fft.rfft(rows, 2 * n, axis=0)
    return np.asarray(np.fft.irfft(spectrum, 2 * n, axis=0)[:n])


def blocks_of(windows: list[list[Part]], noises: dict[str, Noise]) -> list[list[Part]]:
    """Pieces of the windows, all channels of the same time together."""
    memory = max(noise.memory for noise in noises.values())
    steps = [window[0].end - window[0].first for window in windows]
    least = max(_MEMORIES * memory, sum(steps) / _MOST_BLOCKS)
    found = []
    for window, count in zip(windows, steps, strict=True):
        pieces = max(int(count / least), 1)
        edges = np.linspace(0, count, pieces + 1).astype(int)
        for a, b in pairwise(edges.tolist()):
            found.append([Part(p.channel, p.first + a, p.first + b) for p in window])
    return found


def scores(jacobian: Floats, residual: Floats, blocks: list[list[Part]]) -> Floats:
    """J'r of every block, a row each."""
    return np.array([sum(jacobian[p.first : p.end].T @ residual[p.first : p.end] for p in block) for block in blocks])


@dataclass(frozen=True)
class Scatter:
    """The covariance of an answer, in the coordinates of the Jacobian's columns."""

    covariance: Floats
    by_blocks: bool  # whether blocks scatter more than the noise model has it
    blocks: int


def scatter(
    jacobian: Floats, residual: Floats, windows: list[list[Part]], noises: dict[str, Noise], known: Floats
) -> Scatter:
    """`known`: what priors add to J'J; their errors are independent of everything. All of full rank."""
    stats = needs("scipy.stats", "fit", "tandem identify")
    n = jacobian.shape[1]
    inverse = np.linalg.pinv(jacobian.T @ jacobian + known, rcond=1e-14, hermitian=True)
    parts = [part for window in windows for part in window]
    by_model = inverse @ (meat(jacobian, parts, noises) + known) @ inverse
    blocks = blocks_of(windows, noises)
    spare = len(blocks) - n
    if spare < _LEAST_BLOCKS:
        return Scatter(by_model, False, len(blocks))
    found = scores(jacobian, residual, blocks)
    found -= found.mean(axis=0)
    wide = (stats.t.ppf(0.975, spare) / stats.norm.ppf(0.975)) ** 2  # so few blocks know their own scatter so well
    by_blocks = inverse @ (found.T @ found * (len(blocks) / spare) + known) @ inverse
    ratio = np.diag(by_blocks) / np.maximum(np.diag(by_model), 1e-300)
    if not (ratio > stats.chi2.ppf(1.0 - _CHANCE / n, spare) / spare).any():
        return Scatter(by_model, False, len(blocks))
    # each parameter has the larger of the two; the correlations are those of the blocks
    stretch = np.sqrt(np.maximum(1.0, np.diag(by_model) / np.maximum(wide * np.diag(by_blocks), 1e-300)))
    return Scatter(wide * by_blocks * np.outer(stretch, stretch), True, len(blocks))


@dataclass(frozen=True)
class Halves:
    """Whether the first and the second half of the data can have the same parameters."""

    agree: bool
    chi2: float
    freedom: int
    moved: Floats  # from the answer, to what each half alone would have, 2 rows
    covariance: Floats  # of their difference

    def of(self, basis: Floats, scale: Floats) -> "Halves":
        """The same in other coordinates."""
        turn = scale[:, None] * basis
        return replace(self, moved=self.moved @ turn.T, covariance=turn @ self.covariance @ turn.T)

    @property
    def apart(self) -> Floats:
        """The difference, over the deviation it should have."""
        return np.asarray((self.moved[0] - self.moved[1]) / np.sqrt(np.diag(self.covariance)))


def halves(
    jacobian: Floats, residual: Floats, windows: list[list[Part]], noises: dict[str, Noise],
) -> Halves | None:  # fmt: skip
    """Compare both halves by their scores at the common answer; None where there are too few data to halve."""
    stats = needs("scipy.stats", "fit", "tandem identify")
    blocks = blocks_of(windows, noises)
    n = jacobian.shape[1]
    if len(blocks) < LEAST_TO_HALVE:
        return None
    H, M, g = [], [], []
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        parts = [part for block in half for part in block]
        rows = np.concatenate([np.arange(p.first, p.end) for p in parts])
        H.append(jacobian[rows].T @ jacobian[rows])
        g.append(jacobian[rows].T @ residual[rows])
        by_model, found = meat(jacobian, parts, noises), scores(jacobian, residual, half)
        found = found - found.mean(axis=0)
        by_blocks = found.T @ found * (len(half) / max(len(half) - n, 1))
        M.append(by_blocks if np.trace(by_blocks) > np.trace(by_model) else by_model)
    inverse = [np.linalg.pinv(h, rcond=1e-12, hermitian=True) for h in H]
    moved = np.array([-inverse[k] @ g[k] for k in (0, 1)])
    each = [inverse[k] @ M[k] @ inverse[k] for k in (0, 1)]
    difference, both = moved[0] - moved[1], each[0] + each[1]
    chi2 = float(difference @ np.linalg.pinv(both, hermitian=True) @ difference)
    # two covariances that are known from so many blocks: Hotelling's
    limit = n * stats.f.ppf(1.0 - _CHANCE, n, max(len(blocks) - 3 * n, 1))
    return Halves(chi2 <= limit, chi2, n, moved, both)
