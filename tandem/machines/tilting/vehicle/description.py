"""Inputs, states, outputs and parameters of the narrow vehicle as a multibody system.

Axes are ISO 8855: x forward, y left, z up; yaw left positive, roll right positive, pitch nose down. The vehicle's own
axes begin on the ground in the middle between its axles. Wheels are `front`, `rl`, `rr`.
"""

from sim_service.contract.machine import Parameter, Quantity, places

WHEELS = ("front", "rl", "rr")
JOINTS = (
    ("x", "m"), ("y", "m"), ("z", "m"), ("yaw", "rad"), ("pitch", "rad"), ("base_roll", "rad"), ("tilt", "rad"),
    ("travel_front", "m"), ("steer_front", "rad"), ("spin_front", "rad"),
    ("travel_rl", "m"), ("spin_rl", "rad"), ("travel_rr", "m"), ("spin_rr", "rad"),
)  # fmt: skip
LINK = places("LINK", [name.upper() for name, _ in JOINTS])
TRAVEL = (7, 10, 12)  # links of the wheels: travel, what carries the wheel, its spin
CARRIER = (8, 10, 12)
SPIN = (9, 11, 13)

INPUTS = (
    Quantity("steer", "rad", "of the front wheel, left positive"),
    Quantity("speed_wanted", "m/s", "that the drive holds; the speed at the start if it is not given", optional=True),
)
STATES = (  # tyres' stand behind them
    *(Quantity(name, unit, "of the joint") for name, unit in JOINTS),
    *(Quantity(f"{name}_rate", f"{unit}/s", "of the joint") for name, unit in JOINTS),
    Quantity("torque", "N m", "of the tilt actuator on the body"),
    *(Quantity(f"joint_accel_{c}", "m/s2", "of the tilt joint in the world, over the last substep") for c in "xyz"),
    *(Quantity(f"body_accel_{c}", "rad/s2", "of the body in the world, over the last substep") for c in "xyz"),
)
WHEEL = (
    Quantity("load", "N", "normal force"),
    Quantity("force_x", "N", "of the ground, forwards along the wheel"),
    Quantity("force_y", "N", "of the ground, to the left of the wheel"),
    Quantity("slip_angle", "rad", "of the contact patch"),
    Quantity("wheel_speed", "rad/s", "about the axle"),
    Quantity("travel", "m", "of the suspension, upwards from where it stands"),
)
OUTPUTS = (
    Quantity("roll", "rad", "of the body against the vertical, right positive"),
    Quantity("roll_rate", "rad/s", "of the body about its own forward axis"),
    Quantity("torque", "N m", "of the tilt actuator on the body"),
    Quantity("yaw_rate", "rad/s", "left positive"),
    Quantity("speed", "m/s", "along the path"),
    Quantity("heading", "rad", "not wrapped"),
    Quantity("lateral_acceleration", "m/s2", "of the tilt joint, level, to the left"),
    Quantity("felt", "m/s2", "what the occupant feels sideways at the tilt joint, along the body's axis to the left"),
    Quantity("roll_wanted", "rad", "by the controller"),
    Quantity("joint", "rad", "tilt of the body against the base"),
    Quantity("base_roll", "rad", "of the base, right positive"),
    Quantity("pitch", "rad", "of the base, nose down"),
    Quantity("x", "m", "of the vehicle"),
    Quantity("y", "m", "of the vehicle, to the left"),
    Quantity("z", "m", "of the vehicle"),
    Quantity("drive_force", "N", "of both rear wheels"),
    *(Quantity(f"{q.name}_{w}", q.unit, q.text) for w in WHEELS for q in WHEEL),
)
PARAMETERS = (
    Parameter("body_mass", "kg", 250.0, 50.0, 1000.0, "of what leans, occupant included", live=False),
    Parameter("body_height", "m", 0.6, 0.1, 2.0, "of its centre of gravity above the tilt joint", live=False),
    Parameter("body_ahead", "m", -0.15, -1.0, 1.0, "of its centre of gravity ahead of the middle", live=False),
    Parameter("body_inertia_x", "kg m2", 40.0, 1.0, 1000.0, "about its centre of gravity, along it", live=False),
    Parameter("body_inertia_y", "kg m2", 60.0, 1.0, 1000.0, "… across it", live=False),
    Parameter("body_inertia_z", "kg m2", 45.0, 1.0, 1000.0, "… upwards", live=False),
    Parameter("base_mass", "kg", 130.0, 10.0, 1000.0, "of the frame, without the wheels", live=False),
    Parameter("base_height", "m", 0.28, 0.05, 1.0, "of its centre of gravity above the ground", live=False),
    Parameter("base_ahead", "m", -0.3, -1.0, 1.0, "of its centre of gravity ahead of the middle", live=False),
    Parameter("base_inertia_x", "kg m2", 8.0, 0.5, 1000.0, "about its centre of gravity, along it", live=False),
    Parameter("base_inertia_y", "kg m2", 40.0, 0.5, 1000.0, "… across it", live=False),
    Parameter("base_inertia_z", "kg m2", 45.0, 0.5, 1000.0, "… upwards", live=False),
    Parameter("joint_height", "m", 0.3, 0.05, 1.0, "of the tilt joint above the ground", live=False),
    Parameter("wheelbase", "m", 1.8, 0.5, 5.0, "front to rear", live=False),
    Parameter("track", "m", 0.95, 0.3, 3.0, "between the rear wheels", live=False),
    Parameter("wheel_mass", "kg", 12.0, 2.0, 100.0, "of each wheel with what moves up and down with it", live=False),
    Parameter("wheel_inertia", "kg m2", 0.5, 0.05, 10.0, "of each wheel about its axle", live=False),
    Parameter("stiffness_front", "N/m", 20000.0, 1000.0, 1e6, "of the suspension, at the wheel"),
    Parameter("stiffness_rear", "N/m", 22000.0, 1000.0, 1e6, "… of each rear wheel"),
    Parameter("damping_front", "N s/m", 1500.0, 0.0, 1e5, "of the suspension, at the wheel"),
    Parameter("damping_rear", "N s/m", 1500.0, 0.0, 1e5, "… of each rear wheel"),
    Parameter("travel", "m", 0.08, 0.01, 0.5, "of the suspension, either way, to its stops"),
    Parameter("stop_stiffness", "N/m", 2e5, 0.0, 1e6, "of the stops"),
    Parameter("damping", "N m s/rad", 20.0, 0.0, 1e4, "in the tilt joint"),
    Parameter("torque_lag", "s", 0.03, 0.005, 1.0, "of the tilt actuator"),
    Parameter("torque_limit", "N m", 1200.0, 10.0, 1e5, "of the tilt actuator"),
    Parameter("lean_stiffness", "N m/rad", 6000.0, 0.0, 1e5, "of the controller"),
    Parameter("rate_gain", "N m s/rad", 900.0, 0.0, 1e4, "of the controller"),
    Parameter("known_mass", "kg", 250.0, 50.0, 1000.0, "that the controller reckons with"),
    Parameter("known_height", "m", 0.6, 0.1, 2.0, "that the controller reckons with"),
    Parameter("speed_gain", "1/s", 1.0, 0.0, 20.0, "of the drive's speed control"),
    Parameter("force_limit", "N", 1200.0, 0.0, 1e5, "of the drive, either way"),
    Parameter("grip", "1", 1.0, 0.05, 2.0, "factor on the friction of the ground"),
    Parameter("start_speed", "m/s", 8.0, 0.0, 40.0, "at the beginning of a run", live=False),
)
P, S, W, V = places("P", PARAMETERS), places("S", STATES), places("W", OUTPUTS), places("V", WHEEL)
I = places("I", INPUTS)  # noqa: E741  the letter of the field
