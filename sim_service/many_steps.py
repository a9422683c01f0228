"""Many steps of a machine in one call: a whole run, or one step of many copies; no GIL is held in between.

A run has a row of inputs for each step and logs the outputs and inputs that are asked for. Copies share the places of
parameters, the tables and the scratch: what the next step depends on is in the state (contract/machine.py). The steps
are bit-identical to those of the loop.

For many steps `for_many_steps` gives a machine unrolled code, if it has an `Unrolling`: nothing else changes.
"""

from numba import float64, int64, types

from sim_service.bounds import SOUND, step_within
from sim_service.contract.machine import STEP, TABLES, Machine, Unrolling
from sync.compile.array_types import MATRIX, VECTOR, WORDS
from sync.compile.jit import kernel
from sync.errors import ConfigError

MANY = 10_000  # from so many steps on unrolled code pays if it is compiled meanwhile, by another process
WORTH_WAITING = 200_000  # from so many on it pays to wait until it is compiled


def for_many_steps(machine: Machine, steps: int, code: str = "auto") -> Machine:
    """The machine for so many steps; `code` as `sim.code` has it. Raises ConfigError if unrolled code is asked for and
    the machine has none."""
    own = machine.of(Unrolling)
    if code == "unrolled" and own is None:
        raise ConfigError(f"sim.code = 'unrolled': {machine.name} has no index tables; 'auto' or 'tables'")
    if own is None or code == "tables" or (code == "auto" and steps < MANY):
        return machine
    return own.make(machine, code == "unrolled" or steps >= WORTH_WAITING)


@kernel(
    int64(
        types.FunctionType(STEP), VECTOR, VECTOR, VECTOR, TABLES, VECTOR, float64,  # machine, its vectors, step
        MATRIX, WORDS, MATRIX, int64, float64,  # inputs, which are logged, log, outputs, bound
    )
)  # fmt: skip
def run_steps(step, state, inputs, params, tables, work, h, rows, logged, log, outputs, bound):
    """A step for each row of inputs; how many were made. One that diverged is the last, and counts as not made.

    `logged`: places in the outputs followed by the inputs.
    """
    for k in range(rows.shape[0]):
        for i in range(inputs.size):
            inputs[i] = rows[k, i]
        if step_within(step, state, inputs, params, tables, work, h, outputs, bound) != SOUND:
            return k
        for i in range(logged.size):
            place = logged[i]
            log[k, i] = work[place] if place < outputs else inputs[place - outputs]
    return rows.shape[0]


# long: copies of a machine as flat arrays; a kernel takes no object
@kernel(
    int64(
        types.FunctionType(STEP), MATRIX, MATRIX, MATRIX, TABLES, VECTOR, VECTOR, VECTOR, float64, int64,
        int64, int64, MATRIX, WORDS, float64,
    )
)  # fmt: skip
def step_copies(
    step, states, inputs, params, tables, work, used, before, h, steps, first, last, outputs, diverged, bound
):
    """So many steps of each of the copies `first` … `last` - 1 with its inputs; how many of them diverged.

    A copy that diverges stays where it was before the step, with its outputs, and is marked.
    """
    count, m = 0, outputs.shape[1]
    for n in range(first, last):
        state = states[n]
        diverged[n] = 0
        for _ in range(steps):
            for i in range(used.size):
                used[i] = inputs[n, i]
            for i in range(state.size):
                before[i] = state[i]
            for i in range(work.size):
                work[i] = 0.0
            if step_within(step, state, used, params[n], tables, work, h, m, bound) != SOUND:
                for i in range(state.size):
                    state[i] = before[i]
                diverged[n] = 1
                count += 1
                break
            for i in range(m):
                outputs[n, i] = work[i]
    return count
