"""Outputs and parameters of the buggy, and their places in the vectors.

Axes are ISO 8855: x forward, y left, z up; roll, pitch and yaw turn right-handed about them, so pitch is positive nose
down and yaw positive to the left. `fl fr rl rr` are the wheels. Forces and moments of a tyre are those of the road on
it, at its contact point, in the axes of the contact: x where the wheel points in the road plane, z along its normal.

Parameters that say `live` may change while the car drives. The others shape the mechanism (masses, points): its tables
are made again beside the drive (sim_service/reshape.py). The defaults are those of `configs/vehicles/buggy.toml`, which
names the source of every figure.
"""

from sim_service.contract.machine import Parameter, Quantity, places
from tandem.machines.car.buggy import brake_parameters, driveline_parameters
from tandem.machines.car.buggy.bodies import FRONT, REAR, WHEELS
from tandem.machines.car.vehicle import PRESCRIBED_INPUTS, VEHICLE_INPUTS

INPUTS = (
    *VEHICLE_INPUTS,
    Quantity(
        "hand_wheel_torque",
        "N m",
        "of the driver on the hand wheel, left positive; steering_mode 1",
        optional=True,
    ),
    *PRESCRIBED_INPUTS,
)

_CAR = (
    Quantity("x", "m", "centre of gravity"),
    Quantity("y", "m", "centre of gravity"),
    Quantity("z", "m", "centre of gravity"),
    Quantity("yaw", "rad", "heading, not wrapped"),
    Quantity("pitch", "rad", "of the chassis against the horizontal, nose down positive"),
    Quantity("roll", "rad", "of the chassis against the horizontal, to the right positive"),
    Quantity("vx", "m/s", "velocity of the centre of gravity along the heading, horizontal"),
    Quantity("vy", "m/s", "velocity of the centre of gravity across the heading, horizontal"),
    Quantity("vz", "m/s", "velocity of the centre of gravity, upwards"),
    Quantity("yaw_rate", "rad/s", "about the chassis' own upward axis"),
    Quantity("pitch_rate", "rad/s", "about the chassis' own axis to the left"),
    Quantity("roll_rate", "rad/s", "about the chassis' own forward axis"),
    Quantity("ax", "m/s2", "what an accelerometer at the centre of gravity reads, chassis axes"),
    Quantity("ay", "m/s2", "what an accelerometer at the centre of gravity reads, chassis axes"),
    Quantity("az", "m/s2", "what an accelerometer at the centre of gravity reads, chassis axes; g at rest"),
    Quantity("sideslip", "rad", "angle from the car's long axis to its velocity, also in reverse"),
    Quantity("rack", "m", "way of the rack to the left"),
    Quantity("rack_force", "N", "with which the pinion moves the rack to the left"),
    Quantity("steering_torque", "N m", "of the driver on the hand wheel, to the left; holds it against the road"),
    Quantity("column_torque", "N m", "in the steering column between hand wheel and pinion, to the left"),
    Quantity("hand_wheel_angle", "rad", "of the hand wheel, left positive: set point of a wheel in admittance mode"),
    Quantity("hand_wheel_speed", "rad/s", "of the hand wheel, left positive"),
    Quantity("road_wheel_angle", "rad", "mean steer angle of the front wheels, left positive"),
    Quantity("wheel_speed_front", "rad/s", "mean of both front wheels"),
    Quantity("wheel_speed_rear", "rad/s", "mean of both rear wheels"),
    Quantity("engine_speed", "rad/s", "of the crankshaft; with a fixed gear that of the wheels times the ratio"),
    Quantity("gear", "1", "engaged, 1 to 3; 0 neutral, -1 reverse"),
    Quantity("axle_torque", "N m", "of the driveline on both rear wheels"),
    Quantity("drag", "N", "of the air, backwards"),
    Quantity("body_load", "N", "of the road on body and roll cage; 0 while wheels alone touch it"),
    Quantity("overturned", "1", "0: on its wheels; 1: on its side or end; 2: on its roof"),
    Quantity("drive_force", "N", "of the road along all wheels; with a prescribed speed, and what else that takes"),
)

# of each wheel; the hook leaves them behind the states of its elements, in this order
WHEEL = (
    Quantity("wheel_speed", "rad/s", "about the axle"),
    Quantity("rolling_radius", "m", "effective: wheel speed times this is the speed of rolling"),
    Quantity("speed", "m/s", "of the wheel carrier at the contact point, along the wheel"),
    Quantity("slip", "1", "longitudinal, of the contact patch: -1 locked"),
    Quantity("slip_angle", "rad", "of the contact patch, left positive"),
    Quantity("camber", "rad", "of the wheel against the road normal, about the forward axis"),
    Quantity("load", "N", "normal force"),
    Quantity("force_x", "N", "road on tyre, forwards"),
    Quantity("force_y", "N", "road on tyre, to the left"),
    Quantity("overturning", "N m", "moment of the road about the forward axis of the contact"),
    Quantity("rolling", "N m", "moment of the road about the axis to the left: rolling resistance"),
    Quantity("aligning", "N m", "moment of the road about its normal"),
    Quantity("brake_torque", "N m", "of the brake on the wheel"),
    Quantity("spring_length", "m", "between the ends of the spring"),
    Quantity("spring_force", "N", "of spring, damper and stops, pushing apart"),
    Quantity("steer", "rad", "of the wheel against the chassis, left positive"),
    Quantity("travel", "m", "of the wheel centre, up against the chassis as drawn"),
)

_STEP = (
    Quantity("iterations", "1", "of the step"),
    Quantity("parts", "1", "of the step: 1; 4 or 16 where it failed or an impact needs it; 0 in relative coordinates"),
    Quantity("capped", "1", "1: the step ended at the limit of iterations; 2: it ended nowhere, the car was stopped"),
    Quantity("phi_error", "m", "largest violation of a constraint"),
    Quantity("phid_error", "m/s", "largest violation of the rate of a constraint"),
    Quantity("contraction", "1", "of the corrections, worst of the step"),
    Quantity("energy_residual", "J", "change of kinetic energy less the work of all forces, in the step"),
    Quantity("step_error", "m", "estimated error of a coordinate by this step; with estimate_every by the last halved"),
)

OUTPUTS = (*_CAR, *(Quantity(f"{q.name}_{w}", q.unit, q.text) for w in WHEELS for q in WHEEL), *_STEP)


def _fixed(name: str, unit: str, value: float, low: float, high: float, text: str) -> Parameter:
    return Parameter(name, unit, value, low, high, text, live=False, shapes=True)


def _option(name: str, unit: str, value: float, low: float, high: float, text: str) -> Parameter:
    return Parameter(name, unit, value, low, high, text, of_the_file=False)


_MASSES = (
    _fixed("sprung_mass", "kg", 690.0, 100.0, 5000.0, "everything above the springs, with driver and rack"),
    _fixed("sprung_cg_x", "m", -1.305, -5.0, 1.0, "centre of gravity of the sprung mass, behind the front axle"),
    _fixed("sprung_cg_y", "m", 0.0, -1.0, 1.0, "centre of gravity of the sprung mass"),
    _fixed("sprung_cg_z", "m", 0.5, 0.0, 3.0, "centre of gravity of the sprung mass"),
    _fixed("sprung_ixx", "kg m2", 165.0, 10.0, 5000.0, "about its centre of gravity"),
    _fixed("sprung_iyy", "kg m2", 620.0, 10.0, 20000.0, "about its centre of gravity"),
    _fixed("sprung_izz", "kg m2", 690.0, 10.0, 20000.0, "about its centre of gravity"),
    _fixed("sprung_ixz", "kg m2", -20.0, -2000.0, 2000.0, "entry of the tensor, minus the integral of x z"),
    _fixed("rack_mass", "kg", 3.0, 0.1, 50.0, "part of the sprung mass that slides"),
    _fixed("wheel_mass", "kg", 15.0, 1.0, 100.0, "with hub and disc"),
    _fixed("wheel_spin_inertia", "kg m2", 0.6, 0.05, 20.0, "about the axle, with hub and disc"),
    _fixed("wheel_transverse_inertia", "kg m2", 0.34, 0.02, 20.0, "about a diameter"),
    _fixed("front_knuckle_mass", "kg", 5.0, 0.5, 100.0, "one side"),
    _fixed("front_knuckle_inertia", "kg m2", 0.03, 0.001, 5.0, "about any axis through its centre"),
    _fixed("front_upper_arm_mass", "kg", 1.6, 0.1, 50.0, "one side, a thin triangle"),
    _fixed("front_lower_arm_mass", "kg", 2.4, 0.1, 50.0, "one side, a thin triangle"),
    _fixed("rear_knuckle_mass", "kg", 7.0, 0.5, 100.0, "one side, with the strut tube"),
    _fixed("rear_knuckle_inertia", "kg m2", 0.1, 0.001, 5.0, "about any axis through its centre"),
    _fixed("rear_arm_mass", "kg", 2.4, 0.1, 50.0, "one side, a thin triangle"),
    _fixed("strut_rod_mass", "kg", 1.6, 0.1, 50.0, "one side, slender"),
    _fixed("front_camber", "rad", 0.0, -0.2, 0.2, "as drawn, top outwards positive"),
    _fixed("front_toe", "rad", 0.0, -0.1, 0.1, "of one wheel as drawn, in positive"),
    _fixed("rear_camber", "rad", 0.0, -0.2, 0.2, "as drawn, top outwards positive"),
    _fixed("rear_toe", "rad", 0.0, -0.1, 0.1, "of one wheel as drawn, in positive"),
)

_RIDE = (
    Parameter("front_spring_rate", "N/m", 40000.0, 1000.0, 500000.0, "along the spring"),
    _fixed("front_spring_length", "m", 0.419, 0.1, 2.0, "free"),
    Parameter("front_damper_bump", "N s/m", 1750.0, 0.0, 50000.0, "while the spring is pressed"),
    Parameter("front_damper_rebound", "N s/m", 3250.0, 0.0, 50000.0, "while it extends"),
    Parameter("rear_spring_rate", "N/m", 23000.0, 1000.0, 500000.0, "along the spring"),
    _fixed("rear_spring_length", "m", 0.3297, 0.1, 2.0, "free"),
    Parameter("rear_damper_bump", "N s/m", 945.0, 0.0, 50000.0, "while the spring is pressed"),
    Parameter("rear_damper_rebound", "N s/m", 1755.0, 0.0, 50000.0, "while it extends"),
    _fixed("stop_travel", "m", 0.06, 0.01, 0.3, "wheel travel up and down at which the stops begin"),
    Parameter("stop_rate", "N/m", 200000.0, 0.0, 5e6, "of the stops, along the spring"),
    Parameter(
        "stops_at",
        "1",
        0.0,
        0.0,
        2.0,
        "where the stops are stated: 0 travel at the wheel, rate at the spring; 1 both at the spring; 2 at the wheel",
        live=False,
        shapes=True,
        of_the_file=False,
    ),
    Parameter("front_anti_roll", "N/m", 0.0, 0.0, 500000.0, "force at each lower ball joint per difference of theirs"),
    Parameter("rear_anti_roll", "N/m", 0.0, 0.0, 500000.0, "force at each lower ball joint per difference of theirs"),
)

_STEERING = (
    Parameter("rack_travel_per_turn", "m", 0.045, 0.01, 0.2, "rack travel for one turn of the hand wheel"),
    _fixed("rack_limit", "m", 0.065, 0.0, 0.15, "rack stop either side of the middle"),
    Parameter("column_inertia", "kg m2", 0.02, 0.0, 1.0, "hand wheel and column, about their axis"),
    # a file may leave out what follows: defaults that change nothing; estimates
    _option("steering_mode", "1", 0.0, 0.0, 1.0, "0: by the hand wheel's angle; 1: by the torque on it"),
    _option("hand_torque", "N m", 0.0, -200.0, 200.0, "on the hand wheel to the left, beside the input; mode 1"),
    _option("column_stiffness", "N m/rad", 0.0, 0.0, 1e5, "of the torsion bar between hand wheel and pinion; 0: rigid"),
    _option(
        "column_friction", "N m", 0.0, 0.0, 20.0, "of column and rack, as felt at the hand wheel; mode 1, or with a bar"
    ),
    _option("column_damping", "N m s/rad", 0.0, 0.0, 20.0, "of the hand wheel against the car; mode 1, or with a bar"),
    _option(
        "steering_assist",
        "1",
        0.0,
        0.0,
        20.0,
        "torque of the assist on the pinion per torque in the column; mode 1, or with a bar",
    ),
    _option("steered_mass", "kg", 60.0, 1.0, 1000.0, "of rack and steered wheels at the rack: where mode 1 begins"),
)

_AIR = (
    Parameter("drag_area", "m2", 0.95, 0.0, 5.0, "drag coefficient times frontal area"),
    Parameter("air_density", "kg/m3", 1.2, 0.5, 2.0, "density of the air"),
    Parameter("grip", "1", 1.0, 0.05, 2.0, "factor on the friction of all tyres"),
    Parameter(
        "turn_slip", "1", 0.0, 0.0, 1.0, "1: tyres have turn slip, whatever their file asks for", of_the_file=False
    ),
    Parameter("lift_area", "m2", 0.0, -5.0, 5.0, "lift coefficient times frontal area, upwards", of_the_file=False),
    Parameter(
        "air_pitch_volume",
        "m3",
        0.0,
        -5.0,
        5.0,
        "pitch moment coefficient times frontal area times length, nose down positive",
        of_the_file=False,
    ),
)


# what hardpoints and toe give, changed while it runs: beside what the file says
_SET = (
    _option("caster_trail", "m", 0.0, -0.1, 0.1, "that the front wheels stand further behind their steering axes"),
    _option("front_toe_in", "rad", 0.0, -0.1, 0.1, "of one wheel, beside front_toe"),
    _option("rear_toe_in", "rad", 0.0, -0.1, 0.1, "of one wheel, beside rear_toe"),
    _option("front_roll_centre", "m", 0.0, -0.5, 0.5, "that the front roll centre is higher than drawn"),
    _option("rear_roll_centre", "m", 0.0, -0.5, 0.5, "that the rear roll centre is higher than drawn"),
    *(
        Parameter(
            f"{axle}_tyre_pressure",
            "Pa",
            0.0,
            0.0,
            2e6,
            "inflation of both tyres, of MF 6 alone; 0: as its file says",
            live=False,
            shapes=True,
            of_the_file=False,
        )
        for axle in ("front", "rear")
    ),
)


def _push(name: str, unit: str, most: float, text: str) -> Parameter:
    return Parameter(name, unit, 0.0, -most, most, text, of_the_file=False)


_NUMERICS = (
    Parameter(
        "step_halving", "1", 0.0, 0.0, 1.0, "1: each step and two halves, extrapolated; 3 times the cost",
        of_the_file=False,
    ),
    Parameter(
        "estimate_every", "1", 0.0, 0.0, 10000.0, "step_error by two halves at each n-th step, which stays as it is",
        of_the_file=False,
    ),
)  # fmt: skip

# a hand on the car
_PUSH = (
    Parameter(
        "push_body", "1", 0.0, 0.0, 4.0, "0: chassis, at its centre; 1 to 4: wheel fl fr rl rr", of_the_file=False
    ),
    _push("push_x", "N", 20000.0, "force from outside along x of the world"),
    _push("push_y", "N", 20000.0, "force from outside along y of the world"),
    _push("push_z", "N", 20000.0, "force from outside, upwards"),
    _push("push_rack", "N", 50000.0, "force from outside on the rack, to the left; mode 1, or with a bar"),
    _push("push_roll", "N m", 10000.0, "torque from outside on the chassis, about its own forward axis"),
    _push("push_pitch", "N m", 10000.0, "torque from outside on the chassis, about its own axis to the left"),
    _push("push_yaw", "N m", 10000.0, "torque from outside on the chassis, about its own upward axis"),
)

_POINTS = tuple(
    Parameter(
        f"{axle}_{point}_{axis}", "m", 0.0, low, high, "hardpoint of the left side as drawn", live=False, shapes=True,
        group=f"{axle} hardpoints",
    )
    for axle, points in (("front", FRONT), ("rear", REAR))
    for point in points
    for axis, low, high in (("x", -5.0, 2.0), ("y", 0.0, 2.0), ("z", 0.0, 2.0))
)  # fmt: skip

PARAMETERS = (
    *_MASSES,
    *_RIDE,
    *_STEERING,
    *_AIR,
    *driveline_parameters.PARAMETERS,
    *brake_parameters.PARAMETERS,
    *_NUMERICS,
    *_PUSH,
    *_POINTS,
    *_SET,
)


P = places("P", PARAMETERS)
W = places("W", OUTPUTS)
V = places("V", WHEEL)
