"""What an omni machine looks like: platform, disks, every roller by its profile, and the points where they touch.

Frames: of the platform (of a bench: of the wheel's yaw), of every wheel, of every roller, and of every wheel's point of
contact.
"""

from collections.abc import Callable

import numpy as np

from sim_service.contract.scene import Camera, Scene, Solid, box, usual_cameras
from tandem.machines.omni.build import Ground
from tandem.machines.omni.description import OmniFile
from tandem.machines.omni.wheel import Wheel
from tandem.multibody.contact.kinds import AT, AXIS, FLAGS, JOINT, PARENT, SYMMETRIC, TURN
from tandem.multibody.contact.tree_tables import TreeTables
from tandem.multibody.rotations import about_axis

_AROUND, _ALONG = 10, 8


def make_frames(
    tree: TreeTables, wheels: list[Wheel], ground: Ground
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """Fills the poses of what is drawn from the joint coordinates."""
    each = wheels[0].rollers
    body = 5 if len(wheels) > 1 else 4

    def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        R: list[np.ndarray] = []
        P: list[np.ndarray] = []
        for k, row in enumerate(tree.links):
            numbers = np.array(tree.numbers[k])
            up, at = (R[row[PARENT]], P[row[PARENT]]) if row[PARENT] >= 0 else (np.eye(3), np.zeros(3))
            axis = numbers[AXIS : AXIS + 3]
            at = at + up @ numbers[AT : AT + 3]
            if row[JOINT] == TURN:
                R.append(up @ about_axis(axis, float(state[k])))
            else:
                R.append(up)
                at = at + up @ axis * state[k]
            P.append(at)
        out[0, 0], out[0, 1:] = P[body], R[body].T
        w = -1
        for k, row in enumerate(tree.links[body + 1 :], body + 1):
            if row[FLAGS] & SYMMETRIC == 0:
                w += 1
            out[k - body, 0], out[k - body, 1:] = P[k], R[k].T
        # where each wheel is nearest to the floor
        first = len(tree.links) - body
        nearest = ground.nearest(state).reshape(len(wheels), each, 4)
        for w, rollers in enumerate(nearest):
            out[first + w, 0] = rollers[int(np.argmin(rollers[:, 0])), 1:]

    return frames


def roller_skin(wheel: Wheel, axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a roller about its axis."""
    first = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    first /= np.linalg.norm(first)
    second = np.cross(axis, first)
    rings = []
    for k in range(-_ALONG // 2, _ALONG // 2 + 1):
        s, r = wheel.profile(wheel.alpha_deg * abs(k) / (_ALONG // 2))
        turns = 2.0 * np.pi * np.arange(_AROUND) / _AROUND
        around = np.outer(np.cos(turns), first) + np.outer(np.sin(turns), second)
        rings.append(np.sign(k) * s * axis + max(r, 1e-5) * around)
    faces = []
    for k in range(_ALONG):
        for i in range(_AROUND):
            a, b = _AROUND * k + i, _AROUND * k + (i + 1) % _AROUND
            faces += [(a, b, a + _AROUND), (b, b + _AROUND, a + _AROUND)]
    return np.vstack(rings), np.array(faces, np.int64)


def disk_skin(k1: np.ndarray, radius: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    around = 24
    up, ahead = np.array([0.0, 0.0, 1.0]), np.cross(np.array([0.0, 0.0, 1.0]), k1)
    turns = 2.0 * np.pi * np.arange(around) / around
    rim = radius * (np.outer(np.cos(turns), up) + np.outer(np.sin(turns), ahead))
    points = np.vstack([rim - 0.5 * width * k1, rim + 0.5 * width * k1, -0.5 * width * k1, 0.5 * width * k1])
    faces = []
    for i in range(around):
        j = (i + 1) % around
        faces += [
            (i, around + i, j),
            (j, around + i, around + j),
            (i, j, 2 * around),
            (around + j, around + i, 2 * around + 1),
        ]
    return points, np.array(faces, np.int64)


def cross_skin(reach: float, half: float) -> tuple[np.ndarray, np.ndarray]:
    """Two bars across each other, on the floor: they are seen beside the roller that hides their middle."""
    points: list[tuple[float, float, float]] = []
    faces: list[tuple[int, int, int]] = []
    for x, y in ((reach, half), (half, reach)):
        first = len(points)
        points += [(sx * x, sy * y, z) for sx in (-1.0, 1.0) for sy in (-1.0, 1.0) for z in (0.0, 2.0 * half)]
        for a, b, c, d in ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)):
            faces += [(first + a, first + b, first + c), (first + a, first + c, first + d)]
    return np.array(points), np.array(faces, np.int64)


def scene(file: OmniFile, tree: TreeTables, wheels: list[Wheel]) -> Scene:
    R = wheels[0].radius
    body = 5 if len(wheels) > 1 else 4
    size = R
    solids = []
    if file.platform is not None:
        places = np.array([placed.at for placed in file.platform.wheels])
        x, y = np.abs(places).max(axis=0) * 0.75
        size = float(np.abs(places).max() + R)
        solids.append(box("platform", 0, (-x, -y, 0.6 * R), (x, y, 1.1 * R)))
    else:
        solids.append(box("fork", 0, (-0.1 * R, -0.06 * R, -0.1 * R), (0.1 * R, 0.06 * R, 0.1 * R)))
    w = -1
    for k, row in enumerate(tree.links[body + 1 :], body + 1):
        axis = np.array(tree.numbers[k][AXIS : AXIS + 3])
        name = tree.names[k].removesuffix("_angle")
        kind = "dark" if row[FLAGS] & SYMMETRIC else "body"
        if kind == "dark":
            points, faces = roller_skin(wheels[w], axis)
        else:
            w += 1
            wheel = wheels[w]
            points, faces = disk_skin(axis, max(0.3 * R, wheel.distance - 0.7 * (R - wheel.distance)), 0.15 * R)
        low, high = points.min(axis=0), points.max(axis=0)
        solids.append(Solid(name, k - body, low, high, shell=points, faces=faces, kind=kind))
    points, faces = cross_skin(0.9 * R, 0.05 * R)
    for w in range(len(wheels)):
        solids.append(
            Solid(f"contact{w + 1}", len(tree.links) - body + w, points.min(axis=0), points.max(axis=0),
                  shell=points, faces=faces, kind="mark")
        )  # fmt: skip
    away = 2.8 * size  # of a bench this is the wheel, of a platform all of it
    # drawn in software, a floor without end hides what is some millimetres above it where less is cut off
    side = Camera("side", (0.0, -away, 0.7 * away), (0.0, 0.0, 0.0), "heading", near=0.2 * away)
    cameras = (side, *usual_cameras(1.6 * size))
    return Scene(frames=len(tree.links) - body + len(wheels), solids=tuple(solids), size=3.0 * size, cameras=cameras,
                 ground="road")  # fmt: skip
