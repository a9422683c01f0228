"""Single-track car: a rigid body in the plane on a front and a rear axle, from standstill to motorway speed.

The physics is in `dynamics`, the figures are in `description`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from sim_service.machines.car.display import car_display
from sim_service.machines.car.vehicle import VEHICLE_INPUTS
from sim_service.machines.contract import Machine
from sim_service.machines.parameters import make_plain
from sim_service.machines.single_track.description import OUTPUTS, PARAMETERS, STATES
from sim_service.machines.single_track.dynamics import initial, step
from sim_service.machines.single_track.scene import frames, scene

MACHINE = Machine(
    name="single_track",
    inputs=VEHICLE_INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    efforts=("force_y_front",),
    display=car_display(OUTPUTS),
    frames=frames,
    tangent="sim_service.machines.single_track.tangent",
)


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    machine, params = make_plain(MACHINE, data, sources, changed)
    return replace(machine, scene=scene(params)), params
