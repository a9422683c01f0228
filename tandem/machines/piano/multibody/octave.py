"""The machine `piano_octave_multibody`: thirteen grand actions, C to C, in one process. One set of parameters; hammers
become lighter from key to key. See docs/piano_multibody.md.

Each key makes the step of the one alone. It leaves nothing behind but its state, so that all of them use one scratch.
"""

import numpy as np

from sim_service.contract.machine import STEP, Machine, Quantity, Shown, Tables, places
from sync.compile.jit import kernel
from tandem.machines.piano import port
from tandem.machines.piano.keyboard import (
    DISPLAY,
    EFFORTS,
    KEYS,
    NAMES,
    NOTE,
    OF_KEY,
    OUTPUTS,
    PER_KEY,
    TAPER,
    of_every_key,
)
from tandem.machines.piano.multibody import TABLES
from tandem.machines.piano.multibody import description as key
from tandem.machines.piano.multibody.action import REST
from tandem.machines.piano.multibody.drawing import pose, scene
from tandem.machines.piano.multibody.dynamics import WORK_SIZE, W
from tandem.machines.piano.multibody.dynamics import step as step_of_key
from tandem.multibody.natural.views import view

INPUTS = tuple(q for each in key.INPUTS for q in of_every_key(each))
STATES = tuple(Quantity(f"{name}_{q.name}", q.unit, q.text) for name in NAMES for q in key.STATES)
PARAMETERS = (*(p for p in key.PARAMETERS if p is not port.NOTE), TAPER, NOTE)
P = places("P", PARAMETERS)
SIZE, N_INPUTS, NUMBERS = len(key.STATES), len(key.INPUTS), len(key.PARAMETERS)
SHOWN = np.array([getattr(W, q.name) for q in OF_KEY])
_OWN = len(OUTPUTS)


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    numbers, key_inputs = view(work, _OWN, _OWN + NUMBERS), view(work, _OWN + NUMBERS, _OWN + NUMBERS + N_INPUTS)
    key_work = view(work, _OWN + NUMBERS + N_INPUTS, len(work))
    for i in range(NUMBERS):
        numbers[i] = params[i]
    for k in range(KEYS):
        for i in range(N_INPUTS):
            key_inputs[i] = inputs[KEYS * i + k]
        numbers[P.hammer_mass_added] = params[P.hammer_mass_added] - k * params[P.hammer_taper]
        step_of_key(view(state, SIZE * k, SIZE * (k + 1)), key_inputs, numbers, tables, key_work, h)
        for i in range(N_INPUTS):
            inputs[KEYS * i + k] = key_inputs[i]
        for i in range(PER_KEY):
            work[PER_KEY * k + i] = key_work[SHOWN[i]]


def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    state[:] = 0.0
    work[:] = 0.0
    state.reshape(KEYS, SIZE)[:, : len(REST)] = REST


def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
    for k in range(KEYS):
        pose(state[SIZE * k : SIZE * k + len(REST)], params, out, k)


MACHINE = Machine(
    name="piano_octave_multibody",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    tables=TABLES,
    work_size=_OWN + NUMBERS + N_INPUTS + WORK_SIZE,
    capabilities=(Shown(display=DISPLAY, scene=scene(KEYS), frames=frames), EFFORTS),
)
