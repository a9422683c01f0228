"""What is drawn of a model that says nothing about its looks: a box on four wheels, from outputs every car has.

Outputs x, y, z, yaw, pitch, roll, road_wheel_angle and wheel speeds are used where there are some, as are parameters
such as wheelbase and track. What is missing is taken for that of a usual car.
"""

from typing import Any

import numpy as np

from sim_service.machines.contract import Machine
from sim_service.machines.scene import Arrow, Lever, Place, Scene, Solid, Wheel, skin
from sim_service.view.feed import Frame

# a state of its own: origin, three directions, the axles of the front wheels, how far the wheels have turned
_ORIGIN, _AHEAD, _LEFT, _UP, _AXLE, _SPIN_FRONT, _SPIN_REAR, _SIZE = 0, 3, 6, 9, 12, 15, 16, 17
_G = 9.81
_USUAL = {
    "wheelbase": 2.5, "track_front": 1.45, "track_rear": 1.45, "wheel_radius": 0.3, "cg_height": 0.5, "mass": 1000.0,
}  # fmt: skip


class Likeness:
    """A scene, and the state it is a function of."""

    def __init__(self, model: Machine, params: np.ndarray):
        known = {p.name: float(v) for p, v in zip(model.parameters, params, strict=False)}
        p = {name: known.get(name, usual) for name, usual in _USUAL.items()}
        self._outputs = {q.name for q in model.outputs}
        self._height = p["cg_height"]
        self._state = np.zeros(_SIZE)
        self._time = np.nan
        self.scene = self._scene(p, known.get("cg_to_front", 0.5 * p["wheelbase"]))

    def state(self, frame: Frame) -> np.ndarray:
        """The state of the scene at a frame."""
        step, s = frame.step, self._state
        yaw, pitch, roll = (self._value(step, name) for name in ("yaw", "pitch", "roll"))
        z = self._value(step, "z") if "z" in self._outputs else self._height
        s[_ORIGIN : _ORIGIN + 3] = self._value(step, "x"), self._value(step, "y"), z
        turned = _turn(2, yaw) @ _turn(1, pitch) @ _turn(0, roll)
        s[_AHEAD : _AHEAD + 9] = turned.T.ravel()
        s[_AXLE : _AXLE + 3] = turned @ _turn(2, self._value(step, "road_wheel_angle"))[:, 1]
        time = self._value(step, "time")
        passed = time - self._time if 0.0 < time - self._time < 1.0 else 0.0
        self._time = time
        for k, name in ((_SPIN_FRONT, "wheel_speed_front"), (_SPIN_REAR, "wheel_speed_rear")):
            s[k] = (s[k] + passed * self._value(step, name)) % (2.0 * np.pi)
        return s

    @staticmethod
    def _value(step: Any, name: str) -> float:
        return float(step[name]) if name in step.dtype.names else 0.0

    def _scene(self, p: dict[str, float], front: float) -> Scene:
        def at(ahead: float, left: float, up: float) -> Place:
            factors = np.hstack([np.eye(3), ahead * np.eye(3), left * np.eye(3), up * np.eye(3)])
            return Place(np.arange(12), factors, np.zeros(3))

        def direction(begin: int) -> Place:
            return Place(np.arange(begin, begin + 3), np.eye(3), np.zeros(3))

        radius, height = p["wheel_radius"], p["cg_height"]
        wheels = []
        for name in ("fl", "fr", "rl", "rr"):
            is_front, side = name[0] == "f", 1.0 if name[1] == "l" else -1.0
            x = front if is_front else front - p["wheelbase"]
            y = 0.5 * side * p["track_front" if is_front else "track_rear"]
            axle, spin = (_AXLE, _SPIN_FRONT) if is_front else (_LEFT, _SPIN_REAR)
            wheels.append(Wheel(name, at(x, y, radius - height), direction(axle), spin, radius, 0.55 * radius))
        nose, tail = front + 1.3 * radius, front - p["wheelbase"] - 1.2 * radius
        w = 0.5 * min(p["track_front"], p["track_rear"]) - 0.32 * radius
        floor = 0.6 * radius - height
        shell, faces = skin(
            [
                (nose, 0.8 * w, floor + 0.1, floor + 0.4),
                (front - 0.2, w, floor, floor + 0.6),
                (tail + 0.5, w, floor, floor + 0.65),
                (tail, 0.85 * w, floor + 0.1, floor + 0.55),
            ]
        )
        body = Solid(
            "body", direction(_ORIGIN), direction(_AHEAD), direction(_LEFT), direction(_UP),
            shell.min(axis=0), shell.max(axis=0), shell=shell, faces=faces,
        )  # fmt: skip
        return Scene(
            wheels=tuple(wheels),
            solids=(body,),
            levers=self._levers(front, floor),
            arrows=self._arrows(),
            size=p["wheelbase"],
            eye=np.array([front - 0.55 * p["wheelbase"], 0.2, 1.15 - height]),
            load=p["mass"] * _G / 4.0,
        )

    @staticmethod
    def _levers(front: float, floor: float) -> tuple[Lever, ...]:
        at = np.array([front - 0.85, 0.2, floor + 0.68])
        axis = np.array([-np.cos(0.45), 0.0, np.sin(0.45)])
        return (Lever("hand wheel", "wheel", at, axis, 0.175, "steering_angle", 1.0),)

    def _arrows(self) -> tuple[Arrow, ...]:
        """Of each wheel where the model says so, else half of its axle's."""
        found = []
        for k, wheel in enumerate(("fl", "fr", "rl", "rr")):
            axle = "front" if k < 2 else "rear"
            for suffix, share in ((wheel, 1.0), (axle, 0.5)):
                along, across, load = (f"{name}_{suffix}" for name in ("force_x", "force_y", "load"))
                if self._outputs.issuperset((along, across, load)):
                    found.append(Arrow(k, along, across, load, share))
                    break
        return tuple(found)


def _turn(axis: int, angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out = np.eye(3)
    out[i, i], out[j, j], out[i, j], out[j, i] = c, c, -s, s
    return out
