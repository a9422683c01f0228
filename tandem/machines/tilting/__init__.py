"""A narrow vehicle whose body leans on a base that does not: a pendulum upside down, held by a tilt actuator.

    J dw/dt = m l (g sin(phi) + a cos(phi)) + T - c w          a = v r
    dT/dt   = (T_set - T) / t_T          T_set = -k (phi - phi_set) - d w - m l (g sin(phi_set) + a cos(phi_set))
    dr/dt   = (v tan(delta) / L - r) / t_r          dv/dt = ax          d(psi)/dt = r

phi is the body's roll against the vertical, to the right positive (ISO 8855), w its rate, T the actuator's torque, r
the yaw rate, v the speed. The controller leans the body so that its occupant feels no force sideways: phi_set =
-atan(a / g). On a banked road the base rolls by the bank, which a sensor in the tilt joint sees and the pendulum does
not. All of it is smooth but for the limit of the torque. One step is that of Runge and Kutta (order 4).

The equations are written for numbers and for numbers with derivatives (multibody/relative/dual.py) alike: observed.py
takes the tangent of the same step.
"""

from math import atan, cos, isnan, sin

import numpy as np

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import STEP, Machine, Parameter, Quantity, Rates, Shown, places
from sim_service.contract.scene import Bar, Camera, Point, Scene, Solid, Wheel, box, skin
from sync.compile.jit import inner, kernel

GRAVITY = 9.81  # m/s2

INPUTS = (
    Quantity("steer", "rad", "of the front wheel, left positive"),
    Quantity("acceleration", "m/s2", "along the path; 0 if it is not measured", optional=True),
)
STATES = (
    Quantity("roll", "rad", "of the body against the vertical, right positive"),
    Quantity("roll_rate", "rad/s", "its rate"),
    Quantity("torque", "N m", "of the tilt actuator on the body"),
    Quantity("yaw_rate", "rad/s", "left positive"),
    Quantity("speed", "m/s", "along the path"),
    Quantity("heading", "rad", "not wrapped"),
)
OUTPUTS = (
    *STATES,
    Quantity("lateral_acceleration", "m/s2", "of the base, to the left"),
    Quantity("felt", "m/s2", "what the occupant feels sideways, along the body's axis to the left"),
    Quantity("roll_wanted", "rad", "by the controller"),
)
PARAMETERS = (
    Parameter("mass", "kg", 250.0, 50.0, 1000.0, "of what leans, occupant included"),
    Parameter("height", "m", 0.6, 0.1, 2.0, "of its centre of gravity above the tilt joint"),
    Parameter("inertia", "kg m2", 40.0, 1.0, 1000.0, "about its centre of gravity, along the vehicle"),
    Parameter("damping", "N m s/rad", 20.0, 0.0, 1e4, "in the tilt joint"),
    Parameter("wheelbase", "m", 1.8, 0.5, 5.0, "front to rear"),
    Parameter("yaw_lag", "s", 0.15, 0.01, 2.0, "of the yaw rate behind the steering"),
    Parameter("torque_lag", "s", 0.03, 0.005, 1.0, "of the actuator"),
    Parameter("torque_limit", "N m", 1200.0, 10.0, 1e5, "of the actuator"),
    Parameter("stiffness", "N m/rad", 6000.0, 0.0, 1e5, "of the controller"),
    Parameter("rate_gain", "N m s/rad", 900.0, 0.0, 1e4, "of the controller"),
    Parameter("known_mass", "kg", 250.0, 50.0, 1000.0, "that the controller reckons with"),
    Parameter("start_speed", "m/s", 8.0, 0.0, 40.0, "at the beginning of a run", live=False),
)
S, P, W = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS)
I = places("I", INPUTS)  # noqa: E741  the letter of the field
_BEHIND = len(OUTPUTS)  # the first of the rates
_STEER, _ACCELERATION = int(I.steer), int(I.acceleration)  # of a tuple, too: numbers with derivatives come in one


@inner
def set_missing(inputs):
    if isnan(inputs[I.acceleration]):
        inputs[I.acceleration] = 0.0


@inner
def wanted(p, yaw_rate, speed):
    """Roll that the controller wants."""
    return -atan(speed * yaw_rate / GRAVITY)


@inner
def rates(p, inputs, mass, phi, w, T, r, v):
    """Of roll rate, torque, yaw rate and speed."""
    l = p[P.height]  # noqa: E741
    a, moment = v * r, mass * l
    J = p[P.inertia] + moment * l
    aim = wanted(p, r, v)
    known = p[P.known_mass] * l
    T_set = -p[P.stiffness] * (phi - aim) - p[P.rate_gain] * w - known * (GRAVITY * sin(aim) + a * cos(aim))
    limit = p[P.torque_limit]
    T_set = max(min(T_set, limit), -limit)
    w_dot = (moment * (GRAVITY * sin(phi) + a * cos(phi)) + T - p[P.damping] * w) / J
    tan_steer = sin(inputs[_STEER]) / cos(inputs[_STEER])
    r_dot = (v * (tan_steer / p[P.wheelbase]) - r) / p[P.yaw_lag]
    return w_dot, (T_set - T) / p[P.torque_lag], r_dot, inputs[_ACCELERATION]


@inner
def runge_kutta(p, inputs, mass, phi, w, T, r, v, psi, h):
    """The state after a step."""
    w1, T1, r1, v1 = rates(p, inputs, mass, phi, w, T, r, v)
    k = 0.5 * h
    wa, ra = w + k * w1, r + k * r1
    w2, T2, r2, v2 = rates(p, inputs, mass, phi + k * w, wa, T + k * T1, ra, v + k * v1)
    wb, rb = w + k * w2, r + k * r2
    w3, T3, r3, v3 = rates(p, inputs, mass, phi + k * wa, wb, T + k * T2, rb, v + k * v2)
    wc, rc = w + h * w3, r + h * r3
    w4, T4, r4, v4 = rates(p, inputs, mass, phi + h * wb, wc, T + h * T3, rc, v + h * v3)
    s = h / 6.0
    return (
        phi + s * (w + 2.0 * (wa + wb) + wc), w + s * (w1 + 2.0 * (w2 + w3) + w4), T + s * (T1 + 2.0 * (T2 + T3) + T4),
        r + s * (r1 + 2.0 * (r2 + r3) + r4), v + s * (v1 + 2.0 * (v2 + v3) + v4), psi + s * (r + 2.0 * (ra + rb) + rc),
    )  # fmt: skip


@inner
def derived(p, phi, r, v):
    """The outputs that are no states."""
    return v * r, v * r * cos(phi) + GRAVITY * sin(phi), wanted(p, r, v)


@inner
def write_outputs(state, params, work):
    for i in range(6):
        work[i] = state[i]
    work[W.lateral_acceleration], work[W.felt], work[W.roll_wanted] = derived(
        params, state[S.roll], state[S.yaw_rate], state[S.speed]
    )


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    set_missing(inputs)
    phi, w, T, r, v, psi = runge_kutta(
        params, inputs, params[P.mass], state[S.roll], state[S.roll_rate], state[S.torque], state[S.yaw_rate],
        state[S.speed], state[S.heading], h,
    )  # fmt: skip
    state[S.roll], state[S.roll_rate], state[S.torque] = phi, w, T
    state[S.yaw_rate], state[S.speed], state[S.heading] = r, v, psi
    write_outputs(state, params, work)


@kernel(STEP, error_model="numpy")
def rates_of_change(state, inputs, params, tables, work, h):
    """Outputs and, behind them, the rates of the states: for those who integrate themselves (docs/fmu.md)."""
    set_missing(inputs)
    write_outputs(state, params, work)
    roll_rate, yaw_rate = state[S.roll_rate], state[S.yaw_rate]
    w_dot, T_dot, r_dot, v_dot = rates(
        params, inputs, params[P.mass], state[S.roll], roll_rate, state[S.torque], yaw_rate, state[S.speed]
    )
    work[_BEHIND + S.roll], work[_BEHIND + S.roll_rate], work[_BEHIND + S.torque] = roll_rate, w_dot, T_dot
    work[_BEHIND + S.yaw_rate], work[_BEHIND + S.speed], work[_BEHIND + S.heading] = r_dot, v_dot, yaw_rate


def initial(state, params, tables, work):
    """Upright, at its speed."""
    state[:] = 0.0
    work[:] = 0.0
    state[S.speed] = work[W.speed] = params[P.start_speed]


_TRACK, _RADIUS = 0.35, 0.25  # m, half of what is between the rear wheels; of the wheels
_JOINT = 0.3  # m, the tilt joint above the ground
BASE, BODY = range(2)
_FRONT, _REAR = 1.1, -0.7  # m, axles


def frames(state, params, out):
    """The base turns with its heading where it is, for the model knows no place; the body leans on it."""
    c, s = cos(state[S.heading]), sin(state[S.heading])
    out[BASE, 0], out[BASE, 1], out[BASE, 2] = (0.0, 0.0, _JOINT), (c, s, 0.0), (-s, c, 0.0)
    lean, upright = sin(state[S.roll]), cos(state[S.roll])  # to the right: what is left goes up
    out[BODY, 0], out[BODY, 1] = out[BASE, 0], out[BASE, 1]
    out[BODY, 2] = (-s * upright, c * upright, lean)
    out[BODY, 3] = (s * lean, -c * lean, upright)


def scene():
    wheel = _RADIUS - _JOINT
    where = (("rear left", _REAR, _TRACK), ("rear right", _REAR, -_TRACK), ("front", _FRONT, 0.0))
    return Scene(
        frames=2,
        solids=(
            box("base", BASE, (_REAR - 0.1, -0.2, -0.08), (_FRONT, 0.2, 0.0)),
            Solid("body", BODY, np.array([-0.8, -0.3, 0.0]), np.array([0.9, 0.3, 1.2]), shell=_SKIN[0], faces=_SKIN[1]),
        ),
        bars=(
            Bar("axle", Point(BASE, (_REAR, _TRACK, wheel)), Point(BASE, (_REAR, -_TRACK, wheel)), "rod", 0.02),
            Bar("upright", Point(BODY), Point(BODY, (0.0, 0.0, 0.6)), "strut", 0.02),
        ),
        wheels=tuple(
            Wheel(name, Point(BASE, (x, y, wheel)), _RADIUS, 0.12, steer="steer" if name == "front" else "")
            for name, x, y in where
        ),
        size=1.6,
        cameras=(
            Camera("behind", (-4.2, 0.0, 1.2), (0.3, 0.0, 0.4)),
            Camera("side", (0.2, -4.2, 0.8), (0.2, 0.0, 0.3)),
            Camera("front", (4.2, 0.0, 1.0), (0.0, 0.0, 0.4)),
        ),
    )


_SKIN = skin(
    (
        (-0.8, 0.25, 0.1, 0.7),
        (-0.5, 0.3, 0.05, 1.15),
        (0.1, 0.3, 0.05, 1.2),
        (0.6, 0.28, 0.05, 0.75),
        (0.95, 0.12, 0.1, 0.35),
    )
)


MACHINE = Machine(
    name="tilting",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    capabilities=(
        Shown(
            display=Display(
                hands=(Tile("steer", "steer", "deg", 57.29577951308232, 1, full=0.3),),
                figures=(Tile("roll", "roll", "deg", 57.29577951308232, 1), Tile("felt", "felt", "m/s²", 1.0, 2)),
                plots=(("roll", "roll_wanted"), ("felt", "lateral_acceleration")),
            ),
            scene=scene(),
            frames=frames,
        ),
        Rates(rates_of_change, "tandem.machines.tilting.tangent"),
    ),
)
