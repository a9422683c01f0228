"""The scene of a page: the machine, its wheels, the ground below it, forces, the path behind it, cameras.

Nodes are made once; a frame only moves them. What hangs on the machine hangs on one node that moves with it, so that
nothing lags behind anything else. The ground is sent once, or again when the machine has left what was sent of it. Two
stages may share a page: one of them is a ghost, translucent and without a world of its own. Numbers that are not finite
leave everything where it was.
"""

import math
from typing import Any

import numpy as np

from sim_service.contract.scene import Scene, usual_cameras
from tandem.multibody.rotations import cross
from tandem.reports.html.markup import Markup, markup, paragraphs, show
from tandem.view import geometry, style
from tandem.view.cameras import Cameras, Subject
from tandem.view.data_source import DataSource, Frame
from tandem.view.ground import Ground, way_of
from tandem.view.motion import Motion, channel
from tandem.view.predicted import PredictedPaths
from tandem.view.style import Colour

_LOAD: Colour = (60, 130, 200)
_FORCE: Colour = (214, 74, 50)
_PATH: Colour = (36, 120, 210)
_CONE: Colour = (236, 110, 30)
_SKY: Colour = (226, 233, 240)

_LONG = 0.5  # m, the arrow of a wheel's load at rest
_AWAY = np.array([0.0, 0.0, -200.0])  # below any ground
_LEAST = 0.02  # m; shorter arrows are not drawn
_RENEW = 14.0  # m from the middle of the ground that was sent, before it is sent again
_STRIDE = 0.8  # m between points of the path
_CHUNK, _CHUNKS = 48, 20  # points of the path in a node, and nodes: some 750 m
_FASTEST, _UNSEEN_S = 100.0, 1.5  # m/s and s; what moves faster, or was not seen for longer, was put there
_ABOVE = 0.02  # m, lines over the ground
_NO_SCENE = markup("This machine describes no scene (<code>Shown(scene=…)</code>): its figures are in the other tabs.")
_BELOW = 0.02  # sizes of the machine, below the floor


class SceneView:
    def __init__(
        self, server: Any, feed: DataSource, prefix: str = "", colour: Colour | None = None, ghost: bool = False
    ) -> None:
        self._server, self._feed, self._prefix, self._ghost = server, feed, prefix.rstrip("/"), ghost
        self._opacity = 0.3 if ghost else None
        self._colour = colour
        self.scene: Scene = feed.model.shown.scene or Scene()
        files = getattr(feed, "files", {})
        self.ground = Ground.of(files, self.scene.ground)
        self._renewed: np.ndarray | None = None
        self._ground_nodes: dict[str, Any] = {}
        self._whole = self.ground.flat
        self._toggles: dict[str, Any] = {}
        self._motion = Motion(feed.model, feed.params)
        with server.atomic():
            if not ghost:
                self._make_world()
                self._make_way(files)
            self._make_machine()
            self._make_arrows()
            self._make_path()
            self._predicted = PredictedPaths(server, feed, self.ground, self._prefix)
        self.cameras = None if ghost else self._make_cameras()
        if not ghost:
            self._make_toggles()

    # ---- a frame -----------------------------------------------------------------------------------------------------

    def show(self, frame: Frame) -> None:
        if not self._motion.move(frame.state, frame.step):
            return
        origin, rotation = self._motion.machine()
        self._root.position = origin
        self._root.wxyz = geometry.quaternion(rotation)
        self._move_bars(origin, rotation)
        self._move_wheels(origin, rotation)
        self._move_solids(origin, rotation)
        self._move_levers(frame.step)
        self._move_arrows(frame.step, origin, rotation)
        self._lengthen_path(origin, frame.t_ns)
        self._predicted.show(frame, origin)
        if not self._ghost:
            self._renew_ground(origin)
            self._see_below()
        if self.cameras is not None:
            self.cameras.follow(Subject(origin, rotation), frame.t_ns)

    # ---- the machine -------------------------------------------------------------------------------------------------

    def _name(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _tint(self, colour: Colour) -> Colour:
        """The colour of a part; all of a ghost has one colour, lighter where the part's own is lighter."""
        if self._colour is None:
            return colour
        light = 0.6 + 0.4 * sum(colour) / 765.0
        r, g, b = (round(light * c) for c in self._colour)
        return r, g, b

    def _mesh(self, name: str, mesh: geometry.Mesh, colour: Colour, opacity: float | None = None, **more: Any) -> Any:
        return self._server.scene.add_mesh_simple(
            self._name(name), *mesh, color=self._tint(colour), opacity=opacity or self._opacity, **more
        )

    def _make_machine(self) -> None:
        scene, add = self.scene, self._server.scene
        self._root = add.add_frame(self._name("machine"), show_axes=False)
        self._solids: list[Any] = []
        self._shells: list[Any] = []
        for k, solid in enumerate(scene.solids):
            name = f"machine/{solid.name}"
            self._solids.append(self._root if k == 0 else add.add_frame(self._name(name), show_axes=False))
            shell = (solid.shell, solid.faces) if len(solid.shell) else geometry.box(solid.low, solid.high)
            colour, opacity = style.SOLIDS[solid.kind]
            if self._ghost and opacity is not None:
                opacity = 0.2
            node = self._mesh(
                f"{name}/shell", geometry.flat(shell), colour, opacity, side="double", flat_shading=True,
                receive_shadow=False,
            )  # fmt: skip
            if solid.kind == "body":
                self._shells.append(node)
            if len(solid.tubes):
                self._mesh(f"{name}/frame", geometry.tubes(solid.tubes, solid.tube_radius), style.FRAME)
        self._make_bars()
        self._make_wheels()
        self._levers = []
        for lever in scene.levers:
            name = f"machine/{lever.name}"
            handle = add.add_frame(self._name(name), show_axes=False, position=lever.at)
            base = style.lever_turn(lever)
            handle.wxyz = base
            self._mesh(f"{name}/it", style.lever_mesh(lever.kind, lever.size), style.DARK)
            self._levers.append((handle, lever, base))

    def _make_wheels(self) -> None:
        """Instances of one tread and one rim, of radius and width 1."""
        n = len(self.scene.wheels)
        self._wheels = []
        if n == 0:
            return
        scales = np.array([(w.radius, w.width, w.radius) for w in self.scene.wheels])
        ratio = style.rim_ratio(self.scene.wheels)
        for name, mesh, colour in (
            ("treads", geometry.tread(1.0, 1.0, ratio), style.TREAD),
            ("rims", geometry.flat(geometry.rim(ratio, 1.0)), style.RIM),
        ):
            self._wheels.append(
                self._server.scene.add_batched_meshes_simple(
                    self._name(f"machine/{name}"), *mesh, np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)), np.zeros((n, 3)),
                    batched_scales=scales, batched_colors=_light(self._tint(colour)), opacity=self._opacity, lod="off",
                    side="double",
                )
            )  # fmt: skip

    def _make_bars(self) -> None:
        """Bars of one shape are instances of one mesh."""
        self._batches = []
        kinds = [bar.kind for bar in self.scene.bars]
        for shape, mesh in (("spring", geometry.helix()), ("bar", geometry.cylinder())):
            which = np.array([k for k, kind in enumerate(kinds) if (kind == "spring") == (shape == "spring")], np.int64)
            if not len(which):
                continue
            radii = np.array([self.scene.bars[k].radius for k in which])
            colours = np.array(
                [_light(self._tint(style.BARS.get(kinds[k], style.BARS["rod"]))) for k in which], np.uint8
            )
            n = len(which)
            handle = self._server.scene.add_batched_meshes_simple(
                self._name(f"machine/{shape}s"), *mesh, np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)), np.zeros((n, 3)),
                batched_scales=np.full((n, 3), 1e-3), batched_colors=colours, opacity=self._opacity, lod="off",
            )  # fmt: skip
            self._batches.append((handle, which, radii))

    def _move_bars(self, origin: np.ndarray, rotation: np.ndarray) -> None:
        if not self._batches:
            return
        own = (self._motion.bars() - origin) @ rotation
        for handle, which, radii in self._batches:
            start, end = own[which, 0], own[which, 1]
            way = end - start
            length = np.maximum(np.linalg.norm(way, axis=1), 1e-6)
            handle.batched_positions = start.astype(np.float32)
            handle.batched_wxyzs = geometry.along(way).astype(np.float32)
            handle.batched_scales = np.column_stack([radii, radii, length]).astype(np.float32)

    def _move_wheels(self, origin: np.ndarray, rotation: np.ndarray) -> None:
        if not self._wheels:
            return
        places = ((np.array(self._motion.centres) - origin) @ rotation).astype(np.float32)
        wxyzs = np.array([geometry.quaternion(rotation.T @ axes) for axes in self._motion.axes], np.float32)
        for handle in self._wheels:
            handle.batched_positions = places
            handle.batched_wxyzs = wxyzs

    def _move_solids(self, origin: np.ndarray, rotation: np.ndarray) -> None:
        for number, handle in enumerate(self._solids[1:], 1):
            place, axes = self._motion.solid(number)
            handle.position = (place - origin) @ rotation
            handle.wxyz = geometry.quaternion(rotation.T @ axes)

    def _move_levers(self, step: Any) -> None:
        for handle, lever, base in self._levers:
            angle = lever.factor * channel(step, lever.channel)
            if math.isfinite(angle):
                handle.wxyz = geometry.times(geometry.about(lever.axis, angle), base)

    # ---- forces ------------------------------------------------------------------------------------------------------

    def _make_arrows(self) -> None:
        n = len(self.scene.arrows)
        self._loads = self._forces = None
        if n == 0 or self._ghost:
            return
        for name, colour in (("loads", _LOAD), ("forces", _FORCE)):
            handle = self._server.scene.add_arrows(
                self._name(f"machine/{name}"), np.zeros((n, 2, 3)), _light(self._tint(colour)), shaft_radius=0.016,
                head_radius=0.038, head_length=0.09,
            )  # fmt: skip
            if name == "loads":
                self._loads = handle
            else:
                self._forces = handle

    def _move_arrows(self, step: Any, origin: np.ndarray, rotation: np.ndarray) -> None:
        if self._loads is None or self._forces is None or not self._loads.visible:
            return
        scale = 1.0 / max(float(self._n_per_m.value), 1.0)
        ends = np.zeros((2, len(self.scene.arrows), 2, 3))
        for k, arrow in enumerate(self.scene.arrows):
            wheel = self.scene.wheels[arrow.wheel]
            centre, axle = self._motion.centres[arrow.wheel], self._motion.axes[arrow.wheel][:, 1]
            normal = self.ground.normal(centre[0], centre[1])
            down = geometry.unit(float(normal @ axle) * axle - normal)
            foot = centre + wheel.radius * down
            foot[2] = max(foot[2], self.ground.height(foot[0], foot[1]))
            ahead = geometry.unit(cross(axle, normal))
            left = cross(normal, ahead)
            along, across, load = (
                arrow.share * scale * channel(step, name) for name in (arrow.along, arrow.across, arrow.load)
            )
            # beside the wheel, where it is not hidden by it
            outwards = math.copysign(0.5 * wheel.width + 0.06, float((centre - origin) @ rotation[:, 1]))
            ends[:, k] = foot + 0.02 * normal + outwards * left
            ends[0, k, 1] += load * normal
            ends[1, k, 1] += along * ahead + across * left
        if not np.isfinite(ends).all():
            return
        ends = (ends - origin) @ rotation
        short = np.linalg.norm(ends[:, :, 1] - ends[:, :, 0], axis=-1) < _LEAST
        ends[short] = _AWAY  # an arrow of no length still has a head
        self._loads.points = ends[0].astype(np.float32)
        self._forces.points = ends[1].astype(np.float32)

    # ---- the path ----------------------------------------------------------------------------------------------------

    def _make_path(self) -> None:
        colour = self._colour or _PATH
        add = self._server.scene.add_line_segments
        self._path_root = self._server.scene.add_frame(self._name("path"), show_axes=False)
        self._chunks = [
            add(self._name(f"path/{k}"), np.zeros((_CHUNK, 2, 3)), colour, thickness=2.5, thickness_units="screen")
            for k in range(_CHUNKS)
        ]
        self._segments = np.zeros((_CHUNK, 2, 3), np.float32)
        self._at_chunk, self._at_point = 0, 0
        self._last, self._last_ns = np.zeros(3), -(1 << 62)
        self._newest = add(self._name("path/now"), np.zeros((1, 2, 3)), colour, thickness=2.5, thickness_units="screen")

    def _lengthen_path(self, origin: np.ndarray, t_ns: int) -> None:
        here = np.array([origin[0], origin[1], self.ground.height(origin[0], origin[1]) + _ABOVE])
        passed = 1e-9 * (t_ns - self._last_ns)
        self._last_ns = t_ns
        gone = float(np.linalg.norm(here - self._last))
        jumped = not 0.0 <= passed < _UNSEEN_S or gone > _STRIDE + _FASTEST * passed
        if jumped:  # put somewhere else, or no page was open: no line leads there
            self._last = here
        self._newest.points = np.array([[self._last, here]], np.float32)
        if jumped or gone < _STRIDE:
            return
        self._segments[self._at_point :] = here  # what is still ahead has no length
        self._segments[self._at_point, 0] = self._last
        self._chunks[self._at_chunk].points = self._segments
        self._last = here
        self._at_point += 1
        if self._at_point == _CHUNK:  # the oldest node is used again
            self._at_point, self._at_chunk = 0, (self._at_chunk + 1) % _CHUNKS

    # ---- the world ---------------------------------------------------------------------------------------------------

    def _make_world(self) -> None:
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.world_axes.visible = False
        scene.set_background_image(_sky(), format="png")
        scene.configure_fog(60.0, 320.0, color=_SKY)
        self._grid: Any = None
        self._floor = scene.add_frame(self._name("floor"), show_axes=False)
        if self._feed.model.shown.scene is None:
            return
        if not self.ground.flat:
            return
        # cells of a metre tell nothing beside a machine of some decimetres
        cell = 1.0 if self.scene.size >= 1.0 else 0.1
        self._grid = scene.add_grid(
            self._name("floor/grid"), infinite_grid=True, cell_size=cell, section_size=10.0 * cell,
            cell_color=(190, 194, 197), section_color=(158, 163, 168), cell_thickness=0.8, section_thickness=1.2,
            fade_distance=160.0 * cell,
            plane_color=(206, 210, 213), plane_opacity=1.0, shadow_opacity=0.2,
        )  # fmt: skip

    def _see_below(self) -> None:
        """A floor with something of the machine below it is seen through."""
        if self._grid is None or self._grid.plane_opacity < 1.0 or not self.scene.solids:
            return
        frames = self._motion.poses[[solid.frame for solid in self.scene.solids]]
        low, high = (np.array([getattr(solid, end) for solid in self.scene.solids]) for end in ("low", "high"))
        upward = frames[:, 1:, 2]  # of each axis
        lowest = frames[:, 0, 2] + np.minimum(low * upward, high * upward).sum(axis=1)
        if lowest.min() < -_BELOW * self.scene.size:
            self._grid.plane_opacity = 0.25

    def _renew_ground(self, origin: np.ndarray) -> None:
        if self._renewed is not None and (self._whole or np.linalg.norm(origin[:2] - self._renewed) < _RENEW):
            return
        self._renewed = origin[:2].copy()
        if self.ground.flat:
            return
        x, y, self._whole = self.ground.axes_around(float(origin[0]), float(origin[1]))
        meshes = self.ground.meshes(x, y)
        for name in set(self._ground_nodes) - set(meshes):
            self._ground_nodes.pop(name).remove()
        for name, mesh in meshes.items():  # one of the same name takes the place of the one before
            self._ground_nodes[name] = self._server.scene.add_mesh_simple(
                self._name(f"floor/{name}"), *mesh, color=style.GROUND[name], side="double", cast_shadow=False
            )

    def _make_way(self, files: dict[str, bytes]) -> None:
        self._way: Any = None
        found = way_of(files)
        if found is None:
            return
        points, line = found
        scene = self._server.scene
        self._way = scene.add_frame(self._name("course"), show_axes=False)
        line = np.column_stack([line, [self.ground.height(*p) + _ABOVE for p in line]])
        scene.add_line_segments(
            self._name("course/line"), np.stack([line[:-1], line[1:]], axis=1), style.WAY, thickness=2.0,
            thickness_units="screen",
        )  # fmt: skip
        # a cone either side of every waypoint
        nearest = [int(np.argmin(np.linalg.norm(line[:, :2] - p, axis=1))) for p in points]
        ahead = np.gradient(line[:, :2], axis=0)[nearest]
        ahead /= np.maximum(np.linalg.norm(ahead, axis=1), 1e-9)[:, None]
        left = 1.75 * np.column_stack([-ahead[:, 1], ahead[:, 0]])
        feet = np.concatenate([points + left, points - left])
        feet = np.column_stack([feet, [self.ground.height(*p) for p in feet]])
        scene.add_batched_meshes_simple(
            self._name("course/cones"), *geometry.cone(), np.tile([1.0, 0.0, 0.0, 0.0], (len(feet), 1)), feet,
            batched_scales=np.tile([0.11, 0.11, 0.4], (len(feet), 1)), batched_colors=_light(_CONE), lod="off",
        )  # fmt: skip

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def _make_cameras(self) -> Cameras:
        return Cameras(self._server, self.scene.cameras or usual_cameras(self.scene.size), self._name("machine"))

    def _make_toggles(self) -> None:
        gui = self._server.gui
        if self._feed.model.shown.scene is None:
            show(gui.add_html(""), paragraphs([_NO_SCENE]))
            return
        forces = [h for h in (self._loads, self._forces) if h is not None]
        things = {
            "floor": [self._floor],
            "forces of the ground": forces,
            "path behind it": [self._path_root],
            "course": [self._way] if self._way is not None else [],
            "body": self._shells,
        }
        with gui.add_folder("shown"):
            for text, handles in things.items():
                if not handles:
                    continue
                box = gui.add_checkbox(text, True)
                self._toggles[text] = box
                box.on_update(lambda _, box=box, handles=handles: _set_visible(handles, box.value))
            if forces:
                self._n_per_m = gui.add_number(
                    "1 m of arrow [N]", round((self.scene.load or 2000.0) / _LONG), min=1, step=100, hint="their scale"
                )
                show(
                    gui.add_html(""), legend((("↑", "load of a wheel", _LOAD), ("→", "force along the ground", _FORCE)))
                )


def legend(entries: tuple[tuple[str, str, Colour], ...]) -> Markup:
    return paragraphs([
        markup('<span style="color:rgb{};font-size:1.3em;font-weight:700">{}</span> {}', colour, sign, text)
        for sign, text, colour in entries
    ])  # fmt: skip


def _light(colour: Colour) -> Colour:
    """Of instances: the page takes their colours for amounts of light, those of meshes for screen values."""
    r, g, b = (round(255.0 * (c / 255.0) ** 2.2) for c in colour)
    return r, g, b


def _set_visible(handles: list[Any], visible: bool) -> None:
    for handle in handles:
        handle.visible = visible


def _sky() -> np.ndarray:
    """Lighter towards the horizon."""
    t = np.linspace(0.0, 1.0, 64)[:, None, None]
    high, low = np.array([186, 204, 222.0]), np.array(_SKY, float)
    return np.asarray(np.broadcast_to(high + (low - high) * np.minimum(2.0 * t, 1.0), (64, 8, 3)).astype(np.uint8))
