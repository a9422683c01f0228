"""Code that a step calls by addresses in its tables: it goes into the FMU too, and the tables get its addresses there.

Generated code is compiled for this very processor and its features, as for a run: its bits are a run's, and other
processors are not served.
"""

from sim_service.contract.machine import Machine
from sync.errors import ConfigError
from tandem.fmu.object_code import kernel_object
from tandem.fmu.platforms import HOST, Platform
from tandem.multibody.code.code_parts import CodeParts
from tandem.multibody.code.llvm import library_objects

KERNEL = "tandem_code_{}"


def parts_of(machine: Machine) -> CodeParts | None:
    """None for a machine without addresses; raises ConfigError where they cannot be served."""
    if not machine.placed.addresses:
        return None
    parts = machine.of(CodeParts)
    if parts is None or len(machine.placed.addresses) != len(parts.names) + len(parts.kernels):
        raise ConfigError(
            f"{machine.name}: its step calls code that was generated in this process, by its address; no FMU can be"
            " made of it yet"
        )
    return parts


def symbols(parts: CodeParts) -> list[str]:
    """In the order of the addresses."""
    return [*parts.names, *(KERNEL.format(k) for k in range(len(parts.kernels)))]


def objects(machine: Machine, parts: CodeParts, wanted: Platform) -> list[bytes]:
    if wanted.name != HOST:
        raise ConfigError(f"--platform {wanted.name}: {machine.name} has generated code for {HOST} alone")
    kernels = enumerate(parts.kernels)
    return [
        *library_objects(parts.generated, parts.write, parts.names),
        *(kernel_object(machine, *kernel, KERNEL.format(k), wanted.triple) for k, kernel in kernels),
    ]
