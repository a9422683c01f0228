"""A step of a machine that cannot end its caller, and what came of it.

Whoever calls a step from compiled code calls it here: the loop, a replay, a rehearsal, a look ahead, runs of a study,
copies of a batch. A step that leaves its bounds and one that raises have both diverged; what becomes of its state is
the caller's to say.
"""

from sync.compile.jit import kernel

SOUND, BEYOND, RAISED = range(3)  # a state or an output is NaN or beyond its bound; an exception
RAISED_WORDS = "raised an exception, such as by a division by zero"


@kernel()
def within(values, count, bound):
    """Whether all are numbers and none is beyond; NaN is not."""
    sound = True
    for i in range(count):  # to the end: without a way out in between it is four times faster
        sound &= abs(values[i]) <= bound
    return sound


@kernel()
def step_within(step, state, inputs, params, tables, work, h, outputs, bound):
    """Make the step; SOUND, BEYOND or RAISED. After the last two, state and work hold nothing of use."""
    try:
        step(state, inputs, params, tables, work, h)
    except Exception:  # a machine may be compiled with Python's division
        return RAISED
    if within(state, state.size, bound) and within(work, outputs, bound):
        return SOUND
    return BEYOND
