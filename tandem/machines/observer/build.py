"""An observer as a machine, from its file: tables, names, the state it begins with."""

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from sim_service.contract.machine import Machine, Prediction, Quantity, Tables, tables
from sync.config.toml import Section, check
from tandem.estimation.contract import CORRECT, LINEARISE, MEASURE, Observed
from tandem.estimation.description import Sensors, Walk, read_sensors
from tandem.estimation.make import Filter, read_tuning
from tandem.estimation.rows import Count
from tandem.machines.observer import step as stepping
from tandem.machines.observer.layout import HEAD, A
from tandem.machines.observer.observed_machine import like, observed_machine
from tandem.multibody.code.calls import address_of, as_word


class FilterSection(Section):
    estimated: list[str] = []
    states: dict[str, Walk]
    quantities: dict[str, Walk] = {}
    history: int = Field(32, ge=2, le=1000)
    most: int = Field(8, ge=2, le=1000)


class ObserverSection(Section):
    machine: str
    observed: str
    top: dict[str, str] = {}
    step_ms: float = Field(ge=0.1, le=20.0)
    sensors: dict[str, dict[str, Any]]
    filter: FilterSection
    parameters: dict[str, float] = {}


def filter_from(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Filter, Sensors]:
    """The filter of an observer's file, as its machine begins with it, outside of a machine."""
    where = sources.name()
    settings = check(ObserverSection, data, where)
    own, params = observed_machine(settings.observed, settings.top, sources, where, {**settings.parameters, **changed})
    h = settings.step_ms * 1e-3
    sensors = read_sensors(settings.sensors, own, h, where)
    return make_filter(own, params, sensors, settings.filter, h, where), sensors


def build(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    where = sources.name()
    settings = check(ObserverSection, data, where)
    own, params = observed_machine(settings.observed, settings.top, sources, where, {**settings.parameters, **changed})
    base, h = own.machine, settings.step_ms * 1e-3
    sensors = read_sensors(settings.sensors, own, h, where)
    filter = make_filter(own, params, sensors, settings.filter, h, where)
    made = _tables(own, sensors, filter)
    inputs, outputs = _inputs(own, sensors), _outputs(own, sensors, settings.filter)
    state_size, work_size = _size(made.ints, A.LAST), _size(made.ints, A.INNOVATIONS)
    machine = Machine(
        name="observer",
        inputs=inputs,
        states=tuple(Quantity(f"observer {i}", "", "") for i in range(state_size)),
        outputs=outputs,
        step=stepping.step,
        initial=_initial(own, sensors, settings.filter, made, h, where),
        tables=made,
        work_size=work_size,
        parameters=base.parameters,
        capabilities=(
            *like(
                base, f"observer {settings.observed} {len(A)}", settings.step_ms,
                range(*made.ints[2 * A.ADDRESSES :][:2]), int(made.ints[2 * A.OWN_FLOATS]),
            ),
            *_prediction(base),
        ),
    )  # fmt: skip
    return machine, params


def _prediction(base: Machine) -> tuple[Prediction, ...]:
    own = base.of(Prediction)
    if own is None:
        return ()
    return (Prediction(lambda params: replace(own.make(params), of=base, params_at=len(base.states))),)


def make_filter(
    own: Observed, params: np.ndarray, sensors: Sensors, settings: FilterSection, h: float, where: str
) -> Filter:
    tuning = read_tuning(own, sensors, settings.estimated, settings.states, settings.quantities, where)
    machine = own.machine
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    return Filter(own, params, state, sensors, settings.estimated, tuning, h, settings.history, settings.most)


def _tables(own: Observed, sensors: Sensors, filter: Filter) -> Tables:
    memory, model, base = filter.memory, filter.model, own.machine
    names = list(dict.fromkeys(sensors.sensor))
    first_age = len(base.inputs) + len(sensors.rows)
    ages = [first_age + names.index(name) for name in sensors.sensor]
    kernels = ((own.linearise, LINEARISE), (own.measure, MEASURE), (own.correct, CORRECT))
    ints: dict[int, Any] = {A.SIZES: model.sizes, A.SENSOR: ages, A.COUNTS: model.counts, A.OWN_INTS: base.tables.ints}
    reals: dict[int, Any] = {
        A.ROWS: model.rows, A.NOISE: model.Q, A.LIMITS: model.limits, A.START: model.start, A.ROUGH: model.rough,
        A.ADDRESSES: [as_word(address_of(*one)) for one in kernels], A.OWN_FLOATS: base.tables.floats,
    }  # fmt: skip
    state = {
        A.ESTIMATE: memory.estimate, A.SECOND: memory.second, A.SAVED: memory.saved, A.INPUTS: memory.inputs,
        A.READINGS: memory.readings, A.NOTES: memory.notes, A.COUNTERS: memory.counters,
        A.LAST: np.zeros(len(sensors.rows)),
    }  # fmt: skip
    outputs = len(_outputs_of(own, sensors, filter))
    work = {A.SCRATCH: memory.scratch, A.WORK: memory.work, A.GIVEN: memory.given, A.INNOVATIONS: memory.innovations}
    header = np.zeros(HEAD, np.int64)
    for parts, begin in ((ints, HEAD), (reals, 0), (state, 0), (work, outputs)):
        at = begin
        for which, values in parts.items():
            header[2 * which : 2 * which + 2] = at, at + len(values)
            at += len(values)
    return tables(
        np.concatenate([header, *(np.asarray(v, np.int64) for v in ints.values())]),
        np.concatenate([np.asarray(v, float) for v in reals.values()]),
    )


def _size(ints: np.ndarray, last: int) -> int:
    return int(ints[2 * last + 1])


def _inputs(own: Observed, sensors: Sensors) -> tuple[Quantity, ...]:
    names = list(dict.fromkeys(sensors.sensor))
    return (
        *own.machine.inputs,
        *(
            Quantity("measured_" + name.replace(".", "_"), own.signals[signal].unit, "a reading", optional=True)
            for name, signal in zip(sensors.names, sensors.counts[:, Count.SIGNAL], strict=True)
        ),
        *(Quantity(f"age_{name}", "s", "of the sensor's readings", optional=True) for name in names),
    )


def _outputs_of(own: Observed, sensors: Sensors, filter: Filter) -> tuple[str, ...]:
    further = [own.estimable[k].name for k in filter.which] + [b.name.replace(".", "_") for b in sensors.biases]
    states = [q.name for q in own.coordinates] + further
    return (
        *(q.name for q in own.machine.outputs),
        *(f"estimated_{name}" for name in further),
        *(f"sigma_{name}" for name in states),
        "readings_used", "readings_gated", "readings_late",
    )  # fmt: skip


def _outputs(own: Observed, sensors: Sensors, settings: FilterSection) -> tuple[Quantity, ...]:
    further = [*settings.estimated, *(b.name.replace(".", "_") for b in sensors.biases)]
    states = [q.name for q in own.coordinates] + further
    return (
        *own.machine.outputs,
        *(Quantity(f"estimated_{name}", "", "by the filter") for name in further),
        *(Quantity(f"sigma_{name}", "", "standard deviation, by the filter") for name in states),
        *(Quantity(f"readings_{what}", "1", "so far") for what in ("used", "gated", "late")),
    )


def _initial(own: Observed, sensors: Sensors, settings: FilterSection, made: Tables, h: float, where: str) -> Any:
    def initial(state: np.ndarray, params: np.ndarray, given: Tables, work: np.ndarray) -> None:
        memory = make_filter(own, params, sensors, settings, h, where).memory
        state[:] = 0.0
        work[:] = 0.0
        for which, values in (
            (A.ESTIMATE, memory.estimate), (A.READINGS, memory.readings), (A.LAST, np.full(len(sensors.rows), -1.0)),
        ):  # fmt: skip
            state[made.ints[2 * which] : made.ints[2 * which + 1]] = values

    return initial
