"""Phase lock: the step's instants follow the block stream instead of the local timer.

Sampling and stepping are both periodic. With a timer of its own a step finds a block of any age up to a sampling
period; the age stays nearly the same for minutes, and slides through all values as the two crystals drift apart.
Locked, a step starts just after a block has arrived: at its sample instant plus a delay D. A larger D costs age in
every step; with a smaller one more blocks are late for their step. The step waits a little for a late block
(sim_service/loop.py) and is delayed by that wait, so D is a quantile of the measured arrivals: the quantile q costs
least if the wait counts 1 / (1 - q) times what age does. Where blocks are rarer than steps, a step cannot wait for
them, and a late block is used a step later. There D is the delay that costs least over the arrivals, with LATE_COSTS
times the period for each late block. The age at use is then the transfer time and a margin, and the model's time runs
on the DAQ's crystal.

A proportional-integral loop on the sample instants, which are free of transport jitter:

    e = t + D - planned, modulo U, into -U/2 … U/2     t of the newest block; U the sampling period, or the step
                                                        if shorter
    planned += h + limited(kp e + f),   f += ki e       f the frequency, in ns a step; |correction| <= slew * h

D itself changes with the arrivals. The step follows it outside the loop, with the part of the slew that the correction
leaves: a new D says nothing about the crystals and must not be taken for their drift.

Without a new block the frequency alone carries on (holdover). After a gap the loop pulls in again at the slew limit.
"""

import math
from typing import Any

import numpy as np

from sync.compile.array_copy import copy
from sync.compile.jit import kernel
from sync.ring.ledger import BUCKETS, histograms, middle, record

KP, KI = 0.2, 0.01
LATE_COSTS = 20.0  # an input out of rhythm hurts the derivatives more than its age alone
GUARD_NS = 5_000.0
WINDOW = 2048  # arrivals a histogram; the delay is chosen over the last one or two
ENOUGH = 64  # arrivals before the first alignment
LOCK_STEPS = 20  # steps within tolerance until the loop calls itself locked
_TOLERANCE = 0.05  # of U

UNIT, SLEW_NS, DELAY, APPLIED, ERROR, FREQUENCY, INSIDE, SEEN, LOCKED, QUANTILE = range(10)
STATE = 10


def phase_unit_ns(step_ns: int, period_ns: int) -> int:
    """What the phase is counted in: the shorter of step and sampling period, if the other is a multiple; else 0."""
    long, short = max(step_ns, period_ns), min(step_ns, period_ns)
    ratio = long / short
    return short if abs(ratio - round(ratio)) < 1e-3 * ratio else 0


def phase_state(mode: str, step_ns: int, period_ns: int, slew: float, quantile: float = 0.0) -> np.ndarray:
    """State of the lock; a unit of 0: steps run free. `quantile`: of arrivals, where steps wait for late blocks."""
    state = np.zeros(STATE)
    state[UNIT] = phase_unit_ns(step_ns, period_ns) if mode == "locked" else 0
    state[SLEW_NS] = slew * step_ns
    state[QUANTILE] = quantile if period_ns <= step_ns else 0.0
    return state


def can_lock(phase: np.ndarray) -> bool:
    """Whether step and sampling period are multiples of each other, and a lock was configured."""
    return bool(phase[UNIT] > 0)


def describe(mode: str, phase: np.ndarray, step_ns: int) -> dict[str, Any]:
    """For reports."""
    if not can_lock(phase):
        return {"mode": "free", "asked": mode}
    return {
        "mode": "locked",
        "locked_now": bool(phase[LOCKED]),
        "target_us": round(float(phase[DELAY]) / 1e3, 1),  # from sample instant to start of step
        "error_us": round(float(phase[ERROR]) / 1e3, 3),
        "period_ppm": round(
            float(phase[FREQUENCY]) / step_ns * 1e6, 2
        ),  # by how much the DAQ's second is longer than ours
    }


def arrival_histograms() -> np.ndarray:
    """Two: the one being filled, and the one before."""
    return histograms(2)


@kernel()
def arrived(phase, arrivals, delay_ns):
    """A block has come `delay_ns` after its sample instant."""
    record(arrivals[0], delay_ns)
    phase[SEEN] += 1.0
    if phase[SEEN] % WINDOW == 0.0:
        copy(arrivals[1], arrivals[0])
        arrivals[0, :] = 0
    # early on at every arrival, later once in a while: the scan of the buckets is not free
    if phase[SEEN] <= ENOUGH or phase[SEEN] % 64 == 0.0:
        if phase[QUANTILE] > 0.0:
            phase[DELAY] = usual_delay(arrivals, phase[QUANTILE], phase[UNIT]) + GUARD_NS
        else:
            phase[DELAY] = cheapest_delay(arrivals, LATE_COSTS * phase[UNIT], phase[UNIT]) + GUARD_NS


@kernel()
def usual_delay(arrivals, quantile, unit_ns):
    """The delay within which this share of the blocks arrived; at most a unit after the earliest, as below."""
    total = np.int64(0)
    for i in range(BUCKETS):
        total += arrivals[0, i] + arrivals[1, i]
    found, earlier, latest = 0.0, np.int64(0), np.inf
    for i in range(BUCKETS):
        here = arrivals[0, i] + arrivals[1, i]
        if here > 0:
            value = 0.5 * (middle(i) + middle(i + 1))  # the bucket's upper edge
            if latest == np.inf:
                latest = value + unit_ns
            if value > latest:
                break
            found = value
            earlier += here
            if earlier >= quantile * total:
                break
    return found


@kernel()
def cheapest_delay(arrivals, late_costs_ns, unit_ns):
    """The delay v with the least v + late_costs * (share of arrivals later than v), within a unit of the earliest.

    Beyond that a step would wait for a block while the next one is there already.
    """
    total = np.int64(0)
    for i in range(BUCKETS):
        total += arrivals[0, i] + arrivals[1, i]
    best, least, later, latest = 0.0, np.inf, total, np.inf
    for i in range(BUCKETS):
        here = arrivals[0, i] + arrivals[1, i]
        if here > 0:
            later -= here
            value = 0.5 * (middle(i) + middle(i + 1))  # the bucket's upper edge
            if latest == np.inf:
                latest = value + unit_ns
            if value > latest:
                break
            cost = value + late_costs_ns * later / total
            if cost < least:
                best, least = value, cost
    return best


@kernel()
def _wrap(phase, difference):
    return difference - phase[UNIT] * math.floor(difference / phase[UNIT] + 0.5)


@kernel()
def align(phase, t_ns, now_ns):
    """The first instant after now that is in phase with the block sampled at t_ns."""
    phase[APPLIED] = phase[DELAY]
    ahead = _wrap(phase, t_ns + phase[DELAY] - now_ns)
    return now_ns + np.int64(ahead if ahead > 0.0 else ahead + phase[UNIT])


@kernel()
def advance(phase, t_ns, fresh, planned_ns, h_ns):
    """The instant of the next step. `fresh`: this step had a new block, sampled at t_ns."""
    correction = phase[FREQUENCY]
    limit = phase[SLEW_NS]
    if fresh:
        e = _wrap(phase, t_ns + phase[APPLIED] - planned_ns)
        phase[ERROR] = e
        if abs(KP * e + phase[FREQUENCY]) < limit:  # no wind-up while the slew limit holds it back
            phase[FREQUENCY] += KI * e
        correction = min(max(KP * e + phase[FREQUENCY], -limit), limit)
        phase[INSIDE] = phase[INSIDE] + 1.0 if abs(e) < _TOLERANCE * phase[UNIT] else 0.0
        phase[LOCKED] = 1.0 if phase[INSIDE] >= LOCK_STEPS else 0.0
    spare = max(limit - abs(correction), 0.0)
    moved = min(max(phase[DELAY] - phase[APPLIED], -spare), spare)
    phase[APPLIED] += moved
    return planned_ns + h_ns + np.int64(math.floor(correction + moved + 0.5))


@kernel()
def overdue(phase, t_ns, planned_ns):
    """Whether the step planned at planned_ns should use a newer block than the one sampled at t_ns."""
    return t_ns < planned_ns - phase[APPLIED] - 0.5 * phase[UNIT]
