"""How well a machine agrees with what was measured: shares, regions, drift within windows, curves with their scatter.

As ISO 19364 and 19365 have it: what was measured, averaged, with its scatter; around it a band of tolerance; what was
simulated, inside of it or not. Windows that parameters were found from and windows that were not are never put
together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim_service.contract.machine import Floats
from tandem.ensembles.identification import Curve, Problem, Region
from tandem.ensembles.windows import Measured, Window

_NORMAL_95 = 1.959963984540054
_DRIFT_BINS = 10
FEW = 20  # steps: fewer are no region


@dataclass(frozen=True)
class Agreement:
    """How well a channel agrees over some steps."""

    steps: int
    signal: float  # rms about its mean
    error: float  # rms of simulated minus measured
    bias: float  # its mean
    largest: float
    explained: float  # share of the signal's power that the simulation has
    inside: float  # share of the steps within the tolerance; NaN where there is none
    median: float = np.nan  # of the windows' rms errors: what one window that goes wrong does not move


@dataclass(frozen=True)
class Bin:
    low: float
    high: float
    found: Agreement


@dataclass(frozen=True)
class Averaged:
    """A measured quantity over another, between two edges."""

    at: float
    measured: float
    scatter: float  # half of the interval of 95 % of the mean, by what windows scatter
    simulated: float
    tolerance: float
    windows: int

    @property
    def inside(self) -> bool:
        return abs(self.simulated - self.measured) <= self.tolerance + self.scatter


Predicted = Sequence[dict[str, Floats]]


def agreement(measured: Floats, simulated: Floats, settings: Measured, mean: float | None = None) -> Agreement:
    """`mean` of the signal, where these steps are a part of it."""
    error = simulated - measured
    about = measured - (measured.mean() if mean is None else mean)
    power = float(about @ about)
    share = 1.0 - float(error @ error) / power if power > 0.0 else np.nan
    inside = float((np.abs(error) <= band(measured, settings)).mean()) if tolerated(settings) else np.nan
    return Agreement(
        len(measured), float(np.sqrt(np.mean(about**2))), float(np.sqrt(np.mean(error**2))), float(error.mean()),
        float(np.abs(error).max()), share, inside,
    )  # fmt: skip


def tolerated(settings: Measured) -> bool:
    return settings.tolerance > 0.0 or settings.tolerance_share > 0.0


def band(measured: Floats, settings: Measured) -> Floats:
    """Half its width."""
    return np.asarray(settings.tolerance + settings.tolerance_share * np.abs(measured))


def ran(windows: Sequence[Window], predicted: Predicted) -> tuple[list[Window], list[dict[str, Floats]]]:
    """Those in which the machine did not diverge."""
    pairs = [
        pair for pair in zip(windows, predicted, strict=True) if all(np.isfinite(v).all() for v in pair[1].values())
    ]
    return [window for window, _ in pairs], [simulated for _, simulated in pairs]


def over(windows: Sequence[Window], predicted: Predicted, name: str) -> tuple[Floats, Floats]:
    """Measured and simulated, window after window."""
    return np.concatenate([w.measured[name] for w in windows]), np.concatenate([p[name] for p in predicted])


def channels(problem: Problem, predicted: Predicted, fitted: bool) -> dict[str, Agreement]:
    """The agreement of every channel over the fitted windows, or over the others, without those in which the machine
    diverged; {} if none is left."""
    part = slice(0, problem.fitted) if fitted else slice(problem.fitted, None)
    windows, simulated = ran(problem.windows[part], predicted[part])
    if not windows:
        return {}
    settings, found = problem.study.measured, {}
    for name in problem.channels:
        pairs = zip(windows, simulated, strict=True)
        errors = [float(np.sqrt(np.mean((one[name] - window.measured[name]) ** 2))) for window, one in pairs]
        whole = agreement(*over(windows, simulated, name), settings[name])
        found[name] = replace(whole, median=float(np.median(errors)))
    return found


def regions(windows: Sequence[Window], predicted: Predicted, name: str, by: Region, settings: Measured) -> list[Bin]:
    """Errors of a channel where another is between two edges; those with too few steps are left out."""
    measured, simulated = over(windows, predicted, name)
    where = np.concatenate([w.measured[by.channel] for w in windows])
    where = np.abs(where) if by.size else where
    found = []
    for low, high in zip(by.edges[:-1], by.edges[1:], strict=True):
        there = (where >= low) & (where < high)
        if there.sum() >= FEW:
            found.append(Bin(low, high, agreement(measured[there], simulated[there], settings, float(measured.mean()))))
    return found


def drift(windows: Sequence[Window], predicted: Predicted, name: str, step_s: float) -> tuple[Floats, Floats]:
    """Rms of the error over the time since a window began: instants, s, and values."""
    longest = max((len(w.measured[name]) for w in windows), default=0)
    edges = np.unique(np.linspace(0, longest, min(_DRIFT_BINS, longest) + 1).astype(int))
    squares, counts = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for window, simulated in zip(windows, predicted, strict=True):
        error = simulated[name] - window.measured[name]
        for k in range(len(squares)):
            piece = error[edges[k] : edges[k + 1]]
            squares[k] += piece @ piece
            counts[k] += len(piece)
    there = counts > 0
    return (0.5 * (edges[:-1] + edges[1:]) * step_s)[there], np.sqrt(squares[there] / counts[there])


def averaged(windows: Sequence[Window], predicted: Predicted, curve: Curve, settings: Measured) -> list[Averaged]:
    """What was measured between each two edges, averaged over windows, which repeat each other; the machine beside."""
    found = []
    for low, high in zip(curve.edges[:-1], curve.edges[1:], strict=True):
        at, means, modelled = [], [], []
        for window, simulated in zip(windows, predicted, strict=True):
            x = window.measured[curve.channel]
            x = np.abs(x) if curve.size else x
            there = (x >= low) & (x < high)
            if there.sum() >= FEW:
                sign = np.sign(window.measured[curve.channel][there]) if curve.size else 1.0  # left and right are one
                at.append(float(x[there].mean()))
                means.append(float((sign * window.measured[curve.of][there]).mean()))
                modelled.append(float((sign * simulated[curve.of][there]).mean()))
        if len(means) < 2:
            continue
        mean = float(np.mean(means))
        scatter = _NORMAL_95 * float(np.std(means, ddof=1)) / float(np.sqrt(len(means)))
        limit = float(band(np.array([mean]), settings)[0])
        found.append(Averaged(float(np.mean(at)), mean, scatter, float(np.mean(modelled)), limit, len(means)))
    return found


def worst(windows: Sequence[Window], predicted: Predicted, settings: dict[str, Measured]) -> int:
    """The window that is farthest off, each channel in its tolerance, or else in the size of its signal."""
    size = {}
    for name, each in settings.items():
        measured, _ = over(windows, predicted, name)
        size[name] = float(np.sqrt(np.mean(band(measured, each) ** 2))) if tolerated(each) else float(measured.std())
    scores = [
        max(float(np.sqrt(np.mean((run[name] - w.measured[name]) ** 2))) / max(size[name], 1e-300) for name in settings)
        for w, run in zip(windows, predicted, strict=True)
    ]
    return int(np.argmax(np.where(np.isfinite(scores), scores, np.inf)))
