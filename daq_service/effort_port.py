"""Efforts between steps: the model of a port that a slow machine hands over, evaluated at the newest sample.

A machine that is stepped every 5 ms is too slow for a hand. Each of its steps may also give a model of its effort until
the next one: the effort a step ahead, if the motion of the port goes on at its acceleration; the effort half way there;
and the derivatives of the effort by angle, speed and acceleration (of a mass: kilograms). Between steps the effort is

    F(tau) = F + (F_ahead - F) tau/h + (k d_x + b d_v) tau/h + m d_a + c (tau/h - 1) min(tau/h, 1)
    c = 2 (F - 2 F_middle + F_ahead), or 0 if a step has no F_middle

with tau from the sample that the step used to the newest one, and d_... the deviation of the port's motion from motion
at that acceleration. The motion comes from the samples themselves, by the same estimator that the simulator has for
them (sync/signals/estimators.py), so that both agree at tau = 0. A model older than two steps is not used: its effort
holds.

`port_effort` alone computes it, from the step, the two instants and the motion, which every effort records: a replay
computes it again, bit for bit.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64

from daq_service import effort_record as rec
from daq_service.effort_settings import EffortSettings
from sync.compile.array_types import VECTOR, WORDS, group
from sync.compile.atomics import load_acquire
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.config.input_rows import Encoder
from sync.ring.block import EPOCH, PUSHED, Layout, T
from sync.ring.block_values import get_integer
from sync.ring.ring import HEAD_WORD, read_slot
from sync.signals import estimators
from sync.signals.estimators import estimate, observe

# of a step: its effort, the one ahead, derivatives; then its motion; the effort half way, NaN if a step has none
EFFORT, AHEAD, STIFFNESS, DAMPING, INERTIA, ANGLE, SPEED, ACCELERATION, MIDDLE = range(9)
MODEL = 9
REACH = 2.0  # steps
_MOST_BLOCKS = 256  # that are read at once; if there are more, the estimator bridges the gap or is reset

# words of `seen`: the next block, the epoch of the last one, its instant (0: there is none), how late it was pushed
NEXT, SEEN_EPOCH, AT_NS, LATE_NS = range(4)
# numbers: the zero that is subtracted, limits, s between blocks; then the estimator's
_ZERO, _LEAST, _MOST, _PERIOD, _OWN = range(5)


class Port(NamedTuple):
    """What tracks the motion; the newest model and motion. Unused if efforts have no port model."""

    channel: np.ndarray  # its row of the layout's table
    places: np.ndarray  # of MODEL in a step's block
    block: np.ndarray
    numbers: np.ndarray
    memory: np.ndarray  # of the estimator
    seen: np.ndarray
    model: np.ndarray  # of the newest step
    motion: np.ndarray  # angle, speed, acceleration at the newest sample


PORT = group(Port, WORDS, WORDS, WORDS, VECTOR, VECTOR, WORDS, VECTOR, VECTOR)


def no_port() -> Port:
    words, numbers = np.zeros(4, np.int64), np.zeros(_OWN + estimators.PARAMETERS)
    places, memory, model = np.full(MODEL, -1), np.zeros(estimators.MEMORY), np.zeros(MODEL)
    return Port(words, places, words, numbers, memory, words, model, np.zeros(3))


def follower(config: Config, effort: EffortSettings) -> Port:
    """The port of a configuration that `check_port` has passed."""
    assert effort.port is not None
    row, layout = config.inputs[effort.port.input], config.daq.layout
    assert isinstance(row, Encoder)
    return make_follower(row, layout, 1e-9 * config.step_ns, 1e-9 * config.period_ns)


def make_follower(row: Encoder, layout: Layout, step_s: float, period_s: float) -> Port:
    per_count = row.in_si(row.per_count) * row.sign
    least = -math.inf if row.least is None else row.in_si(row.least)
    most = math.inf if row.most is None else row.in_si(row.most)
    own = estimators.parameters(row.estimator, row.differentiator, step_s, period_s, per_count, row.motion)
    return Port(
        np.ascontiguousarray(layout.table[layout.names.index(row.channel)]).astype(np.int64),
        np.full(MODEL, -1), np.zeros(layout.words, np.int64),
        np.array([row.zero_counts * per_count, least, most, period_s, *own]), np.zeros(estimators.MEMORY),
        np.array([0, -1, 0, 0]), np.zeros(MODEL), np.zeros(3),
    )  # fmt: skip


def model_names(effort: EffortSettings) -> tuple[str, ...]:
    """Names of a step's channels, in the order of MODEL; "" for one that it does not have."""
    assert effort.port is not None
    return (effort.channel, effort.port.ahead, *effort.port.slopes, *effort.port.motion, effort.port.middle)


@kernel()
def follow_motion(blocks, port):
    """Pass every block since the last call through the estimator."""
    head = load_acquire(blocks, HEAD_WORD)
    seen, block, memory, numbers = port.seen, port.block, port.memory, port.numbers
    if head <= seen[NEXT]:
        return
    own, counts = numbers[_OWN:], 0
    for n in range(max(seen[NEXT], head - _MOST_BLOCKS), head):
        if not read_slot(blocks, n, block):
            continue  # overwritten: a gap, which the estimator sees by its length
        if block[EPOCH] != seen[SEEN_EPOCH]:
            memory[:] = 0.0
            seen[SEEN_EPOCH] = block[EPOCH]
        counts = get_integer(block, port.channel)
        observe(memory, own, block[T], counts)
        seen[AT_NS], seen[LATE_NS] = block[T], block[PUSHED] - block[T]
    seen[NEXT] = head
    value, rate, acceleration = estimate(memory, own, seen[AT_NS], counts, numbers[_PERIOD])
    value -= numbers[_ZERO]
    if value < numbers[_LEAST] or value > numbers[_MOST]:
        rate = acceleration = 0.0
    port.motion[0] = min(max(value, numbers[_LEAST]), numbers[_MOST])
    port.motion[1], port.motion[2] = rate, acceleration


@kernel()
def take_model(step, port):
    """Take the model of a new step; False if it is not finite."""
    values, total = step.view(np.float64), 0.0
    for i in range(MODEL):
        total += abs(values[port.places[i]]) if port.places[i] >= 0 else 0.0
    if not math.isfinite(total):
        return False
    for i in range(MODEL):
        port.model[i] = values[port.places[i]] if port.places[i] >= 0 else math.nan
    return True


@kernel(float64(VECTOR, float64, float64, float64, int64, int64, int64, boolean))
def port_effort(model, angle, speed, acceleration, sampled, moved, step_ns, new):
    """The effort at the sample of instant `moved`, by the model of a step that used the sample of `sampled`. If that is
    unknown or too old: the step's own effort if the step is new, otherwise NaN."""
    if sampled == 0 or moved <= sampled or moved - sampled > REACH * step_ns:
        return model[EFFORT] if new else math.nan
    tau, share = (moved - sampled) * 1e-9, (moved - sampled) / step_ns
    x = model[ANGLE] + tau * (model[SPEED] + 0.5 * tau * model[ACCELERATION])
    v = model[SPEED] + tau * model[ACCELERATION]
    effort = (
        model[EFFORT]
        + share * (model[AHEAD] - model[EFFORT] + model[STIFFNESS] * (angle - x) + model[DAMPING] * (speed - v))
        + model[INERTIA] * (acceleration - model[ACCELERATION])
    )
    if not math.isnan(model[MIDDLE]):
        # a parabola within the step, its tangent beyond: a parabola bent by a stop or a kerb would lead astray there
        bend = 2.0 * (model[EFFORT] - 2.0 * model[MIDDLE] + model[AHEAD])
        effort += bend * (share - 1.0) * min(share, 1.0)
    return effort


@kernel()
def describe_motion(effort, port):
    """Write the motion by which an effort was made into its block."""
    values = effort.view(np.float64)
    effort[rec.AT_MOTION] = port.seen[AT_NS]
    for i in range(3):
        values[rec.AT_ANGLE + i] = port.motion[i]
