"""From a mechanism to its tables: forms, products, Jacobian and tangent schedules, the factor's pattern, penalties.

Penalties. With W = beta h^2 alpha the multipliers of a constraint contract by about w / (w + W |Phi_q|^2) per
iteration, w the value of P = M + gamma h C + beta h^2 K along its row. So W_k = penalty w_k / |Phi_q,k|^2, with w_k
from the diagonal of P as drawn, and a floor for rows without mass of their own. What is stored does not depend on h
but through P, so a system may be stepped with other steps than the one it was compiled for. The Gram matrix of the
rows, each scaled to 1, shows pairs that are nearly the same: along them the contraction is as much slower as their
common eigenvalue is small, and a warning names them. Rows that are exactly redundant do no harm.
"""

import warnings
from typing import Any

import numpy as np

from sync.compile.parts import joined, lay_out
from tandem.multibody.natural import tables
from tandem.multibody.natural.equations import Constraint, Element, Equations, Slip
from tandem.multibody.natural.errors import IllConditioned, MechanismError, Undetermined
from tandem.multibody.natural.forces import MODEL
from tandem.multibody.natural.linear import ONE, Linear, Quadratic
from tandem.multibody.natural.pattern import Pattern, make_pattern
from tandem.multibody.natural.settings import Settings
from tandem.multibody.natural.system import System, no_force, option_values, setting_values
from tandem.multibody.natural.tables import P
from tandem.multibody.portable import product

SLOW = 0.1  # contraction per iteration that is worth a warning
REDUNDANT = 1e-11  # eigenvalue of the scaled Gram matrix that counts as exactly redundant
TINY_ROW = 1e-6  # squared length of a row that vanishes as drawn
FLOOR = 1e-3  # of the median local mass, for rows without any
SMALLEST = 1e-6  # m; of a mechanism that small, tolerances come near rounding
NOTHING = 1e-15  # eigenvalue of the scaled tangent that counts as none
CHECKED = 600  # constraints, coordinates; beyond, matrices are not looked at for trouble


class Forms:
    """The scalar linear forms that occur, each once."""

    def __init__(self) -> None:
        self.index: dict[tuple, int] = {}
        self.forms: list[Linear] = []
        self.of(ONE)

    def of(self, form: Linear) -> int:
        terms = tuple(sorted((i, float(c[0])) for i, c in form.terms.items() if c[0]))
        inputs = tuple(sorted((i, float(c[0])) for i, c in form.inputs.items() if c[0]))
        key = (terms, inputs, float(form.const[0]))
        if key not in self.index:
            self.index[key] = len(self.forms)
            self.forms.append(form)
        return self.index[key]

    def entries(self, f: int) -> list[tuple[int, float]]:
        return sorted((i, float(c[0])) for i, c in self.forms[f].terms.items() if c[0])


def compile_system(m: Equations, h: float, settings: Settings, hook: Any, dense: bool | None) -> System:
    if m.n == 0:
        raise MechanismError("a mechanism without coordinates")
    elements = sorted(m.elements.values(), key=lambda e: e.kind == MODEL)  # the hook's come last
    if hook is None and any(e.kind == MODEL for e in elements):
        raise MechanismError("model forces need a hook: compile(hook=...)")
    held = sorted(m.constraints.values(), key=lambda c: c.theta is not None)
    slips = list(m.slips.values())
    constraints: list[Constraint | Slip] = [*held, *slips]
    forms = Forms()
    part: dict[P, Any] = {}
    products = _products(held, forms)
    speeds = [[(c, forms.of(a), forms.of(b)) for c, a, b in one.products] for one in slips]
    rows = [*products, *speeds]
    part[P.ROW_PTR] = np.cumsum([0, *(len(row) for row in rows)])
    part[P.TERM_A] = [a for row in rows for _, a, _ in row]
    part[P.TERM_B] = [b for row in rows for _, _, b in row]
    part[P.TERM_COEF] = [c for row in rows for c, _, _ in row]
    part[P.ANGLE_FORM] = [forms.of(c.theta) for c in held if c.theta is not None]
    jac_rows = _jacobian(held, products, slips, speeds, forms, part)
    ports = _elements(elements, forms, part)
    _forms(forms, part)
    part[P.MASS_ROW] = [i for i, _ in m.inertia]
    part[P.MASS_COL] = [j for _, j in m.inertia]
    part[P.MASS] = list(m.inertia.values())
    part[P.CONSTANT_FORCE] = [m.weight.get(i, 0.0) for i in range(m.n)]
    part[P.MOTION_KIND] = [i.kind for i in m.inputs.values()]
    part[P.MOTION] = [v for i in m.inputs.values() for v in i.law]

    cliques = [list(row) for row in jac_rows] + [list(pair) for pair in m.inertia]
    cliques += [[i for p in block for i, _ in forms.entries(p)] for block in ports]
    cliques += [[i] for i in range(m.n)]
    pattern = make_pattern(m.n, cliques, dense)
    _schedules(m, pattern, jac_rows, ports, forms, part)
    part[P.WEIGHT] = np.zeros(len(constraints))
    part[P.SCALE], part[P.PHI_SCALE] = np.ones(m.n), np.ones(len(constraints))
    part[P.OPTION], part[P.SETTING] = option_values(settings), setting_values(settings)

    sizes = _sizes(m, len(constraints), elements, forms, part, pattern, settings)
    ints, reals, state_size, work_size = _flat(part, sizes)
    system = System(
        mechanism=m,
        ints=ints,
        reals=reals,
        state_size=state_size,
        work_size=work_size,
        hook=no_force if hook is None else hook,
        h=h,
        settings=settings,
        pattern=pattern,
        constraints=tuple(constraints),
        elements=tuple(elements),
        weights=np.zeros(len(constraints)),
    )
    _choose_penalties(system)
    return system


def _products(constraints: list[Constraint], forms: Forms) -> list[list[tuple[float, int, int]]]:
    """Product sums: one per plain constraint, then sine and cosine side of each angle."""
    sums: list[Quadratic] = [c.residual for c in constraints if c.theta is None]
    for c in constraints:
        if c.theta is not None and c.cosine is not None:
            sums += [c.residual, c.cosine]
    out = []
    for one in sums:
        merged: dict[tuple[int, int], float] = {}
        for factor, a, b in one.products:
            x, y = sorted((forms.of(a), forms.of(b)))
            merged[x, y] = merged.get((x, y), 0.0) + factor
        out.append([(factor, x, y) for (x, y), factor in merged.items() if factor])
    return out


def _derivative(row: list[tuple[float, int, int]], forms: Forms) -> dict[tuple[int, int], float]:
    """d(product sum)/dq: (coordinate, form) -> coefficient of that form's value."""
    out: dict[tuple[int, int], float] = {}
    for c, a, b in row:
        for x, y in ((a, b), (b, a)):
            for i, coef in forms.entries(x):
                out[i, y] = out.get((i, y), 0.0) + c * coef
    return out


def _by_rate(row: list[tuple[float, int, int]], forms: Forms) -> dict[tuple[int, int], float]:
    """d(slip)/dqd, alike."""
    out: dict[tuple[int, int], float] = {}
    for c, a, b in row:
        for i, coef in forms.entries(b):
            out[i, a] = out.get((i, a), 0.0) + c * coef
    return out


def _jacobian(
    held: list[Constraint],
    products: list[list[tuple[float, int, int]]],
    slips: list[Slip],
    speeds: list[list[tuple[float, int, int]]],
    forms: Forms,
    part: dict[P, Any],
) -> list[dict[int, int]]:
    """The schedule of Phi_q, slips behind; columns of every row with their places."""
    constraints: list[Constraint | Slip] = [*held, *slips]
    plain = sum(c.theta is None for c in held)
    rows: list[dict[int, int]] = []
    place = 0
    columns: list[int] = []
    const: dict[int, float] = {}
    jac: list[tuple[int, int, float]] = []
    trig: list[tuple[int, int, int, float]] = []
    theta: list[tuple[int, int, float]] = []
    for k in range(len(constraints)):
        j = k - plain if k < len(held) else -1
        if k >= len(held):
            derivatives = [_by_rate(speeds[k - len(held)], forms)]
        else:
            sums = [products[k]] if j < 0 else [products[plain + 2 * j], products[plain + 2 * j + 1]]
            derivatives = [_derivative(s, forms) for s in sums]
        angle = forms.entries(part[P.ANGLE_FORM][j]) if j >= 0 else []
        touched = sorted({i for d in derivatives for i, _ in d} | {i for i, _ in angle})
        if not touched:
            raise MechanismError(f"constraint {constraints[k].name}: depends on no coordinate")
        row = {i: place + p for p, i in enumerate(touched)}
        rows.append(row)
        columns += touched
        place += len(touched)
        for side, derivative in enumerate(derivatives):
            for (i, f), c in derivative.items():
                if j >= 0:
                    trig.append((row[i], f, 2 * j + side, c))
                elif f == 0:
                    const[row[i]] = const.get(row[i], 0.0) + c
                else:
                    jac.append((row[i], f, c))
        theta += [(row[i], j, c) for i, c in angle]
    part[P.JAC_PTR] = np.cumsum([0, *(len(row) for row in rows)])
    part[P.JAC_COL] = columns
    part[P.JAC_CONST] = [const.get(p, 0.0) for p in range(place)]
    part[P.JAC_DST], part[P.JAC_FORM], part[P.JAC_COEF] = _transposed(jac, 3)
    part[P.TRIG_DST], part[P.TRIG_FORM], part[P.TRIG_FACTOR], part[P.TRIG_COEF] = _transposed(trig, 4)
    part[P.THETA_DST], part[P.THETA_ANGLE], part[P.THETA_COEF] = _transposed(theta, 3)
    return rows


def _transposed(rows: list, width: int) -> list[list]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _elements(elements: list[Element], forms: Forms, part: dict[P, Any]) -> list[list[int]]:
    """Tables of the force elements; the forms of each one's ports."""
    ports = [[forms.of(p) for p in e.ports] for e in elements]
    known = [e for e in elements if e.kind != MODEL]
    part[P.EL_KIND] = [e.kind for e in known]
    part[P.EL_INPUT] = [e.input for e in known]
    part[P.EL_PORT] = np.cumsum([0, *(len(e.ports) for e in elements)])
    part[P.EL_PARAM] = np.cumsum([0, *(len(e.numbers) for e in elements)])
    part[P.EL_BLOCK] = np.cumsum([0, *(len(e.ports) ** 2 for e in elements)])
    part[P.PORT_FORM] = [f for block in ports for f in block]
    part[P.PARAM] = np.concatenate([np.zeros(0), *(e.numbers for e in elements)])
    spread = [(i, p, c) for p, f in enumerate(part[P.PORT_FORM]) for i, c in forms.entries(f)]
    part[P.FORCE_COL], part[P.FORCE_PORT], part[P.FORCE_COEF] = _transposed(spread, 3)
    return ports


def _forms(forms: Forms, part: dict[P, Any]) -> None:
    entries = [forms.entries(f) for f in range(len(forms.forms))]
    part[P.FORM_PTR] = np.cumsum([0, *(len(e) for e in entries)])
    part[P.FORM_COL] = [i for e in entries for i, _ in e]
    part[P.FORM_COEF] = [c for e in entries for _, c in e]
    part[P.FORM_CONST] = [float(f.const[0]) for f in forms.forms]
    driven = [(f, j, float(c[0])) for f, form in enumerate(forms.forms) for j, c in form.inputs.items() if c[0]]
    part[P.INPUT_FORM], part[P.INPUT_INDEX], part[P.INPUT_COEF] = _transposed(driven, 3)


def _schedules(
    m: Equations,
    pattern: Pattern,
    jac_rows: list[dict[int, int]],
    ports: list[list[int]],
    forms: Forms,
    part: dict[P, Any],
) -> None:
    """Where M, K and C of the ports, and J^T W J go in the factor."""
    part[P.MASS_DST] = [pattern.entry(i, j) for i, j in m.inertia]
    part[P.JTJ_DST] = [pattern.entry(a, b) for row in jac_rows for k, a in enumerate(row) for b in list(row)[: k + 1]]
    tangent: dict[tuple[int, int], float] = {}
    base = 0
    for block in ports:
        size = len(block)
        entries = [forms.entries(f) for f in block]
        for p in range(size):
            for q in range(size):
                for i, ci in entries[p]:
                    for j, cj in entries[q]:
                        # the symmetric part: both triangles of k meet in the lower one, each by half
                        key = (pattern.entry(i, j), base + p * size + q)
                        tangent[key] = tangent.get(key, 0.0) + ci * cj * (1.0 if i == j else 0.5)
        base += size * size
    flat = [(dst, src, c) for (dst, src), c in tangent.items() if c]
    part[P.TANGENT_DST], part[P.TANGENT_SRC], part[P.TANGENT_COEF] = _transposed(flat, 3)
    for name, values in (
        (P.ORDER, pattern.order), (P.SUPER_COL, pattern.super_col), (P.SUPER_PTR, pattern.super_ptr),
        (P.SUPER_ROW, pattern.super_row), (P.SUPER_PANEL, pattern.super_panel),
        (P.SUPER_UPDATE, pattern.super_update), (P.UPDATE_DST, pattern.update_dst),
    ):  # fmt: skip
        part[name] = values


def _sizes(
    m: Equations,
    k: int,
    elements: list[Element],
    forms: Forms,
    part: dict[P, Any],
    pattern: Pattern,
    settings: Settings,
) -> dict[P, int]:
    """Lengths of the parts of state and work; of `k` constraints."""
    n, f = m.n, len(forms.forms)
    angles, jac = len(part[P.ANGLE_FORM]), len(part[P.JAC_COL])
    sums = k - len(m.slips) + angles
    ports = len(part[P.PORT_FORM])
    blocks = sum(len(e.ports) ** 2 for e in elements)
    states = sum(e.states for e in elements)
    alpha = n if settings.rho < 1.0 else 0
    state_size = 1 + 3 * n + k + states + 3 * len(m.inputs) + 2 + alpha
    return {
        P.TIME: 1, P.Q: n, P.QD: n, P.QDD: n, P.LAM: k, P.ELEMENT: states, P.INPUT: 3 * len(m.inputs), P.POWER: 2,
        P.ALPHA: alpha,
        P.DIAGNOSTIC: len(tables.DIAGNOSTICS), P.V: f, P.VD: f, P.VU: f, P.R: sums, P.RD: sums, P.PHI: k,
        P.RESIDUAL: k, P.SECOND: k, P.DIRECTION: k, P.JAC: jac, P.JAC_FACTOR: jac, P.TRIG: 2 * angles, P.FORCE: n,
        P.X: ports, P.XD: ports, P.PORT_FORCE: ports, P.PORT_K: blocks, P.PORT_C: blocks, P.ELEMENT_NEXT: states,
        P.FACTOR: pattern.size, P.UPDATE: pattern.widest_update, P.SOLVE: n, P.RHS: n, P.Q0: n,
        P.QD0: n, P.STAGE: 2 * n, P.LIVE: sum(len(e.live) for e in elements), P.SAVED: 3 * state_size,
    }  # fmt: skip


def _flat(part: dict[P, Any], sizes: dict[P, int]) -> tuple[np.ndarray, np.ndarray, int, int]:
    ints = {which: part[which] for which in P if which < P.FORM_COEF}
    reals = {which: part[which] for which in P if P.FORM_COEF <= which < P.TIME}
    state = {which: sizes[which] for which in P if P.TIME <= which < P.DIAGNOSTIC}
    work = {which: sizes[which] for which in P if which >= P.DIAGNOSTIC}
    spans, ends = lay_out(len(P), (tables.HEADER, ints), (0, reals), (0, state), (0, work))
    whole = np.concatenate([spans, joined(ints, np.int64)])
    if whole.max() > np.iinfo(np.int32).max:
        raise MechanismError("the tables are too large")
    return whole.astype(np.int32), joined(reals, float), ends[2], ends[3]


def _choose_penalties(system: System) -> None:
    J = system.jacobian(system.q0)
    _choose_scales(system, J)
    P_diagonal = system.tangent_diagonal(system.q0)
    if not len(J):
        if system.n <= CHECKED:
            _warn_of_nothing(system, J, P_diagonal)
        return
    size = np.maximum(product(J * J, np.ones(system.n)), TINY_ROW)
    local = product(J * J, P_diagonal) / size
    positive = local[local > 0.0]
    local = np.maximum(local, FLOOR * float(np.median(positive)) if len(positive) else 1.0)
    system.weights[:] = system.settings.penalty * local / size
    system.part(P.WEIGHT)[:] = system.weights
    if max(len(J), system.n) > CHECKED:
        return
    _warn_of_nothing(system, J, P_diagonal)
    rows = J / np.sqrt(np.maximum(P_diagonal, FLOOR * (float(P_diagonal.max()) or 1.0)))
    rows /= np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None]
    values, vectors = np.linalg.eigh(rows @ rows.T)
    gain = system.settings.penalty * values
    for value, vector in zip(gain, vectors.T, strict=True):
        if value > system.settings.penalty * REDUNDANT and 1.0 / (1.0 + value) > SLOW:
            a, b = np.argsort(-np.abs(vector))[:2]
            warnings.warn(
                f"constraints {system.constraints[a].name} and {system.constraints[b].name} are nearly the same: "
                f"the multipliers contract only by {1.0 / (1.0 + value):.2g} a step; spread the vectors of the body, "
                f"or raise the penalty above {system.settings.penalty:g}",
                IllConditioned,
                stacklevel=4,
            )
            break


def _choose_scales(system: System, J: np.ndarray) -> None:
    """Tolerances are for mechanisms of a metre and more; of a smaller one its points are judged by its own size.

    Unit vectors and scalars keep theirs: they are of size 1 in a watch too. A constraint is judged by how far it
    changes when its coordinates move by their size.
    """
    m = system.mechanism
    nodes = m.nodes.values()
    forms = [form for form in (*nodes, *m.places.values()) if form.kind == "point"]
    places = np.array([m.where(form) for form in (*forms, *(end for one in m.ends for end in one[2:]))])
    span = float(np.ptp(places, axis=0).max()) if len(places) else 1.0
    if not 0.0 < span < 1.0:
        return
    size = np.ones(system.n)
    for node in nodes:
        if node.kind == "point" and node.columns:
            size[list(node.columns)] = max(span, SMALLEST)
    of_phi = np.abs(J * size).max(axis=1)
    system.part(P.SCALE)[:] = 1.0 / size
    system.part(P.PHI_SCALE)[:] = 1.0 / np.where(of_phi > 0.0, np.minimum(of_phi, 1.0), 1.0)


def _warn_of_nothing(system: System, J: np.ndarray, P_diagonal: np.ndarray) -> None:
    """A motion that neither mass, nor force, nor constraint resists has no definite future."""
    A = system.mass() + np.diag(P_diagonal - np.diag(system.mass())) + J.T @ (system.weights[:, None] * J)
    size = np.sqrt(np.maximum(np.diag(A), 1e-300))
    values, vectors = np.linalg.eigh(A / np.outer(size, size))
    if len(values) and values[0] < NOTHING:
        column = int(np.argmax(np.abs(vectors[:, 0])))
        node = next(n for n in system.mechanism.nodes.values() if column in n.columns)
        warnings.warn(
            f"{node.kind} {node.name}: can move without mass, force or constraint; give it a mass, and a body its"
            " inertia about every axis that it turns about, or fix it",
            Undetermined,
            stacklevel=5,
        )
