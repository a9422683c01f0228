"""One turn: from the blocks a step has before it to the model's new state.

Live, the loop calls it (sim_service/loop.py); from a record, replay does (sim_service/replay.py). What it does
depends on its arguments alone, never on the clock: the same blocks, restarts and stale flags give the same bits.
"""

from sim_service.signals import observe_steering, vehicle_inputs
from sync.block import EPOCH
from sync.jit import kernel
from sync.ring import read_slot


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
def turn(
    ring, shown, position, most, block, passing, restart, lapped, stale,
    rows, calibration, estimator, memory, step_model, state, inputs, params, work, wheel_speed, h,
):  # fmt: skip
    """Step the model with `block`, which stands at `position`; blocks up to `shown` have been shown before.

    `restart`: what came before is no continuation. `lapped`: act as if blocks had been overwritten. Returns whether
    they had been (or were said to be): the estimator then begins anew with the newest block alone.
    """
    if restart:
        memory[:] = 0.0  # never differentiated across a gap
    if lapped or not _show(ring, shown, position, most, block, passing, rows, estimator, memory):
        lapped = True
        memory[:] = 0.0
        observe_steering(block, rows, estimator, memory)
    vehicle_inputs(block, rows, calibration, estimator, memory, work[wheel_speed], h, inputs)
    if stale:
        inputs[1] = inputs[2] = 0.0  # a held angle does not move
    step_model(state, inputs, params, work, h)
    return lapped
