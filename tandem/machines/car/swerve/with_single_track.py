"""The step of the single-track car with an obstacle on its road."""

from sim_service.contract.machine import STEP, Tables
from sync.compile.jit import kernel
from tandem.machines.car.single_track.dynamics import step as step_car
from tandem.machines.car.swerve.description import CAR_OUTPUTS, CAR_PARAMETERS, CAR_STATES, CAR_WORK, HEAD
from tandem.machines.car.swerve.obstacle import OWN_OUTPUTS, follow_car
from tandem.multibody.natural.views import view


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    ints = tables.ints
    begin = ints[CAR_OUTPUTS] + OWN_OUTPUTS
    own = view(work, begin, begin + ints[CAR_WORK])
    of_car = Tables(view(ints, HEAD, len(ints)), tables.floats)
    step_car(view(state, 0, ints[CAR_STATES]), inputs, view(params, 0, ints[CAR_PARAMETERS]), of_car, own, h)
    follow_car(state, params, ints, work, h)
