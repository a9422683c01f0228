"""The schema of a topic in an export: a JSON Schema of its blocks, from which the layout is read again."""

import json
from typing import Any

from sync.ring.block import HEADER, RESERVED_NAMES, TYPES, Channel, Layout
from sync.transport.message import VERSION

_HEADER_UNITS = {"t_ns": "ns", "pushed_ns": "ns", "sent_ns": "ns", "received_ns": "ns"}


def to_schema(layout: Layout) -> bytes:
    properties: dict[str, Any] = {"version": {"const": VERSION}, "layout": {"const": layout.id}}
    for name in HEADER:
        properties[name] = {"type": "integer", "unit": _HEADER_UNITS.get(name, "1")}
    for c in layout.channels:
        kind = "number" if c.type.startswith("f") else "integer"
        properties[c.name] = {"type": kind, "unit": c.unit, "raw_type": c.type, "skew_ns": c.skew_ns}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)}).encode()


def to_layout(schema: bytes) -> Layout:
    """Raises ValueError if it is not a schema of ours."""
    try:
        properties = json.loads(schema)["properties"]
        channels = [
            Channel(name, p["raw_type"], p["unit"], p["skew_ns"]) for name, p in properties.items() if "raw_type" in p
        ]
        layout = Layout(tuple(channels))
        known = all(c.type in TYPES and isinstance(c.unit, str) and isinstance(c.skew_ns, int) for c in channels)
        known = known and not any(c.name in ("", *RESERVED_NAMES) for c in channels)
        if not channels or not known or properties["layout"]["const"] != layout.id:
            raise ValueError("the channels do not fit the layout they claim")
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"not a schema of tandem: {error}") from None
    return layout
