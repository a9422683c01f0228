"""How much a file may become when it is decoded.

A file from another source may be small and still fill the memory: it is compressed, or it states how many rows it has.
A reader therefore takes what it is about to decode from a `Budget`, before it decodes it, and decodes no more than it
took, because sizes that a file states may be wrong. The budget grows with the file: 32 times its size, and 16 MiB,
which is ten times what records, exports and measurements need. The cost of small inputs beyond their bytes (objects,
rows of a table) is taken from the same budget.

`tandem --decode-limit-mb N COMMAND ...` sets another limit, for this command and the processes it starts.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sync.errors import ConfigError, TandemError

ENVIRONMENT = "TANDEM_DECODE_LIMIT_MB"
OPTION = "--decode-limit-mb"
_LEAST = 16 << 20
_TIMES_ITS_SIZE = 32
_LIBRARIES = 48 << 20  # address space for what libraries allocate besides the data


class DecodedTooLarge(TandemError):
    """A file would take more memory than its size allows."""

    code = 2


def decode_limit(size: int) -> int:
    """Bytes that a file of this size may become."""
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return _LEAST + _TIMES_ITS_SIZE * size
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) <= 1 << 24:
        raise ConfigError(f"{ENVIRONMENT} = {text[:40]!r}: must be a number of megabytes from 1 to {1 << 24}")
    return int(text) * 10**6


class Budget:
    """What may still be decoded of one file."""

    def __init__(self, path: Path | str, size: int):
        self.path, self.limit = path, decode_limit(size)
        self._taken = 0

    def take(self, count: int, what: str) -> None:
        """Take `count` bytes from the budget before they are decoded; they stay until the file is closed."""
        self._taken += max(count, 0)
        if self._taken > self.limit:
            raise self.refusal(what, self._taken)

    def need(self, count: int, what: str) -> None:
        """Check the budget for bytes that are freed again at once."""
        if count > self.limit:
            raise self.refusal(what, count)

    def refusal(self, what: str, count: int | None = None) -> DecodedTooLarge:
        size = f"{count / 1e6:.0f} MB" if count is not None else "more"
        return DecodedTooLarge(
            f"{self.path}: {what} would take {size} in memory; at most {self.limit / 1e6:.0f} MB are decoded of a file"
            f" of this size; if you know where it comes from: tandem {OPTION} MEGABYTES ..."
        )

    @contextmanager
    def enforced(self, what: str) -> Iterator[None]:
        """Bound the address space while a library decodes: it gets no more than is left, whatever the file requests.

        For commands that do nothing else meanwhile: the limit is that of the whole process.
        """
        before = resource.getrlimit(resource.RLIMIT_AS)
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = now + max(self.limit - self._taken, 0) + _LIBRARIES
        if before[0] != resource.RLIM_INFINITY:
            most = min(most, before[0])
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
        try:
            yield
        except MemoryError:
            raise self.refusal(what) from None
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
