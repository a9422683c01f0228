"""One step: from the newest block, and those since the last step, to the model's new state.

Live, the loop calls it (sim_service/loop.py); from a record, replay does (sim_service/replay.py). What it does
depends on its arguments alone, never on the clock: the same blocks, restarts and ages give the same bits.

A model whose state becomes non-finite or out of bounds, or whose step raises, is caught here: what a step leaves behind
is always finite and within bounds. It goes on from the last good state ("keep") or from the start ("reset"). If it
diverges too often without a second of good steps between, or at all with "end", the run is over.
"""

from typing import Literal

import numpy as np
from numba import boolean, int64, types

from sim_service.bounds import SOUND, step_within
from sim_service.contract.machine import STEP
from sim_service.inputs import forget, forget_what_was_stale, make_inputs, observe_block
from sim_service.inputs.table import ROWS
from sim_service.loop_data import TYPES, Buffers, Divergence, MachineData, Settings
from sync.compile.array_copy import copy
from sync.compile.array_types import READ_ONLY
from sync.compile.jit import kernel
from sync.ring.block import EPOCH
from sync.ring.ring import read_slot

# what a step reports: stages of the rows of inputs, which of them were beyond their limits, whether the model diverged;
# and what the next one has to know: divergences without calm between, good steps since the last; and how the model
# diverged last (BEYOND or RAISED, bounds.py)
STAGES, CLIPPED, DIVERGED, IN_A_ROW, GOOD_STEPS, HOW = range(6)
RESULT_WORDS = 6
ONCE_MORE, OVER = 1, 2  # a model that diverged goes on, or not

# limits of a divergence: the largest value possible, what to do beyond it, how often, how many good steps are calm
_BOUND, _ON_DIVERGENCE, _MOST, _CALM = range(4)
_POLICIES = ("end", "reset", "keep")
_END, _RESET = 0.0, 1.0


def limits(bound: float, on_divergence: Literal["end", "reset", "keep"], most: int, step_ns: int) -> np.ndarray:
    return np.array([bound, _POLICIES.index(on_divergence), most, max(round(1e9 / step_ns), 1)], np.float64)


@kernel()
def _show(ring, shown, position, most, buffers, rows):
    """Show every new block of the step's epoch to the estimators, in order, at most so many.

    False if one of them has been overwritten in the meantime.
    """
    block, passing = buffers.block, buffers.passing
    for n in range(max(shown + 1, position + 1 - most), position):
        if not read_slot(ring, n, passing):
            return False
        if passing[EPOCH] == block[EPOCH]:
            observe_block(passing, rows)
    if position > shown:
        observe_block(block, rows)
    return True


@kernel()
def _catch(settings, rows, machine, divergence):
    """The step has diverged: restore what the machine goes on from, or ended with."""
    result, limits, n = divergence.result, divergence.limits, machine.state.size
    if result[GOOD_STEPS] >= limits[_CALM]:
        result[IN_A_ROW] = 0
    result[IN_A_ROW] += 1
    result[GOOD_STEPS] = 0
    result[DIVERGED] = OVER if limits[_ON_DIVERGENCE] == _END or result[IN_A_ROW] > limits[_MOST] else ONCE_MORE
    if result[DIVERGED] == ONCE_MORE and limits[_ON_DIVERGENCE] == _RESET:
        copy(machine.state, machine.first_state)
        copy(machine.work, machine.first_work)
        forget(rows)
    else:
        copy(machine.state, divergence.previous)
        copy(machine.work, divergence.previous[n:])
        machine.work[settings.outputs :] = 0.0  # nothing that matters is stored there, but a NaN could stay


# by its types: one function, compiled here, for steps and rehearsals, so that these warm the code that those run
@kernel(
    boolean(
        READ_ONLY, int64, int64, boolean, boolean, int64, TYPES[Buffers], TYPES[Settings], ROWS,
        types.FunctionType(STEP), TYPES[MachineData], TYPES[Divergence],
    )
)  # fmt: skip
def advance_step(
    ring, shown, position, restart, lapped, age_ns, buffers, settings, rows, step_machine, machine, divergence
):
    """Step the machine with `buffers.block`, which is at `position`; blocks up to `shown` have been shown before.

    `restart`: the block does not continue what came before. `lapped`: act as if blocks had been overwritten. Returns
    whether they had been (or `lapped` was set): the estimators then restart with the newest block alone.
    """
    block, result, n = buffers.block, divergence.result, machine.state.size
    if restart:
        forget(rows)  # nothing is differentiated across a gap
    elif position > shown:
        forget_what_was_stale(block, age_ns, result[STAGES], rows)
    if lapped or not _show(ring, shown, position, settings.most_blocks, buffers, rows):
        lapped = True
        forget(rows)
        observe_block(block, rows)
    h = settings.h_ns * 1e-9
    result[STAGES], result[CLIPPED] = make_inputs(block, age_ns, h, rows, machine.inputs)
    copy(divergence.previous, machine.state)
    copy(divergence.previous[n:], machine.work)
    how = step_within(
        step_machine, machine.state, machine.inputs, machine.params, machine.tables, machine.work, h,
        settings.outputs, divergence.limits[_BOUND],
    )  # fmt: skip
    if how == SOUND:
        result[DIVERGED] = 0
        result[GOOD_STEPS] += 1
    else:
        result[HOW] = how
        _catch(settings, rows, machine, divergence)
    return lapped
