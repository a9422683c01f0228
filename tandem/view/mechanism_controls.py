"""What is done to a body and to a joint of a mechanism in the hand, and the plots of a body.

A torque is an arc about its axis at the body's centre, the wider the larger it is; it is typed, or turned by its rings.
A prescribed motion is a sphere at the body's centre. Joints change their type, stops and friction while it runs.
"""

import contextlib
import math
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tandem.multibody.natural import changes
from tandem.multibody.natural.errors import AssemblyError, MechanismError
from tandem.multibody.rotations import rotated
from tandem.reports.html.markup import markup, paragraphs, show

Do = Callable[[Any], None]
_NOTHING = "none"
_COLOURS = ("#c92a2a", "#2f9e44", "#1c7ed6", "#495057")
_HISTORY = 600  # points of a plot
_ARC = 1.6 * math.pi  # rad, of the torque's arc
SECONDS: dict[str, Any] = {"x": {"time": False}}  # and no date
QUANTITIES = (
    ("velocity", "m/s"),
    ("angular_velocity", "rad/s"),
    ("acceleration", "m/s²"),
    ("angular_acceleration", "rad/s²"),
    ("force", "N"),
    ("torque", "N m"),
)


def by_hand(do: Do, act: Callable[[], None]) -> Callable[[Any], None]:
    """What a field does when a person changes it; not when this page itself writes into it."""

    def changed(event: Any) -> None:
        if event.client_id is not None:
            do(act)

    return changed


class BodyControls:
    """One body: a torque on it, a motion of it, and its plots."""

    def __init__(self, server: Any, feed: Any, do: Do, size: float):
        self._server, self._feed, self._do, self._size = server, feed, do, size
        self.rig = feed.rig
        self._line: Any = None
        self._rings: Any = None
        self._ball: Any = None
        self._past: deque[tuple[float, np.ndarray]] = deque(maxlen=_HISTORY)
        gui, bodies = server.gui, self.rig.bodies
        with gui.add_folder("body", visible=bool(bodies)):
            self._which = gui.add_dropdown("body", bodies or (_NOTHING,), initial_value=(bodies or (_NOTHING,))[0])
            self._which.on_update(by_hand(self._do, self._choose))
            self._torque = gui.add_vector3(
                "torque (N m)", initial_value=(0.0, 0.0, 0.0), step=0.001, hint="in the world of the scene"
            )
            self._torque.on_update(by_hand(self._do, self._turn))
            self._arc = gui.add_checkbox("turn the arc", initial_value=False, hint="rings turn the axis of the torque")
            self._arc.on_update(by_hand(self._do, self._grasp))
            targets = self._targets()
            self._motion = gui.add_dropdown("motion", targets, initial_value=_NOTHING, hint="prescribed from now on")
            self._motion.on_update(by_hand(self._do, self._prescribe))
            self._speed = gui.add_number("speed (m/s, rad/s)", initial_value=0.0, step=0.001)
            self._amplitude = gui.add_number("amplitude (m, rad)", initial_value=0.0, step=0.001)
            self._frequency = gui.add_number("frequency (Hz)", initial_value=1.0, min=0.0, max=50.0, step=0.001)
            for field in (self._speed, self._amplitude, self._frequency):
                field.on_update(by_hand(self._do, self._prescribe))
            self._text = gui.add_html("")
        self._plots = []
        with gui.add_folder("plots of the body", expand_by_default=False, visible=bool(bodies)):
            for name, unit in QUANTITIES:
                self._plots.append(
                    gui.add_uplot(self._empty(name), self._series(name, unit), scales=SECONDS, aspect=2.4)
                )

    # ---- choices -----------------------------------------------------------------------------------------------------

    def _targets(self) -> tuple[str, ...]:
        body = self._which.value
        return (_NOTHING, *self.rig.targets(body)) if body in self.rig.bodies else (_NOTHING,)

    def _choose(self) -> None:
        """Another body: hands leave the last one, its motion goes on."""
        self._past.clear()
        self._torque.value = (0.0, 0.0, 0.0)
        self._turn()
        self._arc.value = False
        self._grasp()
        self._motion.options = self._targets()
        self.follow()

    def follow(self) -> None:
        """The motion that there is, also where it ended by itself."""
        going = [t for t in self._motion.options if t in self.rig.motions]
        self._motion.value = going[0] if going else _NOTHING

    def reset(self) -> None:
        """After the rig was reset."""
        self._torque.value = (0.0, 0.0, 0.0)
        self._arc.value = False
        self.follow()
        self._grasp()
        self._past.clear()

    # ---- torque ------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self._which.value not in self.rig.bodies:
            return
        into, torque = self._feed.into, np.array(self._torque.value, float)
        # in the plane about its normal
        axes = np.cross(into[:, 0], into[:, 1])[:, None] if into.shape[1] == 2 else into
        self.rig.do("turn", self._which.value, axes.T @ torque)

    def _grasp(self) -> None:
        """Rings at the body's centre; they turn the axis and leave the size."""
        if self._rings is not None:
            self._rings.remove()
            self._rings = None
        if not self._arc.value or self._which.value not in self.rig.bodies:
            return
        torque = np.array(self._torque.value, float)
        if not np.any(torque):
            torque = np.array([0.0, 0.0, 0.1 * 9.81 * self.rig.mass * self._size])
            if self._feed.into.shape[1] == 2:
                torque = torque[[0, 2, 1]]
            self._torque.value = tuple(torque.tolist())
            self._turn()
        size, axis = float(np.linalg.norm(torque)), torque / np.linalg.norm(torque)
        at = self._feed.into @ self.rig.centre(self._which.value)
        rings = self._server.scene.add_transform_controls(
            "/torque_rings", scale=0.5 * max(self._size, 0.2), disable_axes=True, disable_sliders=True, position=at
        )
        self._rings = rings

        @rings.on_update
        def _(_: Any) -> None:
            def act() -> None:
                if self._rings is rings:
                    self._torque.value = tuple((size * rotated(axis, np.array(rings.wxyz, float))).tolist())
                    self._turn()

            self._do(act)

    # ---- motion ------------------------------------------------------------------------------------------------------

    def _prescribe(self) -> None:
        """The motion that is chosen; those of this body that are not chosen end."""
        chosen, targets = self._motion.value, self._targets()
        others = tuple(t for t in targets if t in self.rig.motions and t != chosen)
        law = float(self._speed.value), float(self._amplitude.value), float(self._frequency.value)
        try:
            if chosen != _NOTHING and chosen in targets:
                self.rig.do("prescribe", chosen, *law, others)
            else:
                for target in others:
                    self.rig.do("release", target)
        finally:
            self.follow()  # what could not be is not shown

    # ---- looking -----------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """What the body does now, for the plots."""
        if self._which.value not in self.rig.bodies:
            return
        motion = self.rig.motion(self._which.value)
        into = self._feed.into
        values = []
        for name, _ in QUANTITIES:
            value = getattr(motion, name)
            values.append(into @ value if len(value) > 1 else value)
        self._past.append((self.rig.state.time, np.concatenate(values)))

    def _sizes(self) -> list[int]:
        plane = self._feed.into.shape[1] == 2
        return [
            1 if plane and name in ("angular_velocity", "angular_acceleration", "torque") else 3
            for name, _ in QUANTITIES
        ]

    def _empty(self, name: str) -> tuple[np.ndarray, ...]:
        count = self._sizes()[[n for n, _ in QUANTITIES].index(name)]
        return tuple(np.zeros(2) for _ in range(1 + count + (count > 1)))

    def _series(self, name: str, unit: str) -> tuple[dict[str, Any], ...]:
        count = self._sizes()[[n for n, _ in QUANTITIES].index(name)]
        words = f"{name.replace('_', ' ')} ({unit})"
        if count == 1:
            return ({}, {"label": words, "stroke": _COLOURS[3]})
        labels = [f"{words} {axis}" for axis in "xyz"] + ["size"]
        return ({}, *({"label": label, "stroke": colour} for label, colour in zip(labels, _COLOURS, strict=True)))

    def curves(self) -> list[tuple[np.ndarray, ...]]:
        """Data of the plots, in order: time, components, size."""
        if len(self._past) < 2:
            return [self._empty(name) for name, _ in QUANTITIES]
        t = np.array([time for time, _ in self._past])
        rows = np.array([row for _, row in self._past])
        found, at = [], 0
        for count in self._sizes():
            part = rows[:, at : at + count]
            at += count
            sizes = [np.linalg.norm(part, axis=1)] if count > 1 else []
            found.append((t, *(part[:, k] for k in range(count)), *sizes))
        return found

    def show(self) -> None:
        """Arc, rings and ball where the body is."""
        scene, body = self._server.scene, self._which.value
        torque = np.array(self._torque.value, float)
        shown = body in self.rig.torques and bool(np.any(torque))
        if body in self.rig.bodies:
            centre = self._feed.into @ self.rig.centre(body)
            if self._rings is not None:
                self._rings.position = centre
        if not shown and self._line is not None:
            self._line.remove()
            self._line = None
        if shown:
            points = arc(centre, torque, self._size * (0.1 + 0.4 * _share(torque, self.rig.mass * 9.81 * self._size)))
            if self._line is None:
                colours = np.full(points.shape, (230, 160, 40), np.uint8)
                self._line = scene.add_line_segments(
                    "/torque", points, colours, thickness=4.0, thickness_units="screen"
                )
            self._line.points = points
        moving = body in self.rig.bodies and bool(self.rig.motions) and self._moving()
        if not moving and self._ball is not None:
            self._ball.remove()
            self._ball = None
        if moving:
            if self._ball is None:
                self._ball = scene.add_icosphere("/motion", radius=0.04 * self._size, color=(174, 62, 201))
            self._ball.position = centre

    def _moving(self) -> bool:
        return any(target in self.rig.motions for target in self._motion.options)

    def update_text(self) -> None:
        lines = []
        for target in self.rig.motions:
            with contextlib.suppress(MechanismError):
                lines.append(markup("{}: effort {}", target, f"{self.rig.effort(target):.4g} N, N m"))
        show(self._text, paragraphs(lines))
        for plot, data in zip(self._plots, self.curves(), strict=True):
            plot.data = data


def arc(centre: np.ndarray, torque: np.ndarray, radius: float, parts: int = 24) -> np.ndarray:
    """Segments of an arc about a torque's axis that ends in an arrow, parts + 2 x 2 x 3."""
    n = torque / np.linalg.norm(torque)
    across = np.cross(n, np.eye(3)[int(np.argmin(np.abs(n)))])
    across /= np.linalg.norm(across)
    other = np.cross(n, across)

    def at(angle: float, r: float) -> np.ndarray:
        return np.asarray(centre + r * (math.cos(angle) * across + math.sin(angle) * other))

    angles = np.linspace(0.0, _ARC, parts + 1)
    ends = [(at(a, radius), at(b, radius)) for a, b in pairwise(angles)]
    tip = at(_ARC, radius)
    ends += [(at(_ARC - 0.25, f * radius), tip) for f in (0.85, 1.15)]
    return np.array(ends)


def _share(torque: np.ndarray, scale: float) -> float:
    size = float(np.linalg.norm(torque))
    return size / (size + scale)


class JointControls:
    """Types, stops and friction of joints."""

    def __init__(self, server: Any, feed: Any, do: Do):
        self._do, self.rig = do, feed.rig
        self._limits: dict[tuple[str, str], tuple[bool, float, float, float]] = {}  # on, low, high, friction
        gui, there = server.gui, tuple(self.rig.hinges)
        with gui.add_folder("joint", visible=bool(there)):
            self._which = gui.add_dropdown("joint", there or (_NOTHING,), initial_value=(there or (_NOTHING,))[0])
            self._which.on_update(by_hand(self._do, self._choose))
            self._kind = gui.add_dropdown("type", self._kinds(), initial_value=self._now(), hint="locked where it is")
            self._kind.on_update(by_hand(self._do, self._change))
            of = self._coordinates()
            self._of = gui.add_dropdown("of its", of, initial_value=of[0])
            self._of.on_update(by_hand(self._do, self._fill))
            self._limit = gui.add_checkbox("limit", initial_value=False)
            self._low = gui.add_number("low (m, rad)", initial_value=-1.0, step=0.001)
            self._high = gui.add_number("high (m, rad)", initial_value=1.0, step=0.001)
            for field in (self._limit, self._low, self._high):
                field.on_update(by_hand(self._do, self._stops))
            self._friction = gui.add_number("friction (N, N m)", initial_value=0.0, min=0.0, step=0.001)
            self._friction.on_update(by_hand(self._do, self._rub))
            self._text = gui.add_html("")

    def _kinds(self) -> tuple[str, ...]:
        joint = self.rig.hinges.get(self._which.value)
        return changes.kinds(self.rig.mechanism, joint) if joint is not None else (_NOTHING,)

    def _now(self) -> str:
        joint = self.rig.hinges.get(self._which.value)
        return joint.kind if joint is not None else _NOTHING

    def _coordinates(self) -> tuple[str, ...]:
        joint = self.rig.hinges.get(self._which.value)
        return changes.coordinates(self.rig.mechanism, joint) if joint is not None else (_NOTHING,)

    def _choose(self) -> None:
        self._kind.options, self._of.options = self._kinds(), self._coordinates()
        self._kind.value, self._of.value = self._now(), self._of.options[0]
        self._fill()

    def _fill(self) -> None:
        """The fields of the coordinate that is chosen."""
        on, low, high, friction = self._limits.get(self._key, (False, -1.0, 1.0, 0.0))
        self._limit.value, self._low.value, self._high.value, self._friction.value = on, low, high, friction

    @property
    def _key(self) -> tuple[str, str]:
        return self._which.value, self._of.value

    def _keep(self) -> None:
        self._limits[self._key] = (
            bool(self._limit.value), float(self._low.value), float(self._high.value), float(self._friction.value)
        )  # fmt: skip

    def _change(self) -> None:
        if self._kind.value == self._now():
            return
        try:
            self.rig.do("change", self._which.value, self._kind.value)
        except (MechanismError, AssemblyError):
            self._kind.value = self._now()
            raise

    def _stops(self) -> None:
        name = f"{self._key[0]} {self._key[1]} limit"
        if self._limit.value or name in self.rig.mechanism.elements:
            ends = float(self._low.value), float(self._high.value)
            self.rig.do("limit", *self._key, *ends, bool(self._limit.value))
        self._keep()

    def _rub(self) -> None:
        name = f"{self._key[0]} {self._key[1]} friction"
        if self._friction.value > 0.0 or name in self.rig.mechanism.elements:
            self.rig.do("friction", *self._key, float(self._friction.value))
        self._keep()

    def reset(self) -> None:
        self._limits.clear()
        if self._which.value in self.rig.hinges:
            self._choose()

    def update_text(self) -> None:
        joint, which = self._key
        found = self.rig.hinges.get(joint)
        if found is None or which not in changes.coordinates(self.rig.mechanism, found):
            return
        value, rate = changes.present(self.rig.state, found, which)
        per = "rad" if which == changes.TURN else "m"
        text = f"{which} {value:.4g} {per}, {rate:.4g} {per}/s"
        show(self._text, paragraphs([markup("{}: {}", found.kind, text)]))
