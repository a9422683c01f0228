"""What a ring promises its writer and its readers, and how it refuses: by name, never by a crash."""

import gc
import itertools
import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sync.clock import now_ns
from sync.errors import LayoutMismatch, RingBusy, RingError, RingMissing
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, RingWriter, push, remove_stale
from tests.examples import few
from tests.sync.actors import PATIENCE_S, Actor, ActorError
from tests.sync.strategies import PROPERTY, words_of

SHM = Path("/dev/shm")
NUMBER = Layout((Channel("value", "i8"),))
HEADER_BYTES = 8 * 25


@contextmanager
def writing(name: str, layout: Layout = NUMBER, capacity: int = 8) -> Iterator[RingWriter]:
    ring = RingWriter(name, layout, capacity)
    try:
        yield ring
    finally:
        ring.close()


@contextmanager
def reading(name: str, *args: Any, **options: Any) -> Iterator[RingReader]:
    ring = RingReader(name, *args, **options)
    try:
        yield ring
    finally:
        ring.close()


def put(ring: RingWriter, *values: int) -> None:
    for value in values:
        row = (ring.head, ring.epoch, 0, 0, 0, 0, *[value] * len(ring.layout.channels))
        push(ring.words, words_of(ring.layout, row))


def test_newest_is_none_before_the_first_block_and_then_the_last_one_pushed(ring_name: str) -> None:
    with writing(ring_name) as ring, reading(ring_name) as reader:
        assert reader.newest() is None
        for value in range(20):
            put(ring, value)
            assert reader.newest()["value"] == value
            assert reader.newest()["seq"] == value
        assert reader.head == 20


def test_a_block_taken_does_not_change_under_its_taker(ring_name: str) -> None:
    with writing(ring_name, capacity=2) as ring, reading(ring_name) as reader:
        put(ring, 1)
        newest, (followed, _, _) = reader.newest(), reader.since(0)
        put(ring, 2, 3, 4, 5)
        assert (newest["value"], followed["value"].tolist()) == (1, [1])


def test_since_pages_through_in_order_and_counts_what_was_overwritten(ring_name: str) -> None:
    with writing(ring_name, capacity=8) as ring, reading(ring_name) as reader:
        put(ring, *range(11))
        first, position, lost = reader.since(0, most=5)
        assert (first["value"].tolist(), position, lost) == ([3, 4, 5, 6, 7], 8, 3)
        rest, position, lost = reader.since(position)
        assert (rest["value"].tolist(), position, lost) == ([8, 9, 10], 11, 0)
        none, position, lost = reader.since(position)
        assert (len(none), position, lost) == (0, 11, 0)


def test_a_layout_whose_text_is_longer_than_a_page_makes_a_ring_like_any_other(ring_name: str) -> None:
    layout = Layout(tuple(Channel(f"channel_{i}_{'x' * 60}", "i8", "a unit as long as this") for i in range(80)))
    assert len(layout.text) > 2 * 4096
    with writing(ring_name, layout) as ring, reading(ring_name) as reader:
        put(ring, *range(9))
        assert reader.layout == layout
        assert reader.newest()[layout.names[-1]] == 8


@pytest.mark.parametrize("capacity", [-8, 0, 1, 3, 6, 1000])
def test_a_capacity_that_is_no_power_of_two_is_refused(ring_name: str, capacity: int) -> None:
    with pytest.raises(RingError, match=f"capacity {capacity} is not a power of two"):
        RingWriter(ring_name, NUMBER, capacity)
    assert not (SHM / ring_name).exists()


def test_the_segment_is_the_users_own(ring_name: str) -> None:
    before = os.umask(0)
    try:
        with writing(ring_name):
            assert (SHM / ring_name).stat().st_mode & 0o7777 == 0o600
    finally:
        os.umask(before)


def test_readers_cannot_write(ring_name: str) -> None:
    with writing(ring_name), reading(ring_name) as reader, pytest.raises(ValueError, match="read-only"):
        reader.words[16] = 7


def test_another_layout_is_a_mismatch_that_shows_both(ring_name: str) -> None:
    other = Layout((Channel("value", "i8", "m"),))  # differs in the unit alone
    with writing(ring_name):
        with pytest.raises(LayoutMismatch) as caught:
            RingReader(ring_name, other)
        assert NUMBER.text in str(caught.value) and other.text in str(caught.value)
        with reading(ring_name, NUMBER) as reader:
            assert reader.layout == NUMBER


def test_a_second_living_writer_is_busy_and_names_the_first(ring_name: str, actor: Actor) -> None:
    actor.do("ring = RingWriter(name, Layout.from_text(text), 8)", name=ring_name, text=NUMBER.text)
    with pytest.raises(RingBusy, match=rf"{re.escape(ring_name)}.*pid {actor.pid}\b"):
        RingWriter(ring_name, NUMBER, 8)
    with pytest.raises(RingBusy, match=f"pid {actor.pid}"):
        RingWriter(ring_name, NUMBER, 16)  # another shape is no better
    assert actor.do("ring.head") == 0
    with reading(ring_name) as reader:
        assert reader.writer_alive


def test_a_second_writer_in_the_same_process_is_busy_too(ring_name: str) -> None:
    with writing(ring_name), pytest.raises(RingBusy, match=f"pid {os.getpid()}"):
        RingWriter(ring_name, NUMBER, 8)


def test_a_missing_ring_is_missing_after_its_time_out_and_not_before(
    ring_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, naps = [100.0], []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("sync.ring.ring.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with pytest.raises(RingMissing, match=ring_name):
        RingReader(ring_name, timeout_s=0.2)
    assert 100.2 <= now[0] <= 100.2 + 2 * max(naps)


def test_a_reader_that_waits_gets_the_ring_when_it_comes(ring_name: str, actor: Actor) -> None:
    actor.do(
        "threading.Timer(0.2, lambda: globals().update(ring=RingWriter(name, Layout.from_text(text), 8))).start()",
        name=ring_name,
        text=NUMBER.text,
    )
    with reading(ring_name, NUMBER, timeout_s=PATIENCE_S) as reader:
        assert reader.writer_pid == actor.pid


def test_a_closed_ring_says_so_and_leaves_nothing(ring_name: str) -> None:
    with reading_after_close(ring_name) as reader:
        assert reader.closed and not reader.writer_alive
        assert reader.newest()["value"] == 5  # what was there can still be read
        assert not (SHM / ring_name).exists()


@contextmanager
def reading_after_close(name: str) -> Iterator[RingReader]:
    ring = RingWriter(name, NUMBER, 8)
    put(ring, 5)
    reader = RingReader(name)
    assert not reader.closed and reader.writer_alive
    ring.close()
    ring.close()  # once more does no harm
    yield reader
    reader.close()


def test_a_ring_made_anew_never_repeats_the_epoch_of_the_one_before(ring_name: str) -> None:
    """Not even at once: a receiver that saw block 1000 of the old one would take block 0 of the new for an old one."""
    epochs = []
    for _ in range(50):
        with writing(ring_name) as ring:
            epochs.append(ring.epoch)
    assert all(a != b for a, b in itertools.pairwise(epochs))
    assert all(0 <= epoch < 2**32 for epoch in epochs)


def test_an_epoch_stays_a_32_bit_number(ring_name: str) -> None:
    with writing(ring_name) as ring, reading(ring_name) as reader:
        ring.words[8] = 0xFFFFFFFF
        assert ring.bump_epoch() == 0 == reader.epoch


def test_heartbeat_tells_how_long_ago_the_writer_was_seen(ring_name: str) -> None:
    begun = now_ns()
    with writing(ring_name) as ring, reading(ring_name) as reader:
        assert 0 <= reader.heartbeat_age_ns <= now_ns() - begun  # making a ring is a sign of life
        seen = now_ns() - 5_000_000_000
        ring.words[10] = seen
        before = now_ns()
        age = reader.heartbeat_age_ns
        assert before - seen <= age <= now_ns() - seen


# ---- segments that are none ------------------------------------------------------------------------------------------


def sound(name: str) -> bytearray:
    """The bytes of a ring with blocks in it."""
    with writing(name, capacity=64) as ring:
        put(ring, *range(100))
        return bytearray((SHM / name).read_bytes())


def descriptors_of(path: Path) -> int:
    return sum(fd.resolve() == path for fd in Path("/proc/self/fd").iterdir())


def with_word(word: int, value: int) -> Callable[[bytearray], bytearray]:
    def change(data: bytearray) -> bytearray:
        struct.pack_into("<q", data, 8 * word, value)
        return data

    return change


def with_text(text: bytes) -> Callable[[bytearray], bytearray]:
    def change(data: bytearray) -> bytearray:
        data[HEADER_BYTES : HEADER_BYTES + len(text)] = text
        return with_word(24, len(text))(data)

    return change


DAMAGE: dict[str, Callable[[bytearray], bytearray]] = {
    "empty": lambda _: bytearray(),
    "a few bytes": lambda data: data[:20],
    "a page": lambda data: data[:4096],
    "a page and a bit": lambda data: data[:4100],
    "half its slots": lambda data: data[: 4096 + 32 * 64],
    "not whole words": lambda data: data[:-3],
    "no magic": with_word(0, 0),
    "text only": lambda data: bytearray(b"not a ring at all\n" * 1000),
    "all ones": lambda data: bytearray(b"\xff" * len(data)),
    "version 2": with_word(1, 2),
    "another hash": with_word(2, 12345),
    "capacity 0": with_word(3, 0),
    "capacity beyond the file": with_word(3, 1 << 40),
    "capacity not a power of two": with_word(3, 63),
    "blocks beyond their slots": with_word(4, 1 << 40),
    "blocks without words": with_word(4, 0),
    "slots without words": with_word(5, 0),
    "slots before the file": with_word(6, -512),
    "slots beyond the file": with_word(6, 1 << 50),
    "text of no length": with_word(24, 0),
    "text of negative length": with_word(24, -1),
    "text of all lengths": with_word(24, 1 << 60),
    "text not UTF-8": with_text(b"\xff\xfe"),
    "text not JSON": with_text(b"[[["),
    "text another JSON": with_text(b'{"a": 1}'),
    "text without channels": with_text(b"[]"),
    "text of another layout": with_text(b'[["value","f8","1",0]]'),
}
UNFINISHED = {"empty", "a few bytes", "a page", "no magic", "text only", "all ones"}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_reader_refuses_what_is_no_ring_by_name(ring_name: str, damage: str) -> None:
    (SHM / ring_name).write_bytes(DAMAGE[damage](sound(ring_name)))
    with pytest.raises(RingError, match=re.escape(ring_name)) as caught:
        RingReader(ring_name)
    assert isinstance(caught.value, RingMissing) == (damage in UNFINISHED)
    if damage == "version 2":
        assert "version 2" in str(caught.value) and "version 1" in str(caught.value)
    del caught
    gc.collect()
    assert descriptors_of(SHM / ring_name) == 0  # a service that looks ten times a second must not run out of them
    assert (SHM / ring_name).exists()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_writer_makes_a_sound_ring_of_what_is_none(ring_name: str, damage: str) -> None:
    (SHM / ring_name).write_bytes(DAMAGE[damage](sound(ring_name)))
    with writing(ring_name, capacity=64) as ring, reading(ring_name, NUMBER) as reader:
        assert not ring.adopted
        assert reader.newest() is None
        put(ring, 7)
        assert reader.newest()["value"] == 7


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_no_ring_is_swept_away_like_a_stale_one(ring_name: str, damage: str) -> None:
    (SHM / ring_name).write_bytes(DAMAGE[damage](sound(ring_name)))
    assert remove_stale(ring_name)
    assert not (SHM / ring_name).exists()


@given(header=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 600)), min_size=24, max_size=24))
@settings(PROPERTY, max_examples=few(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_header_whatsoever_leads_a_reader_out_of_its_segment(ring_name: str, header: list[int]) -> None:
    """Only words that say how to read; those that say how far the writer is may be anything."""
    data = sound(ring_name)
    kept = struct.unpack_from("<8q", data)
    struct.pack_into("<24q", data, 0, *kept[:3], *header[3:7], kept[7], *header[8:])
    (SHM / ring_name).write_bytes(data)
    try:
        with reading(ring_name) as reader:
            reader.newest()
            head = reader.head
            reader.since(head - 100 if abs(head) < 2**62 else 0, most=10)
    except RingError:
        pass


def test_a_folder_or_a_link_in_the_rings_place_is_an_error_by_name(ring_name: str, tmp_path: Path) -> None:
    path = SHM / ring_name
    path.mkdir()
    try:
        for attempt in (lambda: RingWriter(ring_name, NUMBER, 8), lambda: RingReader(ring_name)):
            with pytest.raises(RingError, match=ring_name):
                attempt()
    finally:
        path.rmdir()
    (tmp_path / "precious").write_bytes(b"precious")
    path.symlink_to(tmp_path / "precious")
    for attempt in (lambda: RingWriter(ring_name, NUMBER, 8), lambda: RingReader(ring_name)):
        with pytest.raises(RingError, match=ring_name):
            attempt()
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_full_shared_memory_is_an_error_by_name_and_no_bus_error(actor: Actor) -> None:
    try:
        actor.do(
            "import ctypes\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "assert libc.unshare(0x20000) == 0, 'unshare'\n"  # a mount namespace of its own
            "assert libc.mount(None, b'/', None, (1 << 18) | (1 << 14), None) == 0, 'private'\n"
            "assert libc.mount(b'tmpfs', b'/dev/shm', b'tmpfs', 0, b'size=256k') == 0, 'mount'\n"
        )
    except ActorError as error:
        pytest.skip(f"needs a /dev/shm of its own: {error}")
    with pytest.raises(ActorError, match=r"RingError: ring full: .* cannot be had: No space left"):
        actor.do("RingWriter('full', Layout.from_text(text), 16384)", text=NUMBER.text)
    assert actor.do("os.listdir('/dev/shm')") == []
    actor.do("ring = RingWriter('full', Layout.from_text(text), 16)", text=NUMBER.text)
    assert actor.do("push(ring.words, np.zeros(7, np.int64))") == 0


def test_blocks_of_any_size_come_through(ring_name: str) -> None:
    for channels in (1, 2, 9, 10, 63, 64):
        layout = Layout(tuple(Channel(f"c{i}", "i8") for i in range(channels)))
        with writing(ring_name, layout, 4) as ring, reading(ring_name) as reader:
            random = np.random.default_rng(channels)
            for _ in range(10):
                block = random.integers(-(2**63), 2**63 - 1, layout.words)
                push(ring.words, block)
                assert reader.newest().tobytes() == block.tobytes()
