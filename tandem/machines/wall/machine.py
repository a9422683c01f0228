"""A virtual wall, a sprung mass and a ball to bounce, in somebody's hand: see docs/haptics.md.

The measured motion of the port comes in, the force that opposes it goes out and is held until the next step. The wall
is where the position is below `wall`: K (position - wall) + B velocity, in laws.py, which know that a force is held and
that the surface is crossed between samples. Four displays:

    0 impedance control             a law of position and velocity alone: the wall, or a spring
    1 impedance display             a virtual body on a spring and a damper (the coupler) to the port; its force is felt
    2 inverse dynamics              the body is fixed to the port: what moves it is felt
    3 admittance display            the measured hand force moves the body; a servo brings the port to it

and three objects: 0 the wall; 1 the sprung mass (R. B. Gillespie, 1996, eq. 4.1, its sign corrected), m dv/dt =
K (position - y); 2 a ball that falls, and bounces on the port. Contacts of bodies are located inside the step
(sync/signals/piecewise.py).

The energy that sampling gives out is counted as it happens: what a step stored in the wall minus what the held force
took from the hand on the way, apart for steps on which the surface was crossed.
"""

import numpy as np

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import STEP, Efforts, Machine, Parameter, Quantity, Shown, places
from sim_service.contract.scene import Bar, Camera, Point, Scene, box
from sync.compile.jit import kernel
from sync.signals.linear_flow import too_stiff
from tandem.machines.wall import bodies, hand, laws

IMPEDANCE_CONTROL, IMPEDANCE_DISPLAY, INVERSE_DYNAMICS, ADMITTANCE = range(4)
WALL, SPRUNG_MASS, BALL = range(3)

INPUTS = (
    Quantity("position", "m", "of the port"),
    Quantity("velocity", "m/s", "of the port; not measured: the difference of two positions", optional=True),
    Quantity("acceleration", "m/s2", "of the port; not measured: the difference of two velocities", optional=True),
    Quantity("hand_force", "N", "with which the hand pushes the port; needed by the admittance display", optional=True),
)
STATES = (
    Quantity("last_position", "m", "of the port, a step before"),
    Quantity("last_velocity", "m/s", "of the port, a step before"),
    Quantity("last_force", "N", "held until now, without what finds the hand"),
    Quantity("begun", "1", "1 once there was a step"),
    Quantity("body", "m", "position of the virtual body"),
    Quantity("body_velocity", "m/s", "its velocity"),
    Quantity("contact", "1", "1 while the body touches"),
    Quantity("servo", "m s", "integral of the servo's error"),
    *(Quantity(name, unit, text) for name, unit, text in laws.MEMORY),
    *(Quantity(f"probe_{place.name.lower()}", "1", "of what finds the hand") for place in hand.MEMORY),
    Quantity("hold_leak", "J", "given out because forces are held"),
    Quantity("crossing_leak", "J", "given out because the surface was crossed between samples"),
    Quantity("events", "1", "contacts made and broken"),
    Quantity("exceeded", "1", "steps with too many of them"),
    Quantity("too_stiff", "1", "steps without a force, for what is set is too stiff for the step"),
)
OUTPUTS = (
    Quantity("force", "N", "that opposes the hand, held until the next step"),
    Quantity("depth", "m", "of the port, or of the body, in the wall"),
    Quantity("speed", "m/s", "of the port"),
    Quantity("body_position", "m", "of the virtual body"),
    Quantity("in_contact", "1", "1 where the wall or the ball is touched"),
    Quantity("stiffness_used", "N/m", "of the wall, after the limit"),
    Quantity("hold_energy", "J", "given out because forces are held"),
    Quantity("crossing_energy", "J", "given out because the surface was crossed between samples"),
    Quantity("contacts", "1", "made and broken"),
    Quantity("contacts_exceeded", "1", "steps with too many of them"),
    Quantity("too_stiff", "1", "steps without a force, for what is set is too stiff for the step"),
    Quantity("port", "m", "position of the port"),
    Quantity("probe_force", "N", "of the force, the part that finds the hand"),
    Quantity("hand_mass", "kg", "found, less `device_mass`; 0 before it is"),
    Quantity("hand_damping", "N s/m", "found, less `device_damping`"),
    Quantity("hand_stiffness", "N/m", "found"),
    Quantity("hand_mass_sigma", "kg", "its standard deviation"),
    Quantity("hand_damping_sigma", "N s/m", "its standard deviation"),
    Quantity("hand_stiffness_sigma", "N/m", "its standard deviation"),
)
PARAMETERS = (
    Parameter("display", "1", 0.0, 0.0, 3.0, "0 impedance control, 1 with coupler, 2 inverse dynamics, 3 admittance"),
    Parameter("object", "1", 0.0, 0.0, 2.0, "0 wall, 1 sprung mass, 2 ball"),
    Parameter("law", "1", 0.0, 0.0, 4.0, ", ".join(f"{k} {name}" for k, name in enumerate(laws.NAMES))),
    Parameter("crossing", "1", 0.0, 0.0, 1.0, "1: crossings of the surface are located between samples"),
    Parameter("wall", "m", 0.0, -10.0, 10.0, "where the wall begins; it is below"),
    Parameter("stiffness", "N/m", 1000.0, 0.0, 1e6, "of the wall, or of the sprung mass and the ball"),
    Parameter("damping", "N s/m", 0.0, -1e3, 1e3, "of the wall, or of the ball's contact"),
    Parameter("stiffness_limit", "N/m", 1e6, 0.0, 1e6, "of any stiffness, whatever is set", live=False),
    Parameter("damping_limit", "N s/m", 1e3, 0.0, 1e3, "of the wall's damping, of either sign", live=False),
    Parameter(
        "passive_only",
        "1",
        0.0,
        0.0,
        1.0,
        "1: impedance control by the standard law, whatever is set",
        live=False,
    ),
    Parameter(
        "law_only", "1", 0.0, 0.0, 5.0, "1 and more: impedance control by the law of this number less one", live=False
    ),
    Parameter("mass", "kg", 0.1, 1e-3, 100.0, "of the virtual body"),
    Parameter("gravity", "m/s2", 9.81, 0.0, 100.0, "of the ball"),
    Parameter("coupler_stiffness", "N/m", 3827.0, 0.0, 1e6, "between port and body"),
    Parameter("coupler_damping", "N s/m", 15.7, 0.0, 1e4, "between port and body"),
    Parameter("servo_stiffness", "N/m", 3000.0, 0.0, 1e6, "of the admittance display"),
    Parameter("servo_damping", "N s/m", 20.0, 0.0, 1e4, "of the admittance display"),
    Parameter("servo_integral", "N/(m s)", 0.0, 0.0, 1e7, "of the admittance display"),
    Parameter("port_mass", "kg", 0.32, 1e-4, 1e3, "of device and hand, as the laws expect it"),
    Parameter("port_damping", "N s/m", 5.75, -1e3, 1e4, "of device and hand"),
    Parameter("port_stiffness", "N/m", 257.0, 0.0, 1e6, "of the hand, to where it is anchored"),
    Parameter("port_anchor", "m", 0.0, -10.0, 10.0, "where the hand's spring is without force"),
    Parameter("port_bias", "N", 0.0, -1e4, 1e4, "constant force of the hand"),
    Parameter("device_damping", "N s/m", 0.0, 0.0, 1e4, "of the device alone, stated or measured: 0 is not known"),
    Parameter("device_mass", "kg", 0.0, 0.0, 1e3, "of the device alone, stated: 0 is not known", live=False),
    Parameter("hand_uncertainty", "1", 0.3, 0.0, 0.9, "share by which the hand may differ from `port_`", live=False),
    Parameter("delay", "s", 0.0, 0.0, 0.1, "from sample to force, over which the predicting law predicts", live=False),
    Parameter("probe", "N", 0.0, 0.0, 1.0, "amplitude of each of six sines that find the hand; 0: none"),
    Parameter("trust", "1", 0.5, 0.01, 1.0, "of the predicting law in a new position, against its estimate"),
)
S, P, W = places("S", STATES), places("P", PARAMETERS), places("W", OUTPUTS)
I = places("I", INPUTS)  # noqa: E741  the letter of the field
_SCRATCH = len(OUTPUTS)  # of the work
_MEMORY = int(S[laws.MEMORY[0][0]])
_PROBE = int(S["probe_time"])
_DROP = 0.01  # m above port and wall, from which a ball begins to fall


@kernel()
def _account_for_leaks(state, stiffness, damping, before, x):
    """Of the step that ends here: what it stored minus what the held force took in. Positions are above the wall."""
    stored = 0.5 * stiffness * (min(x, 0.0) ** 2 - min(before, 0.0) ** 2)
    force = state[S.last_force]
    if before < 0.0:
        force -= damping * state[S.last_velocity]
    leak = stored - force * (x - before)
    if (x < 0.0) != (before < 0.0):
        state[S.crossing_leak] += leak
    else:
        state[S.hold_leak] += leak


@kernel()
def _complete(state, inputs, h):
    """What is not measured, from the step before."""
    if np.isnan(inputs[I.velocity]):
        begun = state[S.begun] > 0.0
        inputs[I.velocity] = (inputs[I.position] - state[S.last_position]) / h if begun else 0.0
    if np.isnan(inputs[I.acceleration]):
        begun = state[S.begun] > 0.0
        inputs[I.acceleration] = (inputs[I.velocity] - state[S.last_velocity]) / h if begun else 0.0
    if np.isnan(inputs[I.hand_force]):
        inputs[I.hand_force] = 0.0


@kernel()
def _pieces(display, law, crossing, stiffness, damping, v, hand_force, params, h):
    """How many pieces a step takes (sync/signals/linear_flow.py), at most; 0 where it has nothing to integrate."""
    if display == IMPEDANCE_CONTROL:
        if law == laws.STANDARD and crossing == 0:
            return 0.0
        hand = params[P.port_stiffness] * abs(params[P.port_anchor] - params[P.wall]) + abs(params[P.port_bias])
        by = stiffness + abs(damping) + params[P.port_stiffness] + abs(params[P.port_damping]) + hand
        return 2.0 * h * max(1.0 + by / params[P.port_mass], stiffness + abs(damping))  # they look two steps ahead
    by = stiffness + params[P.coupler_stiffness] + (abs(damping) + params[P.coupler_damping]) * (1.0 + abs(v))
    return h * (1.0 + abs(v) + params[P.gravity] + (2.0 * by + abs(hand_force)) / params[P.mass])


@kernel()
def find_hand(state, params, work, force, position, h):
    """The force that finds it; what is found goes into the outputs."""
    memory, amplitude = state[_PROBE : _PROBE + hand.SIZE], params[P.probe]
    found = work[W.hand_mass : W.hand_mass + hand.FOUND]
    work[W.probe_force] = 0.0
    if amplitude <= 0.0:
        if memory[hand.MEMORY.TIME] != 0.0:
            for i in range(hand.SIZE):
                memory[i] = 0.0
        for i in range(hand.FOUND):
            found[i] = 0.0
        return 0.0
    own = hand.probe(memory[hand.MEMORY.TIME], amplitude)
    hand.observe(memory, force + own, position, h)
    hand.find(memory, params[P.delay] + 0.5 * h, found)
    if memory[hand.MEMORY.TIME] >= hand.SETTLED_S:
        found[0] -= params[P.device_mass]
        found[1] -= params[P.device_damping]
    work[W.probe_force] = own
    return own


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    display, thing, law, crossing = (
        int(params[P.display]), int(params[P.object]), int(params[P.law]), int(params[P.crossing])
    )  # fmt: skip
    if params[P.law_only] > 0.0:
        display, law, crossing = IMPEDANCE_CONTROL, int(params[P.law_only]) - 1, 0
    if params[P.passive_only] > 0.0:
        display, law, crossing = IMPEDANCE_CONTROL, 0, 0
    stiffness = min(params[P.stiffness], params[P.stiffness_limit])
    damping = min(max(params[P.damping], -params[P.damping_limit]), params[P.damping_limit])
    _complete(state, inputs, h)
    x, v = inputs[I.position] - params[P.wall], inputs[I.velocity]
    before = state[S.last_position] - params[P.wall]
    scratch, memory = work[_SCRATCH:], state[_MEMORY : _MEMORY + laws.SIZE]
    if state[S.begun] == 0.0:
        state[S.body] = max(x, 0.0) + _DROP if thing == BALL else x
    elif display == IMPEDANCE_CONTROL and thing == WALL:
        _account_for_leaks(state, stiffness, damping, before, x)
    if display == IMPEDANCE_CONTROL and thing != BALL:
        # where another display takes over, its body is where the port is: a change while it runs pushes nobody
        state[S.body], state[S.body_velocity], state[S.contact], state[S.servo] = x, v, 0.0, 0.0
    force, touching = 0.0, 0.0
    if too_stiff(_pieces(display, law, crossing, stiffness, damping, v, inputs[I.hand_force], params, h)):
        # nothing that could be computed in a step is exact: the hand gets nothing, and the state is reset
        state[S.too_stiff] += 1.0
        state[S.body], state[S.body_velocity], state[S.contact], state[S.servo] = x, v, 0.0, 0.0
        for i in range(laws.SIZE):
            state[_MEMORY + i] = 0.0
    elif display == IMPEDANCE_CONTROL and thing == WALL:
        pull = params[P.port_stiffness] * (params[P.port_anchor] - params[P.wall])
        if law == laws.PREDICTING:
            force = laws.predicting_force(
                crossing, x, stiffness, damping, params[P.port_mass], params[P.port_damping],
                params[P.port_stiffness], params[P.port_bias] + pull, params[P.delay], params[P.trust], memory,
                scratch, h,
            )  # fmt: skip
        else:
            memory[laws.SEEN] = 0.0  # its estimate ends with a sample that it has not seen
            force = laws.force(
                law, crossing, x, v, before, state[S.last_velocity], state[S.begun],
                stiffness, damping, params[P.port_mass], params[P.port_damping], params[P.port_stiffness],
                params[P.port_bias] + pull, memory, scratch, h,
            )  # fmt: skip
        touching = 1.0 if x < 0.0 else 0.0
    elif display == IMPEDANCE_CONTROL:  # no law of position and velocity alone can show a mass
        force = stiffness * x + damping * v
    else:
        force, touching = bodies.body_force(
            state[S.body : S.servo + 1], state[S.events : S.exceeded + 1], scratch, display, thing, x, v,
            inputs[I.acceleration], inputs[I.hand_force], params[P.mass], stiffness, damping,
            params[P.coupler_stiffness], params[P.coupler_damping], params[P.gravity], params[P.servo_stiffness],
            params[P.servo_damping], params[P.servo_integral], h,
        )  # fmt: skip
    state[S.last_position], state[S.last_velocity], state[S.last_force] = inputs[I.position], v, force
    force += find_hand(state, params, work, force, inputs[I.position], h)
    laws.remember(memory, force)
    state[S.begun] = 1.0
    work[W.force], work[W.speed], work[W.port] = force, v, inputs[I.position]
    work[W.depth] = max(-x if display == IMPEDANCE_CONTROL else -state[S.body], 0.0)
    work[W.body_position], work[W.in_contact] = state[S.body] + params[P.wall], touching
    work[W.stiffness_used] = stiffness
    work[W.hold_energy], work[W.crossing_energy] = state[S.hold_leak], state[S.crossing_leak]
    work[W.contacts], work[W.contacts_exceeded] = state[S.events], state[S.exceeded]
    work[W.too_stiff] = state[S.too_stiff]


def frames(state, params, out):
    """The port, and the body; the wall is the world's."""
    out[1, 0, 2] = state[S.last_position] - params[P.wall]
    out[2, 0, 2] = state[S.body]


MACHINE = Machine(
    name="wall",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    work_size=_SCRATCH + max(laws.LAW_SCRATCH, bodies.BODY_SCRATCH),
    capabilities=(
        Shown(
            display=Display(
                hands=(Tile("port", "position", "mm", 1e3, 2, full=0.02),),
                figures=(
                    Tile("force", "force", "N", 1.0, 2),
                    Tile("depth", "depth", "mm", 1e3, 3),
                    Tile("given out by hold", "hold_energy", "mJ", 1e3, 2),
                    Tile("and at crossings", "crossing_energy", "mJ", 1e3, 2),
                    Tile("stiffness", "stiffness_used", "N/m", 1.0, 0),
                    Tile("hand's stiffness", "hand_stiffness", "N/m", 1.0, 0),
                ),
                plots=(("position", "body_position"), ("force", "speed"), ("hold_energy", "crossing_energy")),
            ),
            scene=Scene(
                frames=3,
                solids=(
                    box("port", 1, (-0.01, -0.01, 0.0), (0.01, 0.01, 0.01)),
                    box("wall", 0, (-0.03, -0.03, -0.02), (0.03, 0.03, 0.0)),
                ),
                bars=(Bar("coupler", Point(1), Point(2), "spring", 0.003),),
                size=0.05,
                cameras=(Camera("side", (0.0, -0.12, 0.03), (0.0, 0.0, 0.0), "world"),),
            ),
            frames=frames,
        ),
        Efforts(("force",)),
    ),
)
