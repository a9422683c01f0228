"""The table of streams: what it promises to those who take their lists from it, and that its page shows it."""

from pathlib import Path

import pytest

from sync import record
from sync.config.config import load
from sync.ring import streams
from sync.ring.streams import RECORDED, SIM, SIM_IN, SOCKETS, STREAMS, Stream

ROOT = Path(__file__).resolve().parents[3]
DRIVE = ROOT / "configs" / "drive.toml"


def test_the_page_shows_the_table() -> None:
    page = (ROOT / "docs" / "streams.md").read_text()
    shown = "".join(line for line in page.splitlines(keepends=True) if line.startswith("|"))
    assert shown == streams.as_markdown(), "docs/streams.md: put in what `python -m sync.ring.streams` prints"


def test_names_topics_and_sockets_are_unique() -> None:
    topics = [stream.topic for stream in RECORDED]
    assert len(set(topics)) == len(topics) and all(topic.startswith("/") for topic in topics)
    published = [stream.socket for stream in STREAMS.values() if stream.socket]
    assert len(set(published)) == len(published) and set(published) < set(SOCKETS)
    assert all(name == stream.name for name, stream in STREAMS.items())


@pytest.mark.parametrize("stream", STREAMS.values(), ids=list(STREAMS))
def test_a_capacity_is_one_that_a_ring_can_have(stream: Stream) -> None:
    config = load(DRIVE, ["daq.ring_blocks=32", "sim.ring_blocks=128"])
    blocks = stream.capacity(config)
    assert blocks >= 2 and blocks & (blocks - 1) == 0
    assert blocks == {"daq.ring_blocks": 32, "sim.ring_blocks": 128}.get(str(stream.blocks), stream.blocks)


def test_steps_are_recorded_before_what_they_were_made_from() -> None:
    order = [stream.name for stream in RECORDED]
    assert order.index("sim") < min(order.index(name) for name in ("sim_in", "daq", "command"))
    assert order.index("sim_in") < order.index("daq")


def test_every_recorded_topic_stands_in_the_form_of_a_record() -> None:
    assert all(f"    {stream.topic} " in (record.__doc__ or "") for stream in RECORDED)


def test_what_was_received_exists_only_where_there_is_a_wire() -> None:
    assert [SIM_IN.exists(kind) for kind in ("shm", "ipc", "tcp")] == [False, True, True]
    assert all(SIM.exists(kind) for kind in ("shm", "ipc", "tcp"))


def test_a_ring_that_is_no_stream_has_no_name() -> None:
    with pytest.raises(KeyError, match="simm"):
        load(DRIVE).ring("simm")
