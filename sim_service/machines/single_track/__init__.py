"""Single-track car: a rigid body in the plane on a front and a rear axle, from standstill to motorway speed.

The physics is told in `dynamics`, the figures in `description`.
"""

from sim_service.machines.car.vehicle import VEHICLE_INPUTS
from sim_service.machines.contract import Machine
from sim_service.machines.single_track.description import OUTPUTS, PARAMETERS, STATES
from sim_service.machines.single_track.dynamics import initial, step

MACHINE = Machine(
    name="single_track",
    inputs=VEHICLE_INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
)
