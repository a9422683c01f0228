"""The kernels of a machine, compiled on all cores and with progress before it is made; those of no other machine."""

from pathlib import Path
from typing import TYPE_CHECKING

from sync.compile import build, dependencies
from sync.config.toml import read_toml

if TYPE_CHECKING:
    from sync.config.config import Config

_OBSERVING = ("observer", "sensed")


def machine_name(config: "Config", folder: Path) -> str:
    """What a configuration's machine is called, or its file says; nothing where that does not say."""
    machine = config.sim.machine
    return str(read_toml(folder / machine).get("machine", "")) if machine.endswith(".toml") else machine


def machine_modules(name: object) -> list[str]:
    """What a machine of ours is made by; nothing of one that is not."""
    from sim_service.registry import MACHINES

    if not isinstance(name, str) or name not in MACHINES:
        return []
    if name not in _OBSERVING:
        return [MACHINES[name]]
    # what it observes is found by the name in its file
    observed = (dependencies.ROOT / "tandem" / "machines").rglob("observed.py")
    return [MACHINES[name], *(dependencies.module_name(file) for file in sorted(observed))]


def compile_machine(name: object) -> None:
    """One of another package is compiled when it is imported; one that is none is refused there."""
    if modules := machine_modules(name):
        build.ensure_for(*modules)
