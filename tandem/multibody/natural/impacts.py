"""Surfaces of bodies, and pairs of them that may strike each other (what happens then is in impact_kernel.py).

A surface is fixed in a body, in the ground, or sits on a point: a sphere (radius 0: a point), a capsule, a box, a
plane, a round hole. Which pairs there are says `PAIRS`; a box or a capsule against a plane is its corners or ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
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
TOUCH = 1e-8  # of the size of the mechanism: how near two surfaces are that touch
MOST_LOGGED = 2_000  # of a call of `run`
PAIRS = {
    ("sphere", "plane"): k.BALL_PLANE, ("capsule", "plane"): k.BALL_PLANE, ("box", "plane"): k.BALL_PLANE,
    ("sphere", "sphere"): k.BALL_BALL, ("sphere", "capsule"): k.BALL_CAPSULE, ("sphere", "box"): k.BALL_BOX,
    ("capsule", "capsule"): k.CAPSULE_CAPSULE, ("sphere", "hole"): k.BALL_HOLE,
}  # fmt: skip


@dataclass(frozen=True)
class Surface:
    name: str
    kind: str
    frame: tuple[Linear, ...]  # origin and axes; on a point it has no axes
    size: tuple[float, ...] = (0.0, 0.0, 0.0)  # half sizes along the axes
    radius: float = 0.0


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


def _add(m: Equations, made: Surface) -> Surface:
    if made.name in m.surfaces:
        raise MechanismError(f"surface {made.name}: there is one already")
    if any(form.inputs for form in made.frame):
        raise MechanismError(f"surface {made.name}: is on what an input moves; put it on a body that a drive moves")
    m.surfaces[made.name] = made
    return made


def sphere(m: Equations, name: str, on: Body | Linear | None, at: ArrayLike, radius: float) -> Surface:
    """On a body, the ground, or a point, where it has no turning."""
    radius = number(f"surface {name}: radius", radius, LENGTH)
    first = np.eye(m.dimension)[0]
    return _add(m, Surface(name, "sphere", _frame(m, on, at, first), radius=radius))


def hole(m: Equations, name: str, on: Body | None, at: ArrayLike, radius: float) -> Surface:
    """A round hole that a sphere lies in: the bore of a bearing with clearance; in space a hollow ball."""
    radius = number(f"surface {name}: radius", radius, POSITIVE_LENGTH)
    return _add(m, Surface(name, "hole", _frame(m, on, at, np.eye(m.dimension)[0]), radius=radius))


def capsule(m: Equations, name: str, on: Body | None, ends: tuple[ArrayLike, ArrayLike], radius: float) -> Surface:
    a, b = (numbers(f"surface {name}: ends", end, m.dimension) for end in ends)
    if not norm(b - a) > 0.0:
        raise MechanismError(f"surface {name}: ends = {a.tolist()}, {b.tolist()}: are one point; that is a sphere")
    radius = number(f"surface {name}: radius", radius, LENGTH)
    return _add(m, Surface(name, "capsule", _frame(m, on, 0.5 * (a + b), b - a), (0.5 * norm(b - a), 0.0, 0.0), radius))


def box(m: Equations, name: str, on: Body | None, at: ArrayLike, size: ArrayLike) -> Surface:
    """Along the axes of the world as drawn."""
    half = 0.5 * numbers(f"surface {name}: size", size, m.dimension, POSITIVE_LENGTH)
    axes = np.eye(m.dimension)
    made = (at_of(m, on, at), *(along_of(m, on, axis) for axis in axes))
    return _add(m, Surface(name, "box", made, (*half.tolist(), *([0.0] * (3 - m.dimension)))))


def plane(m: Equations, name: str, on: Body | None, through: ArrayLike, normal: ArrayLike) -> Surface:
    n = direction(f"surface {name}: normal", normal, m.dimension)
    return _add(m, Surface(name, "plane", _frame(m, on, through, n)))


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
    found = Impact(
        name, first, second, number(f"impact {name}: restitution", restitution, RESTITUTION),
        number(f"impact {name}: friction", friction, COEFFICIENT), number(f"impact {name}: slow", slow, SPEED),
    )  # fmt: skip
    m.impacts[name] = found
    return found


def _balls(one: Surface, other: str, dimension: int) -> Iterator[tuple[float, float, float]]:
    """Where the balls of a surface are in its frame."""
    if other == "plane" and one.kind == "box":
        signs = product((-1.0, 1.0), repeat=dimension)
        yield from (tuple(s * h for s, h in zip((*sign, 0.0), one.size, strict=False)) for sign in signs)  # type: ignore[misc]
    elif other == "plane" and one.kind == "capsule":
        yield from ((sign * one.size[0], 0.0, 0.0) for sign in (-1.0, 1.0))
    else:
        yield (one.size[0], 0.0, 0.0)


class Meeting:
    """The tables of a system's impacts, and what came of them in a run."""

    def __init__(self, system: Any) -> None:
        m = system.mechanism
        self.names: list[str] = []  # of every contact
        order = {name: number for number, name in enumerate(m.surfaces)}
        contacts: list[int] = []
        figures: list[float] = []
        for one in m.impacts.values():
            first, second = one.first, one.second
            for offset in _balls(first, second.kind, m.dimension):
                contacts += [PAIRS[first.kind, second.kind], order[first.name], order[second.name]]
                figures += [*offset, first.radius, *second.size, second.radius, one.restitution, one.friction, one.slow]
                self.names.append(one.name)
        shapes = _forms(m)
        touch = TOUCH * (m.span or 1.0)
        self.log, self.counts = np.zeros(k.EVENT * MOST_LOGGED), np.zeros(k.COUNTS)
        room = np.zeros(k.room_size(system.n, system.m, system.state_size, len(self.names)))
        # what run_impacts takes behind the arguments of run_steps
        self.tables = (
            *shapes, np.array(contacts, np.int32), np.array(figures), touch, self.log, self.counts, room,
        )  # fmt: skip

    def step(self, advance: Any, system: Any, vector: np.ndarray, work: np.ndarray) -> None:
        """One step, with the impacts in it."""
        from tandem.multibody.natural.impact_kernel import run_impacts  # compiled when it is asked for

        s, none = system, np.zeros((0, 0))
        run_impacts(advance, s.ints, s.reals, vector, work, s.hook, s.h, 1, 1, none, none, np.zeros(3), *self.tables)

    def rows(self) -> np.ndarray:
        return self.log.reshape(-1, k.EVENT)[: int(self.counts[k.C_LOGGED])].copy()


def _forms(m: Equations) -> tuple[np.ndarray, ...]:
    """Origin and axes of all surfaces, three numbers each: in the plane the third is 0 but of the third axis."""
    ptr, col, coef, const = [0], list[int](), list[float](), list[float]()
    for surface in m.surfaces.values():
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
                    const.append(1.0 if len(surface.frame) > 1 and m.dimension == 2 and (a, c) == (3, 2) else 0.0)
                ptr.append(len(col))
    return np.array(ptr, np.int32), np.array(col, np.int32), np.array(coef), np.array(const)
