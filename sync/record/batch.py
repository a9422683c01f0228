"""Writes a run that is complete already: a saved replay, an imported measurement, a mechanism's motion.

Unlike a recorder it can wait for its disk, and need not try again when the disk is full: the file is written whole, or
not at all, and then OSError says why.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sync.files.private import make_folder
from sync.record.ros2msg import Describe, undescribed
from sync.record.run import RunError
from sync.record.writer import RunWriter
from sync.ring.block import Layout

_BATCH = 4096  # blocks a chunk
_NAP_S = 0.0005


@dataclass(frozen=True)
class CompleteTopic:
    layout: Layout
    words: np.ndarray  # a row a block
    positions: np.ndarray  # of each in its ring


@dataclass(frozen=True)
class CompleteRun:
    start: dict[str, str]
    attachments: dict[str, bytes]
    topics: dict[str, CompleteTopic]
    begun_ns: int  # on the clock of the instants
    ended_ns: int
    reason: str  # why it ended
    summary: dict[str, Any]
    describe: Describe = undescribed


def write_complete(folder: Path, run: CompleteRun, progress: Callable[[float], None] = lambda _: None) -> Path:
    """Write into a folder that exists and holds no record yet; returns the file."""
    writer = RunWriter(folder, describe=run.describe)
    try:
        writer.begin(run.start, run.attachments, run.begun_ns)
        total = sum(len(topic.words) for topic in run.topics.values())
        done = 0
        for name, topic in run.topics.items():
            writer.topic(name, topic.layout)
            for first in range(0, len(topic.words), _BATCH):
                part = slice(first, first + _BATCH)
                writer.add_at(name, topic.words[part], topic.positions[part])
                writer.flush()
                _wait_for(writer)
                done += len(topic.words[part])
                progress(done / total)
        if not writer.finish({"reason": run.reason}, run.summary, run.ended_ns):
            failed = writer.sink.sync_failure
            raise OSError(0, writer.sink.error or (failed.why if failed else "the disk is too slow"))
    except BaseException:
        writer.sink.close(1.0)
        writer.path.unlink(missing_ok=True)
        raise
    return writer.path


def _wait_for(writer: RunWriter) -> None:
    while writer.sink.written < writer.sink.accepted:
        if writer.sink.error:
            raise OSError(0, writer.sink.error)
        time.sleep(_NAP_S)


NAME_OF_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
NAME_RULE = "must be letters, digits, _, . and -, at most 64 of them, and not begin with . or -"


def new_folder(runs: Path, stamp: str, name: str) -> Path:
    """Make a new folder `runs/<utc>-<name>`. A name that could lead elsewhere is refused, because it may come from a
    file."""
    if not NAME_OF_RUN.fullmatch(name):
        raise RunError(f"{runs}: no folder for a run of the name {name[:80]!r}: {NAME_RULE}")
    for again in range(1000):
        folder = runs / (f"{stamp}-{name}" + f"-{again}" * bool(again))
        try:
            make_folder(folder, exist_ok=False)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(17, "too many runs of one second", str(runs))
