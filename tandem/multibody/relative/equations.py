"""The equations of motion of a tree with cut loops, written out as one expression graph.

With x the coordinates, w the velocities, u the independent, d the driven and v the dependent ones:

    h(x) = 0                       loops; Newton corrects x_v           (`closing`)
    w_v = -J_v^-1 (J w_ud + h_t)   each group of loops by itself, pivots where the assembled mechanism has its largest
    dw = B dw_u + g                all velocities from the independent ones
    r = B^T (M dw + c - Q)         inverse dynamics by Newton and Euler's recursion, reduced; 0 in motion
    (B^T M B) dw_u = -r(dw_u = 0)  forward dynamics

A loop is written in the axes of the lowest body that carries all of it, and does not see where that is.
Forces of a model enter as `f` at their ports, whose values are an output of their own; all others are in the graph.
What depends on parameters alone is computed once (`hoisted`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.relative import vectors as v
from tandem.multibody.relative.links import WORLD, Links, clean
from tandem.multibody.relative.tree import Form, Tree
from tandem.multibody.relative.vectors import Matrix, Vector

VALUE, RATE, SECOND = range(3)  # of an input


@dataclass
class Equations:
    """Everything that can be computed of a mechanism; functions are cut out of it (system.py)."""

    g: Graph
    tree: Tree
    links: Links

    # ---- forms -------------------------------------------------------------------------------------------------------

    def parts(self, form: Form) -> list[tuple[int, list[tuple[int, Expr]], list[tuple[int, Vector]]]]:
        """Of each body: its link, (axis, coefficient) of its origin, (axis, place in its axes) of what turns."""
        out = []
        for b, (S, L) in form.bodies.items():
            link = self.links.of_body[b]
            name, axes = self.tree.bodies[b].name, self.links.links[link].reference_axes
            size = max(float(np.abs(S).max(initial=0.0)), 1e-300)
            moves = [(i, self._coefficient(f"{name}.share", float(S[i]))) for i in range(3) if abs(S[i]) > 1e-14 * size]
            turns = []
            for i in range(3):
                if np.any(L[i]):
                    local = clean(kinematics_product(L[i], axes))
                    turns.append((i, self._place(name, local)))
            out.append((link, moves, turns))
        return out

    def _coefficient(self, name: str, value: float) -> Expr:
        return self.links.p.scalar(f"{name}.{value!r}", value, exact=True)

    def _place(self, name: str, local: np.ndarray) -> Vector:
        """Parameters of a place of a body; the same numbers in one body are one place."""
        key = (name, tuple(local))
        if key not in self._named:
            self._named[key] = f"{name}.place{len(self._named)}"
        return self.links.p.vector(self._named[key], local)

    def local(self, form: Form) -> Vector:
        """Of a component of a vector that is fixed in one body: that vector in its link's axes."""
        ((b, (_, L)),) = form.bodies.items()
        axes = self.links.links[self.links.of_body[b]].reference_axes
        (row,) = [L[i] for i in range(3) if np.any(L[i])]
        return self._place(self.tree.bodies[b].name, clean(kinematics_product(row, axes)))

    def value(self, form: Form, base: int = WORLD) -> Expr:
        out = self.g.constant(form.const)
        for link, moves, turns in self.parts(form):
            at, R = self.links.place(base, link)
            for i, c in moves:
                out = out + c * at[i]
            for i, place in turns:
                out = out + v.dot(R[i], place)
        out = out + self.g.sum(self.links.x[k] * factor for k, factor in form.coordinates.items())
        return out + self._of_inputs(form, VALUE)

    def columns(self, form: Form, base: int = WORLD) -> dict[int, Expr]:
        """Derivative of the form's rate by each velocity."""
        out: dict[int, Expr] = {k: self.g.constant(c) for k, c in form.coordinates.items()}
        for link, moves, turns in self.parts(form):
            _, R = self.links.place(base, link)
            arms = [(i, v.apply(R, place)) for i, place in turns]
            for k, (turn, move) in self.links.columns(base, link).items():
                total = out.get(k, self.g.zero)
                for i, c in moves:
                    total = total + c * move[i]
                for i, arm in arms:
                    total = total + v.cross(turn, arm)[i]
                out[k] = total
        return {k: e for k, e in out.items() if e.value != 0.0}

    def rate(self, form: Form, base: int = WORLD) -> Expr:
        """From the links' motion, which costs less than the sum over columns."""
        out = self.g.zero
        for link, moves, turns in self.parts(form):
            _, R = self.links.place(base, link)
            turn, move = self.motion(base, link)
            for i, c in moves:
                out = out + c * move[i]
            for i, place in turns:
                out = out + v.cross(turn, v.apply(R, place))[i]
        out = out + self.g.sum(self.links.w[k] * factor for k, factor in form.coordinates.items())
        return out + self._of_inputs(form, RATE)

    def _of_inputs(self, form: Form, which: int) -> Expr:
        return self.g.sum(self.g.input("u", 3 * k + which) * c for k, c in form.inputs.items())

    def bias(self, form: Form, base: int = WORLD) -> Expr:
        """Second derivative with no velocity changing."""
        out = self.g.zero
        for link, moves, turns in self.parts(form):
            _, R = self.links.place(base, link)
            alpha, a = self.links.bias(base, link)
            T = v.turning(self.g, self.links.motion(base, link)[0], alpha)
            for i, c in moves:
                out = out + c * a[i]
            for i, place in turns:
                out = out + v.dot(T[i], v.apply(R, place))
        return out + self._of_inputs(form, SECOND)

    def second(self, form: Form, dw: Vector) -> Expr:
        """Second derivative in the world, with velocities that change at dw."""
        out = self.bias(form)
        for k, c in self.columns(form).items():
            out = out + c * dw[k]
        return out

    def motion(self, base: int, link: int) -> tuple[Vector, Vector]:
        """Turning and motion of a link's origin; in the world by the recursion in the links' own axes."""
        if base != WORLD:
            return self.links.motion(base, link)
        if link == WORLD:
            return v.zeros(self.g), v.zeros(self.g)
        if link not in self._moves:
            one = self.links.links[link]
            _, R = self.links.place(WORLD, link)
            turn, move = self.motion(WORLD, one.parent)
            move = v.plus(move, v.cross(turn, self.links.arm(WORLD, link)))
            if one.kind == "slide":
                move = v.plus(move, v.times(v.apply(R, one.along), self.links.w[one.velocity]))
            else:
                turn = v.apply(R, self.own_turn(link))
            self._moves[link] = turn, move
        return self._moves[link]

    def along(self, form: Form, direction: Mapping[int, Expr], memory: dict[int, tuple[Vector, Vector]]) -> Expr:
        """The form's rate when the velocities are those of `direction` (memory: one for each direction)."""
        out = self.g.sum(direction[k] * c for k, c in form.coordinates.items() if k in direction)
        for link, moves, turns in self.parts(form):
            _, R = self.links.place(WORLD, link)
            turn, move = self.links.moved(link, direction, memory)
            for i, c in moves:
                out = out + c * move[i]
            for i, place in turns:
                out = out + v.cross(turn, v.apply(R, place))[i]
        return out

    # ---- motion in the links' own axes -------------------------------------------------------------------------------

    def own_turn(self, link: int) -> Vector:
        """Angular velocity of a link in its own axes."""
        if link == WORLD:
            return v.zeros(self.g)
        if link not in self._turns:
            one = self.links.links[link]
            turn = v.apply_transposed(one.R, self.own_turn(one.parent))
            self._turns[link] = v.plus(turn, self._own_turn(link, self.links.w))
        return self._turns[link]

    def _own_turn(self, link: int, w: Vector) -> Vector:
        """What the joint of the link adds to how it turns, for velocities (or accelerations) w."""
        g, one = self.g, self.links.links[link]
        if one.kind == "ball":
            return list(w[one.velocity : one.velocity + 3])
        out = v.zeros(g)
        if one.kind == "turn":
            out[one.axis] = w[one.velocity] * one.sign
        return out

    def inverse_dynamics(self, dw: Vector, wrenches: dict[int, tuple[Vector, Vector]]) -> Vector:
        """M dw + c less what the wrenches (force, moment about the origin, own axes) on the links do: by velocity.

        Gravity is the acceleration of the world.
        """
        g, links = self.g, self.links.links
        down = self.links.p.vector("gravity", self.tree.gravity)
        alphas: list[Vector] = []
        accs: list[Vector] = []
        forces: list[Vector] = []
        moments: list[Vector] = []
        none = v.zeros(g)
        for k, one in enumerate(links):
            above = one.parent
            turn_above = self.own_turn(above)
            alpha, a = (none, [-e for e in down]) if above == WORLD else (alphas[above], accs[above])
            a = v.plus(a, v.apply(self._turning(above, alpha), self.links.step(k)))
            if one.kind == "slide":
                a = v.plus(a, v.times(one.along, dw[one.velocity]))
                a = v.plus(a, v.cross(turn_above, v.times(one.along, self.links.w[one.velocity] * 2.0)))
            alpha, a = v.apply_transposed(one.R, alpha), v.apply_transposed(one.R, a)
            own = self._own_turn(k, self.links.w)
            carried = v.apply_transposed(one.R, turn_above)
            alpha = v.plus(v.plus(alpha, self._own_turn(k, dw)), v.cross(carried, own))
            alphas.append(alpha)
            accs.append(a)
            turn = self.own_turn(k)
            T = self._turning(k, alpha)
            force = v.plus(v.times(a, one.mass), v.apply(T, one.moment))
            moment = v.plus(v.cross(one.moment, a), v.apply(one.inertia, alpha))
            moment = v.plus(moment, v.cross(turn, v.apply(one.inertia, turn)))
            if k in wrenches:
                force, moment = v.minus(force, wrenches[k][0]), v.minus(moment, wrenches[k][1])
            forces.append(force)
            moments.append(moment)
        out = v.zeros(g, self.links.size)
        for k in range(len(links) - 1, -1, -1):
            one = links[k]
            self._joint_efforts(k, forces[k], moments[k], out)
            if one.parent != WORLD:
                force, moment = v.apply(one.R, forces[k]), v.apply(one.R, moments[k])
                forces[one.parent] = v.plus(forces[one.parent], force)
                moments[one.parent] = v.plus(v.plus(moments[one.parent], moment), v.cross(self.links.step(k), force))
        for k, scalar in enumerate(self.tree.scalars, self.links.size - len(self.tree.scalars)):
            out[k] = self.links.p.scalar(f"{scalar.name}.inertia", scalar.inertia) * dw[k]
        return out

    def _turning(self, link: int, alpha: Vector) -> Matrix:
        return v.turning(self.g, self.own_turn(link), alpha)

    def _joint_efforts(self, link: int, force: Vector, moment: Vector, out: Vector) -> None:
        one = self.links.links[link]
        if one.kind == "turn":
            out[one.velocity] = moment[one.axis] * one.sign
        elif one.kind == "ball":
            out[one.velocity : one.velocity + 3] = moment
        elif one.kind == "slide":
            out[one.velocity] = v.dot(one.along, force)

    # ---- mass matrix of the independent directions -------------------------------------------------------------------

    def reduced_mass(self, directions: Sequence[dict[int, Expr]]) -> Matrix:
        """B^T M B of directions, each given by its velocities: shallow ones of rigid parts by composite inertias."""
        g, links = self.g, self.links.links
        children: list[list[int]] = [[] for _ in links]
        for k, one in enumerate(links):
            if one.parent != WORLD:
                children[one.parent].append(k)
        composite: dict[int, tuple[Expr, Vector, Matrix]] = {}

        def together(k: int) -> tuple[Expr, Vector, Matrix]:
            if k not in composite:
                one = links[k]
                mass, moment, inertia = one.mass, one.moment, one.inertia
                for child in children[k]:
                    m, mc, J = together(child)
                    R, d = links[child].R, self.links.step(child)
                    mc, J = v.apply(R, mc), v.rotated_symmetric(R, J)
                    mass = mass + m
                    moment = v.plus(moment, v.plus(mc, v.times(d, m)))
                    inertia = v.matrix_plus(inertia, _shifted(J, mc, d, m))
                composite[k] = mass, moment, inertia
            return composite[k]

        first_link: dict[int, int] = {}  # velocity -> link
        for k, one in enumerate(links):
            for j in range({"ball": 3, "weld": 0}.get(one.kind, 1)):
                first_link[one.velocity + j] = k

        def depth(k: int) -> int:
            return 0 if k == WORLD else 1 + depth(links[k].parent)

        scalars = self.links.size - len(self.tree.scalars)
        active = [{first_link[k] for k in d if k < scalars} for d in directions]
        shallow = [min((depth(k) for k in links_), default=0) for links_ in active]
        forces = [self._forces_of(moving) for moving in active]
        n = len(directions)
        M: Matrix = [v.zeros(g, n) for _ in range(n)]
        for i in range(n):
            for j in range(i + 1):
                deep, other = (i, j) if (shallow[i], i) >= (shallow[j], j) else (j, i)
                total = g.zero
                for k, coefficient in directions[other].items():
                    if k >= scalars:
                        if k in directions[deep]:
                            s = self.tree.scalars[k - scalars]
                            inertia = self.links.p.scalar(f"{s.name}.inertia", s.inertia)
                            total = total + coefficient * inertia * directions[deep][k]
                        continue
                    link = first_link[k]
                    force, moment = self._force_at(link, forces[deep], directions[deep], children, together)
                    efforts = v.zeros(g, self.links.size)
                    self._joint_efforts(link, force, moment, efforts)
                    total = total + coefficient * efforts[k]
                M[i][j] = M[j][i] = total
        return M

    def _forces_of(self, moving: set[int]) -> Any:
        """Per link: acceleration of the direction is made on demand; here only the memory for it."""
        below: set[int] = set()  # links that have a moving joint strictly below
        for k in moving:
            link = self.links.links[k].parent
            while link != WORLD:
                below.add(link)
                link = self.links.links[link].parent
        return {"below": below, "moving": moving, "force": {}, "acceleration": {}}

    def _acceleration_at(self, link: int, memory: Any, direction: dict[int, Expr]) -> tuple[Vector, Vector]:
        g = self.g
        if link == WORLD:
            return v.zeros(g), v.zeros(g)
        if link not in memory["acceleration"]:
            one = self.links.links[link]
            alpha, a = self._acceleration_at(one.parent, memory, direction)
            a = v.plus(a, v.cross(alpha, self.links.step(link)))
            own = [direction.get(one.velocity + j, g.zero) for j in range({"ball": 3, "weld": 0}.get(one.kind, 1))]
            if one.kind == "slide":
                a = v.plus(a, v.times(one.along, own[0]))
            alpha, a = v.apply_transposed(one.R, alpha), v.apply_transposed(one.R, a)
            if one.kind == "turn":
                alpha = list(alpha)
                alpha[one.axis] = alpha[one.axis] + own[0] * one.sign
            elif one.kind == "ball":
                alpha = v.plus(alpha, own)
            memory["acceleration"][link] = alpha, a
        found: tuple[Vector, Vector] = memory["acceleration"][link]
        return found

    def _force_at(
        self, link: int, memory: Any, direction: dict[int, Expr], children: Any, together: Any
    ) -> tuple[Vector, Vector]:
        """Force and moment about its origin, own axes, that accelerate the link and all it carries in a direction."""
        if link not in memory["force"]:
            one = self.links.links[link]
            rigid = link not in memory["below"]
            alpha, a = self._acceleration_at(link, memory, direction)
            mass, moment_, inertia = together(link) if rigid else (one.mass, one.moment, one.inertia)
            force = v.plus(v.times(a, mass), v.cross(alpha, moment_))
            moment = v.plus(v.cross(moment_, a), v.apply(inertia, alpha))
            for child in () if rigid else children[link]:
                f, m = self._force_at(child, memory, direction, children, together)
                R = self.links.links[child].R
                f, m = v.apply(R, f), v.apply(R, m)
                force = v.plus(force, f)
                moment = v.plus(v.plus(moment, m), v.cross(self.links.step(child), f))
            memory["force"][link] = force, moment
        found: tuple[Vector, Vector] = memory["force"][link]
        return found

    def __post_init__(self) -> None:
        self._turns: dict[int, Vector] = {}
        self._moves: dict[int, tuple[Vector, Vector]] = {}
        self._named: dict[tuple[str, tuple[float, ...]], str] = {}


def kinematics_product(row: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """row . axes, added up in one order on every machine."""
    return np.array([math.fsum(float(row[i] * axes[i, j]) for i in range(3)) for j in range(3)])


def _shifted(J: Matrix, mc: Vector, d: Vector, m: Expr) -> Matrix:
    """J about a point from which the origin is at d, of a mass m with the moment mc about the origin."""
    twice = 2.0 * v.dot(mc, d) + m * v.dot(d, d)
    out = [list(row) for row in J]
    for i in range(3):
        for j in range(i, 3):
            e = J[i][j] - (mc[i] * d[j] + d[i] * mc[j] + m * d[i] * d[j])
            out[i][j] = out[j][i] = e + twice if i == j else e
    return out
