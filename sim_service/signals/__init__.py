"""Signals: raw counts of a block into the inputs of a vehicle model. The one place where conversion happens.

The order of the result is VEHICLE_INPUTS of sim_service/models/vehicle.py. Only the angle of the steering wheel is
measured; its speed and acceleration are estimated (sim_service/signals/estimators.py), from the angle at every step or
from every block. A gap (new epoch) restarts the estimator: an angle is never differentiated across it. A value that
was held for some blocks (a bus slower than they are) is observed once, at the instant its age tells.

Every input is finite, and none is beyond what its channel can be: what is, is clipped and told. What is too old goes
the way of its channel's policy (sim_service/signals/stale.py).
"""

import math

import numpy as np

from sim_service.signals.engine import drive_torque
from sim_service.signals.estimators import MEMORY, estimate, from_counts, observe, parameters
from sim_service.signals.stages import BITS, CHANNELS, FRESH
from sim_service.signals.stale import CHANNEL, LIMIT_NS, WORDS, aged
from sync.block import AGE, Layout, T
from sync.block_values import get_integer
from sync.config import Signals
from sync.jit import kernel

(
    _STEERING_ZERO, _THROTTLE_FULL, _THROTTLE_ZERO, _BAR_PER_COUNT, _BRAKE_ZERO, _RATIO, _STEERING_MOST, _BRAKE_MOST,
    _BRAKE_LEAST,
) = range(9)  # fmt: skip
_SLACK = 0.25  # of its range a pedal may be beyond its ends, as it was calibrated
_STEERING, _THROTTLE, _BRAKE = range(3)
_AGES = 3  # rows of their ages follow those of the channels; 0 bits: it has none
_NO_AGE = np.zeros(4, np.int64)


def tables(
    signals: Signals, layout: Layout, step_s: float, period_s: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(rows of the three channels and of their ages, calibration, estimator, its memory), for the kernels below."""
    by_name = dict(zip(layout.names, layout.table, strict=True))
    rows = np.stack([by_name[c] for c in CHANNELS] + [by_name.get(c + AGE, _NO_AGE) for c in CHANNELS])
    rad_per_count = math.radians(signals.steering_deg_per_count) * signals.steering_sign
    calibration = np.array(
        [
            signals.steering_zero_counts * rad_per_count,
            signals.throttle_full_counts,
            signals.throttle_zero_counts,
            signals.brake_full_bar / signals.brake_full_counts,
            signals.brake_zero_counts,
            signals.gear_ratio * signals.final_ratio,
            math.radians(signals.steering_most_deg),
            signals.brake_most_bar,
            -_SLACK * signals.brake_full_bar,
        ]
    )
    kind = signals.steering_estimator
    return (
        rows,
        calibration,
        parameters(kind, signals.differentiator, step_s, period_s, rad_per_count),
        np.zeros(MEMORY),
    )


@kernel()
def _age_ns(block, rows, channel):
    """How much older than the block's instant this channel's value is."""
    row = rows[_AGES + channel]
    return get_integer(block, row) * 1000 if row[2] > 0 else np.int64(0)


@kernel()
def oldest(block, rows):
    """(the channel, by how much) of the value that is older than the block than the others."""
    channel = _STEERING
    for other in (_THROTTLE, _BRAKE):
        if _age_ns(block, rows, other) > _age_ns(block, rows, channel):
            channel = other
    return channel, _age_ns(block, rows, channel)


@kernel()
def steering_is_fresh(block, age_ns, rows, policy):
    """Whether the angle in this block is young enough to be taken as it is."""
    return age_ns + _age_ns(block, rows, _STEERING) <= policy[LIMIT_NS]


@kernel()
def observe_steering(block, rows, estimator, memory):
    """Every block passes here once, in order."""
    observe(memory, estimator, block[T] - _age_ns(block, rows, _STEERING), get_integer(block, rows[_STEERING]))


@kernel()
def vehicle_inputs(block, rows, calibration, estimator, memory, wheel_speed, h, inputs):
    """Returns a bit for every channel that had to be clipped from beyond what it can be."""
    beyond = 0
    counts = get_integer(block, rows[_STEERING])
    angle, speed, acceleration = estimate(memory, estimator, block[T], counts, h)
    if not math.isfinite(angle + speed + acceleration):
        memory[:] = 0.0  # it has nothing to go on from
        angle, speed, acceleration = from_counts(estimator, counts), 0.0, 0.0
        beyond |= 1 << _STEERING
    angle -= calibration[_STEERING_ZERO]
    most = calibration[_STEERING_MOST]
    if abs(angle) > most:
        angle, speed, acceleration = min(max(angle, -most), most), 0.0, 0.0
        beyond |= 1 << _STEERING
    inputs[0], inputs[1], inputs[2] = angle, speed, acceleration
    throttle = (get_integer(block, rows[_THROTTLE]) - calibration[_THROTTLE_ZERO]) / calibration[_THROTTLE_FULL]
    if throttle < -_SLACK or throttle > 1.0 + _SLACK:
        beyond |= 1 << _THROTTLE
    inputs[3] = min(max(throttle, 0.0), 1.0)
    pressure = (get_integer(block, rows[_BRAKE]) - calibration[_BRAKE_ZERO]) * calibration[_BAR_PER_COUNT]
    if pressure < calibration[_BRAKE_LEAST] or pressure > calibration[_BRAKE_MOST]:
        beyond |= 1 << _BRAKE
    # a little below zero is noise of the sensor
    inputs[4] = min(max(pressure, 0.0), calibration[_BRAKE_MOST])
    inputs[5] = drive_torque(inputs[3], wheel_speed, calibration[_RATIO])
    return beyond


@kernel()
def let_age(block, age_ns, rows, calibration, policy, wheel_speed, inputs):
    """What the age of a block that is used makes of its inputs; returns the stages of the channels, a word."""
    since = age_ns - policy[LIMIT_NS]
    steering, throttle, brake = policy[CHANNEL:], policy[CHANNEL + WORDS :], policy[CHANNEL + 2 * WORDS :]
    inputs[0], inputs[1], stage = aged(inputs[0], inputs[1], since + _age_ns(block, rows, _STEERING), steering)
    stages = stage
    if stage != FRESH:
        inputs[2] = 0.0
    inputs[3], _, stage = aged(inputs[3], 0.0, since + _age_ns(block, rows, _THROTTLE), throttle)
    stages |= stage << (_THROTTLE * BITS)
    if stage != FRESH:
        inputs[5] = drive_torque(inputs[3], wheel_speed, calibration[_RATIO])
    inputs[4], _, stage = aged(inputs[4], 0.0, since + _age_ns(block, rows, _BRAKE), brake)
    return stages | stage << (_BRAKE * BITS)
