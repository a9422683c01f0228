"""A mechanism file as a machine of the loop, in relative coordinates (docs/mechanisms.md).

    machine = "mechanism"
    mechanism = "../mechanisms/robot_6r.toml"      from this file's folder
    control = "computed_torque"                    its drives are motors, see control.py; without: they move as they say
    [parameters] ...                               of the control

Inputs are those of the mechanism's file that come from outside, outputs its nodes, with their rates, and what its
drives take.
"""

from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from sync.config.toml import read_toml
from sync.errors import ConfigError

MECHANISM = "mechanism.toml"  # its name in a record


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    from tandem.machines.mechanism.build import build

    return build(data, sources.name(), sources.name(MECHANISM), sources.toml(MECHANISM), changed)


def files(data: dict[str, Any], file: Any, user_files: Any) -> dict[str, tuple[bytes, str]]:
    for key, path in user_files.items():
        raise ConfigError(f"sim.files.{key} = {str(path)!r}: a mechanism reads no further files")
    named = data.get("mechanism")
    if not isinstance(named, str):
        raise ConfigError(f"{file}: mechanism = {named!r}: must be the path of a mechanism's file")
    path = Path(file).parent / named
    read_toml(path)  # what is no file is reported as such
    return {MECHANISM: (path.read_bytes(), str(path))}
