"""Work that ends its process. A module of its own: every new process imports it, and it needs next to nothing."""

import os


def rows_of(chunk: list[int], ends: dict[int, int], log: str) -> tuple[list[tuple[int, str]], float]:
    """What a worker does here: some items end its process."""
    for item in chunk:
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(f"{item}\n")
        if item in ends:
            os.kill(os.getpid(), ends[item])
    return [(item, "ok") for item in chunk], 1e-3 * len(chunk)
