"""Changes of a mechanism between two steps: the type of a joint, coordinates of joints, prescribed motions.

A change adds equations to the mechanism and takes others away; `recompile` makes its tables again, without compiling
code, and carries the state over by name. Positions stay as they are: a joint that is locked is locked where it
is. Velocities that a new equation stops are lost as in a plastic impact, in the metric of the mass. A change that
contradicts the others raises, and `changed` puts everything back.
"""

import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from tandem.multibody.natural import joints
from tandem.multibody.natural.body import Body
from tandem.multibody.natural.equations import Equations, Input, Joint, Load, Node
from tandem.multibody.natural.errors import AssemblyError, MechanismError
from tandem.multibody.natural.joints import along_of, at_of, frame
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.natural.problems import accelerations
from tandem.multibody.natural.system import State
from tandem.multibody.natural.tables import P

TURN, SLIDE = "turn", "slide"
CLOSED = 1e-10  # m, rad
PASSES = 20
_KINDS = ("cylindrical", "revolute", "prismatic", "weld")
Snapshot = dict[str, Any]


def snapshot(m: Equations) -> Snapshot:
    """Everything that a change may add to."""
    names = [f.name for f in fields(Equations) if f.name not in ("dimension", "gravity")]
    return {name: copy.copy(getattr(m, name)) for name in (*names, "_q0")}


def restore(m: Equations, before: Snapshot) -> None:
    for name, value in before.items():
        setattr(m, name, copy.copy(value))


@contextmanager
def changed(m: Equations) -> Iterator[None]:
    """What raises inside leaves the mechanism as it was."""
    before = snapshot(m)
    try:
        yield
    except BaseException:
        restore(m, before)
        raise


# ---- joints ----------------------------------------------------------------------------------------------------------


def joints_of(m: Mechanism) -> dict[str, Joint]:
    """Joints that have a type to change or a coordinate: those made as joints, and hinges that bodies share."""
    found = {name: j for name, j in m.joints.items() if kinds(m, j)}
    bodies = list(m.bodies.values())
    for k, second in enumerate(bodies):
        for first in (None, *bodies[:k]):
            hinge = _shared(m, first, second)
            if hinge is not None:
                found.setdefault(hinge.name, m.joints.get(hinge.name, hinge))
    return found


def kinds(m: Equations, joint: Joint) -> tuple[str, ...]:
    """What a joint may be changed into; the first that it is now included."""
    if _is_shared(joint):
        return ("revolute", "weld")
    if m.dimension == 2:
        return {"revolute": ("revolute", "weld"), "prismatic": ("prismatic", "weld")}.get(_original_kind(joint), ())
    return _KINDS if joint.axis is not None else ()


def coordinates(m: Equations, joint: Joint) -> tuple[str, ...]:
    """How its bodies may move against each other, whether or not they can now."""
    if _is_shared(joint):
        return (TURN,)
    if m.dimension == 2:
        return (SLIDE,) if _original_kind(joint) == "prismatic" else (TURN,)
    return (TURN, SLIDE) if joint.axis is not None else ()


def _is_shared(joint: Joint) -> bool:
    return joint.name.startswith("hinge of ")


def _original_kind(joint: Joint) -> str:
    """In the plane a welded joint was a prismatic one if it has an axis."""
    return joint.kind if joint.kind != "weld" else "revolute" if joint.axis is None else "prismatic"


def _shared(m: Mechanism, first: Body | None, second: Body) -> Joint | None:
    """The hinge of two bodies (or of one and the ground) that share one point, in space also a direction."""
    if first is None:
        nodes = [n for n in second.nodes if isinstance(n, Node) and not n.columns]
    else:
        nodes = [n for n in second.nodes if isinstance(n, Node) and n.columns and any(n is o for o in first.nodes)]
    points = [n for n in nodes if n.kind == "point"]
    vectors = [n for n in nodes if n.kind == "vector"]
    if not points or len(points) + len(vectors) != m.dimension - 1:
        return None
    axis = None
    if m.dimension == 3:
        axis = m.where(vectors[0]) if vectors else m.where(points[1]) - m.where(points[0])
    named = [second.name] if first is None else [first.name, second.name]
    joint = Joint(f"hinge of {' and '.join(named)}", "revolute", first, second, m.where(points[0]), axis)
    try:
        _turning(m, joint)
    except MechanismError:
        return None  # a bar knows no turning about its own axis
    return joint


def _turning(m: Equations, joint: Joint) -> tuple[Linear, Linear, Linear]:
    """A direction of the second body, and two of the first: cosine and sine of its angle, 0 as drawn."""
    if m.dimension == 2:
        n1, n2 = np.eye(2)
    else:
        _, n1, n2 = frame(_axis(joint))
    return joint.b.along(n1), along_of(m, joint.a, n1), along_of(m, joint.a, n2)


def _axis(joint: Joint) -> np.ndarray:
    if joint.axis is None:
        raise MechanismError(f"{joint.name}: has no axis")
    return joint.axis


def _arm(m: Equations, joint: Joint) -> tuple[Linear, Linear]:
    """From the place on the first body to that on the second, and the axis."""
    n = _axis(joint) / float(np.linalg.norm(_axis(joint)))
    return joint.b.at(joint.at) - at_of(m, joint.a, joint.at), along_of(m, joint.a, n)


def present(state: State, joint: Joint, which: str) -> tuple[float, float]:
    """Angle or distance in a joint, 0 as drawn, and its rate."""
    m = state.system.mechanism
    if which == SLIDE:
        arm, n = _arm(m, joint)
        rate = float(state.rate(arm) @ state.value(n) + state.value(arm) @ state.rate(n))
        return float(state.value(arm) @ state.value(n)), rate
    return _angle(state, *_turning(m, joint))


def _angle(state: State, v: Linear, n1: Linear, n2: Linear) -> tuple[float, float]:
    c, s = (float(state.value(v) @ state.value(n)) for n in (n1, n2))
    dc, ds = (float(state.rate(v) @ state.value(n) + state.value(v) @ state.rate(n)) for n in (n1, n2))
    return math.atan2(s, c), (c * ds - s * dc) / (c * c + s * s)


def change_joint(m: Mechanism, state: State, joint: Joint, kind: str) -> None:
    """Another type for a joint, with what it locks locked where it is now."""
    if kind not in kinds(m, joint):
        raise MechanismError(
            f"{joint.name}: cannot become {kind}; may be {', '.join(kinds(m, joint)) or 'nothing else'}"
        )
    name = joint.name
    angle, slid = present(state, joint, TURN)[0], 0.0
    if SLIDE in coordinates(m, joint):
        slid = present(state, joint, SLIDE)[0]
    rows = [c for c in m.constraints if c.startswith(f"{name}.")]
    if m.dimension == 3 and not _is_shared(joint):
        _drop(m, rows)
        joints.cylindrical(m, name, joint.a, joint.b, joint.at, _axis(joint))
    else:
        _drop(m, [f"{name}.turn_lock", f"{name}.slide_lock"])
    own = "prismatic" if SLIDE in coordinates(m, joint) and m.dimension == 2 else "revolute"
    lock_turn = kind in ("prismatic", "weld") and not (m.dimension == 2 and own == "prismatic")
    lock_slide = (kind in ("revolute", "weld") and m.dimension == 3 and not _is_shared(joint)) or (
        kind == "weld" and m.dimension == 2 and own == "prismatic"
    )
    if lock_turn:
        v, n1, n2 = _turning(m, joint)
        across = math.cos(angle) * n2 + -math.sin(angle) * n1
        m.constrain(f"{name}.turn_lock", v @ across)
        m.loads[f"{name}.turn_lock"] = Load(name, v, across)
    if lock_slide:
        arm, n = _arm(m, joint)
        m.constrain(f"{name}.slide_lock", arm @ n - slid)
        m.loads[f"{name}.slide_lock"] = Load(name, n)
    m.joints[name] = Joint(name, kind, joint.a, joint.b, joint.at, joint.axis)


def _drop(m: Equations, names: list[str]) -> None:
    for name in names:
        m.constraints.pop(name, None)
        m.loads.pop(name, None)


def coordinate(m: Mechanism, state: State, joint: Joint, which: str) -> tuple[Node, dict[str, tuple[float, float]]]:
    """The scalar that is the angle or distance in a joint, made if there is none; what it is now, for `recompile`."""
    if which not in coordinates(m, joint):
        raise MechanismError(f"{joint.name}: has no {which}; there is {', '.join(coordinates(m, joint)) or 'none'}")
    name = f"{joint.name} {which}"
    if name in m.nodes:
        return m.nodes[name], {}
    value = present(state, joint, which)
    scalar = m.scalar(name)
    if which == TURN:
        v, n1, n2 = _turning(m, joint)
        m.constrain_angle(f"{name}.angle", v @ n1, v @ n2, scalar)
    else:
        arm, n = _arm(m, joint)
        m.constrain(f"{name}.x", arm @ n - scalar)
    return scalar, {name: value}


# ---- prescribed motion -----------------------------------------------------------------------------------------------


def prescribe(m: Mechanism, state: State, name: str, target: Linear) -> Input:
    """`target` follows an input from outside from now on; it begins where it is."""
    signal = m.inputs.get(name) or m.input(name)
    m.constrain(name, target - signal.form)
    m.drives[name] = getattr(target, "name", name)
    return signal


def turn_of(m: Mechanism, state: State, body: Body, axis: int) -> tuple[Node, dict[str, tuple[float, float]]]:
    """The turning of a body about an axis of the world from how it lies now, in which it is held otherwise."""
    name = f"turn of {body.name} about {'xyz'[axis]}"
    if m.dimension == 2:
        name = f"turn of {body.name}"
        v, n1, n2 = body.along(np.eye(2)[0]), *(Linear(e) for e in np.eye(2))
    else:
        if len(body.basis) < 3:
            raise MechanismError(
                f"{body.name}: knows no turning about all axes; prescribe its centre, or a joint of it"
            )
        now = np.array([state.value(e) for e in body.basis]).T
        n, w1, w2 = frame(np.eye(3)[axis])
        reference = [np.asarray(body.reference_basis @ np.linalg.solve(now, w)) for w in (n, w1)]
        v, n1, n2 = body.along(reference[1]), Linear(w1), Linear(w2)
        _drop(m, [f"{name}.tilt1", f"{name}.tilt2"])
        for k, across in enumerate((w1, w2), 1):
            m.constrain(f"{name}.tilt{k}", body.along(reference[0]) @ Linear(across))
    _drop(m, [f"{name}.angle"])
    scalar = m.nodes.get(name) or m.scalar(name)
    m.constrain_angle(f"{name}.angle", v @ n1, v @ n2, scalar)
    return scalar, {name: _angle(state, v, n1, n2)}


def release(m: Equations, name: str, held: str = "") -> None:
    """Ends a prescribed motion, and what held the rest of a turning."""
    _drop(m, [name, *([f"{held}.tilt1", f"{held}.tilt2"] if held else [])])
    m.drives.pop(name, None)


# ---- tables again ----------------------------------------------------------------------------------------------------


def recompile(
    state: State,
    values: Mapping[str, tuple[float, float]] | None = None,
    inputs: Mapping[str, tuple[float, float, float]] | None = None,
) -> State:
    """The state of a mechanism that was changed since, with new tables.

    `values` are new scalars and their rates, `inputs` what inputs from outside are now, with both derivatives.
    """
    old = state.system
    m = old.mechanism
    if not isinstance(m, Mechanism):
        raise MechanismError("only a mechanism can be changed")
    n = len(state.q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pairs of constraints that hold the same: they may be of use in turn
        system = m.compile(old.h, old.settings, old.hook)
    _carry_parameters(old, system)
    new = system.state()
    new.time = state.time
    new.q[:n], new.qd[:n], new.qdd[:n] = state.q, state.qd, state.qdd
    new.inputs[: len(state.inputs)] = state.inputs
    new.elements[: len(state.elements)] = state.elements
    for name, (value, rate) in (values or {}).items():
        column = system.column(name)
        new.q[column], new.qd[column] = value, rate
    for name, input_value in (inputs or {}).items():
        new.vector[system.input(name)] = input_value
    places = {c.name: k for k, c in enumerate(old.constraints)}
    for k, c in enumerate(system.constraints):
        if c.name in places:
            new.lam[k] = state.lam[places[c.name]]
    _close(new)
    return accelerations(new)


def _carry_parameters(old: Any, new: Any) -> None:
    """What was set or switched off since the old tables were made."""
    for e in old.elements:
        if e.name in new.mechanism.elements:
            for key in e.params:
                new.reals[new.parameter(e.name, key)] = old.reals[old.parameter(e.name, key)]
    off = {c.name for c, w in zip(old.constraints, old.part(P.WEIGHT), strict=True) if w == 0.0}
    on = {_joint_of(c.name) for c in old.constraints if c.name not in off}
    joints_off = {_joint_of(name) for name in off} - on  # another type of theirs is off too
    weight = new.part(P.WEIGHT)
    for k, c in enumerate(new.constraints):
        if c.name in off or _joint_of(c.name) in joints_off:
            weight[k] = 0.0


def _joint_of(constraint: str) -> str:
    return constraint.rsplit(".", 1)[0]


def _close(state: State) -> None:
    """Positions and velocities onto the constraints that act; least motion, and the impact of the mass."""
    s = state.system
    acts = s.part(P.WEIGHT) > 0.0
    state.lam[~acts] = 0.0
    for _ in range(PASSES):
        phi = state.phi()[acts]
        if not len(phi) or float(np.abs(phi).max()) <= CLOSED:
            break
        state.q += np.linalg.lstsq(state.jacobian()[acts], -phi, rcond=1e-11)[0]
    phi = state.phi()[acts]
    if len(phi) and not float(np.abs(phi).max()) <= 100.0 * CLOSED:
        name = [c.name for c, a in zip(s.constraints, acts, strict=True) if a][int(np.argmax(np.abs(phi)))]
        raise AssemblyError(f"this contradicts what holds already: {name} is off by {np.abs(phi).max():.2g}")
    J, M, count = state.jacobian()[acts], s.mass(), int(acts.sum())
    if count:
        residual = state.phid()[acts]
        if float(np.abs(residual).max()) > CLOSED:
            system = np.block([[M, J.T], [J, np.zeros((count, count))]])
            found = np.linalg.lstsq(system, np.concatenate([np.zeros(s.n), -residual]), rcond=1e-12)[0]
            state.qd += found[: s.n]
        left = float(np.abs(state.phid()[acts]).max())
        if not left <= 1e-6 * (1.0 + float(np.abs(state.qd).max())):
            raise AssemblyError(f"no velocity fulfils this together with what holds already; {left:.2g} m/s are left")
