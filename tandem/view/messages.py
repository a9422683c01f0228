"""What a page may send: an allow-list of messages, each checked in full and written again.

The page's library sets any attribute of a widget that a client names, keeps what is uploaded, and runs handlers for
messages that no page of ours sends. So it never sees a client's bytes: each message is decoded here, within limits, and
what passes is encoded again from the checked values. A client may move its camera, draw a gizmo, trigger a command and
set the `value` of a widget: of its type, finite, within its limits or among its options.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgpack

MOST_BYTES = 16 * 1024  # of a message
_MOST_TEXT = 256  # characters of a field
_MOST_NAME = 256
_FAR = 1e7  # m: no camera and no gizmo is further away
_SLACK = 1e-9  # of a slider's range: the last step of a slider is a sum of decimal fractions
_MOST_PIXELS = 1 << 16

Widgets = Callable[[str], Any]  # the widget of this id, or None


class Rejected(ValueError):
    """A message that no page of ours sends."""


def checked(data: bytes | str, widgets: Widgets) -> bytes:
    """The message as the library may read it; Rejected with the reason if it may not."""
    if not isinstance(data, bytes) or len(data) > MOST_BYTES:
        raise Rejected("not a message of a page")
    try:
        message = msgpack.unpackb(
            data, max_str_len=4 * _MOST_TEXT, max_bin_len=0, max_array_len=8, max_map_len=16, max_ext_len=0
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise Rejected(f"malformed: {error}") from None
    if not isinstance(message, dict):
        raise Rejected("malformed: not a table")
    kind = message.pop("type", None)
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        raise Rejected(f"{str(kind)[:64]!r} is not a message of a page")
    packed: bytes = msgpack.packb({"type": kind, **check(message, widgets)})
    return packed


# ---- values ----------------------------------------------------------------------------------------------------------


def _fields(message: dict[Any, Any], names: Iterable[str]) -> list[Any]:
    wanted = list(names)
    if set(message) != set(wanted):
        raise Rejected(f"fields {sorted(map(str, message))}, not {sorted(wanted)}")
    return [message[name] for name in wanted]


def _number(value: Any, low: float | None = None, high: float | None = None) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Rejected("not a finite number")
    if (low is not None and value < low) or (high is not None and value > high):
        raise Rejected(f"{value} is not within {low} and {high}")
    return value


def _vector(value: Any, count: int, low: Any = None, high: Any = None) -> list[float]:
    if not isinstance(value, list) or len(value) != count:
        raise Rejected(f"not {count} numbers")
    lows, highs = low or [None] * count, high or [None] * count
    return [float(_number(v, a, b)) for v, a, b in zip(value, lows, highs, strict=True)]


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise Rejected(f"not a text of at most {most} characters")
    return value


# ---- widgets ---------------------------------------------------------------------------------------------------------


def _within(value: Any, props: Any) -> Any:
    low, high = props.min, props.max
    slack = _SLACK * (high - low)
    return min(max(_number(value, low - slack, high + slack), low), high)


def _of(options: Iterable[str], value: Any) -> str:
    if not isinstance(value, str) or value not in options:
        raise Rejected("not one of the options")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Rejected("not true or false")
    return value


def _pressed(value: Any) -> bool:
    if value is not True:
        raise Rejected("a button is pressed, or not")
    return value


# by the name of the class that holds a widget's properties
_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "GuiSliderProps": _within,
    "GuiNumberProps": lambda value, props: _number(value, props.min, props.max),
    "GuiVector2Props": lambda value, props: _vector(value, 2, props.min, props.max),
    "GuiVector3Props": lambda value, props: _vector(value, 3, props.min, props.max),
    "GuiCheckboxProps": lambda value, _: _switch(value),
    "GuiTextProps": lambda value, _: _text(value, _MOST_TEXT),
    "GuiDropdownProps": lambda value, props: _of(props.options, value),
    "GuiButtonGroupProps": lambda value, props: _of(props.options, value),
    "GuiButtonProps": lambda value, _: _pressed(value),
}


def _update(message: dict[Any, Any], widgets: Widgets) -> dict[str, Any]:
    uuid, updates = _fields(message, ("uuid", "updates"))
    if not isinstance(updates, dict) or set(updates) != {"value"}:
        raise Rejected("only the value of a widget can be set")
    widget = widgets(_text(uuid, _MOST_NAME))
    if widget is None:  # one that has just been removed
        raise Rejected("no such widget")
    props = widget._impl.props
    check = _VALUES.get(type(props).__name__)
    if check is None or getattr(props, "disabled", False):
        raise Rejected("this widget cannot be set")
    return {"uuid": uuid, "updates": {"value": check(updates["value"], props)}}


# ---- the scene -------------------------------------------------------------------------------------------------------


def _camera(message: dict[Any, Any], _: Widgets) -> dict[str, Any]:
    vectors = {"wxyz": 4, "position": 3, "look_at": 3, "up_direction": 3}
    numbers = {"fov": 2.0 * math.pi, "near": _FAR, "far": 1e3 * _FAR}
    pixels = ("image_height", "image_width")
    _fields(message, (*vectors, *numbers, *pixels))
    return (
        {name: _vector(message[name], count, [-_FAR] * count, [_FAR] * count) for name, count in vectors.items()}
        | {name: float(_number(message[name], 0.0, most)) for name, most in numbers.items()}
        | {name: int(_number(message[name], 0, _MOST_PIXELS)) for name in pixels}
    )


def _gizmo(message: dict[Any, Any], _: Widgets) -> dict[str, Any]:
    name, wxyz, position, owner = _fields(message, ("name", "wxyz", "position", "owner"))
    return {
        "name": _text(name, _MOST_NAME), "wxyz": _vector(wxyz, 4, [-2.0] * 4, [2.0] * 4),
        "position": _vector(position, 3, [-_FAR] * 3, [_FAR] * 3), "owner": _text(owner, _MOST_NAME),
    }  # fmt: skip


def _drag(message: dict[Any, Any], _: Widgets) -> dict[str, Any]:
    name, owner = _fields(message, ("name", "owner"))
    return {"name": _text(name, _MOST_NAME), "owner": _text(owner, _MOST_NAME)}


def _command(message: dict[Any, Any], _: Widgets) -> dict[str, Any]:
    (uuid,) = _fields(message, ("uuid",))
    return {"uuid": _text(uuid, _MOST_NAME)}


_CHECKS: dict[str, Callable[[dict[Any, Any], Widgets], dict[str, Any]]] = {
    "GuiUpdateMessage": _update,
    "CommandTriggerMessage": _command,
    "ViewerCameraMessage": _camera,
    "TransformControlsUpdateMessage": _gizmo,
    "TransformControlsDragStartMessage": _drag,
    "TransformControlsDragEndMessage": _drag,
}
