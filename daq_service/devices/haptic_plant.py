"""The mechanics of the virtual haptic device: a mass with friction, an actuator, a hand. Integrated exactly.

Between two instants at which something changes (a sample, an effort that begins to act, a corner of the hand's intended
motion) the device is a linear system, and its flow is the matrix exponential (sync/signals/linear_flow.py). Dry
friction makes it piecewise linear: the device sticks, or slips to either side, and the instants of change are located
(sync/signals/piecewise.py). A hand that only pushes leaves the device when it would have to pull, and when it returns
both go on with their common momentum. Saturation limits what the actuator gets. The same efforts at the same instants
give the same bits.

Efforts come through a queue with one writer, the effort loop, and one reader, which samples. Each has the instant at
which it was handed over, and acts a dead time later; one that arrives after a sample that it should have changed acts
from that sample on, and is counted.
"""

import math

import numpy as np
from numba import cfunc, int64, types

from daq_service.devices.haptic_settings import Axis, Hand, Motion
from sync.clock import now_ns
from sync.compile.array_types import MATRIX, VECTOR, WORDS
from sync.compile.atomics import load_acquire, store_release
from sync.compile.jit import kernel
from sync.signals.linear_flow import flow as linear_flow
from sync.signals.piecewise import SCRATCH, sequence

# the state: position, velocity, force of the actuator, what it was commanded; the hand's intended motion: the straight
# part with its rate, sine and cosine of the rest; one; a hand that has left the device, its position and velocity
X, V, FORCE, COMMANDED, R, RATE, SINE, COSINE, ONE, HAND_X, HAND_V = range(11)
STATES = 11
_MATRIX = STATES * STATES
STICKS, FORWARD, BACKWARD, FREE, RIGID, APART = range(6)

# numbers of the plant
(
    FRICTION, SATURATION, NEWTON, AMPLITUDE, OMEGA, HAND_MASS, HAND_DAMPING, HAND_STIFFNESS, BIAS,
    MASS, DAMPING, STIFFNESS, DRY, LAGS, PUSHES,
) = range(15)  # fmt: skip
# words of the plant: its instant; the next effort of the queue; the submodel; the next corner and when its round began;
# dead time; period; and what is counted
(
    AT, TAKEN, MODE, CORNER, BEGAN, DEAD_NS, PERIOD_NS, EVENTS, EXCEEDED, LATE, MISSED,
) = range(11)  # fmt: skip
PLANT_WORDS = 11

# the queue, a vector of numbers: the last effort; how many there were; then pairs of instant and effort
LAST, COUNT, PAIRS = range(3)
CAPACITY = 4096
_MARGIN = 8  # efforts that may be written while one is read
NEVER = 2**62


def new_queue() -> np.ndarray:
    return np.zeros(PAIRS + 2 * CAPACITY)


@kernel(types.void(VECTOR, types.float64, int64))
def hand_over(queue, effort, instant):
    """Put an effort that was handed over at this instant into the queue."""
    words = queue.view(np.int64)
    count = words[COUNT]
    pair = PAIRS + 2 * (count % CAPACITY)
    words[pair] = instant
    queue[pair + 1] = effort
    queue[LAST] = effort
    store_release(words, COUNT, count + 1)


@cfunc(types.int64(types.float64, VECTOR), nopython=True, cache=True)
def put(effort, queue):
    """What the effort loop calls: see PUT in daq_service/effort.py."""
    hand_over(queue, effort, now_ns())
    return 0


# ---- the submodels ---------------------------------------------------------------------------------------------------


def matrices(settings: Axis) -> np.ndarray:
    """A matrix of the state's rate for each submodel, one after the other."""
    hand = settings.hand or Hand(mass=0.0, damping=0.0, stiffness=0.0)
    mass = settings.mass + hand.mass
    motion, omega = hand.motion, 2.0 * math.pi * hand.motion.hz
    a = np.zeros((STATES, STATES))
    a[X, V] = 1.0
    a[V, X] = -(hand.stiffness + settings.stiffness) / mass
    a[V, V] = -(hand.damping + settings.damping) / mass
    a[V, FORCE if settings.bandwidth_hz else COMMANDED] = -1.0 / mass
    a[V, R], a[V, SINE] = hand.stiffness / mass, hand.stiffness * motion.amplitude / mass
    a[V, RATE], a[V, COSINE] = hand.damping / mass, hand.damping * motion.amplitude * omega / mass
    a[V, ONE] = hand.bias / mass
    if settings.bandwidth_hz:
        lag = 2.0 * math.pi * settings.bandwidth_hz
        a[FORCE, COMMANDED], a[FORCE, FORCE] = lag, -lag
    a[R, RATE] = 1.0
    a[SINE, COSINE], a[COSINE, SINE] = omega, -omega
    every = np.repeat(a[None], 6, axis=0)
    every[FORWARD, V, ONE] -= settings.friction / mass
    every[BACKWARD, V, ONE] += settings.friction / mass
    every[STICKS, [X, V]] = every[RIGID, [X, V]] = 0.0
    if hand.pushes:
        apart, own = every[APART], mass / hand.mass
        apart[HAND_X, HAND_V] = 1.0
        apart[HAND_V] = own * a[V]
        apart[HAND_V, [X, V, FORCE, COMMANDED]] = 0.0
        apart[HAND_V, [HAND_X, HAND_V]] = -hand.stiffness / hand.mass, -hand.damping / hand.mass
        apart[V] = 0.0
        apart[V, [X, V]] = -settings.stiffness / settings.mass, -settings.damping / settings.mass
        apart[V, FORCE if settings.bandwidth_hz else COMMANDED] = -1.0 / settings.mass
    return every.reshape(-1)


def numbers(settings: Axis) -> np.ndarray:
    hand = settings.hand or Hand(mass=0.0, damping=0.0, stiffness=0.0)
    mass = settings.mass + hand.mass
    return np.array(
        [
            settings.friction / mass, settings.saturation, settings.newton, hand.motion.amplitude,
            2.0 * math.pi * hand.motion.hz, hand.mass, hand.damping, hand.stiffness, hand.bias,
            settings.mass, settings.damping, settings.stiffness, settings.friction, float(settings.bandwidth_hz > 0),
            float(hand.pushes),
        ]
    )  # fmt: skip


def corners(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Instants (ns) after which a straight line begins, and its first value and slope. The last one holds."""
    t = np.array([p[0] for p in motion.points])
    r = np.array([p[1] for p in motion.points])
    slopes = np.append(np.diff(r) / np.diff(t), 0.0)
    if motion.period:
        slopes[-1] = (r[0] - r[-1]) / (motion.period - t[-1])
    return np.rint(t * 1e9).astype(np.int64), np.column_stack([r, slopes])


@kernel()
def acceleration(a, mode, x):
    """Acceleration of the mass, in this submodel."""
    total = 0.0
    for j in range(STATES):
        total += a[(mode * STATES + V) * STATES + j] * x[j]
    return total


@kernel()
def pushed(mode, x, a, par):
    """Force on the device of a hand that moves with it."""
    wants = x[R] + par[AMPLITUDE] * x[SINE]
    rate = x[RATE] + par[AMPLITUDE] * par[OMEGA] * x[COSINE]
    pull = par[BIAS] + par[HAND_STIFFNESS] * (wants - x[X]) + par[HAND_DAMPING] * (rate - x[V])
    return pull - par[HAND_MASS] * acceleration(a, mode, x)


@kernel()
def _flow(mode, x, data, h, out):
    a, _, scratch = data
    linear_flow(a[mode * _MATRIX : (mode + 1) * _MATRIX], x, h, out, scratch)


@kernel()
def _indicate(mode, x, data, gaps):
    a, par, _ = data
    if mode == FORWARD:
        gaps[STICKS] = x[V]
    elif mode == BACKWARD:
        gaps[STICKS] = -x[V]
    elif mode == STICKS:
        pull = acceleration(a, FREE, x)
        gaps[FORWARD] = par[FRICTION] - pull
        gaps[BACKWARD] = par[FRICTION] + pull
    elif mode == FREE and par[PUSHES] != 0.0:
        gaps[APART] = par[PUSHES] * pushed(mode, x, a, par)
    elif mode == APART:
        gaps[FREE] = par[PUSHES] * (x[X] - x[HAND_X])


@kernel()
def _switch(mode, to, x, data):
    if to == STICKS:
        x[V] = 0.0
    elif to == APART:
        x[HAND_X], x[HAND_V] = x[X], x[V]
    elif mode == APART:  # they move on together, with their common momentum
        _, par, _ = data
        x[V] = (par[MASS] * x[V] + par[HAND_MASS] * x[HAND_V]) / (par[MASS] + par[HAND_MASS])


_advance = sequence(_flow, _indicate, _switch)


# ---- through time ----------------------------------------------------------------------------------------------------


@kernel()
def _pass(plant, x, a, par, scratch, until):
    """Integrate to an instant before which nothing changes."""
    h = (until - plant[AT]) * 1e-9
    plant[AT] = until
    if h <= 0.0:
        return
    data = (a, par, scratch[SCRATCH * STATES :])
    mode, events, exceeded = _advance(plant[MODE], x, data, scratch[: SCRATCH * STATES], h, 1)
    plant[MODE] = mode
    plant[EVENTS] += events
    plant[EXCEEDED] += exceeded
    if mode == RIGID:
        x[X] = x[R] + par[AMPLITUDE] * x[SINE]
        x[V] = x[RATE] + par[AMPLITUDE] * par[OMEGA] * x[COSINE]


@kernel()
def _next_corner(plant, times):
    if plant[CORNER] < times.size:
        return plant[BEGAN] + times[plant[CORNER]]
    return plant[BEGAN] + plant[PERIOD_NS] if plant[PERIOD_NS] > 0 else NEVER


@kernel()
def _turn_corner(plant, x, times, lines):
    if plant[CORNER] >= times.size:
        plant[BEGAN] += plant[PERIOD_NS]
        plant[CORNER] = 0
    x[R], x[RATE] = lines[plant[CORNER], 0], lines[plant[CORNER], 1]
    plant[CORNER] += 1


@kernel()
def _give(x, par, effort):
    wanted = effort * par[NEWTON]
    if par[SATURATION] > 0.0:
        wanted = min(max(wanted, -par[SATURATION]), par[SATURATION])
    x[COMMANDED] = wanted


@kernel(types.void(WORDS, VECTOR, VECTOR, VECTOR, WORDS, MATRIX, VECTOR, VECTOR, int64))
def pass_until(plant, x, a, par, times, lines, scratch, queue, until):
    """Integrate to this instant, with every effort that acts by then and every corner of the motion."""
    words = queue.view(np.int64)
    count = load_acquire(words, COUNT)
    if count - plant[TAKEN] > CAPACITY - _MARGIN:
        plant[MISSED] += count - plant[TAKEN] - (CAPACITY - _MARGIN)
        plant[TAKEN] = count - (CAPACITY - _MARGIN)
    while True:
        acts, pair = NEVER, PAIRS + 2 * (plant[TAKEN] % CAPACITY)
        if plant[TAKEN] < count:
            acts = words[pair] + plant[DEAD_NS]
            if acts < plant[AT]:
                plant[LATE] += 1
                acts = plant[AT]
        corner = _next_corner(plant, times)
        instant = min(acts, corner)
        if instant > until:
            break
        _pass(plant, x, a, par, scratch, instant)
        if corner <= acts:
            _turn_corner(plant, x, times, lines)
        else:
            _give(x, par, queue[pair + 1])
            plant[TAKEN] += 1
    _pass(plant, x, a, par, scratch, until)


@kernel()
def hand_force(plant, x, a, par):
    """Force with which the hand pushes the device: what a sensor between them measures."""
    if plant[MODE] == RIGID:
        inertia = -par[MASS] * par[AMPLITUDE] * par[OMEGA] * par[OMEGA] * x[SINE]
        dry = par[DRY] if x[V] > 0.0 else -par[DRY] if x[V] < 0.0 else 0.0
        actuator = x[FORCE] if par[LAGS] > 0.0 else x[COMMANDED]
        return inertia + par[DAMPING] * x[V] + par[STIFFNESS] * x[X] + dry + actuator
    return 0.0 if plant[MODE] == APART else pushed(plant[MODE], x, a, par)


def new_scratch() -> np.ndarray:
    return np.zeros((SCRATCH + 2) * STATES)


def begin_plant(plant: np.ndarray, x: np.ndarray, settings: Axis, now: int, began: int) -> None:
    """At rest where the hand wants to be at first, with no effort; the hand's motion begins at `began`."""
    motion = settings.hand.motion if settings.hand else Motion()
    plant[:] = 0
    plant[AT], plant[BEGAN] = now, began
    plant[DEAD_NS], plant[PERIOD_NS] = round(settings.dead_time_ms * 1e6), round(motion.period * 1e9)
    rigid = settings.hand is not None and settings.hand.rigid
    plant[MODE] = RIGID if rigid else STICKS if settings.friction else FREE
    x[:] = 0.0
    x[X] = x[R] = motion.points[0][1]
    x[COSINE], x[ONE] = 1.0, 1.0
