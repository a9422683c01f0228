"""Coordinates of the buggy in its reference configuration, as the vehicle file has it."""

import numpy as np

from tandem.machines.car.buggy.bodies import Car
from tandem.multibody.natural.system import System


def reference_positions(car: Car, system: System) -> tuple[tuple[int, ...], np.ndarray]:
    """First coordinates of points and vectors, and where they are as drawn, in the axes of the vehicle file."""
    nodes = [node for node in system.mechanism.nodes.values() if len(node.columns) == 3]
    rows = [system.q0[list(node.columns)] - (car.origin if node.kind == "point" else 0.0) for node in nodes]
    return tuple(int(node.columns[0]) for node in nodes), np.array(rows)
