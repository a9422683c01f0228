"""Single-track car: a rigid body in the plane on a front and a rear axle, from standstill to motorway speed.

The physics is in `dynamics`, the figures are in `description`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from sim_service.contract.machine import Efforts, Machine, Moving, Shown, Tangent
from sim_service.contract.parameters import checked, make_plain
from tandem.machines.car.display import car_display
from tandem.machines.car.single_track.description import INPUTS, OUTPUTS, PARAMETERS, STATES
from tandem.machines.car.single_track.dynamics import initial, step
from tandem.machines.car.single_track.scene import frames, scene
from tandem.machines.car.single_track.start import START_QUANTITIES, begin

MACHINE = Machine(
    name="single_track",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    capabilities=(
        Shown(display=car_display(OUTPUTS), frames=frames),
        Efforts(("force_y_front",)),
        Tangent("tandem.machines.car.single_track.tangent"),
        Moving(START_QUANTITIES, begin),
    ),
)


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    if "powertrain" not in data:
        machine, params = make_plain(MACHINE, data, sources, changed)
        return machine.having(replace(machine.shown, scene=scene(params))), params
    from tandem.machines.car.powertrain.make import powered, split

    plain = {key: value for key, value in data.items() if key != "powertrain"}
    of_car, own = split(changed)
    car, params = make(plain, sources, of_car)
    whole = powered(car, data["powertrain"], sources.name())
    added = checked(whole.name, whole.parameters[len(car.parameters) :], {}, own, sources.name())
    return whole, np.concatenate([params, added])
