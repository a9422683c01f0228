"""Loops that can be closed one after the other, and the coordinates that each of them determines."""

from collections.abc import Sequence

import numpy as np

from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.relative.tree import WORLD, Equation, TreeBody

WELL, ENOUGH = 1e-2, 1e-7  # what is left of a row, of length 1, that is independent of others: clearly, and at all
TOUCHES = 1e-9  # slope of an equation that depends on a coordinate
PIVOT = 1e-3  # smallest pivot, of rows of length 1, for which loops are closed by coordinates of their own


def independent_rows(J: np.ndarray) -> list[int]:
    """Rows that make up all others, the earlier ones first as far as they are clearly independent."""
    sizes = np.linalg.norm(J, axis=1)
    chosen: list[int] = []
    basis: list[np.ndarray] = []
    for least in (WELL, ENOUGH):
        for k in range(len(J)):
            if k in chosen or sizes[k] < TOUCHES:
                continue
            v = J[k] / sizes[k]
            for _ in range(2):  # twice is enough for orthogonality
                for q in basis:
                    v = v - (q @ v) * q
            if np.linalg.norm(v) > least:
                chosen.append(k)
                basis.append(v / np.linalg.norm(v))
    return sorted(chosen)


def pivots(J: np.ndarray) -> tuple[list[int], float]:
    """One column for every row, by Gauss elimination with the largest pivots, and the smallest of these."""
    A = J / np.maximum(np.linalg.norm(J, axis=1), 1e-300)[:, None]
    columns: list[int] = []
    rows = list(range(len(A)))
    least = np.inf
    while rows:
        sizes = np.abs(A[rows])
        sizes[:, columns] = 0.0
        at = np.unravel_index(int(np.argmax(sizes)), sizes.shape) if sizes.size else (0, 0)
        row, column = rows[int(at[0])], int(at[1])
        pivot = abs(A[row, column]) if sizes.size else 0.0
        if pivot < ENOUGH:
            return columns, 0.0
        least = min(least, pivot)
        columns.append(column)
        rows.remove(row)
        A[rows] -= np.outer(A[rows, column] / A[row, column], A[row])
    return columns, float(least)


def group_loops(
    cuts: Sequence[Sequence[int]], jacobians: Sequence[np.ndarray], free: Sequence[int], names: Sequence[str]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Groups of rows, and a dependent coordinate for every row, group by group; `jacobians[0]` is where pivots count.

    A group is closed by coordinates that appear in no other group. Groups begin as the cuts; one without coordinates
    enough of its own is joined with the one it shares most with.
    """
    touched = np.zeros((0, len(free)), bool)
    if len(jacobians[0]):
        touched = np.max([np.abs(J) for J in jacobians], axis=0) > TOUCHES
    groups = [list(cut) for cut in cuts]
    while True:
        uses = np.array([touched[group].any(axis=0) for group in groups]).reshape(len(groups), len(free))
        private = uses.sum(axis=0) == 1
        found: list[list[int]] = []
        weak = None
        for k, group in enumerate(groups):
            own = np.flatnonzero(uses[k] & private)
            picked, least = pivots(jacobians[0][group][:, own]) if len(own) >= len(group) else ([], 0.0)
            if least < (PIVOT if len(groups) > 1 else ENOUGH):
                weak = k
                break
            found.append([int(own[c]) for c in picked])
        if weak is None:
            break
        others = [k for k in range(len(groups)) if k != weak]
        shares = {k: int((uses[k] & uses[weak]).sum()) for k in others}
        if not others or max(shares.values()) == 0:
            named = ", ".join(names[k] for k in groups[weak])
            raise MechanismError(
                f"loops {named}: no coordinates are left for them to determine where they are closed as drawn; draw the"
                " mechanism away from this singular position, or cut it elsewhere"
            )
        other = max(others, key=lambda k: shares[k])
        low, high = sorted((weak, other))
        groups[low] = sorted(groups[low] + groups[high])
        del groups[high]
    order = tuple(tuple(group) for group in groups)
    return order, tuple(free[c] for group in found for c in group)


def find_anchor(bodies: Sequence[TreeBody], equations: Sequence[Equation], J: np.ndarray) -> int:
    """The body nearest to a loop on whose own motion it does not depend: neither on its coordinates nor on those of
    the bodies that carry it. `J` are the largest derivatives of the equations where they are closed."""
    ways = []
    for body in sorted({b for equation in equations for b in equation.bodies}):
        way = [body]
        while way[-1] != WORLD:
            way.append(bodies[way[-1]].parent)
        ways.append(way[::-1])
    common = [way[0] for way in zip(*ways, strict=False) if len(set(way)) == 1]
    first = np.cumsum([0, *(body.freedoms for body in bodies)])
    anchor = WORLD
    for body in common[1:]:
        if np.abs(J[:, first[body] : first[body + 1]]).max(initial=0.0) > TOUCHES:
            break
        anchor = body
    return anchor
