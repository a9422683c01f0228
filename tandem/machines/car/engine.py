"""Drive torque from pedal and wheel speed, with the source's engine (thesis eq. 4.4 to 4.14).

The quadratic term of eq. 4.4 is misprinted there as 1e-3; its own appendix and figures need 1e-6.
"""

import math

from sync.compile.jit import kernel

# not cached for themselves: they are compiled for whatever numbers they are given, and belong to what calls them


@kernel(cache=False)
def full_throttle_torque(rpm):
    """N·m at the crankshaft: 96 at 1000, 137 at 3000, 0 at 6000 rpm."""
    return ((-9.9444e-10 * rpm - 3.2888e-6) * rpm + 0.046583) * rpm + 53.7


@kernel(cache=False)
def released_pedal_torque(rpm):
    return -0.015 * rpm


@kernel(cache=False)
def drive_torque(throttle, wheel_speed, ratio):
    """N·m on the driven axle. `ratio` = gear times final; `wheel_speed` (rad/s) the mean of the driven wheels."""
    rpm = 60.0 * wheel_speed * ratio / (2.0 * math.pi)
    return (throttle * full_throttle_torque(rpm) + (1.0 - throttle) * released_pedal_torque(rpm)) * ratio
