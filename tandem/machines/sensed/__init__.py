"""A machine with its virtual sensors as one machine: the "real" one of a twin, whose readings a device takes.

Its file names what is measured and its sensors as a twin experiment has them (docs/observers.md):

    machine = "sensed"
    observed = "../some/machine.toml"      a machine's file, from this one's folder, or one that needs no file
    top = { ... }                          settings in front of that file, such as formulation
    step_ms = 5.0                          of the loop it will run in
    seed = 0                               of noise, offsets and mounted axes
    [sensors.<name>] ...

Inputs are those of the machine. Outputs are those of the machine, then what every sensor last delivered
(`reading_imu_rate_x`) and how old that is at the beginning of the step (`age_imu`, s; NEVER before the first one): with
noise, offset, quantum and range, at its rate, as late as it is, and with its outages.
"""

from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from tandem.machines.observer.machine import files

__all__ = ["files", "make"]


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    from tandem.machines.sensed.build import build

    return build(data, sources, changed)
