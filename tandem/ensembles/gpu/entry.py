"""What one thread of a GPU does with its copy of a machine, as a nopython function.

Vectors of all copies lie `[entry][copy]`, so that neighbours read neighbouring words. A copy's state, inputs,
parameters and scratch are its thread's own memory, which the hardware interleaves in the same way. Copies
share tables.

A copy stops at a step that its method does not make (`advance` says no) or that diverges: it stays as it was before,
and `totals` says how many steps it has made.
"""

from typing import Any

from numba import float64, int32, int64, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from sim_service.contract.machine import Tables
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner

NUMBERS = types.CPointer(float64)
_INTEGERS = types.CPointer(int32)
_COUNTS = types.CPointer(int64)
# of all copies: states, inputs, parameters, outputs, steps made; tables; a thread's own: state, state before, inputs,
# parameters, work; which copy, of how many; step, steps, bound
ARGUMENTS = (
    *[NUMBERS] * 4, _COUNTS, _INTEGERS, NUMBERS, *[NUMBERS] * 5, int64, int64, float64, int64, float64,
)  # fmt: skip


def _at(kind: Any) -> Any:
    @intrinsic
    def array_at(typingctx, pointer, size):
        def codegen(context, builder, signature, args):
            out = make_array(kind)(context, builder)
            width = context.get_abi_sizeof(context.get_value_type(kind.dtype))
            step = context.get_constant(types.intp, width)
            length = context.cast(builder, args[1], signature.args[1], types.intp)
            populate_array(out, data=args[0], shape=(length,), strides=(step,), itemsize=step, meminfo=None)
            return out._getvalue()

        return kind(pointer, size), codegen

    return array_at


vector_at, constants_at, indices_at = _at(VECTOR), _at(CONSTANTS), _at(INDICES)
counts_at = _at(types.Array(int64, 1, "C"))


def entry(advance: Any, sizes: dict[str, int]) -> Any:
    """advance(state, inputs, params, tables, work, h, shown) -> whether the step was made; outputs where `shown`."""
    n_states, n_inputs, n_params = sizes["states"], sizes["inputs"], sizes["params"]
    n_work, n_outputs, n_ints, n_floats = sizes["work"], sizes["outputs"], sizes["ints"], sizes["floats"]

    # long: what a GPU is given are addresses and sizes, one by one
    @inner
    def copy_steps(
        states, inputs, params, outputs, totals, ints, floats, own_state, own_before, own_inputs, own_params, own_work,
        n, copies, h, steps, bound,
    ):  # fmt: skip
        state, before, used = (
            vector_at(own_state, n_states), vector_at(own_before, n_states), vector_at(own_inputs, n_inputs),
        )  # fmt: skip
        own, work = vector_at(own_params, n_params), vector_at(own_work, n_work)
        all_states, all_outputs = vector_at(states, n_states * copies), vector_at(outputs, n_outputs * copies)
        all_inputs, all_params = vector_at(inputs, n_inputs * copies), vector_at(params, n_params * copies)
        tables = Tables(indices_at(ints, n_ints), constants_at(floats, n_floats))
        counts = counts_at(totals, copies)
        for i in range(n_states):
            state[i] = all_states[i * copies + n]
        for i in range(n_params):
            own[i] = all_params[i * copies + n]
        for i in range(n_work):
            work[i] = 0.0
        done = 0
        for k in range(steps):
            for i in range(n_inputs):
                used[i] = all_inputs[i * copies + n]
            for i in range(n_states):
                before[i] = state[i]
            shown = k + 1 == steps
            sound = advance(state, used, constants_at(own_params, n_params), tables, work, h, shown)
            for i in range(n_states):
                sound &= abs(state[i]) <= bound
            if shown:
                for i in range(n_outputs):
                    sound &= abs(work[i]) <= bound
            if not sound:
                for i in range(n_states):
                    state[i] = before[i]
                break
            done += 1
        if done == steps:
            for i in range(n_outputs):
                all_outputs[i * copies + n] = work[i]
        counts[n] = done
        for i in range(n_states):
            all_states[i * copies + n] = state[i]

    return copy_steps
