"""The loop: one nopython function that holds no GIL, from the newest block to the pushed result.

Every step: sleep until its instant, take the newest block, obey what was commanded, turn the block into inputs, step
the model, push the result, write the ledger. It is compiled once for all models (a model's step arrives as a function
pointer), allocates nothing, raises nothing and meets no Python object. What goes wrong is a bit of the status word and
a counter.

What time it is, and sleeping, it asks of a clock it is given: the host's, or a virtual one (sync/clock.py).

Locked, the instants follow the block stream (sim_service/phase.py); free, they follow the timer. Every new block is
looked at once, in order, for its arrival; only the newest is used. A block that is late for its step is waited for a
little: an input out of rhythm hurts more than a step that starts a fraction later.

A step that ends after the next is due is a deadline miss; the next starts at once, but no more than `catch_up` of them
in a row. If that does not bring the loop back, or if it is further behind than that, it gives up every step whose
instant has passed, counted as skipped, and sleeps until the next: it never chases a clock it cannot reach, and never
keeps a core from everybody else.

Input that has been stale for too long stops the model: no step is made until it is fresh again, or the loop ends.
"""

import functools
from typing import Any

import numpy as np
from numba import float64, int64, typeof, types

from sim_service import step_record as rec
from sim_service.command_record import ANEW, PAUSED, SLOWNESS, STEPS_LEFT
from sim_service.commands import obey_all
from sim_service.models.description import STEP
from sim_service.phase import ENOUGH, ERROR, SEEN, UNIT, advance, align, arrived, overdue
from sim_service.phase import LOCKED as LOCKED_NOW
from sim_service.signals import oldest
from sim_service.step_result import BEYOND as CLIPPED
from sim_service.step_result import DIVERGED as DIVERGED_NOW
from sim_service.step_result import OVER, STAGES
from sim_service.turn import turn
from sync.array_types import READ_ONLY, WORDS, WORDS_2D
from sync.atomics import load_acquire, load_relaxed, store_release
from sync.block import EPOCH, PAYLOAD, PUSHED, RECEIVED, SENT, SEQ, T
from sync.clock import REAL, RealClock, VirtualClock, now, sleep
from sync.jit import kernel
from sync.ledger import record
from sync.ring import EPOCH_WORD, HEAD_WORD, LIVE, STATE_WORD, beat_at, newest, push, read_slot

_VECTOR = float64[::1]
_PATIENCE_NS = 250_000_000  # for the first arrivals
_NAP_NS = 20_000  # between two looks for a late block


@kernel()
def look_at_arrivals(ring, looked, position, most, block, phase, arrivals):
    """Note how long after its sampling each new block came: from `looked` on, at most so many."""
    for n in range(max(looked + 1, position + 1 - most), position + 1):
        if read_slot(ring, n, block):
            arrived(phase, arrivals, (block[RECEIVED] if block[RECEIVED] > 0 else block[PUSHED]) - block[T])


_ARGUMENTS = (
    READ_ONLY, WORDS, READ_ONLY, WORDS, WORDS, WORDS, WORDS, WORDS, WORDS,  # rings and their blocks
    WORDS, WORDS, WORDS_2D, WORDS,  # settings, control, ledger, counters
    _VECTOR, WORDS_2D,  # phase lock
    WORDS_2D, _VECTOR, _VECTOR, _VECTOR, _VECTOR,  # signals
    types.FunctionType(STEP), _VECTOR, _VECTOR, _VECTOR, _VECTOR,  # model
    _VECTOR, _VECTOR, _VECTOR,  # as it started, and how it goes
    _VECTOR, _VECTOR, WORDS, _VECTOR,  # its guard
)  # fmt: skip


def _run(
    clock, ring_in, ring_out, ring_commands, ring_state, block, passing, out, command, out_state,
    settings, control, ledger, counters,
    phase, arrivals,
    rows, calibration, estimator, memory, policy,
    step_model, state, inputs, params, work,
    first_state, first_work, mode,
    kept, guard, turned, offending,
):  # fmt: skip
    h_ns = settings[rec.H_NS]
    h = h_ns * 1e-9
    outputs, most = settings[rec.OUTPUTS], settings[rec.MOST_BLOCKS]
    values = out.view(np.float64)
    obeyed = control[rec.OBEYED]  # commands before it are of a life before this one

    # nothing to simulate before the first block; those before `begin` were received by an earlier simulator
    begin = control[rec.BEGIN]
    position = newest(ring_in, block)
    while position < begin:
        if load_acquire(control, rec.STOP):
            return rec.STOPPED
        beat_at(ring_out, now(clock))
        sleep(clock, now(clock) + min(h_ns, 1_000_000))
        position = newest(ring_in, block)

    # locked: watch some blocks arrive, then begin in phase
    looked = begin - 1
    planned = now(clock) + h_ns
    if phase[UNIT] > 0.0:
        patience = planned + _PATIENCE_NS
        while phase[SEEN] < ENOUGH and now(clock) < patience and load_acquire(control, rec.STOP) == 0:
            sleep(clock, now(clock) + min(h_ns, 1_000_000))
            position = newest(ring_in, block)
            look_at_arrivals(ring_in, looked, position, most, passing, phase, arrivals)
            looked = max(looked, position)
        planned = align(phase, block[T], now(clock) + h_ns // 2)
        # arrivals while the processes were still starting say nothing about those to come
        arrivals[:, :] = 0
        phase[SEEN] = 0.0

    taken_position, shown, epoch = begin - 1, begin - 1, np.int64(-1)
    seen, seen_ns = np.int64(-1), np.int64(0)  # the newest block, and when it was first there
    in_rhythm = False
    status = np.int64(0)
    late = 0  # steps in a row that began late
    begun = now(clock)
    while True:
        while mode[SLOWNESS] > 1.0 and planned - now(clock) > h_ns:
            # in slow motion a step may be seconds away; whoever stops or commands does not wait for it
            sleep(clock, now(clock) + h_ns)
            beat_at(ring_out, now(clock))
            if load_acquire(control, rec.STOP) or load_acquire(ring_commands, HEAD_WORD) > obeyed:
                planned = now(clock)
        sleep(clock, planned)
        started = now(clock)
        stop = load_acquire(control, rec.STOP)
        if stop == rec.NOW:
            return rec.STOPPED

        # what was commanded
        obeyed = obey_all(ring_commands, obeyed, command, params, state, work, first_state, first_work, mode)
        store_release(control, rec.OBEYED, obeyed)
        if mode[ANEW] > 0.0:  # until a step says so, be it on another ring
            status |= rec.RESUMED
        if mode[PAUSED] > 0.0 and mode[STEPS_LEFT] <= 0.0:
            if stop == rec.DRAIN:
                # what came meanwhile was for steps that nobody wanted
                position = newest(ring_in, block)
                if position > taken_position:
                    counters[rec.SUPERSEDED] += position - taken_position
                    control[rec.LAST_SEQ] = block[SEQ]
                return rec.STOPPED
            counters[rec.PAUSES] += 1
            status |= rec.RESUMED
            beat_at(ring_out, now(clock))
            planned = max(planned, started - h_ns) + h_ns
            continue

        # the newest block there is
        there = load_acquire(ring_in, HEAD_WORD)
        position = newest(ring_in, block)
        if in_rhythm and stop == 0 and overdue(phase, block[T], planned):
            status |= rec.WAITED
            counters[rec.WAITS] += 1
            while overdue(phase, block[T], planned) and now(clock) < planned + settings[rec.WAIT_NS]:
                sleep(clock, now(clock) + _NAP_NS)
                there = load_acquire(ring_in, HEAD_WORD)
                position = newest(ring_in, block)
        taken = now(clock)
        if position < 0:
            # a writer that laps a whole ring again and again while one block is copied: give this step up
            counters[rec.SKIPS] += 1
            status |= rec.SKIPPED
            planned += h_ns
            continue
        # the state first: of a ring that is closed the head is the last there will be
        closed = load_acquire(ring_in, STATE_WORD) != LIVE
        more = load_acquire(ring_in, HEAD_WORD) > position + 1  # came while we looked at the clock
        if position == taken_position and closed and not more and stop == 0:
            return rec.RING_CLOSED  # its writer has ended; whoever called us looks for a new one
        if stop == rec.DRAIN and position == taken_position:
            # asked to end: whatever is still on its way is waited for, but no step is made without a new block
            if taken - block[T] > settings[rec.DRAIN_NS] and not more:
                return rec.STOPPED
            planned += h_ns
            continue
        age = taken - block[T]
        if position == seen:
            age = max(age, taken - seen_ns)  # it gets older, whatever instant it claims
        else:
            seen, seen_ns = position, taken
        channel, older = oldest(block, rows)
        if 0 < settings[rec.MOST_AGE_NS] < age + older:
            # nobody knows what the driver does: a model that goes on would go anywhere
            control[rec.LOST_CHANNEL], control[rec.LOST_NS] = channel if older > 0 else -1, age + older
            # what was old when we came is no loss of ours: whoever follows a dead simulator may follow a dead DAQ, too
            ends = settings[rec.LOST_ENDS] != 0 and taken - begun > settings[rec.MOST_AGE_NS]
            if more or (stop == 0 and not ends and not closed):
                counters[rec.STARVED] += 1
                status |= rec.RESUMED
                in_rhythm = False
                beat_at(ring_out, now(clock))
                planned = max(planned, started - h_ns) + h_ns
                continue
            if position > taken_position:
                counters[rec.SUPERSEDED] += position - taken_position
                control[rec.LAST_SEQ] = block[SEQ]
            if stop:
                return rec.STOPPED
            return rec.INPUT_LOST if ends else rec.RING_CLOSED
        control[rec.LOST_NS] = 0
        if position < there - 1:
            counters[rec.NOT_NEWEST] += 1
        if position == taken_position:
            status |= rec.REPEATED
            counters[rec.REUSED] += 1
        else:
            counters[rec.USED] += 1
            counters[rec.SUPERSEDED] += position - taken_position - 1
        fresh = position != taken_position
        taken_position = position
        if phase[UNIT] > 0.0:
            look_at_arrivals(ring_in, looked, position, most, passing, phase, arrivals)
            looked = position
        if block[EPOCH] != epoch:
            epoch = block[EPOCH]
            counters[rec.EPOCHS] += 1
            status |= rec.NEW_EPOCH
        restart = status & (rec.NEW_EPOCH | rec.SKIPPED | rec.RESUMED) != 0
        # the first step on a ring that an earlier simulator filled uses its block alone, and the record says so
        adopted = shown < begin and begin > 0
        if turn(
            ring_in, shown, position, most, block, passing, restart, adopted, age,
            rows, calibration, estimator, memory, policy,
            step_model, state, inputs, params, work, first_state, first_work, kept, guard, turned,
            settings[rec.WHEEL_SPEED], outputs, h,
        ):  # fmt: skip
            status |= rec.LAPPED
        shown = position

        # the result
        for i in range(outputs):
            values[rec.AT_INPUTS + inputs.size + i] = work[i]
        for i in range(inputs.size):
            values[rec.AT_INPUTS + i] = inputs[i]
        if turned[STAGES]:
            status |= rec.STALE
            counters[rec.STALES] += 1
        if turned[CLIPPED]:
            status |= rec.BEYOND
            counters[rec.CLIPS] += 1
        if turned[DIVERGED_NOW]:
            status |= rec.NOT_FINITE
            offending[:] = inputs
            control[rec.DIVERGED_STEP] = counters[rec.STEPS]
            counters[rec.DIVERGENCES] += 1
        elif settings[rec.CAPPED_OUTPUT] >= 0 and work[settings[rec.CAPPED_OUTPUT]] > 0.0:
            status |= rec.CAPPED
            counters[rec.CAPS] += 1
        if phase[UNIT] > 0.0:
            held = age > settings[rec.RHYTHM_NS]
            in_rhythm = phase[LOCKED_NOW] > 0.0 and fresh and not held
            if phase[LOCKED_NOW] > 0.0:
                status |= rec.HOLDOVER if held else rec.LOCKED
                counters[rec.HOLDOVERS if held else rec.LOCKED_STEPS] += 1
            following = advance(phase, block[T], fresh, planned, h_ns)
        else:
            following = planned + h_ns
        if mode[SLOWNESS] > 1.0:
            following = planned + np.int64(h_ns * mode[SLOWNESS])
            in_rhythm = False
            status |= rec.SLOWED
        out[rec.AT_STEP] = counters[rec.STEPS]
        out[rec.AT_INPUT_SEQ] = block[SEQ]
        out[rec.AT_INPUT_EPOCH] = epoch
        out[rec.AT_INPUT_T] = block[T]
        out[rec.AT_INPUT_PUSHED], out[rec.AT_INPUT_SENT] = block[PUSHED], block[SENT]
        out[rec.AT_INPUT_RECEIVED] = block[RECEIVED]
        out[rec.AT_INPUT_AGE] = age
        out[rec.AT_INPUT_STAGES] = turned[STAGES]
        bound = load_relaxed(control, rec.BOUND_NS)
        out[rec.AT_AGE_BOUND] = bound
        control[rec.WORST_BOUND_NS] = max(control[rec.WORST_BOUND_NS], bound)
        out[rec.AT_PHASE_ERROR] = np.int64(phase[ERROR])
        out[rec.AT_COMMANDS] = obeyed
        out[rec.AT_COMMAND_EPOCH] = load_relaxed(ring_commands, EPOCH_WORD)
        out[rec.AT_STARTED] = started
        out[rec.AT_TAKEN] = taken
        out[rec.AT_STATUS] = status
        values[rec.AT_TIME] = (counters[rec.STEPS] + 1) * h
        out[SEQ] = load_relaxed(ring_out, HEAD_WORD)
        out[EPOCH] = load_relaxed(ring_out, EPOCH_WORD)
        out[T] = planned
        out[PUSHED] = now(clock)
        push(ring_out, out)
        beat_at(ring_out, out[PUSHED])
        out_state[:PAYLOAD] = out[:PAYLOAD]
        out_state.view(np.float64)[PAYLOAD:] = state
        push(ring_state, out_state)
        control[rec.LAST_SEQ] = block[SEQ]
        if counters[rec.STEPS] == 0:
            control[rec.FIRST_STEP_NS] = started
        counters[rec.STEPS] += 1
        mode[ANEW] = 0.0
        if mode[PAUSED] > 0.0:
            mode[STEPS_LEFT] -= 1.0

        # the ledger: the hops add up to the age
        done = now(clock)
        record(ledger[rec.AGE], age)
        record(ledger[rec.SENSOR], block[PUSHED] - block[T])
        if block[RECEIVED] > 0:
            record(ledger[rec.RING], block[SENT] - block[PUSHED])
            record(ledger[rec.WIRE], block[RECEIVED] - block[SENT])
            record(ledger[rec.WAIT], taken - block[RECEIVED])
        else:
            record(ledger[rec.WAIT], taken - block[PUSHED])
        record(ledger[rec.STEP_DONE], out[PUSHED] - taken)
        record(ledger[rec.LATENESS], started - planned)
        record(ledger[rec.COST], done - started)
        if turned[DIVERGED_NOW] == OVER:
            return rec.DIVERGED
        if counters[rec.STEPS] == settings[rec.MOST_STEPS]:
            return rec.ALL_STEPS
        status = np.int64(0)
        planned = following
        if done <= planned:
            late = 0
            continue
        counters[rec.MISSES] += 1
        status |= rec.MISSED
        late += 1
        passed = (done - planned) // h_ns + 1
        if max(late, passed - 1) > settings[rec.CATCH_UP]:
            counters[rec.SKIPS] += passed
            planned += passed * h_ns
            status |= rec.SKIPPED
            late = 0


run = kernel(int64(typeof(REAL), *_ARGUMENTS))(_run)


@functools.cache
def _run_virtually(clock: types.Type) -> Any:
    return kernel(int64(clock, *_ARGUMENTS))(_run)


def run_on(clock: RealClock | VirtualClock) -> Any:
    """The loop compiled for this kind of clock: for the real one on import, for a virtual one when first asked for."""
    return run if isinstance(clock, RealClock) else _run_virtually(typeof(clock))
