"""An FMU of somebody else as a machine: FMI 3.0 or 2.0, Co-Simulation, stepped by the loop in its own process.

    machine = "fmu"
    file = "battery.fmu"       # beside this file
    [inputs]                   # optional: our names for its variables; without them every scalar one has its own
    current = "Pack.I"
    [outputs]
    voltage = "Pack.U[1]"
    [parameters]               # optional: where they differ from the FMU's own
    capacity = 3600.0

archive.py    the file, unpacked where compiled code is kept, once the user has consented to run it
(sync/files/consent.py);
              what is no FMU, or a hostile one, is refused
variables.py  modelDescription.xml: what there is to give, to read, to set
library.py    its code for this host, loaded, and one instance of it
step.py       the step, restart and return to an earlier state: kernels that call it by addresses

Its code runs inside the simulator: nothing holds it to its time or its memory. A record keeps the description and a
hash, never the code: opening a record of others runs nothing of theirs. It is replayed only where the user has
consented to that very FMU, which was unpacked then.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from sync.config.toml import check
from sync.errors import ConfigError
from tandem.machines.fmu.settings import HASH, XML, FmuFile


def files(data: dict[str, Any], file: Path, user_files: Mapping[str, Path]) -> dict[str, tuple[bytes, str]]:
    from tandem.machines.fmu.archive import unpack

    for key, path in user_files.items():
        if key != "fmu":
            raise ConfigError(f"sim.files.{key} = {str(path)!r}: the machine fmu reads no such file; it has an fmu")
    settings = check(FmuFile, data, str(file))
    archive = user_files.get("fmu") or file.parent / settings.file
    unpacked = unpack(archive)
    return {
        XML: (unpacked.xml, f"{archive} (modelDescription.xml)"),
        HASH: (unpacked.hash.encode(), str(archive)),
    }


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    from tandem.machines.fmu.build import build

    where = sources.name()
    settings = check(FmuFile, data, where)
    for key in (XML, HASH):
        if key not in sources.files:
            raise ConfigError(f"{sources.name(key)}: is missing")
    return build(settings, sources, changed)
