"""The loop: one nopython function that holds no GIL, from the newest block to the pushed result.

Every step: sleep until its instant, take the newest block, obey what was commanded, turn the block into inputs, step
the model, push the result, write the ledger. It is compiled once for all models (a model's step arrives as a function
pointer), allocates nothing, raises nothing and meets no Python object. What goes wrong is a bit of the status word and
a counter.

Locked, the instants follow the block stream (sim_service/phase.py); free, they follow the timer. Every new block is
looked at once, in order, for its arrival; only the newest is used. A block that is late for its step is waited for a
little: an input out of rhythm hurts more than a step that starts a fraction later.

A step that ends after the next is due is a deadline miss; the next starts at once, but no more than `catch_up` of them
in a row. If that does not bring the loop back, or if it is further behind than that, it gives up every step whose
instant has passed, counted as skipped, and sleeps until the next: it never chases a clock it cannot reach, and never
keeps a core from everybody else.

Input that has been stale for too long stops the model: no step is made until it is fresh again, or the loop ends.
"""

import numpy as np
from numba import float64, int64, types

from sim_service.commands import ANEW, PAUSED, SLOWNESS, STEPS_LEFT, obey_all
from sim_service.models.description import STEP
from sim_service.phase import ENOUGH, ERROR, SEEN, UNIT, advance, align, arrived, overdue
from sim_service.phase import LOCKED as LOCKED_NOW
from sim_service.signals import oldest
from sim_service.turn import BEYOND as CLIPPED
from sim_service.turn import DIVERGED as DIVERGED_NOW
from sim_service.turn import OVER, STAGES, turn
from sync.atomics import load_acquire, load_relaxed, store_release
from sync.block import EPOCH, PAYLOAD, PUSHED, RECEIVED, SENT, SEQ, Channel, Layout, T
from sync.clock import now_ns, sleep_until
from sync.jit import kernel
from sync.ledger import record
from sync.ring import EPOCH_WORD, HEAD_WORD, LIVE, READ_ONLY, STATE_WORD, WORDS, WORDS_2D, beat, newest, push, read_slot

# the status word of a step
STALE = 1  # an input is older than allowed; its stage says what became of it
REPEATED = 2  # no new block since the last step
NEW_EPOCH = 4  # first block after a gap: derivatives restart
MISSED = 8  # the step before this one ended after this one was due
SKIPPED = 16  # steps were given up before this one
NOT_FINITE = 32  # the model left the numbers or its bound; the outputs are those it goes on from, or ended with
LOCKED = 64  # the step's instant is locked to the block stream
HOLDOVER = 128  # locked before, but no new block to follow
LAPPED = 256  # blocks since the last step were overwritten before the step saw them: derivatives restart
WAITED = 512  # the step's block was late and waited for
CAPPED = 1024  # the model ended the step at its limit of iterations
RESUMED = 2048  # the first step after a pause or of a model that was reset: derivatives restart
SLOWED = 4096  # steps follow each other more slowly than in real time, as commanded
BEYOND = 16384  # an input was beyond what its channel can be, and clipped
STATUS = {
    STALE: "stale input",
    REPEATED: "no new block",
    NEW_EPOCH: "new epoch",
    MISSED: "deadline missed",
    SKIPPED: "steps skipped",
    NOT_FINITE: "diverged",
    LOCKED: "locked",
    HOLDOVER: "holdover",
    LAPPED: "blocks overwritten",
    WAITED: "waited for its block",
    CAPPED: "iterations capped",
    RESUMED: "after a pause or reset",
    SLOWED: "slowed down",
    BEYOND: "input beyond its limits",
}

# rows of the ledger: the age at use and what it is made of, in order; then the step
AGE, SENSOR, RING, WIRE, WAIT, STEP_DONE, LATENESS, COST = range(8)
LEDGER = ("age", "sensor", "ring", "wire", "wait", "step", "lateness", "cost")

# counters
(
    STEPS, USED, SUPERSEDED, REUSED, MISSES, SKIPS, STALES, EPOCHS, NOT_NEWEST,
    LOCKED_STEPS, HOLDOVERS, WAITS, CAPS, PAUSES, STARVED, DIVERGENCES, CLIPS,
) = range(17)  # fmt: skip
COUNTERS = (
    "steps", "used", "superseded", "reused", "deadline_misses", "skipped", "stale_steps", "epochs", "not_newest",
    "locked_steps", "holdover_steps", "waited_steps", "capped_steps",
    "paused_steps", "starved_steps", "diverged_steps", "clipped_steps",
)  # fmt: skip

# words the loop and its process share
STOP, LAST_SEQ, FIRST_STEP_NS, BOUND_NS, WORST_BOUND_NS, OBEYED, LOST_CHANNEL, LOST_NS, DIVERGED_STEP = range(9)
CONTROL_WORDS = 9
DRAIN, NOW = 1, 2  # what STOP may ask for: end when no new block has come for a while, or end at once

# settings
(
    H_NS, MOST_AGE_NS, LOST_ENDS, CATCH_UP, MOST_STEPS, WHEEL_SPEED, OUTPUTS, DRAIN_NS, MOST_BLOCKS, RHYTHM_NS,
    WAIT_NS, CAPPED_OUTPUT,
) = range(12)  # fmt: skip
SETTINGS = 12

# how the loop ended
STOPPED, ALL_STEPS, DIVERGED, RING_CLOSED, INPUT_LOST = range(5)

# the channels of a step's output before the model's own
(
    _STEP, _STATUS, _INPUT_SEQ, _INPUT_EPOCH, _INPUT_T, _INPUT_PUSHED, _INPUT_SENT, _INPUT_RECEIVED,
    _STARTED, _TAKEN, _INPUT_AGE, _INPUT_STAGES, _AGE_BOUND, _PHASE_ERROR, _COMMANDS, _COMMAND_EPOCH, _TIME,
) = range(PAYLOAD, PAYLOAD + 17)  # fmt: skip
_INPUTS = PAYLOAD + 17
STEP_CHANNELS = (
    Channel("step", "i8"),
    Channel("status", "i8"),
    Channel("input_seq", "i8"),
    Channel("input_epoch", "i8"),
    Channel("input_t_ns", "i8", "ns"),  # the block's stamps: sampled, pushed, sent, received (0: not over a wire)
    Channel("input_pushed_ns", "i8", "ns"),
    Channel("input_sent_ns", "i8", "ns"),
    Channel("input_received_ns", "i8", "ns"),
    Channel("started_ns", "i8", "ns"),  # the step's: started, took the block; done is the output's own pushed_ns
    Channel("taken_ns", "i8", "ns"),
    Channel("input_age_ns", "i8", "ns"),  # age at use, what it made of the channels (sim_service/signals/stale.py),
    Channel("input_stages", "i8"),
    Channel("age_bound_ns", "i8", "ns"),  # and the error bound that the DAQ's clock leaves
    Channel("phase_error_ns", "i8", "ns"),
    Channel("commands", "i8"),  # obeyed before this step: all before this position of the ring of commands
    Channel("command_epoch", "i8"),
    Channel("time", "f8", "s"),
)


def output_layout(model) -> Layout:  # type: ignore[no-untyped-def]
    """The output block of a model: what the step used and when, its inputs, its outputs."""
    quantities = (*model.inputs, *model.outputs)
    return Layout((*STEP_CHANNELS, *(Channel(q.name, "f8", q.unit) for q in quantities)))


_VECTOR = float64[::1]
_PATIENCE_NS = 250_000_000  # for the first arrivals
_NAP_NS = 20_000  # between two looks for a late block


@kernel()
def look_at_arrivals(ring, looked, position, most, block, phase, arrivals):
    """Note how long after its sampling each new block came: from `looked` on, at most so many."""
    for n in range(max(looked + 1, position + 1 - most), position + 1):
        if read_slot(ring, n, block):
            arrived(phase, arrivals, (block[RECEIVED] if block[RECEIVED] > 0 else block[PUSHED]) - block[T])


@kernel(
    int64(
        READ_ONLY, WORDS, READ_ONLY, WORDS, WORDS, WORDS, WORDS, WORDS, WORDS,  # rings and their blocks
        WORDS, WORDS, WORDS_2D, WORDS,  # settings, control, ledger, counters
        _VECTOR, WORDS_2D,  # phase lock
        WORDS_2D, _VECTOR, _VECTOR, _VECTOR, _VECTOR,  # signals
        types.FunctionType(STEP), _VECTOR, _VECTOR, _VECTOR, _VECTOR,  # model
        _VECTOR, _VECTOR, _VECTOR,  # as it started, and how it goes
        _VECTOR, _VECTOR, WORDS, _VECTOR,  # its guard
    )
)  # fmt: skip
def run(
    ring_in, ring_out, ring_commands, ring_state, block, passing, out, command, out_state,
    settings, control, ledger, counters,
    phase, arrivals,
    rows, calibration, estimator, memory, policy,
    step_model, state, inputs, params, work,
    first_state, first_work, mode,
    kept, guard, turned, offending,
):  # fmt: skip
    h_ns = settings[H_NS]
    h = h_ns * 1e-9
    outputs, most = settings[OUTPUTS], settings[MOST_BLOCKS]
    values = out.view(np.float64)
    obeyed = control[OBEYED]  # commands before it are of a life before this one

    # nothing to simulate before the first block
    position = newest(ring_in, block)
    while position < 0:
        if load_acquire(control, STOP):
            return STOPPED
        beat(ring_out)
        sleep_until(now_ns() + min(h_ns, 1_000_000))
        position = newest(ring_in, block)

    # locked: watch some blocks arrive, then begin in phase
    looked = np.int64(-1)
    planned = now_ns() + h_ns
    if phase[UNIT] > 0.0:
        patience = planned + _PATIENCE_NS
        while phase[SEEN] < ENOUGH and now_ns() < patience and load_acquire(control, STOP) == 0:
            sleep_until(now_ns() + min(h_ns, 1_000_000))
            position = newest(ring_in, block)
            look_at_arrivals(ring_in, looked, position, most, passing, phase, arrivals)
            looked = max(looked, position)
        planned = align(phase, block[T], now_ns() + h_ns // 2)
        # arrivals while the processes were still starting say nothing about those to come
        arrivals[:, :] = 0
        phase[SEEN] = 0.0

    taken_position, shown, epoch = np.int64(-1), np.int64(-1), np.int64(-1)
    seen, seen_ns = np.int64(-1), np.int64(0)  # the newest block, and when it was first there
    in_rhythm = False
    status = np.int64(0)
    late = 0  # steps in a row that began late
    begun = now_ns()
    while True:
        while mode[SLOWNESS] > 1.0 and planned - now_ns() > h_ns:
            # in slow motion a step may be seconds away; whoever stops or commands does not wait for it
            sleep_until(now_ns() + h_ns)
            beat(ring_out)
            if load_acquire(control, STOP) or load_acquire(ring_commands, HEAD_WORD) > obeyed:
                planned = now_ns()
        sleep_until(planned)
        started = now_ns()
        stop = load_acquire(control, STOP)
        if stop == NOW:
            return STOPPED

        # what was commanded
        obeyed = obey_all(ring_commands, obeyed, command, params, state, work, first_state, first_work, mode)
        store_release(control, OBEYED, obeyed)
        if mode[ANEW] > 0.0:
            mode[ANEW] = 0.0
            status |= RESUMED
        if mode[PAUSED] > 0.0 and mode[STEPS_LEFT] <= 0.0:
            if stop == DRAIN:
                # what came meanwhile was for steps that nobody wanted
                position = newest(ring_in, block)
                if position > taken_position:
                    counters[SUPERSEDED] += position - taken_position
                    control[LAST_SEQ] = block[SEQ]
                return STOPPED
            counters[PAUSES] += 1
            status |= RESUMED
            beat(ring_out)
            planned = max(planned, started - h_ns) + h_ns
            continue

        # the newest block there is
        there = load_acquire(ring_in, HEAD_WORD)
        position = newest(ring_in, block)
        if in_rhythm and stop == 0 and overdue(phase, block[T], planned):
            status |= WAITED
            counters[WAITS] += 1
            while overdue(phase, block[T], planned) and now_ns() < planned + settings[WAIT_NS]:
                sleep_until(now_ns() + _NAP_NS)
                there = load_acquire(ring_in, HEAD_WORD)
                position = newest(ring_in, block)
        taken = now_ns()
        if position < 0:
            # a writer that laps a whole ring again and again while one block is copied: give this step up
            counters[SKIPS] += 1
            status |= SKIPPED
            planned += h_ns
            continue
        if position == taken_position and load_relaxed(ring_in, STATE_WORD) != LIVE and stop == 0:
            return RING_CLOSED  # its writer has ended; whoever called us looks for a new one
        if stop == DRAIN and position == taken_position:
            # asked to end: whatever is still on its way is waited for, but no step is made without a new block
            if taken - block[T] > settings[DRAIN_NS]:
                return STOPPED
            planned += h_ns
            continue
        age = taken - block[T]
        if position == seen:
            age = max(age, taken - seen_ns)  # it gets older, whatever instant it claims
        else:
            seen, seen_ns = position, taken
        channel, older = oldest(block, rows)
        if 0 < settings[MOST_AGE_NS] < age + older:
            # nobody knows what the driver does: a model that goes on would go anywhere
            control[LOST_CHANNEL], control[LOST_NS] = channel if older > 0 else -1, age + older
            closed = load_relaxed(ring_in, STATE_WORD) != LIVE
            # what was old when we came is no loss of ours: whoever follows a dead simulator may follow a dead DAQ, too
            ends = settings[LOST_ENDS] != 0 and taken - begun > settings[MOST_AGE_NS]
            if stop == 0 and not ends and not closed:
                counters[STARVED] += 1
                status |= RESUMED
                in_rhythm = False
                beat(ring_out)
                planned = max(planned, started - h_ns) + h_ns
                continue
            if position > taken_position:
                counters[SUPERSEDED] += position - taken_position
                control[LAST_SEQ] = block[SEQ]
            if stop:
                return STOPPED
            return INPUT_LOST if ends else RING_CLOSED
        control[LOST_NS] = 0
        if position < there - 1:
            counters[NOT_NEWEST] += 1
        if position == taken_position:
            status |= REPEATED
            counters[REUSED] += 1
        else:
            counters[USED] += 1
            counters[SUPERSEDED] += position - taken_position - 1
        fresh = position != taken_position
        taken_position = position
        if phase[UNIT] > 0.0:
            look_at_arrivals(ring_in, looked, position, most, passing, phase, arrivals)
            looked = position
        if block[EPOCH] != epoch:
            epoch = block[EPOCH]
            counters[EPOCHS] += 1
            status |= NEW_EPOCH
        if turn(
            ring_in, shown, position, most, block, passing, status & (NEW_EPOCH | SKIPPED | RESUMED) != 0, False, age,
            rows, calibration, estimator, memory, policy,
            step_model, state, inputs, params, work, first_state, first_work, kept, guard, turned,
            settings[WHEEL_SPEED], outputs, h,
        ):  # fmt: skip
            status |= LAPPED
        shown = position

        # the result
        for i in range(outputs):
            values[_INPUTS + inputs.size + i] = work[i]
        for i in range(inputs.size):
            values[_INPUTS + i] = inputs[i]
        if turned[STAGES]:
            status |= STALE
            counters[STALES] += 1
        if turned[CLIPPED]:
            status |= BEYOND
            counters[CLIPS] += 1
        if turned[DIVERGED_NOW]:
            status |= NOT_FINITE
            offending[:] = inputs
            control[DIVERGED_STEP] = counters[STEPS]
            counters[DIVERGENCES] += 1
        elif settings[CAPPED_OUTPUT] >= 0 and work[settings[CAPPED_OUTPUT]] > 0.0:
            status |= CAPPED
            counters[CAPS] += 1
        if phase[UNIT] > 0.0:
            held = age > settings[RHYTHM_NS]
            in_rhythm = phase[LOCKED_NOW] > 0.0 and fresh and not held
            if phase[LOCKED_NOW] > 0.0:
                status |= HOLDOVER if held else LOCKED
                counters[HOLDOVERS if held else LOCKED_STEPS] += 1
            following = advance(phase, block[T], fresh, planned, h_ns)
        else:
            following = planned + h_ns
        if mode[SLOWNESS] > 1.0:
            following = planned + np.int64(h_ns * mode[SLOWNESS])
            in_rhythm = False
            status |= SLOWED
        out[_STEP] = counters[STEPS]
        out[_INPUT_SEQ] = block[SEQ]
        out[_INPUT_EPOCH] = epoch
        out[_INPUT_T] = block[T]
        out[_INPUT_PUSHED], out[_INPUT_SENT], out[_INPUT_RECEIVED] = block[PUSHED], block[SENT], block[RECEIVED]
        out[_INPUT_AGE] = age
        out[_INPUT_STAGES] = turned[STAGES]
        bound = load_relaxed(control, BOUND_NS)
        out[_AGE_BOUND] = bound
        control[WORST_BOUND_NS] = max(control[WORST_BOUND_NS], bound)
        out[_PHASE_ERROR] = np.int64(phase[ERROR])
        out[_COMMANDS] = obeyed
        out[_COMMAND_EPOCH] = load_relaxed(ring_commands, EPOCH_WORD)
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
        out_state[:PAYLOAD] = out[:PAYLOAD]
        out_state.view(np.float64)[PAYLOAD:] = state
        push(ring_state, out_state)
        control[LAST_SEQ] = block[SEQ]
        if counters[STEPS] == 0:
            control[FIRST_STEP_NS] = started
        counters[STEPS] += 1
        if mode[PAUSED] > 0.0:
            mode[STEPS_LEFT] -= 1.0

        # the ledger: the hops add up to the age
        done = now_ns()
        record(ledger[AGE], age)
        record(ledger[SENSOR], block[PUSHED] - block[T])
        if block[RECEIVED] > 0:
            record(ledger[RING], block[SENT] - block[PUSHED])
            record(ledger[WIRE], block[RECEIVED] - block[SENT])
            record(ledger[WAIT], taken - block[RECEIVED])
        else:
            record(ledger[WAIT], taken - block[PUSHED])
        record(ledger[STEP_DONE], out[PUSHED] - taken)
        record(ledger[LATENESS], started - planned)
        record(ledger[COST], done - started)
        if turned[DIVERGED_NOW] == OVER:
            return DIVERGED
        if counters[STEPS] == settings[MOST_STEPS]:
            return ALL_STEPS
        status = np.int64(0)
        planned = following
        if done <= planned:
            late = 0
            continue
        counters[MISSES] += 1
        status |= MISSED
        late += 1
        passed = (done - planned) // h_ns + 1
        if max(late, passed - 1) > settings[CATCH_UP]:
            counters[SKIPS] += passed
            planned += passed * h_ns
            status |= SKIPPED
            late = 0
