"""The loop: one nopython function that holds no GIL, from the newest block to the pushed result.

Every step: sleep until its instant, take the newest block, turn it into inputs, step the model, push the result,
write the ledger. It is compiled once for all models (a model's step arrives as a function pointer), allocates
nothing, raises nothing and meets no Python object. What goes wrong is a bit of the status word and a counter.

A step that ends after the next is due is a deadline miss; the next starts at once. If the loop falls behind by more
than `catch_up` steps it gives the excess up, counted as skipped, instead of chasing a clock it cannot reach.
"""

import math

import numpy as np
from numba import float64, int64, types

from sim_service.models.description import STEP
from sim_service.signals import vehicle_inputs
from sync.atomics import load_acquire, load_relaxed
from sync.block import EPOCH, PAYLOAD, PUSHED, SEQ, Channel, Layout, T
from sync.clock import now_ns, sleep_until
from sync.jit import kernel
from sync.ledger import record
from sync.ring import EPOCH_WORD, HEAD_WORD, READ_ONLY, WORDS, WORDS_2D, beat, newest, push

# the status word of a step
STALE = 1  # the input is older than allowed; it is held
REPEATED = 2  # no new block since the last step
NEW_EPOCH = 4  # first block after a gap: derivatives restart
MISSED = 8  # the step before this one ended after this one was due
SKIPPED = 16  # steps were given up before this one
NOT_FINITE = 32  # the model left the numbers; the run ends here
STATUS = {
    STALE: "stale input",
    REPEATED: "no new block",
    NEW_EPOCH: "new epoch",
    MISSED: "deadline missed",
    SKIPPED: "steps skipped",
    NOT_FINITE: "not finite",
}

# rows of the ledger
AGE, LATENESS, COST = range(3)

# counters
STEPS, USED, SUPERSEDED, REUSED, MISSES, SKIPS, STALES, EPOCHS, NOT_NEWEST = range(9)
COUNTERS = (
    "steps",
    "used",
    "superseded",
    "reused",
    "deadline_misses",
    "skipped",
    "stale_steps",
    "epochs",
    "not_newest",
)

# words the loop and its process share
STOP, LAST_SEQ, FIRST_STEP_NS = range(3)
CONTROL_WORDS = 3
DRAIN, NOW = 1, 2  # what STOP may ask for: end when no new block has come for a while, or end at once

# settings
H_NS, STALE_NS, CATCH_UP, MOST_STEPS, WHEEL_SPEED, OUTPUTS, DRAIN_NS = range(7)

# how the loop ended
STOPPED, ALL_STEPS, DIVERGED = range(3)

# the channels of a step's output before the model's own
_STEP, _INPUT_SEQ, _INPUT_EPOCH, _INPUT_T, _INPUT_AGE, _STARTED, _TAKEN, _STATUS, _TIME = range(PAYLOAD, PAYLOAD + 9)
_INPUTS = PAYLOAD + 9
STEP_CHANNELS = (
    Channel("step", "i8"),
    Channel("input_seq", "i8"),
    Channel("input_epoch", "i8"),
    Channel("input_t_ns", "i8", "ns"),
    Channel("input_age_ns", "i8", "ns"),
    Channel("started_ns", "i8", "ns"),
    Channel("taken_ns", "i8", "ns"),
    Channel("status", "i8"),
    Channel("time", "f8", "s"),
)


def output_layout(model) -> Layout:  # type: ignore[no-untyped-def]
    """The output block of a model: what the step used and when, its inputs, its outputs."""
    quantities = (*model.inputs, *model.outputs)
    return Layout((*STEP_CHANNELS, *(Channel(q.name, "f8", q.unit) for q in quantities)))


_VECTOR = float64[::1]


@kernel(
    int64(
        READ_ONLY, WORDS, WORDS, WORDS,  # rings and their blocks
        WORDS, WORDS, WORDS_2D, WORDS,  # settings, control, ledger, counters
        WORDS_2D, _VECTOR, _VECTOR, _VECTOR,  # signals
        types.FunctionType(STEP), _VECTOR, _VECTOR, _VECTOR, _VECTOR,  # model
    )
)  # fmt: skip
def run(
    ring_in, ring_out, block, out,
    settings, control, ledger, counters,
    rows, calibration, c, memory,
    step_model, state, inputs, params, work,
):  # fmt: skip
    h_ns, stale_ns = settings[H_NS], settings[STALE_NS]
    h = h_ns * 1e-9
    outputs = settings[OUTPUTS]
    values = out.view(np.float64)

    # nothing to simulate before the first block
    position = newest(ring_in, block)
    while position < 0:
        if load_acquire(control, STOP):
            return STOPPED
        beat(ring_out)
        sleep_until(now_ns() + min(h_ns, 1_000_000))
        position = newest(ring_in, block)

    taken_position, epoch = np.int64(-1), block[EPOCH]
    status = np.int64(0)
    planned = now_ns() + h_ns
    stop = load_acquire(control, STOP)
    while stop != NOW:
        sleep_until(planned)
        started = now_ns()
        stop = load_acquire(control, STOP)

        # the newest block there is
        arrived = load_acquire(ring_in, HEAD_WORD)
        position = newest(ring_in, block)
        taken = now_ns()
        if position < 0:
            # a writer that laps a whole ring again and again while one block is copied: give this step up
            counters[SKIPS] += 1
            status |= SKIPPED
            planned += h_ns
            continue
        if stop == DRAIN and position == taken_position:
            # asked to end: whatever is still on its way is waited for, but no step is made without a new block
            if taken - block[T] > settings[DRAIN_NS]:
                return STOPPED
            planned += h_ns
            continue
        if position < arrived - 1:
            counters[NOT_NEWEST] += 1
        if position == taken_position:
            status |= REPEATED
            counters[REUSED] += 1
        else:
            counters[USED] += 1
            counters[SUPERSEDED] += position - taken_position - 1
        taken_position = position
        if block[EPOCH] != epoch or counters[EPOCHS] == 0:
            epoch = block[EPOCH]
            counters[EPOCHS] += 1
            status |= NEW_EPOCH
            memory[:] = 0.0
        age = taken - block[T]
        if age > stale_ns:
            status |= STALE
            counters[STALES] += 1

        # counts into inputs, inputs into motion
        vehicle_inputs(block, rows, calibration, c, memory, work[settings[WHEEL_SPEED]], h, inputs)
        step_model(state, inputs, params, work, h)

        # the result
        finite = True
        for i in range(outputs):
            values[_INPUTS + inputs.size + i] = work[i]
            finite = finite and math.isfinite(work[i])
        for i in range(inputs.size):
            values[_INPUTS + i] = inputs[i]
        if not finite:
            status |= NOT_FINITE
        out[_STEP] = counters[STEPS]
        out[_INPUT_SEQ] = block[SEQ]
        out[_INPUT_EPOCH] = epoch
        out[_INPUT_T] = block[T]
        out[_INPUT_AGE] = age
        out[_STARTED] = started
        out[_TAKEN] = taken
        out[_STATUS] = status
        values[_TIME] = (counters[STEPS] + 1) * h
        out[SEQ] = load_relaxed(ring_out, HEAD_WORD)
        out[EPOCH] = load_relaxed(ring_out, EPOCH_WORD)
        out[T] = planned
        out[PUSHED] = now_ns()
        push(ring_out, out)
        beat(ring_out)
        control[LAST_SEQ] = block[SEQ]
        if counters[STEPS] == 0:
            control[FIRST_STEP_NS] = started
        counters[STEPS] += 1

        # the ledger
        done = now_ns()
        record(ledger[AGE], age)
        record(ledger[LATENESS], started - planned)
        record(ledger[COST], done - started)
        if not finite:
            return DIVERGED
        if counters[STEPS] == settings[MOST_STEPS]:
            return ALL_STEPS
        status = np.int64(0)
        planned += h_ns
        if done > planned:
            counters[MISSES] += 1
            status |= MISSED
            behind = (done - planned) // h_ns
            if behind > settings[CATCH_UP]:
                counters[SKIPS] += behind
                planned += behind * h_ns
                status |= SKIPPED
    return STOPPED
