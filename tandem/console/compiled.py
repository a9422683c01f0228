"""The kernels of a machine, compiled on all cores and with progress before it is made; those of no other machine."""

from pathlib import Path
from typing import TYPE_CHECKING

from sync.compile import build
from sync.config.toml import read_toml

if TYPE_CHECKING:
    from sim_service.registry import MachineFiles
    from sync.config.config import Config

_INSIDE = "observed"  # the key of a machine's file that names the machine inside it


def machine_name(config: "Config", folder: Path) -> str:
    """What a configuration's machine is called, or its file says; nothing where that does not say."""
    return str(machine_names(config.sim.machine, folder)[0] or "")


def machine_names(machine: str, folder: Path = Path()) -> list[object]:
    """A machine's name, or what its file says, then that of the machine inside it."""
    if not machine.endswith(".toml"):
        return [machine]
    data = read_toml(folder / machine)
    inside = data.get(_INSIDE)
    return [data.get("machine"), *(machine_names(inside, (folder / machine).parent) if isinstance(inside, str) else ())]


def recorded_names(sources: "MachineFiles") -> list[object]:
    """The same of what a record has."""
    from sim_service.registry import FILE

    own = sources.toml()
    inside = (sources.toml(key).get("machine") for key in sources.files if key.endswith(":" + FILE))
    return [own.get("machine"), own.get(_INSIDE), *inside]


def machine_modules(name: object, *inside: object) -> list[str]:
    """What a machine of ours is made by, and how those inside it are observed; nothing of one that is not ours."""
    from sim_service.registry import MACHINES, OBSERVED

    if not isinstance(name, str) or name not in MACHINES:
        return []
    return [MACHINES[name], *(OBSERVED[each] for each in inside if isinstance(each, str) and each in OBSERVED)]


def compile_machine(*names: object) -> None:
    """A machine of another package is compiled when it is imported, which also refuses an unknown one."""
    if modules := machine_modules(*names):
        build.ensure_for(*modules)
