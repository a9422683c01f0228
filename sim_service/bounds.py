"""A step of a machine that cannot end its caller, and how it ended.

All compiled code that steps a machine does it here: the loop, a replay, a rehearsal, a look ahead, runs of a study,
copies of a batch. A step that leaves its bounds and one that raises have both diverged; the caller decides what becomes
of the state.
"""

from sync.compile.jit import kernel

SOUND, BEYOND, RAISED = range(3)  # a state or an output is NaN or beyond its bound; an exception
RAISED_WORDS = "raised an exception, such as by a division by zero"


@kernel()
def within(values, count, bound):
    """Whether the magnitude of each value is at most `bound`; NaN is never within."""
    sound = True
    for i in range(count):  # always to the end: without an early exit it is four times faster
        sound &= abs(values[i]) <= bound
    return sound


@kernel()
def step_within(step, state, inputs, params, tables, work, h, outputs, bound):
    """Make the step; SOUND, BEYOND or RAISED. After the last two, state and work are unusable."""
    try:
        step(state, inputs, params, tables, work, h)
    except Exception:  # a machine may be compiled with Python's division
        return RAISED
    if within(state, state.size, bound) and within(work, outputs, bound):
        return SOUND
    return BEYOND
