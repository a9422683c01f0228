"""The linear equations of a Rosenbrock step of the buggy as unrolled code, for a GPU.

Which entries of the Jacobian are zero is known before anything runs: a corner (deflections of its tyre, its own
velocity, its spin) meets the chassis and nothing else but what bars and axle connect. So the equations

    (sigma - J) u = r       of  u = (x, w, s): coordinates, velocities, deflections and the engine's speed

are eliminated in one order, known beforehand: s, spins, corners, chassis. The rows of velocities are taken as balance
of forces, multiplied by the mass matrix M: with S the derivatives of generalised forces,

    (sigma M - S_w) u_w - S_x u_x - S_s u_s = M r_w,        u_x = T (r_x + u_w),       T = 1 / sigma but for balls

so that nothing is solved to make J. On its diagonal are masses and what damps, which is why no pivot is looked for; a
matrix for which that is wrong gives a solution that is not finite, or an error above what a step may have, and the copy
stops there as it does for any step that its method does not make.

Two of the functions take the place of `prepare` and `solve_prepared` (integrators.py) while the step is compiled for a
GPU. The rows of J that are those of coordinates, and constant but for the ball, have what they need instead: the
derivatives, the factor of M, the ball's derivatives, and what the corners gave of J.
"""

import contextlib
from collections.abc import Sequence
from itertools import product
from typing import Any

from sync.compile.array_copy import copy
from sync.compile.jit import inner
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.relative_corners import CornerDerivatives
from tandem.multibody.code.calls import call, number_in_memory
from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.code.llvm import Function
from tandem.multibody.code.source import Replaced, in_place_of
from tandem.multibody.natural.views import part
from tandem.multibody.relative import integrators
from tandem.multibody.relative.generate import Generated
from tandem.multibody.relative.ode import FACTORISATIONS, Part

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

FIRST = 14  # number of the first of these functions, behind those of relative_dynamics.py
NAMES = ("keep_derivatives", "derivatives_in_time", "stage_matrix", "stage_solution")
KEEP, IN_TIME, _MATRIX, _SOLUTION = (float(FIRST + k) for k in range(len(NAMES)))
Places = dict[tuple[int, int], int]


class Structure:
    """Which entries there are."""

    def __init__(self, generated: Generated, corners: CornerDerivatives):
        (derivatives,) = (f for f in generated.functions if f.name == "derivatives")
        found, n = derivatives.outputs, len(generated.independent)
        self.n, self.N = n, 2 * n + slots.ADDED
        self.ball = generated.blocks.ball_rows
        chassis, columns = range(6), [generated.blocks.columns[2 * w] for w in range(4)]
        own, spins = [c[6] for c in columns], [c[7] for c in columns]
        rear, engine = spins[2:], 2 * n + 8
        # of chassis, axle and bars (`rest` of relative_forces.py)
        rest = {*product(chassis, chassis), *((i, n + j) for i, j in product(chassis, (*chassis, *rear)))}
        rest |= {(i, n + j) for i, j in product(rear, rear)}
        for a, b in (own[:2], own[2:]):
            rest |= {*product((*chassis, a, b), (*chassis, a, b))}
        self.generated = {(k // (2 * n), k % (2 * n)) for k, e in enumerate(found["derivatives"]) if e.value != 0.0}
        self.rest, self.corners = rest, corners
        self.derivatives = sorted(self.generated | rest | set(corners.derivatives))
        self.factor = [(k // n, k % n) for k, e in enumerate(found["factor"]) if e.value != 0.0]
        self.turns = [
            (a, j) for a in range(len(self.ball)) for j in range(2 * n) if found["turns"][2 * n * a + j].value != 0.0
        ]
        if any(e.value != 0.0 for e in found["drift"][n:]) or len(self.ball) != 3:
            raise ValueError(
                "balls whose rates change with time, or more than the chassis', have no straight equations"
            )
        if {j % n for _, j in self.turns} - set(self.ball):
            raise ValueError("a ball that follows other velocities has no straight equations")
        # of states: rows and columns
        of_engine = [(engine, n + i) for i in rear] + [(engine, engine)] + [(n + i, engine) for i in (*chassis, *rear)]
        self.states = {**corners.J, **{(i, j): self.N * i + j for i, j in of_engine}}
        # eliminated in this order; numbers of velocities are n + i
        self.order = [*range(2 * n, self.N), *(n + i for i in (*spins, *own, *reversed(chassis)))]
        assert sorted(self.order) == list(range(n, self.N))

    def stored(self) -> tuple[Places, Places, Places, Places]:
        """Places in J of the derivatives, of the factor (which is symmetric), of the ball's and of the corners'."""
        lists = self.derivatives, [(i, j) for i, j in self.factor if i >= j], self.turns, list(self.corners.J)
        assert sum(len(pairs) for pairs in lists) <= self.n * self.N  # the rows of coordinates
        out, at = [], 0
        for pairs in lists:
            out.append({pair: at + k for k, pair in enumerate(pairs)})
            at += len(pairs)
        return out[0], out[1], out[2], out[3]

    def state(self, g: Graph, i: int, j: int) -> Expr:
        """An entry of J in the rows or columns of states."""
        stored = self.stored()[3]
        return g.input("J", stored[i, j] if (i, j) in stored else self.states[i, j])


def _function(name: str, inputs: Sequence[str], outputs: dict[str, Sequence[Expr]]) -> Function:
    """Of expressions of one graph, products fused."""
    flat = [e for array in outputs.values() for e in array]
    plain, moved = flat[0].graph.fused(flat)
    of, at = {}, 0
    for array, exprs in outputs.items():
        of[array] = moved[at : at + len(exprs)]
        at += len(exprs)
    return Function(name, plain, tuple(inputs), (of,))


def _keep(s: Structure) -> Function:
    g, n = Graph(), s.n
    derivatives, factor, turns, of_J = s.stored()
    out = []
    for i, j in derivatives:
        terms = [g.input("derivatives", 2 * n * i + j)] if (i, j) in s.generated else []
        terms += [g.input("by_force", 2 * n * i + j)] if (i, j) in s.rest else []
        terms += [g.input("more", at) for at in s.corners.derivatives.get((i, j), [])]
        out.append(g.sum(terms))
    out += [g.input("factor", n * i + j) for i, j in factor]
    out += [g.input("turns", 2 * n * a + j) for a, j in turns]
    out += [g.input("more", s.corners.J[pair]) for pair in of_J]
    return Function("keep_derivatives", g, ("derivatives", "by_force", "more", "turns", "factor"), ({"J": out},))


class Masses:
    """M and what its factor does, of the entries of a vector: the last velocity is the factor's first."""

    def __init__(self, s: Structure, factor: dict[tuple[int, int], Expr]):
        self.n, self.F = s.n, factor
        self.below = {i: [k for k in range(i) if (i, k) in factor] for i in range(s.n)}

    def mass(self) -> dict[tuple[int, int], Expr]:
        """M = L D L', L = 1 - F below the diagonal."""
        n, F, D = self.n, self.F, {}
        for i in range(n):
            D[i] = F[i, i].graph.one / F[i, i]
        out = {}
        for i in range(n):
            for j in range(i + 1):
                terms = []
                for k in range(j + 1):
                    a = 1.0 if i == k else -F[i, k] if (i, k) in F else None
                    b = 1.0 if j == k else -F[j, k] if (j, k) in F else None
                    if a is not None and b is not None:
                        terms.append(D[k] * a * b)
                if terms:
                    total = terms[0]
                    for term in terms[1:]:
                        total = total + term
                    out[n - 1 - i, n - 1 - j] = out[n - 1 - j, n - 1 - i] = total
        return out

    def solved(self, b: list[Expr]) -> list[Expr]:
        n, F = self.n, self.F
        y = b[::-1]
        for i in range(n):
            for k in self.below[i]:
                y[i] = y[i] + F[i, k] * y[k]
        for i in range(n - 1, -1, -1):
            y[i] = y[i] * F[i, i]
            for k in range(i + 1, n):
                if (k, i) in F:
                    y[i] = y[i] + F[k, i] * y[k]
        return y[::-1]


def _in_time(s: Structure) -> Function:
    g = Graph()
    factor = {pair: g.input("J", at) for pair, at in s.stored()[1].items()}
    of = s.corners.in_time
    drift = [
        g.sum([g.input("drift", i), g.input("by_time", i), *(g.input("more", at) for at in of.get(i, []))])
        for i in range(s.n)
    ]
    out = Masses(s, factor).solved(drift)
    return _function("derivatives_in_time", ("drift", "by_time", "more", "J"), {"out": [*[g.zero] * s.n, *out]})


def _ball(s: Structure, g: Graph, J: Any, sigma: Expr) -> tuple[list[list[Expr]], list[list[Expr]]]:
    """B = (sigma - J_xx)^-1 and B J_xw of the chassis' ball."""
    _, _, turns, _ = s.stored()

    def entry(a: int, j: int) -> Expr:
        return J(turns[a, j]) if (a, j) in turns else g.zero

    A = [[(sigma if a == b else g.zero) - entry(a, s.ball[b]) for b in range(3)] for a in range(3)]
    (a, b, c), (d, e, f), (k, h, i) = A
    p, q, r = e * i - f * h, f * k - d * i, d * h - e * k
    one = g.one / (a * p + b * q + c * r)
    B = [
        [p * one, (c * h - b * i) * one, (b * f - c * e) * one],
        [q * one, (a * i - c * k) * one, (c * d - a * f) * one],
        [r * one, (b * k - a * h) * one, (a * e - b * d) * one],
    ]
    W = [[entry(a, s.n + s.ball[b]) for b in range(3)] for a in range(3)]
    C = [[B[a][0] * W[0][b] + B[a][1] * W[1][b] + B[a][2] * W[2][b] for b in range(3)] for a in range(3)]
    return B, C


class Equations:
    """The matrix and its solution: both functions, with the same places in `lu`."""

    def __init__(self, s: Structure):
        self.s = s
        g = Graph()
        sigma = g.input("sigma", 0)
        n, N = s.n, s.N

        def entry(at: int) -> Expr:
            return g.input("J", at)

        masses = Masses(s, {pair: entry(at) for pair, at in s.stored()[1].items()})
        self.mass = masses.mass()
        B, C = _ball(s, g, entry, sigma)
        share = g.one / sigma
        S = {pair: entry(at) for pair, at in s.stored()[0].items()}
        rows: dict[int, dict[int, Expr]] = {k: {} for k in range(n, N)}

        def add(i: int, j: int, value: Expr) -> None:
            rows[i][j] = rows[i][j] + value if j in rows[i] else value

        def subtract_row(i: int, of: dict[int, Expr]) -> None:
            """A row of derivatives by all columns, those of coordinates by what they follow from."""
            along = {a: of[b] for a, b in enumerate(s.ball) if b in of}
            for j, value in of.items():
                if j >= n:
                    add(i, j, -value)
                elif j not in s.ball:
                    add(i, n + j, -(value * share))
            for b in range(3):
                terms = [value * C[a][b] for a, value in along.items()]
                if terms:
                    add(i, n + s.ball[b], -g.sum(terms))

        for i in range(n):
            of = {j: S[i, j] for j in range(2 * n) if (i, j) in S}
            of |= {k: s.state(g, n + i, k) for k in range(2 * n, N) if (n + i, k) in s.states}
            subtract_row(n + i, of)
            for j in range(n):
                if (i, j) in self.mass:
                    add(n + i, n + j, sigma * self.mass[i, j])
        for k in range(2 * n, N):
            subtract_row(k, {j: s.state(g, k, j) for j in range(N) if (k, j) in s.states})
            add(k, k, sigma)

        # eliminated in the order that is known
        self.lower: dict[tuple[int, int], Expr] = {}
        self.upper: dict[tuple[int, int], Expr] = {}
        self.inverse: dict[int, Expr] = {}
        left = list(s.order)
        while left:
            k = left.pop(0)
            of = rows.pop(k)
            pivot = self.inverse[k] = g.one / of.pop(k)
            for j in left:
                if j in of:
                    self.upper[k, j] = of[j]
            for i in left:
                if k in rows[i]:
                    e = self.lower[i, k] = rows[i].pop(k) * pivot
                    for j in left:
                        if j in of:
                            add(i, j, -(e * of[j]))
        self.by_x = {
            **{(n + i, j): S[i, j] for i, j in s.derivatives if j < n},
            **{(k, j): s.state(g, k, j) for k, j in s.states if k >= 2 * n and j < n},
        }  # fmt: skip
        self.parts: list[tuple[str, dict[Any, Expr]]] = [
            ("lower", self.lower), ("upper", self.upper), ("inverse", self.inverse),
            ("mass", {pair: e for pair, e in self.mass.items() if pair[0] >= pair[1]}),
            ("B", {(a, b): B[a][b] for a in range(3) for b in range(3)}),
            ("C", {(a, b): C[a][b] for a in range(3) for b in range(3)}),
        ]  # fmt: skip
        self.size = sum(len(of) for _, of in self.parts)

    def matrix(self) -> Function:
        return _function("stage_matrix", ("J", "sigma"), {"lu": [e for _, of in self.parts for e in of.values()]})

    def solution(self) -> Function:
        s, g = self.s, Graph()
        n, N = s.n, s.N
        at, found = 0, {}
        for name, of in self.parts:
            found[name] = {key: g.input("lu", at + k) for k, key in enumerate(of)}
            at += len(of)
        r = [g.input("r", k) for k in range(N)]
        share = g.one / g.input("sigma", 0)
        x = [r[i] * share for i in range(n)]
        for a in range(3):
            x[s.ball[a]] = g.sum(found["B"][a, b] * r[s.ball[b]] for b in range(3))
        right = {}
        for i in range(n):
            terms = [found["mass"][max(i, j), min(i, j)] * r[n + j] for j in range(n) if (i, j) in self.mass]
            right[n + i] = g.sum(terms)
        for k in range(2 * n, N):
            right[k] = r[k]
        derivatives = s.stored()[0]
        for i, j in self.by_x:
            right[i] = right[i] + (g.input("J", derivatives[i - n, j]) if i < 2 * n else s.state(g, i, j)) * x[j]
        for k in s.order:
            for i in s.order:
                if (i, k) in self.lower:
                    right[i] = right[i] - found["lower"][i, k] * right[k]
        for k in reversed(s.order):
            for j in s.order:
                if (k, j) in self.upper:
                    right[k] = right[k] - found["upper"][k, j] * right[j]
            right[k] = right[k] * found["inverse"][k]
        for i in range(n):
            if i not in s.ball:
                x[i] = x[i] + right[n + i] * share
        for a in range(3):
            i = s.ball[a]
            x[i] = x[i] + g.sum(found["C"][a, b] * right[n + s.ball[b]] for b in range(3))
        return _function("stage_solution", ("J", "lu", "sigma", "r"), {"u": [*x, *(right[k] for k in range(n, N))]})


def functions(s: Structure) -> list[Function]:
    equations = Equations(s)
    return [_keep(s), _in_time(s), equations.matrix(), equations.solution()]


# ---- in place of the kernels -----------------------------------------------------------------------------------------


@inner
def prepare(layout, scratch, sigma):
    J, lu = part(layout, scratch, Part.JACOBIAN), part(layout, scratch, Part.FACTORS)
    call(_MATRIX, (J, number_in_memory(sigma), lu))
    part(layout, scratch, Part.DIAGNOSTIC)[FACTORISATIONS] += 1.0


@inner
def solve_prepared(layout, scratch, sigma, u):
    J, lu = part(layout, scratch, Part.JACOBIAN), part(layout, scratch, Part.FACTORS)
    right = part(layout, scratch, Part.RIGHT)
    copy(right, u)
    call(_SOLUTION, (J, lu, number_in_memory(sigma), right, u))


_PLACES: Replaced = (
    (integrators, prepare), (integrators, solve_prepared),
)  # fmt: skip


def taking_place() -> contextlib.AbstractContextManager[None]:
    """What is compiled meanwhile calls the unrolled code."""
    return in_place_of(_PLACES)
