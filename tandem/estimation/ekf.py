"""The error-state extended Kalman filter: one step of a machine with what was measured at its beginning.

    linearise      the machine goes a step, free; F and what sensors see are those of the state at its beginning
    update         readings of that instant, one scalar after the other: gate, gain, error dx, covariance
    predict        dx = F dx,  P = F P F^T + Q
    correct        the machine's new state moves by dx; constraints hold again; dx = 0

One linearisation a step serves transition and sensors. The correction is carried over the step by F instead of being
made before it, as in the textbook: to first order in dx the same, and on a linear machine identical.

Late readings. Of the last `history` steps everything a step begins with is kept: estimate, inputs, readings. A reading
of an earlier step is put where it belongs, and a second estimate starts there and catches up, at most `most` steps in
each step, while the first goes on; where both meet it takes the first one's place. The result is then, to the bit, that
of a filter that had the reading in time.

What is counted in steps (encoders) says in which step a value lies: quantised.py.

A reading that is gated again and again says that the estimate is wrong, not the reading: after `LOCKED_OUT` of one row
in a row, the states it sees are made as uncertain as it says they are, in proportion to what each had.

A step that failed (contract.py) leaves no state to go on from: the estimate is then that of `history` steps ago, as
uncertain as at the start, and what is older is forgotten. So a lost filter costs one failed step, not one in each step.

An estimate is one vector: state, parameters, further states, D, U (factored.py), how often each row was gated in a row,
and the outputs of the step that led to it, which the correction of that step is not in yet. All kernels are functions
of their arguments alone.
"""

from enum import IntEnum
from math import isfinite, isnan
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, types, void

from sim_service.contract.machine import TABLES, Tables
from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR, group
from sync.compile.jit import inner, kernel
from tandem.estimation import factored
from tandem.estimation.contract import CONSTANT, CORRECT, FAILED, LINEARISE, MEASURE, TANGENT
from tandem.estimation.expected import expected_reading
from tandem.estimation.quantised import of_cell
from tandem.estimation.rows import CLIPPED, COUNTED, COUNTS, FREE, GATED, LATE, TOO_OLD, USED, WIDTH, R
from tandem.multibody.natural.views import view
from tandem.multibody.relative.columns import add_columns

COMPILED_ON_REQUEST = True  # see sync/compile/build.py


class Z(IntEnum):
    """Sizes, the first integers."""

    STATE = 0
    PARAMETERS = 1
    ERRORS = 2  # n
    ESTIMATED = 3  # q: quantities that the motion depends on
    BIASES = 4  # b
    ROWS = 5
    INPUTS = 6
    HISTORY = 7  # steps that are kept
    MOST = 8  # steps a second estimate makes in one
    FORM = 9
    AT = 10
    OUTPUTS = 11
    EXCITED = 12  # where in `at` it says how much a step excites estimated quantities; -1: nowhere


# behind the sizes: for each coordinate its rate or -1, or RELAXES; indices of estimable; their parameters or -1
RELAXES = -2
LIMITS = 3  # numbers of an estimated quantity
READING = 4  # numbers of a reading: value, tau, one of these, and a factor on its noise
ABSENT, NEW, KNOWN = -1.0, 0.0, 1.0
MISSING = 9.0e8  # of an input that is not measured
SIZES = len(Z)
LOCKED_OUT = 20.0  # readings of a row that were gated in a row

# notes of a filter, whole numbers as float64: a state of a machine has nothing else
STEP, BEHIND, ACTIVE, RAISED, CONSTANT_STEPS, REPEATED, MOST_REPEATED, WIDENED, LOST, ABANDONED, SINCE = range(11)
NOTES = (
    "step", "behind", "active", "raised", "constant_steps", "repeated", "most_repeated", "widened", "lost", "abandoned",
    "since",
)  # fmt: skip


class Model(NamedTuple):
    """What does not change while a filter runs."""

    sizes: np.ndarray  # Z, then what stands behind them
    rows: np.ndarray  # of rows.py, flat
    counts: np.ndarray  # the same, integers
    Q: np.ndarray  # by columns
    limits: np.ndarray  # of each estimated quantity low, high, and how much it must be excited
    start: np.ndarray  # variances of all states
    rough: np.ndarray  # added to them in a rough step (contract.py)
    tables: Tables


class Memory(NamedTuple):
    """What does."""

    estimate: np.ndarray
    second: np.ndarray
    saved: np.ndarray  # estimates at the beginning of the last steps
    inputs: np.ndarray
    readings: np.ndarray  # of each step and row: see READING
    scratch: np.ndarray
    work: np.ndarray
    notes: np.ndarray
    counters: np.ndarray  # COUNTERS of each row
    step_inputs: np.ndarray  # of the step, for what calls `observe`; then of steps that are made again
    innovations: np.ndarray  # of each row: innovation and variance of a reading that was new in this step; NaN: none


MODEL = group(Model, INDICES, CONSTANTS, INDICES, *4 * [CONSTANTS], TABLES)
MEMORY = group(Memory, *11 * [VECTOR])
FUNCTIONS = (types.FunctionType(LINEARISE), types.FunctionType(MEASURE), types.FunctionType(CORRECT))


@inner
def order(sizes):
    """States of the filter."""
    return sizes[Z.ERRORS] + sizes[Z.ESTIMATED] + sizes[Z.BIASES]


@inner
def estimate_size(sizes):
    n = order(sizes)
    return sizes[Z.STATE] + sizes[Z.PARAMETERS] + n - sizes[Z.ERRORS] + n + n * n + sizes[Z.ROWS] + sizes[Z.OUTPUTS]


@inner
def saved_size(sizes):
    """Of an estimate that is kept: U without the zeros below its diagonal."""
    n = order(sizes)
    return estimate_size(sizes) - n * (n - 1) // 2


@inner
def all_finite(e, count):
    """Four sums: one waits for itself at every number."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = count // 4 * 4
    for i in range(0, whole, 4):
        one += abs(e[i])
        two += abs(e[i + 1])
        three += abs(e[i + 2])
        four += abs(e[i + 3])
    for i in range(whole, count):
        one += abs(e[i])
    return isfinite(one + two + three + four)


@inner
def constant_transition(sizes, h, F):
    """The cheap form: coordinates move by their rates, nothing else moves."""
    n, columns = sizes[Z.ERRORS], sizes[Z.ERRORS] + sizes[Z.ESTIMATED]
    for i in range(n * (columns + 1)):
        F[i] = 0.0
    for i in range(n):
        rate = sizes[SIZES + i]
        if rate != RELAXES:
            F[i * n + i] = 1.0
        if rate >= 0:
            F[rate * n + i] = h


@inner
def widen(U, d, H, v, more):
    """Uncertainty that explains an innovation v, to the states that H sees, in proportion to what they have."""
    total = 0.0
    for j in range(len(d)):
        if H[j] != 0.0:
            total += H[j] * H[j] * factored.variance(U, d, j)
    for j in range(len(d)):
        if H[j] != 0.0 and total > 0.0:
            more[j] += v * v * factored.variance(U, d, j) / total


@inner
def is_held(sizes, limits, at, k):
    """Whether a step excites the k-th estimated quantity less than it must, to be learnt."""
    return sizes[Z.EXCITED] >= 0 and at[sizes[Z.EXCITED]] < limits[LIMITS * k + 2]


@inner
def hold_unexcited(model, at, n, q, F, more):
    """What a step excites too little has no part in it: no derivative, and no walk."""
    N = len(more)
    for k in range(q):
        if is_held(model.sizes, model.limits, at, k):
            for i in range(n):
                F[(n + k) * n + i] = 0.0
            more[n + k] = -model.Q[(n + k) * (N + 1)]


# long: flat arrays of the filter; a kernel takes no object
@inner
def use_readings(model, memory, status, readings, extra, U, d, gated, dx, more, at, H, f, g, K, measure):
    """Every reading of the instant, to dx and the covariance."""
    sizes, rows = model.sizes, model.rows
    n, q = sizes[Z.ERRORS], sizes[Z.ESTIMATED]
    which = view(sizes, SIZES + n, SIZES + n + q)
    N = len(d)
    for i in range(sizes[Z.ROWS]):
        row = view(rows, WIDTH * i, WIDTH * (i + 1))
        z, mark = readings[READING * i], readings[READING * i + 2]
        if mark == ABSENT:
            continue
        counted = mark == NEW  # a step that is made again counts nothing twice
        readings[READING * i + 2] = KNOWN
        if not (z > row[R.LOW] and z < row[R.HIGH]):
            if counted:
                memory.counters[COUNTED * i + CLIPPED] += 1.0
            continue
        v = z - expected_reading(
            row, view(model.counts, COUNTS * i, COUNTS * (i + 1)), readings[READING * i + 1], sizes[Z.FORM], n, at,
            model.tables, memory.work, which, extra, H, measure,
        )  # fmt: skip
        for k in range(q):
            if is_held(sizes, model.limits, at, k):
                H[n + k] = 0.0
        for j in range(N):
            v -= H[j] * dx[j]
        r = (row[R.NOISE] * readings[READING * i + 3]) ** 2
        if status != TANGENT:
            r += row[R.ROUGH] * row[R.ROUGH]
        s = factored.innovation_variance(U, d, H, r, f, g)
        if counted:
            memory.innovations[2 * i], memory.innovations[2 * i + 1] = v, s
        if not (isfinite(v) and v * v <= row[R.GATE] * s):
            if counted:
                memory.counters[COUNTED * i + GATED] += 1.0
            gated[i] += 1.0 if isfinite(v) else 0.0
            if gated[i] >= LOCKED_OUT:
                widen(U, d, H, v, more)
                gated[i] = 0.0
                memory.notes[WIDENED] += 1.0
            continue
        gated[i] = 0.0
        cell = row[R.QUANTUM]
        if cell > 0.0:
            v, r = of_cell(v, s - r, max(r - cell * cell / 12.0, 0.0), cell)
        if r >= 0.0:
            factored.apply(U, d, r, f, g, K)
            for j in range(N):
                dx[j] += K[j] * v
        if counted:
            memory.counters[COUNTED * i + USED] += 1.0


@inner
def advance(model, memory, e, inputs, readings, h, linearise, measure, correct):
    """One step of an estimate; whether there is one afterwards."""
    sizes = model.sizes
    n, q, b = sizes[Z.ERRORS], sizes[Z.ESTIMATED], sizes[Z.BIASES]
    N, columns = n + q + b, n + q
    states, rest = sizes[Z.STATE], sizes[Z.STATE] + sizes[Z.PARAMETERS]
    state, params, extra = view(e, 0, states), view(e, states, rest), view(e, rest, rest + q + b)
    d, behind = view(e, rest + q + b, rest + q + b + N), len(e) - sizes[Z.OUTPUTS]
    U, gated = view(e, rest + q + b + N, behind - sizes[Z.ROWS]), view(e, behind - sizes[Z.ROWS], behind)
    which = view(sizes, SIZES + n, SIZES + n + q)
    parameter = view(sizes, SIZES + n + q, SIZES + n + 2 * q)
    S, tables, work, notes = memory.scratch, model.tables, memory.work, memory.notes
    # scratch: F, a matrix and some columns, seven vectors, what measurements see, the inputs used
    stride = factored.stride_of(N)
    k, square = n * (columns + 1), N * stride
    F, W, P = view(S, 0, k), view(S, k, k + square), view(S, k + square, k + square + factored.SCRATCH * stride)
    k += square + factored.SCRATCH * stride
    H, f, g = view(S, k, k + stride), view(S, k + stride, k + stride + N), view(S, k + 2 * stride, k + 2 * stride + N)
    K, dx = view(S, k + 3 * stride, k + 3 * stride + N), view(S, k + 4 * stride, k + 4 * stride + N)
    moved, more = view(S, k + 5 * stride, k + 5 * stride + N), view(S, k + 6 * stride, k + 6 * stride + N)
    k += 7 * stride
    at, used = view(S, k, k + sizes[Z.AT]), view(S, k + sizes[Z.AT], k + sizes[Z.AT] + sizes[Z.INPUTS])

    copy(used, inputs)  # a step may write what it computed in place of a NaN
    status = linearise(state, used, params, tables, work, h, which, extra, F, at)
    if status == FAILED:
        return False
    for j in range(N):
        dx[j] = more[j] = 0.0
    hold_unexcited(model, at, n, q, F, more)
    use_readings(model, memory, status, readings, extra, U, d, gated, dx, more, at, H, f, g, K, measure)
    copy(view(e, len(e) - sizes[Z.OUTPUTS], len(e)), work)
    if status != TANGENT:
        for i in range(N):
            if not n <= i < n + q or not is_held(sizes, model.limits, at, i - n):
                more[i] += model.rough[i]
    if status == CONSTANT or sizes[Z.FORM] == FREE:
        constant_transition(sizes, h, F)
        for i in range(n):  # what is forgotten is as uncertain as at the start
            more[i] += model.start[i] if sizes[SIZES + i] == RELAXES else 0.0
        notes[CONSTANT_STEPS] += 1
    notes[RAISED] += factored.predict_covariance(U, d, F, n, columns, model.Q, more, W, P)
    # the error over the step, and what forces did in it that the machine knows nothing of
    for i in range(n):
        moved[i] = F[columns * n + i]
    add_columns(moved, n, F, 0, n, 0, columns, dx)
    correct(state, params, tables, work, view(moved, 0, n))
    take_extra(sizes, model.limits, parameter, params, extra, view(dx, n, N))
    return all_finite(e, rest + q + b + N)


@inner
def restart(model, memory):
    """The estimate of the oldest step that is kept, as uncertain as at the start; what came before is forgotten."""
    sizes, notes, e, step = model.sizes, memory.notes, memory.estimate, int(memory.notes[STEP])
    history, N = sizes[Z.HISTORY], order(sizes)
    restore(sizes, memory, max(step - history + 1, 0), e)
    at = sizes[Z.STATE] + sizes[Z.PARAMETERS] + N - sizes[Z.ERRORS]
    copy(view(e, at, at + N), model.start)
    for i in range(at + N, len(e) - sizes[Z.OUTPUTS]):  # U, and how often rows were gated
        e[i] = 0.0
    for i in range(N):
        e[at + N + i * N + i] = 1.0
    notes[LOST] += 1.0
    notes[ACTIVE], notes[SINCE] = 0, step + 1


@inner
def take_extra(sizes, limits, parameter, params, extra, dx):
    """Further states, within their limits, and the parameters that follow them."""
    for i in range(len(extra)):
        extra[i] += dx[i]
    for i in range(len(parameter)):
        extra[i] = min(max(extra[i], limits[LIMITS * i]), limits[LIMITS * i + 1])
        if parameter[i] >= 0:
            params[parameter[i]] = extra[i]


@inner
def save(sizes, memory, step, e):
    """An estimate at the beginning of a step, to its place."""
    n, size = order(sizes), saved_size(sizes)
    at, first = step % sizes[Z.HISTORY] * size, len(e) - sizes[Z.OUTPUTS] - sizes[Z.ROWS] - n * n
    copy(view(memory.saved, at, at + first), e)
    k = at + first
    for j in range(n):
        copy(view(memory.saved, k, k + j + 1), view(e, first + j * n, first + j * n + j + 1))
        k += j + 1
    copy(view(memory.saved, k, at + size), view(e, first + n * n, len(e)))


@inner
def restore(sizes, memory, step, e):
    """The other way."""
    n, size = order(sizes), saved_size(sizes)
    at, first = step % sizes[Z.HISTORY] * size, len(e) - sizes[Z.OUTPUTS] - sizes[Z.ROWS] - n * n
    copy(view(e, 0, first), view(memory.saved, at, at + first))
    k = at + first
    for j in range(n):
        copy(view(e, first + j * n, first + j * n + j + 1), view(memory.saved, k, k + j + 1))
        for i in range(first + j * n + j + 1, first + (j + 1) * n):
            e[i] = 0.0
        k += j + 1
    copy(view(e, first + n * n, len(e)), view(memory.saved, k, at + size))


@kernel(void(MODEL, MEMORY, VECTOR, float64, *FUNCTIONS), error_model="numpy")
def observe(model, memory, inputs, h, linearise, measure, correct):
    """The next step, with these inputs and the readings that were given for it; then catches up with late ones."""
    sizes, notes, e = model.sizes, memory.notes, memory.estimate
    history, rows, count = sizes[Z.HISTORY], sizes[Z.ROWS], sizes[Z.INPUTS]
    step = int(notes[STEP])
    at = step % history
    for i in range(len(memory.innovations)):
        memory.innovations[i] = np.nan
    save(sizes, memory, step, e)
    for i in range(count):  # a state is finite: what is not measured has a number of its own
        memory.inputs[at * count + i] = MISSING if isnan(inputs[i]) else inputs[i]
    readings = view(memory.readings, READING * rows * at, READING * rows * (at + 1))
    if not advance(model, memory, e, inputs, readings, h, linearise, measure, correct):
        restart(model, memory)
    notes[STEP] = step + 1
    # the place of the next step is empty
    after = (step + 1) % history
    for i in range(rows):
        memory.readings[READING * (rows * after + i) + 2] = ABSENT
    done = 0
    while notes[ACTIVE] > 0 and done < sizes[Z.MOST]:
        behind = int(notes[BEHIND])
        at = behind % history
        save(sizes, memory, behind, memory.second)
        for i in range(count):
            value = memory.inputs[at * count + i]
            memory.step_inputs[i] = np.nan if value == MISSING else value
        found = advance(
            model, memory, memory.second, memory.step_inputs,
            view(memory.readings, READING * rows * at, READING * rows * (at + 1)), h, linearise, measure, correct,
        )  # fmt: skip
        if not found:  # the first estimate goes on without the late reading
            notes[ACTIVE] = 0
            notes[ABANDONED] += 1.0
            notes[SINCE] = notes[STEP]
        notes[BEHIND] = behind + 1
        done += 1
        if found and notes[BEHIND] == notes[STEP]:
            notes[ACTIVE] = 0
            copy(e, memory.second)
    notes[REPEATED] += done
    notes[MOST_REPEATED] = max(notes[MOST_REPEATED], done)


@kernel(boolean(MODEL, MEMORY, int64, int64, float64, float64, float64), error_model="numpy")
def take_reading(model, memory, row, step, tau, value, factor):
    """A reading of the instant `step` (plus tau), whenever it comes before or after; whether it can be used.

    `factor`: on its noise, where the sensor says how good it is.
    """
    sizes, notes = model.sizes, memory.notes
    history, rows, now = sizes[Z.HISTORY], sizes[Z.ROWS], int(notes[STEP])
    if step < 0 or step > now or step <= now - history or step < notes[SINCE]:
        memory.counters[COUNTED * row + TOO_OLD] += 1.0
        return False
    at = READING * (rows * (step % history) + row)
    memory.readings[at], memory.readings[at + 1], memory.readings[at + 2] = value, tau, NEW
    memory.readings[at + 3] = factor
    if isnan(value):
        memory.readings[at], memory.readings[at + 2] = 0.0, ABSENT
    if step < now:
        memory.counters[COUNTED * row + LATE] += 1.0
        if notes[ACTIVE] == 0 or step < notes[BEHIND]:
            restore(sizes, memory, step, memory.second)
            notes[ACTIVE], notes[BEHIND] = 1, step
    return True
