"""What a step of the car with its whole filter costs.

The drive is the first of configs/observers/buggy.toml from its second second on. The same steps are made again and
again from the same beginning; of every step the least time counts, printed is the median over the steps, as whatever
else the computer does meets some rounds of a step and not all. Readings come in order: a step has ten of them, and
every twentieth four more of the GNSS. Pieces are timed by themselves in the same rounds, what is left is the readings'.
"""

from collections.abc import Iterator

import numpy as np
from numba import boolean, float64, int64, types, void

from sim_service.contract.machine import STEP
from sync.clock import now_ns
from sync.compile.array_copy import copy
from sync.compile.array_types import MATRIX, VECTOR
from sync.compile.jit import kernel
from tandem.estimation import ekf, factored
from tandem.estimation.ekf import FUNCTIONS, MEMORY, MODEL, Z
from tandem.estimation.factored import predict_covariance
from tandem.machines.observer.studies import twin
from tandem.machines.observer.studies.settings import read_study
from tandem.multibody.natural.views import view
from verify import CONFIGS
from verify.measure import Row, at_most, figure

STUDY = CONFIGS / "observers" / "buggy.toml"
PROMISED = 120.0  # us
PIECES = ("all", "car alone", "car and its linearisation", "covariance", "correction")


# long: what it takes is the filter, its drive and its four functions
@kernel(
    void(MODEL, MEMORY, MATRIX, MATRIX, int64, int64, float64, boolean, VECTOR, MATRIX, types.FunctionType(STEP),
         *FUNCTIONS),
    error_model="numpy", cache=False,
)  # fmt: skip
def timed(model, memory, inputs, readings, first, steps, h, pieces, scratch, times, step, linearise, measure, correct):
    """Times of all steps, ns: of the whole, and of pieces from the same states."""
    sizes, e, S = model.sizes, memory.estimate, memory.scratch
    n, q, states = sizes[Z.ERRORS], sizes[Z.ESTIMATED], sizes[Z.STATE]
    N, rest = ekf.order(sizes), sizes[Z.STATE] + sizes[Z.PARAMETERS]
    current, begun = view(memory.step_inputs, 0, inputs.shape[1]), view(scratch, 0, states)
    which = view(sizes, ekf.SIZES + n, ekf.SIZES + n + q)
    square = N * factored.stride_of(N)
    k = n * (n + q + 1)
    # as ekf.advance has its scratch: F, a matrix, some columns, seven vectors, what measurements see
    stride = factored.stride_of(N)
    F, W, x = view(S, 0, k), view(S, k, k + square), view(scratch, states, len(scratch))
    P = view(S, k + square, k + square + factored.SCRATCH * stride)
    behind = k + square + (factored.SCRATCH + 7) * stride
    at = view(S, behind, behind + sizes[Z.AT])
    zeros = view(x, N, 2 * N)
    U, d = view(x, 2 * N, 2 * N + N * N + 4), view(x, 2 * N + N * N + 4, 3 * N + N * N + 4)
    for i in range(steps):
        for j in range(len(current)):
            current[j] = inputs[first + i, j]
        for j in range(sizes[Z.ROWS]):
            if not np.isnan(readings[first + i, j]):
                ekf.take_reading(model, memory, j, first + i, 0.0, readings[first + i, j], 1.0)
        copy(begun, e)
        began = now_ns()
        ekf.observe(model, memory, current, h, linearise, measure, correct)
        times[0, i] = now_ns() - began
        if not pieces:
            continue
        # from the state before, in the filter's own memory
        state, params, extra = view(scratch, 0, states), view(e, states, rest), view(e, rest, rest + N - n)
        saved = view(x, 3 * N + N * N + 4, 3 * N + N * N + 4 + states)
        copy(saved, begun)
        for j in range(len(current)):
            current[j] = inputs[first + i, j]
        began = now_ns()
        step(state, current, params, model.tables, memory.work, h)
        times[1, i] = now_ns() - began
        copy(state, saved)
        for j in range(len(current)):
            current[j] = inputs[first + i, j]
        began = now_ns()
        linearise(state, current, params, model.tables, memory.work, h, which, extra, F, at)
        times[2, i] = now_ns() - began
        copy(d, view(e, rest + N - n, rest + N - n + N))
        copy(U, view(e, rest + N - n + N, rest + N - n + N + N * N + 4))
        for j in range(N):
            zeros[j] = 0.0
        began = now_ns()
        predict_covariance(U, d, F, n, n + q, model.Q, zeros, W, P)
        times[3, i] = now_ns() - began
        for j in range(n):
            zeros[j] = 1e-9
        began = now_ns()
        correct(state, params, model.tables, memory.work, view(zeros, 0, n))
        times[4, i] = now_ns() - began


def observer_cost(*, rounds: int = 40, steps: int = 400) -> Iterator[Row]:
    begin = 400
    study = read_study(STUDY)
    study = study.model_copy(update={"seconds": (begin + steps) * study.step_ms * 1e-3, "runs": 1})
    setup = twin.prepare(study, STUDY)
    truth, state = twin.run_truth(setup, 0)
    filter = twin.make_filter(setup, state, twin.FORMS["exact"], 0)
    observed, memory = filter.observed, filter.memory
    functions = (observed.machine.step, observed.linearise, observed.measure, observed.correct)
    scratch = np.zeros(2 * len(state) + 5 * filter.order + filter.order**2 + 64)
    readings = truth.seen.readings

    def go(first: int, count: int, pieces: bool, times: np.ndarray) -> None:
        timed(filter.model, memory, truth.inputs, readings, first, count, filter.h, pieces, scratch, times, *functions)

    go(0, begin, False, np.zeros((len(PIECES), begin)))
    saved = [array.copy() for array in memory]
    least = np.full((len(PIECES), steps), np.inf)
    for _ in range(rounds):
        for pieces in (False, True):
            for array, before in zip(memory, saved, strict=True):
                array[:] = before
            times = np.full((len(PIECES), steps), np.inf)
            go(begin, steps, pieces, times)
            if pieces:  # the whole is measured with its own memory warm
                times[0] = np.inf
            least = np.minimum(least, times)
    us = {name: float(np.median(row)) * 1e-3 for name, row in zip(PIECES, least, strict=True)}
    whole = us["all"]
    yield at_most("a step with the whole filter", whole, PROMISED, "us")
    yield figure("p95 over the steps", np.percentile(least[0], 95) * 1e-3, "us")
    for name in PIECES[1:]:
        yield figure(name, us[name], "us")
    left = whole - us["car and its linearisation"] - us["covariance"] - us["correction"]
    yield figure("readings and the rest", left, "us")
