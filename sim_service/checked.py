"""The machine of a configuration, with everything in both that could be wrong tried out."""

from pathlib import Path

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.contract.stability import stability_monitor
from sim_service.inputs.table import check_rows
from sim_service.registry import check_step, configured_machine
from sim_service.rehearsal import refuse as refuse_rehearsal
from sync.config.config import Config


def effort_fault(config: Config, machine: Machine, file: str) -> str:
    """Only what a machine declares as an effort goes back to a device, but to one that takes any to try it."""
    for key, effort in config.efforts.values():
        if effort.get("channel") not in (None, *machine.efforts):
            units = {q.name: q.unit for q in machine.outputs}
            there = ", ".join(f"{name} ({units[name]})" for name in machine.efforts) or "none"
            return f"{file}: {key}.channel = {effort['channel']!r}: efforts of {machine.name}: {there}"
    return ""


def checked_machine(config: Config, file: Path) -> tuple[Machine, np.ndarray]:
    """It and its parameters; raises ConfigError."""
    model, params = configured_machine(config, file.parent)
    check_rows(config.inputs, config.daq.layout, model.inputs, str(file))
    check_step(config, model, str(file))
    refuse_rehearsal(config, model, str(file))
    if config.look_ahead.enabled:
        stability_monitor(model, params, str(file))
    return model, params
