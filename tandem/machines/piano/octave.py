"""The machine `piano_octave`: thirteen keys of the phase model, C to C, in one process. One set of parameters; hammers
become lighter from key to key. See docs/piano.md."""

import numpy as np

from sim_service.contract.display import Display, Sound, Tile
from sim_service.contract.machine import STEP, Efforts, Machine, Parameter, Quantity, Shown, Tables, places
from sync.compile.jit import kernel
from tandem.machines.piano import action, drawing, geometry, keys, port

KEYS = 13
_NAMES = [f"key{k + 1}" for k in range(KEYS)]

INPUTS = tuple(Quantity(f"{name}_position", "m", "of its front, down is positive") for name in _NAMES) + tuple(
    Quantity(f"{name}_velocity", "m/s", "not measured: the difference of two positions", optional=True)
    for name in _NAMES
)
STATES = tuple(Quantity(f"{name}_{each}", unit, text) for name in _NAMES for each, unit, text in keys.STATE)
_OF_KEY = (port.FORCES[0], port.PHASE, port.HAMMER, *port.STRIKES, port.ENERGY[1])
_PER_KEY = len(_OF_KEY)
W = places("W", _OF_KEY)  # of one key
OUTPUTS = tuple(Quantity(f"{name}_{q.name}", q.unit, q.text) for name in _NAMES for q in _OF_KEY)
PARAMETERS = (
    *(
        Parameter("longest_step", "s", 2.5e-4, 2e-5, 5e-4, p.text) if p.name == "longest_step" else p
        for p in keys.PARAMETERS
    ),
    Parameter("hammer_taper", "kg", 1e-4, 0.0, 1e-3, "by which a hammer is lighter than the one before"),
    Parameter("note", "1", 60.0, 0.0, 115.0, "of the first key, as MIDI numbers it", live=False),
)
P = places("P", PARAMETERS)
_ROOM = len(OUTPUTS)


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    room = work[_ROOM:]
    for k in range(KEYS):
        own = state[k * keys.SIZE : (k + 1) * keys.SIZE]
        out = work[k * _PER_KEY : (k + 1) * _PER_KEY]
        position, velocity = keys.measured(inputs[k], inputs[KEYS + k], own[keys.S.last_position], own[keys.S.begun], h)
        inputs[KEYS + k] = velocity
        keys.advance(own, position, velocity, params, -k * params[P.hammer_taper], room, h)
        x, mode = own[: action.N], int(own[keys.S.phase_now])
        out[W.tip_force], out[W.phase], out[W.hammer] = action.coupler(x, room) / geometry.FRONT, mode, x[action.QH]
        out[W.strike_count], out[W.strike_speed] = x[action.STRIKES], x[action.STRIKE_RATE] * geometry.SHANK
        out[W.strike_age] = x[action.TIME] - x[action.STRIKE_AT] if x[action.STRIKES] > 0.0 else 0.0
        out[W.sounding] = own[keys.S.undamped]
        out[W.energy_error] = action.stored(mode, x, room) - own[keys.S.energy_before] - x[action.WORK] + x[action.LOST]


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
    work_size=_ROOM + action.ROOM,
    capabilities=(
        Shown(
            display=Display(
                hands=tuple(Tile(name, f"{name}_position", "mm", 1e3, 1, full=0.01) for name in _NAMES),
                figures=(
                    Tile("felt, key 1", "key1_tip_force", "N", 1.0, 2),
                    Tile("strikes", "key1_strike_count", "", 1.0, 0),
                ),
                sounds=tuple(
                    Sound(f"{name}_strike_count", f"{name}_strike_speed", "note", k) for k, name in enumerate(_NAMES)
                ),
                plots=(("key1_tip_force", "key1_position"), ("key1_hammer", "key8_hammer")),
            ),
            scene=drawing.scene(KEYS),
            frames=frames,
        ),
        Efforts(tuple(f"{name}_tip_force" for name in _NAMES)),
    ),
)
