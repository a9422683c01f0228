"""The kernels of a machine, compiled on all cores and with progress before it is made; those of no other machine."""

from pathlib import Path
from typing import TYPE_CHECKING

from sync import build
from sync.toml import read_toml

if TYPE_CHECKING:
    from sync.config import Config


def machine_name(config: "Config", folder: Path) -> str:
    """What a configuration's machine is called, or its file says; nothing where that does not say."""
    machine = config.sim.machine
    return str(read_toml(folder / machine).get("machine", "")) if machine.endswith(".toml") else machine


def compile_machine(name: object) -> None:
    """One of another package is compiled when it is imported; one that is none is refused there."""
    from sim_service.machines import MACHINES

    if isinstance(name, str) and name in MACHINES:
        build.ensure_for(MACHINES[name])
