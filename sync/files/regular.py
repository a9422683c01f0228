"""Opens files that a user named, for reading: regular files and nothing else.

A pipe that nobody writes to would block its reader for ever, and a device such as /dev/zero has no end. Both are
refused before they are opened, by an OSError that says so.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def open_regular(path: Path) -> BinaryIO:
    """The file, to be read; raises OSError, whose `strerror` says what the path is instead."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"is {_KINDS.get(stat.S_IFMT(mode), 'no file')}, a file is expected", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe by now does not block
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no file any more", str(path))
    os.set_blocking(descriptor, True)
    return open(descriptor, "rb")


def read_regular(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()
