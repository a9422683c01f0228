"""Efforts: an output of every new step goes back to the device, within limits, and to zero when steps stop coming.

After a start, a silence or a restart of the simulator the limit itself rises softly, over `rise_ms`. How stiff a wall
may be depends on the delay of the loop: with `delay_ms`, efforts that are made from older motion than that are reduced
at once, and counted.

The effort loop is one nopython function in a thread of its own. It takes the newest step from a ring (of the simulator,
or of what arrived from it), and hands an effort over at once: the step's output times a gain, damped, limited, and
changed no faster than the slew. Between steps it hands efforts over at `rate_hz` while the effort is still on its way,
or always, if steps have a model of their port (daq_service/effort_port.py). It polls for a step at the instant by which
the share `quantile` of steps has come, judged by how long the last ones came after their planned instants; if the step
is not there, it polls again soon. After `stale_after_ms` without a step the effort goes to zero, from any value, and
reaches it at most `zero_within_ms` after the last step. A step is as old as the motion it was made from: if a simulator
goes on with a sensor that has stopped, or with a sample that can no longer be found, the effort goes to zero, too. A
step whose output is not finite does not count as a step. At the end of a run the device gets zero.

The port is where hand and device meet. Its energy is the sum of effort times displacement, between two steps the mean
effort times the way from one to the other: what the hand put in minus what it got back. With `energy_at = "sample"` an
effort counts from when it was handed over, and a way counts between the instants at which it was sampled: then the
energy includes what the delay of the loop gives out, and not only what the hold does. A port that has given out more
than was put in (energy below zero) is active; a passive machine never makes it so, but delay and sampling do. The
passivity controller (B. Hannaford and J.-H. Ryu, Time-domain passivity control of haptic interfaces, 2002) expects the
next displacement to equal the last one, and changes an effort that would make the energy negative into the one that
makes it zero.

Every effort handed over is a block of the ring `effort`. `advance_effort` alone makes it, from the step, the instant
and the effort before: daq_service/effort_replay.py computes the efforts of a record again, bit for bit.

No program can promise a zero for a device that holds its last value when this process is killed. See docs/devices.md.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, float64, from_dtype, int64, types

from daq_service import effort_record as rec
from daq_service.devices.contract import Actuator
from daq_service.effort_port import (
    AT_NS,
    LATE_NS,
    PORT,
    Port,
    describe_motion,
    follow_motion,
    model_names,
    no_port,
    port_effort,
    take_model,
)
from daq_service.effort_settings import EffortSettings
from sync.clock import REAL, Clock, for_any_clock, now, sleep
from sync.compile.array_types import READ_ONLY, VECTOR, WORDS, WORDS_2D, group, read_only
from sync.compile.atomics import load_acquire
from sync.compile.jit import kernel
from sync.ring.block import EPOCH, PAYLOAD, PUSHED, RECEIVED, SEQ, Layout, T
from sync.ring.ledger import histograms, record, summary_us
from sync.ring.rhythm import next_poll, usual_lag
from sync.ring.ring import (
    EPOCH_WORD,
    HEAD_WORD,
    HEARTBEAT_WORD,
    LIVE,
    STATE_WORD,
    RingReader,
    beat_at,
    newest,
    peek,
    poke,
    push,
    read_slot,
)

PUT = int64(float64, VECTOR)  # a compiled hand-over: the effort, and the device's own numbers
_NEVER = -(2**60)  # ns
_LEAST_PERIOD_NS = 100_000  # between two efforts: 10 kHz
_LEAST_PYTHON_NS = 500_000  # the same, if Python hands over
_IDLE_NS = 1_000_000  # between two polls while there are no steps


class Rings(NamedTuple):
    steps: np.ndarray  # of the simulator, or received from it; read
    blocks: np.ndarray  # of the DAQ, for the sample instants; read
    efforts: np.ndarray


class Buffers(NamedTuple):
    """One block each, of its ring's layout."""

    step: np.ndarray
    block: np.ndarray
    effort: np.ndarray


class Settings(NamedTuple):
    gain: float
    per_gain: float  # 0 for no gain
    limit: float
    slew: float  # per second
    fall: float  # per second, to zero without steps
    quantile: float  # share of steps that are there when first polled for; 0: polls at set times
    displacement_gain: float
    watched: int  # whether the port's displacement is known
    damp: int
    at_samples: int  # whether displacements are those of the sample instants
    period_ns: int  # between efforts while one is on its way to its target
    stale_ns: int
    zero_ns: int  # after the last step
    poll_ns: int  # between polls for a step
    rest_ns: int  # after a step, before the first poll for the next
    rise_ns: int  # from the first effort to the whole limit
    same_clock: int  # whether the simulator's instants are ours
    in_loop: int  # whether `put` is the device's own hand-over
    port: int  # whether steps have a model of their port
    step_ns: int
    delay_ns: int  # for which the limits hold: efforts of older motion are lowered; 0: none
    late_power: int  # how steeply they are lowered


class Places(NamedTuple):
    """Words of a step's block; -1 for one that it does not have."""

    effort: int
    displacement: int
    step: int
    input_seq: int
    input_epoch: int
    taken: int


CURSOR = np.dtype(
    [(name, np.float64) for name in (
        "wanted", "target",  # of the newest step: what it asked for, and that within the limits
        "applied", "impulse",  # the effort now; its integral over time since the newest step
        "displacement", "energy", "least_energy",
    )]
    + [(name, np.int64) for name in (
        "last", "since",  # instants of the last effort, and of the newest step's first one
        "came", "fresh",  # when the newest step came or, if earlier, its motion; whether that is recent enough
        "motion",  # sample instant of the newest step's motion; if that is not known, the last one known
        "placed",  # whether the displacement is known
        "step_status",  # bits that hold for all efforts of a step
        "status",
        "epoch", "position",  # of the newest step
        "sampled",  # its sample instant
        "began",  # when efforts began, or began again after a silence or in another epoch
        "placed_ns",  # instant of the displacement
        "evaluated_ns",  # of the newest motion for which the port's model was evaluated
        "due", "lag",  # when the next step is expected; how long after its planned instant a step usually comes
    )]
)  # fmt: skip


# the efforts before: how many, then pairs of instant and effort, the newest over the oldest
_PAST = 4096


def new_past() -> np.ndarray:
    return np.zeros(1 + 2 * _PAST, np.int64)


class Books(NamedTuple):
    control: np.ndarray  # see daq_service/effort_record.py
    counters: np.ndarray
    ledger: np.ndarray
    cursor: np.ndarray  # one CURSOR
    past: np.ndarray  # the efforts before
    render: np.ndarray  # histogram: from the sample at which a port's model was evaluated to the device


SETTINGS = group(Settings, *7 * [float64], *15 * [int64])
CURSOR_ROW = types.Array(from_dtype(CURSOR), 1, "C")
_ARGUMENTS = (
    group(Rings, READ_ONLY, READ_ONLY, WORDS),
    group(Buffers, *3 * [WORDS]),
    SETTINGS,
    group(Places, *6 * [int64]),
    group(Books, WORDS, WORDS, WORDS_2D, CURSOR_ROW, WORDS, WORDS),
    PORT,
    types.FunctionType(PUT),  # a pointer does not go into a tuple
    VECTOR,
)


def settings_of(effort: EffortSettings, step_ns: int, same_clock: bool, in_loop: bool) -> Settings:
    return Settings(
        gain=effort.gain,
        per_gain=1.0 / effort.gain if effort.gain else 0.0,
        limit=effort.limit,
        slew=effort.slew,
        fall=effort.fall,
        quantile=effort.quantile,
        displacement_gain=effort.displacement_gain,
        watched=int(bool(effort.displacement)),
        damp=int(effort.damp),
        at_samples=int(effort.energy_at == "sample"),
        period_ns=round(1e9 / effort.rate_hz),
        stale_ns=round(1e6 * effort.stale_after_ms),
        zero_ns=round(1e6 * effort.zero_at_ms),
        poll_ns=min(max(step_ns // 20, 20_000), 250_000),
        rest_ns=step_ns // 2,
        rise_ns=round(1e6 * effort.rise_ms),
        same_clock=int(same_clock),
        in_loop=int(in_loop),
        port=int(effort.port is not None),
        step_ns=step_ns,
        delay_ns=round(1e6 * effort.delay_ms),
        late_power=effort.late_power,
    )


def new_cursor() -> np.ndarray:
    cursor = np.zeros(1, CURSOR)
    cursor["came"] = cursor["last"] = cursor["since"] = cursor["began"] = cursor["motion"] = _NEVER
    cursor["epoch"] = cursor["position"] = -1
    return cursor


# ---- an effort from a step, an instant and the effort before ---------------------------------------------------------


@kernel()
def _mean_between(past, first, last):
    """The mean effort between two instants; each effort holds from when it was handed over to the next one."""
    values, count = past.view(np.float64), past[0]
    total, end = 0.0, last
    for back in range(min(count, _PAST)):
        place = 1 + 2 * ((count - 1 - back) % _PAST)
        begun = max(past[place], first)
        if begun < end:
            total += values[place + 1] * ((end - begun) * 1e-9)
            end = begun
        if end <= first:
            break
    return total / ((last - first) * 1e-9)  # before the first effort there was none


@kernel()
def _forgotten(past, first):
    """Whether efforts that held since `first` have been overwritten."""
    count = past[0]
    return count > _PAST and past[1 + 2 * (count % _PAST)] > first


@kernel()
def _remember(past, moment, effort):
    place = 1 + 2 * (past[0] % _PAST)
    past[place] = moment
    past.view(np.float64)[place + 1] = effort
    past[0] += 1


@kernel()
def _account_for_port(settings, at, moment, displacement, gap, sampled, past):
    """Add the port's energy since the step before. Returns how far the port moved."""
    mean = at.applied
    if settings.at_samples:
        # a step that used the same sample has not moved; one with an unknown sample instant is a gap
        gap = gap or sampled < at.placed_ns or sampled == 0 or at.placed_ns == 0 or _forgotten(past, at.placed_ns)
        if not gap and sampled > at.placed_ns:
            mean = _mean_between(past, at.placed_ns, sampled)
        at.placed_ns = sampled
    elif moment > at.since:
        mean = at.impulse / ((moment - at.since) * 1e-9)
    moved = 0.0
    if at.placed and not gap and np.isfinite(displacement):
        moved = (displacement - at.displacement) * settings.displacement_gain
    at.placed = 1 if np.isfinite(displacement) else 0
    at.displacement = displacement
    at.energy += mean * settings.per_gain * moved
    at.least_energy = min(at.least_energy, at.energy)
    return moved


@kernel()
def note_arrival(at, moment, came, sampled):
    """Note when a step came: it is as old as its motion, and ages even if its stamps lie in the future."""
    if sampled > 0:
        at.motion = sampled
    at.came = min(came, moment, at.motion)


@kernel()
def _follow_step(settings, at, moment, came, output, displacement, epoch, sampled, past):
    """Account for a new step."""
    gap = epoch != at.epoch
    at.epoch = epoch
    note_arrival(at, moment, came, sampled)
    _ask(settings, at, moment, output, displacement, gap, sampled, past)


@kernel()
def lowered(settings, age):
    """By what to lower an effort of motion this old: a wall may be the less stiff, the longer delay and half a step."""
    half = settings.step_ns // 2
    share = (half + settings.delay_ns) / (half + age)
    found = 1.0
    for _ in range(settings.late_power):
        found *= share
    return found


@kernel()
def _ask(settings, at, moment, output, displacement, gap, sampled, past):
    """What a step, or its port's model evaluated now, asks for, and how much of that is allowed."""
    at.evaluated_ns = sampled
    at.wanted = settings.gain * output
    at.step_status = 0
    moved = 0.0
    if settings.watched:
        moved = _account_for_port(settings, at, moment, displacement, gap, sampled, past)
        if at.energy < 0.0:
            at.step_status |= rec.ACTIVE
    at.impulse, at.since = 0.0, moment
    at.target = min(max(at.wanted, -settings.limit), settings.limit)
    if at.target != at.wanted:
        at.step_status |= rec.LIMITED
    if settings.delay_ns > 0 and sampled > 0 and moment - sampled > settings.delay_ns:
        at.target *= lowered(settings, moment - sampled)
        at.step_status |= rec.LOWERED
    if settings.damp and moved != 0.0 and at.energy + at.target * settings.per_gain * moved < 0.0:
        at.target = min(max(settings.gain * (-at.energy / moved), -settings.limit), settings.limit)
        at.step_status |= rec.DAMPED


@kernel()
def advance_effort(settings, at, moment, new, came, output, displacement, epoch, sampled, past):
    """Write the next effort into the cursor: for this moment, the efforts before, and a new step if there is one, which
    was made from what was sampled at `sampled`. With a port's model `output`, `displacement` and `sampled` are those of
    the newest sample, also without a new step; an output that is not finite counts as nothing new."""
    passed = moment - at.last if at.last > _NEVER else 0
    at.impulse += at.applied * (passed * 1e-9)
    if new:
        if at.fresh == 0 or epoch != at.epoch:
            at.began = moment
        if passed > settings.stale_ns:  # this loop itself stood still: its last effort is no longer what anyone wants
            at.began, at.applied = moment, 0.0
        _follow_step(settings, at, moment, came, output, displacement, epoch, sampled, past)
    elif settings.port and at.fresh and sampled > at.evaluated_ns and np.isfinite(output):
        _ask(settings, at, moment, output, displacement, False, sampled, past)
    stale_at = at.came + settings.stale_ns
    if moment < stale_at:
        # after a pause, or if late, it changes no more than in two periods
        most = settings.slew * (min(passed, 2 * settings.period_ns) * 1e-9)
        target, rising = at.target, 0
        if moment - at.began < settings.rise_ns:
            allowed = settings.limit * ((moment - at.began) / settings.rise_ns)
            target, rising = min(max(target, -allowed), allowed), rec.RISING
        at.applied = min(max(target, at.applied - most), at.applied + most)
        at.status = at.step_status | rising | (rec.SLEWED if at.applied != target else 0)
        at.fresh = 1
    else:
        # the fall covers all the time that has passed without a step
        most = settings.fall * ((moment - max(at.last, stale_at)) * 1e-9)
        at.applied = min(max(0.0, at.applied - most), at.applied + most)
        if moment >= at.came + settings.zero_ns:
            at.applied = 0.0
        at.status = rec.WATCHDOG | (at.step_status & rec.ACTIVE)
        at.fresh = 0
    at.last = moment
    if settings.at_samples:
        _remember(past, moment, at.applied)


# ---- the loop --------------------------------------------------------------------------------------------------------


@kernel()
def _take_step(rings, buffers, settings, places, counters, at, port):
    """Whether there is a new step with a finite output; it is in its buffer then."""
    if load_acquire(rings.steps, HEAD_WORD) <= at.position + 1:
        return False
    position = newest(rings.steps, buffers.step)
    if position < 0:
        return False
    counters[rec.SUPERSEDED] += position - at.position - 1
    at.position = position
    if not np.isfinite(settings.gain * buffers.step.view(np.float64)[places.effort]) or (
        settings.port and not take_model(buffers.step, port)
    ):
        counters[rec.INVALID] += 1
        return False
    counters[rec.USED] += 1
    return True


@kernel()
def _word(block, place):
    return block[place] if place >= 0 else -1


@kernel()
def _find_sample(rings, buffers, places):
    """The sample instant of the block that the step used, from our own ring, so by our clock. 0: it is not there."""
    seq = _word(buffers.step, places.input_seq)
    if not 0 <= seq < load_acquire(rings.blocks, HEAD_WORD) or not read_slot(rings.blocks, seq, buffers.block):
        return 0
    same = buffers.block[SEQ] == seq and buffers.block[EPOCH] == _word(buffers.step, places.input_epoch)
    return buffers.block[T] if same else 0


@kernel()
def _describe_step(rings, buffers, places, taken):
    """Write what the blocks of all efforts of a step have in common."""
    step, effort = buffers.step, buffers.effort
    effort[rec.AT_STEP] = _word(step, places.step)
    effort[rec.AT_STEP_SEQ], effort[rec.AT_STEP_EPOCH] = step[SEQ], step[EPOCH]
    effort[rec.AT_SAMPLED] = _find_sample(rings, buffers, places)
    effort[rec.AT_STEP_PUSHED], effort[rec.AT_STEP_RECEIVED] = step[PUSHED], step[RECEIVED]
    effort[rec.AT_TAKEN] = taken
    took = _word(step, places.taken)
    effort[rec.AT_STEP_NS] = step[PUSHED] - took if took > 0 else 0


@kernel()
def _hand_over(clock, rings, buffers, at, moment, put, device):
    """Hand the effort over to the device and push it into the ring. Returns when the device had it."""
    put(at.applied, device)
    done = now(clock)
    effort = buffers.effort
    values = effort.view(np.float64)
    values[rec.AT_WANTED], values[rec.AT_GIVEN] = at.wanted, at.applied
    values[rec.AT_DISPLACEMENT], values[rec.AT_ENERGY] = at.displacement, at.energy
    effort[rec.AT_STATUS] = at.status
    effort[SEQ], effort[EPOCH] = rings.efforts[HEAD_WORD], rings.efforts[EPOCH_WORD]
    effort[T], effort[PUSHED] = moment, done
    push(rings.efforts, effort)
    return done


@kernel()
def _count(counters, at, new, was_fresh):
    counters[rec.HANDED] += 1
    if new and not at.fresh:
        counters[rec.OLD] += 1
    if was_fresh and not at.fresh:
        counters[rec.ZEROED] += 1
    if at.status & rec.SLEWED:
        counters[rec.SLEWS] += 1
    if new and at.status & rec.LIMITED:
        counters[rec.LIMITS] += 1
    if new and at.status & rec.ACTIVE:
        counters[rec.ACTIVES] += 1
    if new and at.status & rec.DAMPED:
        counters[rec.DAMPINGS] += 1
    if new and at.status & rec.LOWERED:
        counters[rec.LOWERINGS] += 1


@kernel()
def _account_for_step(buffers, settings, books, at, done):
    """Record the round trip and its hops, for the first step that used a block."""
    step, block, effort, ledger = buffers.step, buffers.block, buffers.effort, books.ledger
    sampled = effort[rec.AT_SAMPLED]
    if sampled == 0:
        books.counters[rec.UNDATED] += 1
    if sampled in (0, at.sampled):
        return
    at.sampled = sampled
    record(ledger[rec.SENSOR], block[PUSHED] - sampled)
    record(ledger[rec.STEP], effort[rec.AT_STEP_NS])
    if settings.same_clock:
        record(ledger[rec.THERE], step[PUSHED] - effort[rec.AT_STEP_NS] - block[PUSHED])
        record(ledger[rec.BACK], effort[rec.AT_TAKEN] - step[PUSHED])
    if settings.in_loop:
        account_for_hand(ledger, effort, done)


@kernel(types.void(WORDS_2D, WORDS, int64))
def account_for_hand(ledger, effort, done):
    """Record the end of a round trip: the device has the effort."""
    record(ledger[rec.HAND], done - effort[rec.AT_TAKEN])
    record(ledger[rec.ROUND_TRIP], done - effort[rec.AT_SAMPLED])
    record(ledger[rec.BEYOND], done - effort[rec.AT_SAMPLED] - effort[rec.AT_STEP_NS])


@kernel()
def _next_motion(settings, at, port):
    """When the next sample for the port's model should be there: as late after its instant as the last one was."""
    spare = min(max(port.seen[LATE_NS], 0), settings.period_ns) + settings.period_ns // 8
    begun = max(port.seen[AT_NS] + spare, at.last - 2 * settings.period_ns)
    return begun + max((at.last - begun) // settings.period_ns + 1, 1) * settings.period_ns


@kernel()
def _due_at(settings, at, port):
    """When the next effort is due, if no step comes before."""
    stale_at = at.came + settings.stale_ns
    if settings.port and at.fresh:
        return min(_next_motion(settings, at, port), max(stale_at, at.last + 1))
    if at.applied == 0.0 and (at.target == 0.0 or at.fresh == 0):
        return -_NEVER if at.fresh == 0 else stale_at
    if at.fresh and at.applied != at.target:
        return at.last + settings.period_ns
    return min(max(at.last, stale_at) + settings.period_ns, max(at.came + settings.zero_ns, at.last + 1))


@kernel()
def _expect_next(settings, at, planned, came):
    """After a step: when the next one should be there."""
    if settings.quantile > 0.0:
        at.lag = usual_lag(at.lag, planned, came, settings.step_ns, settings.quantile)
        at.due = planned + settings.step_ns + at.lag


@kernel()
def _next_poll(settings, at, moment, port):
    nap = settings.poll_ns if moment - at.came < settings.zero_ns else max(settings.poll_ns, _IDLE_NS)
    poll = next_poll(moment, at.due, nap)
    if poll != at.due:
        poll = max(poll, at.came + settings.rest_ns)
    poll = max(poll, at.last + _LEAST_PERIOD_NS)
    return max(min(poll, _due_at(settings, at, port)), moment + 1)


def _run(clock, rings, buffers, settings, places, books, port, put, device):
    at, step = books.cursor[0], buffers.step
    values = step.view(np.float64)
    while load_acquire(books.control, rec.STOP) == 0:
        if load_acquire(books.control, rec.LEAVE):
            return rec.LEFT
        closed = load_acquire(rings.steps, STATE_WORD) != LIVE  # read before the last poll
        moment = now(clock)
        new = _take_step(rings, buffers, settings, places, books.counters, at, port)
        if new:
            moment = now(clock)  # it may have been pushed in between
        if new or moment >= _due_at(settings, at, port):
            was_fresh, displacement, output = at.fresh, 0.0, values[places.effort]
            if new:
                _describe_step(rings, buffers, places, moment)
                _expect_next(settings, at, step[T], step[RECEIVED] if step[RECEIVED] > 0 else step[PUSHED])
                if step[EPOCH] != at.epoch:
                    books.counters[rec.EPOCHS] += 1
                if settings.watched:
                    displacement = values[places.displacement]
            came = step[RECEIVED] if step[RECEIVED] > 0 else step[PUSHED]  # by our clock
            sampled = buffers.effort[rec.AT_SAMPLED]
            if settings.port:
                follow_motion(rings.blocks, port)
                motion, moved = port.motion, port.seen[AT_NS]
                output = port_effort(
                    port.model, motion[0], motion[1], motion[2], sampled, moved, settings.step_ns, new
                )  # fmt: skip
                came = min(came, sampled)  # the model is as old as its step's motion, and too old if that is unknown
                displacement, sampled = motion[0], moved
                describe_motion(buffers.effort, port)
            evaluated_before = at.evaluated_ns
            advance_effort(
                settings, at, moment, new, came, output, displacement, step[EPOCH], sampled, books.past
            )  # fmt: skip
            done = _hand_over(clock, rings, buffers, at, moment, put, device)
            if settings.port and at.evaluated_ns > evaluated_before:
                record(books.render, done - at.evaluated_ns)
            _count(books.counters, at, new, was_fresh)
            if new:
                _account_for_step(buffers, settings, books, at, done)
        elif closed:
            return rec.RING_CLOSED
        beat_at(rings.efforts, moment)
        sleep(clock, _next_poll(settings, at, now(clock), port))
    at.applied, at.status, at.last = 0.0, rec.ENDED, now(clock)
    _hand_over(clock, rings, buffers, at, at.last, put, device)
    return rec.STOPPED


_compiled = for_any_clock(_run, *_ARGUMENTS)


def run_on(clock: Clock) -> Any:
    """The loop compiled for this kind of clock."""
    return _compiled(clock)


# ---- in the DAQ process ----------------------------------------------------------------------------------------------


@cfunc(PUT, nopython=True, cache=True)
def keep(effort, device):
    """Only stores the effort in the device's first number: for a virtual device, or if Python hands efforts over."""
    device[0] = effort
    return 0


NO_STEPS = np.zeros(512, np.int64)  # a ring that is always empty
NO_STEPS[STATE_WORD] = LIVE
NO_STEPS.flags.writeable = False


class EffortLoop:
    """The effort loop on whatever ring there is, and its figures. Runs in a thread of its own until it is stopped."""

    def __init__(
        self,
        actuator: Actuator,
        feedback: Callable[[], RingReader | None],
        blocks: np.ndarray,
        block_words: int,
        efforts: np.ndarray,
        step_ns: int,
        same_clock: bool = True,
        clock: Clock = REAL,
        port: Port | None = None,
    ):
        compiled = actuator.compiled_put
        self.in_loop = compiled is not None
        self._put: Any = compiled[0] if compiled else keep
        self._device = compiled[1] if compiled else np.zeros(1)
        assert actuator.effort is not None  # an actuator without one gets no loop
        self.effort = actuator.effort
        self.settings = settings_of(self.effort, step_ns, same_clock, self.in_loop)
        self.efforts, self.control = efforts, np.zeros(rec.CONTROL_WORDS, np.int64)
        self.counters = np.zeros(len(rec.COUNTERS), np.int64)
        self.ledger, self.render = histograms(len(rec.LEDGER)), histograms(1)
        self._port = port or no_port()
        self.cursor, self.past = new_cursor(), new_past()
        self.missing: list[str] = []  # outputs that the simulator does not have
        self._feedback, self._clock = feedback, clock
        self._blocks = read_only(blocks)
        self._block = np.zeros(block_words, np.int64)
        self._effort_block = np.zeros(rec.LAYOUT.words, np.int64)
        self._effort_block[[rec.AT_STEP, rec.AT_STEP_SEQ, rec.AT_STEP_EPOCH]] = -1
        self._ring: RingReader | None = None
        self._spent: RingReader | None = None  # a ring that its writer closed
        self._left: RingReader | None = None  # the last ring with steps, and how many of them are accounted for
        self._accounted = 0

    def poll(self) -> None:
        """Make the loop change to another ring, if there is one. Another thread calls this from time to time."""
        if self._feedback() is not self._ring and not self._is_spent(self._feedback()):
            poke(self.control, rec.LEAVE, 1)

    def _is_spent(self, ring: RingReader | None) -> bool:
        return self._ring is None and ring is not None and ring is self._spent

    def run(self) -> None:
        while self.run_on_ring() != rec.STOPPED:
            pass

    def run_on_ring(self) -> int:
        """Run until it is stopped, or has to change to another ring, or its ring is closed."""
        poke(self.control, rec.LEAVE, 0)
        ring = self._feedback()
        if ring is not None and (ring is self._spent or not self._fits(ring.layout)):
            self._spent, ring = ring, None
        if ring is not self._ring:
            self._change_to(ring)
        words = ring.words if ring is not None else NO_STEPS
        places = places_of(ring.layout, self.effort) if ring is not None else Places(*len(Places._fields) * [PAYLOAD])
        step = np.zeros(ring.layout.words if ring is not None else PAYLOAD + 1, np.int64)
        rings = Rings(read_only(words), self._blocks, self.efforts)
        buffers = Buffers(step, self._block, self._effort_block)
        books = Books(self.control, self.counters, self.ledger, self.cursor, self.past, self.render[0])
        if ring is not None and self.effort.port is not None:
            named = dict(zip(ring.layout.names, ring.layout.table[:, 0], strict=True))
            self._port.places[:] = [named[name] if name else -1 for name in model_names(self.effort)]
        ended = int(
            run_on(self._clock)(
                self._clock, rings, buffers, self.settings, places, books, self._port, self._put, self._device
            )
        )  # fmt: skip
        if ended == rec.RING_CLOSED:
            self._spent = ring
        return ended

    def _change_to(self, ring: RingReader | None) -> None:
        """Begin with the next step of this ring. Steps that the change left unread are counted: the rest of the ring
        before, and those made while the loop was on another ring, or on none. Steps before the first ring are not."""
        if self._ring is not None:
            head = self._ring.head
            self.counters[rec.SKIPPED] += head - 1 - self.cursor["position"][0]
            self._left, self._accounted = self._ring, head
        head = 0 if ring is None else ring.head
        if ring is not None and self._left is not None:
            self.counters[rec.SKIPPED] += head - (self._accounted if ring is self._left else 0)
        self.cursor["position"] = head - 1
        self._ring = ring

    def _fits(self, layout: Layout) -> bool:
        # a channel of another type would be read as a wrong number
        there = [(c.name, c.type) for c in layout.channels]
        self.missing = [name for name in self.effort.wants if (name, "f8") not in there]
        return not self.missing

    def stop(self) -> None:
        poke(self.control, rec.STOP, 1)

    def figures(self) -> dict[str, Any]:
        at = self.cursor[0]
        watched = {"energy": float(at["energy"]), "least_energy": float(at["least_energy"])}
        return {
            "given": round(float(at["applied"]), 4),
            "fresh": bool(at["fresh"]),  # otherwise the watchdog brings it to zero
            **{name: int(value) for name, value in zip(rec.COUNTERS, self.counters, strict=True)},
            **(watched if self.settings.watched else {}),
            "round_trip_us": {name: summary_us(self.ledger[row]) for row, name in enumerate(rec.LEDGER)},
            **({"between_steps_us": summary_us(self.render[0])} if self.settings.port else {}),
        }


class DeviceThread:
    """Hands the newest effort over to a device whose `put` is Python, at the device's own rate."""

    def __init__(self, actuator: Actuator, efforts: np.ndarray, ledger: np.ndarray, clock: Clock = REAL):
        assert actuator.effort is not None
        self._actuator, self._efforts, self._ledger, self._clock = actuator, read_only(efforts), ledger, clock
        self._period_ns = max(round(1e9 / actuator.effort.rate_hz), _LEAST_PYTHON_NS)
        self._hung_ns = round(1e6 * actuator.effort.zero_within_ms)
        self._block = np.zeros(rec.LAYOUT.words, np.int64)
        self._due = clock.now_ns()
        self._sampled = 0
        self.value = 0.0

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self.turn()
        finally:
            self.value = 0.0
            self._actuator.put(0.0)

    def turn(self) -> None:
        """Wait until it is due, and give the device the newest effort."""
        self._due = max(self._due + self._period_ns, self._clock.now_ns())
        self._clock.sleep_until(self._due)
        there = newest(self._efforts, self._block) >= 0
        if self._clock.now_ns() - peek(self._efforts, HEARTBEAT_WORD) > self._hung_ns:
            there = False  # the effort loop hangs, so nothing watches the steps
        self.value = float(self._block.view(np.float64)[rec.AT_GIVEN]) if there else 0.0
        self._actuator.put(self.value)
        sampled = int(self._block[rec.AT_SAMPLED])
        if there and sampled not in (0, self._sampled):
            self._sampled = sampled
            account_for_hand(self._ledger, self._block, self._clock.now_ns())


def places_of(layout: Layout, effort: EffortSettings) -> Places:
    """The words of a step's block from which an effort is made."""
    names = (effort.channel, effort.displacement, *rec.STAMPS)
    return Places(*(int(layout.table[layout.names.index(n), 0]) if n in layout.names else -1 for n in names))
