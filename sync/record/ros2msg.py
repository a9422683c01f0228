"""The schema of a topic as a ROS 2 message definition (`ros2msg`), and its messages as CDR.

A block is nearly CDR as it is: the words of its header, then every channel aligned to its size. A message is the four
bytes that announce little-endian CDR, and the bytes of the block up to the end of its last channel; nothing is
converted. Units, descriptions, and the names of bits and kinds stand in the definition, as comments and constants.

A field of ROS 2 has lower-case letters, digits and single underscores; a channel whose name is another gets a field
name near it. The exact layout (names, types, units, skews) is metadata of the topic's channel, and a definition that
does not fit it is refused.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sync.ring.block import HEADER, PAYLOAD, RESERVED_NAMES, TYPES, Channel, Layout

ENCODING, MESSAGES = "ros2msg", "cdr"
LAYOUT = "layout"  # the key of a channel's metadata
LITTLE_ENDIAN = 0x0100  # the bytes 0, 1, 0, 0 as a little-endian number
_HEAD_BYTES = 4
_KINDS = {
    "i2": "int16", "u2": "uint16", "i4": "int32", "u4": "uint32", "i8": "int64", "u8": "uint64",
    "f4": "float32", "f8": "float64",
}  # fmt: skip
_HEADER_KINDS = ("uint64", "uint64", "int64", "int64", "int64", "int64")
HEADER_NOTES = {
    "seq": ("1", "number of the block, counted by its producer"),
    "epoch": ("1", "changes at every gap: restart, reconnect, overrun"),
    "t_ns": ("ns", "sample instant, monotonic clock"),
    "pushed_ns": ("ns", "put into the producer's ring"),
    "sent_ns": ("ns", "put on the wire; 0: never"),
    "received_ns": ("ns", "taken off the wire; 0: never"),
}
_FIELD = re.compile(r"(?!.*__)(?!.*_$)[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Description:
    """What a topic and its channels mean, for people."""

    about: str = ""
    channels: dict[str, str] = field(default_factory=dict)
    # of integer channels: the names of their bits or values, each with its text
    constants: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)

    def note(self, channel: Channel) -> str:
        """All of it in one line."""
        named = ", ".join(f"{value} {text}" for value, text in self.constants.get(channel.name, {}).values())
        skew = f"sampled {-channel.skew_ns} ns before t_ns" if channel.skew_ns else ""
        return "; ".join(text for text in (self.channels.get(channel.name, ""), named, skew) if text)


NOTHING = Description()
Describe = Callable[[str, Layout], Description]


def undescribed(topic: str, layout: Layout) -> Description:
    return NOTHING


def type_name(topic: str, taken: set[str]) -> str:
    """`tandem/msg/Step` for /step. Readers know a definition by this name: two topics have two."""
    words = re.findall(r"[A-Za-z0-9]+", topic)
    name = "".join(word[0].upper() + word[1:] for word in words)
    name = name if re.match(r"[A-Z]", name) else f"Topic{name}"
    found, number = f"tandem/msg/{name}", 2
    while found in taken:
        found, number = f"tandem/msg/{name}{number}", number + 1
    return found


def field_names(layout: Layout) -> list[str]:
    """Of the channels, in order; a channel's own name wherever it can be one."""
    taken = {*HEADER, *(name for name in layout.names if _FIELD.fullmatch(name))}
    found = []
    numbers: dict[str, int] = {}  # given so far: a record may have thousands of channels that are near one name
    for name in layout.names:
        if _FIELD.fullmatch(name):
            found.append(name)
            continue
        near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        near = near if re.match(r"[a-z]", near) else f"channel_{near}".rstrip("_")
        number = numbers.get(near, 1)
        while (unique := near if number == 1 else f"{near}_{number}") in taken:
            number += 1
        numbers[near] = number + 1
        taken.add(unique)
        found.append(unique)
    return found


def _fields(layout: Layout) -> list[str]:
    """Type and name of every field."""
    own = [f"{_KINDS[c.type]} {name}" for c, name in zip(layout.channels, field_names(layout), strict=True)]
    return [*(f"{kind} {name}" for kind, name in zip(_HEADER_KINDS, HEADER, strict=True)), *own]


def comment(text: str) -> str:
    """Of a comment: one line, and no character that a reader of definitions may not take."""
    return "".join(c if " " <= c <= "~" else "?" for c in " ".join(text.split()))


def to_definition(topic: str, layout: Layout, described: Description = NOTHING) -> bytes:
    fields = _fields(layout)
    lines = [f"# {comment(described.about)}"] if described.about else []
    lines += [f"# {comment(topic)} of a record of tandem; instants are monotonic, log times are UTC"]
    for channel, values in described.constants.items():
        kind = next((_KINDS[c.type] for c in layout.channels if c.name == channel and c.type[0] in "iu"), None)
        prefix = re.sub(r"[^A-Z0-9]+", "_", channel.upper()).strip("_")
        for name, (value, text) in values.items() if kind is not None else ():
            lines.append(f"{kind} {prefix}_{name}={value}  # {comment(text)}")
    notes = [f"[{unit}] {text}" for unit, text in HEADER_NOTES.values()]
    notes += [f"[{c.unit}] {described.note(c)}" for c in layout.channels]
    lines += [f"{entry}  # {comment(note)}" for entry, note in zip(fields, notes, strict=True)]
    return ("\n".join(lines) + "\n").encode()


def to_layout(definition: bytes, stated: str) -> Layout:
    """The layout that a channel states; raises ValueError if it is none, or if the definition is of another."""
    try:
        channels = tuple(Channel(name, kind, unit, skew) for name, kind, unit, skew in json.loads(stated))
        sound = all(
            isinstance(c.name, str) and c.type in TYPES and isinstance(c.unit, str) and type(c.skew_ns) is int
            and c.name not in ("", *RESERVED_NAMES)
            for c in channels
        )  # fmt: skip
        if not channels or not sound or len({c.name for c in channels}) < len(channels):
            raise ValueError("its layout is not one of blocks")
        layout = Layout(channels)
        lines = [line.split("#")[0].split() for line in definition.decode().splitlines()]
        fields = [" ".join(words) for words in lines if words and not any("=" in word for word in words)]
        if fields != _fields(layout):
            raise ValueError("its fields do not fit the layout it states")
    except (TypeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"not a schema of tandem: {error}") from None
    return layout


# ---- messages --------------------------------------------------------------------------------------------------------


def message_bytes(layout: Layout) -> int:
    return _HEAD_BYTES + 8 * PAYLOAD + layout.payload_bytes


def _meant(layout: Layout) -> np.ndarray | None:
    """A block in which every bit that means something is set; None if all of them do."""
    words = np.zeros(8 * layout.words, np.uint8)
    words[: 8 * PAYLOAD] = 0xFF
    for channel, offset in zip(layout.channels, layout.offsets, strict=True):
        words[8 * PAYLOAD + offset : 8 * PAYLOAD + offset + channel.size] = 0xFF
    return None if words.all() else words.view(np.int64)


def to_messages(layout: Layout, words: np.ndarray) -> list[bytes]:
    """Of blocks, a row each; one by one, for what does not go into a file."""
    meant = _meant(layout)
    rows = np.ascontiguousarray(words if meant is None else words & meant).view(np.uint8)
    rows = rows.reshape(len(words), -1)[:, : message_bytes(layout) - _HEAD_BYTES]
    head = LITTLE_ENDIAN.to_bytes(_HEAD_BYTES, "little")
    return [head + row.tobytes() for row in rows]


class MessageReader:
    """Blocks from the messages of a chunk."""

    def __init__(self, layout: Layout):
        self.layout, self._size, self._meant = layout, message_bytes(layout), _meant(layout)

    def read(self, raw: np.ndarray, first: np.ndarray, end: np.ndarray) -> np.ndarray:
        """From the bytes of a chunk, given where each message begins and ends; raises ValueError if one of them is no
        message of this layout."""
        wrong = np.flatnonzero(end - first != self._size)
        if len(wrong):
            n = int(wrong[0])
            raise ValueError(f"it has {int(end[n] - first[n])} bytes, not {self._size}")
        blocks = np.zeros((len(first), self.layout.words), np.int64)
        if not len(first):
            return blocks
        messages = np.lib.stride_tricks.sliding_window_view(raw, self._size)[first]
        if (messages[:, :_HEAD_BYTES] != (0, 1, 0, 0)).any():
            raise ValueError("it is not little-endian CDR")
        blocks.view(np.uint8)[:, : self._size - _HEAD_BYTES] = messages[:, _HEAD_BYTES:]
        if self._meant is not None:
            blocks &= self._meant
        return blocks


class MessageWriter:
    """MCAP's message records, of one channel, from blocks."""

    def __init__(self, layout: Layout, opcode: int, channel: int):
        self.layout, self.channel = layout, channel
        self._block = message_bytes(layout) - _HEAD_BYTES
        self.dtype = np.dtype(
            [
                ("opcode", "u1"), ("length", "<u8"), ("channel", "<u2"), ("sequence", "<u4"), ("logged", "<u8"),
                ("published", "<u8"), ("cdr", "<u4"), ("block", f"V{self._block}"),
            ]
        )  # fmt: skip
        self._blank = np.zeros(1, self.dtype)
        self._blank["opcode"], self._blank["channel"], self._blank["cdr"] = opcode, channel, LITTLE_ENDIAN
        self._blank["length"] = self.dtype.itemsize - 9
        self._meant = _meant(layout)

    def records(
        self, blocks: np.ndarray, positions: np.ndarray, logged: np.ndarray, published: np.ndarray
    ) -> np.ndarray:
        records = np.repeat(self._blank, len(blocks))
        records["sequence"], records["logged"], records["published"] = positions & 0xFFFFFFFF, logged, published
        words = np.ascontiguousarray(blocks) if self._meant is None else blocks & self._meant
        records["block"] = words.view(np.uint8)[:, : self._block].copy().view(f"V{self._block}")[:, 0]
        return records
