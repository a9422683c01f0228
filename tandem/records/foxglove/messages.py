"""Transforms and markers as messages of ROS 2 (tf2_msgs, visualization_msgs of Humble and later), in CDR.

These types, and not Foxglove's own, because Foxglove, RViz and the readers of ROS 2 all have them, and a file stays one
of the profile `ros2`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tandem.records.foxglove.cdr import Cdr

TRANSFORMS, MARKERS = "tf2_msgs/msg/TFMessage", "visualization_msgs/msg/MarkerArray"
LINES, TRIANGLES = 5, 11  # types of a marker

_PARTS = {
    "geometry_msgs/TransformStamped": (
        "std_msgs/Header header", "string child_frame_id", "geometry_msgs/Transform transform",
    ),
    "std_msgs/Header": ("builtin_interfaces/Time stamp", "string frame_id"),
    "builtin_interfaces/Time": ("int32 sec", "uint32 nanosec"),
    "builtin_interfaces/Duration": ("int32 sec", "uint32 nanosec"),
    "geometry_msgs/Transform": ("geometry_msgs/Vector3 translation", "geometry_msgs/Quaternion rotation"),
    "geometry_msgs/Vector3": ("float64 x", "float64 y", "float64 z"),
    "geometry_msgs/Point": ("float64 x", "float64 y", "float64 z"),
    "geometry_msgs/Quaternion": ("float64 x", "float64 y", "float64 z", "float64 w"),
    "geometry_msgs/Pose": ("geometry_msgs/Point position", "geometry_msgs/Quaternion orientation"),
    "std_msgs/ColorRGBA": ("float32 r", "float32 g", "float32 b", "float32 a"),
    "sensor_msgs/CompressedImage": ("std_msgs/Header header", "string format", "uint8[] data"),
    "visualization_msgs/UVCoordinate": ("float32 u", "float32 v"),
    "visualization_msgs/MeshFile": ("string filename", "uint8[] data"),
    "visualization_msgs/Marker": (
        "int32 ARROW=0", "int32 CUBE=1", "int32 SPHERE=2", "int32 CYLINDER=3", "int32 LINE_STRIP=4",
        "int32 LINE_LIST=5", "int32 CUBE_LIST=6", "int32 SPHERE_LIST=7", "int32 POINTS=8",
        "int32 TEXT_VIEW_FACING=9", "int32 MESH_RESOURCE=10", "int32 TRIANGLE_LIST=11",
        "int32 ADD=0", "int32 MODIFY=0", "int32 DELETE=2", "int32 DELETEALL=3",
        "std_msgs/Header header", "string ns", "int32 id", "int32 type", "int32 action", "geometry_msgs/Pose pose",
        "geometry_msgs/Vector3 scale", "std_msgs/ColorRGBA color", "builtin_interfaces/Duration lifetime",
        "bool frame_locked", "geometry_msgs/Point[] points", "std_msgs/ColorRGBA[] colors", "string texture_resource",
        "sensor_msgs/CompressedImage texture", "visualization_msgs/UVCoordinate[] uv_coordinates", "string text",
        "string mesh_resource", "visualization_msgs/MeshFile mesh_file", "bool mesh_use_embedded_materials",
    ),
}  # fmt: skip
_WHOLE = {
    TRANSFORMS: ("geometry_msgs/TransformStamped[] transforms",),
    MARKERS: ("visualization_msgs/Marker[] markers",),
}


def definition(kind: str) -> bytes:
    """Of one of the two types, with all types in it."""
    found: list[str] = []

    def gather(lines: Sequence[str]) -> None:
        for line in lines:
            part = line.split()[0].removesuffix("[]")
            if part in _PARTS and part not in found:
                found.append(part)
                gather(_PARTS[part])

    gather(_WHOLE[kind])
    texts = ["\n".join(_WHOLE[kind])]
    texts += ["=" * 80 + f"\nMSG: {part}\n" + "\n".join(_PARTS[part]) for part in found]
    return ("\n".join(texts) + "\n").encode()


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
