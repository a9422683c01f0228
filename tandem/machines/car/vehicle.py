"""What every car model is driven by: the same inputs, in the same order, so that models can be exchanged.

The hand wheel is prescribed with its derivatives because a model with a moving steering linkage needs them; a model
without one reads the angle alone. Where the drive torque is not measured, a car makes it itself, from the throttle and
its own mean rear wheel speed.
"""

from sim_service.contract.machine import Quantity

VEHICLE_INPUTS = (
    Quantity("steering_angle", "rad", "hand wheel angle, left positive"),
    Quantity("steering_speed", "rad/s", "hand wheel speed, left positive"),
    Quantity("steering_acceleration", "rad/s2", "hand wheel acceleration, left positive"),
    Quantity("throttle", "1", "pedal fraction, 0 released, 1 pressed"),
    Quantity("brake_pressure_bar", "bar", "brake line pressure above ambient"),
    Quantity("drive_torque", "N m", "sum of the torques the driveline puts on both rear wheels", optional=True),
)

# what a measurement of a real car may say instead: each replaces what the car would make of the inputs above
PRESCRIBED_INPUTS = (
    Quantity(
        "prescribed_road_wheel_angle", "rad", "mean steer angle of the front wheels, left positive; replaces the"
        " hand wheel's", optional=True,
    ),
    Quantity(
        "prescribed_speed", "m/s", "the car has it along its axis at the end of the step, whatever the pedals do",
        optional=True, at_end=True,
    ),
)  # fmt: skip
