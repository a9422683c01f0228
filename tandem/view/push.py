"""A hand on the machine: a gizmo that is drawn away from a body pushes it that way, as hard as it is far.

Where it may be pushed, and by which parameters, the machine says in its scene (`PushPoints`). They are parameters like
any other: they have limits, are recorded, and a replay pushes again. The hand goes along with the body until it is let
go.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.contract.scene import PushPoints, Scene, poses
from tandem.reports.html.markup import markup, paragraphs, show
from tandem.view.commander import Commander
from tandem.view.data_source import Frame

_N_PER_M = 2000.0
_HINT = "draw the arrows away from the body"


def can_push(model: Machine) -> bool:
    return model.shown.scene is not None and model.shown.scene.push is not None


def within_limits(names: tuple[str, ...], values: Iterable[float], model: Machine) -> dict[str, float]:
    """Values for these parameters, cut to their limits."""
    limits = {p.name: (p.low, p.high) for p in model.parameters}
    pairs = zip(names, values, strict=True)
    return {name: min(max(float(value), limits[name][0]), limits[name][1]) for name, value in pairs}


class Push:
    def __init__(self, server: Any, model: Machine, params: np.ndarray, scene: Scene, commander: Commander):
        self._server, self._model, self._commander = server, model, commander
        assert scene.push is not None
        self._by: PushPoints = scene.push
        self._numbers = {name: number for number, (name, _) in enumerate(self._by.points)}
        self._params = params
        self._poses = poses(scene.frames)
        self._root: Any = None
        self._gizmo: Any = None
        self._line: Any = None
        gui = server.gui
        with gui.add_folder("push"):
            self._body = gui.add_dropdown("body", ("nothing", *self._numbers), initial_value="nothing")
            self._body.on_update(lambda _: self._grasp())
            self._rate = gui.add_slider(
                "N per m", min=100.0, max=20000.0, step=100.0, initial_value=_N_PER_M, hint="how hard a metre pushes"
            )
            self._rate.on_update(lambda _: self._pull())
            self._torque: Any = None
            if self._by.torque is not None:
                self._torque = gui.add_vector3(
                    "torque (N m)", initial_value=(0.0, 0.0, 0.0), step=50.0, hint=self._by.torque_is or None
                )
                self._torque.on_update(lambda _: self._turn())
            self._text = gui.add_html("")
            self._show_note(_HINT)
            gui.add_button("let go").on_click(lambda _: self._let_go())

    def _show_note(self, text: str) -> None:
        show(self._text, paragraphs([markup("{}", text)]))

    def _grasp(self) -> None:
        self._drop()
        if self._body.value == "nothing":
            self._let_go()
            return
        scene = self._server.scene
        number = float(self._numbers[self._body.value])
        self._commander.put({self._by.which: number, **dict.fromkeys(self._by.force, 0.0)})
        self._root = scene.add_frame("/push", show_axes=False)
        self._gizmo = scene.add_transform_controls("/push/hand", scale=0.8, disable_rotations=True, depth_test=False)
        ends, colours = np.zeros((1, 2, 3)), np.full((1, 2, 3), (230, 160, 40), np.uint8)
        self._line = scene.add_line_segments("/push/line", ends, colours, thickness=4.0, thickness_units="screen")
        self._gizmo.on_update(lambda _: self._pull())

    def _pull(self) -> None:
        gizmo, line = self._gizmo, self._line
        if gizmo is None:
            return
        offset = np.array(gizmo.position, float)
        line.points = np.array([[np.zeros(3), offset]])
        values = within_limits(self._by.force, float(self._rate.value) * offset, self._model)
        self._show_note(
            "pushes " + ", ".join(f"{a} {value:.0f} N" for a, value in zip("xyz", values.values(), strict=True))
        )
        self._commander.put(values)

    def _turn(self) -> None:
        self._commander.put(within_limits(self._by.torque or (), self._torque.value, self._model))

    def _drop(self) -> None:
        for node in (self._gizmo, self._line, self._root):
            if node is not None:
                node.remove()
        self._root = self._gizmo = self._line = None

    def leave(self) -> None:
        """Nobody watches any more: no hand stays on the machine."""
        if self._root is not None or (self._torque is not None and any(self._torque.value)):
            self._let_go()

    def _let_go(self) -> None:
        self._drop()
        if self._body.value != "nothing":
            self._body.value = "nothing"
        if self._torque is not None:
            self._torque.value = (0.0, 0.0, 0.0)
        self._commander.put(dict.fromkeys((*self._by.force, *(self._by.torque or ())), 0.0))
        self._show_note(_HINT)

    def show(self, frame: Frame) -> None:
        """The hand goes along."""
        root = self._root
        if root is not None and frame.state is not None and self._body.value in self._numbers:
            self._model.shown.frames(frame.state, self._params, self._poses)
            at = self._by.points[self._numbers[self._body.value]][1].where(self._poses)
            if np.isfinite(at).all():
                root.position = at
