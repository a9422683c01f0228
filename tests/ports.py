"""A port that nobody else takes: below those that the kernel hands out by itself, and each one once in a whole round.

A port that was bound to 0 and let go of is anybody's: the next connection of any process may get it.
"""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

_FIRST = 12_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """For every test of every worker another one."""
    last = min(int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 32_768, 32_768)
    with (Path(tempfile.gettempdir()) / f"tandem-tests-ports-{os.getuid()}").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        port = int(file.read() or _FIRST)
        while True:
            port = port + 1 if _FIRST <= port + 1 < last else _FIRST
            if _is_free(port):
                file.truncate(0)
                file.write(str(port))
                return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
