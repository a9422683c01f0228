"""States, outputs and parameters of obstacle (obstacle.py), port model and pedals (pedals.py): those of the composite
(sim_service/composite.py) behind the car's."""

from sim_service.contract.machine import Parameter, Quantity, places

WAITING = -1.0  # of the clock: the car is not as fast yet

CAR_OUTPUTS = ("x", "y", "yaw", "vx")  # outputs of the car that the obstacle is placed and hit by: own integers
# of the port model's differences: beyond rounding and the solver's tolerance, within what is straight
BESIDE = (1e-3, 5e-2, 5.0)  # rad, rad/s, rad/s2
BRAKE_BAND, THROTTLE_BAND = 2.0, 0.05  # bar; of full: so far a pedal moves until its friction is all there

STATES = (
    Quantity("obstacle_clock", "s", "until it appears; negative: the car is not as fast yet"),
    Quantity("obstacle_there", "1", "1 while it lies on the road"),
    Quantity("obstacle_x", "m", "its middle"),
    Quantity("obstacle_y", "m", "its middle"),
    Quantity("obstacle_yaw", "rad", "of its length against x"),
    Quantity("obstacle_number", "1", "how many have appeared"),
    Quantity("obstacle_hits", "1", "how many have been hit"),
    Quantity("obstacle_hit", "1", "1: this one has been hit"),
    Quantity("brake_before", "bar", "as of the last step"),
    Quantity("brake_friction", "N", "of the pedal, against its motion"),
    Quantity("throttle_before", "1", "as of the last step"),
    Quantity("throttle_friction", "N", "of the pedal, against its motion"),
)
OUTPUTS = (
    Quantity("obstacle_there", "1", "1 while an obstacle lies on the road"),
    Quantity("obstacle_x", "m", "its middle"),
    Quantity("obstacle_y", "m", "its middle"),
    Quantity("obstacle_yaw", "rad", "of its length against x"),
    Quantity("obstacle_number", "1", "how many have appeared"),
    Quantity("obstacle_hits", "1", "how many have been hit"),
    Quantity("obstacle_room", "m", "between car and obstacle, negative where they overlap; 0 without one"),
    Quantity("port_ahead", "N m", "felt torque a step later, if the hand wheel goes on as it does; with `port`"),
    Quantity("port_middle", "N m", "felt torque half a step later, if the hand wheel goes on as it does; with `port`"),
    Quantity("port_stiffness", "N m/rad", "its slope by the hand wheel's angle; with `port`"),
    Quantity("port_damping", "N m s/rad", "its slope by the hand wheel's speed; with `port`"),
    Quantity("port_inertia", "N m s2/rad", "its slope by the hand wheel's acceleration; with `port`"),
    Quantity(
        "felt_torque", "N m", "steering torque times `feel`, for a haptic wheel; not more than `feel_limit` allows"
    ),
    Quantity("felt_brake", "N", "force of the brake pedal, times `pedal_feel`; as `brake_pedal_limit` allows"),
    Quantity("felt_throttle", "N", "force of the throttle pedal, times `pedal_feel`; as `throttle_pedal_limit` allows"),
)
PARAMETERS = (
    Parameter("obstacle_seed", "1", 1.0, 0.0, 1e9, "of the instants at which obstacles appear"),
    Parameter("obstacle_from", "m/s", 20.0, 0.0, 100.0, "speed of the car from which on they may"),
    Parameter("obstacle_soonest", "s", 2.0, 0.0, 1e3, "after that, or after the one before is gone"),
    Parameter("obstacle_latest", "s", 6.0, 0.0, 1e3, "after that, or after the one before is gone"),
    Parameter("obstacle_ahead", "m", 30.0, 1.0, 500.0, "of the front of the car, where it appears"),
    Parameter("obstacle_length", "m", 1.0, 0.1, 20.0, "along the heading"),
    Parameter("obstacle_width", "m", 1.6, 0.1, 20.0, "across it"),
    Parameter("outline_front", "m", 1.56, 0.0, 10.0, "of the car: ahead of its centre of gravity"),
    Parameter("outline_rear", "m", 1.25, 0.0, 10.0, "of the car: behind its centre of gravity"),
    Parameter("outline_width", "m", 1.5, 0.1, 5.0, "of the car"),
    Parameter("feel", "1", 1.0, 0.0, 20.0, "torque of a haptic wheel per torque of the car", of_the_file=False),
    Parameter(
        "feel_limit",
        "1",
        20.0,
        0.0,
        20.0,
        "`feel` counts up to this: what stays passive (`tandem doctor`)",
        live=False,
        of_the_file=False,
    ),
    Parameter(
        "device_inertia",
        "kg m2",
        0.03,
        1e-4,
        1.0,
        "of the haptic wheel, stated or measured",
        live=False,
        of_the_file=False,
    ),
    Parameter(
        "device_damping",
        "N m s/rad",
        0.0,
        0.0,
        20.0,
        "of the haptic wheel; 0: not known",
        live=False,
        of_the_file=False,
    ),
    *(
        Parameter(name, unit, value, 0.0, most, text, of_the_file=False)
        for name, unit, value, most, text in (
            ("pedal_feel", "1", 1.0, 20.0, "force of haptic pedals per force of the car's"),
            ("brake_pedal_rate", "N/bar", 4.0, 50.0, "force of the brake pedal per pressure in its line; estimate"),
            ("brake_pedal_friction", "N", 6.0, 200.0, "of the brake pedal, dry; estimate"),
            ("brake_pedal_kick", "N/bar", 1.0, 50.0, "per pressure that the anti-lock control holds back; estimate"),
            ("throttle_pedal_spring", "N", 20.0, 500.0, "of the throttle pedal at full throttle; estimate"),
            ("throttle_pedal_friction", "N", 3.0, 200.0, "of the throttle pedal, dry; estimate"),
        )
    ),
    *(
        Parameter(name, unit, most, 0.0, most, text, live=False, of_the_file=False)
        for name, unit, most, text in (
            ("brake_pedal_limit", "N/bar", 1e4, "what the brake pedal gains per pressure: what stays passive"),
            ("throttle_pedal_limit", "N", 1e5, "what the throttle pedal gains to full: what stays passive"),
        )
    ),
    Parameter(
        "port", "1", 0.0, 0.0, 1.0, "1: each step also gives its port model, at six times the cost", of_the_file=False
    ),
)
S, P, W = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS)
