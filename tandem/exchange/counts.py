"""Physical values back into raw counts: the inverse of sim_service/signals, by the same calibration."""

import math
from collections.abc import Callable

import numpy as np

from sync.block import Channel
from sync.config import Signals
from tandem.exchange.errors import ExchangeError
from tandem.exchange.tables import whole
from tandem.exchange.units import Unit, known, unit


def calibration(channel: str, signals: Signals) -> tuple[str, float, float] | None:
    """(what the channel measures, counts per SI unit of it, counts at zero); None for a channel that the signals do not
    convert."""
    rad_per_count = math.radians(signals.steering_deg_per_count)
    bar_pa = 1e5
    return {
        "steering": ("angle", signals.steering_sign / rad_per_count, signals.steering_zero_counts),
        "throttle": ("ratio", signals.throttle_full_counts, signals.throttle_zero_counts),
        "brake": (
            "pressure",
            signals.brake_full_counts / (signals.brake_full_bar * bar_pa),
            signals.brake_zero_counts,
        ),
    }.get(channel)


def usual_unit(channel: Channel) -> str:
    """For examples."""
    return {"steering": "deg", "throttle": "%", "brake": "bar"}.get(channel.name, channel.unit)


def acceptable(channel: Channel, signals: Signals) -> str:
    """Which units a column for that channel may have."""
    own = unit(channel.unit)
    found = [known(own.dimension) if own else channel.unit]
    calibrated = calibration(channel.name, signals)
    if calibrated:
        found.append(known(calibrated[0]))
    return ", ".join(found)


def conversion(channel: Channel, signals: Signals, given: Unit) -> tuple[float, float] | None:
    """(counts per one of the given unit, counts at zero); None if it measures something else."""
    own = unit(channel.unit)
    if given.symbol == channel.unit:
        return 1.0, 0.0
    if own and own.dimension == given.dimension:
        return given.factor / own.factor, 0.0
    calibrated = calibration(channel.name, signals)
    if calibrated and calibrated[0] == given.dimension:
        return given.factor * calibrated[1], calibrated[2]
    return None


def to_counts(
    values: np.ndarray, channel: Channel, signals: Signals, given: Unit, where: Callable[[int], str]
) -> np.ndarray:
    """Counts as they would have been read. What is in counts already must be whole; the rest is rounded."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ExchangeError(f"{where(int(bad[0]))}: {values[bad[0]]!s} is not a number; {given.symbol} are expected")
    kind = np.dtype(channel.type)
    if given.symbol == channel.unit:
        return whole(values, kind, where)
    converted = conversion(channel, signals, given)
    assert converted is not None  # the mapping was checked before
    per_unit, zero = converted
    counts = np.rint(values * per_unit + zero)
    limits = np.iinfo(kind)
    beyond = np.flatnonzero((counts < limits.min) | (counts > limits.max))
    if len(beyond):
        row = int(beyond[0])
        ends = sorted(((limits.min - zero) / per_unit, (limits.max - zero) / per_unit))
        raise ExchangeError(
            f"{where(row)}: {values[row]!s} {given.symbol} would be {counts[row]:.0f} counts; {channel.name} is of type"
            f" {channel.type}, which holds {ends[0]:.6g} … {ends[1]:.6g} {given.symbol}"
        )
    return counts.astype(kind)
