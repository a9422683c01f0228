"""Forces, as elements with ports (what an element does at them is in elements.py).

A force that only a model knows (a contact, a motor) is a `model_force`: it names its ports and parameters,
and the nopython function given to `compile(hook=...)` computes all of them in one call:

    @kernel(FORCE)
    def hook(t, h, x, xd, inputs, live, params, states, after, f, K, C): ...

x, xd are the ports of all model forces in the order they were added, f the force on each; K = -df/dx and C = -df/dxd
are square blocks, one per model force, row by row, and come zeroed (leave them so where they do not matter: they only
speed the iteration). `inputs` holds value, rate and second derivative of every input; `live` what else holds for one
step, in the work vector, where a caller may change it before every step. `params` are constant. `states` are those at
the start of the step, `after` those at its end, which the hook computes for the step h it is given; h = 0 asks for the
force as things are. The hook may be called several times a step and must not remember anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural.body import Body
from tandem.multibody.natural.equations import NO_SPIN, Element, Equations, Input
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.limits import (
    COEFFICIENT,
    FORCE,
    LENGTH,
    MASS,
    NUMBER,
    POSITIVE_MASS,
    POSITIVE_STIFFNESS,
    SPEED,
    STIFFNESS,
    Range,
    direction,
    number,
    numbers,
)
from tandem.multibody.natural.linear import Linear, linear
from tandem.multibody.natural.tables import (
    CONTACT,
    CONTACT_STATES,
    DRAG,
    FORCE_ON,
    FRICTION,
    LIMIT,
    ROTOR,
    SPRING,
    TORQUE_2D,
    TORQUE_3D,
    TORSION,
)
from tandem.multibody.portable import dot, norm

MODEL = -1

REACTION = ".reaction"  # after the name of a torque on a spin: what its carrier feels

# what a parameter may be, when it is given and when it is changed; those that are not here follow from the drawing
RANGES: dict[int, dict[str, Range]] = {
    SPRING: {"stiffness": STIFFNESS, "damping": STIFFNESS, "length": LENGTH, "preload": FORCE},
    # an over-centre spring is negative
    TORSION: {"stiffness": FORCE, "damping": STIFFNESS, "rest": NUMBER, "cubic": FORCE},
    FORCE_ON: dict.fromkeys("xyz", FORCE),
    TORQUE_2D: {"over_square": FORCE},
    TORQUE_3D: dict.fromkeys(("world_x", "world_y", "world_z", "own_0", "own_1", "own_2"), FORCE),
    FRICTION: {"level": STIFFNESS, "speed": SPEED, "viscous": STIFFNESS},
    LIMIT: {"low": NUMBER, "high": NUMBER, "stiffness": POSITIVE_STIFFNESS, "damping": STIFFNESS},
    CONTACT: {"stiffness": POSITIVE_STIFFNESS, "damping": STIFFNESS, "friction": COEFFICIENT, "speed": SPEED},
    DRAG: {"linear": STIFFNESS, "coefficient": STIFFNESS, "area": STIFFNESS, "density": MASS},
}


def spring(
    m: Equations,
    name: str,
    a: Linear | ArrayLike,
    b: Linear | ArrayLike,
    stiffness: float,
    damping: float = 0.0,
    length: float | None = None,
    preload: float = 0.0,
) -> None:
    """A spring and damper between two points; free length as drawn if not given; preload pulls them together."""
    m.own(f"spring {name}", linear(a), linear(b), dimension=m.dimension)
    d = linear(b) - linear(a)
    free = norm(m.where(d)) if length is None else length
    values = {"stiffness": stiffness, "damping": damping, "length": free, "preload": preload}
    params = _checked(f"spring {name}", SPRING, values)

    def potential(x: np.ndarray, p: np.ndarray) -> float:
        s = float(np.linalg.norm(x)) - p[2]
        return float(0.5 * p[0] * s * s + p[3] * s)

    _add(m, name, SPRING, tuple(d), params, potential=potential)
    m.ends.append((name, "spring", linear(a), linear(b)))


def torsion(
    m: Equations,
    name: str,
    angle: Linear,
    stiffness: float,
    damping: float = 0.0,
    rest: float = 0.0,
    cubic: float = 0.0,
) -> None:
    """A spring and damper on a scalar: an angle, a distance."""
    m.own(f"torsion {name}", angle, dimension=1)
    values = {"stiffness": stiffness, "damping": damping, "rest": rest, "cubic": cubic}
    params = _checked(f"torsion {name}", TORSION, values)
    m.no_spin(f"torsion {name}", angle)

    def potential(x: np.ndarray, p: np.ndarray) -> float:
        s = x[0] - p[2]
        return float(0.5 * p[0] * s * s + 0.25 * p[3] * s**4)

    _add(m, name, TORSION, (angle,), params, potential=potential)


def force(m: Equations, name: str, point: Linear, vector: ArrayLike, scale: Input | None = None) -> None:
    """A force of fixed direction on a point, or on a scalar coordinate; an input may scale it."""
    m.own(f"force {name}", point)
    values = numbers(f"force {name}", vector, point.dim, FORCE)
    params = {axis: float(v) for axis, v in zip("xyz", values, strict=False)}
    potential = None if scale is not None else (lambda x, p: -float(p @ x))
    _add(m, name, FORCE_ON, tuple(point), params, scale, potential=potential)


def torque(
    m: Equations,
    name: str,
    on: Body | Linear,
    world: ArrayLike | None = None,
    own: ArrayLike | None = None,
    scale: Input | None = None,
) -> None:
    """A torque on a body, along an axis of the world and/or one of its own; or on a scalar angle.

    On a relative angle the torque acts between the two bodies, on the spin of a rotor between it and its carrier; what
    turns a rotor from outside (air, a hand) is a `force` on its spin. A scalar and a body in the plane turn about one
    axis only: there `world` and `own` are the same, one number each, and add up.
    """
    if world is None and own is None:
        raise MechanismError(
            f"torque {name}: give world (about axes of the world), own (about axes of the body), or both"
        )
    if isinstance(on, Linear) or m.dimension == 2:
        value = sum(number(f"torque {name}", v, FORCE) for v in (world, own) if v is not None)
    if isinstance(on, Linear):
        if len(on.terms) > 1:
            m.no_spin(f"torque {name} on more than one coordinate", on)
        force(m, name, on, [value], scale)
        if len(on.terms) == 1:
            (column,) = on.terms
            m.spin_torques.append((name, column, value * float(on.terms[column][0]), scale))
            if column in m.rotors:
                _react(m, *m.spin_torques[-1])
        return
    m.own_body(f"torque {name}", on)
    if m.dimension == 2:
        e = on.basis[0]
        size = dot(m.where(e), m.where(e))
        _add(m, name, TORQUE_2D, tuple(on.turning[0]), {"over_square": value / size}, scale)
        return
    if len(on.basis) < 3:
        raise MechanismError(f"torque {name}: body {on.name} has no third direction to turn about")
    T = np.zeros(3) if world is None else numbers(f"torque {name}: world", world, 3, FORCE)
    axis = np.zeros(3) if own is None else on.components(numbers(f"torque {name}: own", own, 3, FORCE))
    params = _metric(on)
    params |= {f"world_{c}": float(v) for c, v in zip("xyz", T, strict=True)}
    params |= {f"own_{k}": float(v) for k, v in enumerate(axis)}
    _add(m, name, TORQUE_3D, tuple(c for e in on.turning for c in e), params, scale)


def friction(m: Equations, name: str, scalar: Linear, level: float, speed: float, viscous: float = 0.0) -> None:
    """Joint friction on a scalar: Coulomb `level`, rounded below `speed`, and viscous."""
    m.own(f"friction {name}", scalar, dimension=1)
    params = _checked(f"friction {name}", FRICTION, {"level": level, "speed": speed, "viscous": viscous})
    m.no_spin(f"friction {name}", scalar)
    _add(m, name, FRICTION, (scalar,), params)


def limit(
    m: Equations, name: str, scalar: Linear, low: float, high: float, stiffness: float, damping: float = 0.0
) -> None:
    """Stops at both ends of a scalar; `damping` in 1 / (unit of the scalar per second)."""
    m.own(f"limit {name}", scalar, dimension=1)
    params = _checked(f"limit {name}", LIMIT, {"low": low, "high": high, "stiffness": stiffness, "damping": damping})
    if not params["low"] < params["high"]:
        raise MechanismError(f"limit {name}: low = {low:g} must be below high = {high:g}")
    m.no_spin(f"limit {name}", scalar)

    def potential(x: np.ndarray, p: np.ndarray) -> float:
        depth = max(p[0] - x[0], x[0] - p[1], 0.0)
        return float(0.5 * p[2] * depth**2)

    _add(m, name, LIMIT, (scalar,), params, potential=potential)


def contact(
    m: Equations,
    name: str,
    point: Linear,
    through: ArrayLike,
    normal: ArrayLike,
    stiffness: float,
    damping: float = 0.0,
    friction: float = 0.0,
    speed: float = 0.01,
) -> None:
    """A plane of the world that a point cannot pass: it pushes along its normal, never pulls, and rubs.

    `damping` in s/m as for `limit`, `friction` is Coulomb's coefficient, rounded below the slip `speed`. What damping
    and friction have taken is counted from step to step: `dissipated(state, name)`.
    """
    m.own(f"contact {name}", point, dimension=m.dimension)
    n = direction(f"contact {name}: normal", normal, m.dimension)
    n = n / norm(n)
    offset = dot(n, numbers(f"contact {name}: through", through, m.dimension))
    values = {"stiffness": stiffness, "damping": damping, "friction": friction, "speed": speed}
    params = {
        **_checked(f"contact {name}", CONTACT, values),
        "offset": offset,
        **{f"normal_{axis}": float(v) for axis, v in zip("xyz", n, strict=False)},
    }

    def potential(x: np.ndarray, p: np.ndarray) -> float:
        depth = max(float(p[4] - p[5:] @ x), 0.0)
        return float(0.5 * p[0] * depth**2)

    _add(m, name, CONTACT, tuple(point), params, states=CONTACT_STATES, potential=potential)


def drag(
    m: Equations,
    name: str,
    on: Body | Linear,
    linear: float = 0.0,
    coefficient: float = 0.0,
    area: float = 0.0,
    density: float = 0.0,
) -> None:
    """Resistance of a fluid at rest, against the velocity of a point, or of the centre of a body: `linear` times the
    speed (N s/m), and coefficient times area times density / 2 times its square."""
    point = on if isinstance(on, Linear) else m.own_body(f"drag {name}", on).at(m.where(on.centre))
    m.own(f"drag {name}", point, dimension=m.dimension)
    values = {"linear": linear, "coefficient": coefficient, "area": area, "density": density}
    params = _checked(f"drag {name}", DRAG, values)
    square = [key for key in ("coefficient", "area", "density") if params[key] == 0.0]
    if 0 < len(square) < 3 or (square and params["linear"] == 0.0):
        raise MechanismError(
            f"drag {name}: {', '.join(square)} = 0: resists nothing; give coefficient, area and density, or linear, or"
            " all of them"
        )
    _add(m, name, DRAG, tuple(point), params)


def rotor(m: Equations, name: str, carrier: Body, axis: ArrayLike, spin: Linear, inertia: float) -> None:
    """An axisymmetric rotor on a carrier: its spin (absolute, about the axis) is a scalar coordinate.

    Put mass and transverse inertia on the carrier, without inertia about the axis; `inertia` goes to the spin, and the
    carrier feels the gyroscopic torque, and against every `torque` on the spin its reaction; springs, stops, friction,
    gears and drives have none on a spin, and are refused there. A spin carried by unit vectors would be wrong by
    12 % in its answer to torque at 100 rad/s and 5 ms; this one is exact.
    """
    m.own_body(f"rotor {name}", carrier)
    m.own(f"rotor {name}: spin", spin, dimension=1)
    inertia = number(f"rotor {name}: inertia", inertia, POSITIVE_MASS)
    for column in spin.terms:
        if column in m.no_spins:
            raise MechanismError(NO_SPIN.format(m.no_spins[column]))
    if len(carrier.basis) < 3:
        raise MechanismError(f"rotor {name}: body {carrier.name} has no third direction")
    m.add_inertia(spin, spin, inertia)
    w = direction(f"rotor {name}: axis", axis, 3)
    along = w / norm(w)
    w = carrier.components(along)
    params = _metric(carrier) | {"inertia": inertia} | {f"axis_{k}": float(v) for k, v in enumerate(w)}
    ports = (*(c for e in carrier.turning for c in e), spin)
    _add(m, name, ROTOR, ports, params)
    for column in spin.terms:
        m.rotors[column] = carrier, along
    for spin_torque in m.spin_torques:
        if spin_torque[1] in spin.terms:
            _react(m, *spin_torque)


def _react(m: Equations, name: str, column: int, value: float, scale: Input | None) -> None:
    """The other side of a torque on the spin of a rotor: what turns the rotor turns its carrier the other way."""
    carrier, axis = m.rotors[column]
    torque(m, f"{name}{REACTION}", carrier, own=-value * axis, scale=scale)


def reaction(m: Equations, name: str, value: float) -> dict[str, float]:
    """Parameters of the reaction of a torque on a spin that becomes `value`; of any other force, none."""
    if f"{name}{REACTION}" not in m.elements or name not in (spin_torque[0] for spin_torque in m.spin_torques):
        return {}
    ((column, factor),) = m.elements[name].ports[0].terms.items()
    carrier, axis = m.rotors[column]
    on_carrier = carrier.components(-value * float(factor[0]) * axis)
    return {f"own_{k}": float(v) for k, v in enumerate(on_carrier)}


def model_force(
    m: Equations,
    name: str,
    ports: Sequence[Linear],
    params: Mapping[str, float] | None = None,
    states: int = 0,
    data: np.ndarray | None = None,
    live: np.ndarray | None = None,
) -> None:
    """A force of the model's own, computed by the hook: ports (their components, in order), parameters, states.

    `data` are further numbers (a map, a table) that the hook finds behind the parameters; `live` those of its work
    vector that may change from step to step, as a new work vector has them.
    """
    flat = tuple(c for port in ports for c in port)
    checked = {key: number(f"force {name}: {key}", value, Range()) for key, value in (params or {}).items()}
    _add(m, name, MODEL, flat, checked, states=states, data=data, live=live)


def _checked(what: str, kind: int, values: Mapping[str, float]) -> dict[str, float]:
    return {key: number(f"{what}: {key}", value, RANGES[kind][key]) for key, value in values.items()}


def _metric(body: Body) -> dict[str, float]:
    G = body.metric
    return {f"metric_{i}{j}": float(G[i, j]) for i in range(3) for j in range(3)}


def _add(
    m: Equations,
    name: str,
    kind: int,
    ports: tuple[Linear, ...],
    params: dict[str, float],
    scale: Input | None = None,
    states: int = 0,
    potential: Any = None,
    data: np.ndarray | None = None,
    live: np.ndarray | None = None,
) -> None:
    if name in m.elements:
        raise MechanismError(f"force {name}: there is one already")
    m.own(f"force {name}", *ports, dimension=1)
    if scale is not None:
        m.own_input(f"force {name}: scale", scale)
    source = -1 if scale is None else scale.index
    numbers = np.zeros(0) if data is None else np.asarray(data, float)
    begin = np.zeros(0) if live is None else np.asarray(live, float)
    m.elements[name] = Element(name, kind, ports, params, source, states, numbers, potential, begin)
