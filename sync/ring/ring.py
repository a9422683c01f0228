"""Ring: lock-free, one writer, any number of readers, in POSIX shared memory.

`newest` never returns a torn block and never an older one than before. `since` returns every block in order and says
how many were overwritten before it read them. Neither ever waits for the writer, not even for one that crashed in
the middle of a push; the writer never waits for anyone. This text is the specification; a C program can read a ring
from it.

Storage
-------
A segment `/NAME` (on Linux the file `/dev/shm/NAME`, mode 0600), seen as 8-byte little-endian words:

    word  0  magic        the bytes "tandemRB"; written last, so a segment that has it is complete
          1  version      1
          2  layout       hash of the layout (see sync/ring/block.py)
          3  capacity     slots, a power of two
          4  block_words  words of a block
          5  slot_words   distance between slots: 1 + block_words rounded up to a multiple of 8 (a cache line)
          6  first_slot   word at which slot 0 begins, a multiple of 512 (a page)
          7  pid          of the writer, for people; the lock described below shows whether it runs
          8  epoch        bumped by a restarted writer and at every gap
          9  state        1 live, 2 closed by its writer, 3 replaced by a segment of another shape
         10  heartbeat    monotonic ns at which the writer last showed that it works
         11  bound        by how many ns the instants of its blocks may be wrong, as far as its writer knows; 0: exact
         16  head         number of blocks pushed so far (a cache line of its own)
         24  text_bytes   length of the layout's text, which stands from word 25 on as UTF-8 JSON
    first_slot + k * slot_words:
          0  stamp        2n+1 while block n is being written, 2n+2 when it is whole; n = position, k = n mod capacity
          1… block        block_words words

The writer holds an exclusive open-file-description lock (F_OFD_SETLK) on the whole segment as long as it runs. The
kernel drops the lock when the process ends, so a stale segment is recognised for certain, even if its pid was reused. A
new writer of the same shape adopts a stale segment: positions continue, the epoch is bumped, attached readers just read
on. A stale segment of another shape is marked replaced and unlinked, and the writer makes a new one. Readers map
read-only and never unlink.

Writing block n (one thread)
----------------------------
 1. n = head                                  relaxed (nothing else writes it)
 2. stamp of slot n = 2n+1                    relaxed
 3. fence                                     release: no word of the block may become visible before the odd stamp
 4. words of the block                        relaxed, 8 bytes each
 5. stamp of slot n = 2n+2                    release: every word before the even stamp
 6. head = n+1                                release: the slot before the head

Reading block n (any thread, any process)
-----------------------------------------
 1. `newest`: n = head - 1                    acquire. `since`: n from the reader's cursor, n < head
 2. s = stamp of slot n                       acquire. s != 2n+2: overwritten, see below
 3. words of the block                        relaxed, 8 bytes each
 4. fence                                     acquire: no word may be read after the stamp is read again
 5. stamp of slot n, again                    relaxed. Still 2n+2: the block is whole. Else: overwritten

Overwritten means that the writer has gone around the whole ring meanwhile: `newest` starts again at 1, `since` counts
block n as lost and goes on with n+1. As head only grows and every read begins with it, `newest` never goes backwards.
The writer is never inside the slot of the newest block unless it has lapped the reader, so a reader retries only then.

Every read begins with the head: a slot that a crashed writer had filled, but not yet counted, is filled again under the
same stamp by the next one, and stamps alone cannot tell the two apart. verify/path/ring_check.py goes through all
executions.
"""

import contextlib
import fcntl
import mmap
import os
import stat
import struct
import time
from pathlib import Path

import numpy as np
from numba import int64, types

from sync.clock import now_ns
from sync.compile.array_types import READ_ONLY, WORDS, WORDS_2D
from sync.compile.atomics import fence_acquire, fence_release, load_acquire, load_relaxed, store_relaxed, store_release
from sync.compile.jit import kernel
from sync.errors import LayoutMismatch, RingBusy, RingError, RingMissing
from sync.ring.block import Layout

MAGIC = int.from_bytes(b"tandemRB", "little")
VERSION = 1
_MAGIC, _VERSION, _LAYOUT, _CAPACITY, _BLOCK_WORDS, _SLOT_WORDS, _FIRST_SLOT, _PID = range(8)
EPOCH_WORD, STATE_WORD, HEARTBEAT_WORD, BOUND_WORD = 8, 9, 10, 11
HEAD_WORD = 16
_TEXT_BYTES, _TEXT = 24, 25
LIVE, CLOSED, REPLACED = 1, 2, 3

EMPTY, LAPPED = -1, -2  # what `newest` returns instead of a position
_MOST_RETRIES = 1000

SHM = Path("/dev/shm")


# ---- the algorithm ---------------------------------------------------------------------------------------------------


@kernel(int64(WORDS, WORDS))
def push(ring, block):
    """Append a block; returns its position."""
    n = load_relaxed(ring, HEAD_WORD)
    slot = ring[_FIRST_SLOT] + (n & (ring[_CAPACITY] - 1)) * ring[_SLOT_WORDS]
    store_relaxed(ring, slot, 2 * n + 1)
    fence_release()
    for i in range(ring[_BLOCK_WORDS]):
        store_relaxed(ring, slot + 1 + i, block[i])
    store_release(ring, slot, 2 * n + 2)
    store_release(ring, HEAD_WORD, n + 1)
    return n


@kernel()
def read_slot(ring, n, block):
    """Copy block n out of its slot; False if the writer has overwritten it."""
    slot = ring[_FIRST_SLOT] + (n & (ring[_CAPACITY] - 1)) * ring[_SLOT_WORDS]
    stamp = load_acquire(ring, slot)
    if stamp != 2 * n + 2:
        return False
    for i in range(ring[_BLOCK_WORDS]):
        block[i] = load_relaxed(ring, slot + 1 + i)
    fence_acquire()
    return load_relaxed(ring, slot) == stamp


@kernel(int64(READ_ONLY, WORDS))
def newest(ring, block):
    """Copy the newest block; returns its position, EMPTY before the first one, LAPPED if the writer kept lapping us."""
    for _ in range(_MOST_RETRIES):
        head = load_acquire(ring, HEAD_WORD)
        if head == 0:
            return EMPTY
        if read_slot(ring, head - 1, block):
            return head - 1
    return LAPPED


@kernel(types.UniTuple(int64, 3)(READ_ONLY, int64, WORDS_2D))
def since(ring, position, blocks):
    """Copy the blocks from `position` on, oldest first; returns (how many, next position, how many overwritten)."""
    head = load_acquire(ring, HEAD_WORD)
    lost = max(head - ring[_CAPACITY] - position, 0)
    position += lost
    count = 0
    while position < head and count < blocks.shape[0]:
        if read_slot(ring, position, blocks[count]):
            count += 1
        else:
            lost += 1
        position += 1
    return count, position, lost


@kernel(types.void(WORDS, int64))
def beat_at(ring, instant_ns):
    """Set the writer's heartbeat to this instant."""
    store_relaxed(ring, HEARTBEAT_WORD, instant_ns)


@kernel(types.void(WORDS))
def beat(ring):
    """Set the writer's heartbeat to now."""
    beat_at(ring, now_ns())


@kernel(int64(READ_ONLY, int64))
def peek(ring, word):
    """One header word."""
    return load_acquire(ring, word)


@kernel(types.void(WORDS, int64, int64))
def poke(ring, word, value):
    store_release(ring, word, value)


# ---- segments --------------------------------------------------------------------------------------------------------


def _geometry(layout: Layout) -> tuple[int, int]:
    """(slot_words, first_slot) of a layout."""
    slot_words = -(-(1 + layout.words) // 8) * 8
    text_words = -(-len(layout.text.encode()) // 8)
    return slot_words, -(-(_TEXT + text_words) // 512) * 512


def _lock(fd: int, command: int, kind: int) -> int:
    """Set or query the lock on the whole segment; returns the kind found (F_UNLCK = free or obtained)."""
    request = struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
    return int(struct.unpack("hhqqi4x", fcntl.fcntl(fd, command, request))[0])


def _own(fd: int) -> bool:
    try:
        _lock(fd, fcntl.F_OFD_SETLK, fcntl.F_WRLCK)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _has_owner(fd: int) -> bool:
    return _lock(fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK) != fcntl.F_UNLCK


def _still_named(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _not_ours(fd: int) -> str | None:
    """Why a file is not trusted, None if it is: another owner could change or shorten it while we use it."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return "is no ordinary file"
    return "belongs to another user" if status.st_uid != os.geteuid() else None


def _open_owned(name: str) -> int:
    """Open the segment and take the writer's lock on it; tries again if it was unlinked between open and lock."""
    path = SHM / name
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RingError(
                f"ring {name}: {path} cannot be opened for writing: {error.strerror};"
                " if it belongs to another user, give this run another `name`"
            ) from None
        if (stranger := _not_ours(fd)) is not None:
            os.close(fd)
            raise RingError(f"ring {name}: {path} {stranger}; remove it, or give this run another `name`")
        os.fchmod(fd, 0o600)
        if not _own(fd):
            pid = "unknown"
            with contextlib.suppress(struct.error):
                pid = str(struct.unpack_from("<q", os.pread(fd, 64, 0), 8 * _PID)[0])
            os.close(fd)
            raise RingBusy(
                f"ring {name}: owned by a living process (pid {pid}); end it first, or give this run another `name`"
            )
        if _still_named(fd, path):
            return fd
        os.close(fd)


def _map(fd: int, access: int = mmap.ACCESS_WRITE) -> np.ndarray:
    mapped = mmap.mmap(fd, 0, access=access)
    return np.frombuffer(mapped, np.int64, len(mapped) // 8)


def _layout_in_header(words: np.ndarray) -> Layout | None:
    """The layout in a header; None if the header does not fit the segment: kernels use its words unchecked."""
    capacity, block_words, slot_words, first_slot = words[_CAPACITY : _FIRST_SLOT + 1].tolist()
    text_bytes = int(words[_TEXT_BYTES])
    if not (
        capacity > 1
        and not capacity & (capacity - 1)
        and 0 < block_words < slot_words
        and 0 < text_bytes <= 8 * (first_slot - _TEXT)
        and first_slot + capacity * slot_words <= words.size
    ):
        return None
    try:
        layout = Layout.from_text(words[_TEXT:].view(np.uint8)[:text_bytes].tobytes().decode())
        return layout if (layout.hash, layout.words) == (words[_LAYOUT], block_words) else None
    except (ValueError, TypeError, IndexError, ArithmeticError, RecursionError):
        return None


def private_ring(layout: Layout, capacity: int) -> np.ndarray:
    """The words of a ring in this process's own memory: for code that reads rings, with blocks from elsewhere."""
    slot_words, first_slot = _geometry(layout)
    words = np.zeros(first_slot + capacity * slot_words, np.int64)
    shape = [MAGIC, VERSION, layout.hash, capacity, layout.words, slot_words, first_slot]
    words[: len(shape)] = shape
    words[STATE_WORD] = LIVE
    return words


def remove_stale(name: str) -> bool:
    """Unlink the segment if no living writer owns it; True if there was one to remove."""
    if not (SHM / name).exists():
        return False
    try:
        fd = _open_owned(name)
    except RingBusy:
        return False
    if os.fstat(fd).st_size >= 512 * 8:
        poke(_map(fd), STATE_WORD, CLOSED)
    os.unlink(SHM / name)
    os.close(fd)
    return True


class RingWriter:
    """The one writer of a ring. Makes the segment, adopts a stale one, unlinks it at `close`."""

    def __init__(self, name: str, layout: Layout, capacity: int):
        if capacity < 2 or capacity & (capacity - 1):
            raise RingError(f"ring {name}: capacity {capacity} is not a power of two of at least 2")
        self.name, self.layout = name, layout
        self._fd = _open_owned(name)
        slot_words, first_slot = _geometry(layout)
        size = 8 * (first_slot + capacity * slot_words)
        shape = [MAGIC, VERSION, layout.hash, capacity, layout.words, slot_words, first_slot]
        found = os.fstat(self._fd).st_size
        self.adopted = found == size and self._is(shape)
        if found and not self.adopted:
            self._replace()
            found = 0
        if not found:
            self._allocate(size)
        self.words = _map(self._fd)
        self.words[_PID] = os.getpid()
        if self.adopted:
            self.bump_epoch()
        else:
            text = layout.text.encode()
            self.words[_TEXT_BYTES] = len(text)
            self.words[_TEXT:first_slot].view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)
            self.words[_VERSION : len(shape)] = shape[1:]
            # a new ring must not repeat its predecessor's epoch, even if it follows at once or after a reboot
            self.words[EPOCH_WORD] = int.from_bytes(os.urandom(4), "little")
        beat(self.words)
        poke(self.words, STATE_WORD, LIVE)
        poke(self.words, _MAGIC, MAGIC)

    def _is(self, shape: list[int]) -> bool:
        words = _map(self._fd)
        return words[: len(shape)].tolist() == shape and _layout_in_header(words) == self.layout

    def _replace(self) -> None:
        """A crashed owner left another shape: mark it replaced, and start with a new segment under the same name."""
        if os.fstat(self._fd).st_size >= 512 * 8:
            poke(_map(self._fd), STATE_WORD, REPLACED)
        os.unlink(SHM / self.name)
        os.close(self._fd)
        self._fd = _open_owned(self.name)

    def _allocate(self, size: int) -> None:
        """Allocate all pages now: with ftruncate alone a full /dev/shm would end the first pushes with SIGBUS."""
        try:
            os.posix_fallocate(self._fd, 0, size)
        except OSError as error:
            os.unlink(SHM / self.name)
            os.close(self._fd)
            raise RingError(
                f"ring {self.name}: {size} bytes of shared memory cannot be had: {error.strerror};"
                f" make {SHM} larger or `ring_blocks` smaller"
            ) from None

    @property
    def epoch(self) -> int:
        return int(self.words[EPOCH_WORD])

    @property
    def head(self) -> int:
        return int(self.words[HEAD_WORD])

    def bump_epoch(self) -> int:
        """A gap: what comes now is not the continuation of what came before."""
        poke(self.words, EPOCH_WORD, (self.epoch + 1) & 0xFFFFFFFF)
        return self.epoch

    def leave(self) -> None:
        """Release the ring as a crash would: the next writer adopts it and goes on in it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        if self._fd >= 0:
            poke(self.words, STATE_WORD, CLOSED)
            if _still_named(self._fd, SHM / self.name):
                os.unlink(SHM / self.name)
            os.close(self._fd)  # the lock goes last: a segment being removed is not adopted
            self._fd = -1


class RingReader:
    """A reader of a ring: maps it read-only, leaves nothing behind."""

    def __init__(self, name: str, layout: Layout | None = None, timeout_s: float = 0.0):
        self.name = name
        self._fd = -1
        deadline = time.monotonic() + timeout_s
        while not self._attach():
            if time.monotonic() > deadline:
                raise RingMissing(f"ring {name}: not there after {timeout_s:g} s; is its writer running?")
            time.sleep(0.01)
        if self.words[_VERSION] != VERSION:
            self.close()
            raise RingError(f"ring {name}: version {self.words[_VERSION]}, this program reads version {VERSION}")
        found = _layout_in_header(self.words)
        if found is None:
            self.close()
            raise RingError(f"ring {name}: {SHM / name} is damaged, its header does not fit it; remove the file")
        self.layout = found
        if layout is not None and self.words[_LAYOUT] != layout.hash:
            self.close()
            raise LayoutMismatch(
                f"ring {name}: holds {self.layout.text}, this configuration expects {layout.text};"
                " start writer and reader with the same channels"
            )
        self._block = np.zeros(self.layout.words, np.int64)

    def _attach(self) -> bool:
        try:
            self._fd = os.open(SHM / self.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise RingError(f"ring {self.name}: {SHM / self.name} cannot be read: {error.strerror}") from None
        if (stranger := _not_ours(self._fd)) is not None:
            self.close()
            raise RingError(f"ring {self.name}: {SHM / self.name} {stranger}: not read")
        if os.fstat(self._fd).st_size > 512 * 8:
            self.words = _map(self._fd, mmap.ACCESS_READ)
            if peek(self.words, _MAGIC) == MAGIC:
                return True
        os.close(self._fd)
        self._fd = -1
        return False

    @property
    def capacity(self) -> int:
        return int(self.words[_CAPACITY])

    @property
    def epoch(self) -> int:
        """The writer's epoch: it differs from the one seen before after a restart of the writer, or a gap."""
        return int(peek(self.words, EPOCH_WORD))

    @property
    def head(self) -> int:
        return int(peek(self.words, HEAD_WORD))

    @property
    def segment(self) -> int:
        """Identifies this segment among others of the same name."""
        return os.fstat(self._fd).st_ino

    @property
    def writer_pid(self) -> int:
        return int(self.words[_PID])

    @property
    def closed(self) -> bool:
        """The writer has closed the ring, or another segment has taken its name: the reader must attach again."""
        return bool(peek(self.words, STATE_WORD) != LIVE)

    @property
    def writer_alive(self) -> bool:
        return not self.closed and _has_owner(self._fd)

    @property
    def heartbeat_age_ns(self) -> int:
        return int(now_ns() - peek(self.words, HEARTBEAT_WORD))

    def newest(self) -> np.void | None:
        """The newest block as a record with named fields; None before the first."""
        if newest(self.words, self._block) < 0:
            return None
        record: np.void = self.layout.view(self._block.copy()[None])[0]
        return record

    def since(self, position: int, most: int = 4096) -> tuple[np.ndarray, int, int]:
        """(records from `position` on, next position, how many blocks were overwritten before they were read)."""
        blocks = np.empty((most, self.layout.words), np.int64)
        count, position, lost = since(self.words, position, blocks)
        return self.layout.view(blocks[:count]), position, lost

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
