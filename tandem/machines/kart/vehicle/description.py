"""Inputs, states, outputs and parameters of the kart as a multibody system.

Axes are ISO 8855: x forward, y left, z up; yaw left positive, roll right positive, pitch nose down. The kart's own axes
begin on the ground in the middle between its axles. Wheels are `fl fr rl rr`. The frame is two halves on a spring that
twists: behind sit driver and engine, in front are the kingpins.
"""

from sim_service.contract.machine import Parameter, Quantity, places

WHEELS = ("fl", "fr", "rl", "rr")
JOINTS = (
    ("x", "m"), ("y", "m"), ("z", "m"), ("yaw", "rad"), ("pitch", "rad"), ("roll", "rad"), ("twist", "rad"),
    ("steer_fl", "rad"), ("spin_fl", "rad"), ("steer_fr", "rad"), ("spin_fr", "rad"), ("axle", "rad"),
)  # fmt: skip
LINK = places("LINK", [name.upper() for name, _ in JOINTS])
REAR_FRAME = 5  # its link
# of each wheel: the link that carries it, the one that it turns with
CARRIER = (7, 9, REAR_FRAME, REAR_FRAME)
SPIN = (8, 10, 11, 11)

INPUTS = (
    Quantity("steering_angle", "rad", "of the hand wheel, left positive"),
    Quantity("throttle", "1", "0 to 1"),
    Quantity("brake", "1", "0 to 1, of the rear axle"),
)
STATES = (  # tyres' stand behind them
    *(Quantity(name, unit, "of the joint") for name, unit in JOINTS),
    *(Quantity(f"{name}_rate", f"{unit}/s", "of the joint") for name, unit in JOINTS),
)
WHEEL = (
    Quantity("load", "N", "normal force"),
    Quantity("force_x", "N", "of the ground, forwards along the wheel"),
    Quantity("force_y", "N", "of the ground, to the left of the wheel"),
    Quantity("slip_angle", "rad", "of the contact patch"),
    Quantity("wheel_speed", "rad/s", "about its axle"),
    Quantity("lift", "m", "of the tyre above the ground; below zero it is pressed in"),
)
OUTPUTS = (
    Quantity("speed", "m/s", "ahead, of the middle between the axles"),
    Quantity("side_speed", "m/s", "to the left, of the middle between the axles"),
    Quantity("yaw_rate", "rad/s", "left positive"),
    Quantity("lateral_acceleration", "m/s2", "of the middle between the axles, level, to the left"),
    Quantity("steering_torque", "N m", "of the driver on the hand wheel, to the left; holds the wheels"),
    Quantity("drive_torque", "N m", "of the engine on the rear axle"),
    Quantity("brake_torque", "N m", "of the brake on the rear axle"),
    Quantity("x", "m", "of the kart"),
    Quantity("y", "m", "of the kart, to the left"),
    Quantity("z", "m", "of the kart, upwards from where it stands"),
    Quantity("heading", "rad", "not wrapped"),
    Quantity("pitch", "rad", "of the rear frame, nose down"),
    Quantity("roll", "rad", "of the rear frame, right positive"),
    Quantity("twist", "rad", "of the front frame against the rear one, right positive"),
    Quantity("steer_fl", "rad", "about the kingpin, left positive"),
    Quantity("steer_fr", "rad", "about the kingpin, left positive"),
    *(Quantity(f"{q.name}_{w}", q.unit, q.text) for w in WHEELS for q in WHEEL),
)
PARAMETERS = (
    Parameter("rear_mass", "kg", 118.0, 20.0, 400.0, "of the rear frame with driver, engine and axle", live=False),
    Parameter("rear_ahead", "m", -0.13, -1.0, 1.0, "of its centre of gravity ahead of the middle", live=False),
    Parameter("rear_height", "m", 0.3, 0.05, 1.0, "of its centre of gravity above the ground", live=False),
    Parameter("rear_inertia_x", "kg m2", 9.0, 0.5, 200.0, "about its centre of gravity, along it", live=False),
    Parameter("rear_inertia_y", "kg m2", 12.0, 0.5, 200.0, "… across it", live=False),
    Parameter("rear_inertia_z", "kg m2", 13.0, 0.5, 200.0, "… upwards", live=False),
    Parameter("front_mass", "kg", 34.0, 5.0, 200.0, "of the front frame with the driver's legs", live=False),
    Parameter("front_ahead", "m", 0.35, -1.0, 1.0, "of its centre of gravity ahead of the middle", live=False),
    Parameter("front_height", "m", 0.18, 0.05, 1.0, "of its centre of gravity above the ground", live=False),
    Parameter("front_inertia_x", "kg m2", 2.0, 0.2, 100.0, "about its centre of gravity, along it", live=False),
    Parameter("front_inertia_y", "kg m2", 2.0, 0.2, 100.0, "… across it", live=False),
    Parameter("front_inertia_z", "kg m2", 3.0, 0.2, 100.0, "… upwards", live=False),
    Parameter("wheel_mass", "kg", 2.5, 0.5, 20.0, "of each wheel", live=False),
    Parameter("wheel_inertia", "kg m2", 0.02, 0.002, 1.0, "of each wheel about its axle", live=False),
    Parameter("axle_inertia", "kg m2", 0.03, 0.0, 2.0, "of axle, disk and engine about the rear axle", live=False),
    Parameter("frame_height", "m", 0.06, 0.0, 0.5, "of the line that the frame twists about", live=False),
    Parameter("wheelbase", "m", 1.04, 0.5, 2.0, "front to rear axle", live=False),
    Parameter("track_front", "m", 1.1, 0.5, 2.0, "between the front wheels' middles", live=False),
    Parameter("track_rear", "m", 1.15, 0.5, 2.0, "between the rear wheels' middles", live=False),
    Parameter("caster", "rad", 0.38, -0.2, 0.6, "of the kingpins, top backwards", live=False),
    Parameter("kingpin_inclination", "rad", 0.19, -0.2, 0.5, "of the kingpins, top inwards", live=False),
    Parameter("spindle_length", "m", 0.13, 0.0, 0.3, "from the kingpin to the wheel's middle", live=False),
    Parameter("steering_ratio", "1", 1.5, 0.5, 20.0, "hand wheel angle per mean angle of the front wheels"),
    Parameter("ackermann", "1", 1.0, 0.0, 1.5, "0: both front wheels turn alike; 1: about one point"),
    Parameter("front_toe", "rad", 0.0, -0.2, 0.2, "of one wheel, in positive"),
    Parameter("twist_stiffness", "N m/rad", 12000.0, 500.0, 1e6, "of the frame"),
    Parameter("twist_damping", "N m s/rad", 25.0, 0.0, 1e4, "of the frame"),
    Parameter("power", "W", 20000.0, 0.0, 1e5, "of the engine, at full throttle"),
    Parameter("most_torque", "N m", 110.0, 0.0, 2000.0, "of the engine on the axle, at full throttle"),
    Parameter("engine_drag", "N m s/rad", 0.06, 0.0, 10.0, "of the engine on the axle, without throttle"),
    Parameter("brake_torque", "N m", 320.0, 0.0, 5000.0, "on the axle, at full brake"),
    Parameter("drag_area", "m2", 0.6, 0.0, 5.0, "frontal area times drag coefficient"),
    Parameter("grip", "1", 1.0, 0.05, 2.0, "factor on the friction of the ground"),
    Parameter("start_speed", "m/s", 10.0, 0.0, 60.0, "at the beginning of a run", live=False),
)
P, S, W, V = places("P", PARAMETERS), places("S", STATES), places("W", OUTPUTS), places("V", WHEEL)
I = places("I", INPUTS)  # noqa: E741  the letter of the field
