"""The step of a machine with its observer: readings to their instants, a step of the filter, outputs."""

from math import floor, isnan, sqrt

from sim_service.composite import OWN_INTS, inside
from sim_service.contract.machine import STEP
from sync.compile.jit import inner, kernel
from tandem.estimation.contract import CORRECT, LINEARISE, MEASURE
from tandem.estimation.ekf import LIMITS, Memory, Model, Z, observe, take_reading
from tandem.estimation.ekf import STEP as NOW
from tandem.estimation.rows import COUNTED, COUNTS, GATED, LATE, USED, Count
from tandem.machines.observer.layout import A
from tandem.multibody.code.calls import function_at
from tandem.multibody.natural.views import part, view

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

SUPPORTED = 0.25  # of the variance at the start, that readings have left of an estimated quantity's
linearise_at, measure_at, correct_at = (function_at(kind) for kind in (LINEARISE, MEASURE, CORRECT))


@inner
def write_outputs(model, estimate, counters, work):
    """Those of the machine, further states, standard deviations of all states, counters; of each quantity that must be
    excited, whether readings support it."""
    sizes = model.sizes
    n, rest = sizes[Z.ERRORS], sizes[Z.STATE] + sizes[Z.PARAMETERS]
    further = sizes[Z.ESTIMATED] + sizes[Z.BIASES]
    N, outputs = n + further, sizes[Z.OUTPUTS]
    d, U = view(estimate, rest + further, rest + further + N), view(estimate, rest + further + N, len(estimate))
    for i in range(outputs):
        work[i] = estimate[len(estimate) - outputs + i]
    for i in range(further):
        work[outputs + i] = estimate[rest + i]
    for i in range(N):
        variance = d[i]
        for j in range(i + 1, N):
            variance += U[j * N + i] * U[j * N + i] * d[j]
        work[outputs + further + i] = sqrt(variance)
    at = outputs + further + N
    work[at] = work[at + 1] = work[at + 2] = 0.0
    for i in range(sizes[Z.ROWS]):
        work[at] += counters[COUNTED * i + USED]
        work[at + 1] += counters[COUNTED * i + GATED]
        work[at + 2] += counters[COUNTED * i + LATE]
    at += 3
    for k in range(sizes[Z.ESTIMATED]):
        if model.limits[LIMITS * k + 2] > 0.0:
            sigma = work[outputs + further + n + k]
            work[at] = 1.0 if sigma * sigma <= SUPPORTED * model.start[n + k] else 0.0
            at += 1


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    _, _, own_tables, own_work = inside(state, params, tables, work)
    ints, reals = view(tables.ints, OWN_INTS, len(tables.ints)), tables.floats
    sizes, sensor, addresses = part(ints, ints, A.SIZES), part(ints, ints, A.SENSOR), part(ints, reals, A.ADDRESSES)
    model = Model(
        sizes, part(ints, reals, A.ROWS), part(ints, ints, A.COUNTS), part(ints, reals, A.NOISE),
        part(ints, reals, A.LIMITS), part(ints, reals, A.START), part(ints, reals, A.ROUGH), own_tables,
    )  # fmt: skip
    estimate, notes, counters = part(ints, state, A.ESTIMATE), part(ints, state, A.NOTES), part(ints, state, A.COUNTERS)
    memory = Memory(
        estimate, part(ints, state, A.SECOND), part(ints, state, A.SAVED), part(ints, state, A.INPUTS),
        part(ints, state, A.READINGS), part(ints, work, A.SCRATCH), own_work, notes, counters,
        part(ints, work, A.STEP_INPUTS), part(ints, work, A.INNOVATIONS),
    )  # fmt: skip

    # parameters that are not estimated are those of the machine, which may be tuned
    q, first = sizes[Z.ESTIMATED], sizes[Z.STATE]
    for i in range(sizes[Z.PARAMETERS]):
        estimated = False
        for k in range(q):
            estimated = estimated or sizes[len(sizes) - q + k] == i
        if not estimated:
            estimate[first + i] = params[i]

    # readings that are new, at the steps they are of
    own, now, last = sizes[Z.INPUTS], int(notes[NOW]), part(ints, state, A.LAST)
    for i in range(sizes[Z.ROWS]):
        value, age = inputs[own + i], inputs[sensor[i]]
        if isnan(value):
            inputs[own + i] = 0.0  # an input shows what was used: nothing
            continue
        # a step that was made without a new block moves the instants of what comes by one: no reading is used twice
        apart = 0 if isnan(age) else (model.counts[COUNTS * i + Count.PERIOD] - 1) // 2
        of = now if isnan(age) else now - floor(age / h + 0.5)
        if of > last[i] + apart or (last[i] < 0.0 and of >= 0):
            last[i] = of
            take_reading(model, memory, i, of, 0.0, value, 1.0)
    for i in range(own, len(inputs)):
        if isnan(inputs[i]):
            inputs[i] = 0.0
    observe(
        model, memory, view(inputs, 0, own), h, linearise_at(addresses[0]), measure_at(addresses[1]),
        correct_at(addresses[2]),
    )  # fmt: skip
    write_outputs(model, estimate, counters, work)
