"""What a tree does not fulfil by itself: driven coordinates, scalars that follow from joints, and loops.

Candidates are the points and directions that parts have in common and the constraints of the builder. Those that hold
at any coordinates are realised by the tree. One that ties a scalar to joint coordinates makes it an alias of them, one
that ties a single coordinate to inputs drives it; of the rest, an independent subset closes the loops. How many are
independent is found where the loops are closed, near the drawing and not at it: a drawing may be a singular position.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tandem.multibody.natural.equations import Equations, Input
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.tables import HARMONIC, SMOOTH_STEP
from tandem.multibody.relative.groups import find_anchor, group_loops, independent_rows
from tandem.multibody.relative.kinematics import close, equation_value, residuals
from tandem.multibody.relative.resolve import Parts, in_space
from tandem.multibody.relative.space import CLOSED, NEAR, Candidate, Space
from tandem.multibody.relative.tree import Equation, Form, Tree, TreeBody


def close_tree(parts: Parts, bodies: Sequence[TreeBody], index: Sequence[int]) -> Tree:
    """The tree of these bodies."""
    m = parts.m
    joints = sum(body.freedoms for body in bodies)
    start = np.array([input_at_start(signal) for signal in m.inputs.values()])
    space = Space(parts, bodies, index, joints, start)
    aliases = space.find_aliases()
    driven, drives = space.find_driven()
    candidates = [c for c in space.candidates if not c.constraint or c.constraint not in drives.values()]
    candidates = [c for c in candidates if not space.vanishes(c.equation)]
    equations = [c.equation for c in candidates]
    assembled, left = close(bodies, equations, driven, space.reference, start)
    if left > CLOSED:
        h, _ = residuals(equations, space.at(assembled, start))
        worst = equations[int(np.argmax(np.abs(h)))].name
        raise MechanismError(
            f"{worst}: is off by {left:g} m or rad where all loops are closed as well as they can be; the drawing must"
            " be near a position that fulfils all joints, rods and drives"
        )
    loops, groups, dependent = _choose(space, candidates, driven, assembled)
    jacobians = [np.abs(residuals([c.equation for c in loops], at)[1]) for at in space.closed]
    largest = np.max(jacobians, axis=0)
    anchors = tuple(find_anchor(bodies, [loops[k].equation for k in g], largest[list(g)]) for g in groups)
    whole = {c.cut for c in loops if sum(d.cut == c.cut and d.world is not None for d in loops) == m.dimension}
    return Tree(
        m.dimension,
        in_space(m.g),
        tuple(bodies),
        space.own_scalars(),
        tuple(space.names()),
        space.reference,
        assembled,
        start,
        driven,
        drives,
        tuple(c.world if c.world is not None and c.cut in whole else c.equation for c in loops),
        groups,
        anchors,
        dependent,
        tuple(space.resolver.form(c) for c in _coordinates(m)),
        {name: tuple(space.resolver.form(port) for port in e.ports) for name, e in m.elements.items()},
        aliases,
        tuple(space.resolver.slip(one) for one in m.slips.values()),
    )


Choice = tuple[list[Candidate], tuple[tuple[int, ...], ...], tuple[int, ...]]


def _choose(space: Space, candidates: Sequence[Candidate], driven: dict[int, Form], assembled: np.ndarray) -> Choice:
    """Loops, their groups, and dependent coordinates."""
    equations = [c.equation for c in candidates]
    free = [k for k in range(space.n) if k not in driven]
    space.find_closed(equations, driven, assembled)
    jacobians = [residuals(equations, at)[1][:, free] for at in space.closed]
    chosen = max((independent_rows(J) for J in (jacobians[1], jacobians[2], jacobians[0])), key=len)
    _check(space, equations, [equations[k] for k in chosen], driven, assembled)
    by_cut: dict[str, list[int]] = {}
    for row, k in enumerate(chosen):
        by_cut.setdefault(candidates[k].cut, []).append(row)
    names = [equations[k].name for k in chosen]
    found, dependent = group_loops(list(by_cut.values()), [J[chosen] for J in jacobians], free, names)
    ends = np.cumsum([0, *(len(group) for group in found)]).tolist()
    loops = [candidates[chosen[row]] for group in found for row in group]
    return loops, tuple(tuple(range(a, b)) for a, b in pairwise(ends)), dependent


def input_at_start(signal: Input) -> float:
    """The value of an input at time 0."""
    if signal.kind == HARMONIC:
        mean, amplitude, _, phase = signal.law
        return mean + amplitude * math.sin(phase)
    if signal.kind == SMOOTH_STEP:
        before, after, begin, end = signal.law
        s = min(max(-begin / (end - begin), 0.0), 1.0)
        return before + (after - before) * s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
    return signal.law[0]


def _check(
    space: Space, equations: Sequence[Equation], loops: Sequence[Equation], driven: dict[int, Form], x: np.ndarray
) -> None:
    """Equations that were dropped must hold where the others do, also when inputs move."""
    there = x + space.random.uniform(-NEAR, NEAR, space.n)
    u = space.start + space.random.uniform(-NEAR, NEAR, len(space.start)) * 0.1
    found, left = close(space.bodies, loops, driven, there, u)
    if left > CLOSED:
        return  # out of reach of what is driven: nothing can be decided
    for equation in equations:
        off = abs(equation_value(equation, space.at(found, u)))
        if off > 1e3 * CLOSED:
            raise MechanismError(
                f"{equation.name}: contradicts other loops or drives (off by {off:g} m or rad near the drawing); one of"
                " them must go"
            )


def _coordinates(m: Equations) -> list[Linear]:
    """Every coordinate of the mechanism as a form, in order."""
    return [Linear([0.0], {i: np.ones(1)}) for i in range(m.n)]
