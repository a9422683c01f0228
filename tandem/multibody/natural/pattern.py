"""The fixed pattern of the tangent matrix: fill-reducing order, supernodes, and where each entry lives in the factor.

Runs once when a system is compiled. Coordinates with the same neighbours (those of one node, mostly) are ordered
together; groups follow the minimum-degree rule; the elimination tree is put in postorder and small supernodes are
merged with their parents where the zeros this stores cost less than what it saves. Where a dense factorisation is
estimated to be as fast, there is one supernode, as wide as the matrix.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

DENSE_BELOW = 16  # coordinates; a panel this small is dense in any order
OVERHEAD = 12.0  # cost of touching a column of a panel, in multiplications
SCATTER = 3.0  # cost of an indirect update, in multiplications


@dataclass(frozen=True)
class Pattern:
    order: np.ndarray  # position in the factor -> coordinate
    place: np.ndarray  # coordinate -> position in the factor
    super_col: np.ndarray
    super_ptr: np.ndarray
    super_row: np.ndarray
    super_panel: np.ndarray
    super_update: np.ndarray
    update_dst: np.ndarray
    size: int  # entries of all panels
    widest_update: int
    column_super: np.ndarray
    row_in_panel: tuple[dict[int, int], ...]

    def entry(self, i: int, j: int) -> int:
        """Where the entry of coordinates i and j is stored (its lower half)."""
        a, b = int(self.place[i]), int(self.place[j])
        if a < b:
            a, b = b, a
        return self.at(a, b)

    def at(self, a: int, b: int) -> int:
        """Where the entry of positions a >= b is stored."""
        s = int(self.column_super[b])
        rows = int(self.super_ptr[s + 1] - self.super_ptr[s])
        return int(self.super_panel[s]) + (b - int(self.super_col[s])) * rows + self.row_in_panel[s][a]

    def matrix(self, values: np.ndarray) -> np.ndarray:
        """The symmetric matrix, in the order of the coordinates, whose lower half is stored in `values`."""
        n = len(self.order)
        out = np.zeros((n, n))
        for s in range(len(self.super_col) - 1):
            rows = self.super_row[self.super_ptr[s] : self.super_ptr[s + 1]]
            for b in range(self.super_col[s], self.super_col[s + 1]):
                for a in rows[rows >= b]:
                    i, j = self.order[a], self.order[b]
                    out[i, j] = out[j, i] = values[self.at(int(a), b)]
        return out

    @property
    def dense(self) -> bool:
        return len(self.super_col) == 2


def make_pattern(n: int, cliques: Iterable[Iterable[int]], dense: bool | None = None) -> Pattern:
    """The pattern of a symmetric matrix whose entries are the pairs within each clique of coordinates."""
    neighbours: list[set[int]] = [{i} for i in range(n)]
    for clique in {frozenset(c) for c in cliques}:
        for i in clique:
            neighbours[i].update(clique)
    if dense is None and n <= DENSE_BELOW:
        dense = True
    if not dense:
        order = _minimum_degree(neighbours)
        columns, order = _symbolic(neighbours, order)
        supernodes = _merged(_fundamental(columns))
        if dense is False or _cost(supernodes) < _cost([(0, n, list(range(n)))]):
            return _pattern(np.array(order), supernodes)
    return _pattern(np.arange(n), [(0, n, list(range(n)))])


Supernode = tuple[int, int, list[int]]  # first column, width, all rows


def _minimum_degree(neighbours: list[set[int]]) -> list[int]:
    # indistinguishable coordinates move together
    groups: dict[frozenset[int], list[int]] = {}
    for i, near in enumerate(neighbours):
        groups.setdefault(frozenset(near), []).append(i)
    members = list(groups.values())
    of = {i: g for g, group in enumerate(members) for i in group}
    graph = [{of[j] for j in neighbours[group[0]]} - {g} for g, group in enumerate(members)]
    weight = [len(group) for group in members]
    left = set(range(len(members)))
    degree = [sum(weight[b] for b in near) for near in graph]
    order: list[int] = []
    while left:
        g = min(left, key=lambda a: (degree[a], members[a][0]))
        left.remove(g)
        order.extend(members[g])
        near = graph[g]
        for a in near:
            graph[a] |= near
            graph[a] -= {a, g}
        for a in near:
            degree[a] = sum(weight[b] for b in graph[a])
    return order


def _symbolic(neighbours: list[set[int]], order: list[int]) -> tuple[list[list[int]], list[int]]:
    """Rows of every column of the factor, in a postorder of the elimination tree, and that order."""
    n = len(order)
    place = {i: p for p, i in enumerate(order)}
    rows = [{place[j] for j in neighbours[i]} for i in order]
    rows = [{r for r in rows[p] if r >= p} for p in range(n)]
    parent = [-1] * n
    children: list[list[int]] = [[] for _ in range(n)]
    for p in range(n):
        for c in children[p]:
            rows[p] |= rows[c] - {c}
        above = rows[p] - {p}
        if above:
            parent[p] = min(above)
            children[parent[p]].append(p)
    post: list[int] = []
    for root in (p for p in range(n) if parent[p] < 0):
        stack = [(root, iter(children[root]))]
        while stack:
            p, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                post.append(p)
                stack.pop()
            else:
                stack.append((child, iter(children[child])))
    new = {p: k for k, p in enumerate(post)}
    return [sorted(new[r] for r in rows[p]) for p in post], [order[p] for p in post]


def _fundamental(columns: list[list[int]]) -> list[Supernode]:
    out: list[Supernode] = []
    for j, rows in enumerate(columns):
        if out:
            first, width, above = out[-1]
            if first + width == j and above[width:] == rows:
                out[-1] = (first, width + 1, above)
                continue
        out.append((j, 1, rows))
    return out


def _merged(supernodes: list[Supernode]) -> list[Supernode]:
    """Neighbouring supernodes joined where that is cheaper, until nothing changes."""
    changed = True
    while changed:
        changed = False
        out: list[Supernode] = []
        for node in supernodes:
            if out:
                first, width, rows = out[-1]
                below = rows[width:]
                if below and first + width == node[0] and below[0] < node[0] + node[1]:
                    union = sorted(set(rows) | set(node[2]))
                    joint = (first, width + node[1], union)
                    if _cost([joint]) < _cost([out[-1], node]):
                        out[-1] = joint
                        changed = True
                        continue
            out.append(node)
        supernodes = out
    return supernodes


def _cost(supernodes: list[Supernode]) -> float:
    total = 0.0
    for _, w, rows in supernodes:
        r = len(rows) - w
        total += w**3 / 6 + w * w * r / 2 + w * r * (r + 1) / 2  # multiplications
        total += OVERHEAD * (w * (w + 1) / 2 + r * w) + SCATTER * r * (r + 1) / 2
    return total


def _pattern(order: np.ndarray, supernodes: list[Supernode]) -> Pattern:
    n = len(order)
    place = np.empty(n, int)
    place[order] = np.arange(n)
    column_super = np.empty(n, int)
    col, ptr, row, panel, update = [0], [0], [], [0], [0]
    local = []
    for s, (first, width, rows) in enumerate(supernodes):
        column_super[first : first + width] = s
        col.append(first + width)
        ptr.append(ptr[-1] + len(rows))
        row.extend(rows)
        panel.append(panel[-1] + width * len(rows))
        below = len(rows) - width
        update.append(update[-1] + below * (below + 1) // 2)
        local.append({r: k for k, r in enumerate(rows)})
    pattern = Pattern(
        order=order,
        place=place,
        super_col=np.array(col),
        super_ptr=np.array(ptr),
        super_row=np.array(row),
        super_panel=np.array(panel),
        super_update=np.array(update),
        update_dst=np.empty(0, int),
        size=panel[-1],
        widest_update=max(len(rows) for _, _, rows in supernodes),
        column_super=column_super,
        row_in_panel=tuple(local),
    )
    dst = [
        pattern.at(rows[i], rows[a])
        for _, width, rows in supernodes
        for a in range(width, len(rows))
        for i in range(a, len(rows))
    ]
    return Pattern(
        **{**{k: getattr(pattern, k) for k in pattern.__dataclass_fields__}, "update_dst": np.array(dst, int)}
    )
