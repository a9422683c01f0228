"""What an FMU is made of: a machine as the library loads it, or the file of a mechanism."""

from collections.abc import Mapping
from pathlib import Path

from sim_service.registry import is_machine
from sync.config.toml import read_toml
from sync.errors import ConfigError
from tandem.fmu.build import Exchange
from tandem.offline.model import Model, found_file, load_machine

STEP_S = 0.005


def load_source(machine: str, changed: Mapping[str, float]) -> tuple[Model, Exchange | None, float]:
    """With what it is as a differential equation, where its step does not tell, and its usual step in seconds."""
    machine_path = Path(machine)
    if is_machine(machine) or machine_path.suffix == ".mcap" or machine_path.is_dir():
        return load_machine(machine, changed), None, STEP_S
    path = found_file(machine_path)
    data = read_toml(path)
    if "machine" in data or "points" not in data:
        return load_machine(machine, changed), None, STEP_S
    if changed:
        name, value = next(iter(changed.items()))
        raise ConfigError(f"--set {name}={value:g}: {path} is a mechanism and has no parameters; change its file")
    from tandem.fmu.mechanism import mechanism_model  # compiled code that only mechanisms need

    return mechanism_model(path)
