"""Surfaces of bodies, and pairs of them that may strike each other (what happens then is in impact_kernel.py).

A surface is fixed in a body, in the ground, or sits on a point: a sphere (radius 0: a point), a capsule, a box, a
plane, a round hole. Which pairs there are says `PAIRS`; a box or a capsule against a plane is its corners or ends, a
capsule against a box its ends against the box and itself against the box's edges (in the plane, its corners). Two boxes
meet with rounded edges: corners of each against the other, and edges against edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural import impact_tables as k
from tandem.multibody.natural.body import Body
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.joints import along_of, at_of, frame
from tandem.multibody.natural.limits import (
    COEFFICIENT,
    LENGTH,
    POSITIVE_LENGTH,
    RESTITUTION,
    SPEED,
    direction,
    number,
    numbers,
)
from tandem.multibody.natural.linear import Linear
from tandem.multibody.portable import norm

SLOW = 0.01  # m/s
ROUND = 0.02  # of a box's smallest half size: its edges, where it meets a box
TOUCH = 1e-8  # of the size of the mechanism: how near two surfaces are that touch
MOST_LOGGED = 2_000  # of a call of `run`
PAIRS = {
    ("sphere", "plane"): k.BALL_PLANE, ("capsule", "plane"): k.BALL_PLANE, ("box", "plane"): k.BALL_PLANE,
    ("sphere", "sphere"): k.BALL_BALL, ("sphere", "capsule"): k.BALL_CAPSULE, ("sphere", "box"): k.BALL_BOX,
    ("capsule", "capsule"): k.CAPSULE_CAPSULE, ("sphere", "hole"): k.BALL_HOLE, ("capsule", "box"): k.BALL_BOX,
    ("box", "box"): k.BALL_BOX,
}  # fmt: skip


@dataclass(frozen=True)
class Surface:
    name: str
    kind: str
    frame: tuple[Linear, ...]  # origin and axes; on a point it has no axes
    size: tuple[float, ...] = (0.0, 0.0, 0.0)  # half sizes along the axes
    radius: float = 0.0
    on: Body | Linear | None = None


@dataclass(frozen=True)
class Impact:
    name: str
    first: Surface
    second: Surface
    restitution: float
    friction: float
    slow: float


def _frame(m: Equations, on: Body | Linear | None, at: ArrayLike, first: np.ndarray) -> tuple[Linear, ...]:
    """An origin and as many axes as there are dimensions, the first along `first` as drawn."""
    if isinstance(on, Linear):
        return (on,)
    first = first / norm(first)
    across = frame(first)[1:] if m.dimension == 3 else (np.array([-first[1], first[0]]),)
    return at_of(m, on, at), *(along_of(m, on, axis) for axis in (first, *across))


def _add(m: Equations, surface: Surface) -> Surface:
    if surface.name in m.surfaces:
        raise MechanismError(f"surface {surface.name}: there is one already")
    if any(form.inputs for form in surface.frame):
        raise MechanismError(f"surface {surface.name}: is on what an input moves; put it on a body that a drive moves")
    m.surfaces[surface.name] = surface
    return surface


def sphere(m: Equations, name: str, on: Body | Linear | None, at: ArrayLike, radius: float) -> Surface:
    """On a body, the ground, or a point, where it has no turning."""
    radius = number(f"surface {name}: radius", radius, LENGTH)
    first = np.eye(m.dimension)[0]
    return _add(m, Surface(name, "sphere", _frame(m, on, at, first), radius=radius, on=on))


def hole(m: Equations, name: str, on: Body | None, at: ArrayLike, radius: float) -> Surface:
    """A round hole that a sphere lies in: the bore of a bearing with clearance; in space a hollow ball."""
    radius = number(f"surface {name}: radius", radius, POSITIVE_LENGTH)
    return _add(m, Surface(name, "hole", _frame(m, on, at, np.eye(m.dimension)[0]), radius=radius, on=on))


def capsule(m: Equations, name: str, on: Body | None, ends: tuple[ArrayLike, ArrayLike], radius: float) -> Surface:
    a, b = (numbers(f"surface {name}: ends", end, m.dimension) for end in ends)
    if not norm(b - a) > 0.0:
        raise MechanismError(f"surface {name}: ends = {a.tolist()}, {b.tolist()}: are one point; that is a sphere")
    radius = number(f"surface {name}: radius", radius, LENGTH)
    half = (0.5 * norm(b - a), 0.0, 0.0)
    return _add(m, Surface(name, "capsule", _frame(m, on, 0.5 * (a + b), b - a), half, radius, on))


def box(m: Equations, name: str, on: Body | None, at: ArrayLike, size: ArrayLike) -> Surface:
    """Along the axes of the world as drawn."""
    half = 0.5 * numbers(f"surface {name}: size", size, m.dimension, POSITIVE_LENGTH)
    axes = np.eye(m.dimension)
    frame = (at_of(m, on, at), *(along_of(m, on, axis) for axis in axes))
    return _add(m, Surface(name, "box", frame, (*half.tolist(), *([0.0] * (3 - m.dimension))), on=on))


def plane(m: Equations, name: str, on: Body | None, through: ArrayLike, normal: ArrayLike) -> Surface:
    n = direction(f"surface {name}: normal", normal, m.dimension)
    return _add(m, Surface(name, "plane", _frame(m, on, through, n), on=on))


def impact(
    m: Equations,
    name: str,
    first: Surface,
    second: Surface,
    restitution: float = 0.0,
    friction: float = 0.0,
    slow: float = SLOW,
) -> Impact:
    """Two surfaces that may strike each other; what approaches more slowly than `slow` does not bounce."""
    if name in m.impacts:
        raise MechanismError(f"impact {name}: there is one already")
    if (first.kind, second.kind) not in PAIRS:
        first, second = second, first
    if (first.kind, second.kind) not in PAIRS:
        raise MechanismError(
            f"impact {name}: a {second.kind} and a {first.kind} are no pair; there are"
            f" {', '.join(f'{a} and {b}' for a, b in PAIRS)}; make one of them of spheres or capsules"
        )
    if first.on is second.on:
        where = (
            f"body {first.on.name}" if isinstance(first.on, Body) else "the ground" if first.on is None else "a point"
        )
        raise MechanismError(f"impact {name}: {first.name} and {second.name} are both on {where}, and never strike")
    found = Impact(
        name, first, second, number(f"impact {name}: restitution", restitution, RESTITUTION),
        number(f"impact {name}: friction", friction, COEFFICIENT), number(f"impact {name}: slow", slow, SPEED),
    )  # fmt: skip
    m.impacts[name] = found
    return found


def _balls(one: Surface, other: str, dimension: int) -> Iterator[tuple[float, float, float]]:
    """Where the balls of a surface are in its frame."""
    if other in ("plane", "capsule") and one.kind == "box":
        signs = product((-1.0, 1.0), repeat=dimension)
        yield from (tuple(s * h for s, h in zip((*sign, 0.0), one.size, strict=False)) for sign in signs)  # type: ignore[misc]
    elif other in ("plane", "box") and one.kind == "capsule":
        yield from ((sign * one.size[0], 0.0, 0.0) for sign in (-1.0, 1.0))
    else:
        yield (one.size[0], 0.0, 0.0)


def _edges(one: Surface) -> list[Surface]:
    """Of a box in space, as capsules."""
    origin, *axes = one.frame
    out = []
    for along, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        for a, b in product((-1.0, 1.0), repeat=2):
            middle = origin + axes[i] * (a * one.size[i]) + axes[j] * (b * one.size[j])
            size = (one.size[along], 0.0, 0.0)
            out.append(Surface(one.name, "capsule", (middle, axes[along], axes[i], axes[j]), size, one.radius))
    return out


def _rounded(one: Surface, dimension: int) -> Surface:
    """A box that is less by the radius of its edges."""
    radius = ROUND * min(one.size[:dimension])
    size = tuple(half - radius for half in one.size[:dimension]) + one.size[dimension:]
    return replace(one, size=size, radius=radius)


# kind, first and second surface, where the ball of the first is (or half its length)
_Contact = tuple[int, Surface, Surface, tuple[float, float, float]]


def _contacts(one: Impact, dimension: int) -> Iterator[_Contact]:
    first, second = one.first, one.second
    if first.kind == second.kind == "box":
        yield from _of_boxes(_rounded(first, dimension), _rounded(second, dimension), dimension)
        return
    for offset in _balls(first, second.kind, dimension):
        yield PAIRS[first.kind, second.kind], first, second, offset
    if (first.kind, second.kind) == ("capsule", "box"):
        if dimension == 2:
            for offset in _balls(second, first.kind, dimension):
                yield k.BALL_CAPSULE, second, first, offset
        else:
            for edge in _edges(second):
                yield k.CAPSULE_CAPSULE, first, edge, (first.size[0], 0.0, 0.0)


def _of_boxes(first: Surface, second: Surface, dimension: int) -> Iterator[_Contact]:
    both = first.radius + second.radius
    for one, other in ((first, second), (second, first)):
        ball = replace(one, radius=both)
        for offset in _balls(ball, "plane", dimension):
            yield k.BALL_BOX, ball, other, offset
    if dimension == 3:
        for edge, other in product(_edges(first), _edges(second)):
            yield k.CAPSULE_CAPSULE, edge, other, (edge.size[0], 0.0, 0.0)


class Meeting:
    """The tables of a system's impacts, and what came of them in a run."""

    def __init__(self, system: Any) -> None:
        m = system.mechanism
        self.names: list[str] = []  # of every contact
        surfaces = list(m.surfaces.values())
        order = {id(surface): number for number, surface in enumerate(surfaces)}
        contacts: list[int] = []
        figures: list[float] = []
        for one in m.impacts.values():
            for kind, first, second, offset in _contacts(one, m.dimension):
                for each in (first, second):  # edges, and rounded boxes
                    if id(each) not in order:
                        order[id(each)] = len(surfaces)
                        surfaces.append(each)
                contacts += [kind, order[id(first)], order[id(second)]]
                figures += [*offset, first.radius, *second.size, second.radius, one.restitution, one.friction, one.slow]
                self.names.append(one.name)
        forms = _forms(surfaces, m.dimension)
        touch = TOUCH * (m.span or 1.0)
        self.log, self.counts = np.zeros(k.EVENT * MOST_LOGGED), np.zeros(k.COUNTS)
        scratch = np.zeros(k.scratch_size(system.n, system.m, system.state_size, len(self.names)))
        # what run_impacts takes behind the arguments of run_steps
        self.tables = (
            *forms, np.array(contacts, np.int32), np.array(figures), touch, self.log, self.counts, scratch,
        )  # fmt: skip

    def overlap(self, q: np.ndarray) -> tuple[str, float]:
        """Which two surfaces lie deepest in each other, and how deep; below 0 they are apart."""
        from tandem.multibody.natural.impact_kernel import gaps_at

        found = np.zeros(len(self.names))
        ptr, col, coef, const, contacts, figures, *_ = self.tables
        gaps_at(ptr, col, coef, const, q, contacts, figures, np.zeros(34), found)
        deepest = int(np.argmin(found))
        return self.names[deepest], -float(found[deepest])

    def step(self, advance: Any, system: Any, vector: np.ndarray, work: np.ndarray) -> None:
        """One step, with the impacts in it."""
        from tandem.multibody.natural.impact_kernel import run_impacts  # compiled when it is asked for

        s, none = system, np.zeros((0, 0))
        run_impacts(advance, s.ints, s.reals, vector, work, s.hook, s.h, 1, 1, none, none, np.zeros(3), *self.tables)

    def rows(self) -> np.ndarray:
        return self.log.reshape(-1, k.EVENT)[: int(self.counts[k.C_LOGGED])].copy()


def _forms(surfaces: list[Surface], dimension: int) -> tuple[np.ndarray, ...]:
    """Origin and axes of all surfaces, three numbers each: in the plane the third is 0 but of the third axis."""
    ptr, col, coef, const = [0], list[int](), list[float](), list[float]()
    for surface in surfaces:
        for a in range(4):
            form = surface.frame[a] if a < len(surface.frame) else None
            for c in range(3):
                if form is not None and c < form.dim:
                    for i, values in form.terms.items():
                        if values[c]:
                            col.append(i)
                            coef.append(float(values[c]))
                    const.append(float(form.const[c]))
                else:
                    const.append(1.0 if len(surface.frame) > 1 and dimension == 2 and (a, c) == (3, 2) else 0.0)
                ptr.append(len(col))
    return np.array(ptr, np.int32), np.array(col, np.int32), np.array(coef), np.array(const)
