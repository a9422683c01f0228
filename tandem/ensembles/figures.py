"""Figures of merit: from a channel of a run to one number. Units follow from those of the channel."""

from dataclasses import dataclass

import numpy as np

from tandem.ensembles.study import Figure

PRODUCTS = {("N", "m/s"): "J", ("N*m", "rad/s"): "J", ("N m", "rad/s"): "J", ("W", ""): "J"}


@dataclass(frozen=True)
class Reference:
    """A recorded channel, to measure a distance to: s from its first step, and values."""

    t: np.ndarray
    values: np.ndarray


def unit(figure: Figure, units: dict[str, str]) -> str:
    own = units.get(figure.channel, "")
    match figure.kind:
        case "settling_time":
            return "s"
        case "overshoot":
            return "1"
        case "integral":
            return f"{own} s"
        case "energy":
            other = units.get(figure.times or "", "")
            return PRODUCTS.get((own, other), PRODUCTS.get((other, own), f"{own} {other} s"))
        case _:
            return own


def inside(figure: Figure, t: np.ndarray) -> np.ndarray:
    """Which of these ends of steps a figure is of."""
    found: np.ndarray = (t >= figure.from_s) & (t <= (figure.to_s if figure.to_s is not None else np.inf))
    return found


def common(t: np.ndarray, reference: Reference) -> np.ndarray:
    found: np.ndarray = (t >= reference.t[0]) & (t <= reference.t[-1])
    return found


def value(figure: Figure, columns: dict[str, np.ndarray], step_s: float, reference: Reference | None = None) -> float:
    """NaN where the run is too short for it, or does not settle."""
    y = columns[figure.channel]
    t = step_s * np.arange(1, len(y) + 1)  # ends of the steps
    within = inside(figure, t)
    y, t = y[within], t[within]
    if not len(y):
        return float("nan")
    match figure.kind:
        case "peak":
            found = np.abs(y).max()
        case "maximum":
            found = y.max()
        case "minimum":
            found = y.min()
        case "mean":
            found = y.mean()
        case "rms":
            found = np.sqrt(np.mean(y * y))
        case "last":
            found = y[-1]
        case "overshoot":
            found = _overshoot(y)
        case "settling_time":
            found = _settling(y, t, figure.band)
        case "integral":
            found = y.sum() * step_s
        case "energy":
            found = (y * columns[str(figure.times)][within]).sum() * step_s
        case "distance":
            found = _distance(y, t, reference)
    return float(found)


def _overshoot(y: np.ndarray) -> float:
    """Beyond the last value, as a share of the way from the first to the last one."""
    way = y[-1] - y[0]
    return float(np.max((y - y[-1]) / way)) if way else float("nan")


def _settling(y: np.ndarray, t: np.ndarray, band: float) -> float:
    """The time until the value stays within the band around its last one; NaN if only the last is within."""
    outside = np.flatnonzero(np.abs(y - y[-1]) > band * abs(y[-1] - y[0]))
    if not len(outside):
        return 0.0
    return float(t[outside[-1] + 1] - t[0]) if outside[-1] + 2 < len(y) else float("nan")


def _distance(y: np.ndarray, t: np.ndarray, reference: Reference | None) -> float:
    """Root of the mean square, over the time that both have."""
    if reference is None:
        return float("nan")
    both = common(t, reference)
    if not both.any():
        return float("nan")
    error = y[both] - np.interp(t[both], reference.t, reference.values)
    return float(np.sqrt(np.mean(error * error)))
