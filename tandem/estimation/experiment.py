"""A twin experiment: a machine as truth, its sensors with noise, age and outages, and filters that see those alone.

`record` runs the truth and keeps its readings; `replay` gives them to a filter, each when it arrived. Both are one
kernel over all steps. Random numbers are by counter (noise.py): a seed gives the same bits however often and in which
order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, sqrt
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, void

from sim_service.contract.machine import TABLES, Machine
from sync.compile.array_types import CONSTANTS, INDICES, MATRIX, VECTOR, group
from sync.compile.jit import inner, kernel
from tandem.estimation import ekf
from tandem.estimation.contract import Observed
from tandem.estimation.description import Sensors
from tandem.estimation.ekf import FUNCTIONS, MEMORY, MODEL, Z
from tandem.estimation.make import Filter
from tandem.estimation.noise import normal_number
from tandem.estimation.rows import COUNTS, WIDTH, Count, R
from tandem.estimation.satellites import WORST, Reception, Sky, along
from tandem.estimation.virtual_sensors import WALKS, offsets_at_start, read, true_rows
from tandem.multibody.natural.views import view

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

_MOTION, _QUANTITIES = 40_000, 45_000  # streams of random numbers from here on; others: virtual_sensors.py


class Seen(NamedTuple):
    """What a truth leaves, a row a step."""

    readings: np.ndarray  # NaN: none
    states: np.ndarray  # every so many steps
    outputs: np.ndarray
    biases: np.ndarray
    factors: np.ndarray  # on the noise of each reading, as its sensor reports it
    quantities: np.ndarray  # true values of what is estimated, as `states`


_SEEN = group(Seen, *6 * [MATRIX])


@inner
def put(matrix, k, values):
    """A row of a matrix."""
    for i in range(min(matrix.shape[1], len(values))):
        matrix[k, i] = values[i]


# long: flat arrays of machine, filter and sensors; a kernel takes no object
@kernel(
    void(
        VECTOR, MATRIX, VECTOR, TABLES, VECTOR, float64, INDICES, VECTOR, CONSTANTS, INDICES, CONSTANTS, VECTOR,
        CONSTANTS, VECTOR, VECTOR, VECTOR, CONSTANTS, INDICES, INDICES, int64, int64, _SEEN, *FUNCTIONS,
    ),
    error_model="numpy",
)  # fmt: skip
def _record(
    state, inputs, params, tables, work, h, which, extra, rows, counts, noise, bias, walk, F, at, motion, wander,
    parameter, rates, seed, every, seen, linearise, measure, correct,
):  # fmt: skip
    count, outputs, q = len(noise), seen.outputs.shape[1], len(which)
    H = view(F, len(F) - 64 - q, len(F))
    used = view(F, len(F) - 256, len(F) - 128)
    for k in range(len(inputs)):
        if k % every == 0:
            put(seen.states, k // every, state)
            put(seen.biases, k // every, bias)
            put(seen.quantities, k // every, extra)
        used_row = view(used, 0, inputs.shape[1])
        for i in range(len(used_row)):
            used_row[i] = inputs[k, i]
        linearise(state, used_row, params, tables, work, h, which, extra, F, at)
        put(seen.outputs, k, view(work, 0, outputs))
        for i in range(count):
            row, of = view(rows, WIDTH * i, WIDTH * (i + 1)), view(counts, COUNTS * i, COUNTS * (i + 1))
            seen.readings[k, i] = np.nan
            if (k - of[Count.PHASE]) % of[Count.PERIOD] == 0:
                value = measure(of[Count.SIGNAL], row, 0.0, at, tables, work, which, H)
                if of[Count.BIAS] >= 0:
                    value += bias[of[Count.BIAS]]
                seen.readings[k, i] = read(row, value, noise[i], normal_number(seed, i, k))
        # the motion's own random walk, as `noise` of make.py has it
        n, moved = len(motion) // 2, False
        for i in range(n):
            motion[n + i] = 0.0
        for i in range(n):
            if motion[i] > 0.0:
                motion[n + i] += motion[i] * sqrt(h) * normal_number(seed, _MOTION + i, k)
                moved = True
            if rates[i] >= 0 and motion[rates[i]] > 0.0:
                a = normal_number(seed, _MOTION + rates[i], k)
                b = normal_number(seed, _MOTION + n + i, k)
                motion[n + i] += motion[rates[i]] * sqrt(h) * h * (0.5 * a + b / sqrt(12.0))
        # and that of quantities: of forces among them, what they did in the step
        for i in range(n if q > 0 else 0):
            motion[n + i] += F[(n + q) * n + i]
            moved = True
        for i in range(q):
            extra[i] += wander[i] * sqrt(h) * normal_number(seed, _QUANTITIES + i, k)
            if parameter[i] >= 0:
                params[parameter[i]] = extra[i]
        if moved:
            correct(state, params, tables, work, view(motion, n, 2 * n))
        for i in range(len(bias)):
            bias[i] += walk[i] * sqrt(h) * normal_number(seed, WALKS + i, k)


@dataclass(frozen=True)
class Truth:
    seen: Seen
    inputs: np.ndarray
    every: int
    params: np.ndarray
    machine: Machine
    receptions: dict[str, Reception] = field(default_factory=dict)


def record(
    observed: Observed,
    params: np.ndarray,
    state: np.ndarray,
    inputs: np.ndarray,
    sensors: Sensors,
    h: float,
    seed: int,
    every: int = 20,
    motion: np.ndarray | None = None,
    quantities: Sequence[tuple[str, float]] = (),
) -> Truth:
    """The truth along these inputs, from that state, and what its sensors read.

    `motion`: standard deviations of the random walk of every coordinate over a second; none by default. `quantities`:
    of `estimable`, that wander too, and by how much; they begin at the parameters' values, forces at none.
    """
    machine, steps = observed.machine, len(inputs)
    rows = np.ascontiguousarray(true_rows(sensors, seed)).ravel()
    bias = offsets_at_start(sensors, seed)
    walk = np.array([b.walk for b in sensors.biases])
    sampled = (steps + every - 1) // every
    seen = Seen(
        np.full((steps, len(sensors.rows)), np.nan), np.zeros((sampled, len(state))),
        np.zeros((steps, len(machine.outputs))), np.zeros((sampled, len(bias))), np.ones((steps, len(sensors.rows))),
        np.zeros((sampled, len(quantities))),
    )  # fmt: skip
    n = len(observed.coordinates)
    constants = [rows, sensors.noise.copy(), walk]
    for array in constants:
        array.flags.writeable = False
    names = [one.name for one in observed.estimable]
    chosen = [names.index(name) for name, _ in quantities]
    parameters = [observed.estimable[k].parameter for k in chosen]
    extra = np.array([params[k] if k >= 0 else 0.0 for k in parameters])
    wander = np.array([value for _, value in quantities], float)
    wander.flags.writeable = False
    which, rates, parameter = (np.array(some, np.int32) for some in (chosen, observed.rates, parameters))
    counts = sensors.counts.ravel().copy()
    for indices in (which, rates, parameter, counts):
        indices.flags.writeable = False
    walks = np.zeros(2 * n)
    walks[:n] = 0.0 if motion is None else motion[:n]
    _record(
        state.copy(), np.ascontiguousarray(inputs), params.copy(), machine.tables, np.zeros(machine.work_size), h,
        which, extra, constants[0], counts, constants[1], bias, constants[2], np.zeros(n * (n + len(chosen) + 1) + 512),
        np.zeros(observed.at_size), walks, wander, parameter, rates, seed, every, seen, observed.linearise,
        observed.measure, observed.correct,
    )  # fmt: skip
    signals = [q.name for q in observed.signals]
    receptions = {
        name: _receive(seen, sensors, [signals[k] for k in sensors.counts[:, Count.SIGNAL]], name, sky, height, h, seed)
        for name, (sky, height) in sensors.skies.items()
    }
    for i, spans in enumerate(sensors.outages):
        for a, b in spans:
            seen.readings[a:b, i] = np.nan
    return Truth(seen, inputs, every, params, machine, receptions)


def _receive(
    seen: Seen, sensors: Sensors, signals: list[str], name: str, sky: Sky, height: float, h: float, seed: int
) -> Reception:
    """What a receiver reads under its sky: the noise that `_record` gave its readings is stretched by the dilution."""
    rows = [i for i, sensor in enumerate(sensors.sensor) if sensor == name]
    steps = np.flatnonzero(~np.isnan(seen.readings[:, rows[0]]))
    axis = {i: int(np.argmax(sensors.rows[i, R.DIRECTION : R.DIRECTION + 3])) for i in rows}
    noise = {i: sensors.noise[i] * np.array([normal_number(seed, i, int(k)) for k in steps]) for i in rows}
    antennas = np.zeros((len(steps), 3))
    antennas[:, 2] = height
    of_place = [i for i in rows if signals[i] == "position"]
    for i in of_place:
        if axis[i] < 2:
            antennas[:, axis[i]] = seen.readings[steps, i] - noise[i]
    count, spread = along(sky, steps * h, antennas)
    lost = ~(spread[:, :2].max(axis=1) <= WORST)
    for i in rows:
        factor = np.where(lost, 1.0, spread[:, axis[i]])
        seen.factors[steps, i] = factor
        seen.readings[steps, i] = np.where(lost, np.nan, seen.readings[steps, i] + (factor - 1.0) * noise[i])
    read = np.stack([seen.readings[steps, i] for i in of_place], axis=1)
    return Reception(steps * h, antennas, count, spread, read)


class Estimates(NamedTuple):
    """What a filter came to: vectors of ekf.py every so many steps, outputs and innovations of every step."""

    sampled: np.ndarray  # before the step
    outputs: np.ndarray
    innovations: np.ndarray  # of each row innovation and variance


_ESTIMATES = group(Estimates, *3 * [MATRIX])


# long: flat arrays of machine, filter and sensors; a kernel takes no object
@kernel(
    void(MODEL, MEMORY, MATRIX, MATRIX, MATRIX, float64, boolean, int64, _ESTIMATES, *FUNCTIONS),
    error_model="numpy",
)
def _replay(model, memory, inputs, readings, factors, h, in_order, every, out, linearise, measure, correct):
    sizes, used_row = model.sizes, view(memory.step_inputs, 0, inputs.shape[1])
    for k in range(len(inputs)):
        for i in range(len(used_row)):
            used_row[i] = inputs[k, i]
        for i in range(sizes[Z.ROWS]):
            late = 0 if in_order else model.counts[COUNTS * i + Count.LATENCY]
            if k >= late and not isnan(readings[k - late, i]):
                ekf.take_reading(model, memory, i, k - late, 0.0, readings[k - late, i], factors[k - late, i])
        if k % every == 0:
            put(out.sampled, k // every, memory.estimate)
        ekf.observe(model, memory, used_row, h, linearise, measure, correct)
        outputs = out.outputs.shape[1]
        put(out.outputs, k, view(memory.estimate, len(memory.estimate) - outputs, len(memory.estimate)))
        put(out.innovations, k, memory.innovations)


def replay(filter: Filter, truth: Truth, in_order: bool = False) -> Estimates:
    """What a filter makes of the readings; `in_order`: as if every reading came at its instant."""
    steps = len(truth.inputs)
    out = Estimates(
        np.zeros(((steps + truth.every - 1) // truth.every, len(filter.memory.estimate))),
        np.zeros((steps, len(filter.observed.machine.outputs))), np.zeros((steps, 2 * len(filter.counters))),
    )  # fmt: skip
    observed = filter.observed
    _replay(
        filter.model, filter.memory, np.ascontiguousarray(truth.inputs), truth.seen.readings, truth.seen.factors,
        filter.h, in_order, truth.every, out, observed.linearise, observed.measure, observed.correct,
    )  # fmt: skip
    return out
