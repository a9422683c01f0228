"""Code that a step calls by addresses in its tables: it goes into the FMU too, and the tables get its addresses there.

Generated code is taken from the cache as it was compiled for a run, for this very processor and its features: its bits
are a run's, and other processors are not served. On x86 it is compiled to stand anywhere but in a library (see
`_relocation` in tandem/multibody/code/llvm.py); such machines are refused by name there.
"""

import platform

from sim_service.contract.machine import Machine
from sync.errors import ConfigError
from tandem.fmu.object_code import kernel_object
from tandem.fmu.platforms import HOST, Platform
from tandem.multibody.code import store
from tandem.multibody.code.code_parts import CodeParts
from tandem.multibody.code.llvm import unpacked

KERNEL = "tandem_code_{}"


def parts_of(machine: Machine) -> CodeParts | None:
    """None for a machine without addresses; raises ConfigError where they cannot be served."""
    if not machine.placed.addresses:
        return None
    parts = machine.of(CodeParts)
    x86 = platform.machine() in ("x86_64", "AMD64")
    if parts is None or x86 or len(machine.placed.addresses) != len(parts.names) + len(parts.kernels):
        where = " on x86" if parts is not None and x86 else ""
        raise ConfigError(
            f"{machine.name}: its step calls code that was generated in this process, by its address; no FMU can be"
            f' made of it{where} yet; where its file has formulation = "relative", "natural" would do'
        )
    return parts


def symbols(parts: CodeParts) -> list[str]:
    """In the order of the addresses."""
    return [*parts.names, *(KERNEL.format(k) for k in range(len(parts.kernels)))]


def objects(machine: Machine, parts: CodeParts, wanted: Platform) -> list[bytes]:
    if wanted.name != HOST:
        raise ConfigError(f"--platform {wanted.name}: {machine.name} has generated code for {HOST} alone")
    key = parts.generated.key
    data = store.read(store.folder() / f"{key}.o", key)
    if data is None:
        raise ConfigError(f"{machine.name}: its generated code is not in the cache any more; load it again")
    # an object for every function, in their order; those that no step calls stay behind
    named = zip(parts.generated.address, unpacked(data), strict=True)
    found = [code for name, code in named if name in parts.names]
    for k, (kernel, signature) in enumerate(parts.kernels):
        found.append(kernel_object(machine, kernel, signature, KERNEL.format(k), wanted.triple))
    return found
