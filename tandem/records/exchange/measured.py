"""Readings of sensors that are no inputs, from the columns of a measurement (sync/record/measured.py).

Every column keeps its own instants. A reading that is not a number is left out and counted; what lies between the two
beside it is then a gap if it is as long as one.
"""

from dataclasses import dataclass

import numpy as np

from sync.record import CompleteTopic
from sync.record.measured import topic_of
from sync.ring.block import Channel, Layout
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.mapping import MappedOutput, samples
from tandem.records.exchange.resample import GAP_PERIODS
from tandem.records.exchange.tables import Measurement


@dataclass(frozen=True)
class MeasuredSeries:
    name: str
    unit: str
    t_ns: np.ndarray
    values: np.ndarray
    about: str  # where it comes from, for people


def measured_series(
    measurement: Measurement, wanted: list[MappedOutput], time: str | None
) -> tuple[list[MeasuredSeries], list[str]]:
    """(in the order asked for, what should be known about them)."""
    found: dict[str, MeasuredSeries] = {}
    remarks = []
    for sheet in measurement.sheets:
        mine = [m for m in wanted if m.sheet is sheet]
        if not mine:
            continue
        loaded = samples(measurement, sheet, list(dict.fromkeys(m.column for m in mine)), time)
        for m in mine:
            t_ns, values = loaded[m.column]
            known = np.isfinite(values.astype(np.float64))
            if not known.any():
                raise ExchangeError(f"{measurement.path}: column {m.column} holds no number at all; leave {m.name} out")
            if not known.all():
                remarks.append(
                    f"{m.name}: {np.count_nonzero(~known)} of {len(known)} readings are not a number: left out"
                )
                t_ns, values = t_ns[known], values[known]
            values = values.astype(np.float64) * m.factor
            low, high = values.min(), values.max()
            if low == high and len(values) > 1:
                remarks.append(f"{m.name}: is {low:g} {m.symbol} all along; was its sensor there?")
            about = f"{m.column}, {len(values)} readings, {low:.6g} … {high:.6g} {m.symbol}"
            found[m.name] = MeasuredSeries(m.name, m.symbol, t_ns, values, about)
    return [found[m.name] for m in wanted], remarks


def measured_topics(series: list[MeasuredSeries], shift_ns: int) -> dict[str, CompleteTopic]:
    """One for each set of instants, in the order of their first quantity."""
    groups: list[list[MeasuredSeries]] = []
    for one in series:
        same = next((g for g in groups if np.array_equal(g[0].t_ns, one.t_ns)), None)
        if same is None:
            groups.append([one])
        else:
            same.append(one)
    topics = {}
    for number, group in enumerate(groups):
        layout = Layout(tuple(Channel(one.name, "f8", one.unit) for one in group))
        t_ns = group[0].t_ns
        words = np.zeros((len(t_ns), layout.words), np.int64)
        rows = layout.view(words)
        rows["seq"], rows["epoch"] = np.arange(len(words)), _epochs(t_ns)
        rows["t_ns"] = rows["pushed_ns"] = t_ns + shift_ns
        for one in group:
            rows[one.name] = one.values
        topics[topic_of(number)] = CompleteTopic(layout, words, np.arange(len(words), dtype=np.int64))
    return topics


def _epochs(t_ns: np.ndarray) -> np.ndarray:
    """Numbers of epochs: 0 at first, one more after every gap."""
    steps = np.diff(t_ns)
    if not len(steps):
        return np.zeros(len(t_ns), np.int64)
    return np.concatenate([[0], np.cumsum(steps > GAP_PERIODS * np.median(steps))])
