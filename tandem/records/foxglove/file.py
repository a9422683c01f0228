"""`tandem export --to mcap`: one file with every topic of a run as it was recorded, transforms and markers beside them.

They are not in the record itself. A record has the outputs of every step, not the machine's state, from which poses are
made; its recorder knows no machine, and should not run one's Python thirty times a second. So they are made here, from
the states of an exact replay, and a record of any age gets them. A record in parts becomes one file, and one whose
recorder was killed becomes one with an index, which `rosbags` asks for.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sync.record import ros2msg
from sync.record.mcap_file import McapFile
from sync.record.run import Run
from sync.record.utc import derived, utc_offset
from sync.record.writer import PROFILE, QUALITY, announce, came_ns, message_records
from tandem.records.descriptions import describe
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import Progress
from tandem.records.foxglove.messages import definition
from tandem.records.foxglove.scene import TOPICS, SceneMessages
from tandem.view.data_source import RecordData

RUN = "tandem.run"  # metadata: the start of the record it comes from
_WINDOW_NS = 1_000_000_000  # a chunk: readers find a time by it, and take it whole


def write(run: Run, feed: RecordData | None, file: Path, progress: Progress = lambda *_: None) -> dict[str, int]:
    """Returns how many messages each topic has."""
    clash = [topic for topic in run.topics if topic in TOPICS]
    if clash:
        raise ExchangeError(f"{run.path}: has a topic {clash[0]}, which transforms or markers would have")
    offset = utc_offset(derived(run.start) | run.start)
    with file.open("wb") as stream:
        out = McapFile(stream, PROFILE, "tandem")
        out.metadata(RUN, run.start)
        for name, data in run.attachments.items():
            media = "application/json" if name.endswith(".json") else "application/toml"
            out.attachment(name, media, data, max(offset, 0))
        counts = _messages(out, run, feed, offset, progress)
        out.finish()
    return counts


def _messages(out: McapFile, run: Run, feed: RecordData | None, offset: int, progress: Progress) -> dict[str, int]:
    types: set[str] = set()
    describing = describe(run.attachments.get("parameters.json"))
    topics = {name: topic for name, topic in run.topics.items() if len(topic)}
    forms = {name: announce(out, name, topic.layout, types, describing) for name, topic in topics.items()}
    came = {name: np.maximum.accumulate(came_ns(topic.words)) for name, topic in topics.items()}
    counts = {name: len(topic) for name, topic in topics.items()}
    if not topics:
        raise ExchangeError(f"{run.path}: holds no blocks and no steps; there is nothing to export")
    first, last = min(int(at[0]) for at in came.values()), max(int(at[-1]) for at in came.values())
    scenes = _scene_messages(feed, offset)
    pending = next(scenes, None)
    channels: dict[str, int] = {}
    for begin in range(first, last + 1, _WINDOW_NS):
        for name, topic in topics.items():
            part = slice(*np.searchsorted(came[name], [begin, begin + _WINDOW_NS]))
            messages = message_records(forms[name], topic.words[part], topic.positions[part], offset)
            out.messages(forms[name].channel, messages)
        while pending is not None and pending[0] < begin + _WINDOW_NS:
            at_ns, name, data = pending
            if name not in channels:
                channels[name] = _channel(out, name)
            out.message(channels[name], at_ns + offset, data)
            counts[name] = counts.get(name, 0) + 1
            pending = next(scenes, None)
        out.flush()
        progress("writing", (begin - first) / (last - first + 1))
    return counts


def _channel(out: McapFile, topic: str) -> int:
    kind = TOPICS[topic]
    schema = out.schema(kind, ros2msg.ENCODING, definition(kind))
    return out.channel(topic, ros2msg.MESSAGES, schema, {QUALITY: ""})


def _scene_messages(feed: RecordData | None, offset: int) -> Iterator[tuple[int, str, bytes]]:
    """After every step whose state is known: when it was done, topic and message."""
    if feed is None or feed.model.shown.scene is None or not feed.knows_states:
        return
    messages = SceneMessages(feed.model, feed.params, feed.files)
    for step in feed.state_steps.tolist():
        feed.show(step)
        frame = feed.poll()
        if frame is not None:
            at_ns = max(int(frame.step["pushed_ns"]), 0)
            for topic, data in messages.at(frame, at_ns + offset):
                yield at_ns, topic, data
