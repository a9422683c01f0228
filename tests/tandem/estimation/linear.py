"""The mass on a spring as an observed machine: linear, so that a plain Kalman filter is the same filter."""

import numpy as np

from sim_service.contract.machine import NO_TABLES, Quantity
from sync.compile.jit import kernel
from tandem.estimation.contract import CORRECT, FAILED, LINEARISE, MEASURE, TANGENT, Observed
from tandem.machines.mass_spring import MACHINE, STATES, step

FAILS = 1e6  # an input with which the step fails


@kernel(LINEARISE, error_model="numpy")
def linearise(state, inputs, params, tables, work, h, which, extra, F, at):
    """F by steps of unit vectors: at, beyond the state, is room for one."""
    at[0], at[1] = state[0], state[1]
    u = inputs[0]
    if u == FAILS:
        return FAILED
    inputs[0] = 0.0
    for j in range(2):
        state[0], state[1] = 1.0 - j, 0.0 + j
        step(state, inputs, params, tables, work, h)
        F[2 * j], F[2 * j + 1] = state[0], state[1]
    F[4] = F[5] = 0.0
    inputs[0] = u
    state[0], state[1] = at[0], at[1]
    step(state, inputs, params, tables, work, h)
    return TANGENT


@kernel(MEASURE, error_model="numpy")
def measure(signal, row, tau, at, tables, work, which, H):
    H[signal] = 1.0
    return at[signal]


@kernel(CORRECT, error_model="numpy")
def correct(state, params, tables, work, dx):
    state[0] += dx[0]
    state[1] += dx[1]


LINEAR = Observed(
    machine=MACHINE,
    coordinates=STATES,
    rates=(1, -1),
    estimable=(),
    signals=(Quantity("x", "m", ""), Quantity("v", "m/s", "")),
    linearise=linearise,
    measure=measure,
    correct=correct,
    at_size=2,
    difference=lambda state, other, of: state - other,
)


def transition(params, h):
    """F and B of a step, by steps."""
    work, out = np.zeros(MACHINE.work_size), []
    for x, v, u in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
        state = np.array([x, v])
        step(state, np.array([u]), params, NO_TABLES, work, h)
        out.append(state)
    return np.array(out[:2]).T, out[2]
