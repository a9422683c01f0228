"""What lies below a machine and ahead of it, from the files of its run: a surface, and the course its source follows.

Which of its files is the surface the machine says in its scene (`Scene.ground`); they are known by their names in a
record (`<that file>:NAME`, `manoeuvre.toml`). What is wrong with them was reported before the run began; here it only
means that there is nothing to draw.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sync.config.toml import parse_toml
from sync.errors import ConfigError
from tandem.view import geometry

TILE = 4.0  # m; tiles of two tones show how the ground moves
_FINE = 0.4  # m, between the nodes near the machine
_REACH = 24.0  # m, of the fine part
_FAR = 400.0  # m, how far the coarse part goes
_OUTER = 20  # intervals of the coarse part, each side
_MOST = 55_000  # triangles
_WAYPOINTS = 2000  # at most


class Ground:
    """A surface that can be asked for its height; flat without any data."""

    def __init__(self, data: np.ndarray | None = None):
        self._data = data
        self.flat = True
        self._extent: tuple[np.ndarray, np.ndarray] | None = None
        if data is None:
            return
        from tandem.multibody import ground as roads

        self._surface = roads.surface
        road = roads.describe(data)
        self.flat = not road["layers"] and not road["patches"]
        self._usual = road["friction"]
        grids = [layer for layer in road["layers"] if layer["kind"] == "grid"]
        if len(grids) == 1 and len(road["layers"]) == 1:
            (x0, x1), (y0, y1) = grids[0]["x"], grids[0]["y"]
            self._extent = np.array([x0, y0]), np.array([x1, y1])

    @staticmethod
    def of(files: Mapping[str, bytes], which: str) -> "Ground":
        """`which` of a machine's files; flat without one."""
        parts = {name.partition(":")[2]: data for name, data in files.items() if name.partition(":")[0] == which}
        parts.pop("", None)
        if not parts:
            return Ground()
        from tandem.multibody import ground as roads

        try:
            return Ground(roads.road_from_sources(parts))
        except (ConfigError, ValueError):
            return Ground()

    def height(self, x: float, y: float) -> float:
        if self.flat or self._data is None or not (math.isfinite(x) and math.isfinite(y)):
            return 0.0
        return float(self._surface(self._data, x, y)[0])

    def normal(self, x: float, y: float) -> np.ndarray:
        if self.flat or self._data is None or not (math.isfinite(x) and math.isfinite(y)):
            return np.array([0.0, 0.0, 1.0])
        _, slope_x, slope_y, _ = self._surface(self._data, x, y)
        n = np.array([-slope_x, -slope_y, 1.0])
        return geometry.unit(n)

    def axes_around(self, x: float, y: float) -> tuple[np.ndarray, np.ndarray, bool]:
        """Nodes of a mesh along x and y, and whether it will do wherever the machine goes: as dense as the budget
        allows over a surface with an end, else fine around (x, y) and coarse farther away."""
        if self._extent is not None:
            low, high = (TILE * np.round(corner / TILE) for corner in self._extent)
            for parts in range(round(TILE / _FINE), 3, -1):  # of a tile
                n = np.round((high - low) / TILE * parts).astype(int) + 1
                if 2 * np.prod(n + _OUTER - 1) <= _MOST and np.all(n > 1):
                    inner = (np.linspace(low[k], high[k], n[k]) for k in range(2))
                    across, along = (_with_outskirts(nodes, _OUTER // 2) for nodes in inner)
                    return across, along, True
        centre = 2.0 * TILE * np.round(np.array([x, y]) / (2.0 * TILE))
        fine = np.arange(round(2.0 * _REACH / _FINE) + 1) * _FINE - _REACH
        across, along = (_with_outskirts(fine + c, _OUTER) for c in centre)
        return across, along, False

    def meshes(self, x: np.ndarray, y: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Vertices and triangles of the surface over these nodes: tiles of two tones, and what is slippery."""
        from tandem.multibody.ground.field import surface_over

        assert self._data is not None
        values = np.empty((len(x), len(y), 4))
        surface_over(self._data, x, y, values)
        vertices = np.stack([*np.meshgrid(x, y, indexing="ij"), values[:, :, 0]], axis=-1)
        middle_x, middle_y = 0.5 * (x[1:] + x[:-1]), 0.5 * (y[1:] + y[:-1])
        odd = (np.floor(middle_x / TILE)[:, None] + np.floor(middle_y / TILE)[None, :]) % 2.0 == 1.0
        small = (np.diff(x)[:, None] < TILE) & (np.diff(y)[None, :] < TILE)
        friction = values[:, :, 3]
        friction = 0.25 * (friction[1:, 1:] + friction[:-1, 1:] + friction[1:, :-1] + friction[:-1, :-1])
        slippery = friction < 0.95 * self._usual
        a = np.arange(len(x) - 1)[:, None] * len(y) + np.arange(len(y) - 1)[None, :]
        found = {}
        for name, which in (
            ("even", ~slippery & ~(odd & small)),
            ("odd", ~slippery & odd & small),
            ("slippery", slippery),
        ):
            k = a[which]
            faces = np.concatenate(
                [np.column_stack([k, k + len(y), k + len(y) + 1]), np.column_stack([k, k + len(y) + 1, k + 1])]
            )
            used = np.zeros(len(x) * len(y), bool)
            used[faces] = True
            if len(faces):
                found[name] = vertices.reshape(-1, 3)[used], (np.cumsum(used) - 1)[faces]
        return found


def _with_outskirts(nodes: np.ndarray, count: int) -> np.ndarray:
    """More nodes on both sides, ever farther apart."""
    growth = np.arange(1, count + 1) / count
    away = _FAR * growth**3 + (nodes[1] - nodes[0]) * np.arange(1, count + 1)
    return np.concatenate([nodes[0] - away[::-1], nodes, nodes[-1] + away])


def way_of(files: Mapping[str, bytes]) -> tuple[np.ndarray, np.ndarray] | None:
    """The course that a manoeuvre follows: its waypoints, and a line through them (x, y); None without one."""
    try:
        follow: Any = parse_toml(files["manoeuvre.toml"], "manoeuvre.toml")["follow"]
        points = np.array(follow["path"], float)
        closed = bool(follow.get("closed", False))
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError):
        return None
    if points.ndim != 2 or points.shape[1] != 2 or not 2 <= len(points) <= _WAYPOINTS or not np.isfinite(points).all():
        return None
    return points, _smooth(points, closed)


def _smooth(points: np.ndarray, closed: bool) -> np.ndarray:
    """A line through points about every metre, as it is followed: pieces of cubics, parameter by root of chord."""
    before, after = (points[-1], points[0]) if closed else (2 * points[0] - points[1], 2 * points[-1] - points[-2])
    ring = np.vstack([before, points, after, points[1]]) if closed else np.vstack([before, points, after])
    knots = np.cumsum([0.0, *np.maximum(np.sqrt(np.linalg.norm(np.diff(ring, axis=0), axis=1)), 1e-6)])
    tangents = np.zeros_like(ring)
    gaps = np.diff(knots)[:, None]
    rates = np.diff(ring, axis=0) / gaps
    tangents[1:-1] = (rates[:-1] * gaps[1:] + rates[1:] * gaps[:-1]) / (gaps[1:] + gaps[:-1])
    out = []
    for k in range(1, len(ring) - 2):
        n = max(2, min(200, round(float(np.linalg.norm(ring[k + 1] - ring[k])))))
        t = np.linspace(0.0, 1.0, n, endpoint=False)[:, None]
        h = float(gaps[k, 0])
        out.append(
            (1 + 2 * t) * (1 - t) ** 2 * ring[k]
            + t * (1 - t) ** 2 * h * tangents[k]
            + t**2 * (3 - 2 * t) * ring[k + 1]
            + t**2 * (t - 1) * h * tangents[k + 1]
        )
    return np.vstack([*out, ring[-2]])
