"""Signals: raw counts of a block into the inputs of a vehicle model. The one place where conversion happens.

The order of the result is VEHICLE_INPUTS of sim_service/models/vehicle.py. A gap (new epoch) restarts the
differentiators: an angle is never differentiated across it.
"""

import math

import numpy as np

from sim_service.signals.differentiator import MEMORY, coefficients, differentiate
from sim_service.signals.engine import drive_torque
from sync.block import Layout, get_integer
from sync.config import Signals
from sync.jit import kernel

_RAD_PER_COUNT, _THROTTLE_FULL, _BAR_PER_COUNT, _RATIO = range(4)
_STEERING, _THROTTLE, _BRAKE = range(3)


def tables(signals: Signals, layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(rows of the three channels, calibration, differentiator coefficients, memory), for `vehicle_inputs`."""
    rows = np.stack([layout.table[layout.names.index(name)] for name in ("steering", "throttle", "brake")])
    calibration = np.array(
        [
            math.radians(signals.steering_deg_per_count) * signals.steering_sign,
            signals.throttle_full_counts,
            signals.brake_full_bar / signals.brake_full_counts,
            signals.gear_ratio * signals.final_ratio,
        ]
    )
    return rows, calibration, coefficients(signals.differentiator), np.zeros(MEMORY)


@kernel()
def vehicle_inputs(block, rows, calibration, c, memory, wheel_speed, h, inputs):
    angle = get_integer(block, rows[_STEERING]) * calibration[_RAD_PER_COUNT]
    speed, acceleration = differentiate(memory, c, angle, h)
    throttle = min(max(get_integer(block, rows[_THROTTLE]) / calibration[_THROTTLE_FULL], 0.0), 1.0)
    inputs[0] = angle
    inputs[1] = speed
    inputs[2] = acceleration
    inputs[3] = throttle
    # below zero is noise of the sensor
    inputs[4] = max(get_integer(block, rows[_BRAKE]) * calibration[_BAR_PER_COUNT], 0.0)
    inputs[5] = drive_torque(throttle, wheel_speed, calibration[_RATIO])
