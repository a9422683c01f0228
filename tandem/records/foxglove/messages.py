"""Transforms and markers as messages of ROS 2 (tf2_msgs, visualization_msgs of Humble and later), in CDR.

These types, and not Foxglove's own, because Foxglove, RViz and the readers of ROS 2 all have them, and a file stays one
of the profile `ros2`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sync.record import ros2_types
from tandem.records.foxglove.cdr import Cdr

TRANSFORMS, MARKERS = "tf2_msgs/msg/TFMessage", "visualization_msgs/msg/MarkerArray"
LINES, TRIANGLES = 5, 11  # types of a marker


def definition(kind: str) -> bytes:
    """The definition of one of the two types, with those of all types in it."""
    return ros2_types.definition(kind)


def _header(out: Cdr, at_ns: int, frame: str) -> None:
    out.numbers("i", at_ns // 10**9).numbers("I", at_ns % 10**9).text(frame)


@dataclass(frozen=True)
class Transform:
    child: str
    place: np.ndarray
    wxyz: np.ndarray
    parent: str = "world"


def transforms(at_ns: int, each: Sequence[Transform]) -> bytes:
    """`at_ns`: UTC."""
    out = Cdr().numbers("I", len(each))
    for transform in each:
        _header(out, at_ns, transform.parent)
        w, x, y, z = transform.wxyz.tolist()
        out.text(transform.child).numbers("d", *transform.place.tolist(), x, y, z, w)
    return out.message()


@dataclass(frozen=True)
class Marker:
    """Lines or triangles, three numbers a point, in the axes of a frame with which they move."""

    frame: str
    name: str
    kind: int
    points: np.ndarray
    colour: tuple[int, int, int]
    opacity: float = 1.0
    width: float = 1.0  # m, of lines
    colours: np.ndarray = field(default_factory=lambda: np.zeros((0, 4), np.float32))  # of the points, where they vary


def markers(at_ns: int, each: Sequence[Marker]) -> bytes:
    """One of the same frame and name takes the place of the one before."""
    out = Cdr().numbers("I", len(each))
    for marker in each:
        _header(out, at_ns, marker.frame)
        out.text(f"{marker.frame}/{marker.name}").numbers("i", 0, marker.kind, 0)
        out.numbers("d", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)  # the pose: that of the frame
        out.numbers("d", *((marker.width, 0.0, 0.0) if marker.kind == LINES else (1.0, 1.0, 1.0)))
        out.numbers("f", *(c / 255.0 for c in marker.colour), marker.opacity)
        out.numbers("i", 0).numbers("I", 0).numbers("B", 1)  # for ever; moves with its frame
        out.array(np.asarray(marker.points, np.float64).reshape(-1, 3)).array(marker.colours)
        out.text("")
        _header(out, 0, "")  # a texture, none
        out.text("").numbers("I", 0)
        out.numbers("I", 0).text("").text("").text("").numbers("I", 0).numbers("B", 0)
    return out.message()
