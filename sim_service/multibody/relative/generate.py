"""The functions of a mechanism in relative coordinates, cut out of one expression graph.

Arrays: `x` all coordinates, `ref` a unit quaternion for every ball, `w` all velocities (of which the independent ones
are read), `u` value, rate and second derivative of every input, `p` parameters, `d` what follows from them, `a` the
accelerations of the independent velocities, `f` forces at the ports of the model.

    prepare   p -> d                          whenever a parameter has changed
    close     x, ref, u -> new, h, pivots     one Newton correction of the dependent coordinates; what was wrong before
    motion    x, ref, w, u, f -> ports, rates | xdot, acceleration, full, effort      in two stages: forces come between
    slopes    x, ref, w, u, a, f -> port_slopes, rate_slopes | J_x, J_a               exact, by x_u, w_u and time
    places    x, ref, w, u, full -> q, qd, qdd    every coordinate of the builder, with rates
    energy    x, ref, w, u -> kinetic, potential    gravity and springs, as in natural
    reactions x, ref, w, u, full, f -> lam        multipliers of the cut loops: M dw + c + J^T lam = Q
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_service.multibody.natural.equations import Element
from sim_service.multibody.natural.equations import Equations as Mechanism
from sim_service.multibody.natural.forces import MODEL
from sim_service.multibody.natural.tables import ROTOR, TORQUE_3D
from sim_service.multibody.relative import vectors as v
from sim_service.multibody.relative.element_forces import port_forces
from sim_service.multibody.relative.energy import kinetic, potential, weight
from sim_service.multibody.relative.equations import RATE, SECOND, VALUE, Equations
from sim_service.multibody.relative.graph import CONSTANT, INPUT, Expr, Graph
from sim_service.multibody.relative.links import make_links
from sim_service.multibody.relative.llvm import Function
from sim_service.multibody.relative.loop_equations import Loop
from sim_service.multibody.relative.spanning import make_tree
from sim_service.multibody.relative.tree import WORLD, Form, Tree
from sim_service.multibody.relative.vectors import Matrix, Vector

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

    tree: Tree
    functions: tuple[Function, ...]
    parameter_names: tuple[str, ...]
    parameters: np.ndarray
    prepared: int  # length of d
    independent: tuple[int, ...]
    driven: tuple[int, ...]
    dependent: tuple[int, ...]
    balls: tuple[int, ...]  # first coordinate of each
    at: Position  # for which pivots were chosen
    ports: tuple[Form, ...]  # of the model's forces
    operations: Mapping[str, int]


@dataclass(frozen=True)
class _Group:
    rows: list[int]
    dependent: list[int]
    touched: list[int]  # independent and driven velocities
    order: list[tuple[int, int]]


class _Writer:
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
        self.slopes = [loop.columns() for loop in self.loops]
        self.dependent = list(tree.dependent)
        fixed = {*self.driven, *self.dependent}
        self.independent = [k for k in range(self.n) if k not in fixed]
        self.groups = self._groups()
        self._velocities()
        self._directions()

    def _law(self, form: Form, which: int) -> Expr:
        return self.g.sum(self.g.input("u", 3 * k + which) * c for k, c in form.inputs.items())

    # ---- loops -------------------------------------------------------------------------------------------------------

    def _groups(self) -> list[_Group]:
        out, at = [], 0
        for rows in self.tree.groups:
            dependent = self.dependent[at : at + len(rows)]
            at += len(rows)
            touched = sorted({k for r in rows for k in self.slopes[r]} - set(dependent))
            A = [[self.slopes[r].get(k, self.g.zero) for k in dependent] for r in rows]
            out.append(_Group(list(rows), dependent, touched, _pivots(self.numbers(A))))
        return out

    def numbers(self, A: Matrix) -> np.ndarray:
        """A matrix of expressions at the position for which pivots are chosen."""
        u = np.zeros((len(self.m.inputs), 3))
        u[:, VALUE] = self.at.inputs
        given = {
            "x": self.at.x, "ref": self.at.ref, "u": u.ravel(), "p": np.array(self.links.p.values),
            "w": np.zeros(self.n),
        }  # fmt: skip
        flat = self.g.evaluate([e for row in A for e in row], given)
        return flat.reshape(len(A), -1)

    def _solved(self, group: _Group, right: Matrix) -> tuple[Matrix, Vector]:
        """J_v^-1 right, by dependent velocity; and the pivots."""
        A = [[self.slopes[r].get(k, self.g.zero) for k in group.dependent] for r in group.rows]
        return v.solve_in_order(self.g, A, right, group.order)

    def _velocities(self) -> None:
        """All velocities from the independent ones and the inputs; how each direction moves the dependent ones."""
        g, tree = self.g, self.tree
        w: Vector = [g.zero] * self.n
        for k in self.independent:
            w[k] = g.input("w", k)
        for k in self.driven:
            w[k] = self._law(tree.driven[k], RATE)
        self.B: dict[int, dict[int, Expr]] = {k: {k: g.one} for k in (*self.independent, *self.driven)}
        self.pivots: Vector = []
        for group in self.groups:
            right = [
                [*(self.slopes[r].get(k, g.zero) for k in group.touched), self.loops[r].of_inputs()] for r in group.rows
            ]
            X, found = self._solved(group, right)
            self.pivots += found
            for i, k in enumerate(group.dependent):
                rate = X[i][-1]
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
            turned = v.plus(v.apply_transposed(R, N), own.get(link, v.zeros(g)))
            wrenches[link] = v.apply_transposed(R, F), turned
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

    def reactions(self, dw: Vector, wrenches: dict[int, tuple[Vector, Vector]], efforts: Vector) -> Vector:
        """Multipliers of the loops: J_v^T lam = Q - M dw - c, of the dependent velocities, group by group."""
        r = v.minus(efforts, self.eq.inverse_dynamics(dw, wrenches))
        out: Vector = [self.g.zero] * len(self.loops)
        for group in self.groups:
            A = [[self.slopes[row].get(k, self.g.zero) for row in group.rows] for k in group.dependent]
            lam, _ = v.solve_in_order(self.g, A, [[r[k]] for k in group.dependent], [(c, r) for r, c in group.order])
            for row, (e,) in zip(group.rows, lam, strict=True):
                out[row] = e
        return out

    # ---- rates of coordinates ----------------------------------------------------------------------------------------

    def _balls(self) -> list[int]:
        return [self.links.links[k].velocity for k in self.links.balls]

    def xdot(self) -> Vector:
        g = self.g
        out = list(self.w)
        for k in self._balls():
            xi, w = self.links.x[k : k + 3], self.w[k : k + 3]
            along = v.dot(xi, w) * 0.25
            turned = v.cross(xi, w)
            out[k : k + 3] = [a + t * 0.5 + e * along for a, t, e in zip(w, turned, xi, strict=True)]
        return [e if isinstance(e, Expr) else g.constant(e) for e in out]

    def slopes_by_x(self, row: int) -> dict[int, Expr]:
        """Derivative of a loop by every coordinate: as by velocity, but for balls."""
        out = dict(self.slopes[row])
        for k in self._balls():
            j = [out.get(k + i, self.g.zero) for i in range(3)]
            if all(e.value == 0.0 for e in j):
                continue
            xi = self.links.x[k : k + 3]
            size = self.g.one / (1.0 + v.dot(xi, xi) * 0.25)
            turned = v.minus(j, v.times(v.cross(j, xi), self.g.constant(0.5)))
            for i, e in enumerate(turned):
                out[k + i] = e * size
        return out

    def by_x(self) -> tuple[dict[int, dict[int, Expr]], dict[int, Expr], dict[int, Expr]]:
        """How dependent coordinates follow independent ones; a Newton correction of each; and how they follow time."""
        g = self.g
        follow: dict[int, dict[int, Expr]] = {k: {k: g.one} for k in self.independent}
        new: dict[int, Expr] = {}
        in_time: dict[int, Expr] = {}
        driven_rates = {k: self._law(self.tree.driven[k], RATE) for k in self.driven}
        for group in self.groups:
            rows = [self.slopes_by_x(r) for r in group.rows]
            A = [[row.get(k, g.zero) for k in group.dependent] for row in rows]
            moved = [
                g.sum([self.loops[r].of_inputs(), *(row[k] * driven_rates[k] for k in driven_rates if k in row)])
                for r, row in zip(group.rows, rows, strict=True)
            ]
            free = [k for k in group.touched if k not in driven_rates]
            right = [
                [*(row.get(k, g.zero) for k in free), self.loops[r].value, t]
                for r, row, t in zip(group.rows, rows, moved, strict=True)
            ]
            X, _ = v.solve_in_order(g, A, right, group.order)
            for i, k in enumerate(group.dependent):
                for j, u in enumerate(free):
                    if X[i][j].value != 0.0:
                        follow[u][k] = -X[i][j]
                new[k] = self.links.x[k] - X[i][-2]
                in_time[k] = -X[i][-1]
        return follow, new, in_time


def generate(
    mechanism: Mechanism, cut: Sequence[str] = (), tree: Tree | None = None, at: Position | None = None
) -> Generated:
    """All functions of a mechanism, of a tree that was made before if given; pivots as at a position, or as drawn."""
    tree = make_tree(mechanism, cut) if tree is None else tree
    one = _Writer(mechanism, tree, at)
    g = one.g
    a = {k: g.input("a", i) for i, k in enumerate(one.independent)}
    follow, new, in_time = one.by_x()
    wrenches, efforts = one.forces()
    ports = one.ports

    # forward dynamics
    zero = one.residual(one.dw0, wrenches, efforts)
    order = one.independent[::-1]  # deep ones first: they fill in least
    M = one.eq.reduced_mass([one.B[k] for k in (*order, *one.driven)])
    free = len(order)
    L, inverse = v.factorised(g, [row[:free] for row in M[:free]])
    found = v.solve_factorised(g, L, inverse, [-zero[k] for k in order])
    acceleration = dict(zip(order, found, strict=True))
    full = one.accelerations(acceleration)
    effort = []
    for i, d in enumerate(one.driven):
        e = zero[d]
        for j, k in enumerate(order):
            e = e + M[free + i][j] * acceleration[k]
        effort.append(e)
    xdot = one.xdot()
    port_values, port_rates = [one.eq.value(form) for form in ports], [one.eq.rate(form) for form in ports]
    u_of = {"acceleration": [acceleration[k] for k in one.independent], "xdot": [xdot[k] for k in one.independent]}

    # exact derivatives: of the residual at the accelerations that were found, then one solve for each direction
    balance = one.residual(one.accelerations(a), wrenches, efforts)
    wanted = [balance[k] for k in order]
    directions: list[dict[Expr, Any]] = []
    for k in one.independent:
        directions.append({g.input("x", j): e for j, e in follow[k].items()})
    directions += [{g.input("w", k): g.one} for k in one.independent]
    of_time: dict[Expr, Any] = {g.input("x", k): e for k, e in in_time.items()}
    for i in range(len(mechanism.inputs)):
        of_time[g.input("u", 3 * i + VALUE)] = g.input("u", 3 * i + RATE)
        of_time[g.input("u", 3 * i + RATE)] = g.input("u", 3 * i + SECOND)
        of_time[g.input("u", 3 * i + SECOND)] = g.zero
    directions.append(of_time)
    port_slopes: Vector = []
    rate_slopes: Vector = []
    J_x: Vector = []
    J_a: Vector = []
    for count, seeds in enumerate(directions):
        here = g.tangents([*port_values, *port_rates], seeds)
        port_slopes += here[: len(ports)]
        rate_slopes += here[len(ports) :]
        with_forces = dict(seeds)
        for j in range(len(ports)):
            with_forces[g.input("f", j)] = g.input("df", count * len(ports) + j)
        (*moves,) = g.tangents([*u_of["xdot"], *wanted], with_forces)
        J_x += moves[: len(one.independent)]
        changed = v.solve_factorised(g, L, inverse, [-e for e in moves[len(one.independent) :]])
        by_velocity = dict(zip(order, changed, strict=True))
        J_a += [by_velocity[k] for k in one.independent]

    # everything of the builder
    q = [one.eq.value(form) for form in tree.columns]
    qd = [one.eq.rate(form) for form in tree.columns]
    given = g.inputs("full", one.n)
    qdd = [one.eq.second(form, given) for form in tree.columns]

    arrays = ("x", "ref", "w", "u", "d")
    stages: dict[str, tuple[tuple[str, ...], tuple[dict[str, Vector], ...]]] = {
        "close": (
            ("x", "ref", "u", "d"),
            ({"new": [new[k] for k in one.dependent], "h": [loop.value for loop in one.loops], "pivots": one.pivots},),
        ),
        "motion": (
            (*arrays, "f"),
            ({"ports": port_values, "rates": port_rates}, {**u_of, "full": full, "effort": effort}),
        ),
        "slopes": (
            (*arrays, "a", "f", "df"),
            ({"port_slopes": port_slopes, "rate_slopes": rate_slopes}, {"J_x": J_x, "J_a": J_a}),
        ),
        "places": ((*arrays, "full"), ({"q": q, "qd": qd, "qdd": qdd},)),
        "energy": (arrays, ({"kinetic": [kinetic(one.eq)], "potential": [one.potential]},)),
        "reactions": ((*arrays, "full", "f"), ({"lam": one.reactions(given, wrenches, efforts)},)),
    }
    if not ports:
        for name in ("motion", "slopes"):
            stages[name] = stages[name][0], stages[name][1][1:]
    flat = [e for _, parts in stages.values() for part in parts for array in part.values() for e in array]
    plain, moved, prepared = hoisted(g, flat, "p", "d")
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
    p = one.links.p
    return Generated(
        tree, tuple(functions), tuple(p.names), np.array(p.values), len(prepared), tuple(one.independent),
        tuple(one.driven), tuple(one.dependent), tuple(one._balls()), one.at, tuple(ports),
        {f.name: f.operations for f in functions},
    )  # fmt: skip


def hoisted(g: Graph, outputs: Sequence[Expr], array: str, into: str) -> tuple[Graph, Vector, Vector]:
    """The outputs in a graph that reads `into` instead of whatever depends on `array` alone; and what that is."""
    order = g.needed(outputs)
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
        if what == INPUT:
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
