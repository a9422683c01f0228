"""Message types of ROS 2: their definitions, the hash that names each exactly, and fields read out of CDR.

The definitions are those of the distributions since Humble. A type's hash (RIHS01) is the SHA-256 of its description as
JSON: its name, its fields with the number of their kind, and the same of every type in it, by name. Publisher and
subscriber on Zenoh meet only where both have the same hash.
"""

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Definitions = Mapping[str, Sequence[str]]

TYPES: dict[str, tuple[str, ...]] = {
    "builtin_interfaces/Time": ("int32 sec", "uint32 nanosec"),
    "builtin_interfaces/Duration": ("int32 sec", "uint32 nanosec"),
    "std_msgs/Header": ("builtin_interfaces/Time stamp", "string frame_id"),
    "std_msgs/ColorRGBA": ("float32 r", "float32 g", "float32 b", "float32 a"),
    "std_msgs/Float32": ("float32 data",),
    "std_msgs/Float64": ("float64 data",),
    "geometry_msgs/Vector3": ("float64 x", "float64 y", "float64 z"),
    "geometry_msgs/Point": ("float64 x", "float64 y", "float64 z"),
    "geometry_msgs/Quaternion": ("float64 x", "float64 y", "float64 z", "float64 w"),
    "geometry_msgs/Pose": ("geometry_msgs/Point position", "geometry_msgs/Quaternion orientation"),
    "geometry_msgs/PoseStamped": ("std_msgs/Header header", "geometry_msgs/Pose pose"),
    "geometry_msgs/Transform": ("geometry_msgs/Vector3 translation", "geometry_msgs/Quaternion rotation"),
    "geometry_msgs/TransformStamped": (
        "std_msgs/Header header", "string child_frame_id", "geometry_msgs/Transform transform",
    ),
    "geometry_msgs/Twist": ("geometry_msgs/Vector3 linear", "geometry_msgs/Vector3 angular"),
    "geometry_msgs/TwistStamped": ("std_msgs/Header header", "geometry_msgs/Twist twist"),
    "tf2_msgs/TFMessage": ("geometry_msgs/TransformStamped[] transforms",),
    "sensor_msgs/CompressedImage": ("std_msgs/Header header", "string format", "uint8[] data"),
    "sensor_msgs/JointState": (
        "std_msgs/Header header", "string[] name", "float64[] position", "float64[] velocity", "float64[] effort",
    ),
    "sensor_msgs/Joy": ("std_msgs/Header header", "float32[] axes", "int32[] buttons"),
    "diagnostic_msgs/KeyValue": ("string key", "string value"),
    "diagnostic_msgs/DiagnosticStatus": (
        "byte OK=0", "byte WARN=1", "byte ERROR=2", "byte STALE=3",
        "byte level", "string name", "string message", "string hardware_id", "diagnostic_msgs/KeyValue[] values",
    ),
    "diagnostic_msgs/DiagnosticArray": (
        "std_msgs/Header header", "diagnostic_msgs/DiagnosticStatus[] status",
    ),
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
    "visualization_msgs/MarkerArray": ("visualization_msgs/Marker[] markers",),
}  # fmt: skip

# the numbers of kinds in a description
_NUMBERS = {
    "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8, "uint64": 9,
    "float32": 10, "float64": 11, "char": 13, "bool": 15, "byte": 16, "string": 17,
}  # fmt: skip
_NESTED = 1
_FIXED, _BOUNDED, _UNBOUNDED = 48, 96, 144  # added for an array, and for a sequence
_FORMS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d", "char": "B", "bool": "?", "byte": "B",
}  # fmt: skip
_MOST_PADDING = 3  # bytes behind a message
_FIELD = re.compile(r"([A-Za-z0-9_/]+)(?:\[(<=)?(\d*)\])?\s+([a-z][a-z0-9_]*)")
_STEP = re.compile(r"([a-z][a-z0-9_]*)(?:\[(\d{1,4})\])?")


@dataclass(frozen=True)
class Field:
    name: str
    kind: str  # of one element: a plain one, or "package/Name"
    many: str = ""  # "": one; "fixed", "bounded" or "any": so many, at most so many, any number
    count: int = 0


def short(kind: str) -> str:
    """`package/Name` of `package/msg/Name`."""
    return kind.replace("/msg/", "/")


def fields(lines: Sequence[str]) -> list[Field]:
    """Of a definition; constants and comments left out."""
    found = []
    for line in lines:
        text = line.split("#")[0].strip()
        if not text or "=" in text.replace("<=", ""):
            continue
        match = _FIELD.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r}: no field of a message")
        kind, at_most, count, name = match.groups()
        many = "" if count is None else "bounded" if at_most else "fixed" if count else "any"
        found.append(Field(name, short(kind), many, int(count or 0)))
    return found


def with_all(kind: str, types: Definitions = TYPES) -> dict[str, list[Field]]:
    """A type and all types in it, the type first, then in the order in which they are named."""
    found: dict[str, list[Field]] = {}

    def gather(name: str) -> None:
        if name not in found:
            found[name] = fields(types[name])
            for field in found[name]:
                if field.kind not in _NUMBERS:
                    gather(field.kind)

    gather(short(kind))
    return found


def definition(kind: str, types: Definitions = TYPES) -> bytes:
    """As text, with all types in it."""
    first, *others = with_all(kind, types)
    texts = ["\n".join(types[first])]
    texts += ["=" * 80 + f"\nMSG: {name}\n" + "\n".join(types[name]) for name in others]
    return ("\n".join(texts) + "\n").encode()


def type_hash(kind: str, types: Definitions = TYPES) -> str:
    described = {_long(name): _described(name, own) for name, own in with_all(kind, types).items()}
    first = described.pop(_long(short(kind)))
    whole = {"type_description": first, "referenced_type_descriptions": [described[n] for n in sorted(described)]}
    return f"RIHS01_{hashlib.sha256(json.dumps(whole).encode()).hexdigest()}"


def _long(kind: str) -> str:
    return kind.replace("/", "/msg/")


def _described(name: str, own: list[Field]) -> dict[str, object]:
    extra = {"": 0, "fixed": _FIXED, "bounded": _BOUNDED, "any": _UNBOUNDED}
    return {
        "type_name": _long(name),
        "fields": [
            {
                "name": field.name,
                "type": {
                    "type_id": extra[field.many] + _NUMBERS.get(field.kind, _NESTED), "capacity": field.count,
                    "string_capacity": 0,
                    "nested_type_name": "" if field.kind in _NUMBERS else _long(field.kind),
                },
            }
            for field in own
        ],
    }  # fmt: skip


# ---- a number out of a message ---------------------------------------------------------------------------------------


class Picker:
    """One number of every message of a type, by a path such as `twist.linear.x` or `axes[1]`."""

    def __init__(self, kind: str, path: str, types: Definitions = TYPES):
        """Raises ValueError where the type has no such number."""
        self._types = with_all(kind, types)
        self._kind, self._path = short(kind), []
        at = self._kind
        for word in path.split("."):
            match = _STEP.fullmatch(word)
            found = next((f for f in self._types.get(at, []) if match and f.name == match[1]), None)
            if match is None or found is None:
                there = ", ".join(f.name for f in self._types.get(at, [])) or "none"
                raise ValueError(f"{word!r} is no field of {at}, which has {there}")
            if bool(found.many) != bool(match[2]):
                raise ValueError(f"{word!r}: {found.name} {'has' if found.many else 'has no'} elements, such as [0]")
            self._path.append((found.name, int(match[2] or 0)))
            at = found.kind
        if at not in _FORMS:
            raise ValueError(f"{path!r} of {kind} is no number")

    def __call__(self, data: bytes) -> float:
        """Raises ValueError where the message is malformed anywhere, or has no such element."""
        reader = _Reader(data, self._types)
        try:
            value = reader.pick(self._kind, self._path)
            reader.end()
        except (struct.error, IndexError) as error:
            raise ValueError(f"it ends too early: {error}") from None
        if value is None:
            raise ValueError("it has no such element")
        return float(value)


class _Reader:
    """CDR: every number aligned to its size, counted from behind the four bytes that announce it."""

    def __init__(self, data: bytes, types: dict[str, list[Field]]):
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise ValueError("it is not CDR")
        self._data, self._at, self._types = data[4:], 0, types
        self._order = "<" if data[1] else ">"

    def pick(self, kind: str, path: Sequence[tuple[str, int]]) -> float | None:
        """The number at the end of the path; everything else is passed over, to see that it is there."""
        name, place = path[0] if path else ("", 0)
        found = None
        for field in self._types[kind]:
            count = self._count(field)
            if field.name != name and field.kind in _FORMS:
                self._pass(field.kind, count)
                continue
            for number in range(count):
                if field.name != name or number != place:
                    self._skip(field.kind)
                elif len(path) == 1:
                    found = self._number(field.kind)
                else:
                    found = self.pick(field.kind, path[1:])
        return found

    def _pass(self, kind: str, count: int) -> None:
        """So many numbers at once: a message of 64 KiB may not cost a loop over its bytes."""
        size = struct.calcsize(_FORMS[kind])
        self._at += (-self._at % size if count else 0) + size * count

    def end(self) -> None:
        if self._at > len(self._data):
            raise ValueError("it ends too early")
        if len(self._data) - self._at > _MOST_PADDING:
            raise ValueError(f"it has {len(self._data) - self._at} bytes too many")

    def _count(self, field: Field) -> int:
        if field.many in ("", "fixed"):
            return field.count if field.many else 1
        count = int(self._number("uint32"))
        if count > len(self._data) - self._at or (field.many == "bounded" and count > field.count):
            raise ValueError(f"{field.name} has {count} elements, more than it can")
        return count

    def _number(self, kind: str) -> float:
        form = _FORMS[kind]
        size = struct.calcsize(form)
        self._at += -self._at % size
        (value,) = struct.unpack_from(self._order + form, self._data, self._at)
        self._at += size
        return float(value) if form in "fd" else int(value)

    def _skip(self, kind: str) -> None:
        if kind == "string":
            length = int(self._number("uint32"))
            if length > len(self._data) - self._at:
                raise ValueError("a text is longer than the message")
            self._at += length
        elif kind in _FORMS:
            self._number(kind)
        else:
            self.pick(kind, ())
