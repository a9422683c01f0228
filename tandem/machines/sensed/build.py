"""A machine with its sensors, from its file: tables, names, the state it begins with."""

from typing import Any

import numpy as np
from pydantic import Field

from sim_service.contract.machine import Machine, Quantity, Tables, tables
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.estimation.contract import LINEARISE, MEASURE, Observed
from tandem.estimation.description import Sensors, read_sensors
from tandem.estimation.rows import Count
from tandem.estimation.virtual_sensors import offsets_at_start, true_rows
from tandem.machines.observer.observed_machine import like, observed_machine
from tandem.machines.sensed import step as stepping
from tandem.machines.sensed.layout import HEAD, A
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
    made, state_size, work_size = _tables(own, sensors, settings.seed)
    machine = Machine(
        name="sensed",
        inputs=base.inputs,
        states=tuple(Quantity(f"sensed {i}", "", "") for i in range(state_size)),
        outputs=(*base.outputs, *_readings(own, sensors)),
        step=stepping.step,
        initial=_initial(base, sensors, settings.seed, made),
        tables=made,
        work_size=work_size,
        parameters=base.parameters,
        capabilities=like(
            base, f"sensed {settings.observed} {len(A)}", settings.step_ms,
            range(*made.ints[2 * A.ADDRESSES :][:2]), int(made.ints[2 * A.OWN_FLOATS]),
        ),
    )  # fmt: skip
    return machine, params


def _readings(own: Observed, sensors: Sensors) -> tuple[Quantity, ...]:
    return (
        *(
            Quantity("reading_" + name.replace(".", "_"), own.signals[signal].unit, "delivered last")
            for name, signal in zip(sensors.names, sensors.counts[:, Count.SIGNAL], strict=True)
        ),
        *(Quantity(f"age_{name}", "s", "of what was delivered last") for name in dict.fromkeys(sensors.sensor)),
    )


def _tables(own: Observed, sensors: Sensors, seed: int) -> tuple[Tables, int, int]:
    """And how large state and work are."""
    base, count = own.machine, len(sensors.rows)
    names = list(dict.fromkeys(sensors.sensor))
    lengths = [int(latency) + 1 for latency in sensors.counts[:, Count.LATENCY]]
    outages = [(i, a, b) for i, spans in enumerate(sensors.outages) for a, b in spans]
    ints: dict[int, Any] = {
        A.SIZES: [len(base.outputs), seed], A.FIRST_OF: [sensors.sensor.index(name) for name in names],
        A.QUEUES: np.concatenate([[0], np.cumsum(lengths)[:-1]]), A.OUTAGES: np.array(outages).ravel(),
        A.COUNTS: sensors.counts.ravel(), A.OWN_INTS: base.tables.ints,
    }  # fmt: skip
    kernels = ((own.linearise, LINEARISE), (own.measure, MEASURE))
    reals: dict[int, Any] = {
        A.ROWS: true_rows(sensors, seed).ravel(), A.NOISE: sensors.noise, A.WALK: [b.walk for b in sensors.biases],
        A.ADDRESSES: [as_word(address_of(*one)) for one in kernels], A.OWN_FLOATS: base.tables.floats,
    }  # fmt: skip
    n = len(own.coordinates)
    state = {
        A.OWN_STATE: len(base.states), A.COUNT: 1, A.BIAS: len(sensors.biases), A.HELD: count, A.TAKEN: count,
        A.ON_ITS_WAY: sum(lengths), A.OF: sum(lengths),
    }  # fmt: skip
    work = {A.OWN_WORK: base.work_size, A.SLOPES: n * n + 512, A.AT: own.at_size}
    header = np.zeros(HEAD, np.int64)
    ends = []
    for sizes, begin in (
        ({which: len(values) for which, values in ints.items()}, HEAD),
        ({which: len(values) for which, values in reals.items()}, 0),
        (state, 0),
        (work, len(base.outputs) + count + len(names)),
    ):
        at = begin
        for which, size in sizes.items():
            header[2 * which : 2 * which + 2] = at, at + size
            at += size
        ends.append(at)
    made = tables(
        np.concatenate([header, *(np.asarray(v, np.int64) for v in ints.values())]),
        np.concatenate([np.asarray(v, float) for v in reals.values()]),
    )
    return made, ends[2], ends[3]


def _initial(base: Machine, sensors: Sensors, seed: int, made: Tables) -> Any:
    def initial(state: np.ndarray, params: np.ndarray, given: Tables, work: np.ndarray) -> None:
        state[:] = 0.0
        work[:] = 0.0
        own, room = state[: len(base.states)], np.zeros(base.work_size)
        base.initial(own, params, base.tables, room)
        work[: len(base.outputs)] = room[: len(base.outputs)]
        for which, values in ((A.BIAS, offsets_at_start(sensors, seed)), (A.TAKEN, -1.0), (A.OF, -1.0)):
            state[made.ints[2 * which] : made.ints[2 * which + 1]] = values

    return initial
