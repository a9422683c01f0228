"""Single-track car: a rigid body in the plane on a front and a rear axle, from standstill to motorway speed.

The physics is told in `dynamics`, the figures in `description`.
"""

from functools import partial

from sim_service.models.description import Model
from sim_service.models.parameters import make_plain
from sim_service.models.single_track.description import OUTPUTS, PARAMETERS, STATES
from sim_service.models.single_track.dynamics import initial, step
from sim_service.models.vehicle import VEHICLE_INPUTS

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

make = partial(make_plain, MODEL)
