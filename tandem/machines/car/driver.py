"""A driver as a machine: follows a circle at a speed, by where the car is. Its inputs and outputs are called as a car's
outputs and inputs, so that tools connect the two by name (docs/fmu.md).

He looks ahead along the circle, steers at the point he sees (pure pursuit), and has the throttle and the brake by how
much too slow or too fast he is. Hands and feet follow with a lag.
"""

import math

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import STEP, Machine, Parameter, Quantity, Shown, places
from sim_service.contract.scene import Camera, Scene, box
from sync.compile.jit import kernel

INPUTS = (
    Quantity("x", "m", "of the car"),
    Quantity("y", "m", "of the car"),
    Quantity("yaw", "rad", "heading of the car"),
    Quantity("vx", "m/s", "velocity of the car along its axis"),
)
STATES = (
    Quantity("hands", "rad", "hand wheel angle, left positive"),
    Quantity("foot", "1", "throttle if positive, brake if negative"),
)
OUTPUTS = (
    Quantity("steering_angle", "rad", "hand wheel angle, left positive"),
    Quantity("steering_speed", "rad/s", "hand wheel speed, left positive"),
    Quantity("throttle", "1", "pedal fraction, 0 released, 1 pressed"),
    Quantity("brake_pressure_bar", "bar", "brake line pressure above ambient"),
    Quantity("beside", "m", "of the circle: outwards positive"),
)
PARAMETERS = (
    Parameter("radius", "m", 30.0, 5.0, 1000.0, "of the circle, which begins at the origin along x and goes left"),
    Parameter("speed", "m/s", 8.0, 0.5, 60.0, "that he aims at; pedals press by how much is lacking"),
    Parameter("preview", "s", 0.7, 0.1, 3.0, "looked ahead"),
    Parameter("preview_min", "m", 5.0, 1.0, 50.0, "looked ahead at least"),
    Parameter("wheelbase", "m", 2.25, 1.0, 5.0, "of the car"),
    Parameter("steering_ratio", "1", 16.0, 5.0, 30.0, "hand wheel angle of a steer angle"),
    Parameter("pedal_gain", "s/m", 0.3, 0.01, 5.0, "pedal of a speed that is wrong by 1 m/s"),
    Parameter("brake_bar", "bar", 40.0, 0.0, 200.0, "of a brake that is pressed wholly"),
    Parameter("reaction", "s", 0.1, 0.01, 1.0, "lag of hands and feet"),
)
S, P, W = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS)
I = places("I", INPUTS)  # noqa: E741  the letter of the field


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    x, y, v = inputs[I.x], inputs[I.y], inputs[I.vx]
    radius = params[P.radius]
    # the point ahead on the circle, whose centre is (0, radius)
    ahead = max(params[P.preview] * v, params[P.preview_min])
    angle = math.atan2(x, radius - y) + ahead / radius
    dx, dy = radius * math.sin(angle) - x, radius - radius * math.cos(angle) - y
    c, s = math.cos(inputs[I.yaw]), math.sin(inputs[I.yaw])
    left, distance = c * dy - s * dx, max(dx * dx + dy * dy, 1e-6)
    steer = math.atan(2.0 * params[P.wheelbase] * left / distance)
    share = 1.0 - math.exp(-h / params[P.reaction])
    before = state[S.hands]
    state[S.hands] += share * (params[P.steering_ratio] * steer - state[S.hands])
    pedal = min(max(params[P.pedal_gain] * (params[P.speed] - v), -1.0), 1.0)
    state[S.foot] += share * (pedal - state[S.foot])
    work[W.steering_angle], work[W.steering_speed] = state[S.hands], (state[S.hands] - before) / h
    work[W.throttle] = max(state[S.foot], 0.0)
    work[W.brake_pressure_bar] = params[P.brake_bar] * max(-state[S.foot], 0.0)
    work[W.beside] = math.sqrt(x * x + (y - radius) * (y - radius)) - radius


def frames(state, params, out):
    """The hand wheel turns about the axis that points at him."""
    c, s = math.cos(state[S.hands]), math.sin(state[S.hands])
    out[1, 2], out[1, 3] = (0.0, c, s), (0.0, -s, c)


_FIGURES = (Tile("beside", "beside", "m", 1.0, 2), Tile("throttle", "throttle", "%", 100.0))
_SCENE = Scene(
    frames=2,
    solids=(box("hand wheel", 1, (-0.02, -0.18, -0.02), (0.02, 0.18, 0.02)),),
    size=0.5,
    cameras=(Camera("behind", (-1.0, 0.0, 0.2), (0.0, 0.0, 0.0), "world"),),
)
MACHINE = Machine(
    name="driver",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    capabilities=(Shown(Display(figures=_FIGURES), _SCENE, frames),),
)
