"""The wire: only the newest block of a stream, over ZeroMQ, readable by anyone.

A message is one single-part msgpack map, nothing else: see sync/transport/message.py.

The options of the sockets follow from what ZeroMQ does. CONFLATE must be set before bind and connect; it allows one
subscription (the empty one) and single-part messages. It is set on both ends: a subscriber that sleeps then costs its
publisher one message, not an ever longer queue. The price is that any message may be dropped on its way, also the last
one; so the publisher's owner repeats the newest block while nothing new comes, and the receiver drops blocks that it
has already. Nothing is dropped without being counted.

With `waiting` both ends carry every block instead, in a queue of at most so many; a block dropped beyond that leaves a
gap in the numbers. A socket guard (sync/transport/socket_guard.py) checks keys, and cuts off peers that misbehave.

Messages that are not ours are counted: with `waiting` every one; on newest-only sockets only those that were read,
because one that a newer message replaced never arrived. A message that is too long ends its connection, and that is
counted.
"""

import os
from typing import Protocol

import numpy as np
import zmq
from numba import float64, int64, types

from sync.clock import now_ns, sleep_until
from sync.compile.array_types import BYTES, BYTES_READ_ONLY, READ_ONLY, WORDS, WORDS_2D
from sync.compile.atomics import load_acquire
from sync.compile.jit import kernel
from sync.errors import WireError
from sync.process.realtime import permitted
from sync.ring.block import EPOCH, PUSHED, RECEIVED, SENT, SEQ, Layout, T
from sync.ring.ledger import histogram, record
from sync.ring.rhythm import next_poll
from sync.ring.ring import HEAD_WORD, beat, push
from sync.transport.message import MALFORMED, decode
from sync.transport.message_form import Form, read_message, write_message
from sync.transport.socket_guard import ASKERS, SUBSCRIBERS, Connections, SocketGuard

_REFUSE_BYTES = 64 * 1024  # libzmq itself cuts the connection of a peer that sends more
_SUBSCRIPTION_BYTES = 1024  # the same for a subscriber; a greeting with keys takes half of it
POLL_MS = 50
_SILENT_POLLS = 40  # two seconds: longer than any publisher of ours is silent


# ---- sockets ---------------------------------------------------------------------------------------------------------

Context = zmq.Context[zmq.Socket[bytes]]


def context(priority: int | None = None, core: int | None = None) -> Context:
    """A ZeroMQ context whose own thread has this real-time priority and this core, as far as permitted.

    libzmq aborts the process if the system refuses one of them, so only what is permitted is set.
    """
    zmq_context: Context = zmq.Context()
    zmq_context.set(zmq.IPV6, 1)  # for hosts that have an IPv6 address; nothing changes for the others
    if priority is not None and permitted(priority):
        zmq_context.set(zmq.THREAD_SCHED_POLICY, os.SCHED_FIFO)
        zmq_context.set(zmq.THREAD_PRIORITY, priority)
    if core is not None and core in os.sched_getaffinity(0):
        zmq_context.set(zmq.THREAD_AFFINITY_CPU_ADD, core)
    return zmq_context


def bind(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Bind, or raise a WireError with the reason; a local socket is accessible to this user only."""
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise _explain(endpoint, error) from None
    if endpoint.startswith("ipc://"):
        os.chmod(endpoint.removeprefix("ipc://"), 0o600)


def _explain(endpoint: str, error: zmq.ZMQError) -> WireError:
    if error.errno == zmq.EADDRINUSE:
        return WireError(
            f"{endpoint}: address already in use; end the program that holds it, or configure another port"
        )
    return WireError(f"{endpoint}: {error.strerror}")


_SENT, _REPEATED, _LAST_EPOCH, _LAST_SEQ = range(4)


@kernel(types.void(WORDS, WORDS_2D, BYTES, WORDS, float64, float64))
def _compose(block, fields, message, counts, clock_offset_ns, clock_drift):
    if block[EPOCH] == counts[_LAST_EPOCH] and block[SEQ] == counts[_LAST_SEQ]:
        counts[_REPEATED] += 1
    else:
        counts[_SENT] += 1
        counts[_LAST_EPOCH], counts[_LAST_SEQ] = block[EPOCH], block[SEQ]
    block[SENT] = now_ns()
    if clock_offset_ns == 0.0 and clock_drift == 0.0:
        write_message(block, fields, message)
        return
    true = block[T], block[PUSHED], block[SENT]
    for word in (T, PUSHED, SENT):
        block[word] += np.int64(clock_offset_ns + clock_drift * block[word])
    write_message(block, fields, message)
    block[T], block[PUSHED], block[SENT] = true


def every_block(rate_hz: float) -> int:
    """How many messages may wait at either end of a socket that carries every block: ten seconds of them."""
    return max(round(10.0 * rate_hz), 64)


class Publisher:
    """Puts blocks on a socket. Owned by one thread."""

    def __init__(
        self,
        zmq_context: Context,
        endpoint: str,
        layout: Layout,
        clock: tuple[float, float] = (0.0, 0.0),
        guard: SocketGuard | None = None,
        waiting: int = 0,
    ):
        self.endpoint = endpoint
        self._clock = clock  # offset (ns) and drift of a deliberately wrong clock
        form = Form(layout)
        self._fields = form.fields
        self._message = form.text.copy()
        self._buffer = self._message.data
        self._counts = np.array([0, 0, -1, -1], np.int64)
        self._socket = zmq_context.socket(zmq.PUB)
        self._socket.set(*((zmq.SNDHWM, waiting) if waiting else (zmq.CONFLATE, 1)))
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVHWM, 8)  # subscriptions that wait until the publisher processes them: a few at a time
        self._socket.set(zmq.MAXMSGSIZE, _SUBSCRIPTION_BYTES)
        if guard is not None:
            guard.serve(self._socket, SUBSCRIBERS)
        bind(self._socket, endpoint)

    @property
    def sent(self) -> int:
        return int(self._counts[_SENT])

    @property
    def repeated(self) -> int:
        return int(self._counts[_REPEATED])

    def publish(self, block: np.ndarray) -> None:
        _compose(block, self._fields, self._message, self._counts, *self._clock)
        self._socket.send(self._buffer)

    def close(self) -> None:
        self._socket.close()
        if self.endpoint.startswith("ipc://"):
            path = self.endpoint.removeprefix("ipc://")
            if os.path.exists(path):
                os.unlink(path)


# what came off the wire, counted
BLOCKS, SUPERSEDED, REPEATS, BACKWARDS, EPOCHS, FOREIGN, MALFORMED_COUNT, UNDATED = range(8)
RECEIVED_COUNTS = (
    "blocks",  # new ones, now in the ring
    "superseded",  # never seen, because a newer one came instead
    "repeats",  # seen already
    "backwards",  # older than one seen already
    "epochs",
    "foreign",  # of another version or layout
    "malformed",  # not ours
    "undated",  # of another host whose clock is not known yet
)
_EPOCH_SEEN, _SEQ_SEEN, _BEHIND_SEQ, _BEHIND = 8, 9, 10, 11
_MOST_SEQ = 1 << 48  # nine thousand years at 1 kHz
_CONVINCED = 16  # blocks in a row, each newer than the one before

# how to read the sender's instants: theirs - ours = offset + drift * (ours - reference)
KNOWN, REFERENCE, OFFSET, DRIFT, BOUND = range(5)
SAME_CLOCK = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
UNKNOWN_CLOCK = np.zeros(5)
_VECTOR = types.Array(float64, 1, "C")


@kernel()
def _to_ours(theirs, clock):
    ours = theirs - np.int64(clock[OFFSET])
    return ours - np.int64(clock[DRIFT] * (ours - clock[REFERENCE]))


@kernel(types.boolean(WORDS, WORDS, WORDS, WORDS, _VECTOR))
def _accept(ring, block, counts, transfer, clock):
    """Push a block off the wire into the ring, unless it is there already. Its transfer ends when it can be read there.

    A false block with a number far ahead must not make all later blocks count as old: once _CONVINCED blocks in a row
    are older than it, but each is newer than the one before, they are taken as the stream, which goes on with them.
    """
    epoch, seq = block[EPOCH], block[SEQ]
    if epoch < 0 or epoch > 0xFFFFFFFF or seq < 0 or seq > _MOST_SEQ:
        counts[MALFORMED_COUNT] += 1
        return False
    if epoch == counts[_EPOCH_SEEN] and seq <= counts[_SEQ_SEEN]:
        if seq == counts[_SEQ_SEEN]:
            counts[REPEATS] += 1
            return False
        if seq != counts[_BEHIND_SEQ]:  # a repeated one proves nothing
            counts[_BEHIND] = counts[_BEHIND] + 1 if seq > counts[_BEHIND_SEQ] else 1
            counts[_BEHIND_SEQ] = seq
        if counts[_BEHIND] < _CONVINCED:
            counts[BACKWARDS] += 1
            return False
        counts[_SEQ_SEEN] = seq - 1
    counts[_BEHIND], counts[_BEHIND_SEQ] = 0, -1
    if clock[KNOWN] == 0.0:
        counts[UNDATED] += 1
        return False
    if epoch != counts[_EPOCH_SEEN]:
        counts[EPOCHS] += 1
    # a new producer counts from 0 again; one that goes on, or was restarted in its old ring, continues
    counts[SUPERSEDED] += seq - counts[_SEQ_SEEN] - 1 if seq > counts[_SEQ_SEEN] else seq
    counts[_EPOCH_SEEN], counts[_SEQ_SEEN] = epoch, seq
    counts[BLOCKS] += 1
    for word in (T, PUSHED, SENT):
        block[word] = _to_ours(block[word], clock)
    block[RECEIVED] = now_ns()
    push(ring, block)
    record(transfer, now_ns() - block[PUSHED])
    beat(ring)
    return True


@kernel(int64(BYTES_READ_ONLY, BYTES_READ_ONLY, BYTES_READ_ONLY, WORDS_2D, WORDS, WORDS, WORDS, WORDS, _VECTOR))
def _deliver(message, text, changes, fields, ring, block, counts, transfer, clock):
    """1: a new block is in the ring; 0: a known one; -1: not of our own form."""
    if not read_message(message, text, changes, fields, block):
        return -1
    return 1 if _accept(ring, block, counts, transfer, clock) else 0


class Written(Protocol):
    """A ring that is ours to write: a RingWriter, or one in private memory."""

    words: np.ndarray
    layout: Layout


class Receiver:
    """Takes blocks off a socket into a ring. Owned by one thread, which calls `receive` over and over."""

    def __init__(
        self,
        zmq_context: Context,
        endpoint: str,
        ring: Written,
        any_layout: bool = False,
        guard: SocketGuard | None = None,
        waiting: int = 0,
    ):
        self.endpoint, self.ring = endpoint, ring
        self.counts = np.zeros(len(RECEIVED_COUNTS) + 4, np.int64)
        self.counts[[_EPOCH_SEEN, _SEQ_SEEN, _BEHIND_SEQ]] = -1
        self.transfer = histogram()
        self.clock = SAME_CLOCK  # replaced as a whole, by the estimator of the other host's clock
        self._any_layout = any_layout
        self._form = Form(ring.layout)
        self._block = np.zeros(ring.layout.words, np.int64)
        self._silent = 0
        self._socket = zmq_context.socket(zmq.SUB)
        self._socket.set(*((zmq.RCVHWM, waiting) if waiting else (zmq.CONFLATE, 1)))
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVTIMEO, POLL_MS)
        self._socket.set(zmq.MAXMSGSIZE, _REFUSE_BYTES)
        self._socket.set(zmq.RECONNECT_IVL, 20)
        self._socket.set(zmq.RECONNECT_IVL_MAX, 200)
        self._socket.set(zmq.SUBSCRIBE, b"")
        unread = ASKERS + 4 * waiting * self._form.text.size if waiting else None
        self._connections = guard.present(self._socket, unread) if guard is not None else Connections()

    def connect(self) -> None:
        """Called by the receiving thread when it is ready: a block that waits for its reader is an old block."""
        try:
            self._socket.connect(self.endpoint)
        except zmq.ZMQError as error:
            raise _explain(self.endpoint, error) from None

    def receive(self) -> bool:
        """Wait a little for a message; True if it brought a new block into the ring."""
        try:
            data = self._socket.recv()
        except zmq.Again:
            beat(self.ring.words)
            self._silent += 1
            if self._silent % _SILENT_POLLS == 0:
                # libzmq never returns to a peer that broke its protocol (a message beyond _REFUSE_BYTES, a socket of
                # another kind), not even when a sound one has taken its place; connecting again does
                self._socket.disconnect(self.endpoint)
                self._connections.leave()
                self.connect()
            return False
        self._silent = 0
        self._connections.count_read(len(data))
        form = self._form
        done = _deliver(
            np.frombuffer(data, np.uint8), form.text, form.changes, form.fields,
            self.ring.words, self._block, self.counts, self.transfer, self.clock,
        )  # fmt: skip
        return bool(done == 1) if done >= 0 else self._receive_other(data)

    def _receive_other(self, data: bytes) -> bool:
        """A message that is not in our own form: a block all the same, or one to be counted as foreign or malformed."""
        try:
            if decode(self.ring.layout, data, self._block, self._any_layout):
                return bool(_accept(self.ring.words, self._block, self.counts, self.transfer, self.clock))
            self.counts[FOREIGN] += 1
        except MALFORMED:
            self.counts[MALFORMED_COUNT] += 1
        self._connections.count_invalid()
        return False

    @property
    def last_seq(self) -> int:
        """Number of the newest block it has taken; -1: none."""
        return int(self.counts[_SEQ_SEEN])

    def count(self) -> dict[str, int]:
        return dict(zip(RECEIVED_COUNTS, self.counts[: len(RECEIVED_COUNTS)].tolist(), strict=True))

    def close(self) -> None:
        self._socket.close()


@kernel(types.boolean(READ_ONLY, int64, int64, int64, int64))
def wait_beyond(ring, position, until_ns, nap_ns, due_ns):
    """Nap until the ring has a newer block than `position`; False if there is none by `until_ns`. The naps are shorter
    around `due_ns`, when the block is expected."""
    while load_acquire(ring, HEAD_WORD) <= position + 1:
        now = now_ns()
        if now >= until_ns:
            return False
        sleep_until(min(next_poll(now, due_ns, nap_ns), until_ns))
    return True
