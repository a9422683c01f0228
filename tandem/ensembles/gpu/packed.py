"""Between processes that compile a program and those that asked for it: bytes that are data and nothing else."""

from typing import Any

import msgpack
import numpy as np

from sim_service.registry import MachineFiles

_ARRAYS = ("ints", "floats")


def pack_texts(made: dict[str, Any]) -> bytes:
    """What `compile.texts` returns."""
    arrays = {name: [made[name].dtype.str, made[name].tobytes()] for name in _ARRAYS}
    packed: bytes = msgpack.packb({**made, **arrays})
    return packed


def unpack_texts(data: bytes) -> dict[str, Any]:
    made: dict[str, Any] = msgpack.unpackb(data)
    return {**made, **{name: np.frombuffer(made[name][1], made[name][0]) for name in _ARRAYS}}


def pack_machine(sources: MachineFiles, changed: dict[str, float]) -> bytes:
    packed: bytes = msgpack.packb([sources.files, sources.names, changed])
    return packed


def unpack_machine(data: bytes) -> tuple[MachineFiles, dict[str, float]]:
    files, names, changed = msgpack.unpackb(data)
    return MachineFiles(files, names), changed
