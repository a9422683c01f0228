"""A hand on the car: a gizmo that is drawn away from a body pushes it that way, as hard as it is far.

The force is a parameter of the model like any other (`push_x` and its kin): it has limits, is recorded, and a replay
pushes again. The hand goes along with the body until it is let go.
"""

from typing import Any

import numpy as np

from sim_service.machines.contract import Machine
from sim_service.machines.scene import Point, Scene, poses
from sim_service.view.commander import Commander
from sim_service.view.feed import Frame
from sync.markup import markup, paragraphs, show

FORCES = ("push_x", "push_y", "push_z")
TORQUES = ("push_roll", "push_pitch", "push_yaw")
_N_PER_M = 2000.0
_HINT = "draw the arrows away from the body"


def can_push(model: Machine) -> bool:
    return model.scene is not None and set(FORCES) <= {p.name for p in model.parameters}


def bodies(scene: Scene) -> dict[str, tuple[int, Point]]:
    """What can be pushed, as the model numbers it: the chassis and the wheels."""
    wheels = {f"wheel {w.name}": (1 + i, w.centre) for i, w in enumerate(scene.wheels)}
    return {scene.solids[0].name: (0, Point(scene.solids[0].frame)), **wheels} if scene.solids else wheels


def force_of(offset: np.ndarray, n_per_m: float, model: Machine) -> dict[str, float]:
    """The parameters for a hand that is so far away, within their limits."""
    limits = {p.name: (p.low, p.high) for p in model.parameters}
    wanted = dict(zip(FORCES, (n_per_m * offset).tolist(), strict=True))
    return {name: min(max(value, limits[name][0]), limits[name][1]) for name, value in wanted.items()}


class Push:
    def __init__(self, server: Any, model: Machine, params: np.ndarray, scene: Scene, commander: Commander):
        self._server, self._model, self._commander = server, model, commander
        self._bodies, self._params = bodies(scene), params
        self._poses = poses(scene.frames)
        self._root: Any = None
        self._gizmo: Any = None
        self._line: Any = None
        gui = server.gui
        with gui.add_folder("push"):
            self._body = gui.add_dropdown("body", ("nothing", *self._bodies), initial_value="nothing")
            self._body.on_update(lambda _: self._grasp())
            self._rate = gui.add_slider(
                "N per m", min=100.0, max=20000.0, step=100.0, initial_value=_N_PER_M, hint="how hard a metre pushes"
            )
            self._rate.on_update(lambda _: self._pull())
            self._torque = gui.add_vector3(
                "torque (N m)", initial_value=(0.0, 0.0, 0.0), step=50.0, hint="on the chassis: roll, pitch, yaw"
            )
            self._torque.on_update(lambda _: self._turn())
            self._text = gui.add_html("")
            self._tell(_HINT)
            gui.add_button("let go").on_click(lambda _: self._let_go())

    def _tell(self, text: str) -> None:
        show(self._text, paragraphs([markup("{}", text)]))

    def _grasp(self) -> None:
        self._drop()
        if self._body.value == "nothing":
            self._let_go()
            return
        scene = self._server.scene
        self._commander.put({"push_body": float(self._bodies[self._body.value][0]), **dict.fromkeys(FORCES, 0.0)})
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
        values = force_of(offset, float(self._rate.value), self._model)
        self._tell("pushes " + ", ".join(f"{axis[-1]} {value:.0f} N" for axis, value in values.items()))
        self._commander.put(values)

    def _turn(self) -> None:
        limits = {p.name: (p.low, p.high) for p in self._model.parameters}
        pairs = zip(TORQUES, self._torque.value, strict=True)
        self._commander.put({n: min(max(float(v), limits[n][0]), limits[n][1]) for n, v in pairs})

    def _drop(self) -> None:
        for node in (self._gizmo, self._line, self._root):
            if node is not None:
                node.remove()
        self._root = self._gizmo = self._line = None

    def leave(self) -> None:
        """Nobody watches any more: no hand stays on the car."""
        if self._root is not None or any(self._torque.value):
            self._let_go()

    def _let_go(self) -> None:
        self._drop()
        if self._body.value != "nothing":
            self._body.value = "nothing"
        self._torque.value = (0.0, 0.0, 0.0)
        self._commander.put({**dict.fromkeys(FORCES, 0.0), **dict.fromkeys(TORQUES, 0.0)})
        self._tell(_HINT)

    def show(self, frame: Frame) -> None:
        """The hand goes along."""
        root = self._root
        if root is not None and frame.state is not None and self._body.value in self._bodies:
            self._model.frames(frame.state, self._params, self._poses)
            at = self._bodies[self._body.value][1].where(self._poses)
            if np.isfinite(at).all():
                root.position = at
