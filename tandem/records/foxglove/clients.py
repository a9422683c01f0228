"""Who is connected to the bridge, and for how long: so many and no more, and none that does not read.

Foxglove's SDK takes every connection and has neither a limit of them nor a look at their origin. Its sockets are those
of this process, so they are found among its open files, and the kernel is asked what each has sent and still has to
send. There are `MOST` places. Beyond that the newest connection is cut off, unless an older one has not even asked for
the protocol, which is then cut off instead. So is a connection that does not ask within `GREETING_S`, and one for which
something waits all the time for `SLOW_S` while it takes less than `LEAST_PER_S`. Until then, what is queued for it is
bounded by the SDK's own queue (bridge.py).
"""

import contextlib
import fcntl
import os
import socket
import struct
import termios
import time
from dataclasses import dataclass

MOST = 8
GREETING_S = 10.0
SLOW_S = 10.0
LEAST_PER_S = 65536  # bytes
_BYTES_ACKED = 120  # where the kernel's tcp_info has them
_RESET = struct.pack("ii", 1, 0)


@dataclass
class _Seen:
    since: float  # when it was first seen
    behind: float  # since when something waits for it; 0.0: nothing does
    taken: int = 0  # bytes, when that began


class Clients:
    """Of the server that listens at a port of this process."""

    def __init__(self, port: int):
        self.cut = 0
        self._port = port
        self._seen: dict[int, _Seen] = {}  # by the kernel's number of a socket, oldest first
        self._ended: set[int] = set()  # cut off; the SDK has not closed them yet

    def __len__(self) -> int:
        return len(self._seen)

    def poll(self) -> None:
        """Cut off those that are too many, too slow, or ask for nothing."""
        with contextlib.ExitStack() as stack:
            there = {number: stack.enter_context(handle) for number, handle in self._connections()}
            self._ended &= set(there)
            found = {number: handle for number, handle in there.items() if number not in self._ended}
            self._seen = {number: seen for number, seen in self._seen.items() if number in found}
            now = time.monotonic()
            taken = {number: _taken(handle) for number, handle in found.items()}
            for number, handle in found.items():
                seen = self._seen.setdefault(number, _Seen(now, 0.0))
                if not _waiting(handle):
                    seen.behind = 0.0
                elif not seen.behind:
                    seen.behind, seen.taken = now, taken[number]
            idle = [n for n, seen in self._seen.items() if not taken[n] and now - seen.since > GREETING_S]
            for number in [*idle, *(n for n, seen in self._seen.items() if _slow(seen, taken[n], now))]:
                self._cut(number, found)
            while len(self._seen) > MOST:
                self._cut(next((n for n in self._seen if not taken[n]), next(reversed(self._seen))), found)

    def close(self) -> None:
        """Cut off all: the SDK waits for ever, at its end, for a client that does not read."""
        for _, handle in self._connections():
            with handle, contextlib.suppress(OSError):
                handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                handle.shutdown(socket.SHUT_RDWR)

    def _cut(self, number: int, found: dict[int, socket.socket]) -> None:
        if self._seen.pop(number, None) is None:
            return
        self.cut += 1
        self._ended.add(number)
        with contextlib.suppress(OSError):
            found[number].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            found[number].shutdown(socket.SHUT_RDWR)

    def _connections(self) -> list[tuple[int, socket.socket]]:
        """Handles of our own: a number of the SDK's may be that of another file by the next line."""
        found = []
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    copy = os.dup(int(name))
                    try:
                        handle = socket.socket(fileno=copy)
                    except OSError:
                        os.close(copy)
                        continue
                    if self._is_client(handle):
                        found.append((os.fstat(copy).st_ino, handle))
                    else:
                        handle.close()
        return found

    def _is_client(self, handle: socket.socket) -> bool:
        try:
            handle.getpeername()  # the one that listens has none
            return handle.family == socket.AF_INET and int(handle.getsockname()[1]) == self._port
        except OSError:
            return False


def _taken(handle: socket.socket) -> int:
    """Bytes that the client's host has received."""
    try:
        info = handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return int(struct.unpack_from("=Q", info, _BYTES_ACKED)[0])
    except (OSError, struct.error):
        return 0


def _waiting(handle: socket.socket) -> int:
    """Bytes in the kernel that the client has not taken (SIOCOUTQ)."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(handle, termios.TIOCOUTQ, b"\0" * 4))[0])
    except OSError:
        return 0


def _slow(seen: _Seen, taken: int, now: float) -> bool:
    """Something has waited for it all the time, and it has taken next to nothing of it."""
    if not seen.behind or now - seen.behind < SLOW_S:
        return False
    slow = taken - seen.taken < LEAST_PER_S * (now - seen.behind)
    seen.behind, seen.taken = now, taken
    return slow
