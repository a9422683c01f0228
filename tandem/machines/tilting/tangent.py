"""Derivatives of outputs and rates of the tilting vehicle by its states and inputs, by numbers with derivatives."""

from sim_service.contract.machine import STEP
from sync.compile.jit import kernel
from tandem.machines.tilting import INPUTS, OUTPUTS, STATES, P, S, derived, rates, set_missing
from tandem.multibody.relative.dual import add_derivatives, along

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
_STATES, _DIRECTIONS = len(STATES), len(STATES) + len(INPUTS)  # as many as a number carries
_ROWS = len(OUTPUTS) + _STATES


@kernel(STEP, error_model="numpy")
def tangent_of_rates(state, inputs, params, tables, work, h):
    """A row for every output and every rate, a column for every state and every input."""
    set_missing(inputs)
    for i in range(_ROWS * _DIRECTIONS):
        work[i] = 0.0
    phi, w, T = along(state[S.roll], 0), along(state[S.roll_rate], 1), along(state[S.torque], 2)
    r, v = along(state[S.yaw_rate], 3), along(state[S.speed], 4)
    commands = (along(inputs[0], 6), along(inputs[1], 7))
    for i in range(_STATES):
        work[i * _DIRECTIONS + i] = 1.0
    a, lateral, aim = derived(params, phi, r, v)
    w_dot, T_dot, r_dot, v_dot = rates(params, commands, params[P.mass], phi, w, T, r, v)
    first = _ROWS - _STATES
    add_derivatives(a, 1.0, work, (first - 3) * _DIRECTIONS)
    add_derivatives(lateral, 1.0, work, (first - 2) * _DIRECTIONS)
    add_derivatives(aim, 1.0, work, (first - 1) * _DIRECTIONS)
    add_derivatives(w, 1.0, work, (first + S.roll) * _DIRECTIONS)
    add_derivatives(w_dot, 1.0, work, (first + S.roll_rate) * _DIRECTIONS)
    add_derivatives(T_dot, 1.0, work, (first + S.torque) * _DIRECTIONS)
    add_derivatives(r_dot, 1.0, work, (first + S.yaw_rate) * _DIRECTIONS)
    add_derivatives(v_dot, 1.0, work, (first + S.speed) * _DIRECTIONS)
    add_derivatives(r, 1.0, work, (first + S.heading) * _DIRECTIONS)
