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
from tandem.estimation.experiment import Seen, Truth
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
    own, h = filter.observed, filter.h
    steps = len(next(iter(columns.values())))
    inputs = np.stack([columns[q.name] for q in own.machine.inputs], axis=1)
    readings, begins = np.full((steps, len(sensors.rows)), np.nan), {part.first for part in parts}
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
    seen = Seen(readings, np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)), np.ones_like(readings),
                np.zeros((0, 0)))  # fmt: skip
    innovations: list[np.ndarray] = []
    pieces: list[Smoothed] = []
    for part in parts:
        filter, _ = filter_from(sources.toml(), sources, changed, part.state)
        some = slice(part.first, part.behind)
        of_part = seen._replace(readings=readings[some], factors=seen.factors[some])
        piece = smooth(
            filter, Truth(of_part, inputs[some], EVERY, filter.params, own.machine),
            lambda filter=filter: innovations.append(filter.memory.innovations.copy()),  # type: ignore[misc]
        )  # fmt: skip
        pieces.append(piece)
    found = Smoothed(*(np.concatenate(each) for each in zip(*pieces, strict=True)))
    chosen = np.concatenate([np.arange(p.first, p.behind, EVERY) for p in parts])
    n = len(own.coordinates)
    further = [own.estimable[k].name for k in filter.which] + [b.name.replace(".", "_") for b in sensors.biases]
    names = [c.name for c in own.coordinates] + further
    outputs = [o.name for o in own.machine.outputs]
    sides: list[dict[str, list[float]]] = [{}, {}, {}, {}]
    work = np.zeros(own.machine.work_size)
    watched = tuple(name for name in watch if name in outputs)
    Q = filter.model.Q.reshape(filter.order, filter.order)
    spreads: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for k, estimate in enumerate(found.estimates):
        filter.memory.estimate[:] = estimate
        P = filter.covariance()
        if watched:
            H = output_derivatives(filter, watched, inputs[chosen[k]], np.sqrt(np.diag(P)))
            for spread, cov in zip(spreads, (P, found.covariances[k]), strict=True):
                spread.append(H @ (cov + Q) @ H.T)
        for side, correction in enumerate((np.zeros(filter.order), found.corrections[k])):
            state, params, extra = filter.state.copy(), filter.params.copy(), filter.extra + correction[n:]
            for i, which in enumerate(filter.which):
                if own.estimable[which].parameter >= 0:
                    params[own.estimable[which].parameter] = extra[i]
            if correction[:n].any():
                own.correct(state, params, own.machine.tables, work, correction[:n].copy())
            own.machine.step(state, inputs[chosen[k]].copy(), params, own.machine.tables, work, h)
            for name, value in zip(outputs, work, strict=False):
                sides[side].setdefault(name, []).append(float(value))
            for name, value in zip(further, extra, strict=True):
                sides[side].setdefault(f"estimated_{name}", []).append(float(value))
        for side, cov in ((2, P), (3, found.covariances[k])):
            for name, value in zip(names, np.sqrt(np.maximum(np.diag(cov), 0.0)), strict=True):
                sides[side].setdefault(name, []).append(float(value))
    forward, smoothed, sigma, sigma_smoothed = ({n: np.array(v) for n, v in side.items()} for side in sides)
    return SmoothedRecord(
        chosen, forward, smoothed, sigma, sigma_smoothed,
        _normalised(np.array(innovations), sensors.names), watched, np.array(spreads[0]), np.array(spreads[1]),
        tuple(q.name for q in own.machine.outputs if q.name in watched and q.unit == "rad"),
    )  # fmt: skip


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
