"""A road in words and figures, for reports: read from its vector, so it shows what the kernels see."""

from typing import Any

import numpy as np

from tandem.multibody.ground.layout import ABSENT, HEAD, Bump, Curved, Grid, Head, Kind, Patch, Shape, Slope


def describe(road: np.ndarray) -> dict[str, Any]:
    """Friction of the ground, layers and patches, each with its figures in SI units."""
    layers = int(road[Head.LAYERS])
    entries = [(Kind(int(road[HEAD + 2 * k])), road[int(road[HEAD + 2 * k + 1]) :]) for k in range(layers)]
    patches = [road[int(road[HEAD + 2 * layers + k]) :] for k in range(int(road[Head.PATCHES]))]
    describe_layer = {Kind.SLOPE: _slope, Kind.GRID: _grid, Kind.BUMP: _bump, Kind.CURVED: _curved}
    return {
        "numbers": int(road[Head.LENGTH]),
        "friction": float(road[Head.FRICTION]),
        "layers": [describe_layer[kind](block) for kind, block in entries],
        "patches": [_patch(block) for block in patches],
    }


def _border(value: float) -> float | None:
    return None if abs(value) >= ABSENT else float(value)


def _slope(block: np.ndarray) -> dict[str, Any]:
    return {
        "kind": "slope",
        "grade": float(block[Slope.GRADE]),
        "bank": float(block[Slope.BANK]),
        "begin": None if block[Slope.FROM_START] else float(block[Slope.BEGIN]),
        "end": _border(block[Slope.END]),
        "transition": float(block[Slope.TRANSITION]),
    }


def _grid(block: np.ndarray) -> dict[str, Any]:
    rows, columns = int(block[Grid.ROWS]), int(block[Grid.COLUMNS])
    periodic = bool(block[Grid.PERIODIC])
    wide = block[Grid.SIZE : Grid.SIZE + (rows + 2 + periodic) * (columns + 2)].reshape(-1, columns + 2)
    heights = wide[1 : rows + 1, 1 : columns + 1]
    dx, dy = 1.0 / block[Grid.PER_X], 1.0 / block[Grid.PER_Y]
    return {
        "kind": "roughness" if periodic else "grid",
        "nodes": [rows, columns],
        "spacing": [float(dx), float(dy)],
        "x": [float(block[Grid.X]), float(block[Grid.X] + (rows - (not periodic)) * dx)],
        "y": [float(block[Grid.Y]), float(block[Grid.Y] + (columns - 1) * dy)],
        "height": [float(heights.min()), float(heights.max())],
        "rms": float(np.sqrt(np.mean(heights**2))),
        "steepest": float(
            max(np.abs(np.diff(heights, axis=0)).max() / dx, np.abs(np.diff(heights, axis=1)).max() / dy)
        ),
        "begin": _border(block[Grid.BEGIN]),
    }


def _bump(block: np.ndarray) -> dict[str, Any]:
    return {
        "kind": "bump",
        "shape": Shape(int(block[Bump.SHAPE])).name.lower(),
        "x": [float(block[Bump.X]), float(block[Bump.X] + block[Bump.LENGTH])],
        "y": [_border(block[Bump.RIGHT]), _border(block[Bump.LEFT])],
        "height": float(block[Bump.HEIGHT]),
    }


def _curved(block: np.ndarray) -> dict[str, Any]:
    points, columns = int(block[Curved.ROWS]), int(block[Curved.COLUMNS])
    begin = int(block[Curved.AT_HEIGHTS])
    wide = block[begin : begin + (points + 2) * (columns + 2)].reshape(points + 2, columns + 2)
    heights = wide[1:-1, 1:-1]
    return {
        "kind": "curved grid",
        "nodes": [points, columns],
        "straight": bool(block[Curved.STRAIGHT]),
        "length": float((points - 1) * block[Curved.INCREMENT]),
        "start": [float(block[Curved.X]), float(block[Curved.Y])],
        "heading": float(np.arctan2(block[Curved.SIN], block[Curved.COS])),
        "v": [float(block[Curved.RIGHT]), float(block[Curved.LEFT])],
        "height": [float(heights.min()), float(heights.max())],
    }


def _patch(block: np.ndarray) -> dict[str, Any]:
    stations = block[Patch.SIZE : Patch.SIZE + 3 * int(block[Patch.STATIONS])].reshape(-1, 3)
    return {
        "factor": float(block[Patch.FACTOR]),
        "edge": float(block[Patch.EDGE]),
        "stations": [[_border(value) for value in station] for station in stations],
    }
