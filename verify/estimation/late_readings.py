"""Late readings of the car's filter: `python -m verify.estimation.late_readings [--seconds 8]`.

The same drive and readings twice: GNSS 150 ms late as configs/observers/buggy.toml has it, and every reading in time.
After the last steps have caught up both must be the same; a step of the late one makes at most `most` steps again.
Printed: the largest difference of an estimate once caught up, how many steps a step made again, and what the longest
step took, timed in compiled code (least of some rounds, as another program's turn is no step's). The same again by
copies of what will be read (estimation/cloned.py), which go over no step twice: how far their estimates are from going
back, in standard deviations, at instants when both have used the same readings; errors of both. Exit code 1: something
does not hold; of that difference nothing is promised but that it is printed.
"""

import argparse
import sys
from math import isnan
from typing import Any

import numpy as np
from numba import float64, void

from sync.clock import now_ns
from sync.compile.array_types import INDICES, MATRIX, VECTOR
from sync.compile.jit import kernel
from tandem.estimation import consistency
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
from tandem.estimation.experiment import replay
from tandem.estimation.rows import USED, Count
from tandem.machines.observer.studies import twin
from tandem.machines.observer.studies.settings import read_study
from tandem.multibody.natural.views import view
from verify import CONFIGS

STUDY = CONFIGS / "observers" / "buggy.toml"
SAME, MOST_MS = 1e-9, 2.0


@kernel(
    void(MODEL, MEMORY, MATRIX, MATRIX, INDICES, float64, VECTOR, VECTOR, *FUNCTIONS), error_model="numpy", cache=False
)
def timed(model, memory, inputs, readings, late, h, times, settled, linearise, measure, correct):
    """All steps: what each took, ns, and whether nothing was left to be caught up after it."""
    given = view(memory.given, 0, inputs.shape[1])
    for k in range(len(inputs)):
        for i in range(len(given)):
            given[i] = inputs[k, i]
        began = now_ns()
        for i in range(len(late)):
            if k >= late[i] and not isnan(readings[k - late[i], i]):
                take_reading(model, memory, i, k - late[i], 0.0, readings[k - late[i], i], 1.0)
        observe(model, memory, given, h, False, linearise, measure, correct)
        times[k] = now_ns() - began
        settled[k] = 1.0 if memory.notes[ACTIVE] == 0 else 0.0


def drive(
    setup: Any, truth: Any, state: np.ndarray, in_order: bool, cloned: bool = False
) -> tuple[Any, np.ndarray, np.ndarray]:
    """The filter at the end of the drive; times of the steps, and in which nothing is left to be caught up."""
    filter = twin.make_filter(setup, state, twin.FORMS["exact"], 0, cloned)
    late = (0 if in_order else 1) * setup.sensors.counts[:, Count.LATENCY]
    late.flags.writeable = False
    times, settled, own = np.zeros(len(truth.inputs)), np.zeros(len(truth.inputs)), filter.observed
    inputs = np.ascontiguousarray(truth.inputs)
    timed(filter.model, filter.memory, inputs, truth.seen.readings, late, filter.h, times, settled, own.linearise,
          own.measure, own.correct)  # fmt: skip
    return filter, times, settled


def compare_copies(setup: Any, truth: Any, state: np.ndarray) -> None:
    """Copies beside going back, at kept instants: GNSS that came half a period ago is in both by then."""
    back, copies = (twin.make_filter(setup, state, twin.FORMS["exact"], 0, cloned) for cloned in (False, True))
    found, other = replay(back, truth), replay(copies, truth)
    apart, sides = [], ([], [])  # type: ignore[var-annotated]
    names = [c.name for c in setup.model.observed.coordinates] + [*setup.study.filter.estimated]
    names += [b.name for b in setup.sensors.biases]
    for k in range(len(found.kept)):
        errors = []
        for filter, estimates, side in ((back, found, sides[0]), (copies, other, sides[1])):
            filter.memory.estimate[:] = estimates.kept[k]
            errors.append(consistency.errors(filter, truth, k, setup.quantities))
            side.append(np.hypot(*errors[-1][:2]))
        apart.append((errors[0] - errors[1]) / np.sqrt(np.diag(back.covariance())))
    late = np.array(apart)[round(setup.study.settle_s / setup.h) // truth.every :]
    each = np.sqrt(np.mean(late**2, axis=0))
    worst = int(np.argmax(each))
    print(f"by copies, from going back          rms {np.sqrt(np.mean(late**2)):.2g}, largest {np.abs(late).max():.2g}"
          f" standard deviations; most in {names[worst]}, rms {each[worst]:.2g}")  # fmt: skip
    first = len(apart) - len(late)
    rms = [float(np.sqrt(np.mean(np.square(side[first:])))) for side in sides]
    print(f"  position, rms error               {rms[1]:.4f} m; {rms[0]:.4f} m by going back")
    late_rows = setup.sensors.counts[:, Count.LATENCY] > 0
    used = [int(filter.counters[late_rows, USED].sum()) for filter in (copies, back)]
    print(f"  late readings used                {used[0]}; {used[1]} by going back")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    study = read_study(STUDY).model_copy(update={"seconds": chosen.seconds, "runs": 1})
    study = study.model_copy(update={"settle_s": min(study.settle_s, 0.25 * chosen.seconds)})
    setup = twin.prepare(study, STUDY)
    truth, state = twin.run_truth(setup, 0)
    lag = int(setup.sensors.counts[:, Count.LATENCY].max())
    late = setup.sensors.counts[:, Count.LATENCY] > 0
    truth.seen.readings[len(truth.inputs) - lag :, late] = np.nan  # none outstanding
    in_time, in_time_ns, _ = drive(setup, truth, state, True)
    filter, times, settled = drive(setup, truth, state, False)
    for _ in range(chosen.rounds - 1):
        times = np.minimum(times, drive(setup, truth, state, False)[1])
        in_time_ns = np.minimum(in_time_ns, drive(setup, truth, state, True)[1])
    ours, other = filter.memory.estimate, in_time.memory.estimate
    difference = float(np.max(np.abs(ours - other) / np.maximum(np.abs(other), 1.0)))
    most, longest = filter.memory.notes[MOST_REPEATED], float(times.max()) * 1e-6
    same, bounded = settled[-1] > 0.0 and difference <= SAME, most <= study.filter.most
    print(f"late by {lag} steps; caught up after {int(settled.sum())} of {len(truth.inputs)} steps, the last one too")
    print(f"largest difference from in order    {difference:.1e}   <= {SAME:g}: {'holds' if same else 'DOES NOT HOLD'}")
    print(f"steps made again in a step, most    {most:.0f}   <= {study.filter.most}: {bounded}")
    print(f"steps made again in all             {filter.memory.notes[REPEATED]:.0f} of {len(truth.inputs)}")
    print(f"a step, median; p99; longest        {np.median(times) * 1e-6:.3f}; {np.percentile(times, 99) * 1e-6:.3f};"
          f" {longest:.3f} ms   <= {MOST_MS:g} ms: {'holds' if longest <= MOST_MS else 'DOES NOT HOLD'}")  # fmt: skip
    print(f"with every reading in time, median  {np.median(in_time_ns) * 1e-6:.3f} ms")
    copied = drive(setup, truth, state, False, True)[1]
    for _ in range(chosen.rounds - 1):
        copied = np.minimum(copied, drive(setup, truth, state, False, True)[1])
    print(f"by copies: a step, median; longest  {np.median(copied) * 1e-6:.3f}; {copied.max() * 1e-6:.3f} ms")
    compare_copies(setup, truth, state)
    return 0 if same and bounded and longest <= MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
