"""Whether readers that are not ours open a record, whole or killed, and find in it what we find, bit for bit.

    python -m verify foreign-readers --records RECORD...

Foxglove's `mcap` with `mcap-ros2-support`, by the index at the end of the file, and `rosbags`. Each file is read by
itself. Prints a line a file: how many messages of each topic; exit code 1 if a reader refuses one or finds other bits.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sync.record import open_run
from sync.record.ros2msg import field_names
from sync.ring.block import HEADER, Layout
from verify.measure import Row, holds


class Different(Exception):
    """A reader finds something else, or nothing."""


def ours(file: Path) -> dict[str, tuple[Layout, list[bytes]]]:
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        alone = Path(folder) / "alone.mcap"  # by another name it is no part of anything
        alone.symlink_to(file.absolute())
        topics = open_run(alone).topics
    return {name: (topic.layout, [block.tobytes() for block in topic.words]) for name, topic in topics.items()}


def by_mcap(file: Path) -> Iterator[tuple[str, Any]]:
    from mcap.reader import SeekingReader
    from mcap_ros2.decoder import DecoderFactory

    with open(file, "rb") as stream:
        reader = SeekingReader(stream, decoder_factories=[DecoderFactory()])
        summary = reader.get_summary()
        if summary is None or not summary.chunk_indexes:
            raise Different("there is no index")
        for _, channel, _, block in reader.iter_decoded_messages(log_time_order=False):
            yield channel.topic, block


def by_rosbags(file: Path) -> Iterator[tuple[str, Any]]:
    from rosbags.highlevel import AnyReader

    with AnyReader([file]) as reader:
        for connection, _, data in reader.messages():
            yield connection.topic, reader.deserialize(data, connection.msgtype)


def compared(file: Path) -> dict[str, int]:
    """Messages by topic; raises Different, or what the reader raises."""
    wanted = ours(file)
    for read in (by_mcap, by_rosbags):
        found: dict[str, list[bytes]] = {}
        for topic, block in read(file):
            layout = wanted[topic][0]
            decoded = np.zeros((), layout.dtype)
            for name, field in zip((*HEADER, *layout.names), (*HEADER, *field_names(layout)), strict=True):
                decoded[name] = getattr(block, field)
            found.setdefault(topic, []).append(decoded.tobytes())
        for topic, (_, blocks) in wanted.items():
            if blocks != found.get(topic, []):
                count = len(found.get(topic, []))
                raise Different(f"{read.__name__} of {topic}: {count} messages, we find {len(blocks)}, or other bits")
    return {topic: len(blocks) for topic, (_, blocks) in wanted.items()}


def foreign_readers(*, records: Annotated[tuple[Path, ...], "files, or folders of runs"]) -> Iterator[Row]:
    for name in records:
        for file in sorted(name.rglob("run*.mcap")) if name.is_dir() else [name]:
            try:
                found = ", ".join(f"{count} {topic}" for topic, count in compared(file).items())
                yield holds(f"{file}: the same in all", True, found)
            except Exception as error:
                yield holds(f"{file}: the same in all", False, f"{type(error).__name__}: {error}")
