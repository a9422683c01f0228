"""The ledger: latency histograms that nopython code can fill, and the balance of blocks.

A histogram is one int64 vector, so it can live anywhere and costs ten nanoseconds a record. Its buckets are exact below
64 ns and then 32 to every doubling: a quantile read from the middle of a bucket is off by at most 1.6 %, from 100 ns to
beyond 10 s. Longer times fall into the last bucket, negative ones are counted apart; the largest and the mean are
exact.

The balance says where every block went: produced = used + superseded + lost. *Used* blocks were taken by a step;
*superseded* ones were not, because a newer one was there; *lost* ones are the rest. Each number comes from a counter of
its own, in a different place, so that the sum can fail and a mistake shows.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numba import int64

from sync.compile.jit import kernel

_EXACT = 64  # values below this have a bucket each
_SUB = 32  # buckets an octave above
_OCTAVES = 29  # up to 2**(6+29) ns = 34 s
BUCKETS = _EXACT + _SUB * _OCTAVES
_NEGATIVE, _SUM, _MAX = BUCKETS, BUCKETS + 1, BUCKETS + 2
HISTOGRAM_WORDS = BUCKETS + 3


def histogram() -> np.ndarray:
    return np.zeros(HISTOGRAM_WORDS, np.int64)


def histograms(count: int) -> np.ndarray:
    return np.zeros((count, HISTOGRAM_WORDS), np.int64)


@kernel()
def bucket(value_ns):
    if value_ns < _EXACT:
        return value_ns
    octave = 0
    while value_ns >= _EXACT:
        value_ns >>= 1
        octave += 1
    return min(_EXACT + (octave - 1) * _SUB + value_ns - _SUB, BUCKETS - 1)


@kernel()
def record(hist, value_ns):
    if value_ns < 0:
        hist[_NEGATIVE] += 1
        return
    hist[bucket(value_ns)] += 1
    hist[_SUM] += value_ns
    hist[_MAX] = max(hist[_MAX], value_ns)


@kernel(int64(int64))  # Python calls it too while the loop runs, so it is loaded at import
def middle(index):
    """The value (ns) a bucket stands for."""
    if index < _EXACT:
        return index
    octave = (index - _EXACT) // _SUB
    return ((_SUB + (index - _EXACT) % _SUB) << (octave + 1)) + (1 << octave)


def quantiles(hist: np.ndarray, fractions: tuple[float, ...]) -> list[float]:
    """Values (ns) below or at which these fractions of the records lie (nearest rank); 0 where there is none."""
    counts = np.cumsum(hist[:BUCKETS])
    if counts[-1] == 0:
        return [0.0] * len(fractions)
    ranks = np.maximum(np.ceil(np.array(fractions) * counts[-1]), 1)
    return [float(min(middle(bucket), hist[_MAX])) for bucket in np.searchsorted(counts, ranks)]


def summary_us(hist: np.ndarray) -> dict[str, Any]:
    """What every report shows of a histogram, in microseconds."""
    n = int(hist[:BUCKETS].sum())
    p50, p90, p99, p999 = (round(v / 1e3, 3) for v in quantiles(hist, (0.5, 0.9, 0.99, 0.999)))
    mean = round(int(hist[_SUM]) / n / 1e3, 3) if n else 0.0
    out: dict[str, Any] = {"n": n, "mean": mean, "p50": p50, "p90": p90, "p99": p99, "p999": p999}
    out["max"] = round(int(hist[_MAX]) / 1e3, 3)
    if hist[_NEGATIVE]:
        out["negative"] = int(hist[_NEGATIVE])
    return out


@dataclass(frozen=True)
class Balance:
    produced: int
    used: int
    superseded: int
    lost: int

    @property
    def closes(self) -> bool:
        terms = (self.used, self.superseded, self.lost)
        return self.produced == sum(terms) and min(terms) >= 0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "closes": self.closes}
