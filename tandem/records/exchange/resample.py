"""Samples of columns into blocks.

A measurement whose columns share their instants and whose rate is the DAQ's keeps its instants. Any other is put on the
DAQ's period, from the instant at which every column has begun to that at which the first ends: a block holds the newest
sample of each column at or before its instant. Nothing is interpolated, and nothing is held across a gap: there are no
blocks in it, and the next has a new epoch.
"""

from dataclasses import dataclass, field

import numpy as np

from tandem.records.exchange.errors import ExchangeError

GAP_PERIODS = 3.5
_JITTER = 0.01  # of a period: instants written with few digits
_DRIFT = 1e-4  # a DAQ's crystal is no better
_MOST_BLOCKS = 5_000_000
_MOST_PER_SAMPLE = 100


@dataclass
class Series:
    name: str
    t_ns: np.ndarray  # ascending
    counts: np.ndarray


@dataclass
class Blocks:
    t_ns: np.ndarray
    epoch: np.ndarray
    counts: list[np.ndarray]
    sampled_ns: list[np.ndarray]  # when each of these counts was
    unchanged: bool  # the instants are the file's own
    superseded: int  # samples that no block holds, for newer ones came
    ends: list[str] = field(default_factory=list)  # columns that begin later, or end earlier, than the others


def onto_blocks(series: list[Series], period_ns: int) -> Blocks:
    first = series[0].t_ns
    if all(np.array_equal(first, s.t_ns) for s in series) and fits(first, period_ns):
        epoch = np.concatenate([[0], np.cumsum(np.diff(first) > GAP_PERIODS * period_ns)])
        return Blocks(first, epoch, [s.counts for s in series], [first] * len(series), True, 0)
    return _resampled(series, period_ns)


def fits(t_ns: np.ndarray, period_ns: int) -> bool:
    """Whether samples come at that period; lost ones are no reason against."""
    if len(t_ns) == 1:
        return True
    steps = np.diff(t_ns)
    usual = steps[steps <= GAP_PERIODS * period_ns]
    periods = np.rint(usual / period_ns)
    if len(usual) == 0 or periods.min() < 1:
        return False
    regular = np.abs(usual - periods * period_ns) <= _JITTER * period_ns
    drift = usual.sum() / (periods.sum() * period_ns) - 1
    return bool(regular.all() and abs(drift) <= _DRIFT)


def _resampled(series: list[Series], period_ns: int) -> Blocks:
    begin = max(int(s.t_ns[0]) for s in series)
    end = min(int(s.t_ns[-1]) for s in series)
    if end < begin:
        late = max(series, key=lambda s: int(s.t_ns[0]))
        early = min(series, key=lambda s: int(s.t_ns[-1]))
        raise ExchangeError(
            f"the columns do not overlap in time: {late.name} begins at {late.t_ns[0] * 1e-9:g} s, {early.name} ends at"
            f" {early.t_ns[-1] * 1e-9:g} s"
        )
    blocks = (end - begin) // period_ns + 1
    samples = max(len(s.t_ns) for s in series)
    if blocks > _MOST_BLOCKS and blocks > _MOST_PER_SAMPLE * samples:
        raise ExchangeError(
            f"{samples} samples in {(end - begin) * 1e-9:g} s would become {blocks} blocks of {period_ns * 1e-6:g} ms;"
            " is the unit of the time right (--time COLUMN:UNIT), or is another --rate-hz wanted?"
        )
    t = np.arange(begin, end + 1, period_ns, dtype=np.int64)
    fresh = np.ones(len(t), bool)
    epoch = np.zeros(len(t), np.int64)
    which = []
    for s in series:
        newest = np.searchsorted(s.t_ns, t, "right") - 1
        steps = np.diff(s.t_ns)
        limit = GAP_PERIODS * max(period_ns, float(np.median(steps)) if len(steps) else 0.0)
        part = np.concatenate([[0], np.cumsum(steps > limit)])
        # a slow column may be held for as long as it usually is; beyond that it is a gap
        fresh &= t - s.t_ns[newest] <= limit
        epoch += part[newest]
        which.append(newest)
    t, epoch = t[fresh], epoch[fresh]
    which = [newest[fresh] for newest in which]
    # numbered from 0 without holes, also where two columns have a gap at once
    epoch = np.concatenate([[0], np.cumsum(np.diff(epoch) != 0)])
    unused = sum(len(s.t_ns) - len(np.unique(newest)) for s, newest in zip(series, which, strict=True))
    outside = sum(int(np.searchsorted(s.t_ns, begin, "right")) - 1 for s in series)  # one is held from before
    outside += sum(len(s.t_ns) - int(np.searchsorted(s.t_ns, end, "right")) for s in series)
    taken = list(zip(series, which, strict=True))
    counts, instants = [s.counts[n] for s, n in taken], [s.t_ns[n] for s, n in taken]
    return Blocks(t, epoch, counts, instants, False, int(unused) - outside, _ends(series, period_ns))


def _ends(series: list[Series], period_ns: int) -> list[str]:
    """Sentences on columns that begin late or end early, by more than a gap: they limit the record."""
    late, early = max(series, key=lambda s: int(s.t_ns[0])), min(series, key=lambda s: int(s.t_ns[-1]))
    before = int(late.t_ns[0]) - min(int(s.t_ns[0]) for s in series)
    behind = max(int(s.t_ns[-1]) for s in series) - int(early.t_ns[-1])
    least, found = GAP_PERIODS * period_ns, []
    if before > least:
        found.append(f"{late.name} begins {before * 1e-9:g} s after the first column; what is before it is in no block")
    if behind > least:
        found.append(f"{early.name} ends {behind * 1e-9:g} s before the last column; what is behind it is in no block")
    return found
