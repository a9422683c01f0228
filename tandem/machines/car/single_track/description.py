"""States, outputs and parameters of the single-track car, and their places in the vectors.

Axes are ISO 8855: x forward, y left, z up, yaw left positive. Quantities of a tyre are in the axes of its wheel, those
of an axle are sums over its two wheels. The defaults are the buggy of `configs/vehicles/buggy_single_track.toml`, which
names the source of every figure.
"""

from sim_service.contract.machine import Parameter, Quantity, places
from tandem.machines.car.vehicle import PRESCRIBED_INPUTS, VEHICLE_INPUTS

INPUTS = (
    *VEHICLE_INPUTS,
    *PRESCRIBED_INPUTS,
    Quantity("front_drive_torque", "N m", "sum of the torques the driveline puts on both front wheels", optional=True),
)

STATES = (
    Quantity("x", "m", "centre of gravity on the ground"),
    Quantity("y", "m", "centre of gravity on the ground"),
    Quantity("yaw", "rad", "heading, not wrapped"),
    Quantity("vx", "m/s", "velocity of the centre of gravity, body axes"),
    Quantity("vy", "m/s", "velocity of the centre of gravity, body axes"),
    Quantity("yaw_rate", "rad/s", "yaw rate"),
    Quantity("wheel_speed_front", "rad/s", "mean of both front wheels"),
    Quantity("wheel_speed_rear", "rad/s", "mean of both rear wheels"),
    Quantity("deflection_x_front", "m", "tyre deflection, contact patch ahead of the rim"),
    Quantity("deflection_y_front", "m", "tyre deflection, contact patch left of the rim"),
    Quantity("deflection_x_rear", "m", "tyre deflection, contact patch ahead of the rim"),
    Quantity("deflection_y_rear", "m", "tyre deflection, contact patch left of the rim"),
    Quantity("transfer_x", "m/s2", "lagged acceleration that moves load between the axles"),
    Quantity("transfer_y", "m/s2", "lagged acceleration that moves load between the sides"),
)

OUTPUTS = (
    Quantity("x", "m", "centre of gravity on the ground"),
    Quantity("y", "m", "centre of gravity on the ground"),
    Quantity("yaw", "rad", "heading, not wrapped"),
    Quantity("vx", "m/s", "velocity of the centre of gravity, body axes"),
    Quantity("vy", "m/s", "velocity of the centre of gravity, body axes"),
    Quantity("yaw_rate", "rad/s", "yaw rate"),
    Quantity("ax", "m/s2", "what an accelerometer at the centre of gravity reads, body axes"),
    Quantity("ay", "m/s2", "what an accelerometer at the centre of gravity reads, body axes"),
    Quantity("sideslip", "rad", "angle from the car's long axis to its velocity, also in reverse"),
    Quantity("road_wheel_angle", "rad", "mean steer angle of the front wheels, left positive"),
    Quantity("wheel_speed_front", "rad/s", "mean of both front wheels"),
    Quantity("wheel_speed_rear", "rad/s", "mean of both rear wheels"),
    Quantity("slip_front", "1", "(r w - v) / max(|v|, |r w|): -1 locked, +1 spinning on the spot"),
    Quantity("slip_rear", "1", "(r w - v) / max(|v|, |r w|): -1 locked, +1 spinning on the spot"),
    Quantity("slip_angle_front", "rad", "angle from the wheel plane to the velocity of the contact patch"),
    Quantity("slip_angle_rear", "rad", "angle from the wheel plane to the velocity of the contact patch"),
    Quantity("load_front", "N", "front axle load"),
    Quantity("load_rear", "N", "rear axle load"),
    Quantity("force_x_front", "N", "road on front axle, along the wheels"),
    Quantity("force_y_front", "N", "road on front axle, across the wheels"),
    Quantity("force_x_rear", "N", "road on rear axle, along the wheels"),
    Quantity("force_y_rear", "N", "road on rear axle, across the wheels"),
    Quantity("drive_force", "N", "both axles along their wheels; with a prescribed speed, what that takes"),
)

PARAMETERS = (
    Parameter("mass", "kg", 790.0, 400.0, 2500.0, "car with driver"),
    Parameter("yaw_inertia", "kg m2", 864.0, 300.0, 5000.0, "about the vertical through the centre of gravity"),
    Parameter("wheelbase", "m", 2.25, 1.5, 4.0, "front to rear axle"),
    Parameter("cg_to_front", "m", 1.288, 0.5, 2.5, "front axle to centre of gravity"),
    Parameter("cg_height", "m", 0.4722, 0.0, 1.0, "centre of gravity above the road"),
    Parameter("track_front", "m", 1.32, 1.0, 2.0, "between the front wheel centres"),
    Parameter("track_rear", "m", 1.34, 1.0, 2.0, "between the rear wheel centres"),
    Parameter("transfer_share_front", "1", 0.38, 0.0, 1.0, "part of the lateral load transfer the front axle carries"),
    Parameter("transfer_time", "s", 0.08, 0.005, 1.0, "lag of load transfer behind acceleration"),
    Parameter("wheel_radius", "m", 0.275, 0.15, 0.5, "loaded radius, taken for rolling too"),
    Parameter("wheel_inertia", "kg m2", 0.6, 0.2, 5.0, "one wheel with hub and disc about its axle"),
    Parameter("driveline_inertia", "kg m2", 0.0, 0.0, 20.0, "turns with the rear wheels, referred to wheel speed"),
    Parameter("rack_travel_per_turn", "m", 0.045, 0.02, 0.1, "rack travel for one turn of the hand wheel"),
    Parameter("rack_limit", "m", 0.065, 0.0, 0.15, "rack stop either side of the middle"),
    Parameter("steering_arm", "m", 0.115, 0.05, 0.3, "rack travel for one radian of steer at the wheels"),
    Parameter("brake_front", "N m/bar", 11.0, 0.0, 100.0, "braking torque of one front wheel per pressure"),
    Parameter("brake_rear", "N m/bar", 6.5, 0.0, 100.0, "braking torque of one rear wheel per pressure"),
    Parameter("drag_area", "m2", 0.95, 0.0, 3.0, "drag coefficient times frontal area"),
    Parameter("air_density", "kg/m3", 1.2, 0.8, 1.5, "density of the air"),
    Parameter("rolling_resistance", "1", 0.013, 0.0, 0.1, "rolling resistance force per load"),
    Parameter("tyre_load", "N", 1940.0, 500.0, 10000.0, "load of one tyre at which its figures hold"),
    Parameter("friction", "1", 0.9, 0.05, 2.0, "friction limit per load, at tyre_load"),
    Parameter("friction_fall", "1", 0.06, 0.0, 0.3, "relative fall of friction per relative rise of load"),
    Parameter("slip_stiffness", "1", 20.0, 5.0, 40.0, "longitudinal force per slip and load, at tyre_load"),
    Parameter("cornering_front", "1/rad", 11.0, 4.0, 30.0, "lateral force per slip angle and load, at tyre_load"),
    Parameter("cornering_rear", "1/rad", 14.0, 4.0, 30.0, "lateral force per slip angle and load, at tyre_load"),
    Parameter("stiffness_fall", "1", 0.2, 0.0, 0.3, "relative fall of both stiffnesses per relative rise of load"),
    Parameter("relaxation_x", "m", 0.15, 0.05, 1.0, "longitudinal relaxation length at small slip, at tyre_load"),
    Parameter("relaxation_y", "m", 0.35, 0.05, 1.5, "lateral relaxation length at small slip, at tyre_load"),
    Parameter("damping_time", "s", 0.04, 0.005, 0.1, "damping per stiffness of the standing tyre"),
    Parameter("gear_ratio", "1", 1.475, 0.5, 5.0, "of the one gear there is: the source's second", of_the_file=False),
    Parameter("final_ratio", "1", 3.673, 1.0, 10.0, "of the differential", of_the_file=False),
    Parameter("lift_area", "m2", 0.0, -5.0, 5.0, "lift coefficient times frontal area, upwards", of_the_file=False),
)


I = places("I", INPUTS)  # noqa: E741  the letter of the field
P = places("P", PARAMETERS)
S = places("S", STATES)
W = places("W", OUTPUTS)
