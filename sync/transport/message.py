"""A message on the wire: one block as a msgpack map.

A map of `version`, `layout` (the layout's id), `seq`, `epoch`, `t_ns`, `pushed_ns`, `sent_ns`, and the raw
channels by name, nothing else. A few lines in any language, or PlotJuggler, can read it.
Our own messages all have one form, fixed bytes with numbers in fixed places, so that nopython code writes and reads
them (sync/transport/message_form.py); `decode` also reads maps that say the same in another form.
"""

import struct
from typing import Any

import msgpack
import numpy as np

from sync.ring.block import HEADER, RECEIVED, Layout

VERSION = 1
MOST_BYTES = 16 * 1024  # a longer message is none of ours
HEADER_KEYS = HEADER[:RECEIVED]  # the part of a block's header that a message holds; a record holds all of it


def decode(layout: Layout, data: bytes, block: np.ndarray, any_layout: bool = False) -> bool:
    """Fill `block` from any msgpack map that says the same; False (block unchanged) if of another version or layout.

    Raises one of MALFORMED if it is no message of ours at all. With `any_layout` it only must have these channels.
    """
    if len(data) > MOST_BYTES:
        raise ValueError("oversized")
    message = msgpack.unpackb(data, **STRICT)
    if not isinstance(message, dict):
        raise TypeError("not a map")
    if message["version"] != VERSION or (message["layout"] != layout.id and not any_layout):
        return False
    header = [message[key] for key in HEADER_KEYS]
    packed = layout.struct.pack(*header, 0, *[message[name] for name in layout.names])
    block[:] = np.frombuffer(packed, np.int64)
    return True


STRICT: dict[str, Any] = {
    "max_map_len": 256, "max_str_len": 256, "max_array_len": 0, "max_bin_len": 0, "max_ext_len": 0,
}  # fmt: skip
MALFORMED = (ValueError, TypeError, KeyError, OverflowError, struct.error, msgpack.UnpackException)
