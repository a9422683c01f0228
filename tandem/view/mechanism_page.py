"""The page of a mechanism in the hand: it runs in the page's own process, as a `Rig` (rig.py).

Time, the hand on a point, parameters of forces and joints to take away are here; what is done to a body and its plots,
and types, limits and friction of joints, in mechanism_controls.py.
"""

import contextlib
import math
import threading
import time
from typing import Any, cast

import numpy as np

from sim_service.contract.machine import Machine, Quantity, Shown, Step
from tandem.multibody.natural.errors import AssemblyError, MechanismError
from tandem.multibody.natural.scene import scene_of, upright
from tandem.reports.html.markup import markup, paragraphs, show
from tandem.view.data_source import Frame
from tandem.view.mechanism_controls import SECONDS, BodyControls, JointControls, by_hand
from tandem.view.rig import Rig

_SHOWN_S = 8.0  # why something was not done
_HISTORY = 600  # points of the plot


class MechanismData:
    """What the stage needs to know of a rig."""

    live = True

    def __init__(self, title: str, rig: Rig):
        self.title, self.rig = title, rig
        system = rig.system
        scene, frames = scene_of(system)
        states = tuple(Quantity(f"s{i}", "1", "") for i in range(system.state_size))
        self.model = Machine(
            title,
            (),
            states,
            (),
            (),
            cast(Step, None),  # it is not stepped
            capabilities=(Shown(scene=scene, frames=frames),),
        )
        self.params = np.zeros(0)
        self.into = upright(system.mechanism.g)

    def poll(self) -> Frame:
        step = np.zeros(1, [("time", "f8")])
        step["time"] = self.rig.state.time
        return Frame(round(self.rig.state.time * 1e9), step[0], self.rig.state.vector.copy())


def arrow(force: np.ndarray, size: float, weight: float) -> np.ndarray:
    """A force as a length: half the size of the scene where it is the weight of all, never more than all of it."""
    found = float(np.linalg.norm(force))
    return np.asarray(force * size / (found + weight))


def force_of(arrow: np.ndarray, size: float, weight: float) -> np.ndarray:
    """The force of an arrow that was drawn; of one that is too long, that of 0.95 of the size."""
    length = min(float(np.linalg.norm(arrow)), 0.95 * size)
    return np.asarray(arrow / max(float(np.linalg.norm(arrow)), 1e-12) * weight * length / (size - length))


class MechanismPage:
    """The page of a mechanism."""

    def __init__(self, server: Any, feed: MechanismData):
        from tandem.view.scene_view import SceneView

        self._server, self._feed, self.rig = server, feed, feed.rig
        self._lock = threading.RLock()  # between the loop and the page's callbacks
        self.stage = SceneView(server, feed)  # type: ignore[arg-type]
        self._gizmo: Any = None
        self._fields: dict[tuple[str, str], Any] = {}
        self._inputs: dict[str, Any] = {}
        self._boxes: list[Any] = []
        self._tail: Any = None  # the handle of the arrow, and what goes along with its point
        self._root: Any = None
        self._times: list[float] = []
        self._errors: list[float] = []
        self._refused = (-math.inf, "")  # when, and why
        self._arrow: Any = None
        self._seen = self.rig.resets, self.rig.endings
        self._make()

    def _make(self) -> None:
        gui, rig = self._server.gui, self.rig
        self._text = gui.add_html("")
        with gui.add_folder("time"):
            self._pause = gui.add_checkbox("pause", initial_value=False)
            self._pause.on_update(by_hand(self._do, lambda: setattr(rig, "paused", self._pause.value)))
            gui.add_button("one step").on_click(lambda _: self._do(rig.step))
            slow = gui.add_slider("slow motion", min=1.0, max=50.0, step=1.0, initial_value=1.0)
            slow.on_update(by_hand(self._do, lambda: setattr(rig, "slow", float(slow.value))))
            gui.add_button("reset").on_click(lambda _: self._do(self._reset))
        with gui.add_folder("hand", visible=bool(rig.points)):
            self._which = gui.add_dropdown(
                "point", rig.points or ("none",), initial_value=(rig.points or ("none",))[-1]
            )
            self._which.on_update(by_hand(self._do, self._grasp))
            self._hold = gui.add_checkbox("hold it", initial_value=False, hint="then drag the arrows in the scene")
            self._hold.on_update(by_hand(self._do, self._grasp))
            self._force = gui.add_vector3(
                "force (N)", initial_value=(0.0, 0.0, 0.0), step=1.0, hint="in the world of the scene"
            )
            self._force.on_update(by_hand(self._do, self._push))
            self._draw = gui.add_checkbox(
                "draw the arrow", initial_value=False, hint="a handle at its tail: the longer, the harder it pushes"
            )
            self._draw.on_update(by_hand(self._do, self._handle))
        self._body = BodyControls(self._server, self._feed, self._do, self.stage.scene.size)
        self._hinges = JointControls(self._server, self._feed, self._do)
        if rig.parameters or rig.inputs:
            with gui.add_folder("forces", expand_by_default=False):
                for name, value in rig.inputs.items():
                    self._input(gui, name, value)
                for element, values in rig.parameters.items():
                    for name, value in values.items():
                        self._field(gui, element, name, value)
        if rig.joints:
            with gui.add_folder("joints", expand_by_default=False):
                for joint in rig.joints:
                    self._joint(gui, joint)
        self._plot = gui.add_uplot(
            (np.zeros(2), np.zeros(2)),
            ({}, {"label": "constraint error (m)", "stroke": "#b3541e"}),
            scales=SECONDS,
            aspect=2.4,
        )

    def _field(self, gui: Any, element: str, name: str, value: float) -> None:
        field = gui.add_number(f"{element}: {name}", initial_value=value, step=max(abs(value) / 20.0, 1e-3))
        self._fields[element, name] = field

        def act() -> None:
            try:
                self.rig.do("set", element, name, float(field.value))
            finally:
                field.value = self.rig.parameters[element][name]  # what it is, where that could not be

        field.on_update(by_hand(self._do, act))

    def _input(self, gui: Any, name: str, value: float) -> None:
        field = gui.add_number(f"input: {name}", initial_value=value, step=1e-3)
        self._inputs[name] = field
        field.on_update(by_hand(self._do, lambda: self.rig.do("give", name, float(field.value))))

    def _joint(self, gui: Any, joint: str) -> None:
        box = gui.add_checkbox(joint, initial_value=True)
        self._boxes.append(box)
        box.on_update(by_hand(self._do, lambda: self.rig.do("switch", joint, box.value)))

    def _do(self, what: Any) -> None:
        """An act of a user, between two steps; what cannot be done is shown, and nothing is changed by it."""
        with self._lock:
            try:
                what()
            except (ValueError, KeyError, MechanismError, AssemblyError) as error:
                self._refused = time.monotonic(), str(error)

    def _reset(self) -> None:
        self.rig.do("reset")
        self._follow()

    def _follow(self) -> None:
        """What the rig did by itself, or a reset, in the fields."""
        before, self._seen = self._seen, (self.rig.resets, self.rig.endings)
        self._pause.value = self.rig.paused
        if self._seen[0] == before[0]:
            self._body.follow()  # a motion ended
            return
        self._hold.value = False
        self._force.value = (0.0, 0.0, 0.0)
        for (element, name), field in self._fields.items():
            field.value = self.rig.parameters[element][name]
        for name, field in self._inputs.items():
            field.value = self.rig.inputs[name]
        for box in self._boxes:
            box.value = True
        self._draw.value = False
        self._handle()
        self._body.reset()
        self._hinges.reset()
        self._drop()

    def _push(self) -> None:
        if self._which.value not in self.rig.points:
            return
        force = self._feed.into.T @ np.array(self._force.value, float)
        self.rig.do("push", self._which.value, force)

    def _grasp(self) -> None:
        """The arrows of the hand where the point is; or none."""
        self._drop()
        self.rig.do("let_go")
        self._push()
        self._handle()
        if not self._hold.value or self._which.value not in self.rig.points:
            return
        point = self._which.value
        at = self._feed.into @ self.rig.where(point)
        size = 0.4 * max(self.stage.scene.size, 0.2)
        gizmo = self._server.scene.add_transform_controls("/hand", scale=size, disable_rotations=True, position=at)
        self._gizmo = gizmo
        self.rig.do("hold", point, self.rig.where(point).copy())

        @gizmo.on_update
        def _(_: Any) -> None:
            with self._lock:
                if self._gizmo is gizmo:
                    self.rig.do("hold", point, self._feed.into.T @ np.array(gizmo.position, float))

    def _drop(self) -> None:
        if self._gizmo is not None:
            self._gizmo.remove()
            self._gizmo = None

    def _handle(self) -> None:
        """A handle at the tail of the force's arrow; or none."""
        for part in (self._tail, self._root):
            if part is not None:
                part.remove()
        self._tail = self._root = None
        if not self._draw.value or self._which.value not in self.rig.points:
            return
        scene = self._server.scene
        offset = -arrow(np.array(self._force.value, float), self.stage.scene.size, 9.81 * self.rig.mass)
        self._root = scene.add_frame("/push_root", show_axes=False)
        size = 0.3 * max(self.stage.scene.size, 0.2)
        tail = scene.add_transform_controls("/push_root/tail", scale=size, disable_rotations=True, position=offset)
        self._tail = tail

        @tail.on_update
        def _(_: Any) -> None:
            def act() -> None:
                if self._tail is tail:
                    away = -np.array(tail.position, float)
                    force = force_of(away, self.stage.scene.size, 9.81 * self.rig.mass)
                    self._force.value = tuple(force.tolist())
                    self._push()

            self._do(act)

    def _draw_push(self) -> None:
        """The force as an arrow that ends at its point; its handle goes along."""
        if self._root is not None:
            self._root.position = self._feed.into @ self.rig.where(self._which.value)
        for point, force in self.rig.pushed.items():
            at, along = self._feed.into @ self.rig.where(point), self._feed.into @ force
            ends = np.array([[at - arrow(along, self.stage.scene.size, 9.81 * self.rig.mass), at]])
            if self._arrow is None:
                colours = np.full((1, 2, 3), (230, 160, 40), np.uint8)
                self._arrow = self._server.scene.add_arrows("/push", ends, colours)
            self._arrow.points = ends
        if not self.rig.pushed and self._arrow is not None:
            self._arrow.remove()
            self._arrow = None

    def advance(self, seconds: float, watched: bool) -> None:
        with self._lock:
            steps = self.rig.advance(seconds)
            if self._seen != (self.rig.resets, self.rig.endings):
                self._follow()
            if watched:
                self.stage.show(self._feed.poll())
                self._draw_push()
                self._body.show()
            diagnosis = self.rig.diagnosis()
            if steps:
                self._body.keep()
                self._times.append(self.rig.state.time)
                self._errors.append(diagnosis.get("phi_error", 0.0))
                del self._times[:-_HISTORY], self._errors[:-_HISTORY]

    def update_text(self) -> None:
        """What stands beside the scene; some times a second."""
        with self._lock:
            diagnosis, state = self.rig.diagnosis(), self.rig.state
            going = "paused" if self.rig.paused else f"{self.rig.slow:g} times slower" if self.rig.slow > 1 else ""
            figures = (
                f"{state.time:.2f} s, {diagnosis.get('iterations', 0.0):.0f} iterations,"
                f" constraint error {diagnosis.get('phi_error', 0.0):.1e} m"
            )
            lines = [markup("<b>{}</b> {}", self._feed.title, going), markup("{}", figures)]
            when, why = self._refused
            lines += [markup("not done: {}", why)] if time.monotonic() - when < _SHOWN_S else []
            lines += [markup("{}", self.rig.notice)] if self.rig.notice else []
            show(self._text, paragraphs(lines))
            self._body.update_text()
            self._hinges.update_text()
            if len(self._times) > 1:
                self._plot.data = (np.array(self._times), np.array(self._errors))

    def run(self, stop: threading.Event, rate_hz: float) -> None:
        last, updated = time.monotonic(), 0.0
        while not stop.wait(1.0 / rate_hz):
            now = time.monotonic()
            watched = bool(self._server.get_clients())
            # what goes wrong with one frame does not end the page
            with contextlib.suppress(Exception), self._server.atomic():
                self.advance(now - last, watched)
                if watched and now - updated > 0.2:
                    self.update_text()
                    updated = now
            last = now
