"""A master of XCP by the words of the standard, no more than tests need: packets in, packets out."""

import socket
import struct
import time
from typing import Self

from tandem.bridges.xcp.slave import key_for

PATIENCE_S = 30.0
HEAD = struct.Struct("<HH")


class Refused(Exception):
    """The slave has answered with an error; its code."""

    @property
    def code(self) -> int:
        return int(self.args[0])


class Master:
    def __init__(self, port: int, kind: str = "tcp"):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect(("127.0.0.1", port))
        self._came = b""
        self._stream = kind == "tcp"
        self._number = 0
        self.numbers: list[int] = []  # of the packets that came
        self.measured: list[bytes] = []
        self.events: list[bytes] = []

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, packet: bytes) -> None:
        self.send_raw(HEAD.pack(len(packet), self._number & 0xFFFF) + packet)
        self._number += 1

    def receive(self, timeout_s: float = PATIENCE_S) -> bytes:
        """The next packet; b"" where the slave has hung up. Raises TimeoutError."""
        self._socket.settimeout(timeout_s)
        while True:
            if len(self._came) >= HEAD.size:
                length, number = HEAD.unpack_from(self._came)
                if len(self._came) >= HEAD.size + length:
                    packet = self._came[HEAD.size : HEAD.size + length]
                    self._came = self._came[HEAD.size + length :]
                    self.numbers.append(number)
                    return packet
            try:
                found = self._socket.recv(1 << 16)
            except ConnectionError:
                return b""
            if not found:
                return b""
            self._came += found

    def ask(self, *parts: int | bytes) -> bytes:
        """The answer to a command, without its first byte; raises Refused."""
        self.send(b"".join(bytes((part,)) if isinstance(part, int) else part for part in parts))
        while True:
            packet = self.receive()
            if packet[:1] == b"\xff":
                return packet[1:]
            if packet[:1] == b"\xfe":
                raise Refused(packet[1])
            if not packet:
                raise ConnectionError("hung up")
            self._note(packet)

    def _note(self, packet: bytes) -> None:
        (self.events if packet[0] >= 0xFC else self.measured).append(packet)

    def measure(self, count: int, patience_s: float = PATIENCE_S) -> list[bytes]:
        """Packets of DAQ lists, until there are so many."""
        end = time.monotonic() + patience_s
        while len(self.measured) < count and time.monotonic() < end:
            try:
                self._note(self.receive(0.1))
            except TimeoutError:
                continue
        return self.measured

    # ---- commands

    def connect(self) -> bytes:
        return self.ask(0xFF, 0)

    def upload(self, address: int, size: int) -> bytes:
        return self.ask(0xF4, size, 0, 0, struct.pack("<I", address))

    def download(self, address: int, data: bytes) -> None:
        self.ask(0xF6, 0, 0, 0, struct.pack("<I", address))
        self.ask(0xF0, len(data), data)

    def number(self, address: int) -> float:
        (value,) = struct.unpack("<d", self.upload(address, 8))
        return float(value)

    def write(self, address: int, value: float) -> None:
        self.download(address, struct.pack("<d", value))

    def unlock(self, secret: bytes, resource: int) -> int:
        answer = self.ask(0xF8, 0, resource)
        seed = answer[1 : 1 + answer[0]]
        if not seed:
            return 0
        key = key_for(secret, seed, resource)
        return self.ask(0xF7, len(key), key)[0]

    def lists(self, *lists: list[list[tuple[int, int]]], event: int = 0, prescaler: int = 1, mode: int = 0x10) -> None:
        """Allocate, fill and start DAQ lists: of each its ODTs, of each its entries as (address, size)."""
        self.ask(0xD6)
        self.ask(0xD5, 0, struct.pack("<H", len(lists)))
        for number, odts in enumerate(lists):
            self.ask(0xD4, 0, struct.pack("<HB", number, len(odts)))
        for number, odts in enumerate(lists):
            for odt, entries in enumerate(odts):
                self.ask(0xD3, 0, struct.pack("<HBB", number, odt, len(entries)))
        for number, odts in enumerate(lists):
            for odt, entries in enumerate(odts):
                self.ask(0xE2, 0, struct.pack("<HBB", number, odt, 0))
                for address, size in entries:
                    self.ask(0xE1, 0xFF, size, 0, struct.pack("<I", address))
            self.ask(0xE0, mode, struct.pack("<HHBB", number, event, prescaler, 0))
            self.ask(0xDE, 2, struct.pack("<H", number))
        self.ask(0xDD, 1)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
