"""Cameras that follow, as the machine's scene has them; or one moved by hand. Every page has its own choice."""

import contextlib
import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_service.contract.scene import Camera
from tandem.view import geometry

FREE = "free"
_LAG_S = 0.3  # of a camera behind the heading of what it follows
_UP, _NORTH = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])


@dataclass
class Subject:
    """What is looked at."""

    position: np.ndarray
    axes: np.ndarray  # columns: ahead, left, up


class Cameras:
    """The cameras of all pages. The frame `moves` goes to each page in one message with its camera. If it went to all
    pages at once, it would arrive sooner or later, and on a slow page the machine would leave the picture."""

    def __init__(self, server: Any, cameras: tuple[Camera, ...], moves: str):
        self._server, self._moves = server, moves
        self._frames: dict[int, Any] = {}
        self.cameras = {camera.name: camera for camera in cameras}
        self._kinds: dict[int, str] = {}
        self._fresh: set[int] = set()
        self._lock = threading.Lock()
        self._heading, self._t_ns = math.nan, 0
        server.on_client_connect(self._arrived)
        server.on_client_disconnect(self._left)

    def _arrived(self, client: Any) -> None:
        choice = client.gui.add_button_group(
            "camera", (*self.cameras, FREE), order=-100.0, hint="free: move it by hand"
        )
        with self._lock:
            self._frames[client.client_id] = client.scene.add_frame(self._moves, show_axes=False)
            self._kinds[client.client_id] = next(iter(self.cameras), FREE)
            self._fresh.add(client.client_id)

        @choice.on_click
        def _(_: Any) -> None:
            self.choose(client.client_id, choice.value)

    def _left(self, client: Any) -> None:
        with self._lock:
            self._kinds.pop(client.client_id, None)
            self._frames.pop(client.client_id, None)
            self._fresh.discard(client.client_id)

    def choose(self, client: int, kind: str) -> None:
        """The camera of a page."""
        with self._lock:
            if client in self._kinds and (kind in self.cameras or kind == FREE):
                self._kinds[client] = kind
                self._fresh.add(client)

    def follow(self, subject: Subject, t_ns: int) -> None:
        with self._lock:
            kinds, frames = dict(self._kinds), dict(self._frames)
            fresh, self._fresh = self._fresh, set()
        ahead = subject.axes[:, 0]
        heading = math.atan2(ahead[1], ahead[0])
        passed = 1e-9 * (t_ns - self._t_ns)
        self._t_ns = t_ns
        if not 0.0 <= passed < 1.0 or not math.isfinite(self._heading):
            self._heading = heading
        else:
            off = math.remainder(heading - self._heading, 2.0 * math.pi)
            self._heading += off * (1.0 - math.exp(-passed / _LAG_S))
        for number, client in self._server.get_clients().items():
            kind, frame = kinds.get(number, FREE), frames.get(number)
            with client.atomic(), contextlib.suppress(AssertionError, ValueError):  # no camera of the page came yet
                if frame is not None:
                    frame.position, frame.wxyz = subject.position, geometry.quaternion(subject.axes)
                self._put(client.camera, kind, number in fresh, subject)

    def _put(self, camera: Any, kind: str, fresh: bool, subject: Subject) -> None:
        chosen = self.cameras.get(kind)
        if chosen is None:
            if fresh:
                camera.up_direction = _UP  # a hand turns it about the upright axis
                camera.near = Camera.near  # and comes nearer
            return
        axes, up = subject.axes, subject.axes[:, 2]
        if chosen.axes == "heading":
            c, s = math.cos(self._heading), math.sin(self._heading)
            axes, up = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]), _UP
        elif chosen.axes == "world":
            axes = np.eye(3)
            level = chosen.at[0] or chosen.at[1]
            up = _UP if level else _NORTH  # one that looks straight down has no other
        position, target = (subject.position + axes @ np.array(place) for place in (chosen.at, chosen.to))
        if fresh:
            camera.fov, camera.near = chosen.field_of_view, chosen.near
        camera.up_direction = up
        camera.position = position
        camera.look_at = target
