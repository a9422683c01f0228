"""The tables of a tree of joints, link by link, as joint_tree.py and stepping.py read them."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class TreeTables:
    """Rows of links and contacts, as joint_tree.py and stepping.py read them."""

    names: list[str] = field(default_factory=list)
    links: list[tuple[int, int, int]] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)
    contacts: list[tuple[int, int, int]] = field(default_factory=list)
    surfaces: list[list[float]] = field(default_factory=list)

    def link(
        self, name: str, parent: int, kind: int, axis: np.ndarray, flags: int = 0, at: np.ndarray | None = None,
        mass: float = 0.0, centre: np.ndarray | None = None, inertia: np.ndarray | None = None, damping: float = 0.0,
    ) -> int:  # fmt: skip
        """Inertia: a 3 x 3 matrix about the centre, in the axes of the world at q = 0."""
        J = np.zeros((3, 3)) if inertia is None else inertia
        zero = np.zeros(3)
        row = [*axis, *(zero if at is None else at), mass, *(zero if centre is None else centre)]
        row += [J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2], damping]
        self.names.append(name)
        self.links.append((parent, kind, flags))
        self.numbers.append([float(value) for value in row])
        return len(self.links) - 1


def about_axis(axis: np.ndarray, along: float, across: float) -> np.ndarray:
    """Inertia of a body that is symmetric about an axis."""
    return np.array([[(along - across) * float(a * b) + across * float(i == j) for j, b in enumerate(axis)]
                     for i, a in enumerate(axis)])  # fmt: skip
