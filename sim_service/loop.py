"""The loop: one nopython function that holds no GIL, from the newest block to the pushed result.

Every step: sleep until its instant, obey the commands, take the newest block, turn it into inputs, step the model,
push the result, write the ledger. The loop is compiled once for all models (a model's step arrives as a function
pointer), allocates nothing, raises nothing and meets no Python object. Whatever goes wrong sets a bit of the status
word and is counted.

It reads the time, and sleeps, by a clock that it is given: the host's, or a virtual one (sync/clock.py).

Locked, the instants follow the block stream (sim_service/phase.py); free, they follow the timer. The arrival of every
new block is timed once, in order; only the newest block is used. If a block is late for its step, the step waits for it
a little: an input out of rhythm hurts more than a step that starts a fraction later.

A step that ends after the next is due is a deadline miss; the next then starts at once, but at most `catch_up` steps in
a row do so. If the loop is still late after these, or is further behind, it gives up every step whose instant has
passed, counts these as skipped, and sleeps until the next: it never chases a clock it cannot reach, and never keeps
its core from everything else.

Input that has been stale for too long stops the model: no step is made until it is fresh again, or the loop ends.

If configured, the next step is rehearsed shortly before its instant (sim_service/rehearsal.py), and the loop spins for
the last part of its wait, and for the first part of a wait for a late block: each a twentieth of a period at most.

A run of a given length has an end instant: steps that are due from then on are neither made nor counted as given up,
however late the loop is ended.
"""

from typing import Any

import numpy as np
from numba import types

from sim_service import step_record as rec
from sim_service.command_record import PAUSED, RESTART, SLOWNESS, STEPS_LEFT
from sim_service.commands import obey_all
from sim_service.contract.machine import FIT, STEP
from sim_service.inputs import oldest
from sim_service.inputs.table import ROWS
from sim_service.loop_data import TYPES, Books, Buffers, Divergence, MachineData, PhaseLock, Rings, Settings
from sim_service.phase import ENOUGH, ERROR, SEEN, UNIT, advance, align, arrived, overdue
from sim_service.phase import LOCKED as LOCKED_NOW
from sim_service.rehearsal import TWIN, note_cost, rehearse
from sim_service.step_kernel import CLIPPED, OVER, STAGES, advance_step
from sim_service.step_kernel import DIVERGED as DIVERGED_NOW
from sync.clock import Clock, for_any_clock, now, sleep, spin
from sync.compile.array_copy import copy
from sync.compile.atomics import load_acquire, load_relaxed, store_release
from sync.compile.jit import kernel
from sync.ring.block import EPOCH, PAYLOAD, PUSHED, RECEIVED, SENT, SEQ, T
from sync.ring.ledger import record
from sync.ring.ring import EPOCH_WORD, HEAD_WORD, LIVE, STATE_WORD, beat_at, newest, push, read_slot

_PATIENCE_NS = 250_000_000  # for the first arrivals
_NAP_NS = 20_000  # between two polls for a late block
_GLANCE_NS = 2_000  # the same, where the wait is spun
_SHORT_NS = 1_000_000  # between two polls for the first block
_MAKE_STEP, _NO_STEP = -1, -2  # results of `_judge_block`; any other says how the loop ends


# All of these are parts of one function: inlined before they are typed, which takes a quarter less time than compiling
# each alone.

# ---- before the first step -------------------------------------------------------------------------------------------


@kernel(inline="always")
def _wait_for_first_block(clock, rings, buffers, settings, control, at):
    """Blocks before `begin` were received by an earlier simulator. False: asked to end before the first block came."""
    begin = control[rec.BEGIN]
    at.used = at.shown = at.timed = begin - 1
    at.position = newest(rings.blocks, buffers.block)
    while at.position < begin:
        if load_acquire(control, rec.STOP):
            return False
        beat_at(rings.steps, now(clock))
        sleep(clock, now(clock) + min(settings.h_ns, _SHORT_NS))
        at.position = newest(rings.blocks, buffers.block)
    at.obeyed = control[rec.OBEYED]  # commands before it were for an earlier simulator
    at.epoch = at.seen = -1
    at.seen_ns = at.in_rhythm = at.late = at.status = at.stepped = 0
    return True


@kernel(inline="always")
def _time_arrivals(rings, buffers, settings, lock, at):
    """Record how long after its sampling each new block came, for the last `most_blocks` of them."""
    passing = buffers.passing
    for n in range(max(at.timed + 1, at.position + 1 - settings.most_blocks), at.position + 1):
        if read_slot(rings.blocks, n, passing):
            came = passing[RECEIVED] if passing[RECEIVED] > 0 else passing[PUSHED]
            arrived(lock.state, lock.arrivals, came - passing[T])
    at.timed = max(at.timed, at.position)


@kernel(inline="always")
def _choose_first_instant(clock, rings, buffers, settings, control, lock, at):
    """A step from now. If locked: some arrivals are timed, and the first step begins in phase with the blocks."""
    at.planned = now(clock) + settings.h_ns
    if lock.state[UNIT] > 0.0:
        patience = at.planned + _PATIENCE_NS
        while lock.state[SEEN] < ENOUGH and now(clock) < patience and load_acquire(control, rec.STOP) == 0:
            sleep(clock, now(clock) + min(settings.h_ns, _SHORT_NS))
            at.position = newest(rings.blocks, buffers.block)
            _time_arrivals(rings, buffers, settings, lock, at)
        at.planned = align(lock.state, buffers.block[T], now(clock) + settings.h_ns // 2)
        # arrivals while the processes were still starting do not represent those to come
        lock.arrivals[:, :] = 0
        lock.state[SEEN] = 0.0
    at.begun = now(clock)
    if control[rec.RUN_NS] > 0:
        control[rec.END_NS] = at.planned + control[rec.RUN_NS]
        control[rec.RUN_NS] = 0  # on a second ring the run does not begin again


# ---- a step ----------------------------------------------------------------------------------------------------------


@kernel(inline="always")
def _wait_for_instant(clock, rings, settings, books, rows, step_machine, machine, divergence, twin, at):
    control, counters, mode = books.control, books.counters, machine.mode
    while mode[SLOWNESS] > 1.0 and at.planned - now(clock) > settings.h_ns:
        # in slow motion a step may be seconds away; a stop or a command does not wait for it
        sleep(clock, now(clock) + settings.h_ns)
        beat_at(rings.steps, now(clock))
        if load_acquire(control, rec.STOP) or load_acquire(rings.commands, HEAD_WORD) > at.obeyed:
            at.planned = now(clock)
    if settings.rehearses and at.stepped and mode[SLOWNESS] <= 1.0:
        rehearse(clock, rings, settings, books, rows, step_machine, machine, divergence, twin, at)
    at.stepped = 0
    if settings.spin_ns > 0:
        sleep(clock, at.planned - settings.spin_ns)
        awake = now(clock)
        spin(clock, at.planned)
        at.started = now(clock)
        if awake < at.planned:
            counters[rec.SPUN_NS] += at.started - awake
    else:
        sleep(clock, at.planned)
        at.started = now(clock)
    at.stop = load_acquire(control, rec.STOP)


@kernel(inline="always")
def _has_ended(control, at):
    """Whether all steps of the run have been made or given up; the loop itself ends when it is asked to."""
    if control[rec.END_NS] == 0 or at.planned < control[rec.END_NS]:
        return False
    store_release(control, rec.AT_END, 1)
    return True


@kernel(inline="always")
def _obey(rings, buffers, control, fit_machine, machine, at):
    """Apply the commands. Returns whether the machine is paused."""
    at.obeyed = obey_all(
        rings.commands, at.obeyed, buffers.command, fit_machine, machine,
    )  # fmt: skip
    store_release(control, rec.OBEYED, at.obeyed)
    if machine.mode[RESTART] > 0.0:  # set until a step has recorded it, even a step on another ring
        at.status |= rec.RESTARTED
    return machine.mode[PAUSED] > 0.0 and machine.mode[STEPS_LEFT] <= 0.0


@kernel(inline="always")
def _give_up_blocks(buffers, books, at):
    """The loop ends: count the blocks that came since the last step as superseded, for no step used them."""
    if at.position > at.used:
        books.counters[rec.SUPERSEDED] += at.position - at.used
        books.control[rec.LAST_SEQ] = buffers.block[SEQ]
        at.used = at.position


@kernel(inline="always")
def _is_drained(clock, rings, buffers, settings, books, at):
    """Asked to end while no steps are made: give up blocks that still arrive. Returns whether all have arrived."""
    at.position = newest(rings.blocks, buffers.block)
    if at.position < 0:
        return False
    _give_up_blocks(buffers, books, at)
    age = now(clock) - buffers.block[T]
    more = load_acquire(rings.blocks, HEAD_WORD) > at.position + 1  # came while we looked at the clock
    return age > settings.drain_ns and not more


@kernel(inline="always")
def _stand_still(clock, rings, settings, at):
    """Go to an instant that is not long past, without a step. Returns how many instants that passes over."""
    at.status |= rec.RESTARTED
    beat_at(rings.steps, now(clock))
    planned = max(at.planned, at.started - settings.h_ns) + settings.h_ns
    passed = (planned - at.planned) // settings.h_ns
    at.planned = planned
    return passed


@kernel(inline="always")
def _take_newest(clock, rings, buffers, settings, counters, lock, at):
    """Take the newest block there is; if a block is a little late, wait for it."""
    at.there = load_acquire(rings.blocks, HEAD_WORD)
    at.position = newest(rings.blocks, buffers.block)
    if at.in_rhythm and at.stop == 0 and overdue(lock.state, buffers.block[T], at.planned):
        at.status |= rec.WAITED
        counters[rec.WAITS] += 1
        at.taken = begun = now(clock)
        while overdue(lock.state, buffers.block[T], at.planned) and at.taken < at.planned + settings.wait_ns:
            if at.taken - begun < settings.spin_ns:
                before = at.taken
                spin(clock, at.taken + _GLANCE_NS)
                at.taken = now(clock)
                counters[rec.SPUN_NS] += at.taken - before
            else:
                sleep(clock, at.taken + _NAP_NS)
                at.taken = now(clock)
            at.there = load_acquire(rings.blocks, HEAD_WORD)
            at.position = newest(rings.blocks, buffers.block)
    at.taken = now(clock)


@kernel(inline="always")
def _judge_block(clock, rings, buffers, settings, books, rows, at):
    """Whether a step is made with this block: _MAKE_STEP, _NO_STEP, or how the loop ends."""
    block, control, counters = buffers.block, books.control, books.counters
    if at.position < 0:
        # a writer that laps a whole ring again and again while one block is copied: give this step up
        counters[rec.SKIPS] += 1
        at.status |= rec.SKIPPED
        at.planned += settings.h_ns
        return _NO_STEP
    # read the state before the head: the head of a closed ring is final
    closed = load_acquire(rings.blocks, STATE_WORD) != LIVE
    more = load_acquire(rings.blocks, HEAD_WORD) > at.position + 1  # came while we looked at the clock
    if at.position == at.used and closed and not more and at.stop == 0:
        return rec.RING_CLOSED  # its writer has ended; the caller looks for a new one
    if at.stop == rec.DRAIN and at.position == at.used:
        # asked to end: wait for blocks that are still on their way, but make no step without a new one
        if at.taken - block[T] > settings.drain_ns and not more:
            return rec.STOPPED
        at.planned += settings.h_ns
        return _NO_STEP
    at.age = at.taken - block[T]
    if at.position == at.seen:
        at.age = max(at.age, at.taken - at.seen_ns)  # the block gets older, whatever instant it claims
    else:
        at.seen, at.seen_ns = at.position, at.taken
    row, older = oldest(block, rows)
    if 0 < settings.most_age_ns < at.age + older:
        # the real input is unknown: a model that went on would drift away from the machine
        control[rec.LOST_ROW], control[rec.LOST_NS] = row if older > 0 else -1, at.age + older
        # input that was old when this loop began does not end it: the DAQ may have crashed with an earlier simulator
        ends = settings.lost_ends != 0 and at.taken - at.begun > settings.most_age_ns
        if more or (at.stop == 0 and not ends and not closed):
            at.in_rhythm = 0
            counters[rec.STARVED] += _stand_still(clock, rings, settings, at)
            return _NO_STEP
        _give_up_blocks(buffers, books, at)
        if at.stop:
            if at.taken - block[T] > settings.drain_ns:
                return rec.STOPPED
            at.planned += settings.h_ns
            return _NO_STEP
        return rec.INPUT_LOST if ends else rec.RING_CLOSED
    control[rec.LOST_NS] = 0
    return _MAKE_STEP


@kernel(inline="always")
def _account_for_block(rings, buffers, settings, counters, lock, at):
    if at.position < at.there - 1:
        counters[rec.NOT_NEWEST] += 1
    at.fresh = at.position != at.used
    if at.fresh:
        counters[rec.USED] += 1
        counters[rec.SUPERSEDED] += at.position - at.used - 1
    else:
        at.status |= rec.REPEATED
        counters[rec.REUSED] += 1
    at.used = at.position
    if lock.state[UNIT] > 0.0:
        _time_arrivals(rings, buffers, settings, lock, at)
    if buffers.block[EPOCH] != at.epoch:
        at.epoch = buffers.block[EPOCH]
        counters[rec.EPOCHS] += 1
        at.status |= rec.NEW_EPOCH


@kernel(inline="always")
def _account_for_result(settings, books, machine, divergence, at):
    counters, result = books.counters, divergence.result
    if result[STAGES]:
        at.status |= rec.STALE
        counters[rec.STALES] += 1
    if result[CLIPPED]:
        at.status |= rec.CLIPPED
        counters[rec.CLIPS] += 1
    if result[DIVERGED_NOW]:
        at.status |= rec.DIVERGED
        copy(divergence.offending, machine.inputs)
        books.control[rec.DIVERGED_STEP] = counters[rec.STEPS]
        counters[rec.DIVERGENCES] += 1
    elif settings.capped_output >= 0 and machine.work[settings.capped_output] > 0.0:
        at.status |= rec.CAPPED
        counters[rec.CAPS] += 1


@kernel(inline="always")
def _choose_next_instant(buffers, settings, counters, lock, mode, at):
    """The instant of the next step: in phase with the blocks, or by the timer; later in slow motion."""
    if lock.state[UNIT] > 0.0:
        held = at.age > settings.rhythm_ns
        at.in_rhythm = lock.state[LOCKED_NOW] > 0.0 and at.fresh and not held
        if lock.state[LOCKED_NOW] > 0.0:
            at.status |= rec.HOLDOVER if held else rec.LOCKED
            counters[rec.HOLDOVERS if held else rec.LOCKED_STEPS] += 1
        at.following = advance(lock.state, buffers.block[T], at.fresh, at.planned, settings.h_ns)
    else:
        at.following = at.planned + settings.h_ns
    if mode[SLOWNESS] > 1.0:
        at.following = at.planned + np.int64(settings.h_ns * mode[SLOWNESS])
        at.in_rhythm = 0
        at.status |= rec.SLOWED


@kernel(inline="always")
def _publish(clock, rings, buffers, settings, books, lock, machine, divergence, at):
    """Push the step's block and the state after it, each into its ring."""
    out, block, control = buffers.step, buffers.block, books.control
    values, step, n = out.view(np.float64), books.counters[rec.STEPS], machine.inputs.size
    for i in range(n):
        values[rec.AT_INPUTS + i] = machine.inputs[i]
    for i in range(settings.outputs):
        values[rec.AT_INPUTS + n + i] = machine.work[i]
    out[rec.AT_STEP], out[rec.AT_STATUS] = step, at.status
    out[rec.AT_INPUT_SEQ], out[rec.AT_INPUT_EPOCH] = block[SEQ], at.epoch
    out[rec.AT_INPUT_T], out[rec.AT_INPUT_PUSHED] = block[T], block[PUSHED]
    out[rec.AT_INPUT_SENT], out[rec.AT_INPUT_RECEIVED] = block[SENT], block[RECEIVED]
    out[rec.AT_INPUT_AGE], out[rec.AT_INPUT_STAGES] = at.age, divergence.result[STAGES]
    bound = load_relaxed(control, rec.BOUND_NS)
    out[rec.AT_AGE_BOUND] = bound
    control[rec.WORST_BOUND_NS] = max(control[rec.WORST_BOUND_NS], bound)
    out[rec.AT_PHASE_ERROR] = np.int64(lock.state[ERROR])
    out[rec.AT_COMMANDS], out[rec.AT_COMMAND_EPOCH] = at.obeyed, load_relaxed(rings.commands, EPOCH_WORD)
    out[rec.AT_STARTED], out[rec.AT_TAKEN] = at.started, at.taken
    values[rec.AT_TIME] = (step + 1) * (settings.h_ns * 1e-9)
    out[SEQ], out[EPOCH] = load_relaxed(rings.steps, HEAD_WORD), load_relaxed(rings.steps, EPOCH_WORD)
    out[T], out[PUSHED] = at.planned, now(clock)
    push(rings.steps, out)
    beat_at(rings.steps, out[PUSHED])
    copy(buffers.state, out[:PAYLOAD])
    copy(buffers.state.view(np.float64)[PAYLOAD:], machine.state)
    push(rings.states, buffers.state)


@kernel(inline="always")
def _close_step(clock, buffers, books, machine, at):
    """The step is made: end the commands that held for it, record its times; the ledger's hops add up to the age."""
    block, control, ledger = buffers.block, books.control, books.ledger
    control[rec.LAST_SEQ] = block[SEQ]
    if books.counters[rec.STEPS] == 0:
        control[rec.FIRST_STEP_NS] = at.started
    books.counters[rec.STEPS] += 1
    machine.mode[RESTART] = 0.0
    if machine.mode[PAUSED] > 0.0:
        machine.mode[STEPS_LEFT] -= 1.0
    at.done = now(clock)
    at.stepped = 1
    note_cost(at, at.done - at.taken)
    record(ledger[rec.AGE], at.age)
    record(ledger[rec.SENSOR], block[PUSHED] - block[T])
    if block[RECEIVED] > 0:
        record(ledger[rec.RING], block[SENT] - block[PUSHED])
        record(ledger[rec.WIRE], block[RECEIVED] - block[SENT])
        record(ledger[rec.WAIT], at.taken - block[RECEIVED])
    else:
        record(ledger[rec.WAIT], at.taken - block[PUSHED])
    record(ledger[rec.STEP_DONE], buffers.step[PUSHED] - at.taken)
    record(ledger[rec.LATENESS], at.started - at.planned)
    record(ledger[rec.COST], at.done - at.started)


@kernel(inline="always")
def _go_on(settings, control, counters, at):
    """Go to the next instant. If it has passed, the step is late; if too many have, all passed ones are given up."""
    at.status = 0
    at.planned = at.following
    end = control[rec.END_NS]
    if at.done <= at.planned or 0 < end <= at.planned:  # in time, or nothing is due any more
        at.late = 0
        return
    counters[rec.MISSES] += 1
    at.status |= rec.MISSED
    at.late += 1
    passed = (at.done - at.planned) // settings.h_ns + 1
    if max(at.late, passed - 1) > settings.catch_up:
        if end > 0:  # instants from the end on do not count
            passed = min(passed, (end - at.planned + settings.h_ns - 1) // settings.h_ns)
        counters[rec.SKIPS] += passed
        at.planned += passed * settings.h_ns
        at.status |= rec.SKIPPED
        at.late = 0


# ---- all of them -----------------------------------------------------------------------------------------------------


def _run(clock, rings, buffers, settings, books, lock, rows, step_machine, fit_machine, machine, divergence, twin):
    at, control, counters = books.cursor[0], books.control, books.counters
    if not _wait_for_first_block(clock, rings, buffers, settings, control, at):
        return rec.STOPPED
    _choose_first_instant(clock, rings, buffers, settings, control, lock, at)
    while True:
        _wait_for_instant(clock, rings, settings, books, rows, step_machine, machine, divergence, twin, at)
        if at.stop == rec.NOW:
            return rec.STOPPED
        paused, ended = _obey(rings, buffers, control, fit_machine, machine, at), _has_ended(control, at)
        if paused or ended:
            if at.stop == rec.DRAIN and _is_drained(clock, rings, buffers, settings, books, at):
                return rec.STOPPED
            passed = _stand_still(clock, rings, settings, at)
            if not ended and at.stop == 0:
                counters[rec.PAUSES] += passed
            continue
        _take_newest(clock, rings, buffers, settings, counters, lock, at)
        judged = _judge_block(clock, rings, buffers, settings, books, rows, at)
        if judged == _NO_STEP:
            continue
        if judged != _MAKE_STEP:
            return judged
        _account_for_block(rings, buffers, settings, counters, lock, at)
        restart = at.status & (rec.NEW_EPOCH | rec.SKIPPED | rec.RESTARTED) != 0
        # the first step on a ring that an earlier simulator filled uses its block alone, and the record says so
        adopted = at.shown < control[rec.BEGIN] and control[rec.BEGIN] > 0
        if advance_step(
            rings.blocks, at.shown, at.position, restart, adopted, at.age,
            buffers, settings, rows, step_machine, machine, divergence,
        ):  # fmt: skip
            at.status |= rec.LAPPED
        at.shown = at.position
        _account_for_result(settings, books, machine, divergence, at)
        _choose_next_instant(buffers, settings, counters, lock, machine.mode, at)
        _publish(clock, rings, buffers, settings, books, lock, machine, divergence, at)
        _close_step(clock, buffers, books, machine, at)
        if divergence.result[DIVERGED_NOW] == OVER:
            return rec.ENDED_DIVERGED
        if counters[rec.STEPS] == settings.most_steps:
            return rec.ALL_STEPS
        _go_on(settings, control, counters, at)


_GROUPS = tuple(TYPES[kind] for kind in (Rings, Buffers, Settings, Books, PhaseLock))
_ARGUMENTS = (
    *_GROUPS,
    ROWS,
    types.FunctionType(STEP),
    types.FunctionType(FIT),
    TYPES[MachineData],
    TYPES[Divergence],
    TWIN,
)  # a pointer does not go into a tuple

_compiled = for_any_clock(_run, *_ARGUMENTS)


def run_on(clock: Clock) -> Any:
    """The loop compiled for this kind of clock."""
    return _compiled(clock)
