"""One turn: from the blocks a step has before it to the model's new state.

Live, the loop calls it (sim_service/loop.py); from a record, replay does (sim_service/replay.py). What it does
depends on its arguments alone, never on the clock: the same blocks, restarts and ages give the same bits.

A model that leaves the numbers, or what it declares possible, is caught here: what the turn leaves behind is always
finite and sound. It goes on from the last good state ("keep") or from the start ("anew"); too often without a second
of good steps between, or with "end" at once, it is over.
"""

from typing import Literal

import numpy as np

from sim_service.signals import let_age, observe_steering, steering_is_fresh, vehicle_inputs
from sim_service.signals.stages import MASK
from sim_service.step_result import BEYOND, DIVERGED, GOOD_STEPS, HELD, IN_A_ROW, ONCE_MORE, OVER, STAGES
from sync.block import EPOCH
from sync.jit import kernel
from sync.ring import read_slot

# the guard: what is possible, what to do beyond it, how often, and how many good steps are calm
_BOUND, _ON_DIVERGENCE, _MOST, _CALM = range(4)
_POLICIES = ("end", "anew", "keep")
_END, _ANEW = 0.0, 1.0


def guard(bound: float, on_divergence: Literal["end", "anew", "keep"], most: int, step_ns: int) -> np.ndarray:
    return np.array([bound, _POLICIES.index(on_divergence), most, max(round(1e9 / step_ns), 1)], np.float64)


@kernel()
def _show(ring, shown, position, most, block, passing, rows, estimator, memory):
    """Show every new block of the step's epoch to the estimator of steering, in order, at most so many.

    False if one of them has been overwritten in the meantime.
    """
    for n in range(max(shown + 1, position + 1 - most), position):
        if not read_slot(ring, n, passing):
            return False
        if passing[EPOCH] == block[EPOCH]:
            observe_steering(passing, rows, estimator, memory)
    if position > shown:
        observe_steering(block, rows, estimator, memory)
    return True


@kernel()
def _sound(values, count, bound):
    sound = True
    for i in range(count):  # to the end: without a way out in between it is four times faster
        sound &= abs(values[i]) <= bound  # what is no number is not
    return sound


@kernel()
def turn(
    ring, shown, position, most, block, passing, restart, lapped, age_ns,
    rows, calibration, estimator, memory, policy,
    step_model, state, inputs, params, work, first_state, first_work, kept, guard, turned, wheel_speed, outputs, h,
):  # fmt: skip
    """Step the model with `block`, which stands at `position`; blocks up to `shown` have been shown before.

    `restart`: what came before is no continuation. `lapped`: act as if blocks had been overwritten. Returns whether
    they had been (or were said to be): the estimator then begins anew with the newest block alone.
    """
    # never differentiated across a gap; while the angle stays old, its last speed is what an extrapolation goes on with
    if restart or (turned[HELD] != 0 and position > shown and steering_is_fresh(block, age_ns, rows, policy)):
        memory[:] = 0.0
    if lapped or not _show(ring, shown, position, most, block, passing, rows, estimator, memory):
        lapped = True
        memory[:] = 0.0
        observe_steering(block, rows, estimator, memory)
    turned[BEYOND] = vehicle_inputs(block, rows, calibration, estimator, memory, work[wheel_speed], h, inputs)
    turned[STAGES] = let_age(block, age_ns, rows, calibration, policy, work[wheel_speed], inputs)
    turned[HELD] = turned[STAGES] & MASK

    n = state.size
    kept[:n] = state
    kept[n:] = work[:outputs]
    step_model(state, inputs, params, work, h)
    if _sound(state, n, guard[_BOUND]) and _sound(work, outputs, guard[_BOUND]):
        turned[DIVERGED] = 0
        turned[GOOD_STEPS] += 1
        return lapped
    if turned[GOOD_STEPS] >= guard[_CALM]:
        turned[IN_A_ROW] = 0
    turned[IN_A_ROW] += 1
    turned[GOOD_STEPS] = 0
    turned[DIVERGED] = OVER if guard[_ON_DIVERGENCE] == _END or turned[IN_A_ROW] > guard[_MOST] else ONCE_MORE
    if turned[DIVERGED] == ONCE_MORE and guard[_ON_DIVERGENCE] == _ANEW:
        state[:] = first_state
        work[:] = first_work
        memory[:] = 0.0
    else:
        state[:] = kept[:n]
        work[:outputs] = kept[n:]
        work[outputs:] = 0.0  # nothing that matters is kept there, but what is no number could stay
    return lapped
