"""A mass on a spring whose other end is in somebody's hand: the machine of docs/your_machine.md.

    m dv/dt = k (handle - x) - c v        the hand feels k (handle - x)

One step is the trapezoidal rule with the handle as it is now, solved for the new velocity: stable at any step.
"""

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import STEP, Efforts, Machine, Parameter, Quantity, Rates, Shown, Tangent, places
from sim_service.contract.scene import Bar, Camera, Point, Scene, box
from sync.compile.jit import kernel

INPUTS = (Quantity("handle", "m", "where the hand holds the spring"),)
STATES = (
    Quantity("x", "m", "position of the mass; at rest where the handle is"),
    Quantity("v", "m/s", "its velocity"),
)
OUTPUTS = (
    Quantity("position", "m", "of the mass"),
    Quantity("velocity", "m/s", "of the mass"),
    Quantity("stretch", "m", "of the spring: handle minus position"),
    Quantity("hand_force", "N", "with which the spring pulls the hand back"),
)
PARAMETERS = (
    Parameter("mass", "kg", 0.5, 0.01, 100.0, "of what hangs on the spring"),
    Parameter("stiffness", "N/m", 200.0, 0.0, 1e5, "of the spring"),
    Parameter("damping", "N s/m", 2.0, 0.0, 1e3, "of the mass against the ground"),
)
S, P, W = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS)
I = places("I", INPUTS)  # noqa: E741  the letter of the field


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    m, k, c = params[P.mass], params[P.stiffness], params[P.damping]
    x, v, handle = state[S.x], state[S.v], inputs[I.handle]
    half = 0.5 * h * (c + 0.5 * h * k) / m
    new = ((1.0 - half) * v + h * k / m * (handle - x)) / (1.0 + half)
    x += 0.5 * h * (v + new)
    state[S.x], state[S.v] = x, new
    work[W.position], work[W.velocity], work[W.stretch] = x, new, handle - x
    work[W.hand_force] = k * (handle - x)


@kernel(STEP)
def rates_of_change(state, inputs, params, tables, work, h):
    """Outputs and, behind them, the rates of the states: for those who integrate themselves (docs/fmu.md)."""
    stretch = inputs[I.handle] - state[S.x]
    work[W.position], work[W.velocity], work[W.stretch] = state[S.x], state[S.v], stretch
    work[W.hand_force] = params[P.stiffness] * stretch
    work[4 + S.x] = state[S.v]
    work[4 + S.v] = (params[P.stiffness] * stretch - params[P.damping] * state[S.v]) / params[P.mass]


@kernel(STEP)
def tangent_of_rates(state, inputs, params, tables, work, h):
    """Of every output and every rate, a row each, by x, v and handle: they are linear."""
    for i in range(18):
        work[i] = 0.0
    k, m = params[P.stiffness], params[P.mass]
    work[0], work[4] = 1.0, 1.0
    work[6], work[8], work[9], work[11] = -1.0, 1.0, -k, k
    work[13], work[15], work[16], work[17] = 1.0, -k / m, -params[P.damping] / m, k / m


def frames(state, params, out):
    """The mass; the handle is the world's origin."""
    out[1, 0, 0] = 0.3 + state[S.x]


MACHINE = Machine(
    name="mass_spring",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    capabilities=(
        Shown(
            display=Display(
                hands=(Tile("handle", "handle", "mm", 1e3, 1, full=0.1),),
                figures=(Tile("mass", "position", "mm", 1e3, 1), Tile("force", "hand_force", "N", 1.0, 2)),
                plots=(("handle", "position"), ("hand_force", "velocity")),
            ),
            scene=Scene(
                frames=2,
                solids=(  # a camera follows the first: what moves is the mass
                    box("origin", 0, (-0.02, -0.05, -0.05), (0.0, 0.05, 0.05)),
                    box("mass", 1, (-0.05, -0.05, -0.05), (0.05, 0.05, 0.05)),
                ),
                bars=(Bar("spring", Point(0), Point(1), "spring", 0.02),),
                size=0.5,
                cameras=(Camera("side", (0.2, -1.0, 0.3), (0.2, 0.0, 0.0), "world"),),
            ),
            frames=frames,
        ),
        Efforts(("hand_force",)),
        Tangent("tandem.machines.mass_spring.tangent"),
        Rates(rates_of_change, __name__),
    ),
)
