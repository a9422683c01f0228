"""What a filter needs of the tilting vehicle: the tangent of its step and of its sensors, by numbers with derivatives.

Eight directions: the six states, the bank of the road, and the mass that leans. The transition is the derivative of the
very step of Runge and Kutta, exact to rounding.

Sensors on the body, at a place (x forward, y left, z up from the tilt joint) and along an axis of it: specific force
and rate of turn. In the tilt joint: its angle, which is the roll less the bank; at the actuator: its torque.
"""

from math import cos, sin

import numpy as np

from sim_service.contract.machine import Machine, Quantity
from sync.compile.jit import inner, kernel
from tandem.estimation.contract import CORRECT, LINEARISE, MEASURE, TANGENT, Estimable, Observed
from tandem.estimation.rows import R
from tandem.machines.tilting import (
    GRAVITY,
    INPUTS,
    MACHINE,
    STATES,
    P,
    S,
    rates,
    runge_kutta,
    set_missing,
    write_outputs,
)
from tandem.multibody.natural.views import view
from tandem.multibody.relative.dual import add_derivatives, along, value_of

SIGNALS = (
    Quantity("specific_force", "m/s2", "at the place, along the direction on the body"),
    Quantity("rate", "rad/s", "about the direction on the body"),
    Quantity("joint", "rad", "tilt of the body against the base"),
    Quantity("torque", "N m", "of the actuator"),
    Quantity("speed", "m/s", "along the path"),
)
_FORCE, _RATE, _JOINT, _TORQUE, _SPEED = range(5)
ESTIMABLE = (
    Estimable("bank", "rad", "roll of the base, right positive"),
    Estimable("mass", "kg", "of what leans", int(P.mass)),
)
_BANK, _MASS = range(2)
COMPILED_ON_REQUEST = True  # see sync/compile/build.py

_STATES, _INPUTS = len(STATES), len(INPUTS)
_PARAMETERS = len(MACHINE.parameters)
_LANES = 8
# what `measure` reads: state, inputs, bank, mass, parameters; and scratch for eight derivatives
_AT_BANK = _STATES + _INPUTS
_AT_MASS, _AT_PARAMETERS = _AT_BANK + 1, _AT_BANK + 2
_SCRATCH = _AT_PARAMETERS + _PARAMETERS


@inner
def leave(derivatives, at, which, out, first, stride):
    """Derivatives by the states, then by the estimated quantities, to every `stride`-th place."""
    for i in range(_STATES):
        out[first + i * stride] = derivatives[at + i]
    for k in range(len(which)):
        out[first + (_STATES + k) * stride] = derivatives[at + _STATES + which[k]]


@inner
def clear(out, at):
    for i in range(_LANES):
        out[at + i] = 0.0


@kernel(LINEARISE, error_model="numpy")
def linearise(state, inputs, params, tables, work, h, which, extra, F, at):
    """See estimation/contract.py."""
    set_missing(inputs)
    for i in range(_STATES):
        at[i] = state[i]
    for i in range(_INPUTS):
        at[_STATES + i] = inputs[i]
    at[_AT_BANK], at[_AT_MASS] = 0.0, params[P.mass]
    for k in range(len(which)):
        if which[k] == _BANK:
            at[_AT_BANK] = extra[k]
    for i in range(_PARAMETERS):
        at[_AT_PARAMETERS + i] = params[i]
    new = runge_kutta(
        params, inputs, along(params[P.mass], 7), along(state[S.roll], 0), along(state[S.roll_rate], 1),
        along(state[S.torque], 2), along(state[S.yaw_rate], 3), along(state[S.speed], 4), along(state[S.heading], 5), h,
    )  # fmt: skip
    for i in range(_STATES):
        clear(at, _SCRATCH)
        add_derivatives(new[i], 1.0, at, _SCRATCH)
        leave(at, _SCRATCH, which, F, i, _STATES)
        F[(_STATES + len(which)) * _STATES + i] = 0.0  # forces do nothing that the step has not done
        state[i] = value_of(new[i])
    write_outputs(state, params, work)
    return TANGENT


@kernel(MEASURE, error_model="numpy")
def measure(signal, row, tau, at, tables, work, which, H):
    """See estimation/contract.py. The instant is that of the beginning of the step: tau is taken as 0."""
    phi, w, T = along(at[S.roll], 0), along(at[S.roll_rate], 1), along(at[S.torque], 2)
    r, v = along(at[S.yaw_rate], 3), along(at[S.speed], 4)
    bank, mass = along(at[_AT_BANK], 6), along(at[_AT_MASS], 7)
    dx, dy, dz = row[R.DIRECTION], row[R.DIRECTION + 1], row[R.DIRECTION + 2]
    out = 0.0 * phi
    if signal == _FORCE:
        p, inputs = view(at, _AT_PARAMETERS, _SCRATCH), view(at, _STATES, _AT_BANK)
        w_dot, _, r_dot, v_dot = rates(p, inputs, mass, phi, w, T, r, v)
        x, y0, z0 = row[R.PLACE], row[R.PLACE + 1], row[R.PLACE + 2]
        c, s = cos(phi), sin(phi)
        # across and above the joint, in axes that turn with the base, and their derivatives
        y, z = c * y0 - s * z0, s * y0 + c * z0
        yd = -w * z
        ydd, zdd = -w_dot * z - w * w * y, w_dot * y - w * w * z
        ahead = v_dot - r * r * x - r_dot * y - 2.0 * r * yd
        aside = v * r + r_dot * x - r * r * y + ydd
        up = zdd + GRAVITY
        out = ahead * dx + (c * aside + s * up) * dy + (c * up - s * aside) * dz
    elif signal == _RATE:
        out = w * dx + r * (sin(phi) * dy + cos(phi) * dz)
    elif signal == _JOINT:
        out = phi - bank
    elif signal == _TORQUE:
        out = T * 1.0
    else:
        out = v * 1.0
    clear(at, _SCRATCH)
    add_derivatives(out, 1.0, at, _SCRATCH)
    leave(at, _SCRATCH, which, H, 0, 1)
    return value_of(out)


@kernel(CORRECT, error_model="numpy")
def correct(state, params, tables, work, dx):
    """The coordinates are independent: there are no constraints."""
    for i in range(_STATES):
        state[i] += dx[i]


def difference(state, other, of):
    return np.asarray(state[:_STATES] - other[:_STATES])


OBSERVED = Observed(
    machine=MACHINE,
    coordinates=STATES,
    rates=(1, -1, -1, -1, -1, 3),
    estimable=ESTIMABLE,
    signals=SIGNALS,
    linearise=linearise,
    measure=measure,
    correct=correct,
    at_size=_SCRATCH + _LANES,
    difference=difference,
    relaxing=(2,),
)


def observed(machine: Machine, params: np.ndarray) -> Observed:
    return OBSERVED
