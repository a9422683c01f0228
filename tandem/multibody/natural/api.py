"""Multibody dynamics in natural coordinates: points, unit vectors and scalars, and the index-3 augmented Lagrangian.

    from tandem.multibody.natural.api import Mechanism, run, start

    m = Mechanism(dimension=2)                        # or 3; gravity -9.81 along the last axis
    A = m.point("A", (0, 0), fixed=True)              # nodes: point, vector, scalar; fixed, free, shared
    B = m.point("B", (1, 0))
    m.bar("rod", A, B, mass=1.0)                      # bodies: body, bar, particle; a shared node is a joint
    system = m.compile(h=1e-3)                        # the tables; constant
    state = start(system.state())                     # consistent position, velocity, acceleration
    record = run(state, seconds=10.0)                 # advances `state`, keeps what happened
    record["B"], record["iterations"], record.q       # nodes over time; diagnostics of every step

Building (mechanism.py): `m.point vector scalar body bar particle`, joints `m.spherical revolute universal cylindrical
prismatic weld rod slider rack gear angle drive` (joints.py), forces `m.spring torsion force torque friction limit
contact rotor model_force` (forces.py), an equation of one's own `m.constrain(name, (p - q) @ n - s)`. `body.at(point)`
and `body.along(vector)` are anything fixed in a body, `m.place` and `m.direction` the same under a name; `shapes` have
volume and inertia. Laws of time for inputs and drives: `polynomial harmonic smooth_step external`.

A `System` holds four kinds of data (tables.py): `ints` and `reals` (tables), the vector of a `State`, and a work
vector. One step from nopython code, or from Python, is

    step(system.ints, system.reals, state.vector, work, system.hook, h)        # work = system.work()

after which `work[:len(DIAGNOSTICS)]` says how it went. Inputs (prescribed motions, scaled forces) are set before it:
`state.vector[system.input("rack")] = value, rate, second` at the end of the step. `state.copy()` forks, `state.save`
and `State.load` keep a state bit by bit.

Problems (problems.py): `assemble velocities accelerations start equilibrium`; of a state: `effort` (inverse dynamics
of a drive), `reaction`, `joint_force`, `port_forces`, `dissipated`, `body_motion`, `energy`, `momentum`,
`angular_velocity`, `linearise` (modes).
Settings for a step with a deadline: `compile(settings=REAL_TIME)`. All units SI.
"""

from tandem.multibody.natural import shapes
from tandem.multibody.natural.augmented import step
from tandem.multibody.natural.body import Body
from tandem.multibody.natural.equations import Input, Node
from tandem.multibody.natural.errors import (
    AssemblyError,
    DivergedError,
    IllConditioned,
    InaccurateSteps,
    LockedMechanism,
    MechanismError,
    NotConverged,
    StateError,
    Undetermined,
)  # fmt: skip
from tandem.multibody.natural.linear import Linear, Quadratic, square
from tandem.multibody.natural.linearise import Linearised, Mode, linearise
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.natural.motions import Motion, external, harmonic, polynomial, smooth_step
from tandem.multibody.natural.problems import (
    BodyMotion,
    Energy,
    accelerations,
    angular_acceleration,
    angular_velocity,
    assemble,
    body_motion,
    dissipated,
    effort,
    energy,
    equilibrium,
    freedoms,
    locked,
    momentum,
    port_forces,
    reaction,
    redundant,
    start,
    velocities,
    working,
)  # fmt: skip
from tandem.multibody.natural.reactions import joint_force
from tandem.multibody.natural.run import Record, run
from tandem.multibody.natural.settings import REAL_TIME, Scheme, Settings
from tandem.multibody.natural.system import State, System
from tandem.multibody.natural.tables import DIAGNOSTICS, FORCE

__all__ = [
    "DIAGNOSTICS", "FORCE", "REAL_TIME", "AssemblyError", "Body", "BodyMotion", "DivergedError", "Energy",
    "IllConditioned",
    "InaccurateSteps", "Input", "Linear", "Linearised", "LockedMechanism", "Mechanism", "MechanismError", "Mode",
    "Motion", "Node", "NotConverged", "Quadratic", "Record", "Scheme", "Settings", "State", "StateError", "System",
    "Undetermined",
    "accelerations", "angular_acceleration", "angular_velocity", "assemble", "body_motion",
    "dissipated", "effort", "energy", "equilibrium",
    "external", "freedoms", "harmonic", "joint_force", "linearise", "locked", "momentum", "polynomial",
    "port_forces", "reaction", "redundant", "run", "shapes", "smooth_step", "square", "start", "step", "velocities",
    "working",
]  # fmt: skip
