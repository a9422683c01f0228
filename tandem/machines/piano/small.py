"""Small objects in place of the action: the two-mass key, hammer, key and bed in four states, a harpsichord's plectrum.

All is at the front of the key: m, N, kg referred to it, up at the hammer's side as the key goes down. Source: R. B.
Gillespie, 1996, 2.3.4 and 3.4.1. The two-mass key is a hammer on a key by a spring that never pulls, the key between
two ends of its travel; without the upper end it is the machine with four states. Their pieces are linear, their flow
exact (sync/signals/linear_flow.py). The plectrum is a static law in three states: below the string, lifting it, above;
on the way down the tongue swings aside.
"""

from sync.compile.jit import kernel
from sync.signals.linear_flow import flow
from sync.signals.piecewise import SCRATCH as EVENT_SCRATCH
from sync.signals.piecewise import sequence

ACTION, TWO_MASS, FOUR_STATES, PLECTRUM = range(4)

STATE = (
    ("small_key", "m", "of the small object's key"),
    ("small_key_rate", "m/s", "its velocity"),
    ("small_hammer", "m", "of its hammer"),
    ("small_hammer_rate", "m/s", "its velocity"),
    ("small_port", "m", "of the measured key"),
    ("small_time", "s", "since the start"),
    ("small_one", "1", "1 once it has begun"),
)
XK, VK, XH, VH, PORT, CLOCK, ONE = range(7)
N = len(STATE)
# submodels of the two masses: 1 where they touch, plus 2 at the lower end, 4 at the upper; of the plectrum: below the
# string, lifting it, above
PARAMETERS = (
    ("small_hammer_mass", "kg", 0.139, 1e-3, 10.0, "of the two-mass key, at the front of the key"),
    ("small_key_mass", "kg", 0.069, 1e-3, 10.0, "likewise"),
    ("small_contact", "N/m", 1331.0, 1.0, 1e5, "between its hammer and its key"),
    ("small_hammer_fall", "m/s2", 4.2, 0.0, 100.0, "acceleration of its hammer's fall"),
    ("small_key_weight", "N", 0.43, 0.0, 100.0, "with which its key returns"),
    ("small_coupler", "N/m", 3827.0, 1.0, 1e5, "from the measured key to it"),
    ("small_coupler_damping", "N s/m", 15.7, 0.0, 1e3, "likewise"),
    ("small_bed", "N/m", 1531.0, 1.0, 1e5, "of both ends of its travel"),
    ("small_down", "m", 8e-3, 0.0, 0.05, "the lower end"),
    ("small_up", "m", -0.5e-3, -0.05, 0.0, "the upper end"),
    ("small_string", "m", 0.02, 0.0, 1.0, "where its hammer meets the string"),
    ("plectrum_string", "m", 3e-3, 0.0, 0.05, "where the plectrum meets the string"),
    ("plectrum_stiffness", "N/m", 600.0, 0.0, 1e5, "with which it lifts the string"),
    ("plectrum_pluck", "N", 1.2, 0.0, 100.0, "at which it plucks"),
    ("plectrum_weight", "N", 0.3, 0.0, 100.0, "of its jack and key"),
)
(
    M_H, M_K, CONTACT, FALL, WEIGHT, COUPLER, COUPLER_DAMPING, BED, DOWN, UP, STRING, P_STRING, P_STIFFNESS, P_PLUCK,
    P_WEIGHT,
) = range(len(PARAMETERS))  # fmt: skip
UPPER_END = len(PARAMETERS)  # 1: there is one
RATE = UPPER_END + 1
STRUCK, STRUCK_AT, STRUCK_SPEED = RATE + 1, RATE + 2, RATE + 3
_MATRICES = STRUCK_SPEED + 1
_FLOW = _MATRICES + 6 * N * N
_EVENTS = _FLOW + 2 * N
SMALL_SCRATCH = _EVENTS + EVENT_SCRATCH * N


@kernel()
def _describe(scratch, rate, seen):
    """Matrices of the six submodels."""
    for i in range(6 * N * N):
        scratch[_MATRICES + i] = 0.0
    for mode in range(6):
        a = scratch[_MATRICES + mode * N * N : _MATRICES + (mode + 1) * N * N]
        touch, end = mode % 2, mode // 2
        a[N * XK + VK] = a[N * XH + VH] = a[N * CLOCK + ONE] = 1.0
        a[N * PORT + ONE] = rate
        a[N * VK + PORT], a[N * VK + XK] = scratch[COUPLER] / scratch[M_K], -scratch[COUPLER] / scratch[M_K]
        a[N * VK + VK] = -scratch[COUPLER_DAMPING] / scratch[M_K]
        a[N * VK + ONE] = (scratch[COUPLER_DAMPING] * seen - scratch[WEIGHT]) / scratch[M_K]
        a[N * VH + ONE] = -scratch[FALL]
        if touch:
            a[N * VH + XK], a[N * VH + XH] = scratch[CONTACT] / scratch[M_H], -scratch[CONTACT] / scratch[M_H]
            a[N * VK + XK] -= scratch[CONTACT] / scratch[M_K]
            a[N * VK + XH] = scratch[CONTACT] / scratch[M_K]
        if end > 0:
            a[N * VK + XK] -= scratch[BED] / scratch[M_K]
            a[N * VK + ONE] += scratch[BED] * (scratch[DOWN] if end == 1 else scratch[UP]) / scratch[M_K]


@kernel()
def _flow_two(mode, x, data, h, out):
    at = _MATRICES + mode * N * N
    flow(data[at : at + N * N], x, h, out, data[_FLOW : _FLOW + 2 * N])


@kernel()
def _indicate_two(mode, x, data, gaps):
    touch, end = mode % 2, mode // 2
    apart = x[XH] - x[XK]
    if touch:
        gaps[mode - 1] = -apart
    else:
        gaps[mode + 1] = apart
    if end == 0:
        gaps[touch + 2] = data[DOWN] - x[XK]
        if data[UPPER_END] > 0.0:
            gaps[touch + 4] = x[XK] - data[UP]
    elif end == 1:
        gaps[touch] = x[XK] - data[DOWN]
    else:
        gaps[touch] = data[UP] - x[XK]
    if x[VH] > 0.0:
        gaps[mode] = data[STRING] - x[XH]


@kernel()
def _strike(x, data, speed):
    data[STRUCK] += 1.0
    data[STRUCK_AT], data[STRUCK_SPEED] = x[CLOCK], speed


@kernel()
def _switch_two(mode, to, x, data):
    if to == mode:
        _strike(x, data, x[VH])
        x[VH] = -x[VH]


@kernel()
def _flow_plectrum(mode, x, data, h, out):
    for i in range(N):
        out[i] = x[i]
    out[PORT] += data[RATE] * h
    out[CLOCK] += h


@kernel()
def _indicate_plectrum(mode, x, data, gaps):
    above = x[PORT] - data[P_STRING]
    if mode == 0:
        gaps[1] = -above
    elif mode == 1:
        gaps[0] = above
        gaps[2] = data[P_PLUCK] - data[P_STIFFNESS] * above
    else:
        gaps[0] = above


@kernel()
def _switch_plectrum(mode, to, x, data):
    if to == 2:
        _strike(x, data, data[RATE])


_advance_two = sequence(_flow_two, _indicate_two, _switch_two)
_advance_plectrum = sequence(_flow_plectrum, _indicate_plectrum, _switch_plectrum)


@kernel()
def advance(thing, mode, x, data, target, seen, h):
    """The object a step on, the measured key at `target` then: (submodel, felt force, whether there were too many
    events). Strikes are left in `data`."""
    data[RATE] = (target - x[PORT]) / h
    data[UPPER_END] = 1.0 if thing == TWO_MASS else 0.0
    scratch = data[_EVENTS : _EVENTS + EVENT_SCRATCH * N]
    x[ONE] = 1.0
    if thing == PLECTRUM:
        mode, _, exceeded = _advance_plectrum(min(mode, 2), x, data, scratch, h, 1)
        lift = data[P_STIFFNESS] * max(x[PORT] - data[P_STRING], 0.0) if mode == 1 else 0.0
        return mode, data[P_WEIGHT] + lift, exceeded
    _describe(data, data[RATE], seen)
    mode, _, exceeded = _advance_two(mode, x, data, scratch, h, 1)
    return mode, data[COUPLER] * (x[PORT] - x[XK]) + data[COUPLER_DAMPING] * (seen - x[VK]), exceeded
