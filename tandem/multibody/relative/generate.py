"""The functions of a mechanism in relative coordinates, cut out of one expression graph.

Arrays: `x` all coordinates, `ref` a unit quaternion for every ball, `w` all velocities (of which the independent ones
are read), `u` value, rate and second derivative of every input, `p` parameters, `d` what follows from them, `a` the
accelerations of the independent velocities, `f` forces at the ports of the model.

    prepare   p -> d                          whenever a parameter has changed
    close     x, ref, u -> new, h, pivots     one Newton correction of the dependent coordinates; what was wrong before
    motion    x, ref, w, u, f -> ports, rates | xdot, acceleration, full, effort      in two stages: forces come between
    derivatives x, ref, w, u, f -> ports, rates, port_derivatives, rate_derivatives
                               | xdot, acceleration, full, effort, derivatives, turns, factor
                               | port_drift, rate_drift, drift
    places    x, ref, w, u, full -> q, qd, qdd    every coordinate of the builder, with rates
    velocities x, ref, w, u -> every    those of w that are not independent too
    energy    x, ref, w, u -> kinetic, potential    gravity and springs, as in natural
    reactions x, ref, w, u, full, f -> lam        multipliers of the cut loops: M dw + c + J^T lam = Q

`derivatives` does what `motion` does and gives what the exact derivatives are made of (port_jacobian.py): those of the
model's ports and of their rates, block by block (`PortBlocks`); then, with the forces as they are and the accelerations
as found, those of the generalised forces less what accelerates the masses, a row for each independent velocity with
columns by x_u and w_u; of the rates of the balls' independent coordinates (`turns`), in such rows too; and the mass
matrix of the independent velocities, last one first, as L D L^T: 1/D on the diagonal, -L below, -L^T above. Where slips
hold speeds at 0 (loop_equations.py), all of this has their multipliers in it. By x_u
means along its velocity: for a ball a turn about an axis of the child. The third stage, which only a mechanism whose
inputs move needs, is the same by time: `drift` has the generalised forces, the rates of the balls' independent
coordinates, and how far these coordinates themselves move, since only their velocities are held. All three stages are
there whatever the mechanism has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tandem.multibody.code.graph import CONSTANT, INPUT, Expr, Graph
from tandem.multibody.code.llvm import Function, Signature
from tandem.multibody.natural.equations import Element
from tandem.multibody.natural.equations import Equations as Mechanism
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.forces import MODEL
from tandem.multibody.natural.tables import ROTOR, TORQUE_3D
from tandem.multibody.relative import vectors as v
from tandem.multibody.relative.element_forces import port_forces
from tandem.multibody.relative.energy import kinetic, potential, weight
from tandem.multibody.relative.equations import RATE, SECOND, VALUE, Equations
from tandem.multibody.relative.links import ball_rate, make_links
from tandem.multibody.relative.loop_equations import Loop, SlipRow
from tandem.multibody.relative.port_jacobian import PortBlocks, make_blocks
from tandem.multibody.relative.spanning import make_tree
from tandem.multibody.relative.tree import WORLD, Form, Tree
from tandem.multibody.relative.vectors import Matrix, Vector

IDENTITY = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Position:
    """Where loops are to be solved well: pivots are the largest there."""

    x: np.ndarray
    ref: np.ndarray
    inputs: np.ndarray


@dataclass(frozen=True)
class Generated:
    """What was generated, and how its arrays are laid out."""

    # of its numbers
    tree: Tree
    at: Position  # for which pivots were chosen
    ports: tuple[Form, ...]  # of the model's forces
    parameter_names: tuple[str, ...]
    parameters: np.ndarray
    # of its structure: the same for a mechanism that differs in numbers alone
    prepared: int  # length of d
    independent: tuple[int, ...]
    driven: tuple[int, ...]
    dependent: tuple[int, ...]
    balls: tuple[int, ...]  # first coordinate of each
    blocks: PortBlocks
    operations: Mapping[str, int]
    signatures: tuple[Signature, ...]
    write: Callable[[], tuple[Function, ...]] = field(repr=False, compare=False)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """With their graph, which is written only now if all else came from the cache."""
        return self.write()


@dataclass(frozen=True)
class _Group:
    rows: list[int]
    dependent: list[int]
    touched: list[int]  # independent and driven velocities
    order: list[tuple[int, int]]


class Writer:
    """The equations of a mechanism on their way to functions."""

    def __init__(self, mechanism: Mechanism, tree: Tree, at: Position | None) -> None:
        self.m, self.tree, self.g = mechanism, tree, Graph()
        g = self.g
        self.n = tree.n
        self.driven = sorted(tree.driven)
        x = g.inputs("x", self.n)
        for k in self.driven:
            x[k] = self._law(tree.driven[k], VALUE) + tree.driven[k].const
        self.links = make_links(g, tree, x)
        self.eq = Equations(g, tree, self.links)
        self.at = at or Position(tree.assembled, np.tile(IDENTITY, len(self.links.balls)), tree.start)
        anchor = {k: body for rows, body in zip(tree.groups, tree.anchors, strict=True) for k in rows}
        base = {k: WORLD if body == WORLD else self.links.of_body[body] for k, body in anchor.items()}
        self.loops = [Loop(self.eq, loop, base[k]) for k, loop in enumerate(tree.loops)]
        self.loop_derivatives = [loop.columns() for loop in self.loops]
        self.dependent = list(tree.dependent)
        fixed = {*self.driven, *self.dependent}
        self.independent = [k for k in range(self.n) if k not in fixed]
        self.groups = self._groups()
        self._velocities()
        self._directions()
        self._slips()

    def write_places(self) -> None:
        """Whatever has parameters: forces, and every coordinate of the builder. No parameter comes later."""
        self.wrenches, self.efforts = self.forces()
        self.eq.links.p.vector("gravity", self.tree.gravity)
        for scalar in self.tree.scalars:
            self.links.p.scalar(f"{scalar.name}.inertia", scalar.inertia)
        self.values = [self.eq.value(form) for form in self.tree.columns]
        self.port_values = [self.eq.value(form) for form in self.ports]

    def structure(self) -> str:
        """What the functions depend on, once places are written. Mechanisms for which it is the same have the same
        functions, though their parameters may have other values."""
        tree, links = self.tree, self.links
        forms = (*tree.columns, *self.ports, *(form for loop in tree.loops for form in loop.forms))
        return repr(
            (
                self.g.nodes,
                [(e.name, e.kind, e.input, len(tree.ports[e.name]), list(e.params)) for e in self.m.elements.values()],
                (len(self.m.inputs), tree.dimension, tree.groups, tree.anchors, self.dependent, self.n),
                [(k, form.const, form.coordinates, form.inputs) for k, form in tree.driven.items()],
                [(one.body, one.parent, one.kind, one.velocity, one.axis, one.sign) for one in links.links],
                [
                    _ids([one.mass, *one.along, *one.offset, *one.moment, *(e for row in one.inertia for e in row)])
                    for one in links.links
                ],
                [_form_structure(form) for form in forms],
                [[(c, b is None) for c, _, b in (*loop.products, *loop.cosine)] for loop in tree.loops],
                [(group.rows, group.dependent, group.touched, group.order) for group in self.groups],
                [scalar.inertia == 0.0 for scalar in tree.scalars],
                [bool(x) for x in tree.gravity],
                _ids([*self.values, *self.port_values, *self.pivots, *self.w, *self.dw0, *self.efforts]),
                [[(c, _form_structure(a), _form_structure(b)) for c, a, b in slip.products] for slip in tree.slips],
                [[(k, e.id) for k, e in row.items()] for row in self.by_slip],
            )
        )

    def _law(self, form: Form, which: int) -> Expr:
        return self.g.sum(self.g.input("u", 3 * k + which) * c for k, c in form.inputs.items())

    # ---- loops -------------------------------------------------------------------------------------------------------

    def _groups(self) -> list[_Group]:
        out, at = [], 0
        for rows in self.tree.groups:
            dependent = self.dependent[at : at + len(rows)]
            at += len(rows)
            touched = sorted({k for r in rows for k in self.loop_derivatives[r]} - set(dependent))
            if shared := sorted(set(touched) & set(self.dependent)):
                names = ", ".join(self.tree.velocities[k] for k in shared)
                raise MechanismError(
                    f"{', '.join(self.tree.loops[r].name for r in rows)}: depends on {names}, which other loops"
                    " determine; relative coordinates cannot close these loops one by one: use natural ones"
                )
            A = [[self.loop_derivatives[r].get(k, self.g.zero) for k in dependent] for r in rows]
            out.append(_Group(list(rows), dependent, touched, _pivots(self.numbers(A))))
        return out

    def numbers(self, A: Matrix) -> np.ndarray:
        """A matrix of expressions at the position for which pivots are chosen."""
        u = np.zeros((len(self.m.inputs), 3))
        u[:, VALUE] = self.at.inputs
        values = {
            "x": self.at.x, "ref": self.at.ref, "u": u.ravel(), "p": np.array(self.links.p.values),
            "w": np.zeros(self.n),
        }  # fmt: skip
        flat = self.g.evaluate([e for row in A for e in row], values)
        return flat.reshape(len(A), -1)

    def _solved(self, group: _Group, right: Matrix) -> tuple[Matrix, Vector]:
        """J_v^-1 right, by dependent velocity; and the pivots."""
        A = [[self.loop_derivatives[r].get(k, self.g.zero) for k in group.dependent] for r in group.rows]
        return v.solve_in_order(self.g, A, right, group.order)

    def _velocities(self) -> None:
        """All velocities from the independent ones and the inputs; how each direction moves the dependent ones."""
        g, tree, by = self.g, self.tree, self.loop_derivatives
        w: Vector = [g.zero] * self.n
        for k in self.independent:
            w[k] = g.input("w", k)
        for k in self.driven:
            w[k] = self._law(tree.driven[k], RATE)
        self.B: dict[int, dict[int, Expr]] = {k: {k: g.one} for k in (*self.independent, *self.driven)}
        self.pivots: Vector = []
        self.by_inputs: dict[int, Expr] = {}  # velocities of dependent coordinates that moving inputs alone make
        for group in self.groups:
            right = [[*(by[r].get(k, g.zero) for k in group.touched), self.loops[r].of_inputs()] for r in group.rows]
            X, found = self._solved(group, right)
            self.pivots += found
            for i, k in enumerate(group.dependent):
                rate = X[i][-1]
                self.by_inputs[k] = -rate
                for j, t in enumerate(group.touched):
                    rate = rate + X[i][j] * w[t]
                    if X[i][j].value != 0.0:
                        self.B[t][k] = -X[i][j]
                w[k] = -rate
        self.w = w
        self.links.w = w

    def _directions(self) -> None:
        """Accelerations of all velocities when no independent one changes."""
        g = self.g
        dw: Vector = [g.zero] * self.n
        for k in self.driven:
            dw[k] = self._law(self.tree.driven[k], SECOND)
        for group in self.groups:
            X, _ = self._solved(group, [[self.loops[r].bias()] for r in group.rows])
            for i, k in enumerate(group.dependent):
                dw[k] = -X[i][0]
        for d in self.driven:
            for k, e in self.B[d].items():
                if k != d:
                    dw[k] = dw[k] + e * dw[d]
        self.dw0 = dw

    def _slips(self) -> None:
        """Of each slip its derivatives by independent and driven velocity, which move the dependent ones."""
        self.slip_rows = [SlipRow(self.eq, slip) for slip in self.tree.slips]
        self.slip_derivatives = [row.columns() for row in self.slip_rows]
        self.by_slip: list[dict[int, Expr]] = []
        for derivatives in self.slip_derivatives:
            self.by_slip.append(
                {
                    u: self.g.sum(derivatives[k] * e for k, e in direction.items() if k in derivatives)
                    for u, direction in self.B.items()
                }
            )

    def accelerations(self, a: Mapping[int, Expr]) -> Vector:
        dw = list(self.dw0)
        for u in self.independent:
            for k, e in self.B[u].items():
                dw[k] = dw[k] + e * a[u]
        return dw

    # ---- forces ------------------------------------------------------------------------------------------------------

    def forces(self) -> tuple[dict[int, tuple[Vector, Vector]], Vector]:
        """Wrenches on the links in their own axes, and efforts on coordinates; the ports of the model on the way."""
        g = self.g
        self.ports: list[Form] = []
        self.potential = weight(self.eq)
        on_bodies: dict[int, tuple[Vector, Vector]] = {}  # link -> force, moment in the world's axes
        own: dict[int, Vector] = {}  # link -> moment in its axes
        efforts: Vector = v.zeros(g, self.n)
        elements = sorted(self.m.elements.values(), key=lambda e: e.kind == MODEL)
        for element in elements:
            forms = self.tree.ports[element.name]
            p = {k: self._parameter(element, k, value) for k, value in element.params.items()}
            scale = g.one if element.input < 0 else g.input("u", 3 * element.input + VALUE)
            if element.kind == MODEL:
                at = len(self.ports)
                self.ports += forms
                f = [g.input("f", at + k) for k in range(len(forms))]
            elif element.kind in (ROTOR, TORQUE_3D) and (link := self._one_body(forms[:9])) is not None:
                self._torque(element, p, scale, forms, link, own, on_bodies)
                continue
            else:
                x, xd = [self.eq.value(form) for form in forms], [self.eq.rate(form) for form in forms]
                f = port_forces(g, element, p, scale, x, xd)
                self.potential = self.potential + potential(g, element, p, x)
            for form, force in zip(forms, f, strict=True):
                self._apply(form, force, on_bodies, efforts)
        wrenches = {}
        for link in {*on_bodies, *own}:
            _, R = self.links.place(WORLD, link)
            F, N = on_bodies.get(link, (v.zeros(g), v.zeros(g)))
            torque = v.plus(v.apply_transposed(R, N), own.get(link, v.zeros(g)))
            wrenches[link] = v.apply_transposed(R, F), torque
        return wrenches, efforts

    def _parameter(self, element: Element, name: str, value: float) -> Expr:
        """Of a force: it may be changed while running, also from and to zero."""
        p = self.links.p
        key = f"{element.name}.{name}"
        metric = name.startswith(("metric", "normal"))
        return p.scalar(key, value, exact=True) if metric else p.live(key, value)

    def _one_body(self, forms: Sequence[Form]) -> int | None:
        """The link of the one body whose basis the ports are."""
        bodies = {b for form in forms for b in form.bodies}
        plain = not any(form.const or form.coordinates or form.inputs for form in forms)
        if len(bodies) != 1 or not plain or any(np.any(S) for form in forms for S, _ in form.bodies.values()):
            return None
        return self.links.of_body[bodies.pop()]

    def _torque(
        self,
        element: Element,
        p: dict[str, Expr],
        scale: Expr,
        forms: Sequence[Form],
        link: int,
        own: dict[int, Vector],
        on_bodies: dict[int, tuple[Vector, Vector]],
    ) -> None:
        """A torque on a body, or of the rotor it carries, without the way over the vectors of its basis."""
        g = self.g
        basis = [self.eq.local(forms[3 * k]) for k in range(3)]
        which = "axis" if element.kind == ROTOR else "own"
        along = v.zeros(g)
        for k in range(3):
            along = v.plus(along, v.times(basis[k], p[f"{which}_{k}"]))
        if element.kind == ROTOR:
            spin = self.eq.rate(forms[9])
            torque = v.times(v.cross(self.eq.own_turn(link), along), -(p["inertia"] * spin))
        else:
            torque = v.times(along, scale)
            world = v.times([p[f"world_{axis}"] for axis in "xyz"], scale)
            force, moment = on_bodies.get(link, (v.zeros(g), v.zeros(g)))
            on_bodies[link] = force, v.plus(moment, world)
        own[link] = v.plus(own.get(link, v.zeros(g)), torque)

    def _apply(self, form: Form, force: Expr, on: dict[int, tuple[Vector, Vector]], efforts: Vector) -> None:
        g = self.g
        for link, moves, turns in self.eq.parts(form):
            _, R = self.links.place(WORLD, link)
            F, N = on.get(link, (v.zeros(g), v.zeros(g)))
            F = list(F)
            for i, c in moves:
                F[i] = F[i] + c * force
            for i, place in turns:
                arm = v.apply(R, place)
                along = v.zeros(g)
                along[i] = force
                N = v.plus(N, v.cross(arm, along))
            on[link] = F, N
        for k, factor in form.coordinates.items():
            efforts[k] = efforts[k] + force * factor

    def residual(self, dw: Vector, wrenches: dict[int, tuple[Vector, Vector]], efforts: Vector) -> dict[int, Expr]:
        """B^T (M dw + c - Q) by independent and driven velocity."""
        r = v.minus(self.eq.inverse_dynamics(dw, wrenches), efforts)
        out = {}
        for u, direction in self.B.items():
            out[u] = self.g.sum(e * r[k] for k, e in direction.items())
        return out

    def reactions(
        self, dw: Vector, wrenches: dict[int, tuple[Vector, Vector]], efforts: Vector, slips: Vector
    ) -> Vector:
        """Multipliers of the loops: J_v^T lam = Q - M dw - c, of the dependent velocities, group by group.

        Those of a vector equation are in the axes of the body that the group is anchored to.
        """
        r = v.minus(efforts, self.eq.inverse_dynamics(dw, wrenches))
        for derivatives, held in zip(self.slip_derivatives, slips, strict=True):
            r = [one - derivatives[k] * held if k in derivatives else one for k, one in enumerate(r)]
        out: Vector = [self.g.zero] * len(self.loops)
        for group in self.groups:
            A = [[self.loop_derivatives[row].get(k, self.g.zero) for row in group.rows] for k in group.dependent]
            lam, _ = v.solve_in_order(self.g, A, [[r[k]] for k in group.dependent], [(c, r) for r, c in group.order])
            for row, (e,) in zip(group.rows, lam, strict=True):
                out[row] = e
        return out

    # ---- rates of coordinates ----------------------------------------------------------------------------------------

    def balls(self) -> list[int]:
        return [self.links.links[k].velocity for k in self.links.balls]

    def xdot(self) -> Vector:
        g = self.g
        out = list(self.w)
        for k in self.balls():
            out[k : k + 3] = ball_rate(self.links.x[k : k + 3], self.w[k : k + 3])
        return [e if isinstance(e, Expr) else g.constant(e) for e in out]

    def derivatives_by_x(self, row: int) -> dict[int, Expr]:
        """Derivative of a loop by every coordinate: as by velocity, but for balls."""
        out = dict(self.loop_derivatives[row])
        for k in self.balls():
            j = [out.get(k + i, self.g.zero) for i in range(3)]
            if all(e.value == 0.0 for e in j):
                continue
            xi = self.links.x[k : k + 3]
            size = self.g.one / (1.0 + v.dot(xi, xi) * 0.25)
            rotated = v.minus(j, v.times(v.cross(j, xi), self.g.constant(0.5)))
            for i, e in enumerate(rotated):
                out[k + i] = e * size
        return out

    def corrected(self) -> dict[int, Expr]:
        """Dependent coordinates after a Newton correction."""
        out: dict[int, Expr] = {}
        for group in self.groups:
            rows = [self.derivatives_by_x(r) for r in group.rows]
            A = [[row.get(k, self.g.zero) for k in group.dependent] for row in rows]
            X, _ = v.solve_in_order(self.g, A, [[self.loops[r].value] for r in group.rows], group.order)
            for i, k in enumerate(group.dependent):
                out[k] = self.links.x[k] - X[i][0]
        return out

    def in_time(self) -> dict[Expr, Expr]:
        """What changes with time alone: inputs, and the coordinates that follow them."""
        g = self.g
        moving = {d: self._law(self.tree.driven[d], RATE) for d in self.driven}
        follow = dict(self.by_inputs)
        for d, rate in moving.items():
            for k, e in self.B[d].items():
                if k != d:
                    follow[k] = follow.get(k, g.zero) + e * rate
        seeds = self.links.seeds({k: e for k, e in follow.items() if e.value != 0.0})
        for i in range(len(self.m.inputs)):
            seeds[g.input("u", 3 * i + VALUE)] = g.input("u", 3 * i + RATE)
            seeds[g.input("u", 3 * i + RATE)] = g.input("u", 3 * i + SECOND)
        return seeds


def _ids(exprs: Sequence[Expr]) -> list[int]:
    return [e.id for e in exprs]


def _form_structure(form: Form) -> tuple[object, ...]:
    """Constants, and which numbers of it are there: the rest are parameters."""
    bodies = [(b, (S != 0.0).tolist(), (L != 0.0).tolist()) for b, (S, L) in form.bodies.items()]
    return form.const, bodies, form.coordinates, form.inputs


def generate(mechanism: Mechanism, tree: Tree | None = None, at: Position | None = None) -> Generated:
    """All functions of a mechanism, of a tree that was made before if given; pivots as at a position, or as drawn."""
    tree = make_tree(mechanism) if tree is None else tree
    one = Writer(mechanism, tree, at)
    one.write_places()
    return write_functions(one)


def derivatives_by_prepared(generated: Generated) -> tuple[Function, frozenset[int]]:
    """How accelerations change with what is prepared of parameters, along a direction `dd`, where nothing moves; and
    the places in d by which loops are closed and coordinates of the builder found, which move something."""
    by_name = {f.name: f for f in generated.functions}
    motion = by_name["motion"]
    g = motion.graph
    seeds = {g.input("d", k): g.input("dd", k) for k in range(generated.prepared)}
    found = g.tangents(list(motion.outputs["acceleration"]), seeds)
    moving: set[int] = set()
    for name in ("close", "places"):
        exprs = [e for array in by_name[name].outputs.values() for e in array]
        for id in by_name[name].graph.needed(exprs):
            what, *args = by_name[name].graph.nodes[id]
            if what == INPUT and args[0] == "d":
                moving.add(args[1])
    return Function("by_prepared", g, ("x", "ref", "w", "u", "d", "dd"), ({"derivatives": found},)), frozenset(moving)


@dataclass(frozen=True)
class _Motion:
    """Forward dynamics: what moves, what drives take, and the factors of the reduced mass."""

    acceleration: dict[int, Expr]
    full: Vector
    effort: Vector
    xdot: Vector
    L: Matrix
    inverse: Vector
    order: list[int]  # of the rows of L
    slips: "_Slips"

    def factor(self) -> Vector:
        count, L, inverse = len(self.inverse), self.L, self.inverse
        return [inverse[i] if i == j else -L[max(i, j)][min(i, j)] for i in range(count) for j in range(count)]


@dataclass(frozen=True)
class _Slips:
    """What holds slips: A a + change = 0 beside M a + A^T lam = F, by the Schur complement S = A M^-1 A^T."""

    A: Matrix  # rows of slips, columns in the order of L
    Y: Matrix  # M^-1 A^T, a row for each slip
    L: Matrix  # of S
    inverse: Vector
    lam: Vector

    def held(self, g: Graph, found: Vector, change: Vector) -> Vector:
        """Multipliers with which accelerations that were `found` without them leave no change of the slips."""
        left = [v.dot(a, found) + e for a, e in zip(self.A, change, strict=True)]
        return v.solve_factorised(g, self.L, self.inverse, left)

    def less(self, g: Graph, force: Vector, change: Vector) -> Vector:
        """A right side of M a = F with the multipliers that it takes to have A a = -change."""
        if not self.A:
            return force
        left = [v.dot(y, force) + e for y, e in zip(self.Y, change, strict=True)]
        lam = v.solve_factorised(g, self.L, self.inverse, left)
        return [f - g.sum(a[i] * x for a, x in zip(self.A, lam, strict=True)) for i, f in enumerate(force)]


def _held_slips(one: Writer, L: Matrix, inverse: Vector, order: list[int], found: Vector) -> _Slips:
    g = one.g
    A = [[row.get(k, g.zero) for k in order] for row in one.by_slip]
    Y = [v.solve_factorised(g, L, inverse, row) for row in A]
    of_slips, inverse_of_slips = v.factorised(g, [[v.dot(a, y) for y in Y] for a in A])
    slips = _Slips(A, Y, of_slips, inverse_of_slips, [])
    change = [row.change(one.dw0) for row in one.slip_rows]
    return replace(slips, lam=slips.held(g, found, change))


def _motion(one: Writer) -> _Motion:
    zero = one.residual(one.dw0, one.wrenches, one.efforts)
    order = one.independent[::-1]  # deep ones first: they fill in least
    M = one.eq.reduced_mass([one.B[k] for k in (*order, *one.driven)])
    free = len(order)
    try:
        L, inverse = v.factorised(one.g, [row[:free] for row in M[:free]])
    except ZeroDivisionError:
        still = [one.tree.velocities[k] for j, k in enumerate(order) if M[j][j].value == 0.0]
        names = ", ".join(still or [one.tree.velocities[k] for k in order])
        raise MechanismError(f"{names}: moves nothing that has a mass; give what moves a mass, or fix it") from None
    found = v.solve_factorised(one.g, L, inverse, [-zero[k] for k in order])
    slips = _held_slips(one, L, inverse, order, found)
    for y, lam in zip(slips.Y, slips.lam, strict=True):
        found = [a - e * lam for a, e in zip(found, y, strict=True)]
    acceleration = dict(zip(order, found, strict=True))
    full = one.accelerations(acceleration)
    effort = []
    for i, d in enumerate(one.driven):
        e = zero[d]
        for j, k in enumerate(order):
            e = e + M[free + i][j] * acceleration[k]
        for row, lam in zip(one.by_slip, slips.lam, strict=True):
            if d in row:
                e = e + row[d] * lam
        effort.append(e)
    xdot = one.xdot()
    return _Motion(acceleration, full, effort, [xdot[k] for k in one.independent], L, inverse, order, slips)


@dataclass(frozen=True)
class _Derivatives:
    """Exact derivatives: of the residual at the accelerations that were found and the forces as they are."""

    found: dict[int, Expr]  # inputs in the place of accelerations
    multipliers: Vector  # and of the multipliers of slips
    columns: list[Vector]
    turns: list[Vector]
    ports: list[Vector]
    rates: list[Vector]
    in_time: Vector
    blocks: PortBlocks
    balls: int  # rows of balls


def _less_slips(g: Graph, motion: _Motion, order: Sequence[int], force: Vector, change: Vector) -> Vector:
    """`_Slips.less` in another order of velocities."""
    by = dict(zip(order, force, strict=True))
    less = dict(zip(motion.order, motion.slips.less(g, [by[k] for k in motion.order], change), strict=True))
    return [less[k] for k in order]


def _derivatives(one: Writer, motion: _Motion, port_rates: Vector) -> _Derivatives:
    g = one.g
    found = {k: g.input("a", i) for i, k in enumerate(one.independent)}
    multipliers = [g.input("a", len(found) + i) for i in range(len(one.by_slip))]
    dw = one.accelerations(found)
    balance = one.residual(dw, one.wrenches, one.efforts)
    wanted = [-balance[k] for k in one.independent]
    for row, lam in zip(one.by_slip, multipliers, strict=True):
        wanted = [e - row[k] * lam for e, k in zip(wanted, one.independent, strict=True)]
    wanted += [row.change(dw) for row in one.slip_rows]

    def by(seeds: dict[Expr, Expr]) -> Vector:
        """Of what accelerates the masses, with what slips add to hold theirs."""
        found = g.tangents(wanted, seeds)
        count = len(one.independent)
        return _less_slips(g, motion, one.independent, found[:count], found[count:])

    in_balls = {k + i for k in one.balls() for i in range(3)}
    ball_rows = [i for i, k in enumerate(one.independent) if k in in_balls]
    ball_rates = [motion.xdot[i] for i in ball_rows]
    rates: list[Vector] = []
    columns: list[Vector] = []
    turns: list[Vector] = []
    for k in one.independent:
        seeds = one.links.seeds(one.B[k])
        rates.append(g.tangents(port_rates, seeds))
        columns.append(by(seeds))
        turns.append(g.tangents(ball_rates, seeds))
    for k in one.independent:
        columns.append(by({g.input("w", k): g.one}))
        turns.append(g.tangents(ball_rates, {g.input("w", k): g.one}))
    memories: list[dict[int, tuple[Vector, Vector]]] = [{} for _ in one.independent]
    ports = [
        [one.eq.along(form, one.B[k], memory) for form in one.ports]
        for k, memory in zip(one.independent, memories, strict=True)
    ]
    blocks = make_blocks(one.m, one.tree, len(one.independent), ball_rows, ports, rates)
    with_time = one.in_time()
    in_time = g.tangents([*one.port_values, *port_rates], with_time) + by(with_time)
    in_time += g.tangents(ball_rates, with_time)
    coordinates = [one.links.x[one.independent[i]] for i in ball_rows]
    in_time += [g.expr(with_time.get(e, 0.0)) for e in coordinates]
    return _Derivatives(found, multipliers, columns, turns, ports, rates, in_time, blocks, len(ball_rows))


_Parts = tuple[dict[str, Vector], ...]  # outputs of a function, in the order in which they are written


def _derivative_parts(
    one: Writer, derivatives: _Derivatives, ports: dict[str, Vector], of_motion: dict[str, Vector], factor: Vector
) -> _Parts:
    count, in_time = len(one.ports), derivatives.in_time
    of_ports = {
        "port_derivatives": derivatives.blocks.packed(one.g, derivatives.ports),
        "rate_derivatives": derivatives.blocks.packed(one.g, derivatives.rates),
        "port_drift": in_time[:count],
        "rate_drift": in_time[count : 2 * count],
    }
    of_rows = {
        "derivatives": [c[i] for i in range(len(one.independent)) for c in derivatives.columns],
        "turns": [c[i] for i in range(derivatives.balls) for c in derivatives.turns],
        "factor": factor,
    }
    return {**ports, **of_ports}, {**of_motion, **of_rows}, {"drift": in_time[2 * count :]}


def write_functions(one: Writer) -> Generated:
    """The rest, of a writer that has its places. The order in which expressions are made is that of the code."""
    if one.tree.slips and one.ports:
        raise MechanismError(
            f"{one.tree.slips[0].name}: holds a velocity, and there are forces of a model; relative coordinates have"
            " derivatives of one or the other: use natural ones"
        )
    g, new = one.g, one.corrected()
    motion = _motion(one)
    port_rates = [one.eq.rate(form) for form in one.ports]
    derivatives = _derivatives(one, motion, port_rates)
    factor = motion.factor()
    # everything of the builder
    qd = [one.eq.rate(form) for form in one.tree.columns]
    accelerations = g.inputs("full", one.n)
    qdd = [one.eq.second(form, accelerations) for form in one.tree.columns]

    arrays = ("x", "ref", "w", "u", "d")
    ports = {"ports": one.port_values, "rates": port_rates}
    of_motion = {
        "acceleration": [motion.acceleration[k] for k in one.independent], "xdot": motion.xdot, "full": motion.full,
        "effort": motion.effort,
    }  # fmt: skip
    closed = {"new": [new[k] for k in one.dependent], "h": [loop.value for loop in one.loops], "pivots": one.pivots}
    stages: dict[str, tuple[tuple[str, ...], _Parts]] = {
        "close": (("x", "ref", "u", "d"), (closed,)),
        "motion": ((*arrays, "f"), (ports, of_motion) if one.ports else (of_motion,)),
        "derivatives": ((*arrays, "f"), _derivative_parts(one, derivatives, ports, of_motion, factor)),
        "places": ((*arrays, "full"), ({"q": one.values, "qd": qd, "qdd": qdd},)),
        "velocities": (arrays, ({"every": one.w},)),
        "energy": (arrays, ({"kinetic": [kinetic(one.eq)], "potential": [one.potential]},)),
        "reactions": (
            (*arrays, "full", "f"),
            ({"lam": one.reactions(accelerations, one.wrenches, one.efforts, motion.slips.lam)},),
        ),
    }
    same = {derivatives.found[k].id: motion.acceleration[k] for k in one.independent}
    same |= {
        accelerations.id: lam for accelerations, lam in zip(derivatives.multipliers, motion.slips.lam, strict=True)
    }
    functions, prepared = _functions(g, stages, same)
    p = one.links.p
    return Generated(
        one.tree, one.at, tuple(one.ports), tuple(p.names), np.array(p.values), prepared, tuple(one.independent),
        tuple(one.driven), tuple(one.dependent), tuple(one.balls()), derivatives.blocks,
        {f.name: f.operations for f in functions},
        tuple(f.signature for f in functions), lambda: functions,
    )  # fmt: skip


def _functions(
    g: Graph, stages: Mapping[str, tuple[tuple[str, ...], _Parts]], same: Mapping[int, Expr]
) -> tuple[tuple[Function, ...], int]:
    """The functions, the first of which prepares what depends on parameters alone; and how many numbers that is."""
    flat = [e for _, parts in stages.values() for part in parts for array in part.values() for e in array]
    plain, moved, prepared = hoisted(g, flat, "p", "d", same)
    plain, moved = plain.fused(moved)
    functions = [Function("prepare", g, ("p",), ({"d": prepared},))]
    place = 0
    for name, (inputs, parts) in stages.items():
        outputs = []
        for part in parts:
            of: dict[str, Vector] = {}
            for array, exprs in part.items():
                of[array] = moved[place : place + len(exprs)]
                place += len(exprs)
            outputs.append(of)
        functions.append(Function(name, plain, inputs, tuple(outputs)))
    return tuple(functions), len(prepared)


def hoisted(
    g: Graph, outputs: Sequence[Expr], array: str, into: str, same: Mapping[int, Expr]
) -> tuple[Graph, Vector, Vector]:
    """The outputs in a graph that reads `into` instead of whatever depends on `array` alone; and what that is.

    `same` has what to put in place of some inputs.
    """
    order = g.needed([*same.values(), *outputs])
    alone: dict[int, bool] = {}
    for id in order:
        what, *args = g.nodes[id]
        if what == CONSTANT:
            alone[id] = True
        elif what == INPUT:
            alone[id] = args[0] == array
        else:
            alone[id] = all(alone[k] for k in args)
    out = Graph()
    at: dict[int, Expr] = {}
    prepared: Vector = []

    def give(id: int) -> Expr:
        if id not in at:
            if g.nodes[id][0] == CONSTANT:
                at[id] = out.constant(g.nodes[id][1])
            else:
                at[id] = out.input(into, len(prepared))
                prepared.append(Expr(g, id))
        return at[id]

    for id in order:
        if alone[id]:
            continue
        what, *args = g.nodes[id]
        if id in same:
            at[id] = give(same[id].id) if alone[same[id].id] else at[same[id].id]
        elif what == INPUT:
            at[id] = out.input(*args)
        else:
            at[id] = out.operation(what, [give(k) if alone[k] else at[k] for k in args])
    return out, [give(e.id) if alone[e.id] else at[e.id] for e in outputs], prepared


def _pivots(A: np.ndarray) -> list[tuple[int, int]]:
    """Rows and columns in the order of largest pivots."""
    A = A / np.maximum(np.abs(A).max(axis=1, keepdims=True), 1e-300)
    rows, columns = list(range(len(A))), list(range(len(A)))
    out = []
    while rows:
        sizes = np.abs(A[np.ix_(rows, columns)])
        i, j = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
        r, c = rows.pop(int(i)), columns.pop(int(j))
        out.append((r, c))
        for k in rows:
            A[k] = A[k] - A[k, c] / A[r, c] * A[r]
    return out
