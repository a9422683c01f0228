"""The record of a run: what is written is read again to the bit, by us and by anyone; a damaged file never lies."""

import os
import re
import struct
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.reader import NonSeekingReader, make_reader
from mcap.records import Attachment, Chunk, ChunkIndex, DataEnd, Header, McapRecord, Message, Metadata, Schema
from mcap.records import Channel as McapChannel
from mcap.writer import MCAP0_MAGIC
from mcap_ros2.decoder import DecoderFactory

from sync.record import FILE, Run, RunError, RunWriter, Topic, open_run
from sync.record.batch import new_folder
from sync.record.damage import read_index
from sync.record.reader import find
from sync.record.ros2msg import comment, field_names, to_definition
from sync.ring.block import HEADER, Channel, Layout
from tests.examples import few
from tests.sync.strategies import PROPERTY, layouts, values, words_of

FEW = hypothesis_settings(PROPERTY, max_examples=few(25))  # every example writes a file
MB = 1 << 20
START = Metadata("tandem.start", {"format": "2", "name": "somebody"})

Rows = list[tuple[Any, ...]]


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tandem") as made:
        yield Path(made)


def as_words(layout: Layout, rows: Rows) -> np.ndarray:
    return np.array([words_of(layout, row) for row in rows], np.int64).reshape(len(rows), layout.words)


def a_row(layout: Layout, seq: int, epoch: int = 1) -> tuple[Any, ...]:
    """A block whose every number tells its seq."""
    return (seq, epoch, 1000 * seq, 1000 * seq + 10, 0, 0, *(seq % 1000 + k for k in range(len(layout.channels))))


def reading(data: bytes, **options: Any) -> Run:
    """The bytes as a file."""
    with folder() as where:
        (where / FILE).write_bytes(data)
        return open_run(where, **options)


def attempt(what: Callable[[], Any], named: str) -> Any:
    """What it gives; None for a RunError that names what is wrong. Anything else it raises is a bug."""
    try:
        return what()
    except RunError as error:
        return None if named in str(error) else error


# ---- there and back --------------------------------------------------------------------------------------------------


@dataclass
class Batch:
    topic: str
    position: int
    rows: Rows
    flush: bool


@st.composite
def drives(draw: st.DrawFn) -> tuple[dict[str, Layout], list[Batch]]:
    """Topics of any layout, and batches of blocks for them in any order."""
    topics = {
        name: draw(layouts(most=6)) for name in draw(st.sampled_from([("/daq",), ("/step", "/received", "/daq")]))
    }
    instants = st.one_of(st.sampled_from((-(2**63), 2**63 - 1, 0, 1)), st.integers(-(2**63), 2**63 - 1))
    batches = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from(sorted(topics)))
        row = st.tuples(
            st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1), *[instants] * 4,
            *(values(c.type) for c in topics[name].channels),
        )  # fmt: skip
        position = draw(st.one_of(st.integers(0, 2**40), st.integers(2**32 - 4, 2**32 + 4)))
        batches.append(Batch(name, position, draw(st.lists(row, max_size=5)), draw(st.booleans())))
    return topics, batches


def written(where: Path, topics: dict[str, Layout], batches: list[Batch]) -> bytes:
    writer = RunWriter(where, fsync_s=1e6)
    writer.begin({"name": "a drive"}, {"config.json": b'{"a": 1}', "config.toml": b"a = 1"}, 42)
    for name, layout in topics.items():
        writer.topic(name, layout)
    for batch in batches:
        writer.add(batch.topic, as_words(topics[batch.topic], batch.rows), batch.position)
        if batch.flush:
            writer.flush()
    assert writer.finish({"reason": "stopped"}, {"steps": 3}, 43)
    return writer.path.read_bytes()


@given(drives())
@FEW
def test_every_block_comes_back_to_the_bit_in_order_with_its_position(
    drive: tuple[dict[str, Layout], list[Batch]],
) -> None:
    topics, batches = drive
    with folder() as where:
        size = len(written(where, topics, batches))
        run = open_run(where)
    assert run.cut is None and run.size == size
    assert run.start == {"format": "2", "monotonic_ns": "42", "name": "a drive"} and run.name == "a drive"
    assert run.end == {"monotonic_ns": "43", "reason": "stopped"}
    assert run.json("summary.json") == {"steps": 3} and run.json("config.json") == {"a": 1}
    assert run.attachments["config.toml"] == b"a = 1" and run.json("nothing.json") == {}
    for name, layout in topics.items():
        mine = [batch for batch in batches if batch.topic == name and batch.rows]
        if not mine:
            assert not len(run.topics.get(name, ()))
            continue
        topic = run.need(name)
        assert topic.layout == layout
        assert np.array_equal(topic.words, np.concatenate([as_words(layout, b.rows) for b in mine]))
        positions = [(b.position + k) % 2**32 for b in mine for k in range(len(b.rows))]
        assert topic.positions.tolist() == positions
        rows = [row for b in mine for row in b.rows]
        assert topic.logged_ns.tolist() == [max(row[5] if row[5] > 0 else row[3], 0) for row in rows]
        assert topic.blocks["seq"].tolist() == [row[0] for row in rows]
        assert topic.blocks["epoch"].tolist() == [row[1] for row in rows]


@given(drives())
@FEW
def test_anyone_with_an_mcap_and_a_ros_2_reader_finds_everything_by_name(
    drive: tuple[dict[str, Layout], list[Batch]],
) -> None:
    topics, batches = drive
    with folder() as where:
        data = written(where, topics, batches)
    expected = {name: [row for b in batches if b.topic == name for row in b.rows] for name in topics}
    for kind in (make_reader, NonSeekingReader):
        reader = kind(BytesIO(data), validate_crcs=True, decoder_factories=[DecoderFactory()])
        found: dict[str, list[tuple[Any, Any]]] = {name: [] for name in topics}
        for schema, channel, message, decoded in reader.iter_decoded_messages(log_time_order=False):
            assert schema is not None
            assert (schema.encoding, channel.message_encoding) == ("ros2msg", "cdr")
            layout = topics[channel.topic]
            for c, name in zip(layout.channels, field_names(layout), strict=True):
                assert f" {name}  # {comment(f'[{c.unit}]')}" in schema.data.decode()
            found[channel.topic].append((decoded, message))
        for name, layout in topics.items():
            assert len(found[name]) == len(expected[name])
            for (decoded, message), row in zip(found[name], expected[name], strict=True):
                again = [getattr(decoded, key) for key in (*HEADER, *field_names(layout))]
                assert layout.struct.pack(*again) == layout.struct.pack(*row)
                assert message.publish_time == max(row[2], 0)
    reader = make_reader(BytesIO(data))
    assert reader.get_header().profile == "ros2"
    assert [m.name for m in reader.iter_metadata()] == ["tandem.start", "tandem.end"]
    assert {a.name: a.data for a in reader.iter_attachments()} == {
        "config.json": b'{"a": 1}', "config.toml": b"a = 1", "summary.json": b'{"steps": 3}'
    }  # fmt: skip


def test_only_the_topics_asked_for_are_read(tmp_path: Path, car: Layout) -> None:
    rows = [a_row(car, k) for k in range(4)]
    written(tmp_path, {"/daq": car, "/step": car}, [Batch(name, 0, rows, True) for name in ("/daq", "/step")])
    assert list(open_run(tmp_path, ("/daq",)).topics) == ["/daq"]
    with pytest.raises(RunError, match=r"run\.mcap: holds no /step messages; it has /daq"):
        open_run(tmp_path, ("/daq",)).need("/step")


def test_what_was_said_stands_with_its_instant_also_in_a_record_without_an_end(tmp_path: Path, car: Layout) -> None:
    writer = RunWriter(tmp_path, fsync_s=1e6)
    writer.begin({"name": "noted"}, {}, 5)
    writer.topic("/daq", car)
    writer.add("/daq", np.zeros((3, car.words), np.int64), 0)
    writer.note("daq: the device is gone: Dev1 (error -201003)", 7_000)
    writer.add("/daq", np.zeros((2, car.words), np.int64), 3)
    writer.note("daq: the device is back", 9_000)
    writer.flush()
    writer.sink.close()
    run = open_run(tmp_path)
    assert run.notices == [(7_000, "daq: the device is gone: Dev1 (error -201003)"), (9_000, "daq: the device is back")]
    assert run.end is None and len(run.topics["/daq"]) == 5 and run.topics["/daq"].missing == 0


def test_progress_rises_to_one(tmp_path: Path, car: Layout) -> None:
    written(tmp_path, {"/daq": car}, [Batch("/daq", k, [a_row(car, k)], True) for k in range(9)])
    told: list[float] = []
    open_run(tmp_path, progress=told.append)
    assert told == sorted(told) and told[0] == pytest.approx(0, abs=0.2) and told[-1] == 1.0


def test_a_topic_has_one_layout(tmp_path: Path, car: Layout) -> None:
    writer = RunWriter(tmp_path)
    writer.topic("/daq", car)
    writer.topic("/daq", Layout(car.channels))  # the same again is nothing new
    with pytest.raises(ValueError, match="/daq: the layout changed"):
        writer.topic("/daq", Layout(car.channels[:2]))
    assert writer.finish({}, {}, 0)


def test_an_existing_record_is_never_overwritten(tmp_path: Path, car: Layout) -> None:
    before = written(tmp_path, {"/daq": car}, [Batch("/daq", 0, [a_row(car, 0)], True)])
    with pytest.raises(FileExistsError):
        RunWriter(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_every_new_folder_is_one_that_was_not_there(tmp_path: Path) -> None:
    made = [new_folder(tmp_path / "runs", "20260101T000000Z", "car") for _ in range(3)]
    assert [path.name.removeprefix("20260101T000000Z-car") for path in made] == ["", "-1", "-2"]
    assert all(path.is_dir() for path in made)


# ---- what is missing -------------------------------------------------------------------------------------------------


def topic_at(positions: list[int]) -> Topic:
    layout = Layout((Channel("a", "i8"),))
    return Topic("/daq", layout, np.zeros((len(positions), layout.words), np.int64), np.array(positions), np.array([]))


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1000)), min_size=1, max_size=10),
)
@PROPERTY
def test_missing_counts_what_passed_the_ring_unrecorded_also_where_positions_wrap(
    first: int, pieces: list[tuple[int, int]]
) -> None:
    """Pieces of so many blocks recorded, then so many not."""
    positions, at = [], first
    for recorded, gap in pieces:
        positions += [(at + k) % 2**32 for k in range(recorded)]
        at += recorded + gap
    assert topic_at(positions).missing == sum(gap for _, gap in pieces[:-1])


def test_a_new_ring_is_nothing_missing() -> None:
    assert topic_at([5, 6, 7, 0, 1, 2]).missing == 0
    assert topic_at([5, 6, 7, 0, 1, 3]).missing == 1
    assert topic_at([2**32 - 2, 2**32 - 1, 2, 3]).missing == 2  # no new ring: the positions wrap
    assert topic_at([]).missing == topic_at([9]).missing == 0


# ---- cut short -------------------------------------------------------------------------------------------------------


def walk(data: bytes) -> list[tuple[int, int, int]]:
    """(opcode, first byte, end) of every record: the MCAP format in four lines."""
    found, at = [], 8
    while at < len(data) - 8:
        opcode, length = struct.unpack_from("<BQ", data, at)
        found.append((opcode, at, at + 9 + length))
        at += 9 + length
    return found


HEADER_OP, CHUNK_OP, ATTACHMENT_OP, METADATA_OP, DATA_END_OP = 0x01, 0x06, 0x09, 0x0C, 0x0F


@dataclass(repr=False)
class Sample:
    data: bytes
    layouts: dict[str, Layout]
    chunks: list[tuple[int, dict[str, np.ndarray]]]  # end of each chunk, and what is in it

    def upto(self, size: int, topic: str) -> np.ndarray:
        """What the first so many bytes hold whole."""
        none = np.zeros((0, self.layouts[topic].words), np.int64)
        return np.concatenate([none, *(held[topic] for end, held in self.chunks if end <= size and topic in held)])


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Eight chunks of two topics; small, so that every part of the file is cut or damaged often."""
    kinds = {
        "/daq": Layout((Channel("brake", "i2", "count", -200_000), Channel("steering", "i4", "count"))),
        "/step": Layout((Channel("x", "f8", "m"), Channel("status", "i8"))),
    }
    batches, held = [], []
    for n in range(8):
        here = {}
        for name, layout in kinds.items():
            rows = [a_row(layout, 10 * n + k) for k in range(3 + n % 2)]
            batches.append(Batch(name, 10 * n, rows, name == "/step"))
            here[name] = as_words(layout, rows)
        held.append(here)
    with folder() as where:
        data = written(where, kinds, batches)
    ends = [end for opcode, _, end in walk(data) if opcode == CHUNK_OP]
    return Sample(data, kinds, list(zip(ends, held, strict=True)))


def somewhere(number: int, edges: list[int], size: int) -> int:
    """A place in a file: every other number near one of the edges."""
    return edges[number // 2 % len(edges)] if number % 2 else number // 2 % (size + 1)


numbers = st.integers(0, 2**24)


@given(numbers)
@hypothesis_settings(PROPERTY, max_examples=few(150))
def test_a_file_cut_anywhere_reads_up_to_its_last_whole_chunk(sample: Sample, number: int) -> None:
    records = walk(sample.data)
    edges = [at + k for _, first, end in records for at in (first, end) for k in (-1, 0, 1)]
    size = somewhere(number, edges, len(sample.data))
    start = next(end for opcode, _, end in records if opcode == METADATA_OP)
    if size < start:
        with pytest.raises(RunError, match=r"run\.mcap: ") as raised:
            reading(sample.data[:size])
        assert re.search("cut short|just stops", str(raised.value))
        return
    run = reading(sample.data[:size])
    for name in sample.layouts:
        found = run.topics[name].words if name in run.topics else np.zeros((0, 0), np.int64)
        assert found.tolist() == sample.upto(size, name).tolist()
    if size < next(end for opcode, _, end in records if opcode == DATA_END_OP):
        begun = max(first for _, first, _ in records if first <= size)
        assert run.cut == ("the file just stops" if begun == size else f"cut short at byte {begun} of {size}")
    else:
        assert run.cut is None  # what is missing is an index
    assert (run.end is None) == (size < max(end for opcode, _, end in records if opcode == METADATA_OP))


# ---- damaged ---------------------------------------------------------------------------------------------------------


def assert_nothing_invented(sample: Sample, data: bytes) -> None:
    """Whatever became of the file: what is read was written, in this order; or it is a RunError that names the file."""
    run = attempt(lambda: reading(data), FILE)
    if run is None:
        return
    for name, topic in run.topics.items():
        remaining = iter(sample.upto(len(sample.data), name).tolist())
        assert all(row in remaining for row in topic.words.tolist())  # a subsequence
        assert len(topic.blocks) == len(topic.positions) == len(topic.logged_ns)
    for name in (*run.attachments, *run.damaged):
        assert isinstance(attempt(lambda name=name: run.json(name), name), dict | None)


@given(st.lists(st.tuples(numbers, st.integers(1, 255)), min_size=1, max_size=4))
@hypothesis_settings(PROPERTY, max_examples=few(200))
def test_flipped_bits_never_make_a_block_that_was_not_written(sample: Sample, flips: list[tuple[int, int]]) -> None:
    heads = [first + k for _, first, _ in walk(sample.data) for k in range(12)]
    damaged = bytearray(sample.data)
    for number, what in flips:
        damaged[somewhere(number, heads, len(damaged) - 1) % len(damaged)] ^= what
    assert_nothing_invented(sample, bytes(damaged))


@given(numbers, numbers, st.binary(max_size=200))
@hypothesis_settings(PROPERTY, max_examples=few(150))
def test_stretches_lost_or_overwritten_never_make_one_either(sample: Sample, a: int, b: int, middle: bytes) -> None:
    edges = [first for _, first, _ in walk(sample.data)]
    a, b = sorted(somewhere(number, edges, len(sample.data)) for number in (a, b))
    assert_nothing_invented(sample, sample.data[:a] + middle + sample.data[b:])


@given(st.binary(max_size=300), st.sampled_from((b"", MCAP0_MAGIC, "head")))
@example(b"", b"")
@example(bytes(9 * 50), MCAP0_MAGIC)
@hypothesis_settings(PROPERTY, max_examples=few(200))
def test_garbage_is_a_run_error_that_names_the_file(garbage: bytes, before: bytes | str) -> None:
    head = crafted()[: -len(crafted_end())] if before == "head" else before
    assert isinstance(head, bytes)
    run = attempt(lambda: reading(head + garbage), FILE)
    if run is not None:
        assert before == "head" and not any(len(topic) for topic in run.topics.values())


def chunk_places(data: bytes) -> list[tuple[int, int]]:
    return [(first, end) for opcode, first, end in walk(data) if opcode == CHUNK_OP]


def without(sample: Sample, number: int, topic: str) -> list[list[int]]:
    """Everything but what that chunk holds."""
    held = [words[topic] for n, (_, words) in enumerate(sample.chunks) if n != number]
    return np.concatenate(held).tolist()


HARMS = {
    "its checksum": lambda first, end: (first + 9 + 24, 1),
    "its data": lambda first, end: (end - 5, 0x55),
    "its length": lambda first, end: (first + 1, 0x81),
    "its length, beyond the file": lambda first, end: (first + 5, 0x10),
    "its kind": lambda first, end: (first, 0x40),
    "its kind, into another one": lambda first, end: (first, 1),
}


@pytest.mark.parametrize("number", [0, 2, 7])
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_chunk_is_stepped_over_and_what_it_held_is_named(sample: Sample, number: int, harm: str) -> None:
    """The first one also announces the topics; the last one is followed by nothing but the end."""
    first, end = chunk_places(sample.data)[number]
    damaged = bytearray(sample.data)
    place, what = HARMS[harm](first, end)
    damaged[place] ^= what
    run = reading(bytes(damaged))
    assert run.cut is None and run.end is not None and not run.whole
    for name in sample.layouts:
        assert run.topics[name].words.tolist() == without(sample, number, name)
    (damage,) = [damage for damage in run.damage if damage.messages]
    held = sample.chunks[number][1]
    assert damage.messages == {name: len(words) for name, words in held.items()}
    assert damage.at == first
    (said,) = [loss for loss in run.losses if "missing" in loss]
    assert f"damaged at byte {first}" in said and f"{len(held['/daq'])} /daq" in said and " s to " in said


def test_two_damaged_chunks_are_two_losses(sample: Sample) -> None:
    damaged = bytearray(sample.data)
    for number in (2, 5):
        damaged[chunk_places(sample.data)[number][1] - 5] ^= 0x55
    run = reading(bytes(damaged))
    assert [damage.at for damage in run.damage] == [chunk_places(sample.data)[n][0] for n in (2, 5)]
    assert run.end is not None


def test_a_record_without_an_index_is_read_past_a_chunk_that_kept_its_length(sample: Sample) -> None:
    """As a killed recorder leaves it."""
    data_end = next(first for opcode, first, _ in walk(sample.data) if opcode == DATA_END_OP)
    first, end = chunk_places(sample.data)[2]
    damaged = bytearray(sample.data[:data_end])
    damaged[end - 5] ^= 0x55
    run = reading(bytes(damaged))
    assert run.cut == "the file just stops"
    (damage,) = run.damage
    assert damage.at == first and set(damage.messages) == {"/daq", "/step"}
    assert run.topics["/daq"].words.tolist() == without(sample, 2, "/daq")
    damaged[first + 1] ^= 0x81  # and with a wrong length nobody knows where the next one is
    run = reading(bytes(damaged))
    assert run.cut is not None and run.cut.startswith(f"damaged at byte {first} of {len(damaged)}")
    assert run.topics["/daq"].words.tolist() == sample.upto(first, "/daq").tolist()


def test_an_index_whose_checksum_is_wrong_is_not_believed(sample: Sample) -> None:
    first, _ = chunk_places(sample.data)[2]
    damaged = bytearray(sample.data)
    damaged[first + 1] ^= 0x81
    damaged[-len(MCAP0_MAGIC) - 1] ^= 1
    assert reading(bytes(damaged)).cut is not None


def test_a_damaged_attachment_is_not_used(sample: Sample) -> None:
    """Its checksum tells, also where it is still JSON."""
    attachments = [(first, end) for opcode, first, end in walk(sample.data) if opcode == ATTACHMENT_OP]
    at = sample.data.index(b'{"a": 1}')
    assert attachments[0][0] < at < attachments[0][1]
    damaged = bytearray(sample.data)
    damaged[at + 6] ^= 3  # {"a": 2}
    run = reading(bytes(damaged))
    assert "config.json" not in run.attachments
    with pytest.raises(RunError, match=r"run\.mcap: attachment config\.json is damaged"):
        run.json("config.json")
    assert run.cut is None and run.json("summary.json") == {"steps": 3}  # the rest stands


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 200_000])
def test_an_attachment_that_is_no_json_is_a_run_error(text: bytes) -> None:
    run = reading(crafted(Attachment(0, 0, "config.json", "application/json", text)))
    with pytest.raises(RunError, match=r"run\.mcap: attachment config\.json is damaged"):
        run.json("config.json")


def test_json_that_is_no_object_says_nothing() -> None:
    assert reading(crafted(Attachment(0, 0, "config.json", "application/json", b"[1, 2]"))).json("config.json") == {}


# ---- hostile ---------------------------------------------------------------------------------------------------------


def packed(*records: McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return bytes(builder.end())


def crafted_end() -> bytes:
    return packed(DataEnd(0)) + MCAP0_MAGIC


def crafted(*records: McapRecord | bytes, start: Metadata = START, profile: str = "tandem") -> bytes:
    """A file with the head of a record of ours, and whatever else."""
    parts = [packed(Header(profile, "somebody"), start)]
    parts += [part if isinstance(part, bytes) else packed(part) for part in records]
    return MCAP0_MAGIC + b"".join(parts) + crafted_end()


def chunk(content: bytes, claimed: int | None = None, compression: str = "zstd", **options: Any) -> Chunk:
    data = zstandard.ZstdCompressor(**options).compress(content) if compression == "zstd" else content
    return Chunk(compression, data, 0, 0, zlib.crc32(content), len(content) if claimed is None else claimed)


def schema_and_channel(layout: Layout, topic: str = "/daq", number: int = 1) -> bytes:
    return packed(
        Schema(number, to_definition(topic, layout), "ros2msg", "tandem/msg/Daq"),
        McapChannel(number, topic, "cdr", {"layout": layout.text}, number),
    )


def bounded(data: bytes, most_mb: int = 200, most_s: float = 5.0) -> Run | RunError:
    """Read; neither much memory nor much work (seconds of this thread on a processor) may it take."""
    began = time.thread_time()
    tracemalloc.start()
    try:
        return reading(data)
    except RunError as error:
        return error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most_mb * MB, f"{peak / MB:.0f} MB"
        assert time.thread_time() - began < most_s


def frame_that_claims(size: int) -> bytes:
    """A zstd frame that says how large it becomes, and is mostly zeros."""
    return struct.pack("<IBQ", 0xFD2FB528, 0xE0, size) + bytes([0x03, 0, 0, 0])


ZEROS = 48 * MB


@pytest.mark.parametrize(
    "hostile",
    [
        *(struct.pack("<BQ", opcode, length) for opcode in (6, 9, 12, 200) for length in (2**30, 2**62, 2**64 - 1)),
        packed(Chunk("zstd", b"", 0, 0, 0, 2**40)),
        packed(Chunk("zstd", zstandard.compress(b"x"), 0, 0, 0, 2**64 - 1)),
        packed(Chunk("zstd", frame_that_claims(3 << 30), 0, 0, 0, 1000)),
        packed(Chunk("zstd", frame_that_claims(2**50), 0, 0, 0, 1000)),
        packed(Chunk("", b"", 0, 0, 0, 2**40)),
        packed(Chunk("lz4", b"\x04\x22\x4d\x18" + bytes(50), 0, 0, 0, 100)),
        packed(Chunk("rar", b"Rar!", 0, 0, 0, 100)),
        packed(chunk(bytes([5]) + struct.pack("<Q", 2**63 - 1))),
        packed(chunk(bytes([5]) + struct.pack("<Q", 2**64 - 1))),
        packed(chunk(bytes([5]) + struct.pack("<Q", 3) + bytes(3))),
        packed(chunk(bytes([3]) + struct.pack("<Q", 0))),
    ],
    ids=lambda data: f"{data[:9].hex()}-{zlib.crc32(data):08x}",
)  # fmt: skip
def test_hostile_sizes_are_refused_at_once(hostile: bytes) -> None:
    found = bounded(crafted(hostile))
    assert isinstance(found, Run) and found.cut is not None and not found.topics


@pytest.mark.parametrize("options", [{}, {"write_content_size": False}], ids=["with its size", "without"])
def test_hundreds_of_megabytes_that_are_claimed_to_be_few_are_refused_at_once(options: dict[str, bool]) -> None:
    test_hostile_sizes_are_refused_at_once(packed(chunk(bytes(300 * MB), 1000, **options)))  # made here: it takes time


@pytest.mark.parametrize("opcode", [0, 3, 200])
def test_a_small_chunk_of_millions_of_empty_records_is_refused(opcode: int) -> None:
    content = bytes([opcode, *bytes(8)]) * (ZEROS // 9)
    found = bounded(crafted(chunk(content)), most_mb=50)
    assert isinstance(found, RunError) and re.search(
        r"run\.mcap: its chunks would take .*--decode-limit-mb", str(found)
    )


def test_many_small_chunks_are_refused_by_their_sum() -> None:
    content = struct.pack("<BQ", 200, MB) + bytes(MB)
    found = bounded(crafted(*[chunk(content)] * 60), most_mb=50)
    assert isinstance(found, RunError) and "its chunks would take" in str(found)


def test_a_limit_that_is_given_reads_what_is_refused_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes([200, *bytes(8)]) * (20 * MB // 9)
    assert isinstance(bounded(crafted(chunk(content))), RunError)
    monkeypatch.setenv("TANDEM_DECODE_LIMIT_MB", "500")
    assert isinstance(bounded(crafted(chunk(content)), most_mb=400), Run)


def test_chunk_indexes_that_name_one_message_index_again_and_again_are_read_once() -> None:
    entries = struct.pack("<QQ", 1, 0) * 10_000
    body = crafted(packed(chunk(b"", 5)), packed(chunk(b"", 5)))[: -len(crafted_end())]
    index_at = len(body)
    body += struct.pack("<BQHI", Opcode.MESSAGE_INDEX, 6 + len(entries), 0, len(entries)) + entries
    first = len(crafted()) - len(crafted_end())
    body += packed(DataEnd(0))
    offsets = dict.fromkeys(range(20_000), index_at)
    summary = packed(ChunkIndex(0, first, "", 0, 0, 0, offsets, 0, 0))
    tail = struct.pack("<BQQQ", Opcode.FOOTER, 20, len(body), 0)
    checksum = zlib.crc32(tail, zlib.crc32(summary))
    stream = BytesIO(body + summary + tail + struct.pack("<I", checksum) + MCAP0_MAGIC)
    size = len(stream.getvalue())
    index = read_index(stream, size)
    assert index is not None
    held = index.held(stream, first, size)
    assert 0 < sum(held.counts.values()) * 16 <= 2 * size


def test_a_small_chunk_of_millions_of_empty_messages_of_a_huge_layout_is_refused() -> None:
    layout = Layout(tuple(Channel(f"c{k}", "f8") for k in range(200)))
    empty = packed(Message(1, 0, b"", 0, 0))
    content = schema_and_channel(layout) + empty * 50_000
    found = bounded(crafted(chunk(content)), most_mb=50)
    assert isinstance(found, RunError) and "the blocks of /daq would take" in str(found)


# ---- CDR -------------------------------------------------------------------------------------------------------------


AB = Layout((Channel("a", "i2", "count"), Channel("b", "f8", "m", -5)))
SOUND = to_definition("/daq", AB)


def in_cdr(definition: bytes, stated: str | None, *messages: bytes) -> bytes:
    """A record of one topic, whatever its schema, what it states of its layout, and its messages."""
    known = {} if stated is None else {"layout": stated}
    head = packed(Schema(1, definition, "ros2msg", "tandem/msg/Daq"), McapChannel(1, "/daq", "cdr", known, 1))
    content = head + b"".join(packed(Message(1, 0, data, 0, 0)) for data in messages)
    return crafted(chunk(content), profile="ros2")


def test_a_message_is_the_block_behind_four_bytes() -> None:
    row = (7, 1, 2, 3, 4, 5, -6, 0.5)
    message = b"\0\1\0\0" + AB.struct.pack(*row)
    run = reading(in_cdr(SOUND, AB.text, message))
    assert run.topics["/daq"].layout == AB and run.topics["/daq"].words.tobytes() == AB.struct.pack(*row)
    dirty = bytearray(message)
    dirty[4 + 48 + 2 : 4 + 48 + 8] = b"\xff" * 6  # between the channels nothing means anything
    assert reading(in_cdr(SOUND, AB.text, bytes(dirty))).topics["/daq"].words.tobytes() == AB.struct.pack(*row)


@pytest.mark.parametrize(
    "definition, stated",
    [
        (b"", AB.text), (b"\xff", AB.text), (SOUND.replace(b"int16 a", b"int32 a"), AB.text),
        (SOUND.replace(b"float64 b", b"float64 c"), AB.text), (SOUND + b"float64 more\n", AB.text),
        (b"\n".join(SOUND.splitlines()[::-1]), AB.text),
        *((SOUND, stated) for stated in (
            "", "[]", "{}", "7", "null", "[" * 100_000, '{"a":' * 100_000, '["abcd"]', '[["a","i2","m"]]',
            '[["a","x9","m",0]]', '[["a",[],"m",0]]', '[[1,"i2","m",0]]', '[["a","i2",7,0]]', '[["a","i2","m",0.5]]',
            '[["a","i2","m",true]]', '[["","i2","m",0]]', '[["t_ns","i8","m",0]]', '[["a","i2","m",0]]',
            '[["a","i2","m",0],["a","i2","m",0]]', '[["a","i2","m",' + "9" * 5000 + "]]",
        )),
    ],
    ids=lambda text: f"{len(text)}-{zlib.crc32(text if isinstance(text, bytes) else text.encode()):08x}",
)  # fmt: skip
def test_a_definition_that_does_not_fit_its_layout_is_a_run_error_that_names_the_topic(
    definition: bytes, stated: str
) -> None:
    found = bounded(in_cdr(definition, stated, b""))
    assert isinstance(found, RunError) and re.search(r"run\.mcap: schema of '/daq': ", str(found))


@pytest.mark.parametrize("bad", [b"", b"\0\1\0\0", bytes(4 + 64), b"\0\1\0\0" + bytes(63), b"\0\1\0\0" + bytes(65)])
def test_a_chunk_with_a_message_of_another_length_or_order_of_bytes_is_damaged(bad: bytes) -> None:
    good = b"\0\1\0\0" + bytes(64)
    run = reading(in_cdr(SOUND, AB.text, good, bad, good))
    assert run.cut is not None and "a message of /daq that does not fit its schema" in run.cut and not run.topics


def test_messages_without_a_layout_are_left_alone() -> None:
    assert not reading(in_cdr(SOUND, None, b"")).topics


def test_channels_that_cannot_be_fields_get_names_near_theirs_and_come_back_with_their_own(tmp_path: Path) -> None:
    names = ("a__b", "a_b", "F z", "f_z_2", "9", "_", "Ä", "seq_")
    layout = Layout(tuple(Channel(name, "f8") for name in names))
    written(tmp_path, {"/daq": layout}, [Batch("/daq", 0, [a_row(layout, 3)], True)])
    assert open_run(tmp_path).topics["/daq"].layout.names == names
    with open(tmp_path / FILE, "rb") as stream:
        (decoded,) = [d for *_, d in make_reader(stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages()]
    assert [getattr(decoded, name) for name in field_names(layout)] == [3.0 + k for k in range(len(names))]


# ---- foreign ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "not an MCAP file"),
        (b"time,steering\n0.0,1\n", "not an MCAP file"),
        (MCAP0_MAGIC, "the file just stops"),
        (MCAP0_MAGIC + b"1", "cut short at byte 8 of 9"),
        (crafted(profile="ros1"), "profile 'ros1', not a record of tandem"),
        (crafted(profile=""), "profile '', not a record of tandem"),
        (crafted(packed(Chunk("", b"", 0, 0, 0, 0)), start=Metadata("x", {}), profile="ros2"), "an MCAP file of ROS 2"),
        (
            crafted(start=Metadata("tandem.start", {"format": "3", "software": "tandem 9.1"})),
            r"a record of format '3', this program reads 2;.*tandem 9\.1",
        ),
        (
            crafted(start=Metadata("tandem.start", {"format": "1", "software": "tandem 0.0"})),
            r"a record of format '1', this program reads 2;.*tandem 0\.0",
        ),
        (crafted(start=Metadata("tandem.start", {"name": "x"})), "format None"),
        (crafted(start=Metadata("other", {})), "no record of tandem"),
    ],
)
def test_a_foreign_file_is_a_run_error_that_says_what_it_is(data: bytes, said: str) -> None:
    with pytest.raises(RunError, match=rf"(?s)run\.mcap: .*{said}"):
        reading(data)


def test_two_layouts_for_one_topic_are_a_run_error(car: Layout) -> None:
    other = Layout(car.channels[:2])
    both = schema_and_channel(car, number=1) + schema_and_channel(other, number=2)
    with pytest.raises(RunError, match=r"run\.mcap: /daq has two layouts"):
        reading(crafted(chunk(both + packed(Message(1, 0, b"", 0, 0)))))


def test_topics_of_another_encoding_are_left_alone(car: Layout) -> None:
    picture = packed(
        Schema(9, b"", "protobuf", "image"), McapChannel(9, "/camera", "protobuf", {}, 9),
        McapChannel(10, "/daq", "msgpack", {}, 77), Message(9, 0, b"jpeg", 0, 0), Message(10, 0, b"", 0, 0),
        Message(4711, 0, b"of no channel", 0, 0),
    )  # fmt: skip
    run = reading(crafted(chunk(picture)))
    assert not run.damage and not run.topics


# ---- finding it ------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path) -> Callable[..., Path]:
    """Makes folders with an (empty) record."""

    def make(*names: str) -> Path:
        for name in names:
            (tmp_path / name).mkdir()
            (tmp_path / name / FILE).touch()
        return tmp_path

    return make


def test_a_run_is_found_by_its_file_its_folder_and_the_folder_of_runs(runs: Callable[..., Path]) -> None:
    made = runs("20260102T000000Z-b", "20260101T000000Z-z", "20251231T235959Z-c")
    older, latest = made / "20260101T000000Z-z", made / "20260102T000000Z-b"
    assert find(older / FILE) == find(older) == older / FILE
    assert find(made) == latest / FILE  # by its stamp, whatever it is called


def test_of_two_runs_of_one_second_the_one_written_last_is_the_latest(runs: Callable[..., Path]) -> None:
    made = runs("20260101T000000Z-b", "20260101T000000Z-a")
    (made / "20260101T000000Z-b" / FILE).write_bytes(b"later")
    os.utime(made / "20260101T000000Z-a" / FILE, ns=(0, 0))
    assert find(made) == made / "20260101T000000Z-b" / FILE


def test_what_is_not_there_is_a_run_error_that_says_what_is(runs: Callable[..., Path]) -> None:
    made = runs("20260101T000000Z-car")
    with pytest.raises(RunError, match=r"20260102T.*: no such run; beside it: 20260101T000000Z-car"):
        find(made / "20260102T000000Z-car")
    (made / "empty").mkdir()
    with pytest.raises(RunError, match=r"empty: holds no run\.mcap; give the folder of a run"):
        open_run(made / "empty")
    with pytest.raises(RunError, match=r"nowhere: no such run"):
        open_run(made / "20260101T000000Z-car" / "nowhere")


def test_a_record_that_cannot_be_read_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(RunError, match=r"run\.mcap: (cannot be read|holds no)"):
        open_run(tmp_path / FILE)
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / FILE).symlink_to(FILE)
    with pytest.raises(RunError, match="loop"):
        open_run(tmp_path / "loop" / FILE)
