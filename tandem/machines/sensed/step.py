"""The step of a machine with sensors: readings of the instant it begins at, a step, what is delivered."""

from math import isnan, sqrt

from sim_service.composite import OWN_INTS, Head, inside, pass_outputs
from sim_service.contract.machine import STEP
from sync.compile.jit import inner, kernel
from tandem.estimation.contract import LINEARISE, MEASURE
from tandem.estimation.noise import normal_number
from tandem.estimation.rows import COUNTS, WIDTH, Count
from tandem.estimation.virtual_sensors import WALKS, read
from tandem.machines.sensed.layout import NEVER, A
from tandem.multibody.code.calls import function_at
from tandem.multibody.natural.views import part, view

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

linearise_at, measure_at = function_at(LINEARISE), function_at(MEASURE)


@inner
def is_out(outages, row, k):
    for n in range(len(outages) // 3):
        if outages[3 * n] == row and outages[3 * n + 1] <= k < outages[3 * n + 2]:
            return True
    return False


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    own_state, own_params, own, base_work = inside(state, params, tables, work)
    ints, reals, outputs = view(tables.ints, OWN_INTS, len(tables.ints)), tables.floats, tables.ints[Head.OUTPUTS]
    rows, noise, walk = part(ints, reals, A.ROWS), part(ints, reals, A.NOISE), part(ints, reals, A.WALK)
    outages, queues, first = part(ints, ints, A.OUTAGES), part(ints, ints, A.QUEUES), part(ints, ints, A.FIRST_OF)
    counts, addresses = part(ints, ints, A.COUNTS), part(ints, reals, A.ADDRESSES)
    count, bias, held = part(ints, state, A.COUNT), part(ints, state, A.BIAS), part(ints, state, A.HELD)
    taken, waiting, of = part(ints, state, A.TAKEN), part(ints, state, A.ON_ITS_WAY), part(ints, state, A.OF)
    derivatives, at = part(ints, work, A.DERIVATIVES), part(ints, work, A.AT)
    k, seed = int(count[0]), part(ints, ints, A.SEED)[0]
    nothing, no_values = view(ints, 0, 0), view(state, 0, 0)

    linearise, measure = linearise_at(addresses[0]), measure_at(addresses[1])
    linearise(own_state, inputs, own_params, own, base_work, h, nothing, no_values, derivatives, at)
    pass_outputs(tables, base_work, work)

    for i in range(len(noise)):
        row, its = view(rows, WIDTH * i, WIDTH * (i + 1)), view(counts, COUNTS * i, COUNTS * (i + 1))
        latency, which = its[Count.LATENCY], its[Count.BIAS]
        here, due = queues[i] + k % (latency + 1), queues[i] + (k + 1) % (latency + 1)
        of[here] = -1.0
        if (k - its[Count.PHASE]) % its[Count.PERIOD] == 0 and not is_out(outages, i, k):
            value = measure(its[Count.SIGNAL], row, 0.0, at, own, base_work, nothing, derivatives)
            if which >= 0:
                value += bias[which]
            if not isnan(value):  # a step without accelerations has none to read
                waiting[here], of[here] = read(row, value, noise[i], normal_number(seed, i, k)), float(k)
        if of[due] >= 0.0:
            held[i], taken[i] = waiting[due], of[due]
        work[outputs + i] = held[i]
    for n in range(len(first)):
        since = taken[first[n]]
        work[outputs + len(noise) + n] = (k - since) * h if since >= 0.0 else NEVER
    for i in range(len(bias)):
        bias[i] += walk[i] * sqrt(h) * normal_number(seed, WALKS + i, k)
    count[0] += 1.0
