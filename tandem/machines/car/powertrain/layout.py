"""What a powertrain adds to a car, and where its parts stand. Nothing here is compiled."""

from sim_service.contract.machine import Parameter, Quantity, places

INPUTS = (
    Quantity(
        "brake_pedal", "1", "0 released, 1 pressed: through the booster; replaces brake_pressure_bar", optional=True
    ),
)
STATES = (
    Quantity("engine_speed", "rad/s", "crankshaft"),
    Quantity("gear", "1", "engaged, or being engaged"),
    Quantity("ratio", "1", "of gear and final drive"),
    Quantity("ratio_before", "1", "from which the last shift began"),
    Quantity("shift_clock", "s", "since it began"),
    Quantity("line_bar", "bar", "in the brake line"),
    Quantity("motor_energy", "J", "taken from the battery; less what came back"),
    Quantity("response", "1", "of the engine to the pedal: its place, lagged"),
    # of the single-track car alone, from here on: the buggy has an ABS at each wheel
    Quantity("front_valve_bar", "bar", "that the ABS lets pass"),
    Quantity("front_slip", "1", "as of the last step"),
    Quantity("rear_valve_bar", "bar", "that the ABS lets pass"),
    Quantity("rear_slip", "1", "as of the last step"),
)
OUTPUTS = (
    Quantity("engine_speed", "rad/s", "of the crankshaft"),
    Quantity("gear", "1", "engaged; 0 without a gearbox"),
    Quantity("engine_torque", "N m", "at the crankshaft"),
    Quantity("axle_torque_front", "N m", "of engine and motor on both front wheels"),
    Quantity("axle_torque_rear", "N m", "of engine and motor on both rear wheels"),
    Quantity("motor_torque", "N m", "of the motor; below 0 it regenerates"),
    Quantity("motor_power", "W", "from the battery; below 0 into it"),
    Quantity("motor_energy", "J", "taken from the battery since the start, less what came back"),
    Quantity("brake_bar", "bar", "at the wheels, behind booster and ABS"),
)
# of the file; the defaults here are replaced by what it says
PARAMETERS = (
    Parameter("torque_factor", "1", 1.0, 0.1, 3.0, "on the engine's torque", of_the_file=False),
    Parameter("response_s", "s", 0.1, 0.0, 3.0, "lag of the engine's torque behind the pedal", of_the_file=False),
    Parameter("driveline_efficiency", "1", 0.95, 0.5, 1.0, "of gears, in both directions", of_the_file=False),
    Parameter("front_share", "1", 0.0, 0.0, 1.0, "of the engine's torque on the front axle", of_the_file=False),
    Parameter("centre_lock", "N m s/rad", 0.0, 0.0, 5000.0, "between the axles", of_the_file=False),
    Parameter("centre_bias", "1", 0.0, 0.0, 1.0, "of plates between the axles, per torque", of_the_file=False),
    Parameter("regeneration", "N m", 0.0, 0.0, 2000.0, "of the motor, both pedals released", of_the_file=False),
    Parameter("pedal_bar", "bar", 100.0, 0.0, 300.0, "in the line at the full brake pedal", of_the_file=False),
    # of the single-track car alone: the buggy has one of this name, for each wheel
    Parameter("abs", "1", 1.0, 0.0, 1.0, "1: anti-lock control, of both axles together", of_the_file=False),
)
# of the buggy alone, in their place; those of its rear axle are its own, in this order (driveline_parameters.py)
FRONT_AXLE = tuple(
    Parameter(f"front_differential_{name}", unit, 0.0, 0.0, most, text, of_the_file=False)
    for name, unit, most, text in (
        ("lock", "N m s/rad", 1e6, "torque between the front wheels per difference of their speeds; 1e5 is locked"),
        ("preload", "N m", 1000.0, "with which one front wheel is to be turned against the other without drive"),
        ("bias", "1", 1.0, "locking value under drive"),
        ("bias_coast", "1", 1.0, "the same where the wheels drive the engine"),
    )
)
# numbers that are one of a kind, in NUMBERS
NUMBERS = (
    "engine", "inertia", "idle_rpm", "limit_rpm", "clutch", "capacity", "stall_ratio", "coupling", "locks_from_gear",
    "locks_at", "most", "engages_rpm", "final", "shift_s", "pause_s", "motor", "motor_torque", "motor_power",
    "motor_ratio", "motor_front", "motor_efficiency", "regeneration_pedal", "booster_knee", "booster_rest", "lag_s",
)  # fmt: skip

# What the buggy's step reads beside its own, behind that (buggy/slots.py): what is decided once a step, numbers and
# parameters as above, the front differential; then the speeds of the map, and torque at the pressed and the released
# pedal, in places for the longest map there may be.
DECIDED = (
    "on",  # 0: the torque from outside, on the rear axle
    "throttle", "foot", "speed", "ratio",
    "carries",  # N m of clutch or lock at most
    "converts",  # N m of the converter at most
    "idle_torque",  # N m of the governor
    "points",  # of the map, over speed
)  # fmt: skip
MOST_POINTS = 60
# and what its step leaves: of the end of the step, but for `sticks`, `rate` the start of the next one too
LEFT = (
    "engine_speed", "rate", "sticks", "engine_torque", "front_torque", "rear_torque", "motor_torque", "motor_power",
)  # fmt: skip

# parts of its own numbers (sync/compile/parts.py)
A = places("A", ("NUMBERS", "RPM", "PEDAL", "TORQUE", "RATIOS", "UP", "DOWN", "ABS"))
I = places("I", INPUTS)  # noqa: E741  the letter of the field
S = places("S", STATES)
W = places("W", OUTPUTS)
P = places("P", PARAMETERS)
N = places("N", NUMBERS)
D = places("D", DECIDED)
L = places("L", LEFT)

LEFT_BEHIND = len(LEFT)
ABS_STATES = len(STATES) - S.front_valve_bar  # the last ones
OF_NUMBERS = len(DECIDED)
OF_PARAMETERS = OF_NUMBERS + len(NUMBERS)
OF_FRONT_AXLE = OF_PARAMETERS + P.abs
OF_MAP = OF_FRONT_AXLE + len(FRONT_AXLE)
LIVE = OF_MAP + 3 * MOST_POINTS
