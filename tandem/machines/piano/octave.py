"""The machine `piano_octave`: thirteen keys of the phase model, C to C, in one process. One set of parameters; hammers
become lighter from key to key. See docs/piano.md."""

import numpy as np

from sim_service.contract.machine import STEP, Machine, Parameter, Quantity, Shown, Tables, places
from sync.compile.jit import kernel
from tandem.machines.piano import action, drawing, geometry, keys, port
from tandem.machines.piano.keyboard import (
    DISPLAY,
    EFFORTS,
    KEYS,
    NAMES,
    NOTE,
    OUTPUTS,
    PER_KEY,
    TAPER,
    W,
    of_every_key,
)

INPUTS = (
    *of_every_key(port.INPUTS[0], "of its front, down is positive"),
    *of_every_key(port.INPUTS[1], "not measured: the difference of two positions"),
)
STATES = tuple(Quantity(f"{name}_{each}", unit, text) for name in NAMES for each, unit, text in keys.STATE)
PARAMETERS = (
    *(
        Parameter("longest_step", "s", 2.5e-4, 2e-5, 5e-4, p.text) if p.name == "longest_step" else p
        for p in keys.PARAMETERS
    ),
    TAPER,
    NOTE,
)
P = places("P", PARAMETERS)
_SCRATCH = len(OUTPUTS)


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    scratch = work[_SCRATCH:]
    for k in range(KEYS):
        own = state[k * keys.SIZE : (k + 1) * keys.SIZE]
        out = work[k * PER_KEY : (k + 1) * PER_KEY]
        position, velocity = keys.measured(inputs[k], inputs[KEYS + k], own[keys.S.last_position], own[keys.S.begun], h)
        inputs[KEYS + k] = velocity
        keys.advance(own, position, velocity, params, -k * params[P.hammer_taper], scratch, h)
        x, mode = own[: action.N], int(own[keys.S.phase_now])
        out[W.tip_force], out[W.phase], out[W.hammer] = action.coupler(x, scratch) / geometry.FRONT, mode, x[action.QH]
        out[W.strike_count], out[W.strike_speed] = x[action.STRIKES], x[action.STRIKE_RATE] * geometry.SHANK
        out[W.strike_age] = x[action.TIME] - x[action.STRIKE_AT] if x[action.STRIKES] > 0.0 else 0.0
        out[W.sounding] = own[keys.S.undamped]
        energy = action.stored(mode, x, scratch)
        out[W.energy_error] = energy - own[keys.S.energy_before] - x[action.WORK] + x[action.LOST]


def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    for k in range(KEYS):
        keys.begin(state[k * keys.SIZE : (k + 1) * keys.SIZE])
    work[:] = 0.0


def frames(state, params, out):
    for k in range(KEYS):
        own = state[k * keys.SIZE : (k + 1) * keys.SIZE]
        drawing.pose(own[: action.N], int(own[keys.S.phase_now]), params, out[k * drawing.PER_KEY :], drawing.place(k))


MACHINE = Machine(
    name="piano_octave",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    work_size=_SCRATCH + action.ACTION_SCRATCH,
    capabilities=(
        Shown(display=DISPLAY, scene=drawing.scene(KEYS), frames=frames),
        EFFORTS,
    ),
)
