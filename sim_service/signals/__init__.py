"""Signals: raw counts of a block into the inputs of a vehicle model. The one place where conversion happens.

The order of the result is VEHICLE_INPUTS of sim_service/models/vehicle.py. Only the angle of the steering wheel is
measured; its speed and acceleration are estimated (sim_service/signals/estimators.py), from the angle at every step or
from every block. A gap (new epoch) restarts the estimator: an angle is never differentiated across it.
"""

import math

import numpy as np

from sim_service.signals.engine import drive_torque
from sim_service.signals.estimators import MEMORY, estimate, observe, parameters
from sync.block import Layout, T, get_integer
from sync.config import Signals
from sync.jit import kernel

_RAD_PER_COUNT, _THROTTLE_FULL, _BAR_PER_COUNT, _RATIO = range(4)
_STEERING, _THROTTLE, _BRAKE = range(3)


def tables(
    signals: Signals, layout: Layout, step_s: float, period_s: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(rows of the three channels, calibration, estimator, its memory), for the kernels below."""
    rows = np.stack([layout.table[layout.names.index(name)] for name in ("steering", "throttle", "brake")])
    rad_per_count = math.radians(signals.steering_deg_per_count) * signals.steering_sign
    calibration = np.array(
        [
            rad_per_count,
            signals.throttle_full_counts,
            signals.brake_full_bar / signals.brake_full_counts,
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
def observe_steering(block, rows, estimator, memory):
    """Every block passes here once, in order."""
    observe(memory, estimator, block[T], get_integer(block, rows[_STEERING]))


@kernel()
def vehicle_inputs(block, rows, calibration, estimator, memory, wheel_speed, h, inputs):
    counts = get_integer(block, rows[_STEERING])
    inputs[0], inputs[1], inputs[2] = estimate(memory, estimator, block[T], counts, h)
    throttle = min(max(get_integer(block, rows[_THROTTLE]) / calibration[_THROTTLE_FULL], 0.0), 1.0)
    inputs[3] = throttle
    # below zero is noise of the sensor
    inputs[4] = max(get_integer(block, rows[_BRAKE]) * calibration[_BAR_PER_COUNT], 0.0)
    inputs[5] = drive_torque(throttle, wheel_speed, calibration[_RATIO])
