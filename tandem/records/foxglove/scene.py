"""A machine's scene as messages: what is fixed in a frame once, transforms and bars after every look at it.

    /tf             where the solids, wheels and levers are in the world
    /scene          what they look like, each in its own frame; once, and the course they follow
    /scene/bars     what stretches between two frames
    /scene/ground   the surface, where it is not a plane: once, or again when the machine has left what was sent

A topic's last message holds for all times after it: that is what a viewer has whose time is moved.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from sim_service.contract.machine import Machine
from tandem.records.foxglove.messages import (
    LINES,
    MARKERS,
    TRANSFORMS,
    TRIANGLES,
    Marker,
    Transform,
    markers,
    transforms,
)
from tandem.view import geometry, style
from tandem.view.data_source import Frame
from tandem.view.ground import Ground, way_of
from tandem.view.motion import Motion, channel

TF, SCENE, BARS, GROUND = "/tf", "/scene", "/scene/bars", "/scene/ground"
TOPICS = {TF: TRANSFORMS, SCENE: MARKERS, BARS: MARKERS, GROUND: MARKERS}
WORLD = "world"
_RENEW = 14.0  # m from the middle of the ground that was sent, before it is sent again
_ABOVE = 0.02  # m, a line over the ground
_WAY = 0.05  # m, width of the course's line


class SceneMessages:
    """The messages of one run, in the order of their instants."""

    def __init__(self, model: Machine, params: np.ndarray, files: Mapping[str, bytes]):
        self._motion = Motion(model, params)
        self._scene = self._motion.scene
        self._ground = Ground.of(files, self._scene.ground)
        self._way = way_of(files)
        self._renewed: np.ndarray | None = None
        self._whole = self._ground.flat
        self._begun = False
        self._solids = _distinct([s.name for s in self._scene.solids], "")
        self._wheels = _distinct([w.name for w in self._scene.wheels], "wheel_")
        self._levers = _distinct([lever.name for lever in self._scene.levers], "lever_")

    def again(self) -> None:
        """Somebody new is watching: everything that is sent once is sent again."""
        self._begun, self._renewed = False, None

    def at(self, frame: Frame, at_ns: int) -> Iterator[tuple[str, bytes]]:
        """Topics and messages of one look; `at_ns` is UTC."""
        moved = self.moved(frame, at_ns)
        if moved is None:
            return
        yield TF, moved
        if not self._begun:
            self._begun = True
            yield SCENE, markers(at_ns, [*self._fixed(), *self._course()])
        if self._scene.bars:
            yield BARS, markers(at_ns, self._bars())
        origin = self._motion.machine()[0]
        if self._must_renew(origin):
            yield GROUND, markers(at_ns, self._surface(origin))

    def moved(self, frame: Frame, at_ns: int) -> bytes | None:
        """The message of transforms alone; None where the state cannot be drawn."""
        if frame.state is None or not self._motion.move(frame.state, frame.step):
            return None
        return transforms(at_ns, self._transforms(frame))

    # ---- what moves

    def _transforms(self, frame: Frame) -> list[Transform]:
        poses = []
        for k, name in enumerate(self._solids):
            place, axes = self._motion.solid(k)
            poses.append(Transform(name, place, geometry.quaternion(axes), WORLD))
        for name, centre, axes in zip(self._wheels, self._motion.centres, self._motion.axes, strict=True):
            poses.append(Transform(name, centre, geometry.quaternion(axes), WORLD))
        for name, lever in zip(self._levers, self._scene.levers, strict=True):
            angle = lever.factor * channel(frame.step, lever.channel)
            rotation = geometry.about(lever.axis, angle if np.isfinite(angle) else 0.0)
            poses.append(Transform(name, lever.at, geometry.times(rotation, style.lever_turn(lever)), self._solids[0]))
        return poses

    def _bars(self) -> list[Marker]:
        """Bars of one thickness are one marker."""
        ends, lines = self._motion.bars(), []
        for radius in sorted({bar.radius for bar in self._scene.bars}):
            which = [k for k, bar in enumerate(self._scene.bars) if bar.radius == radius]
            tints = [style.BARS.get(self._scene.bars[k].kind, style.BARS["rod"]) for k in which]
            colours = np.repeat(np.column_stack([np.array(tints) / 255.0, np.ones(len(which))]), 2, axis=0)
            lines.append(
                Marker(WORLD, f"bars of {1e3 * radius:g} mm", LINES, ends[which], style.BARS["rod"], width=2.0 * radius,
                       colours=colours.astype(np.float32))
            )  # fmt: skip
        return lines

    # ---- what is sent once

    def _fixed(self) -> Iterator[Marker]:
        for name, solid in zip(self._solids, self._scene.solids, strict=True):
            shell = (solid.shell, solid.faces) if len(solid.shell) else geometry.box(solid.low, solid.high)
            colour, opacity = style.SOLIDS[solid.kind]
            yield _mesh(name, "shell", shell, colour, opacity or 1.0)
            if len(solid.tubes):
                yield Marker(name, "tubes", LINES, solid.tubes, style.FRAME, width=2.0 * solid.tube_radius)
        for name, wheel in zip(self._wheels, self._scene.wheels, strict=True):
            ratio, scale = style.rim_ratio(self._scene.wheels), np.array([wheel.radius, wheel.width, wheel.radius])
            for part, (vertices, faces), colour in (
                ("tread", geometry.tread(1.0, 1.0, ratio), style.TREAD),
                ("rim", geometry.rim(ratio, 1.0), style.RIM),
            ):
                yield _mesh(name, part, (vertices * scale, faces), colour)
        for name, lever in zip(self._levers, self._scene.levers, strict=True):
            yield _mesh(name, "shape", style.lever_mesh(lever.kind, lever.size), style.DARK)

    def _course(self) -> list[Marker]:
        if self._way is None:
            return []
        line = self._way[1]
        line = np.column_stack([line, [self._ground.height(*p) + _ABOVE for p in line]])
        return [Marker(WORLD, "course", LINES, np.stack([line[:-1], line[1:]], axis=1), style.WAY, width=_WAY)]

    def _must_renew(self, origin: np.ndarray) -> bool:
        if self._ground.flat:
            return False
        return self._renewed is None or not (self._whole or np.linalg.norm(origin[:2] - self._renewed) < _RENEW)

    def _surface(self, origin: np.ndarray) -> list[Marker]:
        self._renewed = origin[:2].copy()
        x, y, self._whole = self._ground.axes_around(float(origin[0]), float(origin[1]))
        meshes = self._ground.meshes(x, y)
        empty = np.zeros((0, 3)), np.zeros((0, 3), np.int64)  # takes the place of what was there before
        return [_mesh(WORLD, name, meshes.get(name, empty), colour) for name, colour in style.GROUND.items()]


def _mesh(frame: str, name: str, mesh: geometry.Mesh, colour: style.Colour, opacity: float = 1.0) -> Marker:
    vertices, faces = mesh
    return Marker(frame, name, TRIANGLES, vertices[faces.ravel()], colour, opacity)


def _distinct(names: list[str], prefix: str) -> list[str]:
    """Names of frames: a second one of a name gets a number."""
    found: list[str] = []
    for name in names:
        number, unique = 2, f"{prefix}{name}"
        while unique in (*found, WORLD):
            unique, number = f"{prefix}{name}_{number}", number + 1
        found.append(unique)
    return found
