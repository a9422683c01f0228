"""Colours of a scene, and the shapes of what is on a machine; the same wherever it is drawn."""

import numpy as np

from sim_service.contract.scene import Lever, Wheel
from tandem.view import geometry

Colour = tuple[int, int, int]

SHELL: Colour = (52, 98, 148)
FRAME: Colour = (58, 62, 68)
TREAD: Colour = (38, 38, 40)
RIM: Colour = (186, 190, 196)
MARK: Colour = (230, 30, 24)
DARK: Colour = (30, 30, 32)
BARS: dict[str, Colour] = {
    "rod": (120, 124, 130), "arm": (112, 118, 128), "link": (206, 152, 52), "upright": (150, 153, 158),
    "strut": (86, 90, 98), "rack": (206, 152, 52), "spring": (190, 60, 48),
}  # fmt: skip
SOLIDS: dict[str, tuple[Colour, float | None]] = {
    "body": (SHELL, 0.45),
    "dark": (TREAD, None),
    "mark": (MARK, None),
}
WAY: Colour = (236, 168, 40)
GROUND: dict[str, Colour] = {"even": (124, 128, 130), "odd": (115, 119, 122), "slippery": (88, 122, 150)}


def rim_ratio(wheels: tuple[Wheel, ...]) -> float:
    """The ratio of rim to wheel, that of the first wheel."""
    return wheels[0].rim / wheels[0].radius or 0.62


def lever_turn(lever: Lever) -> np.ndarray:
    """How it is turned at rest, as a quaternion: y of a wheel lies in its axis."""
    return _with_y(lever.axis) if lever.kind == "wheel" else np.array([1.0, 0.0, 0.0, 0.0])


def _with_y(axis: np.ndarray) -> np.ndarray:
    """A turn that brings y into the axis, and x across the machine: a wheel's spokes are level ahead."""
    across = np.cross([0.0, 1.0, 0.0], axis)
    z = across / np.linalg.norm(across) if np.linalg.norm(across) > 1e-9 else np.array([0.0, 0.0, 1.0])
    return geometry.quaternion(np.column_stack([np.cross(axis, z), axis, z]))


def lever_mesh(kind: str, size: float) -> geometry.Mesh:
    if kind == "wheel":
        ring = geometry.torus(size, 0.09 * size)
        spoke = geometry.box(np.array([-size, -0.03 * size, -0.1 * size]), np.array([size, 0.03 * size, 0.1 * size]))
        down = geometry.box(np.array([-0.1 * size, -0.03 * size, -size]), np.array([0.1 * size, 0.03 * size, 0.0]))
        return geometry.merged([ring, spoke, down])
    arm = geometry.box(np.array([-0.006, -0.008, -size]), np.array([0.006, 0.008, 0.0]))
    pad = geometry.box(np.array([-0.012, -0.035, -size - 0.02]), np.array([0.012, 0.035, -size + 0.06]))
    return geometry.merged([arm, pad])
