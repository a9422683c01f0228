"""How steep and how bent a road is: whether one point of contact will do for a wheel, and whether anything will.

Slopes and curvatures are bounds from the numbers of each layer, the greatest of all: exact for the straight part of a
trapezoid and for a cosine, of central differences for heights on a grid.
"""

from math import pi

import numpy as np

from sim_service.roads.layout import ABSENT, Bump, Curved, Grid, Kind, Shape

MOST_CURVATURE = 1.0  # 1/m; a wheel of 0.3 m touches in one point, and its load is wrong by a few per cent
MOST_ACROSS = 1.0  # slope across the road; a plane through one point is no likeness of a wall beside the wheel
MOST_SLOPE = 4.0  # a step of 5 cm over 2 cm has 2.5 to 3.3


class TooSharp(UserWarning):
    """A road climbs over a shorter way than the contact of a wheel is resolved in."""


def steepest(layers: list[tuple[Kind, np.ndarray]]) -> tuple[float, float, float]:
    """Greatest slope along the road, curvature (1/m) along it, and slope across."""
    slope = curvature = across = 0.0
    for kind, block in layers:
        a, b, c = 0.0, 0.0, 0.0
        if kind == Kind.BUMP:
            a, b, c = _bump(block)
        elif kind == Kind.GRID:
            shape = int(block[Grid.ROWS]) + (3 if block[Grid.PERIODIC] else 2), int(block[Grid.COLUMNS]) + 2
            a, b, c = _heights(block[Grid.SIZE :].reshape(shape), 1.0 / block[Grid.PER_X], block[Grid.PER_Y])
        elif kind == Kind.CURVED:
            rows, columns = int(block[Curved.ROWS]) + 2, int(block[Curved.COLUMNS]) + 2
            at, at_v = int(block[Curved.AT_HEIGHTS]), int(block[Curved.AT_POSITIONS])
            gaps = np.diff(block[at_v : at_v + columns - 2])
            z = block[at : at + rows * columns].reshape(rows, columns)
            per_y = 1.0 / np.concatenate([gaps[:1], gaps, gaps[-1:]])
            a, b, c = _heights(z, block[Curved.INCREMENT], per_y)
        slope, curvature, across = max(slope, a), max(curvature, b), max(across, c)
    return slope, curvature, across


def _heights(z: np.ndarray, spacing: float, per_y: float | np.ndarray) -> tuple[float, float, float]:
    """Along the rows, which is along the road; and across. The nodes outside the data are not data."""
    first = np.abs(np.diff(z, axis=0)).max(initial=0.0) / spacing
    second = np.abs(np.diff(z, 2, axis=0)).max(initial=0.0) / spacing**2
    across = (np.abs(np.diff(z, axis=1)) * per_y)[:, 1:-1].max(initial=0.0)
    return float(first), float(second), float(across)


def _bump(block: np.ndarray) -> tuple[float, float, float]:
    H, L = abs(block[Bump.HEIGHT]), block[Bump.LENGTH]
    if block[Bump.SHAPE] == Shape.COSINE:
        slope, curvature = pi * H / L, 2.0 * pi**2 * H / L**2
    elif block[Bump.SHAPE] == Shape.HALF_SINE:  # its feet are corners, as sharp as they are steep
        slope = pi * H / L
        curvature = slope / 0.1
    else:
        ramp, blend = block[Bump.RAMP], block[Bump.BLEND]
        slope = H / (ramp * (1.0 - blend))
        curvature = slope / max(blend * ramp, 1e-3)
    sides = block[Bump.RIGHT] > -ABSENT or block[Bump.LEFT] < ABSENT
    return float(slope), float(curvature), float(1.5 * H / block[Bump.SIDE]) if sides else 0.0
