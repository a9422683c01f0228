"""The socket guard: it decides which peers may connect to the sockets of a service, and cuts off floods.

With keys (sync/transport/keys.py) only peers whose public key is in the folder are admitted. With keys or without, a
connection must behave as one of our own peers does:

- a subscriber sends next to nothing: libzmq would store every topic it asks for, and that costs the publisher memory
  and time. One that sends more than a few kilobytes is cut off;
- what a peer sends must be read before it may send much more: libzmq would also store all parts of a message that
  never ends. It does not report whose message was read, so the bytes received over all connections of a socket are
  compared with the bytes read from it; where too many are unread, the peer that has sent most since the two were last
  even is cut off;
- there are `_MOST` places at a socket. Beyond that the oldest connection that has not finished its handshake is cut
  off; if all have, the newest. A connection without a handshake within seconds is ended, and so is one whose peer has
  gone without closing it: the kernel probes the silent ones;
- a peer that sends invalid messages, which have to be read and counted, is read slowly: it then waits, not we;
- a thread of the wire that uses most of a core is flooded, and loses its real-time priority until that is over
  (sync/process/realtime.py): a flood then has the time that is left over, and neither sampling nor steps notice.

Connections refused and cut off are counted. pyzmq's own authenticator could admit and refuse peers too, but it never
sees those that fail before they show a key; hence the few lines of ZAP here, beside libzmq's monitors, which see all
peers. A monitor that is not read stops libzmq's own thread, so monitors are read whatever happens.
"""

import contextlib
import itertools
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass

import zmq

from sync.process.realtime import Warden
from sync.process.threads import joined
from sync.transport.keys import PUBLIC, Keys, admitted

SUBSCRIBERS = 128 * 1024  # bytes that one may send in all: a greeting, a subscription, now and then a sign of life
ASKERS = 1024 * 1024  # bytes that may be unread
_MOST = 32  # connections at a socket
_GREETING_MS = 10_000
_SILENT_S, _PROBE_S, _PROBES = 10, 5, 3  # silence until the kernel probes a peer; between probes; probes
_KERNEL_BYTES = 64 * 1024  # of a peer's messages that may wait in the kernel
_KERNEL_BYTES_OURS = 256 * 1024  # the same where we connect to the peer: a correct peer is then never above its limit
_SHORT = 256  # bytes, from where a part's length takes eight bytes more
_BOX = 33  # bytes that keys add to a part
_EVEN = 16  # with fewer unread bytes than the limit over this, received and read count as even
_LEFT_BEHIND = 4  # times the limit: more than ended connections can have left to be read
_AT_ONCE = 64  # events of a socket
_CHECK_S = 0.025
_SURE = 3  # handshakes broken off without a reason: once may be chance
_INVALID_AT_ONCE, _INVALID_NAP_S = 32, 0.001
_BYTES_ACKED = 120  # offset of bytes_acked in the kernel's tcp_info; bytes_received follows
_LEAST, _LEAST_WITH_KEYS = 90, 400  # bytes of a greeting that was completed
_SENT_WITH_KEYS = 64 + 170  # bytes: a greeting and a welcome, which everyone gets
_RESET = struct.pack("ii", 1, 0)
_DOMAIN = b"tandem"
_numbers = itertools.count()

_CAME = (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED)
_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH,
)
_WATCHED = sum((*_CAME, *_FAILED, zmq.EVENT_DISCONNECTED, zmq.EVENT_MONITOR_STOPPED))


@dataclass
class _Connection:
    handle: socket.socket  # our own
    counted: int  # bytes received; begins with the greeting's, which is never read
    even: int  # `counted` when received and read were last even

    @property
    def since(self) -> int:
        return self.counted - self.even


class Connections:
    """The connections of one socket. Its owner counts what was read, and what was invalid."""

    def __init__(
        self, bound: bool = False, limit: int | None = None, keyed: bool = False, each: bool = False, asks: bool = False
    ):
        self.bound, self._keyed = bound, keyed
        self.invalid = 0
        self._limit, self._each = limit, each  # of unread bytes of all peers, or (`each`) of all that one sends
        self._asks = asks  # an empty part goes before each message
        self._read = self._read_before = 0
        self._unread = 0
        self._connections: dict[int, _Connection] = {}  # by libzmq's number, oldest first
        self._unseen: set[int] = set()  # those that were gone before we had a handle
        self._left: list[tuple[int, _Connection]] = []
        self._failing = False

    def count_read(self, size: int) -> None:
        """A message of so many bytes was read."""
        self._read += self._on_the_wire(size) + (self._on_the_wire(0) if self._asks else 0)

    def _on_the_wire(self, size: int) -> int:
        size += _BOX if self._keyed else 0
        return size + (2 if size < _SHORT else 9)

    def count_invalid(self) -> None:
        """That message was invalid. After every _INVALID_AT_ONCE of these we nap, so that their sender has to wait."""
        self.invalid += 1
        if self.invalid % _INVALID_AT_ONCE == 0:
            time.sleep(_INVALID_NAP_S)

    def leave(self) -> None:
        """The owner has disconnected. libzmq reports nothing, and our handles would keep those connections open.

        This only takes note: the guard's own thread does the rest.
        """
        self._left = list(self._connections.items())

    def came(self, number: int) -> int:
        """A new connection; returns how many had to be cut off for it."""
        self._forget(number)
        try:
            copy = os.dup(number)
        except OSError:
            self._miss(number)
            return 0
        try:
            handle = socket.socket(fileno=copy)
        except OSError:  # the descriptor is no socket any more: its number was reused
            os.close(copy)
            self._miss(number)
            return 0
        least = _LEAST_WITH_KEYS if self._keyed and self.bound else _LEAST
        self._connections[number] = _Connection(handle, least, least)
        if not self.bound or len(self._connections) <= _MOST:
            return 0
        return self._cut(next((n for n, c in self._connections.items() if not self._greeted(c)), number))

    def _miss(self, number: int) -> None:
        self._unseen.add(number)
        self._unread += (self._limit or 0) // _EVEN  # what it sent may still be read; that is not credited to others

    def _greeted(self, connection: _Connection) -> bool:
        """libzmq reports a handshake, but not whose. With keys only an admitted peer is sent more than a welcome."""
        if connection.handle.family == socket.AF_UNIX:
            return True
        sent, received = _passed(connection.handle)
        return sent > _SENT_WITH_KEYS if self._keyed else received >= _LEAST

    def failed(self) -> None:
        """A greeting went wrong; the end of that connection comes next."""
        self._failing = True

    def ended(self, number: int) -> tuple[int, int]:
        """A connection ended; (1 if it was never admitted, 1 if libzmq ended it because the peer broke the protocol).

        Where a connection was gone before it could be examined, the worse case is assumed.
        """
        failing, self._failing = self._failing, False
        there = self._connections.get(number)
        connection = there.handle if there is not None else None
        unseen = number in self._unseen
        self._unseen.discard(number)
        if failing or (connection is None and not unseen):
            refused = cut = False  # counted already
        else:
            refused = self.bound and self._keyed and (connection is None or _received(connection) < _LEAST_WITH_KEYS)
            cut = not refused and (connection is None or _still_there(connection))
        self._forget(number)
        return int(refused), int(cut)

    def check(self) -> int:
        """Cut off peers that send too much; returns how many."""
        left, self._left = self._left, []
        for number, connection in left:
            if self._connections.get(number) is connection:
                self._forget(number)
        if self._limit is None:
            return 0
        if self._each:
            too_much = [n for n, c in self._connections.items() if _received(c.handle) > self._limit]
            return sum(map(self._cut, too_much))
        read = self._read
        for connection in self._connections.values():
            self._count(connection)
        self._unread = max(self._unread - (read - self._read_before), 0)
        self._read_before = read
        if self._unread < self._limit // _EVEN:
            for connection in self._connections.values():
                connection.even = connection.counted
        cut = 0
        # what ended connections have left behind is not charged to those that are here
        while min(self._unread, since := sum(c.since for c in self._connections.values())) > self._limit:
            cut += self._cut(max(self._connections, key=lambda n: self._connections[n].since))
        self._unread = min(self._unread, since + _LEFT_BEHIND * self._limit)
        return cut

    def _count(self, connection: _Connection) -> None:
        now = max(_received(connection.handle), connection.counted)
        self._unread += now - connection.counted
        connection.counted = now

    def _cut(self, number: int) -> int:
        connection = self._connections.get(number)
        if connection is None:
            return 0
        with contextlib.suppress(OSError):
            # libzmq's close then resets the connection: a peer that is blocked while sending learns of it at once; by
            # its own probes, which come ever more rarely, it took 107 s
            connection.handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.handle.shutdown(socket.SHUT_RDWR)
        self._forget(number)
        self._unread = max(self._unread - connection.since, 0)
        return 1

    def _forget(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        if connection is not None:
            self._count(connection)  # it may be read later
            connection.handle.close()

    def close(self) -> None:
        for number in list(self._connections):
            self._forget(number)


def _still_there(connection: socket.socket) -> bool:
    """Whether the peer has not hung up."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _received(connection: socket.socket) -> int:
    return _passed(connection)[1]


def _passed(connection: socket.socket) -> tuple[int, int]:
    """Bytes sent and received over this connection; 0 for a local connection, whose other end is this user's."""
    if connection.family == socket.AF_UNIX:
        return 0, 0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        sent, received = struct.unpack_from("=QQ", info, _BYTES_ACKED)
    except (OSError, struct.error):
        return 0, 0
    return int(sent), int(received)


class SocketGuard:
    """All sockets of one ZeroMQ context. Made before them, closed after them."""

    def __init__(self, zmq_context: "zmq.Context[zmq.Socket[bytes]]", keys: Keys | None = None):
        self.keys = keys
        self.refused = 0  # connections to us that did not get in
        self.cut = 0  # connections cut off: too much, too many, or against the protocol
        self.shut_out = 0  # connections of ours that did not get in there
        self.warden = Warden()
        self._context = zmq_context
        self._watched: list[tuple[zmq.Socket[bytes], Connections]] = []
        self._reported: set[str] = set()
        self._sure = False
        self._skipped: dict[str, str] = {}  # key files that are not used, and why
        self._failed = ""
        self._stop = threading.Event()
        self._zap: zmq.Socket[bytes] | None = None
        if keys is not None:
            self._zap = zmq_context.socket(zmq.REP)
            self._zap.set(zmq.LINGER, 0)
            self._zap.bind("inproc://zeromq.zap.01")
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
        self._thread.start()

    def serve(self, sock: "zmq.Socket[bytes]", unread: int) -> Connections:
        """For a socket that will be bound."""
        sock.set(zmq.HANDSHAKE_IVL, _GREETING_MS)
        sock.set(zmq.RCVBUF, _KERNEL_BYTES)
        if self.keys is not None:
            sock.set(zmq.CURVE_SERVER, 1)
            sock.set(zmq.CURVE_PUBLICKEY, self.keys.public)
            sock.set(zmq.CURVE_SECRETKEY, self.keys.secret)
            sock.set(zmq.ZAP_DOMAIN, _DOMAIN)
            sock.set(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a guard no peer is admitted, instead of every one
        each = sock.get(zmq.TYPE) in (zmq.PUB, zmq.XPUB)  # libzmq itself reads what they are sent
        return self._watch(sock, True, unread, each)

    def present(self, sock: "zmq.Socket[bytes]", unread: int | None = None) -> Connections:
        """For a socket that will connect; without `unread` (it keeps the newest message only) there is no limit."""
        if unread is not None:
            sock.set(zmq.RCVBUF, _KERNEL_BYTES_OURS)
        if self.keys is not None:
            sock.set(zmq.CURVE_SERVERKEY, self.keys.theirs)
            sock.set(zmq.CURVE_PUBLICKEY, self.keys.public)
            sock.set(zmq.CURVE_SECRETKEY, self.keys.secret)
        return self._watch(sock, False, unread, False)

    def _watch(self, sock: "zmq.Socket[bytes]", bound: bool, limit: int | None, each: bool) -> Connections:
        sock.set(zmq.TCP_KEEPALIVE, 1)
        sock.set(zmq.TCP_KEEPALIVE_IDLE, _SILENT_S)
        sock.set(zmq.TCP_KEEPALIVE_INTVL, _PROBE_S)
        sock.set(zmq.TCP_KEEPALIVE_CNT, _PROBES)
        connections = Connections(bound, limit, self.keys is not None, each, sock.get(zmq.TYPE) in (zmq.REQ, zmq.REP))
        endpoint = f"inproc://tandem.guard.{next(_numbers)}"
        sock.monitor(endpoint, _WATCHED)
        monitor = self._context.socket(zmq.PAIR)
        monitor.set(zmq.LINGER, 0)
        monitor.set(zmq.RCVHWM, 0)  # libzmq's thread must never wait for us
        monitor.connect(endpoint)
        self._watched.append((monitor, connections))
        return connections

    def count(self) -> dict[str, int]:
        return {"refused": self.refused, "cut": self.cut, "flooded": self.warden.flooded}

    def news(self) -> list[str]:
        """What a person should read, each sentence once."""
        found = []
        if self.refused and self.keys is not None:
            found.append(
                f"somebody was refused who has no key in {self.keys.folder}, or does not know ours ({self.keys.own}"
                f"{PUBLIC}); counted"
            )
        elif self.refused:
            found.append("somebody was refused who does not speak ZeroMQ's protocol, or hung up at once; counted")
        if self.cut:
            found.append("somebody was cut off who sent what no peer of ours sends, or too much; counted")
        if self.warden.flooded:
            found.append(
                "the wire is busy: flooded, or more subscribers than its core can serve; threads of it run without"
                " real-time priority until that is over; counted"
            )
        found += self.warden.notices
        if self.keys is not None and (self._sure or self.shut_out >= _SURE):
            found.append(
                f"we are not let in: the other host must have our {self.keys.own}{PUBLIC} in its folder of keys, be"
                f" configured with keys, and be the owner of our {self.keys.their}{PUBLIC}"
            )
        if self.keys is not None:
            found += [f"{self.keys.folder / name}: {why}" for name, why in self._skipped.items()]
        if self._failed:
            found.append(f"keys are not looked at any more, and nobody else is let in: {self._failed}")
        new = [text for text in found if text not in self._reported]
        self._reported.update(new)
        return new

    def _run(self) -> None:
        checked = 0.0
        try:
            while not self._stop.is_set():
                watched = list(self._watched)
                poller = zmq.Poller()
                if self._zap is not None and not self._failed:
                    poller.register(self._zap, zmq.POLLIN)
                for monitor, _ in watched:
                    poller.register(monitor, zmq.POLLIN)
                ready = dict(poller.poll(round(1e3 * _CHECK_S)))
                if self._zap is not None and self._zap in ready:
                    self._try_answer(self._zap)
                for monitor, connections in watched:
                    if monitor in ready:
                        self._read(monitor, connections)
                if time.monotonic() - checked > _CHECK_S:
                    checked = time.monotonic()
                    self.cut += sum(connections.check() for _, connections in watched)
                    self.warden.poll()
        except zmq.ContextTerminated:
            pass  # the end
        finally:
            if self._zap is not None:
                self._zap.close()
            for monitor, connections in self._watched:
                monitor.close()
                connections.close()

    def _read(self, monitor: "zmq.Socket[bytes]", connections: Connections) -> None:
        for _ in range(_AT_ONCE):
            try:
                parts = monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event, value = struct.unpack("=HI", parts[0])
            self._note(event, value, connections)

    def _note(self, event: int, value: int, connections: Connections) -> None:
        if event in _CAME:
            self.cut += connections.came(value)
        elif event == zmq.EVENT_DISCONNECTED:
            refused, cut = connections.ended(value)
            self.refused += refused
            self.cut += cut
        elif event == zmq.EVENT_MONITOR_STOPPED:  # its owner closes the socket: no handle of ours may keep it open
            connections.close()
        elif event in _FAILED:
            connections.failed()
            if connections.bound:
                self.refused += 1
            else:
                self.shut_out += 1
                self._sure = self._sure or event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL

    def _try_answer(self, zap: "zmq.Socket[bytes]") -> None:
        try:
            self._answer(zap)
        except zmq.ContextTerminated:
            raise
        except Exception as error:  # no peer is admitted any more; those connected stay
            self._failed = f"{type(error).__name__}: {error}"

    def _answer(self, zap: "zmq.Socket[bytes]") -> None:
        """ZAP 1.0: version, request, domain, address, identity, mechanism, credentials."""
        from zmq.utils import z85

        request = zap.recv_multipart()
        known = len(request) == 7 and request[5] == b"CURVE" and z85.encode(request[6]) in self._admitted()
        number = request[1] if len(request) > 1 else b""
        verdict = [b"200", b"OK", b"known"] if known else [b"400", b"no such key here", b""]
        zap.send_multipart([b"1.0", number, *verdict, b""])

    def _admitted(self) -> set[bytes]:
        assert self.keys is not None
        found, skipped = admitted(self.keys.folder)
        self._skipped = self._skipped | skipped
        return found

    def close(self) -> None:
        self._stop.set()
        joined(self._thread, 2.0)
