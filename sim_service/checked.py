"""The machine of a configuration, after every check of the two against each other."""

from pathlib import Path

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.contract.stability import stability_monitor
from sim_service.inputs.table import check_rows
from sim_service.registry import check_step, configured_machine
from sim_service.rehearsal import refuse as refuse_rehearsal
from sim_service.step_record import output_layout
from sync.config.config import Config
from sync.errors import ConfigError, near_names


def effort_fault(config: Config, machine: Machine, file: str) -> str:
    """What is wrong with the channels of efforts; "" if nothing. Only outputs that the machine declares as efforts may
    go back to a device, but to one that takes any, for a trial."""
    for key, effort in config.efforts.values():
        if effort.get("channel") not in (None, *machine.efforts):
            units = {q.name: q.unit for q in machine.outputs}
            there = ", ".join(f"{name} ({units[name]})" for name in machine.efforts)
            there = there or f"none; its MACHINE declares them by capabilities=(Efforts(({effort['channel']!r},)),)"
            return f"{file}: {key}.channel = {effort['channel']!r}: efforts of {machine.name}: {there}"
    return ""


def check_effort_channels(config: Config, machine: Machine, file: str) -> None:
    """Raises ConfigError unless efforts that go back to a device, and the displacements of its port, are channels."""
    there = output_layout(machine).names
    for key, effort in config.efforts.values():
        for part in ("channel", "displacement"):
            name = effort.get(part)
            if isinstance(name, str) and name and name not in there:
                own = [q.name for q in (*machine.inputs, *machine.outputs)]
                near = near_names(name, own, 1)
                meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(own)}"
                raise ConfigError(f"{file}: {key}.{part} = {name!r}: is no channel of {machine.name}; {meant}")


def checked_machine(config: Config, file: Path) -> tuple[Machine, np.ndarray]:
    """The machine and its parameters; raises ConfigError."""
    model, params = configured_machine(config, file.parent)
    check_rows(config.inputs, config.daq.layout, model.inputs, str(file))
    check_effort_channels(config, model, str(file))
    check_step(config, model, str(file))
    refuse_rehearsal(config, model, str(file))
    if config.look_ahead.enabled:
        stability_monitor(model, params, str(file))
    return model, params
