"""Single-track car: a rigid body in the plane on a front and a rear axle, from standstill to motorway speed.

The physics is told in `dynamics`, the figures in `description`.
"""

from typing import Any

import numpy as np

from sim_service.models.description import Model
from sim_service.models.parameters import checked
from sim_service.models.single_track.description import OUTPUTS, PARAMETERS, STATES
from sim_service.models.single_track.dynamics import initial, step
from sim_service.models.vehicle import VEHICLE_INPUTS
from sync.config import Section, check
from sync.errors import ConfigError

MODEL = Model(
    name="single_track",
    inputs=VEHICLE_INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    work_size=len(OUTPUTS),
    step=step,
    initial=initial,
)


class VehicleFile(Section):
    model: str
    parameters: dict[str, float]


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Model, np.ndarray]:
    path = sources.name("vehicle.toml")
    file = check(VehicleFile, data, path)
    if sources.road:
        raise ConfigError(f"sim.road: {MODEL.name} knows flat ground only; take the buggy, or no road")
    return MODEL, checked(MODEL.name, PARAMETERS, file.parameters, changed, path)
