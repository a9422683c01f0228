"""Rings between processes that end, are killed, and come again."""

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.clock import now_ns
from sync.errors import RingBusy
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, RingWriter, newest, push, remove_stale
from tests.sync.actors import PATIENCE_S, Actor
from tests.sync.pattern import whole

SHM = Path("/dev/shm")
WIDE = Layout(tuple(Channel(f"c{i}", "i8") for i in range(10)))
NUMBER = Layout((Channel("value", "i8"),))


def write(actor: Actor, name: str, layout: Layout = NUMBER, capacity: int = 8, blocks: int = 0) -> None:
    actor.do(
        "ring = RingWriter(name, Layout.from_text(text), capacity)\n"
        "for i in range(ring.head, ring.head + blocks):\n"
        "    push(ring.words, np.array([i, ring.epoch, 0, 0, 0, 0, 100 + i]))",
        name=name, text=layout.text, capacity=capacity, blocks=blocks,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_readers_end_never_takes_the_ring_away(ring_name: str, new_actor: Callable[[], Actor], how: str) -> None:
    writer = new_actor()
    write(writer, ring_name, blocks=3)
    for _ in range(2):
        reader = new_actor()
        reader.do("reader = RingReader(name)", name=ring_name)
        assert reader.do("reader.newest()['value']") == 102
        # nobody is left behind who would take it away later
        tracker = "getattr(sys.modules.get('multiprocessing.resource_tracker'), '_resource_tracker', None)"
        assert reader.do(f"getattr({tracker}, '_pid', None)") is None
        assert reader.do("open(f'/proc/self/task/{os.getpid()}/children').read().split()") == []
        getattr(reader, how)()
        assert (SHM / ring_name).exists()
    writer.do("push(ring.words, np.array([3, ring.epoch, 0, 0, 0, 0, 103]))")
    late = RingReader(ring_name)
    assert late.newest()["value"] == 103
    late.close()


def test_a_readers_end_does_not_end_the_dead_writers_ring_either(
    ring_name: str, new_actor: Callable[[], Actor]
) -> None:
    writer, reader = new_actor(), new_actor()
    write(writer, ring_name, blocks=3)
    writer.kill()
    reader.do("reader = RingReader(name)", name=ring_name)
    reader.end()
    assert (SHM / ring_name).exists()


def test_a_reborn_writer_goes_on_where_the_dead_one_was_killed(ring_name: str, new_actor: Callable[[], Actor]) -> None:
    first = new_actor()
    write(first, ring_name, blocks=5)
    reader = RingReader(ring_name)
    epoch = reader.epoch
    first.kill()
    assert not reader.writer_alive and not reader.closed
    assert reader.newest()["value"] == 104  # a dead writer's blocks are still blocks

    second = new_actor()
    write(second, ring_name, blocks=5)
    assert second.do("ring.adopted")
    assert reader.writer_alive and not reader.closed
    assert reader.epoch != epoch
    assert reader.writer_pid == second.pid
    blocks, position, lost = reader.since(4)
    assert (blocks["value"].tolist(), position, lost) == ([104, 105, 106, 107, 108, 109], 10, 0)
    assert blocks["epoch"].tolist() == [epoch] + [reader.epoch] * 5
    reader.close()


@pytest.mark.parametrize("shape", ["another capacity", "another layout"])
def test_a_dead_writers_ring_of_another_shape_is_replaced(ring_name: str, actor: Actor, shape: str) -> None:
    write(actor, ring_name, capacity=8, blocks=5)
    old = RingReader(ring_name)
    actor.kill()
    layout, capacity = (NUMBER, 16) if shape == "another capacity" else (WIDE, 8)
    ring = RingWriter(ring_name, layout, capacity)
    assert not ring.adopted
    assert old.closed and not old.writer_alive
    new = RingReader(ring_name, layout)
    assert not new.closed and new.head == 0 and new.epoch != old.epoch
    push(ring.words, np.zeros(layout.words, np.int64))
    assert (new.head, old.head) == (1, 5)
    for each in (old, new, ring):
        each.close()


def test_a_pid_that_lives_again_does_not_make_a_dead_writer_live(ring_name: str, actor: Actor) -> None:
    write(actor, ring_name, blocks=5)
    actor.kill()
    with open(SHM / ring_name, "r+b") as file:
        file.seek(8 * 7)
        file.write(struct.pack("<q", os.getpid()))
    reader = RingReader(ring_name)
    assert reader.writer_pid == os.getpid() and not reader.writer_alive
    ring = RingWriter(ring_name, NUMBER, 8)
    assert ring.adopted and ring.head == 5 and reader.writer_alive
    ring.close()
    reader.close()


def test_a_writer_killed_inside_a_push_blocks_nobody(ring_name: str, actor: Actor) -> None:
    """By the specification alone: an odd stamp in slot n, half a block behind it, head still n."""
    write(actor, ring_name, capacity=4, blocks=6)
    reader = RingReader(ring_name)
    actor.do("slot = int(ring.words[6]) + 6 % 4 * int(ring.words[5])")
    actor.do("ring.words[slot] = 2 * 6 + 1; ring.words[slot + 1 : slot + 5] = -1")
    actor.kill()
    assert reader.newest()["value"] == 105
    blocks, position, lost = reader.since(0)
    assert (blocks["value"].tolist(), position, lost) == ([103, 104, 105], 6, 3)  # block 2 was under its pen
    ring = RingWriter(ring_name, NUMBER, 4)
    assert ring.adopted
    assert push(ring.words, np.array([6, ring.epoch, 0, 0, 0, 0, 106])) == 6
    assert reader.newest()["value"] == 106
    blocks, position, lost = reader.since(position)
    assert (blocks["value"].tolist(), position, lost) == ([106], 7, 0)
    ring.close()
    reader.close()


@pytest.mark.slow
def test_killing_writers_at_full_speed_leaves_no_torn_block(ring_name: str, new_actor: Callable[[], Actor]) -> None:
    """SIGKILL falls on any instruction of a push; whatever it leaves, newest is whole and the next one goes on."""
    random = np.random.default_rng(1)
    block = np.zeros(WIDE.words, np.int64)
    reader, last = None, -1
    for _ in range(40):
        writer = new_actor()
        writer.do("from tests.sync.pattern import write_at_full_speed")
        writer.do("ring = RingWriter(name, Layout.from_text(text), 2)", name=ring_name, text=WIDE.text)
        assert writer.do("ring.head") == last + 1
        writer.do("threading.Thread(target=write_at_full_speed, args=(ring.words, 2**62), daemon=True).start()")
        reader = reader or RingReader(ring_name)
        end = time.monotonic() + PATIENCE_S
        while reader.head < last + 2:
            assert time.monotonic() < end
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.003))
        writer.kill()
        n = newest(reader.words, block)
        assert n > last
        assert whole(block, n)
        last = n
    reader.close()


def test_only_what_no_living_process_owns_is_stale(ring_name: str, new_actor: Callable[[], Actor]) -> None:
    assert not remove_stale(ring_name)
    assert not (SHM / ring_name).exists()  # looking made nothing
    writer, reading = new_actor(), new_actor()
    write(writer, ring_name, blocks=2)
    reading.do("reader = RingReader(name)", name=ring_name)
    assert not remove_stale(ring_name)
    assert (SHM / ring_name).exists() and writer.do("ring.head") == 2
    writer.kill()
    assert remove_stale(ring_name)  # a living reader owns nothing
    assert not (SHM / ring_name).exists()
    assert reading.do("reader.closed")
    assert not remove_stale(ring_name)


def test_of_many_writers_that_start_at_once_exactly_one_gets_the_ring(
    ring_name: str, new_actor: Callable[[], Actor]
) -> None:
    """Whether the name is free, stale, or stale of another shape."""
    actors = [new_actor() for _ in range(4)]
    try_it = (
        "def attempt():\n"
        "    global ring, outcome\n"
        "    sleep_until(start)\n"
        "    try:\n"
        "        ring = RingWriter(name, Layout.from_text(text), capacity)\n"
        "        outcome = 'owner'\n"
        "    except RingBusy:\n"
        "        outcome = 'busy'\n"
    )
    for turn in range(12):
        capacity, start = (8, 8, 16)[turn % 3], now_ns() + 10_000_000
        for actor in actors:
            actor.do(try_it)
            actor.do(
                "thread = threading.Thread(target=attempt); thread.start()",
                name=ring_name, text=NUMBER.text, capacity=capacity, start=start,
            )  # fmt: skip
        outcomes = [actor.do("(thread.join(), outcome)[1]") for actor in actors]
        assert sorted(outcomes) == ["busy", "busy", "busy", "owner"]
        owner = actors[outcomes.index("owner")]
        with pytest.raises(RingBusy, match=f"pid {owner.pid}"):
            RingWriter(ring_name, NUMBER, 8)
        reader = RingReader(ring_name, NUMBER)
        assert reader.writer_pid == owner.pid and reader.capacity == capacity
        reader.close()
        owner.kill()
        actors[outcomes.index("owner")] = new_actor()


def test_whoever_gets_a_ring_has_its_name_however_many_come_and_go(
    ring_name: str, new_actor: Callable[[], Actor]
) -> None:
    """One opens the file, another unlinks it, the first locks it: he must notice that it has no name any more."""
    come_and_go = (
        "def come_and_go():\n"
        "    layout = Layout.from_text(text)\n"
        "    while len(mine) < 100:\n"
        "        try:\n"
        "            ring = RingWriter(name, layout, 8)\n"
        "        except RingBusy:\n"
        "            continue\n"
        "        reader = RingReader(name)\n"
        "        mine.append(reader.writer_pid == os.getpid() and reader.epoch == ring.epoch)\n"
        "        reader.close()\n"
        "        ring.close()\n"
        "mine = []"
    )
    actors = [new_actor() for _ in range(3)]
    for actor in actors:
        actor.do(come_and_go)
        actor.do(
            "thread = threading.Thread(target=come_and_go); thread.start()",
            name=ring_name, text=NUMBER.text,
        )  # fmt: skip
    for actor in actors:
        assert actor.do("(thread.join(), len(mine))[1]") == 100
        assert actor.do("all(mine)")
    assert not (SHM / ring_name).exists()
