"""The text of sync/ring/ring.py is enough to read a ring: two readers written from it alone, one in Python, one in C.

Neither uses anything of ours. The Python one takes the bytes of a ring that stands still; the C one reads from a
writer at full speed and checks every block itself.
"""

import json
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, RingWriter, push
from tests.sync.actors import PATIENCE_S, Actor
from tests.sync.pattern import PATTERN
from tests.sync.strategies import words_of

CODES = {"i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d"}


class PlainReader:
    """A ring by `struct` and `mmap`, from the text."""

    def __init__(self, name: str):
        with open(f"/dev/shm/{name}", "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        assert self.map[:8] == b"tandemRB"
        _, self.version, self.layout, self.capacity, self.block_words, self.slot_words, self.first_slot, self.pid = (
            struct.unpack_from("<8q", self.map)
        )
        self.epoch, self.state, self.heartbeat = struct.unpack_from("<3q", self.map, 8 * 8)
        text_bytes = self.word(24)
        self.channels = json.loads(self.map[8 * 25 : 8 * 25 + text_bytes].decode("utf-8"))

    def word(self, at: int) -> int:
        return struct.unpack_from("<q", self.map, 8 * at)[0]

    @property
    def head(self) -> int:
        return self.word(16)

    def block(self, n: int) -> tuple[Any, ...] | None:
        """Block n: its six header values, then its channels; None if it was overwritten."""
        slot = self.first_slot + n % self.capacity * self.slot_words
        if self.word(slot) != 2 * n + 2:
            return None
        data = self.map[8 * (slot + 1) : 8 * (slot + 1 + self.block_words)]
        if self.word(slot) != 2 * n + 2:
            return None
        values, at = list(struct.unpack_from("<QQqqqq", data)), 8 * 6
        for _name, kind, _unit, _skew in self.channels:
            size = int(kind[1])
            at = (at + size - 1) // size * size
            values.append(struct.unpack_from("<" + CODES[kind], data, at)[0])
            at += size
        return tuple(values)


def test_a_plain_reader_finds_the_header_the_text_promises(ring_name: str, car: Layout) -> None:
    ring = RingWriter(ring_name, car, 16)
    plain = PlainReader(ring_name)
    assert plain.version == 1
    assert struct.pack(">q", plain.layout).hex() == car.id
    assert (plain.capacity, plain.block_words, plain.slot_words) == (16, 7, 8)
    assert plain.first_slot % 512 == 0
    assert plain.pid == os.getpid()
    assert (plain.epoch, plain.state) == (ring.epoch, 1)
    assert plain.head == 0
    assert plain.channels == [
        ["brake", "i2", "count", -200_000], ["throttle", "i2", "count", 0], ["steering", "i4", "count", 0],
    ]  # fmt: skip
    assert len(plain.map) == 8 * (plain.first_slot + 16 * 8)
    ring.close()
    assert plain.word(9) == 2


def test_a_plain_reader_gets_the_same_blocks(ring_name: str) -> None:
    mixed = Layout(
        tuple(Channel(f"c{i}", kind, "ß", -i) for i, kind in enumerate(("i2", "f8", "u2", "f4", "u8", "i4")))
    )
    random = np.random.default_rng(7)
    ring, reader = RingWriter(ring_name, mixed, 8), RingReader(ring_name)
    plain = PlainReader(ring_name)
    for n in range(30):
        numbers = random.integers(-(2**15), 2**15, 6).tolist()
        row = (n, 3, -n, n, 0, 0, numbers[0], numbers[1] / 7, abs(numbers[2]), numbers[3] / 8, 2**63 + n, numbers[5])
        push(ring.words, words_of(mixed, row))
        assert plain.head == n + 1
        assert plain.block(n) == row == reader.newest().item()
    blocks, position, lost = reader.since(0)
    assert (position, lost) == (30, 22)
    assert [plain.block(n) for n in range(30)] == [None] * 22 + blocks.tolist()
    ring.close()
    reader.close()


C_READER = r"""
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* name, pattern: reads, torn, backwards, last position, after a million reads; after its input has ended, again */
int main(int argc, char **argv) {
    int fd = shm_open(argv[1], O_RDONLY, 0);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) return 2;
    _Atomic int64_t *ring = mmap(NULL, info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED || memcmp((void *)ring, "tandemRB", 8) != 0 || ring[1] != 1) return 3;
    int64_t capacity = ring[3], block_words = ring[4], slot_words = ring[5], first_slot = ring[6];
    uint64_t pattern = strtoull(argv[2], NULL, 10);
    int64_t *block = malloc(8 * block_words);
    int64_t reads = 0, torn = 0, backwards = 0, last = -1;
    for (;;) {
        int64_t n = atomic_load_explicit(&ring[16], memory_order_acquire) - 1;
        if (n < 0) continue;
        _Atomic int64_t *slot = ring + first_slot + n % capacity * slot_words;
        if (atomic_load_explicit(slot, memory_order_acquire) != 2 * n + 2) continue;
        for (int64_t i = 0; i < block_words; i++)
            block[i] = atomic_load_explicit(slot + 1 + i, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(slot, memory_order_relaxed) != 2 * n + 2) continue;
        reads++;
        backwards += n < last;
        last = n;
        for (int64_t i = 0; i < block_words; i++)
            if ((uint64_t)block[i] != (uint64_t)(n + 1) * pattern + (uint64_t)i * 1000003) { torn++; break; }
        if (reads % 1000000 != 0) continue;
        printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", reads, torn, backwards, last);
        fflush(stdout);
        if (reads > 1000000) return 0;
        char byte;
        while (read(0, &byte, 1) > 0) {}
    }
}
"""


def test_a_c_program_reads_whole_blocks_from_a_writer_at_full_speed(
    ring_name: str, actor: Actor, tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "reader.c").write_text(C_READER)
    built = subprocess.run(
        [compiler, "-std=gnu11", "-O2", "-o", tmp_path / "reader", tmp_path / "reader.c", "-lrt"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    layout = Layout(tuple(Channel(f"c{i}", "i8") for i in range(10)))
    actor.do("from tests.sync.pattern import write_at_full_speed")
    actor.do("ring = RingWriter(name, Layout.from_text(text), 8)", name=ring_name, text=layout.text)
    actor.do("thread = threading.Thread(target=write_at_full_speed, args=(ring.words, 2**62)); thread.start()")
    command = [tmp_path / "reader", f"/{ring_name}", str(PATTERN % 2**64)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as reading:
        beside = reading.stdout.readline()
        actor.do("ring.words[9] = 2; thread.join()")  # the writer comes to rest
        after, _ = reading.communicate(timeout=PATIENCE_S)
    assert reading.returncode == 0
    for said in (beside, after):
        reads, torn, backwards, last = map(int, said.split())
        assert (torn, backwards) == (0, 0)
        assert reads in (1_000_000, 2_000_000)
    assert last == actor.do("ring.head") - 1  # both see the same newest
