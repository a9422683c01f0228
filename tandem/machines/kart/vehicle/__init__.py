"""A kart on its four wheels, as a multibody system: a frame that twists, inclined kingpins, one axle (docs/kart.md).

`machine = "kart_vehicle"` in a file that names its tyres and gives its parameters; `sim.files.road` is its ground.
The kart of `tandem.machines.kart` is held on a belt.
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
    from tandem.machines.kart.vehicle.build import build

    return build(data, sources, changed)
