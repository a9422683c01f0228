"""A machine with its sensors, from its file: tables, names, the state it begins with."""

from typing import Any

import numpy as np
from pydantic import Field

from sim_service.composite import Own, around, own_scratch_at
from sim_service.contract.machine import Machine, Quantity, Tables
from sync.compile.parts import joined, lay_out, places_in, span
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.estimation.contract import LINEARISE, MEASURE, Observed
from tandem.estimation.description import Sensors, read_sensors
from tandem.estimation.rows import Count
from tandem.estimation.virtual_sensors import offsets_at_start, true_rows
from tandem.machines.observer.observed_machine import observed_machine
from tandem.machines.sensed import step as stepping
from tandem.machines.sensed.layout import A
from tandem.multibody.code.calls import address_of, as_word


class SensedSection(Section):
    machine: str
    observed: str
    top: dict[str, str] = {}
    step_ms: float = Field(ge=0.1, le=20.0)
    seed: int = Field(0, ge=0, lt=2**31)
    sensors: dict[str, dict[str, Any]]
    parameters: dict[str, float] = {}


def build(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    where = sources.name()
    settings = check(SensedSection, data, where)
    own, params = observed_machine(settings.observed, settings.top, sources, where, {**settings.parameters, **changed})
    base = own.machine
    sensors = read_sensors(settings.sensors, own, settings.step_ms * 1e-3, where)
    if sensors.skies:
        raise ConfigError(
            f"{where}: sensors.{next(iter(sensors.skies))}.sky: is for twin experiments (`tandem observe`); a machine"
            " that runs has outages_s"
        )
    return around(base, _own(own, sensors, settings)), params


def _readings(own: Observed, sensors: Sensors) -> tuple[Quantity, ...]:
    return (
        *(
            Quantity("reading_" + name.replace(".", "_"), own.signals[signal].unit, "delivered last")
            for name, signal in zip(sensors.names, sensors.counts[:, Count.SIGNAL], strict=True)
        ),
        *(Quantity(f"age_{name}", "s", "of what was delivered last") for name in dict.fromkeys(sensors.sensor)),
    )


def _own(own: Observed, sensors: Sensors, settings: SensedSection) -> Own:
    base, count, seed = own.machine, len(sensors.rows), settings.seed
    outputs = _readings(own, sensors)
    names = list(dict.fromkeys(sensors.sensor))
    waiting = [int(latency) + 1 for latency in sensors.counts[:, Count.LATENCY]]
    outages = [(i, a, b) for i, spans in enumerate(sensors.outages) for a, b in spans]
    ints: dict[int, Any] = {
        A.SEED: [seed], A.FIRST_OF: [sensors.sensor.index(name) for name in names],
        A.QUEUES: np.concatenate([[0], np.cumsum(waiting)[:-1]]), A.OUTAGES: np.array(outages).ravel(),
        A.COUNTS: sensors.counts.ravel(),
    }  # fmt: skip
    kernels = ((own.linearise, LINEARISE), (own.measure, MEASURE))
    reals: dict[int, Any] = {
        A.ROWS: true_rows(sensors, seed).ravel(), A.NOISE: sensors.noise, A.WALK: [b.walk for b in sensors.biases],
        A.ADDRESSES: [as_word(address_of(*one)) for one in kernels],
    }  # fmt: skip
    n, states, work_at = len(own.coordinates), len(base.states), own_scratch_at(base, len(outputs))
    state = {
        A.COUNT: 1, A.BIAS: len(sensors.biases), A.HELD: count, A.TAKEN: count, A.ON_ITS_WAY: sum(waiting),
        A.OF: sum(waiting),
    }  # fmt: skip
    spans, (_, _, state_end, work_end) = lay_out(
        len(A), (2 * len(A), ints), (0, reals), (states, state),
        (work_at, {A.DERIVATIVES: n * n + 512, A.AT: own.at_size}),
    )  # fmt: skip

    def begin(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        for which, values in ((A.BIAS, offsets_at_start(sensors, seed)), (A.TAKEN, -1.0), (A.OF, -1.0)):
            state[span(spans, which)] = values

    return Own(
        "sensed",
        stepping.step,
        states=tuple(Quantity(f"sensed {i}", "", "") for i in range(state_end - states)),
        outputs=outputs,
        ints=np.concatenate([spans, joined(ints, np.int64)]),
        floats=joined(reals, float),
        addresses=places_in(spans, A.ADDRESSES),
        scratch=work_end - work_at,
        layout=f"sensed {len(A)}",
        begin=begin,
        step_ms=settings.step_ms,  # rates and latencies are counted in steps
    )
