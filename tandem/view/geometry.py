"""Meshes of simple things, and the turning that puts them somewhere. Vertices and triangles as a page takes them."""

import math
from collections.abc import Sequence

import numpy as np

from tandem.multibody.rotations import rotated

Mesh = tuple[np.ndarray, np.ndarray]  # vertices (n, 3), triangles (m, 3)


def merged(meshes: Sequence[Mesh]) -> Mesh:
    if not meshes:
        return np.zeros((0, 3)), np.zeros((0, 3), np.int64)
    starts = np.cumsum([0, *(len(v) for v, _ in meshes[:-1])])
    return (
        np.concatenate([v for v, _ in meshes]),
        np.concatenate([f + start for (_, f), start in zip(meshes, starts, strict=True)]),
    )


def _grid(rows: int, columns: int, round_rows: bool, round_columns: bool) -> np.ndarray:
    """Triangles between rows x columns vertices; a direction may close."""
    across, along = np.meshgrid(
        np.arange(rows if round_rows else rows - 1),
        np.arange(columns if round_columns else columns - 1),
        indexing="ij",
    )
    i, j = across.ravel(), along.ravel()
    up, right = (i + 1) % rows, (j + 1) % columns
    a, b, c, d = i * columns + j, up * columns + j, up * columns + right, i * columns + right
    return np.concatenate([np.column_stack([a, b, c]), np.column_stack([a, c, d])])


def revolved_profile(profile: Sequence[tuple[float, float]], parts: int = 36, closed: bool = False) -> Mesh:
    """A profile of (radius, y) turned about the y axis."""
    r, y = np.array(profile, float).T
    angle = np.linspace(0.0, 2.0 * np.pi, parts, endpoint=False)
    vertices = np.stack(
        [np.outer(np.sin(angle), r), np.tile(y, (parts, 1)), np.outer(np.cos(angle), r)], axis=-1
    ).reshape(-1, 3)
    return vertices, _grid(parts, len(r), True, closed)


def cylinder(sides: int = 10) -> Mesh:
    """Along z from 0 to 1, of radius 1, closed."""
    angle = np.linspace(0.0, 2.0 * np.pi, sides, endpoint=False)
    ring = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(sides)])
    # the ends have vertices of their own: edges stay sharp
    top = ring + np.array([0.0, 0.0, 1.0])
    vertices = np.concatenate([ring, top, ring, top])
    k = np.arange(sides)
    after = (k + 1) % sides
    fan = np.arange(1, sides - 1)
    faces = [
        np.column_stack([k, after, sides + k]),
        np.column_stack([after, sides + after, sides + k]),
        2 * sides + np.column_stack([0 * fan, fan + 1, fan]),
        3 * sides + np.column_stack([0 * fan, fan, fan + 1]),
    ]
    return vertices, np.concatenate(faces)


def cone(sides: int = 12) -> Mesh:
    """Along z from 0 to 1, of radius 1 at its foot."""
    angle = np.linspace(0.0, 2.0 * np.pi, sides, endpoint=False)
    ring = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(sides)])
    k = np.arange(sides)
    after = (k + 1) % sides
    vertices = np.concatenate([ring, np.tile([0.0, 0.0, 1.0], (sides, 1))])
    return vertices, np.column_stack([k, after, sides + k])


def helix(turns: float = 6.0, wire: float = 0.16) -> Mesh:
    """A coil along z from 0 to 1, of radius 1; `wire` is that of the wire, against the coil's (flat once scaled)."""
    t = np.linspace(0.0, 1.0, round(turns * 14) + 1)
    section = np.linspace(0.0, 2.0 * np.pi, 5, endpoint=False)
    angle = 2.0 * np.pi * turns * t
    radius = 1.0 - wire + wire * np.cos(section)
    vertices = np.stack(
        [
            np.outer(np.cos(angle), radius),
            np.outer(np.sin(angle), radius),
            0.02 + 0.96 * t[:, None] + 0.025 * np.sin(section),
        ],
        axis=-1,
    ).reshape(-1, 3)
    faces = _grid(len(t), len(section), False, True)
    return vertices, faces[:, ::-1]


def torus(radius: float, thick: float) -> Mesh:
    """A ring about the y axis."""
    a = np.linspace(0.0, 2.0 * np.pi, 10, endpoint=False)
    return revolved_profile(list(zip(radius + thick * np.cos(a), thick * np.sin(a), strict=True)), 32, True)


def tread(radius: float, width: float, rim: float) -> Mesh:
    """About the y axis."""
    w, shoulder = 0.5 * width, 0.12 * radius
    profile = [
        (rim, -0.8 * w), (0.5 * (rim + radius), -w), (radius - shoulder, -w), (radius - 0.2 * shoulder, -0.75 * w),
        (radius, -0.4 * w), (radius, 0.4 * w), (radius - 0.2 * shoulder, 0.75 * w), (radius - shoulder, w),
        (0.5 * (rim + radius), w), (rim, 0.8 * w),
    ]  # fmt: skip
    return revolved_profile(profile, 40, True)


def rim(radius: float, width: float, spokes: int = 5) -> Mesh:
    """About the y axis: its bed, a hub and spokes, by which one sees it turn."""
    w = 0.4 * width
    bed = revolved_profile([(radius, -w), (radius, w), (0.88 * radius, w), (0.88 * radius, -w)], 32, True)
    hub = revolved_profile(
        [(0.001, -0.6 * w), (0.24 * radius, -0.6 * w), (0.24 * radius, 0.6 * w), (0.001, 0.6 * w)], 16
    )
    parts = [bed, hub]
    for k in range(spokes):
        angle = 2.0 * np.pi * k / spokes
        out = np.array([np.sin(angle), 0.0, np.cos(angle)])
        parts.append(box(np.array([-0.09 * radius, -0.45 * w, 0.15 * radius]), np.array([0.09, 0.0, 0.95]) * radius))
        v, f = parts[-1]
        v[v[:, 1] == 0.0, 1] = 0.45 * w
        across = np.array([out[2], 0.0, -out[0]])
        parts[-1] = (np.column_stack([v[:, :1] * across + v[:, 2:] * out]) + v[:, 1:2] * [0.0, 1.0, 0.0], f)
    return merged(parts)


def box(low: np.ndarray, high: np.ndarray) -> Mesh:
    corners = np.array([[(low, high)[(k >> i) & 1][i] for i in range(3)] for k in range(8)])
    sides = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    vertices = np.concatenate([corners[list(side)] for side in sides])
    faces = np.concatenate([[[4 * k, 4 * k + 1, 4 * k + 2], [4 * k, 4 * k + 2, 4 * k + 3]] for k in range(6)])
    return vertices, faces


def tubes(ends: np.ndarray, radius: float) -> Mesh:
    """Straight tubes between pairs of points (n, 2, 3), with round joints."""
    parts = []
    for a, b in ends:
        length = float(np.linalg.norm(b - a))
        if length < 1e-9:
            continue
        v, f = cylinder(8)
        parts.append((rotated(v * [radius, radius, length], along((b - a)[None])[0]) + a, f))
    return merged(parts)


def flat(mesh: Mesh) -> Mesh:
    """Every triangle with vertices of its own: edges look sharp."""
    v, f = mesh
    return v[f.ravel()], np.arange(3 * len(f)).reshape(-1, 3)


# ---- turning ---------------------------------------------------------------------------------------------------------


def along(directions: np.ndarray) -> np.ndarray:
    """Quaternions (n, 4) that turn z into these directions the shortest way."""
    size = np.linalg.norm(directions, axis=1)
    d = directions / np.maximum(size, 1e-12)[:, None]
    d[size < 1e-12] = (0.0, 0.0, 1.0)
    q = np.column_stack([1.0 + d[:, 2], -d[:, 1], d[:, 0], np.zeros(len(d))])
    down = q[:, 0] < 1e-9
    q[down] = (0.0, 1.0, 0.0, 0.0)
    return np.asarray(q / np.linalg.norm(q, axis=1)[:, None])


def quaternion(matrix: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation matrix; w, x, y, z."""
    (a, b, c), (d, e, f), (g, h, i) = matrix.tolist()
    # the largest of the four is safe to divide by
    squares = (1.0 + a + e + i, 1.0 + a - e - i, 1.0 - a + e - i, 1.0 - a - e + i)
    k = squares.index(max(squares))
    x, y, z, xy, xz, yz = h - f, c - g, d - b, b + d, c + g, f + h
    rows = ((squares[0], x, y, z), (x, squares[1], xy, xz), (y, xy, squares[2], yz), (z, xz, yz, squares[3]))
    q = np.array(rows[k])
    return np.asarray(q / math.sqrt(sum(v * v for v in rows[k])))


def about(axis: np.ndarray, angle: float) -> np.ndarray:
    """The quaternion of a turn about a unit axis."""
    s = math.sin(0.5 * angle)
    return np.array([math.cos(0.5 * angle), s * axis[0], s * axis[1], s * axis[2]])


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of quaternions: first b, then a."""
    # by hand: for three numbers NumPy's own ways cost tens of times as much
    w, x, y, z = a.tolist()
    p, q, r, s = b.tolist()
    return np.array(
        [
            w * p - x * q - y * r - z * s,
            w * q + x * p + y * s - z * r,
            w * r - x * s + y * p + z * q,
            w * s + x * r - y * q + z * p,
        ]
    )


def unit(vector: np.ndarray) -> np.ndarray:
    """The vector at length 1; a zero vector stays."""
    x, y, z = vector.tolist()
    return vector / (math.sqrt(x * x + y * y + z * z) or 1.0)
