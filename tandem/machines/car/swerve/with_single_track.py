"""The step of the single-track car with an obstacle on its road."""

from sim_service.composite import inside
from sim_service.contract.machine import STEP
from sync.compile.jit import kernel
from tandem.machines.car.single_track.dynamics import step as step_car
from tandem.machines.car.swerve.obstacle import follow_car


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    car, values, of_car, own = inside(state, params, tables, work)
    step_car(car, inputs, values, of_car, own, h)
    follow_car(state, params, tables, own, work, h)
