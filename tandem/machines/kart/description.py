"""Inputs, states, outputs and parameters of the kart on its belt, and their places in the vectors.

Axes are ISO 8855 and those of the kart: x forward, y left, z up, yaw left positive. `fl fr rl rr` are the wheels.
`force_x_*`, `force_y_*` are those of the belt on a tyre in the axes of its wheel, `lateral_*` the part across the kart:
the four of them add up to what the load cell reads across. Every parameter is live.
"""

from sim_service.contract.machine import Parameter, Quantity, places

WHEELS = ("fl", "fr", "rl", "rr")

INPUTS = (
    Quantity("steering_angle", "rad", "of the remote hand wheel, left positive"),
    Quantity("belt_speed", "m/s", "of the belt, backwards under the kart"),
)
STATES = (  # the tyres' stand behind them
    Quantity("x", "m", "of the kart against the frame, as the load cell gives way"),
    Quantity("y", "m", "of the kart against the frame, as the load cell gives way"),
    Quantity("vx", "m/s", "its rate"),
    Quantity("vy", "m/s", "its rate"),
    *(Quantity(f"wheel_speed_{w}", "rad/s", "about the axle") for w in WHEELS),
)
WHEEL = (
    Quantity("lateral", "N", "belt on tyre, across the kart to the left"),
    Quantity("force_x", "N", "belt on tyre, forwards along the wheel"),
    Quantity("force_y", "N", "belt on tyre, to the left of the wheel"),
    Quantity("aligning", "N m", "moment of the belt about the vertical"),
    Quantity("slip_angle", "rad", "of the contact patch, left positive"),
    Quantity("load", "N", "normal force"),
    Quantity("wheel_speed", "rad/s", "about the axle"),
    Quantity("steer", "rad", "of the wheel against the kart, left positive: steering and toe"),
)
OUTPUTS = (
    Quantity("cell_x", "N", "of the kart on the load cell, forwards"),
    Quantity("cell_y", "N", "of the kart on the load cell, to the left"),
    Quantity("lateral_sum", "N", "of the four tyres, across the kart to the left"),
    Quantity("longitudinal_sum", "N", "of the four tyres, along the kart"),
    Quantity("yaw_moment", "N m", "of the four tyres about the load cell, which holds it and does not measure it"),
    Quantity("steering_torque", "N m", "of the driver on the remote hand wheel, to the left; holds the wheels"),
    *(Quantity(f"{q.name}_{w}", q.unit, q.text) for w in WHEELS for q in WHEEL),
)
PARAMETERS = (
    *(Parameter(f"wheel_load_{w}", "N", 400.0, 0.0, 1500.0, "with which it is pressed on the belt") for w in WHEELS),
    Parameter("front_toe", "rad", 0.0, -0.2, 0.2, "of one wheel, in positive"),
    Parameter("rear_toe", "rad", 0.0, -0.2, 0.2, "of one wheel, in positive"),
    Parameter("front_camber", "rad", 0.0, -0.2, 0.2, "top outwards positive"),
    Parameter("rear_camber", "rad", 0.0, -0.2, 0.2, "top outwards positive"),
    Parameter("one_wheel", "1", 0.0, 0.0, 4.0, "0: all on the belt; 1 to 4: fl fr rl rr alone, the others lifted"),
    Parameter("yaw", "rad", 0.0, -0.5, 0.5, "of the kart against the belt, left positive"),
    Parameter("grip", "1", 1.0, 0.05, 2.0, "factor on the friction of the belt"),
    Parameter("wheelbase", "m", 1.04, 0.5, 2.0, "front to rear axle; the load cell holds it half way"),
    Parameter("track_front", "m", 1.1, 0.5, 2.0, "between the front wheel centres"),
    Parameter("track_rear", "m", 1.15, 0.5, 2.0, "between the rear wheel centres"),
    Parameter("steering_ratio", "1", 1.5, 0.5, 20.0, "hand wheel angle per mean angle of the front wheels"),
    Parameter("ackermann", "1", 1.0, 0.0, 1.5, "0: both front wheels turn alike; 1: about one point"),
    Parameter("caster_trail", "m", 0.015, -0.05, 0.1, "of the front steering axes, ahead of the contact positive"),
    Parameter("wheel_inertia", "kg m2", 0.05, 0.005, 1.0, "of one wheel about its axle, with its share of the axle"),
    Parameter("mass", "kg", 160.0, 20.0, 500.0, "of the kart, that moves with the load cell"),
    Parameter("cell_stiffness", "N/m", 2e6, 1e4, 1e8, "of the load cell, either way"),
    Parameter("cell_damping", "N s/m", 2e3, 0.0, 1e6, "of the load cell, either way"),
)
P, S, W, V = places("P", PARAMETERS), places("S", STATES), places("W", OUTPUTS), places("V", WHEEL)
I = places("I", INPUTS)  # noqa: E741  the letter of the field
