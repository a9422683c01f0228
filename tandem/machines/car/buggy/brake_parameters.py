"""Parameters, states and memory of the brakes (brakes.py); where each is in its vector. Compiles nothing."""

from sim_service.contract.machine import Parameter, Quantity, places

PARAMETERS = (
    Parameter("brake_front", "N m/bar", 11.0, 0.0, 100.0, "braking torque of one front wheel per pressure"),
    Parameter("brake_rear", "N m/bar", 6.5, 0.0, 100.0, "braking torque of one rear wheel per pressure"),
    Parameter("brake_drag", "N m", 1.0, 0.0, 20.0, "friction of bearing and released pads of one wheel"),
    Parameter("brake_stiffness", "N m/rad", 3e4, 1e3, 1e6, "torque per angle the held wheel gives way"),
    Parameter("brake_damping", "N m s/rad", 155.0, 1.0, 1e4, "torque per speed of the same"),
    Parameter("abs", "1", 0.0, 0.0, 1.0, "1: anti-lock control"),
    Parameter("abs_slip_low", "1", 0.1, 0.01, 0.5, "slip below which pressure builds up"),
    Parameter("abs_slip_high", "1", 0.18, 0.02, 0.8, "slip above which pressure is let out"),
    Parameter("abs_build", "bar/s", 100.0, 5.0, 1000.0, "rise of the limited pressure"),
    Parameter("abs_dump", "bar/s", 800.0, 20.0, 5000.0, "fall of the limited pressure"),
    Parameter("abs_speed", "m/s", 2.0, 0.5, 10.0, "no control below this speed"),
    Parameter("brake_lag", "s", 0.0, 0.0, 1.0, "time constant of the pressure at the wheels", of_the_file=False),
)

STATES = (  # of one wheel
    Quantity("wind_up", "rad", "elastic angle of the brake, turned forward positive"),
    Quantity("wheel_speed", "rad/s", "as of the last step"),
)

MEMORY = (  # of one wheel
    Quantity("valve_bar", "bar", "pressure the valve lets pass"),
    Quantity("slip", "1", "as of the last step"),
)

OPEN_BAR = 1e3  # a valve that limits nothing

P = places("P", PARAMETERS)
S = places("S", STATES)
M = places("M", MEMORY)
