"""A mechanism in the hand: it runs in the page's own process, and a person holds, pushes, stops and changes it.

`Bench` is the mechanism and the hand on it: a point is drawn towards where the hand is, by a spring as stiff as suits
the mass of the whole, and the constraints resolve what that means for the rest. `MechanismPage` is the page. Whatever
is changed (the hand, a spring rate, a joint taken away) takes effect before the next step; nothing is compiled again.
"""

import contextlib
import math
import threading
import time
from typing import Any

import numpy as np

from sim_service.machines.contract import Machine, Quantity
from sim_service.machines.natural_scene import scene_of, upright
from sim_service.multibody.natural.mechanism import Mechanism
from sim_service.multibody.natural.run import stepper
from sim_service.multibody.natural.system import State, System
from sim_service.multibody.natural.tables import DIAGNOSTICS
from sync.markup import markup, paragraphs, show
from tandem.view.data_source import Frame

_HAND = "hand on "
_HAND_HZ = 1.5  # of the whole mass on the spring of the hand
_MOST_STEPS = 200  # of one look: what cannot be made up is given up
_HISTORY = 600  # points of the plot


def with_hands(mechanism: Mechanism) -> Mechanism:
    """A force on every free point, zero until a user pushes. Before the mechanism is compiled."""
    for name, node in list(mechanism.nodes.items()):
        if node.kind == "point" and node.columns:
            mechanism.force(_HAND + name, node, np.zeros(node.dim))
    return mechanism


class Bench:
    """A compiled mechanism with hands; for one thread."""

    def __init__(self, state: State):
        self.system: System = state.system
        self.state = state
        self._first = state.copy()
        self._first_reals = self.system.reals.copy()
        self._work = self.system.work()
        self._advance = stepper(self.system.scheme)
        mechanism = self.system.mechanism
        self.points = tuple(n for n, node in mechanism.nodes.items() if node.kind == "point" and node.columns)
        self._places = {
            name: [self.system.parameter(_HAND + name, axis) for axis in "xyz"[: mechanism.nodes[name].dim]]
            for name in self.points
        }
        mass = sum(m for _, m in mechanism.masses) or 1.0
        self.stiffness = mass * (2.0 * math.pi * _HAND_HZ) ** 2
        self.damping = 2.0 * 0.7 * math.sqrt(self.stiffness * mass)
        self.held: tuple[str, np.ndarray] | None = None  # the point and where the hand is, in the mechanism's axes
        self.pushed: dict[str, np.ndarray] = {}
        self.paused, self.slow = False, 1.0
        self._owed = 0.0  # s

    @property
    def parameters(self) -> dict[str, dict[str, float]]:
        """Of springs, forces and what else there is, but for the hands: element, name, value."""
        return {
            e.name: {key: float(self.system.reals[self.system.parameter(e.name, key)]) for key in e.params}
            for e in self.system.elements
            if e.params and not e.name.startswith(_HAND)
        }

    @property
    def joints(self) -> tuple[str, ...]:
        """What can be taken away and put back: constraints by the name of their joint."""
        names = dict.fromkeys(name.rsplit(".", 1)[0] for name in self.system.mechanism.constraints)
        rigid = {
            f"{n}.unit".rsplit(".", 1)[0] for n, node in self.system.mechanism.nodes.items() if node.kind == "vector"
        }
        return tuple(name for name in names if name not in rigid and name not in self.system.mechanism.bodies)

    def set(self, element: str, name: str, value: float) -> None:
        self.system.reals[self.system.parameter(element, name)] = value

    def switch(self, joint: str, on: bool) -> None:
        self.system.switch(joint, on)
        if not on:
            for row in self.system.rows(joint):
                self.state.lam[row] = 0.0

    def reset(self) -> None:
        """As it was drawn, with everything that was changed as it was."""
        self.state.vector[:] = self._first.vector
        self.system.reals[:] = self._first_reals
        self.held = None
        self.pushed.clear()
        self._owed = 0.0

    def where(self, point: str) -> np.ndarray:
        return self.state[point]

    def _hands(self) -> None:
        nodes = self.system.mechanism.nodes
        for name, places in self._places.items():
            force = self.pushed.get(name, np.zeros(len(places)))
            if self.held is not None and self.held[0] == name:
                away = self.held[1] - self.state[name]
                force = force + self.stiffness * away - self.damping * self.state.rate(nodes[name])
            self.system.reals[places] = force

    def step(self) -> None:
        s = self.system
        self._hands()
        self._advance(s.ints, s.reals, self.state.vector, self._work, s.hook, s.h)
        if not np.isfinite(self.state.vector).all():
            self.reset()
            self.paused = True

    def advance(self, seconds: float) -> int:
        """As many steps as real time asks for; what a slow machine cannot make is left out. Returns how many."""
        if self.paused:
            return 0
        self._owed += seconds / self.slow
        count = min(int(self._owed / self.system.h), _MOST_STEPS)
        self._owed = min(self._owed - count * self.system.h, self.system.h)
        for _ in range(count):
            self.step()
        return count

    def diagnosis(self) -> dict[str, float]:
        return {name: float(value) for name, value in zip(DIAGNOSTICS, self._work, strict=False)}


class MechanismData:
    """What the stage needs to know of a bench."""

    live = True

    def __init__(self, title: str, bench: Bench):
        self.title, self.bench = title, bench
        system = bench.system
        scene, frames = scene_of(system)
        states = tuple(Quantity(f"s{i}", "1", "") for i in range(system.state_size))
        self.model = Machine(title, (), states, (), (), None, scene=scene, frames=frames)
        self.params = np.zeros(0)
        self.into = upright(system.mechanism.g)

    def look(self) -> Frame:
        step = np.zeros(1, [("time", "f8")])
        step["time"] = self.bench.state.time
        return Frame(round(self.bench.state.time * 1e9), step[0], self.bench.state.vector.copy())


class MechanismPage:
    """The page of a mechanism."""

    def __init__(self, server: Any, feed: MechanismData):
        from tandem.view.scene_view import SceneView

        self._server, self._feed, self.bench = server, feed, feed.bench
        self._lock = threading.RLock()  # between the loop and the page's callbacks
        self.stage = SceneView(server, feed)  # type: ignore[arg-type]
        self._gizmo: Any = None
        self._fields: dict[tuple[str, str], Any] = {}
        self._boxes: list[Any] = []
        self._times: list[float] = []
        self._errors: list[float] = []
        self._make()

    def _make(self) -> None:
        gui, bench = self._server.gui, self.bench
        self._text = gui.add_html("")
        with gui.add_folder("time"):
            self._pause = gui.add_checkbox("pause", initial_value=False)
            self._pause.on_update(lambda _: self._do(lambda: setattr(bench, "paused", self._pause.value)))
            gui.add_button("one step").on_click(lambda _: self._do(bench.step))
            slow = gui.add_slider("slow motion", min=1.0, max=50.0, step=1.0, initial_value=1.0)
            slow.on_update(lambda _: self._do(lambda: setattr(bench, "slow", float(slow.value))))
            gui.add_button("reset").on_click(lambda _: self._do(self._reset))
        with gui.add_folder("hand", visible=bool(bench.points)):
            self._which = gui.add_dropdown(
                "point", bench.points or ("none",), initial_value=(bench.points or ("none",))[-1]
            )
            self._which.on_update(lambda _: self._do(self._grasp))
            self._hold = gui.add_checkbox("hold it", initial_value=False, hint="then drag the arrows in the scene")
            self._hold.on_update(lambda _: self._do(self._grasp))
            self._force = gui.add_vector3(
                "force (N)", initial_value=(0.0, 0.0, 0.0), step=1.0, hint="in the world of the scene"
            )
            self._force.on_update(lambda _: self._do(self._push))
        if bench.parameters:
            with gui.add_folder("forces", expand_by_default=False):
                for element, values in bench.parameters.items():
                    for name, value in values.items():
                        self._field(gui, element, name, value)
        if bench.joints:
            with gui.add_folder("joints", expand_by_default=False):
                for joint in bench.joints:
                    self._joint(gui, joint)
        self._plot = gui.add_uplot(
            (np.zeros(2), np.zeros(2)), ({}, {"label": "constraint error (m)", "stroke": "#b3541e"}), aspect=2.4
        )

    def _field(self, gui: Any, element: str, name: str, value: float) -> None:
        field = gui.add_number(f"{element}: {name}", initial_value=value, step=max(abs(value) / 20.0, 1e-3))
        self._fields[element, name] = field
        field.on_update(lambda _: self._do(lambda: self.bench.set(element, name, float(field.value))))

    def _joint(self, gui: Any, joint: str) -> None:
        box = gui.add_checkbox(joint, initial_value=True)
        self._boxes.append(box)
        box.on_update(lambda _: self._do(lambda: self.bench.switch(joint, box.value)))

    def _do(self, what: Any) -> None:
        with self._lock, contextlib.suppress(ValueError, KeyError):
            what()

    def _reset(self) -> None:
        self.bench.reset()
        self._hold.value = False
        self._force.value = (0.0, 0.0, 0.0)
        for (element, name), field in self._fields.items():
            field.value = self.bench.parameters[element][name]
        for box in self._boxes:
            box.value = True
        self._grasp()

    def _push(self) -> None:
        if self._which.value not in self.bench.points:
            return
        force = self._feed.into.T @ np.array(self._force.value, float)
        self.bench.pushed = {self._which.value: force} if np.any(force) else {}

    def _grasp(self) -> None:
        """The arrows of the hand where the point is; or none."""
        if self._gizmo is not None:
            self._gizmo.remove()
            self._gizmo = None
        self.bench.held = None
        self._push()
        if not self._hold.value or self._which.value not in self.bench.points:
            return
        point = self._which.value
        at = self._feed.into @ self.bench.where(point)
        size = 0.4 * max(self.stage.scene.size, 0.2)
        gizmo = self._server.scene.add_transform_controls("/hand", scale=size, disable_rotations=True, position=at)
        self._gizmo, self.bench.held = gizmo, (point, self.bench.where(point).copy())

        @gizmo.on_update
        def _(_: Any) -> None:
            with self._lock:
                if self._gizmo is gizmo:
                    self.bench.held = (point, self._feed.into.T @ np.array(gizmo.position, float))

    def look(self, seconds: float, watched: bool) -> None:
        with self._lock:
            made = self.bench.advance(seconds)
            if watched:
                self.stage.show(self._feed.look())
            diagnosis = self.bench.diagnosis()
            if made:
                self._times.append(self.bench.state.time)
                self._errors.append(diagnosis.get("phi_error", 0.0))
                del self._times[:-_HISTORY], self._errors[:-_HISTORY]

    def update_text(self) -> None:
        """What stands beside the scene; some times a second."""
        with self._lock:
            diagnosis, state = self.bench.diagnosis(), self.bench.state
            going = (
                "paused" if self.bench.paused else f"{self.bench.slow:g} times slower" if self.bench.slow > 1 else ""
            )
            figures = (
                f"{state.time:.2f} s, {diagnosis.get('iterations', 0.0):.0f} iterations,"
                f" constraint error {diagnosis.get('phi_error', 0.0):.1e} m"
            )
            show(self._text, paragraphs([markup("<b>{}</b> {}", self._feed.title, going), markup("{}", figures)]))
            if self._pause.value != self.bench.paused:
                self._pause.value = self.bench.paused
            if len(self._times) > 1:
                self._plot.data = (np.array(self._times), np.array(self._errors))

    def run(self, stop: threading.Event, rate_hz: float) -> None:
        last, updated = time.monotonic(), 0.0
        while not stop.wait(1.0 / rate_hz):
            now = time.monotonic()
            watched = bool(self._server.get_clients())
            # what goes wrong with one frame does not end the page
            with contextlib.suppress(Exception), self._server.atomic():
                self.look(now - last, watched)
                if watched and now - updated > 0.2:
                    self.update_text()
                    updated = now
            last = now
