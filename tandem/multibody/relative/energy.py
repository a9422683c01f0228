"""Kinetic and potential energy of a tree as expressions: what natural/problems.py has, from links and ports."""

from collections.abc import Sequence

from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.natural.equations import Element
from tandem.multibody.natural.tables import CONTACT, FORCE_ON, LIMIT, SPRING, TORSION
from tandem.multibody.relative import vectors as v
from tandem.multibody.relative.equations import Equations
from tandem.multibody.relative.links import WORLD
from tandem.multibody.relative.vectors import Vector


def kinetic(eq: Equations) -> Expr:
    """1/2 sum (m v^2 + 2 v . (w x m c) + w . J w), of every link about its origin."""
    twice = eq.g.zero
    for k, one in enumerate(eq.links.links):
        turn, (_, move) = eq.own_turn(k), eq.motion(WORLD, k)
        _, R = eq.links.place(WORLD, k)
        twice = twice + one.mass * v.dot(move, move) + v.dot(turn, v.apply(one.inertia, turn))
        twice = twice + v.dot(move, v.apply(R, v.cross(turn, one.moment))) * 2.0
    for k, scalar in enumerate(eq.tree.scalars, eq.links.size - len(eq.tree.scalars)):
        inertia = eq.links.p.scalar(f"{scalar.name}.inertia", scalar.inertia)
        twice = twice + inertia * eq.links.w[k] * eq.links.w[k]
    return twice * 0.5


def weight(eq: Equations) -> Expr:
    """Potential energy of gravity."""
    down = eq.links.p.vector("gravity", eq.tree.gravity)
    total = eq.g.zero
    for k, one in enumerate(eq.links.links):
        at, R = eq.links.place(WORLD, k)
        total = total - v.dot(down, v.plus(v.times(at, one.mass), v.apply(R, one.moment)))
    return total


def potential(g: Graph, element: Element, p: dict[str, Expr], x: Vector) -> Expr:
    """Of a force; those that are scaled, rub or belong to a model have none."""
    if element.kind == SPRING:
        s = g.sqrt(v.dot(x, x)) - p["length"]
        return p["stiffness"] * s * s * 0.5 + p["preload"] * s
    if element.kind == TORSION:
        square = (x[0] - p["rest"]) ** 2
        return p["stiffness"] * square * 0.5 + p["cubic"] * square * square * 0.25
    if element.kind == FORCE_ON and element.input < 0:
        return -v.dot(list(p.values())[: len(x)], x)
    if element.kind == LIMIT:
        return _pressed(g, p["stiffness"], g.max(p["low"] - x[0], x[0] - p["high"]))
    if element.kind == CONTACT:
        normal: Sequence[Expr] = [p[f"normal_{axis}"] for axis in "xyz"[: len(x)]]
        return _pressed(g, p["stiffness"], p["offset"] - v.dot(list(normal), x))
    return g.zero


def _pressed(g: Graph, stiffness: Expr, depth: Expr) -> Expr:
    depth = g.max(depth, 0.0)
    return stiffness * depth * depth * 0.5
