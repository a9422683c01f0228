"""Parameters, states and memory of the driveline (driveline.py); where each is in its vector. Compiles nothing."""

from sim_service.contract.machine import Parameter, Quantity, places

PARAMETERS = (
    Parameter("engine_inertia", "kg m2", 0.12, 0.02, 1.0, "crankshaft, flywheel and converter pump"),
    Parameter("engine_idle_rpm", "rpm", 850.0, 500.0, 1500.0, "speed the idle governor keeps in gear at standstill"),
    Parameter("engine_idle_torque", "N m", 64.0, 20.0, 150.0, "most the idle governor adds; half of it at idle speed"),
    Parameter("engine_limiter_rpm", "rpm", 6000.0, 3000.0, 6000.0, "where the limiter begins to cut"),
    Parameter("converter_capacity", "N m s2/rad2", 2.43e-3, 1e-3, 1e-2, "pump torque per squared speed at stall"),
    Parameter("converter_stall_ratio", "1", 2.0, 1.5, 2.5, "turbine torque per pump torque at stall"),
    Parameter("converter_coupling", "1", 0.87, 0.75, 0.92, "speed ratio where torque multiplication ends"),
    Parameter("gear_mode", "1", 1.0, 0.0, 2.0, "0 rigid, or a measured torque; 1 automatic; 2 gear_held"),
    Parameter("gear_held", "1", 2.0, -1.0, 3.0, "gear of modes 0 and 2; 0 is neutral, -1 reverse"),
    Parameter("gear_first", "1", 2.475, 0.5, 5.0, "ratio"),
    Parameter("gear_second", "1", 1.475, 0.5, 5.0, "ratio"),
    Parameter("gear_third", "1", 1.0, 0.5, 5.0, "ratio"),
    Parameter("gear_final", "1", 3.673, 1.0, 10.0, "ratio of the differential"),
    Parameter("gear_efficiency", "1", 0.95, 0.8, 1.0, "of gearbox and differential, in both directions"),
    Parameter("shift_up_released_rpm", "rpm", 1300.0, 1000.0, 5500.0, "turbine speed of upshifts, pedal released"),
    Parameter("shift_up_full_rpm", "rpm", 4700.0, 2000.0, 5500.0, "turbine speed of upshifts, pedal pressed"),
    Parameter("shift_down_released_rpm", "rpm", 1000.0, 500.0, 4000.0, "turbine speed after a downshift, released"),
    Parameter("shift_down_full_rpm", "rpm", 2800.0, 500.0, 4000.0, "turbine speed after a downshift, pressed"),
    Parameter("shift_kickdown_rpm", "rpm", 4000.0, 500.0, 5000.0, "turbine speed after a kick-down, at most"),
    Parameter("shift_kickdown_throttle", "1", 0.9, 0.5, 1.0, "pedal fraction from which kick-down is asked for"),
    Parameter("shift_time", "s", 0.3, 0.05, 1.0, "the ratio changes over this time"),
    Parameter("shift_pause", "s", 1.0, 0.1, 5.0, "from the beginning of a shift to that of the next, at least"),
    # a file may leave out what follows: defaults that change nothing; estimates
    Parameter("gear_reverse", "1", 2.475, 0.5, 5.0, "ratio of reverse, as that of first", of_the_file=False),
    Parameter(
        "differential_lock",
        "N m s/rad",
        0.0,
        0.0,
        1e6,
        "torque between the rear wheels per difference of their speeds: 0 is open, 1e5 locked",
        of_the_file=False,
    ),
    Parameter(
        "differential_preload",
        "N m",
        0.0,
        0.0,
        1000.0,
        "with which one rear wheel is to be turned against the other without drive",
        of_the_file=False,
    ),
    Parameter(
        "differential_bias",
        "1",
        0.0,
        0.0,
        1.0,
        "locking value under drive: most difference of both wheel torques, per sum of them",
        of_the_file=False,
    ),
    Parameter(
        "differential_bias_coast", "1", 0.0, 0.0, 1.0, "the same where the wheels drive the engine", of_the_file=False
    ),
)

STATES = (
    Quantity("engine_speed", "rad/s", "crankshaft and converter pump"),
    Quantity("turbine_speed", "rad/s", "converter turbine: axle speed times ratio, as of the last step"),
)

MEMORY = (
    Quantity("gear", "1", "-1 to 3: engaged, or being engaged"),
    Quantity("ratio", "1", "of gear and final drive at the end of the step, for `driveline`"),
    Quantity("ratio_before", "1", "the ratio from which the last shift began"),
    Quantity("shift_clock", "s", "since the last shift began"),
    Quantity("loaded_throttle", "1", "pedal at the last downshift while it is kept there, else FREE"),
)

P = places("P", PARAMETERS)
S = places("S", STATES)
M = places("M", MEMORY)
