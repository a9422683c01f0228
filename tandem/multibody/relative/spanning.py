"""From a mechanism to its tree: which parts hang on which, by which joints.

The tree grows from the world. Of all pairs of a placed and an unplaced part the one whose joint has the fewest
freedoms is taken, of equals the one nearest to the world, then the one that was defined first. A part without any
joint to what is placed is free in the world: of those the one with the most neighbours. `cut` names joints, nodes and
bodies: what ties at such a joint or node is no joint of the tree, and no other part hangs on such a body.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.relative.closing import close_tree
from tandem.multibody.relative.pairs import Between, FoundJoint, coincidences, find_joint, free_motions, moved_to
from tandem.multibody.relative.resolve import Parts, Resolver, Shared, find_parts, in_space, own_equations
from tandem.multibody.relative.tree import WORLD, Equation, Form, Tree, TreeBody


def make_tree(mechanism: Equations, cut: Sequence[str] = ()) -> Tree:
    """The tree of a mechanism, its cut loops, and everything of the mechanism in terms of them."""
    m = mechanism
    known = {*m.joints, *m.nodes, *m.places, *m.bodies, *m.constraints, *(load.of for load in m.loads.values())}
    for name in cut:
        if name not in known:
            raise MechanismError(f"cut {name}: there is no joint, node or body of that name")
    parts = find_parts(m)
    between = _neighbours(parts, set(cut))
    bodies, index = _grow(parts, between, set(cut))
    return close_tree(parts, bodies, index)


def _neighbours(parts: Parts, cut: set[str]) -> dict[tuple[int, int], Between]:
    """Equations between two parts, the lower number first."""
    m, out = parts.m, dict[tuple[int, int], Between]()
    resolver = Resolver(parts, {i: Form(0.0, {}, {i: 1.0}) for i in parts.scalars})
    common: dict[tuple[int, int], list[Shared]] = {}
    points: dict[int, list[Shared]] = {}
    for shared in parts.shared:
        for k, a in enumerate(shared.holders):
            if shared.kind == "point":
                points.setdefault(a, []).append(shared)
            for b in shared.holders[:k]:
                if shared.name not in cut:
                    common.setdefault((min(a, b), max(a, b)), []).append(shared)
    for (a, b), shares in common.items():
        here = out.setdefault((a, b), Between())
        here.equations["shared"] = [e for group in coincidences(resolver, a, b, shares).values() for e in group]
        here.places += [s.reference for s in shares if s.kind == "point"]
        here.axes += [s.reference for s in shares if s.kind == "vector"]
        here.axes += [p - here.places[0] for p in here.places[1:]]
    own = own_equations(m)
    for constraint in m.constraints.values():
        if constraint.name in own or constraint.theta is not None:
            continue
        load = m.loads.get(constraint.name)
        joint = load.of if load else constraint.name
        if {constraint.name, joint} & cut:
            continue
        equation = resolver.equation(constraint)
        bodies = equation.bodies
        if any(form.coordinates or form.inputs for form in equation.forms):
            if load is not None and 1 <= len(bodies) <= 2:  # where a rack moves to is the best of axes to slide along
                here = out.setdefault(_pair(bodies), Between())
                here.axes.insert(0, in_space(m.where(load.first)))
            continue
        if 1 <= len(bodies) <= 2:
            _note(parts, out, equation, joint, bodies)
        if len(bodies) == 2:
            for old in bodies:
                (stays,) = bodies - {old}
                for point in points.get(old, ()):
                    for new in point.holders:
                        if new not in (WORLD, old, stays) and point.name not in cut:
                            moved = moved_to(equation, resolver, old, new, point)
                            if moved is not None:
                                _note(parts, out, moved, joint, {stays, new})
    return out


def _pair(bodies: set[int]) -> tuple[int, int]:
    a, b = sorted({WORLD, *bodies} if len(bodies) == 1 else bodies)
    return a, b


def _note(parts: Parts, out: dict[tuple[int, int], Between], equation: Equation, joint: str, bodies: set[int]) -> None:
    m = parts.m
    here = out.setdefault(_pair(bodies), Between())
    here.equations.setdefault(joint, []).append(equation)
    if joint in m.joints:
        here.places.append(in_space(m.joints[joint].at))
        axis = m.joints[joint].axis
        if axis is not None:
            here.axes.insert(0, in_space(axis))
    load = m.loads.get(equation.name)
    if load is not None:
        across = [in_space(m.where(v)) for v in (load.first, load.second) if v is not None]
        here.axes += across
        if m.dimension == 2:
            here.last_axes += [np.array([v[1], -v[0], 0.0]) for v in across]
        elif len(here.axes) > 1:  # a slider is given by two directions across it, in this order
            here.last_axes.append(np.cross(here.axes[-2], here.axes[-1]))


def _grow(parts: Parts, between: dict[tuple[int, int], Between], cut: set[str]) -> tuple[list[TreeBody], list[int]]:
    """Bodies of the tree, and the body of every part."""
    near: dict[int, list[int]] = {}
    for a, b in between:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    index = [-1] * len(parts.parts)
    depth = {WORLD: 0}
    bodies: list[TreeBody] = []
    waiting: list[tuple[int, int, int, int]] = []
    joints: dict[tuple[int, int], FoundJoint] = {}

    def offer(parent: int) -> None:
        if parent != WORLD and parts.parts[parent].name in cut:
            return
        for child in near.get(parent, ()):
            if child != WORLD and index[child] < 0:
                found = find_joint(parts, parent, child, between[min(parent, child), max(parent, child)])
                if found is not None:
                    joints[parent, child] = found
                    heapq.heappush(waiting, (found.freedoms, depth[parent], child, parent))

    def place(child: int, parent: int, joint: FoundJoint) -> None:
        part = parts.parts[child]
        index[child] = len(bodies)
        hangs_on = WORLD if parent == WORLD else index[parent]
        bodies.append(TreeBody(part.name, hangs_on, joint.motions, joint.at, part.mass, part.centre, part.inertia))
        depth[child] = depth[parent] + 1
        offer(child)

    offer(WORLD)
    while len(bodies) < len(parts.parts):
        while waiting:
            _, _, child, parent = heapq.heappop(waiting)
            if index[child] < 0:
                place(child, parent, joints[parent, child])
        left = [k for k, at in enumerate(index) if at < 0]
        if left:
            child = max(left, key=lambda k: (parts.parts[k].body is not None, len(near.get(k, ())), -k))
            part = parts.parts[child]
            at = part.centre if part.body is not None and part.line is None else part.at
            place(child, WORLD, FoundJoint(free_motions(part, parts.m.dimension), at))
    for part, k in zip(parts.parts, index, strict=True):
        part.at = bodies[k].at  # from now on; until here equations were in the frames they were found in
    return bodies, index
