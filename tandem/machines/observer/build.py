"""An observer as a machine, from its file: tables, names, the state it begins with."""

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from sim_service.composite import Own, around, own_scratch_at
from sim_service.contract.machine import Floats, Machine, Prediction, Quantity, Reshape, Tables
from sync.compile.parts import joined, lay_out, places_in, span
from sync.config.toml import Section, check
from tandem.estimation.contract import CORRECT, LINEARISE, MEASURE, Observed
from tandem.estimation.description import Earned, Sensors, Walk, read_sensors
from tandem.estimation.ekf import LIMITS
from tandem.estimation.make import Filter, read_tuning
from tandem.estimation.rows import Count
from tandem.machines.observer import step as stepping
from tandem.machines.observer.layout import A
from tandem.machines.observer.observed_machine import observed_machine
from tandem.multibody.code.calls import address_of, as_word


class FilterSection(Section):
    estimated: list[str] = []
    states: dict[str, Walk]
    quantities: dict[str, Earned] = {}
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


def filter_from(
    data: dict[str, Any], sources: Any, changed: dict[str, float], state: np.ndarray | None = None
) -> tuple[Filter, Sensors]:
    """The filter of an observer's file, as its machine begins with it, or with this state, outside of a machine."""
    where = sources.name()
    settings = check(ObserverSection, data, where)
    own, params = observed_machine(settings.observed, settings.top, sources, where, {**settings.parameters, **changed})
    h = settings.step_ms * 1e-3
    sensors = read_sensors(settings.sensors, own, h, where)
    return make_filter(own, params, sensors, settings.filter, h, where, state), sensors


def build(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    where = sources.name()
    settings = check(ObserverSection, data, where)
    own, params = observed_machine(settings.observed, settings.top, sources, where, {**settings.parameters, **changed})
    return around(own.machine, _own(own, params, settings, where)), params


def make_filter(
    own: Observed, params: np.ndarray, sensors: Sensors, settings: FilterSection, h: float, where: str,
    state: np.ndarray | None = None,
) -> Filter:  # fmt: skip
    """As it begins, from the machine's own start or this state of it."""
    tuning = read_tuning(own, sensors, settings.estimated, settings.states, settings.quantities, where)
    machine = own.machine
    if state is None:
        state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        machine.initial(state, params, machine.tables, work)
    return Filter(own, params, state, sensors, settings.estimated, tuning, h, settings.history, settings.most)


def _own(own: Observed, params: np.ndarray, settings: ObserverSection, where: str) -> Own:
    base, h, n = own.machine, settings.step_ms * 1e-3, len(own.machine.states)
    sensors = read_sensors(settings.sensors, own, h, where)
    filter = make_filter(own, params, sensors, settings.filter, h, where)
    memory, model = filter.memory, filter.model
    outputs = _outputs(own, sensors, settings.filter, filter)
    names = list(dict.fromkeys(sensors.sensor))
    first_age = len(base.inputs) + len(sensors.rows)
    ages = [first_age + names.index(name) for name in sensors.sensor]
    kernels = ((own.linearise, LINEARISE), (own.measure, MEASURE), (own.correct, CORRECT))
    ints: dict[int, Any] = {A.SIZES: model.sizes, A.SENSOR: ages, A.COUNTS: model.counts}
    reals: dict[int, Any] = {
        A.ROWS: model.rows, A.NOISE: model.Q, A.LIMITS: model.limits, A.START: model.start, A.ROUGH: model.rough,
        A.ADDRESSES: [as_word(address_of(*one)) for one in kernels],
    }  # fmt: skip
    state = {
        A.ESTIMATE: memory.estimate, A.SECOND: memory.second, A.SAVED: memory.saved, A.INPUTS: memory.inputs,
        A.READINGS: memory.readings, A.NOTES: memory.notes, A.COUNTERS: memory.counters,
        A.LAST: np.zeros(len(sensors.rows)),
    }  # fmt: skip
    work = {A.SCRATCH: memory.scratch, A.STEP_INPUTS: memory.step_inputs, A.INNOVATIONS: memory.innovations}
    work_at = own_scratch_at(base, len(outputs))
    spans, (_, _, state_end, work_end) = lay_out(len(A), (2 * len(A), ints), (0, reals), (0, state), (work_at, work))

    def begin(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        begun = make_filter(own, params, sensors, settings.filter, h, where, state[:n].copy()).memory
        state[span(spans, A.ESTIMATE)], state[span(spans, A.READINGS)] = begun.estimate, begun.readings
        state[span(spans, A.LAST)] = -1.0

    return Own(
        "observer",
        stepping.step,
        inputs=_inputs(own, sensors),
        states=tuple(Quantity(f"observer {i}", "", "") for i in range(state_end - n)),
        outputs=outputs,
        ints=np.concatenate([spans, joined(ints, np.int64)]),
        floats=joined(reals, float),
        addresses=places_in(spans, A.ADDRESSES),
        scratch=work_end - work_at,
        layout=f"observer {len(A)}",
        begin=begin,
        step_ms=settings.step_ms,  # sensors' rates and latencies are counted in steps
        without=(Reshape,),  # the filter's saved estimates are of the shape it began with
        capabilities=_prediction(base),
    )


def _prediction(base: Machine) -> tuple[Prediction, ...]:
    """With the parameters as estimated, which stand behind the state."""
    own = base.of(Prediction)
    if own is None:
        return ()

    def make(params: Floats) -> object:
        monitor: Any = own.make(params)
        return replace(monitor, of=base, params_at=len(base.states))

    return (Prediction(make),)


def _inputs(own: Observed, sensors: Sensors) -> tuple[Quantity, ...]:
    names = list(dict.fromkeys(sensors.sensor))
    return (
        *(
            Quantity("measured_" + name.replace(".", "_"), own.signals[signal].unit, "a reading", optional=True)
            for name, signal in zip(sensors.names, sensors.counts[:, Count.SIGNAL], strict=True)
        ),
        *(Quantity(f"age_{name}", "s", "of the sensor's readings", optional=True) for name in names),
    )


def _outputs(own: Observed, sensors: Sensors, settings: FilterSection, filter: Filter) -> tuple[Quantity, ...]:
    further = [*settings.estimated, *(b.name.replace(".", "_") for b in sensors.biases)]
    states = [q.name for q in own.coordinates] + further
    return (
        *(Quantity(f"estimated_{name}", "", "by the filter") for name in further),
        *(Quantity(f"sigma_{name}", "", "standard deviation, by the filter") for name in states),
        *(Quantity(f"readings_{what}", "1", "so far") for what in ("used", "gated", "late")),
        *(
            Quantity(f"supported_{name}", "1", "1: the motion has excited it, and readings have found it; 0: not")
            for name, limits in zip(settings.estimated, filter.model.limits.reshape(-1, LIMITS), strict=True)
            if limits[2] > 0.0
        ),
    )
