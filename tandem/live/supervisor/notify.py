"""Tells the service manager, if there is one, that a run is under way and that its supervisor is alive.

systemd listens on a datagram socket that it names in the environment (sd_notify); without one this does nothing.
"""

import contextlib
import os
import socket
import time

_EVERY_S = 1.0
_last = [0.0]


def notify(text: str) -> None:
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place:
        return
    if place.startswith("@"):
        place = "\0" + place[1:]  # an abstract one
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        to.setblocking(False)
        to.sendto(text.encode(), place)


def alive() -> None:
    """Report that the supervisor is alive, often enough for a watchdog of some seconds."""
    now = time.monotonic()
    if now - _last[0] >= _EVERY_S:
        _last[0] = now
        notify("WATCHDOG=1")
