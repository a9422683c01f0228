"""A machine's program for a GPU: `python -m tandem.ensembles.gpu.compile MACHINE.toml PROGRAM.ptx`.

Takes a process of its own (device_text.py) and, for a multibody machine, minutes. No GPU is needed.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from numba import types

from sim_service.contract.machine import DeviceCode, Machine
from sim_service.registry import load_machine, make_machine
from sync.compile.jit import inner
from sync.files.private import rewrite
from tandem.ensembles.gpu.entry import ARGUMENTS, entry
from tandem.ensembles.gpu.packed import unpack_machine
from tandem.multibody.code import device_text, ptx
from tandem.multibody.code.source import DeviceSource


def sizes_of(machine: Machine) -> dict[str, int]:
    return {
        "states": len(machine.states), "inputs": len(machine.inputs), "params": len(machine.parameters),
        "outputs": len(machine.outputs), "work": machine.work_size, "ints": machine.tables.ints.size,
        "floats": machine.tables.floats.size,
    }  # fmt: skip


def source_of(machine: Machine) -> DeviceSource:
    """What the machine gives for a GPU; its own step where that is all."""
    if (own := machine.of(DeviceCode)) is not None:
        found = own.make()
        assert isinstance(found, DeviceSource)
        return found
    step = machine.step

    @inner
    def advance(state, inputs, params, tables, work, h, shown):
        step(state, inputs, params, tables, work, h)
        return True

    return DeviceSource(advance, machine.tables.ints, machine.tables.floats)


def texts(machine: Machine) -> dict[str, Any]:
    """Arguments of `ptx.ptx`. No compiled function of this process may be called afterwards."""
    source, sizes = source_of(machine), sizes_of(machine)
    function = entry(source.advance, sizes)
    with source.meanwhile(), device_text.unoptimised([function], source.names):
        text, name = device_text.text_of(function, types.void(*ARGUMENTS))
    return {
        "text": text, "name": name, "generated": source.generated(), "ints": source.ints, "floats": source.floats,
        "sizes": sizes, "inline": source.inline,
        "registers": source.registers, "together": source.together,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", type=Path, help="file of a machine; or .packed: its files and parameters")
    parser.add_argument("program", type=Path)
    parser.add_argument("--no-contraction", action="store_true", help="fuse no multiplication with an addition")
    arguments = parser.parse_args()
    if arguments.machine.suffix == ".packed":
        machine, _ = make_machine(*unpack_machine(arguments.machine.read_bytes()))
    else:
        machine, _ = load_machine(arguments.machine)
    parts = texts(machine)
    rewrite(arguments.program, ptx.ptx(**parts, contract=not arguments.no_contraction).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
