"""Between processes that compile a program and those that asked for it: bytes that are data and nothing else."""

import msgpack

from sim_service.registry import MachineFiles


def pack_machine(sources: MachineFiles, changed: dict[str, float]) -> bytes:
    packed: bytes = msgpack.packb([sources.files, sources.names, changed])
    return packed


def unpack_machine(data: bytes) -> tuple[MachineFiles, dict[str, float]]:
    files, names, changed = msgpack.unpackb(data)
    return MachineFiles(files, names), changed
