"""Somebody who speaks ZeroMQ's protocol (ZMTP 3.0, without security) byte by byte, so that he can speak it wrongly."""

import socket
import struct

import zmq

from tests.sync.actors import PATIENCE_S

RUBBISH = b"\xc1 is nothing in msgpack"
Where = tuple[str, int] | str  # a port, or the path of a local socket


def greeting(kind: bytes) -> bytes:
    """ZMTP 3.0 without security."""
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32) + bytes([4, len(ready)]) + ready


def frame(body: bytes, more: bool = False) -> bytes:
    if len(body) < 256:
        return bytes([int(more), len(body)]) + body
    return bytes([2 | int(more)]) + struct.pack(">Q", len(body)) + body


def dial(where: Where, kind: bytes) -> socket.socket:
    made = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
    made.settimeout(PATIENCE_S)
    made.connect(where)
    made.sendall(greeting(kind))
    told = b""
    while len(told) < 66 or len(told) < 66 + told[65]:  # who speaks before the other has greeted is not let in
        data = made.recv(66 + (told[65] if len(told) > 65 else 0) - len(told))
        if not data:
            made.close()
            raise ConnectionResetError("cut off while greeting")
        told += data
    return made


def ask(where: Where, count: int) -> int:
    """Questions that are none, a few at a time, until they are answered; how many were asked."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.set(zmq.LINGER, 0)
    dealer.set(zmq.RCVTIMEO, 1000)
    dealer.connect(f"ipc://{where}" if isinstance(where, str) else f"tcp://{where[0]}:{where[1]}")
    sent = waiting = 0
    while sent < count or waiting:
        while sent < count and waiting < 12:
            dealer.send_multipart([b"", RUBBISH])
            sent, waiting = sent + 1, waiting + 1
        try:
            dealer.recv_multipart()
            waiting -= 1
        except zmq.Again:  # ZeroMQ may drop an answer on its way
            waiting = 0
    context.destroy(0)
    return sent
