"""How steep and how bent a road is: whether one point of contact will do for a wheel, and whether anything will.

Slopes and curvatures are bounds from the numbers of each layer, along x (or the reference line) and across: exact for
the straight part of a trapezoid, for its sides and for a cosine, of differences for heights on a grid. Layers lie on
top of each other, so theirs are added; of bumps those that share an x. Twist is not counted.
"""

from math import pi
from typing import NamedTuple

import numpy as np

from tandem.multibody.ground.layout import ABSENT, HEAD, Bump, Curved, Grid, Head, Kind, Shape, Slope

MOST_CURVATURE = 1.0  # 1/m; a wheel of 0.3 m touches in one point, and its load is wrong by a few per cent
MOST_ACROSS = 1.0  # slope across the road; a plane through one point does not represent a wall beside the wheel
# a step of 5 cm within 3.3 mm; above, the energy that a step takes depends on the time step by a tenth and more
MOST_SLOPE = 20.0


class TooSharp(UserWarning):
    """A road climbs over a shorter way than the contact of a wheel is resolved in."""


class Sharpness(NamedTuple):
    """Greatest slope and curvature (1/m) along the road and across."""

    along: float = 0.0
    across: float = 0.0
    bend_along: float = 0.0
    bend_across: float = 0.0

    @property
    def steepest(self) -> float:
        return max(self.along, self.across)

    @property
    def needs_outline(self) -> bool:
        """Whether a wheel touches in more than one point, however it heads."""
        return max(self.bend_along, self.bend_across) > MOST_CURVATURE or self.across > MOST_ACROSS


def sharpness(layers: list[tuple[Kind, np.ndarray]]) -> Sharpness:
    """Of the whole road."""
    others = [_layer(kind, block) for kind, block in layers if kind != Kind.BUMP]
    total = np.array(others).reshape(-1, 4).sum(axis=0)
    bumps = [block for kind, block in layers if kind == Kind.BUMP]
    if bumps:
        each = np.array([_bump(block) for block in bumps])
        begin = np.array([block[Bump.X] for block in bumps])
        end = begin + np.array([block[Bump.LENGTH] for block in bumps])
        # as many as lie on top of each other do so where one of them begins
        there = (begin[:, None] >= begin) & (begin[:, None] < end)
        total = total + np.max(there.astype(float) @ each, axis=0)
    return Sharpness(*(float(value) for value in total))


def most_bent(road: np.ndarray) -> float:
    """Greatest curvature of a road, 1/m: what is rounder than that touches it in one point."""
    places = [(Kind(int(road[HEAD + 2 * n])), int(road[HEAD + 2 * n + 1])) for n in range(int(road[Head.LAYERS]))]
    found = sharpness([(kind, road[at:]) for kind, at in places])
    return max(found.bend_along, found.bend_across)


def steepest_part(road: np.ndarray) -> str:
    """What of a road file makes it as steep as it is: the layer that climbs most."""
    count = int(road[Head.LAYERS])
    places = [int(road[HEAD + 2 * n + 1]) for n in range(count)]
    kinds = [Kind(int(road[HEAD + 2 * n])) for n in range(count)]
    found = [_layer(kind, road[at:]) for kind, at in zip(kinds, places, strict=True)]
    worst = max(range(count), key=lambda n: found[n].steepest)
    along, across = found[worst].along >= found[worst].across, found[worst].across
    if kinds[worst] == Kind.BUMP:
        number = kinds[:worst].count(Kind.BUMP)
        shape = road[places[worst] + Bump.SHAPE]
        key, value = ("ramp", Bump.RAMP) if shape == Shape.TRAPEZOID else ("length", Bump.LENGTH)
        if not along and across > 0.0:
            key, value = "side", Bump.SIDE
        return f"[[bumps]][{number}].{key} = {road[places[worst] + value]:g}"
    if kinds[worst] == Kind.GRID and road[places[worst] + Grid.PERIODIC]:
        return "roughness"
    return "surface"


def _layer(kind: Kind, block: np.ndarray) -> Sharpness:
    """`block` may go on behind its end."""
    if kind == Kind.BUMP:
        return _bump(block)
    if kind == Kind.SLOPE:
        grade, bank = abs(block[Slope.GRADE]), abs(block[Slope.BANK])
        changes = block[Slope.FROM_START] == 0.0 or block[Slope.END] < ABSENT
        return Sharpness(grade, bank, 1.5 * grade / block[Slope.TRANSITION] if changes else 0.0)
    if kind == Kind.GRID:
        rows, columns = int(block[Grid.ROWS]) + (3 if block[Grid.PERIODIC] else 2), int(block[Grid.COLUMNS]) + 2
        z = block[Grid.SIZE : Grid.SIZE + rows * columns].reshape(rows, columns)
        return _heights(z, 1.0 / block[Grid.PER_X], np.full(columns - 3, 1.0 / block[Grid.PER_Y]))
    rows, columns = int(block[Curved.ROWS]) + 2, int(block[Curved.COLUMNS]) + 2
    at, at_v = int(block[Curved.AT_HEIGHTS]), int(block[Curved.AT_POSITIONS])
    z = block[at : at + rows * columns].reshape(rows, columns)
    return _heights(z, block[Curved.INCREMENT], np.diff(block[at_v : at_v + columns - 2]))


def _heights(z: np.ndarray, spacing: float, gaps: np.ndarray) -> Sharpness:
    """Rows are across the road. The columns outside the data, first and last, are not data."""
    first = np.abs(np.diff(z, axis=0)).max(initial=0.0) / spacing
    second = np.abs(np.diff(z, 2, axis=0)).max(initial=0.0) / spacing**2
    slopes = np.diff(z[:, 1:-1], axis=1) / gaps
    bends = np.diff(slopes, axis=1) / (0.5 * (gaps[:-1] + gaps[1:]))
    across, bend = (np.abs(values).max(initial=0.0) for values in (slopes, bends))
    return Sharpness(float(first), float(across), float(second), float(bend))


def _bump(block: np.ndarray) -> Sharpness:
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
    side = block[Bump.SIDE]
    if block[Bump.RIGHT] > -ABSENT or block[Bump.LEFT] < ABSENT:
        return Sharpness(float(slope), float(1.5 * H / side), float(curvature), float(6.0 * H / side**2))
    return Sharpness(float(slope), 0.0, float(curvature), 0.0)
