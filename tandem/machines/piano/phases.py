"""The machine `piano_phases`: one piano key under a finger, by the phase model or a small object: see docs/piano.md.

The measured position of the key's front comes in, down is positive; the force that opposes the finger goes out. A
strike is a count that rises, with its speed and how long before the end of the step it was.
"""

import numpy as np

from sim_service.contract.machine import STEP, Efforts, Machine, Parameter, Quantity, Shown, Tables, places
from sync.compile.jit import kernel
from tandem.machines.piano import action, drawing, geometry, keys, port, small

INPUTS = port.INPUTS
STATES = tuple(
    Quantity(*each)
    for each in (*keys.STATE, *small.STATE, ("small_mode", "1", "submodel"), ("small_strikes", "1", "of it"),
                 ("small_strike_at", "s", "the last one"), ("small_strike_speed", "m/s", "then"))
)  # fmt: skip
OUTPUTS = (
    *port.FORCES,
    Quantity("torque", "N m", "of the coupler"),
    port.PHASE,
    Quantity("key_travel", "m", "of the front of the virtual key, from where it rests"),
    Quantity("key", "rad", "q1"),
    port.HAMMER,
    Quantity("lever", "rad", "q3"),
    Quantity("whippen", "rad", "q5"),
    Quantity("jack", "rad", "q6"),
    Quantity("jack_overlap", "m", "q4: jack and knuckle; below 0 they are apart"),
    Quantity("jack_place", "m", "q9: of the jack's head along the knuckle"),
    Quantity("toe_gap", "m", "of the jack's toe to the let-off button, the jack at its stop"),
    *port.STRIKES,
    *port.ENERGY,
    Quantity("phase_changes", "1", "so far"),
    Quantity("events_exceeded", "1", "pieces of a step with too many events"),
    port.PORT,
)
PARAMETERS = (
    *keys.PARAMETERS,
    *(Parameter(*each) for each in small.PARAMETERS),
    Parameter("object", "1", 0.0, 0.0, 3.0, "0 action, 1 two-mass key, 2 hammer, key and bed, 3 plectrum", live=False),
    port.NOTE,
)
S, P, W = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS)
I = places("I", INPUTS)  # noqa: E741  the letter of the field
_SMALL = len(keys.PARAMETERS)
_X = keys.SIZE
_SCRATCH = len(OUTPUTS)


@kernel()
def _step_small(thing, state, position, velocity, params, work, scratch, h):
    for i in range(len(small.PARAMETERS)):
        scratch[i] = params[_SMALL + i]
    x = state[_X : _X + small.N]
    if x[small.ONE] == 0.0:
        x[small.PORT] = x[small.XK] = x[small.XH] = position
    scratch[small.STRUCK], scratch[small.STRUCK_AT], scratch[small.STRUCK_SPEED] = (
        state[S.small_strikes],
        state[S.small_strike_at],
        state[S.small_strike_speed],
    )
    mode, force, exceeded = small.advance(
        thing, int(state[S.small_mode]), x, scratch, position + velocity * h, velocity, h
    )  # fmt: skip
    state[S.small_mode] = mode
    state[S.small_strikes], state[S.small_strike_at], state[S.small_strike_speed] = (
        scratch[small.STRUCK],
        scratch[small.STRUCK_AT],
        scratch[small.STRUCK_SPEED],
    )
    state[S.exceeded] += exceeded
    state[S.last_position], state[S.begun] = position, 1.0
    for i in range(_SCRATCH):
        work[i] = 0.0
    work[W.tip_force] = work[W.pilot_force] = force
    work[W.torque] = force * geometry.FRONT
    work[W.phase] = mode
    work[W.key_travel] = x[small.PORT] if thing == small.PLECTRUM else x[small.XK]
    work[W.key] = geometry.Q1 + work[W.key_travel] / geometry.FRONT
    work[W.hammer] = x[small.XH]
    work[W.strike_count], work[W.strike_speed] = state[S.small_strikes], state[S.small_strike_speed]
    work[W.strike_age] = x[small.CLOCK] - state[S.small_strike_at] if state[S.small_strikes] > 0.0 else 0.0
    work[W.sounding] = 1.0 if state[S.small_strikes] > 0.0 else 0.0
    work[W.events_exceeded] = state[S.exceeded]
    work[W.port] = position


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    position, velocity = keys.measured(
        inputs[I.position], inputs[I.velocity], state[S.last_position], state[S.begun], h
    )
    inputs[I.velocity] = velocity
    scratch = work[_SCRATCH:]
    thing = int(params[P.object])
    if thing != small.ACTION:
        _step_small(thing, state, position, velocity, params, work, scratch, h)
        return
    keys.advance(state, position, velocity, params, 0.0, scratch, h)
    x, mode = state[: action.N], int(state[S.phase_now])
    button = geometry.BUTTON + scratch[action.HIGHER]
    q5, _, _, _, _, q6, dq6, jx, jy, djx, djy = action.jack_at(mode, x[action.QK], button)
    q4, q9, _, _, _, _ = action.knuckle(x[action.QH], q6, dq6, jx, jy, djx, djy)
    torque = action.coupler(x, scratch)
    work[W.tip_force], work[W.torque] = torque / geometry.FRONT, torque
    work[W.pilot_force] = action.pilot_torque(mode, x, scratch) / geometry.CAPSTAN
    work[W.phase] = mode
    work[W.key_travel] = (x[action.QK] - geometry.Q1) * geometry.FRONT
    work[W.key], work[W.hammer], work[W.lever] = x[action.QK], x[action.QH], x[action.QR]
    work[W.whippen], work[W.jack] = q5, q6
    work[W.jack_overlap], work[W.jack_place] = q4, q9
    work[W.toe_gap] = action.toe_gap(x[action.QK], button)
    work[W.strike_count], work[W.strike_speed] = x[action.STRIKES], x[action.STRIKE_RATE] * geometry.SHANK
    work[W.strike_age] = x[action.TIME] - x[action.STRIKE_AT] if x[action.STRIKES] > 0.0 else 0.0
    work[W.sounding] = state[S.undamped]
    work[W.work_done] = x[action.WORK]
    work[W.energy_error] = action.stored(mode, x, scratch) - state[S.energy_before] - x[action.WORK] + x[action.LOST]
    work[W.phase_changes], work[W.events_exceeded] = x[action.CHANGES], state[S.exceeded]
    work[W.port] = position


def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    keys.begin(state)
    work[:] = 0.0


def frames(state, params, out):
    drawing.pose(state[: action.N], int(state[S.phase_now]), params, out)


MACHINE = Machine(
    name="piano_phases",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    work_size=_SCRATCH + max(action.ACTION_SCRATCH, small.SMALL_SCRATCH),
    capabilities=(
        Shown(display=port.DISPLAY, scene=drawing.scene(), frames=frames),
        Efforts(("tip_force", "pilot_force")),
    ),
)
