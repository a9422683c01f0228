"""Where the machine will be, as the look ahead predicts it: the held path before it, red with a warning, and thin the
paths of a hand that goes on moving and of one that follows a path. A prediction that has become old is not shown;
without a look ahead there is none.
"""

from typing import Any

import numpy as np

from sim_service.look_ahead.record import HELD, MOVING, PATH, POINTS, WARNING
from tandem.view.data_source import DataSource, Frame
from tandem.view.ground import Ground

_OLD_NS = 500_000_000
_ABOVE = 0.05  # m over the ground
_CALM, _ALARM, _FAINT, _ALONG_PATH = (40, 150, 70), (214, 40, 40), (120, 110, 160), (214, 130, 20)


class PredictedPaths:
    def __init__(self, server: Any, feed: DataSource, ground: Ground, prefix: str = ""):
        self._feed, self._ground = feed, ground
        self._lines: dict[str, Any] = {}
        config = getattr(feed, "config", None)  # a mechanism on its rig has none
        if config is None or not config.look_ahead.enabled:
            return
        for name, colour, thickness in (
            ("held", _CALM, 4.0), ("warning", _ALARM, 5.0), ("moving", _FAINT, 2.0), ("path", _ALONG_PATH, 2.0),
        ):  # fmt: skip
            self._lines[name] = server.scene.add_line_segments(
                f"{prefix}/predicted/{name}", np.zeros((POINTS, 2, 3)), colour, thickness=thickness,
                thickness_units="screen", visible=False,
            )  # fmt: skip

    def show(self, frame: Frame, origin: np.ndarray) -> None:
        if not self._lines:
            return
        found = {
            kind: each for kind, each in self._feed.predicted().items() if 0 <= frame.t_ns - each["t_ns"] < _OLD_NS
        }
        held = found.get(HELD)
        warns = held is not None and bool(int(held["status"]) & WARNING)
        shown = {
            "held": None if warns else held, "warning": held if warns else None, "moving": found.get(MOVING),
            "path": found.get(PATH),
        }  # fmt: skip
        for name, prediction in shown.items():
            line = self._lines[name]
            points = None if prediction is None else self._points(prediction, origin)
            if points is not None:
                line.points = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
            if line.visible != (points is not None):
                line.visible = points is not None

    def _points(self, prediction: Any, origin: np.ndarray) -> np.ndarray | None:
        x = np.array([origin[0], *(float(prediction[f"x_{n + 1}"]) for n in range(POINTS))])
        y = np.array([origin[1], *(float(prediction[f"y_{n + 1}"]) for n in range(POINTS))])
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return None
        # what the machine has passed since lies behind it
        ahead = np.hypot(x[1:] - x[-1], y[1:] - y[-1]) <= np.hypot(x[0] - x[-1], y[0] - y[-1])
        x[1:], y[1:] = np.where(ahead, x[1:], x[0]), np.where(ahead, y[1:], y[0])
        z = [self._ground.height(a, b) + _ABOVE for a, b in zip(x, y, strict=True)]
        return np.column_stack([x, y, z])


def in_words(prediction: Any, horizon_s: float) -> str:
    """What the last held prediction warns of; nothing if it does not."""
    if prediction is None or not int(prediction["status"]) & WARNING:
        return ""
    if float(prediction["time_to_loss"]) < horizon_s:
        return f"look ahead: control is lost in {float(prediction['time_to_loss']):.1f} s with the hands as they are"
    return f"look ahead: {100 * float(prediction['use_most']):.0f} % of the grip will be used"
