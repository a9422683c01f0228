"""The narrow vehicle that leans, as a multibody system on tyres: frame, body, suspensions, wheels (docs/tilting.md).

`machine = "tilting_vehicle"` in a file that names its tyres and gives its parameters; `sim.files.road` is its ground.
The pendulum of `tandem.machines.tilting` is what an observer on board believes of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine

__all__ = ["files", "make"]


def files(data: dict[str, Any], file: Path, user_files: Mapping[str, Path]) -> dict[str, tuple[bytes, str]]:
    from tandem.machines.car.files import car_files

    return car_files(data, file, user_files)


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    from tandem.machines.tilting.vehicle.build import build

    return build(data, sources, changed)
