"""Where everything in a scene is after a step: solids, wheels, bars, levers, in the world. Every renderer reads it."""

import math
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.contract.scene import Scene, poses
from tandem.multibody.rotations import cross
from tandem.view import geometry


class Motion:
    """The motion of one machine; `move` takes it to a step."""

    def __init__(self, model: Machine, params: np.ndarray):
        self.scene: Scene = model.shown.scene or Scene()
        self._model, self._params = model, params
        self._world = poses(self.scene.frames)
        self.poses = self._world.copy()
        self._bar_frames = np.array([(b.start.frame, b.end.frame) for b in self.scene.bars], np.int64).reshape(-1, 2)
        self._bar_at = np.array([(b.start.at, b.end.at) for b in self.scene.bars], float).reshape(-1, 2, 3)
        self._spins = np.zeros(len(self.scene.wheels))
        self._time = math.nan
        self.centres: list[np.ndarray] = []  # of the wheels
        self.axes: list[np.ndarray] = []  # of the wheels, columns

    def move(self, state: Any, step: Any) -> bool:
        """False, and everything stays, where the state is not one that can be drawn."""
        if len(state) != len(self._model.states) or not np.isfinite(state).all():
            return False
        self.poses[:] = self._world
        self._model.shown.frames(state, self._params, self.poses)
        if not np.isfinite(self.poses).all():
            return False
        self._turn_wheels(step)
        return True

    def solid(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Origin and axes (columns) of one of the scene's solids."""
        pose = self.poses[self.scene.solids[number].frame]
        return pose[0].copy(), rotation(pose[1:])

    def machine(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the machine is and how it is turned: as its first solid."""
        return self.solid(0) if self.scene.solids else (np.zeros(3), np.eye(3))

    def bars(self) -> np.ndarray:
        """Both ends of each."""
        frames = self.poses[self._bar_frames]
        ends: np.ndarray = frames[:, :, 0] + np.einsum("nei,neij->nej", self._bar_at, frames[:, :, 1:])
        return ends

    def _turn_wheels(self, step: Any) -> None:
        """Those that a step gives a steer angle or a rate, and their frame does not; axes in the world."""
        time = channel(step, "time")
        passed = time - self._time if 0.0 < time - self._time < 1.0 else 0.0
        self._time = time
        self.centres, self.axes = [], []
        for k, wheel in enumerate(self.scene.wheels):
            axes = rotation(self.poses[wheel.centre.frame, 1:])
            if wheel.rate:
                rate = channel(step, wheel.rate)
                self._spins[k] = (self._spins[k] + passed * rate) % (2.0 * math.pi) if math.isfinite(rate) else 0.0
            if wheel.steer and math.isfinite(angle := channel(step, wheel.steer)):
                axes = axes @ _about(2, angle)
            if self._spins[k]:
                axes = axes @ _about(1, self._spins[k])
            self.centres.append(wheel.centre.where(self.poses))
            self.axes.append(axes)


def channel(step: Any, name: str) -> float:
    """The value of a channel in a step's record; 0 where there is no such channel."""
    try:
        return float(step[name])
    except (KeyError, ValueError, IndexError):
        return 0.0


def rotation(directions: np.ndarray) -> np.ndarray:
    """The rotation nearest to three directions (rows): those of a step are unit and square but for its tolerance."""
    ahead = geometry.unit(directions[0])
    left = geometry.unit(directions[1] - float(directions[1] @ ahead) * ahead)
    return np.array([ahead, left, cross(ahead, left)]).T


def _about(axis: int, angle: float) -> np.ndarray:
    """A turn about one of the axes."""
    c, s = math.cos(angle), math.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out = np.eye(3)
    out[i, i], out[j, j], out[i, j], out[j, i] = c, c, -s, s
    return out
