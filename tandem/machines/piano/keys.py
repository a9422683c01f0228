"""One key of the phase model as machines have it: what a step does with a measured position.

The measured key's path is continuous: over a step it goes from where it was to where it will be at the end of the step,
by its position and velocity now. At the start, and wherever the device is farther off than a key is fast, it approaches
at a limited rate: nobody is pushed by a key that begins elsewhere.
"""

import numpy as np

from sim_service.contract.machine import Parameter, places
from sync.compile.jit import kernel
from tandem.machines.piano import action, geometry
from tandem.machines.piano.port import REGULATION

# after the action's state: what else a key remembers
MEMORY = (
    ("phase_now", "1", "phase"),
    ("begun", "1", "1 once the measured key has been reached"),
    ("energy_before", "J", "stored at the start"),
    ("undamped", "1", "1 from a strike on until the damper is back"),
    ("exceeded", "1", "pieces with too many events"),
    ("last_position", "m", "measured, a step before"),
)
SIZE = action.N + len(MEMORY)
STATE = action.STATE + MEMORY

_REGULATED = ("let_off", "hammer_mass", "spring_preload", "lever_spring", "knuckle_edge", "reset_tolerance")
PARAMETERS = (
    *(Parameter(*each, group=REGULATION if each[0] in _REGULATED else "") for each in geometry.PARAMETERS),
    Parameter("key_rest", "rad", -0.0335, -0.05, 0.0, "angle of the measured key at position 0"),
    Parameter("longest_step", "s", 1e-4, 2e-5, 5e-4, "of the integration inside a step"),
    Parameter("damper_at", "rad", -0.028, -0.05, 0.0, "angle of the key below which the damper is on the string"),
)
S, P = places("S", (name for name, *_ in STATE)), places("P", PARAMETERS)
_FARTHEST = 0.1  # m, of a position that is taken as it is
_FASTEST = 20.0  # rad/s, of a measured key
_APPROACH = 0.2  # rad/s, at the start
_LOWEST, _HIGHEST = -0.05, 0.03  # rad, of a measured key


def begin(state: np.ndarray) -> None:
    state[:] = 0.0
    state[action.QK], state[action.QH], state[action.QR] = geometry.Q1, geometry.Q2, geometry.Q3


@kernel()
def measured(position, velocity, last, begun, h):
    """Position and velocity of the front of the key within what a key does; a velocity that is not measured is the
    difference of two positions."""
    position = last if np.isnan(position) else min(max(position, -_FARTHEST), _FARTHEST)
    if np.isnan(velocity):
        velocity = (position - last) / h if begun > 0.0 else 0.0
    most = _FASTEST * geometry.FRONT
    return position, min(max(velocity, -most), most)


@kernel()
def advance(state, position, velocity, params, extra_mass, scratch, h):
    """A step of one key; its forces are in what `scratch` and the state hold then."""
    x = state[: action.N]
    for i in range(len(geometry.PARAMETERS)):
        scratch[i] = params[i]
    scratch[action.M1] = max(scratch[action.M1] + extra_mass, 1e-3)
    if state[action.TIME] == 0.0:
        x[action.DRIVER] = params[P.key_rest]
        state[S.energy_before] = action.stored(0, x, scratch)
    wanted = min(max(params[P.key_rest] + (position + velocity * h) / geometry.FRONT, _LOWEST), _HIGHEST)
    rate = (wanted - x[action.DRIVER]) / h
    fastest = _FASTEST if state[S.begun] > 0.0 else _APPROACH
    if abs(rate) <= fastest:
        state[S.begun] = 1.0
        scratch[action.SEEN_RATE] = velocity / geometry.FRONT
    else:
        rate = fastest if rate > 0.0 else -fastest
        scratch[action.SEEN_RATE] = rate
    scratch[action.PATH_RATE] = rate
    struck = state[action.STRIKES]
    mode, exceeded = action.advance(int(state[S.phase_now]), x, scratch, h, params[P.longest_step])
    state[S.phase_now] = mode
    state[S.exceeded] += exceeded
    state[S.last_position] = position
    if state[action.STRIKES] > struck:
        state[S.undamped] = 1.0
    elif x[action.QK] < params[P.damper_at]:
        state[S.undamped] = 0.0
