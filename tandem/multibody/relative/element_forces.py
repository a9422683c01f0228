"""Force elements of a mechanism as expressions of their ports: the laws of natural/elements.py, with exact derivatives.

Every element gives the force on each of its ports. Parameters are those of the element, under its name; the input that
scales it is one of `u`.
"""

from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.natural.equations import Element
from tandem.multibody.natural.tables import (
    CONTACT,
    DRAG,
    FORCE_ON,
    FRICTION,
    LIMIT,
    ROTOR,
    SPRING,
    STILL,
    TORQUE_2D,
    TORQUE_3D,
    TORSION,
)
from tandem.multibody.relative import vectors as v
from tandem.multibody.relative.vectors import Vector

SHORTEST = 1e-12  # m; of a spring, as in natural


def port_forces(g: Graph, element: Element, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    """The force on each port of an element; p its parameters by name."""
    return _LAWS[element.kind](g, p, scale, x, xd)


def _spring(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    length = g.max(g.sqrt(v.dot(x, x)), SHORTEST)
    n = v.times(x, g.one / length)
    tension = p["stiffness"] * (length - p["length"]) + p["damping"] * v.dot(n, xd) + p["preload"]
    return [-tension * e for e in n]


def _torsion(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    s = x[0] - p["rest"]
    return [-(p["stiffness"] * s) - p["damping"] * xd[0] - p["cubic"] * s * s * s]


def _force(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    return [scale * e for e in list(p.values())[: len(x)]]


def _torque_2d(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    T = scale * p["over_square"]
    return [-T * x[1], T * x[0]]


def _basis(x: Vector) -> list[Vector]:
    return [x[0:3], x[3:6], x[6:9]]


def _turn(g: Graph, p: dict[str, Expr], e: list[Vector], T: Vector) -> Vector:
    """Forces on the basis vectors of a body that a torque T on it is."""
    out: Vector = []
    for i in range(3):
        r = v.zeros(g)
        for j in range(3):
            r = v.plus(r, v.times(e[j], p[f"metric_{i}{j}"]))
        out += v.times(v.cross(T, r), g.constant(0.5))
    return out


def _torque_3d(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    e = _basis(x)
    T = [p[f"world_{axis}"] for axis in "xyz"]
    for k in range(3):
        T = v.plus(T, v.times(e[k], p[f"own_{k}"]))
    return _turn(g, p, e, v.times(T, scale))


def _rotor(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    """Gyroscopic torque -I Omega dw/dt on the carrier; the last port is the spin."""
    rates = _basis(xd)
    turning = v.zeros(g)
    for k in range(3):
        turning = v.plus(turning, v.times(rates[k], p[f"axis_{k}"]))
    return [*_turn(g, p, _basis(x), v.times(turning, -(p["inertia"] * xd[9]))), g.zero]


def _friction(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    speed = xd[0]
    return [-(p["level"] * speed / g.sqrt(speed * speed + p["speed"] * p["speed"])) - p["viscous"] * speed]


def _pushed(g: Graph, p: dict[str, Expr], depth: Expr, speed: Expr) -> Expr:
    """Of a stop at a depth, which grows at a speed: never pulls."""
    push = p["stiffness"] * depth * (1.0 + p["damping"] * speed)
    return g.select(g.zero, depth, g.max(push, g.zero), g.zero)


def _limit(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    low = _pushed(g, p, p["low"] - x[0], -xd[0])
    high = _pushed(g, p, x[0] - p["high"], xd[0])
    return [low - high]


def _contact(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    n = [p[f"normal_{axis}"] for axis in "xyz"[: len(x)]]
    gap, rate = v.dot(n, x) - p["offset"], v.dot(n, xd)
    push = _pushed(g, p, -gap, -rate)
    slip = v.minus(xd, v.times(n, rate))
    grip = p["friction"] * push / g.sqrt(v.dot(slip, slip) + p["speed"] * p["speed"])
    return v.minus(v.times(n, push), v.times(slip, grip))


def _drag(g: Graph, p: dict[str, Expr], scale: Expr, x: Vector, xd: Vector) -> Vector:
    speed = g.sqrt(v.dot(xd, xd) + STILL * STILL)
    return v.times(xd, -(p["linear"] + p["coefficient"] * p["area"] * p["density"] * speed * 0.5))


_LAWS = {
    SPRING: _spring, TORSION: _torsion, FORCE_ON: _force, TORQUE_2D: _torque_2d, TORQUE_3D: _torque_3d,
    FRICTION: _friction, LIMIT: _limit, ROTOR: _rotor, CONTACT: _contact, DRAG: _drag,
}  # fmt: skip
