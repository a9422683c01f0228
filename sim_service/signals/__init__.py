"""Signals: raw counts of a block into the inputs of a vehicle model. The one place where conversion happens.

The order of the result is VEHICLE_INPUTS of sim_service/models/vehicle.py. Only the angle of the steering wheel is
measured; its speed and acceleration are estimated (sim_service/signals/estimators.py), from the angle at every step or
from every block. A gap (new epoch) restarts the estimator: an angle is never differentiated across it. A value that
was held for some blocks (a bus slower than they are) is observed once, at the instant its age tells.
"""

import math

import numpy as np

from sim_service.signals.engine import drive_torque
from sim_service.signals.estimators import MEMORY, estimate, observe, parameters
from sync.block import AGE, Layout, T, get_integer
from sync.config import Signals
from sync.jit import kernel

_STEERING_ZERO, _THROTTLE_FULL, _THROTTLE_ZERO, _BAR_PER_COUNT, _BRAKE_ZERO, _RATIO = range(6)
CHANNELS = ("steering", "throttle", "brake")
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
def steering_age_ns(block, rows):
    return _age_ns(block, rows, _STEERING)


@kernel()
def oldest_ns(block, rows):
    """The greatest of them."""
    return max(_age_ns(block, rows, _STEERING), _age_ns(block, rows, _THROTTLE), _age_ns(block, rows, _BRAKE))


def steering_ages_ns(blocks: np.ndarray) -> np.ndarray:
    """Of an array of blocks with named fields."""
    name = CHANNELS[_STEERING] + AGE
    there = name in (blocks.dtype.names or ())
    ages: np.ndarray = blocks[name].astype(np.int64) * 1000 if there else np.zeros(len(blocks), np.int64)
    return ages


@kernel()
def observe_steering(block, rows, estimator, memory):
    """Every block passes here once, in order."""
    observe(memory, estimator, block[T] - _age_ns(block, rows, _STEERING), get_integer(block, rows[_STEERING]))


@kernel()
def vehicle_inputs(block, rows, calibration, estimator, memory, wheel_speed, h, inputs):
    counts = get_integer(block, rows[_STEERING])
    angle, inputs[1], inputs[2] = estimate(memory, estimator, block[T], counts, h)
    inputs[0] = angle - calibration[_STEERING_ZERO]
    pressed = get_integer(block, rows[_THROTTLE]) - calibration[_THROTTLE_ZERO]
    throttle = min(max(pressed / calibration[_THROTTLE_FULL], 0.0), 1.0)
    inputs[3] = throttle
    # below zero is noise of the sensor
    inputs[4] = max((get_integer(block, rows[_BRAKE]) - calibration[_BRAKE_ZERO]) * calibration[_BAR_PER_COUNT], 0.0)
    inputs[5] = drive_torque(throttle, wheel_speed, calibration[_RATIO])
