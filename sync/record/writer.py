"""Writing a record: blocks of rings into the chunks of an MCAP file."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from mcap.opcode import Opcode

from sync.record import ros2msg
from sync.record.heads import NOTICE, PART, START
from sync.record.mcap_file import McapFile
from sync.record.rings import RING, Ring
from sync.record.ros2msg import Describe, MessageWriter, undescribed
from sync.record.sink import Sink
from sync.record.utc import utc_offset
from sync.ring.block import PUSHED, RECEIVED, Layout, T

FILE = "run.mcap"  # the first part, and nearly always the only one
PROFILE = "ros2"  # some readers of ROS 2 open no other; ours go by the start sentinel
FORMAT = 2
END = "tandem.end"
NEXT = "tandem.next"  # instead of an end: the file in which the record goes on
_NAME = re.compile(r"run(?:\.([2-9]|[1-9][0-9]{1,5}))?\.mcap")
QUALITY = "offered_qos_profiles"  # the profile asks for it; there is none


def part_file(number: int) -> str:
    return FILE if number == 1 else f"run.{number}.mcap"


def parts(folder: Path) -> dict[int, Path]:
    """The files of a run by their numbers, in order."""
    named = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return dict(sorted((int(name[1] or 1), path) for name, path in named if name and not path.is_dir()))


def announce(file: McapFile, topic: str, layout: Layout, types: set[str], describe: Describe) -> MessageWriter:
    """Schema and channel of a topic; `types` are the names that schemas have already, and gets this one's."""
    kind = ros2msg.type_name(topic, types)
    types.add(kind)
    definition = ros2msg.to_definition(topic, layout, describe(topic, layout))
    schema = file.schema(kind, ros2msg.ENCODING, definition)
    channel = file.channel(topic, ros2msg.MESSAGES, schema, {ros2msg.LAYOUT: layout.text, QUALITY: ""})
    return MessageWriter(layout, Opcode.MESSAGE, channel)


def came_ns(blocks: np.ndarray) -> np.ndarray:
    """When each of these rows of words came into its ring: its log time, but monotonic."""
    came = np.where(blocks[:, RECEIVED] > 0, blocks[:, RECEIVED], blocks[:, PUSHED])
    return np.maximum(came, 0)


def message_records(form: MessageWriter, blocks: np.ndarray, positions: np.ndarray, offset_ns: int) -> np.ndarray:
    """Of rows of words, with the position of each in its ring; `offset_ns` leads to UTC."""
    sampled = np.maximum(blocks[:, T], 0)
    return form.records(blocks, positions, came_ns(blocks) + offset_ns, sampled + offset_ns)


class RunWriter:
    """One record, or a part of one. Owned by one thread; never waits for the disk."""

    def __init__(
        self,
        folder: Path,
        most_pending_bytes: int = 64 << 20,
        fsync_s: float = 2.0,
        part: int = 1,
        behind: Sink | None = None,
        describe: Describe = undescribed,
    ):
        """`describe`: what the channels of a topic mean, for its schema."""
        there = max(parts(folder), default=0)
        if part <= there:
            raise FileExistsError(17, os.strerror(17), str(folder / part_file(there)))
        self.part = part
        self.path = folder / part_file(part)
        self.sink = Sink(self.path, most_pending_bytes, fsync_s, behind)
        self._file = McapFile(self.sink, PROFILE, "tandem", self.sink.write_with_tail)
        self._forms: dict[str, MessageWriter] = {}
        self._types: set[str] = set()
        self._describe = describe
        self._utc_offset_ns = 0

    def begin(self, facts: dict[str, str], attachments: dict[str, bytes], at_ns: int) -> None:
        """The start sentinel, and what the run was made with."""
        start = {"format": str(FORMAT), "monotonic_ns": str(at_ns), **facts}
        self._utc_offset_ns = utc_offset(start)
        self._file.metadata(START, start)
        self.attach(attachments, at_ns)

    def attach(self, attachments: dict[str, bytes], at_ns: int) -> None:
        for name, data in attachments.items():
            self._attach(name, data, at_ns)

    def belongs(self, run: str, earlier: dict[str, Any] | None = None) -> None:
        """Which run this is a part of, and how far the parts before it go (sync/record/resume.py); written before the
        start."""
        known = {"earlier": json.dumps(earlier)} if earlier is not None else {}
        self._file.metadata(PART, {"run": run, "part": str(self.part), **known})

    def _attach(self, name: str, data: bytes, at_ns: int) -> None:
        media = "application/json" if name.endswith(".json") else "application/toml"
        self._file.attachment(name, media, data, max(at_ns + self._utc_offset_ns, 0))

    def topic(self, name: str, layout: Layout) -> None:
        """Announce a topic; again with the same layout is nothing new. Raises ValueError for another layout."""
        if name in self._forms:
            if self._forms[name].layout != layout:
                raise ValueError(f"{name}: the layout changed in the middle of the run")
            return
        self._forms[name] = announce(self._file, name, layout, self._types, self._describe)

    def add(self, topic: str, blocks: np.ndarray, first_position: int) -> None:
        """Rows of words, the first of which stands at that position of its ring."""
        self.add_at(topic, blocks, np.arange(first_position, first_position + len(blocks)))

    def add_at(self, topic: str, blocks: np.ndarray, positions: np.ndarray) -> None:
        """Rows of words, and the position of each in its ring."""
        form = self._forms[topic]
        self._file.messages(form.channel, message_records(form, blocks, positions, self._utc_offset_ns))

    def ring(self, ring: Ring) -> None:
        """Where the blocks that follow come from. What was added before stands before it in the file too."""
        self._file.flush()
        channel = self._forms[ring.topic].channel if ring.topic in self._forms else 0
        self._file.metadata(RING, {**ring.as_metadata(), "channel": str(channel)})

    def note(self, text: str, at_ns: int, number: int = 0) -> None:
        """A notice during the run: a device lost and found again, a service that crashed. Those with a number come in
        its order."""
        known = {"number": str(number)} if number else {}
        self._file.metadata(NOTICE, {"monotonic_ns": str(at_ns), "text": text, **known})

    def flush(self) -> None:
        """End the chunk: what was added so far is on its way into the file."""
        self._file.flush()

    def continue_in(self, following: str, at_ns: int) -> None:
        """The index; the record goes on in the file of that name. Does not wait for the disk."""
        self._file.flush()
        self._file.metadata(NEXT, {"monotonic_ns": str(at_ns), "file": following})
        self._file.finish()
        self.sink.end()

    def finish(self, facts: dict[str, str], summary: dict[str, Any], at_ns: int) -> bool:
        """The end sentinel, the summary and the index; True if all of it reached the file."""
        self._file.flush()
        self._attach("summary.json", json.dumps(summary).encode(), at_ns)
        self._file.metadata(END, {"monotonic_ns": str(at_ns), **facts})
        self._file.finish()
        return self.sink.close()
