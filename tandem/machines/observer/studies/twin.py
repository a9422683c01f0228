"""The twin experiment: truths with sensors, filters that see these alone, errors and consistency of all runs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sim_service.contract.machine import index
from sync.errors import ConfigError
from tandem.estimation.consistency import mean_band, nees
from tandem.estimation.description import Sensors, read_sensors
from tandem.estimation.experiment import Estimates, Truth, record, replay
from tandem.estimation.make import Filter, Tuning, read_tuning
from tandem.estimation.noise import normal_number
from tandem.estimation.rows import COUNTERS, EXACT, FREE
from tandem.estimation.satellites import Reception
from tandem.estimation.smoother import smooth
from tandem.estimation.unscented import replay_unscented
from tandem.machines.observer.studies.excitation import Excitation
from tandem.machines.observer.studies.machines import Assembled, make
from tandem.machines.observer.studies.settings import Study

FORMS = {"exact": EXACT, "constant": FREE, "unscented": EXACT, "smoothed": EXACT}
_BEGIN = 70_000  # stream of the errors at the start


@dataclass
class Setup:
    """What all runs of a study share."""

    study: Study
    where: str
    model: Assembled
    truth: Assembled
    sensors: Sensors
    tuning: Tuning
    quantities: np.ndarray  # true values of what is estimated
    h: float


@dataclass
class Outcome:
    """Of one form of the filter over all runs."""

    rms: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # watched: part of the time: each run
    nees: list[np.ndarray] = field(default_factory=list)
    nis: list[np.ndarray] = field(default_factory=list)
    counters: np.ndarray | None = None
    notes: np.ndarray | None = None
    quantities: list[np.ndarray] = field(default_factory=list)  # true less estimated, at the end
    step_us: list[float] = field(default_factory=list)
    at_outage_end: dict[str, list[float]] = field(default_factory=dict)
    receptions: dict[str, Reception] = field(default_factory=dict)  # of the first run


def prepare(study: Study, path: Path) -> Setup:
    where, h = str(path), study.step_ms * 1e-3
    model, truth = make(study.machine, path, {}), make(study.machine, path, dict(study.truth.parameters))
    observed = model.observed
    sensors = read_sensors(study.sensors, observed, h, where)
    settings = study.filter
    names = {one.name: one for one in observed.estimable}
    for name in study.watch:
        try:
            index(observed.machine.outputs, name)
        except KeyError as error:
            raise ConfigError(f"{where}: watch.{name}: {error.args[0]}") from None
    tuning = read_tuning(observed, sensors, settings.estimated, settings.states, settings.quantities, where)
    quantities = []
    for name in settings.estimated:
        one = names[name]
        quantities.append(truth.params[one.parameter] if one.parameter >= 0 else study.truth.quantities.get(name, 0.0))
    return Setup(study, where, model, truth, sensors, tuning, np.array(quantities), h)


def run_truth(setup: Setup, seed: int) -> tuple[Truth, np.ndarray]:
    """A truth by its seed, and the state a filter begins at: the truth's, off by as much as the filter believes."""
    study, model, truth = setup.study, setup.model, setup.truth
    excitation = Excitation(study, truth, seed, setup.where)
    begin = excitation.start()
    inputs = excitation.run(begin)
    n = len(model.observed.coordinates)
    motion = setup.tuning.walk if study.truth.noise else None
    wander = list(zip(study.filter.estimated, setup.tuning.walk[n:], strict=False)) if study.truth.noise else []
    found = record(
        truth.observed, truth.params, begin, inputs, setup.sensors, setup.h, seed, motion=motion, quantities=wander
    )
    off = np.array([normal_number(seed, _BEGIN, i) for i in range(n)]) * setup.tuning.start[:n]
    state, work = Excitation(study, model, seed, setup.where).start(), np.zeros(model.observed.machine.work_size)
    machine, observed = model.observed.machine, model.observed
    observed.correct(
        state, model.params, machine.tables, work, observed.difference(begin, state, truth.observed.machine) + off
    )
    return found, state


def make_filter(setup: Setup, state: np.ndarray, form: int, seed: int) -> Filter:
    """With the true model, what is estimated begins off by as much as the filter believes, as the state does."""
    settings, observed = setup.study.filter, setup.model.observed
    filter = Filter(
        observed, setup.model.params, state, setup.sensors, settings.estimated, setup.tuning, setup.h,
        settings.history, settings.most, form,
    )  # fmt: skip
    if setup.study.truth.noise:
        n = len(observed.coordinates)
        for k, which in enumerate(filter.which):
            filter.extra[k] += setup.tuning.start[n + k] * normal_number(seed, _BEGIN, n + k)
            parameter = observed.estimable[which].parameter
            if parameter >= 0:
                filter.params[parameter] = filter.extra[k]
    return filter


def parts_of_time(setup: Setup) -> dict[str, np.ndarray]:
    """Steps that count: in and out of the outages of the sensor that is named."""
    study = setup.study
    steps = round(study.seconds / setup.h)
    counts = np.arange(steps) * setup.h >= study.settle_s
    out = np.zeros(steps, bool)
    if study.outage:
        rows = [i for i, name in enumerate(setup.sensors.sensor) if name == study.outage]
        if not rows:
            raise ConfigError(f"{setup.where}: outage = {study.outage!r}: must be one of {', '.join(study.sensors)}")
        for a, b in setup.sensors.outages[rows[0]]:
            out[a:b] = True
    return {"all": counts, "without outage": counts & ~out, "outage": counts & out}


def watched_errors(setup: Setup, truth: np.ndarray, estimate: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    for name, how in setup.study.watch.items():
        k = index(setup.model.observed.machine.outputs, name)
        e = (estimate[:, k] - truth[:, k]) * how.scale
        if how.relative_to > 0.0:
            e = e / np.maximum(np.abs(truth[:, k]) * how.scale, how.relative_to)
        found[name] = e
    return found


def observe(setup: Setup, form: str, seed: int, truth: Truth, state: np.ndarray, into: Outcome) -> dict[str, Any]:
    """One filter over one truth; errors of its outputs are returned, and what it estimated at kept instants."""
    filter = make_filter(setup, state, FORMS[form], seed)
    began = perf_counter()
    if form == "unscented":
        estimates = replay_unscented(filter, truth, setup.tuning.walk)
    elif form == "smoothed":
        estimates = smoothed_estimates(filter, truth)
    else:
        estimates = replay(filter, truth)
    into.step_us.append((perf_counter() - began) / len(truth.inputs) * 1e6)
    found = watched_errors(setup, truth.seen.outputs, estimates.outputs)
    parts = parts_of_time(setup)
    if form == "smoothed":  # of kept instants alone
        some = np.arange(len(truth.inputs)) % truth.every == 0
        parts = {part: steps & some for part, steps in parts.items()}
    for name, e in found.items():
        for part, steps in parts.items():
            if steps.any():
                rms = float(np.sqrt(np.mean(e[steps] ** 2)))
                into.rms.setdefault(name, {}).setdefault(part, []).append(rms)
        if parts["outage"].any():
            last = int(np.flatnonzero(parts["outage"])[-1])
            into.at_outage_end.setdefault(name, []).append(abs(float(e[last])))
    into.receptions = into.receptions or truth.receptions
    into.nees.append(nees(filter, truth, estimates, setup.quantities))
    innovations = estimates.innovations.reshape(len(truth.inputs), -1, 2)[round(setup.study.settle_s / setup.h) :]
    with np.errstate(invalid="ignore"):
        ratio = innovations[..., 0] ** 2 / innovations[..., 1]
    into.nis.append(np.array([np.mean(r[~np.isnan(r)]) if np.any(~np.isnan(r)) else np.nan for r in ratio.T]))
    counters = filter.counters.copy()
    into.counters = counters if into.counters is None else into.counters + counters
    notes = filter.memory.notes.copy()
    into.notes = notes if into.notes is None else into.notes + notes
    q, first = len(filter.which), len(filter.state) + len(filter.params)
    wandered = truth.seen.quantities[-1] if truth.seen.quantities.shape[1] else setup.quantities
    into.quantities.append(wandered - filter.extra[:q])
    return {"errors": found, "quantities": estimates.sampled[:, first : first + q]}


def smoothed_estimates(filter: Filter, truth: Truth) -> Estimates:
    """Of all readings; outputs by a step from every kept instant, held until the next."""
    found, machine = smooth(filter, truth), filter.observed.machine
    sampled, outputs = found.estimates.copy(), np.zeros((len(truth.inputs), len(machine.outputs)))
    work, n = np.zeros(machine.work_size), len(filter.observed.coordinates)
    for k, estimate in enumerate(found.estimates):
        filter.memory.estimate[:] = estimate
        state, params, extra = filter.state.copy(), filter.params.copy(), filter.extra + found.corrections[k, n:]
        filter.observed.correct(state, params, machine.tables, work, found.corrections[k, :n].copy())
        filter.put(state, params, extra, found.covariances[k])
        sampled[k] = filter.memory.estimate
        first = k * truth.every
        machine.step(state, truth.inputs[first].copy(), params, machine.tables, work, filter.h)
        outputs[first : first + truth.every] = work[: len(machine.outputs)]
    return Estimates(sampled, outputs, np.full((len(truth.inputs), 2 * len(filter.counters)), np.nan))


def run(setup: Setup, forms: list[str], update: Callable[[str, float], None]) -> dict[str, Outcome]:
    """All runs of a study, with each form of the filter."""
    outcomes = {form: Outcome() for form in forms}
    total = setup.study.runs * (1 + len(forms))
    for seed in range(setup.study.runs):
        update(f"run {seed + 1} of {setup.study.runs}: truth", seed * (1 + len(forms)) / total)
        truth, state = run_truth(setup, seed)
        for k, form in enumerate(forms):
            update(f"run {seed + 1} of {setup.study.runs}: {form}", (seed * (1 + len(forms)) + 1 + k) / total)
            observe(setup, form, seed, truth, state, outcomes[form])
    return outcomes


def consistency(setup: Setup, outcome: Outcome) -> dict[str, float]:
    """Normalised errors of the mean run beside their band."""
    order = len(setup.tuning.start)
    low, high = mean_band(order, len(outcome.nees))
    mean = np.mean(outcome.nees, axis=0)
    late = mean[round(setup.study.settle_s / setup.h / 20) :]
    return {
        "states": order, "low": low, "high": high, "mean": float(np.mean(late)),
        "inside": float(np.mean((late > low) & (late < high))), "below": float(np.mean(late < low)),
        "above": float(np.mean(late > high)),
    }  # fmt: skip


def counts(setup: Setup, outcome: Outcome) -> dict[str, dict[str, float]]:
    """Of each row of sensors: what was used, refused, late; mean normalised innovation."""
    assert outcome.counters is not None
    nis = np.array(outcome.nis)
    found = {}
    for i, name in enumerate(setup.sensors.names):
        row = {which: float(outcome.counters[i, k]) for k, which in enumerate(COUNTERS)}
        some = nis[~np.isnan(nis[:, i]), i]
        row["nis"] = float(np.mean(some)) if len(some) else float("nan")
        found[name] = row
    return found
