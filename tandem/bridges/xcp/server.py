"""The sockets of the slave: one master at a time, over TCP or UDP, and the packets of every new block to it.

Over Ethernet a packet has its length and a number before it. One thread waits for a command or for the next blocks,
half a step at most, and does nothing else; it never waits for a ring. Packets that a master does not take are dropped
with a number and an event, malformed packets are counted, and no input makes a buffer grow:

- one master: others are refused while it is there. One that has not connected the slave makes room for the next.
- a master that vanishes is noticed by the kernel (TCP: something unacknowledged for ten seconds, or five probes;
  UDP: the answer that its port is closed). Over UDP one without a running list makes room after half a minute.
- a malformed length ends a TCP connection, for there is no way back into step; of UDP it costs that datagram.
"""

import contextlib
import errno
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable

import numpy as np

from sim_service.commands import CommandClient
from sync.config.config import Config
from sync.errors import RingError, TandemError
from sync.ring.follower import RingFollower
from sync.ring.ring import newest
from tandem.bridges.xcp import protocol as xcp
from tandem.bridges.xcp.calibration import Calibration
from tandem.bridges.xcp.memory import Event, Memory
from tandem.bridges.xcp.slave import Slave

_MOST_BLOCKS = 512  # taken at one look
_AT_ONCE = 64  # datagrams or connections a turn: then blocks have their turn
_READ = 1 << 13  # bytes of a stream
_MOST_WAITING = 1 << 22  # bytes that a master has not taken
_DATAGRAM = 1472  # within a frame of Ethernet
_IDLE_S = 0.05  # between looks while nothing is measured
_GREETING_S = 10.0
_SILENT_S = 30.0
_TIMEOUT_S = 2.0  # for the simulator
_UNACKNOWLEDGED_MS = 10_000
_IP_RECVERR = 11  # the kernel reports what it hears of our datagrams
_GONE = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)
_LINGER_NOT = struct.pack("ii", 1, 0)

Address = tuple[str, int]


class XcpServerError(TandemError):
    """The slave cannot listen."""


class Server:
    """`run` serves until it is stopped. `port` 0: one that is free, the same for both."""

    def __init__(
        self, config: Config, memory: Memory, secret: bytes = b"", description: Callable[[int], bytes] = lambda _: b"",
        host: str = "127.0.0.1", port: int = 5555, tcp: bool = True, udp: bool = True,
    ):  # fmt: skip
        self.counts = dict.fromkeys(("refused", "cut", "malformed", "overloads", "dropped", "blocks", "lost"), 0)
        self.notices: list[str] = []
        self._tcp, self._udp, self.port = _listening(host, port, tcp, udp)
        self._memory = memory
        self._client = CommandClient(config, _TIMEOUT_S)
        self._followers = {
            event.number: RingFollower(
                config.ring(event.stream.name), event.layout, living=True, from_now=True, retry_ns=100_000_000
            )
            for event in memory.events
        }
        self._words = {event.number: np.zeros((_MOST_BLOCKS, event.layout.words), np.int64) for event in memory.events}
        self._block = {event.number: np.zeros(event.layout.words, np.int64) for event in memory.events}
        self._foreign: set[str] = set()
        self.slave = Slave(
            memory, Calibration(memory, self._client.ask, self._commands), self._newest, secret, description(self.port)
        )
        self._wait_s = min(max(0.5e-9 * config.step_ns, 0.001), _IDLE_S)
        self._selector = selectors.DefaultSelector()
        for listener in (self._tcp, self._udp):
            if listener is not None:
                self._selector.register(listener, selectors.EVENT_READ)
        self._connection: socket.socket | None = None  # of TCP, whether its master has connected the slave or not
        self._since = 0.0
        self._peer: Address | None = None  # of UDP
        self._heard = 0.0
        self._came, self._waiting = bytearray(), bytearray()
        self._number = 0
        self._overloaded = False

    # ---- what the slave has of the run

    def _commands(self) -> int:
        """How many the newest step had obeyed; a restarted simulator counts from 0."""
        block = self._newest(self._memory.events[0])
        if block is None:
            return -1 - time.monotonic_ns()  # nothing is known: it is asked each time
        step = self._memory.events[0].layout.view(block)
        return int(step["commands"]) + (int(step["command_epoch"]) << 40)

    def _newest(self, event: Event) -> np.ndarray | None:
        ring = self._attached(event)
        block = self._block[event.number]
        if ring is None or newest(ring.words, block) < 0:
            return None
        return block

    def _attached(self, event: Event):  # type: ignore[no-untyped-def]
        try:
            return self._followers[event.number].attached()
        except RingError as error:
            if str(error) not in self._foreign:
                self._foreign.add(str(error))
                self.notices.append(str(error))
            return None

    # ---- the thread

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.turn(self._wait_s if self.slave.daq.running else _IDLE_S)

    def turn(self, wait_s: float) -> None:
        """Wait a little for commands, answer them, and send the blocks that are new."""
        for key, mask in self._selector.select(wait_s):
            if key.fileobj is self._tcp:
                self._accept()
            elif key.fileobj is self._udp:
                self._datagrams()
            elif key.fileobj is self._connection:
                if mask & selectors.EVENT_WRITE:
                    self._flush()
                if mask & selectors.EVENT_READ:
                    self._stream()
        self._measure()
        if self._connection is not None and not self.slave.connected and time.monotonic() > self._since + _GREETING_S:
            self._cut()

    def _measure(self) -> None:
        for event in self._memory.events:
            follower = self._followers[event.number]
            if self._attached(event) is None and follower.ring is None:
                continue
            assert follower.ring is not None
            if not self.slave.daq.running:
                follower.position = follower.ring.head
                continue
            lost = follower.lost
            while count := follower.take(self._words[event.number]):
                self.counts["blocks"] += count
                self._send(self.slave.daq.packets(event, self._words[event.number][:count]))
            if follower.lost > lost:
                self.counts["lost"] += follower.lost - lost
                self._overload()
        if self._overloaded and len(self._waiting) < _MOST_WAITING // 2:
            self._overloaded = False
            self._send([bytes((xcp.EVENT, xcp.EV_DAQ_OVERLOAD))])

    def _overload(self) -> None:
        self._overloaded = True
        self.counts["overloads"] += 1

    # ---- TCP

    def _accept(self) -> None:
        assert self._tcp is not None
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            if self.slave.connected:
                self.counts["refused"] += 1
                connection.close()
                continue
            if self._connection is not None:
                self._cut()
            connection.setblocking(False)
            for level, option, value in (
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5), (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5),
                (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS),
            ):  # fmt: skip
                connection.setsockopt(level, option, value)
            self._connection, self._since = connection, time.monotonic()
            self._came.clear()
            self._waiting.clear()
            self._number = 0
            self._selector.register(connection, selectors.EVENT_READ)

    def _stream(self) -> None:
        assert self._connection is not None
        try:
            data = self._connection.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            return
        self._came += data
        while self._connection is not None and len(self._came) >= xcp.HEAD.size:
            length, _ = xcp.HEAD.unpack_from(self._came)
            if not 0 < length <= xcp.MAX_CTO:
                self.counts["malformed"] += 1
                self._cut()
                return
            if len(self._came) < xcp.HEAD.size + length:
                return
            packet = bytes(self._came[xcp.HEAD.size : xcp.HEAD.size + length])
            del self._came[: xcp.HEAD.size + length]
            if len(self._waiting) > _MOST_WAITING:  # it asks and does not read
                self._cut()
                return
            self._obey(packet)

    def _hang_up(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._connection)
            self._connection.close()
            self._connection = None
            self._end()

    def _cut(self) -> None:
        self.counts["cut"] += 1
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._hang_up()

    def _flush(self) -> None:
        if self._connection is None:
            return
        try:
            sent = self._connection.send(self._waiting) if self._waiting else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._hang_up()
            return
        del self._waiting[:sent]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waiting else 0)
        self._selector.modify(self._connection, wanted)

    # ---- UDP

    def _datagrams(self) -> None:
        assert self._udp is not None
        for _ in range(_AT_ONCE):
            try:
                data, peer = self._udp.recvfrom(_DATAGRAM + 1)
            except BlockingIOError:
                return
            except OSError as error:
                self._unheard(error)
                continue
            if not self._is_master(data, peer):
                self.counts["refused"] += 1
                continue
            self._heard = time.monotonic()
            self._packets(data)

    def _packets(self, data: bytes) -> None:
        """Obey those of a datagram, up to the first that is malformed."""
        at = 0
        while at < len(data):
            length = xcp.HEAD.unpack_from(data, at)[0] if len(data) - at >= xcp.HEAD.size else 0
            end = at + xcp.HEAD.size + length
            if not 0 < length <= xcp.MAX_CTO or end > len(data) or len(data) > _DATAGRAM:
                self.counts["malformed"] += 1
                return
            self._obey(data[at + xcp.HEAD.size : end])
            at = end

    def _is_master(self, data: bytes, peer: Address) -> bool:
        """Whether it is the one there is, or may be the next."""
        if self.slave.connected and self._peer == peer and self._connection is None:
            return True
        if data[xcp.HEAD.size : xcp.HEAD.size + 1] != bytes((xcp.CONNECT,)):
            return False
        quiet = not self.slave.daq.running and time.monotonic() > self._heard + _SILENT_S
        if self.slave.connected and (self._connection is not None or not quiet):
            return False
        if self._connection is not None:  # one of TCP that has not connected the slave
            self._cut()
        self._peer, self._number = peer, 0
        return True

    def _unheard(self, error: OSError) -> None:
        """The kernel reports that nobody takes our datagrams."""
        if error.errno in _GONE and self._peer is not None and self._connection is None:
            self.counts["cut"] += 1
            self._end()

    # ---- packets

    def _obey(self, packet: bytes) -> None:
        answer = self.slave.answer(packet)
        if answer is not None:
            self._send([answer])
        if not self.slave.connected:  # it has gone, or has sent a wrong key
            self._peer, self._since = None, time.monotonic()

    def _send(self, packets: list[bytes]) -> None:
        if not packets:
            return
        if self._connection is not None:
            for place, packet in enumerate(packets):
                if len(self._waiting) > _MOST_WAITING:
                    self.counts["dropped"] += len(packets) - place
                    self._overload()
                    break
                self._waiting += self._framed(packet)
            self._flush()
        elif self._udp is not None and self._peer is not None:
            datagram = b""
            for packet in packets:
                framed = self._framed(packet)
                if datagram and len(datagram) + len(framed) > _DATAGRAM:
                    self._send_datagram(datagram)
                    datagram = b""
                datagram += framed
            self._send_datagram(datagram)

    def _send_datagram(self, datagram: bytes) -> None:
        if self._udp is None or self._peer is None:
            return
        try:
            self._udp.sendto(datagram, self._peer)
        except BlockingIOError:
            self.counts["dropped"] += 1
            self._overload()
        except OSError as error:
            self._unheard(error)

    def _framed(self, packet: bytes) -> bytes:
        head = xcp.HEAD.pack(len(packet), self._number)
        self._number = self._number + 1 & 0xFFFF
        return head + packet

    def _end(self) -> None:
        """The session is over."""
        self.slave.leave()
        self._came.clear()
        self._waiting.clear()
        self._peer, self._overloaded = None, False

    def report(self) -> dict[str, int]:
        slave, calibration = self.slave.counts, self.slave.calibration
        counts = {**slave, **self.counts, "malformed": slave["malformed"] + self.counts["malformed"]}
        counts |= {"packets": self.slave.daq.sent, "writes": calibration.writes}
        return {**counts, "writes_refused": calibration.refused}

    def close(self) -> None:
        self._hang_up()
        for listener in (self._tcp, self._udp):
            if listener is not None:
                listener.close()
        self._selector.close()
        for follower in self._followers.values():
            follower.close()
        self._client.close()


def _listening(host: str, port: int, tcp: bool, udp: bool) -> tuple[socket.socket | None, socket.socket | None, int]:
    """Both at one port; any that is free for both where it is 0."""
    for attempt in range(20):
        try:
            stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM) if tcp else None
            packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if udp else None
            at = port
            for each in (stream, packets):
                if each is not None:
                    each.setblocking(False)
                    if each is stream:
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    each.bind((host, at))
                    at = int(each.getsockname()[1])
            if stream is not None:
                stream.listen(_AT_ONCE)
            if packets is not None:
                packets.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
            return stream, packets, at
        except OSError as error:
            for each in (stream, packets):
                if each is not None:
                    each.close()
            if port or attempt == 19:
                raise XcpServerError(f"--port {port}: nothing can listen at {host}:{port}: {error.strerror}") from None
    raise AssertionError("not reached")
