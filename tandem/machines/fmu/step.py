"""The step of a foreign FMU: what a machine promises, as far as the FMU's own promises go.

Its state lives in its instance. Where it can be serialised it is in the machine's state as well, after every step,
three bytes a number: a step that finds another state than the one it left (a fork, a replay, a return after divergence)
puts it back first, so that the step depends on its arguments alone. Where it cannot, a step goes on only from where the
instance stands, or from the start; from anywhere else it fails.

A call that fails makes the outputs NaN, which the loop takes for divergence (`sim.on_divergence`). A warning stands in
the last output, `fmu_status`. Nothing is called again after a fatal error.
"""

import numpy as np
from numba import types

from sim_service.contract.machine import STEP, TABLES, places
from sync.compile.array_types import CONSTANTS, VECTOR
from sync.compile.jit import kernel
from tandem.machines.fmu.c_calls import as_integer, bytes_at, call_c, floats_at, integers_at
from tandem.machines.fmu.library import FUNCTIONS

# tables.ints: sizes, then the references of inputs, outputs and parameters
N = places("N", ("VERSION", "INPUTS", "OUTPUTS", "PARAMETERS", "STATE", "BYTES"))
# tables.floats: addresses
A = places("A", ("INSTANCE", "MEMORY", "LAST_STATE", "SET", "BUFFER", *(name for name, _ in FUNCTIONS)))
# memory of an instance: whether it stands at `LAST_STATE`, whether it has been started, whether it is over; pointers
# and flags that functions write to
M = places("M", ("VALID", "STARTED", "FATAL", "HANDLE", "OTHER", "SIZE", "EVENT", "TERMINATE", "EARLY", "REACHED"))
_HEAD, _MEMORY = len(N), len(M)
STEPS, TIME, OWN = 0, 1, 2  # of the state: how many steps were made, the time (s), the bytes of the FMU
OK, WARNING, DISCARD, ERROR, FATAL = range(5)
PER_WORD = 3  # bytes in a number: no state of a machine is beyond 1e9


@kernel()
def _worse(status, other):
    return max(status, other)


@kernel()
def _set_parameters(params, tables, memory, only_changed):
    ints, words = tables.ints, tables.floats
    count = ints[N.PARAMETERS]
    first = _HEAD + ints[N.INPUTS] + ints[N.OUTPUTS]
    set_before = floats_at(words[A.SET], count + 1)
    status = np.int32(OK)
    for k in range(count):
        if only_changed and params[k] == set_before[k]:
            continue
        set_before[k] = params[k]
        status = _worse(status, _set(tables, ints[first + k :], set_before[k:], 1))
    return status


@kernel()
def _set(tables, references, values, count):
    words = tables.floats
    if count == 0:
        return np.int32(OK)
    if tables.ints[N.VERSION] == 3:
        return call_c(words[A.SetFloat64], (_instance(tables), references, count, values, count))
    return call_c(words[A.SetFloat64], (_instance(tables), references, count, values))


@kernel()
def _instance(tables):
    return as_integer(tables.floats[A.INSTANCE])


@kernel()
def _get_outputs(tables, work):
    ints, words = tables.ints, tables.floats
    count, references = ints[N.OUTPUTS], ints[_HEAD + ints[N.INPUTS] :]
    if count == 0:
        return np.int32(OK)
    if ints[N.VERSION] == 3:
        return call_c(words[A.GetFloat64], (_instance(tables), references, count, work, count))
    return call_c(words[A.GetFloat64], (_instance(tables), references, count, work))


@kernel()
def _save(tables, memory, state):
    """What the instance is now, into the state and into what it is compared with."""
    ints, words, it = tables.ints, tables.floats, _instance(tables)
    size = ints[N.BYTES]
    status = np.int32(OK)
    if size > 0:
        buffer = bytes_at(words[A.BUFFER], size)
        status = call_c(words[A.GetFMUState], (it, memory[M.HANDLE :]))
        if status <= WARNING:
            status = call_c(words[A.SerializedFMUStateSize], (it, memory[M.HANDLE], memory[M.SIZE :]))
        if status <= WARNING and memory[M.SIZE] != size:
            status = np.int32(ERROR)
        if status <= WARNING:
            status = call_c(words[A.SerializeFMUState], (it, memory[M.HANDLE], buffer, size))
        for k in range(ints[N.STATE] - OWN):
            word = np.int64(0)
            for j in range(PER_WORD):
                at = PER_WORD * k + j
                word = word * 256 + (np.int64(buffer[at]) if at < size else np.int64(0))
            state[OWN + k] = word
    last_state = floats_at(words[A.LAST_STATE], ints[N.STATE])
    for k in range(ints[N.STATE]):
        last_state[k] = state[k]
    return status


@kernel()
def _restore(tables, memory, state):
    ints, words, it = tables.ints, tables.floats, _instance(tables)
    size = ints[N.BYTES]
    if size == 0:
        return np.int32(ERROR)
    buffer = bytes_at(words[A.BUFFER], size)
    for k in range(ints[N.STATE] - OWN):
        word = np.int64(state[OWN + k])
        for j in range(PER_WORD - 1, -1, -1):
            at = PER_WORD * k + j
            if at < size:
                buffer[at] = word & 255
            word >>= 8
    memory[M.OTHER] = 0
    status = call_c(words[A.DeserializeFMUState], (it, buffer, size, memory[M.OTHER :]))
    if status <= WARNING:
        status = call_c(words[A.SetFMUState], (it, memory[M.OTHER]))
        call_c(words[A.FreeFMUState], (it, memory[M.OTHER :]))
    return status


@kernel()
def _restart(params, tables, memory, state):
    """Back to the start, with these parameters."""
    ints, words, it = tables.ints, tables.floats, _instance(tables)
    status = np.int32(OK)
    if memory[M.STARTED]:
        status = call_c(words[A.Reset], (it,))
    memory[M.STARTED] = 1
    if ints[N.VERSION] == 2:
        status = _worse(status, call_c(words[A.SetupExperiment], (it, 0, 0.0, 0.0, 0, 0.0)))
        status = _worse(status, _set_parameters(params, tables, memory, False))
        status = _worse(status, call_c(words[A.EnterInitializationMode], (it,)))
    else:
        status = _worse(status, _set_parameters(params, tables, memory, False))
        status = _worse(status, call_c(words[A.EnterInitializationMode], (it, 0, 0.0, 0.0, 0, 0.0)))
    status = _worse(status, call_c(words[A.ExitInitializationMode], (it,)))
    for k in range(ints[N.STATE]):
        state[k] = 0.0
    return status


@kernel()
def _bring_to(state, params, tables, memory):
    """The instance to where the state says it is."""
    if memory[M.FATAL]:
        return np.int32(FATAL)
    ints = tables.ints
    last_state = floats_at(tables.floats[A.LAST_STATE], ints[N.STATE])
    same = memory[M.VALID] == 1
    for k in range(ints[N.STATE]):
        same &= state[k] == last_state[k]
    if same:
        return _set_parameters(params, tables, memory, True)
    if ints[N.BYTES] == 0 and state[STEPS] == 0.0:
        return _restart(params, tables, memory, state)
    return _worse(_restore(tables, memory, state), _set_parameters(params, tables, memory, False))


@kernel()
def _advance(state, inputs, tables, memory, h):
    ints, words, it = tables.ints, tables.floats, _instance(tables)
    status = _set(tables, ints[_HEAD:], inputs, ints[N.INPUTS])
    if status > WARNING:
        return status
    if ints[N.VERSION] == 2:
        return _worse(status, call_c(words[A.DoStep], (it, state[TIME], h, 1)))
    memory[M.EVENT], memory[M.TERMINATE], memory[M.EARLY] = 0, 0, 0
    places = (memory[M.EVENT :], memory[M.TERMINATE :], memory[M.EARLY :], memory[M.REACHED :])
    status = _worse(status, call_c(words[A.DoStep], (it, state[TIME], h, 1, *places)))
    # it must come to the end of the step: one that is cut short is no step of ours
    if memory[M.TERMINATE] & 1 or memory[M.EARLY] & 1:
        status = _worse(status, np.int32(DISCARD))
    return status


@kernel()
def _finish(status, tables, memory, state, work):
    outputs = tables.ints[N.OUTPUTS]
    if status <= WARNING:
        status = _worse(status, _get_outputs(tables, work))
    if status <= WARNING:
        status = _worse(status, _save(tables, memory, state))
    memory[M.VALID] = 1 if status <= WARNING else 0
    memory[M.FATAL] = 1 if memory[M.FATAL] or status == FATAL else 0
    work[outputs] = status
    if status > WARNING:
        for k in range(outputs):
            work[k] = np.nan
        work[outputs] = np.nan


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    memory = integers_at(tables.floats[A.MEMORY], _MEMORY)
    status = _bring_to(state, params, tables, memory)
    if status <= WARNING:
        status = _worse(status, _advance(state, inputs, tables, memory, h))
    if status <= WARNING:
        state[STEPS] += 1.0
        state[TIME] += h
    _finish(status, tables, memory, state, work)


@kernel(types.void(VECTOR, CONSTANTS, TABLES, VECTOR))
def start(state, params, tables, work):
    memory = integers_at(tables.floats[A.MEMORY], _MEMORY)
    status = np.int32(FATAL)
    if not memory[M.FATAL]:
        status = _restart(params, tables, memory, state)
    _finish(status, tables, memory, state, work)
