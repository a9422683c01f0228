"""The equations of motion of a mechanism as functions to take away (code/languages.py writes them).

With the independent velocities w_u, the accelerations a of these, and everything else as in equations.py:

    mass      x, ref, u -> M             mass matrix of the independent velocities
    forces    x, ref, w, u, f -> F       M a = F: what springs, gravity, drives and turning axes make of it
    jacobian  x, ref, u -> h, J, closed  loops, their derivatives by every velocity, one Newton correction of what
              -> q, Jq                   depends on the others; places, and their derivatives by the independent ones
    inverse   x, ref, w, u, a, f -> e    efforts that a takes: M a - F of the independent velocities, then what
                                         drives take

All read the parameters `p`, of which there is one list. Arrays without a number are no arguments.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tandem.multibody.code.graph import Expr
from tandem.multibody.code.languages import Formula, Read, Written
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.relative.generate import Writer
from tandem.multibody.relative.spanning import make_tree
from tandem.multibody.relative.vectors import Vector

WEIGHTLESS = 1e-12  # share of what coordinates weigh: below, a motion has no mass

Parts = tuple[str, tuple[str, ...], list[Written]]  # what it is, arrays it reads, what it gives


def formulas(mechanism: Equations, name: str, which: Sequence[str]) -> tuple[Formula, ...]:
    """The functions `name`_mass and so on, in this order."""
    try:
        one = Writer(mechanism, make_tree(mechanism), None)
        one.write_places()
        if one.independent:
            _check_mass(one)
        elif {"mass", "forces"} & {*which}:
            raise MechanismError("no freedom is left, so that there are neither masses nor forces; take jacobian")
        parts = {kind: QUANTITIES[kind](one) for kind in which}
    except ZeroDivisionError:
        raise MechanismError("the position in which the mechanism is drawn is singular; draw it in another") from None
    reads = _reads(one)
    return tuple(
        Formula(
            f"{name}_{kind}", meaning, one.g, tuple(reads[k] for k in arrays if reads[k].entries), tuple(writes)
        )
        for kind, (meaning, arrays, writes) in parts.items()
    )  # fmt: skip


def _mass(one: Writer) -> Parts:
    M = one.eq.reduced_mass([one.B[k] for k in one.independent])
    n = len(M)
    names = _named(one, one.independent)
    flat = [e for row in M for e in row]
    return "mass matrix of the independent velocities", ("x", "ref", "u", "p"), [
        Written("M", "M a = F (function forces), symmetric", (n, n), flat, names)
    ]  # fmt: skip


def _forces(one: Writer) -> Parts:
    left = one.residual(one.dw0, one.wrenches, one.efforts)
    return "forces on the independent velocities", ("x", "ref", "w", "u", "f", "p"), [
        Written(
            "F", "M a = F (function mass), a the accelerations of these", (len(one.independent),),
            [-left[k] for k in one.independent], _named(one, one.independent),
        )
    ]  # fmt: skip


def _jacobian(one: Writer) -> Parts:
    g = one.g
    writes: list[Written] = []
    if one.loops:
        count = len(one.loops)
        names = tuple(loop.name for loop in one.tree.loops)
        new = one.corrected()
        writes += [
            Written("h", "loops: 0 where they are closed", (count,), [loop.value for loop in one.loops], names),
            Written(
                "J", "dh/dt = J w + what moving inputs add, for all velocities w", (count, one.n),
                [row.get(k, g.zero) for row in one.loop_derivatives for k in range(one.n)],
            ),
            Written(
                "closed", "the dependent x after a Newton correction: put them into x until h is 0", (count,),
                [new[k] for k in one.dependent], _named(one, one.dependent),
            ),
        ]  # fmt: skip
    memories: list[dict[int, tuple[Vector, Vector]]] = [{} for _ in one.independent]
    moved = [
        [one.eq.along(form, one.B[k], memory) for k, memory in zip(one.independent, memories, strict=True)]
        for form in one.tree.columns
    ]
    count = len(moved)
    writes.append(Written("q", "points, vectors and scalars", (count,), one.values, _nodes(one.m)))
    if one.independent:
        flat = [e for row in moved for e in row]
        meaning = "dq/dt = Jq w_u + what moving inputs add, w_u the independent velocities"
        writes.append(Written("Jq", meaning, (count, len(one.independent)), flat))
    return "loops and places, with their derivatives", ("x", "ref", "u", "p"), writes


def _inverse(one: Writer) -> Parts:
    desired = {k: one.g.input("a", i) for i, k in enumerate(one.independent)}
    left = one.residual(one.accelerations(desired), one.wrenches, one.efforts)
    moved = (*one.independent, *one.driven)
    if not moved:
        raise MechanismError("nothing moves but by its inputs, so that there is no inverse dynamics; take jacobian")
    return "efforts that accelerations take", ("x", "ref", "w", "u", "a", "f", "p"), [
        Written(
            "e", "force or torque along each velocity that makes the accelerations a, besides all forces there are",
            (len(moved),), [left[k] for k in moved], _named(one, moved),
        )
    ]  # fmt: skip


QUANTITIES: dict[str, Callable[[Writer], Parts]] = {
    "mass": _mass, "forces": _forces, "jacobian": _jacobian, "inverse": _inverse,
}  # fmt: skip


# ---- names -----------------------------------------------------------------------------------------------------------


def _reads(one: Writer) -> dict[str, Read]:
    tree, velocities = one.tree, one.tree.velocities
    role = {**dict.fromkeys(one.driven, "follows inputs, not read"), **dict.fromkeys(one.dependent, "dependent")}
    unit = {"turn": "rad", "slide": "m", "ball": "increment of ref", "scalar": "m or rad"}
    roles = [role.get(k, "independent") for k in range(one.n)]
    at = one.at.x
    x = tuple(
        f"{unit[kind]}, {roles[k]}, {float(at[k])!r} as assembled" for k, kind in enumerate(tree.kinds)
    )  # fmt: skip
    w = tuple(text if text == "independent" else "not read" for text in roles)
    balls = [velocities[k].rpartition(" ")[0] for k in one.balls()]
    laws = [f"{name}{suffix}" for name in one.m.inputs for suffix in ("", " rate", " second")]
    starts = {3 * k: float(value) for k, value in enumerate(tree.start)}
    p = one.links.p
    ports = [f"{name} {k}" for name, forms in tree.ports.items() for k in range(len(forms))]
    found = (
        Read("x", "coordinates, 0 as drawn; those of scalars are their values", velocities, x),
        Read("ref", "a unit quaternion for every ball, (1, 0, 0, 0) as drawn; its x adds the rotation along (1, x/2)",
             tuple(f"{name} {c}" for name in balls for c in "wxyz")),
        Read("w", "velocities: rates of x, of a ball the angular velocity in the child's axes", velocities, w),
        Read("u", "inputs, each with its rate and second derivative", tuple(laws),
             tuple(f"{starts[k]!r} at time 0" if k in starts else "its derivative" for k in range(len(laws)))),
        Read("a", "accelerations of the independent velocities", _named(one, one.independent)),
        Read("f", "forces at the ports of the model", tuple(ports[: len(one.ports)])),
        Read("p", "parameters", tuple(p.names), usual=tuple(p.values)),
    )  # fmt: skip
    return {array.name: array for array in found}


def _named(one: Writer, velocities: Sequence[int]) -> tuple[str, ...]:
    return tuple(one.tree.velocities[k] for k in velocities)


def _nodes(m: Equations) -> tuple[str, ...]:
    """A name for every coordinate of the builder."""
    names = [""] * m.n
    for name, node in m.nodes.items():
        for axis, column in zip("xyz", node.columns, strict=False):
            names[column] = name if len(node.columns) == 1 else f"{name} {axis}"
    return tuple(name or f"coordinate {k}" for k, name in enumerate(names))


def _check_mass(one: Writer) -> None:
    """Every motion that is left must move a mass, where the mechanism is assembled."""
    M: list[list[Expr]] = one.eq.reduced_mass([one.B[k] for k in one.independent])
    values = one.numbers(M)
    size = np.sqrt(np.abs(np.diag(values)))
    weightless = [k for k, one_size in zip(one.independent, size, strict=True) if not one_size > 0.0]
    if not weightless:
        shares, motions = np.linalg.eigh(values / np.outer(size, size))
        if shares[0] < WEIGHTLESS:
            weightless = [one.independent[int(np.argmax(np.abs(motions[:, 0] / size)))]]
    if weightless:
        names = ", ".join(_named(one, weightless[:4]))
        raise MechanismError(f"{names}: moves nothing that has a mass; give what moves a mass, or fix it")
