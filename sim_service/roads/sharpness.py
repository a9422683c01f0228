"""How steep and how bent a road is: whether one point of contact will do for a wheel, and whether anything will.

Slopes and curvatures are bounds from the numbers of each layer, the greatest of all: exact for the straight part of a
trapezoid and for a cosine, of central differences for heights on a grid.
"""

from math import pi

import numpy as np

from sim_service.roads.layout import Bump, Curved, Grid, Kind, Shape

MOST_CURVATURE = 1.0  # 1/m; a wheel of 0.3 m touches in one point, and its load is wrong by a few per cent
MOST_SLOPE = 4.0  # a step of 5 cm over 2 cm has 2.5 to 3.3


class TooSharp(UserWarning):
    """A road climbs over a shorter way than the contact of a wheel is resolved in."""


def steepest(layers: list[tuple[Kind, np.ndarray]]) -> tuple[float, float]:
    """Greatest slope and curvature (1/m)."""
    slope = curvature = 0.0
    for kind, block in layers:
        a, b = 0.0, 0.0
        if kind == Kind.BUMP:
            a, b = _bump(block)
        elif kind == Kind.GRID:
            shape = int(block[Grid.ROWS]) + (3 if block[Grid.PERIODIC] else 2), int(block[Grid.COLUMNS]) + 2
            a, b = _heights(block[Grid.SIZE :].reshape(shape), 1.0 / block[Grid.PER_X])
        elif kind == Kind.CURVED:
            rows, columns = int(block[Curved.ROWS]) + 2, int(block[Curved.COLUMNS]) + 2
            at = int(block[Curved.AT_HEIGHTS])
            a, b = _heights(block[at : at + rows * columns].reshape(rows, columns), block[Curved.INCREMENT])
        slope, curvature = max(slope, a), max(curvature, b)
    return slope, curvature


def _heights(z: np.ndarray, spacing: float) -> tuple[float, float]:
    """Along the rows, which is along the road."""
    first = np.abs(np.diff(z, axis=0)).max(initial=0.0) / spacing
    second = np.abs(np.diff(z, 2, axis=0)).max(initial=0.0) / spacing**2
    return float(first), float(second)


def _bump(block: np.ndarray) -> tuple[float, float]:
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
    return float(slope), float(curvature)
