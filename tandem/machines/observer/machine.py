"""A machine with its observer as one machine: it runs in any loop, is recorded, forked and replayed to the bit.

Its file names what is observed, sensors and filter as a twin experiment has them (docs/observers.md):

    machine = "observer"
    observed = "tilting"          a machine that needs no file, or a machine's file, from this one's folder
    top = { ... }                 settings in front of that file, such as formulation
    step_ms = 5.0                 of the loop it will run in
    [sensors.<name>] ...          [filter] ...

Inputs are those of the machine, one for each reading (`measured_imu_rate_x`), and one for the age of each sensor's
readings, in seconds (`age_imu`). All of these are optional: what no row of [inputs] gives is not measured. A reading is
used once, at the instant that its age says; without an age every step's value is a new reading of that step.

Outputs are those of the machine as estimated, then estimates and standard deviations, and how many readings were used,
gated, late.
"""

from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from sync.errors import ConfigError
from tandem.machines.observer.layout import OBSERVED


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    from tandem.machines.observer.build import build

    return build(data, sources, changed)


def files(data: dict[str, Any], file: Any, user_files: Any) -> dict[str, tuple[bytes, str]]:
    """Those of the machine that is observed."""
    observed = data.get("observed")
    if not isinstance(observed, str) or not observed.endswith(".toml"):
        for key, path in user_files.items():
            raise ConfigError(f"sim.files.{key} = {str(path)!r}: {observed} reads no further files")
        return {}
    from sim_service.registry import gather

    return gather(Path(file).parent / observed, user_files).as_inside(OBSERVED)
