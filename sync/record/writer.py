"""Writing a record: blocks of rings into the chunks of an MCAP file."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from mcap.writer import CompressionType, Writer
from numba import types, uint8

from sync.array_copy import copy
from sync.array_types import BYTES_READ_ONLY, WORDS_2D
from sync.block import PUSHED, RECEIVED, Layout, T
from sync.jit import kernel
from sync.record import schema
from sync.record.heads import PART, SAID, START
from sync.record.rings import RING, Ring
from sync.record.sink import Sink
from sync.transport.message_form import Form, write_message

FILE = "run.mcap"  # the first part, and nearly always the only one
PROFILE = "tandem"
FORMAT = 1
END = "tandem.end"
NEXT = "tandem.next"  # instead of an end: the file in which the record goes on
_NAME = re.compile(r"run(?:\.([2-9]|[1-9][0-9]{1,5}))?\.mcap")
_CHUNK_BYTES = 32 << 20  # never reached: `flush` ends chunks by time
_BYTES_2D = types.Array(uint8, 2, "C")


def part_file(number: int) -> str:
    return FILE if number == 1 else f"run.{number}.mcap"


def parts(folder: Path) -> dict[int, Path]:
    """The files of a run by their numbers, in order."""
    named = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return dict(sorted((int(name[1] or 1), path) for name, path in named if name and not path.is_dir()))


@kernel(types.void(WORDS_2D, WORDS_2D, BYTES_READ_ONLY, _BYTES_2D))
def _compose(blocks, fields, text, messages):
    for n in range(blocks.shape[0]):
        copy(messages[n], text)
        write_message(blocks[n], fields, messages[n])


class RunWriter:
    """One record, or a part of one. Owned by one thread; never waits for the disk."""

    def __init__(
        self,
        folder: Path,
        most_pending_bytes: int = 64 << 20,
        fsync_s: float = 2.0,
        part: int = 1,
        behind: Sink | None = None,
    ):
        there = max(parts(folder), default=0)
        if part <= there:
            raise FileExistsError(17, os.strerror(17), str(folder / part_file(there)))
        self.part = part
        self.path = folder / part_file(part)
        self.sink = Sink(self.path, most_pending_bytes, fsync_s, behind)
        self._writer = Writer(self.sink, chunk_size=_CHUNK_BYTES, compression=CompressionType.ZSTD)
        self._writer.start(profile=PROFILE, library="tandem")
        self._forms: dict[str, tuple[int, Form]] = {}

    def begin(self, facts: dict[str, str], attachments: dict[str, bytes], at_ns: int) -> None:
        """The start sentinel, and what the run was made with."""
        self._writer.add_metadata(START, {"format": str(FORMAT), "monotonic_ns": str(at_ns), **facts})
        self.attach(attachments, at_ns)

    def attach(self, attachments: dict[str, bytes], at_ns: int) -> None:
        for name, data in attachments.items():
            self._attach(name, data, at_ns)

    def belongs(self, run: str, earlier: dict[str, Any] | None = None) -> None:
        """Which run this is a part of, and how far the parts before it go (sync/record/resume.py); written before the
        start."""
        known = {"earlier": json.dumps(earlier)} if earlier is not None else {}
        self._writer.add_metadata(PART, {"run": run, "part": str(self.part), **known})

    def _attach(self, name: str, data: bytes, at_ns: int) -> None:
        media = "application/json" if name.endswith(".json") else "application/toml"
        self._writer.add_attachment(at_ns, at_ns, name, media, data)

    def topic(self, name: str, layout: Layout) -> None:
        """Announce a topic; again with the same layout is nothing new. Raises ValueError for another layout."""
        if name in self._forms:
            if self._forms[name][1].layout != layout:
                raise ValueError(f"{name}: the layout changed in the middle of the run")
            return
        schema_id = self._writer.register_schema(schema.NAME, schema.ENCODING, schema.to_schema(layout))
        channel = self._writer.register_channel(name, schema.MESSAGES, schema_id, {"layout": layout.id})
        self._forms[name] = (channel, Form(layout, received=True))

    def add(self, topic: str, blocks: np.ndarray, first_position: int) -> None:
        """Rows of words, the first of which stands at that position of its ring."""
        self.add_at(topic, blocks, np.arange(first_position, first_position + len(blocks)))

    def add_at(self, topic: str, blocks: np.ndarray, positions: np.ndarray) -> None:
        """Rows of words, and the position of each in its ring."""
        channel, form = self._forms[topic]
        messages = np.empty((len(blocks), form.text.size), np.uint8)
        _compose(np.ascontiguousarray(blocks), form.fields, form.text, messages)
        size, data = form.text.size, messages.tobytes()
        came = np.where(blocks[:, RECEIVED] > 0, blocks[:, RECEIVED], blocks[:, PUSHED]).tolist()
        sampled = blocks[:, T].tolist()
        places = (positions & 0xFFFFFFFF).tolist()
        add = self._writer.add_message
        for n in range(len(blocks)):
            add(channel, max(came[n], 0), data[n * size : (n + 1) * size], max(sampled[n], 0), places[n])

    def ring(self, ring: Ring) -> None:
        """Where the blocks that follow come from. What was added before stands before it in the file too."""
        self._writer.flush()
        channel = self._forms[ring.topic][0] if ring.topic in self._forms else 0
        self._writer.add_metadata(RING, {**ring.as_metadata(), "channel": str(channel)})

    def note(self, text: str, at_ns: int, number: int = 0) -> None:
        """A notice during the run: a device lost and found again, a service that crashed. Those with a number come in
        its order."""
        known = {"number": str(number)} if number else {}
        self._writer.add_metadata(SAID, {"monotonic_ns": str(at_ns), "text": text, **known})

    def flush(self) -> None:
        """End the chunk: what was added so far is on its way into the file."""
        self._writer.flush()

    def continue_in(self, following: str, at_ns: int) -> None:
        """The index; the record goes on in the file of that name. Does not wait for the disk."""
        self._writer.flush()
        self._writer.add_metadata(NEXT, {"monotonic_ns": str(at_ns), "file": following})
        self._writer.finish()
        self.sink.end()

    def finish(self, facts: dict[str, str], summary: dict[str, Any], at_ns: int) -> bool:
        """The end sentinel, the summary and the index; True if all of it reached the file."""
        self._writer.flush()
        self._attach("summary.json", json.dumps(summary).encode(), at_ns)
        self._writer.add_metadata(END, {"monotonic_ns": str(at_ns), **facts})
        self._writer.finish()
        return self.sink.close()
