"""A whole run and its derivatives by parameters, eight at a time, in one call that holds no GIL.

The values are those of `many_steps.run_steps` to the bit. Derivatives are those of the steps as they are computed, of
the branches that are taken: exact to rounding, where differences have an error of their own and cost two runs each.
"""

from importlib import import_module

import numpy as np
from numba import float64, int64, types

from sim_service.bounds import within
from sim_service.contract.machine import TABLES, TANGENT, Machine, ShapeDerivatives, Tangent
from sync.compile.array_types import MATRIX, VECTOR, WORDS
from sync.compile.build import ensure_for
from sync.compile.jit import kernel

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
LANES = 8  # of multibody/relative/dual.py
_SHARE = 1e-6  # of a parameter's value: the difference that the start is tried with


# long: a machine as flat arrays, each with its derivatives; a kernel takes no object
@kernel(
    int64(
        types.FunctionType(TANGENT), *4 * [VECTOR, VECTOR], TABLES, float64,  # machine, its vectors, step
        MATRIX, WORDS, MATRIX, MATRIX, int64, float64,  # inputs, which are logged, log, by_log, outputs, bound
    )
)  # fmt: skip
def run_tangents(
    tangent, state, by_state, inputs, by_inputs, params, by_params, work, by_work, tables, h, rows, logged, log, by_log,
    outputs, bound,
):  # fmt: skip
    """A step for each row of inputs; how many were made, as by `run_steps`."""
    for k in range(rows.shape[0]):
        for i in range(inputs.size):
            inputs[i] = rows[k, i]
        for i in range(by_inputs.size):
            by_inputs[i] = 0.0
        tangent(state, by_state, inputs, by_inputs, params, by_params, tables, work, by_work, h)
        if not (within(state, state.size, bound) and within(work, outputs, bound)):
            return k
        for i in range(logged.size):
            place = logged[i]
            for lane in range(LANES):
                if place < outputs:
                    by_log[k, LANES * i + lane] = by_work[LANES * place + lane]
                else:
                    by_log[k, LANES * i + lane] = by_inputs[LANES * (place - outputs) + lane]
            log[k, i] = work[place] if place < outputs else inputs[place - outputs]
    return rows.shape[0]


def tangents(
    machine: Machine, params: np.ndarray, which: list[int], rows: np.ndarray, logged: np.ndarray, h: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """From the start: log, its derivatives by these parameters (step, channel, parameter), steps that were made.

    `which`: at most eight places of parameters. `logged` as in `run_steps`.
    """
    shape = machine.of(ShapeDerivatives)
    assert len(which) <= LANES
    by_params = np.zeros((len(params), LANES))
    by_params[which, np.arange(len(which))] = 1.0
    if shape is not None:
        machine, by_state = shape.make(params, which)
        by_work = np.zeros((machine.work_size, LANES))
    own = machine.of(Tangent)
    assert own is not None
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    if shape is None:
        by_state, by_work = _start_derivatives(machine, params, which, state, work)
    inputs, by_inputs = np.zeros(len(machine.inputs)), np.zeros(LANES * len(machine.inputs))
    log, by_log = np.zeros((len(rows), len(logged))), np.zeros((len(rows), LANES * len(logged)))
    ensure_for(own.module)
    tangent = import_module(own.module).tangent
    done = run_tangents(
        tangent, state, by_state.ravel(), inputs, by_inputs, params.copy(), by_params.ravel(), work,
        by_work.ravel(), machine.tables, h, rows, logged, log, by_log, len(machine.outputs), machine.stepping.bound,
    )  # fmt: skip
    return log, by_log.reshape(len(rows), len(logged), LANES)[:, :, : len(which)], int(done)


def _start_derivatives(
    machine: Machine, params: np.ndarray, which: list[int], state: np.ndarray, work: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of state and work at the start, by differences. Most machines start where no parameter moves them. So
    one-sided ones are as good, and they need half the starts: a car takes long to come to rest."""
    by_state, by_work = np.zeros((len(machine.states), LANES)), np.zeros((machine.work_size, LANES))
    for lane, place in enumerate(which):
        step = _SHARE * max(abs(params[place]), 1e-3)
        there, scratch, changed = np.zeros(len(machine.states)), np.zeros(machine.work_size), params.copy()
        changed[place] += step
        machine.initial(there, changed, machine.tables, scratch)
        by_state[:, lane], by_work[:, lane] = (there - state) / step, (scratch - work) / step
    return by_state, by_work
