"""States, outputs and parameters of obstacle (obstacle.py) and port model, and where the car's own are.

The state is the car's, then the obstacle's; so are parameters and outputs. The car's own work, whose first entries are
its outputs, stands behind all outputs. Integers in front of the car's tables say where each begins.
"""

from sim_service.machines.contract import Parameter, Quantity, places

WAITING = -1.0  # of the clock: the car is not as fast yet

# in front of the car's integers: how many states, parameters and outputs it has, and how much work; places of `LOOKS`
CAR_STATES, CAR_PARAMETERS, CAR_OUTPUTS, CAR_WORK, X, Y, YAW, VX = range(8)
HEAD = 8
LOOKS = ("x", "y", "yaw", "vx")  # outputs of the car that the obstacle is placed and hit by
# of the port model's differences: beyond rounding and the solver's tolerance, within what is straight
BESIDE = (1e-3, 5e-2, 5.0)  # rad, rad/s, rad/s2

STATES = (
    Quantity("obstacle_clock", "s", "until it appears; negative: the car is not as fast yet"),
    Quantity("obstacle_there", "1", "1 while it lies on the road"),
    Quantity("obstacle_x", "m", "its middle"),
    Quantity("obstacle_y", "m", "its middle"),
    Quantity("obstacle_yaw", "rad", "of its length against x"),
    Quantity("obstacle_number", "1", "how many have appeared"),
    Quantity("obstacle_hits", "1", "how many have been hit"),
    Quantity("obstacle_hit", "1", "1: this one has been hit"),
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
    Quantity("port_stiffness", "N m/rad", "its slope by the hand wheel's angle; with `port`"),
    Quantity("port_damping", "N m s/rad", "its slope by the hand wheel's speed; with `port`"),
    Quantity("port_inertia", "N m s2/rad", "its slope by the hand wheel's acceleration; with `port`"),
    Quantity(
        "felt_torque", "N m", "steering torque times `feel`, for a haptic wheel; not more than `feel_limit` allows"
    ),
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
    Parameter(
        "port", "1", 0.0, 0.0, 1.0, "1: each step also gives its port model, at five times the cost", of_the_file=False
    ),
)
S, P, W = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS)
