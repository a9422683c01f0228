"""Records as programs that are not ours read them: `mcap-ros2-support` and `rosbags`, bit for bit."""

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import NonSeekingReader, make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

from daq_service.effort_record import LAYOUT as EFFORT
from sim_service.command_record import LAYOUT as COMMAND
from sim_service.contract.step_channels import STEP_CHANNELS
from sim_service.step_record import NEW_EPOCH
from sync.clock import now_ns, sleep_until
from sync.record import FILE, RunWriter, open_run
from sync.ring.block import HEADER, Channel, Layout
from tandem.records.descriptions import describe
from verify.others.foreign_readers import compared

DOCS = Path(__file__).resolve().parents[3] / "docs"
UTC_OFFSET_NS = 1_790_000_000_000_000_000
DAQ = Layout((Channel("brake", "i2", "count", -200_000), Channel("throttle", "u2", "count"), Channel("steering", "i4")))
STEP = Layout((*STEP_CHANNELS, Channel("speed", "f8", "m/s"), Channel("F__z", "f4", "N")))
TOPICS = {"/daq": DAQ, "/received": DAQ, "/step": STEP, "/effort": EFFORT, "/command": COMMAND}
PARAMETERS = json.dumps({"quantities": {"speed": "over ground, µ-split too"}}).encode()
ROWS, PARTS = 40, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of every topic there is; its values are any bits, NaNs and infinities among them."""
    made = tmp_path_factory.mktemp("record")
    writer = RunWriter(made, fsync_s=1e6, describe=describe(PARAMETERS))
    writer.begin({"name": "foreign", "utc_offset_ns": str(UTC_OFFSET_NS)}, {"parameters.json": PARAMETERS}, 42)
    random = np.random.default_rng(24)
    for name, layout in TOPICS.items():
        writer.topic(name, layout)
    for part in range(PARTS):
        for name, layout in TOPICS.items():
            words = random.integers(-(2**63), 2**63, (ROWS, layout.words), np.int64, endpoint=False)
            words[0, 6:], words[1, 6:] = -1, 0x7FF0_0000_0000_0000
            words[:, 2:6] = 10**9 * (1 + np.arange(ROWS) + ROWS * part)[:, None] + np.arange(4)
            for c in layout.channels:  # a NaN of four bytes changes its bits where a language has only wider numbers
                if c.type == "f4":
                    layout.view(words)[c.name] = random.normal(size=ROWS)
            writer.add(name, words, ROWS * part)
        writer.flush()
        writer.note("a notice", 42)
        settled = now_ns() + 60 * 10**9
        while writer.sink.pending and now_ns() < settled:
            sleep_until(now_ns() + 10**6)
        shutil.copyfile(made / FILE, made / f"killed_{part}.mcap")
    assert writer.finish({"reason": "stopped"}, {}, 43)
    return made


def bits(layout: Layout, block: Any) -> bytes:
    fields = [*HEADER, *("f_z" if name == "F__z" else name for name in layout.names)]
    made = np.zeros((), layout.dtype)
    for name, field in zip((*HEADER, *layout.names), fields, strict=True):
        made[name] = getattr(block, field)
    return made.tobytes()


def ours(folder: Path) -> dict[str, list[bytes]]:
    return {name: [block.tobytes() for block in topic.words] for name, topic in open_run(folder).topics.items()}


def decoded(reader: Any) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for _, channel, message, block in reader.iter_decoded_messages():
        assert message.log_time == UTC_OFFSET_NS + block.received_ns
        assert message.publish_time == UTC_OFFSET_NS + block.t_ns
        found.setdefault(channel.topic, []).append(bits(TOPICS[channel.topic], block))
    return found


def test_mcap_ros2_decodes_every_topic_to_the_bit(folder: Path) -> None:
    with open(folder / FILE, "rb") as stream:
        assert decoded(make_reader(stream, decoder_factories=[DecoderFactory()])) == ours(folder)


def test_rosbags_decodes_every_topic_to_the_bit(folder: Path) -> None:
    found: dict[str, list[bytes]] = {}
    with AnyReader([folder / FILE]) as reader:
        for connection, logged, data in reader.messages():
            block: Any = reader.deserialize(data, connection.msgtype)
            assert logged == UTC_OFFSET_NS + block.received_ns
            found.setdefault(connection.topic, []).append(bits(TOPICS[connection.topic], block))
        step = reader.typestore.types["tandem/msg/Step"]
        assert step.STATUS_NEW_EPOCH == NEW_EPOCH  # type: ignore[attr-defined]
    assert found == ours(folder)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_record_whose_writer_was_killed_opens_in_both_with_all_that_was_flushed(folder: Path, part: int) -> None:
    killed = folder / f"killed_{part}.mcap"
    assert compared(killed) == dict.fromkeys(TOPICS, ROWS * (part + 1))
    run = open_run(killed)
    assert run.cut == "the recorder was killed, or the power failed" and not run.whole
    assert [text for _, text in run.notices] == (part + 1) * ["a notice"] and not run.losses


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_record_that_is_cut_anywhere_is_decoded_up_to_its_last_whole_chunk(folder: Path, share: float) -> None:
    """By a lost end of the file too, which `rosbags` does not open; mcap's streaming reader does."""
    whole = ours(folder)
    data = (folder / FILE).read_bytes()
    reader = NonSeekingReader(io.BytesIO(data[: int(share * len(data))]), decoder_factories=[DecoderFactory()])
    found: dict[str, list[bytes]] = {}
    with pytest.raises(Exception):  # noqa: B017, PT012  (each version has another for a file that just stops)
        for _, channel, _, block in reader.iter_decoded_messages(log_time_order=False):
            found.setdefault(channel.topic, []).append(bits(TOPICS[channel.topic], block))
    for name, blocks in found.items():
        assert len(blocks) % ROWS == 0 and blocks == whole[name][: len(blocks)]
    assert found or share == 0.3


def test_definitions_have_units_descriptions_bits_and_commands(folder: Path) -> None:
    with open(folder / FILE, "rb") as stream:
        schemas = {s.name: s.data.decode() for s in make_reader(stream).get_summary().schemas.values()}
    assert "int64 STATUS_NEW_EPOCH=4  # new epoch" in schemas["tandem/msg/Step"]
    assert "float64 speed  # [m/s] over ground" in schemas["tandem/msg/Step"]
    assert "int64 STATUS_WATCHDOG=4  # watchdog" in schemas["tandem/msg/Effort"]
    assert "int64 KIND_RESET=2  # the model as it started" in schemas["tandem/msg/Command"]
    assert "int16 brake  # [count] sampled 200000 ns before t_ns" in schemas["tandem/msg/Daq"]


def test_a_script_without_our_package_reads_a_run_into_pandas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", (DOCS / "exchange.md").read_text(), re.S)
    assert len(script.splitlines()) <= 10 and not re.search(r"\b(tandem|sync)\b", script)
    monkeypatch.chdir(folder)
    found: dict[str, Any] = {}
    exec(script, found)
    frame, topic = found["frame"], open_run(folder).topics["/step"]
    assert len(frame) == len(topic) and frame["status"].tolist() == topic.blocks["status"].tolist()
    assert np.array_equal(frame["speed"].to_numpy(), topic.blocks["speed"], equal_nan=True)
    assert frame["utc"].iloc[0].year == 2026 and "pandas" in sys.modules
