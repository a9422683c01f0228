"""A record smoothed: every instant estimated from all of its readings, those after it too, by the filter of a file.

The filter gets what the record's steps were given: inputs, and readings at the instants they are of, in order; so the
forward pass is what the live filter comes to when it has caught up with late readings. An input that was not there is
recorded as 0: a reading of exactly 0 is taken as none, and `agrees` says how far the forward pass is from the record.
"""

from collections.abc import Mapping, Sequence
from math import floor, isnan
from typing import Any, NamedTuple

import numpy as np

from sim_service.registry import MachineFiles
from tandem.estimation.consistency import mean_band
from tandem.estimation.description import Sensors
from tandem.estimation.experiment import Seen, Truth
from tandem.estimation.make import Filter
from tandem.estimation.smoother import Smoothed, smooth
from tandem.machines.observer.build import filter_from
from tandem.machines.observer.studies.imported import Part
from tandem.machines.observer.studies.normalised import consistency, output_derivatives

EVERY = 20  # steps between instants that are returned


class SmoothedRecord(NamedTuple):
    """Of some instants, by name: what the forward pass had, what all readings make of it, standard deviations."""

    steps: np.ndarray  # of the record
    forward: dict[str, np.ndarray]
    smoothed: dict[str, np.ndarray]
    sigma_forward: dict[str, np.ndarray]
    sigma_smoothed: dict[str, np.ndarray]
    nis: dict[str, dict[str, float]]  # of each reading: count, mean of normalised innovations, band of that mean
    watched: tuple[str, ...]  # outputs whose covariances stand in the next two, a matrix an instant
    spread_forward: np.ndarray
    spread_smoothed: np.ndarray
    angles: tuple[str, ...]  # of `watched`: may begin again after a turn


def smooth_record(
    sources: MachineFiles, changed: dict[str, float], columns: Mapping[str, np.ndarray], watch: Sequence[str] = (),
    parts: Sequence[Part] | None = None,
) -> SmoothedRecord:  # fmt: skip
    """`columns`: of the record's steps, the observer's inputs by name; `watch`: outputs whose covariances are asked;
    `parts`: of an imported record."""
    parts = parts or (Part(0, len(next(iter(columns.values()))), None),)
    filter, sensors = filter_from(sources.toml(), sources, changed)
    machine = filter.observed.machine
    inputs = np.stack([columns[q.name] for q in machine.inputs], axis=1)
    readings = _readings(sensors, columns, filter.h, parts)
    innovations: list[np.ndarray] = []
    pieces = []
    for part in parts:
        filter, _ = filter_from(sources.toml(), sources, changed, part.state)
        some = slice(part.first, part.behind)
        pieces.append(_smooth_part(filter, readings[some], inputs[some], innovations))
    found = Smoothed(*(np.concatenate(each) for each in zip(*pieces, strict=True)))
    chosen = np.concatenate([np.arange(p.first, p.behind, EVERY) for p in parts])
    watched = tuple(name for name in watch if name in {q.name for q in machine.outputs})
    biases = [b.name.replace(".", "_") for b in sensors.biases]
    at = _Instants([], [], [], [], [], [])
    for k, estimate in enumerate(found.estimates):
        filter.memory.estimate[:] = estimate
        _add_instant(at, filter, inputs[chosen[k]], found.corrections[k], found.covariances[k], watched, biases)
    return SmoothedRecord(
        chosen, _by_name(at.forward), _by_name(at.smoothed), _by_name(at.sigma_forward), _by_name(at.sigma_smoothed),
        _normalised(np.array(innovations), sensors.names), watched,
        np.array(at.spread_forward), np.array(at.spread_smoothed),
        tuple(q.name for q in machine.outputs if q.name in watched and q.unit == "rad"),
    )  # fmt: skip


def _readings(sensors: Sensors, columns: Mapping[str, np.ndarray], h: float, parts: Sequence[Part]) -> np.ndarray:
    """Of every step and sensor the reading that is of this instant: each came later by its age, and only newer ones
    count."""
    steps, begins = len(next(iter(columns.values()))), {part.first for part in parts}
    readings = np.full((steps, len(sensors.rows)), np.nan)
    for i, (name, sensor) in enumerate(zip(sensors.names, sensors.sensor, strict=True)):
        values, last = columns["measured_" + name.replace(".", "_")], -1
        ages = columns.get(f"age_{sensor}", np.zeros(steps))
        for k in range(steps):
            of = k - floor(ages[k] / h + 0.5)
            if k in begins:
                last = k - 1
            if values[k] != 0.0 and not isnan(values[k]) and of > last:
                last = of
                readings[of, i] = values[k]
    return readings


def _smooth_part(filter: Filter, readings: np.ndarray, inputs: np.ndarray, innovations: list[np.ndarray]) -> Smoothed:
    none = np.zeros((0, 0))
    seen = Seen(readings, none, none, none, np.ones_like(readings), none)
    truth = Truth(seen, inputs, EVERY, filter.params, filter.observed.machine)
    return smooth(filter, truth, lambda: innovations.append(filter.memory.innovations.copy()))


class _Instants(NamedTuple):
    """Of every instant what SmoothedRecord has by name."""

    forward: list[dict[str, float]]
    smoothed: list[dict[str, float]]
    sigma_forward: list[dict[str, float]]
    sigma_smoothed: list[dict[str, float]]
    spread_forward: list[np.ndarray]
    spread_smoothed: list[np.ndarray]


def _add_instant(
    at: _Instants, filter: Filter, inputs: np.ndarray, correction: np.ndarray, covariance: np.ndarray,
    watched: tuple[str, ...], biases: list[str],
) -> None:  # fmt: skip
    """The instant at which the filter stands."""
    own, P = filter.observed, filter.covariance()
    further = [own.estimable[k].name for k in filter.which] + biases
    names = [c.name for c in own.coordinates] + further
    if watched:
        Q = filter.model.Q.reshape(filter.order, filter.order)
        H = output_derivatives(filter, watched, inputs, np.sqrt(np.diag(P)))
        at.spread_forward.append(H @ (P + Q) @ H.T)
        at.spread_smoothed.append(H @ (covariance + Q) @ H.T)
    at.forward.append(_step_from(filter, inputs, np.zeros(filter.order), further))
    at.smoothed.append(_step_from(filter, inputs, correction, further))
    for rows, cov in ((at.sigma_forward, P), (at.sigma_smoothed, covariance)):
        rows.append(dict(zip(names, np.sqrt(np.maximum(np.diag(cov), 0.0)).tolist(), strict=True)))


def _step_from(filter: Filter, inputs: np.ndarray, correction: np.ndarray, further: list[str]) -> dict[str, float]:
    """Outputs of a step from the estimate with a correction, and what is estimated besides the state."""
    own, n = filter.observed, len(filter.observed.coordinates)
    state, params, extra = filter.state.copy(), filter.params.copy(), filter.extra + correction[n:]
    work = np.zeros(own.machine.work_size)
    for i, which in enumerate(filter.which):
        if own.estimable[which].parameter >= 0:
            params[own.estimable[which].parameter] = extra[i]
    if correction[:n].any():
        own.correct(state, params, own.machine.tables, work, correction[:n].copy())
    own.machine.step(state, inputs.copy(), params, own.machine.tables, work, filter.h)
    found = {o.name: float(value) for o, value in zip(own.machine.outputs, work, strict=False)}
    return found | {f"estimated_{name}": float(value) for name, value in zip(further, extra, strict=True)}


def _by_name(rows: list[dict[str, float]]) -> dict[str, np.ndarray]:
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _normalised(innovations: np.ndarray, names: Sequence[str]) -> dict[str, dict[str, float]]:
    found = {}
    for i, name in enumerate(names):
        v, s = innovations[:, 2 * i], innovations[:, 2 * i + 1]
        some = ~np.isnan(v)
        if some.any():
            low, high = mean_band(1, int(some.sum()))
            found[name] = {
                "count": int(some.sum()), "mean": float(np.mean(v[some] ** 2 / s[some])), "low": low, "high": high,
            }  # fmt: skip
    return found


def compared(done: SmoothedRecord, board: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Figures: standard deviations of both passes, distance from the record, errors where the truth is known."""
    where = done.steps
    out: dict[str, Any] = {
        "sigma": {
            name: {"forward": float(np.mean(values)), "smoothed": float(np.mean(done.sigma_smoothed[name]))}
            for name, values in done.sigma_forward.items()
        },
        "moved_rms": {n: _rms(done.smoothed[n] - values) for n, values in done.forward.items()},
        "agrees": {n: _rms(values - board[n][where]) for n, values in done.forward.items() if n in board},
        "nis": done.nis,
        "errors": {
            n: {"forward": _rms(values - truth[n][where]), "smoothed": _rms(done.smoothed[n] - truth[n][where])}
            for n, values in done.forward.items() if n in truth
        },
    }  # fmt: skip
    names = [n for n in done.watched if n in truth]
    some = [done.watched.index(n) for n in names]
    passes = ("forward", done.forward, done.spread_forward), ("smoothed", done.smoothed, done.spread_smoothed)
    out["nees"] = {
        label: consistency(
            names, np.stack([_apart(n in done.angles, values[n], truth[n][where]) for n in names], axis=1),
            spreads[:, some][:, :, some],
        )
        for label, values, spreads in passes if names
    }  # fmt: skip
    return out


def _apart(angle: bool, values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Truth less estimate; of an angle within half a turn."""
    error = truth - values
    return np.asarray(np.remainder(error + np.pi, 2.0 * np.pi) - np.pi if angle else error)


def _rms(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(np.sqrt(np.mean(np.square(known)))) if len(known) else float("nan")
