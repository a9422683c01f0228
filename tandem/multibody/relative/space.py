"""The coordinates of a tree under construction: equations that they may have to fulfil, and what of them is simple.

An equation that ties a scalar to joint coordinates makes it an alias of them, if then it holds everywhere; one that
ties a single coordinate to inputs drives it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tandem.multibody.natural.equations import Node
from tandem.multibody.relative.kinematics import Pose, close, equation_value, pose, residual
from tandem.multibody.relative.pairs import coincidences, minus
from tandem.multibody.relative.resolve import Parts, Resolver, Shared, own_equations
from tandem.multibody.relative.tree import WORLD, Equation, Form, Scalar, TreeBody

HOLDS = 1e-9  # m or rad: holds identically, up to rounding
ROUNDING = 1e-14  # m or rad, of an equation as drawn
SLOPE = 1e-9  # of an equation with respect to a coordinate that it does not depend on
CLOSED = 1e-9  # m or rad, of a loop whose equations agree with each other
MEETING = 2  # bodies of a loop that is not closed by the world
NEAR = 0.02  # m or rad: how far from the drawing loops are closed again


@dataclass(frozen=True)
class Candidate:
    """An equation that may be needed. All of one point together can be written along axes of the world (`world`)."""

    equation: Equation
    cut: str  # what belongs together
    constraint: str = ""  # of the builder
    world: Equation | None = None


class Space:
    """The coordinates of a tree under construction, and the equations on them."""

    def __init__(
        self, parts: Parts, bodies: Sequence[TreeBody], index: Sequence[int], joints: int, start: np.ndarray
    ) -> None:
        self.parts, self.m, self.bodies, self.index, self.joints = parts, parts.m, bodies, index, joints
        self.start = start
        self.random = np.random.default_rng(2)
        self.inertias = {i: parts.m.inertia.get((i, i), 0.0) for i in parts.scalars}
        self.aliases: dict[int, Form] = {}  # column of a scalar -> what it follows
        self.balls = {k for k, kind in enumerate(_kinds(bodies)) if kind == "ball"}
        self.number()

    def number(self) -> None:
        """Coordinates for the scalars that are none of a joint, and all equations with them."""
        own = [i for i in self.parts.scalars if i not in self.aliases]
        self.place_of = {i: self.joints + k for k, i in enumerate(own)}
        self.n = self.joints + len(own)
        self.reference = np.concatenate([np.zeros(self.joints), self.m.q0[own] if own else np.zeros(0)])
        scalars = {i: Form(0.0, {}, {k: 1.0}) for i, k in self.place_of.items()} | self.aliases
        self.resolver = Resolver(self.parts, scalars, self.index)
        self.candidates = list(self._candidates())

    def own_scalars(self) -> tuple[Scalar, ...]:
        nodes = self.parts.scalars
        return tuple(Scalar(nodes[i].name, self.inertias[i], float(self.m.q0[i])) for i in self.place_of)

    def at(self, x: np.ndarray, u: np.ndarray) -> Pose:
        return pose(self.bodies, self.n, x, u)

    def anywhere(self) -> list[Pose]:
        """Positions of the tree, loops open."""
        if not hasattr(self, "_anywhere") or len(self._anywhere[0].x) != self.n:
            self._anywhere: list[Pose] = []
            for _ in range(3):
                x = self.reference + self.random.uniform(-0.8, 0.8, self.n)
                self._anywhere.append(self.at(x, self.start + self.random.uniform(-0.5, 0.5, len(self.start))))
        return self._anywhere

    def vanishes(self, equation: Equation) -> bool:
        return all(
            abs(equation_value(equation, at)) < HOLDS * (1.0 + float(np.abs(at.p).max(initial=0.0)))
            for at in self.anywhere()
        )

    def _candidates(self) -> list[Candidate]:
        out: list[Candidate] = []
        common: dict[tuple[int, int], list[Shared]] = {}
        for shared in self.parts.shared:
            first = shared.holders[0]
            for other in shared.holders[1:]:
                common.setdefault((first, other), []).append(shared)
            out += self._compound(shared)
        for (a, b), shares in common.items():
            named = {k: "world" if k == WORLD else self.parts.parts[k].name for k in (a, b)}
            label = f"{named[a]} - {named[b]}"
            for name, group in coincidences(self.resolver, a, b, shares).items():
                point = next((s for s in shares if s.name == name and s is _first_point(shares)), None)
                for axis, e in enumerate(group):
                    world = None
                    if point is not None:
                        gap = minus(
                            self.resolver.place(b, point.reference, axis), self.resolver.place(a, point.reference, axis)
                        )
                        world = Equation(f"{label}: {e.name}", ((1.0, gap, None),))
                    renamed = Equation(f"{label}: {e.name}", e.products)
                    out.append(Candidate(renamed, label if point is None else f"{label}: {name}", "", world))
        own = own_equations(self.m)
        equations = {c.name: self.resolver.equation(c) for c in self.m.constraints.values() if c.name not in own}
        for name, e in equations.items():
            load = self.m.loads.get(name)
            joint = load.of if load else name
            along = self._in_a_frame(joint, name, equations)
            out.append(Candidate(e, joint, name) if along is None else Candidate(along, joint, name, e))
        return out

    def _in_a_frame(self, joint: str, name: str, equations: Mapping[str, Equation]) -> Equation | None:
        """One of the equations that two points are one, along an axis of a part: of these, some can be left out without
        becoming singular when all of it turns."""
        names = [f"{joint}.{axis}" for axis in range(self.m.dimension)]
        if name not in names or any(k not in equations for k in names):
            return None
        gap = [equations[k].products for k in names]
        bodies = set[int]().union(*(equations[k].bodies for k in names))
        leads = [k for k, b in enumerate(self.index) if b in bodies and self.parts.parts[k].turns]
        if len(bodies) < MEETING or not leads or any(b is not None for side in gap for _, _, b in side):
            return None
        axis = np.eye(3)[names.index(name)]
        along = [self.resolver.along(leads[0], axis, i) for i in range(self.m.dimension)]
        return Equation(name, tuple((c, a, n) for side, n in zip(gap, along, strict=True) for c, a, _ in side))

    def _compound(self, shared: Shared) -> list[Candidate]:
        """A node of a body that is a form of nodes of others, and of no one body."""
        out: list[Candidate] = []
        if isinstance(shared.form, Node):
            return out
        holder = shared.holders[0]
        place = self.resolver.place if shared.kind == "point" else self.resolver.along
        for axis in range(self.m.dimension):
            gap = minus(self.resolver.form(shared.form[axis]), place(holder, shared.reference, axis))
            if any(np.abs(S).max() > HOLDS or np.abs(L).max() > HOLDS for S, L in gap.bodies.values()):
                out.append(Candidate(Equation(f"{shared.name} {axis}", ((1.0, gap, None),)), shared.name))
        return out

    # scalars that follow from joints

    def find_aliases(self) -> dict[str, Form]:
        done: set[str] = set()
        while self._one_alias(done):
            pass
        return {self.parts.scalars[i].name: form for i, form in self.aliases.items()}

    def _one_alias(self, done: set[str]) -> bool:
        for candidate in self.candidates:
            e = candidate.equation
            if candidate.constraint in done or any(form.inputs for form in e.forms):
                continue
            named = {k for form in e.forms for k in form.coordinates if k >= self.joints}
            light = [i for i, k in self.place_of.items() if k in named and not self.inertias[i]]
            if not light:
                continue
            done.add(candidate.constraint)
            h, slope = residual(e, self.at(self.reference, self.start))
            h = h if abs(h) > ROUNDING else 0.0
            for i in light:
                k = self.place_of[i]
                if abs(slope[k]) < SLOPE:
                    continue
                follows = {j: _rounded(-slope[j] / slope[k]) for j in np.flatnonzero(np.abs(slope) > SLOPE) if j != k}
                if not follows or self.balls & set(follows):
                    continue
                const = float(self.reference[k] - h / slope[k] - sum(c * self.reference[j] for j, c in follows.items()))
                if self._accept(
                    i, Form(_rounded(const), {}, {int(j): c for j, c in follows.items()}), candidate.constraint
                ):
                    return True
        return False

    def _accept(self, column: int, form: Form, constraint: str) -> bool:
        """Makes a scalar an alias if its equation then holds everywhere."""
        before = dict(self.aliases), self.place_of
        gone = self.place_of[column]
        self.aliases[column] = form
        # coordinates behind the one that goes move up; aliases that used it follow what it follows
        for i, alias in self.aliases.items():
            share = alias.coordinates.get(gone, 0.0)
            coordinates = {k: c for k, c in alias.coordinates.items() if k != gone}
            for k, c in form.coordinates.items() if share else ():
                coordinates[k] = coordinates.get(k, 0.0) + share * c
            moved = {k - (k > gone): c for k, c in coordinates.items()}
            self.aliases[i] = Form(alias.const + share * form.const, {}, moved)
        self.number()
        if self.vanishes(next(c.equation for c in self.candidates if c.constraint == constraint)):
            return True
        self.aliases = before[0]
        self.number()
        return False

    # coordinates that follow inputs

    def find_driven(self) -> tuple[dict[int, Form], dict[int, str]]:
        driven: dict[int, Form] = {}
        drives: dict[int, str] = {}
        here = self.at(self.reference, np.zeros(len(self.start)))
        for candidate in self.candidates:
            e = candidate.equation
            if not candidate.constraint:
                continue
            h, slope = residual(e, here)
            h = h if abs(h) > ROUNDING else 0.0
            depends = np.flatnonzero(np.abs(slope) > SLOPE)
            if len(depends) != 1 or int(depends[0]) in driven or int(depends[0]) in self.balls:
                continue
            k = int(depends[0])
            rates = {j: -c / float(slope[k]) for j, c in self._input_derivatives(e, here).items()}
            const = _rounded(float(self.reference[k] - h / slope[k]))
            follows = Form(const, {}, {}, {j: _rounded(c) for j, c in rates.items()})
            if self._linear(e, k, float(slope[k]), follows):
                driven[k], drives[k] = follows, candidate.constraint
        return driven, drives

    def _input_derivatives(self, e: Equation, here: Pose) -> dict[int, float]:
        unit = np.eye(len(self.start))
        return {
            j: equation_value(e, replace(here, u=here.u + unit[j])) - equation_value(e, here)
            for j in sorted({j for form in e.forms for j in form.inputs})
        }

    def _linear(self, e: Equation, k: int, slope: float, follows: Form) -> bool:
        for at in self.anywhere():
            wanted = follows.const + sum(c * at.u[j] for j, c in follows.inputs.items())
            if abs(equation_value(e, at) - slope * (at.x[k] - wanted)) > HOLDS * (
                1.0 + float(np.abs(at.p).max(initial=0.0))
            ):
                return False
        return True

    def find_closed(self, equations: Sequence[Equation], driven: dict[int, Form], x: np.ndarray) -> None:
        """Three closed positions, the assembled one first and two near it, with the inputs where they start."""
        self.closed = [self.at(x, self.start)]
        for _ in range(2):
            there = x + self.random.uniform(-NEAR, NEAR, self.n)
            found, left = close(self.bodies, equations, driven, there, self.start)
            self.closed.append(self.at(found, self.start) if left < CLOSED else self.closed[0])

    def names(self) -> list[str]:
        return _names(self.bodies, self.own_scalars())


def _first_point(shares: Sequence[Shared]) -> Shared | None:
    return next((s for s in shares if s.kind == "point"), None)


def _rounded(value: float) -> float:
    """Nearly whole numbers are whole: a factor of an angle, a place at the origin."""
    whole = round(value)
    return float(whole) if abs(value - whole) < 1e-12 else float(value)


def _kinds(bodies: Sequence[TreeBody]) -> list[str]:
    return [motion.kind for body in bodies for motion in body.motions for _ in range(motion.size)]


def _names(bodies: Sequence[TreeBody], scalars: Sequence[Scalar]) -> list[str]:
    out = []
    for body in bodies:
        counts: dict[str, int] = {}
        kinds = [motion.kind for motion in body.motions]
        for motion in body.motions:
            counts[motion.kind] = counts.get(motion.kind, 0) + 1
            number = f" {counts[motion.kind]}" if kinds.count(motion.kind) > 1 else ""
            ends = (" x", " y", " z") if motion.kind == "ball" else ("",)
            out += [f"{body.name} {motion.kind}{number}{end}" for end in ends]
    return out + [scalar.name for scalar in scalars]
