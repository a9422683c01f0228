"""Cameras that follow: from behind, from the driver's seat, from above; or free. Every page has its own choice."""

import contextlib
import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

KINDS = ("chase", "driver", "top", "free")
_LAG_S = 0.3  # of the chase behind the car's heading
_UP = np.array([0.0, 0.0, 1.0])
_FOV = {"chase": 0.85, "driver": 1.15, "top": 0.8}  # rad, upright


@dataclass
class Subject:
    """What is looked at."""

    position: np.ndarray
    turned: np.ndarray  # columns: ahead, left, up
    eye: np.ndarray | None  # of its driver, in the world
    size: float


class Cameras:
    def __init__(self, server: Any, first: str = "chase"):
        self._server, self._first = server, first
        self._kinds: dict[int, str] = {}
        self._fresh: set[int] = set()
        self._lock = threading.Lock()
        self._heading, self._t_ns = math.nan, 0
        server.on_client_connect(self._arrived)
        server.on_client_disconnect(self._left)

    def _arrived(self, client: Any) -> None:
        choice = client.gui.add_button_group("camera", KINDS, order=-100.0, hint="free: move it by hand")
        with self._lock:
            self._kinds[client.client_id] = self._first
            self._fresh.add(client.client_id)

        @choice.on_click
        def _(_: Any) -> None:
            self.choose(client.client_id, choice.value)

    def _left(self, client: Any) -> None:
        with self._lock:
            self._kinds.pop(client.client_id, None)
            self._fresh.discard(client.client_id)

    def choose(self, client: int, kind: str) -> None:
        """The camera of a page."""
        with self._lock:
            if client in self._kinds and kind in KINDS:
                self._kinds[client] = kind
                self._fresh.add(client)

    def follow(self, subject: Subject, t_ns: int) -> None:
        with self._lock:
            kinds = dict(self._kinds)
            fresh, self._fresh = self._fresh, set()
        ahead = subject.turned[:, 0]
        heading = math.atan2(ahead[1], ahead[0])
        passed = 1e-9 * (t_ns - self._t_ns)
        self._t_ns = t_ns
        if not 0.0 <= passed < 1.0 or not math.isfinite(self._heading):
            self._heading = heading
        else:
            off = math.remainder(heading - self._heading, 2.0 * math.pi)
            self._heading += off * (1.0 - math.exp(-passed / _LAG_S))
        for number, client in self._server.get_clients().items():
            kind = kinds.get(number, "free")
            with contextlib.suppress(AssertionError, ValueError):  # a page that has not said where it looks from yet
                self._put(client.camera, kind, number in fresh, subject, client)

    def _put(self, camera: Any, kind: str, fresh: bool, subject: Subject, client: Any) -> None:
        if kind == "free":
            if fresh:
                camera.up_direction = _UP  # a hand turns it about the upright axis
            return
        p, s = subject.position, subject.size
        up = _UP
        if kind == "driver" and subject.eye is not None:
            position, up = subject.eye, subject.turned[:, 2]
            target = position + 10.0 * subject.turned[:, 0] - 1.6 * up
        elif kind == "top":
            position, target, up = p + 9.0 * s * _UP, p, np.array([0.0, 1.0, 0.0])
        else:
            ahead = np.array([math.cos(self._heading), math.sin(self._heading), 0.0])
            position, target = p - 2.1 * s * ahead + 0.75 * s * _UP, p + 0.9 * s * ahead
        with client.atomic():
            if fresh:
                camera.fov = _FOV[kind]
            camera.up_direction = up
            camera.position = position
            camera.look_at = target
