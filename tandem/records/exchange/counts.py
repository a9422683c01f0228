"""Physical values back into raw counts: the inverse of sim_service/inputs, by the same rows."""

from collections.abc import Callable

import numpy as np

from sync.config.input_rows import Affine, Encoder, Measurement, Row, of_channel
from sync.ring.block import Channel
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import whole
from tandem.records.exchange.units import Unit, known, unit

Rows = dict[str, Row]


def calibration(channel: str, rows: Rows) -> tuple[str, float, float] | None:
    """(what the channel measures, counts per SI unit of it, counts at zero); None for a channel that no row converts
    alone, or into a unit that is not known here."""
    row = _converting(channel, rows)
    measured = unit(row.unit) if row else None
    if row is None or measured is None:
        return None
    if isinstance(row, Encoder | Measurement):
        return measured.dimension, row.sign / (row.per_count * measured.factor), row.zero_counts
    return measured.dimension, row.full_counts / (row.full * measured.factor), row.zero_counts


def _converting(channel: str, rows: Rows) -> Affine | Encoder | Measurement | None:
    """The row that converts this channel alone, and whose conversion can be inverted."""
    found = of_channel(rows, channel)
    readings = (row for row in rows.values() if isinstance(row, Measurement) and row.channels == [channel])
    return found[1] if found else next(readings, None)


def usual_unit(channel: Channel, rows: Rows) -> str:
    """For examples."""
    row = _converting(channel.name, rows)
    return {"1": "%"}.get(row.unit, row.unit) if row else channel.unit


def acceptable(channel: Channel, rows: Rows) -> str:
    """Which units a column for that channel may have."""
    own = unit(channel.unit)
    found = [known(own.dimension) if own else channel.unit]
    calibrated = calibration(channel.name, rows)
    if calibrated:
        found.append(known(calibrated[0]))
    return ", ".join(found)


def conversion(channel: Channel, rows: Rows, units: Unit) -> tuple[float, float] | None:
    """(counts per one of the given unit, counts at zero); None if it measures something else."""
    own = unit(channel.unit)
    if units.symbol == channel.unit:
        return 1.0, 0.0
    if own and own.dimension == units.dimension:
        return units.factor / own.factor, 0.0
    calibrated = calibration(channel.name, rows)
    if calibrated and calibrated[0] == units.dimension:
        return units.factor * calibrated[1], calibrated[2]
    return None


def to_counts(values: np.ndarray, channel: Channel, rows: Rows, units: Unit, where: Callable[[int], str]) -> np.ndarray:
    """Counts as they would have been read. What is in counts already must be whole; the rest is rounded."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ExchangeError(f"{where(int(bad[0]))}: {values[bad[0]]!s} is not a number; {units.symbol} are expected")
    kind = np.dtype(channel.type)
    if units.symbol == channel.unit:
        return whole(values, kind, where)
    converted = conversion(channel, rows, units)
    assert converted is not None  # the mapping was checked before
    per_unit, zero = converted
    counts = np.rint(values * per_unit + zero)
    limits = np.iinfo(kind)
    beyond = np.flatnonzero((counts < limits.min) | (counts > limits.max))
    if len(beyond):
        row = int(beyond[0])
        ends = sorted(((limits.min - zero) / per_unit, (limits.max - zero) / per_unit))
        raise ExchangeError(
            f"{where(row)}: {values[row]!s} {units.symbol} would be {counts[row]:.0f} counts; {channel.name} is of type"
            f" {channel.type}, which holds {ends[0]:.6g} … {ends[1]:.6g} {units.symbol}"
        )
    return counts.astype(kind)
