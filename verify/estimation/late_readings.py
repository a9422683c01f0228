"""Late readings of the car's filter beside the same readings in time.

The same drive and readings twice: GNSS 150 ms late as configs/observers/buggy.toml has it, and every reading in time.
After the last steps have caught up both must be the same; a step of the late one makes at most `most` steps again.
Printed: the largest difference of an estimate once caught up, how many steps a step made again, and what the longest
step took, timed in compiled code (least of some rounds, as another program's turn is no step's).
"""

from collections.abc import Iterator
from math import isnan
from typing import Any

import numpy as np
from numba import float64, void

from sync.clock import now_ns
from sync.compile.array_types import INDICES, MATRIX, VECTOR
from sync.compile.jit import kernel
from tandem.estimation.ekf import (
    ACTIVE,
    FUNCTIONS,
    MEMORY,
    MODEL,
    MOST_REPEATED,
    REPEATED,
    observe,
    take_reading,
)
from tandem.estimation.rows import Count
from tandem.machines.observer.studies import twin
from tandem.machines.observer.studies.settings import read_study
from tandem.multibody.natural.views import view
from verify import CONFIGS
from verify.measure import Row, at_most, figure, holds

STUDY = CONFIGS / "observers" / "buggy.toml"
SAME, MOST_MS = 1e-9, 2.0


@kernel(
    void(MODEL, MEMORY, MATRIX, MATRIX, INDICES, float64, VECTOR, VECTOR, *FUNCTIONS), error_model="numpy", cache=False
)
def timed(model, memory, inputs, readings, late, h, times, settled, linearise, measure, correct):
    """All steps: what each took, ns, and whether nothing was left to be caught up after it."""
    current = view(memory.step_inputs, 0, inputs.shape[1])
    for k in range(len(inputs)):
        for i in range(len(current)):
            current[i] = inputs[k, i]
        began = now_ns()
        for i in range(len(late)):
            if k >= late[i] and not isnan(readings[k - late[i], i]):
                take_reading(model, memory, i, k - late[i], 0.0, readings[k - late[i], i], 1.0)
        observe(model, memory, current, h, linearise, measure, correct)
        times[k] = now_ns() - began
        settled[k] = 1.0 if memory.notes[ACTIVE] == 0 else 0.0


def drive(setup: Any, truth: Any, state: np.ndarray, in_order: bool) -> tuple[Any, np.ndarray, np.ndarray]:
    """The filter at the end of the drive; times of the steps, and in which nothing is left to be caught up."""
    filter = twin.make_filter(setup, state, twin.FORMS["exact"], 0)
    late = (0 if in_order else 1) * setup.sensors.counts[:, Count.LATENCY]
    late.flags.writeable = False
    times, settled, own = np.zeros(len(truth.inputs)), np.zeros(len(truth.inputs)), filter.observed
    inputs = np.ascontiguousarray(truth.inputs)
    timed(filter.model, filter.memory, inputs, truth.seen.readings, late, filter.h, times, settled, own.linearise,
          own.measure, own.correct)  # fmt: skip
    return filter, times, settled


def late_readings(*, seconds: float = 8.0, rounds: int = 5) -> Iterator[Row]:
    study = read_study(STUDY).model_copy(update={"seconds": seconds, "runs": 1})
    study = study.model_copy(update={"settle_s": min(study.settle_s, 0.25 * seconds)})
    setup = twin.prepare(study, STUDY)
    truth, state = twin.run_truth(setup, 0)
    lag = int(setup.sensors.counts[:, Count.LATENCY].max())
    late = setup.sensors.counts[:, Count.LATENCY] > 0
    truth.seen.readings[len(truth.inputs) - lag :, late] = np.nan  # none outstanding
    in_time, in_time_ns, _ = drive(setup, truth, state, True)
    filter, times, settled = drive(setup, truth, state, False)
    for _ in range(rounds - 1):
        times = np.minimum(times, drive(setup, truth, state, False)[1])
        in_time_ns = np.minimum(in_time_ns, drive(setup, truth, state, True)[1])
    ours, other = filter.memory.estimate, in_time.memory.estimate
    difference = float(np.max(np.abs(ours - other) / np.maximum(np.abs(other), 1.0)))
    yield holds(f"late by {lag} steps, caught up at the end", settled[-1] > 0.0, f"{int(settled.sum())} steps")
    yield at_most("largest difference from in order", difference, SAME)
    yield at_most("steps made again in a step", filter.memory.notes[MOST_REPEATED], study.filter.most)
    yield figure(f"steps made again, of {len(truth.inputs)}", filter.memory.notes[REPEATED])
    yield figure("a step, median", np.median(times) * 1e-6, "ms")
    yield figure("a step, p99", np.percentile(times, 99) * 1e-6, "ms")
    yield at_most("a step, longest", times.max() * 1e-6, MOST_MS, "ms")
    yield figure("a step with every reading in time, median", np.median(in_time_ns) * 1e-6, "ms")
